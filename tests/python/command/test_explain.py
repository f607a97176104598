"""Why something fused, or did not."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, make_model, run, run_ok, tensor, value

BART = DATA / "bart_encoder.onnx"


def explain(*words):
    target = () if "--target" in words else ("--target", "ort-cpu@1.31")
    return json.loads(run_ok("explain", *words, *target, "--json").stdout)


def attention(folder, between="Identity", mask_shape=("b", 1, "s", "t")):
    """softmax(between(q k^T / 4) + mask) v"""
    x = lambda name, *shape: value(name, TensorProto.FLOAT, list(shape))
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
        helper.make_node(between, ["scaled"], ["between"]),
        helper.make_node("Add", ["between", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    inputs = [x("q", "b", 3, "s", 8), x("k", "b", 3, 8, "t"), x("v", "b", 3, "t", 8), x("mask", *mask_shape)]
    path = folder / f"{between}.onnx"
    onnx.save(make_model(nodes, inputs, [x("y", "b", 3, "s", 8)], [tensor("scale", np.float32(0.25))]), path)
    return path


def test_sizes_that_a_run_fixes_are_fixed_for_its_explanation(tmp_path):
    facts = lambda *words: explain(attention(tmp_path), "--value", "q", *words)["places"][0]["facts"]
    assert facts() == "float[b, 3, s, 8]"
    assert facts("--dim", "b=2", "--input-shapes", "q:2,3,7,8") == "float[2, 3, 7, 8]"
    assert facts("--io-rank", 5) == "float[1, b, 3, s, 8]"
    assert run("explain", attention(tmp_path), "--dim", "c=2").returncode == 2
    assert run("explain", attention(tmp_path), "--io-rank", 2).returncode == 1


def test_the_chain_of_rules_behind_a_fused_operator():
    told = explain(BART, "--op", "Attention", "--cost", "nodes")
    assert told["anchors"] == "Softmax"
    assert [p["status"] for p in told["places"]] == ["fused", "fused"]
    for place in told["places"]:
        assert place["op_type"] == "Softmax" and place["fused"] == "com.microsoft.Attention"
        assert place["rules"][-1] == "packed_projections"
        assert len(place["rules"]) == len(set(place["rules"])) > 3
    text = run_ok("explain", BART, "--op", "Attention", "--cost", "nodes").stdout
    assert "2 fused" in text and " -> " in text


def test_the_operator_in_the_way_is_named(tmp_path):
    assert explain(attention(tmp_path), "--op", "Attention", "--cost", "nodes")["places"][0]["status"] == "fused"
    (place,) = explain(attention(tmp_path, "Sigmoid"), "--op", "Attention", "--cost", "nodes")["places"]
    assert place["status"] == "missed" and place["value"] == "weights"
    nearest = place["nearest"][0]
    assert nearest["rule"].startswith("sdpa")
    assert 0 < nearest["matched"] < nearest["total"]
    assert "'between' is Sigmoid, not MatMul" in nearest["reason"]


def spelled(folder, name, after, inputs, weights=(), op="Attention"):
    """The one place of softmax(q k^T) with these nodes after it."""
    x = lambda name, *shape: value(name, TensorProto.FLOAT, list(shape))
    nodes = [helper.make_node("MatMul", ["q", "k"], ["scores"]), helper.make_node("Softmax", ["scores"], ["weights"], axis=-1), *after]
    path = folder / f"{name}.onnx"
    onnx.save(make_model(nodes, [x("q", "b", 3, "s", 8), x("k", "b", 3, 8, "t"), *inputs], [x("y", None, None, None, None)], list(weights)), path)
    (place,) = explain(path, "--op", op, "--cost", "nodes")["places"]
    assert place["status"] == "missed"
    return place, run_ok("explain", path, "--op", op, "--cost", "nodes", "--target", "ort-cpu@1.31").stdout


def test_the_operator_in_the_way_behind_the_softmax_is_named(tmp_path):
    x = lambda name, *shape: value(name, TensorProto.FLOAT, list(shape))
    gated = [helper.make_node("Mul", ["weights", "gate"], ["gated"]), helper.make_node("MatMul", ["gated", "v"], ["y"])]
    place, _ = spelled(tmp_path, "gated", gated, [x("gate", "b", 3, "s", "t"), x("v", "b", 3, "t", 8)])
    assert "'gated' is Mul, not Softmax" in place["nearest"][0]["reason"]
    reasons = [(m["at"], m["reason"]) for m in place["nearest"]]
    assert len(set(reasons)) == len(reasons)


def test_what_the_next_block_was_fused_into_is_not_taken_for_this_one(tmp_path):
    """The first block's Softmax is gated; right behind it stands attention that fuses."""
    x = lambda name, *shape: value(name, TensorProto.FLOAT, list(shape))
    n = helper.make_node
    nodes = [n("MatMul", ["q", "k"], ["s1"]), n("Softmax", ["s1"], ["w1"], axis=-1), n("Mul", ["w1", "gate"], ["gated"]), n("MatMul", ["gated", "v"], ["y1"]),
             n("MatMul", ["y1", "k"], ["s2"]), n("Mul", ["s2", "half"], ["scaled"]), n("Softmax", ["scaled"], ["w2"], axis=-1), n("MatMul", ["w2", "v"], ["y"])]
    inputs = [x("q", "b", 3, "s", 8), x("k", "b", 3, 8, "t"), x("v", "b", 3, "t", 8), x("gate", "b", 3, "s", "t")]
    onnx.save(make_model(nodes, inputs, [x("y", "b", 3, "s", 8)], [tensor("half", np.float32(0.5))]), tmp_path / "two.onnx")
    places = {p["value"]: p for p in explain(tmp_path / "two.onnx", "--op", "Attention", "--cost", "nodes")["places"]}
    assert {v: p["status"] for v, p in places.items()} == {"w1": "missed", "w2": "fused"}
    assert "'gated' is Mul, not Softmax" in places["w1"]["nearest"][0]["reason"]


