"""What is taken for granted: masks are masks, rows that a mask hides as a whole keep what becomes of them, risks are taken on request only."""
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import helper

from conftest import make_model, run, run_ok, tensor, value

ort.set_default_logger_severity(4)
LOWEST = float(np.finfo(np.float32).min)
NODES = ("--cost", "nodes")
NEWEST = (*NODES, "--target", "ort-cpu@1.31")


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], **attributes)


def outputs(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def optimized(tmp_path, model, *words):
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *words, "--report", tmp_path / "r.json")
    return onnx.load(tmp_path / "o.onnx"), json.loads((tmp_path / "r.json").read_text())


def assert_same(tmp_path, model, *feeds, words=NEWEST, rtol=1e-4, atol=1e-5):
    """The result computes the same on these inputs, also what is NaN; returns it with its operators and the report."""
    result, report = optimized(tmp_path, model, *words)
    for feed in feeds:
        for a, b in zip(outputs(model, feed), outputs(result, feed)):
            np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)
    return [n.op_type for n in result.graph.node], report


def fused(operators):
    return sum(op in ("Attention", "MultiHeadAttention") for op in operators)


# ---- a mask is one only where it hides scores

NUMBERS = np.array([[0, 1, 2, 5]], np.int64)


def linear(fill=-1500.0, dtype=T.INT64):
    nodes = [node("Cast", ["n"], "f", to=T.FLOAT), node("Sub", ["one", "f"], "d"), node("Mul", ["d", "fill"], "y")]
    return make_model(nodes, [value("n", dtype, ["b", 4])], [value("y", T.FLOAT, ["b", 4])], [tensor("one", np.float32(1)), tensor("fill", np.float32(fill))])


@pytest.mark.parametrize("fill", [-1500.0, -10000.0, LOWEST / 10])
@pytest.mark.parametrize("target", ["ort-cpu@1.31", "onnx"])
def test_a_linear_formula_is_no_mask(tmp_path, fill, target):
    assert_same(tmp_path, linear(fill), {"n": NUMBERS}, words=(*NODES, "--target", target))


def test_a_linear_formula_of_floats_is_no_mask(tmp_path):
    nodes = [node("Sub", ["one", "m"], "d"), node("Mul", ["d", "fill"], "p"), node("Add", ["p", "x"], "y"), node("Mul", ["d", "x"], "z")]
    model = make_model(nodes, [value("m", T.FLOAT, ["b", 4]), value("x", T.FLOAT, ["b", 4])], [value("y", T.FLOAT, ["b", 4]), value("z", T.FLOAT, ["b", 4])],
                       [tensor("one", np.float32(1)), tensor("fill", np.float32(-1500))])
    assert_same(tmp_path, model, {"m": np.float32([[0, 0.25, 0.5, 2]]), "x": np.float32([[1, 2, 3, 4]])})


@pytest.mark.parametrize("dtype, fill", [(T.INT64, 2.5), (T.INT64, -1024.0), (T.FLOAT, -1024.0)])
def test_a_blend_is_no_mask(tmp_path, dtype, fill):
    number = dtype == T.INT64
    nodes = [node("Cast", ["m"], "f", to=T.FLOAT) if number else node("Identity", ["m"], "f"), node("Sub", ["one", "f"], "n"), node("Mul", ["f", "x"], "p"),
             node("Mul", ["n", "c"], "q"), node("Add", ["p", "q"], "y")]
    model = make_model(nodes, [value("m", dtype, ["b", 4]), value("x", T.FLOAT, ["b", 4])], [value("y", T.FLOAT, ["b", 4])],
                       [tensor("one", np.float32(1)), tensor("c", np.float32(fill))])
    mask = NUMBERS if number else np.float32([[0, 0.25, 0.5, 1]])
    assert_same(tmp_path, model, {"m": mask, "x": np.float32([[40, -7, 11, 3]])})


