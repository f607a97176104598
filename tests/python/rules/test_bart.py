"""The bundled BART encoder: the model on which today's attention fusions stop."""
import collections
import json
import re

import numpy as np
import onnx
import pytest

from conftest import DATA, onnxruntime_outputs, run, run_ok, said

BART = DATA / "bart_encoder.onnx"


def expected():
    with np.load(DATA / "bart_encoder.inputs.npz") as x, np.load(DATA / "bart_encoder.expected.npz") as y:
        return dict(x), list(y.values())


def optimized(folder, *words):
    out = folder / "out.onnx"
    run_ok(BART, out, *words)
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    return out, model, collections.Counter((n.domain, n.op_type) for n in model.graph.node)


def assert_right(path):
    inputs, outputs = expected()
    for optimize in (False, True):
        got = onnxruntime_outputs(path, inputs, optimize)
        for result, wanted in zip(got.values(), outputs):
            assert np.abs(result - wanted).max() <= 1e-5


def test_every_block_fuses_for_ort_cpu(tmp_path):
    path, model, count = optimized(tmp_path, "--target", "ort-cpu@1.31", "--cost", "nodes")
    ms = lambda op: count[("com.microsoft", op)]
    assert ms("Attention") + ms("MultiHeadAttention") == 2
    assert ms("BiasGelu") + ms("Gelu") + count[("", "Gelu")] == 2
    assert ms("SkipLayerNormalization") == 4
    assert ms("EmbedLayerNormalization") == 1
    assert count[("", "Softmax")] == 0
    assert_right(path)


def test_assumptions_are_named_and_can_be_forbidden(tmp_path):
    report = tmp_path / "report.json"
    done = run_ok(BART, tmp_path / "out.onnx", "--cost", "nodes", "--report", report, "-v")
    assumed = {a["assumption"]: a["rules"] for a in json.loads(report.read_text())["assumed"]}
    assert "embed_layer_normalization" in assumed["ids_in_range"]
    assert re.search(r"assumed: ids_in_range \(ids that look up .*; by embed_layer_normalization", said(done))
    path, model, count = optimized(tmp_path, "--cost", "nodes", "--no-assume", "ids_in_range", "--report", str(report))
    assert count[("com.microsoft", "EmbedLayerNormalization")] == 0
    assert "ids_in_range" not in {a["assumption"] for a in json.loads(report.read_text())["assumed"]}
    # Negative ids count from the end, and without the assumption they still do.
    inputs, _ = expected()
    inputs["input_ids"] = inputs["input_ids"] - 5
    before, after = (onnxruntime_outputs(p, inputs) for p in (BART, path))
    for a, b in zip(before.values(), after.values()):
        assert np.abs(a - b).max() <= 1e-5
    done = run(BART, tmp_path / "none.onnx", "--no-assume", "nonsense")
    assert done.returncode == 2 and "nonsense" in done.stderr and not (tmp_path / "none.onnx").exists()


def test_standard_attention_for_onnx(tmp_path):
    path, model, count = optimized(tmp_path, "--target", "onnx", "--cost", "nodes", "--opset", "23")
    assert count[("", "Attention")] == 2
    assert {n.domain for n in model.graph.node} == {""}
    assert_right(path)


def test_default_options(tmp_path):
    path, model, count = optimized(tmp_path)
    assert_right(path)


@pytest.mark.parametrize("words", [["--target", "onnx", "--keep-opset"], ["--target", "ort-cpu@1.31", "--keep-opset"], ["--target", "onnx", "--opset", "20"]])
def test_opsets(tmp_path, words):
    path, model, count = optimized(tmp_path, "--cost", "nodes", *words)
    opset = {i.domain: i.version for i in model.opset_import}[""]
    assert opset == (20 if "20" in words else 18)
    assert_right(path)


def test_rewriting_a_result_keeps_it(tmp_path):
    first, _, count = optimized(tmp_path, "--cost", "nodes")
    run_ok(first, tmp_path / "again.onnx", "--cost", "nodes")
    assert collections.Counter((n.domain, n.op_type) for n in onnx.load(tmp_path / "again.onnx").graph.node) == count


def test_attention_needs_no_biases_of_keys_and_values(tmp_path):
    path, model, _ = optimized(tmp_path, "--target", "onnx", "--opset", "23", "--cost", "nodes")
    made = {o: n for n in model.graph.node for o in n.output}
    attentions = [n for n in model.graph.node if n.op_type == "Attention"]
    assert attentions and all([made[i].op_type for i in n.input[:3]] == ["Add", "MatMul", "MatMul"] for n in attentions)
    assert_right(path)
