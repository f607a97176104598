"""What changed files of models brought to light (python bench/fuzz --only files, under sanitizers): each ends in a result or in a line of error."""
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import SANITIZED, make_model, run, run_ok, tensor, value
from decoders import Shape, decoder

F32 = TensorProto.FLOAT


def save(folder, model, name="in.onnx"):
    onnx.save(model, folder / name)
    return folder / name


def ended_well(done, *codes):
    assert done.returncode in codes, (done.returncode, done.stderr)
    if done.returncode:
        (line,) = done.stderr.splitlines()
        assert line.startswith("saturate: error: ")
    return done.stderr


@pytest.mark.parametrize("rank", [0, 2, 4])
def test_an_output_declared_with_another_rank(tmp_path, rank):
    model = decoder(Shape())
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    for i in range(rank):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = f"d{i}"
    save(tmp_path, model)
    ended_well(run("transform", "in.onnx", "-o", "out.onnx", "--pass", "kv_cache", cwd=tmp_path), 0)
    assert len(onnx.load(tmp_path / "out.onnx").graph.output[0].type.tensor_type.shape.dim) == 3


@pytest.mark.parametrize("perm", [[0, 1], [1, 1], [0, 5], [-1, 0], [0, 2**63 - 1]])
def test_a_transpose_without_a_permutation(tmp_path, perm):
    nodes = [helper.make_node("Reshape", ["x", "s"], ["a"]), helper.make_node("Transpose", ["a"], ["y"], perm=perm)]
    rank_1 = perm == [0, 1]
    shape = tensor("s", np.array([-1] if rank_1 else [2, 6], np.int64))
    save(tmp_path, make_model(nodes, [value("x", F32, [3, 4])], [value("y", F32, [6, 2])], [shape]))
    ended_well(run("in.onnx", "-o", "out.onnx", "--no-verify", cwd=tmp_path), 0, 1)


@pytest.mark.parametrize(("first", "last"), [([1, 0], [5, 0]), ([0, 5], [1, 0]), ([1, 0], [-1, 0]), ([5, 5], [5, 5])])
def test_transposes_without_a_permutation_at_load(tmp_path, first, last):
    """The price after load joins two of them: that it took elements beyond the first one's axes ended the process."""
    nodes = [helper.make_node("Transpose", ["x"], ["a"], perm=first), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Transpose", ["b"], ["y"], perm=last)]
    save(tmp_path, make_model(nodes, [value("x", F32, [3, 4])], [value("y", F32, [6, 2])]))
    ended_well(run("in.onnx", "-o", "out.onnx", "--no-verify", "--target", "ort-cpu@1.31", cwd=tmp_path), 0, 1)


@pytest.mark.parametrize("op", ["Shape", "Size", "DequantizeLinear", "Gather", "Reshape", "Concat", "Transpose", "If"])
def test_operators_of_others_with_names_of_the_standard(tmp_path, op):
    """They may have no input where the standard's have one: its first input was looked at, which ended the process."""
    nodes = [helper.make_node(op, [], ["a"], domain="own"), helper.make_node("Reshape", ["x", "a"], ["b"]), helper.make_node("Shape", ["b"], ["y"])]
    model = make_model(nodes, [value("x", F32, ["n", 4])], [value("y", TensorProto.INT64, ["q"])])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.value_info.append(value("a", TensorProto.INT64, [2]))
    save(tmp_path, model)
    ended_well(run("in.onnx", "-o", "out.onnx", "--no-verify", "--target", "ort-cpu@1.31", cwd=tmp_path), 0)


@pytest.mark.parametrize("size", [2**62, 2**31 + 1])
def test_a_batch_too_large_to_be_opened(tmp_path, size):
    save(tmp_path, make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, [size, 2])], [value("y", F32, [size, 2])]))
    done = run("transform", "in.onnx", "-o", "out.onnx", "--pass", "open_batch", cwd=tmp_path)
    assert "no batch is above" in ended_well(done, 1)


def test_a_value_that_is_an_output_twice_with_two_types(tmp_path):
    save(tmp_path, make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, [2])], [value("y", F32, [2]), value("y", F32, ["n"])]))
    run_ok("diff", "in.onnx", "in.onnx", cwd=tmp_path)


@pytest.mark.skipif(SANITIZED, reason="sanitizers take the time that a verification is given")
def test_thousands_of_operators_without_a_kernel(tmp_path):
    count = 10000
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    nodes = [helper.make_node("Own", [names[i]], [names[i + 1]], domain="own") for i in range(count)]
    save(tmp_path, make_model(nodes, [value("x", F32, [2])], [value("y", F32, [2])], domains=("own",)))
    begun = time.monotonic()
    run_ok("in.onnx", "-o", "out.onnx", cwd=tmp_path)
    assert time.monotonic() - begun < 30


def test_an_attribute_of_no_elements(tmp_path):
    """A null pointer went to memcpy (UndefinedBehaviorSanitizer)."""
    empty = helper.make_tensor("e", F32, [0], [])
    save(tmp_path, make_model([helper.make_node("Constant", [], ["c"], value=empty), helper.make_node("Concat", ["x", "c"], ["y"], axis=0)], [value("x", F32, [2])], [value("y", F32, ["n"])]))
    run_ok("in.onnx", "-o", "out.onnx", cwd=tmp_path)


