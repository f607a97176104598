#!/usr/bin/env python3
"""Latency and peak memory of our runtime against ONNX Runtime on the CPU, or of two builds of ours.

    python bench/speed/latency.py FOLDER|MODEL... --binary build/release/tools/saturate [NAME ...] [--threads 1,2] [--rounds 5] [--json OUT] [--markdown OUT]
    python bench/speed/latency.py FOLDER|MODEL... --binary NEW --against OLD [NAME ...] [--threads 1,2] [--rounds 15] [--clock wall|cpu] [--json OUT]

FOLDER is what bench/export/export_models.py or bench/export/matmul_models.py wrote. Rounds alternate between the two sides, each a fresh process with warm-up runs and then
a burst of measured ones. A model without NAME.inputs.npz beside it runs on random inputs (with --against alone; free dims are 1 unless --dim names them).

Against ONNX Runtime: printed are the median over all measured runs, the median over the rounds of the ratio of their medians (below 1: ours is faster) with
the smallest and the largest of the rounds, the ratios of the fastest runs and of the processor time (less disturbed on a busy machine; with several threads
ONNX Runtime's spinning counts), the peak of resident memory (ONNX Runtime's: above that of Python before the model is loaded), and geometric means. Needs
onnxruntime and numpy.

--against OLD: the same for two builds, new over old (below 1: the new one is faster). Per model the median over the rounds of the ratio of the two neighbouring
processes' medians, with its 95 % interval from order statistics (that of the sign test; all rounds where they are below 6); then the geometric mean of the
models' ratios with its 95 % interval from the bootstrap, which draws rounds of each model anew. One model in twenty is slower or faster by chance. --clock cpu
compares processor time: for busy machines, with one thread. Exit status: 1 where a model did not run. Needs nothing but Python.
"""
import argparse
import functools
import json
import math
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

DRAWS = 2000  # of the bootstrap
ENOUGH = 6  # rounds of which an interval tells something
BURST, FEWEST, MOST = 0.5, 3, 1000  # seconds and runs of a process with --against


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


def inputs_of(model):
    return model.parent / (model.name.split(".")[0] + ".inputs.npz")


@functools.cache
def taken_inputs(binary, model, folder):
    """The arrays of NAME.inputs.npz that the model has inputs for, as a file, in the folder where some are left out: an exporter drops what nothing reads."""
    given = inputs_of(model)
    told = subprocess.run([binary, "inspect", str(model), "--json"], capture_output=True, text=True)
    if not given.exists() or told.returncode != 0:
        return given  # what is wrong is told where the model is run
    names = {f"{i['name']}.npy" for i in json.loads(told.stdout)["inputs"]}
    with zipfile.ZipFile(given) as whole:
        if names >= set(whole.namelist()):
            return given
        out = folder / f"{model.name}.npz"
        with zipfile.ZipFile(out, "w") as part:
            for name in names & set(whole.namelist()):
                part.writestr(name, whole.read(name))
    return out


def ours(args, binary, model, threads):
    inputs = taken_inputs(args.binary, model, args.folder)
    words = [binary, "bench", model, "--threads", threads, "--iterations", args.iterations, "--warmup", args.warmup, "--json", "--no-table"]
    words += ["--inputs", inputs] if inputs.exists() else [w for d in args.dim for w in ("--dim", d)]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"{binary} ended with status {done.returncode}")
    out = json.loads(done.stdout)
    return {"seconds": out["models"][0]["all_seconds"], "cpu": out["models"][0]["cpu_seconds"]["median"], "peak": out["peak_bytes"]}


