"""`optimize --save-repro DIR`: what DIR holds repeats the run."""
import json
import os
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import assert_refused, binary, listing, make_model, run, start, tensor, value

WRONG = """opset "" 20

rule doubled (X) => (Y)
  { Y = Relu (X) }
  =>
  { Y = Add (X, X) }
  example X = float[2,3]
"""


def repeat(folder, **environment):
    """run.sh of a saved run, from another folder."""
    return subprocess.run([str(folder / "run.sh")], cwd="/", env={**os.environ, "SATURATE": binary(), **environment}, capture_output=True,
                          text=True, timeout=300)


def told(folder):
    return json.loads((folder / "repro.json").read_text())


def without_place(text):
    """Of an error: the sentence behind the model's path."""
    return text.partition(".onnx: ")[2]


@pytest.fixture
def wrong(tmp_path, small_model):
    """A folder with a model and a rule that makes its result differ."""
    onnx.save(small_model, tmp_path / "m.onnx")
    (tmp_path / "w.rules").write_text(WRONG)
    (tmp_path / "costs.json").write_text(json.dumps({"costs": {"Add": 1}, "default": 10}))
    return tmp_path


def test_a_run_that_goes_well(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "m.onnx")
    done = run("m.onnx", "--save-repro", "repro", "--seed", "7", "-v", "--dim", "n=3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    repro = tmp_path / "repro"
    assert (repro / "model" / "m.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
    what = told(repro)
    assert what["exit_status"] == 0 and what["message"] == "" and what["seed"] == 7
    assert sorted(what["options"]) == ["--dim=n=3", "--seed=7", "--target=ort-cpu@1.20", "--verbose"]
    assert what["versions"]["saturate"] and what["model"]["opsets"] == {"ai.onnx": 18}
    again = repeat(repro)
    assert again.returncode == 0, again.stderr
    assert (repro / "out" / "m.opt.onnx").read_bytes() == (tmp_path / "m.opt.onnx").read_bytes()
    assert str(tmp_path) not in (repro / "run.sh").read_text() + (repro / "repro.json").read_text()


def test_a_run_that_fails(wrong):
    words = ["m.onnx", "out.onnx", "--rules", "none", "--rules=w.rules", "--cost", "costs.json", "--strict-verify", "--save-repro", "repro"]
    done = run(*words, cwd=wrong)
    assert done.returncode == 3 and not (wrong / "out.onnx").exists()
    repro = wrong / "repro"
    assert told(repro)["exit_status"] == 3 and told(repro)["message"] in done.stderr
    moved = wrong / "elsewhere it's"
    repro.rename(moved)
    for name in ("m.onnx", "w.rules", "costs.json"):
        (wrong / name).unlink()
    again = repeat(moved)
    assert again.returncode == 3 and without_place(again.stderr) == without_place(done.stderr)


def test_inputs_external_data_and_names_that_a_shell_reads(wrong):
    model = onnx.load(wrong / "m.onnx")
    for name in ("first", "second"):
        (wrong / name).mkdir()
        np.savez(wrong / name / "x.npz", x=np.full((2, 4), -1.0 if name == "first" else 1.0, dtype=np.float32))
    hostile = "it's $(touch oops) `x`;.onnx"
    (wrong / "data").mkdir()
    onnx.save_model(model, wrong / hostile, save_as_external_data=True, location="w.bin", size_threshold=0)
    words = [hostile, "-o", "out.onnx", "--rules", "none", "--rules", "w.rules", "--cost", "costs.json", "--strict-verify",
             "--inputs", "first/x.npz", "--inputs=second/x.npz", "--save-repro", "re pro"]
    done = run(*words, cwd=wrong)
    assert done.returncode == 3, done.stderr
    repro = wrong / "re pro"
    assert (repro / "model" / "w.bin").read_bytes() == (wrong / "w.bin").read_bytes()
    assert [(repro / "inputs" / n / "x.npz").exists() for n in "12"] == [True, True]
    again = repeat(repro)
    assert again.returncode == 3 and without_place(again.stderr) == without_place(done.stderr)
    assert not list(repro.rglob("oops")) and not (wrong / "oops").exists()


@pytest.mark.parametrize("release", ["", "@1.23"])
def test_a_target_with_costs_beside_it(wrong, release):
    (wrong / "t").mkdir()
    target = json.loads(run("targets", "show", "ort-cpu").stdout)
    (wrong / "t" / "mine.json").write_text(json.dumps({**target, "cost_model": "c.json"}))
    (wrong / "costs.json").rename(wrong / "t" / "c.json")
    words = ["m.onnx", "-o", "out.onnx", "--rules", "none", "--rules", "w.rules", "--target", f"t/mine.json{release}", "--strict-verify"]
    done = run(*words, "--save-repro", "repro", cwd=wrong)
    (wrong / "t").rename(wrong / "away")
    again = repeat(wrong / "repro")
    assert done.returncode == again.returncode == 3, (done.stderr, again.stderr)


def test_bad_input_leaves_nothing(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "m.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\x00\x01")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    before = listing(tmp_path)
    for words, place in [(["bad.onnx", "--save-repro", "repro"], "bad.onnx"), (["m.onnx", "--save-repro", "full"], "full"),
                         (["m.onnx", "--save-repro", "m.onnx"], "m.onnx"), (["m.onnx", "--save-repro", "no/such"], "no/such"),
                         (["m.onnx", "--save-repro", "repro", "--inputs", "other.npz"], "other.npz"),
                         (["m.onnx", "--save-repro", "repro", "--rules", "none.rules"], "none.rules")]:
        assert_refused(run(*words, cwd=tmp_path), 1, tmp_path, before, place)
    assert not (tmp_path / "repro").exists() and not (tmp_path / "no").exists()
    assert_refused(run("m.onnx", "--save-repro", "", cwd=tmp_path), 2, tmp_path, before)


def test_an_empty_folder_will_do(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "m.onnx")
    (tmp_path / "repro").mkdir()
    assert run("m.onnx", "--save-repro", "repro", cwd=tmp_path).returncode == 0
    assert repeat(tmp_path / "repro").returncode == 0


def test_a_run_that_is_killed_has_left_its_repro(tmp_path):
    """It is written before the run: exit status and message stay null."""
    rng = np.random.default_rng(1)
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], body=helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c_out"]), helper.make_node("Sin", ["v"], ["w"])], "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, ["k"])],
        [value("c_out", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, ["k"])]))]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["k"])], [value("y", TensorProto.FLOAT, ["k"])],
                       [tensor("n", np.int64(10**12)), tensor("unused", rng.normal(size=3))])
    onnx.save(model, tmp_path / "m.onnx")
    running = start("m.onnx", "--save-repro", "repro", cwd=tmp_path)
    for _ in range(1000):
        if (tmp_path / "repro" / "run.sh").exists():
            break
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.02)
    running.kill()
    running.wait()
    assert told(tmp_path / "repro")["exit_status"] is None and told(tmp_path / "repro")["message"] is None
    assert sorted(p.name for p in (tmp_path / "repro").iterdir()) == ["model", "repro.json", "run.sh"]


def test_holes_of_a_data_file_stay_holes(tmp_path, small_model):
    onnx.save_model(small_model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    with open(tmp_path / "w.bin", "r+b") as data:
        data.truncate(1 << 34)
    done = run("m.onnx", "--save-repro", "repro", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    copied = os.stat(tmp_path / "repro" / "model" / "w.bin")
    assert copied.st_size == 1 << 34 and copied.st_blocks * 512 < 1 << 20