def test_where_no_rule_comes_near_the_users_are_told(tmp_path):
    """Einsum takes a dim of 1 where the other is larger: "t" and "u" stay apart, so it is no MatMul."""
    einsum = [helper.make_node("Einsum", ["weights", "v"], ["y"], equation="bhij,bhjd->bihd")]
    place, text = spelled(tmp_path, "einsum", einsum, [value("v", TensorProto.FLOAT, ["b", 3, "u", 8])])
    assert place["nearest"] == [] and place["reason"] in " ".join(text.split())
    assert place["reason"] == "it is used by Einsum; the rules for Attention look for a Softmax under MatMul, Slice"


def test_a_constant_that_differs_is_told_with_both_values(tmp_path):
    n, number = helper.make_node, lambda name, v: tensor(name, np.float32(v))
    erf = [n("Div", ["x", "root"], ["i"]), n("Erf", ["i"], ["e"]), n("Add", ["e", "one"], ["f"]), n("Mul", ["x", "f"], ["m"]), n("Mul", ["m", "half"], ["y"])]
    told = anchors(tmp_path, erf, [value("x", TensorProto.FLOAT, ["b", 8])], [number("root", 1.5), number("one", 1), number("half", 0.5)], "Gelu")
    (place,) = told["places"]
    assert place["nearest"][0]["rule"] == "gelu[none]" and "0.666667, not 0.707107" in place["nearest"][0]["reason"]


def test_a_normalization_over_another_axis_is_found_between_transposes(tmp_path):
    n = helper.make_node
    nodes = [n("ReduceMean", ["x", "axes"], ["mean"]), n("Sub", ["x", "mean"], ["d"]), n("Mul", ["d", "d"], ["dd"]), n("ReduceMean", ["dd", "axes"], ["var"]),
             n("Add", ["var", "eps"], ["ve"]), n("Sqrt", ["ve"], ["r"]), n("Div", ["d", "r"], ["y"])]
    weights = [tensor("axes", np.array([1])), tensor("eps", np.float32(1e-5))]
    told = anchors(tmp_path, nodes, [value("x", TensorProto.FLOAT, ["b", 8, 4])], weights, "LayerNormalization")
    (place,) = told["places"]
    assert place["status"] == "fused" and place["fused"] == "LayerNormalization"


