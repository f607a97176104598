"""`--pass kv_cache`: decoders of several spellings, step by step in ONNX Runtime against the whole model, and what is refused."""
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from conftest import assert_refused, listing, run, run_ok

ort.set_default_logger_severity(4)
VOCABULARY, WIDTH, HEADS, KV, SIZE, LAYERS = 31, 24, 4, 2, 8, 2
FREQUENCIES = [1.0, 0.3, 0.1, 0.03]


class Graph:
    """Nodes and weights by calls: g.Add(a, b), g.const(array)."""

    def __init__(self, opset):
        self.opset, self.nodes, self.weights, self.random = opset, [], [], np.random.RandomState(7)

    def __getattr__(self, op):
        def add(*inputs, outputs=1, **attributes):
            names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
            inputs = [i if isinstance(i, str) else self.const(i) for i in inputs]
            self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{len(self.nodes)}", **attributes))
            return names[0] if outputs == 1 else names

        return add

    def const(self, array):
        array = np.array(array)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, *shape, scale=1.0):
        return self.const((self.random.randn(*shape) * scale / shape[0] ** 0.5).astype(np.float32))

    def model(self, logits, inputs, vocabulary=VOCABULARY):
        self.nodes[-1].output[0] = "logits"
        graph = helper.make_graph(self.nodes, "decoder", inputs, [helper.make_tensor_value_info("logits", T.FLOAT, ["b", None, vocabulary])],
                                  self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)


def ints(name):
    return helper.make_tensor_value_info(name, T.INT64, ["b", "s"])


def tokens_of(g, of="input_ids"):
    return g.Gather(g.Shape(of), [1], axis=0)


def positions(g):
    return g.Range(np.int64(0), g.Squeeze(tokens_of(g)), np.int64(1))


def hidden_before(g, window=None):
    """[s, s]: which keys each query sees."""
    at = positions(g)
    rows, columns = g.Unsqueeze(at, [1]), g.Unsqueeze(at, [0])
    seen = g.LessOrEqual(columns, rows)
    return seen if window is None else g.And(seen, g.Greater(columns, g.Sub(rows, np.int64(window))))


def mask_of(g, window=None):
    """[b, 1, s, s] of 0 and a large negative number."""
    padding = g.Unsqueeze(g.Cast("attention_mask", to=T.BOOL), [1, 2])
    return g.Where(g.And(hidden_before(g, window), padding), np.float32(0), np.float32(-1e9))


