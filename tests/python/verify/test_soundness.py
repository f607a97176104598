"""Rules hold for every number and size: models that were once rewritten wrongly. The original and the result run in ONNX Runtime without its own rewriting."""
import pickle
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run_ok, tensor, value

pytest.importorskip("onnxruntime")

# In a process of its own: what kills it fails the test alone. It stays for the next ones, for it takes a second to start.
RUNNER = """
import pickle, sys
import onnxruntime as ort
ort.set_default_logger_severity(4)
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
while True:
    path, feeds = pickle.load(sys.stdin.buffer)
    try:
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as e:
        session = None
        answers = [str(e)] * len(feeds)
    if session:
        answers = []
        for feed in feeds:
            try:
                answers.append(session.run(None, feed))
            except Exception as e:
                answers.append(str(e))
    pickle.dump(answers, sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


class Runner:
    """A process with ONNX Runtime, started when the first asks, and again for whoever comes after one that killed it."""
    process = None

    @classmethod
    def answers(cls, path, feeds):
        if cls.process is None or cls.process.poll() is not None:
            cls.process = subprocess.Popen([sys.executable, "-c", RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            pickle.dump((str(path), feeds), cls.process.stdin)
            cls.process.stdin.flush()
            return pickle.load(cls.process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            cls.process.communicate()
            code, cls.process = cls.process.returncode, None
            pytest.fail(f"{path} ended ONNX Runtime's process with status {code}")


answers = Runner.answers


@pytest.fixture(scope="module", autouse=True)
def no_runner_is_left():
    yield
    if Runner.process:
        Runner.process.kill()
        Runner.process.communicate()
        Runner.process = None


def parsed(text, opset=18):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> g {text}')


def optimized(folder, model, *words):
    """The paths of the model and of the result, and what was printed."""
    path, out = folder / "in.onnx", folder / "out.onnx"
    onnx.save(model, path)
    return path, out, run_ok(path, out, *words).stdout


def check(folder, model, feeds, *words, rtol=None):
    """Both compute the same for each set of inputs: bit for bit, or within rtol of the row's magnitudes."""
    path, out, _ = optimized(folder, parsed(model) if isinstance(model, str) else model, *words)
    for feed, before, after in zip(feeds, answers(path, feeds), answers(out, feeds)):
        assert not isinstance(before, str), before
        assert not isinstance(after, str), (after, {k: v.shape for k, v in feed.items()})
        for a, b in zip(before, after):
            assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape)
            if rtol is None or a.dtype.kind != "f":
                np.testing.assert_array_equal(b, a)
            else:
                scale = np.abs(a).max(axis=-1, keepdims=True, initial=0) if a.ndim else np.abs(a)
                assert np.all((np.abs(b - a) <= rtol * scale) | (a == b) | (np.isnan(a) & np.isnan(b))), (a, b)
    return [n.op_type for n in onnx.load(out).graph.node]


TARGETS = [("--target", "ort-cpu@1.31", "--cost", "nodes"), ("--target", "ort-cpu@1.31"), ("--target", "onnx")]
F = np.float32


# ---- double is not float

@pytest.mark.parametrize("text, feeds", [
    ("(int32[n] t, int32 t0) => (float[n] y) { a = Cast <to = 11> (t)  b = Cast <to = 11> (t0)  d = Sub (a, b)  y = Cast <to = 1> (d) }",
     {"t": np.array([1700000000, 1700000050, 1700000123], np.int32), "t0": np.array(1700000000, np.int32)}),
    ("(int64[1,n] t) => (float[1,n] y) <int64[1] l = {1}> { a = Cast <to = 11> (t)  m = ReduceMean (a, l)  d = Sub (a, m)  s = Mul (d, d)  v = ReduceMean (s, l)  r = Sqrt (v)  z = Div (d, r)  y = Cast <to = 1> (z) }",
     {"t": np.array([[1700000000, 1700000050, 1700000123]], np.int64)}),
    ("(float[n] x) => (float[n] y) <double one = {1}> { a = Cast <to = 11> (x)  b = Add (a, one)  c = Mul (b, b)  d = Mul (a, a)  e = Sub (c, d)  y = Cast <to = 1> (e) }",
     {"x": np.array([2e8, 3, 1e7], F)}),
    ("(float[n] x, float[n] z) => (float[n] y) { a = Cast <to = 11> (x)  b = Cast <to = 11> (z)  c = Mul (a, a)  d = Mul (b, b)  e = Add (c, d)  s = Sqrt (e)  y = Cast <to = 1> (s) }",
     {"x": np.array([1.4e30, 3], F), "z": np.array([1e30, 4], F)}),
    ("(float[n] x) => (float[n] y) { a = Cast <to = 11> (x)  b = Exp (a)  s = Sqrt (b)  y = Cast <to = 1> (s) }", {"x": np.array([150, 1], F)}),
    ("(float[1,2] x, float[2,1] z) => (float[1,1] y) { a = Cast <to = 11> (x)  b = Cast <to = 11> (z)  c = MatMul (a, b)  y = Cast <to = 1> (c) }",
     {"x": np.array([[1e8, 1]], F), "z": np.array([[1], [-1e8]], F) + np.array([[1e-7], [1]], F)}),
    ("(float[1,n] x) => (float[1,1] y) <int64[1] l = {1}> { a = Cast <to = 11> (x)  b = ReduceSum (a, l)  y = Cast <to = 1> (b) }", {"x": np.array([[1e8, 1, -1e8]], F)}),
    ("(int32[1,n] x) => (float[1,n] y) { a = Cast <to = 11> (x)  b = Softmax (a)  y = Cast <to = 1> (b) }", {"x": np.array([[1700000001, 1700000000, 1700000002]], np.int32)}),
    ("(float[n] x) => (float[n] y) <double c = {1700000000.25}> { a = Cast <to = 11> (x)  b = Sub (a, c)  y = Cast <to = 1> (b) }", {"x": np.array([1700000000], F)}),
])
def test_double_stays_double(tmp_path, text, feeds):
    for words in TARGETS:
        check(tmp_path, text, [feeds], *words, rtol=1e-6)


