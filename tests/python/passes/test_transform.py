"""`saturate transform`: what each pass does, how it is verified and refused, and that ONNX Runtime agrees."""
import json

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import helper

from conftest import SHARED, assert_refused, listing, make_model, run, run_ok, tensor, value

ort.set_default_logger_severity(4)
ZOO = SHARED / "data" / "zoo" / "models"


def parsed(text, opset=17, ir=9, domains=""):
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}, "com.microsoft" : 1{domains}]>\n{text}')


SMALL = """
agraph (float[n,4] x, int64[n] ids) => (float[n,4] y, float[n,4] z) <float[5,4] table = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19}> {
  rows = Gather (table, ids)
  s = Add (x, rows)
  t = Tanh (s)
  y = Mul (t, x)
  z = Neg (t)
}"""
FEEDS = {"x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4), "ids": np.array([0, 4, 2])}
IMAGE = """
agraph (float[n,3,h,w] x) => (float[n,2,h,w] y) <float[2,3,1,1] w1 = {1,2,3,4,5,6}> {
  c = Conv (x, w1)
  y = Relu (c)
}"""
BODY = """
agraph (bool flag, float[3] a) => (float[3] y) {
  b = Exp (a)
  y = If (flag) <then_branch = yes () => (float[3] t) { inner = Add (b, a)  t = Neg (inner) },
                 else_branch = no () => (float[3] e) { e = Mul (b, b) }>
}"""


def in_onnxruntime(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def transformed(tmp_path, model, *words, passes=None):
    """The model that the passes make, checked by onnx.checker, and the report."""
    onnx.save(model, tmp_path / "m.onnx")
    if passes is not None:
        (tmp_path / "p.json").write_text(json.dumps(passes))
        words = ("--passes", tmp_path / "p.json", *words)
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", *words, "--report", tmp_path / "r.json")
    result = onnx.load(tmp_path / "o.onnx")
    onnx.checker.check_model(result)
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["verify"] and all(check["status"] == "equal" for check in report["verify"])
    return result, report


def refused(tmp_path, model, *words, code=(1, 2), passes=None):
    onnx.save(model, tmp_path / "m.onnx")
    if passes is not None:
        (tmp_path / "p.json").write_text(passes if isinstance(passes, str) else json.dumps(passes))
        words = ("--passes", tmp_path / "p.json", *words)
    before = listing(tmp_path)
    done = run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", *words)
    assert_refused(done, code, tmp_path, before)
    return done.stderr


def names(infos):
    return [v.name for v in infos]


def dims(info):
    return [d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in info.type.tensor_type.shape.dim]


def assert_equal(got, wanted):
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6)


def test_inputs_are_renamed_and_may_change_names(tmp_path):
    model = parsed("agraph (float[2] a, float[2] b) => (float[2] y) { y = Sub (a, b) }")
    result, _ = transformed(tmp_path, model, "--pass", "rename_inputs:a=b,b=a")
    assert names(result.graph.input) == ["b", "a"]
    feeds = {"a": np.float32([1, 2]), "b": np.float32([5, 7])}
    assert_equal(in_onnxruntime(result, {"b": feeds["a"], "a": feeds["b"]}), in_onnxruntime(model, feeds))


def test_a_name_that_a_body_uses_itself_is_no_trap(tmp_path):
    result, _ = transformed(tmp_path, parsed(BODY), "--pass", "rename_inputs:a=inner")
    feeds = {"flag": np.array(True), "a": np.float32([1, 2, 3])}
    wanted = in_onnxruntime(parsed(BODY), feeds)
    assert_equal(in_onnxruntime(result, {"flag": feeds["flag"], "inner": feeds["a"]}), wanted)


def test_an_inner_value_makes_way_for_a_new_name(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--pass", "rename_outputs:y=s")
    wanted = in_onnxruntime(parsed(SMALL), FEEDS)
    assert_equal(in_onnxruntime(result, FEEDS), {"s": wanted["y"], "z": wanted["z"]})


def test_an_input_that_is_an_output_keeps_the_other_name(tmp_path):
    model = parsed("agraph (float[2] a) => (float[2] a, float[2] y) { y = Neg (a) }")
    for words, inputs, outputs in (("rename_inputs:a=x", ["x"], ["a", "y"]), ("rename_outputs:a=x", ["a"], ["x", "y"])):
        result, _ = transformed(tmp_path, model, "--pass", words)
        assert names(result.graph.input) == inputs and names(result.graph.output) == outputs
        got = in_onnxruntime(result, {inputs[0]: np.float32([1, 2])})
        np.testing.assert_array_equal(got[outputs[0]], np.float32([1, 2]))


def test_order_of_inputs_and_outputs(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--pass", "reorder_inputs:ids,x", "--pass", "reorder_outputs:z,y")
    assert names(result.graph.input) == ["ids", "x"] and names(result.graph.output) == ["z", "y"]
    assert_equal(in_onnxruntime(result, FEEDS), in_onnxruntime(parsed(SMALL), FEEDS))


def test_what_nothing_reads_is_removed_and_added(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), passes=[
        {"pass": "add_inputs", "shapes": {"more": ["n", 2]}, "dtype": "int64"}, {"pass": "remove_outputs", "names": ["z"]}])
    assert names(result.graph.input) == ["x", "ids", "more"] and names(result.graph.output) == ["y"]
    assert "Neg" not in [n.op_type for n in result.graph.node]
    back, _ = transformed(tmp_path, result, "--pass", "remove_inputs:more")
    assert names(back.graph.input) == ["x", "ids"]


def test_values_are_exposed(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--pass", "expose:s,rows")
    assert names(result.graph.output) == ["y", "z", "s", "rows"]
    got = in_onnxruntime(result, FEEDS)
    np.testing.assert_allclose(got["s"], FEEDS["x"] + got["rows"])
    everything, _ = transformed(tmp_path, parsed(SMALL), "--pass", "expose_all")
    assert set(names(everything.graph.output)) == {"y", "z", "s", "rows", "t"}


def test_an_exposed_value_is_followed_through_renaming(tmp_path):
    _, report = transformed(tmp_path, parsed(SMALL), "--pass", "rename_outputs:y=s", "--pass", "expose:s_1")
    assert {o["name"] for case in report["verify"][0]["cases"] for o in case["outputs"]} >= {"z"} and len(report["verify"][0]["cases"][0]["outputs"]) == 3
    refused(tmp_path, parsed(SMALL), "--pass", "expose:nowhere")


def test_quantized_output(tmp_path):
    model = parsed("""agraph (float[2,3] x) => (float[2,3] y)
        <float scale = {0.1}, uint8 zero = {128}> { q = QuantizeLinear (x, scale, zero)  y = DequantizeLinear (q, scale, zero) }""")
    result, _ = transformed(tmp_path, model, "--pass", "expose_quantized:y")
    assert names(result.graph.output) == ["q", "scale", "zero"]
    assert [n.op_type for n in result.graph.node] == ["QuantizeLinear"]


def test_zeros_for_an_input(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--pass", "zero_inputs:ids")
    assert_equal(in_onnxruntime(result, FEEDS), in_onnxruntime(parsed(SMALL), {**FEEDS, "ids": np.zeros(3, np.int64)}))
    fixed, _ = transformed(tmp_path, parsed(SMALL), "--pass", "set_dims:n=3", "--pass", "zero_inputs:ids")
    assert names(fixed.graph.input) == ["x"] and dims(fixed.graph.input[0]) == [3, 4]


def test_constants_become_inputs_and_inputs_constants(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--pass", "initializers_to_inputs:table")
    assert names(result.graph.input) == ["x", "ids", "table"] and not result.graph.initializer
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    assert_equal(in_onnxruntime(result, {**FEEDS, "table": table}), in_onnxruntime(parsed(SMALL), FEEDS))
    with_default, _ = transformed(tmp_path, parsed(SMALL), "--pass", "initializers_to_inputs:table;default=true")
    assert names(with_default.graph.input) == ["x", "ids", "table"] and len(with_default.graph.initializer) == 1
    frozen, _ = transformed(tmp_path, with_default, "--pass", "freeze")
    assert names(frozen.graph.input) == ["x", "ids"]
    assert_equal(in_onnxruntime(frozen, FEEDS), in_onnxruntime(parsed(SMALL), FEEDS))


def test_types_of_inputs_and_outputs(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--pass", "int32_inputs", "--pass", "cast_inputs:x=float16", "--pass", "cast_outputs:y=double")
    kinds = {v.name: v.type.tensor_type.elem_type for v in [*result.graph.input, *result.graph.output]}
    assert kinds == {"x": T.FLOAT16, "ids": T.INT32, "y": T.DOUBLE, "z": T.FLOAT}
    got = in_onnxruntime(result, {"x": FEEDS["x"].astype(np.float16), "ids": FEEDS["ids"].astype(np.int32)})
    wanted = in_onnxruntime(parsed(SMALL), {**FEEDS, "x": FEEDS["x"].astype(np.float16).astype(np.float32)})
    assert_equal(got, {"y": wanted["y"].astype(np.float64), "z": wanted["z"]})


def test_layout(tmp_path):
    result, _ = transformed(tmp_path, parsed(IMAGE), "--pass", "layout:inputs=x;outputs=y")
    assert dims(result.graph.input[0]) == ["n", "h", "w", 3] and dims(result.graph.output[0]) == ["n", "h", "w", 2]
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    wanted = in_onnxruntime(parsed(IMAGE), {"x": x})["y"]
    np.testing.assert_allclose(in_onnxruntime(result, {"x": x.transpose(0, 2, 3, 1)})["y"], wanted.transpose(0, 2, 3, 1), rtol=1e-5)
    back, _ = transformed(tmp_path, result, "--pass", "layout:inputs=x;outputs=y;to=nchw")
    assert dims(back.graph.input[0]) == ["n", 3, "h", "w"]
    np.testing.assert_allclose(in_onnxruntime(back, {"x": x})["y"], wanted, rtol=1e-5)


def test_dims_are_renamed_and_set(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--pass", "rename_dims:n=batch", "--pass", "set_dims:batch=3")
    assert dims(result.graph.input[0]) == [3, 4] and dims(result.graph.output[0]) == [3, 4]
    assert_equal(in_onnxruntime(result, FEEDS), in_onnxruntime(parsed(SMALL), FEEDS))
    assert "the model has no such dim; it has n" in refused(tmp_path, parsed(SMALL), "--pass", "set_dims:m=3")
    assert "nothing says that they are equal" in refused(tmp_path, parsed(IMAGE), "--pass", "rename_dims:h=w")


def test_a_rank_for_an_input_that_has_none(tmp_path):
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], [helper.make_tensor_value_info("x", T.FLOAT, None)],
                       [helper.make_tensor_value_info("y", T.FLOAT, None)])
    result, _ = transformed(tmp_path, model, "--pass", "set_shapes:x:n,3", "--pass", "infer_shapes")
    assert dims(result.graph.input[0]) == ["n", 3] and dims(result.graph.output[0]) == ["n", 3]


def test_rank_of_inputs_and_outputs(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--pass", "io_rank:4")
    assert dims(result.graph.input[0]) == [1, 1, "n", 4] and dims(result.graph.input[1]) == ["n"]  # ids are indices


def test_constants_move_into_initializers_and_back(tmp_path):
    model = parsed("agraph (float[3] x) => (float[3] y) { c = Constant <value_floats = [1.0, 2.0, 3.0]> ()  y = Add (x, c) }")
    result, _ = transformed(tmp_path, model, "--pass", "constants_to_initializers")
    assert [n.op_type for n in result.graph.node] == ["Add"] and names(result.graph.initializer) == ["c"]
    back, _ = transformed(tmp_path, result, "--pass", "initializers_to_constants")
    assert not back.graph.initializer and back.graph.node[0].op_type == "Constant"
    feeds = {"x": np.float32([1, 1, 1])}
    assert_equal(in_onnxruntime(back, feeds), in_onnxruntime(model, feeds))


def test_constants_of_an_old_model_are_no_defaults(tmp_path):
    model = parsed("agraph (float[2] x, float[2] w) => (float[2] y) <float[2] v = {1, 2}> { c = Constant <value_floats = [3.0, 4.0]> ()  s = Add (x, w)  y = Mul (s, c) }", opset=12, ir=3)
    model.graph.initializer[0].name = "w"
    for words in ("constants_to_initializers", "freeze:w"):
        result, _ = transformed(tmp_path, model, "--pass", words)
        assert names(result.graph.input) == ["x"] and result.ir_version == 4
        np.testing.assert_array_equal(in_onnxruntime(result, {"x": np.float32([1, 1])})["y"], [6, 12])


def test_functions_that_nothing_calls_go(tmp_path):
    text = """<ir_version: 9, opset_import: ["" : 17, "loc" : 1]>
agraph (float[3] x) => (float[3] y) { y = loc.used (x) }
<domain: "loc", opset_import: ["" : 17]> used (x) => (y) { y = Neg (x) }
<domain: "loc", opset_import: ["" : 17]> unused (x) => (y) { y = Exp (x) }"""
    result, _ = transformed(tmp_path, onnx.parser.parse_model(text), "--pass", "drop_uncalled_functions")
    assert [f.name for f in result.functions] == ["used"]


def test_shapes_are_written_and_removed(tmp_path):
    model = parsed("agraph (float[n,4] x) => (float[a,b] y) { t = Transpose <perm = [1, 0]> (x)  y = Exp (t) }")
    result, _ = transformed(tmp_path, model, "--pass", "infer_shapes")
    assert dims(result.graph.output[0]) == [4, "n"] and {v.name: dims(v) for v in result.graph.value_info} == {"t": [4, "n"]}
    bare, _ = transformed(tmp_path, result, "--pass", "remove_shapes")
    assert not bare.graph.value_info
    typed, _ = transformed(tmp_path, result, "--pass", "remove_shapes:types")
    assert not typed.graph.value_info[0].type.tensor_type.HasField("shape")


def test_metadata_goes(tmp_path):
    model = parsed(BODY)
    model.doc_string = model.graph.doc_string = model.graph.node[0].doc_string = model.graph.input[0].doc_string = "told"
    model.graph.node[1].attribute[0].g.node[0].doc_string = "told"
    model.metadata_props.add(key="told", value="told")
    result, _ = transformed(tmp_path, model, "--pass", "strip_metadata")
    assert b"told" not in result.SerializeToString()


def test_mask_values(tmp_path):
    model = parsed("""agraph (float[2,4] x, bool[2,4] m) => (float[2,4] y) <float low = {-3.4028234663852886e+38}, float zero = {0}> {
        fill = Where (m, zero, low)  s = Add (x, fill)  y = Softmax (s) }""")
    result, report = transformed(tmp_path, model, "--pass", "replace_mask_value")
    assert onnx.numpy_helper.to_array(result.graph.initializer[0]) == -1e4
    assert report["passes"][0]["notes"] == ["1 constants changed", "taken for granted: no row of scores is hidden as a whole, and none that counts lies near -10000"]


# A row that is hidden as a whole is what the fill makes of it: even, or by its scores. Padding in front of a causal mask makes such rows.
def test_mask_values_where_padding_hides_whole_rows(tmp_path):
    model = parsed("""agraph (float[2,3,3] x, int64[2,3] attention_mask) => (float[2,3,3] y) <float low = {-3.4028234663852886e+38}, float zero = {0}, int64[1] one = {1},
                      bool[3,3] causal = {1, 0, 0, 1, 1, 0, 1, 1, 1}> {
        m = Cast <to = 9> (attention_mask)  columns = Unsqueeze (m, one)  seen = And (columns, causal)  fill = Where (seen, zero, low)  s = Add (x, fill)  y = Softmax (s) }""")
    result, _ = transformed(tmp_path, model, "--pass", "replace_mask_value")
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 3)).astype(np.float32), "attention_mask": np.array([[1, 1, 1], [0, 1, 1]])}
    got, wanted = in_onnxruntime(result, feeds)["y"], in_onnxruntime(model, feeds)["y"]
    np.testing.assert_allclose(got[[0, 0, 0, 1, 1], [0, 1, 2, 1, 2]], wanted[[0, 0, 0, 1, 1], [0, 1, 2, 1, 2]], rtol=1e-5)
    assert np.abs(got[1, 0] - wanted[1, 0]).max() > 0.01


def test_a_part_is_cut_out(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--cut-inputs", "s", "--cut-outputs", "t,z")
    assert names(result.graph.input) == ["s"] and names(result.graph.output) == ["t", "z"]
    assert [n.op_type for n in result.graph.node] == ["Tanh", "Neg"] and not result.graph.initializer
    np.testing.assert_allclose(in_onnxruntime(result, {"s": FEEDS["x"]})["t"], np.tanh(FEEDS["x"]), rtol=1e-5)
    inner, _ = transformed(tmp_path, parsed(BODY), "--cut-inputs", "b")
    feeds = {"flag": np.array(False), "b": np.float32([1, 2, 3])}
    assert names(inner.graph.input) == ["flag", "a", "b"]
    np.testing.assert_allclose(in_onnxruntime(inner, {**feeds, "a": np.float32([0, 0, 0])})["y"], [1, 4, 9])


def test_a_chain_of_two_parts_is_the_whole(tmp_path):
    model = parsed(SMALL)
    onnx.save(model, tmp_path / "whole.onnx")
    run_ok("transform", tmp_path / "whole.onnx", "-o", tmp_path / "first.onnx", "--cut-outputs", "s")
    run_ok("transform", tmp_path / "whole.onnx", "-o", tmp_path / "second.onnx", "--cut-inputs", "s")
    merge = {"pass": "merge", "model": str(tmp_path / "second.onnx"), "joins": {"s": "s"}, "prefix": "b_"}
    result, report = transformed(tmp_path, onnx.load(tmp_path / "first.onnx"), passes=[merge])
    assert names(result.graph.input) == ["x", "ids", "b_x"] and names(result.graph.output) == ["b_y", "b_z"]
    wanted = in_onnxruntime(model, FEEDS)
    assert_equal(in_onnxruntime(result, {**FEEDS, "b_x": FEEDS["x"]}), {"b_y": wanted["y"], "b_z": wanted["z"]})


def test_a_model_is_split_into_a_chain(tmp_path):
    model = parsed(SMALL)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "p.onnx", "--split-at", "rows,t")
    values = dict(FEEDS)
    for part in (1, 2, 3):
        one = onnx.load(tmp_path / f"p.{part}.onnx")
        values |= in_onnxruntime(one, {name: values[name] for name in names(one.graph.input)})
    assert not (tmp_path / "p.4.onnx").exists() and not (tmp_path / "p.onnx").exists()
    assert_equal({k: values[k] for k in ("y", "z")}, in_onnxruntime(model, FEEDS))
    assert "name values in their order" in refused(tmp_path, model, "--split-at", "t,rows")
    assert "no output is made behind it" in refused(tmp_path, parsed(BODY), "--split-at", "y")
    assert "no node of the main graph makes" in refused(tmp_path, model, "--split-at", "x")


def test_sparse_constants_go_along(tmp_path):
    model = parsed("agraph (float[3] x) => (float[3] y) { y = Add (x, w) }".replace("w", "x"))
    model.graph.node[0].input[1] = "w"
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(
        helper.make_tensor("w", T.FLOAT, [1], [5.0]), helper.make_tensor("at", T.INT64, [1], [1]), [3]))
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", "rename_inputs:x=w")
    result = onnx.load(tmp_path / "o.onnx")
    onnx.checker.check_model(result)
    np.testing.assert_array_equal(in_onnxruntime(result, {"w": np.zeros(3, np.float32)})["y"], [0, 5, 0])


def test_zeros_that_are_cast_stay_zeros(tmp_path):
    result, _ = transformed(tmp_path, parsed(SMALL), "--pass", "zero_inputs:ids", "--pass", "cast_inputs:ids=float16")
    got = in_onnxruntime(result, {**FEEDS, "ids": FEEDS["ids"].astype(np.float16)})
    assert_equal(got, in_onnxruntime(parsed(SMALL), {**FEEDS, "ids": np.zeros(3, np.int64)}))


def test_merged_models_of_two_opsets(tmp_path):
    onnx.save(parsed("agraph (float[2,n] a) => (float[2,n] y) { y = Softmax <axis = 1> (a) }", opset=13), tmp_path / "b.onnx")
    first = parsed("agraph (float[2,m] x) => (float[2,m] h) { h = Neg (x) }", opset=18)
    merge = {"pass": "merge", "model": str(tmp_path / "b.onnx"), "joins": {"h": "a"}}
    result, _ = transformed(tmp_path, first, passes=[merge])
    assert {o.domain: o.version for o in result.opset_import}[""] == 18
    x = np.float32([[1, 2, 3], [4, 5, 7]])
    e = np.exp(-x)
    np.testing.assert_allclose(in_onnxruntime(result, {"x": x})["y"], e / e.sum(1, keepdims=True), rtol=1e-5)


def test_passes_compose_and_are_verified_as_one(tmp_path):
    passes = [{"pass": "rename_inputs", "names": {"x": "a"}}, {"pass": "int32_inputs"}, "infer_shapes",
              {"pass": "rename_dims", "names": {"n": "batch"}}, {"pass": "expose", "values": ["t"]}, {"pass": "set_dims", "sizes": {"batch": 3}},
              {"pass": "rename_outputs", "names": {"t": "tanh"}}]
    result, report = transformed(tmp_path, parsed(SMALL), passes=passes)
    assert [p["pass"] for p in report["passes"]] == [p if isinstance(p, str) else p["pass"] for p in passes] and len(report["verify"]) == 1
    got = in_onnxruntime(result, {"a": FEEDS["x"], "ids": FEEDS["ids"].astype(np.int32)})
    wanted = in_onnxruntime(parsed(SMALL), FEEDS)
    assert_equal({k: got[k] for k in wanted}, wanted)
    np.testing.assert_allclose(got["tanh"], -wanted["z"])


def test_passes_around_optimizing(tmp_path):
    onnx.save(parsed(SMALL), tmp_path / "m.onnx")
    (tmp_path / "before.json").write_text('[{"pass": "set_dims", "sizes": {"n": 3}}]')
    (tmp_path / "after.json").write_text('[{"pass": "rename_outputs", "names": {"y": "out"}}]')
    run_ok("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--before", tmp_path / "before.json", "--after", tmp_path / "after.json",
           "--report", tmp_path / "r.json")
    result, report = onnx.load(tmp_path / "o.onnx"), json.loads((tmp_path / "r.json").read_text())
    assert names(result.graph.output) == ["out", "z"] and dims(result.graph.input[0]) == [3, 4]
    assert report["passes_before"]["passes"][0]["pass"] == "set_dims" and report["passes_after"]["passes"][0]["pass"] == "rename_outputs"


def test_external_data_stays_outside(tmp_path):
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", T.FLOAT, ["n", 64])], [value("y", T.FLOAT, ["n", 64])], [tensor("w", weight)])
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", "rename_inputs:x=a")
    assert (tmp_path / "o.onnx.data").stat().st_size >= weight.nbytes and (tmp_path / "o.onnx").stat().st_size < 1000
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(onnx.load(tmp_path / "o.onnx").graph.initializer[0]), weight)


@pytest.mark.parametrize("words, said", [
    (("--pass", "rename_input:a=b"), "pass rename_input: no such pass; did you mean 'rename_inputs'?"),
    (("--pass", "qqqqqqqqqqqqqqqqqqq"), "no such pass; `saturate transform --list-passes` lists them"),
    (("--pass", "rename_inputs:x"), 'pass rename_inputs: names: "x": give texts by name, {"old": "new"} or old=new'),
    (("--pass", "rename_inputs:q=r"), "pass rename_inputs: names: 'q': the model has no such input; it has x, ids"),
    (("--pass", "rename_inputs:x=ids"), "pass rename_inputs: names: 'ids': an input or output has this name"),
    (("--pass", "rename_inputs:x=q,ids=q"), "'q': two values would have this name"),
    (("--pass", "reorder_inputs:x"), "pass reorder_inputs: order: 'ids': this input is not named"),
    (("--pass", "remove_inputs:x"), "pass remove_inputs: names: 'x': it is read by Add"),
    (("--pass", "remove_outputs:y,z"), "'z': it is the last output"),
    (("--pass", "cast_inputs:x=float12"), "give by name one of float16, bfloat16"),
    (("--pass", "io_rank:0"), "pass io_rank: rank: 0: give a whole number from 1 on"),
    (("--pass", "io_rank"), "pass io_rank: rank: not given: give a whole number from 1 on"),
    (("--pass", "io_rank:1"), "pass io_rank: rank: '1': --io-rank 1: input 'x' has rank 2"),
    (("--pass", "layout:inputs=x;to=nwhc"), 'pass layout: to: "nwhc": give one of nhwc, nchw'),
    (("--pass", "layout:inputs=x"), "its rank is not known to be at least 3"),
    (("--pass", "infer_shapes:really=true"), "the pass has no fields"),
    (("--pass", "freeze:x"), "it has no default"),
    (("--cut-inputs", "nowhere"), "pass cut: inputs: 'nowhere': the main graph has no such value"),
    (("--cut-outputs", "rowss"), "did you mean 'rows'?"),
    (("--pass", "merge:s=a;model=gone.onnx"), "pass merge: model: 'gone.onnx'"),
])
def test_a_wrong_list_is_one_line(tmp_path, words, said):
    assert said in refused(tmp_path, parsed(SMALL), *words)


@pytest.mark.parametrize("text, said", [
    ("[", "no JSON"), ("{}", "neither a list nor an object"), ("[3]", "3: no pass"), ('[{"pass": "freeze", "name": ["x"]}]', "did you mean names?"),
    ('[{"surgeon": "RenameInput", "old_names": [], "new_names": []}]', "did you mean 'RenameInputs'?"),
    ('[{"surgeon": "RenameInputs", "old_names": ["x"], "new_names": []}]', "new_names: '0 names': old_names has 1"),
    ('{"type": "OnnxQuantization"}', "no pass of Olive that is done here"),
])
def test_a_wrong_file_is_one_line(tmp_path, text, said):
    assert said in refused(tmp_path, parsed(SMALL), passes=text)


def test_assumptions_of_rewrite_are_named(tmp_path):
    rewrite = {"pass": "rewrite", "rules": ["lp_normalization_by_hand"], "avoid": ["ReduceL2"], "approximate": True}
    model = parsed("agraph (float[n,3] x) => (float[n,3] y) { l = ReduceL2 <axes = [1]> (x)  y = Div (x, l) }")
    assert "lp_normalization_by_hand: no such rule, or one that approximates or assumes" in refused(tmp_path, model, passes=[rewrite]).replace("'", "")
    assert 'assume: \'["rows"]\': rows: no such assumption' in refused(tmp_path, model, passes=[{**rewrite, "assume": ["rows"]}])
    result, _ = transformed(tmp_path, model, passes=[{**rewrite, "assume": ["rows_not_near_zero"]}])
    assert [n.op_type for n in result.graph.node] == ["LpNormalization"]


def test_a_mask_that_no_longer_hides_is_caught(tmp_path):
    model = parsed("""agraph (float[2,4] x, bool[2,4] m) => (float[2,4] y) <float low = {-3.4028234663852886e+38}, float zero = {0}> {
        fill = Where (m, zero, low)  y = Add (x, fill) }""")
    assert "verification failed after replace_mask_value" in refused(tmp_path, model, "--pass", "replace_mask_value", code=3)


def test_every_pass_is_told(tmp_path):
    told = json.loads(run_ok("transform", "--list-passes", "--json").stdout)
    assert len(told) > 30
    text = run_ok("transform", "--list-passes").stdout
    for one in told:
        assert one["does"].endswith(".") and one["verified"].endswith(".") and one["compared"] in ("equal", "approximate", "runs")
        assert f"\n{one['pass']}\n" in "\n" + text
        assert all(f["says"].endswith(".") for f in one["fields"])


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"type": "GraphSurgeries", "surgeries": s}, lambda s: {"surgeries": s},
                                  lambda s: {"input_model": {}, "passes": {"surgery": {"type": "GraphSurgeries", "surgeries": s}}},
                                  lambda s: {"passes": {"surgery": [{"type": "GraphSurgeries", "config": {"surgeries": s}}]}}])
