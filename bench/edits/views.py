"""Transposes, reshapes, slices, splits and joins, written otherwise."""
import numpy as np
from onnx import helper

from .editor import Chain, attribute, edit, wrap

UNARY = ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Sqrt", "Reciprocal", "Sin", "Cos", "Cast", "Abs", "Gelu")
BINARY = ("Add", "Sub", "Mul", "Div", "Pow")


def permutation(ed, rank):
    perm = list(range(rank))
    ed.rnd.shuffle(perm)
    return perm


def inverse(perm):
    return [perm.index(i) for i in range(len(perm))]


def perm_of(ed, node):
    rank = ed.rank(node.input[0])
    return attribute(node, "perm", list(range(rank))[::-1] if rank is not None else None)


@edit("two_transposes", "Transpose")
def two_transposes(ed, node):
    perm = perm_of(ed, node)
    if perm is None or len(perm) < 2:
        return None
    first, c = permutation(ed, len(perm)), Chain(ed)
    c("Transpose", c("Transpose", node.input[0], perm=first), perm=[first.index(p) for p in perm], out=node.output[0])
    return c.nodes


@edit("transposed_around", *UNARY, *BINARY)
def transposed_around(ed, node):
    """f(x) = T^-1 f(T x), for elementwise f; other operands of full rank go through T too, numbers stay."""
    rank = ed.rank(node.output[0])
    if rank is None or rank < 2 or not ed.floating(node.output[0]):
        return None
    perm, c, inputs = permutation(ed, rank), Chain(ed), []
    for x in node.input:
        if ed.rank(x) == rank:
            inputs.append(c("Transpose", x, perm=perm))
        elif ed.scalar(x) is not None and ed.rank(x) <= 1:
            inputs.append(x)
        else:
            return None
    n = helper.make_node(node.op_type, inputs, [ed.name()])
    n.attribute.extend(node.attribute)
    c.nodes.append(n)
    c("Transpose", n.output[0], perm=inverse(perm), out=node.output[0])
    return c.nodes


@edit("transposed_softmax", "Softmax")
def transposed_softmax(ed, node):
    """Softmax over the first axis of a transposed value."""
    rank = ed.rank(node.output[0])
    axis = attribute(node, "axis", -1)
    if rank is None or rank < 2 or ed.opset < 13 or axis % rank != rank - 1:
        return None
    perm, c = [rank - 1] + list(range(rank - 1)), Chain(ed)
    c("Transpose", c("Softmax", c("Transpose", node.input[0], perm=perm), axis=0), perm=inverse(perm), out=node.output[0])
    return c.nodes


@edit("product_transposed", "MatMul")
def product_transposed(ed, node):
    """a b = (b' a')'"""
    ranks = [ed.rank(x) for x in (*node.input, node.output[0])]
    if None in ranks or min(ranks) < 2:
        return None
    swap = lambda r: list(range(r - 2)) + [r - 1, r - 2]
    c = Chain(ed)
    a, b = (c("Transpose", x, perm=swap(r)) for x, r in zip(node.input, ranks))
    c("Transpose", c("MatMul", b, a), perm=swap(ranks[2]), out=node.output[0])
    return c.nodes


@edit("reshape_in_two_steps", "Reshape")
def reshape_in_two_steps(ed, node):
    """Through one dim; only where the target copies no dim of its input."""
    target = ed.constants.get(node.input[1])
    if target is None or 0 in target or not ed.rank(node.input[0]) or attribute(node, "allowzero", 0):
        return None
    c = Chain(ed)
    c("Reshape", c("Reshape", node.input[0], ed.ints([-1])), node.input[1], out=node.output[0])
    return c.nodes


@edit("reshape_otherwise", "Reshape")
def reshape_otherwise(ed, node):
    """Constant targets with 0 for a dim that is kept and -1 for one that is known, or without them."""
    target, dims, out = ed.constants.get(node.input[1]), ed.dims(node.input[0]), ed.dims(node.output[0])
    if target is None or dims is None or attribute(node, "allowzero", 0):
        return None
    target = target.tolist()
    for i, d in enumerate(target):
        if d == -1 and out[i]:
            target[i] = out[i]
        elif d == 0 and dims[i]:
            target[i] = dims[i]
        elif d > 0 and i < len(dims) and dims[i] == d and ed.rnd.random() < 0.5:
            target[i] = 0
    positive = [i for i, d in enumerate(target) if d > 0]
    if -1 not in target and positive:
        target[ed.rnd.choice(positive)] = -1
    return [helper.make_node("Reshape", [node.input[0], ed.ints(target)], node.output)]


