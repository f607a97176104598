"""Valid models that were refused: each is optimized, verified and gives in ONNX Runtime what it gave."""
from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from conftest import run, run_ok, said

ort.set_default_logger_severity(4)


def value(name, dtype, dims):
    return helper.make_tensor_value_info(name, dtype, dims)


def saved(path, nodes, inputs, outputs, weights=(), opset=21, **imports):
    named = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, named)
    opsets = [helper.make_opsetid("", opset)] if opset else []
    opsets += [helper.make_opsetid(domain.replace("_", "."), version) for domain, version in imports.items()]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def ran(path, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def same(before, after, feeds, rtol=1e-5, atol=1e-6):
    for a, b in zip(ran(before, feeds), ran(after, feeds), strict=True):
        np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)


def drawn(*dims, seed=0):
    return np.random.default_rng(seed).normal(size=dims).astype(np.float32)


def counts(path):
    ops = [n.op_type for n in onnx.load(path).graph.node]
    return {op: ops.count(op) for op in ops}


def attention(path, keys, mask=None, opset=24, **attributes):
    inputs = [value("q", T.FLOAT, ["b", 2, "s", 4]), value("k", T.FLOAT, ["b", 2, keys, 4]), value("v", T.FLOAT, ["b", 2, keys, 4])]
    if mask:
        inputs.append(value("m", mask, ["s", keys]))
    node = helper.make_node("Attention", [i.name for i in inputs], ["y"], **attributes)
    return saved(path, [node], inputs, [value("y", T.FLOAT, ["b", 2, "s", 4])], opset=opset)


@pytest.mark.parametrize("opset", [13, 17, 22])
def test_attention_of_one_key_for_older_opsets(tmp_path, opset):
    """A query of infinities gives zeros there by the specification, and NaN by Softmax; ONNX Runtime gives NaN for both."""
    before, after = attention(tmp_path / "m.onnx", 1), tmp_path / "o.onnx"
    said = run_ok(before, "-o", after, "--target", "onnx", "--opset", opset, "-v").stdout
    assert "finite_attention" in said, said
    assert "Attention" not in counts(after) and onnx.load(after).opset_import[0].version == opset
    same(before, after, {"q": drawn(3, 2, 5, 4), "k": drawn(3, 2, 1, 4, seed=1), "v": drawn(3, 2, 1, 4, seed=2)})
    done = run(before, "-o", tmp_path / "no.onnx", "--target", "onnx", "--opset", opset, "--no-assume", "finite_attention")
    assert done.returncode != 0 and not (tmp_path / "no.onnx").exists()


def test_attention_that_stays_assumes_nothing(tmp_path):
    """Nor do models without one, whose inputs of NaN and infinities are compared as before."""
    assert "finite_attention" not in str(run_ok(attention(tmp_path / "m.onnx", "t"), "-o", tmp_path / "o.onnx", "--target", "onnx", "--json").stdout)
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["s"]),
             helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    inputs = [value("q", T.FLOAT, ["b", 2, "s", 4]), *(value(n, T.FLOAT, ["b", 2, "t", 4]) for n in "kv")]
    path = saved(tmp_path / "spelled.onnx", nodes, inputs, [value("y", T.FLOAT, None)], opset=17)
    assert "finite_attention" not in run_ok(path, "-o", tmp_path / "o.onnx", "--json").stdout


@pytest.mark.parametrize("dtype", [T.INT64, T.INT32, T.INT8, T.UINT8])
@pytest.mark.parametrize("opset", [23, 24])
def test_masks_of_integers_are_added(tmp_path, dtype, opset):
    before, after = attention(tmp_path / "m.onnx", "t", dtype, opset), tmp_path / "o.onnx"
    run_ok(before, "-o", after)
    mask = np.array([[0, 3, 1], [2, 0, 0]]).astype(helper.tensor_dtype_to_np_dtype(dtype))
    same(before, after, {"q": drawn(1, 2, 2, 4), "k": drawn(1, 2, 3, 4, seed=1), "v": drawn(1, 2, 3, 4, seed=2), "m": mask})


def group_normalization(path, dtype=np.float32):
    weights = {"s": np.arange(1, 7, dtype=dtype) / 3, "c": np.arange(6, dtype=dtype)}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("GroupNormalization", ["x", "s", "c"], ["y"], num_groups=3, epsilon=1e-3)
    return saved(path, [node], [value("x", kind, ["n", 6, 4, 5])], [value("y", kind, ["n", 6, 4, 5])], weights)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("opset", [17, 18, 19, 20, 21])
def test_group_normalization_for_older_opsets(tmp_path, opset, dtype):
    """That of opset 18 scales groups, not channels."""
    before, after = group_normalization(tmp_path / "m.onnx", dtype), tmp_path / "o.onnx"
    run_ok(before, "-o", after, "--target", "onnx", "--opset", opset)
    assert ("GroupNormalization" in counts(after)) == (opset == 21)
    near = 1e-2 if dtype == np.float16 else 1e-5
    same(before, after, {"x": drawn(2, 6, 4, 5).astype(dtype)}, near, near)


def sparse(dims, places, numbers):
    return helper.make_sparse_tensor(numpy_helper.from_array(np.asarray(numbers), "numbers"), numpy_helper.from_array(np.asarray(places), "places"), dims)


