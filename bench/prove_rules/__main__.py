"""Proves the laws of the built-in rules, and writes what is proven to rules/library/proofs.json.

usage: python -m prove_rules SATURATE [WORD] [--all] [--retry] [--seconds S] [--check]     (in bench/, with requirements.txt installed)

SATURATE is the command of a build. Laws whose text has not changed keep their line unless --all is given. --check proves nothing: it
tells which laws have no line, or one of another text. WORD: only laws whose name holds it.
"""
from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import pathlib
import sys
import time

from . import laws
from .exported import Json, by_law, exported, library, stale

ROOT = pathlib.Path(__file__).resolve().parents[2]
_BODIES: dict[str, list[Json]] = {}


def work(job: tuple[str, list[Json], float]) -> tuple[str, dict[str, object], float]:
    name, instances, seconds = job
    start = time.monotonic()
    verdicts = []
    for rule in instances:  # the first that is not proven decides
        verdicts.append(laws.prove(rule, _BODIES, seconds))
        if verdicts[-1].state == "run":
            break
    return name, laws.entry(instances, verdicts, _BODIES), time.monotonic() - start


def write(path: pathlib.Path, entries: dict[str, dict[str, object]]) -> None:
    lines = [f"  {json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="prove_rules", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("saturate")
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--all", action="store_true", help="prove laws anew whose text has not changed")
    parser.add_argument("--retry", action="store_true", help="prove those anew that are checked by running only")
    parser.add_argument("--seconds", type=float, default=15, help="for each instance and each bound of ranks")
    parser.add_argument("--check", action="store_true", help="only tell what is not up to date")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    data = exported(args.saturate)
    all_laws = by_law(data["rules"])
    _BODIES.update(by_law(data["operators"]))
    path = library(ROOT)
    entries = json.loads(path.read_text()) if path.exists() else {}
    old = stale(all_laws, _BODIES, entries)
    if args.check:
        print(*old, sep="\n")
        return 1 if old else 0
    entries = {n: e for n, e in entries.items() if n in all_laws}
    jobs = [(n, rules, args.seconds) for n, rules in all_laws.items() if args.word in n and (args.all or n in old or args.retry and entries[n]["state"] == "run")]
    jobs.sort(key=lambda job: sum(len(r["left"]) + len(r["right"]) + len(r["inputs"]) for r in job[1]))  # the quick ones first
    with multiprocessing.Pool(args.jobs) as pool:
        for name, found, seconds in pool.imap_unordered(work, jobs):
            entries[name] = found
            print(f"{found['state']:8} {seconds:6.1f} s  {name}: {found['why']}", flush=True)
            write(path, entries)
    states = collections.Counter(str(e["state"]) for e in entries.values())
    print(dict(states), f"{sum(bool(e['expressible']) for e in entries.values())} of {len(all_laws)} laws are expressible")
    return 0


if __name__ == "__main__":
    sys.exit(main())
