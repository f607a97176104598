"""`onnx_saturate.transform`: the same passes as the command, on what Python has as a model."""
import numpy as np
import onnx
import pytest
from conftest import make_model, tensor, value
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")


@pytest.fixture
def model():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 3])], [value("y", TensorProto.FLOAT, ["n", 3])], [tensor("w", np.eye(3, dtype=np.float32))])


def test_passes_by_name_and_with_fields(model):
    result = onnx_saturate.transform(model, [{"pass": "expose", "values": ["h"]}, "infer_shapes", {"pass": "rename_inputs", "names": {"x": "a"}}])
    assert [o.name for o in result.graph.output] == ["y", "h"] and [i.name for i in result.graph.input] == ["a"]
    assert [i.name for i in model.graph.input] == ["x"]  # never changed
    assert isinstance(onnx_saturate.transform(model.SerializeToString(), "strip_metadata"), bytes)


def test_a_file_and_a_report(model, tmp_path):
    path, report, table = onnx_saturate.transform_with_report(model, ["freeze"], tmp_path / "o.onnx")
    assert path == tmp_path / "o.onnx" and onnx.load(path).graph.node and report["passes"][0]["pass"] == "freeze" and "freeze" in table


def test_surgeries_of_olive(model):
    result = onnx_saturate.transform(model, {"type": "GraphSurgeries", "surgeries": [{"surgeon": "RenameOutputs", "old_names": ["y"], "new_names": ["z"]}]})
    assert result.graph.output[0].name == "z"


def test_what_is_wrong_is_raised(model):
    with pytest.raises(onnx_saturate.OptionError, match="did you mean 'rename_inputs'"):
        onnx_saturate.transform(model, [{"pass": "rename_input"}])
    with pytest.raises(onnx_saturate.Error, match="pass freeze: names: 'x': it has no default"):
        onnx_saturate.transform(model, [{"pass": "freeze", "names": ["x"]}])
    assert {p["pass"] for p in onnx_saturate.passes()} >= {"cut", "merge", "rewrite"}


def test_split_makes_a_chain(model):
    first, second = onnx_saturate.split(model, ["h"])
    assert [o.name for o in first.graph.output] == ["h"] and [i.name for i in second.graph.input] == ["h"]
    feeds = {"x": np.ones([2, 3], np.float32)}
    middle = onnx_saturate.run(first, feeds)
    whole, parts = onnx_saturate.run(model, feeds), onnx_saturate.run(second, {"h": middle["h"]})
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values)
    with pytest.raises(onnx_saturate.OptionError, match="nothing"):
        onnx_saturate.split(model, ["nothing"])
