"""`saturate transform --pass precision`: which operators work in half precision, and that the results are near the float model's."""
import json

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.reference
import pytest
from onnx import TensorProto as T

from conftest import assert_refused, listing, run, run_ok
from test_transform import ZOO, in_onnxruntime, parsed, transformed

F16, BF16 = T.FLOAT16, T.BFLOAT16
RNG = np.random.default_rng(5)  # begun again for each test: see conftest.py
BLOCK = """
agraph (float[n,8] x) => (float[n,8] y) <float[8] scale = {1,1,1,1,2,2,2,2}, float[8] bias = {0,0,0,0,1,1,1,1}> {
  norm = LayerNormalization (x, scale, bias)
  turned = Transpose (norm)
  scores = MatMul (norm, turned)
  weights = Softmax (scores)
  mixed = MatMul (weights, norm)
  y = Add (mixed, x)
}"""


def half(tmp_path, model, fields="", *words):
    return transformed(tmp_path, model, "--pass", f"precision:{fields}" if fields else "precision", *words)


def types(model):
    """The type of every value, as ONNX infers it."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    known = {v.name: v.type.tensor_type.elem_type for v in [*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output]}
    return known | {i.name: i.data_type for i in inferred.graph.initializer}


def works_in(model, op):
    """Of the first operator of this name: the types that it reads."""
    known, node = types(model), next(n for n in model.graph.node if n.op_type == op)
    return {known[name] for name in node.input if name} & {T.FLOAT, F16, BF16}


def rounded(model, feeds):
    """As onnx's own evaluator has it: ONNX Runtime's CPU leaves out roundings between two operators."""
    return dict(zip([o.name for o in model.graph.output], onnx.reference.ReferenceEvaluator(model).run(None, feeds)))


def apart(model, result, feeds, runtime=in_onnxruntime):
    a, b = runtime(model, feeds), runtime(result, feeds)
    return max(float(np.abs(a[k].astype(np.float64) - b[k].astype(np.float64)).max() / np.abs(a[k]).max()) for k in a)


def test_operators_work_in_half_precision(tmp_path):
    model = parsed(BLOCK)
    result, report = half(tmp_path, model)
    assert works_in(result, "MatMul") == works_in(result, "LayerNormalization") == works_in(result, "Add") == {F16}
    assert works_in(result, "Softmax") == {T.FLOAT}
    assert types(result)["y"] == types(result)["x"] == T.FLOAT
    assert 0 < apart(model, result, {"x": RNG.standard_normal((4, 8)).astype(np.float32)}) < 2e-2
    assert any("1 operator stays in float (on the list): weights" in note for p in report["passes"] for note in p["notes"])


def test_the_list_of_what_stays_is_the_users(tmp_path):
    result, _ = half(tmp_path, parsed(BLOCK), "keep=LayerNormalization;also_keep=y")
    assert works_in(result, "Softmax") == {F16} and works_in(result, "LayerNormalization") == works_in(result, "Add") == {T.FLOAT}


def test_what_is_known_of_a_value_is_known_of_its_half(tmp_path):
    """ONNX Runtime infers an output of size 0 of an Attention whose V has a last dim that it doesn't know, and refuses the product behind."""
    model = parsed("""
agraph (float[b,s,16] q, float[b,s,16] k, float[c,8] v) => (float[b,s,3] y) <int64[1] n = {16}, float[16,3] w, float[b,s,16] r> {
  d = Shape <start = 0, end = 2> (q)
  e = Concat <axis = 0> (d, n)
  r = Reshape (v, e)
  a = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, r)
  y = MatMul (a, w)
}""", opset=23, ir=11)
    weight = RNG.standard_normal((16, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    del model.graph.value_info[:]
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("r", T.FLOAT, ["b", "s", 16]))
    result, _ = half(tmp_path, model, "interface=true")
    assert types(result)["r_float16"] == F16
    halves = {"q": (2, 5, 16), "k": (2, 5, 16), "v": (20, 8)}
    halves = {name: RNG.standard_normal(dims).astype(np.float16) for name, dims in halves.items()}
    wanted = in_onnxruntime(model, {name: value.astype(np.float32) for name, value in halves.items()})["y"]
    assert np.abs(in_onnxruntime(result, halves)["y"] - wanted).max() < 2e-2 * np.abs(wanted).max()


def test_inputs_and_outputs(tmp_path):
    model = parsed(BLOCK)
    result, report = half(tmp_path, model, "interface=true")
    assert [v.type.tensor_type.elem_type for v in [*result.graph.input, *result.graph.output]] == [F16, F16]
    assert {v.name for v in [*result.graph.input, *result.graph.output]} == {"x", "y"}
    assert {o["name"] for check in report["verify"] for case in check["cases"] for o in case["outputs"]} == {"y"}
    x = RNG.standard_normal((3, 8)).astype(np.float16)
    a, b = in_onnxruntime(model, {"x": x.astype(np.float32)})["y"], in_onnxruntime(result, {"x": x})["y"]
    assert np.abs(a - b).max() < 2e-2 * np.abs(a).max()


def test_bfloat16(tmp_path):
    result, _ = half(tmp_path, parsed(BLOCK, opset=22, ir=10), "bfloat16")
    assert works_in(result, "MatMul") == {BF16}


def test_masks_get_a_number_that_the_type_has(tmp_path):
    model = parsed("""
agraph (float[2,4] scores, bool[4] seen) => (float[2,4] y) <float low = {-3.4028235e38}, float none = {0}> {
  mask = Where (seen, none, low)
  twice = Add (mask, mask)
  hidden = Add (scores, twice)
  y = Softmax (hidden)
}""")
    result, _ = half(tmp_path, model)
    assert works_in(result, "Where") == works_in(result, "Add") == {F16}
    feeds = {"scores": RNG.standard_normal((2, 4)).astype(np.float32), "seen": np.array([True, False, True, True])}
    got = in_onnxruntime(result, feeds)["y"]
    assert np.isfinite(got).all() and (got[:, 1] == 0).all() and apart(model, result, feeds) < 2e-2


def test_bounds_and_epsilons_stay(tmp_path):
    model = parsed("""
agraph (float[4] x) => (float[4] y, float[4] z) <float low = {-1e6}, float high = {1e6}, float eps = {1e-12}> {
  y = Clip (x, low, high)
  a = Abs (x)
  b = Add (a, eps)
  z = Div (x, b)
}""")
    result, _ = half(tmp_path, model)
    assert works_in(result, "Clip") == works_in(result, "Add") == {T.FLOAT} and works_in(result, "Abs") == {F16}
    zeros = in_onnxruntime(result, {"x": np.zeros(4, np.float32)})["z"]
    assert np.array_equal(zeros, np.zeros(4))  # and not 0 / 0


LARGE = """
agraph (float[4] x) => (float[4] y) <float up = {3e4}, float down = {3e-3}> {
  large = Mul (x, up)
  less = Mul (large, down)
  y = Tanh (less)
}"""


def test_values_beyond_the_type_stay(tmp_path):
    result, _ = half(tmp_path, parsed(LARGE))
    assert works_in(result, "Mul") == {T.FLOAT} and works_in(result, "Tanh") == {F16}


def test_the_users_inputs_tell_the_range(tmp_path):
    np.savez(tmp_path / "small.npz", x=np.full(4, 1e-3, np.float32))
    small, _ = half(tmp_path, parsed(LARGE), f"calibrate={tmp_path / 'small.npz'}", "--inputs", tmp_path / "small.npz")
    assert works_in(small, "Mul") == {F16}
    np.savez(tmp_path / "large.npz", x=np.full(4, 5, np.float32))
    large, _ = half(tmp_path, parsed(LARGE), f"calibrate={tmp_path / 'large.npz'}")
    assert works_in(large, "Mul") == {T.FLOAT}


def test_a_result_that_leaves_the_type_is_not_written(tmp_path):
    """On inputs that calibration has not seen."""
    onnx.save(parsed(LARGE.replace("y = Tanh (less)", "y = Neg (less)")), tmp_path / "m.onnx")
    np.savez(tmp_path / "small.npz", x=np.full(4, 1e-3, np.float32))
    np.savez(tmp_path / "large.npz", x=np.full(4, 50, np.float32))
    before = listing(tmp_path)
    done = run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", f"precision:calibrate={tmp_path / 'small.npz'}",
               "--inputs", tmp_path / "large.npz")
    assert_refused(done, 3, tmp_path, before, "verification failed after precision")


