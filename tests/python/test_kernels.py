"""The runtime against the standard's own node cases, the zoo's PyTorch outputs, and ONNX Runtime's kernels of the fused operators."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, SHARED, binary

NODE_CASES = 1860  # of 1,884 in onnx 1.23.2


def runner():
    build = os.environ.get("SATURATE_BUILD")
    path = Path(build or "") / "tests" / "backend_runner"
    if not build or not path.exists():
        pytest.skip("SATURATE_BUILD (a CMake build folder with everything built) is not set")
    return path


def script(name, *words):
    done = subprocess.run([sys.executable, str(ROOT / "tests" / "kernels" / name), str(runner()), *map(str, words)], capture_output=True, text=True, timeout=900)
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_standard_node_cases():
    script("backend_test.py", "--at-least", NODE_CASES)


def test_zoo_equals_pytorch():
    folder = SHARED / "data" / "zoo" / "models"
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    script("zoo_test.py", folder)


def test_fused_operators_equal_those_of_onnx_runtime():
    script("contrib_vs_ort.py")


def test_data_movement_equals_onnx_runtime():
    script("data_vs_ort.py")


def test_facts_hold_in_real_runs():
    build = Path(os.environ.get("SATURATE_BUILD") or "") / "tests" / "dump_facts"
    models = sorted((SHARED / "data" / "zoo" / "models").glob("*18*.onnx"))
    if not build.exists() or not models:
        pytest.skip("SATURATE_BUILD or the models are not there")
    words = [sys.executable, ROOT / "tests" / "onnx_bridge" / "infer_vs_onnx.py", build, *models, "--egraph"]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("words", [(), ("--wild",)], ids=["valid", "wild"])
def test_random_models_against_both_others(words):
    pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
    pytest.importorskip("onnxruntime")
    fuzz = [sys.executable, str(ROOT / "bench" / "fuzz_models.py"), "--cases", "300", "--seed", "5", "--show", "bad", *words]
    done = subprocess.run(fuzz, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "agree with" in done.stdout


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_random_graphs_optimized(dtype):
    pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
    pytest.importorskip("onnxruntime")
    fuzz = [sys.executable, str(ROOT / "bench" / "fuzz_optimize.py"), "--cases", "80", "--seed", "3", "--dtype", dtype]
    done = subprocess.run(fuzz, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("words", [("--cases", "40"), ("--cases", "60", "--small"), ("--cases", "150", "--operators")], ids=["graphs", "small", "operators"])
def test_runs_agree_bit_by_bit(words):
    pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
    pytest.importorskip("onnxruntime")
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "fuzz_runs.py"), "--seed", "4", *words], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_changed_files_end_in_words():
    pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "fuzz_files.py"), binary(), "--cases", "60", "--seed", "2"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
