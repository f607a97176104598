#!/usr/bin/env python3
"""Latency in ONNX Runtime of a model as it is and as optimizers write it, as users load it (ENABLE_ALL).

    python bench/speed/ort_latency.py FOLDER --binary build/release/tools/saturate [NAME ...] [--tools saturate,onnxslim,...] [--threads 1,2] [--rounds 30]
        [--floats FOLDER] [--clock wall|cpu] [--work FOLDER] [--json OUT.json] [--shuffle-seed 0] [--options "--cost nodes"] [--prepare [--jobs 2]] [--discard] [--budget S]

FOLDER is what bench/export/export_models.py wrote (NAME.EXPORTER.onnx, NAME.inputs.npz), or `bench/export/quantize_models.py make`; then --floats is what that was made of, and
an output is wrong where its error against the float model is larger than the original's by more than 0.1 dB. Tools: saturate, onnxslim, onnxsim, onnxscript (optimize
and ort_fusions.optimize_for_ort), ortpy (onnxruntime.transformers, the best model type of a few by number of nodes), ortoffline (what ONNX Runtime saves, at
ENABLE_EXTENDED). Outputs are kept in --work (bench/speed/ort_outputs.py:
without the weights that the original has, so that those of many models fit), and made again where the tool is another one. --prepare only makes and checks them:
what follows it on a quiet machine is timing alone. All outputs of a model are timed in one process, in another order each round; outputs of which ONNX Runtime
executes the same kernels are timed once. With more than one thread, those of the session before are first let come to rest. Printed: the median over rounds
of (tool / original) of the same round with its 95 % interval (order statistics of the median), 1 exactly where the kernels are the original's, "wrong" where outputs differ from the original's by more than 1e-3 of their scale; beside ours the same
against the best right peer. Then a table in Markdown, and who is slower (lower bound above 1). --clock cpu takes processor time, for busy machines and one thread.

What is in OUT.json isn't measured again unless a tool is another one by now, so that --budget (seconds) may end a call and the same command goes on; the rounds
of slow models are cut so that all models fit into it, to 7 at least. Without --discard all models are measured with the first number of threads, then with
the next; --discard removes the outputs of a model once it is measured with all.
"""
import argparse
import collections
import concurrent.futures
import gc
import json
import math
import multiprocessing
import pathlib
import random
import statistics
import sys
import time

import ort_outputs

TOOLS = ("saturate", "onnxslim", "onnxsim", "onnxscript", "ortpy")
TOLERANCE = 1e-3
MOST_LOST = 0.1  # dB
FEWEST_ROUNDS = 7
SLOW = 0.5  # seconds of a run that need no second one for warming up
SHORT = 0.1  # seconds of a run in which waking threads up counts
IDLE = 0.01  # seconds
USUAL_OVERHEAD = 10  # seconds that a model takes beside its rounds, before that was measured


def interval(ratios):
    """Median with the 95 % interval from order statistics."""
    ordered, n = sorted(ratios), len(ratios)
    half = 0.98 * math.sqrt(n)
    low, high = max(0, math.floor((n - 1) / 2 - half)), min(n - 1, math.ceil((n - 1) / 2 + half))
    return [statistics.median(ordered), ordered[low], ordered[high]]


def settle():
    """Waits until no thread of this process works: those of ONNX Runtime look out for work for tens of milliseconds after a run, and would take a core from the
    next session."""
    while True:
        begin = time.process_time()
        time.sleep(IDLE)
        if time.process_time() - begin < IDLE / 4:
            return


def time_in_turns(paths, source, threads, how):
    """Seconds of each round by what `paths` maps from."""
    inputs, sessions = ort_outputs.inputs_of(source), {}
    clock = time.process_time if how["clock"] == "cpu" else time.perf_counter
    times, rng = collections.defaultdict(list), random.Random(how["seed"])
    slowest = 0
    for key, path in paths.items():
        s = ort_outputs.session(ort_outputs.read(path, source), threads)
        gc.collect()
        sessions[key] = (s, {i.name: inputs[i.name] for i in s.get_inputs()})
        begin = time.perf_counter()
        s.run(None, sessions[key][1])
        slowest = max(slowest, time.perf_counter() - begin)
    warm = 0 if slowest > SLOW else 1
    begin = time.perf_counter()
    for number in range(how["rounds"] + warm):
        if number >= FEWEST_ROUNDS + warm and time.perf_counter() - begin > how["seconds"]:
            break
        order = list(sessions)
        rng.shuffle(order)
        for key in order:
            s, feeds = sessions[key]
            if threads > 1:
                settle()
                if slowest < SHORT:
                    s.run(None, feeds)  # wakes its threads
            start = clock()
            s.run(None, feeds)
            if number >= warm:
                times[key].append(clock() - start)
    return dict(times), time.perf_counter() - begin


