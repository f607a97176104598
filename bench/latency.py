#!/usr/bin/env python3
"""Latency and peak memory of our runtime against ONNX Runtime on the CPU.

    python bench/latency.py FOLDER --binary build/release/tools/saturate [NAME ...] [--threads 1,2] [--rounds 5] [--json OUT] [--markdown OUT]

FOLDER is what bench/export_models.py wrote. Rounds alternate between the two runtimes, each a fresh process with warm-up runs and then a burst of measured
ones. Printed: the median over all measured runs, the median over the rounds of the ratio of their medians (below 1: ours is faster) with the smallest and the
largest of the rounds, the ratios of the fastest runs and of the processor time (less disturbed on a busy machine; with several threads ONNX Runtime's
spinning counts), the peak of resident memory (ONNX Runtime's: above that of Python before the model is loaded), and geometric means. Needs onnxruntime and numpy.
"""
import argparse
import json
import math
import pathlib
import resource
import statistics
import subprocess
import sys
import time


def ort_child(model, inputs, threads, warmup, iterations):
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    with np.load(inputs) as file:
        arrays = dict(file)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    arrays = {i.name: arrays[i.name] for i in session.get_inputs()}
    for _ in range(warmup):
        session.run(None, arrays)
    seconds, cpu = [], []
    for _ in range(iterations):
        start, cpu_start = time.perf_counter(), time.process_time()
        session.run(None, arrays)
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    print(json.dumps({"seconds": seconds, "cpu": statistics.median(cpu), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before}))


def ours(args, model, inputs, threads):
    words = [args.binary, "bench", str(model), "--inputs", str(inputs), "--threads", str(threads), "--iterations", str(args.iterations), "--warmup",
             str(args.warmup), "--json", "--no-table"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    out = json.loads(done.stdout)
    return {"seconds": out["models"][0]["all_seconds"], "cpu": out["models"][0]["cpu_seconds"]["median"], "peak": out["peak_bytes"]}


def theirs(args, model, inputs, threads):
    words = [sys.executable, __file__, "--child", str(model), str(inputs), str(threads), str(args.warmup), str(args.iterations)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def compare(args, model, threads):
    inputs = model.parent / (model.name.split(".")[0] + ".inputs.npz")
    runs = {"ours": [], "ort": []}
    for turn in range(args.rounds):
        for side in ("ours", "ort") if turn % 2 == 0 else ("ort", "ours"):
            runs[side].append((ours if side == "ours" else theirs)(args, model, inputs, threads))
    times = {side: [s for r in rs for s in r["seconds"]] for side, rs in runs.items()}
    median = {side: statistics.median(t) for side, t in times.items()}
    peak = {side: statistics.median(r["peak"] for r in rs) for side, rs in runs.items()}
    cpu = {side: statistics.median(r["cpu"] for r in rs) for side, rs in runs.items()}
    rounds = [statistics.median(a["seconds"]) / statistics.median(b["seconds"]) for a, b in zip(runs["ours"], runs["ort"])]
    return {"model": model.name, "threads": threads, "ours": median["ours"], "ort": median["ort"], "ratio": statistics.median(rounds),
            "low": min(rounds), "high": max(rounds), "cpu_ratio": cpu["ours"] / cpu["ort"],
            "ratio_of_fastest": min(times["ours"]) / min(times["ort"]), "peak_ours": peak["ours"], "peak_ort": peak["ort"]}


def markdown(results):
    """The table of docs/latency.md: a row a model, time and ratio for each number of threads."""
    counts = sorted({r["threads"] for r in results})
    rows = ["| model | " + " | ".join(f"ours / theirs, {t} thread{'s' if t > 1 else ''} | ratio" for t in counts) + " | memory |", "|" + "---|" * (2 * len(counts) + 2)]
    for model in dict.fromkeys(r["model"] for r in results):
        mine = {r["threads"]: r for r in results if r["model"] == model}
        cells = [f"{r['ours'] * 1e3:.2f} / {r['ort'] * 1e3:.2f} ms | {r['ratio']:.2f} ({r['low']:.2f}..{r['high']:.2f})" if r else " | " for r in map(mine.get, counts)]
        first = next(iter(mine.values()))
        rows.append(f"| {model.removesuffix('.onnx')} | {' | '.join(cells)} | {first['peak_ours'] / first['peak_ort']:.2f} |")
    means = [f" | {geomean([r['ratio'] for r in results if r['threads'] == t]):.2f}" for t in counts]
    rows.append(f"| geometric mean | {' | '.join(means)} | {geomean([r['peak_ours'] / r['peak_ort'] for r in results if r['threads'] == counts[0]]):.2f} |")
    return "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of file names; default: all")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table of docs/latency.md")
    args = parser.parse_intermixed_args()
    models = [p for p in sorted(args.folder.glob("*.onnx")) if not args.names or any(n in p.name for n in args.names)]
    results = []
    for threads in map(int, args.threads.split(",")):
        print(f"{threads} thread{'s' if threads > 1 else ''}{'':40}ours        ORT   ratio  of rounds    of fastest  of cpu   peak ours    peak ORT")
        for model in models:
            try:
                r = compare(args, model, threads)
            except RuntimeError as error:
                print(f"{model.name:40}{error}", flush=True)
                continue
            results.append(r)
            print(f"{r['model']:40}{r['ours'] * 1e3:9.2f} ms{r['ort'] * 1e3:8.2f} ms{r['ratio']:8.2f}  {r['low']:.2f}..{r['high']:.2f}{r['ratio_of_fastest']:12.2f}{r['cpu_ratio']:8.2f}"
                  f"{r['peak_ours'] / 2**20:8.0f} MiB{r['peak_ort'] / 2**20:8.0f} MiB", flush=True)
        mine = [r for r in results if r["threads"] == threads]
        if mine:
            print(f"{'geometric mean':62}{geomean([r['ratio'] for r in mine]):8.2f}{'':12}{geomean([r['ratio_of_fastest'] for r in mine]):12.2f}{geomean([r['cpu_ratio'] for r in mine]):8.2f}"
                  f"{'':8}memory ratio {geomean([r['peak_ours'] / r['peak_ort'] for r in mine]):.2f}\n", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    if args.markdown and results:
        args.markdown.write_text(markdown(results))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        ort_child(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
    else:
        sys.exit(main())
