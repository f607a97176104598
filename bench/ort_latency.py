#!/usr/bin/env python3
"""Latency in ONNX Runtime of a model as it is and as optimizers write it, as users load it (ENABLE_ALL).

    python bench/ort_latency.py FOLDER --binary build/release/tools/saturate [NAME ...] [--tools saturate,onnxslim,...] [--threads 1,2] [--rounds 30]
        [--clock wall|cpu] [--work FOLDER] [--json OUT.json] [--shuffle-seed 0] [--options "--cost nodes"] [--prepare] [--discard] [--budget S]

FOLDER is what bench/export_models.py wrote (NAME.EXPORTER.onnx, NAME.inputs.npz). Tools: saturate, onnxslim, onnxsim, onnxscript (optimize and
ort_fusions.optimize_for_ort), ortpy (onnxruntime.transformers, the best model type of a few by number of nodes). Outputs are kept in --work, so that a second
call only measures; one that is older than the tool is not noticed: remove it. All outputs of a model are timed in one process, in another order each
round. Printed: the median over rounds of (tool / original) of the same round with its 95 % interval (order statistics of the median), 1 exactly where ONNX
Runtime executes the same kernels, "wrong" where outputs differ from the original's by more than 1e-3 of their scale. The last line counts slower ones
(lower bound above 1). --clock cpu takes processor time, for busy machines and one thread. --prepare only makes the outputs; --discard removes those of a model
once it is measured; what is in OUT.json already isn't measured again, so that --budget (seconds) may end a call and the same command goes on.
"""
import argparse
import collections
import gc
import hashlib
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

TOOLS = ("saturate", "onnxslim", "onnxsim", "onnxscript", "ortpy")
MODEL_TYPES = ("bert", "gpt2", "bart", "vit", "t5")
TOLERANCE = 1e-3
FEWEST_ROUNDS = 9


def run_tool(tool, source, target):
    """In a process of its own."""
    import onnx

    if tool == "onnxslim":
        import onnxslim

        onnxslim.slim(source, target)
    elif tool == "onnxsim":
        import onnxsim

        model, ok = onnxsim.simplify(source)
        assert ok
        onnx.save(model, target)
    elif tool == "onnxscript":
        import onnx_ir
        import onnxscript.optimizer
        from onnxscript.rewriter.ort_fusions import optimize_for_ort

        model = onnx_ir.load(source)
        onnxscript.optimizer.optimize(model)
        model, _ = optimize_for_ort(model)
        onnx_ir.save(model, target)
    else:
        from onnxruntime.transformers import optimizer

        best = None
        for kind in MODEL_TYPES:
            try:
                model = optimizer.optimize_model(source, model_type=kind, num_heads=0, hidden_size=0, opt_level=0)
            except Exception:
                continue
            if best is None or len(model.model.graph.node) < len(best.model.graph.node):
                best = model
        best.save_model_to_file(target)


def make(args, tool, source):
    target = args.work / f"{source.stem}.{tool}.onnx"
    if target.exists():
        return target
    partial = target.with_suffix(".part.onnx")
    if tool == "saturate":
        words = [args.binary, "optimize", str(source), str(partial), "-q", *args.options.split()]
    else:
        words = [sys.executable, __file__, "--tool", tool, str(source), str(partial)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=args.tool_seconds)
    except subprocess.TimeoutExpired:
        return f"no result in {args.tool_seconds} s"
    if done.returncode != 0 or not partial.exists():
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:200]
    partial.rename(target)
    return target


def session(path, threads, saved=None):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    if saved:
        options.optimized_model_filepath = saved
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def is_default(node, attribute):
    """Whether the schema says the same where the attribute is left out."""
    import onnx

    if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type):
        return False
    declared = onnx.defs.get_schema(node.op_type).attributes.get(attribute.name)
    value = onnx.helper.get_attribute_value(attribute)
    if node.op_type in ("Conv", "MaxPool", "AveragePool") and attribute.name in ("dilations", "strides", "pads", "kernel_shape"):
        return attribute.name == "kernel_shape" or set(value) == {0 if attribute.name == "pads" else 1}
    return declared is not None and declared.default_value.type != 0 and onnx.helper.get_attribute_value(declared.default_value) == value


