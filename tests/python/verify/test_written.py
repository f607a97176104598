"""What is written, ONNX Runtime loads."""
import sys

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from conftest import ROOT, SHARED, assert_refused, listing, make_model, run, run_ok, value

sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
import loads  # noqa: E402

ZOO = SHARED / "data" / "zoo" / "models"


def loads_in_onnxruntime(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("opset", [13, 14, 17])
@pytest.mark.parametrize("name, ways", [("llama-dyS18d", ("slm", "precision")), ("gpt2-tsS17d", ("slm", "precision")), ("phi-tsE14d", ("slm",)),
                                        ("bert-tsE14d", ("precision",))])
def test_models_of_the_zoo(name, ways, opset):
    model = ZOO / f"{name}.onnx"
    if not model.is_file():
        pytest.skip(f"{model} is not there")
    assert [said for *_, said in loads.outcomes([model], [opset], ways)] == ["loads"] * len(ways)


# ---- what ONNX Runtime refuses of the input is mended

def node(op, inputs, output, name="n", **attributes):
    return helper.make_node(op, inputs, [output], name=name, **attributes)


def body(*nodes):
    return helper.make_graph(list(nodes), "body", [], [value(nodes[-1].output[0], TensorProto.FLOAT, ["n"])])


def choice(then, otherwise, output="z"):
    return helper.make_node("If", ["c"], [output], name="if", then_branch=then, else_branch=otherwise)


SIN = body(node("Sin", ["a"], "t"))
REFUSED = {
    "nodes of one name": ([node("Sin", ["x"], "a"), node("Cos", ["a"], "y")], ()),
    "nodes of a body of one name": ([node("Sin", ["x"], "a"), choice(body(node("Cos", ["a"], "q"), node("Exp", ["q"], "t")), SIN, "y")], ()),
    "a value of a body called as an input": ([node("Sin", ["x"], "a"), choice(body(node("Cos", ["a"], "x"), node("Exp", ["x"], "t")), SIN, "y")], ()),
    "a body that gives a value called as an input": ([node("Sin", ["x"], "a"), choice(body(node("Cos", ["a"], "x")), SIN, "y")], ()),
    "a body of a body": ([node("Sin", ["x"], "a"), choice(body(node("Cos", ["a"], "m"), choice(body(node("Exp", ["a"], "m"), node("Neg", ["m"], "t2")), SIN),
                                                              node("Add", ["z", "m"], "t", "add")), SIN, "y")], ()),
    "a function": ([helper.make_node("F", ["x"], ["a"], name="f", domain="own"), helper.make_node("F", ["a"], ["y"], name="g", domain="own")],
                   [helper.make_function("own", "F", ["i"], ["o"], [node("Sin", ["i"], "p"), node("Cos", ["p"], "o")], [helper.make_opsetid("", 18)])]),
}
VERBS = {
    "optimize": ("in.onnx", "-o", "out.onnx", "--no-verify"),
    "verified": ("in.onnx", "-o", "out.onnx"),
    "kept functions": ("in.onnx", "-o", "out.onnx", "--keep-functions", "--rules", "none"),
    "older opset": ("in.onnx", "-o", "out.onnx", "--target", "onnx", "--opset", "13"),
    "transform": ("transform", "in.onnx", "-o", "out.onnx", "--pass", "strip_metadata"),
    "text": ("transform", "in.onnx", "-o", "out.onnxtxt", "--pass", "strip_metadata"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_mended(tmp_path, case, verb):
    nodes, functions = REFUSED[case]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n"]), value("c", TensorProto.BOOL, [])], [value("y", TensorProto.FLOAT, ["n"])],
                       domains=["own"], functions=list(functions))
    onnx.save(model, tmp_path / "in.onnx")
    with pytest.raises(Exception, match="invalid model"):
        loads_in_onnxruntime(tmp_path / "in.onnx")
    run_ok(*VERBS[verb], cwd=tmp_path)
    if verb == "text":
        run_ok("transform", "out.onnxtxt", "-o", "out.onnx", "--pass", "strip_metadata", cwd=tmp_path)
    loads_in_onnxruntime(tmp_path / "out.onnx")
    run_ok("verify", "in.onnx", "out.onnx", cwd=tmp_path)


# ---- bodies and functions

def bodies(graph):
    for n in graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield a.g
                yield from bodies(a.g)


def test_bodies_get_no_value_info(tmp_path):
    """ONNX Runtime refuses a body whose types of captured values say other numbers than it infers around it."""
    gelu = [node("Div", ["a", "root"], "d", "1"), node("Erf", ["d"], "e", "2"), node("Add", ["e", "one"], "p", "3"), node("Mul", ["a", "p"], "q", "4"),
            node("Mul", ["q", "half"], "t", "5")]
    constants = [helper.make_tensor(name, TensorProto.FLOAT, [], [number]) for name, number in (("root", 2 ** .5), ("one", 1), ("half", .5))]
    model = make_model([node("Sin", ["x"], "a", "0"), choice(body(*gelu), SIN, "y")],
                       [value("x", TensorProto.FLOAT, [2, 3]), value("c", TensorProto.BOOL, [])], [value("y", TensorProto.FLOAT, None)], constants, opset=20)
    for g in bodies(model.graph):
        g.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "-o", "out.onnx", "--target", "onnx", cwd=tmp_path)
    made = onnx.load(tmp_path / "out.onnx")
    assert "Gelu" in [n.op_type for g in bodies(made.graph) for n in g.node]
    assert not [v.name for g in bodies(made.graph) for v in g.value_info]
    loads_in_onnxruntime(tmp_path / "out.onnx")


@pytest.mark.parametrize("opset", [11, 13, 17, 23])
def test_functions_with_bodies_follow_the_opset(tmp_path, opset):
    """One that can't be written out, since a body of it reads an attribute of the call."""
    leaky = helper.make_node("LeakyRelu", ["a"], ["t"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    total = node("ReduceSum", ["a"], "t")
    function = helper.make_function("own", "F", ["a", "c"], ["y"], [choice(body(leaky), body(total), "y")], [helper.make_opsetid("", 18)], ["slope"])
    for g in bodies(function):
        g.output[0].type.tensor_type.ClearField("shape")
    call = helper.make_node("F", ["x", "c"], ["y"], domain="own", slope=.25)
    model = make_model([call], [value("x", TensorProto.FLOAT, ["n"]), value("c", TensorProto.BOOL, [])], [value("y", TensorProto.FLOAT, ["m"])],
                       domains=["own"], functions=[function])
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "-o", "out.onnx", "--target", "onnx", "--opset", opset, cwd=tmp_path)
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"))
    loads_in_onnxruntime(tmp_path / "out.onnx")


def test_a_function_that_cannot_follow_is_refused(tmp_path):
    mean = helper.make_function("own", "F", ["a", "axes", "c"], ["y"],
                                [choice(body(helper.make_node("ReduceMean", ["a", "axes"], ["t"])), body(node("Sin", ["a"], "t")), "y")],
                                [helper.make_opsetid("", 18)], ["unused"])
    leaky = helper.make_node("LeakyRelu", ["a"], ["s"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="unused", type=onnx.AttributeProto.FLOAT))
    mean.node[0].attribute[1].g.node.insert(0, leaky)
    model = make_model([helper.make_node("F", ["x", "axes", "c"], ["y"], domain="own", unused=.5)],
                       [value("x", TensorProto.FLOAT, ["n"]), value("axes", TensorProto.INT64, [1]), value("c", TensorProto.BOOL, [])],
                       [value("y", TensorProto.FLOAT, None)], domains=["own"], functions=[mean])
    onnx.save(model, tmp_path / "in.onnx")
    before = listing(tmp_path)
    assert_refused(run("in.onnx", "-o", "out.onnx", "--target", "onnx", "--opset", 13, cwd=tmp_path), 1, tmp_path, before, "function own.F of opset 18")
