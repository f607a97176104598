"""A product or convolution is not computed twice: once as it is and once in a fused operator, since both results are read."""
import collections

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run_ok, tensor, value


def products(path):
    """Convolutions and products by what they multiply."""
    out = collections.Counter()
    for node in onnx.load(path).graph.node:
        if node.op_type in ("Conv", "FusedConv", "MatMul", "Gemm", "FusedMatMul", "FusedGemm"):
            out[tuple(node.input[:2])] += 1
    return out


@pytest.mark.parametrize("spelling", ["HardSigmoid", "Clip"])
@pytest.mark.parametrize("channels, columns, kernel, size", [(3, 16, 3, 96), (16, 96, 1, 100), (16, 96, 1, 350)])
def test_a_convolution_beside_its_gate(tmp_path, spelling, channels, columns, kernel, size):
    """x * hard_sigmoid(x), in an opset without HardSwish: by the prices of single operators a second convolution with the gate in it costs less than the gate."""
    rng = np.random.default_rng(0)
    constants = [tensor("w", rng.normal(size=(columns, channels, kernel, kernel)).astype(np.float32)), tensor("b", rng.normal(size=columns).astype(np.float32))]
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[kernel // 2] * 4)]
    if spelling == "HardSigmoid":
        nodes += [helper.make_node("HardSigmoid", ["c"], ["h"], alpha=1 / 6, beta=0.5), helper.make_node("Mul", ["c", "h"], ["y"])]
    else:
        constants += [tensor(n, np.float32(v)) for n, v in (("three", 3), ("zero", 0), ("six", 6))]
        nodes += [helper.make_node("Add", ["c", "three"], ["a"]), helper.make_node("Clip", ["a", "zero", "six"], ["k"]),
                  helper.make_node("Mul", ["c", "k"], ["m"]), helper.make_node("Div", ["m", "six"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [1, channels, size, size])], [value("y", TensorProto.FLOAT, None)], constants, opset=11)
    onnx.save(model, path := tmp_path / "m.onnx")
    run_ok(path, "-o", out := tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--keep-opset", "--no-verify")
    assert max(products(out).values()) == 1, products(out)


def test_one_that_the_model_computes_twice_may_be(tmp_path):
    """With two biases these are two operators of the model."""
    rng = np.random.default_rng(0)
    constants = [tensor("w", rng.normal(size=(8, 6)).astype(np.float32)), tensor("b", rng.normal(size=6).astype(np.float32)), tensor("d", rng.normal(size=6).astype(np.float32))]
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"]), helper.make_node("Gemm", ["x", "w", "d"], ["z"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [4, 8])], [value("y", TensorProto.FLOAT, [4, 6]), value("z", TensorProto.FLOAT, [4, 6])], constants, opset=17)
    onnx.save(model, path := tmp_path / "m.onnx")
    run_ok(path, "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31")
    assert products(tmp_path / "out.onnx")
