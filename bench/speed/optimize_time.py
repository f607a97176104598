#!/usr/bin/env python3
"""How long optimizing takes: whole process and inside the optimizer, beside other tools in the same run.

Usage: optimize_time.py --binary build/saturate FOLDER|MODEL.onnx... [--llama 8,16,32,64] [--peers onnxruntime,onnxslim,onnxsim,onnxscript]

Every model is optimized --rounds times by each tool in turn; the figures are medians. `process` is the wall time of our whole command
(load, rewrite, save; with --verify also verification), `inside` that of lower, saturate, extract and emit. Peers are timed inside their own
process, imports, load and save apart. --llama builds decoders of so many layers (hidden 256, exporter-like spelling) with random weights.
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    def __init__(self, seed=0):
        self.nodes, self.weights, self.random, self.count = [], [], np.random.default_rng(seed), 0

    def op(self, kind, *inputs, **attributes):
        self.count += 1
        out = f"{kind}_{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=f"n{self.count}", **attributes))
        return out

    def constant(self, array, dtype=np.float32):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, *shape):
        return self.constant(self.random.normal(size=shape) * 0.05)


def llama(layers, hidden=256, heads=8, inner=704):
    """A decoder of RMSNorm, rotary attention and SwiGLU in the spelling of an exporter; inputs x [batch, seq, hidden], mask, cos, sin."""
    b, size = Builder(), hidden // heads
    split, merge = b.constant([0, -1, heads, size], np.int64), b.constant([0, -1, hidden], np.int64)
    half, end, zero, last = (b.constant([n], np.int64) for n in (size // 2, 2**62, 0, 3))
    axis, two, eps, one = b.constant([-1], np.int64), b.constant(2.0), b.constant(1e-6), b.constant(1.0)
    scale = b.constant(size**-0.5)

    def norm(x):
        mean = b.op("ReduceMean", b.op("Pow", x, two), axis, keepdims=1)
        return b.op("Mul", b.weight(hidden), b.op("Mul", x, b.op("Div", one, b.op("Sqrt", b.op("Add", mean, eps)))))

    def rotate(x):
        low, high = b.op("Slice", x, zero, half, last), b.op("Slice", x, half, end, last)
        return b.op("Add", b.op("Mul", x, "cos"), b.op("Mul", b.op("Concat", b.op("Neg", high), low, axis=-1), "sin"))

    def heads_of(x):
        return b.op("Transpose", b.op("Reshape", b.op("MatMul", x, b.weight(hidden, hidden)), split), perm=[0, 2, 1, 3])

    x = "x"
    for _ in range(layers):
        n = norm(x)
        q, k, v = rotate(heads_of(n)), rotate(heads_of(n)), heads_of(n)
        scores = b.op("Add", b.op("Mul", b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2])), scale), "mask")
        attended = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = b.op("Add", x, b.op("MatMul", b.op("Reshape", attended, merge), b.weight(hidden, hidden)))
        n = norm(x)
        gate = b.op("MatMul", n, b.weight(hidden, inner))
        x = b.op("Add", x, b.op("MatMul", b.op("Mul", b.op("Mul", gate, b.op("Sigmoid", gate)), b.op("MatMul", n, b.weight(hidden, inner))), b.weight(inner, hidden)))
    b.nodes.append(helper.make_node("Identity", [x], ["y"]))
    value = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
    inputs = [value("x", "batch", "seq", hidden), value("mask", "batch", 1, "seq", "seq"), value("cos", 1, 1, "seq", size), value("sin", 1, 1, "seq", size)]
    graph = helper.make_graph(b.nodes, "llama", inputs, [value("y", "batch", "seq", hidden)], b.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def ours(binary, path, out, verify, options):
    report = out.with_suffix(".json")
    words = [binary, "optimize", path, "-o", out, "--report", report, "-q", *([] if verify else ["--no-verify"]), *options]
    start = time.perf_counter()
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    told = json.loads(report.read_text())
    inside = sum(told["seconds"].get(stage, 0) for stage in ("lower", "saturate", "extract", "emit", "raise"))
    peak = max([i["enodes"] for i in told["saturation"].get("iterations", []) if "enodes" in i] + [told["egraph"]["enodes"]])
    return {"process": seconds, "inside": inside, "before": told["before"]["nodes"], "after": told["after"]["nodes"], "enodes": peak}


def onnxruntime_peer(path, out):
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(out)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    start = time.perf_counter()
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return time.perf_counter() - start


def onnxslim_peer(path, out):
    import onnxslim

    model = onnx.load(path)
    start = time.perf_counter()
    onnxslim.slim(model)
    return time.perf_counter() - start


def onnxsim_peer(path, out):
    import onnxsim

    model = onnx.load(path)
    start = time.perf_counter()
    onnxsim.simplify(model)
    return time.perf_counter() - start


def onnxscript_peer(path, out):
    import onnx_ir
    import onnxscript.rewriter.ort_fusions as fusions

    model = onnx_ir.serde.deserialize_model(onnx.load(path))
    start = time.perf_counter()
    fusions.optimize_for_ort(model)
    return time.perf_counter() - start


PEERS = {"onnxruntime": onnxruntime_peer, "onnxslim": onnxslim_peer, "onnxsim": onnxsim_peer, "onnxscript": onnxscript_peer}


def measure(args, path, folder):
    row = {"model": path.stem}
    runs, peers = [], {name: [] for name in args.peers}
    for _ in range(args.rounds):
        runs.append(ours(args.binary, path, folder / "out.onnx", args.verify, args.options))
        for name in args.peers:
            try:
                peers[name].append(PEERS[name](path, folder / f"{name}.onnx"))
            except Exception as error:  # a peer that fails on a model is a row without its figure
                row[f"{name}_error"] = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    row.update({key: statistics.median(r[key] for r in runs) for key in runs[0]})
    row["enodes_per_node"] = row["enodes"] / max(1, row["before"])
    row.update({name: statistics.median(seconds) for name, seconds in peers.items() if seconds})
    return row


def table(rows, peers):
    head = ["model", "nodes", "after", "e-nodes/node", "process s", "inside s", *(f"{p} s" for p in peers)]
    lines = [head]
    for r in rows:
        lines.append([r["model"], f"{r['before']:.0f}", f"{r['after']:.0f}", f"{r['enodes_per_node']:.1f}", f"{r['process']:.3f}", f"{r['inside']:.3f}",
                      *(f"{r[p]:.3f}" if p in r else "-" for p in peers)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path, metavar="FOLDER|MODEL")
    parser.add_argument("--binary", required=True)
    parser.add_argument("--llama", default="", help="numbers of layers")
    parser.add_argument("--peers", default="", type=lambda text: [p for p in text.split(",") if p])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--verify", action="store_true", help="with our verification")
    parser.add_argument("--options", default=[], type=shlex.split, metavar="WORDS", help='of saturate, as "--target ort-cpu@1.20"')
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    unknown = set(args.peers) - set(PEERS)
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; known are {', '.join(PEERS)}")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        paths = [p for given in args.models for p in (sorted(given.glob("*.onnx")) if given.is_dir() else [given])]
        for layers in (int(n) for n in args.llama.split(",") if n):
            paths.append(folder / f"llama_{layers}.onnx")
            onnx.save(llama(layers), paths[-1])
        for path in paths:
            try:
                rows.append(measure(args, path, folder))
            except RuntimeError as error:
                print(f"{path.name}: {error}", file=sys.stderr)
            if sys.stderr.isatty():
                print(f"\r{len(rows)}/{len(paths)} {path.name:60}", end="", file=sys.stderr)
    print(table(rows, args.peers))
    if rows:
        print(f"\n{len(rows)} models, medians of {args.rounds} rounds: process {statistics.median(r['process'] for r in rows):.3f} s "
              f"(largest {max(r['process'] for r in rows):.3f}), inside {statistics.median(r['inside'] for r in rows):.3f} s, "
              f"{statistics.median(r['enodes_per_node'] for r in rows):.1f} e-nodes a model node")
    for peer in args.peers:
        ratios = [r["inside"] / r[peer] for r in rows if peer in r]
        if ratios:
            print(f"inside, of {peer}: median {statistics.median(ratios):.2f}, below it on {sum(ratio < 1 for ratio in ratios)} of {len(ratios)} models")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if rows and len(rows) == len(paths) else 1


if __name__ == "__main__":
    sys.exit(main())
