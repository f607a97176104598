"""Whole operators, written otherwise: products, normalizations, softmax, masks, activations."""
import numpy as np
from onnx import helper

from .editor import Chain, attribute, edit


# ---- products

@edit("gemm_apart", "Gemm")
def gemm_apart(ed, node):
    if attribute(node, "alpha", 1.0) != 1 or attribute(node, "beta", 1.0) != 1:
        return None
    c = Chain(ed)
    a = c("Transpose", node.input[0], perm=[1, 0]) if attribute(node, "transA", 0) else node.input[0]
    b = c("Transpose", node.input[1], perm=[1, 0]) if attribute(node, "transB", 0) else node.input[1]
    if len(node.input) == 3 and node.input[2]:
        c("Add", c("MatMul", a, b), node.input[2], out=node.output[0])
    else:
        c("MatMul", a, b, out=node.output[0])
    return c.nodes


@edit("gemm_of_rows", "MatMul")
def gemm_of_rows(ed, node):
    """A product with a constant matrix as Gemm over all rows."""
    x, w = node.input
    weight, dims = ed.constants.get(w), ed.dims(node.output[0])
    if weight is None or weight.ndim != 2 or dims is None or not dims[-1] or not ed.floating(x):
        return None
    c, flip = Chain(ed), ed.rnd.random() < 0.5
    b = ed.const(np.ascontiguousarray(weight.T)) if flip else w
    if len(dims) == 2:
        c("Gemm", x, b, transB=int(flip), out=node.output[0])
        return c.nodes
    rows = c("Gemm", c("Reshape", x, ed.ints([-1, weight.shape[0]])), b, transB=int(flip))
    head = c("Slice", c("Shape", x), ed.ints([0]), ed.ints([-1]), ed.ints([0]))
    c("Reshape", rows, c("Concat", head, ed.ints([weight.shape[1]]), axis=0), out=node.output[0])
    return c.nodes


@edit("biased_gemm", "Add")
def biased_gemm(ed, node):
    """x w + b as Gemm over all rows."""
    for side in (0, 1):
        product, bias = ed.made_by(node.input[side], "MatMul"), ed.constants.get(node.input[1 - side])
        weight = ed.constants.get(product.input[1]) if product is not None else None
        rank = ed.rank(product.input[0]) if product is not None else None
        if weight is None or weight.ndim != 2 or bias is None or bias.shape != weight.shape[1:] or rank is None or rank < 2:
            continue
        c, x = Chain(ed), product.input[0]
        if rank == 2:
            c("Gemm", x, product.input[1], node.input[1 - side], out=node.output[0])
            return c.nodes
        rows = c("Gemm", c("Reshape", x, ed.ints([-1, weight.shape[0]])), product.input[1], node.input[1 - side])
        shape = c("Shape", x)
        parts = [c("Gather", shape, ed.ints([i]), axis=0) for i in range(rank - 1)]
        c("Reshape", rows, c("Concat", *parts, ed.ints([weight.shape[1]]), axis=0), out=node.output[0])
        return c.nodes
    return None


@edit("einsum", "MatMul")
def einsum(ed, node):
    ra, rb = (ed.rank(x) for x in node.input)
    if ra is None or rb is None or min(ra, rb) < 2 or ed.opset < 12 or not ed.floating(node.output[0]):
        return None
    if ra == rb:
        lead = "abcdef"[:ra - 2]
        a, b = ed.dims(node.input[0])[:-2], ed.dims(node.input[1])[:-2]
        if [d == 1 for d in a] != [d == 1 for d in b] or None in a and ra > 4:
            return None
        equation = f"{lead}ij,{lead}jk->{lead}ik"
    elif rb == 2:
        lead = "abcdef"[:ra - 1]
        equation = f"{lead}j,jk->{lead}k"
    else:
        return None
    return [helper.make_node("Einsum", list(node.input), node.output, equation=equation)]


@edit("weights_in_halves", "MatMul")
def weights_in_halves(ed, node):
    """x [u, v] = [x u, x v]"""
    weight, rank = ed.constants.get(node.input[1]), ed.rank(node.output[0])
    if weight is None or weight.ndim != 2 or weight.shape[1] % 2 or rank is None:
        return None
    half, c = weight.shape[1] // 2, Chain(ed)
    parts = [c("MatMul", node.input[0], ed.const(np.ascontiguousarray(w))) for w in (weight[:, :half], weight[:, half:])]
    c("Concat", *parts, axis=rank - 1, out=node.output[0])
    return c.nodes


# ---- sums, softmax

@edit("mean_by_sum", "ReduceMean")
def mean_by_sum(ed, node):
    axes, dims = ed.axes(node), ed.dims(node.input[0])
    if axes is None or dims is None or any(not dims[a] for a in axes):
        return None
    n, c, kind, keep = int(np.prod([dims[a] for a in axes])), Chain(ed), ed.kind(node.output[0]), attribute(node, "keepdims", 1)
    total = c.axes("ReduceSum", node.input[0], axes, keepdims=keep)
    if ed.rnd.random() < 0.5:
        c("Div", total, ed.const(float(n), kind), out=node.output[0])
    else:
        c("Mul", total, ed.const(1.0 / n, kind), out=node.output[0])
    return c.nodes