def compare(outputs, tools, source, threads, how):
    """Rows of a model, and the seconds that its rounds took."""
    facts = {tool: outputs.facts(tool, source) for tool in ("original", *tools)}
    cell = {"model": source.stem, "threads": threads}
    stamps = {tool: f["stamp"] for tool, f in facts.items()}
    if "error" in facts["original"]:
        return [cell | {"tool": tool, "stamp": stamps[tool], "error": f"original: {facts['original']['error']}"} for tool in facts], 0
    first = {}  # by kernels: the tool whose output is timed
    for tool, f in facts.items():
        if "error" not in f:
            first.setdefault(f["kernels"], tool)
    times, spent = {}, 0
    try:
        if len(first) > 1 or facts["original"]["kernels"] not in first:
            paths = {key: outputs.path(tool, source) for key, tool in first.items()}
            with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                times, spent = pool.submit(time_in_turns, paths, source, threads, how).result()
    except Exception as error:
        return [cell | {"tool": tool, "stamp": stamps[tool], "error": f"{type(error).__name__}: {str(error)[:200]}"} for tool in facts], 0
    base, rows = facts["original"]["kernels"], []
    for tool, f in facts.items():
        row = cell | {"tool": tool, "stamp": stamps[tool]}
        if "error" in f:
            rows.append(row | {"error": f["error"]})
            continue
        row |= {"kernels": f["nodes"], "same_kernels": f["kernels"] == base, "difference": f["difference"], "rounds": len(times.get(base, []))}
        if "decibels" in f:
            row["lost"] = facts["original"]["decibels"] - f["decibels"]
        row["ratio"], row["low"], row["high"] = paired(times, f["kernels"], base)
        if f["kernels"] in times:
            row["seconds"] = statistics.median(times[f["kernels"]])
        rows.append(row)
    add_best_peer(rows, facts, times)
    return rows, spent


def is_right(row):
    return row["lost"] <= MOST_LOST if "lost" in row else row["difference"] <= TOLERANCE


def paired(times, mine, other):
    return [1.0, 1.0, 1.0] if mine == other else interval([a / b for a, b in zip(times[mine], times[other])])


def add_best_peer(rows, facts, times):
    """To our row: the fastest right peer, or the original where none is faster, and our times over its."""
    ours = next((r for r in rows if r["tool"] == "saturate" and "ratio" in r), None)
    if ours is None:
        return
    others = [r for r in rows if r["tool"] != "saturate" and "ratio" in r and is_right(r)]
    best = min(others, key=lambda r: r["ratio"])
    ours["best_peer"] = best["tool"]
    ours["against_best"] = paired(times, facts["saturate"]["kernels"], facts[best["tool"]]["kernels"])


def show(row):
    if "error" in row:
        return f"  {row['tool']:12}{row['error']}"
    if row["tool"] == "original":
        seconds = f"{row['seconds'] * 1e3:9.2f} ms" if "seconds" in row else " " * 12
        return f"  {'original':12}{seconds} {row['kernels']:6} kernels, {row['rounds']} rounds"
    wrong = "" if is_right(row) else f"  wrong: {row['lost']:.2f} dB" if "lost" in row else f"  wrong: {row['difference']:.2g}"
    best = f"; over {row['best_peer']} {row['against_best'][0]:.3f} [{row['against_best'][1]:.3f}, {row['against_best'][2]:.3f}]" if "best_peer" in row else ""
    return f"  {row['tool']:12}{row['ratio']:9.3f}  [{row['low']:.3f}, {row['high']:.3f}]{row['kernels']:6} kernels{' the same' if row['same_kernels'] else ''}{wrong}{best}"


def table(rows, tools):
    """A line a model, the numbers of threads side by side."""
    by = {(r["model"], r["threads"], r["tool"]): r for r in rows}
    threads = sorted({r["threads"] for r in rows})
    yield "| model | original, ms | " + " | ".join(tools) + " | ours / best peer |"
    yield "|---" * (len(tools) + 3) + "|"
    for model in sorted({r["model"] for r in rows}):
        def cells(tool, text):
            return " / ".join(text(by[model, t, tool]) if (model, t, tool) in by else "" for t in threads)

        def ratio(row):
            if "error" in row:
                return "failed"
            return "same" if row["same_kernels"] else f"{row['ratio']:.3f}" + ("" if is_right(row) else " wrong")

        base = cells("original", lambda row: f"{row['seconds'] * 1e3:.1f}" if "seconds" in row else "not timed")
        best = cells("saturate", lambda row: f"{row['against_best'][0]:.3f} {row['best_peer']}" if "best_peer" in row else "")
        yield f"| {model} | {base} | " + " | ".join(cells(tool, ratio) for tool in tools) + f" | {best} |"


