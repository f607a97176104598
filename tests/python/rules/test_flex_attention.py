"""FlexAttention of ai.onnx.preview: with graphs that change scores and probabilities it is spelled out, and fused again as any other attention."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import make_model, run_ok, tensor
from onnx import TensorProto, helper

F16, F32, F64, I64 = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64


def ops(made):
    return [n.op_type for n in made.graph.node]


SHAPE = ["b", 4, "s", "t"]


def change(*nodes, dtype=F32):
    """A graph of one value x to y."""
    info = [helper.make_tensor_value_info(n, dtype, SHAPE) for n in "xy"]
    return helper.make_graph([helper.make_node(op, inputs.split(), [out], **attributes) for op, inputs, out, attributes in nodes], "change", info[:1], info[1:])


CAP = change(("Div", "x cap", "d", {}), ("Tanh", "d", "e", {}), ("Mul", "e cap", "y", {}))
BIAS = change(("Add", "x bias", "y", {}))
HALVED = change(("Mul", "x half", "y", {}))
HALVED_DOUBLE = change(("Mul", "x half64", "y", {}), dtype=F64)
CAUSAL = change(
    ("Shape", "x", "q", {"start": 2, "end": 3}), ("Shape", "x", "k", {"start": 3, "end": 4}), ("Squeeze", "q", "qs", {}), ("Squeeze", "k", "ks", {}),
    ("Range", "zero qs one", "i", {}), ("Unsqueeze", "i axis", "column", {}), ("Range", "zero ks one", "j", {}),
    ("GreaterOrEqual", "column j", "seen", {}), ("Where", "seen x lowest", "y", {}),
)  # fmt: skip


def model(attributes, dtype=F32, kv_heads=4):
    sides = [helper.make_tensor_value_info(n, dtype, ["b", h, t, 8]) for n, h, t in (("q", 4, "s"), ("k", kv_heads, "t"), ("v", kv_heads, "t"), ("o", 4, "s"))]
    inputs = sides[:3]
    if attributes.get("score_mod") is BIAS:
        inputs.append(helper.make_tensor_value_info("bias", F32, ["s", "t"]))
    made = make_model([helper.make_node("FlexAttention", ["q", "k", "v"], ["o"], domain="ai.onnx.preview", **attributes)], inputs, sides[3:], opset=25)
    made.opset_import.append(helper.make_opsetid("ai.onnx.preview", 1))
    made.graph.initializer.extend([
        tensor("cap", np.float32(3)), tensor("half", np.float32(0.5)), tensor("half64", np.float64(0.5)), tensor("zero", np.int64(0)), tensor("one", np.int64(1)),
        tensor("axis", np.int64([1])), tensor("lowest", np.float32(-np.inf)),
    ])  # fmt: skip
    return made


NUMPY = {
    id(CAP): lambda x, _: np.tanh(x / 3) * 3,
    id(BIAS): lambda x, bias: x + bias,
    id(HALVED): lambda x, _: x / 2,
    id(HALVED_DOUBLE): lambda x, _: x / 2,
    id(CAUSAL): lambda x, _: np.where(np.arange(x.shape[2])[:, None] >= np.arange(x.shape[3]), x, -np.inf),
    id(None): lambda x, _: x,
}


def expected(attributes, q, k, v, bias=None):
    """As the operator's text says it, in double."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * attributes.get("scale", 1 / np.sqrt(q.shape[3]))
    scores = NUMPY[id(attributes.get("score_mod"))](scores, bias)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return NUMPY[id(attributes.get("prob_mod"))](weights / weights.sum(axis=-1, keepdims=True), bias) @ v


CASES = {
    "plain": ({}, F32, 4),
    "scaled": ({"scale": 0.25}, F32, 4),
    "shared heads": ({"score_mod": CAP}, F32, 2),
    "one shared head": ({"score_mod": HALVED, "scale": -0.3}, F32, 1),
    "soft cap": ({"score_mod": CAP, "scale": 0.25}, F32, 4),
    "bias": ({"score_mod": BIAS}, F32, 4),
    "causal": ({"score_mod": CAUSAL}, F32, 4),
    "probabilities": ({"prob_mod": HALVED}, F32, 4),
    "both": ({"score_mod": CAP, "prob_mod": HALVED}, F32, 2),
    "half": ({"score_mod": CAP, "softmax_precision": F32}, F16, 2),
    "double": ({"score_mod": HALVED_DOUBLE}, F64, 4),
    "double without a graph": ({}, F64, 2),
}
FUSED = ["plain", "scaled", "bias", "causal"]  # the others are priced, or no kernel can say them


