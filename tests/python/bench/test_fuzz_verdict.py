"""The judge of odd graphs: what rounding explains, and what it must not."""
import sys

import numpy as np
import onnx
import onnx.parser
import pytest

from conftest import ROOT

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
sys.path.insert(0, str(ROOT / "bench"))
from fuzz import odd, stability, verdict  # noqa: E402

TURNS = "keep = Constant <value = bool {1}> ()\nturns = Constant <value = int64 {3}> ()\n"
LOOP = TURNS + "y = Loop (turns, keep, x) <body = b (int64 i, bool c, DTYPE[n, k] s) => (bool d, DTYPE[n, k] t) { d = Identity (c)\nh = Tanh (s)\nt = Mul (h, x) }>"


def model(body, signature="(float[n, k] x) => (float[n, k] y)", opset=21):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\ng {signature} {{ {body} }}')


def explained(m, feed, got):
    wanted = odd.run_once(m, feed)[0]
    outside = verdict.apart(wanted, got)
    assert outside is None or outside.any(), "within the tolerance"
    return verdict.explained(m, feed, odd.run_once, 0, wanted, got, outside)


@pytest.mark.parametrize("dtype, kind", [("float", np.float32), ("float16", np.float16), ("double", np.float64)])
def test_what_bodies_compute_is_disturbed(dtype, kind):
    m = model(LOOP.replace("DTYPE", dtype), f"({dtype}[n, k] x) => ({dtype}[n, k] y)")
    x = np.random.default_rng(0).uniform(0.5, 1, (4, 8)).astype(kind)
    exact = odd.run_once(m, {"x": x})[0]
    noisy = [odd.run_once(stability.disturbed(m, {"x": x}, np.random.default_rng(seed)), {"x": x})[0] for seed in range(8)]
    assert all(v.dtype == exact.dtype and v.shape == exact.shape for v in noisy)
    spread = max(np.abs(v.astype(np.float64) - exact).max() for v in noisy)
    assert 0 < spread <= 64 * stability.EPSILON[np.dtype(kind).name]
    nodes = stability.disturbed(m, {"x": x}, np.random.default_rng(0)).graph.node
    body = next(n for n in nodes if n.op_type == "Loop").attribute[0].g
    assert [n.op_type for n in body.node] == ["Identity", "Tanh", "Mul", "Mul", "Mul"]


def test_a_half_too_small_for_halves_may_be_one():
    """The Loop rounds its square to 0; a chain in float does not."""
    square = TURNS + "t = Loop (turns, keep, x) <body = b (int64 i, bool c, float16[n, k] s) => (bool d, float16[n, k] r) { d = Identity (c)\nr = Mul (x, x) }>\n"
    m = model(square + "zero = Constant <value = float16 {0}> ()\nh = Mul (t, t)\nc = Greater (h, zero)\ny = Cast <to = 1> (c)", "(float16[n, k] x) => (float[n, k] y)")
    assert explained(m, {"x": np.float16([[1e-5, 2e-5, 1e-6]])}, np.float32([[1, 1, 1]])) == "rounding inside"
    assert explained(m, {"x": np.float16([[1e-5], [1]])}, np.float32([[1], [0]])) is None  # 1 > 0 hangs on no rounding


@pytest.mark.parametrize("body", ["y = Relu (x)", "y = Softplus (x)", LOOP.replace("DTYPE", "float")])
@pytest.mark.parametrize("factor", [1.001, 1.1, -1])
def test_no_rounding_explains_another_number(body, factor):
    x = np.random.default_rng(0).uniform(0.5, 1, (4, 8)).astype(np.float32)
    m = model(body)
    assert explained(m, {"x": x}, (odd.run_once(m, {"x": x})[0] * factor).astype(np.float32)) is None


def test_a_softplus_of_far_below_0_is_as_its_body_has_it():
    """log(1 + e^x) in float is 0 where e^x is below a unit of 1; nothing else is so excused."""
    x = np.full((2, 4), -18, np.float32)
    m = model("y = Softplus (x)")
    assert explained(m, {"x": x}, np.zeros((2, 4), np.float32)) == "rounding inside"
    assert explained(m, {"x": x}, np.full((2, 4), 1e-4, np.float32)) is None
    assert explained(model("y = Exp (x)"), {"x": x}, np.zeros((2, 4), np.float32)) is None


def test_a_quantized_value_between_two_steps_is_either():
    scales = "s = Constant <value = float {0.1}> ()\nz = Constant <value = uint8 {128}> ()\n"
    m = model(scales + "r = Relu (x)\ny = QuantizeLinear (r, s, z)", "(float[n, k] x) => (uint8[n, k] y)")
    x = np.random.default_rng(0).uniform(0, 3, (4, 8)).astype(np.float32)
    wanted = odd.run_once(m, {"x": x})[0]
    few, many, far = wanted.copy(), wanted.copy(), wanted.copy()
    few[0, :2] += 1
    many += 1
    far[0, 0] += 40
    assert explained(m, {"x": x}, few) == "a step of a quantized value"
    assert verdict.ties(m, 0, wanted, few) and not verdict.ties(m, 0, wanted, many) and not verdict.ties(m, 0, wanted, far)
    assert explained(m, {"x": x}, far) is None
    unquantized = model("y = Cast <to = 2> (x)", "(float[n, k] x) => (uint8[n, k] y)")
    assert not verdict.ties(unquantized, 0, wanted, few)
