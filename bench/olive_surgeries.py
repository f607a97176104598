#!/usr/bin/env python3
"""The same surgeries through olive-ai and through `saturate transform`, over graphs drawn for each surgeon; both results in ONNX Runtime.

Wants olive-ai, onnx, onnxruntime and a saturate command (SATURATE_BIN). Of each run it tells
  same       both give a valid model, of one interface, and equal numbers
  interface  both are valid, and their inputs or outputs differ
  numbers    both are valid, of one interface, and numbers differ
  theirs     only ours is valid; ours: only theirs is; refused: ours says no in one line; neither
and whether ours (theirs) gives the numbers of the original, where the interface is the original's.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort

os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"
HEAD = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
QDQ = "<float s = {0.05}, uint8 z = {%d}>"


def graph(inputs, outputs, body, constants=""):
    return f"{HEAD}agraph ({inputs}) => ({outputs}) {constants} {{ {body} }}"


def drawn(surgeon, rng):
    """A graph that has what the surgeon looks for, and its parameters."""
    a, b, c, d = (rng.choice([2, 3, 4, 5]) for _ in range(4))
    op, other = rng.choice(["Relu", "Tanh", "Exp", "Neg"]), rng.choice(["Sigmoid", "Abs", "Neg"])
    pair = graph(f"float[{a},{b}] p, float[{a},{b}] q", f"float[{a},{b}] y, float[{a},{b}] w", f"[first] t = {op} (p) [second] u = Sub (t, q) [third] y = {other} (u) [fourth] w = Mul (t, u)")
    deep = rng.random() < 0.5
    low = rng.choice([0, 64, 128])
    qdq = graph(f"float[{a},{b}] p", f"float[{a},{b}] y", f"t = Tanh (p) q = QuantizeLinear (t, s, z) u = DequantizeLinear (q, s, z) y = {op} (u)", QDQ % 128)
    cases = {
        "RenameInputs": lambda: (pair, {"old_names": ["p"], "new_names": [rng.choice(["left", "input_1"])]}),
        "RenameOutputs": lambda: (pair, {"old_names": ["y"], "new_names": ["result"]}),
        "ReorderInputs": lambda: (pair, {"permutation": rng.choice([[1, 0], [0, 1]])}),
        "RemoveInputs": lambda: (pair if deep else graph(f"float[{a}] p, float[{b}] q", f"float[{a}] y", "y = Neg (p)"), {"names": ["q"]}),
        "ZeroOutInput": lambda: (pair, {"node_name": "second", "input_idx": rng.choice([0, 1])}),
        "ExposeOutputs": lambda: (pair, {"names": [rng.choice(["first", "second"])]}),
        "AddIntermediateTensorsToOutputs": lambda: (pair, {"intermediate_tensor_to_add": rng.choice([["t"], ["u", "t"]])} if deep else {}),
        "ExposeQuantizedOutput": lambda: (graph(f"float[{a},{b}] p", f"float[{a},{b}] y", "q = QuantizeLinear (p, s, z) y = DequantizeLinear (q, s, z)", QDQ % low), {"output_name": "y"}),
        "InferShapes": lambda: (pair, {}),
        "RemoveShapes": lambda: (pair, {}),
        "RemoveAllTensorValueShapes": lambda: (pair, {}),
        "RemoveInitializerFromInputs": lambda: (graph(f"float[{a},2] p, float[2] q = {{1,2}}", f"float[{a},2] y", f"t = Add (p, q) y = {op} (t)"), {}),
        "RenameInputDims": lambda: (graph("float[n,3] p", "float[n,3] y", f"y = {op} (p)"), {"input_name": "p", "dim_idx": 0, "dim_name": "batch"}),
        "RenameOutputDims": lambda: (graph("float[n,3] p", "float[n,3] y", f"y = {op} (p)"), {"output_idx": 0, "dim_idx": 0, "dim_name": "batch"}),
        "ReplaceAttentionMaskValue": lambda: (graph(f"float[{a},{b}] p, bool[{a},{b}] m", f"float[{a},{b}] y", "f = Where (m, zero, low) t = Add (p, f) y = Softmax (t)",
                                                    "<float low = {-3.4028234663852886e+38}, float zero = {0}>"), {}),
        "DecomposeQuickGelu": lambda: (graph(f"float[{a},{b}] p", f"float[{a},{b}] y", f"t = com.microsoft.QuickGelu <alpha = {rng.choice([1.702, 1.0])}> (p) y = {op} (t)"), {}),
        "ReplaceErfWithTanh": lambda: (graph(f"float[{a},{b}] p", f"float[{a},{b}] y", f"t = Erf (p) y = {other} (t)"), {}),
        "MatMulAddToGemm": lambda: (graph(f"float[{d},{a},{b}] p" if deep else f"float[{a},{b}] p", f"float[{d},{a},2] y" if deep else f"float[{a},2] y",
                                          "m = MatMul (p, w) y = Add (m, c)", f"<float[{b},2] w = {{{','.join(map(str, range(2 * b)))}}}, float[2] c = {{1,2}}>"), {}),
        "GemmToMatMulAdd": lambda: (graph(f"float[{a},{b}] p, float[{b},{c}] q, float[{c}] r", f"float[{a},{c}] y", "y = Gemm (p, q, r)" if deep else "y = Gemm <alpha = 2.0> (p, q, r)"), {}),
        "ReciprocalMulToDiv": lambda: (graph(f"float[{a},{b}] p, float[{a},{b}] q", f"float[{a},{b}] y", "r = Reciprocal (q) y = Mul (p, r)" if deep else "r = Reciprocal (q) y = Mul (r, p)"), {}),
        "DeduplicateNodes": lambda: (graph(f"float[{a}] p", f"float[{a}] y", f"t = {op} (p) u = {op} (p) y = Add (t, u)"), {}),
        "DeduplicateSubgraphInitializers": lambda: (graph(f"float[2] p", f"float[2] y", "t = Add (p, k) y = Mul (t, l)", "<float[2] k = {1,2}, float[2] l = {1,2}>"), {}),
        "RemoveDeqLin": lambda: (graph("float[2] p", "float[2] y", "w = DequantizeLinear (k, s, z) y = Add (p, w)", "<uint8[2] k = {100, 200}, float s = {0.1}, uint8 z = {%d}>" % low), {}),
        "RemoveQDQ": lambda: (qdq, {}),
        "QDQToClip": lambda: (qdq, {}),
        "Flatten": lambda: (graph(f"float[{a},{b},{c}] p", f"float[{a},{b * c}] y", f"t = Flatten (p) y = {op} (t)"), {}),
        "Non4DModelInputs": lambda: (graph(f"float[{a},{b}] p", f"float[{a},{b}] y", f"y = {op} (p)"), {}),
        "Non4DModelOutputs": lambda: (graph(f"float[{a},{b}] p", f"float[{a},{b}] y", f"y = {op} (p)"), {}),
        "Non4DReshape": lambda: (graph(f"float[1,{a},{b * c}] p", f"float[{a},{b},{c}] y", f"t = Reshape (p, k) y = {op} (t)", f"<int64[3] k = {{{a},{b},{c}}}>"), {}),
        "Non4DTranspose": lambda: (graph(f"float[{a},{b},{c}] p", f"float[{a},{c},{b}] y", f"t = Transpose <perm = [0,2,1]> (p) y = {op} (t)"), {}),
        "Non4DExpand": lambda: (graph(f"float[1,{b},{c}] p", f"float[{a},{b},{c}] y", f"t = Expand (p, k) y = {op} (t)", f"<int64[3] k = {{{a},{b},{c}}}>"), {}),
        "Non4DSlice": lambda: (graph(f"float[{a},{b},5] p", f"float[{a},{b},2] y", f"t = Slice (p, k, l, e) y = {op} (t)", "<int64[1] k = {1}, int64[1] l = {3}, int64[1] e = {2}>"), {}),
        "Non4DLpNorm": lambda: (graph(f"float[{a},{b}] p", f"float[{a},{b}] y", "y = LpNormalization <axis = -1, p = 2> (p)"), {}),
        "Non4DInitializers": lambda: (graph("float[1,2,3,2] p", "float[1,2,3,2] y", f"t = Mul (p, k) y = {op} (t)", "<float[2] k = {3,4}>"), {}),
        "StandaloneReduceSum": lambda: (graph(f"float[{a},{b},{c}] p", f"float[{a},{c}] y", "t = ReduceSum <keepdims = 0> (p, k) y = Neg (t)", "<int64[1] k = {1}>"), {}),
        "Gather": lambda: (graph(f"float[{a},{b},{c}] p", f"float[{a},{c}] y", f"t = Gather <axis = 1> (p, k) y = {op} (t)", "<int64 k = {1}>"), {}),
        "GatherElements": lambda: (graph("float[2,2] p", "float[2,2] y", "t = GatherElements <axis = 1> (p, k) y = Neg (t)", "<int64[2,2] k = {0,0,1,0}>"), {}),
        "RemoveIntermediarySqueezeAndUnsqueeze": lambda: (graph(f"float[{a},{b}] p", f"float[{a},{b}] y", f"t = Unsqueeze (p, k) u = {op} (t) y = Squeeze (u, k)", "<int64[1] k = {0}>"), {}),
        "ReduceMax": lambda: (graph(f"float[1,{a},{b},{c}] p", f"float[1,{a},{b},1] y", "y = ReduceMax <axes = [3]> (p)"), {}),
        "SimplifiedLayerNormToRMSNorm": lambda: (graph(
            f"float[{a},{b},2] p", f"float[{a},{b},2] y", f"t = SimplifiedLayerNormalization <axis = -1, epsilon = 0.00001> (p, k) y = {other} (t)", "<float[2] k = {3,4}>"), {}),
        "DecomposeRotaryEmbedding": lambda: (graph(f"float[{a},{b},4,8] p, int64[{a},4] i", f"float[{a},{b},4,8] y", "y = com.microsoft.RotaryEmbedding (p, i, k, l)",
                                                   f"<float[6,4] k = {{{','.join(str(x / 24) for x in range(24))}}}, float[6,4] l = {{{','.join(str(x / 30) for x in range(24))}}}>"), {}),
    }
    return cases.get(surgeon, lambda: (pair, {}))()  # those that ours refuses for what they are get any graph


def by_olive(surgeon, params, model):
    from olive.passes.onnx.graph_surgeries import Surgeon

    return Surgeon.registry[surgeon.lower()](**params)(model)


def by_saturate(command, surgeon, params, model, folder):
    onnx.save(model, folder / "in.onnx")
    (folder / "p.json").write_text(json.dumps({"type": "GraphSurgeries", "surgeries": [{"surgeon": surgeon, **params}]}))
    (folder / "out.onnx").unlink(missing_ok=True)
    done = subprocess.run([command, "transform", folder / "in.onnx", "-o", folder / "out.onnx", "--passes", folder / "p.json"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        lines = done.stderr.splitlines()
        if done.returncode not in (1, 2, 3, 5) or len(lines) != 1:
            raise SystemExit(f"{surgeon}: exit status {done.returncode}: {done.stderr}")
        return None, lines[0].removeprefix("saturate: error: ")
    return onnx.load(folder / "out.onnx"), ""


def session_of(model):
    if not any(n.op_type == "SimplifiedLayerNormalization" for n in model.graph.node):  # which only ONNX Runtime has
        onnx.checker.check_model(model)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def feeds_of(session, seed):
    rng = np.random.default_rng(seed)
    feeds = {}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else 2 for d in i.shape]
        kind = i.type[7:-1]
        feeds[i.name] = (rng.standard_normal(shape).astype(np.float32) if kind == "float" else rng.integers(0, 2, shape).astype({"int64": np.int64, "bool": bool}[kind]))
    return feeds


def interface(session):
    return sorted((i.name, i.type, len(i.shape)) for i in session.get_inputs()), sorted(o.name for o in session.get_outputs())


def outputs(session, feeds):
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def close(one, two, tolerance):
    return one.keys() == two.keys() and all(
        one[k].shape == two[k].shape and np.allclose(one[k].astype(np.float64), two[k].astype(np.float64), rtol=tolerance, atol=tolerance) for k in one)


def tried(model, seed):
    """A session and what it gives, or why there is none."""
    try:
        session = session_of(model)
        feeds = feeds_of(session, seed)
        return session, feeds, outputs(session, feeds), ""
    except Exception as error:  # of any kind: the model is not valid
        return None, None, None, str(error).splitlines()[0][:160]


def compare(command, surgeon, seed, folder):
    text, params = drawn(surgeon, random.Random(f"{surgeon} {seed}"))
    base = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    row = {"surgeon": surgeon, "seed": seed}
    ours, row["refusal"] = by_saturate(command, surgeon, params, base, folder)
    try:
        theirs, row["their_error"] = by_olive(surgeon, params, onnx.ModelProto.FromString(base.SerializeToString())), ""
    except Exception as error:  # as above
        theirs, row["their_error"] = None, str(error).splitlines()[0][:160]
    mine = tried(ours, seed) if ours else (None, None, None, row["refusal"])
    other = tried(theirs, seed) if theirs else (None, None, None, row["their_error"])
    if ours and not mine[0]:
        raise SystemExit(f"{surgeon} {seed}: our model is not valid: {mine[3]}")
    row["their_error"] = row["their_error"] or other[3]
    tolerance = 0.05 if surgeon in ("ReplaceErfWithTanh", "RemoveQDQ", "QDQToClip") else 1e-5
    first = session_of(base)
    for name, side in (("ours_as_original", mine), ("theirs_as_original", other)):
        row[name] = close(outputs(first, side[1]), side[2], tolerance) if side[0] and interface(first) == interface(side[0]) else None
    if not ours:
        row["end"] = "refused"
    elif not other[0]:
        row["end"] = "theirs"
    elif interface(mine[0]) != interface(other[0]):
        row["end"] = "interface"
    else:
        row["end"] = "same" if close(mine[2], outputs(other[0], mine[1]), tolerance) else "numbers"
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6, help="graphs for each surgeon")
    parser.add_argument("--surgeon", action="append", help="only this one; may be repeated")
    parser.add_argument("--command", default=os.environ.get("SATURATE_BIN", "saturate"))
    parser.add_argument("--json", type=pathlib.Path, help="write every run")
    args = parser.parse_args()
    ort.set_default_logger_severity(4)
    from olive.passes.onnx.graph_surgeries import Surgeon

    names = args.surgeon or sorted(c.__name__ for c in Surgeon.registry.values() if c.__name__ != "ProtoSurgeon")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for surgeon in names:
            mine = [compare(args.command, surgeon, seed, pathlib.Path(folder)) for seed in range(args.seeds)]
            rows += mine
            ends = collections.Counter(r["end"] for r in mine)
            why = next((r["refusal"] or r["their_error"] for r in mine if r["refusal"] or r["their_error"]), "")
            judged = [f"{who} {sum(r[key] is True for r in mine)}/{sum(r[key] is not None for r in mine)}" for who, key in (("ours", "ours_as_original"), ("theirs", "theirs_as_original"))]
            print(f"{surgeon:40} {dict(ends)}  as the original: {', '.join(judged)}  {why[:120]}", flush=True)
    print(f"\n{len(rows)} runs: {dict(collections.Counter(r['end'] for r in rows))}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return int(any(r["ours_as_original"] is False and r["theirs_as_original"] is True for r in rows))


if __name__ == "__main__":
    sys.exit(main())
