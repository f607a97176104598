"""`--prefer quantizable`: what quantizers know in a model they know in its result, and quantize there."""
import json
import re
import shlex
import subprocess
import sys

import numpy as np
import onnx
import pytest

from conftest import ROOT, binary, onnxruntime_outputs, run_ok

sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
import then_quantize  # noqa: E402

CONVOLUTIONS = """
<ir_version: 8, opset_import: ["" : 13]>
g (float[1,4,9,9] x) => (float[1,8] y)
<float[8,4,3,3] w, float[8] b, float[8,8,3,3] u, float[8] c, float three = {3}, float zero = {0}, float six = {6}, float[8] s, int64[2] flat = {1, 8}, float[8,8] m>
{
  v0 = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (x, w, b)
  v1 = Relu (v0)
  v2 = Conv <kernel_shape = [3,3], pads = [1,1,1,1]> (v1, u, c)
  v3 = Add (v2, three)
  v4 = Clip (v3, zero, six)
  v5 = Mul (v2, v4)
  v6 = Div (v5, six)
  v7 = Sigmoid (v6)
  v8 = Mul (v6, v7)
  v9 = Add (v8, v1)
  v10 = Relu (v9)
  v11 = GlobalAveragePool (v10)
  v12 = Reshape (v11, flat)
  v13 = MatMul (v12, m)
  v14 = Add (v13, s)
  y = LeakyRelu <alpha = 0.1> (v14)
}
"""
ATTENTION = """
<ir_version: 8, opset_import: ["" : 13]>
g (float[1,6,16] x) => (float[1,6,16] y)
<float[16,16] wq, float[16,16] wk, float[16,16] wv, float[16,16] wo, int64[4] apart = {0, 0, 2, 8}, int64[3] joined = {0, 0, 16}, float scale = {0.35355339}>
{
  q = MatMul (x, wq)
  k = MatMul (x, wk)
  v = MatMul (x, wv)
  q1 = Reshape (q, apart)
  k1 = Reshape (k, apart)
  v1 = Reshape (v, apart)
  q2 = Transpose <perm = [0,2,1,3]> (q1)
  k2 = Transpose <perm = [0,2,3,1]> (k1)
  v2 = Transpose <perm = [0,2,1,3]> (v1)
  scores = MatMul (q2, k2)
  scaled = Mul (scores, scale)
  p = Softmax <axis = -1> (scaled)
  o = MatMul (p, v2)
  o1 = Transpose <perm = [0,2,1,3]> (o)
  o2 = Reshape (o1, joined)
  y = MatMul (o2, wo)
}
"""


def drawn(text):
    """A model of the text, whose parameters without values are drawn."""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    for v in model.graph.value_info:
        shape = [d.dim_value for d in v.type.tensor_type.shape.dim]
        model.graph.initializer.append(onnx.numpy_helper.from_array((rng.standard_normal(shape) * 0.3).astype(np.float32), v.name))
    del model.graph.value_info[:]
    return model