def turned(g, x, angles):
    """A rotary embedding of halves, spelled out."""
    first, second = g.Slice(x, [0], [SIZE // 2], [3]), g.Slice(x, [SIZE // 2], [SIZE], [3])
    both = g.Concat(angles, angles, axis=-1)
    return g.Add(g.Mul(x, g.Cos(both)), g.Mul(g.Concat(g.Neg(second), first, axis=-1), g.Sin(both)))


def angles_of(g):
    return g.Mul(g.Unsqueeze(g.Cast(positions(g), to=T.FLOAT), [1]), np.array([FREQUENCIES]))


def heads(g, x, count):
    shape = g.Concat(g.Gather(g.Shape(x), [0], axis=0), tokens_of(g, x), [count, SIZE], axis=0)
    return g.Transpose(g.Reshape(x, shape), perm=[0, 2, 1, 3])


def repeated(g, x):
    """Each of the key heads twice."""
    wide = g.Expand(g.Unsqueeze(x, [2]), g.Concat([1, 1, HEADS // KV], tokens_of(g), [SIZE], axis=0))
    return g.Reshape(wide, g.Concat(g.Gather(g.Shape(x), [0], axis=0), [HEADS], tokens_of(g), [SIZE], axis=0))


def repeated_first(g, x):
    """Heads of [b, s, KV * SIZE], each twice, while they stand behind the positions: as Falcon's newer kind has them."""
    b = g.Gather(g.Shape(x), [0], axis=0)
    apart = g.Reshape(x, g.Concat(b, tokens_of(g), [KV, 1, SIZE], axis=0))
    wide = g.Expand(apart, g.Concat(b, tokens_of(g), [KV, HEADS // KV, SIZE], axis=0))
    return g.Transpose(g.Reshape(wide, g.Concat(b, tokens_of(g), [HEADS, SIZE], axis=0)), perm=[0, 2, 1, 3])


def beside(g, x):
    return g.Reshape(g.Transpose(x, perm=[0, 2, 1, 3]), [0, 0, HEADS * SIZE])


def mlp(g, x):
    h = g.MatMul(x, g.weight(WIDTH, 32))
    return g.Add(x, g.MatMul(g.Mul(h, g.Sigmoid(h)), g.weight(32, WIDTH)))


def finish(g, x, inputs=("input_ids", "attention_mask")):
    return g.model(g.MatMul(x, g.weight(WIDTH, VOCABULARY)), [ints(name) for name in inputs])


def spelled_out(window=None, opset=14, last=False, repeats_first=False):
    """Rotary embeddings, grouped heads and a mask of older operators; shapes counted with Shape."""
    g = Graph(opset)
    x, mask, angles = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids"), mask_of(g, window), angles_of(g)
    for _ in range(LAYERS):
        q = turned(g, heads(g, g.MatMul(x, g.weight(WIDTH, HEADS * SIZE, scale=1.5)), HEADS), angles)
        k, v = g.MatMul(x, g.weight(WIDTH, KV * SIZE, scale=1.5)), g.MatMul(x, g.weight(WIDTH, KV * SIZE))
        if repeats_first:
            k, v = turned(g, repeated_first(g, k), angles), repeated_first(g, v)
        else:
            k, v = repeated(g, turned(g, heads(g, k, KV), angles)), repeated(g, heads(g, v, KV))
        scores = g.Div(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), np.float32(SIZE ** 0.5))
        y = g.MatMul(g.Softmax(g.Add(scores, mask), axis=-1), v)
        x = mlp(g, g.Add(x, g.MatMul(beside(g, y), g.weight(HEADS * SIZE, WIDTH))))
    if last:
        x = g.Gather(x, [-1], axis=1)
    return finish(g, x)


def learned(at=positions, seen=lambda g: hidden_before(g), inputs=("input_ids",), layers=LAYERS, typed=False):
    """Learned positions, one product for queries, keys and values, keys transposed at once, no mask input."""
    g = Graph(14)
    x = g.Add(g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids"), g.Gather(g.weight(64, WIDTH, scale=4), at(g)))
    if typed:
        x = g.Add(x, g.types)
    hidden = seen(g)
    for _ in range(layers):
        all_three = g.MatMul(x, g.weight(WIDTH, 3 * HEADS * SIZE, scale=1.5))
        q, k, v = (g.Reshape(part, [0, 0, HEADS, SIZE]) for part in g.Split(all_three, [HEADS * SIZE] * 3, axis=2, outputs=3))
        q, k, v = (g.Transpose(part, perm=perm) for part, perm in ((q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3])))
        scores = g.Where(hidden, g.Mul(g.MatMul(q, k), np.float32(0.4)), np.float32(-1e9))
        x = mlp(g, g.Add(x, g.MatMul(beside(g, g.MatMul(g.Softmax(scores, axis=-1), v)), g.weight(HEADS * SIZE, WIDTH))))
    return finish(g, x, inputs)


def seen_of_mask(g):
    return g.And(hidden_before(g), g.Unsqueeze(g.Cast("attention_mask", to=T.BOOL), [1, 2]))


MASKED = {"seen": seen_of_mask, "inputs": ("input_ids", "attention_mask")}


def counted_by_mask(g):
    """As OPT does: the first token that the mask shows has index 2, padding has 1."""
    return g.Add(g.Sub(g.Mul(g.CumSum("attention_mask", np.int64(1)), "attention_mask"), np.int64(1)), np.int64(2))


def cut_of_table(g):
    """Positions are the beginning of a row of them."""
    return g.Slice(np.arange(64)[None], [0], g.Unsqueeze(g.Squeeze(tokens_of(g)), [0]), [1])


LEARNED = {"by_place": positions, "by_mask": counted_by_mask, "by_table": cut_of_table}


def operators(packed):
    """Attention and RotaryEmbedding of opset 23; the future is hidden by an attribute."""
    g = Graph(23)
    x, angles = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids"), angles_of(g)
    shape = g.Concat(g.Gather(g.Shape("input_ids"), [0], axis=0), tokens_of(g), [SIZE // 2], axis=0)
    cos, sin = g.Expand(g.Cos(angles), shape), g.Expand(g.Sin(angles), shape)
    padding = g.Unsqueeze(g.Cast("attention_mask", to=T.BOOL), [1, 2])
    for _ in range(LAYERS):
        q, k = (g.RotaryEmbedding(g.MatMul(x, g.weight(WIDTH, n * SIZE, scale=1.5)), cos, sin, num_heads=n) for n in (HEADS, KV))
        v = g.MatMul(x, g.weight(WIDTH, KV * SIZE))
        whole = g.Expand(padding, g.Concat([1, 1], tokens_of(g), tokens_of(g), axis=0))
        if packed:
            y = g.Attention(q, k, v, whole, q_num_heads=HEADS, kv_num_heads=KV, is_causal=1)
        else:
            y = beside(g, g.Attention(*(heads(g, part, n) for part, n in ((q, HEADS), (k, KV), (v, KV))), whole, is_causal=1))
        x = mlp(g, g.Add(x, g.MatMul(y, g.weight(HEADS * SIZE, WIDTH))))
    return finish(g, x)


def operators_of_repeated_heads():
    """The same of heads that are repeated before they are turned; each operator has as many of them."""
    g = Graph(23)
    x, angles = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids"), angles_of(g)
    shape = g.Concat(g.Gather(g.Shape("input_ids"), [0], axis=0), tokens_of(g), [SIZE // 2], axis=0)
    cos, sin = g.Expand(g.Cos(angles), shape), g.Expand(g.Sin(angles), shape)
    for _ in range(LAYERS):
        q = heads(g, g.MatMul(x, g.weight(WIDTH, HEADS * SIZE, scale=1.5)), HEADS)
        k, v = (repeated_first(g, g.MatMul(x, g.weight(WIDTH, KV * SIZE, scale=scale))) for scale in (1.5, 1))
        q, k = (g.RotaryEmbedding(part, cos, sin, num_heads=HEADS) for part in (q, k))
        x = mlp(g, g.Add(x, g.MatMul(beside(g, g.Attention(q, k, v, mask_of(g))), g.weight(HEADS * SIZE, WIDTH))))
    return finish(g, x)


def biased():
    """Scores that fall with the distance (ALiBi), positions counted by the mask, one head for all keys."""
    g = Graph(17)
    x, mask = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids"), mask_of(g)
    at = g.Unsqueeze(g.Sub(g.CumSum("attention_mask", np.int64(1)), np.int64(1)), [1, 2])
    slopes = g.Mul(g.Cast(at, to=T.FLOAT), np.array([0.5, 0.25, 0.1, 0.05], np.float32).reshape(1, 4, 1, 1))
    for _ in range(LAYERS):
        q = heads(g, g.MatMul(x, g.weight(WIDTH, HEADS * SIZE, scale=1.5)), HEADS)
        k, v = (g.Unsqueeze(g.MatMul(x, g.weight(WIDTH, SIZE, scale=1.5)), [1]) for _ in "kv")
        scores = g.Add(g.Add(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), slopes), mask)
        y = g.MatMul(g.Softmax(scores, axis=-1), v)
        x = mlp(g, g.Add(x, g.MatMul(beside(g, y), g.weight(HEADS * SIZE, WIDTH))))
    return finish(g, x)


def assigned(g, first, second):
    """What both give along the last axis, assigned to the slices of an empty tensor as torch exports it."""
    turn = [3, 1, 2, 0]
    shape = g.Concat(g.Slice(g.Shape(first), [0], [3], [0]), [SIZE], axis=0)
    whole, places = g.Transpose(g.ConstantOfShape(shape), perm=turn), g.Range(np.int64(0), np.int64(SIZE), np.int64(1))
    for begin, part in ((0, first), (SIZE // 2, second)):
        at = g.Unsqueeze(g.Slice(places, [begin], [begin + SIZE // 2], [0]), [1])
        whole = g.ScatterND(whole, at, g.Transpose(part, perm=turn))
    return g.Transpose(whole, perm=turn)


def latent():
    """Keys and values of few numbers that all heads share, as DeepSeek has them: half of a key is turned, and that half is the same for all heads."""
    g = Graph(17)
    x, mask, half = g.Gather(g.weight(VOCABULARY, WIDTH, scale=4), "input_ids"), mask_of(g), SIZE // 2
    angles = g.Mul(g.Unsqueeze(g.Cast(positions(g), to=T.FLOAT), [1]), np.array([FREQUENCIES[:half // 2]]))
    both = g.Concat(angles, angles, axis=-1)

    def turn(x):
        first, second = g.Slice(x, [0], [half // 2], [3]), g.Slice(x, [half // 2], [half], [3])
        return g.Add(g.Mul(x, g.Cos(both)), g.Mul(g.Concat(g.Neg(second), first, axis=-1), g.Sin(both)))

    for _ in range(LAYERS):
        q = heads(g, g.MatMul(x, g.weight(WIDTH, HEADS * SIZE, scale=1.5)), HEADS)
        q_plain, q_turned = g.Split(q, [half, half], axis=3, outputs=2)
        few, k_turned = g.Split(g.MatMul(x, g.weight(WIDTH, 6 + half, scale=1.5)), [6, half], axis=2, outputs=2)
        wide = g.Transpose(g.Reshape(g.MatMul(few, g.weight(6, HEADS * (half + SIZE), scale=1.5)), [0, 0, HEADS, half + SIZE]), perm=[0, 2, 1, 3])
        k_plain, v = g.Split(wide, [half, SIZE], axis=3, outputs=2)
        k = assigned(g, k_plain, g.Tile(turn(g.Unsqueeze(k_turned, [1])), [1, HEADS, 1, 1]))
        scores = g.Mul(g.MatMul(assigned(g, q_plain, turn(q_turned)), g.Transpose(k, perm=[0, 1, 3, 2])), np.float32(0.4))
        y = g.MatMul(g.Softmax(g.Add(scores, mask), axis=-1), v)
        x = mlp(g, g.Add(x, g.MatMul(beside(g, y), g.weight(HEADS * SIZE, WIDTH))))
    return finish(g, x)


MODELS = {"spelled_out": spelled_out, "sliding": lambda: spelled_out(window=4), "spelled_17": lambda: spelled_out(opset=17), "learned": learned,
          "packed": lambda: operators(True), "heads_apart": lambda: operators(False), "biased": biased,
          "repeated_first": lambda: spelled_out(repeats_first=True), "operators_of_repeated": operators_of_repeated_heads, "latent": latent}
RELATIVE = [name for name in MODELS if name not in ("learned", "latent")]  # keys of latent are cached turned


def session(model):
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def with_cache(tmp_path, model, fields="mode=growing"):
    tmp_path.mkdir(exist_ok=True)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", f"kv_cache:{fields}", "--report", tmp_path / "r.json")
    made = onnx.load(tmp_path / "o.onnx")
    onnx.checker.check_model(made, full_check=True)
    return made, json.loads((tmp_path / "r.json").read_text())


def whole(model, ids, mask):
    feeds = {"input_ids": ids, "attention_mask": mask}
    s = session(model)
    return s.run(["logits"], {i.name: feeds[i.name] for i in s.get_inputs()})[0]


def shapes(infos):
    return {v.name: [d.dim_value if d.HasField("dim_value") else d.dim_param for d in v.type.tensor_type.shape.dim] for v in infos}


def in_steps(made, ids, mask, steps, change=lambda past: past):
    s = session(made)
    inputs, names = shapes(made.graph.input), [o.name for o in made.graph.output]
    past = {n: np.zeros((len(ids), d[1], 0, d[3]), np.float32) for n, d in inputs.items() if n.startswith("past")}
    at, logits = 0, []
    for count in steps:
        feeds = {"input_ids": ids[:, at:at + count], "attention_mask": mask[:, :at + count], **past}
        out = dict(zip(names, s.run(names, {n: feeds[n] for n in inputs})))
        logits.append(out["logits"])
        past = change({n: out[n.replace("past_key_values", "present")] for n in past})
        at += count
    return np.concatenate(logits, 1)


def drawn(batch=2, tokens=14, padding=2):
    ids, mask = np.random.RandomState(3).randint(0, VOCABULARY, (batch, tokens)), np.ones((batch, tokens), np.int64)
    mask[1:, :padding] = 0
    return ids, mask


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
