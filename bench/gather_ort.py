#!/usr/bin/env python3
"""Times single operators in ONNX Runtime on this machine: the rows of the measured cost model.

    python bench/gather_ort.py OUT.jsonl [--only REGEX] [--threads 1] [--seconds 0.15]
    python bench/gather_ort.py OUT.jsonl --models M.onnx ...   # the operators of these models as ONNX Runtime runs them, instead of a grid
    python bench/gather_ort.py OUT.jsonl --graphs G.onnx ...   # whole graphs, such as `saturate extract` writes, in turns

One JSON object a line; the first describes the machine. A row: op ("domain::Op"), dtype, in and out (shapes), const (positions of inputs that are
weights), attrs, and seconds for one run of the kernel. A kernel is timed as the difference between a graph with many copies of it and one with few,
both without graph optimization, so that the runtime's own overhead per call drops out; the least of many rounds counts.
"""
import argparse
import functools
import json
import os
import platform
import re
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

MS = "com.microsoft"
FLOAT, INT64, BOOL, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.INT32
FEW, ROUNDS = 2, 5
DTYPE_NAMES = {"float32": "float", "float64": "double"}


class Case:
    """A node: inputs are (shape, how they are filled); `weights` are the positions of inputs that a model has as constants."""

    def __init__(self, op, inputs, attrs=None, weights=(), outputs=1, domain="", opset=23, from_model=False):
        self.from_model = from_model
        self.op, self.domain, self.attrs, self.weights, self.outputs, self.opset = op, domain, attrs or {}, weights, outputs, opset
        self.inputs = [i if i is None or isinstance(i, (tuple, np.ndarray)) else tuple(i) for i in inputs]

    def name(self):
        return f"{self.domain}::{self.op}" if self.domain else self.op


def array(value, rng):
    if isinstance(value, np.ndarray):
        return value
    return rng.standard_normal(value, dtype=np.float32)


def build(case, copies, rng):
    feeds, nodes, initializers, inputs = {}, [], [], []
    for c in range(copies):
        names = []
        for i, value in enumerate(case.inputs):
            if value is None:
                names.append("")
                continue
            shared = f"x{i}"
            # Distinct weights for each copy, as in a model; activations are graph inputs shared by all copies.
            name = f"w{c}_{i}" if i in case.weights else shared
            names.append(name)
            data = array(value, rng)
            if i in case.weights:
                initializers.append(onnx.numpy_helper.from_array(data, name))
            elif c == 0:
                inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(data.dtype), data.shape))
                feeds[name] = data
        outs = [f"y{c}_{k}" for k in range(case.outputs)]
        nodes.append(helper.make_node(case.op, names, outs, domain=case.domain, **case.attrs))
        # A reader of each output, so that its memory is used again for the next copy; its own time is taken off in measure().
        nodes.extend(helper.make_node("Shape", [y], [f"s_{y}"]) for y in outs)
    # The one output is tiny: others are made and dropped inside.
    nodes.append(helper.make_node("Identity", ["one"], ["done"]))
    inputs.append(helper.make_tensor_value_info("one", FLOAT, [1]))
    feeds["one"] = np.ones(1, np.float32)
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("done", FLOAT, [1])], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset), helper.make_opsetid(MS, 1)], ir_version=10)
    return model.SerializeToString(), feeds


def session(data, threads):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def output_shapes(case, rng, threads):
    data, feeds = build(case, 1, rng)
    model = onnx.load_from_string(data)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=f"y0_{k}") for k in range(case.outputs))
    feeds.pop("one")
    del model.graph.node[-1]
    for i, value in enumerate(model.graph.input):
        if value.name == "one":
            del model.graph.input[i]
            break
    return [list(y.shape) for y in session(model.SerializeToString(), threads).run(None, feeds)]


def clock_for(threads):
    """One thread is timed by its own processor time, which other load doesn't add to."""
    return time.thread_time if threads == 1 else time.perf_counter