def kernels(path):
    """What ONNX Runtime executes: operators with attributes, shapes and dtypes of weights, and which of them feed each other; names aside."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "o.onnx")
        session(path, 1, saved)
        graph = onnx.load(saved).graph
    made = {i.name: f"weight {i.data_type} {list(i.dims)}" for i in graph.initializer}
    made.update({i.name: f"input {i.name}" for i in graph.input})
    counts = collections.Counter()
    for node in graph.node:
        attributes = sorted(a.SerializeToString() for a in node.attribute if not is_default(node, a))
        key = hashlib.sha256(repr((node.domain, node.op_type, attributes, [made.get(i, "") for i in node.input])).encode()).hexdigest()
        counts[key] += 1
        made.update({o: f"{key} {k}" for k, o in enumerate(node.output)})
    return counts, len(graph.node)


def interval(ratios):
    """Median with the 95 % interval from order statistics."""
    ordered, n = sorted(ratios), len(ratios)
    half = 0.98 * math.sqrt(n)
    low, high = max(0, math.floor((n - 1) / 2 - half)), min(n - 1, math.ceil((n - 1) / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]


def difference(ours, theirs):
    import numpy as np

    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        if a.size and a.dtype.kind == "f":
            scale = max(1.0, float(np.nanmax(np.abs(a))))
            worst = max(worst, float(np.nanmax(np.abs(a - b))) / scale) if (np.isnan(a) == np.isnan(b)).all() else math.inf
        elif not np.array_equal(a, b):
            return math.inf
    return worst


def compare(args, source, threads):
    import numpy as np

    outputs = {"original": source}
    rows = []
    for tool in args.tools:
        made = make(args, tool, source)
        if isinstance(made, pathlib.Path):
            outputs[tool] = made
        else:
            rows.append({"model": source.stem, "threads": threads, "tool": tool, "error": made})
    base_kernels = kernels(source)[0]
    with np.load(source.parent / (source.name.split(".")[0] + ".inputs.npz")) as file:
        inputs = dict(file)
    sessions, results = {}, {}
    for tool, path in outputs.items():
        try:
            counts, number = kernels(path)
            s = session(path, threads)
            feeds = {i.name: inputs[i.name] for i in s.get_inputs()}
            out = s.run([o.name for o in session_outputs(sessions, s)], feeds)
        except Exception as error:
            rows.append({"model": source.stem, "threads": threads, "tool": tool, "error": str(error).splitlines()[0][:200]})
            continue
        results[tool] = {"model": source.stem, "threads": threads, "tool": tool, "kernels": number, "same_kernels": counts == base_kernels}
        if tool == "original":
            reference = out
        else:
            results[tool]["difference"] = difference(reference, out)
        if tool == "original" or counts != base_kernels:
            sessions[tool] = (s, feeds)
        del s
    clock = time.process_time if args.clock == "cpu" else time.perf_counter
    times, rng = collections.defaultdict(list), random.Random(args.shuffle_seed)
    end = time.perf_counter() + args.model_seconds
    for round_number in range(args.rounds + 2):
        if round_number >= FEWEST_ROUNDS + 2 and time.perf_counter() > end:
            break
        order = list(sessions)
        rng.shuffle(order)
        for tool in order:
            s, feeds = sessions[tool]
            begin = clock()
            s.run(None, feeds)
            if round_number >= 2:
                times[tool].append(clock() - begin)
    for tool, row in results.items():
        if tool in times:
            row["seconds"] = statistics.median(times[tool])
            row["ratio"], row["low"], row["high"] = interval([t / o for t, o in zip(times[tool], times["original"])])
        else:
            row["ratio"] = row["low"] = row["high"] = 1.0
        rows.append(row)
    sessions.clear()
    gc.collect()
    return rows


def session_outputs(sessions, s):
    return (sessions["original"][0] if "original" in sessions else s).get_outputs()


def show(row):
    if "error" in row:
        return f"  {row['tool']:12}{row['error']}"
    if row["tool"] == "original":
        return f"  {'original':12}{row['seconds'] * 1e3:9.2f} ms {row['kernels']:6} kernels"
    wrong = "" if row["difference"] <= TOLERANCE else f"  wrong: {row['difference']:.2g}"
    return f"  {row['tool']:12}{row['ratio']:9.3f}  [{row['low']:.3f}, {row['high']:.3f}]{row['kernels']:6} kernels{' the same' if row['same_kernels'] else ''}{wrong}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of file names; default: all")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--options", default="", help="of saturate")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--tool-seconds", type=float, default=600)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("ort_latency"))
    parser.add_argument("--shuffle-seed", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--discard", action="store_true")
    parser.add_argument("--budget", type=float, default=0, help="seconds after which no further model is begun")
    parser.add_argument("--model-seconds", type=float, default=120, help="of rounds for each model and number of threads; at least 9 rounds are made")
    args = parser.parse_args()
    args.tools = args.tools.split(",")
    args.work.mkdir(parents=True, exist_ok=True)
    rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    begin = time.perf_counter()
    for source in sorted(args.folder.glob("*.onnx")):
        if args.names and not any(n in source.name for n in args.names):
            continue
        for threads in map(int, args.threads.split(",")):
            if any(r["model"] == source.stem and r["threads"] == threads for r in rows):
                continue
            if args.budget and time.perf_counter() - begin > args.budget:
                print("the time is over; the same command goes on")
                return 0
            if args.prepare:
                print(source.stem, *(made if isinstance(made := make(args, t, source), str) else t for t in args.tools), flush=True)
                break
            print(f"{source.stem}, {threads} thread{'s' if threads > 1 else ''}", flush=True)
            for row in compare(args, source, threads):
                rows.append(row)
                print(show(row), flush=True)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))
        for made in args.work.glob(f"{source.stem}.*") if args.discard else ():
            made.unlink()
    if args.prepare:
        return 0
    for tool in args.tools:
        mine = [r for r in rows if r["tool"] == tool and "ratio" in r]
        if mine:
            slower, wrong = [r["model"] for r in mine if r["low"] > 1], [r["model"] for r in mine if r["difference"] > TOLERANCE]
            print(f"{tool:12} median {statistics.median(r['ratio'] for r in mine):.3f}, worst {max(r['ratio'] for r in mine):.3f} over {len(mine)}; slower: {', '.join(slower) or 'none'}; wrong: {', '.join(wrong) or 'none'}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tool"]:
        run_tool(*sys.argv[2:5])
    else:
        sys.exit(main())