@pytest.mark.parametrize("rows, says", [(1 << 10, False), (1 << 12, True)])
def test_large_inputs_that_are_not_drawn_are_told(tmp_path, rows, says):
    """Caches of a long context take more memory than drawn inputs may."""
    model = parsed(f"""
agraph (float[{rows},16384] past, float[4] x, float[1,16384] weight) => (float[1,1] y, float[4] z) <int64[1] place = {{0}}> {{
  first = Gather <axis = 0> (past, place)
  products = Mul (first, weight)
  y = ReduceSum <keepdims = 1> (products)
  z = Tanh (x)
}}""")
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", "precision", "--no-verify", "--report", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    assert any("so these were zeros: past; " in note for note in notes_of(report)) == says


def notes_of(report):
    return [note for p in report["passes"] for note in p["notes"]]


def dense(layers, sensitive):
    """Layers of products and Tanh; the sensitive one takes the difference of what is nearly equal, and its weights are the smallest."""
    rng = np.random.default_rng(3)
    nodes, weights, x = [], {}, "x"
    for i in range(layers):
        width = 8 if i == sensitive else 32
        weights[f"w{i}"] = (rng.standard_normal((8, width)) / 8**0.5).astype(np.float32)
        weights[f"back{i}"] = (rng.standard_normal((width, 8)) / width**0.5).astype(np.float32)
        nodes += [onnx.helper.make_node("MatMul", [x, f"w{i}"], [f"wide{i}"]), onnx.helper.make_node("MatMul", [f"wide{i}", f"back{i}"], [f"narrow{i}"])]
        x = f"narrow{i}"
        if i == sensitive:
            weights["far"] = np.array([100], np.float32)
            nodes += [onnx.helper.make_node("Add", [x, "far"], ["there"]), onnx.helper.make_node("Sub", ["there", "far"], ["back"])]
            x = "back"
        nodes.append(onnx.helper.make_node("Tanh", [x], [f"y{i}"]))
        x = f"y{i}"
    info = lambda name: onnx.helper.make_tensor_value_info(name, T.FLOAT, ["n", 8])
    graph = onnx.helper.make_graph(nodes, "layers", [info("x")], [info(x)], [onnx.numpy_helper.from_array(v, k) for k, v in weights.items()])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def kept_for_error(model):
    """Names of what their nodes make that read floats, but for Casts."""
    known = types(model)
    return {n.output[0] for n in model.graph.node if n.op_type != "Cast" and T.FLOAT in {known.get(i) for i in n.input}}


