"""bench/quality/refused.py: what a target refuses before and after."""
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from conftest import DATA, binary, make_model, value

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "bench" / "quality" / "refused.py"
TARGET = DATA / "targets" / "npu-4d.json"


def rows(folder, *words):
    done = subprocess.run([sys.executable, SCRIPT, folder, "--binary", binary(), "--target", TARGET, "--json", folder / "rows.json", *words], capture_output=True, text=True)
    return json.loads((folder / "rows.json").read_text()), done


def test_an_encoder_is_taken_whole(tmp_path):
    for name in ("bart_encoder.onnx", "bart_encoder.inputs.npz", "bart_encoder.expected.npz"):
        shutil.copy(DATA / name, tmp_path)
    found, done = rows(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert found[0]["before"] > 50 and found[0]["after"] == 0 and found[0]["difference"] < 1e-4


def test_a_symbol_of_two_sizes(tmp_path):
    model = make_model([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["z"], ["b"])],
                       [value("x", TensorProto.FLOAT, ["n", 3]), value("z", TensorProto.FLOAT, ["n", 5])], [value("a", TensorProto.FLOAT, ["n", 3]), value("b", TensorProto.FLOAT, ["n", 5])])
    x, z = np.ones((2, 3), np.float32), np.ones((4, 5), np.float32)
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "m.inputs.npz", x=x, z=z)
    np.savez(tmp_path / "m.expected.npz", a=x, b=-z)
    found, done = rows(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (found[0]["before"], found[0]["after"], found[0]["difference"]) == (2, 0, 0)


def test_a_difference_fails(tmp_path):
    onnx.save(make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.FLOAT, [2, 3])]), tmp_path / "m.onnx")
    np.savez(tmp_path / "m.inputs.npz", x=np.ones((2, 3), np.float32))
    np.savez(tmp_path / "m.expected.npz", y=np.full((2, 3), 2, np.float32))
    assert rows(tmp_path)[1].returncode == 1