def gated(with_complement):
    """softmax(x) m / sum(softmax(x) m): priors, gates, weights of importance."""
    nodes = [node("Softmax", ["x"], "p", axis=-1), node("Mul", ["p", "m"], "g"), node("ReduceSum", ["g", "axes"], "d", keepdims=1), node("Div", ["g", "d"], "y")]
    outputs = [value("y", T.FLOAT, ["b", 4])]
    if with_complement:
        nodes += [node("Sub", ["one", "m"], "rest"), node("Mul", ["rest", "x"], "z")]
        outputs.append(value("z", T.FLOAT, ["b", 4]))
    return make_model(nodes, [value("x", T.FLOAT, ["b", 4]), value("m", T.FLOAT, ["b", 4])], outputs, [tensor("axes", np.int64([-1])), tensor("one", np.float32(1))])


@pytest.mark.parametrize("with_complement", [False, True])
def test_gates_are_no_mask(tmp_path, with_complement):
    feed = {"x": np.float32([[1, 2, 3, 4]]), "m": np.float32([[0.5, 0.25, 1, 0.1]])}
    assert_same(tmp_path, gated(with_complement), feed)


def attention(mask_nodes, inputs, initializers=(), after=(), mask="mask", softmax_in="a", opset=18, **dims):
    """One head of attention over q, k and v of the model's inputs, with `mask` added to the scores."""
    nodes = [*mask_nodes, node("Transpose", ["k"], "kt", perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], "s0"), node("Mul", ["s0", "scale"], "s"),
             *([node("Add", ["s", mask], "a")] if mask else []), *after]
    if not any("p" in n.output for n in nodes):
        nodes.append(node("Softmax", [softmax_in], "p", axis=-1))
    if not any("y" in n.output for n in nodes):
        nodes.append(node("MatMul", ["p", "v"], "y"))
    ins = [value(n, T.FLOAT, ["b", 2, "s", 8]) for n in "qkv"]
    return make_model(nodes, [*ins, *inputs], [value("y", T.FLOAT, ["b", 2, "s", 8])], [tensor("scale", np.float32(0.25)), *initializers], opset=opset)


def heads(batch=2, length=4, seed=0):
    random = np.random.default_rng(seed)
    return {n: random.standard_normal((batch, 2, length, 8)).astype(np.float32) for n in "qkv"}


ONE, ZERO = tensor("one", np.float32(1)), tensor("zero", np.float32(0))
TOKENS = value("m", T.INT64, ["b", "s"])


def of_tokens(fill):
    """(1 - m) * fill, [b, 1, 1, s]."""
    nodes = [node("Unsqueeze", ["m", "axes12"], "m4"), node("Cast", ["m4"], "mf", to=T.FLOAT), node("Sub", ["one", "mf"], "hidden"), node("Mul", ["hidden", "fill"], "mask")]
    return nodes, [ONE, tensor("axes12", np.int64([1, 2])), tensor("fill", np.float32(fill))]


@pytest.mark.parametrize("fill", [-10000.0, -1e9, LOWEST])
@pytest.mark.parametrize("target", ["ort-cpu@1.31", "onnx"])
def test_a_mask_of_tokens_is_fused_and_hides_whole_rows_as_before(tmp_path, fill, target):
    nodes, initializers = of_tokens(fill)
    model = attention(nodes, [TOKENS], initializers)
    masks = [np.int64(m) for m in ([[1, 1, 1, 1], [1, 1, 0, 0]], [[0, 0, 0, 0], [0, 1, 1, 0]])]
    operators, report = assert_same(tmp_path, model, *({**heads(), "m": m} for m in masks), words=(*NODES, "--target", target))
    assert fused(operators) == 1, operators
    assert not report["risks"] and all(a["class"] != "risky" for a in report["assumed"])


def left_padded(batch=2, length=4):
    mask = np.ones((batch, length), np.int64)
    mask[1, :2] = 0
    return mask


