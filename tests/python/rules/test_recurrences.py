"""Unrolled recurrences become LinearAttention where ONNX Runtime has it, whatever the order of the exporter's nodes, and nothing else does."""
import collections
import json

import numpy as np
import onnx
import pytest
import unrolled

from conftest import onnxruntime_outputs, run, run_ok

CASES = {
    "one token": (unrolled.by_token, dict(tokens=1)),
    "one token without a state": (unrolled.by_token, dict(tokens=1, state=False)),
    "one token by Einsum": (unrolled.by_token, dict(tokens=1, einsum=True, stacked=True)),
    "tokens": (unrolled.by_token, dict(tokens=4)),
    "tokens joined": (unrolled.by_token, dict(tokens=5, stacked=True, state=False)),
    "tokens by Einsum": (unrolled.by_token, dict(tokens=3, einsum=True)),
    "as many tokens as heads": (unrolled.by_token, dict(tokens=3, heads=3, key=3, value=3, batch=3)),
    "decayed sums": (unrolled.by_token, dict(tokens=3, delta=False)),
    "a chunk": (unrolled.by_chunk, dict(tokens=4)),
    "less than a chunk": (unrolled.by_chunk, dict(tokens=3, state=False)),
    "chunks": (unrolled.by_chunk, dict(tokens=11)),
    "chunks joined": (unrolled.by_chunk, dict(tokens=11, concat=True, state=False)),
    "chunks with a triangle": (unrolled.by_chunk, dict(tokens=8, concat=True, sums_by_product=True)),
    "chunks with decays apart": (unrolled.by_chunk, dict(tokens=9, split_decay=True)),
    "chunks, heads first": (unrolled.by_chunk, dict(tokens=9, heads_first=True, concat=True)),
    "sums in a chunk": (unrolled.by_sums, dict(tokens=4, state=False)),
    "sums in chunks": (unrolled.by_sums, dict(tokens=11)),
    "sums with a skip": (unrolled.by_sums, dict(tokens=8, after=("skip",))),
    "sums with a skip and a gate": (unrolled.by_sums, dict(tokens=9, after=("skip", "gate"), state=False)),
    "sums of shared keys": (unrolled.by_sums, dict(tokens=9, shared=True, after=("skip",))),
    "chunks as long as there are heads": (unrolled.by_chunk, dict(tokens=3, chunk=3, key=3, value=3, batch=3)),
}
WRONG = {
    "a step that does not decay": (unrolled.by_token, dict(tokens=3, wrong="no decay")),
    "a sign": (unrolled.by_token, dict(tokens=2, wrong="sign")),
    "a diagonal that is left out": (unrolled.by_sums, dict(tokens=8, wrong="diagonal")),
    "a diagonal that is not left out": (unrolled.by_chunk, dict(tokens=8, wrong="diagonal")),
}


def optimized(model, folder, target="ort-cpu@1.31"):
    onnx.save(model, folder / "in.onnx")
    run_ok(folder / "in.onnx", "-o", folder / "out.onnx", "--target", target)
    return onnx.load(folder / "out.onnx")


def count(model):
    return collections.Counter(n.op_type for n in model.graph.node)


def same(folder, shapes, sizes):
    feeds = unrolled.numbers(shapes, sizes)
    wanted, got = (onnxruntime_outputs(folder / f, feeds) for f in ("in.onnx", "out.onnx"))
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=2e-4, atol=2e-5)
    return feeds, got