def test_the_condition_that_fails_is_told_with_its_values(tmp_path):
    (place,) = explain(attention(tmp_path, mask_shape=("b", 1, "s", "other")), "--op", "Attention", "--cost", "nodes", "--target", "onnx", "--rules", wrong_guard(tmp_path))["places"]
    assert place["status"] in ("missed", "fused", "not chosen")
    told = explain(attention(tmp_path), "--rule", "needs_a_constant", "--rules", wrong_guard(tmp_path))
    (place,) = [p for p in told["places"] if p["value"] == "'y'"]
    assert place["status"] == "missed"
    assert place["nearest"][0]["matched"] == place["nearest"][0]["total"] == 1
    assert "`const(B)` does not hold" in place["nearest"][0]["reason"] and "float[b, 3, t, 8]" in place["nearest"][0]["reason"]


def test_attributes_that_differ_are_told_with_their_values(tmp_path):
    rules = {
        "softmax_of_last": "Softmax <axis = -1> (X) => Softmax <axis = -1> (Identity (X))",
        "turned_twice_alike": "Transpose <perm = @p> (Transpose <perm = @p> (X)) => Identity (X)",
        "one_more": "Add (X, 1.0) => Add (1.0, Identity (X))",
    }
    (tmp_path / "mine.rules").write_text("".join(f"rule {name} {'<p>' if '@p' in law else ''} (X) => (Y) {law} example X = float[2,3,4]{', p = [0,1,2]' if '@p' in law else ''}\n"
                                                 for name, law in rules.items()))
    nodes = [helper.make_node("Softmax", ["x"], ["s"], axis=1), helper.make_node("Transpose", ["s"], ["t"], perm=[0, 2, 1]),
             helper.make_node("Transpose", ["t"], ["u"], perm=[1, 0, 2]), helper.make_node("ReduceSum", ["u"], ["v"], keepdims=0),
             helper.make_node("Add", ["v", "one"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["b", 3, 4])], [value("y", TensorProto.FLOAT, [1, 1])],
                       [tensor("one", np.ones((1, 1), np.float32))])
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    wanted = {"softmax_of_last": "axis of Softmax is 1, the rule wants -1", "turned_twice_alike": "@p is [1, 0, 2] and [0, 2, 1]",
              "one_more": "a constant of rank 2 would give a value of rank 0 more axes"}
    for name in rules:
        places = explain(path, "--rule", name, "--rules", "none", "--rules", tmp_path / "mine.rules")["places"]
        assert wanted[name] in [miss["reason"] for place in places for miss in place["nearest"]], places


def wrong_guard(folder):
    path = folder / "mine.rules"
    path.write_text(
        "rule needs_a_constant (A, B) => (Y) { Y = MatMul (A, B) } where const(B) => { T = Identity (B) Y = MatMul (A, T) }\n"
        "  example A = float[2,3], B = float[3,4]\n"
    )
    return path


def test_what_was_found_but_not_chosen_has_a_price():
    places = explain(BART, "--op", "SkipLayerNormalization")["places"]
    chosen = [p for p in places if p["status"] == "not chosen"]
    assert chosen and all(p["pinned_cost"] > p["cost"] > 0 for p in chosen if "pinned_cost" in p)
    assert any("the extractor preferred" in p["reason"] and "the result is predicted to cost" in p["reason"] for p in chosen)


def test_the_operator_asked_for_has_a_price_where_another_of_its_family_was_taken():
    """Attention with packed projections is taken; the question was why not MultiHeadAttention."""
    for words in ((), ("--target", "ort-cpu@1.20")):
        places = explain(BART, "--op", "MultiHeadAttention", *words)["places"]
        assert len(places) == 2
        for place in places:
            asked = place["asked"]
            assert place["status"] == "fused" and not place["fused"].endswith("MultiHeadAttention")
            assert asked["op_type"] == "com.microsoft.MultiHeadAttention" and asked["pinned_cost"] > asked["cost"] > 0
            assert asked["reason"].startswith("the extractor preferred") and asked["rules"]
    said = " ".join(run_ok("explain", BART, "--op", "MultiHeadAttention").stdout.split())
    assert "found as com.microsoft.MultiHeadAttention, too, not chosen: the extractor preferred" in said
    assert all("asked" not in place for place in explain(BART, "--op", "Attention")["places"])