def test_products_of_integers_stay_products(tmp_path):
    """ONNX Runtime's MatMul of integers wraps, its ReduceSum ends at the largest number."""
    text = "(int32[2,3] x) => (int32[2,1,1] y, int32[2,1,3] r) <int64[3] s = {2,1,3}, int64[3] t = {2,3,1}> { r = Reshape (x, s)  c = Reshape (x, t)  y = MatMul (r, c) }"
    for words in (*TARGETS, ("--target", "qnn-htp", "--cost", "measured")):
        assert "ReduceSum" not in check(tmp_path, text, [{"x": np.array([[46341, -3, 46341], [2**31 - 1, 3, -2**31]], np.int32)}], *words)


def test_one_operator_in_double_between_floats_is_the_float_operator(tmp_path):
    rng = np.random.default_rng(0)
    x, z = (np.concatenate([rng.normal(size=50), 10.0 ** rng.uniform(-38, 38, 50)]).astype(F) for _ in "xz")
    for op in ("Add", "Sub", "Mul", "Div"):
        text = f"(float[n] x, float[n] z) => (float[n] y) {{ a = Cast <to = 11> (x)  b = Cast <to = 11> (z)  d = {op} (a, b)  y = Cast <to = 1> (d) }}"
        assert check(tmp_path, text, [{"x": x, "z": z}]) == [op]


def test_a_normalization_in_double_is_one_operator_in_double(tmp_path):
    text = """(float[n,4] x) => (float[n,4] y) <int64[1] l = {1}, double e = {0.00001}> {
      a = Cast <to = 11> (x)  m = ReduceMean (a, l)  d = Sub (a, m)  s = Mul (d, d)  v = ReduceMean (s, l)  w = Add (v, e)  r = Sqrt (w)  z = Div (d, r)  y = Cast <to = 1> (z) }"""
    feeds = [{"x": np.array([[1, 2, 3, 4], [1e8, 1e8 + 8, 1e8 + 16, 1e8], [1e25, 2e25, -1e25, 0]], F)}]
    assert check(tmp_path, text, feeds, "--target", "ort-cpu@1.31", "--cost", "nodes", rtol=1e-6) == ["Cast", "LayerNormalization", "Cast"]


# ---- integers wrap and truncate

@pytest.mark.parametrize("text, feeds", [
    ("(int32[2,2] x) => (int32 y) <int64[1] i = {1}, int64[1] j = {0}> { a = ReduceMean <keepdims = 0> (x, i)  y = ReduceMean <keepdims = 0> (a, j) }", {"x": np.array([[0, 3], [0, 1]], np.int32)}),
    ("(int32[2,2] x) => (int32[1,1] y) <int64[1] i = {1}, int64[1] j = {0}> { a = ReduceMean (x, i)  y = ReduceMean (a, j) }", {"x": np.array([[0, 3], [0, 1]], np.int32)}),
    ("(int32[1,1] x) => (int32[1,1] y) <int64[1] i = {1}> { a = Mul (x, x)  b = ReduceMean (a, i)  y = Relu (b) }", {"x": np.array([[46341]], np.int32)}),
    ("(int32[1,1] x) => (int32[1,1] y) <int64[1] i = {1}, int32 z = {0}> { a = Mul (x, x)  b = ReduceMean (a, i)  y = Max (b, z) }", {"x": np.array([[46341]], np.int32)}),
    ("(int32[1,1] x) => (int32[1,1] y) <int64[1] i = {1}, int32 z = {0}> { a = Mul (x, x)  b = ReduceMean (a, i)  y = Clip (b, z) }", {"x": np.array([[46341]], np.int32)}),
    ("(int32[1,1] x) => (int32[1,1] y) <int64[1] i = {1}, int32 e = {3}, int32 c = {2}> { a = Mul (x, x)  b = ReduceMean (a, i)  d = Add (b, e)  y = Max (d, c) }", {"x": np.array([[46341]], np.int32)}),
    ("(int32[1,2] x) => (int32[1,1] y) <int64[1] i = {1}> { a = Neg (x)  y = ReduceMean (a, i) }", {"x": np.array([[-2147483648, 3]], np.int32)}),
])
def test_integers_wrap_and_truncate(tmp_path, text, feeds):
    for words in TARGETS:
        check(tmp_path, text, [feeds], *words)


# ---- windows of one element with strides and pads

@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_windows_of_one_with_strides_stay(tmp_path, rank, bias):
    dims = [3] * rank
    w = np.arange(1, 9, dtype=F).reshape([2, 4] + [1] * rank) * F(1e-3)
    inputs = ["x", "w"] + ["b"] * bias
    nodes = [helper.make_node("Conv", inputs, ["c"], kernel_shape=[1] * rank, strides=[2] * rank, pads=[1] * (2 * rank)),
             helper.make_node("Reshape", ["c", "s"], ["y"])]
    weights = [tensor("w", w), tensor("b", np.array([1, 2], F)), tensor("s", np.array([0, 2, 3 ** rank]))]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4, *dims])], [value("y", TensorProto.FLOAT, ["n", 2, 3 ** rank])], weights[: 1 + bias] + weights[2:])
    x = np.random.default_rng(0).normal(size=[2, 4, *dims]).astype(F)
    for words in TARGETS:
        check(tmp_path, model, [{"x": x}], *words, rtol=1e-5)


