"""Shapes of inputs that a model leaves open, found by trial: `run --random`, `bench` and verification tell what they took."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run, run_ok, said, tensor, value

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def without_shape(name, dtype=FLOAT):
    info = onnx.ValueInfoProto(name=name)
    info.type.tensor_type.elem_type = dtype
    return info


def product(shape=None):
    """MatMul behind a Reshape: the size of the product stands in the shape alone."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    constants = [tensor("shape", np.array([-1, 4, 6])), tensor("w", np.ones((6, 3), np.float32))]
    return make_model(nodes, [without_shape("x") if shape is None else value("x", FLOAT, shape)], [without_shape("y")], constants)


def convolution():
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], strides=[2, 2]), helper.make_node("Relu", ["a"], ["y"])]
    return make_model(nodes, [without_shape("x")], [without_shape("y")], [tensor("w", np.ones((4, 3, 5, 5), np.float32))])


def two_of_one_rank():
    """A sum of a vector of rows and a matrix that only fit with each other."""
    nodes = [helper.make_node("MatMul", ["x", "z"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    return make_model(nodes, [without_shape("x"), without_shape("z")], [without_shape("y")], [tensor("w", np.ones((7, 2), np.float32))])


def table():
    nodes = [helper.make_node("Gather", ["t", "ids"], ["a"]), helper.make_node("Transpose", ["a"], ["y"], perm=[2, 0, 1])]
    return make_model(nodes, [without_shape("ids", INT64)], [without_shape("y")], [tensor("t", np.ones((9, 4), np.float32))])


MODELS = {"product": product, "convolution": convolution, "two": two_of_one_rank, "table": table}


@pytest.fixture(params=MODELS)
def path(request, tmp_path):
    onnx.save(MODELS[request.param](), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_run_finds_a_shape_and_tells_it(path):
    told = json.loads(run_ok("run", path, "--random", "--json").stdout)
    assert [t.split(" ")[0] for t in told["random"]["by_trial"]] == [i.name for i in onnx.load(path).graph.input]
    assert told["random"]["size_1"] == []
    text = said(run_ok("run", path, "--random"))
    assert "note: shapes of inputs were found by trial: " + told["random"]["by_trial"][0] in text and "--input-shapes gives others" in text
    again = json.loads(run_ok("run", path, "--random", "--json").stdout)
    assert again == told


def test_what_was_taken_may_be_given(path, tmp_path):
    taken = json.loads(run_ok("run", path, "--random", "--json").stdout)
    shapes = [word for text in taken["random"]["by_trial"] for word in ("--input-shapes", text.replace(" [", ":", 1).replace(" ", "").rstrip("]"))]
    given = json.loads(run_ok("run", path, "--random", *shapes, "--json").stdout)
    assert given["outputs"] == taken["outputs"] and given["random"]["by_trial"] == []


def test_bench_finds_a_shape_and_tells_it(path):
    told = json.loads(run_ok("bench", path, path, "--iterations", 2, "--json").stdout)
    assert told["shapes_by_trial"] == json.loads(run_ok("run", path, "--random", "--json").stdout)["random"]["by_trial"]
    assert "note: shapes of inputs were found by trial" in said(run_ok("bench", path, "--iterations", 2))


def test_verification_tells_what_it_took(path, tmp_path):
    done = run_ok(path, "-o", tmp_path / "out.onnx", "--report", tmp_path / "r.json")
    (note,) = [n for n in json.loads((tmp_path / "r.json").read_text())["verify"]["notes"] if "no rank" in n]
    assert all(f"{i.name} [" in note for i in onnx.load(path).graph.input) and "taken by trial" in said(done)
    assert "taken by trial" in run_ok("verify", path, tmp_path / "out.onnx").stdout


def test_open_dims_that_do_not_take_1(tmp_path):
    onnx.save(product(["n", "m"]), tmp_path / "m.onnx")
    told = json.loads(run_ok("run", tmp_path / "m.onnx", "--random", "--json").stdout)["random"]
    assert told["size_1"] == [] and told["by_trial"][0] in ("x [4, 6]", "x [6, 4]")
    told = json.loads(run_ok("run", tmp_path / "m.onnx", "--random", "--dim", "n=24", "--json").stdout)["random"]
    assert told["size_1"] == ["m"] and told["by_trial"] == []


def test_of_two_inputs_one_may_be_given(tmp_path):
    onnx.save(two_of_one_rank(), tmp_path / "m.onnx")
    told = json.loads(run_ok("run", tmp_path / "m.onnx", "--random", "--input-shapes", "z:5,7", "--json").stdout)
    (taken,) = told["random"]["by_trial"]
    assert taken.startswith("x [") and taken.endswith("5]") and told["outputs"][0]["shape"][-1] == 2


def test_where_1_does_nothing_is_tried(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    onnx.save(make_model(nodes, [value("x", FLOAT, ["n", "m"])], [value("y", FLOAT, ["n", "m"])]), tmp_path / "m.onnx")
    told = json.loads(run_ok("run", tmp_path / "m.onnx", "--random", "--json").stdout)
    assert told["random"]["size_1"] == ["n", "m"] and told["random"]["by_trial"] == [] and told["outputs"][0]["shape"] == [1, 1]


def test_nothing_fits(tmp_path):
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    constants = [tensor("shape", np.array([-1, 5])), tensor("w", np.ones((6, 3), np.float32))]
    onnx.save(make_model(nodes, [value("x", FLOAT, ["n", "m"])], [without_shape("y")], constants), tmp_path / "m.onnx")
    done = run("run", tmp_path / "m.onnx", "--random")
    assert done.returncode != 0 and "shapes of its inputs were tried" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_other_errors_are_told_at_once(tmp_path):
    nodes = [helper.make_node("Log", ["x"], ["y"], name="log_of_zero")]
    onnx.save(make_model(nodes, [value("x", FLOAT, ["n", 400])], [value("y", FLOAT, ["n", 400])]), tmp_path / "m.onnx")
    done = run("run", tmp_path / "m.onnx", "--random", "--check-finite")
    assert done.returncode != 0 and "log_of_zero" in done.stderr and "tried" not in done.stderr