def test_a_reason_of_the_target_is_said_as_it_is(tmp_path):
    target = json.loads(run_ok("targets", "show", "ort-cpu").stdout)
    (tmp_path / "none.json").write_text(json.dumps({**target, "name": "none", "forbidden": ["com.microsoft::MultiHeadAttention"]}))
    for place in explain(BART, "--op", "MultiHeadAttention", "--target", f"{tmp_path}/none.json@1.20")["places"]:
        assert place["asked"]["reason"] == "target none@1.20 forbids com.microsoft::MultiHeadAttention" and "cost" not in place["asked"]


def test_forms_on_values_that_the_result_leaves_out_have_a_price_too(tmp_path):
    """Two table costs: where attention is dear, every form of it has a price, also those over values that no cheaper result computes."""
    table = tmp_path / "dear.json"
    table.write_text(json.dumps({"costs": {"Attention": 100, "com.microsoft::Attention": 100, "com.microsoft::MultiHeadAttention": 100}, "default": 1}))
    for p in explain(BART, "--op", "Attention", "--cost", table)["places"]:
        assert p["status"] == "not chosen" and p["pinned_cost"] > p["cost"] + 50, p
        assert "the extractor preferred" in p["reason"]


def normalizations(folder):
    """One of the input, one of a constant, one that no output needs."""
    x = value("x", TensorProto.FLOAT, ["n", 4])
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale"], ["normal"], axis=-1),
        helper.make_node("LayerNormalization", ["table", "scale"], ["folded"], axis=-1),
        helper.make_node("LayerNormalization", ["normal", "scale"], ["dead"], axis=-1),
        helper.make_node("MatMul", ["normal", "folded"], ["y"]),
    ]
    path = folder / "normalizations.onnx"
    weights = [tensor("scale", np.arange(1, 5, dtype=np.float32)), tensor("table", np.arange(16, dtype=np.float32).reshape(4, 4) ** 2)]
    onnx.save(make_model(nodes, [x], [value("y", TensorProto.FLOAT, ["n", 4])], weights), path)
    return path


def test_what_needs_no_operator_is_told(tmp_path):
    places = {p["value"]: p for p in explain(normalizations(tmp_path), "--op", "LayerNormalization")["places"]}
    assert {v: p["status"] for v, p in places.items()} == {"normal": "given", "folded": "constant", "dead": "not needed"}
    assert "computed once and stored" in places["folded"]["reason"] and "no output" in places["dead"]["reason"]
    text = run_ok("explain", normalizations(tmp_path), "--op", "LayerNormalization").stdout
    assert "1 constant, 1 given, 1 not needed" in text


def anchors(folder, nodes, inputs, weights, op):
    path = folder / "anchors.onnx"
    onnx.save(make_model(nodes, inputs, [value("y", TensorProto.FLOAT, None)], weights, opset=20), path)
    told = explain(path, "--op", op, "--cost", "nodes")
    text = run_ok("explain", path, "--op", op, "--cost", "nodes", "--target", "ort-cpu@1.31").stdout
    assert all(f"{p['op_type']} {p['value']}" in text for p in told["places"])
    return told