@pytest.mark.parametrize("given", [True, False])
def test_few_operators_stay_for_the_error(tmp_path, given):
    """What is sensitive, and nothing else; the error is what onnx finds."""
    model, most = dense(6, 3), 5e-3
    feeds = {"x": RNG.standard_normal((16, 8)).astype(np.float32)}
    np.savez(tmp_path / "c.npz", **feeds)
    calibrate = f"calibrate={tmp_path / 'c.npz'};" if given else ""
    coarse, _ = half(tmp_path, model, calibrate + "max_error=0.5")
    assert kept_for_error(coarse) == set() and apart(model, coarse, feeds, rounded) > 2 * most
    result, report = half(tmp_path, model, f"{calibrate}max_error={most}")
    assert kept_for_error(result) == {"there", "back"}
    assert apart(model, result, feeds, rounded) <= (most if given else 1.5 * most)
    notes = notes_of(report)
    assert any(f"at most {most} is allowed: 2 operators stay in float for that" in note for note in notes), notes
    assert any("2 operators stay in float (for the error): back, there" in note for note in notes), notes


def test_more_operators_stay_for_a_smaller_error(tmp_path):
    model = dense(6, 3)
    np.savez(tmp_path / "c.npz", x=RNG.standard_normal((16, 8)).astype(np.float32))
    feeds, counts = dict(np.load(tmp_path / "c.npz")), []
    for most in (2e-3, 3e-4, 1e-6):
        result, _ = half(tmp_path, model, f"calibrate={tmp_path / 'c.npz'};max_error={most}")
        assert apart(model, result, feeds, rounded) <= 1.05 * most
        counts.append(len(kept_for_error(result)))
    assert 2 <= counts[0] < counts[1] < counts[2]


