#!/usr/bin/env python3
"""Instructions of whole processes by callgrind: what optimizing costs, whatever else the machine does meanwhile.

    python bench/gauges/instructions.py --old OLD_BINARY --new NEW_BINARY FILE|FOLDER|@LIST ... [--every N] [--options "--target ort-cpu@1.20"] [--jobs N]
        [--profiles FOLDER] [--at-most RATIO]
    python bench/gauges/instructions.py --ratchet [FILE] --build BUILD [--jobs N] [--write [--why TEXT]]

Both builds optimize each file once, unverified, on one thread. Told are the instructions of each run, their sum, the ratio of the sums, and the geometric mean
of the files' ratios. --profiles keeps callgrind's files (MODEL.old, MODEL.new) for callgrind_annotate.

--ratchet runs what WORKLOADS names with a build, on scalar kernels, and compares the counts with FILE (bench/data/instructions.json), which has them for each
compiler and C library. A count may be 2 % above. --write lowers those of FILE that fell, and adds those of another compiler; --write --why TEXT raises, with
the reason beside.
Exit status: 0; 1 where the ratio of the sums is above --at-most, where a count rose, or where a run fails; 77 (skipped) where valgrind is missing, and with
--ratchet where FILE has no counts of this compiler and C library, or where the build is not for release.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import counts
from replay import binary, find, positive

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
SLACK = 0.02
RATCHET = ROOT / "bench" / "data" / "instructions.json"
# No code that the C library or ours chooses by the processor.
PLAIN = {"SATURATE_SCALAR_KERNELS": "1", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX2_Usable,-AVX512F,-AVX512VL,-ERMS,-FSRM"}
# What is counted: the program of a build and its words. {bart} is the bundled model, {decoder} one of tests/python/decoders.py, {out} a file of its own.
OPTIMIZE = "tools/saturate optimize -q --no-verify --threads 1 --force -o {out} "
WORKLOADS = {
    "list rules": "tools/saturate rules list",
    "optimize an encoder": OPTIMIZE + "{bart} --target ort-cpu@1.31",
    "optimize a decoder": OPTIMIZE + "{decoder} --target ort-cpu@1.31",
    "optimize for the standard": OPTIMIZE + "{decoder} --target onnx --cost nodes",
    "give a decoder a cache": "tools/saturate transform {decoder} -o {out} -q --no-verify --pass kv_cache",
    "run an encoder": "tools/saturate run {bart} --inputs {inputs} --threads 1",
    "engine, math": "bench/egraph_workloads {math} --iterations 9",
    "engine, propositions": "bench/egraph_workloads {prop}",
    "engine, associativity": "bench/egraph_workloads {ac9}",
    "engine, tensors": "bench/egraph_workloads {tensor12} --iterations 5",
}


def collected(words, profile="/dev/null", more=None):
    """Instructions of one process."""
    words = list(map(str, ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", *words]))
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env={**os.environ, **(more or {})})
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        raise SystemExit(f"instructions.py: error: {' '.join(words[3:])}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return int(found.group(1))


def instructions(program, path, options, profile):
    with tempfile.TemporaryDirectory() as folder:
        return collected([program, "optimize", path, "-o", f"{folder}/out.onnx", "-q", "--no-verify", "--threads", "1", *options], profile)


def measure(args, path):
    """Instructions of the old and of the new build on one file."""
    out = []
    for side, program in (("old", args.old), ("new", args.new)):
        profile = args.profiles / f"{path.stem}.{side}" if args.profiles else "/dev/null"
        out.append(instructions(program, path, args.options, profile))
    return path, *out


def decoder_in(folder):
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    import onnx
    from decoders import Shape, decoder

    onnx.save(decoder(Shape()), folder / "decoder.onnx")
    return folder / "decoder.onnx"


def workloads(build, jobs):
    """Name -> instructions."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        folder = pathlib.Path(folder)
        data, engine = ROOT / "tests" / "data", ROOT / "bench" / "workloads"
        files = {"bart": data / "bart_encoder.onnx", "inputs": data / "bart_encoder.inputs.npz", "decoder": decoder_in(folder)}
        files |= {path.stem: path for path in engine.glob("*.txt")}

        def count(named):
            at, line = named
            program, *words = line.split()
            return collected([build / program, *(word.format(out=folder / f"out{at}.onnx", **files) for word in words)], more=PLAIN)

        return dict(zip(WORKLOADS, pool.map(count, enumerate(WORKLOADS.values()))))