@pytest.mark.parametrize("name", CASES)
def test_is_found(name, tmp_path):
    make, words = CASES[name]
    model, shapes = make(**words)
    result = count(optimized(model, tmp_path))
    assert result["LinearAttention"] == 1 and not set(result) & {"Exp", "ScatterND", "ScatterElements", "MatMul", "Einsum", "ReduceSum"}, result
    for batch in (1, 2, 3):
        feeds, got = same(tmp_path, shapes, {unrolled.B: batch})
    if make is unrolled.by_token:
        np.testing.assert_allclose(got["y"], unrolled.reference(feeds, words.get("delta", True))[0], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_almost_one_is_not(name, tmp_path):
    make, words = WRONG[name]
    model, shapes = make(**words)
    assert count(optimized(model, tmp_path))["LinearAttention"] == 0
    same(tmp_path, shapes, {unrolled.B: 2})


@pytest.mark.parametrize("target", ["ort-cpu@1.24", "onnx"])
def test_stays_where_the_target_has_no_such_operator(target, tmp_path):
    model, shapes = unrolled.by_token(tokens=2)
    assert count(optimized(model, tmp_path, target))["LinearAttention"] == 0
    same(tmp_path, shapes, {unrolled.B: 2})


def test_the_rule_can_be_left_out(tmp_path):
    model, _ = unrolled.by_token(tokens=2)
    onnx.save(model, tmp_path / "in.onnx")
    assert run(tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--skip-rule", "unrolled_recurrence").returncode == 0
    assert count(onnx.load(tmp_path / "out.onnx"))["LinearAttention"] == 0


def test_what_overflows_in_chunks_is_assumed_not_to(tmp_path):
    """Drawn keys are so long that the state grows beyond all numbers: NaN in the original, and elsewhere in the result."""
    model, _ = unrolled.by_chunk(tokens=64, chunk=64, heads=2, key=64, value=8, concat=True)
    onnx.save(model, tmp_path / "in.onnx")
    told = json.loads(run_ok(tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--json").stdout)
    assert count(onnx.load(tmp_path / "out.onnx"))["LinearAttention"] == 1
    assert "finite_recurrence" in json.dumps(told["assumed"]), told
    run_ok(tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--no-assume", "finite_recurrence", "--force")
    assert count(onnx.load(tmp_path / "out.onnx"))["LinearAttention"] == 0


def test_the_screen_names_the_release_that_has_the_operator(tmp_path):
    model, _ = unrolled.by_token(tokens=2)
    onnx.save(model, tmp_path / "in.onnx")
    done = run_ok(tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31")
    assert "ONNX Runtime 1.25 or newer" in done.stdout and "1 LinearAttention" in done.stdout, done.stdout


def test_each_layer_of_a_model_is_found(tmp_path):
    """Two that are spelled alike, of which the second reads what the first gives, and a third that is not."""
    alike, shapes = unrolled.by_chunk(tokens=6, batch=2, state=False)
    third, more = unrolled.by_token(tokens=6, batch=2, state=False)
    weight = np.random.default_rng(3).standard_normal((7, 7)).astype(np.float32)
    for m in (alike, third):
        next(n for n in m.graph.node if n.output[0] == "y").output[0] = "before"
        m.graph.node.append(onnx.helper.make_node("MatMul", ["before", "w"], ["y"]))
        m.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        m.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 6, 3, 7]))
    parts = [onnx.compose.add_prefix(m, p) for m, p in ((alike, "a_"), (alike, "b_"), (third, "c_"))]
    model = onnx.compose.merge_models(parts[0], parts[1], io_map=[("a_y", "b_v")])
    model = onnx.compose.merge_models(model, parts[2], io_map=[("b_y", "c_v")])
    assert count(optimized(model, tmp_path))["LinearAttention"] == 3
    feeds = {p + n: a for p, s in (("a_", shapes), ("b_", shapes), ("c_", more)) for n, a in unrolled.numbers(s).items() if p + n not in ("b_v", "c_v")}
    wanted, got = (onnxruntime_outputs(tmp_path / f, feeds) for f in ("in.onnx", "out.onnx"))
    np.testing.assert_allclose(got["c_y"], wanted["c_y"], rtol=2e-4, atol=2e-5)


def causal_convolution(function=False):
    g = unrolled.Graph()
    weight = g.constant(np.random.default_rng(0).standard_normal((6, 1, 4)).astype(np.float32))
    whole = g.Concat("p", "x", axis=2)
    g.nodes.append(onnx.helper.make_node("Slice", [whole, g.ints(-3), g.ints(2**40), g.ints(2)], ["s"]))
    g.nodes.append(onnx.helper.make_node("Conv", [whole, weight], ["y"], group=6))
    model = g.model({"x": ["batch", 6, 1], "p": ["batch", 6, 3]}, ["y", "s"])
    if not function:
        return model
    weights = model.graph.initializer[0]
    body = [onnx.helper.make_node("Constant", [], [i.name], value=i) for i in model.graph.initializer[1:]]
    body += [n for n in model.graph.node]
    own = onnx.helper.make_function("com.microsoft", "CausalConvWithState", ["x", weights.name, "b", "p"], ["y", "s"], body, [onnx.helper.make_opsetid("", 20)])
    graph = onnx.helper.make_graph([onnx.helper.make_node("CausalConvWithState", ["x", weights.name, "", "p"], ["y", "s"], domain="com.microsoft")], "g",
                                   model.graph.input, model.graph.output, [weights])
    imports = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=[own], ir_version=10)


@pytest.mark.parametrize("function", [False, True])
def test_a_convolution_with_a_state(function, tmp_path):
    """mobius writes a call of com.microsoft's operator, and a function of this name beside it: the operator is written, and the function goes."""
    result = optimized(causal_convolution(function), tmp_path)
    assert [n.op_type for n in result.graph.node] == ["CausalConvWithState"] and not result.functions, result
    same(tmp_path, {"x": ["batch", 6, 1], "p": ["batch", 6, 3]}, {"batch": 2})
