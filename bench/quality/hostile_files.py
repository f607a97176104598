"""A hundred files made to do harm, each given to the command: how it ends, in which time and memory, and what it left of the files.

  python bench/quality/hostile_files.py [--every N] [--only NAME...] [--words "optimize MODEL -o out.onnx"]
Ends with 1 where a file ended with another status than the documented ones, more than a line of error, a changed file, more than 3 GB,
or more than 3 s beside the time it was given.
"""
import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
SECONDS, BYTES, SLACK = 4, 3 << 30, 3
STATUSES = (0, 1, 3, 5)
HUGE = (2**31, 2**40, 2**62, 2**63 - 1, -1, -(2**63))


def value(name, shape=("n",), dtype=F32):
    return helper.make_tensor_value_info(name, dtype, list(shape))


def model(nodes, inputs=None, outputs=None, constants=(), functions=(), opset=18, ir=9, domains=("own",)):
    graph = helper.make_graph(nodes, "g", inputs or [value("x")], outputs or [value("y")], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)], ir_version=ir, functions=list(functions))


def numbers(name, *data, dtype=I64):
    return helper.make_tensor(name, dtype, [len(data)], data)


def size_bombs():
    """Small files that ask for much: shapes, repetitions, ranges."""
    for i, size in enumerate((2**20, 2**31, 2**40, 2**62)):
        yield f"fill-{i}", model([helper.make_node("ConstantOfShape", ["s"], ["a"]), helper.make_node("Add", ["a", "x"], ["y"])], constants=[numbers("s", size, 64)])
        yield f"expand-{i}", model([helper.make_node("Expand", ["x", "s"], ["y"])], constants=[numbers("s", size, 64)])
        yield f"tile-{i}", model([helper.make_node("Tile", ["x", "s"], ["y"])], constants=[numbers("s", size)])
        yield f"range-{i}", model([helper.make_node("Range", ["a", "b", "c"], ["y"])], outputs=[value("y", dtype=I64)], constants=[helper.make_tensor(n, I64, [], [v]) for n, v in (("a", 0), ("b", size), ("c", 1))])
        yield f"pad-{i}", model([helper.make_node("Pad", ["x", "p"], ["y"])], constants=[numbers("p", size, size)])
        yield f"onehot-{i}", model([helper.make_node("OneHot", ["k", "d", "v"], ["y"])], [value("k", dtype=I64)], constants=[helper.make_tensor("d", I64, [], [size]), numbers("v", 0.0, 1.0, dtype=F32)])
        yield f"resize-{i}", model([helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="nearest")], [value("x", (1, 1, 2, 2))], constants=[numbers("s", 1, 1, size, size)])
        yield f"input-{i}", model([helper.make_node("Relu", ["x"], ["y"])], [value("x", (size, 4))], [value("y", (size, 4))])


def attribute_bombs():
    for i, size in enumerate(HUGE):
        yield f"pool-{i}", model([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[size, 3], pads=[size, 0, 0, 0])], [value("x", (1, 1, 8, 8))])
        padded = dict(kernel_shape=[size, 3], pads=[size, 0, 0, 0])
        yield f"average-{i}", model([helper.make_node("AveragePool", ["x"], ["y"], count_include_pad=i % 2, **padded)], [value("x", (1, 1, 8, 8))])
        yield f"norm-{i}", model([helper.make_node("LpPool", ["x"], ["y"], p=2, **padded)], [value("x", (1, 1, 8, 8))])
        yield f"conv-{i}", model([helper.make_node("Conv", ["x", "w"], ["y"], strides=[1, size], dilations=[size, 1])], [value("x", (1, 1, 8, 8))], constants=[helper.make_tensor("w", F32, [1, 1, 3, 3], [1.0] * 9)])
        yield f"concat-{i}", model([helper.make_node("Concat", ["x", "x"], ["y"], axis=size)])
        yield f"transpose-{i}", model([helper.make_node("Transpose", ["x"], ["y"], perm=[size, 0])], [value("x", (2, 3))])
        yield f"blocks-{i}", model([helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=size)], [value("x", (1, 4, 2, 2))])


