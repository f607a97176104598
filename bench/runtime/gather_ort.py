#!/usr/bin/env python3
"""Times single operators in ONNX Runtime on this machine: the rows of the measured cost model.

    python bench/runtime/gather_ort.py OUT.jsonl [--only REGEX] [--grid NAME,...] [--threads 1] [--seconds 0.1] [--passes 4] [--budget 450] [--again 0.1]
    python bench/runtime/gather_ort.py OUT.jsonl --models M.onnx ...   # the operators of these models as ONNX Runtime runs them, instead of a grid
    python bench/runtime/gather_ort.py OUT.jsonl --graphs G.onnx ...   # whole graphs, such as `saturate extract` writes, in turns

One JSON object a line; the first describes the machine. A row: op ("domain::Op"), dtype, in and out (shapes), const (positions of inputs that are
weights), attrs, and seconds for one run of the kernel. A kernel is timed as the difference between a graph with many copies of it and one with few,
both without graph optimization, so that the runtime's own overhead per call drops out; the least of many rounds counts. All rows are measured once, in another
order each pass, before any is measured again; a row's time is the lower quartile of its passes, its noise the distance from there to the median. Every
measurement is kept in OUT.jsonl.raw, so that a second call goes on where --budget (seconds) ended the first. --again 0.1 measures only those rows again that
are noisier than that, or that took longer than a row of the same operator that is nowhere smaller.
"""
import argparse
import functools
import json
import math
import os
import pathlib
import platform
import random
import re
import statistics
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
from ort_grid import FLOAT, GRID, MS, NCHWC, Case  # noqa: E402
from ort_latency import interval  # noqa: E402

FEW, ROUNDS = 2, 5
LEAST_DIFFERENCE = 5e-8  # seconds; less can't be told from nothing
DTYPE_NAMES = {"float32": "float", "float64": "double"}


def array(value, rng):
    if isinstance(value, np.ndarray):
        return value
    return np.resize(rng.standard_normal(min(math.prod(value), 1 << 16), dtype=np.float32), value)


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
            if i in case.weights and not case.from_model and data.ndim == 2 and data.dtype.kind == "f":
                data = data / np.float32(math.sqrt(data.shape[0]))  # else scores of attention are so large that Softmax leaves denormal numbers
            if i in case.weights and case.from_model and data.size > 1 and data.dtype.kind == "f":
                data = data + np.float32(c * 1e-3).astype(data.dtype)  # equal weights would share one packed copy, and stay in the cache
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
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset), helper.make_opsetid(MS, 1), helper.make_opsetid(NCHWC, 1)], ir_version=10)
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
    readers = [n for n in model.graph.node if n.op_type == "Shape" and n.output[0].startswith("s_")]
    for node in readers:
        model.graph.node.remove(node)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=f"y0_{k}") for k in range(case.outputs))
    feeds.pop("one")
    del model.graph.node[-1]
    for i, value in enumerate(model.graph.input):
        if value.name == "one":
            del model.graph.input[i]
            break
    shapes = [list(y.shape) for y in session(model.SerializeToString(), threads).run(None, feeds)]
    return [channels_first(s) for s in shapes] if case.nhwc else shapes


def clock_for(threads):
    """One thread is timed by its own processor time, which other load doesn't add to."""
    return time.thread_time if threads == 1 else time.perf_counter


VIEWS = ("Reshape", "Unsqueeze", "Squeeze", "Flatten", "Identity")


def view(op, before, after):
    axis = {"Reshape": ["shape"], "Unsqueeze": ["axis"], "Squeeze": ["axis"]}.get(op, [])
    return helper.make_node(op, [before, *axis], [after])