# ---- constants that are folded

@pytest.mark.parametrize("text, feeds", [
    ("(float[n] x) => (float[n] y) <float c = {1e30}, float d = {1e30}> { a = Mul (x, c)  y = Mul (a, d) }", {"x": np.array([0, 1e-30, 1e-35], F)}),
    ("(float16[n] x) => (float16[n] y) { f = Constant <value_float = 0.001> ()  c = Cast <to = 10> (f)  g = Constant <value_float = 0.0001> ()  d = Cast <to = 10> (g)  a = Mul (x, c)  y = Mul (a, d) }", {"x": np.array([1000, 30000], np.float16)}),
    ("(float16[n] x) => (float16[n] y) { f = Constant <value_float = 0.00001> ()  c = Cast <to = 10> (f)  y = Div (x, c) }", {"x": np.array([0, 0.25, 0.0001], np.float16)}),
    ("(float[n] x) => (float[n] y) <float c = {3e38}> { y = Div (x, c) }", {"x": np.array([3e38, 1e38], F)}),
    ("(float[n] x, float[n] z) => (float[n] y) <float c = {1e-30}> { a = Mul (x, c)  y = Mul (a, z) }", {"x": np.array([1e30, 2], F), "z": np.array([1e30, 3], F)}),
    ("(float[n] x, float[n] z) => (float[n] y) <float c = {0.5}> { a = Mul (x, c)  b = Mul (z, c)  y = Add (a, b) }", {"x": np.array([3e38, 1], F), "z": np.array([3e38, 3], F)}),
    ("(float[n] x) => (float[n] y) <float c = {12582912}, float d = {-12582912}, float s = {0.01}> { a = Add (x, c)  b = Add (a, d)  y = Mul (b, s) }", {"x": np.array([0.3, 1.7, -2.6, 1000.4], F)}),
    ("(float[n] x) => (float[n] y) <float c = {12582912}, float s = {0.01}> { a = Add (x, c)  b = Sub (a, c)  y = Mul (b, s) }", {"x": np.array([0.3, 1.7, -2.6, 1000.4], F)}),
    ("(float[n,1] x) => (float[n,1] y) <float[1,1] w = {1e30}, float s = {1e30}> { a = MatMul (x, w)  y = Mul (a, s) }", {"x": np.array([[0], [1e-30]], F)}),
    ("(float[n,1] x) => (float[n,1] y) <float[1,1] w = {1e-30}, float s = {1e-30}> { a = MatMul (x, w)  y = Mul (a, s) }", {"x": np.array([[1], [1e38]], F)}),
    ("(float[n,1] x) => (float[n,1] y) <float[1,1] w = {1e30}, float[1,1] v = {1e30}> { a = MatMul (x, w)  y = MatMul (a, v) }", {"x": np.array([[0], [1e-30]], F)}),
    ("(float[n,1,3] x) => (float[n,1,3] y) <float[1,1,1] w = {1e30}, float s = {1e30}> { a = Conv (x, w)  y = Mul (a, s) }", {"x": np.array([[[0, 1e-30, 1e-35]]], F)}),
    ("(float[n,2] x) => (float[n,2] y) <float[2] g = {1e30, 1}, float[2] h = {1e30, 2}> { a = LayerNormalization (x, g)  y = Mul (a, h) }", {"x": np.array([[0, 0]], F)}),
    ("(float[n,4] x) => (float[n,4] y) <float m = {1000000000}> { a = Sub (x, m)  y = Softmax (a) }", {"x": np.array([[1, 2, 3, 4]], F)}),
    ("(float[n,4] x, float[n,1] m) => (float[n,4] y) { a = Sub (x, m)  y = Softmax (a) }", {"x": np.array([[1, 2, 3, 4]], F), "m": np.array([[1e9]], F)}),
])
def test_constants_keep_their_digits(tmp_path, text, feeds):
    for words in TARGETS:
        check(tmp_path, text, [feeds], *words, rtol=2e-3 if "float16" in text else 1e-5)


def test_constants_are_folded_where_they_fit(tmp_path):
    text = "(float[n] x) => (float[n] y) <float c = {3.5}, float d = {0.3}, float e = {1.5}> { a = Mul (x, c)  b = Mul (a, d)  y = Div (b, e) }"
    assert check(tmp_path, text, [{"x": np.array([0, 1, -3e38], F)}], rtol=1e-5) == ["Mul"]


@pytest.mark.parametrize("nodes", [
    "p = Constant <value_float = 0.5> ()  y = Pow (x, p)",
    "p = Constant <value_float = -0.5> ()  y = Pow (x, p)",
    "r = Reciprocal (x)  y = Sqrt (r)",
    "l = Log (x)  h = Constant <value_float = -0.5> ()  m = Mul (l, h)  y = Exp (m)",
])
def test_roots_are_taken_of_what_is_not_negative(tmp_path, nodes):
    """A power of -inf is no root of it, and 1 / sqrt(-0) is -inf."""
    text = f"(float[n,1] x) => (float[n,1] y) {{ {nodes} }}"
    for words in TARGETS:
        check(tmp_path, text, [{"x": np.array([[-np.inf], [-0.0], [0], [np.inf], [-4]], F)}], *words)


