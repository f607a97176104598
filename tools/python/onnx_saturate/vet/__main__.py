"""The command: `python -m onnx_saturate vet MODEL... -o FOLDER`."""
from __future__ import annotations

import argparse
import collections
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .._errors import Error, tell_error
from . import Vetted, vet


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="saturate vet", description="Runs a model and drawn graphs that equal it at every level of optimization of a runtime, and reduces what differs (docs/vet.md).")
    parser.add_argument("models", metavar="MODEL", nargs="+")
    parser.add_argument("-o", "--output", metavar="FOLDER", default="vetted", help="where results go, and from where the same command goes on (vetted)")
    parser.add_argument("--sample", type=int, default=8, metavar="N", help="graphs drawn of each model for each of two targets (8)")
    parser.add_argument("--time-limit", type=float, default=600, metavar="S", help="seconds after which no graph is begun (600)")
    parser.add_argument("--runtime", action="append", metavar="NAME[=PYTHON]", help="onnxruntime or openvino, of this or another interpreter; may be repeated, onnxruntime first (onnxruntime)")
    parser.add_argument("--reduce-limit", type=float, default=120, metavar="S", help="seconds that making one finding small may take (120)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of drawn graphs and inputs (1)")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout instead of a table")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors and the table")
    return parser


def _table(done: Vetted, output: str) -> str:
    lines = [f"{done.graphs} graphs, {done.runs} runs, {len(done.findings)} findings{f', {len(done.refused)} not tried' if done.refused else ''}: {output}"]
    kinds = collections.Counter(finding.key() for finding in done.findings)
    smallest: dict[tuple[str, ...], tuple[int, str]] = {}
    for finding in done.findings:
        if finding.folder:
            smallest.setdefault(finding.key(), (finding.nodes or 0, Path(finding.folder).name))
    rows: list[tuple[str, ...]] = [("runtime", "level", "what", "optimizer or message", "times", "nodes", "folder")]
    rows += [(*key, str(times), str(smallest.get(key, (0, ""))[0] or ""), smallest.get(key, (0, ""))[1]) for key, times in kinds.most_common()]
    if len(rows) > 1:
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines += ["", *("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit status: 0 where nothing was found, 3 where something was, 1 for files, 2 for wrong usage, 130 where it was interrupted."""
    parser = _parser()
    args = parser.parse_args(words)
    if args.sample < 0:
        parser.error(f"--sample: {args.sample} is no number of graphs; give 0 or more")
    tell = None if args.quiet or args.json else lambda line: print(f"saturate: vet: {line}", file=sys.stderr, flush=True)
    try:
        done = vet(args.models, args.output, samples=args.sample, seconds=args.time_limit, runtimes=args.runtime or ["onnxruntime"], seed=args.seed, reduce_seconds=args.reduce_limit, progress=tell)
    except Error as error:
        return tell_error("saturate", error)
    except KeyboardInterrupt:
        print("saturate: error: interrupted; what was done is kept, and the same command goes on", file=sys.stderr)
        return 130
    if args.json:
        print(json.dumps({"graphs": done.graphs, "runs": done.runs, "refused": done.refused, "findings": [finding.as_dict() for finding in done.findings]}, indent=1))
    else:
        print(_table(done, args.output))
    return 3 if done.findings else 0


if __name__ == "__main__":
    sys.exit(main())
