"""Attention of [batch, positions, size]: projections, heads, scale, mask, softmax, all by choices."""
import math

import numpy as np
from onnx import TensorProto

from . import rotations
from .products import linear

HEADS, HEAD = 4, 8
SIZE = HEADS * HEAD
LONGEST = 16


def projections(a, x, memory, groups):
    """Queries, keys and values of [batch, positions, heads * size]."""
    sizes = [SIZE, groups * HEAD, groups * HEAD]
    weights = [a.random(SIZE, n, scale=SIZE ** -0.5) for n in sizes]
    biases = [a.random(n, scale=0.1) if a.pick("has_bias", True, False) else np.zeros(n, np.float32) for n in sizes]
    if x != memory or a.pick("packed", "apart", "packed") == "apart":
        made = []
        for value, w, b, what in zip((x, memory, memory), weights, biases, "qkv"):
            with a.within(what):
                made.append(linear(a, value, w, b if b.any() else None))
        return made
    with a.within("qkv"):
        y = linear(a, x, np.concatenate(weights, 1), np.concatenate(biases))
    way = a.pick("unpack", "split", "slices", "reshape_gather", "reshape_split", "transpose_first", "reshape_slice", "columns")
    if groups == HEADS and way in ("reshape_gather", "reshape_split", "transpose_first", "reshape_slice"):
        y = a.reshape(y, [(x, 0), (x, 1), 3, SIZE], kept=(0, 1))
        if way == "transpose_first":
            y = a.op("Transpose", y, perm=[2, 0, 1, 3])
            return [a.op("Gather", y, a.initializer(np.int64(i)), axis=0) for i in range(3)]
        if way == "reshape_slice":
            return [a.axes("Squeeze", a.op("Slice", y, *(a.initializer(np.int64([v])) for v in (i, i + 1, 2))), [2]) for i in range(3)]
        if way == "reshape_gather":
            return [a.op("Gather", y, a.initializer(np.int64(i)), axis=2) for i in range(3)]
        parts = a.op("Split", y, a.initializer(np.int64([1, 1, 1])), axis=2, outputs=3) if a.opset >= 13 else a.op("Split", y, axis=2, outputs=3, split=[1, 1, 1])
        return [a.axes("Squeeze", p, [2]) for p in parts]
    if way == "columns":
        ends = np.cumsum([0, *sizes])
        return [a.op("Gather", y, a.initializer(np.arange(ends[i], ends[i + 1])), axis=2) for i in range(3)]
    if way == "slices":
        ends = np.cumsum([0, *sizes])
        return [a.op("Slice", y, *(a.initializer(np.int64([v])) for v in (ends[i], ends[i + 1], -1))) for i in range(3)]
    if a.opset >= 13:
        return a.op("Split", y, a.initializer(np.int64(sizes)), axis=-1, outputs=3)
    return a.op("Split", y, axis=2, outputs=3, split=sizes)


def heads_apart(a, y, source, heads):
    """[batch, heads, positions, size]"""
    way = a.pick("heads", "reshape", "split_stack", "five_dims", "two_transposes", "unknown_heads", "positions_first", "slices_joined", "einsum")
    rest = [(source, 0), (source, 1)]
    if way == "split_stack":
        parts = a.op("Split", y, a.initializer(np.int64([HEAD] * heads)), axis=2, outputs=heads) if a.opset >= 13 else a.op("Split", y, axis=2, outputs=heads, split=[HEAD] * heads)
        parts = parts if heads > 1 else [parts]
        return a.op("Concat", *(a.axes("Unsqueeze", p, [1]) for p in parts), axis=1)
    if way == "slices_joined":
        cut = lambda i: a.op("Slice", y, *(a.initializer(np.int64([v])) for v in (i * HEAD, (i + 1) * HEAD, 2)))
        return a.op("Concat", *(a.axes("Unsqueeze", cut(i), [1]) for i in range(heads)), axis=1)
    if way == "five_dims":
        apart = a.op("Transpose", a.reshape(y, [*rest, 1, heads, HEAD], kept=(0, 1)), perm=[2, 0, 3, 1, 4])
        return a.axes("Squeeze", apart, [0])
    if way == "positions_first":
        turned = a.op("Transpose", y, perm=[1, 0, 2])
        apart = a.reshape(turned, [(source, 1), (source, 0), heads, HEAD], kept=(0, 1))
        return a.op("Transpose", apart, perm=[1, 2, 0, 3])
    apart = a.reshape(y, [*rest, heads, HEAD], kept=(0, 1))
    if way == "two_transposes":
        return a.op("Transpose", a.op("Transpose", apart, perm=[2, 0, 1, 3]), perm=[1, 0, 2, 3])
    if way == "unknown_heads":
        apart = a.op("Reshape", y, a.initializer(np.int64([0, 0, -1, HEAD])))
    if way == "einsum" and a.opset >= 12:
        return a.op("Einsum", apart, equation="bshd->bhsd")
    return a.op("Transpose", apart, perm=[0, 2, 1, 3])