def summary(rows, tools):
    for threads in sorted({r["threads"] for r in rows}):
        for tool in tools:
            mine = [r for r in rows if r["tool"] == tool and r["threads"] == threads and "ratio" in r]
            if mine:
                slower, wrong = [r["model"] for r in mine if r["low"] > 1], [r["model"] for r in mine if not is_right(r)]
                behind = [r["model"] for r in mine if r.get("against_best", [0, 0])[1] > 1]
                text = f"; behind the best peer: {', '.join(behind) or 'none'}" if tool == "saturate" else ""
                yield f"{threads} thread{'s' if threads > 1 else ''}, {tool:12} median {statistics.median(r['ratio'] for r in mine):.3f}, worst {max(r['ratio'] for r in mine):.3f} over {len(mine)}; slower: {', '.join(slower) or 'none'}; wrong: {', '.join(wrong) or 'none'}{text}"


def measured(rows, source, threads, tools, outputs):
    """Whether all tools were measured as they are now."""
    stamps = {r["tool"]: r["stamp"] for r in rows if r["model"] == source.stem and r["threads"] == threads}
    return all(stamps.get(tool) in (outputs.stamp(tool, source), "given") for tool in ("original", *tools))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of file names; default: all")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--options", default="", help="of saturate")
    parser.add_argument("--floats", type=pathlib.Path, help="the models that those of FOLDER were quantized from")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--tool-seconds", type=float, default=600)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("ort_latency"))
    parser.add_argument("--shuffle-seed", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="models of --prepare at a time")
    parser.add_argument("--discard", action="store_true")
    parser.add_argument("--budget", type=float, default=0, help="seconds after which no further model is begun")
    parser.add_argument("--model-seconds", type=float, default=120, help="of rounds for each model and number of threads, at most")
    args = parser.parse_intermixed_args()
    args.tools = args.tools.split(",")
    args.threads = [int(t) for t in args.threads.split(",")]
    return args


class Clock:
    """How long the rounds of the next model may take, so that those after it fit into the budget, too."""

    def __init__(self, args):
        self.args, self.begin, self.overheads = args, time.perf_counter(), []

    def is_over(self):
        return 0 < self.args.budget < time.perf_counter() - self.begin

    def share(self, left):
        if not self.args.budget:
            return self.args.model_seconds
        overhead = statistics.mean(self.overheads or [USUAL_OVERHEAD])
        rest = self.args.budget - (time.perf_counter() - self.begin)
        return min(self.args.model_seconds, max(0, rest / left - overhead))


def run(args, outputs, cells, rows):
    """Measures the cells; False where the time is over."""
    clock = Clock(args)
    for number, (source, threads) in enumerate(cells):
        if clock.is_over():
            print(f"the time is over after {number} of {len(cells)}; the same command goes on")
            return False
        begin, how = time.perf_counter(), {"clock": args.clock, "seed": args.shuffle_seed, "rounds": args.rounds, "seconds": clock.share(len(cells) - number)}
        print(f"{source.stem}, {threads} thread{'s' if threads > 1 else ''}", flush=True)
        made, spent = compare(outputs, args.tools, source, threads, how)
        clock.overheads.append(time.perf_counter() - begin - spent)
        rows[:] = [r for r in rows if (r["model"], r["threads"]) != (source.stem, threads)] + made
        print(*map(show, made), sep="\n", flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))
        if args.discard and threads == args.threads[-1]:
            outputs.discard(source)
    return True


def prepare(args, outputs, sources):
    """Makes and checks all outputs, of --jobs models at a time."""
    clock = Clock(args)

    def one(source):
        if clock.is_over():
            return False
        facts = {tool: outputs.facts(tool, source) for tool in ("original", *args.tools)}
        print(source.stem, *(f"{tool}: {f.get('error') or f.get('tool_seconds', 'given')}" for tool, f in facts.items() if tool != "original"), sep="; ", flush=True)
        return True

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        if not all(list(pool.map(one, sources))):
            print("the time is over; the same command goes on")
    return 0


def main():
    args = arguments()
    outputs = ort_outputs.Outputs(args.work, args.binary, args.options, args.tool_seconds, args.floats)
    sources = [s for s in sorted(args.folder.glob("*.onnx")) if not args.names or any(n in s.name for n in args.names)]
    if args.prepare:
        return prepare(args, outputs, sources)
    rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    cells = [(s, t) for s in sources for t in args.threads] if args.discard else [(s, t) for t in args.threads for s in sources]
    cells = [c for c in cells if not measured(rows, *c, args.tools, outputs)]
    if run(args, outputs, cells, rows):
        print(*table(rows, args.tools), sep="\n")
        print(*summary(rows, args.tools), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
