"""Each operator that leaves tokens alone passes in every pass that follows them: what is known of its axes is said once (op_axes.inc)."""
import json

import numpy as np
import onnx
import onnx.parser
import pytest
from conftest import run, run_ok, tensor

HEAD = '''<ir_version: 9, opset_import: ["" : 23, "com.microsoft" : 1]>
g (int64[batch,seq] input_ids, int64[batch,seq] attention_mask) => (float[batch,seq,16] logits) {
  h = Gather (table, input_ids)
  q = MatMul (h, wq)
  r = Reshape (q, split)
  t = Transpose <perm = [0,2,1,3]> (r)
  m1 = Unsqueeze (attention_mask, i1)
  m2 = Unsqueeze (m1, i2)
  %s
  p = Transpose <perm = [0,1,3,2]> (t)
  s0 = MatMul (t, p)
  low = Constant <value_float = -10000.0> ()
  zero = Constant <value_float = 0.0> ()
  sh = Shape (input_ids)
  si = Gather (sh, i1)
  ss = Concat <axis = 0> (si, si)
  on = ConstantOfShape <value = float[1] {1.0}> (ss)
  tri = Trilu <upper = 0> (on)
  trib = Cast <to = 9> (tri)
  both = And (mb, trib)
  mf = Where (both, zero, low)
  s1 = Add (s0, mf)
  %s
  y = MatMul (s2, t)
  u = Transpose <perm = [0,2,1,3]> (y)
  v = Reshape (u, hs)
  %s
  logits = MatMul (e, head)
}'''
SOFTMAX = "s2 = Softmax <axis = -1> (s1)"
CAST = "mb = Cast <to = 9> (m2)"
# From the attention to the head, tokens along axis 1.
TAILS = {
    "Expand": "e = Expand (v, ones3)",
    "Tile": "e = Tile (v, ones3)",
    "Hardmax": "e = Hardmax <axis = -1> (v)",
    "LpNormalization": "e = LpNormalization <axis = -1> (v)",
    "FastGelu": "e = com.microsoft.FastGelu (v, bias8)",
    "BiasGelu": "e = com.microsoft.BiasGelu (v, bias8)",
    "QuickGelu": "e = com.microsoft.QuickGelu (v)",
    "SkipLayerNormalization": "e = com.microsoft.SkipLayerNormalization (v, h, bias8)",
    "SkipSimplifiedLayerNormalization, its sum": "n, , , w = com.microsoft.SkipSimplifiedLayerNormalization (v, h, bias8)\n e = Add (n, w)",
    "MatMulNBits": "e = com.microsoft.MatMulNBits <K = 8, N = 8, bits = 4, block_size = 16> (v, blocks, scales)",
    "CumSum of features": "two = Constant <value_int = 2> ()\n e = CumSum (v, two)",
    "TopK of features": "k = Constant <value_ints = [8]> ()\n e, f = TopK <axis = -1> (v, k)",
    "ArgMax of features": "i = ArgMax <axis = -1> (v)\n f = Cast <to = 1> (i)\n e = Add (f, v)",
    "GatherElements of features": "i = ArgMax <axis = -1> (v)\n f = GatherElements <axis = -1> (v, i)\n e = Add (f, v)",
    "ScatterElements": "i = ArgMax <axis = -1> (v)\n f = Cast <to = 1> (i)\n e = ScatterElements <axis = -1> (v, i, f)",
    "quantizers": "q8 = QuantizeLinear <output_dtype = 3> (v, step)\n e = DequantizeLinear (q8, step)",
    "quantizers of features": "q8 = QuantizeLinear <axis = 2, output_dtype = 3> (v, steps)\n e = DequantizeLinear <axis = 2> (q8, steps)",
    "quantizers of com.microsoft": "q8 = com.microsoft.QuantizeLinear (v, step, point)\n e = com.microsoft.DequantizeLinear (q8, step, point)",
    "Einsum": "e = Einsum <equation = \"bsi,ij->bsj\"> (v, wq)",
    "Pad of features": "f = Pad (v, pads)\n e = Slice (f, i0, i8, i2)",
    "Trilu of features": "f = Reshape (v, squares)\n w = Trilu (f)\n e = Reshape (w, hs)",
    "SplitToParts": "f, w = Split <axis = -1, num_outputs = 2> (v)\n e = Concat <axis = -1> (w, f)",
}
# What is made of scores beside all positions.
WEIGHTS = {
    "Hardmax": "s2 = Hardmax <axis = -1> (s1)",
    "Exp, ReduceSum, Div": "x = Exp (s1)\n xs = ReduceSum <keepdims = 1> (x, last)\n s2 = Div (x, xs)",
    "LpNormalization": "x = Exp (s1)\n s2 = LpNormalization <axis = -1, p = 1> (x)",
    "Softmax, quantized": "x = Softmax <axis = -1> (s1)\n q8 = QuantizeLinear <output_dtype = 3> (x, step)\n s2 = DequantizeLinear (q8, step)",
    "Softmax of com.microsoft's quantizers": "x = Softmax <axis = -1> (s1)\n q8 = com.microsoft.QuantizeLinear (x, step, point)\n s2 = com.microsoft.DequantizeLinear (q8, step, point)",
    "Softmax, tiled": "x = Softmax <axis = -1> (s1)\n s2 = Tile (x, ones4)",
}
# What is made of the mask, of which a window has as many entries as there are places.
MASKS = {
    "Tile": "x = Tile (m2, ones4)\n mb = Cast <to = 9> (x)",
    "quantizers": "x = Cast <to = 1> (m2)\n q8 = QuantizeLinear (x, one)\n z = DequantizeLinear (q8, one)\n mb = Cast <to = 9> (z)",
    "Pad and Slice": "x = Pad (m2, pads4)\n z = Slice (x, i0, i1, i1)\n mb = Cast <to = 9> (z)",
    "Trilu of heads": "x = Unsqueeze (m2, i2)\n z = Transpose <perm = [0,4,1,2,3]> (x)\n w = Trilu (z)\n v5 = Transpose <perm = [0,2,3,4,1]> (w)\n u5 = Squeeze (v5, i2)\n mb = Cast <to = 9> (u5)",
    "TopK of heads": "k = Constant <value_ints = [1]> ()\n x, y9 = TopK <axis = 1> (m2, k)\n mb = Cast <to = 9> (x)",
    "ReduceSum of heads": "x = ReduceSum <keepdims = 1> (m2, i1)\n mb = Cast <to = 9> (x)",
    "CumSum of heads": "one0 = Constant <value_int = 1> ()\n x = CumSum (m2, one0)\n mb = Cast <to = 9> (x)",
    "Split and Concat": "x = Concat <axis = 1> (m2, m2)\n z, w = Split <axis = 1, num_outputs = 2> (x)\n mb = Cast <to = 9> (w)",
}
PASSES = {
    "kv_cache": ["kv_cache"],
    "remove_cache": ["kv_cache", "remove_cache"],
    "remove_cache of a buffer": ["kv_cache:mode=buffer;max_context=20", "remove_cache"],
    "remove_cache of a window of one": ["kv_cache:mode=window;window=1;sequence=14;max_context=20", "remove_cache"],
    "remove_cache of a window": ["kv_cache:mode=window;window=3;sequence=14;max_context=20", "remove_cache"],
    "last_logits": ["last_logits"],
    "last_logits with a cache": ["kv_cache", "last_logits"],
}


