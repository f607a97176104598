"""What is written, ONNX Runtime loads."""
import sys

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from conftest import ROOT, SHARED, make_model, run_ok, value

sys.path.insert(0, str(ROOT / "bench"))
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
