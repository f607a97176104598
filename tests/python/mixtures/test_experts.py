"""Experts that an exporter spells out become MoE where ONNX Runtime has it, whatever the spelling, and nothing else does."""
import collections
import json

import mixtures
import numpy as np
import onnx
import pytest

from conftest import onnxruntime_outputs, run, run_ok

CASES = {
    "gates in halves": dict(),
    "softmax behind the choice": dict(route="softmax behind"),
    "weights read again": dict(route="read again"),
    "an unsorted choice": dict(route="unsorted"),
    "a router with a bias": dict(route="with a bias"),
    "one expert for each token": dict(k=1),
    "all experts": dict(k=4),
    "one expert only": dict(k=1, experts=1),
    "transposed weights": dict(transposed=True),
    "interleaved gates": dict(kind="interleaved"),
    "limited gates with biases": dict(kind="limited", biases=True, transposed=True),
    "the gate behind": dict(kind="linear first"),
    "gates apart": dict(apart=True),
    "gates apart with biases": dict(apart=True, biases=True, nd=True),
    "no gate": dict(kind="silu", biases=True),
    "no gate but Relu": dict(kind="relu"),
    "rows by GatherND": dict(nd=True),
    "tokens of rank 2": dict(rank=2),
    "a known number of tokens": dict(rank=2, tokens=7),
    "one token": dict(rank=2, tokens=1),
    "weights that are read elsewhere, too": dict(uses=True),
    "weights that are not normalized": dict(route="plain"),
    "one expert whose weight counts": dict(k=1, route="plain"),
    "weights times a factor": dict(route="times 2.5"),
    "Sigmoid in the router": dict(route="sigmoid"),
    "Sigmoid of one expert": dict(route="sigmoid", k=1),
    "Sigmoid and the smallest of all": dict(route="sigmoid", k=4),
    "a correction before the choice": dict(route="corrected"),
    "groups": dict(route="grouped", experts=6, k=3),
    "one after the other": dict(route="one after the other"),
    "the smallest scores": dict(route="smallest"),
}
APART = {
    "a loop": dict(),
    "a loop in another order": dict(order=[2, 0, 3, 1]),
    "a loop with biases": dict(biases=True, kind="limited"),
    "a loop, gates apart": dict(gates_apart=True, biases=True),
    "a loop behind the softmax": dict(route="softmax behind"),
    "a loop of one expert for each token": dict(k=1),
    "a loop of many": dict(experts=9, k=3),
    "a loop with a shared expert": dict(shared=True),
    "all tokens": dict(form="dense"),
    "all tokens in another order": dict(form="dense", order=[3, 1, 0, 2], biases=True),
    "all tokens, no gates": dict(form="dense", kind="silu"),
    "a loop, weights that are not normalized": dict(route="plain"),
    "all tokens, weights that are not normalized": dict(form="dense", route="plain"),
    "all tokens by many": dict(form="dense", experts=9, k=2),
    "a loop by Sigmoids": dict(route="sigmoid"),
    "a loop by Sigmoids in another order": dict(route="sigmoid", order=[2, 0, 3, 1], biases=True),
    "a loop, corrected": dict(route="corrected", shared=True),
    "a loop by groups": dict(route="grouped", experts=8, k=3),
    "a loop, one after the other": dict(route="one after the other"),
    "all tokens, one after the other": dict(form="dense", route="one after the other", order=[1, 0, 3, 2], shared=True),
    "all tokens by Sigmoids": dict(form="dense", route="sigmoid"),
    "all tokens, corrected, in another order": dict(form="dense", route="corrected", order=[3, 1, 0, 2], k=1),
    "all tokens by groups": dict(form="dense", route="grouped", experts=8, k=2, shared=True),
    "all tokens with a shared expert": dict(form="dense", shared=True, route="softmax behind"),
}
OTHERS = {
    "weights that may be negative": dict(route="signed"),
    "another gate": dict(kind="tanh"),
    "a product too much": dict(wrong="a product too much"),
    "tokens that are not repeated in place": dict(wrong="tokens that are not repeated in place"),
}


