"""Operators as their bodies where the target or the opset does not take them."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, make_model, onnxruntime_outputs, run, run_ok, tensor, value

RANDOM = np.random.default_rng(3)


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def case(op, weights=(), shape=(2, 6, 5, 8), opset=20, domain="", outputs=1, **attributes):
    inputs = [tensor(f"w{i}", w) for i, w in enumerate(weights)]
    names = ["y"] if outputs == 1 else ["y", "", "", "z"]
    node = helper.make_node(op, ["x", *(f"w{i}" for i in range(len(weights)))], names, domain=domain, **attributes)
    results = [value(n, TensorProto.FLOAT, list(shape)) for n in names if n]
    return make_model([node], [value("x", TensorProto.FLOAT, list(shape))], results, inputs, opset=opset, ir_version=10, domains=[domain] if domain else [])


STANDARD = {
    "gelu": case("Gelu"),
    "gelu_tanh": case("Gelu", approximate="tanh"),
    "mish": case("Mish"),
    "hard_swish": case("HardSwish"),
    "celu": case("Celu", alpha=1.5),
    "layer_norm": case("LayerNormalization", [floats(8), floats(8)], epsilon=0.01),
    "layer_norm_of_two_axes": case("LayerNormalization", [floats(5, 8)], axis=2),
    "group_norm": case("GroupNormalization", [floats(6), floats(6)], num_groups=3, opset=21),
    "swish": case("Swish", alpha=1.5, opset=24),
}


@pytest.mark.parametrize("name", STANDARD)
def test_an_older_opset_takes_the_body(tmp_path, name):
    model = STANDARD[name]
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--opset", "11", "--target", "onnx", cwd=tmp_path)
    result = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(result, full_check=True)
    assert {i.domain: i.version for i in result.opset_import} == {"": 11}
    assert model.graph.node[0].op_type not in {n.op_type for n in result.graph.node}
    x = floats(2, 6, 5, 8)
    after = onnxruntime_outputs(tmp_path / "out.onnx", {"x": x})["y"]
    if name != "swish":
        before = onnxruntime_outputs(tmp_path / "in.onnx", {"x": x})["y"]
    else:
        before = x / (1 + np.exp(-1.5 * x))
    assert np.abs(before - after).max() < 1e-5


MICROSOFT = {
    "gelu": case("Gelu", domain="com.microsoft"),
    "bias_gelu": case("BiasGelu", [floats(8)], domain="com.microsoft"),
    "fast_gelu": case("FastGelu", [floats(8)], domain="com.microsoft"),
    "quick_gelu": case("QuickGelu", domain="com.microsoft", alpha=1.7),
    "skip_layer_norm": case("SkipLayerNormalization", [floats(2, 5, 8), floats(8), floats(8)], (2, 5, 8), domain="com.microsoft", epsilon=0.01),
    "skip_layer_norm_with_bias": case("SkipLayerNormalization", [floats(2, 5, 8), floats(8), floats(8), floats(8)], (2, 5, 8), domain="com.microsoft"),
    "skip_layer_norm_with_sum": case("SkipLayerNormalization", [floats(2, 5, 8), floats(8), floats(8)], (2, 5, 8), domain="com.microsoft", outputs=2),
    "skip_rms_norm": case("SkipSimplifiedLayerNormalization", [floats(2, 5, 8), floats(8)], (2, 5, 8), domain="com.microsoft", epsilon=0.01),
}


@pytest.mark.parametrize("name", MICROSOFT)
def test_another_target_takes_the_standard_form(tmp_path, name):
    model = MICROSOFT[name]
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--target", "onnx", cwd=tmp_path)
    result = onnx.load(tmp_path / "out.onnx")
    assert {n.domain for n in result.graph.node} == {""}
    x = floats(*(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim))
    before, after = (onnxruntime_outputs(tmp_path / f, {"x": x}) for f in ("in.onnx", "out.onnx"))
    for name in before:
        assert np.abs(before[name] - after[name]).max() < 1e-5


def test_what_gives_way_does_not_show_in_the_cost(tmp_path):
    onnx.save(MICROSOFT["gelu"], tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--target", "onnx", "--cost", "nodes", "--report", "report.json", cwd=tmp_path)
    told = json.loads((tmp_path / "report.json").read_text())
    assert 0.9 < told["cost_before"] < 1.1 and 0.9 < told["cost_after"] < 1.1


def test_a_target_that_takes_the_operator_keeps_it(tmp_path):
    onnx.save(STANDARD["mish"], tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--cost", "nodes", cwd=tmp_path)
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["Mish"]


def test_functions_of_rules_are_listed():
    done = run_ok("rules", "list", "--functions")
    for word in ["counts_from(x) -> dim", "same_shape", "rank(X) == 4"]:
        assert word in done.stdout


def of_opset_23(op, shapes, outputs=1, types=(), **attributes):
    """A node on inputs of these shapes, and values for them: positions and truth values where a type says so. Sizes are open, but for
    those of a cache and what it makes longer: a mask may be shorter than the keys, and means another thing then."""
    names_of = {5: "s"} if len(shapes) > 4 else {5: "s", 7: "t"}
    names, feed, inputs = [], {}, []
    for i, shape in enumerate(shapes):
        names.append(f"x{i}" if shape else "")
        if not shape:
            continue
        kind = dict(types).get(i, TensorProto.FLOAT)
        inputs.append(value(f"x{i}", kind, ["b" if d == 2 and not axis else names_of.get(d, d) for axis, d in enumerate(shape)]))
        drawn = RANDOM.integers(0, 5, shape) if kind == TensorProto.INT64 else RANDOM.random(shape) < 0.7 if kind == TensorProto.BOOL else floats(*shape)
        if kind == TensorProto.BOOL:
            drawn[..., 0] = True  # no row is hidden as a whole
        feed[f"x{i}"] = drawn
    results = [value(f"y{i}", TensorProto.FLOAT, [None] * (4 if i else len(shapes[0]))) for i in range(outputs)]
    node = helper.make_node(op, names, [r.name for r in results], **attributes)
    return make_model([node], inputs, results, opset=23, ir_version=11), feed


Q4, K4, V4, MASK = (2, 6, 5, 8), (2, 6, 7, 8), (2, 6, 7, 3), (2, 1, 5, 7)
Q3, K3, V3 = (2, 5, 48), (2, 7, 16), (2, 7, 6)
PAST = ((2, 2, 4, 8), (2, 2, 4, 3))
NEWEST = {
    "attention": of_opset_23("Attention", [Q4, K4, V4]),
    "attention_of_mask": of_opset_23("Attention", [Q4, K4, V4, MASK], scale=0.3),
    "attention_of_choice": of_opset_23("Attention", [Q4, K4, V4, MASK], types={3: TensorProto.BOOL}),
    "attention_of_shared_heads": of_opset_23("Attention", [Q4, (2, 3, 7, 8), (2, 3, 7, 3)]),
    "attention_of_packed_heads": of_opset_23("Attention", [Q3, K3, V3, MASK], q_num_heads=6, kv_num_heads=2),
    "attention_capped": of_opset_23("Attention", [Q4, K4, V4, MASK], softcap=1.5),
    "attention_causal": of_opset_23("Attention", [Q4, (2, 6, 5, 8), (2, 6, 5, 3)], is_causal=1),
    "attention_causal_of_packed_heads": of_opset_23("Attention", [Q3, (2, 5, 16), (2, 5, 6)], is_causal=1, q_num_heads=6, kv_num_heads=2),
    "attention_with_past": of_opset_23("Attention", [Q4, (2, 2, 7, 8), (2, 2, 7, 3), (2, 1, 5, 11), *PAST], outputs=3),
    "attention_with_past_of_packed_heads": of_opset_23("Attention", [Q3, K3, V3, (2, 1, 5, 11), *PAST], outputs=3, q_num_heads=6, kv_num_heads=2, scale=0.2),
    "rotary": of_opset_23("RotaryEmbedding", [Q4, (2, 5, 4), (2, 5, 4)]),
    "rotary_of_pairs": of_opset_23("RotaryEmbedding", [Q4, (2, 5, 4), (2, 5, 4)], interleaved=1),
    "rotary_of_positions": of_opset_23("RotaryEmbedding", [Q4, (9, 4), (9, 4), (2, 5)], types={3: TensorProto.INT64}),
    "rotary_of_first_part": of_opset_23("RotaryEmbedding", [Q4, (9, 2), (9, 2), (2, 5)], types={3: TensorProto.INT64}, rotary_embedding_dim=4),
    "rotary_of_packed_heads": of_opset_23("RotaryEmbedding", [Q3, (9, 4), (9, 4), (2, 5)], types={3: TensorProto.INT64}, num_heads=6, interleaved=1),
    "rms_norm": of_opset_23("RMSNormalization", [Q4, (8,)], epsilon=0.01),
}


@pytest.mark.parametrize("name", NEWEST)
@pytest.mark.parametrize("target", ["onnx", "ort-cpu@1.31", "npu-4d"])
def test_the_newest_operators_in_an_older_opset(tmp_path, name, target):
    """Where the target takes the body's operators, and where it lacks some of them: what the opset lacks goes in any case."""
    model, feed = NEWEST[name]
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--opset", "14", "--target", target, "--cost", "nodes", cwd=tmp_path)
    result = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(result)
    assert {i.version for i in result.opset_import if i.domain == ""} == {14}
    before, after = (onnxruntime_outputs(tmp_path / f, feed) for f in ("in.onnx", "out.onnx"))
    for key in before:
        np.testing.assert_allclose(before[key], after[key], rtol=1e-4, atol=1e-5)


