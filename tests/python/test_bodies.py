"""Operators as their bodies where the target or the opset does not take them."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, onnxruntime_outputs, run, run_ok, tensor, value

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