@pytest.mark.parametrize("places", [[1, 5, 7], [[0, 1], [1, 1], [1, 3]]])
@pytest.mark.parametrize("options", [(), ("--opset", 23), ("--target", "onnx", "--opset", 13)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_sparse_constants(tmp_path, dtype, options, places):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Constant", [], ["c"], sparse_value=sparse([2, 4], places, np.array([3, -2, 5], dtype))),
             helper.make_node("Add", ["x", "c"], ["y"])]
    before, after = saved(tmp_path / "m.onnx", nodes, [value("x", kind, [2, 4])], [value("y", kind, [2, 4])], opset=17), tmp_path / "o.onnx"
    run_ok(before, "-o", after, *options)
    x = np.arange(8, dtype=dtype).reshape(2, 4)
    same(before, after, {"x": x})
    expected = x.copy()
    expected[0, 1], expected[1, 1], expected[1, 3] = expected[0, 1] + 3, expected[1, 1] - 2, expected[1, 3] + 5
    np.testing.assert_array_equal(ran(after, {"x": x})[0], expected)


def test_sparse_constants_that_are_large_or_wrong(tmp_path):
    def made(dims, places, opset=17):
        nodes = [helper.make_node("Constant", [], ["c"], sparse_value=sparse(dims, places, np.ones(2, np.float32))),
                 helper.make_node("ReduceSum", ["c"], ["t"], keepdims=0), helper.make_node("Add", ["x", "t"], ["y"])]
        return saved(tmp_path / "m.onnx", nodes, [value("x", T.FLOAT, [])], [value("y", T.FLOAT, [])], opset=opset)

    after = tmp_path / "o.onnx"
    run_ok(made([2000, 2000], [1, 5]), "-o", after, "--opset", 23)
    assert after.stat().st_size < 100_000
    same(tmp_path / "m.onnx", after, {"x": np.array(2, np.float32)})
    done = run(made([2, 2], [1, 9]), "-o", tmp_path / "no.onnx")
    assert done.returncode in (1, 5) and "a sparse constant" in done.stderr and "outside" in done.stderr, done.stderr


@pytest.mark.parametrize("past, rows, batch, past_is_there", [
    ("p", "s", "b", True), ("p", "s", "b", False), (12, "s", 1, True), (12, 1, "b", True), (12, 1, 2, True), ("p", 5, 1, True), ("p", 1, 2, False)])
@pytest.mark.parametrize("total", [[], [1]])
def test_lengths_of_a_group_query_attention_as_inputs(tmp_path, past, rows, batch, past_is_there, total):
    heads, kv, size = 4, 2, 8
    inputs = [value("q", T.FLOAT, [batch, rows, heads * size]), value("k", T.FLOAT, [batch, rows, kv * size]), value("v", T.FLOAT, [batch, rows, kv * size])]
    pasts = [value(n, T.FLOAT, [batch, kv, past, size]) for n in ("pk", "pv")] if past_is_there else []
    inputs += [*pasts, value("last", T.INT32, [batch]), value("total", T.INT32, total)]
    node = helper.make_node("GroupQueryAttention", ["q", "k", "v", *(["pk", "pv"] if past_is_there else ["", ""]), "last", "total"], ["y", "ok", "ov"],
                            domain="com.microsoft", num_heads=heads, kv_num_heads=kv)
    outputs = [value("y", T.FLOAT, [batch, rows, heads * size]), *(value(n, T.FLOAT, None) for n in ("ok", "ov"))]
    path = saved(tmp_path / "m.onnx", [node], inputs, outputs, opset=17, com_microsoft=1)
    told = said(run_ok(path, "-o", tmp_path / "o.onnx"))
    assert re.search(r"verified here only \(onnxruntime is not installed\), \d+ inputs", told), told


def test_models_without_the_standards_opset(tmp_path):
    node = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0])
    path = saved(tmp_path / "m.onnx", [node], [value("x", T.FLOAT, ["n", 3])], [value("y", T.FLOAT, ["n", 3])], opset=0, ai_onnx_ml=1)
    said = run_ok(path, "-o", tmp_path / "o.onnx").stdout
    assert "or newer (IR " in said and "opset 0" not in said, said


def test_nothing_but_the_opset_is_no_change(tmp_path):
    nodes = [helper.make_node("Scaler", ["x"], ["t"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0]), helper.make_node("Relu", ["t"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", T.FLOAT, ["n", 3])], [value("y", T.FLOAT, ["n", 3])], opset=22, ai_onnx_ml=1)
    after = tmp_path / "o.onnx"
    run_ok(path, "-o", after, "--target", "ort-cpu@1.31")
    assert {i.domain: i.version for i in onnx.load(after).opset_import}[""] == 22
    run_ok(path, "-o", after, "--target", "ort-cpu@1.20")
    assert {i.domain: i.version for i in onnx.load(after).opset_import}[""] == 21


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample_by_scales_that_are_an_input(tmp_path, mode):
    """Resize, its form in newer opsets, has them at another place."""
    node = helper.make_node("Upsample", ["x", "scales"], ["y"], mode=mode)
    before = saved(tmp_path / "m.onnx", [node], [value("x", T.FLOAT, ["n", 1, 2, 3]), value("scales", T.FLOAT, [4])], [value("y", T.FLOAT, None)], opset=9)
    after = tmp_path / "o.onnx"
    run_ok(before, "-o", after, "--no-verify")
    assert counts(after) == {"Upsample": 1}
    same(before, after, {"x": drawn(2, 1, 2, 3), "scales": np.array([1, 1, 2, 3], np.float32)})