def test_lists_of_olive_are_read(tmp_path, wrap):
    surgeries = [{"surgeon": "RenameInputs", "old_names": ["x"], "new_names": ["a"]}, {"surgeon": "reorderinputs", "permutation": [1, 0]},
                 {"surgeon": "InferShapes"}]
    result, _ = transformed(tmp_path, parsed(SMALL), passes=wrap(surgeries))
    assert names(result.graph.input) == ["ids", "a"] and {v.name for v in result.graph.value_info} == {"rows", "s", "t"}


def types_of(model):
    return sorted(n.op_type for n in model.graph.node)


@pytest.mark.parametrize("surgeon, text, gone, there", [
    ("DecomposeQuickGelu", "agraph (float[2,3] x) => (float[2,3] y) { y = com.microsoft.QuickGelu <alpha = 1.5> (x) }", "QuickGelu", "Sigmoid"),
    ("ReplaceErfWithTanh", "agraph (float[2,3] x) => (float[2,3] y) { y = Erf (x) }", "Erf", "Tanh"),
    ("MatMulAddToGemm", "agraph (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y) { m = MatMul (x, w)  y = Add (m, b) }", "MatMul", "Gemm"),
    ("GemmToMatMulAdd", "agraph (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y) { y = Gemm (x, w, b) }", "Gemm", "MatMul"),
    ("MatMulToTransposeConvTranspose", "agraph (float[1,6,3] x) => (float[1,6,4] y) <float[3,4] w = {1,2,3,4,5,6,7,8,9,1,2,3}> { y = MatMul (x, w) }", "MatMul", "Conv"),
    ("ReciprocalMulToDiv", "agraph (float[2,3] x, float[2,3] d) => (float[2,3] y) { r = Reciprocal (d)  y = Mul (x, r) }", "Reciprocal", "Div"),
    ("Flatten", "agraph (float[2,3,4] x) => (float[2,12] y) { y = Flatten (x) }", "Flatten", "Reshape"),
    ("QDQToClip", """agraph (float[2,3] x) => (float[2,3] y) <float s = {0.1}, uint8 z = {128}> {
        q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z) }""", "QuantizeLinear", "Clip"),
])
def test_surgeons_by_rules(tmp_path, surgeon, text, gone, there):
    result, _ = transformed(tmp_path, parsed(text), passes=[{"surgeon": surgeon}])
    assert gone not in types_of(result) and there in types_of(result)