def test_what_is_cheap_stays_first(tmp_path):
    """Two branches err alike; the one with fewer bytes is enough."""
    model = parsed("""
agraph (float[4,64] x) => (float[4] y) <float far = {1000}, int64[1] last = {1}, int64[2] end = {4,1}> {
  a = Add (x, far)
  b = Sub (a, far)
  wide = Neg (b)
  s = ReduceMax <axes = [1], keepdims = 1> (x)
  c = Add (s, far)
  d = Sub (c, far)
  m = ReduceMax <axes = [1], keepdims = 0> (wide)
  z = Squeeze (d, last)
  y = Add (m, z)
}""", opset=17)
    x = RNG.uniform(-1, 1, (4, 64)).astype(np.float32)
    x[:, 0], x[:, 1] = 3.2, -3.2  # 1003.2 and 996.8 are 1003 and 997 in halves; both errors make y smaller
    np.savez(tmp_path / "c.npz", x=x)
    both, _ = half(tmp_path, model, f"calibrate={tmp_path / 'c.npz'};max_error=1e-3")
    assert {"a", "b", "c", "d"} <= kept_for_error(both)
    error = apart(model, half(tmp_path, model, f"also_keep=c,d;calibrate={tmp_path / 'c.npz'}")[0], {"x": x}, rounded)
    one, _ = half(tmp_path, model, f"calibrate={tmp_path / 'c.npz'};max_error={1.05 * error}")
    assert {"c", "d"} <= kept_for_error(one) and not {"a", "b"} & kept_for_error(one)


def test_an_error_out_of_reach_is_refused(tmp_path):
    """Inputs and outputs are halves."""
    onnx.save(dense(2, 1), tmp_path / "m.onnx")
    before = listing(tmp_path)
    done = run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", "precision:interface=true;max_error=1e-6")
    assert_refused(done, (1, 2), tmp_path, before, "pass precision: max_error: '1e-06': the error is")
    assert "even where all operators stay in float" in done.stderr


def test_slm_passes_the_error_on():
    told = run_ok("slm", "in.onnx", "--print-passes", "--dtype", "fp16", "--max-error", 0.01).stdout
    assert next(p for p in json.loads(told) if p["pass"] == "precision")["max_error"] == 0.01
    told = run_ok("slm", "in.onnx", "--print-passes", "--dtype", "fp16", "--clamp", "--calibrate", "x.npz").stdout
    passed_on = next(p for p in json.loads(told) if p["pass"] == "precision")
    assert passed_on["clamp"] is True and passed_on["calibrate"] == "x.npz"
    for words, says in ((("--max-error", 0.01), "--max-error: nothing works in half precision; give --dtype fp16 or bf16, too"),
                        (("--clamp",), "--clamp: nothing works in half precision; give --dtype fp16 or bf16, too"),
                        (("--calibrate", "x.npz"), "--calibrate: nothing works in half precision; give --dtype fp16 or bf16, too"),
                        (("--dtype", "fp16", "--max-error", -1), "--max-error")):
        done = run("slm", "in.onnx", "--print-passes", *words)
        assert done.returncode == 2 and says in done.stderr, done.stderr


