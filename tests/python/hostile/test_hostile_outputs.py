"""Where results go: data files beside models, links, devices, pipes, long names; nothing of others is lost, whenever it ends."""
import json
import os
import shutil
import stat
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper

from conftest import SANITIZED, binary, make_model, run_ok, value
from test_hostile import F32, location, refused, same, with_data, write


# ---- 1: data files ---------------------------------------------------------------------------------------------------------------------

def test_a_second_run_keeps_the_data_of_its_input(tmp_path):
    w = with_data(tmp_path, "m.onnx", 1)
    run_ok("m.onnx", cwd=tmp_path)
    os.rename(tmp_path / "m.opt.onnx", tmp_path / "m.onnx")  # refers to m.opt.onnx.data
    before = (tmp_path / "m.opt.onnx.data").read_bytes()
    done = run_ok("m.onnx", "--rules", "none", cwd=tmp_path)
    assert (tmp_path / "m.opt.onnx.data").read_bytes() == before
    assert same(tmp_path / "m.onnx", w) and same(tmp_path / "m.opt.onnx", w)
    assert location(tmp_path / "m.opt.onnx") == "m.opt.onnx.2.data" and "m.opt.onnx.2.data" in done.stdout


def test_data_of_another_model_stays(tmp_path):
    a = with_data(tmp_path, "a.onnx", 1, location="out.onnx.data")
    b = with_data(tmp_path, "b.onnx", 2)
    run_ok("b.onnx", "-o", "out.onnx", cwd=tmp_path)
    assert same(tmp_path / "a.onnx", a) and same(tmp_path / "b.onnx", b) and same(tmp_path / "out.onnx", b)


def test_own_data_is_replaced_under_its_name(tmp_path):
    with_data(tmp_path, "a.onnx", 1)
    b = with_data(tmp_path, "b.onnx", 2)
    for name in ("a.onnx", "b.onnx"):
        run_ok(name, "-o", "out.onnx", cwd=tmp_path)
    assert same(tmp_path / "out.onnx", b)
    assert sorted(p.name for p in tmp_path.glob("out*")) == ["out.onnx", "out.onnx.data"]
    assert os.stat(tmp_path / "out.onnx.data").st_nlink == 1


def test_in_place(tmp_path):
    w = with_data(tmp_path, "m.onnx", 1)
    for _ in range(3):
        run_ok("m.onnx", "-o", "m.onnx", cwd=tmp_path)
        assert same(tmp_path / "m.onnx", w)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]


@pytest.mark.skipif(not shutil.which("strace") or SANITIZED, reason="faults are injected by strace, which sanitizers do not bear")
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("fault", ["error=EIO", "signal=SIGKILL"])
@pytest.mark.parametrize("call", ["rename", "linkat", "unlink", "fsync", "ftruncate"])
def test_cut_off_anywhere(tmp_path, in_place, fault, call):
    old, new = with_data(tmp_path, "old.onnx", 1), with_data(tmp_path, "m.onnx", 2)
    out = "m.onnx" if in_place else "out.onnx"
    if not in_place:
        run_ok("old.onnx", "-o", out, "--rules", "none", "--no-verify", cwd=tmp_path)
    allowed = [new] if in_place else [old, new]
    for number in range(1, 6):
        words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={number}"]
        subprocess.run([*words, binary(), "m.onnx", "-o", out, "--rules", "none", "--no-verify", "-q"], cwd=tmp_path, capture_output=True)
        assert any(same(tmp_path / out, w) for w in allowed), (call, fault, number)
        assert same(tmp_path / "m.onnx", new)
        left = list(tmp_path.glob(".*"))  # a rename wants a name, which a process that is killed right before it leaves
        assert not left or (call, fault) == ("rename", "signal=SIGKILL"), left
        for file in left:
            file.unlink()


def test_hard_links_are_still_refused(tmp_path):
    with_data(tmp_path, "m.onnx", 1)
    os.link(tmp_path / "m.onnx.data", tmp_path / "elsewhere.bin")
    refused(tmp_path, ["m.onnx"], place="hard links")


# ---- 4, 17, 19: where outputs go --------------------------------------------------------------------------------------------------