@pytest.mark.parametrize("target", ["ort-cpu@1.31", "ort-cpu@1.20"])
@pytest.mark.parametrize("case", CASES)
def test_runs_where_there_is_no_kernel(tmp_path, case, target):
    attributes, dtype, kv_heads = CASES[case]
    made = model(attributes, dtype, kv_heads)
    onnx.save(made, tmp_path / "m.onnx")
    said = run_ok("m.onnx", "-o", "o.onnx", "--target", target, cwd=tmp_path).stdout
    assert "predicted (the model as it came can't run there)" in said and "->" not in next(line for line in said.splitlines() if "predicted" in line)
    assert "can't run there" in run_ok("explain", "m.onnx", "--target", target, cwd=tmp_path).stdout
    after = onnx.load(tmp_path / "o.onnx")
    assert "FlexAttention" not in ops(after)
    if target.endswith("31") and case in FUSED:
        assert ops(after).count("Attention") == 1, ops(after)
    rng, np_dtype = np.random.default_rng(1), helper.tensor_dtype_to_np_dtype(dtype)
    session = ort.InferenceSession(after.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch, s, t in ((1, 5, 5), (2, 1, 7), (1, 1, 1), (3, 6, 6)):
        feeds = {n: rng.normal(size=(batch, h, length, 8)).astype(np_dtype) for n, h, length in (("q", 4, s), ("k", kv_heads, t), ("v", kv_heads, t))}
        if attributes.get("score_mod") is BIAS:
            feeds["bias"] = rng.normal(size=(s, t)).astype(np.float32)
        np.testing.assert_allclose(session.run(None, feeds)[0], expected(attributes, **feeds), rtol=0, atol=4e-3 if dtype == F16 else 2e-6)


@pytest.mark.parametrize("graph", [change(("Identity", "x", "y", {})), change(("Neg", "x", "unread", {}), ("Relu", "x", "y", {}))])
def test_graphs_that_do_little(tmp_path, graph):
    onnx.save(model({"score_mod": graph}), tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "ort-cpu@1.31", cwd=tmp_path)
    ort.InferenceSession(tmp_path / "o.onnx", providers=["CPUExecutionProvider"])


def test_a_graph_that_draws_stays(tmp_path):
    """Random numbers are drawn anew by each run: nothing is known of them, and the operator stays."""
    drawn = change(("RandomUniformLike", "x", "r", {}), ("Add", "x r", "y", {}))
    onnx.save(model({"score_mod": drawn}), tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "onnx", "--no-verify", cwd=tmp_path)
    assert ops(onnx.load(tmp_path / "o.onnx")) == ["FlexAttention"]


def test_in_a_function(tmp_path):
    """With a graph of its own the operator in a body kept the call from being written out."""
    graph = change(("Relu", "x", "y", {}))
    made = model({"score_mod": graph})
    imports = [helper.make_opsetid("", 25), helper.make_opsetid("ai.onnx.preview", 1)]
    made.functions.append(helper.make_function("own", "F", ["q", "k", "v"], ["o"], list(made.graph.node), imports))
    del made.graph.node[:]
    made.graph.node.append(helper.make_node("F", ["q", "k", "v"], ["o"], domain="own"))
    made.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(made, tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "ort-cpu@1.31", cwd=tmp_path)
    assert "Softmax" in ops(onnx.load(tmp_path / "o.onnx"))
    session = ort.InferenceSession(tmp_path / "o.onnx", providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    feeds = {n: rng.normal(size=(2, 4, 3, 8)).astype(np.float32) for n in "qkv"}
    NUMPY[id(graph)] = lambda x, _: np.maximum(x, 0)
    np.testing.assert_allclose(session.run(None, feeds)[0], expected({"score_mod": graph}, **feeds), rtol=0, atol=2e-6)


def test_a_function_of_that_name_is_no_such_operator(tmp_path):
    made = model({})
    body = [helper.make_node("Sub", ["q", "k"], ["d"]), helper.make_node("Add", ["d", "v"], ["o"])]
    made.functions.append(helper.make_function("ai.onnx.preview", "FlexAttention", ["q", "k", "v"], ["o"], body, [helper.make_opsetid("", 25)]))
    onnx.save(made, tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "ort-cpu@1.31", cwd=tmp_path)
    assert sorted(ops(onnx.load(tmp_path / "o.onnx"))) in (["Add", "Sub"], ["FlexAttention"])
    feeds = {n: np.random.default_rng(1).normal(size=(2, 4, 3, 8)).astype(np.float32) for n in "qkv"}
    session = ort.InferenceSession(tmp_path / "o.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, feeds)[0], feeds["q"] - feeds["k"] + feeds["v"], atol=1e-6)


def test_names_that_the_body_has(tmp_path):
    """Read one after the other, the value was the key."""
    names = {"q": " query", "k": " value", "v": " key"}
    made = model({"score_mod": HALVED})
    for held in made.graph.input:
        held.name = names[held.name]
    made.graph.node[0].input[:] = list(names.values())
    onnx.save(made, tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "ort-cpu@1.31", cwd=tmp_path)
    assert "Softmax" in ops(onnx.load(tmp_path / "o.onnx")) or "Attention" in ops(onnx.load(tmp_path / "o.onnx"))
