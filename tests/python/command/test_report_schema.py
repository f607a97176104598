"""docs/report.schema.json: every report is of this form, and what it tells of nodes and files is so."""
import hashlib
import json

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, ROOT, SHARED, make_model, run_ok, value

BART = DATA / "bart_encoder.onnx"
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
ZOO = sorted((SHARED / "data" / "zoo" / "models").glob("*.onnx"))[::11]


def reported(folder, path, *words):
    run_ok(path, folder / "out.onnx", "--report", folder / "r.json", *words)
    report = json.loads((folder / "r.json").read_text())
    VALIDATOR.validate(report)
    return report


def outputs(path):
    graph = onnx.load(path).graph
    return {o for n in graph.node for o in n.output if o} | {i.name for i in graph.initializer}


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({"schema": 1})


@pytest.mark.parametrize("words", [(), ("--cost", "nodes"), ("--no-verify",), ("--target", "npu-4d", "--dim", "batch=1", "--io-rank", "4"), ("--cost-at", "batch=2"),
                                   ("--rules", "none"), ("--iterations", "1")])
def test_reports(tmp_path, words):
    report = reported(tmp_path, BART, *words)
    assert report["verified"] == ("--no-verify" not in words)
    assert [n["op_type"].split(".")[-1] for n in report["nodes_after"]] == [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node]
    made = {n["output"] for n in report["made_by_rules"]}
    assert made <= {n["output"] for n in report["provenance"] if n["rules"]}
    gone = {r["output"] for n in report["provenance"] for r in n["replaces"]}
    assert gone <= {o for n in onnx.load(BART).graph.node for o in n.output} or "--io-rank" in words  # Reshapes stand at the border before
    assert bool(gone) or words == ("--rules", "none") or "--iterations" in words
    printed = json.loads(run_ok(BART, tmp_path / "out.onnx", "--json", *words).stdout)
    VALIDATOR.validate(printed)
    assert set(printed) == set(report)


@pytest.mark.parametrize("path", ZOO, ids=lambda p: p.stem)
def test_reports_of_the_zoo(tmp_path, path):
    report = reported(tmp_path, path)
    assert set(report["vanished"]) == outputs(path) - outputs(tmp_path / "out.onnx") - {i.name for i in onnx.load(path).graph.initializer}
    assert 0 < report["cost_after"] <= report["cost_before"] * 1.0001


def test_a_model_with_bodies(tmp_path):
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "then", [], [value("t", TensorProto.FLOAT, ["n"])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [value("e", TensorProto.FLOAT, ["n"])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    onnx.save(make_model([node], [value("x", TensorProto.FLOAT, ["n"]), value("c", TensorProto.BOOL, [])], [value("y", TensorProto.FLOAT, ["n"])]), tmp_path / "m.onnx")
    reported(tmp_path, tmp_path / "m.onnx")


def test_each_node_has_a_cost(tmp_path):
    report = reported(tmp_path, BART, "--cost", "nodes", "--target", "onnx")
    costs = {n["op_type"]: n["cost"] for n in report["nodes_after"]}
    assert costs["MatMul"] == pytest.approx(1, abs=1e-4) == costs["LayerNormalization"] and report["cost_unit"] == "operators"
    assert report["cost_after"] <= sum(n["cost"] for n in report["nodes_after"]) * 1.001  # some are fused at load
    assert len(report["nodes_before"]) == len(onnx.load(BART).graph.node)
    report = reported(tmp_path, BART)
    costs = [n["cost"] for n in report["nodes_after"] if n["op_type"] == "com.microsoft.Attention"]
    assert len(costs) == 2 and all(1e-7 < cost < 1e-3 for cost in costs) and report["cost_unit"] == "s"


def test_files_are_named_by_their_sums(tmp_path):
    rules = tmp_path / "mine.rules"
    rules.write_text('opset "" 20\nrule relu_relu (X) => (Y)\n  Relu (Relu (X))\n  => Relu (X)\n  example X = float[2,3]\n')
    report = reported(tmp_path, BART, "--rules", rules, "--seed", "7")
    files = {f["role"]: f for f in report["files"]}
    assert set(files) == {"input", "output", "rules"}
    for file in files.values():
        data = open(file["path"], "rb").read()
        assert file["bytes"] == len(data) and file["sha256"] == hashlib.sha256(data).hexdigest()
    assert {"name": "--seed", "value": "7"} in report["options"]
    assert report["target_contents"]["name"] == "ort-cpu@1.20" and report["target_release"] == "1.20"
    assert report["machine"]["processors"] >= 1 and report["peak_memory_bytes"] > 10_000_000
    assert report["explain"].startswith("saturate explain ")


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000])
def test_sums_of_any_length(tmp_path, length):
    rules = tmp_path / "mine.rules"
    rules.write_text("#" * length)
    report = reported(tmp_path, BART, "--rules", rules, "--no-verify", "--iterations", "1")
    file = next(f for f in report["files"] if f["role"] == "rules")
    assert file["sha256"] == hashlib.sha256(rules.read_bytes()).hexdigest() and file["bytes"] == length