CLAMPED = """
agraph (float[2,3] x) => (float[2,3] y, float[2,3] t) <float up = {3e4}, float[1,3] weights = {1e5, 2, 7e5}> {
  large = Mul (x, up)
  turned = Transpose <perm = [1, 0]> (large)
  t0 = Transpose <perm = [1, 0]> (turned)
  t = Neg (t0)
  r = Neg (x)
  y = Mul (r, weights)
}"""


@pytest.mark.parametrize("opset", [10, 17])
def test_large_values_are_clamped_when_asked_for(tmp_path, opset):
    model = parsed(CLAMPED, opset=opset)
    x = np.array([[5, -5, 0.5], [1, 0.25, -0.5]], np.float32)
    np.savez(tmp_path / "c.npz", x=x)
    kept, _ = half(tmp_path, model, f"calibrate={tmp_path / 'c.npz'}")
    assert works_in(kept, "Mul") == {T.FLOAT}
    result, report = half(tmp_path, model, f"calibrate={tmp_path / 'c.npz'};clamp=true", "--inputs", tmp_path / "c.npz")
    assert works_in(result, "Mul") == works_in(result, "Transpose") == {F16}
    assert sum(n.op_type == "Clip" for n in result.graph.node) == 2  # views of what is clamped need none: large, y
    got = in_onnxruntime(result, {"x": x})
    most = np.float32(65504)
    assert np.abs(got["t"] + np.clip(x * 3e4, -most, most)).max() <= 32
    assert np.abs(got["y"] - np.clip(-x * np.clip([1e5, 2, 7e5], -most, most), -most, most)).max() <= 32
    assert "3 values are clamped to 65504: large, weights, y" in notes_of(report)


def test_inputs_are_clamped(tmp_path):
    model = parsed("agraph (float[3] x) => (float[3] y, float[3] z) { y = Neg (x)  z = Softmax (x) }")
    np.savez(tmp_path / "c.npz", x=np.array([1e5, 1e5, 0], np.float32))
    result, report = half(tmp_path, model, f"calibrate={tmp_path / 'c.npz'};clamp=true", "--inputs", tmp_path / "c.npz")
    assert in_onnxruntime(result, {"x": np.array([1e5, -1e6, 7], np.float32)})["y"].tolist() == [-65504, 65504, -7]
    assert any(note == "1 value is clamped to 65504: x" for note in notes_of(report)), notes_of(report)
    halves, report = half(tmp_path, model, f"calibrate={tmp_path / 'c.npz'};clamp=true;interface=true")
    assert [v.type.tensor_type.elem_type for v in halves.graph.input] == [F16]
    assert any(note.startswith("1 value is clamped to 65504: y") for note in notes_of(report)), notes_of(report)


def test_what_is_compared_is_not_clamped(tmp_path):
    model = parsed("""
agraph (float[3] x) => (bool[3] y, float[3] z) <float high = {1e6}> {
  y = Less (x, high)
  z = Neg (x)
}""")
    result, _ = half(tmp_path, model, "clamp=true")
    assert works_in(result, "Less") == {T.FLOAT} and works_in(result, "Neg") == {F16}
    assert in_onnxruntime(result, {"x": np.array([1, 7e4, 2e6], np.float32)})["y"].tolist() == [True, True, False]


