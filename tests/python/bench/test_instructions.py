"""bench/instructions.py: a build against itself has the ratio 1; without valgrind the measurement is skipped."""
import os
import pathlib
import shutil
import subprocess
import sys

import onnx
import pytest

from conftest import binary

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "bench" / "instructions.py"


def instructions(folder, *more, path=None):
    words = [sys.executable, SCRIPT, "--old", binary(), "--new", binary(), folder / "small.onnx", *more]
    env = dict(os.environ, PATH=path) if path is not None else None
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=env)


@pytest.fixture
def folder(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "small.onnx")
    return tmp_path


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_build_equals_itself(folder):
    done = instructions(folder, "--profiles", folder / "profiles", "--at-most", "1.05")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 files: " in done.stdout and "ratio 1.0" in done.stdout, done.stdout
    assert sorted(p.name for p in (folder / "profiles").iterdir()) == ["small.new", "small.old"]
    assert instructions(folder, "--at-most", "0.5").returncode == 1


def test_without_valgrind_it_is_skipped(folder):
    done = instructions(folder, path=str(folder))
    assert done.returncode == 77 and "skipped: valgrind is not installed" in done.stdout, done.stdout + done.stderr