def repeated(a, t, source, groups):
    """[batch, groups, positions, size] with each head as often as heads of queries share it."""
    if groups == HEADS:
        return t
    times = HEADS // groups
    way = a.pick("repeat", "expand", "tile", "concat", "gather", "concat_heads", "expand_ones", "leave")
    whole = [(source, 0), HEADS, (source, 1), HEAD]
    if way == "gather":
        return a.op("Gather", t, a.initializer(np.repeat(np.arange(groups), times)), axis=1)
    if way == "concat_heads" or way == "leave" and groups > 1:
        pieces = [a.op("Slice", t, *(a.initializer(np.int64([v])) for v in (i, i + 1, 1))) for i in range(groups)]
        return a.op("Concat", *(p for p in pieces for _ in range(times)), axis=1)
    if way == "leave":
        return t
    apart = a.axes("Unsqueeze", t, [2])
    if way == "tile":
        apart = a.op("Tile", apart, a.initializer(np.int64([1, 1, times, 1, 1])))
    elif way == "concat":
        apart = a.op("Concat", *[apart] * times, axis=2)
    elif way == "expand_ones":
        apart = a.op("Expand", apart, a.initializer(np.int64([1, 1, times, 1, 1])))
    else:
        shape = a.op("Concat", a.dim(source, 0), a.initializer(np.int64([groups, times])), a.dim(source, 1), a.initializer(np.int64([HEAD])), axis=0)
        apart = a.op("Expand", apart, shape)
    return a.reshape(apart, whole)


def scale_of(a, q):
    """1 / sqrt(size) as a value."""
    way = a.pick("scale_value", "constant", "of_shape", "of_shape_pow", "sqrt", "wide")
    if way in ("of_shape", "of_shape_pow"):
        size = a.op("Cast", a.op("Gather", a.op("Shape", q), a.initializer(np.int64(-1 if a.opset >= 11 else 3)), axis=0), to=TensorProto.FLOAT)
        return a.op("Reciprocal", a.op("Sqrt", size)) if way == "of_shape" else a.op("Pow", size, a.const(-0.5))
    if way == "sqrt":
        return a.op("Div", a.const(1.0), a.op("Sqrt", a.const(float(HEAD))))
    if way == "wide":
        return a.const(np.full((1, 1, 1, 1), HEAD ** -0.5))
    return a.const(HEAD ** -0.5)