def test_equal_nodes_become_one(tmp_path):
    model = parsed("agraph (float[3] x) => (float[3] y) { a = Exp (x)  b = Exp (x)  y = Add (a, b) }")
    result, _ = transformed(tmp_path, model, passes=[{"surgeon": "DeduplicateNodes"}])
    assert types_of(result).count("Exp") == 1


def test_an_opset_that_lacks_an_operator_is_not_blamed_on_the_target(tmp_path):
    model = parsed("agraph (float[1,8,3] x, float[1,2,3] u) => (float[1,8,3] y) { y = TensorScatter <axis = 1> (x, u) }", opset=24, ir=11)
    said = refused(tmp_path, model, "--pass", "optimize:onnx;opset=14")
    assert "pass optimize: TensorScatter: opset 14 does not have the operator; the lowest that can express it is opset 24" in said


@pytest.mark.parametrize("opset, axes", [(13, ""), (18, ""), (13, "axes = [1], "), (18, None)])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_a_length_over_any_axes_is_a_root(tmp_path, opset, axes, dtype):
    """Without axes it is over all, and it is taken apart all the same."""
    attributes, more = (axes or "", "") if opset == 13 else ("", ", a" if axes is None else "")
    weights = " <int64[1] a = {1}>" if more else ""
    model = parsed(f"agraph ({dtype}[2,3] x) => ({dtype}[p,q] y){weights} {{ y = ReduceL2 <{attributes}keepdims = 1> (x{more}) }}", opset=opset)
    result, _ = transformed(tmp_path, model, passes=[{"pass": "rewrite", "rules": ["length_is_root"], "avoid": ["ReduceL2"]}])
    assert "ReduceL2" not in {n.op_type for n in result.graph.node} and "Sqrt" in {n.op_type for n in result.graph.node}
    x = np.array([[1, -2, 3], [4, 0.5, -6]], {"float": np.float32}.get(dtype, np.float64))
    wanted = np.sqrt((x * x).sum(axis=1 if axes or axes is None else None, keepdims=True))
    np.testing.assert_allclose(in_onnxruntime(result, {"x": x})["y"], wanted, rtol=1e-6)
