"""Strings and given inputs count against --max-memory, as tensors of numbers do."""
import resource
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import SANITIZED, binary, make_model, run, run_ok, value
from test_hostile import F32, write

STRING, I64 = TensorProto.STRING, TensorProto.INT64
MEBIBYTE = 1 << 20


def text_model(nodes, inputs, outputs, initializers=()):
    return make_model(nodes, inputs, outputs, initializers, opset=20, ir_version=9)


def doubling():
    """A Loop that joins its strings with themselves."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Concat", ["s", "s"], ["t"], axis=0)], "body",
        [value("i", I64, []), value("c", TensorProto.BOOL, []), value("s", STRING, ["n"])], [value("d", TensorProto.BOOL, []), value("t", STRING, ["m"])])
    nodes = [helper.make_node("Constant", [], ["n"], value_int=40), helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)]
    return text_model(nodes, [value("x", STRING, ["k"])], [value("y", STRING, ["l"])])


def longer():
    """A Loop that joins each string to itself."""
    model = doubling()
    body = model.graph.node[1].attribute[0].g
    body.node[1].CopyFrom(helper.make_node("StringConcat", ["s", "s"], ["t"]))
    return model


def made(op, inputs, **attributes):
    """One operator that makes much of a long string."""
    long = helper.make_tensor("w", STRING, [1], [b"x" * MEBIBYTE])
    nodes = [helper.make_node("Identity", ["w"], ["v"]), helper.make_node(op, inputs, ["y"] if op != "StringSplit" else ["y", "z"], **attributes)]
    return text_model(nodes, [value("x", STRING, ["k"]), value("k", I64, ["r"]), value("b", TensorProto.BOOL, ["q"])], [value("y", STRING, None)], [long])


CASES = {
    "concat in a loop": doubling, "string concat in a loop": longer,
    "expand": lambda: made("Expand", ["v", "k"]), "gather": lambda: made("Gather", ["v", "g"]), "where": lambda: made("Where", ["b", "v", "x"]),
    "add": lambda: made("StringConcat", ["v", "e"]), "split": lambda: made("StringSplit", ["v"], delimiter="x"),
}


def arrays():
    return {"x": np.array(["a"]), "k": np.array([20_000]), "b": np.ones(20_000, bool)}


@pytest.mark.skipif(SANITIZED, reason="sanitizers take address space of their own")
@pytest.mark.parametrize("case", CASES)
def test_strings_keep_to_the_memory_of_a_run(tmp_path, case):
    """100 MB were given, and the process has 500 MB of data."""
    model = CASES[case]()
    if case == "gather":
        model.graph.node.insert(0, helper.make_node("Range", ["zero", "many", "step"], ["r"]))
        model.graph.node.insert(1, helper.make_node("Mul", ["r", "zero"], ["g"]))
        model.graph.initializer.extend(helper.make_tensor(n, I64, [], [v]) for n, v in (("zero", 0), ("many", 20_000), ("step", 1)))
    if case == "add":
        model.graph.node.insert(0, helper.make_node("Expand", ["x", "k"], ["e"]))
    write(tmp_path, model, "m.onnx")
    names = {i.name for i in model.graph.input}
    np.savez(tmp_path / "x.npz", **{n: a for n, a in arrays().items() if n in names})
    bound = lambda: resource.setrlimit(resource.RLIMIT_DATA, (500 * MEBIBYTE, 500 * MEBIBYTE))  # noqa: E731
    done = subprocess.run([binary(), "run", "m.onnx", "--inputs", "x.npz", "--max-memory", "100"], cwd=tmp_path, timeout=60, preexec_fn=bound,
                          capture_output=True, text=True)
    if case == "split":  # 2^20 pieces of 32 bytes fit
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, (done.returncode, done.stderr)
    assert "limit of memory" in done.stderr and "--max-memory" in done.stderr, done.stderr


def test_strings_that_are_freed_give_their_memory_back(tmp_path):
    """200 turns of a loop that each make 10 MB of strings, and keep them for that turn."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Expand", ["s", "k"], ["e"]), helper.make_node("Gather", ["e", "zero"], ["t"])], "body",
        [value("i", I64, []), value("c", TensorProto.BOOL, []), value("s", STRING, ["n"])], [value("d", TensorProto.BOOL, []), value("t", STRING, ["n"])])
    nodes = [helper.make_node("Constant", [], ["n"], value_int=200), helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)]
    constants = [helper.make_tensor("k", I64, [1], [100_000]), helper.make_tensor("zero", I64, [1], [0])]
    write(tmp_path, text_model(nodes, [value("x", STRING, [1])], [value("y", STRING, [1])], constants), "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.array(["y" * 64]))
    run_ok("run", "m.onnx", "--inputs", "x.npz", "--max-memory", 40, "-o", "y.npz", cwd=tmp_path)
    assert np.load(tmp_path / "y.npz")["y"].tolist() == ["y" * 64]


@pytest.mark.parametrize("kind", ["numbers", "strings", "initializer"])
def test_what_a_run_begins_with_counts(tmp_path, kind):
    if kind == "numbers":
        model = make_model([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], [value("x", F32, ["n"])], [value("y", F32, [])])
        np.savez(tmp_path / "x.npz", x=np.zeros(5 * MEBIBYTE, np.float32))
    else:
        constants = [helper.make_tensor("w", STRING, [20], [b"x" * MEBIBYTE] * 20)] if kind == "initializer" else []
        model = text_model([helper.make_node("Size", ["w" if constants else "x"], ["y"])], [value("x", STRING, ["n"])], [value("y", I64, [])], constants)
        np.savez(tmp_path / "x.npz", x=np.array(["x" * (MEBIBYTE // 4)] * 20 if kind == "strings" else ["x"]))
    write(tmp_path, model, "m.onnx")
    done = run("run", "m.onnx", "--inputs", "x.npz", "--max-memory", 4 if kind == "strings" else 19, cwd=tmp_path)
    assert done.returncode == 1 and "bytes" in done.stderr and "--max-memory" in done.stderr, done.stderr
    run_ok("run", "m.onnx", "--inputs", "x.npz", "--max-memory", 200, "-o", "y.npz", cwd=tmp_path)


def with_text(where):
    """20 MB that are neither in a tensor nor in a name."""
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, ["n"])], [value("y", F32, ["n"])])
    text = "d" * (20 * MEBIBYTE)
    if where in ("metadata", "metadata of a node"):
        entry = (model if where == "metadata" else model.graph.node[0]).metadata_props.add()
        entry.key, entry.value = "k", text
    elif where == "attribute":
        model.graph.node[0].CopyFrom(helper.make_node("Constant", [], ["y"], value_string=text))
        model.graph.output[0].CopyFrom(value("y", STRING, []))
    else:
        {"model": model, "graph": model.graph, "node": model.graph.node[0], "input": model.graph.input[0]}[where].doc_string = text
    return model


@pytest.mark.parametrize("where", ["model", "graph", "node", "input", "metadata", "metadata of a node", "attribute"])
def test_texts_of_a_model_count(tmp_path, where):
    write(tmp_path, with_text(where), "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.zeros(2, np.float32))
    done = run("run", "m.onnx", "--inputs", "x.npz", "--max-memory", 19, cwd=tmp_path)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "--max-memory gives more memory" in done.stderr, done.stderr
    run_ok("run", "m.onnx", "--inputs", "x.npz", "--max-memory", 60, "-o", "y.npz", cwd=tmp_path)


def test_arrays_beside_a_decoder_are_looked_at_first(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.zeros(8 * MEBIBYTE, np.float32))
    done = run("generate", "m.onnx", "--prompt-ids", "1", "--inputs", "x.npz", "--max-memory", 10, cwd=tmp_path)
    assert done.returncode == 1 and "x.npz(x): " in done.stderr and "--max-memory gives more memory" in done.stderr, done.stderr
