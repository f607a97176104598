"""Targets whose compilers find integer kernels by the quantizers of a graph get quantized models with their units and quantized weights."""
import json
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import ROOT, make_model, onnxruntime_outputs, run, run_ok, tensor, value

sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
from whole_units import count, lost  # noqa: E402

KEEPERS = ["onnx", "openvino", "ort-cuda", "ort-web", "qnn-htp", "coreml", "npu-4d", "trt-dla"]
LOOSE = ["onnx", "ort-cuda", "ort-web"]


class Quantizers:
    """Nodes and constants of a QDQ graph, value by value."""

    def __init__(self, activations=np.uint8):
        self.rng, self.nodes, self.constants, self.activations = np.random.default_rng(0), [], [], activations

    def constant(self, array):
        self.constants.append(tensor(f"c{len(self.constants)}", np.asarray(array)))
        return self.constants[-1].name

    def node(self, op, inputs, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"{op}_{len(self.nodes)}", **attributes))
        return out

    def between(self, x, scale=0.05):
        zero = 100 if self.activations in (np.uint8, np.uint16) else 0
        parameters = [self.constant(np.float32(scale)), self.constant(self.activations(zero))]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *parameters]), *parameters])

    def weights(self, *shape, axis=None, dtype=np.int8, scale=0.02):
        info = np.iinfo(dtype)
        numbers = self.rng.integers(max(info.min, -120), min(info.max, 120), shape).astype(dtype)
        if axis is None:
            return self.node("DequantizeLinear", [self.constant(numbers), self.constant(np.float32(scale)), self.constant(dtype(0))])
        scales = (scale * self.rng.uniform(0.5, 2, shape[axis])).astype(np.float32)
        return self.node("DequantizeLinear", [self.constant(numbers), self.constant(scales), self.constant(np.zeros(shape[axis], dtype))], axis=axis)

    def model(self, result, x_shape, opset=19):
        self.nodes[-1].output[0] = "y"
        outputs = onnx.shape_inference.infer_shapes(make_model(self.nodes, [value("x", TensorProto.FLOAT, x_shape)], [helper.make_tensor_value_info("y", 1, None)],
                                                               self.constants, opset=opset))
        return outputs


def image(channel=None, activations=np.uint8):
    q = Quantizers(activations)
    x = q.between("x")
    weights = q.weights(8, 4, 3, 3, axis=channel)
    a = q.between(q.node("Conv", [x, weights, q.weights(8, axis=None, dtype=np.int32, scale=0.001)], pads=[1, 1, 1, 1]), 0.07)
    pooled = q.between(q.node("MaxPool", [a], kernel_shape=[2, 2], strides=[2, 2]), 0.07)  # quantizers that change nothing
    b = q.between(q.node("Conv", [pooled, q.weights(8, 8, 1, 1, axis=channel)]), 0.06)
    summed = q.between(q.node("Add", [b, pooled]), 0.06)
    flat = q.between(q.node("Reshape", [summed, q.constant(np.array([1, 8 * 16]))]), 0.06)
    return q.model(q.between(q.node("Gemm", [flat, q.weights(16, 8 * 16), q.weights(16, dtype=np.int32, scale=0.001)], transB=1), 0.3), [1, 4, 8, 8])


def scores():
    """A product whose scale is a power of two that goes with the quantizers' own, so that a rule could take the Mul into a scale."""
    q = Quantizers()
    x = q.between("x", 0.05)
    rows = q.between(q.node("MatMul", [x, q.weights(16, 16)]), 0.1)
    turned = q.between(q.node("Transpose", [rows], perm=[0, 1, 3, 2]), 0.1)
    scaled = q.between(q.node("Mul", [turned, q.constant(np.float32(0.25))]), 0.025)
    products = q.between(q.node("MatMul", [rows, scaled]), 0.1)
    return q.model(q.between(q.node("Softmax", [products], axis=-1), 1 / 256), [1, 2, 6, 16])


def parts():
    """A Split between quantizers, as in blocks of detectors."""
    q = Quantizers()
    x = q.between(q.node("Conv", [q.between("x"), q.weights(8, 4, 1, 1)]), 0.1)
    q.nodes.append(helper.make_node("Split", [x, q.constant(np.array([4, 4]))], ["left", "right"], axis=1))
    left, right = q.between("left", 0.1), q.between("right", 0.1)
    turned = q.between(q.node("Conv", [right, q.weights(4, 4, 3, 3)], pads=[1, 1, 1, 1]), 0.1)
    summed = q.between(q.node("Add", [turned, right]), 0.1)
    joined = q.between(q.node("Concat", [left, right, summed], axis=1), 0.1)
    return q.model(q.between(q.node("Conv", [joined, q.weights(4, 12, 1, 1)]), 0.2), [1, 4, 6, 6])


