"""What ONNX Runtime makes of a quantized model when it loads it: no integer kernel is lost, by its own saved model."""
import collections
import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run_ok, tensor, value

onnxruntime = pytest.importorskip("onnxruntime")


def is_since(version):
    return tuple(int(n) for n in onnxruntime.__version__.split(".")[:2]) >= version


quantizes_biases = pytest.mark.skipif(not is_since((1, 22)), reason="ONNX Runtime quantizes biases since 1.22")


class Quantized:
    """A model as static quantizers write it: activations and weights through quantizers, biases as floats."""

    def __init__(self, seed=0):
        self.rng, self.nodes, self.constants = np.random.default_rng(seed), [], {}

    def constant(self, name, array):
        self.constants[name] = array
        return name

    def node(self, op, inputs, name, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def through(self, x, name, dtype=np.uint8, scale=0.05, axis=None):
        """Quantized and dequantized; a Relu is the range of uint8 that begins at 0."""
        scales = np.float32(scale) if axis is None else (self.rng.random(scale) * 0.05 + 0.02).astype(np.float32)
        zero = np.zeros(np.shape(scales), dtype)
        parameters = [self.constant(f"{name}_s", scales), self.constant(f"{name}_z", zero)]
        attributes = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *parameters], f"{name}_q", **attributes), *parameters], f"{name}_d", **attributes)

    def weights(self, name, shape, axis):
        """Integers, dequantized by channel."""
        channels = shape[axis]
        inputs = [
            self.constant(f"{name}_q", self.rng.integers(-127, 127, shape).astype(np.int8)),
            self.constant(f"{name}_s", (self.rng.random(channels) * 0.002 + 0.001).astype(np.float32)),
            self.constant(f"{name}_z", np.zeros(channels, np.int8)),
        ]
        return self.node("DequantizeLinear", inputs, f"{name}_d", axis=axis)

    def bias(self, name, size):
        return self.constant(name, self.rng.normal(size=size).astype(np.float32))

    def conv(self, x, name, inputs, outputs, group=1):
        return self.node("Conv", [x, self.weights(f"{name}_w", (outputs, inputs // group, 3, 3), 0), self.bias(f"{name}_b", outputs)], name, pads=[1, 1, 1, 1], group=group)

    def save(self, path, shape, output, opset=17):
        graph = make_model(self.nodes, [value("x", TensorProto.FLOAT, shape)], [value(output, TensorProto.FLOAT, None)], [tensor(n, a) for n, a in self.constants.items()], opset=opset)
        onnx.save(graph, path)
        return {"x": self.rng.normal(size=shape).astype(np.float32)}


def loaded(path):
    """Operators of the model that ONNX Runtime saves at ENABLE_EXTENDED."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(saved := pathlib.Path(path).with_suffix(".saved.onnx"))
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return collections.Counter(n.op_type for n in onnx.load(saved).graph.node)


def outputs(path, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def integer_kernels(counts):
    return sum(n for op, n in counts.items() if op.startswith("QLinear") or op in ("QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"))


def check(tmp_path, path, feeds, target, step, kernels):
    """The result has no fewer of the named kernels than the original, no slower ones in their place, and is as far as a few steps from it."""
    run_ok(path, "-o", out := tmp_path / "out.onnx", "--target", target)
    before, after = loaded(path), loaded(out)
    assert before[kernels], (kernels, before)
    assert after[kernels] >= before[kernels], (before, after)
    assert integer_kernels(after) >= integer_kernels(before), (before, after)
    assert np.abs(outputs(out, feeds) - outputs(path, feeds)).max() <= 3 * step
    return before, after


def residual(q, dtype):
    """Convolutions with biases of floats, of which one reads what a MaxPool moved; between them int8 and uint8, as NNCF writes it."""
    first = q.through(q.node("Relu", [q.conv(q.through("x", "x", np.int8), "c0", 3, 8)], "r0"), "r0")
    pooled = q.node("MaxPool", [first], "p", kernel_shape=[2, 2], strides=[2, 2])
    inner = q.through(q.node("Relu", [q.conv(pooled, "c1", 8, 8)], "r1"), "r1")
    out = q.through(q.conv(inner, "c2", 8, 8), "c2", dtype)
    return q.through(q.node("Relu", [q.node("Add", [out, pooled], "a")], "r2"), "y")


@quantizes_biases
@pytest.mark.parametrize("target", ["ort-cpu@1.31", "ort-cpu@1.23"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_convolutions_with_biases_of_floats_stay_integers(tmp_path, target, dtype):
    q = Quantized()
    y = residual(q, dtype)
    feeds = q.save(path := tmp_path / "m.onnx", [1, 3, 16, 16], y)
    before, after = check(tmp_path, path, feeds, target, 0.05, "QLinearConv")
    assert before["QLinearConv"] == 3 and after["QLinearAdd"] >= before["QLinearAdd"] and not after["Conv"] + after["FusedConv"]
    weights = lambda p: sum(i.ByteSize() for i in onnx.load(p).graph.initializer)
    assert weights(tmp_path / "out.onnx") < 1.1 * weights(path)


@pytest.mark.parametrize("release, integers", [("1.20", False), ("1.22", True)])
def test_a_bias_of_floats_is_quantized_by_the_releases_that_do_so(tmp_path, release, integers):
    q = Quantized()
    y = q.through(q.conv(q.through("x", "x"), "c", 3, 4), "y")
    q.save(path := tmp_path / "m.onnx", [1, 3, 8, 8], y)
    run_ok(path, "-o", out := tmp_path / "out.onnx", "--target", f"ort-cpu@{release}")
    dequantized = [n for n in onnx.load(out).graph.node if n.op_type == "DequantizeLinear"]
    assert len(dequantized) == (3 if integers else 2)  # of the weights, too


@quantizes_biases
@pytest.mark.parametrize("target", ["ort-cpu@1.31"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("view", [False, True])
def test_linear_layers_with_biases_of_floats_stay_integers(tmp_path, target, dtype, view):
    q = Quantized()
    x = "x"
    if view:  # which rules would move behind the quantizer
        x = q.node("Reshape", [x, q.constant("shape", np.array([4, 32]))], "v")
    h = q.node("Gemm", [q.through(x, "x", dtype), q.weights("w0", (32, 48), 1), q.bias("b0", 48)], "h")
    y = q.through(q.node("Gemm", [q.through(h, "h", dtype), q.weights("w1", (48, 16), 1), q.bias("b1", 16)], "g"), "y", dtype)
    feeds = q.save(path := tmp_path / "m.onnx", [2, 2, 32] if view else [4, 32], y)
    check(tmp_path, path, feeds, target, 0.05, "QGemm")


@quantizes_biases
@pytest.mark.parametrize("target", ["ort-cpu@1.31"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("shape", [[6, 32], [2, 3, 32]])
def test_products_and_their_biases_stay_integers(tmp_path, target, dtype, shape):
    """ONNX Runtime makes a Gemm of a MatMul and an Add, and an integer operator of that."""
    q = Quantized()
    x, width = "x", 32
    for i, columns in enumerate((48, 16)):
        product = q.node("MatMul", [q.through(x, f"x{i}", dtype), q.weights(f"w{i}", (width, columns), 1)], f"p{i}")
        x, width = q.node("Add", [product, q.bias(f"b{i}", columns)], f"a{i}"), columns
    feeds = q.save(path := tmp_path / "m.onnx", shape, q.through(x, "y", dtype))
    before, after = check(tmp_path, path, feeds, target, 0.05, "QGemm" if is_since((1, 30)) or len(shape) == 2 else "MatMul")
    assert not after["Gemm"] + after["MatMul"] or before["Gemm"] + before["MatMul"]


@pytest.mark.parametrize("target", ["ort-cpu@1.31"])
@pytest.mark.parametrize("op", ["Conv", "MatMul", "Add", "GlobalAveragePool"])
def test_a_unit_has_one_scale(tmp_path, target, op):
    """ONNX Runtime makes an integer operator of what stands between quantizers by channel, and that operator refuses to run. Here a Relu keeps it from that, which
    the quantizer behind it makes needless."""
    q = Quantized()
    x = q.through("x", "x")
    if op == "Conv":
        x = q.node("Conv", [x, q.weights("w", (4, 4, 1, 1), 0)], "o")
    elif op == "MatMul":
        x = q.node("MatMul", [x, q.weights("w", (5, 5), 1)], "o")
    elif op == "Add":
        x = q.node("Add", [x, x], "o")
    else:
        x = q.node("GlobalAveragePool", [x], "o")
    y = q.through(q.node("Relu", [x], "r"), "y", np.uint8, 4, axis=1)
    feeds = q.save(path := tmp_path / "m.onnx", [2, 4, 5, 5], y)
    want = outputs(path, feeds)
    run_ok(path, "-o", out := tmp_path / "out.onnx", "--target", target)
    assert np.abs(outputs(out, feeds) - want).max() <= 0.08