def of_gelu(half=0.5, outer=True):
    """Gelu with this number in the place of its half, and a Softmax that is no attention."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Div", ["a", "root"], ["b"]), helper.make_node("Erf", ["b"], ["c"]),
        helper.make_node("Add", ["c", "one"], ["d"]), helper.make_node("Mul", ["a", "d"], ["e"]), helper.make_node("Mul", ["e", "half"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"]),
    ]  # fmt: skip
    numbers = {"w": np.linspace(-1, 1, 16).reshape(4, 4), "root": 2**0.5, "one": 1, "half": half}
    constants = [onnx.numpy_helper.from_array(np.asarray(number, np.float32), name) for name, number in numbers.items()]
    shape = ["n", 4]
    return make_model(nodes, [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, shape)], constants, opset=20, ir_version=9)


def not_fused(folder, model, *words):
    onnx.save(model, folder / "in.onnx")
    return {p["place"]: p for p in reported(folder, folder / "in.onnx", "--cost", "nodes", *words)["not_fused"]}


def test_what_was_not_fused_and_why(tmp_path):
    fused = not_fused(tmp_path, of_gelu())
    assert fused == {}  # its last Softmax weighs no values: that is no missed attention
    off = not_fused(tmp_path, of_gelu(half=0.25))["c"]
    # The rule and its condition are those that explain tells.
    told = json.loads(run_ok("explain", tmp_path / "in.onnx", "--cost", "nodes", "--op", "Gelu", "--json").stdout)
    (place,) = [p for p in told["places"] if p["value"] == "c"]
    assert (off["operator"], off["rule"], off["reason"]) == ("Gelu", place["nearest"][0]["rule"], place["nearest"][0]["reason"]), off
    older = not_fused(tmp_path, of_gelu(), "--target", "onnx", "--opset", "18")["c"]
    assert older["found"] and older["operator"] == "Gelu" and "it needs opset 20" in older["reason"] and older["rule"], older


@pytest.mark.parametrize("path", [BART, *ZOO[:3]], ids=lambda p: p.name)
def test_a_report_changes_no_result(tmp_path, path):
    run_ok(path, "-o", tmp_path / "a.onnx", "--no-verify")
    run_ok(path, "-o", tmp_path / "b.onnx", "--report", tmp_path / "r.json", "--no-verify")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_operators_of_the_model_are_no_places(tmp_path):
    nodes = [helper.make_node("LayerNormalization", ["x", "s"], ["n"]), helper.make_node("Gelu", ["n"], ["y"])]
    scale = onnx.numpy_helper.from_array(np.ones(4, np.float32), "s")
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])], [scale], opset=20, ir_version=9)
    assert not_fused(tmp_path, model) == {}


def test_many_places_are_not_all_told(tmp_path):
    """Layers alike: of each operator some dozen places are told, however many there are."""
    nodes = [helper.make_node("Erf", ["x" if i == 0 else f"s{i - 1}"], [f"s{i}"]) for i in range(60)]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("s59", TensorProto.FLOAT, ["n", 4])], opset=20, ir_version=9)
    assert 0 < len(not_fused(tmp_path, model)) <= 32


def test_not_fused_in_a_body(tmp_path):
    inner = of_gelu(half=0.25).graph
    bodies = []
    for kind in ("then", "else"):
        nodes = [helper.make_node(n.op_type, [i if i in ("x", "w", "root", "one", "half") else f"{kind}_{i}" for i in n.input], [f"{kind}_{o}" for o in n.output]) for n in inner.node]
        bodies.append(helper.make_graph(nodes, kind, [], [value(f"{kind}_y", TensorProto.FLOAT, ["n", 4])]))
    node = helper.make_node("If", ["p"], ["y"], then_branch=bodies[0], else_branch=bodies[1])
    inputs = [value("x", TensorProto.FLOAT, ["n", 4]), value("p", TensorProto.BOOL, [])]
    found = not_fused(tmp_path, make_model([node], inputs, [value("y", TensorProto.FLOAT, ["n", 4])], list(inner.initializer), opset=20, ir_version=9))
    assert found["then_c"]["where"] == "then_branch of 'y'" and found["else_c"]["where"] == "else_branch of 'y'"
