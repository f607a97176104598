"""The first minute of two tools: from `pip install` into an empty environment to the first result, in seconds of processor and of wall time.

usage: first_result.py WHEEL MODEL [--peer onnxsim==0.8.1]

Each tool gets a fresh environment and no cache of pip's; packages come from the index, or from --packages FOLDER. One run of each, in turns.
"""
import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile
import time


def processor_seconds():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def first_result(package, command, model, pip):
    """Seconds by step, (name, processor, wall)."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

        def step(name, *words):
            processor, wall = processor_seconds(), time.monotonic()
            subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            rows.append((name, processor_seconds() - processor, time.monotonic() - wall))

        step("pip install", folder / "venv/bin/python", "-m", "pip", "install", "--no-cache-dir", *pip, package)
        step("first result", folder / "venv/bin" / command, model, folder / "out.onnx")
        step("second result", folder / "venv/bin" / command, model, folder / "again.onnx")
        if not (folder / "out.onnx").stat().st_size:
            raise SystemExit(f"first_result.py: error: {command} wrote nothing")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--peer", default="onnxsim==0.8.1", help="a package whose command has its name and takes IN OUT (%(default)s)")
    parser.add_argument("--packages", type=pathlib.Path, help="a folder with all packages that are needed, instead of the index")
    args = parser.parse_args()
    pip = ["--no-index", "--find-links", args.packages] if args.packages else []
    totals = {}
    for name, package, command in (("saturate", args.wheel.resolve(), "saturate"), (args.peer, args.peer, args.peer.partition("==")[0])):
        rows = first_result(package, command, args.model.resolve(), pip)
        for step, processor, wall in rows:
            print(f"{name:16} {step:14} {processor:7.2f} s processor  {wall:7.2f} s wall")
        totals[name] = sum(processor for _, processor, _ in rows[:2])
    mine, theirs = totals.values()
    print(f"to the first result: {mine:.2f} s and {theirs:.2f} s of processor time, {mine / theirs:.2f}")


main()
