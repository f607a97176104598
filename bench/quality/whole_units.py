#!/usr/bin/env python3
"""Counts what a compiler for integers finds in a quantized model and in our results: whole units and quantized weights, target by target.

    python bench/quality/whole_units.py MODEL... --saturate build/release/tools/saturate [--target onnx ...] [--json OUT.json] [--options "--approximate"]

A unit is an operator that computes (a product, convolution, pooling, sum, activation, ...: no view, no quantizer) whose inputs of floats all come from
DequantizeLinear or are constants, and whose results are read by QuantizeLinear alone; and an operator whose name begins with QLinear, or QGemm.
A quantized weight is a reading of a constant of more than one element, by an operator behind its DequantizeLinear or by one of integers: equal constants may
be stored once.
Exit status 1: a result has fewer units or weights than its original, of some operator, and none that takes its place.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

VIEWS = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Split", "Concat", "Gather", "Expand", "Tile", "Pad", "DepthToSpace", "SpaceToDepth"}
INTEGERS = {onnx.TensorProto.UINT8, onnx.TensorProto.INT8, onnx.TensorProto.UINT16, onnx.TensorProto.INT16, onnx.TensorProto.INT32, onnx.TensorProto.UINT4,
            onnx.TensorProto.INT4, None}
FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}
ACTIVATIONS = {"Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh"}  # a quantizer's limits, or the kernel before it, may take them in


def count(model):
    """Whole units by operator, and how often quantized weights are read, in a model's main graph."""
    graph = model.graph
    constants = {t.name: t.dims for t in graph.initializer}
    makers, readers = {}, collections.defaultdict(list)
    for node in graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = node.attribute[0].t.dims
        for name in node.output:
            makers[name] = node
        for name in node.input:
            readers[name].append(node)
    outputs = {o.name for o in graph.output}
    typed = {v.name: v.type.tensor_type.elem_type for v in [*graph.value_info, *graph.input, *graph.output]}
    typed.update({t.name: t.data_type for t in graph.initializer})
    units, weights = collections.Counter(), 0
    for node in graph.node:
        kind = node.op_type
        of_integers, dequantizes = kind.startswith("QLinear") or kind == "QGemm", kind == "DequantizeLinear"
        for name in node.input if of_integers else node.input[:1] if dequantizes else ():
            if name in constants and np.prod(constants[name], dtype=np.int64) > 1 and typed.get(name) in INTEGERS:
                weights += len(readers[node.output[0]]) if dequantizes else 1
        if of_integers:
            units[{"QGemm": "Gemm"}.get(kind, kind.removeprefix("QLinear"))] += 1
        elif kind not in VIEWS and kind not in ("QuantizeLinear", "DequantizeLinear", "Constant", "Cast", "Shape"):
            data = [n for n in node.input if n and n not in constants and not (n in typed and typed[n] not in FLOATS)]
            read = [r for o in node.output for r in readers[o]]
            whole = data and all(n in makers and makers[n].op_type == "DequantizeLinear" for n in data)
            if whole and read and all(r.op_type == "QuantizeLinear" for r in read) and not outputs & set(node.output):
                units[kind] += 1
    return units, weights


ALIASES = {"FusedConv": "Conv", "FusedGemm": "Gemm", "FusedMatMul": "MatMul"}
PRODUCTS = ("MatMul", "Gemm")


def lost(before, after):
    """Units that the result lacks, by operator: MatMul with Add counts as Gemm, activations may be taken in."""
    def folded(units):
        out = collections.Counter()
        for name, n in units.items():
            out[ALIASES.get(name, name)] += n
        return out
    before, after = folded(before), folded(after)
    gone = {name: n - after[name] for name, n in before.items() if after[name] < n and name not in ACTIVATIONS and name not in PRODUCTS}
    products = sum(before[p] for p in PRODUCTS) - sum(after[p] for p in PRODUCTS)
    joined = max(0, after["Gemm"] - before["Gemm"])  # each took a sum in
    if "Add" in gone and gone["Add"] <= joined:
        del gone["Add"]
    if products > 0:
        gone["MatMul or Gemm"] = products
    return gone


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--saturate", default="saturate")
    parser.add_argument("--target", action="append", dest="targets", help="several; onnx alone by default")
    parser.add_argument("--options", default="", help="further options of `optimize`")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows, bad = [], 0
    for path in args.models:
        original = onnx.load(path)
        before, weights = count(original)
        for target in args.targets or ["onnx"]:
            with tempfile.TemporaryDirectory() as folder:
                result = pathlib.Path(folder) / "result.onnx"
                done = subprocess.run([args.saturate, str(path), "-o", str(result), "--target", target, *args.options.split()], capture_output=True, text=True)
                row = {"model": path.stem, "target": target, "status": done.returncode, "units_before": sum(before.values()), "weights_before": weights}
                if result.exists():
                    model = onnx.load(result)
                    after, weights_after = count(model)
                    row.update(units=sum(after.values()), weights=weights_after, lost=lost(before, after), operators=[len(original.graph.node), len(model.graph.node)])
                    row["quantizers"] = [sum(n.op_type in ("QuantizeLinear", "DequantizeLinear") for n in m.graph.node) for m in (original, model)]
            rows.append(row)
            wrong = row["status"] != 0 or row.get("lost") or row.get("weights", 0) < weights
            bad += bool(wrong)
            print(f"{path.stem:36} {target:10} units {row['units_before']:4} -> {row.get('units', '?'):>4}  weights {weights:4} -> {row.get('weights', '?'):>4}  "
                  f"quantizers {' -> '.join(map(str, row.get('quantizers', '?')))}  operators {' -> '.join(map(str, row.get('operators', '?')))}  "
                  f"{'status ' + str(row['status']) if row['status'] else ''} {row.get('lost') or ''}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    print(f"{len(rows)} results, {bad} with fewer units or quantized weights")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
