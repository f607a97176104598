"""`--pass kv_cache` of mixtures of experts and attention sinks, step by step in ONNX Runtime against the whole model."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T

import decoder_graphs as kv
from conftest import assert_refused, listing, run, run_ok
from decoder_graphs import HEADS, KV, LAYERS, SIZE, VOCABULARY, WIDTH

EXPERTS, CHOSEN = 4, 2


def routed(g, flat, route):
    """Weights and places of the chosen, of [b * s, WIDTH]."""
    scores = g.Sigmoid(g.MatMul(flat, g.weight(WIDTH, EXPERTS)))
    judged = scores
    if route != "plain":  # the worst is left out: rows of zeros, one of them filled
        shape = g.Concat(g.Gather(g.Shape(flat), [0], axis=0), [EXPERTS], axis=0)
        zeros = g.ConstantOfShape(shape) if route == "filled" else g.Expand(np.float32([[0]]), shape)
        at = g.ArgMin(scores, axis=-1, keepdims=1)
        judged = g.Sub(scores, g.ScatterElements(zeros, at, g.Cast(g.Add(g.Mul(at, np.int64(0)), np.int64(1)), to=T.FLOAT), axis=1))
    _, places = g.TopK(judged, [CHOSEN], axis=-1, outputs=2)
    return g.GatherElements(scores, places, axis=1), places


def experts(g, x, route="plain", wrong=False):
    """The weights of each token's experts are gathered, and multiplied pair by pair."""
    flat = g.Reshape(x, [-1, WIDTH])
    top, places = routed(g, flat, route)
    pick = lambda *shape: g.Gather(g.weight(EXPERTS, *shape, scale=EXPERTS**0.5 * shape[0] ** -0.5), g.Reshape(places, [-1]), axis=0)
    wide = g.Expand(g.Unsqueeze(flat, [0 if wrong else 1]), [CHOSEN, 1, 1] if wrong else [1, CHOSEN, 1])
    y = g.MatMul(g.Relu(g.MatMul(g.Reshape(wide, [-1, 1, WIDTH]), pick(WIDTH, 16))), pick(16, WIDTH))
    y = g.Mul(g.Reshape(y, [-1, WIDTH]), g.Reshape(top, [-1, 1]))
    y = g.ReduceSum(g.Reshape(y, [-1, CHOSEN, WIDTH]), np.int64([1]), keepdims=0)
    shape = g.Concat(g.Gather(g.Shape(x), [0], axis=0), kv.tokens_of(g, x), [WIDTH], axis=0)
    return g.Add(x, g.Reshape(y, shape, allowzero=1))


def with_sink(g, scores):
    """What a token need not look at anything for, beside the last key."""
    sink = g.Expand(np.linspace(0, 2, HEADS).reshape(1, HEADS, 1, 1), g.Concat(g.Gather(g.Shape("input_ids"), [0], axis=0), [HEADS], kv.tokens_of(g), [1], axis=0))
    return g.Slice(g.Softmax(g.Concat(scores, sink, axis=-1), axis=-1), [0], [-1], [3])


def latent_keys(g, few):
    """Keys of a part of the numbers that heads share, written by a Reshape that copies no sizes."""
    batch = g.Gather(g.Shape("input_ids"), [0], axis=0)
    shape = g.Concat(batch, kv.tokens_of(g), [-1, SIZE], axis=0)
    wide = g.MatMul(g.Reshape(few, g.Concat(batch, [1], kv.tokens_of(g), [6], axis=0), allowzero=1), g.weight(6, KV * SIZE, scale=1.5))
    return g.Transpose(g.Reshape(wide, shape, allowzero=1), perm=[0, 2, 1, 3])


def decoder(mlp=kv.mlp, softmax=lambda g, scores: g.Softmax(scores, axis=-1), latent=False):
    g = kv.Graph(18)
    x, mask, angles = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids"), kv.mask_of(g), kv.angles_of(g)
    for _ in range(LAYERS):
        q = kv.turned(g, kv.heads(g, g.MatMul(x, g.weight(WIDTH, HEADS * SIZE, scale=1.5)), HEADS), angles)
        if latent:
            k = latent_keys(g, g.MatMul(x, g.weight(WIDTH, 6, scale=1.5)))
        else:
            k = kv.heads(g, g.MatMul(x, g.weight(WIDTH, KV * SIZE, scale=1.5)), KV)
        k = kv.repeated(g, kv.turned(g, k, angles))
        v = kv.repeated(g, kv.heads(g, g.MatMul(x, g.weight(WIDTH, KV * SIZE)), KV))
        scores = g.Add(g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), np.float32(0.4)), mask)
        y = g.MatMul(softmax(g, scores), v)
        x = mlp(g, g.Add(x, g.MatMul(kv.beside(g, y), g.weight(HEADS * SIZE, WIDTH))))
    return kv.finish(g, x)


MODELS = {"experts": lambda: decoder(experts), "rows_filled": lambda: decoder(lambda g, x: experts(g, x, "filled")),
          "rows_repeated": lambda: decoder(lambda g, x: experts(g, x, "repeated")), "sinks": lambda: decoder(softmax=with_sink),
          "both": lambda: decoder(experts, with_sink), "sizes_that_may_be_zero": lambda: decoder(latent=True)}


@pytest.mark.parametrize("name", MODELS)
def test_steps_give_what_the_whole_gives(tmp_path, name):
    model = MODELS[name]()
    made, report = kv.with_cache(tmp_path, model)
    ids, mask = kv.drawn()
    expected, seen = kv.whole(model, ids, mask), mask.astype(bool)
    for steps in ([14], [5, 1, 1, 4, 1, 1, 1], [1] * 14):
        np.testing.assert_allclose(kv.in_steps(made, ids, mask, steps)[seen], expected[seen], rtol=1e-3, atol=1e-4)
    assert not any("not tested" in note for note in report["passes"][0]["notes"]), report


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cache", ["growing", "buffer", "window"])
def test_slm(tmp_path, name, cache):
    """It verifies step by step, in ONNX Runtime as well."""
    onnx.save(MODELS[name](), tmp_path / "m.onnx")
    run_ok("slm", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--cache", cache, "--max-context", "24")
    kv.session(onnx.load(tmp_path / "o.onnx"))


def test_tokens_that_are_repeated_one_after_the_other_do_not_stay_apart(tmp_path):
    onnx.save(decoder(lambda g, x: experts(g, x, wrong=True)), tmp_path / "m.onnx")
    before = listing(tmp_path)
    done = run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", "kv_cache")
    assert_refused(done, 5, tmp_path, before)
    assert "don't stay apart" in done.stderr, done.stderr


def test_what_finds_tokens_is_named(tmp_path):
    def looped(g, x):
        flat = g.Reshape(x, [-1, WIDTH])
        at = g.Transpose(g.NonZero(g.Greater(g.MatMul(flat, g.weight(WIDTH, 1)), np.float32(0))), perm=[1, 0])
        rows = g.Gather(g.Transpose(at, perm=[1, 0]), np.int64(0), axis=0)
        return g.Reshape(g.ScatterND(flat, g.Unsqueeze(rows, [1]), g.Relu(g.Gather(flat, rows, axis=0))), g.Shape(x))

    onnx.save(decoder(looped), tmp_path / "m.onnx")
    before = listing(tmp_path)
    done = run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", "kv_cache")
    assert_refused(done, 5, tmp_path, before)
    assert "(NonZero): it finds tokens by their numbers" in done.stderr, done.stderr
