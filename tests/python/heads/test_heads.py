"""Attention of N heads as N attentions of one head, and back: the graphs of NPU documents, wishes and their price, masks that are added."""
import collections
import json

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import heads_graphs
from conftest import make_model, run, run_ok, value

ort.set_default_logger_severity(4)
SMALL = {"T": 6, "H": 8, "L": 10}
ONE_HEAD = ("--target", "onnx", "--prefer", "single-heads")


def in_onnxruntime(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def in_openvino(model, feeds):
    openvino = pytest.importorskip("openvino")
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"})
    found = compiled(feeds)
    return [found[compiled.output(o.name)] for o in model.graph.output]


def optimized(tmp_path, model, *words):
    onnx.save(model, tmp_path / "m.onnx")
    done = run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *words, "--report", tmp_path / "r.json")
    return onnx.load(tmp_path / "o.onnx"), json.loads((tmp_path / "r.json").read_text()), done.stdout


def operators(model):
    """How often each operator stands there, but for what only hands numbers on."""
    counts = collections.Counter(n.op_type for n in model.graph.node)
    return {op: n for op, n in counts.items() if op not in ("Identity", "Reshape", "Transpose", "Split")}


def assert_same(a, b, feeds, runtime=in_onnxruntime):
    for x, y in zip(runtime(a, feeds), runtime(b, feeds)):
        np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-5)


def of_document(form, heads):
    """The operators of the "updated" figure."""
    if form != "select":
        return {"Mul": heads, "MatMul": 4 * heads, "Concat": heads + 1, "Add": 2 * heads, "Softmax": heads, "Slice": 2 * heads}
    return {"Equal": 1, "Cast": 1, "Mul": 1 + 2 * heads, "MatMul": 2 * heads, "Add": heads, "Softmax": heads, "Concat": 1}


# ---- one head at a time

@pytest.mark.parametrize("target", ["onnx", "npu-4d"])
@pytest.mark.parametrize("sizes", [heads_graphs.DOCUMENT, SMALL | {"N": 2}, SMALL | {"N": 8}, SMALL | {"N": 5, "B": 2}], ids=str)
@pytest.mark.parametrize("form", heads_graphs.FORMS)
def test_the_figures(tmp_path, form, sizes, target):
    model = heads_graphs.FORMS[form](**sizes)
    result, report, _ = optimized(tmp_path, model, "--target", target, "--prefer", "single-heads")
    assert operators(result) == of_document(form, sizes["N"])
    assert report["unwanted"] == []
    assert not report["refused_after"]
    assert_same(model, result, heads_graphs.draw(model))


@pytest.mark.parametrize("form", heads_graphs.FORMS)
def test_openvino_agrees(tmp_path, form):
    model = heads_graphs.FORMS[form](**SMALL)
    result, _, _ = optimized(tmp_path, model, *ONE_HEAD)
    assert_same(model, result, heads_graphs.draw(model), in_openvino)


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_older_opsets(tmp_path, opset):
    model = heads_graphs.gemma(**SMALL, opset=opset)
    result, _, _ = optimized(tmp_path, model, *ONE_HEAD, "--keep-opset")
    assert operators(result) == of_document("prefill", 4) and result.opset_import[0].version == opset
    assert_same(model, result, heads_graphs.draw(model))


def test_scales_may_be_inputs(tmp_path):
    model = heads_graphs.select(**SMALL, scales=True)
    result, _, _ = optimized(tmp_path, model, *ONE_HEAD)
    joined = {"Concat": 2}  # keys are transposed together: a Concat, a Transpose and a Split cost less than four Transposes
    assert operators(result) == of_document("select", 4) | joined
    assert_same(model, result, heads_graphs.draw(model))


def test_one_mask_for_all_heads_and_layers(tmp_path):
    model = heads_graphs.select(**SMALL, layers=3)
    result, _, _ = optimized(tmp_path, model, *ONE_HEAD)
    found = operators(result)
    assert (found["Equal"], found["Cast"], found["Add"], found["Softmax"]) == (1, 1, 12, 12) and "Where" not in found
    assert_same(model, result, heads_graphs.draw(model))


def test_one_head_is_as_it_was(tmp_path):
    model = heads_graphs.gemma(**SMALL, N=1)
    result, _, _ = optimized(tmp_path, model, *ONE_HEAD)
    wanted = of_document("prefill", 1) | {"Concat": 1}  # its two Slices of one tensor are all of it: a Split, which is not counted
    assert wanted.pop("Slice") == 2 and operators(result) == wanted