def operators_apart(model):
    return {n.op_type for n in model.graph.node if n.domain}


@pytest.mark.parametrize("opset", [15, 23])
def test_what_was_fused_for_onnx_runtime_goes_elsewhere(tmp_path, opset):
    """Embeddings, attention with projections, biases and mask, skip connections, GELU: all as the standard's operators again."""
    run_ok(DATA / "bart_encoder.onnx", tmp_path / "fused.onnx", "--cost", "nodes")
    fused = onnx.load(tmp_path / "fused.onnx")
    assert {"Attention", "SkipLayerNormalization", "EmbedLayerNormalization"} <= operators_apart(fused)
    run_ok(tmp_path / "fused.onnx", tmp_path / "plain.onnx", "--target", "onnx", "--opset", str(opset))
    plain = onnx.load(tmp_path / "plain.onnx")
    onnx.checker.check_model(plain, full_check=True)
    assert operators_apart(plain) == set()
    feed = {i.name: np.ones([2, 5], np.int64) for i in fused.graph.input}
    before, after = (onnxruntime_outputs(tmp_path / f, feed) for f in ("fused.onnx", "plain.onnx"))
    for name in before:
        np.testing.assert_allclose(before[name], after[name], rtol=1e-3, atol=1e-4)


FUSED = {
    "biased": ("MultiHeadAttention", [(2, 5, 24), (2, 7, 24), (2, 7, 18), (66,)], {"num_heads": 3}),
    "of_heads_apart": ("MultiHeadAttention", [(2, 5, 24), (2, 3, 7, 8), (2, 3, 7, 8)], {"num_heads": 3}),
    "of_heads_apart_biased": ("MultiHeadAttention", [(2, 5, 24), (2, 3, 7, 8), (2, 3, 7, 8), (72,)], {"num_heads": 3}),
    "causal": ("MultiHeadAttention", [(2, 5, 24), (2, 5, 24), (2, 5, 24), (72,)], {"num_heads": 3, "unidirectional": 1}),
    "masked": ("MultiHeadAttention", [(2, 5, 24), (2, 7, 24), (2, 7, 18), None, None, (2, 1, 5, 7)], {"num_heads": 3, "scale": 0.3}),
    "projected": ("Attention", [(2, 5, 16), (16, 36), (36,)], {"num_heads": 3}),
    "projected_to_sizes": ("Attention", [(2, 5, 16), (16, 42), (42,)], {"num_heads": 3, "qkv_hidden_sizes": [12, 12, 18]}),
    "transposed": ("FusedMatMul", [(2, 8, 5), (2, 3, 8)], {"transA": 1, "transB": 1, "alpha": 0.4}),
    "convolution": ("FusedConv", [(2, 4, 7, 7), (6, 4, 3, 3), (6,)], {"activation": "Relu"}),
    "convolution_and_sum": ("FusedConv", [(2, 4, 7, 7), (6, 4, 3, 3), (6,), (2, 6, 5, 5)], {"activation": "Relu"}),
}


