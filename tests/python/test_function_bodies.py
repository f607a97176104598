"""docs/functions.md: the standard's functions as their bodies and back, on the standard's own node cases; and functions of com.microsoft."""
import importlib.util
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import ROOT, binary, make_model, run_ok, tensor, value

SPEC = importlib.util.spec_from_file_location("bodies_table", ROOT / "bench" / "bodies_table.py")
bodies_table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bodies_table)

ROWS = {row[1].strip(): [cell.strip() for cell in row[2:-1]]
        for line in (ROOT / "docs" / "functions.md").read_text().splitlines() if len(row := line.split("|")) == 8 and row[4].strip()[:1].isdigit()}

MISSES = re.findall(r"`(\w+)`", (ROOT / "docs" / "functions.md").read_text().partition("\n## The cases that")[2].partition("\n## ")[0])


@pytest.fixture(scope="module")
def cases():
    return bodies_table.cases_with_bodies()


def test_the_table_has_every_function():
    functions = {s.name for s in onnx.defs.get_all_schemas() if s.has_function or s.has_context_dependent_function}
    assert set(ROWS) == functions


def test_each_miss_is_a_case(cases):
    assert MISSES and {f"test_{n}" for n in MISSES} <= set(cases[0]) | set(cases[1])
    assert len(MISSES) == len(set(MISSES))


def test_the_table_names_rules_that_exist():
    listed = {line.split()[0].split("[")[0] for line in run_ok("rules", "list").stdout.splitlines() if line.strip()}
    named = {w for row in ROWS.values() for cell in row[:2] for w in re.findall(r"`([a-z0-9_]+)`", cell)} - {"sdpa", "rope"}
    assert named and named <= listed, sorted(named - listed)


@pytest.mark.parametrize("function", ROWS)
def test_a_function_goes_to_its_body_and_comes_back(cases, function):
    """As many cases as the table says, each with the right result; the table says why the others do not."""
    plain = {n: c for n, c in cases[0].items() if bodies_table.operator_of(c) == function}
    expanded = {n: c for n, c in cases[1].items() if n.split("_expanded")[0] in plain}
    told = bodies_table.outcomes_of(binary(), plain, expanded)
    counts = bodies_table.counted(told)[function]
    misses = [t for t in told if not t["hit"]]
    assert {t["outcome"] for t in misses} <= {"kept", "parts"}, misses  # nothing wrong, nothing that does not run
    _, _, to, back, why = ROWS[function]
    assert [f"{counts[way][0]} of {counts[way][1]}" for way in ("body", "operator")] == [to, back], misses
    assert bool(why) == bool(misses), misses
    assert {t["case"].removeprefix("test_") for t in misses} == {n for n in MISSES if f"test_{n}" in plain or f"test_{n}" in expanded}


def geglu(channels):
    n = lambda *words, **more: helper.make_node(*words, **more)
    nodes = [n("Add", ["x", "b"], ["s"]), n("Split", ["s", "sizes"], ["h", "g"], axis=-1), n("Gelu", ["g"], ["e"]), n("Mul", ["h", "e"], ["y"])]
    weights = [tensor("b", np.linspace(-1, 1, channels, dtype=np.float32)), tensor("sizes", np.array([channels // 2] * 2, np.int64))]
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4, channels])], [value("y", TensorProto.FLOAT, ["n", 4, channels // 2])], weights, opset=20)


@pytest.mark.parametrize("channels", [2560, 2562])
def test_bias_split_gelu_of_the_channels_that_runtimes_take(tmp_path, channels):
    onnx.save(geglu(channels), tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--target", "ort-cuda", "--cost", "nodes", cwd=tmp_path)
    found = [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node]
    assert (found == ["BiasSplitGelu"]) == (channels == 2560), found
    if channels == 2560:
        run_ok("out.onnx", "back.onnx", "--target", "onnx", cwd=tmp_path)
        assert {n.domain for n in onnx.load(tmp_path / "back.onnx").graph.node} == {""}


def test_a_loss_of_negative_classes_is_an_assumption(tmp_path):
    n = lambda *words, **more: helper.make_node(*words, **more)
    axis = tensor("axis", np.array([1], np.int64))
    nodes = [n("Unsqueeze", ["t", "axis"], ["u"]), n("GatherElements", ["x", "u"], ["g"], axis=1), n("Neg", ["g"], ["m"]), n("Squeeze", ["m", "axis"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [3, 5]), value("t", TensorProto.INT64, [3])], [value("y", TensorProto.FLOAT, [3])], [axis], opset=18)
    onnx.save(model, tmp_path / "in.onnx")
    np.savez(tmp_path / "in.npz", x=np.ones([3, 5], np.float32), t=np.array([0, 4, 2]))
    for words, op in ((), "NegativeLogLikelihoodLoss"), (("--no-assume", "ids_in_range"), "GatherElements"):
        run_ok("in.onnx", "out.onnx", "--target", "onnx", "--cost", "nodes", "--inputs", "in.npz", *words, cwd=tmp_path)
        assert op in {node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node}