@pytest.mark.parametrize("power", [0.5, -0.5])
def test_roots_of_squares_are_roots(tmp_path, power):
    """A mean of squares and a number above 0 is never negative: the power is a root, and the norm one operator."""
    step = {0.5: "Div", -0.5: "Mul"}[power]
    text = (f"(float[n,8] x) => (float[n,8] y) <int64[1] l = {{1}}, float e = {{0.001}}, float two = {{2}}, float p = {{{power}}}> "
            f"{{ s = Pow (x, two)  m = ReduceMean (s, l)  a = Add (e, m)  r = Pow (a, p)  y = {step} (x, r) }}")
    rng = np.random.default_rng(5)
    assert check(tmp_path, text, [{"x": rng.normal(size=(3, 8)).astype(F)}], "--target", "ort-cpu@1.31", rtol=1e-5) == ["RMSNormalization"]


@pytest.mark.parametrize("nodes", [
    "b = Add (x, three)  c = Clip (b, zero, low)  y = Mul (c, sixth)",
    "m = Max (x, none)  y = Min (m, three)",
    "m = Max (x, zero)  y = Min (m, none)",
    "r = Relu (x)  y = Min (r, none)",
    "c = Clip (x, none, three)  y = Clip (c, zero, three)",
])
def test_bounds_that_are_no_bounds(tmp_path, nodes):
    """A Clip to a bound below the other one, and bounds that are NaN."""
    text = ("(float[n] x) => (float[n] y) <float three = {3}, float zero = {0}, float low = {-6}, float sixth = {-0.16666667}> "
            f"{{ q = Constant <value_float = 0.0> ()  none = Div (q, q)  {nodes} }}")
    for words in TARGETS:
        check(tmp_path, text, [{"x": np.array([-7, -1, 0, 1, 2, 9], F)}], *words, "--no-verify", rtol=1e-6)


def test_a_variance_that_is_found_late_is_never_negative(tmp_path):
    """The mean of squares less the square of the mean is a mean of squares: what is known of it reaches the root two steps above."""
    text = ("(float[n,8] x) => (float[n,8] y) <int64[1] l = {1}, float e = {0.001}> { m = ReduceMean (x, l)  s = Mul (x, x)  q = ReduceMean (s, l)  "
            "k = Mul (m, m)  v = Sub (q, k)  a = Add (v, e)  r = Reciprocal (a)  t = Sqrt (r)  d = Sub (x, m)  y = Mul (d, t) }")
    rng = np.random.default_rng(5)
    assert check(tmp_path, text, [{"x": rng.normal(size=(3, 8)).astype(F)}], "--target", "ort-cpu@1.31", rtol=1e-5) == ["LayerNormalization"]


def test_the_largest_before_softmax_stays_the_largest(tmp_path):
    text = "(float[n,3] x) => (int64[n] y) { a = Softmax <axis = 1> (x)  y = ArgMax <axis = 1, keepdims = 0> (a) }"
    check(tmp_path, text, [{"x": np.array([[1, 1.0000001, 0], [0, np.inf, 1]], F)}])


@pytest.mark.parametrize("kind", ["bfloat16", "float"])
def test_bytes_come_back_where_the_numbers_between_hold_them(tmp_path, kind):
    scale = tensor("c", np.array(0.3, F)) if kind == "float" else helper.make_tensor("c", TensorProto.BFLOAT16, [], [0.3])
    nodes = [helper.make_node("DequantizeLinear", ["x", "c", "z"], ["d"]), helper.make_node("QuantizeLinear", ["d", "c", "z"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.UINT8, [3])], [value("y", TensorProto.UINT8, [3])], [scale, tensor("z", np.array(0, np.uint8))], opset=19, ir_version=9)
    path, out, _ = optimized(tmp_path, model, "--no-verify")
    assert (len(onnx.load(out).graph.node) == 2) == (kind == "bfloat16")


@pytest.mark.parametrize("start, end, step", [(-5, 1, None), (-3, 1, None), (5, 1, -1), (-5, 1, 1), (2, 9, None), (-1, 9, None), (-2, -1, None)])
def test_a_start_that_is_cut_is_no_index(tmp_path, start, end, step):
    names = ["x", "s", "e", "a"] + ["p"] * (step is not None)
    nodes = [helper.make_node("Slice", names, ["c"]), helper.make_node("Squeeze", ["c", "a"], ["y"])]
    weights = [tensor("s", np.array([start])), tensor("e", np.array([end])), tensor("a", np.array([1])), tensor("p", np.array([step or 1]))]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 3, 4])], [value("y", TensorProto.FLOAT, ["n", 4])], weights[: 3 + (step is not None)])
    check(tmp_path, model, [{"x": np.arange(24, dtype=F).reshape(2, 3, 4)}], "--target", "ort-cpu@1.31", "--cost", "nodes")


# ---- models of IR 3, whose initializers are among the inputs

@pytest.mark.parametrize("folds", [False, True])
def test_constants_among_the_inputs_of_ir_3(tmp_path, folds):
    weights = [tensor("s", np.array([-1, 3])), tensor("w", np.array([1, 2, 3], F)), tensor("v", np.array([3, 5, 7], F)), tensor("unused", np.array([1], F))]
    nodes = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Mul", ["r", "w"], ["a"]), helper.make_node("Mul" if folds else "Max", ["a", "v"], ["y"])]
    inputs = [value("x", TensorProto.FLOAT, ["n", 3, 1]), *(value(w.name, w.data_type, list(w.dims)) for w in weights)]
    model = make_model(nodes, inputs, [value("y", TensorProto.FLOAT, ["n", 3])], weights, opset=9, ir_version=3)
    onnx.checker.check_model(model)
    assert len(check(tmp_path, model, [{"x": np.arange(6, dtype=F).reshape(2, 3, 1)}], rtol=1e-6)) == 3 - folds
    result = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(result)
    named = {i.name for i in result.graph.input}
    held = {i.name for i in result.graph.initializer}
    assert (held <= named and result.ir_version == 3) or (named == {"x"} and result.ir_version >= 4)


