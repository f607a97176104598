"""`--pass kv_cache`: decoders of several spellings, step by step in ONNX Runtime against the whole model, and what is refused."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from conftest import assert_refused, listing, run, run_ok
from decoder_graphs import (FREQUENCIES, HEADS, KV, LAYERS, LEARNED, MASKED, MODELS, RELATIVE, SIZE, VOCABULARY, WIDTH, Graph, angles_of,
                            beside, counted_by_mask, drawn, finish, heads, hidden_before, in_steps, learned, mask_of, mlp, positions,
                            repeated, seen_of_mask, session, shapes, spelled_out, tokens_of, turned, whole, with_cache)


@pytest.mark.parametrize("name", MODELS)
def test_steps_give_what_the_whole_gives(tmp_path, name):
    model = MODELS[name]()
    made, report = with_cache(tmp_path, model)
    ids, mask = drawn()
    seen = mask.astype(bool) if "attention_mask" in shapes(model.graph.input) else np.ones_like(mask, bool)
    expected = whole(model, ids, mask)
    for steps in ([14], [5, 1, 1, 4, 1, 1, 1], [1] * 14):
        np.testing.assert_allclose(in_steps(made, ids, mask, steps)[seen], expected[seen], rtol=1e-3, atol=1e-4)
    for broken in (lambda past: {n: v * 0 for n, v in past.items()}, lambda past: {n: np.roll(v, 1, 2) if n.endswith("key") else v for n, v in past.items()}):
        assert np.abs(in_steps(made, ids, mask, [5] + [1] * 9, broken)[0] - expected[0]).max() > 0.1 * np.abs(expected).max()
    assert any("step by step as at once" in note for note in report["passes"][0]["notes"]), report
    assert not any("not tested" in note for note in report["passes"][0]["notes"]), report
    kv = {"learned": HEADS, "biased": 1, "latent": HEADS}.get(name, KV)
    inputs, outputs = shapes(made.graph.input), shapes(made.graph.output)
    assert [n for n in inputs if n.startswith("past")] == [f"past_key_values.{i}.{p}" for i in range(LAYERS) for p in ("key", "value")]
    assert inputs["past_key_values.1.value"] == ["b", kv, "past_sequence_length", SIZE]
    assert outputs["present.0.key"] == ["b", kv, "past_sequence_length + s", SIZE]
    assert made.opset_import[0].version == model.opset_import[0].version


def halves_of(tmp_path, model):
    onnx.save(model, tmp_path / "float.onnx")
    run_ok("transform", tmp_path / "float.onnx", "-o", tmp_path / "half.onnx", "--pass", "precision:interface=true", "--no-verify")
    return onnx.load(tmp_path / "half.onnx")


def leaking(model):
    """Hidden keys are seen a little."""
    for weight in [*model.graph.initializer, *(a.t for n in model.graph.node for a in n.attribute if a.HasField("t"))]:
        values = numpy_helper.to_array(weight)
        if values.dtype == np.float16 and (values < -1e3).any():
            weight.CopyFrom(numpy_helper.from_array(np.where(values < -1e3, -4, values).astype(np.float16), weight.name))
    return model


@pytest.mark.parametrize("sharp", [1, 1.5])
def test_models_of_halves(tmp_path, sharp):
    """They may differ by what halves cost them, which hangs on the model, and by no more."""
    model = spelled_out()
    for weight in model.graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.ndim == 2:
            weight.CopyFrom(numpy_helper.from_array(sharp * values, weight.name))
    half = halves_of(tmp_path, model)
    made, report = with_cache(tmp_path, half)
    assert made.graph.output[0].type.tensor_type.elem_type == T.FLOAT16
    assert any("step by step as at once" in note for note in report["passes"][0]["notes"]), report
    onnx.save(leaking(half), tmp_path / "m.onnx")
    before = listing(tmp_path)
    assert_refused(run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o2.onnx", "--pass", "kv_cache"), 3, tmp_path, before, "may look at later tokens")


@pytest.mark.parametrize("fields", ["mode=growing", "mode=window;window=1;sequence=14", "mode=buffer;max_context=14"])
def test_masks_of_floats(tmp_path, fields):
    """0 and 1 are drawn for them when the result is verified, not any numbers."""
    model = spelled_out()
    mask_input = next(i for i in model.graph.input if i.name == "attention_mask")
    mask_input.type.tensor_type.elem_type = T.FLOAT
    for node in model.graph.node:
        node.input[:] = ["whole_mask" if name == "attention_mask" else name for name in node.input]
    model.graph.node.insert(0, helper.make_node("Cast", ["attention_mask"], ["whole_mask"], to=T.INT64))
    made, _ = with_cache(tmp_path, model, fields)
    if "growing" in fields:
        ids, mask = drawn()
        expected = whole(model, ids, mask.astype(np.float32))
        got = in_steps(made, ids, mask.astype(np.float32), [5] + [1] * 9)
        np.testing.assert_allclose(got[mask == 1], expected[mask == 1], rtol=1e-3, atol=1e-4)


def test_last_logits_and_names(tmp_path):
    model = spelled_out(last=True)
    made, _ = with_cache(tmp_path, model, "past=cache.{layer}.{part}.in;present=cache.{layer}.{part}.out;past_dim=before")
    assert shapes(made.graph.input)["cache.0.key.in"] == ["b", KV, "before", SIZE]
    assert "cache.1.value.out" in shapes(made.graph.output)
    ids, mask = drawn(batch=1, padding=0)
    s, names = session(made), [o.name for o in made.graph.output]
    past = {n: np.zeros((1, KV, 0, SIZE), np.float32) for n in shapes(made.graph.input) if n.startswith("cache")}
    for at in range(14):
        out = dict(zip(names, s.run(names, {"input_ids": ids[:, at:at + 1], "attention_mask": mask[:, :at + 1], **past})))
        past = {n: out[n.replace(".in", ".out")] for n in past}
        np.testing.assert_allclose(out["logits"], whole(model, ids[:, :at + 1], mask[:, :at + 1]), rtol=1e-3, atol=1e-4)


def in_windows(made, ids, mask, window, sequence):
    s, inputs, names = session(made), shapes(made.graph.input), [o.name for o in made.graph.output]
    past = {n: np.full((len(ids), *d[1:]), 3, np.float32) for n, d in inputs.items() if n.startswith("past_key")}
    seen, logits = np.zeros((len(ids), sequence), np.int64), []
    for at in range(0, ids.shape[1], window):
        seen = np.concatenate([seen, mask[:, at:at + window]], 1)[:, -sequence:]
        before = np.array([at]) if inputs.get("past_length") == [1] else mask[:, :at].sum(1)
        feeds = {"input_ids": ids[:, at:at + window], "attention_mask": seen, "past_length": before, **past}
        out = dict(zip(names, s.run(names, {n: feeds[n] for n in inputs})))
        logits.append(out["logits"])
        past = {n: out[n.replace("past_key_values", "present")][:, :, window:] for n in past}
    return np.concatenate(logits, 1)


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("window", [1, 2])
def test_windows(tmp_path, name, window):
    model = MODELS[name]()
    made, _ = with_cache(tmp_path, model, f"mode=window;window={window};sequence=16;max_context=20")
    inputs = shapes(made.graph.input)
    assert inputs["input_ids"] == ["b", window] and inputs["attention_mask"] == ["b", 16] and "past_length" not in inputs
    assert inputs["past_key_values.0.key"][2] == 20 - window and shapes(made.graph.output)["present.0.key"][2] == 20
    assert inputs["past_key_values.0.key"] == inputs["past_key_values.0.value"]  # by heads, also where a rotary embedding took them packed
    ids, mask = drawn()
    seen = mask.astype(bool)
    np.testing.assert_allclose(in_windows(made, ids, mask, window, 16)[seen], whole(model, ids, mask)[seen], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("window", [1, 2])
def test_windows_of_learned_positions(tmp_path, name, window):
    model = learned(LEARNED[name], **MASKED)
    made, _ = with_cache(tmp_path, model, f"mode=window;window={window};sequence=16;max_context=20")
    assert shapes(made.graph.input)["past_length"] == ["b" if name == "by_mask" else 1]
    run_ok("verify", tmp_path / "m.onnx", tmp_path / "o.onnx", "--stepping", "--lengths", "15")
    ids, mask = drawn()
    seen = mask.astype(bool)
    np.testing.assert_allclose(in_windows(made, ids, mask, window, 16)[seen], whole(model, ids, mask)[seen], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", LEARNED)
def test_learned_positions_go_on_where_the_window_slides(tmp_path, name):
    """A layer sees nothing but the window; tokens in it keep their positions, also where padding has slid out."""
    model = learned(LEARNED[name], layers=1, **MASKED)
    made, _ = with_cache(tmp_path, model, "mode=window;window=2;sequence=8;max_context=10")
    ids, mask = drawn(tokens=40)
    got = in_windows(made, ids, mask, 2, 8)
    g = learned(LEARNED[name], lambda g: g.And(seen_of_mask(g), in_last(g, 2, 8)), ("input_ids", "attention_mask"), 1)
    np.testing.assert_allclose(got[mask.astype(bool)], whole(g, ids, mask)[mask.astype(bool)], rtol=1e-3, atol=1e-4)


def in_last(g, window, sequence):
    """[s, s]: the places that a query sees whose window of tokens stands at the end of the sequence."""
    at = positions(g)
    end = g.Mul(g.Add(g.Div(at, np.int64(window)), np.int64(1)), np.int64(window))
    return g.GreaterOrEqual(g.Unsqueeze(at, [0]), g.Sub(g.Unsqueeze(end, [1]), np.int64(sequence)))


@pytest.mark.parametrize("name, room", [("by_place", 64), ("by_mask", 62), ("by_table", 64)])
def test_a_window_stays_within_the_table(tmp_path, name, room):
    model = learned(LEARNED[name], **MASKED)
    with_cache(tmp_path, model, f"mode=window;sequence=16;max_context={room}")
    code, said = refused(tmp_path / "beyond", model, f"mode=window;sequence=16;max_context={room + 1}")
    assert code == 5 and f"its table of positions has {room}; a window can't slide beyond them" in said, said


def gated(condition):
    """What is taken of a token is cut off where a condition of its place does not hold."""
    g = Graph(17)
    x, mask, angles = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids"), mask_of(g), angles_of(g)
    for _ in range(LAYERS):
        q, k = (turned(g, heads(g, g.MatMul(x, g.weight(WIDTH, n * SIZE, scale=1.5)), n), angles) for n in (HEADS, HEADS))
        v = heads(g, g.MatMul(x, g.weight(WIDTH, HEADS * SIZE)), HEADS)
        y = g.MatMul(g.Softmax(g.Add(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), mask), axis=-1), v)
        x = g.Add(x, g.Where(condition(g), g.MatMul(beside(g, y), g.weight(HEADS * SIZE, WIDTH)), np.float32(0)))
    return finish(g, x)


def sees_many(g):
    """[b, s, 1]: whether a token sees more than three."""
    seen = g.Cast(seen_of_mask(g), to=T.FLOAT)
    return g.Squeeze(g.Greater(g.ReduceSum(seen, [-1], keepdims=1), np.float32(3)), [1])


def before_nine(g):
    """[s, 1]: an index beside a number, among what is true of places."""
    return g.Unsqueeze(g.And(g.Less(positions(g), np.int64(9)), g.Squeeze(g.Greater(tokens_of(g), np.int64(0)))), [1])


def test_windows_know_what_is_true_of_places(tmp_path):
    """Whether a token sees anything is the same in each window; whether it is one of the first nine is told by its index."""
    for name, condition in (("sees", sees_many), ("first", before_nine)):
        model = gated(condition)
        made, _ = with_cache(tmp_path / name, model, "mode=window;sequence=16;max_context=20")
        assert ("past_length" in shapes(made.graph.input)) == (name == "first")
        ids, mask = drawn()
        seen = mask.astype(bool)
        np.testing.assert_allclose(in_windows(made, ids, mask, 1, 16)[seen], whole(model, ids, mask)[seen], rtol=1e-3, atol=1e-4)


def in_buffers(made, ids, mask, steps, room=20):
    s, inputs, names, at, logits = session(made), shapes(made.graph.input), [o.name for o in made.graph.output], 0, []
    past = {n: np.full((len(ids), *d[1:]), 3, np.float32) for n, d in inputs.items() if n.startswith("past_key")}
    whole_mask = inputs.get("attention_mask", [0, 0])[1] == room
    for count in steps:
        seen = np.zeros((len(ids), room if whole_mask else at + count), np.int64)
        seen[:, :at + count] = mask[:, :at + count]
        feeds = {"input_ids": ids[:, at:at + count], "attention_mask": seen, "count": np.array([at]), **past}
        out = dict(zip(names, s.run(names, {n: feeds[n] for n in inputs})))
        past = {n: out[n.replace("past_key_values", "present")] for n in past}
        logits.append(out["logits"])
        at += count
    return np.concatenate(logits, 1)


WRITERS = {"scatter_nd": "ScatterND", "tensor_scatter": "TensorScatter", "group_query_attention": "GroupQueryAttention"}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("name", MODELS)
def test_buffers(tmp_path, name, write):
    model = MODELS[name]()
    made, _ = with_cache(tmp_path, model, f"mode=buffer;max_context=20;filled=count;write={write}")
    inputs = shapes(made.graph.input)
    assert inputs["past_key_values.0.key"][2] == shapes(made.graph.output)["present.0.key"][2] == 20
    grouped = write == "group_query_attention"
    assert inputs.get("count") == (None if grouped and name != "learned" else [1])
    if "attention_mask" in inputs:
        assert inputs["attention_mask"][1] == ("past_sequence_length + s" if grouped else 20)
    written = [n for n in made.graph.node if n.op_type == WRITERS[write]]
    assert len(written) == LAYERS * (1 if grouped else 2)
    assert made.opset_import[0].version == (24 if write == "tensor_scatter" else model.opset_import[0].version)
    ids, mask = drawn()
    seen = mask.astype(bool) if "attention_mask" in shapes(model.graph.input) else np.ones_like(mask, bool)
    # Behind a past ONNX Runtime's GroupQueryAttention takes several tokens of one row alone.
    for rows, steps in ((slice(0, 2), [5] + [1] * 9 if grouped else [5, 1, 1, 4, 1, 1, 1]), (slice(1, 2), [5, 1, 1, 4, 1, 1, 1])):
        got, expected = in_buffers(made, ids[rows], mask[rows], steps), whole(model, ids[rows], mask[rows])
        np.testing.assert_allclose(got[seen[rows]], expected[seen[rows]], rtol=1e-3, atol=1e-4)


def test_what_buffers_are_not_written_by(tmp_path):
    room = "mode=buffer;max_context=20"
    code, said = refused(tmp_path, spelled_out(), f"{room};write=tensor_scatter;opset=23")
    assert code == 1 and "TensorScatter is of opset 24" in said, said
    weighted = one_layer(causal, weights=lambda g, scores: g.Mul(g.Softmax(scores, axis=-1), np.float32(0.5) * np.ones((HEADS, 1, 1), np.float32)))
    code, said = refused(tmp_path, weighted, f"{room};write=group_query_attention")
    assert code == 5 and "it is not written as one Attention" in said, said
    with_cache(tmp_path / "taken", weighted, room)
    for sizes in ((SIZE, 2 * SIZE), (6, 6)):
        other = one_layer(causal, sizes=sizes)
        code, said = refused(tmp_path, other, f"{room};write=group_query_attention")
        assert code == 5 and f"heads of one size, a multiple of 8; its keys have {sizes[0]} and its values {sizes[1]}" in said, said
        with_cache(tmp_path / "taken", other, room)


@pytest.mark.parametrize("opset", [14, 23])
def test_fusions_find_what_was_written_for_an_old_opset(tmp_path, opset):
    with_cache(tmp_path, spelled_out(), f"opset={opset}")
    run_ok(tmp_path / "o.onnx", "-o", tmp_path / "fused.onnx", "--target", "ort-cpu@1.31")
    ops = [n.op_type for n in onnx.load(tmp_path / "fused.onnx").graph.node]
    assert (ops.count("Attention"), ops.count("RotaryEmbedding"), ops.count("Softmax")) == (LAYERS, 2 * LAYERS, 0), ops


def test_positions_as_an_input(tmp_path):
    g = Graph(14)
    x, mask = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids"), mask_of(g)
    angles = g.Unsqueeze(g.Mul(g.Unsqueeze(g.Cast("position_ids", to=T.FLOAT), [2]), np.array([[FREQUENCIES]])), [1])
    q, k = (turned(g, heads(g, g.MatMul(x, g.weight(WIDTH, n * SIZE, scale=1.5)), n), angles) for n in (HEADS, KV))
    v = heads(g, g.MatMul(x, g.weight(WIDTH, KV * SIZE)), KV)
    scores = g.Add(g.MatMul(q, g.Transpose(repeated(g, k), perm=[0, 1, 3, 2])), mask)
    x = g.Add(x, g.MatMul(beside(g, g.MatMul(g.Softmax(scores, axis=-1), repeated(g, v))), g.weight(HEADS * SIZE, WIDTH)))
    model = finish(g, x, ("input_ids", "attention_mask", "position_ids"))
    made, _ = with_cache(tmp_path, model)
    ids, mask = drawn(batch=1, padding=0)
    at = np.arange(14)[None] * 3 % 11
    expected = session(model).run(None, {"input_ids": ids, "attention_mask": mask, "position_ids": at})[0]
    s, names = session(made), [o.name for o in made.graph.output]
    past = {f"past_key_values.0.{p}": np.zeros((1, KV, 0, SIZE), np.float32) for p in ("key", "value")}
    for i in range(14):
        part = slice(i, i + 1)
        feeds = {"input_ids": ids[:, part], "attention_mask": mask[:, :i + 1], "position_ids": at[:, part], **past}
        out = dict(zip(names, s.run(names, feeds)))
        past = {n: out[n.replace("past_key_values", "present")] for n in past}
        np.testing.assert_allclose(out["logits"], expected[:, part], rtol=1e-3, atol=1e-4)


def refused(tmp_path, model, fields="mode=growing"):
    tmp_path.mkdir(exist_ok=True)
    onnx.save(model, tmp_path / "m.onnx")
    done = run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", f"kv_cache:{fields}")
    assert done.returncode != 0 and not (tmp_path / "o.onnx").exists()
    return done.returncode, done.stderr


def one_layer(change, after=lambda g, x: x, weights=lambda g, scores: g.Softmax(scores, axis=-1), sizes=(SIZE, SIZE)):
    g = Graph(17)
    x = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids")
    q, k, v = (g.Transpose(g.Reshape(g.MatMul(x, g.weight(WIDTH, HEADS * size, scale=1.5)), [0, 0, HEADS, size]), perm=[0, 2, 1, 3])
               for size in (sizes[0], *sizes))
    y = g.MatMul(weights(g, change(g, g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])))), v)
    flat = g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, HEADS * sizes[1]])
    x = g.Add(x, g.MatMul(flat, g.weight(HEADS * sizes[1], WIDTH)))
    return finish(g, after(g, x), ("input_ids",))


def causal(g, scores):
    return g.Where(hidden_before(g), scores, np.float32(-1e9))


@pytest.mark.parametrize("after, op", [
    (lambda g, x: g.Sub(x, g.ReduceMean(x, axes=[1], keepdims=1)), "ReduceMean"),
    (lambda g, x: g.CumSum(x, np.int64(1)), "CumSum"),
    (lambda g, x: g.Softmax(x, axis=1), "Softmax"),
    (lambda g, x: g.Concat(x, x, axis=1), "Concat"),
    (lambda g, x: g.Slice(x, [1], [2 ** 62], [1]), "Slice"),
    (lambda g, x: g.Transpose(g.Conv(g.Transpose(x, perm=[0, 2, 1]), g.weight(WIDTH, WIDTH, 3), pads=[2, 0]), perm=[0, 2, 1]), "Conv"),
])
def test_what_mixes_tokens_is_refused(tmp_path, after, op):
    code, said = refused(tmp_path, one_layer(causal, after))
    assert code == 5 and "no cache: node" in said and op in said, said


def test_refusals(tmp_path):
    code, said = refused(tmp_path, one_layer(lambda g, scores: scores))
    assert code == 3 and "may look at later tokens" in said, said
    assert "no attention was found" in refused(tmp_path, finish_without_attention())[1]
    assert "input 'attention_mask' is none of" in refused(tmp_path, spelled_out(), "masks=other")[1]
    assert "hide the padding" in refused(tmp_path, learned(), "mode=window;sequence=16")[1]
    assert "number of tokens that the buffers hold" in refused(tmp_path, learned(), "mode=buffer")[1]
    assert "{layer} and {part}" in refused(tmp_path, spelled_out(), "past=x")[1]
    fixed = spelled_out()
    fixed.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 9
    assert "is fixed to 9" in refused(tmp_path, fixed)[1]


def seen_of_prefix(g):
    """Tokens see those before them and the first two, so the first token sees the second."""
    seen = g.Or(hidden_before(g), g.Less(g.Unsqueeze(positions(g), [0]), np.int64(2)))
    return g.And(seen, g.Unsqueeze(g.Cast("attention_mask", to=T.BOOL), [1, 2]))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("fields", ["mode=growing", "mode=window;window=1;sequence=16;max_context=20",
                                    *(f"mode=buffer;max_context=20;write={write}" for write in WRITERS)])
def test_a_prefix_that_sees_itself_is_refused(tmp_path, fields, layers):
    """A token that comes alone before an empty cache does not see the one behind it."""
    model = learned(counted_by_mask, seen_of_prefix, ("input_ids", "attention_mask"), layers)
    code, said = refused(tmp_path, model, fields)
    assert code in (3, 5), said
    assert "may look at later tokens" in said or "no cache" in said or "no input" in said, said
    if fields == "mode=growing":
        assert code == 3 and "may look at later tokens" in said, said


@pytest.mark.parametrize("types", [lambda g: g.Slice(np.zeros((1, 64), np.int64), [0], g.Unsqueeze(g.Squeeze(tokens_of(g)), [0]), [1]),
                                   lambda g: g.Expand(g.Slice(np.tile([[0, 1]], (1, 32)), [0], tokens_of(g), [1]), g.Shape("input_ids")),
                                   lambda g: g.ConstantOfShape(g.Shape("input_ids"), value=numpy_helper.from_array(np.array([1])))])
def test_types_of_tokens_are_no_positions(tmp_path, types):
    """A table of two rows, looked up by a constant of zeros as long as the tokens, bounds no window."""
    def at(g):
        g.types = g.Gather(g.weight(2, WIDTH, scale=4), types(g))
        return positions(g)

    model = learned(at, typed=True, **MASKED)
    made, _ = with_cache(tmp_path, model, "mode=window;window=1;sequence=16;max_context=20")
    ids, mask = drawn()
    shown = mask.astype(bool)
    np.testing.assert_allclose(in_windows(made, ids, mask, 1, 16)[shown], whole(model, ids, mask)[shown], rtol=1e-3, atol=1e-4)


def test_buffers_of_few_tokens_are_verified(tmp_path):
    _, report = with_cache(tmp_path, spelled_out(), "mode=buffer;max_context=4")
    assert any("for 1 x 4 tokens" in note for note in report["passes"][0]["notes"]), report


def finish_without_attention():
    g = Graph(17)
    return finish(g, mlp(g, g.Gather(g.weight(VOCABULARY, WIDTH), "input_ids")), ("input_ids",))


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("opset", [14, 17])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("mode", ["growing", "buffer"])
def test_slm_writes_older_opsets_of_open_sizes(tmp_path, name, opset, dtype, mode):
    """Attention was taken apart behind the cache, where nothing told any more that the mask is as long as the keys, and the model was refused."""
    model = learned(LEARNED[name], **MASKED)
    onnx.save(model, tmp_path / "m.onnx")
    words = ["--max-context", 40] if mode == "buffer" else []
    run_ok("slm", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--cache", mode, *words, "--opset", opset, "--dtype", dtype, "--no-external-data")
    made = onnx.load(tmp_path / "o.onnx")
    assert [o.version for o in made.opset_import if not o.domain] == [opset]
    session(made)
    if mode == "growing" and dtype == "fp32":
        ids, mask = drawn()
        seen = mask.astype(bool)
        got = in_steps(made, ids, mask, [1] * ids.shape[1])
        np.testing.assert_allclose(got[seen], whole(model, ids, mask)[seen], rtol=1e-3, atol=1e-4)