def test_links_are_followed(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    (tmp_path / "there").mkdir()
    (tmp_path / "out.onnx").symlink_to("there/real.onnx")
    for _ in range(2):  # not there yet, and there
        run_ok("m.onnx", "-o", "out.onnx", "--report", "r.json", cwd=tmp_path)
        assert (tmp_path / "out.onnx").is_symlink() and onnx.load(tmp_path / "there" / "real.onnx").graph.node
    (tmp_path / "loop").symlink_to("loop")
    refused(tmp_path, ["m.onnx", "-o", "loop"], place="loop")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_modes_are_kept(tmp_path, small_model, mode):
    with_data(tmp_path, "m.onnx", 1)
    write(tmp_path, small_model, "other.onnx")
    words = ["m.onnx", "-o", "out.onnx", "--report", "r.json"]
    run_ok(*words, cwd=tmp_path)
    for name in ("out.onnx", "out.onnx.data", "r.json"):
        os.chmod(tmp_path / name, mode)
    run_ok(*words, cwd=tmp_path)
    assert [stat.S_IMODE(os.stat(tmp_path / n).st_mode) for n in ("out.onnx", "out.onnx.data", "r.json")] == [mode] * 3


def test_devices_and_pipes(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/stdout")
    for out in ("/dev/stdout", "/dev/null", "/dev/new.onnx", "/proc/self/fd/1", "/proc/new.onnx", "pipe", "link"):
        before = os.lstat("/dev/stdout").st_mode
        with open(tmp_path / "captured", "w") as captured:  # a regular file behind /dev/stdout
            done = subprocess.run([binary(), "m.onnx", "-o", out], cwd=tmp_path, stdout=captured, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1 and done.stderr.startswith(f"saturate: error: {out}: cannot write: ") and done.stderr.count("\n") == 1, done.stderr
        assert os.lstat("/dev/stdout").st_mode == before and (tmp_path / "captured").read_text() == ""


def test_reports_may_go_into_devices(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    done = run_ok("m.onnx", "-q", "--report", "/dev/stdout", cwd=tmp_path)
    assert json.loads(done.stdout)["input"] == "m.onnx" and os.path.islink("/dev/stdout")


@pytest.mark.parametrize("words", [["m.onnx", "--report", "-"], ["extract", "m.onnx", "-o", "-"], ["run", "m.onnx", "--inputs", "-"]])
def test_no_pipes(tmp_path, small_model, words):
    write(tmp_path, small_model, "m.onnx")
    refused(tmp_path, words, code=2, place="no model that goes through a pipe")


@pytest.mark.parametrize("words", [["--report", "m.onnx"], ["--report", "./m.onnx"], ["--report", "link"], ["--report", "out.onnx"], ["--report", "m.onnx.data"],
                                   ["--report", "r.json", "--dump-egraph", "./r.json"], ["--dump-egraph", "m.onnx"], ["--report", "x.npz", "--inputs", "x.npz"]])
def test_outputs_are_no_inputs(tmp_path, words):
    with_data(tmp_path, "m.onnx", 1)
    np.savez(tmp_path / "x.npz", x=np.ones((1, 64), np.float32))
    (tmp_path / "link").symlink_to("m.onnx")
    refused(tmp_path, ["m.onnx", "-o", "out.onnx", *words], place="would overwrite")


def test_outputs_of_other_verbs(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((1, 4), np.float32))
    refused(tmp_path, ["run", "m.onnx", "--inputs", "x.npz", "-o", "x.npz"], place="would overwrite")
    refused(tmp_path, ["bench", "m.onnx", "--inputs", "x.npz", "--profile", "m.onnx"], place="would overwrite")
    refused(tmp_path, ["extract", "m.onnx", "--dump-egraph", "m.onnx"], place="would overwrite")
    refused(tmp_path, ["cost", "gather", "m.onnx", "-o", "m.onnx"], place="would overwrite")


def test_a_second_model_is_no_output(tmp_path, small_model):
    write(tmp_path, small_model, "a.onnx")
    write(tmp_path, make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, [2])], [value("y", F32, [2])]), "b.onnx")
    refused(tmp_path, ["a.onnx", "b.onnx"], place="b.onnx: is there, and saturate did not write it; -o b.onnx replaces it")
    run_ok("a.onnx", "-o", "b.onnx", cwd=tmp_path)
    run_ok("a.onnx", "new.onnx", cwd=tmp_path)
    try:
        os.setxattr(tmp_path / "a.onnx", "user.saturate.test", b"1")
    except OSError:
        return  # nobody can tell there
    run_ok("a.onnx", "new.onnx", cwd=tmp_path)  # its own
    write(tmp_path, small_model, "new.onnx")  # written to by another
    refused(tmp_path, ["a.onnx", "new.onnx"], place="new.onnx: is there")


@pytest.mark.parametrize("length", [243, 250, 255])
def test_long_names(tmp_path, length):
    w = with_data(tmp_path, "m.onnx", 1)
    name = "n" * (length - 5) + ".onnx"
    for _ in range(2):
        run_ok("m.onnx", "-o", name, "--no-verify", cwd=tmp_path)
        assert same(tmp_path / name, w)


def test_too_long_names_fail_at_once(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    refused(tmp_path, ["m.onnx", "-o", "n" * 251 + ".onnx"], place="cannot write: the name has 256 bytes")
