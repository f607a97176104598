"""Operators at ranks that a target takes: what is exempt, what stays, and what it costs."""
import collections
import json
import pathlib

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import make_model, run, run_ok, value

HEADER = '<ir_version: 10, opset_import: ["" : 20]>\n'


def saved(folder, text):
    onnx.save(onnx.parser.parse_model(HEADER + text), folder / "m.onnx")
    return folder / "m.onnx"


def target(folder, **keys):
    path = folder / "t.json"
    path.write_text(json.dumps({"name": "t", "min_opset": 13, "max_opset": 20, "cost_model": "nodes", **keys}))
    return path


def refused(model, of):
    return [f["op_type"] for f in json.loads(run("targets", "check", model, "--target", of, "--json").stdout)["inexpressible"]]


def optimized(model, of, folder, *words):
    report = json.loads(run_ok("optimize", model, folder / "out.onnx", "--target", of, "--json", *words).stdout)
    return onnx.load(folder / "out.onnx"), report


def counts(model):
    return collections.Counter(node.op_type for node in model.graph.node)


VIEWS = """g (float[2,3] x, int64[2,3] i) => (float[6] y, float[2,3] z) {
  s = Constant <value_ints = [6]> ()
  r = Reshape (x, s)
  t = Reshape (r, s)
  a = Relu (x)
  u = Reshape (a, s)
  n = Neg (u)
  y = Add (t, n)
  z = Cast <to = 1> (i)
}"""


def test_views_at_the_border_are_exempt(tmp_path):
    limits = [{"rank": 4, "dtypes": ["float"]}]
    model = saved(tmp_path, VIEWS)
    assert refused(model, target(tmp_path, limits=limits)) == ["Reshape", "Reshape", "Relu", "Reshape", "Neg", "Add", "Cast"]
    # The Reshape between Relu and Neg reaches neither an input nor an output by views alone.
    assert refused(model, target(tmp_path, limits=limits, border=["Reshape", "Cast"])) == ["Relu", "Reshape", "Neg", "Add"]
    assert refused(model, target(tmp_path, limits=limits, border=["Cast"])) == ["Reshape", "Reshape", "Relu", "Reshape", "Neg", "Add"]


def test_what_is_refused_anyhow_stands_between_views(tmp_path):
    model = saved(tmp_path, """g (float[3,4,4] x) => (float[3,4] y) {
  r = Relu (x)
  a = Softmax <axis = 1> (r)
  b = Det (a)
  o = Constant <value_ints = [3, 4]> ()
  c = Constant <value_ints = [3, 1]> ()
  d = Reshape (b, c)
  e = Expand (d, o)
  f = Softmax (e)
  y = Exp (f)
}""")
    result, report = optimized(model, "npu-4d", tmp_path)
    assert report["refused_before"] == 7 and sorted(refused(tmp_path / "out.onnx", "npu-4d")) == ["Det", "Reshape", "Reshape"]


@pytest.mark.parametrize("of", ["onnx", "ort-cpu"])
def test_targets_of_any_rank_see_no_such_rule(tmp_path, of):
    _, report = optimized(saved(tmp_path, VIEWS), of, tmp_path)
    assert not any(rule["rule"].startswith("rank_") for rule in report["saturation"]["rules"])


def test_products_without_matmul_and_without_conv(tmp_path):
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.normal(size=(5, 7)).astype(np.float32), "w")
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", TensorProto.FLOAT, [2, 3, 5])], [value("y", TensorProto.FLOAT, [2, 3, 7])])
    model.graph.initializer.append(weight)
    onnx.save(model, tmp_path / "m.onnx")
    found = counts(optimized(tmp_path / "m.onnx", target(tmp_path, standard=["Conv", "Reshape", "Transpose", "Add"]), tmp_path)[0])
    assert found["Conv"] == 1 and found["MatMul"] == 0
    kernel = numpy_helper.from_array(rng.normal(size=(5, 3, 1, 1)).astype(np.float32), "w")
    bias = numpy_helper.from_array(rng.normal(size=5).astype(np.float32), "b")
    model = make_model([helper.make_node("Conv", ["x", "w", "b"], ["y"])], [value("x", TensorProto.FLOAT, [2, 3, 4, 6])], [value("y", TensorProto.FLOAT, [2, 5, 4, 6])])
    model.graph.initializer.extend([kernel, bias])
    onnx.save(model, tmp_path / "m.onnx")
    found = counts(optimized(tmp_path / "m.onnx", target(tmp_path, standard=["MatMul", "Reshape", "Transpose", "Add"]), tmp_path)[0])
    assert found["MatMul"] == 1 and found["Conv"] == 0


def chain(layers, path):
    """Layers of normalization, product, GELU and sum at rank 3."""
    rng, nodes, constants, x = np.random.default_rng(1), [], [], "x"
    for i in range(layers):
        for name, array in ((f"s{i}", rng.normal(size=8)), (f"b{i}", rng.normal(size=8)), (f"w{i}", rng.normal(size=(8, 8)) / 4)):
            constants.append(numpy_helper.from_array(array.astype(np.float32), name))
        nodes += [helper.make_node("LayerNormalization", [x, f"s{i}", f"b{i}"], [f"n{i}"]), helper.make_node("MatMul", [f"n{i}", f"w{i}"], [f"p{i}"]),
                  helper.make_node("Gelu", [f"p{i}"], [f"g{i}"]), helper.make_node("Add", [x, f"g{i}"], [f"y{i}"])]
        x = f"y{i}"
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [1, 5, 8])], [value(x, TensorProto.FLOAT, [1, 5, 8])], opset=20)
    model.graph.initializer.extend(constants)
    onnx.save(model, path)


def test_enodes_are_linear_in_layers(tmp_path):
    sizes = {}
    for layers in (2, 4, 8, 16):
        chain(layers, tmp_path / "m.onnx")
        result, report = optimized(tmp_path / "m.onnx", "npu-4d", tmp_path)
        sizes[layers] = report["egraph"]["enodes"]
        assert report["refused_after"] == 0 and counts(result)["Reshape"] == 2
    assert sizes[16] - sizes[8] == 2 * (sizes[8] - sizes[4]) == 4 * (sizes[4] - sizes[2])
