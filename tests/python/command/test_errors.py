"""Every bad input gives one line of error with its place, the right exit code, and nothing is written."""
import os
import signal
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, assert_refused, listing, make_model, run, start, tensor, value

BART = DATA / "bart_encoder.onnx"


def refused(folder, words, code=1, place=None):
    before = listing(folder)
    assert_refused(run(*words, cwd=folder), code, folder, before, place)


def write(folder, model, name="bad.onnx"):
    path = folder / name
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


@pytest.mark.parametrize("verb", ["optimize", "inspect", "run"])
@pytest.mark.parametrize("keep", [0.999, 0.5, 0.01])
def test_truncated(tmp_path, verb, keep):
    whole = BART.read_bytes()
    path = write(tmp_path, whole[: int(len(whole) * keep)])
    refused(tmp_path, [verb, path], place=path)


def test_empty(tmp_path):
    path = write(tmp_path, b"")
    refused(tmp_path, [path], place=path)


def test_text_file(tmp_path):
    path = write(tmp_path, b"This is not a model.\nIt is two lines of text.\n")
    refused(tmp_path, [path], place=path)


def test_missing_file(tmp_path):
    refused(tmp_path, [tmp_path / "none.onnx"], place="none.onnx")


def test_folder_as_model(tmp_path):
    (tmp_path / "folder.onnx").mkdir()
    refused(tmp_path, [tmp_path / "folder.onnx"], place="folder.onnx")


def test_cyclic(tmp_path):
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"], name="second")]
    path = write(tmp_path, make_model(nodes, [value("x", TensorProto.FLOAT, [2])], [value("b", TensorProto.FLOAT, [2])]))
    refused(tmp_path, [path], place=path)


def test_missing_input(tmp_path):
    nodes = [helper.make_node("Add", ["x", "nowhere"], ["y"], name="add")]
    path = write(tmp_path, make_model(nodes, [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]))
    refused(tmp_path, [path], place="nowhere")


def test_defined_twice(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Exp", ["x"], ["y"])]
    path = write(tmp_path, make_model(nodes, [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]))
    refused(tmp_path, [path], place="'y'")


def test_missing_output(tmp_path):
    path = write(tmp_path, make_model([helper.make_node("Relu", ["x"], ["z"])], [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]))
    refused(tmp_path, [path], place="'y'")


def test_wrong_dtype_of_operands(tmp_path):
    model = make_model([helper.make_node("Add", ["x", "i"], ["y"], name="mixed")], [value("x", TensorProto.FLOAT, [2]), value("i", TensorProto.INT64, [2])],
                       [value("y", TensorProto.FLOAT, [2])])
    path = write(tmp_path, model)
    refused(tmp_path, [path], code=(1, 5), place="mixed")  # 5: found when the original is run for verification


def test_wrong_dtype_of_data(tmp_path):
    weight = tensor("w", np.zeros(4, np.float32))
    weight.data_type = TensorProto.INT64  # 16 bytes can't be four int64
    model = make_model([helper.make_node("Relu", ["w"], ["y"])], [], [value("y", TensorProto.INT64, [4])], [weight])
    refused(tmp_path, [write(tmp_path, model)], place="'w'")


@pytest.mark.parametrize("attribute", [{"perm": 1.5}, {"perm": "01"}, {"perm": 1}])
def test_attribute_of_another_type(tmp_path, attribute):
    nodes = [helper.make_node("Transpose", ["x"], ["t"], name="turn", **attribute), helper.make_node("Relu", ["t"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.FLOAT, [3, 2])])
    for cost in ("nodes", "measured"):
        refused(tmp_path, [write(tmp_path, model), "--cost", cost, "--no-verify"], place="node 'turn' (Transpose): attribute 'perm' is of type ")


@pytest.mark.parametrize("inputs", [["x"], ["x", "x", "x"]])
def test_number_of_inputs(tmp_path, inputs):
    layer_norm = helper.make_node("LayerNormalization", ["sum", "x"], ["y"])
    model = make_model([helper.make_node("Add", inputs, ["sum"], name="plus"), layer_norm], [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, [4])])
    refused(tmp_path, [write(tmp_path, model), "--no-verify"], place=f"node 'plus' (Add): has {len(inputs)} inputs, the operator takes 2")


def test_axis_named_twice(tmp_path):
    """A model that cannot run, whatever its input: nothing can be compared, so that it goes through by the user's word alone."""
    axes = tensor("axes", np.array([-1, 1], np.int64))
    model = make_model([helper.make_node("Unsqueeze", ["x", "axes"], ["y"])], [value("x", TensorProto.FLOAT, [])], [value("y", TensorProto.FLOAT, None)], [axes])
    path = write(tmp_path, model)
    refused(tmp_path, [path, tmp_path / "out.onnx"], code=5, place="an axis is given twice")
    assert run(path, tmp_path / "out.onnx", "--no-verify").returncode == 0