def repeated():
    """What runs long or grows each time: loops, scans, doubling."""
    body = helper.make_graph([helper.make_node("Concat", ["s", "s"], ["t"], axis=0), helper.make_node("Identity", ["k"], ["kk"])], "b", [value("i", (), I64), value("k", (), BOOL), value("s")], [value("kk", (), BOOL), value("t")])
    for i, trips in enumerate((40, 2**40, 2**63 - 1)):
        yield f"doubling-{i}", model([helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)], constants=[helper.make_tensor("trips", I64, [], [trips])])
        same = helper.make_graph([helper.make_node("Relu", ["s"], ["t"]), helper.make_node("Identity", ["k"], ["kk"])], "b", [value("i", (), I64), value("k", (), BOOL), value("s")], [value("kk", (), BOOL), value("t")])
        yield f"endless-{i}", model([helper.make_node("Loop", ["trips", "", "x"], ["y"], body=same)], constants=[helper.make_tensor("trips", I64, [], [trips])])
    nodes, inner = [], "x"
    for k in range(60):
        nodes.append(helper.make_node("Concat", [inner, inner], [f"c{k}"], axis=0))
        inner = f"c{k}"
    yield "doubling-row", model([*nodes, helper.make_node("Relu", [inner], ["y"])])
    yield "doubling-constants", model([helper.make_node("Concat", ["c", "c"], ["c0"], axis=0), *nodes[1:], helper.make_node("Add", [inner, "x"], ["y"])], constants=[numbers("c", 1.0, 2.0, dtype=F32)])
    texts = [helper.make_node("StringConcat", ["x" if k == 0 else f"t{k}"] * 2, [f"t{k + 1}"]) for k in range(50)]
    yield "doubling-strings", model([*texts, helper.make_node("Identity", ["t50"], ["y"])], [value("x", ("n",), STRING)], [value("y", ("n",), STRING)], opset=20)
    letters = ", ".join(chr(97 + k) * 2 for k in range(26))
    yield "einsum", model([helper.make_node("Einsum", ["x"] * 26, ["y"], equation=letters + "->")], [value("x", (2, 2))], [value("y", ())])
    yield "regex", model([helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="(((a{1,1000}){1,1000}){1,1000})")], [value("x", ("n",), STRING)], [value("y", ("n",), BOOL)], opset=20)


def structures():
    """Graphs that are none, and ones that never end."""
    yield "cycle", model([helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["a"], ["y"])])
    yield "itself", model([helper.make_node("Add", ["x", "y"], ["y"])])
    yield "twice", model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])])
    call = lambda name: helper.make_node(name, ["a"], ["b"], domain="own")  # noqa: E731
    own = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    yield "recursion", model([helper.make_node("F", ["x"], ["y"], domain="own")], functions=[helper.make_function("own", "F", ["a"], ["b"], [call("F")], own)])
    pair = [helper.make_function("own", n, ["a"], ["b"], [call(m)], own) for n, m in (("F", "G"), ("G", "F"))]
    yield "recursion-of-two", model([helper.make_node("F", ["x"], ["y"], domain="own")], functions=pair)
    doubling = [helper.make_function("own", f"F{k}", ["a"], ["b"], [helper.make_node(f"F{k + 1}" if k < 40 else "G", ["a"], ["m"], domain="own"), helper.make_node(f"F{k + 1}" if k < 40 else "G", ["m"], ["b"], domain="own")], own) for k in range(41)]
    yield "functions-doubling", model([helper.make_node("F0", ["x"], ["y"], domain="own")], functions=[*doubling, helper.make_function("own", "G", ["a"], ["b"], [helper.make_node("Erf", ["a"], ["b"])], own)])
    many = model([helper.make_node("Relu", ["x"], ["y"])])
    many.graph.output.extend(value("y") for _ in range(50_000))
    yield "outputs-of-one-name", many
    wide = model([helper.make_node("Own", ["x"] * 100_000, ["y"], domain="own")])
    yield "inputs-of-one-node", wide
    rank = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1] * 5000)], [value("y", [1] * 5000)])
    yield "rank", rank
    odd = model([helper.make_node("Relu", ["x"], ["y"])])
    odd.opset_import[0].version = 2**40
    yield "opset", odd
    control = model([helper.make_node("Relu", ["x"], ["y"], name="a\x1b[2J\u202e\u2028\u009b\r\n")])
    yield "name", control


