"""Arrays given beside a model that are made to do harm: they are looked at before they are unpacked."""
import resource
import struct
import subprocess
import zipfile
import zlib

import numpy as np
import pytest
from onnx import TensorProto, helper

from conftest import SANITIZED, assert_refused, binary, listing, make_model, value
from test_hostile import F32, refused, write


def npy(descr, shape, data=b""):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def entries_of_one_member(path, data, times):
    """A .npz whose directory names one member many times."""
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = raw.compress(data) + raw.flush()
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0x21, zlib.crc32(data), len(packed), len(data), 5, 0) + b"x.npy" + packed
    central = b"".join(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 8, 0, 0x21, zlib.crc32(data), len(packed), len(data), 7, 0, 0, 0, 0, 0, 0) + f"{i:03}.npy".encode()
                       for i in range(times))
    path.write_bytes(local + central + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, times, times, len(central), len(local), 0))


def test_bombs_in_inputs(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    entries_of_one_member(tmp_path / "bomb.npz", npy("<f4", (5_000_000,), bytes(20_000_000)), 200)
    refused(tmp_path, ["run", "m.onnx", "--inputs", "bomb.npz"], place="bomb.npz: members of the archive lie over each other", timeout=20)
    text = [value(name, TensorProto.STRING, ["n"]) for name in "xy"]
    write(tmp_path, make_model([helper.make_node("Identity", ["x"], ["y"])], text[:1], text[1:]), "text.onnx")
    for i, (descr, shape) in enumerate([("<U0", (300_000_000,)), ("|S0", (300_000_000,)), ("<U0", (10**15,)), ("<U0", (2**20 + 1,))]):
        with zipfile.ZipFile(tmp_path / f"{i}.npz", "w") as file:
            file.writestr("x.npy", npy(descr, shape))
        refused(tmp_path, ["run", "text.onnx", "--inputs", f"{i}.npz"], place="strings are too many", timeout=20)


def packed_zeros(path, **arrays):
    """A deflated .npz: few bytes that unpack to many. NAME=(dtype, dims)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, (dtype, dims) in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                count = int(np.prod(dims)) * np.dtype(dtype).itemsize
                member.write(npy(dtype, dims, b""))
                for _ in range(count // (1 << 20)):
                    member.write(bytes(1 << 20))
                member.write(bytes(count % (1 << 20)))


MEBIBYTE = 1 << 20


@pytest.mark.skipif(SANITIZED, reason="sanitizers take address space of their own")
@pytest.mark.parametrize("dims,arrays,options,said", [
    ((1, 4), {"x": ("<f4", (1, 128 * MEBIBYTE))}, [], "dim 1 must be 4"),
    ((1, 4), {"x": ("<f4", (128 * MEBIBYTE,))}, [], "rank 1, the model wants 2"),
    (("n", "k"), {"x": ("<f4", (1, 128 * MEBIBYTE))}, ["--max-memory", 100], "--max-memory gives more memory"),
    (("n", "k"), {"x": ("<f8", (1, 64 * MEBIBYTE))}, [], "type double, the model wants float;"),
    (("n", "k"), {"x": ("<f4", (1, 4)), "other": ("<f4", (1, 128 * MEBIBYTE))}, [], "no input of this name")])
@pytest.mark.parametrize("verb", ["run", "verify", "optimize"])
def test_inputs_are_looked_at_before_they_are_unpacked(tmp_path, verb, dims, arrays, options, said):
    """128 Mi floats are 512 MB, of which the process may not have one: it has 300 MB of data."""
    write(tmp_path, make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, dims)], [value("y", F32, dims)], opset=17), "m.onnx")
    packed_zeros(tmp_path / "x.npz", **arrays)
    words = {"run": ["run", "m.onnx"], "verify": ["verify", "m.onnx", "m.onnx"], "optimize": ["optimize", "m.onnx", "-o", "o.onnx"]}[verb]
    before, judge = listing(tmp_path), [] if verb == "run" else ["--judge", "saturate"]
    bound = lambda: resource.setrlimit(resource.RLIMIT_DATA, (300 * MEBIBYTE, 300 * MEBIBYTE))  # noqa: E731
    done = subprocess.run([binary(), *words, "--inputs", "x.npz", *judge, *map(str, options)], cwd=tmp_path, timeout=60, preexec_fn=bound,
                          capture_output=True, text=True)
    assert_refused(done, 1, tmp_path, before, said)


def test_a_long_header_of_an_array(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    header = npy("<f4", (1, 4), bytes(16))
    long = header[:6] + b"\x02\x00" + (100_000).to_bytes(4, "little") + header[10:-17].ljust(99_999) + b"\n" + bytes(16)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("x.npy", long)
    refused(tmp_path, ["run", "m.onnx", "--inputs", "x.npz"], place="header is cut off")