@pytest.fixture(params=[CONVOLUTIONS, ATTENTION], ids=["convolutions", "attention"])
def model(request, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(drawn(request.param), path)
    shape = [d.dim_value for d in onnx.load(path).graph.input[0].type.tensor_type.shape.dim]
    np.savez(tmp_path / "model.inputs.npz", x=np.random.default_rng(1).standard_normal(shape).astype(np.float32))
    return path


def quantized(path, how, inputs):
    out = path.with_suffix(f".{how}.onnx")
    assert then_quantize.call_quantizer(sys.executable, path, out, how, inputs) == ""
    return then_quantize.count(onnx.load(out), then_quantize.known_to(how))


@pytest.mark.parametrize("target", ["ort-cpu@1.31", "onnx"])
def test_what_is_quantized_in_a_model_is_quantized_in_its_result(model, target, tmp_path):
    result, inputs = tmp_path / "ready.onnx", model.with_name("model.inputs.npz")
    run_ok("optimize", model, "-o", result, "--target", target, "--prefer", "quantizable")
    for how in then_quantize.ORT:
        before, after = quantized(model, how, inputs), quantized(result, how, inputs)
        assert not then_quantize.in_floats(before, after), (how, before, after)


def test_without_the_wish_convolutions_and_products_are_hidden(model, tmp_path):
    """What the test above is worth."""
    result, inputs = tmp_path / "fused.onnx", model.with_name("model.inputs.npz")
    run_ok("optimize", model, "-o", result, "--target", "ort-cpu@1.31")
    assert then_quantize.in_floats(quantized(model, "ort-qoperator", inputs), quantized(result, "ort-qoperator", inputs))


def test_a_models_own_fusions_are_taken_apart(tmp_path):
    fused, ready = tmp_path / "fused.onnx", tmp_path / "ready.onnx"
    onnx.save(drawn(CONVOLUTIONS), tmp_path / "model.onnx")
    run_ok("optimize", tmp_path / "model.onnx", "-o", fused, "--target", "ort-cpu@1.31")
    assert "FusedConv" in {n.op_type for n in onnx.load(fused).graph.node}
    run_ok("optimize", fused, "-o", ready, "--target", "ort-cpu@1.31", "--prefer", "quantizable")
    assert "FusedConv" not in {n.op_type for n in onnx.load(ready).graph.node}
    inputs = {"x": np.random.default_rng(2).standard_normal((1, 4, 9, 9)).astype(np.float32)}
    np.testing.assert_allclose(onnxruntime_outputs(ready, inputs)["y"], onnxruntime_outputs(tmp_path / "model.onnx", inputs)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["ort-cpu@1.31", "onnx"])
def test_normalizations_go_into_convolutions_all_the_same(target, tmp_path):
    text = CONVOLUTIONS.replace("v1 = Relu (v0)", "n0 = BatchNormalization (v0, b, b, b, ones)\n  v1 = Relu (n0)").replace(
        "float[8] b,", "float[8] b, float[8] ones = {1, 2, 1, 1, 3, 1, 1, 1},")
    onnx.save(drawn(text), tmp_path / "model.onnx")
    run_ok("optimize", tmp_path / "model.onnx", "-o", tmp_path / "ready.onnx", "--target", target, "--prefer", "quantizable")
    assert "BatchNormalization" not in {n.op_type for n in onnx.load(tmp_path / "ready.onnx").graph.node}


def test_weights_are_initializers(tmp_path):
    """ONNX Runtime's quantizer fails where a convolution that has its normalization inside reads a bias from a Constant node."""
    scaled = CONVOLUTIONS.replace("v1 = Relu (v0)", "n0 = Mul (v0, g)\n  v1 = Relu (n0)").replace("float[8] b,", "float[8] b, float[1,8,1,1] g,")
    model = drawn(scaled)
    nodes = [onnx.helper.make_node("Constant", [], [t.name], value=t) for t in model.graph.initializer]
    nodes += list(model.graph.node)
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "inputs.npz", x=np.random.default_rng(1).standard_normal((1, 4, 9, 9)).astype(np.float32))
    run_ok("optimize", tmp_path / "model.onnx", "-o", tmp_path / "ready.onnx", "--target", "ort-cpu@1.31", "--prefer", "quantizable")
    assert "Constant" not in {n.op_type for n in onnx.load(tmp_path / "ready.onnx").graph.node}
    integers, floats = quantized(tmp_path / "ready.onnx", "ort-qoperator", tmp_path / "inputs.npz")
    assert integers["Conv"] == 2 and not floats["Conv"]


def test_the_table_is_what_onnxruntimes_registries_say():
    done = subprocess.run([sys.executable, ROOT / "tools" / "quantizer_operators.py", sys.executable], capture_output=True, text=True)
    assert done.returncode == 1 and "no interpreter has all of" in done.stderr  # the other two quantizers are not here
    sys.path.insert(0, str(ROOT / "tools"))
    import quantizer_operators

    found, versions = quantizer_operators.asked([sys.executable])
    assert versions and found
    table = json.loads(then_quantize.TABLE.read_text())["quantizers"]
    assert {name: table[name] for name in found} == found


def test_the_guide_shows_what_its_command_prints():
    page = (ROOT / "docs" / "guide" / "quantize.md").read_text()
    shown = re.search(r"\$ (python bench/quality/then_quantize\.py run .*)\n((?:.*\n)+?)```", page)
    words = shlex.split(shown[1].replace("--saturate saturate", f"--saturate {shlex.quote(str(binary()))}"))
    done = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == shown[2].splitlines(), done.stdout + done.stderr


def test_an_unknown_wish_is_told_which_there_are():
    from conftest import DATA, run

    done = run("optimize", DATA / "bart_encoder.onnx", "--prefer", "quantisable")
    assert done.returncode == 2 and "quantizable" in done.stderr
