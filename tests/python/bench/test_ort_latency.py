"""bench/speed/ort_latency.py: what executes the same kernels counts as 1, what differs is timed and compared."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest

from conftest import DATA, binary

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "bench" / "speed" / "ort_latency.py"
sys.path.insert(0, str(SCRIPT.parent))
import ort_outputs  # noqa: E402


def latency(tmp_path, name, *more):
    words = [sys.executable, SCRIPT, DATA, name, "--binary", binary(), "--tools", "saturate", "--rounds", "5", "--work", tmp_path / "work", "--json", tmp_path / "r.json", *more]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = tmp_path / "r.json"
    return {r["tool"]: r for r in json.loads(rows.read_text())} if rows.exists() else {}, done.stdout


def test_the_same_kernels_count_as_one(tmp_path):
    model = onnx.load(DATA / "bart_encoder.onnx")
    for node in model.graph.node:  # other names, and defaults written out
        node.name = f"other_{node.name}"
        if node.op_type == "MatMul":
            node.output[0] = f"other_{node.output[0]}"
    renamed = {o for n in model.graph.node if n.op_type == "MatMul" for o in n.output}
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            if f"other_{name}" in renamed:
                node.input[i] = f"other_{name}"
        if node.op_type == "Gather" and not node.attribute:
            node.attribute.append(onnx.helper.make_attribute("axis", 0))
    (tmp_path / "work").mkdir()
    onnx.save(model, tmp_path / "work" / "bart_encoder.saturate.onnx")  # found there, and not made again
    rows, text = latency(tmp_path, "bart_encoder")
    assert rows["saturate"]["same_kernels"] and rows["saturate"]["ratio"] == 1 and rows["saturate"]["difference"] == 0
    assert "slower: none" in text


def test_what_differs_is_timed_and_compared(tmp_path):
    rows, _ = latency(tmp_path, "bart_encoder")
    assert not rows["saturate"]["same_kernels"] and rows["saturate"]["low"] <= rows["saturate"]["ratio"] <= rows["saturate"]["high"]
    assert 0 < rows["saturate"]["difference"] < 1e-3


def test_wrong_outputs_are_told(tmp_path):
    model = onnx.load(DATA / "bart_encoder.onnx")
    weight = max(model.graph.initializer, key=lambda i: onnx.numpy_helper.to_array(i).size)
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.5 + 0.25, weight.name))
    (tmp_path / "work").mkdir()
    onnx.save(model, tmp_path / "work" / "bart_encoder.saturate.onnx")  # found there, and not made again
    rows, text = latency(tmp_path, "bart_encoder")
    assert rows["saturate"]["difference"] > 1e-3 and "wrong: bart_encoder" in text


def test_quantized_models_are_judged_by_their_float_model(tmp_path):
    floats = tmp_path / "floats"
    floats.mkdir()
    model = onnx.load(DATA / "bart_encoder.onnx")
    for weight in model.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT:  # the float model that the one at hand is a little apart from
            values = onnx.numpy_helper.to_array(weight)
            weight.CopyFrom(onnx.numpy_helper.from_array(np.where(np.abs(values) < 1e30, values * np.float32(0.99), values), weight.name))
    onnx.save(model, floats / "bart_encoder.torchscript.onnx")
    rows, text = latency(tmp_path, "bart_encoder", "--floats", floats)
    assert abs(rows["saturate"]["lost"]) < 0.1 and "wrong: none" in text
    broken = onnx.load(DATA / "bart_encoder.onnx")
    weight = max(broken.graph.initializer, key=lambda i: onnx.numpy_helper.to_array(i).size)
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.5 + 0.25, weight.name))
    (tmp_path / "other" / "work").mkdir(parents=True)
    onnx.save(broken, tmp_path / "other" / "work" / "bart_encoder.saturate.onnx")
    rows, text = latency(tmp_path / "other", "bart_encoder", "--floats", floats)
    assert rows["saturate"]["lost"] > 1 and "wrong: bart_encoder" in text


def test_outputs_are_kept_without_the_weights_of_the_original(tmp_path):
    latency(tmp_path, "bart_encoder", "--prepare")
    small, original = tmp_path / "work" / "bart_encoder.saturate.onnx", DATA / "bart_encoder.onnx"
    assert small.stat().st_size < original.stat().st_size / 2
    whole = onnx.load_from_string(ort_outputs.read(small, original))
    onnx.checker.check_model(whole)
    assert all(i.raw_data or not i.external_data for i in whole.graph.initializer)


def test_a_second_call_measures_what_another_tool_made(tmp_path):
    first, _ = latency(tmp_path, "bart_encoder")
    again, text = latency(tmp_path, "bart_encoder")
    assert again == first and "rounds" not in text
    other, _ = latency(tmp_path, "bart_encoder", "--options=--rules none")
    assert other["saturate"]["stamp"] != first["saturate"]["stamp"]


def test_outputs_of_a_model_that_was_replaced_are_made_again(tmp_path):
    source = tmp_path / "bart_encoder.onnx"
    shutil.copy(DATA / "bart_encoder.inputs.npz", tmp_path)
    model = onnx.load(DATA / "bart_encoder.onnx")
    onnx.save(model, source)
    outputs = ort_outputs.Outputs(tmp_path / "work", binary(), "", 100)
    outputs.facts("original", source)
    first = outputs.facts("saturate", source)
    for weight in model.graph.initializer:
        data = onnx.numpy_helper.to_array(weight)
        if data.ndim == 2:
            weight.CopyFrom(onnx.numpy_helper.from_array(data * np.float32(0.5), weight.name))
    model.doc_string = "moves the weights in the file"
    onnx.save(model, source)
    os.utime(source)
    outputs.facts("original", source)
    again = outputs.facts("saturate", source)
    assert "error" not in first and "error" not in again and again["difference"] < 1e-3