def theirs(args, model, threads):
    words = [sys.executable, __file__, "--child", str(model), str(inputs_of(model)), str(threads), str(args.warmup), str(args.iterations)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def in_turns(rounds, sides):
    """What each side gave in each round; `sides` maps names to functions. Who is first changes from round to round."""
    runs = {name: [] for name in sides}
    for turn in range(rounds):
        for name in sides if turn % 2 == 0 else reversed(sides):
            runs[name].append(sides[name]())
    return runs


def compare(args, model, threads):
    runs = in_turns(args.rounds, {"ours": lambda: ours(args, args.binary, model, threads), "ort": lambda: theirs(args, model, threads)})
    times = {side: [s for r in rs for s in r["seconds"]] for side, rs in runs.items()}
    median = {side: statistics.median(t) for side, t in times.items()}
    peak = {side: statistics.median(r["peak"] for r in rs) for side, rs in runs.items()}
    cpu = {side: statistics.median(r["cpu"] for r in rs) for side, rs in runs.items()}
    rounds = [statistics.median(a["seconds"]) / statistics.median(b["seconds"]) for a, b in zip(runs["ours"], runs["ort"])]
    return {"model": model.name, "threads": threads, "ours": median["ours"], "ort": median["ort"], "ratio": statistics.median(rounds),
            "low": min(rounds), "high": max(rounds), "cpu_ratio": cpu["ours"] / cpu["ort"],
            "ratio_of_fastest": min(times["ours"]) / min(times["ort"]), "peak_ours": peak["ours"], "peak_ort": peak["ort"]}


def interval(values):
    """Median with the 95 % interval from order statistics."""
    ordered, n = sorted(values), len(values)
    half = 0.98 * math.sqrt(n)
    low, high = max(0, math.floor((n - 1) / 2 - half)), min(n - 1, math.ceil((n - 1) / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]


def geomean_interval(rows):
    """Geometric mean of the models' medians with the 95 % interval over draws of each model's rounds."""
    rng = random.Random(0)
    draws = sorted(geomean([statistics.median(rng.choices(r["ratios"], k=len(r["ratios"]))) for r in rows]) for _ in range(DRAWS))
    return geomean([r["ratio"] for r in rows]), draws[int(0.025 * DRAWS)], draws[int(0.975 * DRAWS)]


def bursts(args, model, threads):
    """The arguments with as many runs a process as take BURST seconds, where none are asked for."""
    if args.iterations:
        return args
    probe = ours(argparse.Namespace(**vars(args) | {"iterations": 3, "warmup": 1}), args.binary, model, threads)
    seconds = max(1e-6, statistics.median(probe["seconds"]))
    return argparse.Namespace(**vars(args) | {"iterations": min(MOST, max(FEWEST, math.ceil(BURST / seconds)))})


def compare_builds(args, model, threads):
    args = bursts(args, model, threads)
    runs = in_turns(args.rounds, {"new": lambda: ours(args, args.binary, model, threads), "old": lambda: ours(args, args.against, model, threads)})
    clocks = {"wall": lambda r: statistics.median(r["seconds"]), "cpu": lambda r: r["cpu"]}
    times = {clock: {side: [of(r) for r in rs] for side, rs in runs.items()} for clock, of in clocks.items()}
    ratios = {clock: [a / b for a, b in zip(t["new"], t["old"])] for clock, t in times.items()}
    fastest = {side: min(s for r in rs for s in r["seconds"]) for side, rs in runs.items()}
    peak = {side: statistics.median(r["peak"] for r in rs) for side, rs in runs.items()}
    ratio, low, high = interval(ratios[args.clock])
    return {"model": model.name, "threads": threads, "clock": args.clock, "iterations": args.iterations, "ratio": ratio, "low": low, "high": high,
            "ratios": ratios[args.clock], **{side: statistics.median(t) for side, t in times[args.clock].items()},
            "cpu_ratio": statistics.median(ratios["cpu"]), "ratio_of_fastest": fastest["new"] / fastest["old"],
            "peak_new": peak["new"], "peak_old": peak["old"], "peak_ratio": peak["new"] / peak["old"]}


def print_builds(args, models, threads):
    """Rows of the two builds, printed as they come."""
    title = f"{threads} thread{'s' if threads > 1 else ''}, {args.clock} time"
    print(f"{title:40}{'new':>12}{'old':>12}   ratio   95 % interval  of fastest  of cpu  of peaks")
    rows = []
    for model in models:
        try:
            r = compare_builds(args, model, threads)
        except RuntimeError as error:
            print(f"{model.name:40}{error}", flush=True)
            continue
        rows.append(r)
        print(f"{r['model']:40}{r['new'] * 1e3:9.2f} ms{r['old'] * 1e3:9.2f} ms{r['ratio']:8.3f}   {r['low']:.3f}..{r['high']:.3f}"
              f"{r['ratio_of_fastest']:13.3f}{r['cpu_ratio']:8.3f}{r['peak_ratio']:10.3f}", flush=True)
    if rows:
        mean, low, high = geomean_interval(rows)
        fastest, cpu, peak = (geomean([r[key] for r in rows]) for key in ("ratio_of_fastest", "cpu_ratio", "peak_ratio"))
        print(f"{f'geometric mean of {len(rows)}, {args.rounds} rounds':64}{mean:8.3f}   {low:.3f}..{high:.3f}{fastest:13.3f}{cpu:8.3f}{peak:10.3f}")
        if args.rounds < ENOUGH:
            print(f"fewer than {ENOUGH} rounds: intervals are all that was seen\n", flush=True)
            return rows
        slower, faster = [r["model"] for r in rows if r["low"] > 1], [r["model"] for r in rows if r["high"] < 1]
        print(f"slower: {', '.join(slower) or 'none'}; faster: {', '.join(faster) or 'none'}\n", flush=True)
    return rows


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


def find(words, parser):
    """Models of all words that are files or folders, with the other words as parts of file names."""
    folders = [pathlib.Path(w) for w in words if pathlib.Path(w).exists()]
    names = [w for w in words if not pathlib.Path(w).exists()]
    if not folders:
        parser.error(f"{words[0]}: there is no such file or folder; name what bench/export/export_models.py wrote")
    models = [p for f in folders for p in (sorted(f.glob("*.onnx")) if f.is_dir() else [f]) if not names or any(n in p.name for n in names)]
    if not models:
        parser.error(f"no model in {', '.join(map(str, folders))}" + (f" has {' or '.join(names)} in its name" if names else ""))
    return models


def print_against_ort(args, models, threads):
    """Rows of our runtime and ONNX Runtime, printed as they come."""
    rows = []
    print(f"{threads} thread{'s' if threads > 1 else ''}{'':40}ours        ORT   ratio  of rounds    of fastest  of cpu   peak ours    peak ORT")
    for model in models:
        try:
            r = compare(args, model, threads)
        except RuntimeError as error:
            print(f"{model.name:40}{error}", flush=True)
            continue
        rows.append(r)
        print(f"{r['model']:40}{r['ours'] * 1e3:9.2f} ms{r['ort'] * 1e3:8.2f} ms{r['ratio']:8.2f}  {r['low']:.2f}..{r['high']:.2f}{r['ratio_of_fastest']:12.2f}{r['cpu_ratio']:8.2f}"
              f"{r['peak_ours'] / 2**20:8.0f} MiB{r['peak_ort'] / 2**20:8.0f} MiB", flush=True)
    if rows:
        print(f"{'geometric mean':62}{geomean([r['ratio'] for r in rows]):8.2f}{'':12}{geomean([r['ratio_of_fastest'] for r in rows]):12.2f}{geomean([r['cpu_ratio'] for r in rows]):8.2f}"
              f"{'':8}memory ratio {geomean([r['peak_ours'] / r['peak_ort'] for r in rows]):.2f}\n", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="+", metavar="FOLDER|MODEL|NAME", help="folders, models, and parts of file names; default: all of the folders")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--against", metavar="OLD", help="compare with another build of ours instead of with ONNX Runtime")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="with --against")
    parser.add_argument("--dim", action="append", default=[], metavar="SYMBOL=SIZE", help="with --against, of models without inputs")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=0, help="default: 5; with --against 15")
    parser.add_argument("--iterations", type=int, default=0, help=f"runs of a process; default: 5; with --against {FEWEST} to {MOST}, {BURST} s")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table of docs/latency.md; without --against")
    args = parser.parse_intermixed_args()
    if args.against and args.markdown:
        parser.error("--markdown writes the table against ONNX Runtime; leave it or --against out")
    args.rounds = args.rounds or (15 if args.against else 5)
    args.iterations = args.iterations or (0 if args.against else 5)
    models, results = find(args.words, parser), []
    with tempfile.TemporaryDirectory() as folder:
        args.folder = pathlib.Path(folder)
        for threads in map(int, args.threads.split(",")):
            results += (print_builds if args.against else print_against_ort)(args, models, threads)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    if args.markdown and results:
        args.markdown.write_text(markdown(results))
    return 0 if len(results) == len(models) * len(args.threads.split(",")) or not args.against else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        ort_child(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
    else:
        sys.exit(main())
