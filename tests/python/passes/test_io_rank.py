"""Inputs and outputs at a rank that is asked for (--io-rank): the written model's interface, and that it computes the same."""
import collections
import json
import re

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


def parsed(text, opset=17, ir=9):
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}, "com.microsoft" : 1]>\n{text}')


def optimized(tmp_path, model, *words):
    onnx.save(model, tmp_path / "m.onnx")
    done = run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "-v", *words, "--report", tmp_path / "r.json")
    return onnx.load(tmp_path / "o.onnx"), json.loads((tmp_path / "r.json").read_text()), done.stdout


def dims(info):
    return [d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in info.type.tensor_type.shape.dim]


def interface(model):
    return {v.name: (v.type.tensor_type.elem_type, dims(v)) for v in [*model.graph.input, *model.graph.output]}


def in_onnxruntime(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def assert_same(original, result, report, feeds):
    """Both in ONNX Runtime: the result takes the same numbers with ones in front, and gives them so."""
    io = report["io_rank"]
    changed = {c["name"]: io["rank"] for c in [*io["inputs"], *io["outputs"]]}

    def as_asked(name, array):
        return array.reshape([1] * (changed.get(name, array.ndim) - array.ndim) + list(array.shape))

    wanted = in_onnxruntime(original, feeds)
    got = in_onnxruntime(result, {name: as_asked(name, array) for name, array in feeds.items()})
    assert wanted.keys() == got.keys()
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype
        np.testing.assert_allclose(got[name], as_asked(name, array), rtol=1e-4, atol=1e-5)
        assert got[name].shape == as_asked(name, array).shape


def views_at_the_border(model):
    """Views that read an input or make an output."""
    inputs, outputs = {i.name for i in model.graph.input}, {o.name for o in model.graph.output}
    return [n.op_type for n in model.graph.node if n.op_type in ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
            and (n.input[0] in inputs or n.output[0] in outputs)]


def draw(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def weight(name, *shape):
    return tensor(name, draw(shape, len(name) + sum(shape)))


def attention(x, y, hidden, heads, tokens, mask=None):
    """Nodes and weights of self-attention with residual and LayerNormalization; batch 1."""
    nodes, weights = [], [tensor("split", np.array([1, tokens, heads, hidden // heads])), tensor("join", np.array([1, tokens, hidden])),
                          tensor("root", np.float32((hidden // heads) ** 0.5)), weight("gamma", hidden), weight("beta", hidden)]
    for part, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        weights += [weight(f"w{part}", hidden, hidden), weight(f"b{part}", hidden)]
        nodes += [helper.make_node("MatMul", [x, f"w{part}"], [f"{part}1"]), helper.make_node("Add", [f"{part}1", f"b{part}"], [f"{part}2"]),
                  helper.make_node("Reshape", [f"{part}2", "split"], [f"{part}3"]), helper.make_node("Transpose", [f"{part}3"], [f"{part}4"], perm=perm)]
    nodes += [helper.make_node("MatMul", ["q4", "k4"], ["s1"]), helper.make_node("Div", ["s1", "root"], ["s2"])]
    if mask:
        nodes.append(helper.make_node("Add", ["s2", mask], ["s3"]))
    nodes += [helper.make_node("Softmax", ["s3" if mask else "s2"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v4"], ["c1"]),
              helper.make_node("Transpose", ["c1"], ["c2"], perm=[0, 2, 1, 3]), helper.make_node("Reshape", ["c2", "join"], ["c3"]),
              helper.make_node("Add", ["c3", x], ["c4"]), helper.make_node("LayerNormalization", ["c4", "gamma", "beta"], [y], axis=-1)]
    return nodes, weights


def bert_like():
    """Ids into an embedding, a mask of ones and zeros, one layer, the first token's pooled state."""
    nodes, weights = attention("e", "last", 16, 2, 5, "m5")
    front = [helper.make_node("Gather", ["table", "ids"], ["e"]), helper.make_node("Cast", ["mask"], ["m1"], to=T.FLOAT),
             helper.make_node("Unsqueeze", ["m1", "axes"], ["m2"]), helper.make_node("Sub", ["one", "m2"], ["m3"]),
             helper.make_node("Mul", ["m3", "fill"], ["m5"])]
    back = [helper.make_node("Gather", ["last", "zero"], ["first"], axis=1), helper.make_node("Gemm", ["first", "wp"], ["pooled"])]
    more = [weight("table", 11, 16), tensor("axes", np.array([1, 2])), tensor("one", np.float32(1)), tensor("fill", np.float32(-10000)),
            tensor("zero", np.array(0)), weight("wp", 16, 3)]
    return make_model([*front, *nodes, *back], [value("ids", T.INT64, [1, 5]), value("mask", T.INT64, [1, 5])],
                      [value("last", T.FLOAT, [1, 5, 16]), value("pooled", T.FLOAT, [1, 3])], [*weights, *more], opset=17)


def vit_like():
    """A patch embedding, one layer without a mask, the mean over patches."""
    nodes, weights = attention("e", "last", 16, 2, 4)
    front = [helper.make_node("Conv", ["x", "patches"], ["c"], strides=[4, 4]), helper.make_node("Reshape", ["c", "flat"], ["f"]),
             helper.make_node("Transpose", ["f"], ["t"], perm=[0, 2, 1]), helper.make_node("Add", ["t", "places"], ["e"])]
    back = [helper.make_node("ReduceMean", ["last"], ["mean"], axes=[1], keepdims=0), helper.make_node("Gemm", ["mean", "wc"], ["classes"])]
    more = [weight("patches", 16, 3, 4, 4), tensor("flat", np.array([1, 16, 4])), weight("places", 1, 4, 16), weight("wc", 16, 3)]
    return make_model([*front, *nodes, *back], [value("x", T.FLOAT, [1, 3, 8, 8])],
                      [value("last", T.FLOAT, [1, 4, 16]), value("classes", T.FLOAT, [1, 3])], [*weights, *more], opset=17)


# ---- transformers

BERT_FEEDS = {"ids": np.array([[1, 2, 3, 10, 0]]), "mask": np.array([[1, 1, 1, 1, 0]])}


@pytest.mark.parametrize("target", ["ort-cpu", "onnx", "npu-4d"])
def test_bert_like(tmp_path, target):
    model = bert_like()
    result, report, printed = optimized(tmp_path, model, "--io-rank", 4, "--target", target)
    assert interface(result) == {"ids": (T.INT64, [1, 5]), "mask": (T.INT64, [1, 1, 1, 5]), "last": (T.FLOAT, [1, 1, 5, 16]),
                                 "pooled": (T.FLOAT, [1, 1, 1, 3])}
    assert report["io_rank"]["rank"] == 4
    assert report["io_rank"]["inputs"] == [{"name": "mask", "before": [1, 5], "after": [1, 1, 1, 5]}]
    assert report["io_rank"]["outputs"] == [{"name": "last", "before": [1, 5, 16], "after": [1, 1, 5, 16]},
                                            {"name": "pooled", "before": [1, 3], "after": [1, 1, 1, 3]}]
    assert report["io_rank"]["kept"] == [{"name": "ids", "because": "only read as indices or shapes"}]
    assert "changed as asked (--io-rank 4): input 'mask' [1,5] -> [1,1,1,5]" in printed
    assert "changed as asked (--io-rank 4): output 'pooled' [1,3] -> [1,1,1,3]" in printed
    assert "not changed: 'ids' (only read as indices or shapes)" in printed
    assert report["verified"]
    assert_same(model, result, report, BERT_FEEDS)


@pytest.mark.parametrize("target", ["ort-cpu", "onnx", "npu-4d"])
def test_vit_like(tmp_path, target):
    model = vit_like()
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4, "--target", target)
    assert interface(result) == {"x": (T.FLOAT, [1, 3, 8, 8]), "last": (T.FLOAT, [1, 1, 4, 16]), "classes": (T.FLOAT, [1, 1, 1, 3])}
    assert report["io_rank"]["inputs"] == [] and report["io_rank"]["kept"] == []
    assert_same(model, result, report, {"x": draw([1, 3, 8, 8])})


@pytest.mark.parametrize("make", [bert_like, vit_like])
def test_no_view_is_left_at_the_border_of_a_target_of_rank_4(tmp_path, make):
    plain, without, _ = optimized(tmp_path, make(), "--target", "npu-4d")
    assert views_at_the_border(plain)  # there are some without
    result, report, _ = optimized(tmp_path, make(), "--target", "npu-4d", "--io-rank", 4)
    assert views_at_the_border(result) == []
    assert report["refused_after"] == without["refused_after"] == 0
    assert report["refused_before"] == without["refused_before"] and report["before"] == without["before"]  # the original's


@pytest.mark.parametrize("name", ["bert-tsE14d", "bert-dyS23d", "bart_dec_past-tsS17d", "deit-tsE14d", "clip_vision-tsE14d"])
def test_models_of_the_zoo(tmp_path, name):
    path = ZOO / f"{name}.onnx"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    model, feeds = onnx.load(path), dict(np.load(ZOO / f"{name}.inputs.npz"))
    feeds = {i.name: feeds[i.name] for i in model.graph.input}
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert report["verified"] and report["io_rank"]["outputs"]
    kept = {k["name"] for k in report["io_rank"]["kept"]}
    assert all(len(shape) == 4 for name, (_, shape) in interface(result).items() if name not in kept)
    assert_same(model, result, report, feeds)


# ---- inputs and outputs of all kinds

SIMPLE = "g (float[N,3] x, float s) => (float[N,3] y, float t) { y = Mul (x, s)  t = Sqrt (s) }"


def test_scalars_and_symbols(tmp_path):
    model = parsed(SIMPLE)
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert interface(result) == {"x": (1, [1, 1, "N", 3]), "s": (1, [1, 1, 1, 1]), "y": (1, [1, 1, "N", 3]), "t": (1, [1, 1, 1, 1])}
    for n in (1, 2, 5, 0):
        assert_same(model, result, report, {"x": draw([n, 3]), "s": np.array(2, np.float32)})
    assert any(c["values"] == "empty" for c in report["verify"]["cases"])


def test_scalars_and_matrices_meet_without_views(tmp_path):
    model = parsed(SIMPLE)
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4, "--target", "npu-4d", "--dim", "N=2")
    assert collections.Counter(n.op_type for n in result.graph.node) == {"Mul": 1, "Sqrt": 1}
    assert_same(model, result, report, {"x": draw([2, 3]), "s": np.array(2, np.float32)})


@pytest.mark.parametrize("rank", [2, 3, 5, 8])
def test_other_ranks(tmp_path, rank):
    model = parsed(SIMPLE)
    result, report, _ = optimized(tmp_path, model, "--io-rank", rank)
    assert interface(result)["s"] == (1, [1] * rank) and interface(result)["x"] == (1, [1] * (rank - 2) + ["N", 3])
    assert_same(model, result, report, {"x": draw([2, 3]), "s": np.array(2, np.float32)})


@pytest.mark.parametrize("opset", [9, 11, 13, 18, 21])
@pytest.mark.parametrize("words", [(), ("--rules", "none")])
def test_opsets(tmp_path, opset, words):
    model = parsed("g (float[N,3] x) => (float[N,3] y, int64[N] i) { y = Relu (x)  i = ArgMax <axis = 1, keepdims = 0> (x) }", opset, 8)
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4, "--keep-opset", *words)
    assert interface(result) == {"x": (1, [1, 1, "N", 3]), "y": (1, [1, 1, "N", 3]), "i": (7, [1, 1, 1, "N"])}
    assert_same(model, result, report, {"x": draw([4, 3])})


def test_dtypes(tmp_path):
    model = parsed("""g (bool[2] b, int32[2] i, string[2] s, double[2] d) => (bool[2] nb, int32[2] ni, string[2] ns, double[2] nd)
        { nb = Not (b)  ni = Neg (i)  ns = Identity (s)  nd = Abs (d) }""")
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert interface(result) == {n: (t, [1, 1, 1, 2]) for n, t in
                                 {"b": 9, "i": 6, "s": 8, "d": 11, "nb": 9, "ni": 6, "ns": 8, "nd": 11}.items()}
    feeds = {"b": np.array([True, False]), "i": np.array([1, -2], np.int32), "d": np.array([-1.0, 2])}
    got = in_onnxruntime(result, {n: a.reshape(1, 1, 1, 2) for n, a in {**feeds, "s": np.array(["a", "bc"], object)}.items()})
    assert got["nb"].tolist() == [[[[False, True]]]] and got["ni"].tolist() == [[[[-1, 2]]]]
    assert got["ns"].tolist() == [[[["a", "bc"]]]] and got["nd"].tolist() == [[[[1, 2]]]]


def test_an_input_that_is_an_output(tmp_path):
    model = parsed("g (float[2,3] x) => (float[2,3] x, float[2,3] y) { y = Relu (x) }")
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--io-rank", 4)
    result = onnx.load(tmp_path / "o.onnx")
    assert interface(result) == {"x": (1, [1, 1, 2, 3]), "y": (1, [1, 1, 2, 3])}
    assert [n.op_type for n in result.graph.node] == ["Relu"]


def test_an_input_handed_on(tmp_path):
    model = parsed("g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Identity (x)  z = Identity (y) }")
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert_same(model, result, report, {"x": draw([2, 3])})


def test_outputs_that_are_constants(tmp_path):
    model = parsed("g (float[2] x) => (float[2] w, float[2] c, float[2] y) <float[2] w = {1, 2}> { c = Constant <value_floats = [3.0, 4.0]> ()  y = Add (x, w) }")
    result, report, _ = optimized(tmp_path, model, "--io-rank", 3)
    assert_same(model, result, report, {"x": draw([2])})


def test_unused_inputs(tmp_path):
    model = parsed("g (float[2,3] x, int64[7] unused) => (float[2,3] y) { y = Relu (x) }")
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert interface(result)["unused"] == (T.INT64, [1, 1, 1, 7])
    assert_same(model, result, report, {"x": draw([2, 3]), "unused": np.arange(7)})


def test_integers_that_are_read_as_indices_and_as_numbers(tmp_path):
    model = parsed("""g (int64[2,3] i, int64[2,3] j, float[5] w) => (float[2,3] y, int64[2,3] n, float[2,3] z)
        { y = Gather (w, i)  n = Neg (i)  k = Cast <to = 6> (j)  z = Gather (w, k) }""")
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert interface(result)["i"] == (7, [1, 1, 2, 3]) and interface(result)["j"] == (7, [2, 3])
    ids = np.array([[0, 1, 2], [3, 4, 0]])
    assert_same(model, result, report, {"i": ids, "j": ids, "w": draw([5])})


def test_indices_whose_shape_is_asked_for_stay(tmp_path):
    model = parsed("g (int64[N,3] i, int64[N,3] j, float[5] w) => (float[N,3] y, int64[2] n, int64[2] m) { y = Gather (w, i)  n = Shape (i)  m = Shape (j) }")
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert interface(result)["i"] == (7, ["N", 3]) and interface(result)["j"] == (7, [1, 1, "N", 3])
    ids = np.array([[0, 1, 2], [3, 4, 0]])
    assert_same(model, result, report, {"i": ids, "j": ids, "w": draw([5])})


def test_indices_within_a_body_are_data(tmp_path):
    model = parsed("""g (bool c, int64[2] i, float[5] w) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Gather (w, i) }, else_branch = e () => (float[2] b) { b = Cast <to = 1> (i) }> }""")
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert interface(result)["i"] == (7, [1, 1, 1, 2]) and interface(result)["c"] == (9, [1, 1, 1, 1])
    for c in (True, False):
        assert_same(model, result, report, {"c": np.array(c), "i": np.array([4, 1]), "w": draw([5])})


@pytest.mark.parametrize("words", [(), ("--rules", "none")])
def test_bodies_that_read_outer_inputs_and_outputs(tmp_path, words):
    """x is read in both bodies, but hidden by the Loop's own value of this name; y is an output that a body reads."""
    model = parsed("""g (bool c, float[2,3] x, int64 turns) => (float[2,3] y, float[2,3] z, float[2,3] last) {
        y = Relu (x)
        z = If (c) <then_branch = t () => (float[2,3] a) { a = Add (x, y) }, else_branch = e () => (float[2,3] b) { b = Sub (x, y) }>
        last = Loop (turns, , x) <body = l (int64 k, bool go, float[2,3] x) => (bool on, float[2,3] next) { on = Identity (go)  next = Add (x, y) }>
    }""")
    np.savez(tmp_path / "x.npz", c=np.array(True), x=draw([2, 3]), turns=np.array(2))  # drawn turns may be many
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4, "--inputs", tmp_path / "x.npz", *words)
    assert interface(result)["turns"] == (7, []) and interface(result)["last"] == (1, [1, 1, 2, 3])
    for c, turns in ((True, 0), (False, 3)):
        assert_same(model, result, report, {"c": np.array(c), "x": draw([2, 3]), "turns": np.array(turns)})


def test_calls_of_functions(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = own.twice (x) }
        <domain: "own", opset_import: ["" : 17]> twice (a) => (b) { b = Add (a, a) }""")
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert_same(model, result, report, {"x": draw([2, 3])})


def test_a_model_of_other_domains_alone(tmp_path):
    graph = helper.make_graph([helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")], "g",
                              [value("x", T.FLOAT, [2, 3])], [value("y", T.FLOAT, [2, 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--io-rank", 4)
    assert interface(onnx.load(tmp_path / "o.onnx"))["y"] == (1, [1, 1, 2, 3])


def test_defaults_keep_their_shape(tmp_path):
    model = make_model([helper.make_node("Mul", ["x", "w"], ["y"])], [value("x", T.FLOAT, [2, 3]), value("w", T.FLOAT, [3])],
                       [value("y", T.FLOAT, [2, 3])], [weight("w", 3)])
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert interface(result)["w"] == (1, [3])
    assert report["io_rank"]["kept"] == [{"name": "w", "because": "has a default"}]
    assert_same(model, result, report, {"x": draw([2, 3])})
    assert_same(model, result, report, {"x": draw([2, 3]), "w": draw([3], 5)})


def test_constants_among_the_inputs_before_ir_4(tmp_path):
    """They are no inputs; one that is an output keeps its shape there, too."""
    model = make_model([helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "v"], ["y"])],
                       [value("x", T.FLOAT, [2, 3]), value("w", T.FLOAT, [3]), value("v", T.FLOAT, [3])],
                       [value("y", T.FLOAT, [2, 3]), value("v", T.FLOAT, [3])], [weight("w", 3), weight("v", 3)], opset=8, ir_version=3)
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4, "--keep-opset")
    assert [k["name"] for k in report["io_rank"]["kept"]] == ["v"]
    assert_same(model, result, report, {"x": draw([2, 3])})


def test_many_names_are_cut_short(tmp_path):
    names = [f"w{i}" for i in range(11)]
    model = make_model([helper.make_node("Sum", ["x", *names], ["y"])], [value(n, T.FLOAT, [3]) for n in ("x", *names)],
                       [value("y", T.FLOAT, [3])], [weight(n, 3) for n in names])
    _, report, printed = optimized(tmp_path, model, "--io-rank", 2)
    assert len(report["io_rank"]["kept"]) == 11
    assert "not changed: " + ", ".join(f"'w{i}'" for i in range(8)) + " and 3 more (has a default)" in " ".join(printed.split())


def test_sequences_and_optionals_are_left_alone(tmp_path):
    sequence = helper.make_tensor_sequence_value_info
    at = [helper.make_node("Constant", [], ["zero"], value_int=0), helper.make_node("SequenceAt", ["s", "zero"], ["y"]),
          helper.make_node("SequenceConstruct", ["y"], ["t"])]
    model = make_model(at, [sequence("s", T.FLOAT, [2])], [value("y", T.FLOAT, [2]), sequence("t", T.FLOAT, [2])])
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert interface(result)["y"] == (1, [1, 1, 1, 2])
    assert {k["name"]: k["because"] for k in report["io_rank"]["kept"]} == {"s": "is no tensor", "t": "is no tensor"}
    got = in_onnxruntime(result, {"s": [draw([2])]})
    np.testing.assert_array_equal(got["y"], draw([2]).reshape(1, 1, 1, 2))
    np.testing.assert_array_equal(got["t"][0], draw([2]))
    optional = helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(T.FLOAT, [2])))
    model = make_model([helper.make_node("OptionalGetElement", ["o"], ["y"])], [optional], [value("y", T.FLOAT, [2])])
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert report["io_rank"]["kept"] == [{"name": "o", "because": "is no tensor"}]
    assert interface(result)["y"] == (1, [1, 1, 1, 2])


def test_an_output_without_a_declared_rank(tmp_path):
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", T.FLOAT, [2, 3])], [value("y", T.FLOAT, None)])
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4)
    assert len(interface(result)["y"][1]) == 4
    assert_same(model, result, report, {"x": draw([2, 3])})


# ---- what is refused

@pytest.mark.parametrize("text, reason", [
    ("g (float[1,2,3,1,2] x) => (float[1] y) { s = Constant <value_ints = [1]> ()  r = Reshape (x, s)  y = Relu (r) }", "input 'x' has rank 5; give 5 or more"),
    ("g (float[2] x) => (float[1,1,1,1,2] y) { s = Constant <value_ints = [1,1,1,1,2]> ()  y = Reshape (x, s) }", "output 'y' has rank 5; give 5 or more"),
])
def test_higher_ranks_are_refused(tmp_path, text, reason):
    onnx.save(parsed(text), tmp_path / "m.onnx")
    before = listing(tmp_path)
    done = run(tmp_path / "m.onnx", tmp_path / "o.onnx", "--io-rank", 4)
    assert_refused(done, 1, tmp_path, before, tmp_path / "m.onnx")
    assert f"--io-rank 4: {reason}" in done.stderr


def test_unknown_ranks_are_refused_unless_given(tmp_path):
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", T.FLOAT, None)], [value("y", T.FLOAT, None)])
    onnx.save(model, tmp_path / "m.onnx")
    before = listing(tmp_path)
    done = run(tmp_path / "m.onnx", tmp_path / "o.onnx", "--io-rank", 4)
    assert_refused(done, 1, tmp_path, before)
    assert "the rank of input 'x' is not known; --input-shapes" in done.stderr
    result, report, _ = optimized(tmp_path, model, "--io-rank", 4, "--input-shapes", "x:2,3")
    assert interface(result)["x"] == (1, [1, 1, 2, 3])
    assert_same(model, result, report, {"x": draw([2, 3])})


def test_a_body_that_gives_away_an_outer_value_is_refused(tmp_path):
    hands_on = helper.make_graph([], "t", [], [value("x", T.FLOAT, [2])])
    negates = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "e", [], [value("n", T.FLOAT, [2])])
    model = make_model([helper.make_node("If", ["c"], ["y"], then_branch=hands_on, else_branch=negates)],
                       [value("c", T.BOOL, []), value("x", T.FLOAT, [2])], [value("y", T.FLOAT, [2])])
    onnx.save(model, tmp_path / "m.onnx")
    done = run(tmp_path / "m.onnx", tmp_path / "o.onnx", "--io-rank", 4)
    assert_refused(done, 1, tmp_path, {"m.onnx": (tmp_path / "m.onnx").read_bytes()}, tmp_path / "m.onnx")
    assert "a body of the If that makes 'y' has the outer value 'x' as its own output; put an Identity between" in done.stderr


@pytest.mark.parametrize("rank", ["0", "-1", "65", "four", "4.5"])
def test_ranks_that_make_no_sense(tmp_path, rank):
    onnx.save(parsed(SIMPLE), tmp_path / "m.onnx")
    assert_refused(run(tmp_path / "m.onnx", tmp_path / "o.onnx", "--io-rank", rank), 2, tmp_path, listing(tmp_path))


# ---- verification

def test_given_inputs_have_the_shapes_of_the_original(tmp_path):
    np.savez(tmp_path / "x.npz", **BERT_FEEDS)
    _, report, _ = optimized(tmp_path, bert_like(), "--io-rank", 4, "--inputs", tmp_path / "x.npz")
    assert report["verified"] and [c["values"] for c in report["verify"]["cases"]] == ["given"]
    np.savez(tmp_path / "wrong.npz", ids=BERT_FEEDS["ids"], mask=BERT_FEEDS["mask"].reshape(1, 1, 1, 5))
    done = run(tmp_path / "m.onnx", tmp_path / "p.onnx", "--io-rank", 4, "--inputs", tmp_path / "wrong.npz")
    assert done.returncode == 1 and not (tmp_path / "p.onnx").exists()


WRONG_RULE = """opset "" 20

rule wrong (X) => (Y)
  { Y = Relu (X) }
  =>
  { Y = Abs (X) }
  example X = float[2,3]
"""


def test_a_wrong_rule_is_still_found(tmp_path):
    rules = tmp_path / "wrong.rules"
    rules.write_text(WRONG_RULE)
    model = parsed("g (float[2,3] x) => (float[2,3] y) { a = Relu (x)  y = Neg (a) }")
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "cost.json").write_text(json.dumps({"costs": {"Abs": 1}, "default": 10}))
    words = (tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--io-rank", 4, "--rules", rules, "--cost", tmp_path / "cost.json")
    done = run(*words, "--strict-verify")
    assert done.returncode == 3, done.stdout + done.stderr
    done = run_ok(*words)
    assert "rule wrong makes the result differ" in done.stdout
    assert [n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node] == ["Relu", "Neg"]


def test_a_wrong_rule_is_named(tmp_path):
    (tmp_path / "wrong.rules").write_text(WRONG_RULE)
    (tmp_path / "cost.json").write_text(json.dumps({"costs": {"Abs": 1}, "default": 10}))
    onnx.save(parsed("g (float[2,3] x) => (float[2,3] y) { a = Relu (x)  y = Neg (a) }"), tmp_path / "m.onnx")
    done = run(tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--io-rank", 4, "--rules", tmp_path / "wrong.rules", "--cost", tmp_path / "cost.json", "--debug-rules")
    assert done.returncode == 3 and "wrong" in done.stderr, done.stderr


def test_without_the_option_nothing_is_said(tmp_path):
    result, report, printed = optimized(tmp_path, parsed(SIMPLE))
    assert report["io_rank"] is None and "--io-rank" not in printed
    assert interface(result) == interface(parsed(SIMPLE))


def test_the_same_bytes_each_time(tmp_path):
    onnx.save(bert_like(), tmp_path / "m.onnx")
    for name in ("a.onnx", "b.onnx"):
        run_ok(tmp_path / "m.onnx", tmp_path / name, "--io-rank", 4, "--target", "npu-4d")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_repro_repeats_it(tmp_path):
    onnx.save(parsed(SIMPLE), tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--io-rank", 4, "--save-repro", tmp_path / "repro")
    said = [p.read_text() for p in (tmp_path / "repro").iterdir() if p.is_file()]
    assert any(re.search(r"--io-rank\W+4", text) for text in said), said


def test_ids_of_an_embedding_operator_stay(tmp_path):
    """com.microsoft's operators hold indices, too."""
    stored = [tensor("w", draw((30, 8))), tensor("p", draw((6, 8))), tensor("g", np.ones(8, np.float32)), tensor("b", np.zeros(8, np.float32))]
    model = make_model([helper.make_node("EmbedLayerNormalization", ["ids", "", "w", "p", "", "g", "b"], ["y", "m"], domain="com.microsoft")],
                       [value("ids", T.INT32, [1, 6])], [value("y", T.FLOAT, [1, 6, 8])], stored, domains=["com.microsoft"])
    result, report, _ = optimized(tmp_path, model, "--io-rank", "4")
    assert report["io_rank"]["kept"] == [{"name": "ids", "because": "only read as indices or shapes"}]
    assert_same(model, result, report, {"ids": np.arange(6, dtype=np.int32)[None]})