@edit("mean_by_product", "ReduceMean")
def mean_by_product(ed, node):
    """Over the last axis: a product with a column of 1/n."""
    axes, dims = ed.axes(node), ed.dims(node.input[0])
    if axes is None or dims is None or len(axes) != 1 or axes[0] % len(dims) != len(dims) - 1 or not dims[-1] or len(dims) < 2 or not attribute(node, "keepdims", 1):
        return None
    return [helper.make_node("MatMul", [node.input[0], ed.const(np.full((dims[-1], 1), 1 / dims[-1]), ed.kind(node.output[0]))], node.output)]


@edit("mean_without_dims", "ReduceMean")
def mean_without_dims(ed, node):
    axes, rank = ed.axes(node), ed.rank(node.input[0])
    if axes is None or rank is None or not attribute(node, "keepdims", 1):
        return None
    c = Chain(ed)
    axes = [a % rank for a in axes]
    c.axes("Unsqueeze", c.axes("ReduceMean", node.input[0], axes, keepdims=0), axes, out=node.output[0])
    return c.nodes


@edit("squares_summed", "ReduceMean")
def squares_summed(ed, node):
    """The mean of squares by ReduceSumSquare or ReduceL2."""
    axes, dims = ed.axes(node), ed.dims(node.input[0])
    square = ed.made_by(node.input[0], "Mul", "Pow")
    if axes is None or dims is None or any(not dims[a] for a in axes) or square is None:
        return None
    if square.op_type == "Mul" and square.input[0] != square.input[1] or square.op_type == "Pow" and ed.scalar(square.input[1]) != 2:
        return None
    n, c, kind, keep = int(np.prod([dims[a] for a in axes])), Chain(ed), ed.kind(node.output[0]), attribute(node, "keepdims", 1)
    if ed.opset >= 18:
        total = c("ReduceSumSquare", square.input[0], ed.ints(axes), keepdims=keep)
    else:
        total = c("ReduceSumSquare", square.input[0], axes=list(axes), keepdims=keep)
    c("Div", total, ed.const(float(n), kind), out=node.output[0])
    return c.nodes


@edit("softmax_by_hand", "Softmax")
def softmax_by_hand(ed, node):
    rank = ed.rank(node.output[0])
    axis = attribute(node, "axis", -1 if ed.opset >= 13 else 1)
    if rank is None or ed.opset < 13 and axis % rank != rank - 1:
        return None
    c, x = Chain(ed), node.input[0]
    if ed.opset >= 18:
        top = c("ReduceMax", x, ed.ints([axis]), keepdims=1)
    else:
        top = c("ReduceMax", x, axes=[axis], keepdims=1)
    e = c("Exp", c("Sub", x, top))
    c("Div", e, c.axes("ReduceSum", e, [axis], keepdims=1), out=node.output[0])
    return c.nodes


@edit("softmax_by_log", "Softmax")
def softmax_by_log(ed, node):
    c = Chain(ed)
    c("Exp", c("LogSoftmax", node.input[0], axis=attribute(node, "axis", -1 if ed.opset >= 13 else 1)), out=node.output[0])
    return c.nodes


@edit("softmax_shifted", "Softmax")
def softmax_shifted(ed, node):
    """Softmax(x) = Softmax(x - 3)"""
    c = Chain(ed)
    c("Softmax", c("Sub", node.input[0], ed.const(3.0, ed.kind(node.output[0]))), axis=attribute(node, "axis", -1 if ed.opset >= 13 else 1), out=node.output[0])
    return c.nodes


# ---- masks

@edit("where_of_not", "Where")
def where_of_not(ed, node):
    c = Chain(ed)
    c("Where", c("Not", node.input[0]), node.input[2], node.input[1], out=node.output[0])
    return c.nodes


@edit("where_by_arithmetic", "Where")
def where_by_arithmetic(ed, node):
    """c ? x : y = c x + (1 - c) y, for finite numbers."""
    kind = ed.kind(node.output[0])
    if not ed.floating(node.output[0]) or not all((v := ed.scalar(x)) is None or abs(v) < 1e30 for x in node.input[1:]):
        return None
    if not any(ed.scalar(x) is not None for x in node.input[1:]):
        return None
    c = Chain(ed)
    yes = c("Cast", node.input[0], to=kind)
    no = c("Sub", ed.const(1.0, kind), yes)
    c("Add", c("Mul", node.input[1], yes), c("Mul", node.input[2], no), out=node.output[0])
    return c.nodes


@edit("other_fill", "Where")
def other_fill(ed, node):
    """A fill of hidden scores from -1e4 down is another one."""
    changed, inputs = False, list(node.input)
    for side in (1, 2):
        v = ed.scalar(inputs[side])
        if v is not None and v <= -9999:
            inputs[side] = ed.const(np.full(ed.constants[inputs[side]].shape, ed.rnd.choice([-1e4, -3e4, -6e4])), ed.kind(node.output[0]))
            changed = True
    return [helper.make_node("Where", inputs, node.output)] if changed else None


