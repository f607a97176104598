"""`--pass kv_cache` of decoders that attend to an encoder's states: keys and values of cross attention are made once."""
import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper

from decoder_graphs import (HEADS, KV, LAYERS, SIZE, VOCABULARY, WIDTH, Graph, beside, drawn, heads, mask_of, mlp, positions, repeated,
                            session, shapes, tokens_of, with_cache)
from test_kv_cache import refused

STATES, STATE = 9, 20  # as many as no test has tokens, each of so many numbers
MODES = {"growing": "mode=growing", "window": "mode=window;window=2;sequence=16;max_context=20", "scatter": "mode=buffer;max_context=20",
         "grouped": "mode=buffer;max_context=20;write=group_query_attention"}


def encoder_mask(g):
    """[b, 1, 1, e] of 0 and a large negative number."""
    return g.Unsqueeze(g.Where(g.Cast("encoder_attention_mask", to=T.BOOL), np.float32(0), np.float32(-1e9)), [1, 2])


def states_apart(g, x):
    """[b, heads, e, size]; counts the batch on the tokens, as exporters do."""
    shape = g.Concat(g.Gather(g.Shape("input_ids"), [0], axis=0), tokens_of(g, "encoder_hidden_states"), [HEADS, SIZE], axis=0)
    return g.Transpose(g.Reshape(x, shape), perm=[0, 2, 1, 3])


def attends(g, q, k, v, mask):
    scores = g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2]))
    return beside(g, g.MatMul(g.Softmax(g.Add(scores, mask) if mask else scores, axis=-1), v))


def distances(g):
    """A bias by the distance of two tokens (T5): [1, heads, s, s]."""
    at = positions(g)
    apart = g.Min(g.Abs(g.Sub(g.Unsqueeze(at, [0]), g.Unsqueeze(at, [1]))), np.int64(15))
    return g.Unsqueeze(g.Transpose(g.Gather(g.weight(16, HEADS, scale=4), apart), perm=[2, 0, 1]), [0])


def spelled_out(masked=True, biased=True, after=lambda g, x: x, change=lambda g, states: states, opset=14):
    g = Graph(opset)
    x = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids")
    mask, others = mask_of(g), encoder_mask(g) if masked else None
    if biased:
        mask = g.Add(mask, distances(g))
    states = change(g, "encoder_hidden_states")
    for _ in range(LAYERS):
        q = heads(g, g.MatMul(x, g.weight(WIDTH, HEADS * SIZE)), HEADS)
        k, v = (repeated(g, heads(g, g.MatMul(x, g.weight(WIDTH, KV * SIZE)), KV)) for _ in "kv")
        x = g.Add(x, g.MatMul(attends(g, q, k, v, mask), g.weight(HEADS * SIZE, WIDTH)))
        q = heads(g, g.MatMul(x, g.weight(WIDTH, HEADS * SIZE)), HEADS)
        k, v = (states_apart(g, g.Add(g.MatMul(states, g.weight(STATE, HEADS * SIZE)), g.weight(HEADS * SIZE))) for _ in "kv")
        x = mlp(g, g.Add(x, g.MatMul(attends(g, q, k, v, others), g.weight(HEADS * SIZE, WIDTH))))
    return finish_cross(g, after(g, x), masked)


def operators(is_causal=0):
    """Attention of opset 23, of heads packed."""
    g = Graph(23)
    x = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids")
    mask, others = mask_of(g), g.Unsqueeze(g.Cast("encoder_attention_mask", to=T.BOOL), [1, 2])
    others = g.Expand(others, g.Concat([1, 1], tokens_of(g), [1], axis=0))
    for _ in range(LAYERS):
        for of, size, seen in ((x, WIDTH, mask), ("encoder_hidden_states", STATE, others)):
            q = g.MatMul(x, g.weight(WIDTH, HEADS * SIZE, scale=1.5))
            k, v = (g.MatMul(x if size == WIDTH else of, g.weight(size, HEADS * SIZE, scale=1.5)) for _ in "kv")
            causal = {"is_causal": is_causal} if size == STATE else {}
            y = g.Attention(q, k, v, seen, q_num_heads=HEADS, kv_num_heads=HEADS, **causal)
            x = g.Add(x, g.MatMul(y, g.weight(HEADS * SIZE, WIDTH)))
        x = mlp(g, x)
    return finish_cross(g, x, True)


