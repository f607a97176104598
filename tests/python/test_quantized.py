"""Quantized models: integer kernels of the runtime need operators, QuantizeLinear and DequantizeLinear as they stand."""
import collections

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, onnxruntime_outputs, run_ok, tensor, value


def quantized_layers(view=None, quantize=True):
    """Two linear layers with GELU between, quantized the way ONNX Runtime's static quantizer writes it; `view` between weight and product."""
    rng = np.random.default_rng(0)
    nodes, initializers = [], [tensor("zero", np.uint8(128)), tensor("zero_w", np.int8(0)), tensor("bias", rng.normal(size=48).astype(np.float32))]

    def through(name, scale):
        initializers.append(tensor(f"{name}_s", np.float32(scale)))
        if not quantize:
            return name
        nodes.append(helper.make_node("QuantizeLinear", [name, f"{name}_s", "zero"], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s", "zero"], [f"{name}_d"]))
        return f"{name}_d"

    def product(x, name, k, n):
        shape = (n, k) if view == "Transpose" else (k * n,) if view == "Reshape" else (k, n)
        initializers.append(tensor(f"{name}_w", rng.integers(-127, 127, size=shape).astype(np.int8)))
        initializers.append(tensor(f"{name}_ws", np.float32(0.01)))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_w", f"{name}_ws", "zero_w"], [f"{name}_wd"]))
        weight = f"{name}_wd"
        if view:
            initializers.append(tensor(f"{name}_shape", np.array([k, n])))
            inputs = [weight] + ([f"{name}_shape"] if view == "Reshape" else [])
            nodes.append(helper.make_node(view, inputs, [f"{name}_wv"], **({"perm": [1, 0]} if view == "Transpose" else {})))
            weight = f"{name}_wv"
        nodes.append(helper.make_node("MatMul", [x, weight], [name]))
        return through(name, 0.05)

    first = product(through("x", 0.02), "h", 32, 48)
    nodes.append(helper.make_node("Add", [first, "bias"], ["b"]))
    biased = through("b", 0.05)
    initializers += [tensor("root", np.float32(np.sqrt(2))), tensor("one", np.float32(1)), tensor("half", np.float32(0.5))]
    nodes += [helper.make_node("Div", [biased, "root"], ["d"]), helper.make_node("Erf", ["d"], ["e"]), helper.make_node("Add", ["e", "one"], ["f"]),
              helper.make_node("Mul", [biased, "f"], ["g"]), helper.make_node("Mul", ["g", "half"], ["gelu"])]
    last = product(through("gelu", 0.03), "y0", 48, 16)
    nodes.append(helper.make_node("Relu", [last], ["y"]))
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 5, 32])], [value("y", TensorProto.FLOAT, ["n", 5, 16])], initializers, opset=17)


def operators(model):
    return collections.Counter(n.op_type for n in model.graph.node)


@pytest.mark.parametrize("cost", ["measured", "nodes", "roofline"])
@pytest.mark.parametrize("view", [None, "Transpose", "Reshape"])
def test_weights_stay_integers_where_activations_are_quantized(tmp_path, view, cost):
    model = quantized_layers(view)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--cost", cost)
    after = onnx.load(tmp_path / "o.onnx")
    before, now = operators(model), operators(after)
    for op in ("QuantizeLinear", "DequantizeLinear", "MatMul"):
        assert now[op] == before[op], op
    assert now["Gelu"] == 1 and now["Erf"] == 0  # what stands between is still rewritten
    made = {o for n in after.graph.node if n.op_type == "DequantizeLinear" for o in n.output}  # no view between it and the product
    for node in after.graph.node:
        if node.op_type == "MatMul":
            assert set(node.input) <= made, node
    weights = [i for i in after.graph.initializer if i.data_type == TensorProto.INT8 and np.prod(i.dims) > 1]
    assert sorted(np.prod(w.dims) for w in weights) == [16 * 48, 32 * 48]
    inputs = {"x": np.random.default_rng(1).normal(size=(2, 5, 32)).astype(np.float32)}
    # A step of the last quantizer, where GELU's rounding moves a value over a tie.
    np.testing.assert_allclose(onnxruntime_outputs(tmp_path / "o.onnx", inputs)["y"], onnxruntime_outputs(tmp_path / "m.onnx", inputs)["y"], atol=0.0501)


def test_weight_only_quantization_is_a_matter_of_cost(tmp_path):
    """Nothing is quantized at run time: the dequantized weight is a constant like any other."""
    onnx.save(quantized_layers(quantize=False), tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx")
    assert operators(onnx.load(tmp_path / "o.onnx"))["DequantizeLinear"] == 0


def test_inputs_of_a_joined_quantized_tensor_have_types_of_their_own(tmp_path):
    """QLinearConcat takes tensors, scales and zero points in one list."""
    node = helper.make_node("QLinearConcat", ["s", "z", "x", "s", "z", "x", "s", "z"], ["y"], domain="com.microsoft", axis=1)
    model = make_model([node], [value("x", TensorProto.INT8, ["n", 4])], [value("y", TensorProto.INT8, ["n", 8])],
                       [tensor("s", np.float32(0.02)), tensor("z", np.int8(3))], opset=17, domains=["com.microsoft"])
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx")
    assert operators(onnx.load(tmp_path / "o.onnx"))["QLinearConcat"] == 1