# ---- sizes of 0

def sized(text, *sizes):
    """Inputs for each assignment of sizes, drawn small."""
    model, rng, feeds = parsed(text), np.random.default_rng(0), []
    for size in sizes:
        feeds.append({i.name: rng.normal(size=[size[d.dim_param] if d.dim_param else d.dim_value for d in i.type.tensor_type.shape.dim]).astype(F) for i in model.graph.input})
    return feeds


NS = [dict(n=n, s=s, t=t) for n, s, t in [(2, 3, 5), (0, 3, 5), (2, 0, 5), (2, 3, 0), (0, 0, 5), (0, 0, 0), (1, 1, 1), (2, 1, 1)]]
VIEWS = [
    "(float[n,s] x) => (float[n,1,s,1] y) <int64[2] a = {1,3}> { y = Unsqueeze (x, a) }",
    "(float[n,s] x) => (float[1,n,1,s] y) <int64[2] a = {0,2}> { y = Unsqueeze (x, a) }",
    "(float[n,1,s] x) => (float[n,s] y) <int64[1] a = {1}> { y = Squeeze (x, a) }",
    "(float[n,1,s,3] x) => (float[n,s,1,3] y) { y = Transpose <perm = [0,2,1,3]> (x) }",
    "(float[1,n,s,1] x) => (float[n,1,1,s] y) { y = Transpose <perm = [1,0,3,2]> (x) }",
    "(float[n,s,3] x) => (float[n,m] y) { y = Flatten <axis = 1> (x) }",
    "(float[n,s,3] x) => (float[m,3] y) { y = Flatten <axis = 2> (x) }",
    "(float[n,s] x) => (float[n,s,1,1] y) <int64[1] a = {2}, int64[1] b = {3}> { u = Unsqueeze (x, a)  v = Exp (u)  y = Unsqueeze (v, b) }",
    "(float[n,1,s] x) => (float[n,s,1] y) <int64[1] a = {1}, int64[1] b = {2}> { u = Squeeze (x, a)  y = Unsqueeze (u, b) }",
    "(float[n,s,6] x) => (float[n,3,s,2] y) <int64[4] d = {0,0,3,2}> { u = Reshape (x, d)  y = Transpose <perm = [0,2,1,3]> (u) }",
    "(float[n,3,s,2] x) => (float[n,s,6] y) <int64[3] d = {0,0,6}> { u = Transpose <perm = [0,2,1,3]> (x)  y = Reshape (u, d) }",
]
PRODUCTS = [
    "(float[n,s,3] a, float[n,s,4] b) => (float[n,3,4] y) { t = Transpose <perm = [0,2,1]> (a)  y = MatMul (t, b) }",
    "(float[s,3] a, float[s,4] b) => (float[3,4] y) { t = Transpose <perm = [1,0]> (a)  y = MatMul (t, b) }",
    "(float[s,3] a, float[s,4] b, float[4] c) => (float[3,4] y) { t = Transpose <perm = [1,0]> (a)  m = MatMul (t, b)  u = Add (m, c)  y = Relu (u) }",
    "(float[n,s,3] a, float[n,s,4] b) => (float[n,3,4] y) <float h = {0.5}> { t = Transpose <perm = [0,2,1]> (a)  m = MatMul (t, b)  y = Mul (m, h) }",
    "(float[n,2,s,4] q, float[n,2,t,4] k, float[n,2,t,4] v) => (float[n,2,s,4] y) { kt = Transpose <perm = [0,1,3,2]> (k)  a = MatMul (q, kt)  p = Relu (a)  y = MatMul (p, v) }",
    "(float[n,s,4] x) => (float[n,3,s] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { m = MatMul (x, w)  y = Transpose <perm = [0,2,1]> (m) }",
]


@pytest.mark.parametrize("text", VIEWS + PRODUCTS)
def test_sizes_of_zero(tmp_path, text):
    for words in TARGETS:
        check(tmp_path, text, sized(text, *NS), *words, rtol=1e-5)


def test_a_convolution_of_no_images(tmp_path):
    text = "(float[n,4,s] x) => (float[n,3,s] y) <float[3,4,1] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3] b = {1,2,3}> { y = Conv (x, w, b) }"
    tall = "(float[n,4,s] x) => (float[n,s,3] y) <float[3,4,1] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3] b = {1,2,3}> { c = Conv (x, w, b)  y = Transpose <perm = [0,2,1]> (c) }"
    for model in (text, tall):
        for words in TARGETS:
            check(tmp_path, model, sized(model, dict(n=2, s=3), dict(n=0, s=3)), *words, rtol=1e-5)


ATTENTION = "(float[n,{h},s,4] q, float[n,{h},t,4] k, float[n,{h},t,4] v) => (float[n,{h},s,4] y) {{ kt = Transpose <perm = [0,1,3,2]> (k)  a = MatMul (q, kt)  p = Softmax (a)  y = MatMul (p, v) }}"


