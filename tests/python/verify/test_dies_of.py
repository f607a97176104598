"""Shapes of graph at which ONNX Runtime's optimizers end the process, or refuse a model (extract/runtimes/dies_of.json): rules do not make them of models that load."""
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import run_ok

onnxruntime = pytest.importorskip("onnxruntime")

LOADED = "import sys, onnxruntime as o; o.set_default_logger_severity(4); [o.InferenceSession(p, providers=['CPUExecutionProvider']) for p in sys.argv[1:]]"


def check(tmp_path, model, target, *words):
    onnx.save(model, path := tmp_path / "m.onnx")
    run_ok(path, "-o", out := tmp_path / "out.onnx", "--target", target, "--no-verify", *words)
    for loaded in (path, out):
        done = subprocess.run([sys.executable, "-c", LOADED, loaded], capture_output=True, text=True)
        assert done.returncode == 0, (loaded, done.returncode, done.stderr[-300:])


def both(tmp_path, feeds, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    """What the model and the result that check() left give for `feeds`."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    return [onnxruntime.InferenceSession(tmp_path / name, options, providers=["CPUExecutionProvider"]).run(None, feeds) for name in ("m.onnx", "out.onnx")]


def made(nodes, inputs, outputs, constants, opset):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(v, name) for name, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset > 18 else 8)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16"])
@pytest.mark.parametrize("first, second", [([1, 0, 2], [1, 2, 0]), ([2, 0, 1], [0, 2, 1]), ([0, 2, 1], [1, 0, 2])])
def test_no_body_reads_what_is_moved_behind_a_dequantizer(tmp_path, dtype, first, second):
    shape = [2, 3, 4]
    moved = [shape[p] for p in first]
    last = [moved[p] for p in second]
    body = lambda name, op: helper.make_graph([helper.make_node(op, ["y"], [name])], name + "_", [], [helper.make_tensor_value_info(name, 1, moved)])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=first),
        helper.make_node("DequantizeLinear", ["b", "s", "z"], ["y"]),
        helper.make_node("Transpose", ["y"], ["t"], perm=second),
        helper.make_node("If", ["c"], ["i"], then_branch=body("p", "Neg"), else_branch=body("q", "Abs")),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    outputs = [helper.make_tensor_value_info("t", 1, last), helper.make_tensor_value_info("i", 1, moved)]
    check(tmp_path, made(nodes, inputs, outputs, {"s": np.float32(0.5), "z": np.dtype(dtype).type(0)}, 21), "ort-cpu")


@pytest.mark.parametrize("first, second", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("bias", [False, True])
def test_no_product_of_halves_ends_the_runtime(tmp_path, first, second, bias):
    constants = {"w": np.ones([5, 4] if second else [4, 5], np.float16)} | ({"b": np.ones(5, np.float16)} if bias else {})
    node = helper.make_node("Gemm", ["x", *constants], ["y"], transA=first, transB=second)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [4, 3] if first else [3, 4])]
    check(tmp_path, made([node], inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [3, 5])], constants, 17), "npu-4d")


@pytest.mark.parametrize("batch", [[1], [2, 1]])
@pytest.mark.parametrize("op, attributes", [("Softmax", {"axis": 1}), ("Neg", {})])
def test_no_transpose_of_halves_comes_next_to_a_product_with_another_rank(tmp_path, batch, op, attributes):
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 2, 0]),
        helper.make_node(op, ["t"], ["s"], **attributes),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
        helper.make_node("Reshape", ["s", "flat"], ["z"]),
    ]
    constants = {"w": np.ones([*batch, 4, 5], np.float16), "flat": np.int64([-1])}
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, None) for name in "yz"]
    check(tmp_path, made(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [4, 2, 64])], outputs, constants, 17), "ort-cpu")


@pytest.mark.parametrize("target", ["ort-cpu", "onnx", "qnn-htp", "npu-4d"])
@pytest.mark.parametrize("opset", [21, 23])
@pytest.mark.parametrize("reader", ["output", "Abs"])
@pytest.mark.parametrize("zero", [0, -32])
def test_nothing_is_moved_behind_a_dequantizer_that_is_quantized_without_its_zero_point(tmp_path, target, opset, reader, zero):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Unsqueeze", ["d", "one"], ["u"]),
        helper.make_node("QuantizeLinear", ["u", "s", "w"], ["a"]),
        helper.make_node("QuantizeLinear", ["u", "t", "z"], ["b"]),
        helper.make_node("Flatten", ["u"], ["f"], axis=2),
        *([helper.make_node(reader, ["f"], ["y"])] if reader != "output" else []),
    ]
    constants = {"s": np.float32(0.5), "t": np.float32(0.25), "z": np.int8(zero), "w": np.int8(7), "one": np.int64([1])}
    outputs = [helper.make_tensor_value_info("a", TensorProto.INT8, None), helper.make_tensor_value_info("b", TensorProto.INT8, None),
               helper.make_tensor_value_info("f" if reader == "output" else "y", 1, None)]
    check(tmp_path, made(nodes, [helper.make_tensor_value_info("x", 1, [6])], outputs, constants, opset), target)


@pytest.mark.parametrize("target", ["ort-cpu", "onnx", "npu-4d"])
@pytest.mark.parametrize("first, second", [(1, 0), (1, 1), (1, 2), (2, 0)])
def test_no_two_views_stand_behind_a_dequantizer_where_one_is_read_once(tmp_path, target, first, second):
    """The model's own views stand in front of dequantizers; `first` and `second` say how often each dequantized view is read."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Slice", ["q", "zero", "two", "zero"], ["a"]),
        helper.make_node("Unsqueeze", ["a", "zero"], ["b"]),
        helper.make_node("DequantizeLinear", ["a", "s", "z"], ["t"]),
        helper.make_node("DequantizeLinear", ["b", "s", "z"], ["r"]),
        *(helper.make_node(op, ["t"], [f"t{op}"]) for op in ("Abs", "Neg")[:first]),
        *(helper.make_node(op, ["r"], [f"r{op}"]) for op in ("Abs", "Neg")[:second]),
    ]
    outputs = [f"t{op}" for op in ("Abs", "Neg")[:first]] + ([f"r{op}" for op in ("Abs", "Neg")[:second]] or ["r"])
    constants = {"s": np.float32(0.5), "z": np.int8(3), "zero": np.int64([0]), "two": np.int64([2])}
    check(tmp_path, made(nodes, [helper.make_tensor_value_info("x", 1, [6])], [helper.make_tensor_value_info(name, 1, None) for name in outputs], constants, 21), target)