def model(mask=CAST, weights=SOFTMAX, tail="e = Identity (v)"):
    made = onnx.parser.parse_model(HEAD % (mask, weights, tail))
    rng = np.random.default_rng(0)
    draw = lambda *dims: (rng.standard_normal(dims) * .3).astype(np.float32)
    values = {"table": draw(16, 8), "wq": draw(8, 8), "head": draw(8, 16), "bias8": draw(8), "hs": np.array([0, 0, 8]), "split": np.array([0, 0, 2, 4]),
              "squares": np.array([0, 0, 2, 4]), "ones3": np.array([1, 1, 1]), "ones4": np.array([1, 1, 1, 1]), "i0": np.array([0]), "i1": np.array([1]),
              "i2": np.array([2]), "i8": np.array([8]), "last": np.array([-1]), "pads4": np.array([0, 0, 0, 0, 0, 1, 0, 0]), "one": np.array(1, np.float32), "pads": np.array([0, 0, 0, 0, 0, 3]), "step": np.array(.05, np.float32),
              "steps": np.linspace(.04, .1, 8, dtype=np.float32), "point": np.array(0, np.int8),
              "blocks": rng.integers(0, 255, (8, 1, 8)).astype(np.uint8), "scales": np.full(8, .05, np.float32)}
    used = {name for node in made.graph.node for name in node.input}
    made.graph.initializer.extend(tensor(name, v) for name, v in values.items() if name in used)
    return made


def verified(tmp_path, made, passes):
    onnx.save(made, tmp_path / "m.onnx")
    words = [word for one in passes for word in ("--pass", one)]
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", *words, "--report", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["passes"][-1]["compared"], report
    return onnx.load(tmp_path / "o.onnx")


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("passes", PASSES)
def test_of_tokens(tmp_path, passes, tail):
    made = verified(tmp_path, model(tail=TAILS[tail]), PASSES[passes])
    if passes == "last_logits":  # queries are cut, in front of the attention
        assert "t" in [n.input[0] for n in made.graph.node if n.op_type == "Slice"]


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("passes", PASSES)
def test_of_scores(tmp_path, passes, weights):
    made = model(weights=WEIGHTS[weights])
    if weights == "LpNormalization" and "window" in passes:  # no number that is added to scores takes one out of all
        onnx.save(made, tmp_path / "m.onnx")
        done = run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", *(w for one in PASSES[passes] for w in ("--pass", one)))
        assert done.returncode == 5 and "it mixes tokens along axis 3" in done.stderr, done.stderr
        return
    verified(tmp_path, made, PASSES[passes])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("passes", PASSES)
def test_of_masks(tmp_path, passes, mask):
    verified(tmp_path, model(mask=MASKS[mask]), PASSES[passes])