@edit("mask_subtracted", "Add")
def mask_subtracted(ed, node):
    """What is added before a Softmax, multiplied by -1 and subtracted."""
    if ed.rank(node.output[0]) is None or ed.rank(node.output[0]) < 3 or not any(ed.made_by(x, "MatMul", "Mul", "Div") is not None for x in node.input):
        return None
    users = [n for n in ed.model.graph.node if node.output[0] in n.input]
    if len(users) != 1 or users[0].op_type != "Softmax":
        return None
    c, kind = Chain(ed), ed.kind(node.output[0])
    c("Sub", node.input[0], c("Mul", node.input[1], ed.const(-1.0, kind)), out=node.output[0])
    return c.nodes


# ---- normalizations and activations that the model has as operators

def root_mean_square(ed, c, x, axis, epsilon, kind):
    """x / sqrt(mean(x^2) + epsilon) in one of its spellings."""
    rank = ed.rank(x) if ed.rank(x) is not None else None
    axes = list(range(axis, 0)) if axis < 0 else list(range(axis, rank))
    square = c("Mul", x, x) if ed.rnd.random() < 0.5 else c("Pow", x, ed.const(2.0, kind))
    spread = c("Add", c.axes("ReduceMean", square, axes, keepdims=1), ed.const(epsilon, kind))
    way = ed.rnd.randrange(3)
    if way == 0:
        return c("Div", x, c("Sqrt", spread))
    if way == 1:
        return c("Mul", x, c("Reciprocal", c("Sqrt", spread)))
    return c("Mul", c("Pow", spread, ed.const(-0.5, kind)), x)


@edit("layer_norm_apart", "LayerNormalization")
def layer_norm_apart(ed, node):
    kind, rank = ed.kind(node.output[0]), ed.rank(node.input[0])
    if rank is None or any(node.output[1:]):
        return None
    axis, c = attribute(node, "axis", -1) % rank, Chain(ed)
    axes = list(range(axis, rank))
    centred = c("Sub", node.input[0], c.axes("ReduceMean", node.input[0], axes, keepdims=1))
    ed.facts.rank[centred] = rank
    y = root_mean_square(ed, c, centred, axis, attribute(node, "epsilon", 1e-5), kind)
    y = c("Mul", *((y, node.input[1]) if ed.rnd.random() < 0.5 else (node.input[1], y)))
    if len(node.input) > 2 and node.input[2]:
        y = c("Add", *((y, node.input[2]) if ed.rnd.random() < 0.5 else (node.input[2], y)))
    c("Identity", y, out=node.output[0])
    return c.nodes


@edit("rms_norm_apart", "RMSNormalization")
def rms_norm_apart(ed, node):
    kind, rank = ed.kind(node.output[0]), ed.rank(node.input[0])
    if rank is None:
        return None
    c = Chain(ed)
    y = root_mean_square(ed, c, node.input[0], attribute(node, "axis", -1) % rank, attribute(node, "epsilon", 1e-5), kind)
    c("Mul", y, node.input[1], out=node.output[0])
    return c.nodes


@edit("moments", "ReduceMean")
def moments(ed, node):
    """mean((x - m)^2) = mean(x^2) - m^2"""
    square = ed.made_by(node.input[0], "Mul", "Pow")
    centred = ed.made_by(square.input[0], "Sub") if square is not None else None
    mean = ed.made_by(centred.input[1], "ReduceMean") if centred is not None else None
    if mean is None or mean.input[0] != centred.input[0] or ed.axes(mean) != ed.axes(node) or not attribute(node, "keepdims", 1):
        return None
    c, x, axes = Chain(ed), centred.input[0], ed.axes(node)
    c("Sub", c.axes("ReduceMean", c("Mul", x, x), axes, keepdims=1), c("Mul", mean.output[0], mean.output[0]), out=node.output[0])
    return c.nodes


@edit("gelu_apart", "Gelu")
def gelu_apart(ed, node):
    c, kind, x = Chain(ed), ed.kind(node.output[0]), node.input[0]
    if attribute(node, "approximate", b"none") == b"tanh":
        cubed = c("Mul", c("Mul", x, c("Mul", x, x)), ed.const(0.044715, kind))
        inner = c("Tanh", c("Mul", c("Add", x, cubed), ed.const((2 / np.pi) ** 0.5, kind)))
    else:
        inner = c("Erf", c("Div", x, ed.const(2 ** 0.5, kind)) if ed.rnd.random() < 0.5 else c("Mul", x, ed.const(0.5 ** 0.5, kind)))
    one, half, way = c("Add", inner, ed.const(1.0, kind)), ed.const(0.5, kind), ed.rnd.randrange(3)
    if way == 0:
        c("Mul", c("Mul", x, one), half, out=node.output[0])
    elif way == 1:
        c("Mul", c("Mul", x, half), one, out=node.output[0])
    else:
        c("Mul", x, c("Mul", half, one), out=node.output[0])
    return c.nodes