def masked(a, s, x, memory, after):
    """Scores with a mask; `after` undoes a scale that comes later."""
    way = a.pick("mask", "none", "tokens", "tokens_where", "causal_where", "causal_buffer", "causal_positions", "float", "boolean", "causal_trilu", "tokens_sub", "tokens_equal",
                 "both", "causal_float", "tokens_expanded", "boolean_not", "causal_cumsum", "tokens_greater", "multiplied",
                 "ints", "ints_complement", "truth_complement", "truth_added", "truths_blended", "least", "causal_in_float", "causal_blended", "alibi", "alibi_both_ways",
                 "relative")
    if way == "none":
        return s, False
    low = a.pick("low", -10000.0, -1e9, float(np.finfo(np.float32).min), float("-inf"))
    finite = low if np.isfinite(low) else -1e9
    keys = 5 if memory == x else 7
    batch_key = ["batch", "seq" if memory == x else "keys"]
    tokens = lambda: a.input("tokens", np.array([[1] * keys, [1] * (keys - 2) + [0] * 2], np.int64), batch_key)
    wide = lambda v: a.axes("Unsqueeze", v, [1, 2])
    one = lambda: a.const(1.0)
    if way in ("tokens", "tokens_sub", "both"):
        hidden = a.op("Sub", one(), a.op("Cast", wide(tokens()), to=TensorProto.FLOAT))
        mask = a.mul(hidden, a.const(max(finite, -1e9)))
        if way == "tokens_sub":
            return a.op("Sub", s, a.op("Neg", mask)), True
        if way == "both" and x == memory:
            causal = a.op("Where", lower(a, x), a.const(0.0), a.const(finite if finite > -1e30 else -1e9))
            return a.add(s, a.add(mask, causal)), True
        return a.add(s, mask), True
    if way in ("tokens_where", "tokens_expanded"):
        shown = a.op("Cast", wide(tokens()), to=TensorProto.BOOL)
        if way == "tokens_expanded":
            shape = a.op("Concat", a.dim(x, 0), a.initializer(np.int64([1])), a.dim(x, 1), a.dim(memory, 1), axis=0)
            shown = a.op("Expand", shown, shape)
        return a.op("Where", shown, s, a.const(low)), True
    if way == "tokens_equal":
        return a.op("Where", a.op("Equal", wide(tokens()), a.initializer(np.int64(0))), a.const(low), s), True
    if way == "tokens_greater":
        return a.op("Where", a.op("Not", a.op("Greater", a.op("Cast", wide(tokens()), to=TensorProto.FLOAT), a.const(0.5))), a.const(low), s), True
    if way == "multiplied":  # s m - 1e4 (1 - m)
        m = a.op("Cast", wide(tokens()), to=TensorProto.FLOAT)
        return a.op("Sub", a.op("Mul", s, m), a.op("Mul", a.op("Sub", one(), m), a.const(1e4))), True
    if way == "truths_blended":  # s m + low (not m), as TensorFlow's exporter writes a choice
        shown = a.op("Cast", wide(tokens()), to=TensorProto.BOOL)
        number = lambda c: a.op("Cast", c, to=TensorProto.FLOAT)
        return a.add(a.mul(number(shown), s), a.mul(a.const(max(finite, -1e9)), number(a.op("Not", shown)))), True
    if way == "float":
        return a.add(s, a.input("bias", a.random(2, 1, 5, keys), ["batch", 1, "seq", batch_key[1]])), True
    if way in ("boolean", "boolean_not"):
        shown = np.ones((2, 1, 5, keys), bool)
        shown[1, 0, 2:, 3:] = False
        value = a.input("shown", shown, ["batch", 1, "seq", batch_key[1]])
        if way == "boolean_not":
            return a.op("Where", a.op("Not", value), a.const(low), s), True
        return a.op("Where", value, s, a.const(low)), True
    if way in ("ints", "ints_complement", "truth_complement", "truth_added"):
        shown = np.ones((2, 1, 5, keys), bool)
        shown[0, 0, :3, 2:] = False
        value = a.input("shown", shown.astype(np.int64) if way.startswith("ints") else shown, ["batch", 1, "seq", batch_key[1]])
        if way == "ints":
            return a.op("Where", a.op("Cast", value, to=TensorProto.BOOL), s, a.const(low)), True
        if way == "truth_added":
            return a.add(s, a.op("Where", value, a.const(0.0), a.const(finite))), True
        return a.add(s, a.mul(a.op("Sub", one(), a.op("Cast", value, to=TensorProto.FLOAT)), a.const(finite if finite > -1e30 else -1e9))), True
    if x != memory:
        return s, False
    if way in ("alibi", "alibi_both_ways", "relative"):
        n = a.dim(x, 1)
        steps = a.op("Range", a.initializer(np.int64(0)), a.axes("Squeeze", n, [0]), a.initializer(np.int64(1)))
        apart = a.op("Sub", a.axes("Unsqueeze", steps, [0]), a.axes("Unsqueeze", steps, [1]))
        if way == "relative":
            table = a.const(a.random(2 * LONGEST, HEADS))
            rows = a.op("Gather", table, a.op("Add", apart, a.initializer(np.int64(LONGEST))), axis=0)
            return a.add(s, a.axes("Unsqueeze", a.op("Transpose", rows, perm=[2, 0, 1]), [0])), True
        distance = a.op("Cast", apart, to=TensorProto.FLOAT)
        distance = a.op("Neg", a.op("Abs", distance)) if way == "alibi_both_ways" else distance
        return a.add(s, a.mul(distance, a.const((0.5 ** np.arange(1, HEADS + 1)).reshape(1, HEADS, 1, 1)))), True
    if way == "causal_float":
        zeros_low = np.triu(np.full((LONGEST, LONGEST), low if low > -1e30 else -1e9), 1)
        cut = a.op("Slice", a.const(zeros_low), a.initializer(np.int64([0, 0])), a.op("Concat", a.dim(x, 1), a.dim(x, 1), axis=0), a.initializer(np.int64([0, 1])))
        return a.add(s, cut), True
    if way == "least" and a.opset >= 12:  # the lesser of a mask of tokens and of the future, Keras' way to join them
        least = a.op("Min", wide(tokens()), a.op("Cast", lower(a, x), to=TensorProto.INT64))
        return a.op("Where", a.op("Greater", a.op("Cast", least, to=TensorProto.FLOAT), a.const(0.0)), s, a.const(low)), True
    if way == "causal_blended":  # s m + (1e-9 - 1e4 (1 - m)), TensorFlow's GPT-2
        m = a.reshape(a.op("Cast", lower(a, x), to=TensorProto.FLOAT), [1, 1, (x, 1), (x, 1)])
        return a.add(a.mul(s, m), a.op("Sub", a.const(1e-9), a.mul(a.const(1e4), a.op("Sub", one(), m)))), True
    with a.within(way):
        return a.op("Where", lower(a, x, way), s, a.const(low)), True