# Queries, keys and values with the heads in the last dim, as models have them.
PACKED = """(float[n,s,8] q, float[n,t,8] k, float[n,t,8] v) => (float[n,s,8] y) <int64[4] d = {0,0,2,4}, int64[3] e = {0,0,8}> {
  qr = Reshape (q, d)  qt = Transpose <perm = [0,2,1,3]> (qr)  kr = Reshape (k, d)  kt = Transpose <perm = [0,2,3,1]> (kr)  vr = Reshape (v, d)  vt = Transpose <perm = [0,2,1,3]> (vr)
  a = MatMul (qt, kt)  p = Softmax (a)  o = MatMul (p, vt)  ot = Transpose <perm = [0,2,1,3]> (o)  y = Reshape (ot, e) }"""


@pytest.mark.parametrize("words", TARGETS)
@pytest.mark.parametrize("text", [ATTENTION.format(h=2), PACKED], ids=["apart", "packed"])
def test_attention_of_nothing(tmp_path, words, text):
    feeds = sized(text, *NS)
    path, out, printed = optimized(tmp_path, parsed(text), *words, "-v")
    made = [n.op_type for n in onnx.load(out).graph.node]
    assert ("Attention" in made) == ("attention_not_empty" in printed)  # the standard's, which ONNX Runtime refuses
    if "Attention" in made:
        words = (*words, "--no-assume", "attention_not_empty")
    else:
        assert "MultiHeadAttention" in made or "MatMul" in made
    check(tmp_path, text, feeds, *words, rtol=1e-5)


@pytest.mark.parametrize("words", TARGETS)
def test_no_size_kills_the_process(tmp_path, words):
    """ONNX Runtime's Attention divides by the number of heads."""
    text = "(float[n,s,2,4] q, float[n,s,2,4] k, float[n,s,2,4] v) => (float[n,s,2,4] y) { kt = Transpose <perm = [0,1,3,2]> (k)  a = MatMul (q, kt)  p = Softmax (a)  y = MatMul (p, v) }"
    check(tmp_path, text, sized(text, *NS), *words, rtol=1e-5)


@pytest.mark.parametrize("dtype, perm", [("int32", [1, 2, 0]), ("float16", [1, 0, 2]), ("bool", [1, 2, 0, 3]), ("int32", [1, 2, 3, 0])])
def test_no_cast_between_a_transpose_and_a_product_ends_the_runtime(tmp_path, dtype, perm):
    """ONNX Runtime's optimizer (1.31) loses a Cast between a Transpose that moves the first axis to the last two and a MatMul, and ends by a signal."""
    shape = [6, 3, 2, 4][:len(perm)]
    text = f"(float{shape} x, float[{shape[perm[-1]]},5] w) => (float{[shape[p] for p in perm[:-1]] + [5]} y) {{ t = Transpose <perm = {perm}> (x)  a = Cos (t)  b = Cast <to = {onnx.TensorProto.DataType.Value(dtype.upper())}> (a)  c = Cast <to = 1> (b)  y = MatMul (c, w) }}"
    for words in (*TARGETS, ("--target", "qnn-htp", "--cost", "nodes")):
        path, out, _ = optimized(tmp_path, parsed(text), *words, "--no-verify")
        made = {name: n for n in onnx.load(out).graph.node for name in n.output}
        for product in (n for n in made.values() if "MatMul" in n.op_type):
            cast = made[product.input[0]]
            assert cast.op_type != "Cast" or made[cast.input[0]].op_type != "Transpose", words
        feed = {"x": np.ones(shape, F), "w": np.ones([shape[perm[-1]], 5], F)}
        assert not isinstance(answers(out, [feed])[0], str)


# ---- masks that hide by several numbers