def write(folder, model, *options):
    path, out = folder / "in.onnx", folder / "out.onnx"
    onnx.save(model, path)
    run_ok(path, "-o", out, "--judge", "saturate", *options)
    return onnx.load(out)


MODELS = {"per tensor": image, "per channel": lambda: image(0), "16 bits": lambda: image(0, np.int16), "signed": lambda: image(None, np.int8), "scores": scores, "parts": parts}


@pytest.mark.parametrize("target", KEEPERS)
@pytest.mark.parametrize("kind", MODELS)
def test_units_and_weights_stay(tmp_path, target, kind):
    model = MODELS[kind]() if kind != "16 bits" else onnx.version_converter.convert_version(MODELS[kind](), 21)
    before, weights = count(model)
    result = write(tmp_path, model, "--target", target)
    after, weights_after = count(result)
    assert sum(before.values()) >= 4 and weights >= 1
    gone = lost(before, after)
    if target == "npu-4d":  # it knows no Gemm of matrices; a product of rank 4 and a sum take its place
        gone.pop("MatMul or Gemm", None)
    assert not gone and weights_after >= weights, (before, after, weights, weights_after)
    if target != "ort-web":  # its views may change places
        x = np.random.default_rng(1).normal(size=[d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]).astype(np.float32)
        wanted, got = (onnxruntime_outputs(tmp_path / name, {"x": x})["y"] for name in ("in.onnx", "out.onnx"))
        assert np.abs(got - wanted).max() <= 0.31  # a step of the last quantizer


@pytest.mark.parametrize("target", LOOSE)
def test_the_user_may_break_them(tmp_path, target):
    model = image()
    count_of = lambda m: sum(n.op_type in ("QuantizeLinear", "DequantizeLinear") for n in m.graph.node)
    assert count_of(write(tmp_path, model, "--target", target, "--max-growth", "5")) < count_of(model)
    assert count_of(write(tmp_path, model, "--target", target, "--approximate")) < count_of(model) / 2


def test_an_accelerator_keeps_them_where_approximations_are_allowed(tmp_path):
    model = scores()
    assert not lost(count(model)[0], count(write(tmp_path, model, "--target", "qnn-htp", "--approximate"))[0])


def test_scales_stay_on_both_sides_of_integers(tmp_path):
    """A compiler for integers knows one scale for a tensor: what QuantizeLinear wrote with one is not dequantized with another."""
    result = write(tmp_path, scores(), "--target", "qnn-htp")
    makers = {o: n for n in result.graph.node for o in n.output}
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in result.graph.initializer}
    pairs = [(makers[n.input[0]], n) for n in result.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in makers and makers[n.input[0]].op_type == "QuantizeLinear"]
    assert len(pairs) >= 4
    assert all(constants[a.input[1]] == constants[b.input[1]] for a, b in pairs)


def test_floats_beside_units_fuse_as_ever(tmp_path):
    q = Quantizers()
    x = q.between(q.node("Conv", ["x", q.constant(np.ones((4, 4, 1, 1), np.float32))]))
    y = q.between(q.node("Conv", [x, q.weights(4, 4, 1, 1)]))
    once = q.node("Mul", [y, q.constant(np.float32(0.5))])
    model = q.model(q.node("Add", [q.node("Mul", [once, q.node("Add", [q.node("Erf", [q.node("Div", [y, q.constant(np.float32(np.sqrt(2)))])]), q.constant(np.float32(1))])]),
                                   q.constant(np.float32(0))]), [1, 4, 5, 5], opset=20)
    result = write(tmp_path, model, "--target", "onnx")
    assert "Gelu" in [n.op_type for n in result.graph.node]
    assert not lost(count(model)[0], count(result)[0])


def test_a_target_says_how_it_keeps_them(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps({"extends": "onnx", "name": "t", "keeps_quantizers": "often"}))
    onnx.save(image(), tmp_path / "m.onnx")
    done = run(tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--target", tmp_path / "t.json")
    assert done.returncode == 1 and "keeps_quantizers is 'often'; it is always or unless_approximate" in done.stderr
