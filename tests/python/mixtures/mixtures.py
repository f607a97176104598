"""Mixtures of experts as exporters spell them, as graphs, in several spellings of the router, the experts and their sum."""
import numpy as np
import onnx
from onnx import TensorProto
from unrolled import Graph

HIDDEN, INTER, EXPERTS = 6, 5, 4


def router(g, x, kind, k, rng, hidden=HIDDEN, experts=EXPERTS):
    """Weights and places of the chosen, [tokens, k]."""
    if kind == "given":  # by inputs of the model
        return g.Sigmoid("chosen"), "places"
    scores = g.MatMul(x, g.constant(rng.standard_normal((hidden, experts)).astype(np.float32)))
    if kind == "with a bias":
        scores = g.Add(scores, g.constant(rng.standard_normal(experts).astype(np.float32)))
    if kind == "softmax behind":
        top, places = g.TopK(scores, g.ints(k), outputs=2, axis=-1)
        return g.Softmax(top, axis=-1), places
    if kind in ("sigmoid", "signed"):
        top, places = g.TopK(g.Sigmoid(scores) if kind == "sigmoid" else g.Tanh(scores), g.ints(k), outputs=2, axis=-1)
        return (g.Div(top, g.ReduceSum(top, g.ints(-1))) if kind == "sigmoid" else top), places
    if kind in ("corrected", "grouped"):
        all_ = g.Sigmoid(scores)
        judged = g.Add(all_, g.constant(rng.standard_normal(experts).astype(np.float32)))
        if kind == "grouped":  # of two groups that whose best expert is better
            best, group = g.TopK(g.ReduceMax(g.Reshape(judged, g.ints(-1, 2, experts // 2)), g.ints(-1), keepdims=0), g.ints(1), outputs=2, axis=-1)
            mine = g.Equal(group, g.constant(np.arange(experts)[None] // (experts // 2)))
            judged = g.Where(mine, judged, g.constant(np.float32(-np.inf)))
        top, places = g.TopK(judged, g.ints(k), outputs=2, axis=-1)
        top = g.GatherElements(all_, places, axis=1)
        return g.Mul(g.Div(top, g.Add(g.ReduceSum(top, g.ints(-1)), g.constant(np.float32(1e-20)))), g.constant(np.float32(2.5))), places
    if kind == "one after the other":  # each the best of those that are left
        all_, chosen, places = scores, [], []
        for _ in range(k):
            at = g.ArgMax(all_, axis=-1, keepdims=1)
            chosen.append(g.GatherElements(g.Softmax(all_, axis=-1), at, axis=1))
            places.append(at)
            all_ = g.ScatterElements(all_, at, g.Expand(g.constant(np.full((1, 1), -np.inf, np.float32)), g.Shape(at)), axis=1)
        return g.Concat(*chosen, axis=1), g.Concat(*places, axis=1)
    all_ = g.Softmax(scores, axis=-1)
    if kind == "smallest":
        return g.TopK(all_, g.ints(k), outputs=2, axis=-1, largest=0)
    top, places = g.TopK(all_, g.ints(k), outputs=2, axis=-1, sorted=0 if kind == "unsorted" else 1)
    if kind == "read again":
        top = g.GatherElements(all_, places, axis=1)
    if kind in ("plain", "smallest"):
        return top, places
    if kind == "times 2.5":
        return g.Mul(top, g.constant(np.float32(2.5))), places
    return g.Div(top, g.ReduceSum(top, g.ints(-1))), places


def gate(g, wide, kind, inter):
    """What is between the products of an expert, of the first one's last axis."""
    if kind in ("silu", "relu", "gelu"):
        return g.Relu(wide) if kind == "relu" else g.Mul(wide, g.Sigmoid(wide)) if kind == "silu" else g.Gelu(wide, approximate="tanh")
    if kind in ("interleaved", "limited"):
        step = lambda begin: g.Slice(wide, g.ints(begin), g.ints(2**40), g.ints(-1), g.ints(2))
        first, linear = step(0), step(1)
    else:
        first, linear = g.Split(wide, g.ints(inter, inter), outputs=2, axis=-1)
    if kind == "linear first":
        first, linear = linear, first
    if kind == "limited":
        seven = g.constant(np.float32(7))
        first = g.Min(first, seven)
        linear = g.Add(g.Clip(linear, g.constant(np.float32(-7)), seven), g.constant(np.float32(1)))
        return g.Mul(linear, g.Mul(first, g.Sigmoid(g.Mul(first, g.constant(np.float32(1.702))))))
    act = g.Tanh(first) if kind == "tanh" else g.Mul(first, g.Sigmoid(first))
    return g.Mul(act, linear)


def picked(kind="halves", route="normalized", k=2, transposed=False, biases=False, apart=False, nd=False, rank=3, wrong=None, tokens="tokens", experts=EXPERTS, uses=False):
    """The weights of each token's experts are gathered, and multiplied pair by pair (transformers' batched_mm)."""
    g, rng = Graph(), np.random.default_rng(1)
    weights = lambda *s: g.constant((rng.standard_normal(s) * (3 if kind == "limited" else 1)).astype(np.float32))
    x = g.Reshape("x", g.ints(-1, HIDDEN)) if rank == 3 else "x"
    chosen, places = router(g, x, route, k, rng, experts=experts)
    flat = g.Reshape(places, g.ints(-1, 1) if nd else g.ints(-1))
    rows = g.Reshape(g.Expand(g.Unsqueeze(x, g.ints(1)), g.ints(1, k, 1)), g.ints(-1, HIDDEN))
    if wrong == "tokens that are not repeated in place":
        rows = g.Reshape(g.Expand(g.Unsqueeze(x, g.ints(0)), g.ints(k, 1, 1)), g.ints(-1, HIDDEN))
    pick = lambda stack: g.GatherND(stack, flat) if nd else g.Gather(stack, flat, axis=0)

    def layer(v, wide, long):
        w = pick(weights(experts, *((long, wide) if transposed else (wide, long))))
        y = g.Squeeze(g.MatMul(g.Unsqueeze(v, g.ints(1)), w), g.ints(1)) if transposed else g.Squeeze(g.MatMul(w, g.Unsqueeze(v, g.ints(-1))), g.ints(-1))
        return g.Add(y, pick(weights(experts, wide))) if biases else y

    plain = kind in ("silu", "relu", "gelu")
    if apart:
        first = layer(rows, INTER, HIDDEN)
        inner = g.Mul(g.Mul(first, g.Sigmoid(first)), layer(rows, INTER, HIDDEN))
    else:
        inner = gate(g, layer(rows, INTER * (1 if plain else 2), HIDDEN), kind, INTER)
    y = layer(inner, HIDDEN, INTER)
    y = g.Mul(y, g.Reshape(chosen, g.ints(-1, 1)))
    if wrong == "a product too much":
        y = g.Mul(y, y)
    y = g.ReduceSum(g.Reshape(y, g.ints(-1, k, HIDDEN)), g.ints(1), keepdims=0)
    if rank == 3:
        y = g.Reshape(y, g.Shape("x"))
    g.Identity(y)
    g.nodes[-1].output[0] = "y"
    outputs = ["y"]
    if uses:
        g.Identity(chosen)
        g.nodes[-1].output[0] = "w"
        outputs.append("w")
    inputs = {"x": ["batch", tokens, HIDDEN] if rank == 3 else [tokens, HIDDEN]}
    if route != "given":
        return g.model(inputs, outputs)
    model = g.model(inputs | {"chosen": [tokens, k], "places": [tokens, k]}, outputs)
    model.graph.input[2].type.tensor_type.elem_type = TensorProto.INT64
    return model


def apart(form="loop", kind="halves", route="normalized", k=2, biases=False, gates_apart=False, wrong=None, order=None, experts=EXPERTS, shared=False):
    """Each expert has operators of its own: over the tokens that it is given (loop), or over all with one-hot weights (dense). `order`: in which
    they are written."""
    g, rng = Graph(), np.random.default_rng(2)
    weights = lambda *s: (rng.standard_normal(s) * (3 if kind == "limited" else 1)).astype(np.float32)
    x = g.Reshape("x", g.ints(-1, HIDDEN))
    chosen, places = router(g, x, route, k, rng, experts=experts)
    hot = g.OneHot(places, g.ints(experts, scalar=True), g.ints(0, 1), axis=-1)
    plain = kind in ("silu", "relu", "gelu")
    all_ = [[weights(HIDDEN, INTER * (1 if plain or gates_apart else 2)), weights(HIDDEN, INTER), weights(INTER, HIDDEN), weights(INTER * (1 if plain or gates_apart else 2)),
             weights(INTER), weights(HIDDEN)] for _ in range(experts)]

    def expert(rows, number):
        first, linear, down, b1, b3, b2 = (g.constant(w) for w in all_[number])
        add = lambda y, b: g.Add(b, y) if biases else y
        wide = add(g.MatMul(rows, first), b1)
        inner = g.Mul(g.Mul(wide, g.Sigmoid(wide)), add(g.MatMul(rows, linear), b3)) if gates_apart else gate(g, wide, kind, INTER)
        return add(g.MatMul(inner, down), b2)

    each = g.ReduceSum(g.Mul(g.Cast(hot, to=1), g.Unsqueeze(chosen, g.ints(-1))), g.ints(1), keepdims=0)
    total = g.ConstantOfShape(g.Shape(x), value=onnx.numpy_helper.from_array(np.zeros(1, np.float32)))
    for number in order or range(experts - (wrong == "an expert less")):
        mine = g.ints(number)
        if form == "dense":
            total = g.Add(total, g.Mul(expert(x, number), g.Gather(each, mine, axis=1)))
            continue
        where = g.Transpose(g.NonZero(g.Squeeze(g.Gather(hot, mine, axis=2), g.ints(2))), perm=[1, 0])
        token, slot = (g.Squeeze(t, g.ints(1)) for t in g.Split(where, g.ints(1, 1), outputs=2, axis=1))
        given = g.Unsqueeze(g.GatherND(chosen, where), g.ints(1))
        made = g.Mul(expert(g.Gather(x, token, axis=0), number), given)
        spread = g.Expand(g.Unsqueeze(token, g.ints(1)), g.Shape(made))
        total = g.ScatterElements(total, spread, made, axis=0, reduction="add")
    if shared:
        w = [g.constant(weights(*s)) for s in ((HIDDEN, INTER), (INTER, HIDDEN))]
        total = g.Add(total, g.MatMul(g.Tanh(g.MatMul(x, w[0])), w[1]))
    g.Reshape(total, g.Shape("x"))
    g.nodes[-1].output[0] = "y"
    return g.model({"x": ["batch", "tokens", HIDDEN]}, ["y"])


def feeds(model, sizes, seed=0):
    rng = np.random.default_rng(seed)
    out = {}
    for value in model.graph.input:
        assert value.type.tensor_type.elem_type == TensorProto.FLOAT
        dims = [d.dim_value or sizes.get(d.dim_param, 1) for d in value.type.tensor_type.shape.dim]
        out[value.name] = rng.standard_normal(dims).astype(np.float32)
    return out
