"""metadata_props of nodes that are gone stand on those that do their work."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run_ok, tensor, value

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL


def told(node, **metadata):
    for key, text in (metadata or {"namespace": f"in/{node.output[0]}"}).items():
        node.metadata_props.add(key=key, value=text)
    return node


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def gelu(nodes):
    constants = [tensor("s", np.float32(2**0.5)), tensor("one", np.float32(1)), tensor("half", np.float32(0.5))]
    return make_model(nodes, [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])], constants, opset=20, ir_version=10)


def gelu_nodes():
    return [node("Div", "x s", "d"), node("Erf", "d", "e"), node("Add", "e one", "a"), node("Mul", "x a", "m"), node("Mul", "m half", "y")]


def optimized(tmp_path, model, *words):
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "-o", "out.onnx", *words, cwd=tmp_path)
    result = onnx.load(tmp_path / "out.onnx")
    before = (tmp_path / "out.onnx").read_bytes()
    run_ok("in.onnx", "-o", "out.onnx", *words, cwd=tmp_path)
    assert (tmp_path / "out.onnx").read_bytes() == before
    return result


def metadata(node):
    return {entry.key: entry.value for entry in node.metadata_props}


def test_of_a_fused_operator(tmp_path):
    model = gelu([told(n, namespace=f"in/{n.output[0]}", who="all") for n in gelu_nodes()])
    (made,) = optimized(tmp_path, model, "--target", "onnx").graph.node
    assert made.op_type == "Gelu"
    assert metadata(made) == {"namespace": "in/d\nin/e\nin/a\nin/m\nin/y", "who": "all"}


def test_annotated(tmp_path):
    (made,) = optimized(tmp_path, gelu(gelu_nodes()), "--target", "onnx").graph.node
    assert metadata(made) == {}
    (made,) = optimized(tmp_path, gelu(gelu_nodes()), "--target", "onnx", "--annotate").graph.node
    assert metadata(made)["saturate.replaces"] == "d, e, a, m, y" and "gelu" in metadata(made)["saturate.rules"]


def test_kept_nodes_stay_as_they_are(tmp_path):
    model = make_model([told(node("Exp", "x", "a")), told(node("Sin", "a", "y"))], [value("x", FLOAT, [4])], [value("y", FLOAT, [4])], ir_version=10)
    assert [n.SerializeToString() for n in optimized(tmp_path, model, "--annotate").graph.node] == [n.SerializeToString() for n in model.graph.node]


def test_of_duplicates_and_copies(tmp_path):
    nodes = [told(node("Identity", "x", "i")), told(node("Exp", "i", "a")), told(node("Exp", "x", "b")), told(node("Identity", "b", "c")), told(node("Sub", "a x", "d")), told(node("Mul", "d c", "y"))]
    model = make_model(nodes, [value("x", FLOAT, [4])], [value("y", FLOAT, [4])], ir_version=10)
    made = {n.op_type: metadata(n)["namespace"] for n in optimized(tmp_path, model).graph.node}
    assert set(made["Exp"].split("\n")) == {"in/i", "in/a", "in/b", "in/c"} and made["Mul"] == "in/y"


def test_at_most_four_kilobytes(tmp_path):
    model = gelu([told(n, trace=n.output[0] * 1500) for n in gelu_nodes()])
    (made,) = optimized(tmp_path, model, "--target", "onnx").graph.node
    assert metadata(made)["trace"] == "\n".join(name * 1500 for name in "de") and metadata(made)["saturate.metadata_cut"].startswith("of 3 ")
    assert "4 kB of metadata_props" in run_ok("in.onnx", "-o", "out.onnx", "--target", "onnx", "-v", cwd=tmp_path).stdout


def test_of_a_function_that_is_inlined(tmp_path):
    model = make_model([told(node("F", "x", "y", domain="my"))], [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])], opset=20, ir_version=10, domains=["my"])
    constants = [helper.make_node("Constant", [], [name], value_float=number) for name, number in (("s", 2**0.5), ("one", 1.0), ("half", 0.5))]
    body = constants + [told(n) for n in gelu_nodes()]
    model.functions.append(helper.make_function("my", "F", ["x"], ["y"], body, [helper.make_opsetid("", 20)]))
    (made,) = optimized(tmp_path, model, "--target", "onnx").graph.node
    assert made.op_type == "Gelu" and metadata(made)["namespace"] == "in/d\nin/e\nin/a\nin/m\nin/y"


def test_in_a_body(tmp_path):
    branch = helper.make_graph([told(n) for n in gelu_nodes()], "t", [], [value("y", FLOAT, None)])
    other = helper.make_graph([told(node("Sin", "x", "q"))], "f", [], [value("q", FLOAT, None)])
    model = gelu([helper.make_node("If", ["c"], ["y2"], name="choose", then_branch=branch, else_branch=other)])
    model.graph.input.append(value("c", BOOL, []))
    model.graph.output[0].name = "y2"
    (choice,) = optimized(tmp_path, model, "--target", "onnx").graph.node
    (made,) = next(a.g for a in choice.attribute if a.name == "then_branch").node
    assert made.op_type == "Gelu" and metadata(made)["namespace"] == "in/d\nin/e\nin/a\nin/m\nin/y"


@pytest.mark.parametrize("opset", [13, 21])
def test_in_another_opset(tmp_path, opset):
    nodes = [told(node("ReduceMean", "x axes", "m", keepdims=1)), told(node("Sub", "x m", "y"))]
    model = make_model(nodes, [value("x", FLOAT, [2, 4])], [value("y", FLOAT, [2, 4])], [tensor("axes", np.array([1]))], ir_version=10)
    found = {v for n in optimized(tmp_path, model, "--opset", opset).graph.node for v in metadata(n).get("namespace", "").split("\n")}
    assert found >= {"in/m", "in/y"}
