"""docs/functions.md: the standard's functions as their bodies and back, on the standard's own node cases; and functions of com.microsoft."""
import importlib.util
import pathlib
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import ROOT, binary, make_model, run_ok, said, tensor, value

SPEC = importlib.util.spec_from_file_location("bodies_table", ROOT / "bench" / "runtime" / "bodies_table.py")
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


def group_norm_by_hand(channels, groups, swish, skip, dtype=np.float32):
    """As torch's exporters write GroupNorm for opsets without: groups as instances, a scale and a bias for each channel."""
    n, kind = lambda *words, **more: helper.make_node(*words, **more), helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = "x" if not skip else "sum"
    nodes = [n("Add", ["x", "k"], ["sum"])] if skip else []
    nodes += [
        n("Reshape", [x, "rows"], ["r"]), n("InstanceNormalization", ["r", "ones", "zeros"], ["i"], epsilon=1e-5), n("Shape", [x], ["d"]),
        n("Reshape", ["i", "d"], ["w"]), n("Mul", ["w", "g"], ["m"]), n("Add", ["m", "b"], ["a" if swish else "y"]),
    ]
    if swish:
        nodes += [n("Sigmoid", ["a"], ["s"]), n("Mul", ["a", "s"], ["y"])]
    rng = np.random.default_rng(7)
    weights = [tensor("rows", np.array([0, groups, -1], np.int64)), tensor("ones", np.ones(groups, dtype)), tensor("zeros", np.zeros(groups, dtype))]
    weights += [tensor(name, rng.normal(size=[channels, 1, 1]).astype(dtype)) for name in ("g", "b")]
    shape = ["n", channels, 5, 4]
    inputs = [value(name, kind, shape) for name in (["x", "k"] if skip else ["x"])]
    outputs = [value(name, kind, shape) for name in (["y", "sum"] if skip else ["y"])]
    return make_model(nodes, inputs, outputs, weights, opset=17)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("swish", [False, True])
def test_group_norm_of_channels_last(tmp_path, swish, dtype):
    onnx.save(group_norm_by_hand(64, 32, swish, False, dtype), tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--target", "ort-cuda", "--cost", "nodes", cwd=tmp_path)
    nodes = onnx.load(tmp_path / "out.onnx").graph.node
    assert [node.op_type for node in nodes] == ["Transpose", "GroupNorm", "Transpose"]
    assert {a.name: a.i for a in nodes[1].attribute if a.type == onnx.AttributeProto.INT} == {"activation": int(swish), "groups": 32}
    run_ok("out.onnx", "back.onnx", "--target", "onnx", cwd=tmp_path)
    assert {n.domain for n in onnx.load(tmp_path / "back.onnx").graph.node} == {""}


def test_what_has_no_kernel_on_a_cpu_is_not_judged_there(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx.save(group_norm_by_hand(64, 32, False, False, np.float32), tmp_path / "in.onnx")
    there = ("--onnxruntime", pathlib.Path(onnxruntime.__file__).parent)
    told = said(run_ok("in.onnx", "out.onnx", "--target", "ort-cuda", "--cost", "nodes", *there, cwd=tmp_path))
    assert "verified here only, " in told and "not judged in ONNX Runtime" in told and "Could not find an implementation" in told, told
    assert "GroupNorm" in [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node]


def test_convolutions_between_group_norms_take_channels_last(tmp_path):
    weights = [tensor(n, np.random.default_rng(i).standard_normal(s).astype(np.float32)) for i, (n, s) in enumerate({"g": 64, "b": 64, "w": (64, 64, 3, 3), "c": 64}.items())]
    norm = lambda x, y: helper.make_node("GroupNorm", [x, "g", "b"], [y], domain="com.microsoft", activation=1, groups=32)
    turn = lambda x, y, *perm: helper.make_node("Transpose", [x], [y], perm=perm)
    nodes = [turn("x", "a", 0, 2, 3, 1), norm("a", "n"), turn("n", "t", 0, 3, 1, 2), helper.make_node("Conv", ["t", "w", "c"], ["v"], pads=[1, 1, 1, 1], strides=[2, 1]),
             turn("v", "a2", 0, 2, 3, 1), norm("a2", "n2"), turn("n2", "y", 0, 3, 1, 2)]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 64, 8, 6])], [value("y", TensorProto.FLOAT, ["n", 64, 4, 6])], weights, opset=17, domains=["com.microsoft"])
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--target", "ort-cuda", cwd=tmp_path)
    result = onnx.load(tmp_path / "out.onnx").graph.node
    assert [n.op_type for n in result] == ["Transpose", "GroupNorm", "NhwcConv", "GroupNorm", "Transpose"]
    assert all(a.i == 1 for n in result for a in n.attribute if a.name == "channels_last")
    run_ok("out.onnx", "back.onnx", "--target", "onnx", cwd=tmp_path)
    assert {n.domain for n in onnx.load(tmp_path / "back.onnx").graph.node} == {""}


# CUDA's kernel throws without an activation, and takes no other one.
@pytest.mark.parametrize("activation, found", [("Relu", ["FusedConv"]), (None, ["Conv", "Add"]), ("Sigmoid", ["Conv", "Add", "Sigmoid"])])
def test_fused_convolutions_for_cuda_have_a_relu(tmp_path, activation, found):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Add", ["c", "x"], ["y" if activation is None else "s"])]
    nodes += [] if activation is None else [helper.make_node(activation, ["s"], ["y"])]
    weights = [tensor("w", np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float32))]
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 8, 6, 6])], [value("y", TensorProto.FLOAT, ["n", 8, 6, 6])], weights, opset=17), tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--target", "ort-cuda", cwd=tmp_path)
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == found


def test_skip_group_norm_goes_to_the_standard(tmp_path):
    norm = helper.make_node("SkipGroupNorm", ["x", "g", "b", "k", "c"], ["y", "s"], domain="com.microsoft", activation=1, groups=3, epsilon=1e-3)
    inputs = [value(name, TensorProto.FLOAT, shape) for name, shape in {"x": ["n", 3, 5, 6], "g": [6], "b": [6], "k": ["n", 6], "c": [6]}.items()]
    outputs = [value(name, TensorProto.FLOAT, ["n", 3, 5, 6]) for name in ("y", "s")]
    model = make_model([norm], inputs, outputs, [], opset=21)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--target", "onnx", cwd=tmp_path)
    assert {n.domain for n in onnx.load(tmp_path / "out.onnx").graph.node} == {""}


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
