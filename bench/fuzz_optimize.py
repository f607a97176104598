#!/usr/bin/env python3
"""Optimizes random small graphs (fuzz/graphs.py) and runs original and result in ONNX Runtime.

usage: fuzz_optimize.py [--cases N] [--seed S] [--dtype float32|float64|float16] [--bodies] [--save FOLDER]

Each is verified by saturate's own runtime as always; then ONNX Runtime runs the original as it stands and the result with and without its own
optimizer. Targets and cost models take turns. Prints a line for each case in which something is wrong (not verified, refused by ONNX Runtime
though it runs the original, other numbers) and exits 1 if there was one; --save keeps them. Needs the packages onnx-saturate and onnxruntime.
"""
import collections
import pathlib
import sys

import onnxruntime

import onnx_saturate

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fuzz import bodies, graphs  # noqa: E402
from fuzz.cases import close, keep, parser  # noqa: E402

OPTIONS = [{"target": "ort-cpu", "cost": "nodes"}, {"target": "onnx", "cost": "nodes"}, {"target": "ort-cpu", "cost": "measured"}, {"target": "onnx", "cost": "roofline"}]
Level = onnxruntime.GraphOptimizationLevel


def run(model, feed, level):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.graph_optimization_level = 4, 1, level
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def outcome(model, feed, options):
    """A word for what happened, and what is wrong, if anything."""
    try:
        result, report = onnx_saturate.optimize_with_report(model, inputs=feed, progress=False, **options)
    except onnx_saturate.UnsupportedError as error:
        return "not verifiable", str(error)
    except onnx_saturate.Error as error:
        return "wrong", f"{type(error).__name__}: {error}"
    if not report.to_dict()["made_by_rules"]:
        return "unchanged", None
    try:
        wanted = run(model, feed, Level.ORT_DISABLE_ALL)
    except Exception:
        return "ONNX Runtime refuses the original", None
    for level in (Level.ORT_DISABLE_ALL, Level.ORT_ENABLE_ALL):
        try:
            got = run(result, feed, level)
        except Exception as error:
            return "wrong", f"ONNX Runtime refuses the result: {' '.join(str(error).split())[:400]}"
        if not all(close(a, b) for a, b in zip(wanted, got)):
            return "wrong", f"other numbers in ONNX Runtime ({level.name})"
    return "changed", None


def main():
    args = parser(__doc__, {"--bodies": "also If, Loop and Scan (fuzz/bodies.py)"}).parse_args()
    onnxruntime.set_default_logger_severity(4)
    counts = collections.Counter()
    for number in range(args.cases):
        seed = args.seed * 1_000_003 + number
        case = graphs.random_graph(seed, args.dtype, bodies.STEPS if args.bodies else graphs.STEPS)
        if case is None:
            continue
        model, feed, operators = case
        options = OPTIONS[number % len(OPTIONS)]
        word, why = outcome(model, feed, options)
        counts[word] += 1
        if why:
            print(f"seed {seed}, {options['target']} by {options['cost']}, {' '.join(operators)}: {why}", flush=True)
            keep(args.save, seed, model, feed)
    print(", ".join(f"{count} {word}" for word, count in counts.most_common()))
    sys.exit(counts["wrong"] > 0 or not counts["changed"])


if __name__ == "__main__":
    main()