def test_infinities_of_weights_stay(tmp_path):
    model = parsed("agraph (float[3] x) => (float[3] y) { w = Constant <value = float[3] {-inf, 1e6, 1}> ()  y = Add (x, w) }")
    result, report = half(tmp_path, model, "clamp=true")
    held = next(onnx.numpy_helper.to_array(i) for i in result.graph.initializer if i.name == "w_float16")
    assert works_in(result, "Add") == {F16} and held.tolist() == [-np.inf, 65504, 1]
    assert "2 values are clamped to 65504: w, y" in notes_of(report)


@pytest.mark.parametrize("external", [True, False])
def test_large_weights_go_through_a_file(tmp_path, external):
    """The result is as if they had been in memory, lies where the model's did, and nothing else is left."""
    rng = np.random.default_rng(1)
    weights = {"w": rng.standard_normal((300, 200)).astype(np.float32), "v": rng.standard_normal((200, 300)).astype(np.float32)}
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["h"]), onnx.helper.make_node("MatMul", ["h", "v"], ["y"])]
    info = lambda name: onnx.helper.make_tensor_value_info(name, T.FLOAT, ["n", 300])
    graph = onnx.helper.make_graph(nodes, "g", [info("x")], [info("y")], [onnx.numpy_helper.from_array(v, k) for k, v in weights.items()])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx",
              save_as_external_data=external, location="m.bin", size_threshold=0)
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", "precision")
    assert (tmp_path / "o.onnx.data").exists() == external
    assert not [name for name in listing(tmp_path) if "saturate" in str(name)]
    result = onnx.load(tmp_path / "o.onnx")
    made = {i.name: onnx.numpy_helper.to_array(i) for i in result.graph.initializer}
    assert sorted(made) == ["v_float16", "w_float16"]
    for name, value in weights.items():
        assert np.array_equal(made[f"{name}_float16"], value.astype(np.float16))


def test_angles_stay(tmp_path):
    model = parsed("""
agraph (int64[n] positions, float[n,2] x) => (float[n,2] y) <float[1,2] rates = {1, 0.01}, int64[1] axis = {1}> {
  p = Cast <to = 1> (positions)
  column = Unsqueeze (p, axis)
  angle = Mul (column, rates)
  c = Cos (angle)
  y = Mul (x, c)
}""")
    result, _ = half(tmp_path, model)
    known = types(result)
    reads = [{known[i] for i in node.input} for node in result.graph.node if node.op_type == "Mul"]
    assert reads == [{T.FLOAT}, {F16}]


def test_bodies_read_floats(tmp_path):
    model = parsed("""
agraph (bool flag, float[3] a) => (float[3] y) <float two = {2}> {
  b = Mul (a, two)
  y = If (flag) <then_branch = yes () => (float[3] t) { t = Neg (b) }, else_branch = no () => (float[3] e) { e = Mul (b, b) }>
}""")
    for fields in ("", "interface=true"):
        result, _ = half(tmp_path, model, fields)
        assert works_in(result, "Mul") == {F16}
        for flag in (True, False):
            a = np.array([1, 2, 3], np.float16 if fields else np.float32)
            wanted = in_onnxruntime(model, {"flag": np.array(flag), "a": a.astype(np.float32)})["y"]
            assert np.array_equal(in_onnxruntime(result, {"flag": np.array(flag), "a": a})["y"], wanted)


def test_types_that_a_node_names_stay(tmp_path):
    """Whatever the list says: their results would be of another type."""
    model = parsed("""
agraph (float[4] x) => (float[4] y, float[4] z, double[4] d) <uint8[4] q = {1,2,3,4}, float scale = {0.5}> {
  y = DequantizeLinear (q, scale)
  z = Neg (x)
  d = Cast <to = 11> (x)
}""")
    result, _ = half(tmp_path, model, '{"keep": []}')
    onnx.checker.check_model(result, full_check=True)
    assert works_in(result, "DequantizeLinear") == works_in(result, "Cast") == {T.FLOAT} and works_in(result, "Neg") == {F16}


