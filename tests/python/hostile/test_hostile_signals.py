"""What ends or cuts a run from outside: signals, limits on files, holes, and files that are cut while they are read."""
import os
import signal
import subprocess
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import binary, listing, make_model, run_ok, start, value
from test_hostile import F32, I64, weight, with_data, write


SLOW = """<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) {
    n = Constant <value_int = 4000000> ()
    y = Loop (n, , x) <body = b (int64 i, bool c, float v) => (bool d, float w) { d = Identity (c)  w = Cos (v) }> }"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_nothing(tmp_path, number):
    onnx.save(onnx.parser.parse_model(SLOW), tmp_path / "m.onnx")
    before = listing(tmp_path)
    process = start("m.onnx", "-o", "out.onnx", "-q", cwd=tmp_path)
    time.sleep(0.7)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and len(errors.splitlines()) == 1, (process.returncode, errors)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signals_while_saving(tmp_path, number):
    """60 MB are copied; wherever the signal falls, there is the old result or the new one, and nothing else."""
    with_data(tmp_path, "m.onnx", 1, rows=4000)
    for delay in (0.05, 0.1, 0.2):
        process = start("m.onnx", "-o", "out.onnx", "-q", "--no-verify", cwd=tmp_path)
        time.sleep(delay)
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode in (0, 130, -number), process.returncode
        left = sorted(p.name for p in tmp_path.iterdir() if p.name not in ("m.onnx", "m.onnx.data"))
        assert left in ([], ["out.onnx", "out.onnx.data"]) or (number == signal.SIGKILL and not [n for n in left if n.startswith(".")]), left


def test_a_limit_on_the_size_of_files(tmp_path):
    with_data(tmp_path, "m.onnx", 1, rows=2000)
    before = listing(tmp_path)
    done = subprocess.run(f"ulimit -f 1000; exec {binary()} m.onnx -o out.onnx --no-verify", shell=True, executable="/bin/bash", cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "File too large; the shell bounds the size of files; raise that by ulimit -f" in done.stderr and len(done.stderr.splitlines()) == 1, (done.returncode, done.stderr)
    assert listing(tmp_path) == before


def sparse_data(folder, elements):
    weight = TensorProto(name="w", data_type=F32, dims=[elements], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    with open(folder / "w.bin", "wb") as file:
        file.truncate(elements * 4)
    model = make_model([helper.make_node("Gather", ["w", "i"], ["y"])], [value("i", I64, ["n"])], [value("y", F32, ["n"])], [weight])
    return write(folder, model, "m.onnx")


def test_holes_stay_holes(tmp_path):
    try:
        sparse_data(tmp_path, 1 << 37)
    except OSError:
        pytest.skip("no files of this size here")
    run_ok("m.onnx", "-o", "out.onnx", "--no-verify", cwd=tmp_path, timeout=60)
    info = os.stat(tmp_path / "out.onnx.data")
    assert info.st_size == 1 << 39 and info.st_blocks * 512 < 1 << 20


def test_a_file_that_is_cut_while_it_is_read(tmp_path):
    with_data(tmp_path, "m.onnx", 1, rows=512)
    os.mkfifo(tmp_path / "x.npz")
    process = subprocess.Popen([binary(), "run", "m.onnx", "--inputs", "x.npz", "-o", "y.npz"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with open(tmp_path / "x.npz", "wb") as pipe:  # opened for reading when the model is loaded
        os.truncate(tmp_path / "m.onnx.data", 0)
        np.savez(tmp_path / "whole.npz", x=np.ones((1, 512), np.float32))
        pipe.write((tmp_path / "whole.npz").read_bytes())
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and errors.startswith("saturate: error: m.onnx.data: has become shorter"), (process.returncode, errors)
    assert errors.count("\n") == 1 and not (tmp_path / "y.npz").exists()