@edit("reshape_by_shape", "Reshape")
def reshape_by_shape(ed, node):
    """A constant target as the joined parts of a Shape."""
    target, dims = ed.constants.get(node.input[1]), ed.dims(node.input[0])
    if target is None or dims is None or attribute(node, "allowzero", 0):
        return None
    c, shape, parts = Chain(ed), None, []
    for i, d in enumerate(target.tolist()):
        if d == 0 or d > 0 and i < len(dims) and dims[i] == d:
            shape = shape or c("Shape", node.input[0])
            if ed.rnd.random() < 0.5:
                parts.append(c("Gather", shape, ed.ints([i]), axis=0))
            else:
                parts.append(c.axes("Unsqueeze", c("Gather", shape, ed.const(np.int64(i)), axis=0), [0]))
        else:
            parts.append(ed.ints([d]))
    if shape is None or len(parts) < 2:
        return None
    c("Reshape", node.input[0], c("Concat", *parts, axis=0), out=node.output[0])
    return c.nodes


@edit("view_as_reshape", "Unsqueeze", "Squeeze", "Flatten")
def view_as_reshape(ed, node):
    out = ed.dims(node.output[0])
    if out is None or sum(d is None for d in out) > 1 or 0 in out or not ed.floating(node.output[0]):
        return None
    return [helper.make_node("Reshape", [node.input[0], ed.ints([-1 if d is None else d for d in out])], node.output)]


@wrap("unsqueezed_and_back")
def unsqueezed_and_back(ed, source, value, kind):
    rank = ed.rank(value)
    if rank is None or rank > 5:
        return None
    c, axis = Chain(ed), ed.rnd.randrange(rank + 1)
    c.axes("Squeeze", c.axes("Unsqueeze", source, [axis]), [axis], out=value)
    return c.nodes


@wrap("split_and_joined")
def split_and_joined(ed, source, value, kind):
    dims = ed.dims(value)
    axes = [i for i, d in enumerate(dims or ()) if d and d % 2 == 0]
    if not axes or not ed.floating(value):
        return None
    axis, c = ed.rnd.choice(axes), Chain(ed)
    half = dims[axis] // 2
    if ed.rnd.random() < 0.5:
        if ed.opset >= 13:
            parts = c("Split", source, ed.ints([half, half]), axis=axis, outputs=2)
        else:
            parts = c("Split", source, split=[half, half], axis=axis, outputs=2)
    else:
        parts = [c("Slice", source, ed.ints([a]), ed.ints([b]), ed.ints([axis])) for a, b in ((0, half), (half, 2 ** 63 - 1))]
    c("Concat", *parts, axis=axis, out=value)
    return c.nodes


@wrap("transposed_and_back")
def transposed_and_back(ed, source, value, kind):
    rank = ed.rank(value)
    if rank is None or rank < 2:
        return None
    perm, c = permutation(ed, rank), Chain(ed)
    c("Transpose", c("Transpose", source, perm=perm), perm=inverse(perm), out=value)
    return c.nodes


@wrap("flattened_and_back")
def flattened_and_back(ed, source, value, kind):
    """To one dim and back to its own Shape."""
    if not ed.rank(value) or not ed.floating(value):
        return None
    c = Chain(ed)
    c("Reshape", c("Reshape", source, ed.ints([-1])), c("Shape", source), out=value)
    return c.nodes


@edit("nested_concat", "Concat")
def nested_concat(ed, node):
    if len(node.input) < 3:
        return None
    axis, c = attribute(node, "axis"), Chain(ed)
    at = ed.rnd.randrange(1, len(node.input) - 1)
    left = c("Concat", *node.input[:at + 1], axis=axis)
    c("Concat", left, *node.input[at + 1:], axis=axis, out=node.output[0])
    return c.nodes


