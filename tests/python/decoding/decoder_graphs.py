"""Decoders of several spellings for tests of the passes that give them a cache, and what runs them step by step."""
import json

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from conftest import run_ok

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
