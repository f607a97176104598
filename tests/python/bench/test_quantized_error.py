"""`bench/quality/quantized_error.py`: the error of a quantized model against its float model, before and after optimizing."""
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from conftest import ROOT, binary, make_model, value

FLOAT = onnx.TensorProto.FLOAT


def models(folder, scale):
    """A product in floats, and the same with its activations in bytes of this scale."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(np.array(v), name) for name, v in
               (("w", rng.normal(size=(8, 5)).astype(np.float32)), ("s", np.float32(scale)), ("z", np.uint8(128)))]
    floats, quantized = folder / "floats", folder / "quantized"
    floats.mkdir(parents=True), quantized.mkdir()
    io = [value("x", FLOAT, [16, 8])], [value("y", FLOAT, [16, 5])]
    onnx.save(make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], *io, weights[:1]), floats / "m.drawn.onnx")
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
             helper.make_node("MatMul", ["d", "w"], ["y"])]
    onnx.save(make_model(nodes, *io, weights), quantized / "m.qdq.onnx")
    np.savez(quantized / "m.inputs.npz", x=rng.normal(size=(16, 8)).astype(np.float32))
    return floats, quantized


def error(floats, quantized, command, *more):
    words = [sys.executable, ROOT / "bench" / "quality" / "quantized_error.py", floats, quantized, "--binary", command, "--positions", "100", *more]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options, better", [("", False), ("--approximate", True)])
def test_the_error_before_and_after(tmp_path, options, better):
    floats, quantized = models(tmp_path, 0.05)
    run = error(floats, quantized, binary(), f"--options={options}", "--json", tmp_path / "e.json")
    assert run.returncode == 0, run.stderr
    (row,) = json.loads((tmp_path / "e.json").read_text()).values()
    before, after = row["sqnr"]
    assert row["rows"] >= 100 and 20 < before < 60 and not row["worse"]
    assert after > 100 if better else after == pytest.approx(before, abs=0.01)  # without quantizers it is the float model


def test_a_worse_result_ends_with_status_1(tmp_path):
    """Here the optimizer is a script that hands out a model with coarser steps."""
    floats, quantized = models(tmp_path, 0.05)
    _, coarse = models(tmp_path / "other", 0.5)
    fake = tmp_path / "fake"
    fake.write_text(f"#!/bin/sh\ncp {coarse}/m.qdq.onnx $4\n")
    fake.chmod(0o755)
    run = error(floats, quantized, fake)
    assert run.returncode == 1 and "worse: m.qdq" in run.stdout, run.stdout + run.stderr