def lower(a, x, way="causal_where"):
    """True where a key is not after the query."""
    n = a.dim(x, 1)
    if way == "causal_buffer":
        buffer = a.initializer(np.tril(np.ones((1, 1, LONGEST, LONGEST), bool)))
        rows = a.op("Slice", buffer, a.initializer(np.int64([0])), n, a.initializer(np.int64([2])))
        return a.op("Slice", rows, a.initializer(np.int64([0])), a.dim(x, 1), a.initializer(np.int64([3])))
    if way == "causal_trilu" and a.opset >= 14:
        ones = a.op("ConstantOfShape", a.op("Concat", n, a.dim(x, 1), axis=0), value=scalar_tensor(1.0))
        return a.op("Cast", a.op("Trilu", ones, upper=0), to=TensorProto.BOOL)
    if way == "causal_cumsum":
        ones = a.op("ConstantOfShape", n, value=scalar_tensor(1, TensorProto.INT64))
        steps = a.op("CumSum", ones, a.initializer(np.int64(0)))
    elif way == "causal_in_float":
        steps = a.op("Range", a.const(0.0), a.op("Cast", a.axes("Squeeze", n, [0]), to=TensorProto.FLOAT), a.const(1.0))
    else:
        steps = a.op("Range", a.initializer(np.int64(0)), a.axes("Squeeze", n, [0]), a.initializer(np.int64(1)))
    column, row = a.axes("Unsqueeze", steps, [1]), a.axes("Unsqueeze", steps, [0])
    unit = a.const(1.0) if way == "causal_in_float" else a.initializer(np.int64(1))
    form = a.pick("compare", "less_or_equal", "greater_or_equal", "not_less", "not_greater", "difference", "less_than_next")
    if form == "greater_or_equal" and a.opset >= 12:
        return a.op("GreaterOrEqual", column, row)
    if form == "not_less":
        return a.op("Not", a.op("Less", column, row))
    if form == "not_greater":
        return a.op("Not", a.op("Greater", row, column))
    if form == "difference":
        return a.op("Less", a.op("Sub", row, column), unit)
    if form == "less_than_next" or a.opset < 12:
        return a.op("Less", row, a.op("Add", column, unit))
    return a.op("LessOrEqual", row, column)


def scalar_tensor(value, kind=TensorProto.FLOAT):
    from onnx import helper
    return helper.make_tensor("value", kind, [1], [value])


