"""`saturate A.onnx B.onnx --output-dir DIR --jobs N`: all are done, a line each, the same bytes as one by one."""
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import time

import numpy as np
import onnx
import pytest
from conftest import DATA, binary, listing, make_model, released, run, run_ok, start, tensor, value
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def chain(n, seed):
    rng = np.random.default_rng(seed)
    nodes = [helper.make_node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(n)]
    nodes.append(helper.make_node("MatMul", [f"v{n}", "w"], ["y"]))
    return make_model(nodes, [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])], [tensor("w", rng.normal(size=(4, 4)).astype(np.float32))])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    for n in range(5):
        onnx.save(chain(n + 2, n), tmp_path / "in" / f"m{n}.onnx")
    (tmp_path / "in" / "bart.onnx").write_bytes((DATA / "bart_encoder.onnx").read_bytes())
    return tmp_path


def names(folder):
    return sorted(f"in/{path.name}" for path in (folder / "in").iterdir())


def test_same_bytes_as_one_by_one(folder):
    (folder / "alone").mkdir()
    for name in names(folder):
        run_ok(name, "-o", f"alone/{name[3:]}", cwd=folder)
    for jobs in ("1", "3", "0"):
        done = run_ok(*names(folder), "--output-dir", f"by{jobs}", "--jobs", jobs, cwd=folder)
        assert listing(folder / f"by{jobs}") == listing(folder / "alone")
        lines = done.stdout.splitlines()
        assert len(lines) == 7 and lines[-1] == f"6 of 6 models written to by{jobs}" and done.stderr == ""
        assert sorted(line.split(" -> ")[0] for line in lines[:-1]) == names(folder)
        assert all(f" -> by{jobs}/" in line and " operators, verified, " in line for line in lines[:-1]), lines
        if jobs == "1":
            assert [line.split(" -> ")[0] for line in lines[:-1]] == names(folder)


def test_one_that_fails_does_not_keep_the_others(folder):
    (folder / "in" / "a_bad.onnx").write_bytes(b"no model")
    (folder / "in" / "z_text.onnxtxt").write_text("nonsense")
    done = run(*names(folder), "in/none.onnx", "--output-dir", "out", "--jobs", "2", cwd=folder)
    assert done.returncode == 1 and sorted(path.name for path in (folder / "out").iterdir()) == ["bart.onnx", *(f"m{n}.onnx" for n in range(5))]
    errors = done.stderr.splitlines()
    assert len(errors) == 3 and all(line.startswith("saturate: error: in/") for line in errors)
    assert done.stdout.splitlines()[-1] == "6 of 9 models written to out; 3 failed, the first is in/a_bad.onnx"


def test_the_worst_status(folder):
    """A budget (4) is worse than a file that can't be read (1)."""
    (folder / "in" / "a_bad.onnx").write_bytes(b"no model")
    words = ["--output-dir", "out", "--strict-budget", "--iterations", "1"]
    assert run("in/a_bad.onnx", "in/m3.onnx", *words, cwd=folder).returncode == 4
    assert run("in/m3.onnx", "in/a_bad.onnx", *words, cwd=folder).returncode == 4


def test_reports(folder):
    run_ok("in/m0.onnx", "in/bart.onnx", "--output-dir", "out", "--report-dir", "told", "--jobs", "2", cwd=folder)
    assert sorted(path.name for path in (folder / "told").iterdir()) == ["bart.onnx.json", "m0.onnx.json"]
    told = json.loads((folder / "told" / "bart.onnx.json").read_text())
    assert told["input"] == "in/bart.onnx" and told["before"]["nodes"] == 125 and told["verify"]["status"] == "equal"


def test_json_comes_in_order(folder):
    done = run_ok("in/bart.onnx", "in/m0.onnx", "in/m1.onnx", "--output-dir", "out", "--json", "--jobs", "3", cwd=folder)
    text, found, decoder = done.stdout.strip(), [], json.JSONDecoder()
    while text:
        one, end = decoder.raw_decode(text)
        found.append(one["input"])
        text = text[end:].lstrip()
    assert found == ["in/bart.onnx", "in/m0.onnx", "in/m1.onnx"]