def test_models_of_other_domains_alone(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["com.microsoft" : 1]>
agraph (float[4,8] x) => (float[4,8] y) { y = com.microsoft.QuickGelu (x) }""")
    result, _ = half(tmp_path, model)
    assert works_in(result, "QuickGelu") == {F16}


def test_a_weight_that_is_an_output(tmp_path):
    model = parsed("""
agraph (float[2,2] x) => (float[2,2] y, float[2,2] w) <float[2,2] w = {1,2,3,4}> { y = MatMul (x, w) }""")
    for fields, dtype in (("", T.FLOAT), ("interface=true", F16)):
        result, _ = half(tmp_path, model, fields)
        onnx.checker.check_model(result, full_check=True)
        x = np.eye(2, dtype=np.float16 if fields else np.float32)
        assert types(result)["w"] == dtype and np.array_equal(in_onnxruntime(result, {"x": x})["w"], [[1, 2], [3, 4]])


def test_a_function_of_the_name_of_an_operator(tmp_path):
    model = parsed("""
agraph (float[4] x) => (float[4] y) { a = com.microsoft.Gelu (x)  y = Neg (a) }
<domain: "com.microsoft", opset_import: ["" : 17]>
Gelu (x) => (y) { one = Constant <value_float = 1.0> ()  y = Add (x, one) }""")
    result, _ = half(tmp_path, model)
    assert works_in(result, "Neg") == {F16} and [n.input[0] for n in result.graph.node if n.op_type == "Gelu"] == ["x"]


def test_weights_in_a_file_at_an_odd_place(tmp_path):
    model = parsed(BLOCK)
    scale = model.graph.initializer[0]
    (tmp_path / "weights.bin").write_bytes(b"." + onnx.numpy_helper.to_array(scale).tobytes())
    scale.ClearField("float_data")
    scale.ClearField("raw_data")
    scale.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", "weights.bin"), ("offset", "1"), ("length", "32")):
        entry = scale.external_data.add()
        entry.key, entry.value = key, text
    result, _ = half(tmp_path, model)
    assert works_in(result, "LayerNormalization") == {F16}


def test_no_cast_twice(tmp_path):
    """A value that several read is cast once, and a Cast of the model to float is passed by."""
    model = parsed("""
agraph (float[4] x) => (float[4] y, float[4] z) {
  c = Cast <to = 1> (x)
  a = Relu (c)
  b = Neg (c)
  y = Add (a, b)
  z = Mul (a, b)
}""")
    result, _ = half(tmp_path, model)
    assert sum(node.op_type == "Cast" for node in result.graph.node) <= 4  # x once or through the model's own, y, z


@pytest.mark.parametrize("fields, says", [
    ("also_keep=Gemmm", "also_keep: 'Gemmm': no operator and no node of the model has this name"),
    ("float8", "float16"),
    ("max_error=-1", "pass precision: max_error: '-1': give a number from 0 on"),
    ("max_error=small", "max_error: \"small\": give a number"),
    ("clamp=65504", "give true or false"),
    ("calibrate=/no/such.npz", "/no/such.npz"),
])
def test_mistakes(tmp_path, fields, says):
    onnx.save(parsed(BLOCK), tmp_path / "m.onnx")
    before = listing(tmp_path)
    assert_refused(run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", f"precision:{fields}"), (1, 2), tmp_path, before, says)


@pytest.mark.skipif(not ZOO.exists(), reason="the zoo is not here")
@pytest.mark.parametrize("name", ["gpt2-dyS23d", "llama-tsE14d", "t5_dec-tsE14d", "vit-dyS18d"])
def test_models_of_the_zoo(tmp_path, name):
    path = ZOO / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{name} is not here")
    arrays = np.load(ZOO / f"{name}.inputs.npz")
    model = onnx.load(path)
    result, _ = half(tmp_path, model)
    feeds = {i.name: arrays[i.name] for i in model.graph.input}
    assert apart(model, result, feeds) < 2e-2
    assert len(result.SerializeToString()) < 0.7 * len(model.SerializeToString())


POOLED = """
agraph (float[b,s,8] x, float[b,s,1] m) => (float[b,8] y) <float tiny = {%g}, float[8,8] w, int64[1] axis = {1}> {
  h = MatMul (x, w)
  wide = Mul (h, m)
  top = ReduceSum <keepdims = 0> (wide, axis)
  sum = ReduceSum <keepdims = 0> (m, axis)
  %s
  y = %s
}"""


@pytest.mark.parametrize("number", [1e-9, 1e-12])
@pytest.mark.parametrize("guard, quotient", [
    ("low = Clip (sum, tiny)", "Div (top, low)"), ("low = Max (sum, tiny)", "Div (top, low)"), ("low = Add (sum, tiny)", "Div (top, low)"),
    ("clipped = Clip (sum, tiny) low = Expand (clipped, shape)", "Div (top, low)"), ("a = Add (sum, tiny) low = Reciprocal (a)", "Mul (top, low)"),
    ("squares = Mul (sum, sum) a = Add (squares, tiny) low = Sqrt (a)", "Div (top, low)")])
def test_what_keeps_a_divisor_from_zero_stays_in_float(tmp_path, guard, quotient, number):
    """An epsilon that is 0 in halves would give NaN for a row that is hidden as a whole, as mean pooling of sentences has it."""
    text = (POOLED % (number, guard, quotient)).replace("float tiny", "int64[2] shape = {1,8}, float tiny").replace("float[8,8] w", "float[8,8] w = {%s}" % ",".join(["0.5", "-0.25"] * 32))
    model = parsed(text)
    result, _ = half(tmp_path, model)
    assert works_in(result, "MatMul") == {F16}
    assert works_in(result, "Div" if "Div" in quotient else "Reciprocal") == {T.FLOAT}
    for shown in (1, 0):
        feeds = {"x": RNG.standard_normal((2, 3, 8)).astype(np.float32), "m": np.full((2, 3, 1), shown, np.float32)}
        expected, got = in_onnxruntime(model, feeds)["y"], in_onnxruntime(result, feeds)["y"]
        assert np.isfinite(got).all() and np.abs(got - expected).max() <= 2e-2 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("op", ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
@pytest.mark.parametrize("between", ["moved = Transpose (x)", "moved = Mul (x, one)", "moved = Add (x, zero)"])
def test_what_is_compared_with_a_number_that_halves_round_stays_in_float(tmp_path, op, between):
    """6147 is 6148 in halves."""
    model = parsed(f"""
agraph (float[n,8] x, float[8,8] z) => (float[p,q] y) <float c = {{6147}}, float one = {{1}}, float zero = {{0}}, float small = {{0.5}}, float[8,8] w = {{{','.join(['0.5'] * 64)}}}> {{
  {between}
  at = {op} (moved, c)
  other = MatMul (z, w)
  y = Where (at, other, small)
}}""")
    result, _ = half(tmp_path, model)
    assert works_in(result, "MatMul") == {F16} and works_in(result, op) == {T.FLOAT}
    x = np.full((8, 8), 6146, np.float32)
    x[0], x[:, 1], x[2, 2] = 6147, 6148, 6147
    feeds = {"x": x, "z": RNG.standard_normal((8, 8)).astype(np.float32)}
    assert apart(model, result, feeds) < 2e-2


def test_comparisons_with_what_halves_hold_work_in_halves(tmp_path):
    model = parsed("""
agraph (float[n,8] x) => (bool[n,8] y) <float c = {0.5}, float[8,8] w = {%s}> {
  h = MatMul (x, w)
  y = Greater (h, c)
}""" % ",".join(["0.5"] * 64))
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", "precision:interface=true", "--no-verify")
    assert works_in(onnx.load(tmp_path / "o.onnx"), "Greater") == {F16}
