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
    done = subprocess.run([sys.executable, str(ROOT / "tests" / "kernels" / "suites" / name), str(runner()), *map(str, words)], capture_output=True, text=True, timeout=900)
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