@edit("slice_otherwise", "Slice")
def slice_otherwise(ed, node):
    """Bounds counted from the other end, steps written out."""
    if len(node.input) < 4:
        return None
    starts, ends, axes = (ed.constants.get(x) for x in node.input[1:4])
    dims = ed.dims(node.input[0])
    steps = ed.constants.get(node.input[4]) if len(node.input) > 4 and node.input[4] else np.ones_like(starts) if starts is not None else None
    if starts is None or ends is None or axes is None or dims is None or steps is None or (steps < 0).any():
        return None
    starts, ends = starts.tolist(), ends.tolist()
    for i, axis in enumerate(axes.tolist()):
        d = dims[axis]
        if d is None:
            continue
        starts[i] = starts[i] - d if 0 <= starts[i] < d else starts[i]
        ends[i] = 2 ** 31 - 1 if ends[i] >= d else ends[i] - d if ends[i] > 0 else ends[i] + d if ends[i] + d > 0 else ends[i]
    positive = [a % len(dims) for a in axes.tolist()]
    return [helper.make_node("Slice", [node.input[0], ed.ints(starts), ed.ints(ends), ed.ints(positive), ed.ints(steps)], node.output)]


@edit("slice_to_split", "Slice")
def slice_to_split(ed, node):
    """A slice at the beginning or end of a dim as an output of Split."""
    if len(node.input) != 4 and not (len(node.input) == 5 and (ed.constants.get(node.input[4], np.zeros(1)) == 1).all()) or ed.opset < 13:
        return None
    starts, ends, axes = (ed.constants.get(x) for x in node.input[1:4])
    dims = ed.dims(node.input[0])
    if starts is None or ends is None or axes is None or dims is None or axes.size != 1 or not dims[axes.item()]:
        return None
    d = dims[axes.item()]
    begin, end, _ = slice(starts.item(), ends.item()).indices(d)
    sizes = [s for s in (begin, end - begin, d - end) if s > 0]
    if end <= begin or len(sizes) < 2:
        return None
    outputs = [ed.name() for _ in sizes]
    outputs[1 if begin else 0] = node.output[0]
    return [helper.make_node("Split", [node.input[0], ed.ints(sizes)], outputs, axis=axes.item())]


@edit("split_to_slices", "Split")
def split_to_slices(ed, node):
    dims = ed.dims(node.input[0])
    axis = attribute(node, "axis", 0)
    if dims is None or not dims[axis]:
        return None
    sizes = attribute(node, "split")
    if sizes is None:
        given = ed.constants.get(node.input[1]) if len(node.input) > 1 and node.input[1] else None
        each = -(-dims[axis] // len(node.output))
        sizes = given.tolist() if given is not None else None if len(node.input) > 1 and node.input[1] else [min(each, dims[axis] - i * each) for i in range(len(node.output))]
    if sizes is None:
        return None
    c, begin = Chain(ed), 0
    for size, output in zip(sizes, node.output):
        if output:
            c("Slice", node.input[0], ed.ints([begin]), ed.ints([begin + size]), ed.ints([axis]), out=output)
        begin += size
    return c.nodes


@edit("gather_to_slice", "Gather")
def gather_to_slice(ed, node):
    """One element of an axis as a Slice and a Squeeze."""
    index, rank = ed.constants.get(node.input[1]), ed.rank(node.input[0])
    if index is None or index.ndim or rank is None or ed.rank(node.output[0]) == 0 and ed.rnd.random() < 0.5:
        return None
    axis, at, c = attribute(node, "axis", 0) % rank, int(index), Chain(ed)
    end = at + 1 if at != -1 else 2 ** 63 - 1
    c.axes("Squeeze", c("Slice", node.input[0], ed.ints([at]), ed.ints([end]), ed.ints([axis])), [axis], out=node.output[0])
    return c.nodes


@edit("expand_otherwise", "Expand")
def expand_otherwise(ed, node):
    """Times ones of the shape."""
    if not ed.floating(node.output[0]):
        return None
    c = Chain(ed)
    one = helper.make_tensor("value", ed.kind(node.output[0]), [1], [1])
    c("Mul", node.input[0], c("ConstantOfShape", node.input[1], value=one), out=node.output[0])
    return c.nodes