def softmax(a, s):
    way = a.pick("softmax", "operator", "max_exp", "exp", "log", "transposed", "flat", "double", "shifted", "reciprocal", "log_sum", "positive_axis", "max_detached")
    last = 3
    if way in ("max_exp", "reciprocal", "max_detached"):
        top = a.axes("ReduceMax", s, [-1], keepdims=1 if way != "max_detached" else 0)
        e = a.op("Exp", a.op("Sub", s, top if way != "max_detached" else a.axes("Unsqueeze", top, [3])))
        total = a.axes("ReduceSum", e, [-1], keepdims=1)
        return a.op("Div", e, total) if way != "reciprocal" else a.op("Mul", e, a.op("Reciprocal", total))
    if way == "exp":
        e = a.op("Exp", s)
        return a.op("Div", e, a.axes("ReduceSum", e, [3], keepdims=1))
    if way == "log":
        return a.op("Exp", a.op("LogSoftmax", s, axis=last))
    if way == "log_sum":
        return a.op("Exp", a.op("Sub", s, a.op("Log", a.axes("ReduceSum", a.op("Exp", s), [3], keepdims=1))))
    if way == "transposed" and a.opset >= 13:
        return a.op("Transpose", a.op("Softmax", a.op("Transpose", s, perm=[0, 3, 1, 2]), axis=1), perm=[0, 2, 3, 1])
    if way == "flat":
        flat = a.op("Reshape", s, a.op("Concat", a.initializer(np.int64([-1])), a.dim(s, 3), axis=0))
        return a.op("Reshape", a.op("Softmax", flat, axis=1), a.op("Shape", s))
    if way == "double":
        return a.op("Cast", a.op("Softmax", a.op("Cast", s, to=TensorProto.DOUBLE), axis=last), to=TensorProto.FLOAT)
    if way == "shifted":
        return a.op("Softmax", a.op("Sub", s, a.const(2.0)), axis=last)
    return a.op("Softmax", s, axis=last if way == "positive_axis" else -1)


def scores(a, q, k, x, memory):
    """Scores of [batch, heads, positions, keys], scaled, with the mask; whether there is one."""
    place = a.pick("scale", "after", "query", "key", "both", "mask_before", "after_div", "weights_of_keys")
    mask_before = place == "mask_before"
    value = scale_of(a, q) if place in ("after", "query", "key", "after_div") or mask_before else None
    if place == "query":
        q = a.mul(q, value)
    elif place == "key":
        k = a.mul(k, value)
    elif place in ("both", "weights_of_keys"):
        root = a.number(HEAD ** -0.25) if place == "both" else a.op("Sqrt", scale_of(a, q))
        q, k = a.mul(q, root), a.mul(k, root)
    way = a.pick("scores", "transpose", "einsum", "three_dims", "transposed_result", "two_transposes", "einsum_other", "by_heads", "batch_of_batches")
    if way in ("einsum", "einsum_other") and a.opset >= 12:
        s = a.op("Einsum", q, k, equation="bhqd,bhkd->bhqk") if way == "einsum" else a.op("Einsum", k, q, equation="nhjd,nhid->nhij")
    elif way == "three_dims":
        flat = [a.reshape(t, [-1, (source, 1), HEAD]) for t, source in ((q, x), (k, memory))]
        s = a.op("MatMul", flat[0], a.op("Transpose", flat[1], perm=[0, 2, 1]))
        s = a.reshape(s, [(x, 0), HEADS, (x, 1), (memory, 1)])
    elif way == "transposed_result":
        s = a.op("Transpose", a.op("MatMul", k, a.op("Transpose", q, perm=[0, 1, 3, 2])), perm=[0, 1, 3, 2])
    elif way == "two_transposes":
        s = a.op("MatMul", q, a.op("Transpose", a.op("Transpose", k, perm=[0, 2, 1, 3]), perm=[0, 2, 3, 1]))
    elif way == "batch_of_batches":
        s = a.axes("Squeeze", a.op("MatMul", a.axes("Unsqueeze", q, [0]), a.op("Transpose", a.axes("Unsqueeze", k, [0]), perm=[0, 1, 2, 4, 3])), [0])
    else:
        s = a.op("MatMul", q, a.op("Transpose", k, perm=[0, 1, 3, 2]))
    if place == "after":
        s = a.mul(s, value)
    elif place == "after_div":
        s = a.op("Div", s, a.op("Reciprocal", value) if a.coin("reciprocal") else a.number(HEAD ** 0.5))
    cap = "none" if mask_before else a.pick("cap", "none", "div_tanh_mul", "products")
    if cap != "none":
        inner = a.op("Div", s, a.const(20.0)) if cap == "div_tanh_mul" else a.times(s, 1 / 20)
        s = a.mul(a.op("Tanh", inner), a.const(20.0))
    s, there = masked(a, s, x, memory, mask_before)
    if mask_before:
        s = a.mul(s, value)
    return s, there


