"""bench/runtime/runtime_versions.py --zoo, bench/quality/all_targets.py and bench/quality/kept_values.py: tables over models with inputs and outputs beside them."""
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, ROOT, binary, make_model, value

sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
import zoo  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    for ending in ("onnx", "inputs.npz", "expected.npz"):
        shutil.copy(DATA / f"bart_encoder.{ending}", tmp_path)
    return tmp_path


def script(name, *words):
    return subprocess.run([sys.executable, ROOT / "bench" / name, *words], capture_output=True, text=True)


def cells(done, first):
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"| {first}")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_results_in_an_interpreter(folder):
    done = script("runtime/runtime_versions.py", "--zoo", folder, "--binary", binary(), sys.executable)
    assert done.returncode == 0 and cells(done, "1.")[:3] == ["1", "1", "1"], done.stdout + done.stderr
    # An original that is right is told from a result that is not.
    wrong = folder / "wrong.rules"
    wrong.write_text("rule wrong <..a> (X, S, B) => (Y)\n  { Y = LayerNormalization <..a> (X, S, B) }\n  =>\n  { Y = Identity (X) }\n  example X = float[2,3], S = float[3], B = float[3]\n")
    done = script("runtime/runtime_versions.py", "--zoo", folder, "--binary", binary(), f"--word=--rules={wrong}", "--word=--no-verify", sys.executable)
    assert done.returncode == 1 and "bart_encoder: off, the original right" in done.stderr and cells(done, "1.")[1:3] == ["0", "1"], done.stdout + done.stderr


@pytest.mark.parametrize("target, taken", [("npu-4d", ["0", "1"]), ("ort-cuda", ["1", "1"]), ("onnx", ["1", "1"])])
def test_a_target(folder, target, taken):
    done = script("quality/all_targets.py", folder, "--binary", binary(), "--target", target)
    assert done.returncode == 0 and cells(done, f"`{target}`") == ["1", "1", "1", "1", *taken, "1", "0"], done.stdout + done.stderr


def test_operators_without_a_cuda_kernel_are_told(tmp_path):
    """Opset 22 has a Cos that the provider has no kernel of."""
    model = make_model([helper.make_node("Cos", ["x"], ["y"])], [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])], opset=22)
    onnx.save(model, tmp_path / "m.onnx")
    x = np.linspace(0, 3, 5, dtype=np.float32)
    np.savez(tmp_path / "m.inputs.npz", x=x)
    np.savez(tmp_path / "m.expected.npz", y=np.cos(x))
    done = script("quality/all_targets.py", tmp_path, "--binary", binary(), "--target", "ort-cuda")
    assert done.returncode == 0 and "without a kernel before: {'Cos-22': 1}" in done.stdout, done.stdout + done.stderr


def test_names_mean_the_same_values(folder):
    done = script("quality/kept_values.py", folder, "--binary", binary())
    assert done.returncode == 0 and "; 0 are another value" in done.stdout, done.stdout + done.stderr
    wrong = folder / "wrong.rules"
    wrong.write_text("rule wrong (X) => (Y)\n  { Y = Softmax (X) }\n  =>\n  { Y = Relu (X) }\n  example X = float[2,3]\n")
    (folder / "cheap.json").write_text('{"costs": {"Relu": 0.1}, "default": 1}')
    done = script("quality/kept_values.py", folder, "--binary", binary(), f"--word=--rules={wrong}", f"--word=--cost={folder / 'cheap.json'}", "--word=--skip-fusion=Attention",
                  "--word=--skip-fusion=MultiHeadAttention")
    assert done.returncode == 1 and "is another value" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("got, wanted, far", [
    ([1.0, 2.0], [1.0, 4.0], 0.5), ([np.nan, 1.0], [np.nan, 1.0], 0), ([np.inf, 1.0], [np.inf, 2.0], 0.5), ([[1.0]], [1.0], np.inf), ([], [], 0), ([np.nan, 1.0], [0.0, 1.0], np.inf),
])  # fmt: skip
def test_how_far_arrays_are_apart(got, wanted, far):
    np.testing.assert_equal(zoo.apart(np.array(got, np.float32), np.array(wanted, np.float32)), far)


def test_a_nan_is_never_right(tmp_path):
    model = make_model([helper.make_node("Log", ["x"], ["y"])], [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])
    verdict = zoo.verdict(model.SerializeToString(), {"x": np.array([-1, 1], np.float32)}, {"y": np.array([0, 0], np.float32)})
    assert verdict[0] == "off"
