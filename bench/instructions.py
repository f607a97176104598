#!/usr/bin/env python3
"""Instructions of whole processes by callgrind: what optimizing costs, whatever else the machine does meanwhile.

    python bench/instructions.py --old OLD_BINARY --new NEW_BINARY FILE|FOLDER|@LIST ... [--every N] [--options "--target ort-cpu@1.20"] [--jobs N]
        [--profiles FOLDER] [--at-most RATIO]

Both builds optimize each file once, unverified, on one thread. Told are the instructions of each run, their sum, the ratio of the sums, and the geometric mean
of the files' ratios. --profiles keeps callgrind's files (MODEL.old, MODEL.new) for callgrind_annotate.
Exit status: 0; 1 where the ratio of the sums is above --at-most, or where a run fails; 77 (skipped) where valgrind is missing.
"""
import argparse
import concurrent.futures
import math
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from replay import binary, find, positive

SKIPPED = 77


def instructions(program, path, options, profile):
    """Instructions of one process."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", program, "optimize", path, "-o", f"{folder}/out.onnx", "-q",
                 "--no-verify", "--threads", "1", *options]
        done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        raise SystemExit(f"instructions.py: error: {program} {path}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return int(found.group(1))


def measure(args, path):
    """Instructions of the old and of the new build on one file."""
    out = []
    for side, program in (("old", args.old), ("new", args.new)):
        profile = args.profiles / f"{path.stem}.{side}" if args.profiles else "/dev/null"
        out.append(instructions(program, path, args.options, profile))
    return path, *out


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@")
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="FILE|FOLDER|@LIST")
    parser.add_argument("--old", required=True, type=binary, metavar="BINARY")
    parser.add_argument("--new", required=True, type=binary, metavar="BINARY")
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="only every Nth file")
    parser.add_argument("--options", type=shlex.split, default=["--target", "ort-cpu@1.20"], metavar="WORDS", help="of saturate (default: --target ort-cpu@1.20)")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="files at a time: counts stay the same")
    parser.add_argument("--profiles", type=pathlib.Path, metavar="FOLDER", help="keep callgrind's files for callgrind_annotate")
    parser.add_argument("--at-most", type=float, metavar="RATIO", help="exit with 1 where the ratio of the sums is above")
    args = parser.parse_intermixed_args()
    args.shared = None  # of find()
    return args


def main():
    args = arguments()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed; install it (apt-get install valgrind)")
        return SKIPPED
    if args.profiles:
        args.profiles.mkdir(parents=True, exist_ok=True)
    files = [path for _, path in find(args)]
    olds, news = [], []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for path, old, new in pool.map(lambda p: measure(args, p), files):
            print(f"{path.stem:40} {old / 1e6:10.1f} M -> {new / 1e6:10.1f} M  {new / old:.3f}", flush=True)
            olds.append(old)
            news.append(new)
    ratio = sum(news) / sum(olds)
    mean = math.exp(sum(math.log(n / o) for o, n in zip(olds, news)) / len(olds))
    print(f"{len(files)} files: {sum(olds) / 1e6:.1f} M -> {sum(news) / 1e6:.1f} M, ratio {ratio:.3f}, geometric mean {mean:.3f}")
    return 1 if args.at_most is not None and ratio > args.at_most else 0


if __name__ == "__main__":
    sys.exit(main())
