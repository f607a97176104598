"""The first minute of two tools: from `pip install` into an empty environment to the first result, in seconds of processor and of wall time.

usage: first_result.py WHEEL MODEL [--peer onnxsim==0.8.1] [--runs 5]

Each tool gets a fresh environment and no cache of pip's; packages come from the index, or from --packages FOLDER. The two run in turns.
Medians are printed, with the smallest and the largest behind them.
"""
import argparse
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def processor_seconds():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def first_result(package, command, model, pip):
    """Seconds by step, (processor, wall)."""
    steps = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

        def step(name, *words):
            processor, wall = processor_seconds(), time.monotonic()
            subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            steps[name] = processor_seconds() - processor, time.monotonic() - wall

        step("pip install", folder / "venv/bin/python", "-m", "pip", "install", "--no-cache-dir", *pip, package)
        step("first result", folder / "venv/bin" / command, model, folder / "out.onnx")
        step("second result", folder / "venv/bin" / command, model, folder / "again.onnx")
        if not (folder / "out.onnx").stat().st_size:
            raise SystemExit(f"first_result.py: error: {command} wrote nothing")
    steps["to the first"] = tuple(map(sum, zip(steps["pip install"], steps["first result"])))
    return steps


def spread(values):
    return f"{statistics.median(values):6.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--peer", default="onnxsim==0.8.1", help="a package whose command has its name and takes IN OUT (%(default)s)")
    parser.add_argument("--packages", type=pathlib.Path, help="a folder with all packages that are needed, instead of the index")
    parser.add_argument("--runs", type=int, default=1, help="runs of each (%(default)s)")
    args = parser.parse_args()
    pip = ["--no-index", "--find-links", args.packages] if args.packages else []
    tools = {"saturate": (args.wheel.resolve(), "saturate"), args.peer: (args.peer, args.peer.partition("==")[0])}
    runs = {name: [] for name in tools}
    for _ in range(args.runs):
        for name, (package, command) in tools.items():
            runs[name].append(first_result(package, command, args.model.resolve(), pip))
    for name, its in runs.items():
        for step in its[0]:
            processor, wall = zip(*(run[step] for run in its))
            print(f"{name:16} {step:14} processor {spread(processor)} s  wall {spread(wall)} s")
    mine, theirs = ([run["to the first"][0] for run in its] for its in runs.values())
    print(f"processor time to the first result, saturate's share: {spread([a / b for a, b in zip(mine, theirs)])}")


main()