BEHIND = {  # what ONNX Runtime refuses behind a dequantizer of int8, from opset 21 on
    "Unsqueeze": [helper.make_node("Unsqueeze", ["d", "first"], ["m"])],
    "MatMul and Add": [helper.make_node("MatMul", ["d", "w"], ["p"]), helper.make_node("Add", ["b", "p"], ["m"])],
}


@pytest.mark.parametrize("target", ["ort-cpu", "onnx", "qnn-htp"])
@pytest.mark.parametrize("words", [[], ["--opset", "21"], ["--opset", "23"]])
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("opset", [17, 20])
def test_an_opset_is_not_raised_to_where_the_runtime_refuses_it(tmp_path, target, words, behind, opset):
    """The model loads in its own opset, and an attention beside wants 23."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        *BEHIND[behind],
        helper.make_node("Transpose", ["h"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["h", "t"], ["scores"]),
        helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["weights"]),
        helper.make_node("MatMul", ["weights", "h"], ["y"]),
    ]
    constants = {"s": np.float32(0.5), "z": np.int8(3), "first": np.int64([0]), "w": np.ones([6, 5], np.float32), "b": np.ones(5, np.float32), "scale": np.float32(0.25)}
    inputs = [helper.make_tensor_value_info("x", 1, [2, 3, 6]), helper.make_tensor_value_info("h", 1, [1, 2, 8, 16])]
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in ("m", "y")]
    model = made(nodes, inputs, outputs, constants, opset)
    if words and behind == "MatMul and Add" and target == "onnx":  # no other spelling in the opset that was asked for
        onnx.save(model, tmp_path / "m.onnx")
        done = run_ok(tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--target", target, "--no-verify", "--json", *words)
        assert f"ONNX Runtime may refuse the result in opset {words[1]}, which was asked for" in done.stdout
    else:
        check(tmp_path, model, target, *words)


def test_no_identity_in_front_of_what_is_refused_goes(tmp_path):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Gather", ["d", "all"], ["g"], axis=-1),
        helper.make_node("QuantizeLinear", ["g", "s", "z"], ["a"]),
        helper.make_node("Unsqueeze", ["g", "last"], ["u"]),
    ]
    constants = {"s": np.float32(0.1), "z": np.int8(127), "all": np.int64([0, 1, 2]), "last": np.int64([-1])}
    outputs = [helper.make_tensor_value_info("a", TensorProto.INT8, [3]), helper.make_tensor_value_info("u", 1, [3, 1])]
    check(tmp_path, made(nodes, [helper.make_tensor_value_info("x", 1, [3])], outputs, constants, 23), "ort-web")


@pytest.mark.parametrize("target", ["ort-cpu", "onnx", "ort-web", "npu-4d"])
def test_views_for_a_rank_of_outputs_excuse_nothing(tmp_path, target):
    """The views that `--io-rank` puts behind dequantizers are none of the model's own."""
    nodes = [
        helper.make_node("Squeeze", ["x"], ["v"]),
        helper.make_node("QuantizeLinear", ["v", "s", "z"], ["q"]),
        helper.make_node("QuantizeLinear", ["v", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["e"]),
        helper.make_node("Relu", ["e"], ["y"]),
    ]
    outputs = [helper.make_tensor_value_info("q", TensorProto.INT8, [4, 3]), *(helper.make_tensor_value_info(name, 1, [4, 3]) for name in "dy")]
    model = made(nodes, [helper.make_tensor_value_info("x", 1, [1, 4, 1, 3])], outputs, {"s": np.float32(0.1), "z": np.int8(0)}, 21)
    check(tmp_path, model, target, "--io-rank", "4")


@pytest.mark.parametrize("shape", [[3, 8], [2, 3, 8]])
@pytest.mark.parametrize("zero, quantized", [(True, False), (False, True), (True, True)])
def test_no_batch_of_matrices_has_a_scale_for_each_column(tmp_path, shape, zero, quantized):
    """npu-4d gave the second operand four dims, which ONNX Runtime's integer products refuse to run."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "t", "v"] if zero else ["w", "t"], ["b"], axis=1),
        helper.make_node("MatMul", ["a", "b"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    constants = {"s": np.float32(0.25), "z": np.uint8(3), "t": np.linspace(0.01, 0.04, 5, dtype=np.float32)} | ({"v": np.zeros(5, np.int8)} if zero else {})
    inputs = [helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info("w", TensorProto.INT8, [8, 5])]
    made_of = nodes if quantized else nodes[:4]
    check(tmp_path, made(made_of, inputs, [helper.make_tensor_value_info(made_of[-1].output[0], 1, [*shape[:-1], 5])], constants, 17), "npu-4d")
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal(shape, np.float32), "w": rng.integers(-50, 50, [8, 5], np.int8)}
    (want,), (got,) = both(tmp_path, feeds)
    np.testing.assert_allclose(got, want, atol=0.26)


@pytest.mark.parametrize("target", ["ort-cpu", "onnx", "npu-4d"])
@pytest.mark.parametrize("dtype, first, second", [("int8", -128, -106), ("uint8", 0, 3)])
def test_no_reader_between_two_pairs_of_quantizers_goes(tmp_path, target, dtype, first, second):
    """ONNX Runtime makes one pair of two where nothing else reads what stands between them, which rounds otherwise."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["a", "s", "z"], ["b"]),
        helper.make_node("Flatten", ["b"], ["f"], axis=1),
        helper.make_node("QuantizeLinear", ["b", "t", "v"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "t", "v"], ["d"]),
        helper.make_node("Min", ["d", "m"], ["y"]),
    ]
    constants = {"s": np.float32(0.5), "z": np.dtype(dtype).type(first), "t": np.float32(0.007), "v": np.dtype(dtype).type(second), "m": np.float32(1.5)}
    outputs = [helper.make_tensor_value_info("f", 1, [6, 1]), helper.make_tensor_value_info("y", 1, [6])]
    check(tmp_path, made(nodes, [helper.make_tensor_value_info("x", 1, [6])], outputs, constants, 13), target)
    for want, got in zip(*both(tmp_path, {"x": np.linspace(-3, 3, 6, dtype=np.float32)}), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_scan_knows_the_shape_of_what_its_body_captures(tmp_path):
    """The Reshape changes nothing, but without it ONNX Runtime knows no rank of what a Loop makes, and refuses the Scan when it runs."""
    model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 18]> g (float16[2,33,2] x) => (float16[33,2] last) <int64 times = {1}, int64[3] dims = {0, 1, 2}> {
        looped = Loop <body = turn (int64 i, bool c, float16[2,33,2] v) => (bool on, float16 w) { d = Sub (x, v) w = Sigmoid (d) one = Constant <value = int64 {1}> () on = Less (i, one) }> (times, , x)
        less = Sub (looped, x)  shape = Shape (less)  same = Gather (shape, dims)  r = Reshape (less, same)
        axes = Constant <value = int64[2] {1, 2}> ()  norm = ReduceL2 <keepdims = 0> (r, axes)
        last, all = Scan <num_scan_inputs = 1, body = part (float16[33,2] a, float16[33,2] b) => (float16 e, float16 f) { p = Mul (a, b) q = Add (p, norm) e = Sigmoid (q) f = Neg (e) }> (first, x) }''')
    model.graph.initializer.append(numpy_helper.from_array(np.ones([33, 2], np.float16), "first"))
    check(tmp_path, model, "trt-dla")
    x = np.linspace(0, 1, 132, dtype=np.float16).reshape(2, 33, 2)
    assert all(np.allclose(a, b, rtol=1e-2) for a, b in zip(*both(tmp_path, {"x": x}, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_an_infinity_behind_a_clip_without_bounds_is_a_number(tmp_path, dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Clip", ["x"], ["c"]), helper.make_node("Softmax", ["c"], ["y"])]
    model = made(nodes, [helper.make_tensor_value_info("x", kind, [2])], [helper.make_tensor_value_info("y", kind, [2])], {}, 17)
    check(tmp_path, model, "ort-cpu", "--no-assume", "finite_clips")
    (before,), (after,) = both(tmp_path, {"x": dtype([np.inf, np.inf])})
    assert np.array_equal(before, after) and np.array_equal(before, dtype([0.5, 0.5]))