def merged(a, o, x):
    """[batch, positions, heads * size]"""
    way = a.pick("merge", "reshape", "unknown", "concat_heads", "split_heads", "flatten", "two_steps", "einsum")
    if way in ("concat_heads", "split_heads"):
        if way == "concat_heads":
            parts = [a.op("Gather", o, a.initializer(np.int64(i)), axis=1) for i in range(HEADS)]
        else:
            pieces = a.op("Split", o, a.initializer(np.int64([1] * HEADS)), axis=1, outputs=HEADS) if a.opset >= 13 else a.op("Split", o, axis=1, outputs=HEADS, split=[1] * HEADS)
            parts = [a.axes("Squeeze", p, [1]) for p in pieces]
        return a.op("Concat", *parts, axis=2)
    o = a.op("Transpose", o, perm=[0, 2, 1, 3]) if way != "einsum" or a.opset < 12 else a.op("Einsum", o, equation="abcd->acbd")
    if way == "unknown":
        return a.op("Reshape", o, a.initializer(np.int64([0, 0, -1])))
    if way == "flatten":
        return a.reshape(a.op("Flatten", o, axis=2), [(x, 0), (x, 1), SIZE])
    if way == "two_steps":
        return a.reshape(a.reshape(o, [-1, SIZE]), [(x, 0), (x, 1), SIZE])
    return a.reshape(o, [(x, 0), (x, 1), SIZE], kept=(0, 1))


def normed_heads(a, x):
    """Each head over the root of its mean square, of four dims."""
    square = a.op("Mul", x, x) if a.pick("square", "mul", "pow") == "mul" else a.op("Pow", x, a.const(2.0))
    v = a.op("Add", a.axes("ReduceMean", square, [-1], keepdims=1), a.const(1e-5))
    way = a.pick("root", "div", "reciprocal", "pow")
    y = a.op("Mul", x, a.op("Pow", v, a.const(-0.5))) if way == "pow" else a.op("Div", x, a.op("Sqrt", v)) if way == "div" else a.op("Mul", a.op("Reciprocal", a.op("Sqrt", v)), x)
    return a.mul(y, a.const(1 + a.random(HEAD, scale=0.3)))


def attention(a, x, memory):
    """Attention of x over memory, and how many rotations and norms are in it."""
    groups = a.pick("groups", HEADS, 2, 1)
    q, k, v = projections(a, x, memory, groups)
    made = []
    for value, source, heads, what in ((q, x, HEADS, "q"), (k, memory, groups, "k"), (v, memory, groups, "v")):
        with a.within(what):
            made.append(heads_apart(a, value, source, heads))
    q, k, v = made
    normed = a.coin("qk_norm")
    if normed:
        with a.within("q_norm"):
            q = normed_heads(a, q)
        with a.within("k_norm"):
            k = normed_heads(a, k)
    turned = x == memory and a.pick("rotary", "none", "halves", "neighbours")
    if turned and turned != "none":
        cos, sin = rotations.angles(a, x, HEAD, (x, 1))
        with a.within("turn"):
            q = rotations.rotary(a, q, HEAD, cos, sin, turned == "halves")
            k = rotations.rotary(a, k, HEAD, cos, sin, turned == "halves")
    for what, at in (("k", 0), ("v", 1)):
        with a.within(what):
            t = repeated(a, (k, v)[at], memory, groups)
            k, v = (t, v) if at == 0 else (k, t)
    s, _ = scores(a, q, k, x, memory)
    p = softmax(a, s)
    if a.coin("dropout") and a.opset >= 12:
        p = a.op("Dropout", p, a.const(0.1))
    way = a.pick("values", "matmul", "einsum", "three_dims", "transposed")
    if way == "einsum" and a.opset >= 12:
        o = a.op("Einsum", p, v, equation="bhqk,bhkd->bhqd")
    elif way == "three_dims":
        flat = a.op("MatMul", a.reshape(p, [-1, (x, 1), (memory, 1)]), a.reshape(v, [-1, (memory, 1), HEAD])) if groups == HEADS else a.op("MatMul", p, v)
        o = a.reshape(flat, [(x, 0), HEADS, (x, 1), HEAD])
    elif way == "transposed":
        o = a.op("MatMul", a.op("Transpose", v, perm=[0, 1, 3, 2]), a.op("Transpose", p, perm=[0, 1, 3, 2]))
        o = a.op("Transpose", o, perm=[0, 1, 3, 2])
    else:
        o = a.op("MatMul", p, v)
    y = merged(a, o, x)
    with a.within("out"):
        y = linear(a, y, a.random(SIZE, SIZE, scale=SIZE ** -0.5), a.random(SIZE, scale=0.1))
    return y, 2 if turned and turned != "none" else 0, 2 if normed else 0