@pytest.mark.parametrize("form", heads_graphs.FORMS)
def test_e_nodes_are_linear_in_the_heads(tmp_path, form):
    nodes = {}
    for heads in (8, 16, 32, 64):
        onnx.save(heads_graphs.FORMS[form](**SMALL, N=heads), tmp_path / "m.onnx")
        run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *ONE_HEAD, "--no-verify", "--report", tmp_path / "r.json")
        nodes[heads] = json.loads((tmp_path / "r.json").read_text())["egraph"]["enodes"]
    assert nodes[64] - nodes[32] <= 2.1 * (nodes[32] - nodes[16]) and nodes[32] - nodes[16] <= 2.1 * (nodes[16] - nodes[8])


def grouped(heads=6, groups=2, past=3, opset=17):
    """Projections, grouped keys and values as exporters write them, and a cache that goes on as an output."""
    b, t, d, s = 1, 5, 4, 8
    g = heads_graphs.Graph()
    random = np.random.default_rng(1)
    weight = lambda n: g.constant(random.standard_normal((12, n)) / 4)
    apart = lambda x, n: g.transpose(g.reshape(x, [b, t, n, d]), [0, 2, 1, 3])
    q, k, v = apart(g.add("MatMul", "x", weight(heads * d)), heads), apart(g.add("MatMul", "x", weight(groups * d)), groups), apart(g.add("MatMul", "x", weight(groups * d)), groups)
    k, v = g.add("Concat", "past_k", k, axis=2), g.add("Concat", "past_v", v, axis=2)

    def repeated(x):
        wide = g.add("Expand", g.reshape(x, [b, groups, 1, s, d]), g.constant([b, groups, heads // groups, s, d], np.int64))
        return g.reshape(wide, [b, heads, s, d])

    scores = g.add("Add", g.add("Mul", g.add("MatMul", q, g.transpose(repeated(k), [0, 1, 3, 2])), g.constant(0.5)), "mask")
    joined = g.reshape(g.transpose(g.add("MatMul", g.add("Softmax", scores, axis=-1), repeated(v)), [0, 2, 1, 3]), [b, t, heads * d])
    assert past + t == s
    cache = [b, groups, past, d]
    out = g.add("MatMul", joined, g.constant(random.standard_normal((heads * d, 12)) / 4))
    present = [b, groups, s, d]
    return g.model({"x": ([b, t, 12],), "past_k": (cache,), "past_v": (cache,), "mask": ([b, 1, t, s],)}, {"y": (out, [b, t, 12]), "k": (k, present), "v": (v, present)}, opset)


def test_grouped_heads_with_a_cache(tmp_path):
    model = grouped()
    result, report, _ = optimized(tmp_path, model, *ONE_HEAD)
    found = operators(result)
    assert found["Softmax"] == 6 and "Expand" not in found and "Attention" not in found
    assert report["unwanted"] == []
    assert_same(model, result, heads_graphs.draw(model))


@pytest.mark.parametrize("weights, op", [
    ("p = Hardmax <axis = -1> (s)", "Hardmax"),
    ("e = Exp (s) p = LpNormalization <axis = -1, p = 1> (e)", "LpNormalization"),
    ("e = Softmax <axis = -1> (s) q8 = QuantizeLinear <output_dtype = 3> (e, step) p = DequantizeLinear (q8, step)", "QuantizeLinear"),
])
def test_what_is_made_of_scores_is_of_one_head(tmp_path, weights, op):
    model = onnx.parser.parse_model(f'''<ir_version: 10, opset_import: ["" : 23]>
        g (float[1,3,6,8] q, float[1,3,6,8] k, float[1,3,6,8] v) => (float[1,3,6,8] y) <float step = {{0.01}}> {{
          t = Transpose <perm = [0, 1, 3, 2]> (k)  s = MatMul (q, t)  {weights}  y = MatMul (p, v) }}''')
    result, _, _ = optimized(tmp_path, model, *ONE_HEAD)
    assert operators(result)[op] == 3 and operators(result)["MatMul"] == 6
    assert_same(model, result, heads_graphs.draw(model))


# ---- back

@pytest.mark.parametrize("heads", [2, 4, 8])
def test_heads_that_came_apart_are_attention_again(tmp_path, heads):
    single, _, _ = optimized(tmp_path, heads_graphs.select(**SMALL, N=heads), *ONE_HEAD)
    result, _, _ = optimized(tmp_path, single, "--target", "ort-cpu@1.31")
    found = operators(result)
    assert found.get("Attention", 0) + found.get("MultiHeadAttention", 0) == 1 and "Softmax" not in found and "MatMul" not in found
    assert_same(single, result, heads_graphs.draw(single))


def test_projections_of_heads_are_one_again(tmp_path):
    single, _, _ = optimized(tmp_path, grouped(), *ONE_HEAD)
    result, _, _ = optimized(tmp_path, single, "--target", "ort-cpu@1.31")
    found = operators(result)
    assert found.get("Attention", 0) + found.get("GroupQueryAttention", 0) + found.get("MultiHeadAttention", 0) == 1 and "Softmax" not in found
    assert_same(single, result, heads_graphs.draw(single))


def test_norms_of_heads_are_one_again(tmp_path):
    """Queries and keys that are normalized head by head: the norm is of all heads, and so is the projection in front of it."""
    def head(i):
        return f"""q{i}0 = MatMul (x, wq{i})  q{i}1 = Unsqueeze (q{i}0, one)  q{i} = RMSNormalization <axis = -1> (q{i}1, scale)
                   k{i}0 = MatMul (x, wk{i})  k{i}1 = Unsqueeze (k{i}0, one)  k{i} = RMSNormalization <axis = -1> (k{i}1, scale)
                   v{i}0 = MatMul (x, wv{i})  v{i} = Unsqueeze (v{i}0, one)
                   t{i} = Transpose <perm = [0, 1, 3, 2]> (k{i})  s{i} = MatMul (q{i}, t{i})  p{i} = Softmax <axis = -1> (s{i})  h{i} = MatMul (p{i}, v{i})"""
    model = onnx.parser.parse_model(f'''<ir_version: 10, opset_import: ["" : 23]>
        g (float[1,6,16] x) => (float[1,2,6,8] y) <int64[1] one = {{1}}> {{ {head(0)} {head(1)} y = Concat <axis = 1> (h0, h1) }}''')
    rng = np.random.default_rng(0)
    for name in [w + i for w in ("wq", "wk", "wv") for i in "01"]:
        model.graph.initializer.append(numpy_helper.from_array((rng.normal(size=(16, 8)) * .3).astype(np.float32), name))
    model.graph.initializer.append(numpy_helper.from_array(rng.normal(size=8).astype(np.float32), "scale"))
    result, _, _ = optimized(tmp_path, model, "--target", "onnx")
    found = operators(result)
    assert found.get("Attention") == 1 and found.get("RMSNormalization") == 2 and found.get("MatMul", 0) <= 3, found
    assert_same(model, result, heads_graphs.draw(model))


# ---- wishes

def target_file(tmp_path, **more):
    file = json.loads(run_ok("targets", "show", "onnx").stdout) | {"name": "mine"} | more
    (tmp_path / "mine.json").write_text(json.dumps(file))
    return tmp_path / "mine.json"


def test_a_wish_is_weighed(tmp_path):
    """Four heads of a product cost four nodes more: a wish that is worth less stays a wish, and the report names it."""
    model = heads_graphs.gemma(**SMALL)
    wish = {"operators": ["MatMul"], "max_heads": 1, "because": "one at a time"}
    result, report, told = optimized(tmp_path, model, "--target", target_file(tmp_path, wishes=[wish | {"price": 1.5}]))
    assert operators(result)["MatMul"] == 4
    assert report["unwanted"] == [{"operator": "MatMul", "wish": "one at a time", "count": 4}]
    assert "unwanted" in told and "4 MatMul (one at a time)" in told
    result, report, _ = optimized(tmp_path, model, "--target", target_file(tmp_path, wishes=[wish | {"price": 100}]))
    assert operators(result)["MatMul"] == 16 and report["unwanted"] == []


def test_a_target_keeps_its_wishes(tmp_path):
    wish = {"operators": ["MatMul"], "max_heads": 1, "price": 3.0}
    shown = json.loads(run_ok("targets", "show", target_file(tmp_path, wishes=[wish])).stdout)
    assert shown["wishes"] == [wish]


@pytest.mark.parametrize("wish, word", [({"price": 0.5}, "at least 1"), ({"prize": 2}, "prize"), ({"price": "much"}, "wrong type")])
def test_a_wrong_wish_is_refused(tmp_path, wish, word):
    done = run("targets", "show", target_file(tmp_path, wishes=[wish]))
    assert done.returncode == 1 and word in done.stderr


def test_an_unknown_preference_is_a_usage_error(tmp_path):
    assert run(tmp_path / "m.onnx", tmp_path / "o.onnx", "--prefer", "two-heads").returncode == 2


def test_nothing_is_wished_of_other_models(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Conv", ["r", "w"], ["y"])]
    weight = numpy_helper.from_array(np.ones((5, 4, 1, 1), np.float32), "w")
    model = make_model(nodes, [value("x", T.FLOAT, [1, 4, 6, 6])], [value("y", T.FLOAT, [1, 5, 6, 6])], [weight])
    result, report, _ = optimized(tmp_path, model, *ONE_HEAD)
    assert operators(result) == {"Relu": 1, "Conv": 1} and report["unwanted"] == []


# ---- masks of small numbers

def fills(model):
    return [float(np.min(numpy_helper.to_array(c))) for c in model.graph.initializer if numpy_helper.to_array(c).dtype == np.float32 and numpy_helper.to_array(c).size == 1]


def small_masks(tmp_path):
    wish = {"operators": ["Add", "Mul", "Where"], "max_constant": 65504, "price": 10, "because": "what half precision holds"}
    no_choice = {"operators": ["Where"], "dtypes": ["bool", "int64"], "price": 10}
    return target_file(tmp_path, assumes=["small_scores"], wishes=[wish, no_choice])


def test_small_fills_are_a_risk_that_a_target_takes(tmp_path):
    model = heads_graphs.select(**SMALL)
    result, report, told = optimized(tmp_path, model, "--target", small_masks(tmp_path), "--opset", "18")
    assert told.splitlines()[0].startswith("taking risks as asked: small_scores") and report["risks"] == ["small_scores"]
    assert min(fills(result)) == -256 and operators(result)["Add"] == 1
    assert_same(model, result, heads_graphs.draw(model))


def test_small_fills_are_taken_back(tmp_path):
    model = heads_graphs.select(**SMALL)
    result, report, told = optimized(tmp_path, model, "--target", small_masks(tmp_path), "--opset", "18", "--no-assume", "small_scores")
    assert "taking risks" not in told and report["risks"] == []
    assert min(fills(result)) <= -1e9


def test_small_fills_are_not_assumed(tmp_path):
    result, _, _ = optimized(tmp_path, heads_graphs.select(**SMALL), *ONE_HEAD)
    assert min(fills(result)) <= -1e9


def test_infinite_fills_stay_infinite(tmp_path):
    """0 times infinity is no 0: such a mask is no product, but a mask of numbers hides as well where no row is hidden as a whole."""
    model = heads_graphs.select(**SMALL, fill=-np.inf)
    result, report, _ = optimized(tmp_path, model, *ONE_HEAD)
    assert operators(result) == of_document("select", 4)
    assert "no_empty_row" in [a["assumption"] for a in report["assumed"]]
    result, _, _ = optimized(tmp_path, model, *ONE_HEAD, "--no-assume", "no_empty_row")
    assert "Where" in operators(result)
    assert_same(model, result, heads_graphs.draw(model))


def test_a_target_that_counts_no_heads_takes_none_apart(tmp_path):
    """npu-4d refuses products for their rank alone."""
    model = make_model([helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Softmax", ["s"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"])],
                       [value("q", T.FLOAT, [6, 5, 8]), value("k", T.FLOAT, [6, 8, 7]), value("v", T.FLOAT, [6, 7, 8])], [value("y", T.FLOAT, [6, 5, 8])])
    _, plain, _ = optimized(tmp_path, model, "--target", "npu-4d")
    _, more, _ = optimized(tmp_path, model, "--target", "npu-4d", "--prefer", "single-heads")
    assert plain["refused_after"] == more["refused_after"] == 0
    begun = [[r["applied"] for r in report["saturation"]["rules"] if r["rule"] == "heads_begin"] for report in (plain, more)]
    assert sum(begun[0]) == 0 < sum(begun[1])