def test_more_and_less_is_said(folder):
    words = ["in/bart.onnx", "in/m0.onnx", "--output-dir", "out"]
    assert run_ok(*words, "-q", cwd=folder).stdout == ""
    screens = run_ok(*words, "-v", "--jobs", "2", cwd=folder).stdout
    assert screens.count("predicted") >= 2 and screens.splitlines()[-1] == "2 of 2 models written to out"


@pytest.mark.parametrize("words, said", [
    (["in/m0.onnx", "in/../in/m0.onnx", "--output-dir", "out", "--jobs", "2"], "same name"),
    (["in/m0.onnx", "in/m1.onnx", "--output-dir", "in", "--jobs", "2"], "would be replaced"),
    (["in/m0.onnx", "--jobs", "2"], "--jobs: --output-dir DIR takes many models"),
    (["in/m0.onnx", "--report-dir", "told"], "--report-dir: --output-dir DIR takes many models"),
    (["in/m0.onnx", "in/m1.onnx", "--output-dir", "out", "--report", "r.json"], "--report-dir DIR of each"),
    (["in/m0.onnx", "in/m1.onnx", "--output-dir", "out", "--jobs", "many"], "--jobs"),
])  # fmt: skip
def test_refused_before_any_work(folder, words, said):
    before = listing(folder)
    done = run(*words, cwd=folder)
    assert done.returncode == 2 and said in done.stderr and done.stdout == "", done.stderr
    assert listing(folder) == before and not (folder / "out").exists() and not (folder / "told").exists()


def test_a_model_whose_process_dies(folder):
    """As one does that takes more memory than there is; the others are written."""
    for n in range(6):
        (folder / "in" / f"b{n}.onnx").write_bytes((DATA / "bart_encoder.onnx").read_bytes())
    process = start(*names(folder), "--output-dir", "out", cwd=folder)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    killed, deadline = "", time.monotonic() + 60
    while time.monotonic() < deadline and not killed:
        killed = children.read_text().split()[0] if children.read_text().split() else ""
    os.kill(int(killed), signal.SIGKILL)
    told = process.communicate(timeout=120)[1]
    assert process.returncode == 1 and told.count("\n") == 1 and told.startswith("saturate: error: in/") and "its process was ended by signal 9" in told, told
    assert len(list((folder / "out").iterdir())) == len(names(folder)) - 1


def test_interrupted(folder):
    """What runs is ended, nothing half written stays, and no other is begun."""
    for n in range(40):
        (folder / "in" / f"b{n:02}.onnx").write_bytes((DATA / "bart_encoder.onnx").read_bytes())
    process = start(*names(folder), "--output-dir", "out", "--jobs", "2", cwd=folder)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((folder / "out").glob("*.onnx") if (folder / "out").exists() else []):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    made = {path.name for path in (folder / "out").iterdir()}
    assert made and len(made) < 46 and all(name.endswith(".onnx") for name in made)
    for name in made:
        onnx.checker.check_model(onnx.load(folder / "out" / name))


def test_progress_on_a_terminal(folder):
    for n in range(12):
        (folder / "in" / f"b{n:02}.onnx").write_bytes((DATA / "bart_encoder.onnx").read_bytes())
    main, terminal = pty.openpty()
    done = subprocess.Popen([binary(), *released([*names(folder), "--output-dir", "out"])], cwd=folder, stdout=subprocess.PIPE, stderr=terminal, text=True)
    lines = done.communicate(timeout=300)[0].splitlines()
    told = b""
    while select.select([main], [], [], 0.5)[0]:  # what is not read may be lost when the terminal is closed
        told += os.read(main, 4096)
    os.close(terminal)
    os.close(main)
    assert done.returncode == 0 and len(lines) == 19 and b" of 18 models, " in told and told.endswith(b"\r\x1b[K"), told
