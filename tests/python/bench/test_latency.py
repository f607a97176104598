"""bench/speed/latency.py --against: two builds in turns, new over old."""
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest

from conftest import DATA, binary

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "bench" / "speed" / "latency.py"
# A build whose runs take twice as long, as told by itself.
SLOW = """
import json, subprocess, sys
told = json.loads(subprocess.run([{binary!r}, *sys.argv[1:]], check=True, capture_output=True, text=True).stdout)
model = told["models"][0]
model["all_seconds"] = [2 * s for s in model["all_seconds"]]
model["cpu_seconds"]["median"] *= 2
print(json.dumps(told))
"""


@pytest.fixture
def folder(tmp_path, small_model):
    (tmp_path / "models").mkdir()
    shutil.copy(DATA / "bart_encoder.onnx", tmp_path / "models")
    shutil.copy(DATA / "bart_encoder.inputs.npz", tmp_path / "models")
    onnx.save(small_model, tmp_path / "models" / "small.onnx")  # without inputs
    return tmp_path


def slow(folder):
    path = folder / "slow_build"
    path.write_text(f"#!{sys.executable}" + SLOW.format(binary=binary()))
    path.chmod(0o755)
    return path


def latency(folder, new, old, *words):
    words = [sys.executable, SCRIPT, *words, "--binary", new, "--against", old, "--rounds", "7", "--threads", "1", "--json", folder / "rows.json"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    return done, json.loads((folder / "rows.json").read_text()) if done.returncode != 2 else []


def test_a_build_against_itself(folder):
    done, rows = latency(folder, binary(), binary(), folder / "models", "--dim", "n=1000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [r["model"] for r in rows] == ["bart_encoder.onnx", "small.onnx"] and "geometric mean of 2, 7 rounds" in done.stdout
    for row in rows:
        assert len(row["ratios"]) == 7 and row["low"] <= row["ratio"] <= row["high"] and 0.5 < row["ratio"] < 2


def test_a_slower_build_is_told(folder):
    done, (row,) = latency(folder, slow(folder), binary(), folder / "models", "bart", "--clock", "cpu")
    assert done.returncode == 0 and 1.2 < row["ratio"] and "slower: bart_encoder.onnx; faster: none" in done.stdout, done.stdout + done.stderr


def test_a_model_that_does_not_run_is_told(folder):
    (folder / "broken.onnx").write_bytes(b"no model")
    done, rows = latency(folder, binary(), binary(), folder / "models" / "small.onnx", folder / "broken.onnx")
    assert done.returncode == 1 and len(rows) == 1 and "broken.onnx" in done.stdout


def test_inputs_that_the_exporter_dropped_are_left_out(folder):
    np.savez(folder / "models" / "small.inputs.npz", x=np.ones((50, 4), np.float32), unread=np.ones(3, np.float32))
    done, rows = latency(folder, binary(), binary(), folder / "models" / "small.onnx")
    assert done.returncode == 0 and len(rows) == 1, done.stdout + done.stderr


def test_refusals(folder):
    assert "no such file" in latency(folder, binary(), binary(), folder / "none")[0].stderr
    assert "no model" in latency(folder, binary(), binary(), folder / "models", "whisper")[0].stderr
    assert "--markdown" in latency(folder, binary(), binary(), folder / "models", "--markdown", "x.md")[0].stderr