def test_anchors_of_every_kind(tmp_path):
    """GELU, SiLU, normalization, and rotation by a negated half and by differences of products."""
    x, n = value("x", TensorProto.FLOAT, ["b", 3, "s", 8]), lambda *words, **kw: helper.make_node(*words, **kw)
    number = lambda name, v: tensor(name, np.float32(v))
    erf = [n("Mul", ["x", "root"], ["i"]), n("Erf", ["i"], ["e"]), n("Add", ["e", "one"], ["f"]), n("Mul", ["x", "f"], ["m"]), n("Mul", ["m", "half"], ["y"])]
    told = anchors(tmp_path, erf, [x], [number("root", 0.5**0.5), number("one", 1), number("half", 0.5)], "Gelu")
    assert told["anchors"] == "Erf, Tanh or Gelu" and [p["status"] for p in told["places"]] == ["fused"]
    told = anchors(tmp_path, [n("Sigmoid", ["x"], ["s"]), n("Mul", ["x", "s"], ["y"])], [x], [], "QuickGelu")
    assert told["anchors"] in ("Sigmoid", "Erf, Tanh or Gelu")
    told = anchors(tmp_path, [n("Swish", ["x"], ["y"], domain="unknown")], [x], [], "LayerNormalization")
    assert told["places"] == []
    halves = [n("Split", ["x"], ["a", "c"], axis=-1, num_outputs=2)]
    table = [tensor("cos", np.random.default_rng(1).normal(size=(1, 1, 1, 4)).astype(np.float32)), tensor("sin", np.random.default_rng(2).normal(size=(1, 1, 1, 4)).astype(np.float32))]
    products = [n("Mul", ["a", "cos"], ["ac"]), n("Mul", ["c", "sin"], ["cs"]), n("Mul", ["c", "cos"], ["cc"]), n("Mul", ["a", "sin"], ["as"])]
    joined = [n("Sub", ["ac", "cs"], ["l"]), n("Add", ["cc", "as"], ["r"]), n("Concat", ["l", "r"], ["y"], axis=-1)]
    told = anchors(tmp_path, halves + products + joined, [x], table, "RotaryEmbedding")
    assert [p["value"] for p in told["places"]] == ["y"]
    assert told["places"][0]["status"] != "given"


def test_an_operator_that_the_opset_does_not_have():
    for place in explain(BART, "--op", "Attention", "--target", "onnx", "--keep-opset")["places"]:
        assert place["status"] == "not chosen"
        assert place["reason"] == "it needs opset 23 of ai.onnx, and the result is held to 18"


def test_a_value():
    (place,) = explain(BART, "--value", "gelu", "--cost", "nodes")["places"]
    assert place["fused"] == "com.microsoft.BiasGelu" and place["rules"][-1] == "bias_gelu[Gelu]"
    assert place["facts"] == "float[batch, seq, 128]"


@pytest.mark.parametrize("words", [["--rule", "nonsense"], ["--value", "nonsense"]])
def test_unknown_names_are_errors(words):
    done = run("explain", BART, *words)
    assert done.returncode == 2 and "nonsense" in done.stderr and done.stderr.count("\n") == 1


def test_only_one_question_at_a_time():
    assert run("explain", BART, "--op", "Attention", "--rule", "bias_gelu").returncode == 2


def wrong_rules(folder, text):
    path = folder / "wrong.rules"
    path.write_text(text)
    return path


def test_debug_rules_finds_the_application_that_is_wrong(tmp_path):
    """A rule that is right for what it is tried on first, and wrong at the second place."""
    nodes = [helper.make_node("Abs", ["x"], ["positive"]), helper.make_node("Relu", ["positive"], ["same"]),
             helper.make_node("Sub", ["same", "one"], ["less"]), helper.make_node("Relu", ["less"], ["y"])]
    path = tmp_path / "in.onnx"
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, [4])], [tensor("one", np.float32(1))]), path)
    rules = wrong_rules(tmp_path, "rule no_relu (X) => (Y) { Y = Relu (X) } => { Y = Identity (X) }\n")
    done = run(path, tmp_path / "out.onnx", "--rules", rules, "--debug-rules", "--cost", "nodes")
    assert done.returncode == 3 and not (tmp_path / "out.onnx").exists()
    assert "rule no_relu, at value 'y', brings the difference" in done.stderr
    assert "--skip-rule no_relu leaves it out" in done.stderr
    run_ok(path, tmp_path / "out.onnx", "--rules", rules, "--skip-rule", "no_relu", "--debug-rules")


def test_what_is_made_after_all_others_tells_its_rule(tmp_path):
    """ONNX Runtime would fuse the Add at load, which costs more here; and the shape of the Reshape is spelled by one number."""
    x = lambda name: value(name, TensorProto.FLOAT, ["b", "s", 64])
    nodes = [
        helper.make_node("Add", ["x", "r"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "scale", "bias"], ["y"], axis=-1),
        helper.make_node("Shape", ["r"], ["whole"]),
        helper.make_node("Gather", ["whole", "rows"], ["kept"]),
        helper.make_node("Concat", ["kept", "heads"], ["apart"], axis=0),
        helper.make_node("Reshape", ["r", "apart"], ["z"]),
    ]
    constants = [tensor(name, np.linspace(0.5, 1.5, 64, dtype=np.float32)) for name in ("scale", "bias")]
    constants += [tensor("rows", np.array([0, 1])), tensor("heads", np.array([4, 16]))]
    outputs = [x("y"), value("z", TensorProto.FLOAT, ["b", "s", 4, 16])]
    path = tmp_path / "sum.onnx"
    onnx.save(make_model(nodes, [x("x"), x("r")], outputs, constants), path)
    made = {m["op_type"]: m["rule"] for m in explain(path, "--target", "ort-cpu@1.31")["made_by_rules"]}
    assert made == {"Sum": "sum_for_add", "Reshape": "spell_reshapes"}


