#!/usr/bin/env python3
"""Random cases of every kind against the optimizer, the runtime and the command; all that is needed is the package onnx-saturate (and onnxruntime).

usage: python bench/fuzz [--hours H | --cases N] [--only PARTS] [--seed S] [--jobs N] [--save FOLDER] [--json FILE]
       python bench/fuzz --merge A.json B.json ... [--json FILE]
       python bench/fuzz --only PART --case SEED [--save FOLDER]      one case again

Parts, with their share of the hours:
  corpus     graphs in which something was found once (tests/corpus)
  graphs     random graphs, half of them with patterns that rules look for, through the optimizer: original and result in ONNX Runtime and here
  quantized  random quantized graphs through the exact rules: the same bits in ONNX Runtime
  integers   random integer operators and operators between quantizers, each as the other: a step apart at most in ONNX Runtime
  rules      one rule's pattern in a small random context, the same way
  odd        random graphs for every target with odd options, a third quantized or half, a third with control flow or functions: in ONNX Runtime
  models     random operators here, in ONNX Runtime and in the standard's evaluator
  runs       random graphs and operators run again and again on several threads
  files      changed model files given to the command
  spellings  blocks in drawn spellings: is each found?
Prints a line for each finding, which rules fired, and a table; the exit status is 1 where something was found.
"""
import argparse
import collections
import itertools
import json
import os
import pathlib
import shlex
import sys
import tempfile
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])
from fuzz import cases, firing, patterns, workers  # noqa: E402

SHARES = {"corpus": 0.01, "graphs": 0.25, "odd": 0.15, "quantized": 0.08, "integers": 0.05, "rules": 0.17, "models": 0.1, "runs": 0.08, "files": 0.07, "spellings": 0.05}
MODULES = {"graphs": "optimize", "rules": "optimize"}
OPTIMIZED = ("corpus", "graphs", "rules", "odd")
CASES_A_JOB = {"models": 50}
# Caught: verification found it, so that no such result was written; a rule is false all the same, or the drawn inputs are.
BAD = ("wrong", "caught", "crash", "slow", "error of the fuzzer", "lost")


