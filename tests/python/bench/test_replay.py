"""bench/gauges/replay.py: a build against itself shows no difference, one that behaves otherwise shows what it changed."""
import json
import pathlib
import shutil
import subprocess
import sys

import onnx
import pytest

from conftest import DATA, binary

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "bench" / "gauges" / "replay.py"


@pytest.fixture
def folder(tmp_path, small_model):
    (tmp_path / "models" / "deep").mkdir(parents=True)
    shutil.copy(DATA / "bart_encoder.onnx", tmp_path / "models")
    onnx.save(small_model, tmp_path / "models" / "deep" / "small.onnx")
    return tmp_path


def wrapper(folder, *lines):
    """A build that behaves otherwise: a script around ours."""
    path = folder / "other_build"
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    path.chmod(0o755)
    return path


def replay(folder, new, *more):
    words = [sys.executable, SCRIPT, "--old", binary(), "--new", new, folder / "models", "--json", folder / "rows.json", *more]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    rows = json.loads((folder / "rows.json").read_text()) if (folder / "rows.json").exists() else []
    return done, {(r["file"].removeprefix(f"{folder}/models/"), r["options"]): r for r in rows}


def test_a_build_equals_itself(folder):
    done, rows = replay(folder, binary(), "--rounds", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no difference in 4 runs" in done.stdout and "processor time, new / old over 2 files: median" in done.stdout
    assert {name for name, _ in rows} == {"bart_encoder.onnx", "deep/small.onnx"}
    assert {options for _, options in rows} == {"--target ort-cpu@1.20 --no-verify", "--target ort-cpu@1.20 --cost nodes --no-verify"}
    for row in rows.values():
        assert not row["differences"] and row["old"]["seconds"] > 0 and row["old"]["digest"] == row["new"]["digest"] != {}


def test_another_result_is_told(folder):
    done, rows = replay(folder, wrapper(folder, f'exec {binary()} "$@" --rules none'), "--options=--cost nodes", "--verify")
    assert done.returncode == 1, done.stdout + done.stderr
    row = rows["bart_encoder.onnx", "--cost nodes"]
    assert row["old"]["verified"] == "equal" and row["old"]["cost after"] < row["new"]["cost after"]
    assert {"bytes", "e-graph", "cost after", "rules"} <= row["differences"].keys() and "MatMul 6 -> " in row["differences"]["bytes"]
    assert "bart_encoder.onnx" in done.stdout and "MatMul 6 -> " in done.stdout


def test_other_names_in_the_result_are_a_difference_of_bytes(folder):
    rename = "import onnx, sys; m = onnx.load(sys.argv[1]); m.graph.node[0].name = 'other'; onnx.save(m, sys.argv[1])"
    script = wrapper(folder, f'{binary()} "$@" || exit $?', 'while [ "$1" != -o ]; do shift; done', f'exec {sys.executable} -c "{rename}" "$2"')
    done, rows = replay(folder, script, "--options=")
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(r["differences"] == {"bytes": "the same operators, other names of nodes"} for r in rows.values()), rows


def test_weights_outside_of_the_model_are_compared(folder):
    script = wrapper(folder, f'{binary()} "$@" || exit $?', 'while [ "$1" != -o ]; do shift; done', 'echo more >> "$2.data"')
    done, rows = replay(folder, script, "--options=--external-data --external-data-threshold 1")
    assert done.returncode == 1, done.stdout + done.stderr
    for row in rows.values():
        assert row["old"]["digest"].keys() == {"out.onnx", "out.onnx.data"} and row["differences"] == {"bytes": "bytes of weights outside of the model"}


def test_new_failures_are_told(folder):
    done, rows = replay(folder, wrapper(folder, "echo saturate: error: broken >&2", "kill -9 $$"), "--options=", "--jobs", "2")
    assert done.returncode == 1 and "new failures" in done.stdout
    assert all("exit status 0 -> ended by signal 9 (saturate: error: broken)" == r["differences"]["status"] for r in rows.values()), rows


def test_a_build_that_does_not_answer_is_ended(folder):
    done, rows = replay(folder, wrapper(folder, "exec sleep 60"), "--options=", "--every", "2", "--time-limit", "3")
    assert done.returncode == 1 and [r["new"]["status"] for r in rows.values()] == ["no answer"], done.stdout + done.stderr


def test_what_both_refuse_alike_is_no_difference(folder):
    (folder / "models" / "broken.onnx").write_bytes(b"no model")
    done, rows = replay(folder, binary(), "--options=")
    assert done.returncode == 0 and "fail in both, alike" in done.stdout
    assert rows["broken.onnx", "--no-verify"]["old"]["status"] != 0 and "broken.onnx" in rows["broken.onnx", "--no-verify"]["old"]["message"]


def test_lists_of_files_and_refusals(folder):
    (folder / "list.txt").write_text(f"{folder}/models/deep\n{folder}/models/bart_encoder.onnx\n")
    done, rows = replay(folder, binary(), f"@{folder}/list.txt", "--options=")
    assert done.returncode == 0 and len(rows) == 2, done.stdout + done.stderr  # none twice
    assert replay(folder, folder / "none")[0].returncode == 2
    assert "no such file" in replay(folder, binary(), folder / "none.onnx")[0].stderr