def seen_before(seen="seen"):
    """Keys up to the query, from positions that count: [s, s]."""
    return [node("Shape", ["m"], "dims", start=1, end=2), node("Squeeze", ["dims"], "n"), node("Range", ["i0", "n", "i1"], "positions"),
            node("Unsqueeze", ["positions", "axis1"], "rows"), node("LessOrEqual", ["positions", "rows"], seen)], [
                tensor("i0", np.int64(0)), tensor("i1", np.int64(1)), tensor("axis1", np.int64([1]))]


def of_both(fill):
    """Where(seen before and a token, 0, fill), [b, 1, s, s]."""
    causal, initializers = seen_before()
    nodes = [*causal, node("Unsqueeze", ["m", "axes12"], "m4"), node("Cast", ["m4"], "token", to=T.BOOL), node("And", ["seen", "token"], "shown"),
             node("Where", ["shown", "zero", "fill"], "mask")]
    return nodes, [*initializers, ZERO, tensor("axes12", np.int64([1, 2])), tensor("fill", np.float32(fill))]


GUARD = [node("Softmax", ["a"], "p0", axis=-1), node("IsNaN", ["p0"], "nan"), node("Where", ["nan", "zero", "p0"], "p")]


@pytest.mark.parametrize("fill", [-np.inf, LOWEST, -10000.0])
@pytest.mark.parametrize("target", ["ort-cpu@1.31", "onnx"])
def test_the_guard_of_exporters_keeps_its_zeros(tmp_path, fill, target):
    """Padding on the left beside a causal mask: the first rows see nothing."""
    nodes, initializers = of_both(fill)
    model = attention(nodes, [TOKENS], initializers, GUARD)
    feed = {**heads(), "m": left_padded()}
    if np.isinf(fill):
        assert (outputs(model, feed)[0][1, :, 0] == 0).all()
    operators, _ = assert_same(tmp_path, model, feed, {**heads(), "m": np.int64([[1, 1, 1, 1], [0, 0, 0, 0]])}, words=(*NODES, "--target", target))
    assert fused(operators) == 1, operators


def test_a_guard_behind_the_product_with_the_values_keeps_its_zeros(tmp_path):
    nodes, initializers = of_both(-np.inf)
    after = [node("Softmax", ["a"], "p", axis=-1), node("MatMul", ["p", "v"], "o"), node("IsNaN", ["o"], "nan"), node("Where", ["nan", "zero", "o"], "y")]
    assert_same(tmp_path, attention(nodes, [TOKENS], initializers, after), {**heads(), "m": left_padded()})


def test_causal_attention_needs_no_guard(tmp_path):
    causal, initializers = seen_before()
    nodes = [*causal, node("Where", ["seen", "zero", "fill"], "mask")]
    model = attention(nodes, [TOKENS], [*initializers, ZERO, tensor("fill", np.float32(-np.inf))], GUARD)
    operators, _ = assert_same(tmp_path, model, {**heads(), "m": left_padded()})
    assert fused(operators) == 1 and "IsNaN" not in operators and "ReduceMax" not in operators, operators


@pytest.mark.parametrize("hides", ["future", "tokens"])
def test_a_softmax_that_stays_needs_no_guard(tmp_path, hides):
    """No operator of the target takes it in. Every row sees something, or is hidden by numbers: no row is NaN."""
    mask, initializers = seen_before() if hides == "future" else of_tokens(-10000.0)
    nodes = [*mask, node("Where", ["seen", "zero", "fill"], "mask")] if hides == "future" else mask
    more = [ZERO, tensor("fill", np.float32(-np.inf))] if hides == "future" else []
    model = attention(nodes, [TOKENS], [*initializers, *more], GUARD)
    if "zero" not in {i.name for i in model.graph.initializer}:
        model.graph.initializer.append(ZERO)
    operators, _ = assert_same(tmp_path, model, {**heads(), "m": left_padded()}, words=(*NODES, "--target", "onnx", "--keep-opset"))
    assert "Softmax" in operators and "IsNaN" not in operators, operators


