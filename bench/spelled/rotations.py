"""Rotary embedding of [batch, heads, positions, size], by halves or by neighbours."""
import numpy as np
from onnx import TensorProto

POSITIONS = 32


def angles(a, x, size, seq):
    """cos and sin of [.., positions, size / 2]; `seq` = (value, axis) of the positions."""
    way = a.pick("angles", "cache", "cache_gather", "computed", "computed_matmul", "computed_einsum", "constant_rows", "cache_whole", "powers")
    table = np.outer(np.arange(POSITIONS), 10000.0 ** (-np.arange(size // 2) / (size // 2)))
    n = a.dim(*seq)
    if way in ("cache", "constant_rows"):
        shape = a.pick("rows", (POSITIONS, size // 2), (1, 1, POSITIONS, size // 2))
        axis = len(shape) - 2
        cut = lambda t: a.op("Slice", a.const(t.reshape(shape)), a.initializer(np.int64([0])), n, a.initializer(np.int64([axis])))
        return cut(np.cos(table)), cut(np.sin(table))
    if way == "cache_whole":
        both = a.const(np.stack([np.cos(table), np.sin(table)]))
        part = lambda i: a.op("Slice", a.op("Gather", both, a.initializer(np.int64(i)), axis=0), a.initializer(np.int64([0])), n, a.initializer(np.int64([0])))
        return part(0), part(1)
    positions = a.op("Range", a.initializer(np.int64(0)), a.axes("Squeeze", n, [0]), a.initializer(np.int64(1)))
    if way == "cache_gather":
        return (a.op("Gather", a.const(t), positions, axis=0) for t in (np.cos(table), np.sin(table)))
    steps = a.op("Cast", positions, to=TensorProto.FLOAT)
    frequencies = 10000.0 ** (-np.arange(size // 2) / (size // 2))
    if way == "computed_einsum" and a.opset >= 12:
        angle = a.op("Einsum", steps, a.const(frequencies), equation="i,j->ij")
    elif way == "computed_matmul":
        angle = a.op("MatMul", a.axes("Unsqueeze", steps, [1]), a.const(frequencies[None]))
    elif way == "powers":
        base = a.op("Pow", a.const(10000.0), a.const(np.arange(size // 2) / (size // 2)))
        angle = a.op("Div", a.axes("Unsqueeze", steps, [1]), base)
    else:
        angle = a.mul(a.axes("Unsqueeze", steps, [1]), a.const(frequencies))
    return a.op("Cos", angle), a.op("Sin", angle)


def halves(a, x, size):
    way = a.pick("halves", "slice", "split", "gather", "reshape")
    h = size // 2
    if way == "split":
        return a.op("Split", x, a.initializer(np.int64([h, h])), axis=-1, outputs=2) if a.opset >= 13 else a.op("Split", x, axis=-1, outputs=2, split=[h, h])
    if way == "gather":
        return [a.op("Gather", x, a.initializer(np.arange(h) + i * h), axis=3) for i in (0, 1)]
    if way == "reshape":
        parts = a.op("Reshape", x, a.initializer(np.int64([0, 0, 0, 2, h])))
        return [a.op("Gather", parts, a.initializer(np.int64(i)), axis=3) for i in (0, 1)]
    ends = (np.int64([0]), np.int64([h])), (np.int64([h]), np.int64([2**63 - 1]))
    return [a.op("Slice", x, a.initializer(s), a.initializer(e), a.initializer(np.int64([3]))) for s, e in ends]


def neighbours(a, x, size):
    way = a.pick("neighbours", "slice", "reshape", "reshape_split", "gather")
    h = size // 2
    if way == "slice":
        return [a.op("Slice", x, a.initializer(np.int64([i])), a.initializer(np.int64([2**63 - 1])), a.initializer(np.int64([3])), a.initializer(np.int64([2]))) for i in (0, 1)]
    if way == "gather":
        return [a.op("Gather", x, a.initializer(np.arange(h) * 2 + i), axis=3) for i in (0, 1)]
    pairs = a.op("Reshape", x, a.initializer(np.int64([0, 0, 0, h, 2])))
    if way == "reshape_split":
        parts = a.op("Split", pairs, a.initializer(np.int64([1, 1])), axis=-1, outputs=2) if a.opset >= 13 else a.op("Split", pairs, axis=-1, outputs=2, split=[1, 1])
        return [a.axes("Squeeze", p, [4]) for p in parts]
    return [a.op("Gather", pairs, a.initializer(np.int64(i)), axis=4) for i in (0, 1)]


def interleaved(a, left, right, size):
    way = a.pick("interleave", "stack", "gather", "concat_reshape")
    pair = [a.axes("Unsqueeze", t, [4]) for t in (left, right)]
    if way == "gather":
        order = np.stack([np.arange(size // 2), np.arange(size // 2) + size // 2], 1).reshape(-1)
        return a.op("Gather", a.op("Concat", left, right, axis=-1), a.initializer(order), axis=3)
    return a.op("Reshape", a.op("Concat", *pair, axis=-1), a.initializer(np.int64([0, 0, 0, size])))


def swapped_matrix(size, by_halves):
    """R with x R = the rotated half of x: (-x2, x1)."""
    r = np.zeros((size, size))
    h = size // 2
    for i in range(h):
        first, second = (i, i + h) if by_halves else (2 * i, 2 * i + 1)
        r[second, first], r[first, second] = -1, 1
    return r


def rotated(a, x, size, by_halves):
    """(-x2, x1)"""
    way = a.pick("rotated", "concat", "matmul", "gather_signs", "roll_signs", "where", "neg_first", "minus_product", "flip", "swap_by_matmul")
    order = np.abs(swapped_matrix(size, by_halves)).argmax(0)
    signs = swapped_matrix(size, by_halves).sum(0)
    if way == "matmul":
        return a.op("MatMul", x, a.const(swapped_matrix(size, by_halves)))
    if way == "swap_by_matmul":
        return a.mul(a.op("MatMul", x, a.const(np.abs(swapped_matrix(size, by_halves)))), a.const(signs))
    if way == "flip":
        apart = (2, size // 2) if by_halves else (size // 2, 2)
        pairs = a.op("Reshape", x, a.initializer(np.int64([0, 0, 0, *apart])))
        turned = a.op("Slice", pairs, *(a.initializer(np.int64([v])) for v in (-1, -2**63 + 1, 3 if by_halves else 4, -1)))
        minus = np.float32([-1, 1]).reshape((2, 1) if by_halves else (2,))
        return a.op("Reshape", a.mul(turned, a.const(minus)), a.initializer(np.int64([0, 0, 0, size])))
    if way in ("gather_signs", "roll_signs"):
        return a.mul(a.op("Gather", x, a.initializer(order), axis=-1), a.const(signs))
    if way == "where":
        turned = a.op("Gather", x, a.initializer(order), axis=-1)
        return a.op("Where", a.initializer(signs > 0), turned, a.op("Neg", turned))
    left, right = (halves if by_halves else neighbours)(a, x, size)
    if way == "minus_product":
        minus = a.times(right, -1.0)
    else:
        minus = a.op("Neg", right)
    return a.op("Concat", minus, left, axis=-1) if by_halves else interleaved(a, minus, left, size)


def complex_pairs(a, x, size, cos, sin):
    """Real and imaginary parts stay apart on the last axis, of size 1."""
    pairs = a.op("Reshape", x, a.initializer(np.int64([0, 0, 0, size // 2, 2])))
    re, im = (a.op("Slice", pairs, *(a.initializer(np.int64([v])) for v in (i, i + 1, 4))) for i in (0, 1))
    c, s = (a.axes("Unsqueeze", t, [-1]) for t in (cos, sin))
    both = a.op("Concat", a.op("Sub", a.mul(re, c), a.mul(im, s)), a.add(a.mul(re, s), a.mul(im, c)), axis=-1)
    return a.op("Reshape", both, a.initializer(np.int64([0, 0, 0, size])))


def by_matrices(a, x, size, cos, sin):
    """A matrix of two by two for each pair."""
    way = a.pick("matrices", "columns", "matmul", "matmul_row", "einsum")
    c, s, minus = (a.axes("Unsqueeze", t, [-1]) for t in (cos, sin, a.op("Neg", sin)))
    stack = a.pick("stack", "four", "rows", "columns")
    if stack == "four":
        matrix = a.op("Reshape", a.op("Concat", c, minus, s, c, axis=-1), a.op("Concat", a.op("Shape", cos), a.initializer(np.int64([2, 2])), axis=0))
    else:
        first, second = ((c, minus), (s, c)) if stack == "rows" else ((c, s), (minus, c))
        axis = -2 if stack == "rows" else -1
        matrix = a.op("Concat", *(a.axes("Unsqueeze", a.op("Concat", *p, axis=-1), [axis]) for p in (first, second)), axis=axis)
    if way == "columns":
        pairs = a.op("Reshape", x, a.initializer(np.int64([0, 0, 0, size // 2, 1, 2])))
        part = lambda t, i: a.op("Gather", t, a.initializer(np.int64(i)), axis=-1)
        y = a.add(a.mul(part(matrix, 0), part(pairs, 0)), a.mul(part(matrix, 1), part(pairs, 1)))
    elif way == "einsum" and a.opset >= 12:
        pairs = a.op("Reshape", x, a.initializer(np.int64([0, 0, 0, size // 2, 2])))
        flat = a.op("Reshape", matrix, a.initializer(np.int64([-1, size // 2, 2, 2])))
        y = a.op("Einsum", flat, pairs, equation="tdij,bhtdj->bhtdi")
    elif way == "matmul_row":
        pairs = a.op("Reshape", x, a.initializer(np.int64([0, 0, 0, size // 2, 1, 2])))
        flat = a.op("Reshape", matrix, a.initializer(np.int64([-1, size // 2, 2, 2])))
        y = a.axes("Squeeze", a.op("MatMul", pairs, a.op("Transpose", flat, perm=[0, 1, 3, 2])), [-2])
    else:
        pairs = a.op("Reshape", x, a.initializer(np.int64([0, 0, 0, size // 2, 2, 1])))
        y = a.axes("Squeeze", a.op("MatMul", matrix, pairs), [-1])
    return a.op("Reshape", y, a.initializer(np.int64([0, 0, 0, size])))


def rotary(a, x, size, cos, sin, by_halves):
    way = a.pick("rotation", "rotated", "parts", "complex", "matrices")
    if not by_halves and way in ("complex", "matrices"):
        return {"complex": complex_pairs, "matrices": by_matrices}[way](a, x, size, cos, sin)
    if way == "parts":
        left, right = (halves if by_halves else neighbours)(a, x, size)
        first = a.op("Sub", a.mul(left, cos), a.mul(right, sin))
        second = a.add(a.mul(left, sin), a.mul(right, cos))
        return a.op("Concat", first, second, axis=-1) if by_halves else interleaved(a, first, second, size)
    if by_halves:
        wide = [a.op("Concat", t, t, axis=-1) for t in (cos, sin)]
    else:
        wide = []
        for t in (cos, sin):
            order = np.repeat(np.arange(size // 2), 2)
            wide.append(a.op("Gather", t, a.initializer(order), axis=-1))
    return a.add(a.mul(x, wide[0]), a.mul(rotated(a, x, size, by_halves), wide[1]))