@functools.cache
def reader_seconds(threads):
    """What one Shape costs: chains of them on a small tensor."""
    times = []
    for n in (10, 210):
        nodes = [helper.make_node("Shape", ["x"], [f"s{i}"]) for i in range(n)] + [helper.make_node("Identity", ["x"], ["done"])]
        value = [helper.make_tensor_value_info(name, FLOAT, [1]) for name in ("x", "done")]
        model = helper.make_model(helper.make_graph(nodes, "g", value[:1], value[1:]), opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        s, best = session(model.SerializeToString(), threads), np.inf
        for _ in range(300):
            begin = time.perf_counter()
            s.run(None, {"x": np.ones(1, np.float32)})
            best = min(best, time.perf_counter() - begin)
        times.append(best)
    return (times[1] - times[0]) / 200


def measure(case, threads, seconds):
    rng = np.random.default_rng(0)
    clock = clock_for(threads)
    shapes = output_shapes(case, rng, threads)
    weight_bytes = sum(array(case.inputs[i], rng).nbytes for i in case.weights)
    sessions, best, copies = [], [np.inf, np.inf], FEW
    for k in range(2):
        if k == 1:  # so few copies that a run is shorter than a time slice: on a busy machine no longer run goes undisturbed
            copies = FEW + max(2, int(min(40, FEW * 1e-3 / best[0], 64e6 / max(1, weight_bytes))))
        data, feeds = build(case, copies, rng)
        sessions.append((session(data, threads), feeds))
        for _ in range(ROUNDS):
            begin = clock()
            sessions[k][0].run(None, feeds)
            best[k] = min(best[k], clock() - begin)
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end or rounds < ROUNDS:
        for k, (s, feeds) in enumerate(sessions):
            begin = clock()
            s.run(None, feeds)
            best[k] = min(best[k], clock() - begin)
        rounds += 1
    return (best[1] - best[0]) / (copies - FEW) - reader_seconds(threads) * case.outputs, shapes


def row(case, threads, seconds):
    spent, shapes = measure(case, threads, seconds)
    full = [None if v is None else list(v.shape if isinstance(v, np.ndarray) else v) for v in case.inputs]
    first = next((v for v in case.inputs if v is not None), None)
    dtype = DTYPE_NAMES.get(first.dtype.name, first.dtype.name) if isinstance(first, np.ndarray) and case.from_model else "float"
    attrs = {k: v for k, v in case.attrs.items() if isinstance(v, (int, float, list))}
    return {"op": case.name(), "dtype": dtype, "in": full, "out": shapes, "const": list(case.weights), "attrs": attrs, "threads": threads,
            "seconds": round(max(spent, 1e-9), 9)}


SEQUENCES = (1, 16, 128, 512)


def elementwise():
    for rows in SEQUENCES:
        for width in (64, 768, 3072):
            x = (1, rows, width)
            for op in ("Sqrt", "Tanh", "Erf", "Sigmoid", "Exp", "Neg", "Reciprocal", "Relu", "Gelu"):
                if width == 768 or op in ("Tanh", "Erf", "Gelu", "Sigmoid"):
                    yield Case(op, [x])
            yield Case("Gelu", [x], {"approximate": "tanh"})
            for op in ("Gelu", "QuickGelu"):
                yield Case(op, [x], {"alpha": 1.702} if op == "QuickGelu" else {}, domain=MS)
            yield Case("QuickGelu", [x], {"alpha": 1.0}, domain=MS)
            yield Case("FastGelu", [x], domain=MS)
            yield Case("FastGelu", [x, (width,)], weights=(1,), domain=MS)
            yield Case("BiasGelu", [x, (width,)], weights=(1,), domain=MS)
            for op in ("Add", "Mul", "Sub", "Div"):
                yield Case(op, [x, x])
                yield Case(op, [x, (width,)], weights=(1,))
                yield Case(op, [x, (1,)], weights=(1,))
            yield Case("Sum", [x, x])
            yield Case("Sum", [x, x, x])
            yield Case("Sum", [x, x, (width,)], weights=(2,))
            yield Case("Pow", [x, np.array(2.0, np.float32)], weights=(1,))
            yield Case("Pow", [x, np.array(3.0, np.float32)], weights=(1,))


def norms():
    for rows in SEQUENCES:
        for width in (64, 384, 768, 2048):
            x, w = (1, rows, width), (width,)
            yield Case("LayerNormalization", [x, w, w], {"epsilon": 1e-5}, weights=(1, 2))
            yield Case("RMSNormalization", [x, w], {"epsilon": 1e-5}, weights=(1,))
            yield Case("SimplifiedLayerNormalization", [x, w], {"epsilon": 1e-5, "axis": -1, "stash_type": 1}, weights=(1,), opset=17)
            yield Case("SkipLayerNormalization", [x, x, w, w], {"epsilon": 1e-5}, weights=(2, 3), domain=MS)
            yield Case("SkipLayerNormalization", [x, x, w, w, w], {"epsilon": 1e-5}, weights=(2, 3, 4), outputs=4, domain=MS)
            yield Case("SkipSimplifiedLayerNormalization", [x, x, w], {"epsilon": 1e-5}, weights=(2,), domain=MS)
            yield Case("SkipSimplifiedLayerNormalization", [x, x, w], {"epsilon": 1e-5}, weights=(2,), outputs=4, domain=MS)
            axes = np.array([-1], np.int64)
            yield Case("ReduceMean", [x, axes], {"keepdims": 1}, weights=(1,))
            yield Case("ReduceSum", [x, axes], {"keepdims": 1}, weights=(1,))
        for keys in sorted({rows, 128, 512}):
            yield Case("Softmax", [(1, 12, rows, keys)], {"axis": -1})
            scores, mask = (1, 12, rows, keys), (1, 1, rows, keys)
            yield Case("Add", [scores, mask])
            yield Case("Mul", [scores, (1,)], weights=(1,))
            yield Case("Div", [scores, (1,)], weights=(1,))
            yield Case("Where", [np.ones(mask, bool), scores, np.zeros((1,), np.float32)])


def movement():
    for rows in SEQUENCES:
        heads, x = (1, rows, 12, 64), (1, rows, 768)
        yield Case("Transpose", [heads], {"perm": [0, 2, 1, 3]})
        yield Case("Transpose", [(1, 12, rows, 64)], {"perm": [0, 2, 1, 3]})
        yield Case("Transpose", [(1, 12, rows, 64)], {"perm": [0, 1, 3, 2]})
        yield Case("Transpose", [heads], {"perm": [0, 2, 3, 1]})
        yield Case("Reshape", [x, np.array([1, rows, 12, 64], np.int64)], weights=(1,))
        yield Case("Unsqueeze", [x, np.array([1], np.int64)], weights=(1,))
        yield Case("Squeeze", [(1, 1, rows, 768), np.array([1], np.int64)], weights=(1,))
        yield Case("Identity", [x])
        yield Case("Expand", [(1, 4, 1, rows, 64), np.array([1, 4, 3, rows, 64], np.int64)], weights=(1,))
        yield Case("Concat", [(1, 12, 128, 64), (1, 12, rows, 64)], {"axis": 2})
        yield Case("Concat", [(1, 12, rows, 32), (1, 12, rows, 32)], {"axis": 3})
        yield Case("Split", [(1, rows, 2304), np.array([768, 768, 768], np.int64)], {"axis": 2}, weights=(1,), outputs=3)
        bounds = [np.array([v], np.int64) for v in (32, 64, 3, 1)]
        yield Case("Slice", [(1, 12, rows, 64), *bounds], weights=(1, 2, 3, 4))
        yield Case("Gather", [(30522, 768), np.zeros((1, rows), np.int64)], {"axis": 0})
        yield Case("Cast", [np.zeros((1, rows), np.int64)], {"to": FLOAT})
        yield Case("Neg", [(1, 12, rows, 32)])
        yield Case("Mul", [(1, 12, rows, 64), (1, 1, rows, 64)])
        table = (512, 32)
        yield Case("RotaryEmbedding", [(1, 12, rows, 64), np.arange(rows, dtype=np.int64)[None], table, table], weights=(2, 3), domain=MS)
        yield Case("RotaryEmbedding", [(1, 12, rows, 64), (1, rows, 32), (1, rows, 32)])
    yield Case("Shape", [(1, 128, 768)])
    yield Case("Gather", [np.arange(4, dtype=np.int64), np.array(1, np.int64)], {"axis": 0}, weights=(1,))
    yield Case("Concat", [np.ones(1, np.int64), np.ones(1, np.int64)], {"axis": 0})
    yield Case("Unsqueeze", [np.array(3, np.int64), np.array([0], np.int64)], weights=(1,))
    yield Case("Add", [np.array(3, np.int64), np.array(5, np.int64)])


def products():
    for rows in SEQUENCES:
        for k, n in ((768, 768), (768, 2304), (768, 3072), (3072, 768), (384, 1536)):
            yield Case("MatMul", [(1, rows, k), (k, n)], weights=(1,))
            yield Case("Gemm", [(rows, k), (k, n), (n,)], weights=(1, 2))
            if k == 768:
                yield Case("Gemm", [(rows, k), (n, k), (n,)], {"transB": 1}, weights=(1, 2))
        for keys in sorted({rows, 128, 1024 if rows == 1 else 128}):
            q, kt, p, v = (1, 12, rows, 64), (1, 12, 64, keys), (1, 12, rows, keys), (1, 12, keys, 64)
            yield Case("MatMul", [q, kt])
            yield Case("MatMul", [p, v])
            yield Case("FusedMatMul", [q, (1, 12, keys, 64)], {"transB": 1, "alpha": 0.125}, domain=MS)
            yield Case("MatMul", [(1, 4, 3 * rows, 64), (1, 4, 64, keys)])


def attention():
    for rows in SEQUENCES:
        for keys in sorted({rows, 128, 1024}) if rows == 1 else (rows,):
            flat_q, flat_k = (1, rows, 768), (1, keys, 768)
            q, k = (1, 12, rows, 64), (1, 12, keys, 64)
            grouped = (1, 4, keys, 64)
            mask = (1, 1, rows, keys)
            yield Case("MultiHeadAttention", [flat_q, flat_k, flat_k], {"num_heads": 12}, domain=MS)
            yield Case("MultiHeadAttention", [flat_q, flat_k, flat_k, None, None, mask], {"num_heads": 12}, domain=MS)
            yield Case("MultiHeadAttention", [flat_q, k, k], {"num_heads": 12}, domain=MS)
            yield Case("Attention", [q, k, k])
            yield Case("Attention", [q, k, k, mask])
            yield Case("Attention", [flat_q, flat_k, flat_k], {"q_num_heads": 12, "kv_num_heads": 12})
            yield Case("Attention", [flat_q, flat_k, flat_k, mask], {"q_num_heads": 12, "kv_num_heads": 12})
            yield Case("Attention", [q, grouped, grouped])
            yield Case("Attention", [q, grouped, grouped, mask])
            if keys > rows:
                past, new = (1, 12, keys - rows, 64), (1, 12, rows, 64)
                yield Case("Attention", [new, new, new, mask, past, past], outputs=3)
                yield Case("MultiHeadAttention", [flat_q, flat_q, flat_q, None, None, mask, past, past], {"num_heads": 12}, outputs=3, domain=MS)
        yield Case("Attention", [(1, rows, 768), (768, 2304), (2304,)], {"num_heads": 12}, weights=(1, 2), domain=MS)


def convolutions():
    for channels, size in ((64, 56), (256, 14), (512, 7)):
        x = (1, channels, size, size)
        yield Case("Conv", [x, (channels, channels, 3, 3), (channels,)], {"pads": [1, 1, 1, 1]}, weights=(1, 2))
        yield Case("Conv", [x, (channels, channels, 1, 1), (channels,)], weights=(1, 2))
        yield Case("Conv", [x, (channels, 1, 3, 3), (channels,)], {"pads": [1, 1, 1, 1], "group": channels}, weights=(1, 2))
        yield Case("BatchNormalization", [x, *[np.ones(channels, np.float32)] * 4], weights=(1, 2, 3, 4))


def model_feeds(model, dims, npz):
    """Inputs: those of the file, else ones for integers and random floats; symbolic dims have the sizes given, else 1 for the first axis and 128."""
    if npz:
        with np.load(npz) as file:
            return {i.name: file[i.name] for i in model.graph.input if i.name in file}
    rng, feeds, known = np.random.default_rng(0), {}, {i.name for i in model.graph.initializer}
    for info in model.graph.input:
        if info.name in known:
            continue
        tensor = info.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else dims.get(d.dim_param, 1 if axis == 0 else 128) for axis, d in enumerate(tensor.shape.dim)]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        feeds[info.name] = rng.standard_normal(shape).astype(dtype) if np.issubdtype(dtype, np.floating) else np.ones(shape, dtype)
    return feeds