def data_elsewhere():
    """Initializers whose bytes are said to be in places that are none of a model's, or are fewer than said."""
    places = ("../secret", "/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/mem", "in.onnx", ".", "", "a/../../secret", "x\0y", "link", "fifo")
    for i, place in enumerate(places):
        made = model([helper.make_node("Add", ["x", "w"], ["y"])], constants=[numpy_helper.from_array(np.ones(4, np.float32), "w")])
        tensor = made.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in (("location", place), ("offset", "0"), ("length", "16")):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, text
        yield f"place-{i}", made
    for i, size in enumerate(HUGE):
        made = model([helper.make_node("Add", ["x", "w"], ["y"])], constants=[numpy_helper.from_array(np.ones(4, np.float32), "w")])
        made.graph.initializer[0].dims[0] = size
        yield f"dims-{i}", made


def bytes_and_text():
    good = model([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()
    yield "cut", good[: len(good) // 2]
    yield "empty", b""
    yield "zeros", bytes(100_000)
    yield "groups", b"\x0b" * 1_000_000
    yield "long-field", b"\x3a\xff\xff\xff\xff\x07" + b"a" * 100
    nested = good
    for _ in range(5000):
        nested = b"\x3a" + varint(len(nested)) + nested
    yield "deep-messages", nested


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


CLASSES = (size_bombs, attribute_bombs, repeated, structures, data_elsewhere, bytes_and_text)


def files():
    """(name, bytes) of each."""
    for each in CLASSES:
        for name, made in each():
            yield name, made if isinstance(made, bytes) else made.SerializeToString()


def surroundings(folder):
    """What hostile files name."""
    folder.mkdir(parents=True)
    (folder.parent / "secret").write_text("hunter2" * 10)
    (folder / "link").symlink_to("../secret")
    os.mkfifo(folder / "fifo")


def listing(folder):
    return sorted((str(p), p.read_bytes() if p.is_file() and not p.is_symlink() else b"") for p in folder.rglob("*"))


def fault_of(command, words, folder, data):
    """What is wrong with how it ended; "" where nothing is. And (status, seconds, bytes)."""
    (folder / "in.onnx").write_bytes(data)
    before = listing(folder.parent)
    told = folder.parent.parent / "told"
    with open(told, "wb") as out:
        began = time.monotonic()
        process = subprocess.Popen([command, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=out, start_new_session=True)
        while time.monotonic() - began < 60 and not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            time.sleep(0.02)
        if not ended[0]:
            os.killpg(process.pid, signal.SIGKILL)
            ended = os.wait4(process.pid, 0)
    seconds, status, used = time.monotonic() - began, os.waitstatus_to_exitcode(ended[1]), ended[2]
    process.returncode = status
    spent = min(seconds, used.ru_utime + used.ru_stime + 1)  # others work on the machine, too
    errors = [line for line in told.read_text(errors="replace").splitlines() if line.startswith("saturate: error") or not line.startswith("saturate: ")]
    for written in folder.glob("out.onnx*") if status == 0 else ():  # and its data file
        written.unlink()
    wrong = []
    if status not in STATUSES:
        wrong.append(f"status {status}")
    if status and (len(errors) != 1 or not errors[0].startswith("saturate: error: ")):
        wrong.append(f"{len(errors)} lines of error: {' | '.join(errors)[:200]}")
    if any("hunter2" in line or any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028" for c in line) for line in errors):
        wrong.append("shows what it may not")
    if listing(folder.parent) != before:
        wrong.append("files have changed")
    if used.ru_maxrss * 1024 > BYTES:
        wrong.append(f"{used.ru_maxrss >> 10} MB")
    if spent > SECONDS + SLACK:
        wrong.append(f"{seconds:.1f} s")
    return "; ".join(wrong), (status, seconds, used.ru_maxrss >> 10)


def run_all(command, every=1, only=None, words="optimize in.onnx -o out.onnx --judge saturate"):
    """Yields (name, fault, what it took)."""
    for number, (name, data) in enumerate(files()):
        if (only and name not in only) or number % every:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "around" / "run"
            surroundings(folder)
            yield name, *fault_of(command, [*shlex.split(words), "--time-limit", str(SECONDS), "--max-memory", "2000"], folder, data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--words", default="optimize in.onnx -o out.onnx --judge saturate")
    args = parser.parse_args()
    faults = count = 0
    for name, fault, (status, seconds, megabytes) in run_all(os.environ.get("SATURATE_BIN", "saturate"), args.every, args.only, args.words.replace("MODEL", "in.onnx")):
        count, faults = count + 1, faults + bool(fault)
        print(f"{name:20} {status:4} {seconds:6.1f} s {megabytes:6} MB  {fault}", flush=True)
    print(f"{count} files, {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