def finish_cross(g, x, masked):
    inputs = [helper.make_tensor_value_info(name, T.INT64, ["b", "s"]) for name in ("input_ids", "attention_mask")]
    inputs.append(helper.make_tensor_value_info("encoder_hidden_states", T.FLOAT, ["b", "e", STATE]))
    if masked:
        inputs.append(helper.make_tensor_value_info("encoder_attention_mask", T.INT64, ["b", "e"]))
    return g.model(g.MatMul(x, g.weight(WIDTH, VOCABULARY)), inputs)


MODELS = {"spelled_out": spelled_out, "unmasked": lambda: spelled_out(masked=False, biased=False), "operators": operators}


def given(batch=2):
    states = np.random.RandomState(5).randn(batch, STATES, STATE).astype(np.float32)
    mask = np.ones((batch, STATES), np.int64)
    mask[1:, -3:] = 0
    return {"encoder_hidden_states": states, "encoder_attention_mask": mask}


def asked(model, feeds):
    s = session(model)
    return dict(zip([o.name for o in s.get_outputs()], s.run(None, {i.name: feeds[i.name] for i in s.get_inputs()})))


def both_parts(tmp_path, model, fields):
    made, report = with_cache(tmp_path, model, fields)
    return made, with_cache(tmp_path / "cross", model, f"{fields};model=cross")[0], report["passes"][0]["notes"]