@pytest.mark.parametrize("dims", [[1 << 62, 4], [1 << 40], [-1], [2**63 - 1, 2**63 - 1]])
def test_huge_or_negative_dim(tmp_path, dims):
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=b"1234")
    model = make_model([helper.make_node("Relu", ["w"], ["y"])], [], [value("y", TensorProto.FLOAT, None)], [weight])
    refused(tmp_path, [write(tmp_path, model)], place="'w'")


def external(folder, location, offset=None, length=None, elements=4):
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[elements], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        if text is not None:
            weight.external_data.add(key=key, value=str(text))
    return write(folder, make_model([helper.make_node("Relu", ["w"], ["y"])], [], [value("y", TensorProto.FLOAT, [elements])], [weight]))


def test_external_data_is_read(tmp_path):
    (tmp_path / "w.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    path = external(tmp_path, "w.bin", offset=16, length=16)
    assert run(path, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("location", ["../w.bin", "a/../../w.bin", "/etc/passwd", ".", "", "a/b/../../../w.bin"])
def test_external_data_outside(tmp_path, location):
    folder = tmp_path / "model"
    (folder / "a" / "b").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(bytes(64))
    refused(folder, [external(folder, location)], place="'w'")


def test_external_data_symlink(tmp_path):
    (tmp_path / "real.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "real.bin")
    refused(folder, [external(folder, "w.bin")], place="w.bin")


def test_external_data_symlinked_folder(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "w.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "data").symlink_to(tmp_path / "outside", target_is_directory=True)
    refused(folder, [external(folder, "data/w.bin")], place="data/w.bin")


def test_external_data_hard_link(tmp_path):
    (tmp_path / "real.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    os.link(tmp_path / "real.bin", folder / "w.bin")
    refused(folder, [external(folder, "w.bin")], place="w.bin")


@pytest.mark.parametrize("offset, length", [(-4, 16), (0, -16), (8, 16), (0, 1 << 62), (1 << 62, 16), ("x", 16), (0, 12)])
def test_external_data_range(tmp_path, offset, length):
    (tmp_path / "w.bin").write_bytes(bytes(16))
    refused(tmp_path, [external(tmp_path, "w.bin", offset, length)], place="'w'")


def test_external_data_missing(tmp_path):
    refused(tmp_path, [external(tmp_path, "none.bin")], place="none.bin")


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def test_deep_nesting(tmp_path):
    """Subgraphs in subgraphs, deeper than any parser should follow; made by hand, for Python's protobuf doesn't go so deep either."""
    field = lambda number, data: varint(number << 3 | 2) + varint(len(data)) + data
    graph = field(1, helper.make_node("Identity", ["x"], ["y"]).SerializeToString())
    for _ in range(3000):
        attribute = field(1, b"then_branch") + field(6, graph) + varint(20 << 3) + varint(onnx.AttributeProto.GRAPH)
        graph = field(1, field(1, b"c") + field(2, b"y") + field(4, b"If") + field(5, attribute))
    model = varint(1 << 3) + varint(8) + field(7, graph) + field(8, helper.make_opsetid("", 18).SerializeToString())
    path = write(tmp_path, model)
    refused(tmp_path, [path, "--no-verify"], place=path)


def test_recursive_function(tmp_path):
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="own")], imports)
    graph = helper.make_graph([helper.make_node("F", ["x"], ["y"], domain="own")], "g", [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])])
    path = write(tmp_path, helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8))
    done = run(path, cwd=tmp_path)
    assert done.returncode in (1, 5) and len(done.stderr.splitlines()) == 1, done.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_rule_file(tmp_path):
    refused(tmp_path, [BART, tmp_path / "out.onnx", "--rules", tmp_path / "none.rules"], place="none.rules")


def test_broken_rule_file(tmp_path):
    rules = tmp_path / "my.rules"
    rules.write_text('opset "" 20\n\nrule broken (X) => (Y)\n  { Y = Relu (Z) }\n  =>\n  { Y = NoSuchOperator (X) }\n')
    refused(tmp_path, [BART, tmp_path / "out.onnx", "--rules", rules], place="my.rules:")


@pytest.mark.parametrize("option", ["--target", "--cost"])
def test_unknown_target_and_cost(tmp_path, option):
    refused(tmp_path, [BART, tmp_path / "out.onnx", option, "no-such-thing"], code=2, place="no-such-thing")