def optimized(path, threads):
    """The graph that ONNX Runtime makes of a model at ENABLE_ALL."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        options.optimized_model_filepath = os.path.join(folder, "o.onnx")
        ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def from_model(path, dims, npz, threads):
    """Each different node of the optimized graph as a case, with the shapes it has in a run."""
    model = optimized(path, threads)
    feeds = model_feeds(model, dims, npz)
    constants = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
    names = [o for n in model.graph.node for o in n.output if o]
    every = onnx.ModelProto()
    every.CopyFrom(model)
    del every.graph.output[:]
    every.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    values = dict(zip(names, session(every.SerializeToString(), threads).run(None, feeds)), **feeds, **constants)
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    seen = set()
    for node in model.graph.node:
        inputs = [values.get(i) if i else None for i in node.input]
        if node.domain not in ("", MS) or any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TENSOR) for a in node.attribute):
            continue
        if any(i and v is None or isinstance(v, list) for i, v in zip(node.input, inputs)) or "" in node.output:
            continue
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        weights = tuple(i for i, name in enumerate(node.input) if name in constants)
        key = (node.op_type, weights, str(sorted(attrs.items())), str([None if v is None else (v.shape, v.dtype) for v in inputs]))
        if len(weights) < len(inputs) and key not in seen:
            seen.add(key)
            yield Case(node.op_type, inputs, attrs, weights, len(node.output), node.domain, opset, True)


def graph_rows(paths, dims, npz, threads, seconds):
    """Least processor time (one thread) or wall time of each graph as users load it; rounds go over all graphs in turns."""
    clock, entries = clock_for(threads), []
    for path in paths:
        for profiled in (False, True):
            options = ort.SessionOptions()
            options.intra_op_num_threads = threads
            options.inter_op_num_threads = 1
            options.log_severity_level = 4
            options.enable_profiling = profiled
            options.profile_file_prefix = os.path.join(tempfile.gettempdir(), f"gather_ort_{os.getpid()}")
            s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            feeds = model_feeds(onnx.load(path, load_external_data=False), dims, npz)
            for _ in range(3):
                s.run(None, feeds)
            if not profiled:
                entries.append([path, s, feeds, np.inf])
                continue
            for _ in range(5):
                s.run(None, feeds)
            with open(profile := s.end_profiling(), encoding="utf-8") as file:
                events = json.load(file)
            os.remove(profile)
            kernels = {}
            for e in events:
                if e.get("cat") == "Node" and e["name"].endswith("_kernel_time"):
                    kernels.setdefault((e["name"], e["args"].get("node_index")), []).append(e["dur"] * 1e-6)
            entries[-1].append(sum(min(times) for times in kernels.values()))
    end, rounds = time.perf_counter() + seconds * len(paths), 0
    while time.perf_counter() < end or rounds < ROUNDS:
        for entry in entries:
            begin = clock()
            entry[1].run(None, entry[2])
            entry[3] = min(entry[3], clock() - begin)
        rounds += 1
    for path, _, _, least, kernels in entries:
        yield {"graph": str(path), "seconds": least, "operators_seconds": kernels, "threads": threads}


def machine():
    model = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read()
        found = re.search(r"model name\s*:\s*(.*)", text)
        model = found.group(1) if found else ""
        wide = [f for f in ("avx2", "avx512f", "avx512_vnni", "amx_tile") if f in text]
    return {"machine": {"processor": model, "extensions": wide if model else [], "cores": os.cpu_count(), "system": platform.system()},
            "runtime": f"onnxruntime {ort.__version__}", "provider": "CPUExecutionProvider"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--only", default="", help="operators that match this expression")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.15, help="for each row")
    parser.add_argument("--models", nargs="+", default=[], metavar="M.onnx")
    parser.add_argument("--graphs", nargs="+", default=[], metavar="G.onnx")
    parser.add_argument("--dim", action="append", default=[], metavar="SYMBOL=SIZE", help="for --models and --graphs")
    parser.add_argument("--inputs", metavar="X.npz", help="for --models and --graphs")
    args = parser.parse_args()
    ort.set_default_logger_severity(4)
    count = 0
    dims = {name: int(size) for name, size in (d.rsplit("=", 1) for d in args.dim)}
    families = [functools.partial(from_model, m, dims, args.inputs, args.threads) for m in args.models] or (elementwise, norms, movement, products, attention, convolutions)
    with open(args.out, "w", encoding="utf-8") as out:
        out.write(json.dumps(machine()) + "\n")
        for r in graph_rows(args.graphs, dims, args.inputs, args.threads, args.seconds) if args.graphs else ():
            out.write(json.dumps(r) + "\n")
            count += 1
        for family in () if args.graphs else families:
            for case in family():
                if not re.search(args.only, case.name()):
                    continue
                try:
                    out.write(json.dumps(row(case, args.threads, args.seconds)) + "\n")
                    out.flush()
                    count += 1
                except Exception as error:  # an operator that this version lacks is told, not fatal
                    print(f"{case.name()} {case.attrs}: left out: {str(error).splitlines()[0][:160]}", file=sys.stderr)
    print(f"{count} rows in {args.out}")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
