"""ONNX Runtime makes a product of weights of 4 bits one kernel, with activations of 8 bits, where they stand right before it: rules make no such place of another spelling."""
import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run_ok, tensor, value

onnxruntime = pytest.importorskip("onnxruntime")
Level = onnxruntime.GraphOptimizationLevel
K, BLOCK = 64, 16


class Weights:
    """Initializers `w`, `s`, perhaps `z`, and the DequantizeLinear `d` of them, in blocks along an axis (0: one scale)."""

    def __init__(self, dtype, shape, axis, zero, block=BLOCK):
        rng = np.random.default_rng(1)
        low = -8 if dtype == TensorProto.INT4 else 0
        scales = [n // block if i == axis else n for i, n in enumerate(shape)] if block else []
        integers = lambda name, dims: helper.make_tensor(name, dtype, dims, rng.integers(low, low + 16, dims).flatten().tolist())
        self.initializers = [integers("w", shape), tensor("s", (rng.random(scales) / 8 + 0.05).astype(np.float32))] + ([integers("z", scales)] if zero else [])
        attributes = {"axis": axis, "block_size": block} if block else {}
        self.node = helper.make_node("DequantizeLinear", ["w", "s", "z"][:2 + zero], ["d"], **attributes)


def spelled(form, dtype, zero, columns=8):
    """x W, of W in 4 bits."""
    node, n = helper.make_node, columns
    shape, axis, between, more = {
        "direct": ((K, n), 0, [], []),
        "identity": ((K, n), 0, [node("Identity", ["d"], ["v"])], []),
        "transpose": ((n, K), 1, [node("Transpose", ["d"], ["v"], perm=[1, 0])], []),
        "transpose_and_reshape": ((2, n // 2, K), 2, [node("Transpose", ["d"], ["t"], perm=[2, 0, 1]), node("Reshape", ["t", "to"], ["v"])], [tensor("to", np.array([K, n]))]),
        "reshape": ((K, 2, n // 2), 0, [node("Reshape", ["d", "to"], ["v"])], [tensor("to", np.array([K, n]))]),
        "reshape_of_the_same_shape": ((K, n), 0, [node("Reshape", ["d", "to"], ["v"])], [tensor("to", np.array([K, n]))]),
        "turned_twice": ((K, n), 0, [node("Transpose", ["d"], ["t"], perm=[1, 0]), node("Transpose", ["t"], ["v"], perm=[1, 0])], []),
        "batch_of_one": ((1, K, n), 1, [node("Squeeze", ["d", "to"], ["v"])], [tensor("to", np.array([0]))]),
        "one_scale": ((n, K), None, [node("Transpose", ["d"], ["v"], perm=[1, 0])], []),
        "gemm": ((n, K), 1, [], []),
    }[form]
    weights = Weights(dtype, shape, axis or 0, zero, 0 if axis is None else BLOCK)
    v = between[-1].output[0] if between else "d"
    product = node("Gemm", ["x", v], ["y"], transB=1) if form == "gemm" else node("MatMul", ["x", v], ["y"])
    rows = ["n"] if form == "gemm" else ["n", 3]
    return make_model([weights.node, *between, product], [value("x", TensorProto.FLOAT, [*rows, K])], [value("y", TensorProto.FLOAT, [*rows, n])],
                      [*weights.initializers, *more], opset=21, ir_version=10)


def outputs(path, feed, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feed)


def farthest(folder, model, *words):
    """The result, and how far from the original without optimizations each of the two lies at any level, as a share of the largest."""
    path, out = folder / "in.onnx", folder / "out.onnx"
    onnx.save(model, path)
    run_ok("optimize", path, "-o", out, "--judge", "saturate", *words)
    rng = np.random.default_rng(2)
    feed = {i.name: rng.normal(size=[2 if d.dim_param else d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32) for i in model.graph.input}
    plain = outputs(path, feed, Level.ORT_DISABLE_ALL)
    levels = (Level.ORT_DISABLE_ALL, Level.ORT_ENABLE_BASIC, Level.ORT_ENABLE_EXTENDED, Level.ORT_ENABLE_ALL)
    far = lambda p: max(np.abs(a - b).max() / np.abs(a).max() for level in levels for a, b in zip(plain, outputs(p, feed, level)))
    return onnx.load(out), far(path), far(out)


def kernels(model):
    return [(n.op_type, sum(a.i for a in n.attribute if a.name == "accuracy_level")) for n in model.graph.node if n.op_type == "MatMulNBits"]


TURNED = ["transpose", "transpose_and_reshape", "reshape", "reshape_of_the_same_shape", "turned_twice", "batch_of_one", "one_scale", "gemm"]


@pytest.mark.parametrize("target", ["ort-cpu", "onnx", "npu-4d"])
def test_no_spelling_becomes_coarser(tmp_path, target):
    for form, dtype, zero in itertools.product(TURNED, (TensorProto.INT4, TensorProto.UINT4), (False, True)):
        model, before, after = farthest(tmp_path, spelled(form, dtype, zero), "--target", target)
        assert after <= max(before, 1e-5), (form, dtype, zero, before, after, [n.op_type for n in model.graph.node])
        assert before < 1e-6 or form in ("turned_twice", "one_scale"), form  # of these ONNX Runtime makes its own


def test_large_weights_stay_in_4_bits(tmp_path):
    for form in ("transpose", "gemm"):
        model, before, after = farthest(tmp_path, spelled(form, TensorProto.UINT4, True, columns=512), "--target", "ort-cpu@1.20")
        assert before < 1e-6 and after < 1e-5 and all(level == 0 for _, level in kernels(model))
        assert model.ByteSize() < 64 * 512 * 2, [n.op_type for n in model.graph.node]


@pytest.mark.parametrize("form", ["direct", "identity"])
@pytest.mark.parametrize("target", ["ort-cpu", "onnx"])
def test_what_it_takes_as_it_came_stays(tmp_path, form, target):
    model, before, after = farthest(tmp_path, spelled(form, TensorProto.UINT4, True), "--target", target)
    assert target != "ort-cpu" or [n.op_type for n in model.graph.node] == ["DequantizeLinear", "MatMul"]
    assert before > 1e-3 and after <= before


def test_rules_go_on_around_its_own(tmp_path):
    """A product of the model that such a kernel computes may move past views; it computes each row by itself."""
    model = spelled("direct", TensorProto.INT4, False)
    model.graph.node[1].input[0] = "r"
    model.graph.node.insert(1, helper.make_node("Reshape", ["x", "rows"], ["r"]))
    model.graph.node[2].output[0] = "p"
    model.graph.node.append(helper.make_node("Reshape", ["p", "back"], ["y"]))
    model.graph.initializer.extend([tensor("rows", np.array([-1, K])), tensor("back", np.array([-1, 3, 8]))])
    result, before, after = farthest(tmp_path, model, "--target", "ort-cpu@1.20", "--cost", "nodes")
    assert "DequantizeLinear" in [n.op_type for n in result.graph.node] and after <= before


def test_weights_of_several_readers(tmp_path):
    """ONNX Runtime 1.24 makes units of these, 1.27 does not: the result may not depend on whether a reader is left."""
    node = helper.make_node
    weights = Weights(TensorProto.INT4, (K, 8), 0, False)
    nodes = [weights.node, node("MatMul", ["x", "d"], ["p"]), node("Mul", ["x", "x"], ["xx"]), node("MatMul", ["xx", "d"], ["q"]), node("Mul", ["q", "zero"], ["q0"]), node("Add", ["p", "q0"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", K])], [value("y", TensorProto.FLOAT, ["n", 8])], [*weights.initializers, tensor("zero", np.float32(0))], opset=21, ir_version=10)
    _, before, after = farthest(tmp_path, model, "--target", "ort-cpu@1.20")
    assert before < 1e-6 and after < 1e-5
    nodes = [weights.node, node("Transpose", ["d"], ["t"], perm=[1, 0]), node("Transpose", ["t"], ["v"], perm=[1, 0]), node("MatMul", ["x", "d"], ["p"]), node("Mul", ["x", "x"], ["xx"]),
             node("MatMul", ["xx", "v"], ["q"]), node("Add", ["p", "q"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", K])], [value("y", TensorProto.FLOAT, ["n", 8])], weights.initializers, opset=21, ir_version=10)
    for target in ("ort-cpu", "onnx"):
        _, before, after = farthest(tmp_path, model, "--target", target)
        assert before < 1e-6 and after < 1e-5