@pytest.mark.parametrize("option", ["--target", "--cost"])
def test_broken_json(tmp_path, option):
    (tmp_path / "x.json").write_text('{"name": ')
    refused(tmp_path, [BART, tmp_path / "out.onnx", option, tmp_path / "x.json"], place="x.json")


def test_unknown_rule_to_skip(tmp_path):
    refused(tmp_path, [BART, tmp_path / "out.onnx", "--skip-rule", "no_such_rule"], code=2, place="no_such_rule")


def test_unwritable_output(tmp_path):
    refused(tmp_path, [BART, tmp_path / "no" / "such" / "folder" / "out.onnx"], place="out.onnx")
    (tmp_path / "folder.onnx").mkdir()
    refused(tmp_path, [BART, tmp_path / "folder.onnx"], place="folder.onnx")


def test_failed_write_keeps_what_was_there(tmp_path, small_model):
    """An error leaves an older result alone."""
    out = tmp_path / "out.onnx"
    out.write_bytes(b"older")
    path = write(tmp_path, b"not a model")
    refused(tmp_path, [path, out])
    assert out.read_bytes() == b"older"


@pytest.mark.parametrize("words", [[], ["--no-such-option", "x.onnx"], ["optimize"], ["x.onnx", "a.onnx", "b.onnx"], ["verify", "x.onnx"], ["rules", "eat"], ["rules", "show"],
                                   ["targets", "show"], ["x.onnx", "--opset", "18", "--keep-opset"], ["x.onnx", "--iterations", "many"], ["x.onnx", "a.onnx", "-o", "b.onnx"]])
def test_usage(tmp_path, words):
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    if words:
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("saturate: error: "), done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arrays, place", [({}, "input_ids"), ({"input_ids": np.zeros((1, 2), np.int32), "attention_mask": np.ones((1, 2), np.int64)}, "int32"),
                                           ({"nothing": np.zeros(1)}, "nothing")])
def test_bad_inputs_file(tmp_path, arrays, place):
    np.savez(tmp_path / "x.npz", **arrays)
    refused(tmp_path, ["run", BART, "--inputs", tmp_path / "x.npz", "-o", tmp_path / "y.npz"], place=place)
    refused(tmp_path, [BART, tmp_path / "o.onnx", "--inputs", tmp_path / "x.npz"], place=place)


def test_truncated_inputs_file(tmp_path):
    whole = (DATA / "bart_encoder.inputs.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(whole[:-30])
    refused(tmp_path, ["run", BART, "--inputs", tmp_path / "x.npz"], place="x.npz")


def test_pickle_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", input_ids=np.array([{"a": 1}], dtype=object))
    refused(tmp_path, ["run", BART, "--inputs", tmp_path / "x.npz"], place="x.npz")


def test_unknown_operator_cant_be_verified(tmp_path):
    """5, said by node and operator; --no-verify goes on."""
    branches = [helper.make_graph([helper.make_node(op, ["x"], [name], domain=domain, name=label)], name, [], [value(name, TensorProto.FLOAT, [2])])
                for op, name, domain, label in (("Mystery", "then", "own", "the_mystery"), ("Relu", "else", "", "known"))]
    nodes = [helper.make_node("If", ["c"], ["m"], then_branch=branches[0], else_branch=branches[1]), helper.make_node("Relu", ["m"], ["y"])]
    inputs = [value("x", TensorProto.FLOAT, [2]), value("c", TensorProto.BOOL, [])]
    path = write(tmp_path, make_model(nodes, inputs, [value("y", TensorProto.FLOAT, [2])], domains=["own"]))
    before = listing(tmp_path)
    done = run(path, cwd=tmp_path)
    assert_refused(done, 5, tmp_path, before, "the_mystery")
    assert "Mystery" in done.stderr and "stands in the body of If" in done.stderr
    assert run(path, "--no-verify", cwd=tmp_path).returncode == 0
    result = onnx.load(tmp_path / "bad.opt.onnx")
    assert [n.op_type for n in result.graph.node] == ["If", "Relu"]


def test_ctrl_c_ends_a_run(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) {
        n = Constant <value_int = 4000000> ()
        y = Loop (n, , x) <body = b (int64 i, bool c, float v) => (bool d, float w) { d = Identity (c)  w = Cos (v) }> }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.float32(1))
    process = start("run", "m.onnx", "--inputs", "x.npz", "-o", "y.npz", cwd=tmp_path)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "saturate: error: m.onnx: interrupted\n")
    assert not (tmp_path / "y.npz").exists()
