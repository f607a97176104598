"""`saturate targets`: what can't be expressed is said node by node, and extraction keeps to the limits."""
import json

import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run, run_ok, value

NAMES = ["npu-4d", "onnx", "ort-cpu", "ort-cuda", "ort-web", "qnn-htp"]


def test_list_and_show():
    assert [t["name"] for t in json.loads(run_ok("targets", "list", "--json").stdout)] == NAMES
    shown = json.loads(run_ok("targets", "show", "npu-4d").stdout)
    assert shown["limits"][0]["rank"] == 4 and "Conv" in shown["standard"]


@pytest.fixture
def model(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Det", ["r"], ["d"], name="determinant"), helper.make_node("Neg", ["d"], ["y"])]
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, [1, "c", 3, 3])], [value("y", TensorProto.FLOAT, [1, "c"])]), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_check_says_what_and_why(model):
    done = run("targets", "check", model, "--target", "npu-4d", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)["inexpressible"]
    assert [f["op_type"] for f in found] == ["Relu", "Det", "Neg"]
    assert "the dim c" in found[0]["reason"] and "has no Det" in found[1]["reason"]
    assert done.stderr.count("\n") == 1 and "3 nodes" in done.stderr
    found = json.loads(run("targets", "check", model, "--target", "npu-4d", "--dim", "c=4", "--json").stdout)["inexpressible"]
    assert [f["node"] for f in found] == ["determinant", "y"]
    assert "rank 2" in found[1]["reason"]


def test_check_of_what_fits(model):
    done = run_ok("targets", "check", model, "--target", "onnx")
    assert "takes every node" in done.stdout


def test_check_looks_into_bodies(tmp_path):
    branch = lambda op: helper.make_graph([helper.make_node(op, ["x"], ["b"])], "b", [], [value("b", TensorProto.FLOAT, [2])])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch("Selu"), else_branch=branch("Tanh"))]
    onnx.save(make_model(nodes, [value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]), tmp_path / "m.onnx")
    found = json.loads(run("targets", "check", tmp_path / "m.onnx", "--target", "ort-web", "--json").stdout)["inexpressible"]
    assert [f["op_type"] for f in found] == ["Selu"]


def test_usage(model):
    assert run("targets", "check").returncode == 2
    assert run("targets", "check", model).returncode == 2
    assert run("targets", "check", model, "--target", "nonsense").returncode == 1


def test_optimize_warns_of_what_stays(model, tmp_path):
    done = run_ok("optimize", model, tmp_path / "out.onnx", "--target", "npu-4d", "--dim", "c=4", "--json")
    assert any("2 nodes" in w and "Det" in w for w in json.loads(done.stdout)["warnings"])