def parse():
    def parts(text):
        chosen = text.split(",")
        if unknown := set(chosen) - set(SHARES):
            raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(SHARES)}")
        return chosen

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("--hours", type=float, help="for so long, shared out to the parts")
    parser.add_argument("--cases", type=int, help="so many cases of each part (500, where --hours isn't given)")
    parser.add_argument("--only", type=parts, default=list(SHARES), metavar="PARTS", help=",".join(SHARES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, metavar="SEED", help="this one case, as a finding names it")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes (one for each processor)")
    parser.add_argument("--command", default=f"{sys.executable} -m onnx_saturate", help="the command under test, for files and spellings")
    parser.add_argument("--many", metavar="PROGRAM", help="files: many_commands of a sanitized build, which is given the files instead of the command")
    parser.add_argument("--save", type=pathlib.Path, help="folder for the models and inputs in which something is wrong")
    parser.add_argument("--json", type=pathlib.Path, help="counts and findings, for --merge")
    parser.add_argument("--merge", type=pathlib.Path, nargs="+", metavar="FILE", help="add up what several runs wrote by --json")
    parser.add_argument("--patterns", type=pathlib.Path, metavar="FOLDER", help="graphs, rules, odd: where the patterns of rules are kept between runs of one build")
    parser.add_argument("--rare", type=pathlib.Path, metavar="FILE", help="graphs, rules: every other pattern is of a rule that rarely fired in what --json wrote here")
    parser.add_argument("--singles", action="store_true", help="spellings: each option of each choice, all others plain")
    parser.add_argument("--kinds", default="", help="spellings: only kinds of blocks that match this")
    parser.add_argument("--ops", type=lambda t: t.split(","), help="models: only these operators")
    parser.add_argument("--show", default="", help="models: print the cases whose sort of outcome contains this")
    return parser.parse_args()


class Results:
    """What a run found, by part, and how often rules fired."""

    def __init__(self):
        self.parts, self.rules = {}, {}

    def part(self, name):
        empty = {"cases": 0, "seconds": 0.0, "words": {}, "counted": {}, "findings": []}
        return self.parts.setdefault(name, empty)

    def add(self, name, seed, found):
        part = self.part(name)
        part["cases"] += 1
        part["words"][found["word"]] = part["words"].get(found["word"], 0) + 1
        for word, true in found.get("counted", {}).items():
            part["counted"][word] = part["counted"].get(word, 0) + bool(true)
        firing.add(self.rules, found.get("fired", {}))
        if is_finding(found):
            part["findings"].append({"seed": found.get("seed", seed), "label": found.get("label", ""), "why": f"{found['word']}: {found['why']}"})

    def merge(self, data):
        for name, other in data["parts"].items():
            part = self.part(name)
            for key in ("words", "counted"):
                part[key] = dict(collections.Counter(part[key]) + collections.Counter(other[key]))
            part["cases"] += other["cases"]
            part["seconds"] += other["seconds"]
            part["findings"] += other["findings"]
        firing.add(self.rules, data["rules"])

    def findings(self):
        return sum(len(p["findings"]) for p in self.parts.values())

    def print(self):
        if self.rules:
            print(firing.text(self.rules))
        print(f"{'what':10} {'cases':>8} {'seconds':>8} {'findings':>8}")
        for name, p in self.parts.items():
            print(f"{name:10} {p['cases']:8} {p['seconds']:8.0f} {len(p['findings']):8}   " + ", ".join(f"{n} {w}" for w, n in sorted(p["words"].items(), key=lambda x: -x[1])[:12]))
            if p["counted"]:
                print(" " * 11 + "of these with " + ", ".join(f"{w}: {100 * n / p['cases']:.0f} %" for w, n in sorted(p["counted"].items())))
        print(f"{'all':10} {sum(p['cases'] for p in self.parts.values()):8} {sum(p['seconds'] for p in self.parts.values()):8.0f} {self.findings():8}", flush=True)


def is_finding(found):
    return found["word"] in BAD


class Progress:
    """A line on a terminal."""

    def __init__(self, name):
        self.name, self.begun, self.last = name, time.monotonic(), 0

    def show(self, part):
        now = time.monotonic()
        if sys.stderr.isatty() and now - self.last > 0.5:
            self.last = now
            rate = part["cases"] / max(now - self.begun, 1e-9)
            print(f"\r{self.name}: {part['cases']} cases, {rate:.1f} a second, {len(part['findings'])} findings \033[K", end="", file=sys.stderr, flush=True)

    def clear(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def told(name, seed, found, save):
    """Prints a finding, keeps its model."""
    print(f"{name} {found.get('seed', seed)}: {found['word']}: {found['why']}" + (f" [{found['label']}]" if found.get("label") else ""), flush=True)
    if save and found.get("model") is not None:
        cases.keep(save, f"{name}-{found.get('seed', seed)}", found["model"], found.get("feed"))


def settings_of(name, args, folder):
    settings = {"part": name, "scratch": str(folder), "command": args.command, "many": args.many, "ops": args.ops, "show": args.show, "kinds": args.kinds, "singles": args.singles}
    if name in OPTIMIZED:
        settings |= {"patterns": str(args.patterns or folder), "effects": firing.effects(shlex.split(args.command)), "rare": firing.rare(json.loads(args.rare.read_text())["rules"]) if args.rare else []}
    return settings


def run_part(name, args, results, folder):
    settings, module, each = settings_of(name, args, folder), MODULES.get(name, name), CASES_A_JOB.get(name, 1)
    until = time.monotonic() + args.hours * 3600 * SHARES[name] / sum(SHARES[p] for p in args.only) if args.hours else None
    first = args.seed * 1_000_003
    wanted = None if args.hours else (args.cases or 500)
    if args.case is not None:
        first, wanted = args.case, 1
    jobs = itertools.count(first, each) if wanted is None else range(first, first + wanted, each)
    if args.singles and name == "spellings":
        from fuzz import spellings

        jobs = spellings.plans(args.kinds)
    if name == "corpus":
        from fuzz import corpus

        jobs = corpus.files()
    part, progress, begun = results.part(name), Progress(name), time.monotonic()
    for seed, outcomes in workers.run(module, settings, jobs, min(args.jobs, wanted or args.jobs), each, until):
        for found in outcomes:
            results.add(name, seed, found)
            if is_finding(found):
                progress.clear()
                told(name, seed, found, args.save)
            elif args.case is not None or found.get("text"):
                print(found.get("text") or found["word"])
        progress.show(part)
    progress.clear()
    part["seconds"] += time.monotonic() - begun


def main():
    args, results = parse(), Results()
    if args.merge:
        for path in args.merge:
            results.merge(json.loads(path.read_text()))
    else:
        with tempfile.TemporaryDirectory() as folder:
            if {"graphs", "rules", "odd"} & set(args.only):
                results.rules = {name: [0, 0, 0] for name in firing.names()}
                if not args.patterns or not args.patterns.is_dir():
                    patterns.write(args.patterns or folder, shlex.split(args.command))
            try:
                for name in args.only:
                    run_part(name, args, results, folder)
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
    results.print()
    if args.json:
        args.json.write_text(json.dumps({"parts": results.parts, "rules": results.rules}, indent=1))
    return 1 if results.findings() else 0


if __name__ == "__main__":
    sys.exit(main())