def optimized(model, folder, target="ort-cpu@1.31", *options):
    onnx.save(model, folder / "in.onnx")
    run_ok(folder / "in.onnx", "-o", folder / "out.onnx", "--target", target, "--cost", "nodes", *options)  # it is too small for prices
    return onnx.load(folder / "out.onnx")


def count(model):
    return collections.Counter(n.op_type for n in model.graph.node)


def same(model, folder, seeds=2):
    for seed in range(seeds):
        for batch, tokens in ((1, 1), (1, 4), (2, 9)):
            feeds = mixtures.feeds(model, {"batch": batch, "tokens": tokens}, seed)
            wanted, got = (onnxruntime_outputs(folder / f, feeds) for f in ("in.onnx", "out.onnx"))
            for name, array in wanted.items():
                np.testing.assert_allclose(got[name], array, rtol=2e-4, atol=2e-4)


def is_normalized(case):
    """Otherwise the sum of the chosen weights is taken beside MoE, or they are no softmax."""
    return case.get("route", "softmax behind") in ("softmax behind", "read again", "unsorted", "with a bias")


@pytest.mark.parametrize("name", CASES)
def test_is_found(name, tmp_path):
    model = mixtures.picked(**CASES[name])
    result = count(optimized(model, tmp_path))
    routed = CASES[name].get("route") in ("corrected", "grouped", "one after the other")  # their own
    assert result["MoE"] == 1 and not set(result) & {"GatherND"} and (routed or not result["GatherElements"]), result
    if not CASES[name].get("uses") and CASES[name].get("k") != 1 and is_normalized(CASES[name]):
        assert not set(result) & {"TopK", "Softmax", "Expand"}, result
    same(model, tmp_path)


@pytest.mark.parametrize("name", APART)
def test_experts_that_stand_apart(name, tmp_path):
    model = mixtures.apart(**APART[name])
    result = count(optimized(model, tmp_path))
    left = {"NonZero", "OneHot", "GatherND"} | ({"TopK", "Softmax", "ScatterElements"} if is_normalized(APART[name]) else set())
    assert result["MoE"] == 1 and not set(result) & left, result
    same(model, tmp_path)


@pytest.mark.parametrize("form", ["loop", "dense"])
@pytest.mark.parametrize("words", [dict(wrong="an expert less"), dict(wrong="an expert less", route="sigmoid"), dict(route="signed"), dict(kind="tanh"), dict(kind="tanh", route="corrected")])
def test_what_is_almost_one_is_left(form, words, tmp_path):
    model = mixtures.apart(form=form, **words)
    assert count(optimized(model, tmp_path))["MoE"] == 0
    same(model, tmp_path, 1)


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_operator_cannot_say_is_left(name, tmp_path):
    model = mixtures.picked(**OTHERS[name])
    assert count(optimized(model, tmp_path))["MoE"] == 0
    same(model, tmp_path, 1)


def test_of_equal_scores_the_first_expert_is_taken(tmp_path):
    """TopK takes the lower place, the kernel of MoE the higher: tokens of zeros score all experts alike."""
    model = mixtures.picked(biases=True, rank=2)
    assert count(optimized(model, tmp_path))["MoE"] == 1
    x = np.zeros((3, mixtures.HIDDEN), np.float32)
    x[1] = 1
    wanted, got = (onnxruntime_outputs(tmp_path / f, {"x": x})["y"] for f in ("in.onnx", "out.onnx"))
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("words", [dict(), dict(route="plain"), dict(k=1, route="plain"), dict(route="times 2.5"), dict(route="corrected")])
def test_of_no_tokens_there_are_no_results(tmp_path, words):
    """ONNX Runtime's ReduceSum of no rows keeps the length that it sums over."""
    model = mixtures.picked(rank=2, **words)
    assert count(optimized(model, tmp_path))["MoE"] == 1
    x = np.zeros((0, mixtures.HIDDEN), np.float32)
    assert [onnxruntime_outputs(tmp_path / f, {"x": x})["y"].shape for f in ("in.onnx", "out.onnx")] == [(0, mixtures.HIDDEN)] * 2