def built_with(build):
    """The compiler and the C library of a build for release; None of another."""
    cache = (build / "CMakeCache.txt").read_text()
    told = "".join(p.read_text() for p in (build / "CMakeFiles").glob("*/CMakeCXXCompiler.cmake"))
    compiler = {what: re.search(rf'set\(CMAKE_CXX_COMPILER_{what} "([^"]*)"', told) for what in ("ID", "VERSION")}
    if not re.search(r"^CMAKE_BUILD_TYPE:\w+=Release$", cache, flags=re.M) or not all(compiler.values()):
        return None
    return f"{compiler['ID'][1]} {compiler['VERSION'][1]}, {os.confstr('CS_GNU_LIBC_VERSION')}, {platform.machine()}"


def ratchet(args):
    """Compares the counts of a build with a file. The exit status."""
    kind = built_with(args.build)
    if kind is None:
        print(f"skipped: {args.build} is no build for release")
        return SKIPPED
    all_held = json.loads(args.ratchet.read_text()) if args.ratchet.exists() else {}
    if kind not in all_held and not args.write:
        print(f"skipped: {args.ratchet.name} has no counts of {kind}; --write adds them")
        return SKIPPED
    held, figures = all_held.get(kind, {}), workloads(args.build, args.jobs)
    if args.write:
        held = all_held[kind] = counts.moved(held, figures, args.why, SLACK)
        lines = lambda of: ",\n".join(f"    {json.dumps(what)}: {json.dumps(entry)}" for what, entry in of.items())
        args.ratchet.write_text("{\n" + ",\n".join(f"  {json.dumps(name)}: {{\n{lines(of)}\n  }}" for name, of in sorted(all_held.items())) + "\n}\n")
    for what, now in figures.items():
        most = held.get(what, {}).get("at_most")
        print(f"{what:28} {now / 1e6:9.1f} M {f'{most / 1e6:9.1f} M  {now / most:.3f}' if most else '        -'}")
    wrong = counts.unreasoned(held) + [f"{what}: no count in {args.ratchet.name}; --write adds it" for what in figures if what not in held]
    wrong += [f"{what}: {now / 1e6:.1f} M instructions, {now / most - 1:.1%} above {most / 1e6:.1f} M; callgrind_annotate (--old, --new, --profiles) shows where. "
              "Bring it down, or say why it must be: --write --why TEXT" for what, now, most in counts.risen(held, figures, SLACK)]
    for line in wrong:
        print(f"instructions.py: error: {line}", file=sys.stderr)
    return 1 if wrong else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@")
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="FILE|FOLDER|@LIST")
    parser.add_argument("--old", type=binary, metavar="BINARY")
    parser.add_argument("--new", type=binary, metavar="BINARY")
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="only every Nth file")
    parser.add_argument("--options", type=shlex.split, default=["--target", "ort-cpu@1.20"], metavar="WORDS", help="of saturate (default: --target ort-cpu@1.20)")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="files at a time: counts stay the same")
    parser.add_argument("--profiles", type=pathlib.Path, metavar="FOLDER", help="keep callgrind's files for callgrind_annotate")
    parser.add_argument("--at-most", type=float, metavar="RATIO", help="exit with 1 where the ratio of the sums is above")
    parser.add_argument("--ratchet", nargs="?", const=RATCHET, type=pathlib.Path, metavar="FILE", help="compare the workloads of --build with FILE")
    parser.add_argument("--build", type=pathlib.Path, metavar="BUILD", help="a folder of a build: build/release")
    parser.add_argument("--write", action="store_true", help="with --ratchet: lower the counts of FILE that fell")
    parser.add_argument("--why", metavar="TEXT", help="with --write: why counts rise")
    args = parser.parse_intermixed_args()
    if args.ratchet and not args.build:
        parser.error("--ratchet: --build names the build whose workloads are counted")
    if not args.ratchet and not (args.old and args.new and args.paths):
        parser.error("give --old, --new and files; or --ratchet and --build")
    args.shared = None  # of find()
    return args


def main():
    args = arguments()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed; install it (apt-get install valgrind)")
        return SKIPPED
    if args.ratchet:
        return ratchet(args)
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