def masked_attention(future, padding, form, fixed):
    """Attention in its elementary operators. A choice of the padding is between the scores, or between the mask of the future and its fill."""
    n = "4" if fixed else "n"
    return helper.make_model(onnx.parser.parse_graph(f"""g (float[2,2,{n},8] q, float[2,2,{n},8] k, float[2,2,{n},8] v, int64[2,{n}] m) => (float[2,2,{n},8] y)
      <float zero = {{0}}, int64[2] places = {{1, 2}}, int64 first = {{2}}, int64 none = {{0}}, int64 one = {{1}}, int64[1] at = {{1}}, int64[1] front = {{0}}> {{
      kt = Transpose <perm = [0, 1, 3, 2]> (k)
      s = MatMul (q, kt)
      size = Shape (q)
      n = Gather <axis = 0> (size, first)
      place = Range (none, n, one)
      row = Unsqueeze (place, at)
      column = Unsqueeze (place, front)
      seen = GreaterOrEqual (row, column)
      causal = Where (seen, zero, future)
      flat = Cast <to = 9> (m)
      tokens = Unsqueeze (flat, places)
      {form}
      p = Softmax <axis = -1> (w)
      y = MatMul (p, v)
      }}""".replace("float zero = {0}", f"float zero = {{0}}, float future = {{{future}}}, float fill = {{{padding}}}")),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


FORMS = ["pad = Where (tokens, causal, fill)  w = Add (s, pad)",
         "pad = Where (tokens, zero, fill)  both = Add (causal, pad)  w = Add (s, both)",
         "a = Add (s, causal)  w = Where (tokens, a, fill)",
         "a = Where (tokens, s, fill)  w = Add (a, causal)"]


@pytest.mark.parametrize("target", TARGETS[1:], ids=" ".join)
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("future, padding", [("-3.4028234663852886e38", "-inf"), ("-inf", "-3.4028234663852886e38"), ("-1e30", "-3.4028234663852886e38"), ("-1e38", "-1e30")])
def test_fills_of_masks_keep_their_order(tmp_path, future, padding, form, fixed, target):
    rng = np.random.default_rng(3)
    feed = {x: rng.normal(size=(2, 2, 4, 8)).astype(F) for x in "qkv"} | {"m": np.array([[0, 0, 1, 1], [1, 1, 1, 0]])}
    path, out, _ = optimized(tmp_path, masked_attention(future, padding, form, fixed), *target)
    (before,), (after,) = answers(path, [feed])[0], answers(out, [feed])[0]
    numbers = np.isfinite(before)
    np.testing.assert_allclose(after[numbers], before[numbers], atol=1e-5)


# ---- what runtimes read otherwise than the standard stays as it is

DISPUTED = {
    "slice": ("(float[n] x) => (float[m] y) <int64[1] s = {-1}, int64[1] e = {9223372036854775807}, int64[1] a = {0}, int64[1] t = {-1}> { f = Slice (x, s, e, a, t)  y = Concat <axis = 0> (f, x) }",
              {"x": np.arange(5, dtype=F)}),
    "slice_of_32_bits": ("(float[n] x) => (float[m] y) <int32[1] s = {-1}, int32[1] e = {2147483647}, int32[1] a = {0}, int32[1] t = {-2}> { f = Slice (x, s, e, a, t)  y = Concat <axis = 0> (x, f) }",
                         {"x": np.arange(5, dtype=F)}),
    "slice_of_a_constant": ("(float[n] x) => (float[m] y) <float[3] c = {1, 2, 3}, int64[1] s = {-1}, int64[1] e = {9223372036854775807}, int64[1] a = {0}, int64[1] t = {-1}> { f = Slice (c, s, e, a, t)  y = Concat <axis = 0> (f, x) }",
                            {"x": np.arange(5, dtype=F)}),
    "pad": ("(float[n] x) => (float[m] y) <float[4] c = {1, 2, 3, 4}, int64[2] p = {2, -1}> { f = Pad <mode = \"wrap\"> (c, p)  y = Concat <axis = 0> (f, x) }", {"x": np.arange(5, dtype=F)}),
    "resize": ("(float[1,1,n] x) => (float[1,1,m] y) <float[1,1,5] c = {1, 2, 5, 4, 3}, float[3] p = {1, 1, 1.7}> { f = Resize <mode = \"linear\", coordinate_transformation_mode = \"align_corners\"> (c, , p)  y = Concat <axis = 2> (f, x) }",
               {"x": np.arange(5, dtype=F).reshape(1, 1, 5)}),
    "unpool": ("(float[1,1,n,5] x) => (float[1,1,m,5] y) <float[1,1,2,2] c = {5, 6, 7, 8}, int64[1,1,2,2] i = {0, 5, 13, 10}, int64[4] s = {1, 1, 5, 5}> { f = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (c, i, s)  y = Concat <axis = 2> (f, x) }",
               {"x": np.arange(10, dtype=F).reshape(1, 1, 2, 5)}),
    "window_in_the_padding": ("(float[1,1,n] x) => (float[1,1,m] y) <float[1,1,4] c = {1, 2, 5, 4}> { f = AveragePool <kernel_shape = [2], strides = [2], pads = [0, 1], ceil_mode = 1> (c)  y = Concat <axis = 2> (f, x) }",
                              {"x": np.arange(5, dtype=F).reshape(1, 1, 5)}),
    "largest_in_the_padding": ("(float[1,1,n] x) => (float[1,1,m] y) <float[1,1,4] c = {1, 2, 5, 4}> { f = MaxPool <kernel_shape = [2], strides = [2], pads = [0, 1], ceil_mode = 1> (c)  y = Concat <axis = 2> (f, x) }",
                               {"x": np.arange(5, dtype=F).reshape(1, 1, 5)}),
    "padding_that_counts": ("(float[1,1,n] x) => (float[1,1,m] y) <float[1,1,4] c = {1, 2, 5, 4}> { f = AveragePool <kernel_shape = [2], strides = [3], ceil_mode = 1, count_include_pad = 1> (c)  y = Concat <axis = 2> (f, x) }",
                            {"x": np.arange(5, dtype=F).reshape(1, 1, 5)}),
    "window_longer_than_all": ("(float[1,1,n] x) => (float[1,1,m] y) <float[1,1,4] c = {1, 2, 5, 4}> { f = MaxPool <kernel_shape = [3], strides = [2], dilations = [2]> (c)  y = Concat <axis = 2> (f, x) }",
                               {"x": np.arange(5, dtype=F).reshape(1, 1, 5)}),
    "infinity_without_a_bound": ("(float[n] x) => (float[m] y) <float[3] c = {1, inf, 2}, float l = {0}> { f = Clip (c, l)  y = Concat <axis = 0> (f, x) }", {"x": np.arange(5, dtype=F)}),
    "places_far_away": ("(float[1,1,1,n] x) => (float[1,1,1,m] y) <float[1,1,2,2] c = {1, 2, 3, 4}, float[1,1,2,2] p = {1e30, 0.5, 0.1, 0.2}> { f = GridSample (c, p)  y = Concat <axis = 3> (f, x) }",
                        {"x": np.arange(5, dtype=F).reshape(1, 1, 1, 5)}),
    "power_beyond_integers": ("(int32[n] x) => (int32[m] y) <int32[2] a = {2, 3}, int32[2] b = {31, 2}> { f = Pow (a, b)  y = Concat <axis = 0> (f, x) }", {"x": np.arange(5, dtype=np.int32)}),
    "power_below_one": ("(int64[n] x) => (int64[m] y) <int64[2] a = {0, 3}, int64[2] b = {-1, 2}> { f = Pow (a, b)  y = Concat <axis = 0> (f, x) }", {"x": np.arange(5)}),
    "squares_beyond_floats": ("(float[1,n] x) => (float[1,m] y) <float[1,3] c = {1e30, 1, 2}, float[3] s = {1, 1, 1}> { f = LayerNormalization (c, s)  y = Concat <axis = 1> (f, x) }",
                              {"x": np.arange(5, dtype=F).reshape(1, 5)}),
    "mean_of_equal_numbers": ("(float[1,1,1,n] x) => (float[1,1,1,m] y) <float[1,1,1,3] c = {1, 1, 1}> { f = MeanVarianceNormalization <axes = [3]> (c)  y = Concat <axis = 3> (f, x) }",
                              {"x": np.arange(5, dtype=F).reshape(1, 1, 1, 5)}),
    "product_of_nothing": ("(float[n,0] x) => (float[n,3] y) <float[0,3] b = {}, float[3] c = {1, 2, 3}> { f = Gemm <beta = 0.5> (x, b, c)  y = Relu (f) }", {"x": np.zeros((2, 0), F)}),
}
USUAL = {
    "pool": "(float[1,1,n] x) => (float[1,1,m] y) <float[1,1,6] c = {1, 2, 5, 4, 7, 3}> { f = MaxPool <kernel_shape = [3], strides = [2], ceil_mode = 1> (c)  y = Concat <axis = 2> (f, x) }",
    "average": "(float[1,1,n] x) => (float[1,1,m] y) <float[1,1,6] c = {1, 2, 5, 4, 7, 3}> { f = AveragePool <kernel_shape = [3], strides = [2], pads = [1, 1], count_include_pad = 1> (c)  y = Concat <axis = 2> (f, x) }",
    "gemm": "(float[1,1,n] x) => (float[1,1,m] y) <float[1,2] a = {1, 2}, float[2,3] b = {1, 2, 3, 4, 5, 6}, float[3] c = {1, 2, 3}, int64[3] s = {1, 1, 3}> { f = Gemm <beta = 0.5> (a, b, c)  g = Reshape (f, s)  y = Concat <axis = 2> (g, x) }",
}


@pytest.mark.parametrize("target", TARGETS[1:], ids=" ".join)
@pytest.mark.parametrize("name", DISPUTED)
def test_disputed_operators_stay(tmp_path, name, target):
    model, feed = DISPUTED[name]
    operators = check(tmp_path, parsed(model, 19), [feed], *target)
    assert parsed(model, 19).graph.node[0].op_type in operators
    *_, out = optimized(tmp_path, parsed(model, 19), *target)
    assert "stays as it is" in out


@pytest.mark.parametrize("name", USUAL)
def test_usual_operators_are_computed_ahead(tmp_path, name):
    assert check(tmp_path, parsed(USUAL[name], 19), [{"x": np.arange(5, dtype=F).reshape(1, 1, 5)}]) == ["Concat"]


def test_a_pool_that_is_read_otherwise_before_opset_19_stays_before_it(tmp_path):
    text = "(float[1,1,4] x) => (float[1,1,m] y) { a = Relu (x)  b = Relu (a)  y = AveragePool <kernel_shape = [2], strides = [2], pads = [0, 1], ceil_mode = 1> (b) }"
    assert check(tmp_path, parsed(text, 17), [{"x": np.arange(4, dtype=F).reshape(1, 1, 4)}], *TARGETS[0]) == ["Relu", "AveragePool"]
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version < 19


def test_the_scale_of_zeros_is_one(tmp_path):
    text = "(float[n] x) => (uint8[3] q, float s, uint8 z, float[n] y) <float[3] c = {0, 0, 0}> { q, s, z = DynamicQuantizeLinear (c)  y = Neg (x) }"
    assert check(tmp_path, text, [{"x": np.ones(2, F)}]) == ["Neg"]


@pytest.mark.parametrize("target", TARGETS, ids=" ".join)
def test_no_mean_variance_normalization_is_made_of_its_body(tmp_path, target):
    """ONNX Runtime's has no epsilon."""
    text = """(float[2,3,4,5] x) => (float[2,3,4,5] y) <int64[2] a = {2, 3}, float e = {1e-9}>
      { m = ReduceMean (x, a)  d = Sub (x, m)  s = Mul (d, d)  v = ReduceMean (s, a)  r = Sqrt (v)  t = Add (r, e)  y = Div (d, t) }"""
    check(tmp_path, text, [{"x": np.zeros((2, 3, 4, 5), F)}, {"x": np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(F)}], *target, rtol=1e-5)


@pytest.mark.parametrize("size", [2049, 8192, 65536])
def test_softmax_of_long_rows_of_halves_adds_up_in_float(tmp_path, size):
    """What `softmax_in_float` rests on: a sum of halves would stop at 2048, or be infinite."""
    text = "(float16[n,k] x) => (float16[n,k] y) { a = Cast <to = 1> (x)  s = Softmax (a)  y = Cast <to = 10> (s) }"
    rows = np.random.default_rng(0).normal(size=(3, size)).astype(np.float16)
    rows[0] = 0
    rows[1, 1:] -= 8
    assert check(tmp_path, text, [{"x": rows}], rtol=1e-3) == ["Softmax"]


# 4096 times 100 is infinite in half.
def test_means_that_are_computed_in_float_stay_there(tmp_path):
    model = parsed("(float16[n,4096] x) => (float16[n,1] y) <int64[1] l = {-1}> { a = Cast <to = 1> (x)  m = ReduceMean (a, l)  y = Cast <to = 10> (m) }")
    assert check(tmp_path, model, [{"x": np.full((2, 4096), 100, np.float16)}]) == ["Cast", "ReduceMean", "Cast"]
