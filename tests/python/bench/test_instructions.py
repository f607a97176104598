"""bench/gauges/instructions.py: a build against itself has the ratio 1, no workload takes more than it did; without valgrind the measurement is skipped."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
from types import SimpleNamespace

import onnx
import pytest

from conftest import binary

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "bench" / "gauges" / "instructions.py"
HAS_VALGRIND = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
BUILD = os.environ.get("SATURATE_BUILD", "")


def instructions(folder, *more, path=None):
    words = [sys.executable, SCRIPT, "--old", binary(), "--new", binary(), folder / "small.onnx", *more]
    env = dict(os.environ, PATH=path) if path is not None else None
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=env)


@pytest.fixture
def folder(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "small.onnx")
    return tmp_path


@HAS_VALGRIND
def test_a_build_equals_itself(folder):
    done = instructions(folder, "--profiles", folder / "profiles", "--at-most", "1.05")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 files: " in done.stdout and "ratio 1.0" in done.stdout, done.stdout
    assert sorted(p.name for p in (folder / "profiles").iterdir()) == ["small.new", "small.old"]
    assert instructions(folder, "--at-most", "0.5").returncode == 1


def test_without_valgrind_it_is_skipped(folder):
    done = instructions(folder, path=str(folder))
    assert done.returncode == 77 and "skipped: valgrind is not installed" in done.stdout, done.stdout + done.stderr


def ratchet(*more):
    done = subprocess.run(list(map(str, [sys.executable, SCRIPT, "--ratchet", *more])), capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    return done


@HAS_VALGRIND
@pytest.mark.skipif(not BUILD, reason="SATURATE_BUILD names no build")
def test_no_workload_takes_more_instructions():
    done = ratchet("--build", BUILD, "--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr


@HAS_VALGRIND
@pytest.mark.skipif(not BUILD, reason="SATURATE_BUILD names no build")
def test_a_count_that_rose_is_an_error_and_an_unknown_compiler_is_told(tmp_path):
    spec = importlib.util.spec_from_file_location("instructions", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(SCRIPT.parent))
    spec.loader.exec_module(module)
    kind = module.built_with(pathlib.Path(BUILD))
    if kind is None:
        pytest.skip("no build for release")
    module.WORKLOADS = {"list rules": module.WORKLOADS["list rules"]}
    args = SimpleNamespace(ratchet=tmp_path / "held.json", build=pathlib.Path(BUILD), jobs=1, write=False, why=None)
    assert module.ratchet(args) == 77
    args.write = True
    assert module.ratchet(args) == 0
    args.write, held = False, json.loads(args.ratchet.read_text())
    now = held[kind]["list rules"]["at_most"]
    for at_most, status in ((now * 0.99, 0), (now * 0.9, 1)):
        args.ratchet.write_text(json.dumps({kind: {"list rules": {"at_most": at_most}}}))
        assert module.ratchet(args) == status
    args.write, args.why = True, "a reason"
    assert module.ratchet(args) == 0 and json.loads(args.ratchet.read_text())[kind]["list rules"]["why"] == "a reason"