def in_steps(made, feeds, ids, mask, mode, steps):
    """Whatever cache it has; what the model gives of each step."""
    inputs, at, logits, past = shapes(made.graph.input), 0, [], {}
    for name, dims in inputs.items():
        if name.startswith("past_key") and ".decoder." in name:
            past[name] = np.zeros((len(ids), dims[1], dims[2] if isinstance(dims[2], int) else 0, dims[3]), np.float32)
    for count in steps:
        seen = mask[:, :at + count]
        if mode == "window":
            seen = np.concatenate([np.zeros((len(ids), 16), np.int64), seen], 1)[:, -16:]
        if mode == "scatter":
            seen = np.pad(seen, ((0, 0), (0, 20 - seen.shape[1])))
        out = asked(made, feeds | past | {"input_ids": ids[:, at:at + count], "attention_mask": seen, "past_length": np.array([at])})
        past = {n: out[n.replace("past_key_values", "present")][:, :, count if mode == "window" else 0:] for n in past}
        logits.append(out["logits"])
        at += count
    return np.concatenate(logits, 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_steps_with_what_was_made_once(tmp_path, name, mode):
    model = MODELS[name]()
    made, cross, notes = both_parts(tmp_path, model, MODES[mode])
    ids, mask = drawn()
    expected = asked(model, given() | {"input_ids": ids, "attention_mask": mask})["logits"]
    once = {n.replace("present", "past_key_values"): v for n, v in asked(cross, given()).items()}
    assert sorted(once) == [f"past_key_values.{i}.encoder.{p}" for i in range(LAYERS) for p in ("key", "value")]
    inputs = shapes(made.graph.input)
    assert "encoder_hidden_states" not in inputs and ("encoder_attention_mask" in inputs) == (name != "unmasked")
    assert inputs["past_key_values.1.encoder.value"] == shapes(cross.graph.output)["present.1.encoder.value"] == ["b", HEADS, "e", SIZE]
    assert list(shapes(cross.graph.input)) == ["encoder_hidden_states"]
    assert not any(".encoder." in n for n in shapes(made.graph.output))
    steps = [2] * 7 if mode == "window" else [5] + [1] * 9
    got, seen = in_steps(made, given() | once, ids, mask, mode, steps), mask.astype(bool)
    np.testing.assert_allclose(got[seen], expected[seen], rtol=1e-3, atol=1e-4)
    for part in ("key", "value"):
        broken = {n: v * 0 if n.endswith(part) else v for n, v in once.items()}
        assert np.abs(in_steps(made, given() | broken, ids, mask, mode, steps) - expected)[seen].max() > 0.1 * np.abs(expected).max()
    assert any("step by step as at once" in note for note in notes) and not any("not tested" in note for note in notes), notes


def test_names_and_a_number_of_states(tmp_path):
    model = spelled_out(opset=17)
    for i in (2, 3):
        model.graph.input[i].type.tensor_type.shape.dim[1].dim_value = STATES
    made, cross, _ = both_parts(tmp_path, model, "past=in.{layer}.{part};present=out.{layer}.{part}")
    assert shapes(made.graph.input)["in.0.encoder.key"] == shapes(cross.graph.output)["out.0.encoder.key"] == ["b", HEADS, STATES, SIZE]
    assert shapes(made.graph.output)["out.1.decoder.value"] == ["b", KV, "past_sequence_length + s", SIZE]


def test_other_uses_of_the_states(tmp_path):
    """What is no key or value is computed in each step, of the input."""
    def add_mean(g, x):
        return g.Add(x, g.MatMul(g.ReduceMean("encoder_hidden_states", axes=[1], keepdims=1), g.weight(STATE, WIDTH)))

    model = spelled_out(after=add_mean)
    made, cross, notes = both_parts(tmp_path, model, "mode=growing")
    assert "encoder_hidden_states" in shapes(made.graph.input)
    assert any("still reads 'encoder_hidden_states' in each step" in note for note in notes), notes
    ids, mask = drawn()
    once = {n.replace("present", "past_key_values"): v for n, v in asked(cross, given()).items()}
    expected, seen = asked(model, given() | {"input_ids": ids, "attention_mask": mask})["logits"], mask.astype(bool)
    np.testing.assert_allclose(in_steps(made, given() | once, ids, mask, "growing", [5] + [1] * 9)[seen], expected[seen], rtol=1e-3, atol=1e-4)


def test_an_adapter_in_front_is_computed_once(tmp_path):
    model = spelled_out(change=lambda g, states: g.Relu(g.Add(g.MatMul(states, g.weight(STATE, STATE, scale=3)), g.weight(STATE))))
    made, cross, _ = both_parts(tmp_path, model, "mode=growing")
    assert [n.op_type for n in made.graph.node].count("Relu") == 0
    assert [n.op_type for n in cross.graph.node].count("Relu") == 1


def test_refusals(tmp_path):
    code, said = refused(tmp_path, operators(is_causal=1))
    assert code == 5 and "it hides some of what is given by the index of a token" in said, said
    code, said = refused(tmp_path, spelled_out(), "given=other")
    assert code == 5 and "input 'encoder_hidden_states' is none of 'tokens', 'masks', 'given' and 'given_masks'" in said, said
    model = spelled_out()
    for i in (2, 3):
        model.graph.input[i].type.tensor_type.shape.dim[1].dim_param = "s"
    code, said = refused(tmp_path, model)
    assert code == 5 and "its dim 1 is 's', as that of tokens or batches" in said, said
    shown = spelled_out(change=lambda g, states: g.Mul(states, g.Cast(g.Unsqueeze(g.ReduceMax("attention_mask", axes=[1]), [2]), to=T.FLOAT)))
    code, said = refused(tmp_path, shown)
    assert code == 5 and "is made of what is given and of 'attention_mask', too" in said, said
    from decoder_graphs import spelled_out as decoder
    code, said = refused(tmp_path, decoder(), "model=cross")
    assert code == 1 and "nothing attends to what is made of the inputs in 'given'" in said, said
