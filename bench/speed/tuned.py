#!/usr/bin/env python3
"""Whether what `python -m onnx_saturate.tune` finds is ever worse than ONNX Runtime's default settings, and whether it keeps its budget.

    python bench/speed/tuned.py FOLDER [NAME ...] [--budget 60] [--runs 2] [--rounds 30] [--blocks 3] [--json OUT.json]

FOLDER is what bench/export/export_models.py wrote (NAME.EXPORTER.onnx, NAME.inputs.npz); NAME are parts of file names. Each model is tuned in a process of its own, --runs
times with another seed. What came out is then timed beside the default settings in another process: in turns, in another order each round, with sessions made anew in
each block. Printed: seconds that the tuning took from start to end of its process, its message, and the median over rounds of (found / default) with its 95 %
interval (order statistics), 1 exactly where the default settings stayed. "worse" where that interval lies above 1, "late" where the process took longer than its
budget and what Python takes to start (2 s). Rounds in which other work takes a tenth of a processor don't count. What is in OUT.json isn't measured again. Exit status 1 where anything is worse or late. Wants a quiet machine.
"""
import argparse
import concurrent.futures
import json
import multiprocessing
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np
import ort_latency
from onnx_saturate._tune_ort import Deadline, Running, make_session, others
from onnx_saturate.tune import Settings

START = 2.0  # seconds
PATIENCE = 90.0  # seconds of rounds
LOAD = 0.1  # processors that other work may take in a round that counts
LONG = 0.1  # seconds of a run that need none before it to wake threads up


def settings_of(told):
    fields = told["settings"]
    return Settings(**{**fields, "providers": tuple((name, options) for name, options in fields["providers"])})


def timed(session):
    ort_latency.settle()
    begin = time.perf_counter()
    session.run()
    if time.perf_counter() - begin > LONG:
        return time.perf_counter() - begin
    times, first = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - first < 0.02:
        begin = time.perf_counter()
        session.run()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def compare(model, inputs, told, blocks, rounds, seed):
    """Times of found and default settings, of each round."""
    with np.load(inputs) as archive:
        feeds = {name: archive[name] for name in archive.files}
    found, rng, pairs = settings_of(told), random.Random(seed), []
    default = Settings(providers=found.providers[:1])
    deadline = Deadline(time.perf_counter() + 3600)
    for _ in range(blocks):
        sessions = {}
        for settings in rng.sample([found, default], 2):
            session = make_session(str(model), settings, quiet=True)
            wanted = {i.name: feeds[i.name] for i in session.get_inputs()}
            sessions[settings is found] = Running(session, wanted, deadline.options, settings.io_binding)
        for session in sessions.values():
            timed(session)
        until = time.perf_counter() + PATIENCE / blocks
        counted = 0
        while counted < rounds // blocks and time.perf_counter() < until:
            begin, before = time.perf_counter(), others()
            taken = {mine: timed(sessions[mine]) for mine in rng.sample([True, False], 2)}
            if others() - before <= max(0.03, LOAD * (time.perf_counter() - begin)):
                pairs.append((taken[True], taken[False]))
                counted += 1
    deadline.cancel()
    return pairs


def measure(args, model, inputs, run):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "best.json"
        words = [sys.executable, "-m", "onnx_saturate.tune", model, "--inputs", inputs, "--budget", args.budget, "--seed", run, "-o", out]
        begin = time.perf_counter()
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        taken = time.perf_counter() - begin
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1]}
        told = json.loads(out.read_text())
    row = {"seconds": taken, "late": taken > args.budget + START, "told": told, "ratio": [1.0, 1.0, 1.0]}
    if not told["is_default"]:
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            pairs = pool.submit(compare, model, inputs, told, args.blocks, args.rounds, run + 1000).result()
        row["ratio"] = ort_latency.interval([mine / base for mine, base in pairs])
    row["worse"] = row["ratio"][1] > 1
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    models = [p for p in sorted(args.folder.glob("*.onnx")) if not args.names or any(name in p.name for name in args.names)]
    rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    for model in models:
        inputs = model.with_name(model.name.split(".")[0] + ".inputs.npz")
        for run in range(args.runs):
            if any(row["model"] == model.stem and row["run"] == run for row in rows):
                continue
            row = {"model": model.stem, "run": run, **measure(args, model, inputs, run)}
            rows.append(row)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))
            if "error" in row:
                print(f"{model.stem:36}{run}  {row['error']}", flush=True)
                continue
            marks = " worse" * row["worse"] + " late" * row["late"]
            print(f"{model.stem:36}{run} {row['seconds']:7.1f} s  {row['ratio'][0]:.3f} [{row['ratio'][1]:.3f}, {row['ratio'][2]:.3f}]{marks}  {row['told']['message']}", flush=True)
    return int(not rows or any(row.get("worse") or row.get("late") or "error" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