@pytest.mark.parametrize("name", FUSED)
def test_an_operator_of_onnx_runtime_as_the_standards(tmp_path, name):
    op, shapes, attributes = FUSED[name]
    feed = {f"x{i}": floats(*s) for i, s in enumerate(shapes) if s}
    node = helper.make_node(op, [f"x{i}" if s else "" for i, s in enumerate(shapes)], ["y"], domain="com.microsoft", **attributes)
    inputs = [value(k, TensorProto.FLOAT, ["b" if d == 2 and not axis else d for axis, d in enumerate(v.shape)]) for k, v in feed.items()]
    rank = 4 if op == "FusedConv" else 3
    onnx.save(make_model([node], inputs, [value("y", TensorProto.FLOAT, [None] * rank)], opset=17, domains=["com.microsoft"]), tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--target", "onnx", "--keep-opset", cwd=tmp_path)
    result = onnx.load(tmp_path / "out.onnx")
    assert operators_apart(result) == set()
    before, after = (onnxruntime_outputs(tmp_path / f, feed) for f in ("in.onnx", "out.onnx"))
    np.testing.assert_allclose(before["y"], after["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_attention_of_onnx_runtime_in_half_precision_assumes_finite_scores(tmp_path, dtype):
    """ONNX Runtime computes scores in float32, the standard's Attention in its type: there a score above 65504 is infinite."""
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=3)
    onnx.save(make_model([node], [value(n, dtype, [2, 5, 24]) for n in "qkv"], [value("y", dtype, [2, 5, 24])], opset=23, domains=["com.microsoft"]), tmp_path / "in.onnx")
    half = dtype == TensorProto.FLOAT16
    for words, op in ((), "Attention"), (("--no-assume", "finite_scores"), "MultiHeadAttention" if half else "Attention"):
        run_ok("in.onnx", "out.onnx", "--target", "onnx", "--no-verify", "--report", "report.json", *words, cwd=tmp_path)
        assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == [op]
        assumed = {a["assumption"] for a in json.loads((tmp_path / "report.json").read_text())["assumed"]}
        assert ("finite_scores" in assumed) == (half and not words)


def test_bodies_of_the_newest_operators_sleep_where_a_model_has_none(tmp_path):
    """Softmax of a product in opset 18 is Attention to the rules, which opset 18 lacks: that is not taken apart again."""
    x = lambda name, *shape: value(name, TensorProto.FLOAT, list(shape))
    nodes = [helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Softmax", ["s"], ["w"], axis=-1), helper.make_node("MatMul", ["w", "v"], ["y"])]
    model = make_model(nodes, [x("q", "b", 3, "s", 8), x("k", "b", 3, 8, "t"), x("v", "b", 3, "t", 8)], [x("y", "b", 3, "s", 8)], opset=18)
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--keep-opset", "--target", "onnx", "--report", "report.json", cwd=tmp_path)
    fired = {r["rule"] for r in json.loads((tmp_path / "report.json").read_text())["saturation"]["rules"]}
    assert any(r.startswith("attention_heads_packed") for r in fired), fired
    assert "attention_of_packed_heads_as_heads" not in fired
