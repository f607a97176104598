"""A value may be an output of the graph twice, in ONNX Runtime, too: each stands where it stood, in every verb."""
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from conftest import run_ok

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,3] x) => (float[2,3] a, float[2,3] a, float[2,3] b, float[6] c) <int64[1] to = {6}> { a = Relu (x)  b = Neg (x)  c = Reshape (a, to) }"""
X = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "twice.onnx"
    onnx.save(parser.parse_model(TEXT), path)
    return path


def outputs(path):
    session = onnxruntime.InferenceSession(path)
    return [o.name for o in session.get_outputs()], session.run(None, {session.get_inputs()[0].name: X})


@pytest.mark.parametrize("words", [["verify"], ["diff"], ["prove"]], ids=lambda words: words[0])
def test_the_model_equals_itself(model, words):
    done = run_ok(*words, model, model)
    assert "DIFFERENT" not in done.stdout and "not proven" not in done.stdout and "more outputs" not in done.stdout


@pytest.mark.parametrize("words", [
    ["optimize", "--target", target] for target in ("ort-cpu@1.31", "onnx", "npu-4d", "coreml")
] + [["transform", "--pass", p] for p in ("expose_all", "open_batch", "freeze", "int32_inputs", "precision:float16")], ids=lambda words: words[-1])
def test_results_have_what_the_original_has(model, tmp_path, words):
    run_ok(words[0], model, "-o", tmp_path / "out.onnx", *words[1:])
    names, values = outputs(tmp_path / "out.onnx")
    assert names[:4] == ["a", "a", "b", "c"]
    for made, wanted in zip(values, [np.maximum(X, 0), np.maximum(X, 0), -X, np.maximum(X, 0).reshape(6)]):
        np.testing.assert_allclose(made.reshape(wanted.shape), wanted, rtol=1e-3)


@pytest.mark.parametrize("change,names,types", [
    ("io_rank:4", "aabc", ["tensor(float)"] * 4), ("cast_outputs:a=float16", "aabc", ["tensor(float16)"] * 2 + ["tensor(float)"] * 2),
    ("rename_outputs:a=z", "zzbc", ["tensor(float)"] * 4), ("remove_outputs:a", "bc", ["tensor(float)"] * 2)])
def test_what_changes_an_output_changes_both(model, tmp_path, change, names, types):
    run_ok("transform", model, "-o", tmp_path / "out.onnx", "--pass", change)
    made = onnxruntime.InferenceSession(tmp_path / "out.onnx").get_outputs()
    assert [o.name for o in made] == list(names) and [o.type for o in made] == types
    if change.startswith("io_rank"):
        assert {len(o.shape) for o in made} == {4}