@pytest.mark.parametrize("fill", [-10000.0, -1e9, LOWEST])
@pytest.mark.parametrize("target", ["ort-cpu@1.31", "onnx"])
def test_padding_on_the_left_beside_a_causal_mask_keeps_its_rows(tmp_path, fill, target):
    """Two masks are added: the first rows are hidden as a whole, by one or the other."""
    causal, initializers = seen_before()
    tokens, more = of_tokens(fill)
    nodes = [*causal, *tokens[:-1], node("Mul", ["hidden", "fill"], "padding"), node("Where", ["seen", "zero", "fill"], "future"), node("Add", ["future", "padding"], "mask")]
    model = attention(nodes, [TOKENS], [*initializers, *more, ZERO])
    operators, _ = assert_same(tmp_path, model, {**heads(), "m": left_padded()}, words=(*NODES, "--target", target))
    assert fused(operators) == 1, operators


def test_scores_hidden_again_are_zero_where_a_row_is_hidden_as_a_whole(tmp_path):
    """DeBERTa: queries that are no tokens see nothing."""
    nodes = [node("Unsqueeze", ["m", "axes12"], "m4"), node("Unsqueeze", ["m", "axes13"], "m5"), node("Mul", ["m4", "m5"], "mm"), node("Cast", ["mm"], "shown", to=T.BOOL),
             node("Not", ["shown"], "hidden")]
    after = [node("Where", ["hidden", "fill", "s"], "a"), node("Softmax", ["a"], "p0", axis=-1), node("Where", ["hidden", "zero", "p0"], "p")]
    model = attention(nodes, [TOKENS], [tensor("axes12", np.int64([1, 2])), tensor("axes13", np.int64([1, 3])), tensor("fill", np.float32(LOWEST)), ZERO], after, mask=None)
    feed = {**heads(), "m": np.int64([[1, 1, 0, 0], [1, 1, 1, 1]])}
    assert (outputs(model, feed)[0][0, :, 2:] == 0).all()
    operators, _ = assert_same(tmp_path, model, feed)
    assert fused(operators) == 1, operators


@pytest.mark.parametrize("fill, fuses", [(-500.0, False), (-10000.0, True)])
def test_a_choice_of_scores_beats_large_hidden_ones(tmp_path, fill, fuses):
    """Where hides a score of 1000; a sum with -500 would not."""
    nodes = [node("Unsqueeze", ["m", "axes12"], "m4"), node("Cast", ["m4"], "shown", to=T.BOOL)]
    after = [node("Where", ["shown", "s", "fill"], "a")]
    model = attention(nodes, [TOKENS], [tensor("axes12", np.int64([1, 2])), tensor("fill", np.float32(fill))], after, mask=None)
    feed = {**heads(), "m": np.int64([[1, 1, 1, 0], [0, 0, 0, 0]])}
    feed["k"][:, :, 3] *= 3000
    operators, _ = assert_same(tmp_path, model, feed, words=(*NODES, "--target", "onnx"))
    assert fused(operators) == fuses, operators


@pytest.mark.parametrize("mask", ["bool", "inf"])
def test_attention_written_for_an_older_opset_keeps_zeros(tmp_path, mask):
    nodes = [node("Attention", ["q", "k", "v", "m"], "y", scale=0.25)]
    kind = T.BOOL if mask == "bool" else T.FLOAT
    inputs = [*(value(n, T.FLOAT, [2, 2, 4, 8]) for n in "qkv"), value("m", kind, [2, 1, 4, 4])]
    model = make_model(nodes, inputs, [value("y", T.FLOAT, [2, 2, 4, 8])], opset=23, ir_version=10)
    shown = np.tril(np.ones((2, 1, 4, 4), bool)) & left_padded()[:, None, None].astype(bool)
    feed = {**heads(), "m": shown if mask == "bool" else np.where(shown, 0, -np.inf).astype(np.float32)}
    assert (outputs(model, feed)[0][1, :, 0] == 0).all()
    for words in ((), ("--no-assume", "no_empty_row")):
        assert_same(tmp_path, model, feed, words=(*NODES, "--target", "onnx", "--opset", "18", *words))


