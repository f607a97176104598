"""The gated delta rule as exporters unroll it, as graphs: token by token and chunk by chunk, each in several spellings."""
import numpy as np
import onnx
from onnx import TensorProto, helper

B, D = "batch", 6


class Graph:
    """Nodes by calls: g.Mul("a", "b") gives the name of the result."""

    def __init__(self):
        self.nodes, self.constants = [], {}

    def __getattr__(self, op):
        def add(*inputs, outputs=1, **attributes):
            names = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
            self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
            return names[0] if outputs == 1 else names

        return add

    def ints(self, *values, scalar=False):
        return self.constant(np.array(values[0] if scalar else values, np.int64))

    def constant(self, array):
        array = np.asarray(array)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def swapped(self, x, rank):
        return self.Transpose(x, perm=[0, 2, 1, 3][:rank])

    def model(self, inputs, outputs):
        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        weights = [onnx.numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        return helper.make_model(helper.make_graph(self.nodes, "g", values, made, weights), opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def inputs_of(tokens, heads, key, value, batch, state):
    wide = {"q": key, "k": key, "v": value}
    out = {n: [batch, tokens, heads, s] for n, s in wide.items()} | {n: [batch, tokens, heads] for n in "gb"}
    return out | ({"s": [batch, heads, key, value]} if state else {})


def numbers(shapes, sizes=None, seed=0):
    """Of such inputs: keys below length 1, decays below 0."""
    rng = np.random.default_rng(seed)
    out = {}
    for n, shape in shapes.items():
        dims = [(sizes or {}).get(d, d) for d in shape]
        x = rng.uniform(-1, 1, dims)
        out[n] = (-np.abs(x) if n == "g" else np.abs(x) if n == "b" else x / np.sqrt(dims[-1]) if n == "k" else x).astype(np.float32)
    return out


def reference(f, delta=True):
    """Token by token, in double."""
    x = {n: a.astype(np.float64) for n, a in f.items()}
    batch, tokens, heads, key = x["k"].shape
    state = x.get("s", np.zeros((batch, heads, key, x["v"].shape[-1])))
    out = np.zeros(x["v"].shape)
    for t in range(tokens):
        state = state * np.exp(x["g"][:, t])[..., None, None]
        k, v = x["k"][:, t], x["v"][:, t]
        change = (v - np.einsum("bhkv,bhk->bhv", state, k)) * x["b"][:, t][..., None] if delta else v
        state = state + k[..., None] * change[..., None, :]
        out[:, t] = np.einsum("bhkv,bhk->bhv", state, x["q"][:, t])
    return out, state


def by_token(tokens, heads=3, key=5, value=7, batch=B, state=True, einsum=False, stacked=False, delta=True, wrong=None):
    """One step after another. `einsum`: products as Einsum, else Mul and ReduceSum. `stacked`: results joined, else scattered into zeros."""
    g = Graph()
    shapes = inputs_of(tokens, heads, key, value, batch, state)
    q, k, v = (g.swapped(x, 4) for x in "qkv")
    decay, beta = (g.swapped(x, 3) for x in "gb")
    s = "s" if state else g.Expand(g.constant(np.float32(0)), g.Concat(g.Shape("q", start=0, end=1), g.ints(heads, key, value), axis=0))
    whole = None if stacked else g.Expand(g.constant(np.float32(0)), g.Shape(v))
    results = []
    for t in range(tokens):
        at = g.ints(t, scalar=True)
        qt, kt, vt, bt = (g.Gather(x, at, axis=2) for x in (q, k, v, beta))
        if not (wrong == "no decay" and t == tokens - 1):
            s = g.Mul(s, g.Unsqueeze(g.Exp(g.Gather(decay, at, axis=2)), g.ints(2, 3)))
        column = g.Unsqueeze(kt, g.ints(3))
        if delta:
            seen = g.Einsum(s, kt, equation="bhkv,bhk->bhv") if einsum else g.ReduceSum(g.Mul(s, column), g.ints(2), keepdims=0)
            change = (g.Add if wrong == "sign" else g.Sub)(vt, seen)
            change = g.Mul(g.Unsqueeze(bt, g.ints(2)), change)
        else:
            change = vt
        s = g.Add(g.Einsum(kt, change, equation="bhk,bhv->bhkv") if einsum else g.Mul(column, g.Unsqueeze(change, g.ints(2))), s)
        y = g.Einsum(s, qt, equation="bhkv,bhk->bhv") if einsum else g.ReduceSum(g.Mul(s, g.Unsqueeze(qt, g.ints(3))), g.ints(2), keepdims=0)
        y = g.Unsqueeze(y, g.ints(2))
        if stacked:
            results.append(y)
        else:
            whole = g.ScatterElements(whole, g.Expand(at, g.Shape(y)), y, axis=2)
    out = g.Concat(*results, axis=2) if stacked else whole
    shapes = shapes if delta else {n: s for n, s in shapes.items() if n != "b"}
    if not delta:
        g.nodes = [n for n in g.nodes if "b" not in n.input and beta not in n.input]
    g.nodes.append(helper.make_node("Transpose", [out], ["y"], perm=[0, 2, 1, 3]))
    g.nodes.append(helper.make_node("Identity", [s], ["state"]))
    return g.model(shapes, ["y", "state"] if state else ["y"]), shapes


def inverse_by_rows(g, lower, chunk, concat):
    """(I - lower)^-1 - I of strictly lower triangles [.., chunk, chunk]: forward substitution, row by row."""
    rows = g.Gather(lower, g.ints(0), axis=3)
    for i in range(1, chunk):
        if concat:
            row = g.Slice(lower, g.ints(i), g.ints(i + 1), g.ints(3))  # [.., 1, chunk]
            left = g.Slice(row, g.ints(0), g.ints(i), g.ints(4))
            rows = g.Concat(rows, g.Add(row, g.MatMul(left, rows)), axis=3)
        else:
            row = g.Slice(g.Gather(lower, g.ints(i, scalar=True), axis=3), g.ints(0), g.ints(i), g.ints(3))
            above = g.Slice(lower, g.ints(0, 0), g.ints(i, i), g.ints(3, 4))
            more = g.ReduceSum(g.Mul(g.Unsqueeze(row, g.ints(4)), above), g.ints(3), keepdims=0)
            new = g.Transpose(g.Add(row, more), perm=[3, 0, 1, 2])
            lines = g.Transpose(g.Gather(lower, g.ints(i, scalar=True), axis=3), perm=[3, 0, 1, 2])
            put = g.Transpose(g.ScatterND(lines, g.constant(np.arange(i, dtype=np.int64)[:, None]), new), perm=[1, 2, 3, 0])
            place = g.Expand(g.ints(i), g.Shape(g.Unsqueeze(put, g.ints(3))))
            lower = g.ScatterElements(lower, place, g.Unsqueeze(put, g.ints(3)), axis=3)
    return rows if concat else lower


def by_chunk(tokens, chunk=4, heads=3, key=5, value=7, batch=B, state=True, concat=False, sums_by_product=False, split_decay=False, heads_first=False, wrong=None):
    """Chunk by chunk, as transformers does. `concat`: rows are joined, else scattered. `sums_by_product`: MatMul with a triangle for CumSum.
    `split_decay`: exp(a) * exp(-b) for exp(a - b). `heads_first`: what comes in is [batch, heads, tokens, ..]."""
    g = Graph()
    shapes = inputs_of(tokens, heads, key, value, batch, state)
    if heads_first:
        shapes = {n: [s[0], s[2], s[1], *s[3:]] if n != "s" else s for n, s in shapes.items()}
    q, k, v = (x if heads_first else g.swapped(x, 4) for x in "qkv")
    decay, beta = (x if heads_first else g.swapped(x, 3) for x in "gb")
    number, more = -(-tokens // chunk), -tokens % chunk
    if more:
        q, k, v = (g.Pad(x, g.ints(0, 0, 0, 0, 0, 0, more, 0)) for x in (q, k, v))
        decay, beta = (g.Pad(x, g.ints(0, 0, 0, 0, 0, more)) for x in (decay, beta))
    q = g.Mul(q, g.constant(np.float32(0.5)))
    column = g.Unsqueeze(beta, g.ints(3))
    vb, kb = g.Mul(v, column), g.Mul(column, k)
    q, k, kb = (g.Reshape(x, g.ints(0, heads, number, chunk, key)) for x in (q, k, kb))
    vb = g.Reshape(vb, g.ints(0, heads, number, chunk, value))
    decay = g.Reshape(decay, g.ints(0, heads, number, chunk))
    upper = np.triu(np.ones((chunk, chunk), np.float32))
    total = g.MatMul(decay, g.constant(upper)) if sums_by_product else g.CumSum(decay, g.ints(3, scalar=True))
    ends = g.Exp(total)
    if split_decay:
        pairs = g.Mul(g.Unsqueeze(ends, g.ints(4)), g.Unsqueeze(g.Exp(g.Neg(total)), g.ints(3)))
        pairs = g.Mul(pairs, g.constant(upper.T.copy()))
    else:
        apart = g.Sub(g.Unsqueeze(total, g.ints(4)), g.Unsqueeze(total, g.ints(3)))
        pairs = g.Exp(g.Where(g.constant(np.triu(upper, 1) > 0), g.constant(np.float32(-np.inf)), apart))
    kt = g.Transpose(k, perm=[0, 1, 2, 4, 3])
    lower = g.Neg(g.Trilu(g.Mul(g.MatMul(kb, kt), pairs), g.ints(0 if wrong == "diagonal" else -1, scalar=True), upper=0))
    lower = inverse_by_rows(g, lower, chunk, concat)
    solve = g.Add(lower, g.constant(np.eye(chunk, dtype=np.float32)))
    scores = g.Mul(g.MatMul(q, kt), pairs)
    new, read = g.MatMul(solve, vb), g.MatMul(solve, g.Mul(kb, g.Unsqueeze(ends, g.ints(4))))
    last = g.Slice(total, g.ints(chunk - 1), g.ints(chunk), g.ints(3))
    q = g.Mul(q, g.Unsqueeze(ends, g.ints(4)))
    k = g.Mul(k, g.Unsqueeze(g.Exp(g.Sub(last, total)), g.ints(4)))
    whole = g.Unsqueeze(g.Exp(last), g.ints(4))
    s = "s" if state else g.Expand(g.constant(np.float32(0)), g.Concat(g.Shape("q", start=0, end=1), g.ints(heads, key, value), axis=0))
    results = []
    for i in range(number):
        at = g.ints(i, scalar=True)
        qi, ki, scoresi, newi, readi, wholei = (g.Gather(x, at, axis=2) for x in (q, k, scores, new, read, whole))
        newi = g.Sub(newi, g.MatMul(readi, s))
        results.append(g.Unsqueeze(g.Add(g.MatMul(qi, s), g.MatMul(scoresi, newi)), g.ints(2)))
        s = g.Add(g.Mul(s, wholei), g.MatMul(g.Transpose(ki, perm=[0, 1, 3, 2]), newi))
    y = g.Reshape(g.Concat(*results, axis=2) if number > 1 else results[0], g.ints(0, heads, number * chunk, value))
    if more:
        y = g.Slice(y, g.ints(0), g.ints(tokens), g.ints(2))
    g.nodes.append(helper.make_node("Transpose", [y], ["y"], perm=[0, 2, 1, 3]))
    g.nodes.append(helper.make_node("Identity", [s], ["state"]))
    return g.model(shapes, ["y", "state"] if state else ["y"]), shapes


def by_sums(tokens, chunk=4, heads=3, key=5, value=7, batch=B, state=True, after=(), shared=False, wrong=None):
    """The gated rule without the delta, chunk by chunk, as state space models spell it: sums of decays, a triangle of their differences.
    `after`: what follows the result, "skip" (a weighted value is added) and "gate". `shared`: one query and key for all heads."""
    g = Graph()
    shapes = {n: s for n, s in inputs_of(tokens, heads, key, value, batch, state).items() if n != "b"}
    if shared:
        shapes["q"] = shapes["k"] = [batch, tokens, 1, key]
    if "gate" in after:
        shapes["z"] = [batch, tokens, heads * value]
    wide = lambda x: g.swapped(g.Expand(x, g.ints(1, 1, heads, 1)) if shared else x, 4)
    q, k, v, decay = wide("q"), wide("k"), g.swapped("v", 4), g.swapped("g", 3)
    number, more = -(-tokens // chunk), -tokens % chunk
    if more:
        q, k, v = (g.Pad(x, g.ints(0, 0, 0, 0, 0, 0, more, 0)) for x in (q, k, v))
        decay = g.Pad(decay, g.ints(0, 0, 0, 0, 0, more))
    q, k, v = (g.Reshape(x, g.ints(0, heads, number, chunk, size)) for x, size in ((q, key), (k, key), (v, value)))
    total = g.CumSum(g.Reshape(decay, g.ints(0, heads, number, chunk)), g.ints(-1, scalar=True))
    apart = g.Sub(g.Unsqueeze(total, g.ints(4)), g.Unsqueeze(total, g.ints(3)))
    upper = np.triu(np.ones((chunk, chunk), np.float32), 0 if wrong == "diagonal" else 1)
    pairs = g.Exp(g.Where(g.constant(upper > 0), g.constant(np.float32(-np.inf)), apart))
    kt = g.Transpose(k, perm=[0, 1, 2, 4, 3])
    inner = g.MatMul(g.Mul(g.MatMul(q, kt), pairs), v)
    last = g.Slice(total, g.ints(chunk - 1), g.ints(chunk), g.ints(3))
    sums = g.MatMul(g.Mul(kt, g.Unsqueeze(g.Exp(g.Sub(last, total)), g.ints(3))), v)  # [.., key, value]
    whole = g.Unsqueeze(g.Exp(last), g.ints(4))
    s = "s" if state else g.Expand(g.constant(np.float32(0)), g.Concat(g.Shape("v", start=0, end=1), g.ints(heads, key, value), axis=0))
    befores = []
    for i in range(number):
        at = g.ints(i, scalar=True)
        befores.append(g.Unsqueeze(s, g.ints(2)))
        s = g.Add(g.Mul(s, g.Gather(whole, at, axis=2)), g.Gather(sums, at, axis=2))
    before = g.Concat(*befores, axis=2) if number > 1 else befores[0]
    y = g.Add(inner, g.MatMul(g.Mul(q, g.Unsqueeze(g.Exp(total), g.ints(4))), before))
    y = g.swapped(g.Reshape(y, g.ints(0, heads, number * chunk, value)), 4)
    if more:
        y = g.Slice(y, g.ints(0), g.ints(tokens), g.ints(1))
    if "skip" in after:
        y = g.Add(y, g.Mul("v", g.constant(np.linspace(0.5, 1.5, heads, dtype=np.float32)[:, None])))
    if "gate" in after:
        y = g.Mul(g.Reshape(y, g.ints(0, tokens, heads * value)), g.Mul("z", g.Sigmoid("z")))
    g.nodes.append(helper.make_node("Identity", [y], ["y"]))
    g.nodes.append(helper.make_node("Identity", [s], ["state"]))
    return g.model(shapes, ["y", "state"] if state else ["y"]), shapes
