#!/usr/bin/env python3
"""The same surgeries through olive-ai and through `saturate transform`; both results in ONNX Runtime.

Each surgeon gets models of the zoo that hold what it looks for, the smallest first, and then graphs drawn for it.

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


# What a model of the zoo must hold for a surgeon: operators, all of them. Surgeons that are not named take any model.
WANTED = {
    "ReplaceErfWithTanh": ["Erf"], "MatMulAddToGemm": ["MatMul", "Add"], "GemmToMatMulAdd": ["Gemm"], "MatMulToTransposeConvTranspose": ["MatMul"],
    "RMSNormToL2Norm": ["Pow", "ReduceMean", "Sqrt"], "Flatten": ["Flatten"], "Gather": ["Gather"], "GatherElements": ["GatherElements"],
    "Non4DReshape": ["Reshape"], "Non4DTranspose": ["Transpose"], "Non4DExpand": ["Expand"], "Non4DSlice": ["Slice"], "Non4DInitializers": ["Mul"],
    "ReciprocalMulToDiv": ["Reciprocal"], "ReplaceAttentionMaskValue": ["Where"], "TieWordEmbeddings": ["Gather", "MatMul"],
    "QuantizeEmbeddingInt8": ["Gather"], "RemoveIntermediarySqueezeAndUnsqueeze": ["Unsqueeze"], "StandaloneReduceSum": ["ReduceSum"],
    "DecomposeRotaryEmbedding": ["RotaryEmbedding"], "DecomposeQuickGelu": ["QuickGelu"], "RemoveQDQ": ["QuantizeLinear"], "QDQToClip": ["QuantizeLinear"],
    "RemoveDeqLin": ["DequantizeLinear"], "ExposeQuantizedOutput": ["DequantizeLinear"], "Non4DLpNorm": ["LpNormalization"], "ReduceMax": ["ReduceMax"],
    "SimplifiedLayerNormToRMSNorm": ["SimplifiedLayerNormalization"], "SimplifiedLayerNormToL2Norm": ["SimplifiedLayerNormalization"],
    "PowReduceSumPowDiv2LpNorm": ["Pow", "ReduceSum"], "ReshapeReduceSum": ["Reshape", "ReduceSum"], "ReshapeClipReduceSum": ["Clip", "ReduceSum"],
    "RemoveGidxFromMatMulNBits": ["MatMulNBits"], "ShareEmbeddingLmHead": ["MatMulNBits"], "AttentionMaskToSequenceLengths": ["GroupQueryAttention"],
    "RemoveRopeMultiCache": ["If"], "PackedAttentionToLoopMHA": ["PackedAttention"], "PackedAttentionToPackedMHA": ["PackedAttention"],
}
MOST_BYTES = 1_500_000
COMMAND = os.environ.get("SATURATE_BIN", "saturate")


def zoo_of(folder):
    """(path, operators) of the models that ONNX Runtime runs on what is drawn here, the smallest first."""
    found = []
    for path in sorted(folder.glob("*.onnx"), key=lambda p: p.stat().st_size) if folder else []:
        if path.stat().st_size > MOST_BYTES:
            break
        model = onnx.load(path)
        if tried(model, 0)[0]:
            found.append((path, {n.op_type for n in model.graph.node}))
    return found


def parameters(surgeon, model, rng):
    """Of a surgeon on a model of the zoo; None: it has none there."""
    inputs, outputs = [i.name for i in model.graph.input], [o.name for o in model.graph.output]
    named = [n for n in model.graph.node if n.name and n.op_type not in ("Constant", "If", "Loop", "Scan")]
    inner = [o for n in model.graph.node for o in n.output if o and o not in outputs and n.op_type != "Constant"]
    dim = next(((v.name, i, k) for k, v in enumerate(model.graph.input) for i, d in enumerate(v.type.tensor_type.shape.dim) if d.dim_param), None)
    out = next(((k, i) for k, v in enumerate(model.graph.output) for i, d in enumerate(v.type.tensor_type.shape.dim) if d.dim_param), None)
    if surgeon in ("ExposeOutputs", "ZeroOutInput") and not named or surgeon == "RenameInputDims" and not dim or surgeon == "RenameOutputDims" and not out:
        return None
    return {
        "RenameInputs": lambda: {"old_names": inputs[:1], "new_names": ["first_input"]},
        "RenameOutputs": lambda: {"old_names": outputs[:1], "new_names": ["first_output"]},
        "ReorderInputs": lambda: {"permutation": list(range(len(inputs)))[::-1]},
        "RemoveInputs": lambda: {"names": inputs[:1]},
        "ZeroOutInput": lambda: {"node_name": rng.choice(named).name, "input_idx": 0},
        "ExposeOutputs": lambda: {"names": [rng.choice(named).name]},
        "AddIntermediateTensorsToOutputs": lambda: {"intermediate_tensor_to_add": rng.sample(inner, min(2, len(inner)))},
        "RenameInputDims": lambda: {"input_name": dim[0], "dim_idx": dim[1], "dim_name": "renamed"},
        "RenameOutputDims": lambda: {"output_idx": out[0], "dim_idx": out[1], "dim_name": "renamed"},
    }.get(surgeon, dict)()


def of_zoo(surgeon, zoo, count, rng):
    for path, operators in zoo:
        if count > 0 and set(WANTED.get(surgeon, [])) <= operators:
            model = onnx.load(path)
            given = parameters(surgeon, model, rng)
            if given is not None:
                count -= 1
                yield path.name, model, given


def floats(rng, *shape):
    return np.asarray([rng.uniform(-1, 1) for _ in range(int(np.prod(shape)))], np.float32).reshape(shape)


def with_weights(text, weights):
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(w, name) for name, w in weights.items())
    return model


def in_blocks(table, bits):
    """Weights of [n, k] in blocks of 16 whole numbers: data, scales, zero points."""
    n, k = table.shape
    cut = table.reshape(n, k // 16, 16)
    scales = (np.abs(cut).max(2) / (2 ** (bits - 1) - 1)).astype(np.float32)
    whole = np.clip(np.round(cut / scales[..., None]) + 2 ** (bits - 1), 0, 2**bits - 1).astype(np.uint8)
    zeros = np.full((n, k // 16), 128, np.uint8) if bits == 8 else np.full((n, (k // 16 + 1) // 2), 0x88, np.uint8)
    return (whole if bits == 8 else whole[..., ::2] | (whole[..., 1::2] << 4)), scales, zeros


def embedding(rng, seed):
    """A table and a head of 4 or 8 bits of the same numbers, or of others."""
    table = floats(rng, 10, 32)
    data, scales, zeros = in_blocks(table, 8)
    head, head_scales, head_zeros = in_blocks(table if seed % 3 else floats(rng, 10, 32), 4)
    text = graph("int64[b,t] input_ids", "float[b,t,10] logits", """[embed_tokens] h = com.microsoft.GatherBlockQuantized <bits = 8, block_size = 16, gather_axis = 0, quantize_axis = 1> (data, input_ids, scales, zeros)
        [lm_head] logits = com.microsoft.MatMulNBits <K = 32, N = 10, bits = 4, block_size = 16> (h, head, head_scales, head_zeros)""")
    return with_weights(text, {"data": data.reshape(10, 32), "scales": scales, "zeros": zeros, "head": head, "head_scales": head_scales, "head_zeros": head_zeros})


def with_tables(rng, large):
    tables = {f"{name}_cache_{size}": floats(rng, rows, 4) for name in ("cos", "sin") for size, rows in (("small", 8), ("large", 16))}
    inside = "r = Neg (x)" if rng.random() < 0.5 else "r = Add (x, x)"
    text = graph("float[1,2,t,8] x, int64[1,t] p, int64 total", "float[1,2,t,8] y", f"""[greater] c = Greater (total, limit)
        [if] cos, sin = If (c) <then_branch = big () => (float[16,4] a, float[16,4] b) {{ a = Identity (cos_cache_large) b = Identity (sin_cache_large) }},
                           else_branch = small () => (float[8,4] a, float[8,4] b) {{ a = Identity (cos_cache_small) b = Identity (sin_cache_small) }}>
        {inside} [rope] y = com.microsoft.RotaryEmbedding (r, p, cos, sin)""", "<int64 limit = {-1}>" if large else "<int64 limit = {8}>")
    return with_weights(text, tables)


def packed(heads, rows):
    model = onnx.parser.parse_model(graph(f"float[1,{heads},{rows},8] q, float[1,{heads},{rows},8] k, float[1,{heads},{rows},8] v", f"float[1,{rows},{heads},8] y",
                                          f"y = custom.PackedAttention <scale = 0.3, num_heads = {heads}> (q, k, v, bounds)", f"<int32[3] bounds = {{0,1,{rows}}}>"))
    model.opset_import.add(domain="custom", version=1)
    return model


GQA = """e = Gather (table, input_ids) query = Add (q, e) r = ReduceSum (attention_mask, axis) d = Sub (r, one) lengths = Cast <to = 6> (d) shape = Shape (attention_mask) whole = Gather (shape, one)
    total = Cast <to = 6> (whole)
    y, k2, v2 = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2> (query, k, v, past_k, past_v, lengths, total)"""


def drawn(surgeon, rng, seed=0):
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
        "RMSNormToL2Norm": lambda: (graph(f"float[{a},{b},4] p", f"float[{a},{b},4] y", f"""q = Pow (p, two) m = ReduceMean <axes = [-1]> (q) e = Add (m, eps) s = Sqrt (e)
            {"d = Div (p, s)" if deep else "r = Div (one, s) d = Mul (p, r)"} y = Mul (d, w)""", "<float two = {2}, float one = {1}, float eps = {1e-6}, float[4] w = {1,2,3,4}>"), {}),
        "SimplifiedLayerNormToL2Norm": lambda: (graph(
            f"float[{a},{b},4] p, float[{a},{b},4] q", f"float[{a},{b},4] y", ("t = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-6> (p, q, k)" if deep else
            "s = Add (p, q) t = SimplifiedLayerNormalization <axis = -1, epsilon = 1e-6> (s, k)") + f" y = {other} (t)", "<float[4] k = {3,4,1,2}>"), {}),
        "PowReduceSumPowDiv2LpNorm": lambda: (graph(f"float[{a},{b}] p", f"float[{a},{b}] y", f"[one] q = Pow (p, two) [two] s = ReduceSum (q, k) [three] n = Pow (s, half) [four] d = Div (p, n) [five] y = {other} (d)",
                                                    "<float two = {2}, float half = {0.5}, int64[1] k = {-1}>"), {}),
        "ReshapeReduceSum": lambda: (graph(f"float[1,{a},{b},8] p", f"float[1,{a},{b},2] y", "t = Reshape (p, k) y = ReduceSum <keepdims = 0> (t, e)", f"<int64[5] k = {{1,{a},{b},2,4}}, int64[1] e = {{4}}>"), {}),
        "ReshapeClipReduceSum": lambda: (graph(f"float[1,{a},{b},8] p", f"float[1,{a},{b},2] y", "t = Reshape (p, k) c = Clip (t, l, h) y = ReduceSum <keepdims = 0> (c, e)",
                                               f"<int64[5] k = {{1,{a},{b},2,4}}, int64[1] e = {{4}}, float l = {{-0.5}}, float h = {{0.5}}>"), {}),
        "TieWordEmbeddings": lambda: (with_weights(graph("int64[b,t] input_ids", "float[b,t,10] logits", f"[embed_Gather] h = Gather (table, input_ids) r = {op} (h) [lm_MatMul] logits = MatMul (r, head)"),
                                                   {"table": (tied := floats(rng, 10, 32)), "head": (tied if deep else floats(rng, 10, 32)).T.copy()}), {}),
        "QuantizeEmbeddingInt8": lambda: (with_weights(graph("int64[b,t] input_ids", f"float[b,t,{32 if deep else 24}] y", f"[embed_tokens_Gather] h = Gather (table, input_ids) y = {other} (h)"),
                                                       {"table": floats(rng, 10, 32 if deep else 24)}), {}),
        "ShareEmbeddingLmHead": lambda: (embedding(rng, seed), {}),
        "RemoveGidxFromMatMulNBits": lambda: (with_weights(graph("float[n,32] p", "float[n,10] y", "[product] y = com.microsoft.MatMulNBits <K = 32, N = 10, bits = 4, block_size = 16> (p, data, scales, zeros, g_idx)"),
                                                           dict(zip(("data", "scales", "zeros"), in_blocks(floats(rng, 10, 32), 4))) | {"g_idx": (np.arange(32) // (16 if deep else 20)).astype(np.int32)}), {}),
        "RemoveRopeMultiCache": lambda: (with_tables(rng, deep), {"use_large_cache": True} if deep else {}),
        "AttentionMaskToSequenceLengths": lambda: (graph("int64[b,1] input_ids, float[b,1,16] q, float[b,1,16] k, float[b,1,16] v, int64[b,3] attention_mask, float[b,2,s,8] past_k, float[b,2,s,8] past_v",
                                                         "float[b,1,16] y, float[b,2,u,8] k2, float[b,2,u,8] v2", GQA, f"<int64[1] axis = {{1}}, int64 one = {{1}}, float[2,16] table = {{{','.join(str(x / 16) for x in range(32))}}}>"), {}),
        "PackedAttentionToLoopMHA": lambda: (packed(a, b), {}),
        "PackedAttentionToPackedMHA": lambda: (packed(a, b), {}),
        "DecomposeRotaryEmbedding": lambda: (graph(f"float[{a},{b},4,8] p, int64[{a},4] i", f"float[{a},{b},4,8] y", "y = com.microsoft.RotaryEmbedding (p, i, k, l)",
                                                   f"<float[6,4] k = {{{','.join(str(x / 24) for x in range(24))}}}, float[6,4] l = {{{','.join(str(x / 30) for x in range(24))}}}>"), {}),
    }
    base, params = cases.get(surgeon, lambda: (pair, {}))()
    return (onnx.parser.parse_model(base) if isinstance(base, str) else base), params


def by_olive(surgeon, params, model):
    from olive.passes.onnx.graph_surgeries import Surgeon

    return Surgeon.registry[surgeon.lower()](**params)(model)


def by_saturate(surgeon, params, model, folder):
    onnx.save(model, folder / "in.onnx")
    (folder / "p.json").write_text(json.dumps({"type": "GraphSurgeries", "surgeries": [{"surgeon": surgeon, **params}]}))
    (folder / "out.onnx").unlink(missing_ok=True)
    done = subprocess.run([COMMAND, "transform", folder / "in.onnx", "-o", folder / "out.onnx", "--passes", folder / "p.json"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        lines = done.stderr.splitlines()
        if done.returncode not in (1, 2, 3, 5) or len(lines) != 1:
            raise SystemExit(f"{surgeon}: exit status {done.returncode}: {done.stderr}")
        return None, lines[0].removeprefix("saturate: error: ")
    return onnx.load(folder / "out.onnx"), ""


def session_of(model):
    if not any(n.op_type == "SimplifiedLayerNormalization" and not n.domain for n in model.graph.node):  # which only ONNX Runtime has
        onnx.checker.check_model(model)
    if any(n.op_type == "PackedMultiHeadAttention" for n in model.graph.node):
        return Here(model, session_of(without_nodes(model)))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


# Of one token behind two; a surgeon makes inputs of the lengths.
OF_A_CACHE = {"attention_mask": 1, "past_seq_len": 2, "total_seq_len": 3}


class Here:
    """A session of our runtime, for the operator that ONNX Runtime has for CUDA alone."""

    def __init__(self, model, shapes):
        self.model, self.shapes = model, shapes

    def get_inputs(self):
        return self.shapes.get_inputs()

    def get_outputs(self):
        return self.shapes.get_outputs()

    def run(self, names, feeds):
        with tempfile.TemporaryDirectory() as folder:
            model, x, y = (os.path.join(folder, name) for name in ("m.onnx", "x.npz", "y.npz"))
            onnx.save(self.model, model)
            np.savez(x, **feeds)
            subprocess.run([COMMAND, "run", model, "--inputs", x, "-o", y], check=True, capture_output=True, text=True)
            return [np.load(y)[name] for name in names]


def without_nodes(model):
    """Of the same inputs and names, for a session that is asked for it alone."""
    bare = onnx.ModelProto.FromString(model.SerializeToString())
    like = bare.graph.input[0]
    bare.graph.ClearField("node")
    for o in bare.graph.output:
        o.type.CopyFrom(like.type)
        bare.graph.node.append(onnx.helper.make_node("Identity", [like.name], [o.name]))
    return bare


def feeds_of(session, seed):
    rng = np.random.default_rng(seed)
    feeds = {}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else 2 for d in i.shape]
        kind = i.type[7:-1]
        if i.name in OF_A_CACHE:
            feeds[i.name] = np.full(shape, OF_A_CACHE[i.name], kind)
            continue
        feeds[i.name] = (rng.standard_normal(shape).astype(np.float32) if kind == "float" else rng.integers(0, 2, shape).astype({"int64": np.int64, "int32": np.int32, "bool": bool}[kind]))
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


LOOSE = {"ReplaceErfWithTanh": 0.05, "RemoveQDQ": 0.05, "QDQToClip": 0.05, "QuantizeEmbeddingInt8": 0.05, "ShareEmbeddingLmHead": 0.5, "RMSNormToL2Norm": 1e-2,
         "SimplifiedLayerNormToL2Norm": 1e-2, "PowReduceSumPowDiv2LpNorm": 1e-2}


def compare(surgeon, name, model, params, seed, folder):
    base = onnx.shape_inference.infer_shapes(model)
    row = {"surgeon": surgeon, "model": name}
    ours, row["refusal"] = by_saturate(surgeon, params, base, folder)
    try:
        theirs, row["their_error"] = by_olive(surgeon, params, onnx.ModelProto.FromString(base.SerializeToString())), ""
    except Exception as error:  # as above
        theirs, row["their_error"] = None, (str(error) or type(error).__name__).splitlines()[0][:160]
    mine = tried(ours, seed) if ours else (None, None, None, row["refusal"])
    other = tried(theirs, seed) if theirs else (None, None, None, row["their_error"])
    if ours and not mine[0]:
        raise SystemExit(f"{surgeon} {name}: our model is not valid: {mine[3]}")
    row["their_error"] = row["their_error"] or other[3]
    tolerance = LOOSE.get(surgeon, 1e-4 if name != "drawn" else 1e-5)
    first = tried(base, seed)[0]
    for key, side in (("ours_as_original", mine), ("theirs_as_original", other)):
        row[key] = close(outputs(first, side[1]), side[2], tolerance) if first and side[0] and interface(first) == interface(side[0]) else None
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
    parser.add_argument("--seeds", type=int, default=4, help="graphs drawn for each surgeon")
    parser.add_argument("--zoo", type=pathlib.Path, help="a folder of models")
    parser.add_argument("--of-zoo", type=int, default=3, help="models of the zoo for each surgeon")
    parser.add_argument("--surgeon", action="append", help="only this one; may be repeated")
    parser.add_argument("--json", type=pathlib.Path, help="write every run, behind those that it holds")
    args = parser.parse_args()
    ort.set_default_logger_severity(4)
    from olive.passes.onnx.graph_surgeries import Surgeon

    names = args.surgeon or sorted(c.__name__ for c in Surgeon.registry.values() if c.__name__ != "ProtoSurgeon")
    rows, zoo = [], zoo_of(args.zoo)
    with tempfile.TemporaryDirectory() as folder:
        for surgeon in names:
            cases = [*of_zoo(surgeon, zoo, args.of_zoo, random.Random(surgeon)),
                     *(("drawn", *drawn(surgeon, random.Random(f"{surgeon} {seed}"), seed)) for seed in range(args.seeds))]
            mine = [compare(surgeon, *case, seed, pathlib.Path(folder)) for seed, case in enumerate(cases)]
            rows += mine
            ends = collections.Counter(r["end"] for r in mine)
            why = next((r["refusal"] or r["their_error"] for r in mine if r["refusal"] or r["their_error"]), "")
            judged = [f"{who} {sum(r[key] is True for r in mine)}/{sum(r[key] is not None for r in mine)}" for who, key in (("ours", "ours_as_original"), ("theirs", "theirs_as_original"))]
            print(f"{surgeon:40} {dict(ends)}  as the original: {', '.join(judged)}  {why[:120]}", flush=True)
    print(f"\n{len(rows)} runs, {sum(r['model'] != 'drawn' for r in rows)} on models of the zoo: {dict(collections.Counter(r['end'] for r in rows))}")
    if args.json:
        before = json.loads(args.json.read_text()) if args.json.exists() else []
        args.json.write_text(json.dumps(before + rows, indent=1))
    return int(any(r["ours_as_original"] is False and r["theirs_as_original"] is True for r in rows))


if __name__ == "__main__":
    sys.exit(main())