@functools.cache
def chain_seconds(threads, *ops):
    """What operators cost that only give another shape: chains of them on a small tensor, each the only reader of the one before (Shape: all of the input)."""
    times = []
    for n in (10, 210):
        nodes, last = [helper.make_node("Neg", ["x"], ["v0"])], "v0"
        for i in range(n):
            if ops == ("Shape",):
                nodes.append(helper.make_node("Shape", [last], [f"s{i}"]))
                continue
            for k, op in enumerate(ops):
                nodes.append(view(op, last, f"v{i}_{k}"))
                last = f"v{i}_{k}"
        nodes.append(helper.make_node("Neg", [last], ["done"]))
        value = [helper.make_tensor_value_info(name, FLOAT, [1, 1]) for name in ("x", "done")]
        constants = [onnx.numpy_helper.from_array(np.array(v, np.int64), name) for name, v in (("shape", [1, 1]), ("axis", [1]))]
        model = helper.make_model(helper.make_graph(nodes, "g", value[:1], value[1:], constants), opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        s, best = session(model.SerializeToString(), threads), np.inf
        for _ in range(1000):
            begin = time.perf_counter()
            s.run(None, {"x": np.ones((1, 1), np.float32)})
            best = min(best, time.perf_counter() - begin)
        times.append(best)
    return (times[1] - times[0]) / 200 / len(ops)


def reader_seconds(threads):
    return chain_seconds(threads, "Shape")


def measure(case, threads, seconds):
    if case.op in VIEWS and not case.from_model:
        chain_seconds.cache_clear()
        return chain_seconds(threads, *(("Unsqueeze", "Squeeze") if "queeze" in case.op else (case.op,)))
    if case.op == "Shape":
        return reader_seconds(threads)
    if case.without:
        whole, rest = seconds_in_turns([case, case.without], threads, seconds)
        return max(whole - rest, LEAST_DIFFERENCE)
    return seconds_in_turns([case], threads, seconds)[0]


def seconds_in_turns(cases, threads, seconds):
    rng = np.random.default_rng(0)
    clock = clock_for(threads)
    weight_bytes = sum(array(cases[0].inputs[i], rng).nbytes for i in cases[0].weights)
    sessions, best, copies = [], {}, FEW

    def run(i):
        begin = clock()
        sessions[i][0].run(None, sessions[i][1])
        best[i] = min(best.get(i, np.inf), clock() - begin)

    for k in range(2):
        if k == 1:  # so few copies that a run is shorter than a time slice: on a busy machine no longer run goes undisturbed
            copies = FEW + max(2, int(min(60, FEW * 1e-3 / best[0], 64e6 / max(1, weight_bytes))))
        for case in cases:
            data, feeds = build(case, copies, rng)
            sessions.append((session(data, threads), feeds))
            for _ in range(ROUNDS):
                run(len(sessions) - 1)
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end or rounds < ROUNDS:
        for i in range(len(sessions)):
            run(i)
        rounds += 1
    n = len(cases)
    return [(best[n + i] - best[i]) / (copies - FEW) - reader_seconds(threads) * case.outputs for i, case in enumerate(cases)]


def channels_first(shape):
    return [shape[0], shape[-1], *shape[1:-1]]


def identity(case, threads):
    """What a row says of its operator, apart from outputs and times."""
    full = [None if v is None else list(v.shape if isinstance(v, np.ndarray) else v) for v in case.inputs]
    first = next((v for v in case.inputs[2 if case.op == "QLinearConcat" else 0 :] if v is not None), None)
    if case.nhwc:
        full[0] = channels_first(full[0])
    dtype = DTYPE_NAMES.get(first.dtype.name, first.dtype.name) if isinstance(first, np.ndarray) else "float"
    attrs = {k: v for k, v in case.attrs.items() if isinstance(v, (int, float, list, str)) and k != "channels_last"}
    if case.without:
        return {"op": case.name(), "dtype": dtype, "in": full[2:], "const": [i - 2 for i in case.weights if i >= 2], "attrs": {"rows": case.inputs[0][0]}, "threads": threads, "outputs": 1}
    attrs |= {"to_shape": case.inputs[1].tolist()} if case.op == "Expand" and isinstance(case.inputs[1], np.ndarray) else {}
    return {"op": case.name(), "dtype": dtype, "in": full, "const": list(case.weights), "attrs": attrs, "threads": threads, "outputs": case.outputs}


def is_beyond(a, b):
    """Whether row a is at least as large as b in every dim of the same operator."""
    alike = all(a[k] == b[k] for k in ("op", "dtype", "const", "attrs")) and [i and len(i) for i in a["in"]] == [i and len(i) for i in b["in"]]
    return alike and all(x >= y for p, q in zip(a["in"], b["in"]) if p for x, y in zip(p, q))


def summary(raw):
    """The row of all measurements of a case: the lower quartile, of differences the median."""
    times = sorted(t for t in raw["times"] if t > 0) or sorted(raw["times"])  # else the graph of few copies was disturbed all the time
    difference = "/" in raw["op"] and len(times) > 1
    low, high = (statistics.median(times), statistics.quantiles(times, n=4)[2]) if difference else (times[(len(times) - 1) // 4], statistics.median(times))
    low = max(low, 1e-9)
    row = {k: v for k, v in raw.items() if k not in ("times", "outputs") and v not in ([], {})}
    if row["dtype"] == "float":
        del row["dtype"]
    return row | {"seconds": float(f"{low:.4g}"), "noise": round(high / low - 1, 3), "passes": len(times)}


def doubtful(raws, limit):
    """Those worth measuring again: noisy ones, and pairs of which the smaller one took longer."""
    rows, again = {k: summary(r) for k, r in raws.items()}, set()
    groups = {}
    for k, r in rows.items():
        groups.setdefault(r["op"], []).append(k)
        if r["noise"] > limit:
            again.add(k)
    for keys in groups.values():
        for a in keys:
            for b in keys:
                if a != b and rows[a]["seconds"] * (1 + limit) < rows[b]["seconds"] and is_beyond(raws[a], raws[b]):
                    again |= {a, b}
    return again


def gather(cases, args, raws, raw_file):
    """Passes over all cases; each measurement is appended to raw_file at once."""
    begin, unique = time.perf_counter(), {}
    for case in cases:
        if re.search(args.only, case.name()):
            unique.setdefault(json.dumps(identity(case, args.threads)), case)
    again = doubtful({k: r for k, r in raws.items() if k in unique}, args.again) if args.again else None
    left_out = set()
    for number in range(args.passes):
        order = [k for k in unique if k not in left_out and (k in again if args.again else len(raws.get(k, {"times": ()})["times"]) <= number)]
        random.Random(number).shuffle(order)
        for key in order:
            if args.budget and time.perf_counter() - begin > args.budget:
                print(f"the time is over in pass {number + 1}; the same command goes on", file=sys.stderr)
                return
            try:
                raw = raws.get(key) or json.loads(key) | {"out": output_shapes(unique[key], np.random.default_rng(0), args.threads), "times": []}
                raw["times"].append(measure(unique[key], args.threads, args.seconds))
                raws[key] = raw
                raw_file.write(json.dumps([key, raw["out"], raw["times"][-1]]) + "\n")
                raw_file.flush()
            except Exception as error:  # an operator that this version lacks is told, not fatal
                left_out.add(key)
                print(f"{unique[key].name()} {unique[key].attrs} {json.loads(key)['in']}: left out: {str(error).splitlines()[0][:160]}", file=sys.stderr)


def read_raw(path):
    raws = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for key, out, seconds in map(json.loads, file):
                raws.setdefault(key, json.loads(key) | {"out": out, "times": []})["times"].append(seconds)
    return raws


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
        if node.domain not in ("", MS, NCHWC) or node.op_type.startswith("Reorder") or any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TENSOR) for a in node.attribute):
            continue
        if any(i and v is None or isinstance(v, list) for i, v in zip(node.input, inputs)) or "" in node.output:
            continue
        attrs = {a.name: v.decode() if isinstance(v := helper.get_attribute_value(a), bytes) else v for a in node.attribute}
        weights = tuple(i for i, name in enumerate(node.input) if name in constants)
        key = (node.op_type, weights, str(sorted(attrs.items())), str([None if v is None else (v.shape, v.dtype) for v in inputs]))
        if len(weights) < len(inputs) and key not in seen:
            seen.add(key)
            yield Case(node.op_type, inputs, attrs, weights, len(node.output), node.domain, opset, True)


def kernel_seconds(path, feeds, threads):
    """Sum of the least times that ONNX Runtime's profile gives for each node."""
    s = graph_session(path, threads, True)
    for _ in range(8):
        s.run(None, feeds)
    with open(profile := s.end_profiling(), encoding="utf-8") as file:
        events = json.load(file)
    os.remove(profile)
    kernels = {}
    for e in events:
        if e.get("cat") == "Node" and e["name"].endswith("_kernel_time"):
            kernels.setdefault((e["name"], e["args"].get("node_index")), []).append(e["dur"] * 1e-6)
    return sum(min(times) for times in kernels.values())


def graph_session(path, threads, profiled=False):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_profiling = profiled
    options.profile_file_prefix = os.path.join(tempfile.gettempdir(), f"gather_ort_{os.getpid()}")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def graph_times(paths, feeds, threads, seconds, passes):
    """Least time of each graph in each pass, a pass being a session of each graph, in another order each time: where a session puts its weights is worth a few
    percent, so that many sessions say more than long ones. Runs of one graph follow each other, as they do in use."""
    clock, times = clock_for(threads), {path: [] for path in paths}
    for number in range(passes):
        order = list(paths)
        random.Random(number).shuffle(order)
        for path in order:
            s, least = graph_session(path, threads), np.inf
            s.run(None, feeds[path])
            end, rounds = time.perf_counter() + seconds / passes, 0
            while time.perf_counter() < end or rounds < ROUNDS:
                begin = clock()
                s.run(None, feeds[path])
                least = min(least, clock() - begin)
                rounds += 1
            times[path].append(least)
    return times


def median_with_noise(ratios):
    """The median, and half of its 95 % interval relative to it; of few ones, half of their range."""
    middle, low, high = interval(ratios)
    return middle, (high - low) / 2 / middle


def graph_rows(paths, dims, npz, threads, seconds, passes):
    """Processor time (one thread) or wall time of each graph as users load it. What a pass takes as a whole drifts with what else the machine does: a graph's time is
    the median over passes of its share in the pass."""
    feeds = {path: model_feeds(onnx.load(path, load_external_data=False), dims, npz) for path in paths}
    times = graph_times(paths, feeds, threads, seconds, passes)
    whole = [statistics.median(times[path][number] for path in paths) for number in range(passes)]
    usual = statistics.median(whole)
    for path in paths:
        share, noise = median_with_noise([t / w for t, w in zip(times[path], whole)])
        yield {"graph": str(path), "seconds": float(f"{share * usual:.6g}"), "noise": round(noise, 4), "operators_seconds": kernel_seconds(path, feeds[path], threads), "threads": threads}


def machine(threads=1):
    model = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read()
        found = re.search(r"model name\s*:\s*(.*)", text)
        model = found.group(1) if found else ""
        wide = [f for f in ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_tile") if f in text]
    return {"machine": {"processor": model, "architecture": platform.machine(), "extensions": wide if model else [], "cores": os.cpu_count(), "system": platform.system()},
            "runtime": f"onnxruntime {ort.__version__}", "threads": threads, "date": time.strftime("%Y-%m-%d", time.gmtime()), "provider": "CPUExecutionProvider"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--only", default="", help="operators that match this expression")
    parser.add_argument("--grid", default="", metavar="NAME,...", help=f"only these parts of the grid: {', '.join(part.__name__ for part in GRID)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each measurement")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--budget", type=float, default=0, help="seconds after which the call ends")
    parser.add_argument("--again", type=float, default=0, metavar="NOISE", help="measure only doubtful rows")
    parser.add_argument("--models", nargs="+", default=[], metavar="M.onnx")
    parser.add_argument("--graphs", nargs="+", default=[], metavar="G.onnx")
    parser.add_argument("--dim", action="append", default=[], metavar="SYMBOL=SIZE", help="for --models and --graphs")
    parser.add_argument("--inputs", metavar="X.npz", help="for --models and --graphs")
    args = parser.parse_args()
    if unknown := set(filter(None, args.grid.split(","))) - {part.__name__ for part in GRID}:
        parser.error(f"--grid: there is no {', '.join(sorted(unknown))}")
    ort.set_default_logger_severity(4)
    dims = {name: int(size) for name, size in (d.rsplit("=", 1) for d in args.dim)}
    if args.graphs:
        rows = list(graph_rows(args.graphs, dims, args.inputs, args.threads, args.seconds, args.passes))
    else:
        models = [functools.partial(from_model, m, dims, args.inputs, args.threads) for m in args.models]
        raws = read_raw(args.out + ".raw")
        with open(args.out + ".raw", "a", encoding="utf-8") as raw_file:
            asked = [part for part in GRID if not args.grid or part.__name__ in args.grid.split(",")]
            gather((case for family in models or asked for case in family()), args, raws, raw_file)
        rows = [summary(r) for r in raws.values()]
    with open(args.out, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(r, separators=(",", ":")) + "\n" for r in [machine(args.threads), *rows])
    print(f"{len(rows)} rows in {args.out}")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