@pytest.mark.parametrize("kind", ["initializer", "Constant", "text", "input"])
def test_bools_of_any_bits_are_true(tmp_path, kind):
    """C++ may read no bool but 0 and 1."""
    given = onnx.TensorProto(name="c", data_type=TensorProto.BOOL, dims=[4], raw_data=bytes([0, 1, 69, 255]))
    nodes = [helper.make_node("Cast", ["c"], ["y"], to=F32), helper.make_node("NonZero", ["c"], ["i"])]
    outputs = [value("y", F32, [4]), value("i", TensorProto.INT64, [1, "n"])]
    inputs = [value("c", TensorProto.BOOL, [4])] if kind == "input" else []
    model = make_model(([helper.make_node("Constant", [], ["c"], value=given)] if kind == "Constant" else []) + nodes, inputs, outputs, [given] if kind in ("initializer", "text") else [])
    save(tmp_path, model)
    np.savez(tmp_path / "x.npz", **({"c": np.frombuffer(given.raw_data, bool)} if kind == "input" else {}))
    name = "in.onnx"
    if kind == "text":
        name = "in.onnxtxt"
        (tmp_path / name).write_text('<ir_version: 8, opset_import: ["" : 17]> g () => (float[4] y, int64[1,n] i) <bool[4] c = {0, 1, 0x45, 0xff}> { y = Cast <to = 1> (c)  i = NonZero (c) }')
    run_ok("run", name, "--inputs", "x.npz", "-o", "out.npz", cwd=tmp_path)
    out = np.load(tmp_path / "out.npz")
    assert out["y"].tolist() == [0, 1, 1, 1] and out["i"].tolist() == [[1, 2, 3]]


def test_a_dtype_that_there_is_not(tmp_path):
    model = make_model([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Hardmax", ["a"], ["y"])], [value("x", F32, [2, 3])], [value("y", F32, [2, 3])])
    model.graph.input[0].type.tensor_type.elem_type = 65536
    save(tmp_path, model)
    ended_well(run("in.onnx", "-o", "out.onnx", "--target", "onnx", "--opset", 11, cwd=tmp_path), 0, 1, 5)


@pytest.mark.parametrize("op", ["Slice", "Gather"])
def test_pieces_of_an_axis_that_there_is_not(tmp_path, op):
    """Slices and Gathers are told as a Split at load: of axis -2 of one axis, sizes in front of the shape were read."""
    bounds = [tensor(n, np.array([v])) for n, v in (("axis", -2), ("zero", 0), ("one", 1), ("two", 2))]
    cuts = [["q", "zero", "one", "axis"], ["q", "one", "two", "axis"]] if op == "Slice" else [["q", "zero"], ["q", "one"]]
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale"], ["q"])]
    nodes += [helper.make_node(op, cut, [f"y{i}"], **({"axis": -2} if op == "Gather" else {})) for i, cut in enumerate(cuts)]
    outputs = [value(f"y{i}", TensorProto.UINT8, [1, 2]) for i in range(2)]
    save(tmp_path, make_model(nodes, [value("x", F32, [2])], outputs, [*bounds, tensor("scale", np.float32(0.5))], opset=13))
    ended_well(run("in.onnx", "-o", "out.onnx", cwd=tmp_path), 0, 1, 5)
    ended_well(run("explain", "in.onnx", "--op", "Attention", cwd=tmp_path), 0, 1, 4)


@pytest.mark.parametrize("where", ["value", "node", "operator", "domain", "dim", "attribute", "graph", "initializer", "function"])
def test_names_of_any_length_are_refused(tmp_path, where):
    """A name of 100 MB took minutes and gigabytes, and was an error of one line of as many bytes."""
    name = "n" * (100_000_000 if where in ("value", "domain") else 65_536)
    of = {key: name if key == where else key for key in ("value", "node", "operator", "domain", "dim", "attribute", "initializer")}
    node = helper.make_node(of["operator"], ["x"], [of["value"]], name=of["node"], domain=of["domain"], **{of["attribute"]: 1})
    add = helper.make_node("Add", [of["value"], of["initializer"]], ["y"])
    model = make_model([node, add], [value("x", F32, [of["dim"]])], [value("y", F32, [of["dim"]])], [tensor(of["initializer"], np.ones(1, np.float32))], domains=(of["domain"],))
    if where == "graph":
        model.graph.name = name
    if where == "function":
        model.functions.append(helper.make_function("own", name, ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 17)]))
    save(tmp_path, model)
    for words in (["in.onnx", "-o", "out.onnx"], ["inspect", "in.onnx"]):
        said = ended_well(run(*words, cwd=tmp_path), 1)
        assert "at most 65535 can be" in said and len(said) < 5000


def test_names_within_bounds(tmp_path):
    name = "n" * 65_535
    save(tmp_path, make_model([helper.make_node("Relu", ["x"], [name], name=name), helper.make_node("Neg", [name], ["y"])], [value("x", F32, [name])], [value("y", F32, [name])]))
    run_ok("in.onnx", "-o", "out.onnx", cwd=tmp_path)


PLACES = [-8988621906278088702, 1090332284398401244]
SIZES = [6860240458082130970, 5833501822119051265]


@pytest.mark.parametrize("node, given", [(helper.make_node("Gather", ["x", "n"], ["y"], axis=-1), PLACES), (helper.make_node("Split", ["x", "n"], ["y", "z"], axis=-1), SIZES)])
def test_places_and_sizes_far_outside(tmp_path, node, given):
    """Their differences and sums have more than 64 bits (UndefinedBehaviorSanitizer)."""
    model = make_model([node], [value("x", F32, [2, 4])], [value(o, F32, None) for o in node.output])
    model.graph.initializer.append(helper.make_tensor("n", TensorProto.INT64, [2], given))
    save(tmp_path, model)
    done = run("in.onnx", "-o", "out.onnx", "--target", "onnx", "--opset", 13, "--no-verify", cwd=tmp_path)
    assert done.returncode in (0, 1, 4) and "runtime error" not in done.stderr, done.stderr
