"""The target openvino: what it fuses stays in one piece, what it lacks is not made, and what its CPU plugin computes (where it is installed)."""
import collections
import json

import numpy as np
import onnx
import onnx.parser
import pytest

from conftest import run, run_ok, said

HARD_SWISH = """c = Conv <pads = [1,1,1,1]> (x, w)  three = Constant <value = float {3}> ()  zero = Constant <value = float {0}> ()  six = Constant <value = float {6}> ()
                a = Add (c, three)  k = Clip (a, zero, six)  m = Mul (c, k)  y = Div (m, six)"""
GELU = """c = Conv <pads = [1,1,1,1]> (x, w)  r = Constant <value = float {1.4142135}> ()  o = Constant <value = float {1}> ()  h = Constant <value = float {0.5}> ()
          d = Div (c, r)  e = Erf (d)  b = Add (e, o)  m = Mul (c, b)  g = Mul (m, h)  y = Conv <pads = [1,1,1,1]> (g, w)"""


def model(tmp_path, body, opset):
    m = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[1,8,16,16] x) => (float[1,8,16,16] y) {{ {body} }}')
    weights = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float32) / 8
    m.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(m, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def operators(path):
    return collections.Counter(n.op_type for n in onnx.load(path).graph.node)


def optimized(tmp_path, body, opset, *words):
    run_ok(model(tmp_path, body, opset), tmp_path / "o.onnx", "--target", "openvino", *words)
    return operators(tmp_path / "o.onnx")


def test_a_hard_swish_is_no_product_with_a_hard_sigmoid(tmp_path):
    """It is fused into the convolution, which a product with HardSigmoid is not: that takes twice the time."""
    found = optimized(tmp_path, HARD_SWISH, 13, "--keep-opset")
    assert found["Clip"] == 1 and found["HardSigmoid"] == 0
    assert optimized(tmp_path, HARD_SWISH, 14)["HardSwish"] == 1


def test_a_gelu_stays_in_one_piece(tmp_path):
    """Its factor is not taken into the weights of the convolution behind it."""
    found = optimized(tmp_path, GELU, 17, "--keep-opset")
    assert found["Mul"] == 2 and found["Erf"] == 1
    assert optimized(tmp_path, GELU, 20)["Gelu"] == 1


def test_nothing_of_others_and_no_attention(tmp_path):
    shown = json.loads(run_ok("targets", "show", "openvino").stdout)
    assert shown["domains"] == {} and "Attention" not in shown["standard"] and "Det" not in shown["standard"]
    assert {f["becomes"] for f in shown["fusions"]} >= {"HardSwish(x)", "Gelu(x)", "Swish(x)"}


def test_fusions_of_a_file_are_checked(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps({"extends": "openvino", "name": "t", "fusions": [{"pattern": "Mul(x", "becomes": "x"}]}))
    assert "pattern 'Mul(x'" in run("targets", "show", tmp_path / "t.json").stderr


def test_the_screen_says_what_is_for_onnxruntime_only(tmp_path):
    path = model(tmp_path, "c = Conv <pads = [1,1,1,1]> (x, w)  s = Sigmoid (c)  y = Mul (c, s)", 17)
    done = run_ok(path, tmp_path / "o.onnx", "--target", "ort-cpu@1.31")
    own = any(n.domain == "com.microsoft" for n in onnx.load(tmp_path / "o.onnx").graph.node)
    assert own and "for ONNX Runtime only" in said(done)
    assert "for ONNX Runtime only" not in said(run_ok(path, tmp_path / "o.onnx", "--target", "openvino"))


@pytest.mark.parametrize("body, opset", [(HARD_SWISH, 13), (HARD_SWISH, 14), (GELU, 17), (GELU, 20)])
def test_openvino_fuses_them(tmp_path, body, opset):
    """The result has no more executed operators than the original, and its numbers."""
    openvino = pytest.importorskip("openvino", reason="the package openvino is not installed")
    optimized(tmp_path, body, opset, "--keep-opset")
    core, feeds = openvino.Core(), {"x": np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype(np.float32)}
    outs, sizes = [], []
    for name in ("m.onnx", "o.onnx"):
        compiled = core.compile_model(core.read_model(str(tmp_path / name)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        outs.append(compiled(feeds)[0])
        sizes.append(sum(op.get_rt_info()["layerType"].astype(str) not in ("Const", "Input", "Output", "Reorder", "Reshape") for op in compiled.get_runtime_model().get_ops()))
    np.testing.assert_allclose(outs[1], outs[0], rtol=1e-4, atol=1e-4)
    assert sizes[1] <= sizes[0]
