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
    "chunks as long as there are heads": (unrolled.by_chunk, dict(tokens=3, chunk=3, key=3, value=3, batch=3)),
}
WRONG = {
    "a step that does not decay": (unrolled.by_token, dict(tokens=3, wrong="no decay")),
    "a sign": (unrolled.by_token, dict(tokens=2, wrong="sign")),
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
