"""The command: `python -m onnx_saturate.study STUDY.toml`."""
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .._errors import Error, tell_error
from . import plan, run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="onnx_saturate.study", description="Runs a study of cost models and extractors from one file, or goes on with it; docs/study.md tells what such a file holds."
    )
    parser.add_argument("study", metavar="STUDY.toml", help="the study, or the name of one that comes with the package: predicted, choices")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where results go (STUDY.study)")
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="pieces at a time on this machine, or workers that ray and dask start here; those that time are always one at a time (1)")
    parser.add_argument("--on", default="local", metavar="ENGINE", help="where pieces are done: local (the default), ray, ray://HOST:PORT, ray:ADDRESS, dask, tcp://HOST:PORT")
    parser.add_argument("--replay", nargs="?", const=True, metavar="FOLDER", help="take times from what is recorded in FOLDER (the one of -o) instead of measuring")
    parser.add_argument("--retry", action="store_true", help="do pieces again that failed")
    parser.add_argument("--dry-run", action="store_true", help="list the pieces, and do none")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors and where results are")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit status: 1 where a piece failed or the study can't be read, 2 for wrong usage, 130 where it was interrupted."""
    parser = _parser()
    args = parser.parse_args(words)
    if args.jobs < 1:
        parser.error(f"--jobs: {args.jobs} is no number of pieces; give 1 or more")
    try:
        if args.dry_run:
            print("\n".join(plan(args.study, args.output)))
            return 0
        tell = None if args.quiet else lambda line: print(line, file=sys.stderr, flush=True)
        done = run(args.study, args.output, jobs=args.jobs, on=args.on, replay=args.replay, retry=args.retry, progress=tell)
    except Error as error:
        return tell_error("onnx_saturate.study", error)
    except KeyboardInterrupt:
        print("onnx_saturate.study: interrupted; what was done is kept, and the same command goes on", file=sys.stderr)
        return 130
    for line in done.failures:
        print(f"onnx_saturate.study: failed: {line}", file=sys.stderr)
    print(f"{len(done.rows)} experiments, {len(done.failures)} failures: {', '.join(str(path) for path in done.files)}")
    return 1 if done.failures else 0


if __name__ == "__main__":
    sys.exit(main())