def test_weights_of_zero_and_experts_chosen_twice_count(tmp_path):
    """A Sigmoid is zero where its scores are low; a router may choose an expert twice, and both weights are its own."""
    model = mixtures.picked(rank=2, route="given")
    assert count(optimized(model, tmp_path))["MoE"] == 1
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, mixtures.HIDDEN)).astype(np.float32)
    weights = np.array([[-200, 1], [-200, -200], [1, -200], [3, 2], [-60, 80]], np.float32)
    places = np.array([[0, 1], [2, 3], [3, 3], [1, 1], [2, 0]])
    feeds = {"x": x, "chosen": weights, "places": places}
    wanted, got = (onnxruntime_outputs(tmp_path / f, feeds)["y"] for f in ("in.onnx", "out.onnx"))
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


def test_tokens_are_assumed_to_be_finite(tmp_path):
    onnx.save(mixtures.picked(), tmp_path / "in.onnx")
    words = (tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes")
    assert "finite_experts" in run_ok(*words, "--json").stdout
    run_ok(*words, "--no-assume", "finite_experts", "--force")
    assert count(onnx.load(tmp_path / "out.onnx"))["MoE"] == 0


@pytest.mark.parametrize("target", ["ort-cpu@1.22", "onnx"])
def test_stays_where_the_target_has_no_such_operator(target, tmp_path):
    model = mixtures.picked()
    assert count(optimized(model, tmp_path, target))["MoE"] == 0
    same(model, tmp_path, 1)


def test_the_rule_can_be_left_out(tmp_path):
    model = mixtures.picked()
    assert count(optimized(model, tmp_path, "ort-cpu@1.31", "--skip-rule", "spelled_out_experts"))["MoE"] == 0


def test_the_screen_names_the_release_that_has_the_operator(tmp_path):
    onnx.save(mixtures.picked(), tmp_path / "in.onnx")
    done = run_ok(tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes")
    assert "ONNX Runtime 1.23 or newer" in done.stdout and "1 MoE" in done.stdout, done.stdout


def test_each_layer_of_a_model_is_found(tmp_path):
    """Two that are spelled alike, with other weights."""
    parts = [onnx.compose.add_prefix(mixtures.picked(rank=2), p) for p in ("a_", "b_")]
    other = onnx.numpy_helper.to_array(parts[1].graph.initializer[0])
    parts[1].graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(other[..., ::-1].copy(), parts[1].graph.initializer[0].name))
    for part, name in zip(parts, ("a_y", "b_y")):
        part.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["tokens", mixtures.HIDDEN]))
    model = onnx.compose.merge_models(*parts, io_map=[("a_y", "b_x")])
    assert count(optimized(model, tmp_path))["MoE"] == 2
    x = np.random.default_rng(0).standard_normal((5, mixtures.HIDDEN)).astype(np.float32) / 8
    wanted, got = (onnxruntime_outputs(tmp_path / f, {"a_x": x})["b_y"] for f in ("in.onnx", "out.onnx"))
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-3)


def test_explain_tells_what_was_found_and_why_not(tmp_path):
    onnx.save(mixtures.picked(), tmp_path / "in.onnx")
    told = {k["kind"]: k for k in json.loads(run_ok("explain", tmp_path / "in.onnx", "--json", "--target", "ort-cpu@1.31", "--cost", "nodes").stdout)["kinds"]}
    assert (told["experts"]["expected"], told["experts"]["found"]) == (1, 1) and "attention" not in told, told
    onnx.save(mixtures.picked(route="sigmoid", kind="tanh"), tmp_path / "other.onnx")
    told = {k["kind"]: k for k in json.loads(run_ok("explain", tmp_path / "other.onnx", "--json", "--target", "ort-cpu@1.31").stdout)["kinds"]}
    assert "none of what MoE does" in told["experts"]["rest"][0]["reason"], told
