#!/usr/bin/env python3
"""Runs random graphs (fuzz/graphs.py, fuzz/bodies.py) again and again in one session: several threads, other sizes between.

usage: fuzz_runs.py [--cases N] [--seed S] [--dtype float32|float64|float16] [--small | --operators] [--save FOLDER]

Tensors are large enough to be shared out to threads (not with --small). With --operators: single ones of all sorts and types (fuzz/specs*.py)
instead of graphs; ONNX Runtime is not asked (that is what fuzz_models.py does). Looked for: a run that differs by a single bit from the first one or
from that of one thread; results and inputs that a later run overwrote; numbers other than the reference kernels' or ONNX Runtime's. Prints a
line for each such case and exits 1 if there was one. Needs the packages onnx-saturate and onnxruntime.
"""
import collections
import pathlib
import sys
import warnings

import numpy as np
import onnxruntime
from onnx import TensorProto, numpy_helper

import onnx_saturate

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fuzz import bodies, draw, graphs, specs, specs_contrib, specs_data  # noqa: E402, F401
from fuzz.cases import close, keep, parser  # noqa: E402

THREADS = (1, 2, 3)
RUNS = 3
LARGE, MOST = (1, 2, 3, 7, 16, 33, 64, 100, 130, 257), 400_000
SMALLER = (TensorProto.FLOAT, TensorProto.FLOAT16)


def same(a, b):
    """Bit by bit; of NaNs none is told from another."""
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and (x.tobytes() == y.tobytes() or (x.dtype.kind == "f" and np.array_equal(x, y, equal_nan=True) and np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0]))))
        for x, y in zip(a, b))


def all_close(a, b):
    return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))


def other_sizes(model, feed):
    """Inputs with one row less or more, where the model leaves the size open."""
    other = {}
    for info in model.graph.input:
        array, dims = feed[info.name], info.type.tensor_type.shape.dim
        rows = np.concatenate([array, array[:1]]) if len(array) < 3 else array[:-1]
        other[info.name] = np.ascontiguousarray(rows) if dims[0].dim_param else array
    return other


def onnx_runtime(model, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def values(session, feed):
    return list(session.run(feed).values())


def repeated(session, feed, between, kept):
    """What is wrong with runs on `feed` (and on `between`, in turns), which should give `kept`; None where nothing is."""
    first = values(session, feed)
    copies, given = [v.copy() for v in first], {n: v.copy() for n, v in feed.items()}
    if not same(first, kept):
        return "differs from another session of one thread"
    for _ in range(RUNS - 1):
        if between is not None:
            values(session, between)
        if not same(values(session, feed), copies):
            return "differs from the first run"
    if not same(first, copies):
        return "overwrote an earlier result"
    return None if same(list(feed.values()), list(given.values())) else "overwrote an input"


def widened(graph):
    """The graph with float64 wherever it has another float; changed in place."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in SMALLER:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in (*graph.initializer, *(a.t for n in graph.node for a in n.attribute if a.HasField("t"))):
        if tensor.data_type in SMALLER:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for attribute in (a for n in graph.node for a in n.attribute):
        if attribute.name == "to" and attribute.i in SMALLER:
            attribute.i = TensorProto.DOUBLE
        if attribute.HasField("g"):
            widened(attribute.g)


def nearer(model, feed, ours, theirs):
    """Whether ours are nearer than theirs to what float64 gives, or as near."""
    wide = type(model).FromString(model.SerializeToString())
    widened(wide.graph)
    exact = values(onnx_saturate.Session(wide, reference=True), {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in feed.items()})
    return all(o.shape == e.shape and np.abs(o - e).max(initial=0) <= 1.5 * np.abs(t - e).max(initial=0) + 1e-6 for o, t, e in zip(ours, theirs, exact) if not close(o, t))


def runs_differ(model, feed, kept, other, judged):
    """What is wrong with runs on several threads, if anything. `judged`: what the reference kernels give for `other`."""
    for threads in THREADS:
        session = onnx_saturate.Session(model, threads=threads)
        problem = repeated(session, feed, other, kept)
        if problem is None and other is not None and not all_close(judged, values(session, other)):
            problem = "other numbers than the reference kernels' on other sizes"
        if problem:
            return f"{threads} threads: {problem}"
    return None


def of_graph(model, feed):
    """A word, and what is wrong, if anything."""
    try:
        wanted = values(onnx_saturate.Session(model, reference=True), feed)
    except onnx_saturate.Error as error:
        return "wrong", f"refused: {error}"
    kept = values(onnx_saturate.Session(model), feed)
    if not all_close(wanted, kept):
        return "wrong", "other numbers than the reference kernels'"
    other, judged = other_sizes(model, feed), None
    try:
        judged = values(onnx_saturate.Session(model, reference=True), other)
    except onnx_saturate.Error:
        other = None  # a constant of it depends on the size
    problem = runs_differ(model, feed, kept, other, judged)
    if problem:
        return "wrong", problem
    if any(v.dtype == np.float16 for v in feed.values()):
        return "right", None  # ONNX Runtime goes on in float32 from one operator to the next
    try:
        theirs = onnx_runtime(model, feed)
    except Exception:
        return "right, ONNX Runtime refuses", None
    if all_close(theirs, kept):
        return "right", None
    return ("right, ONNX Runtime rounds more", None) if nearer(model, feed, kept, theirs) else ("wrong", "other numbers than ONNX Runtime's")


def of_operator(model, feed):
    """The same; only one run is held against another."""
    try:
        kept = values(onnx_saturate.Session(model), feed)
    except onnx_saturate.Error:
        return "refused", None
    if not all(isinstance(v, np.ndarray) and v.dtype.kind in "biufcV" for v in kept):
        return "no numbers", None
    problem = runs_differ(model, feed, kept, None, None)
    return ("wrong", problem) if problem else ("right", None)


def cases(args):
    """(seed, model, feed, operators)"""
    for number in range(args.cases):
        seed = args.seed * 1_000_003 + number
        if not args.operators:
            case = graphs.random_graph(seed, args.dtype, bodies.STEPS, *(() if args.small else (LARGE, MOST)))
        else:
            opset = (13, 15, 17, 18, 20, 21, 23, 24)[number % 8]
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    case = draw.random_model(seed, specs.SPECS, opset, large=True)
            except (draw.Skip, KeyError, IndexError, ValueError, TypeError):
                continue
        if case and case[2]:
            yield seed, *case


def main():
    args = parser(__doc__, {"--small": "tensors of a few elements", "--operators": "single operators of all sorts and types"}).parse_args()
    onnxruntime.set_default_logger_severity(4)
    counts, ops = collections.Counter(), collections.Counter()
    for seed, model, feed, operators in cases(args):
        word, why = (of_operator if args.operators else of_graph)(model, feed)
        counts[word] += 1
        ops.update(set(operators))
        if why:
            print(f"seed {seed}, {' '.join(operators)}: {why}", flush=True)
            keep(args.save, seed, model, feed)
    print(", ".join(f"{count} {word}" for word, count in counts.most_common()))
    print(f"{len(ops)} operators; graphs with If, Loop, Scan: " + ", ".join(str(ops[name]) for name in ("If", "Loop", "Scan")))
    sys.exit(counts["wrong"] > 0 or not counts["right"])


if __name__ == "__main__":
    main()