def test_a_question_is_answered_without_lists(tmp_path):
    asked = run_ok("explain", DATA / "bart_encoder.onnx", "--value", "layer_norm_1").stdout
    assert "layer_norm_1" in asked and "made by rule" not in asked
    (place,) = json.loads(run_ok("explain", DATA / "bart_encoder.onnx", "--value", "layer_norm_1", "--json").stdout)["places"]
    matched = [miss["matched"] for miss in place["nearest"]]
    assert len(matched) == 3 and matched == sorted(matched, reverse=True) and matched[0] > 1
    listed = run_ok("explain", DATA / "bart_encoder.onnx", "-v").stdout
    assert "made by rule" in listed and "applied" in listed and "matches" not in listed  # of as many matches as applications


def kinds(path, *words):
    return {k["kind"]: k for k in json.loads(run_ok("explain", path, "--json", *words).stdout)["kinds"]}


def lines_of(path, *words):
    """The lines without a question, by kind."""
    text = run_ok("explain", path, *words).stdout
    assert len(text.splitlines()) <= 14, text
    return {line.split()[0]: line.strip() for line in text.splitlines() if line.startswith("  ")}


def test_two_values_of_which_one_is_negated_are_no_rotation(tmp_path):
    """The halves of a rotation are those of one value; a spectrum joins its real and its negated imaginary part."""
    def joined(first, second):
        nodes = [first, second, helper.make_node("Neg", ["b"], ["n"]), helper.make_node("Concat", ["n", "a"], ["y"], axis=-1)]
        model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 8])], [value("y", TensorProto.FLOAT, None)],
                           [tensor(name, np.array([n], np.int64)) for name, n in (("zero", 0), ("four", 4), ("eight", 8), ("last", -1))])
        onnx.save(model, tmp_path / "m.onnx")
        told = json.loads(run_ok("explain", tmp_path / "m.onnx", "--json", "--target", "ort-cpu@1.31").stdout)["kinds"]
        return sum(kind.get("expected", 0) for kind in told if kind["kind"] == "rotary")

    halves = [helper.make_node("Slice", ["x", begin, end, "last"], [out]) for begin, end, out in (("zero", "four", "a"), ("four", "eight", "b"))]
    assert joined(*halves) == 1
    assert joined(helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Sigmoid", ["x"], ["b"])) == 0


def test_a_line_for_each_kind(tmp_path):
    lines = lines_of(DATA / "bart_encoder.onnx", "--target", "ort-cpu@1.31")
    assert lines["attention"].endswith("2 of 2: 2 Attention") and lines["norms"].endswith("5 of 5: 5 LayerNormalization")
    assert lines["activations"].endswith("2 of 2: 2 BiasGelu") and "rotary, convolutions, experts, quantized" in lines["none"]
    told = kinds(DATA / "bart_encoder.onnx", "--target", "ort-cpu@1.31")
    assert list(told) == ["attention", "norms", "activations"] and told["norms"]["operators"] == {"LayerNormalization": 5} and told["attention"]["rest"] == []


def test_the_option_that_helps_and_the_reason(tmp_path):
    words = ("--target", "ort-cpu@1.20", "--skip-fusion", "MultiHeadAttention", "--cost", "nodes")
    (rest,) = kinds(attention(tmp_path), *words)["attention"]["rest"]
    assert rest["reason"] == "needs opset 23" and rest["help"] == "--target ort-cpu@1.23" and rest["what"] == "Attention"
    assert "1 Attention missing: needs opset 23, --target ort-cpu@1.23" in lines_of(attention(tmp_path), *words)["attention"]
    (rest,) = kinds(attention(tmp_path, "Sigmoid"), "--cost", "nodes")["attention"]["rest"]
    assert rest["reason"] == "'between' is Sigmoid, not MatMul" and rest["place"] == "weights" and rest["help"] is None


def test_convolutions_experts_and_quantized_units(tmp_path):
    x = lambda name, *shape: value(name, TensorProto.FLOAT, list(shape))
    n = helper.make_node
    w = np.random.default_rng(0).normal(size=(3, 3, 1, 1)).astype(np.float32)
    ones = [tensor(name, np.full(3, number, np.float32)) for name, number in (("g", 1.5), ("b", 0.5), ("m", 0.25), ("v", 2))]
    nodes = [n("Conv", ["x", "w"], ["c"]), n("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]), n("Relu", ["n"], ["r"]), n("Conv", ["r", "w"], ["y"])]
    onnx.save(make_model(nodes, [x("x", 1, 3, 8, 8)], [x("y", 1, 3, 8, 8)], [tensor("w", w), *ones]), tmp_path / "conv.onnx")
    told = kinds(tmp_path / "conv.onnx", "--target", "ort-cpu@1.31")["convolutions"]
    assert (told["expected"], told["found"]) == (2, 2) and told["operators"] == {"BatchNormalization folded": 1, "FusedConv": 1}
    told = kinds(tmp_path / "conv.onnx", "--target", "onnx")["convolutions"]
    assert told["found"] == 1 and told["rest"][0]["reason"] == "onnx has no FusedConv"
    nodes = [n("MatMul", ["x", "w"], ["l"]), n("Softmax", ["l"], ["p"]), n("TopK", ["p", "k"], ["v", "i"])]
    onnx.save(make_model(nodes, [x("x", "n", 4)], [x("v", "n", 2)], [tensor("w", np.eye(4, dtype=np.float32)), tensor("k", np.array([2]))]), tmp_path / "router.onnx")
    assert list(kinds(tmp_path / "router.onnx")) == ["experts"]  # no missed attention
    assert json.loads(run_ok("explain", tmp_path / "router.onnx", "attention", "--json").stdout)["places"] == []
    assert "was not recognized" in run_ok("explain", tmp_path / "router.onnx", "mixture-of-experts", "--target", "ort-cpu@1.31").stdout
    assert "onnx has no MoE" in run_ok("explain", tmp_path / "router.onnx", "mixture-of-experts", "--target", "onnx").stdout


WORDS = {"attention": ["attention", "SDPA", "FlashAttention", "flash-attention", "MHA", "GQA", "MultiHeadAttention", "scaled_dot_product_attention", "self-attention"],
         "rotary": ["rotary", "RoPE", "RotaryEmbedding"], "norms": ["norms", "LayerNorm", "layer_norm", "RMSNorm", "LN"], "gelu": ["gelu", "GELU", "FastGelu"], "silu": ["SiLU", "swish"]}  # fmt: skip


@pytest.mark.parametrize("word", [word for words in WORDS.values() for word in words])
def test_a_bare_word_is_a_question(word):
    kind = next(kind for kind, words in WORDS.items() if word in words)
    places = json.loads(run_ok("explain", DATA / "bart_encoder.onnx", word, "--json").stdout)["places"]
    assert len(places) == {"attention": 2, "norms": 5, "gelu": 2}.get(kind, 0)


def test_words_of_the_field_do_for_op_and_a_value_for_a_question(tmp_path):
    path = attention(tmp_path)
    for words in (("--op", "SDPA"), ("--op", "FlashAttention")):
        assert [p["value"] for p in explain(path, *words, "--cost", "nodes")["places"]] == ["weights"]
    assert explain(path, "scaled")["places"][0]["value"] == "scaled"
    assert explain(path, "sdpa_of_product[bias]")["anchors"] == "places of rule sdpa_of_product[bias]"
    done = run("explain", path, "atention")
    assert done.returncode == 2 and "did you mean 'attention'?" in done.stderr
    done = run("explain", path, "attention", "--op", "Gelu")
    assert done.returncode == 2 and "no place" in done.stderr