# ---- positions are counted, and small

@pytest.mark.parametrize("dtype, number", [(T.FLOAT16, 2048), (T.BFLOAT16, 256), (T.FLOAT, 2**24)])
def test_numbers_compared_in_float_stay_rounded(tmp_path, dtype, number):
    nodes = [node("Cast", ["a"], "fa", to=dtype), node("Cast", ["b"], "fb", to=dtype), node("GreaterOrEqual", ["fa", "fb"], "y")]
    model = make_model(nodes, [value("a", T.INT64, ["n"]), value("b", T.INT64, ["n"])], [value("y", T.BOOL, ["n"])])
    result, _ = optimized(tmp_path, model, *NODES)
    from onnx.reference import ReferenceEvaluator
    feed = {"a": np.int64([number, 3, number]), "b": np.int64([number + 1, 4, number])}
    np.testing.assert_array_equal(ReferenceEvaluator(result).run(None, feed)[0], [True, False, True])


# ---- risks

def two_choices():
    """Scores chosen by one mask, another mask added: the fills of both meet in rows that both hide."""
    nodes, initializers = of_tokens(-10000.0)
    causal, more = seen_before()
    after = [node("Where", ["seen", "s", "low"], "w"), node("Add", ["w", "mask"], "a")]
    return attention([*nodes, *causal], [TOKENS], [*initializers, *more, tensor("low", np.float32(-10000))], after, mask=None)


def test_risks_are_taken_on_request_only(tmp_path):
    feed = {**heads(), "m": left_padded()}
    operators, report = assert_same(tmp_path, two_choices(), feed)
    assert fused(operators) == 0 and report["risks"] == []
    done = run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *NODES, "--assume", "causal_rows", "--report", tmp_path / "r.json")
    assert done.stdout.splitlines()[0].startswith("taking risks as asked: causal_rows")
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["risks"] == ["causal_rows"] and {"causal_rows"} == {a["assumption"] for a in report["assumed"] if a["class"] == "risky"}
    assert fused(n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node) == 1
    for forbidden in ("causal_rows", "all"):
        done = run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *NODES, "--assume", "causal_rows", "--no-assume", forbidden)
        assert "taking risks" not in done.stdout and fused(n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node) == 0


def test_a_target_asks_for_risks_by_name(tmp_path):
    onnx.save(two_choices(), tmp_path / "m.onnx")
    target = json.loads(run_ok("targets", "show", "ort-cpu").stdout)
    (tmp_path / "t.json").write_text(json.dumps({**target, "name": "mine", "assumes": ["causal_rows"]}))
    done = run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *NODES, "--target", tmp_path / "t.json")
    assert done.stdout.splitlines()[0].startswith("taking risks as asked: causal_rows")
    assert fused(n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node) == 1
    assert json.loads(run_ok("targets", "show", tmp_path / "t.json").stdout)["assumes"] == ["causal_rows"]
    done = run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *NODES, "--target", tmp_path / "t.json", "--no-assume", "causal_rows")
    assert "taking risks" not in done.stdout


@pytest.mark.parametrize("words", [("--assume", "nonsense"), ("--no-assume", "nonsense"), ("--assume", "all")])
def test_unknown_assumptions_are_named(tmp_path, words):
    onnx.save(linear(), tmp_path / "m.onnx")
    done = run(tmp_path / "m.onnx", tmp_path / "o.onnx", *words)
    assert done.returncode == 2 and "no such assumption" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "o.onnx").exists()


def test_a_target_that_asks_for_nonsense_is_refused(tmp_path):
    onnx.save(linear(), tmp_path / "m.onnx")
    target = json.loads(run_ok("targets", "show", "ort-cpu").stdout)
    (tmp_path / "t.json").write_text(json.dumps({**target, "assumes": ["nonsense"]}))
    done = run(tmp_path / "m.onnx", tmp_path / "o.onnx", "--target", tmp_path / "t.json")
    assert done.returncode == 1 and "nonsense: no such assumption" in done.stderr
