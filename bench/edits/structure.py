"""Where operators stand: past views, in functions and branches, in more steps, on merged dims."""
import copy

import numpy as np
from onnx import TensorProto, helper

from .editor import Chain, attribute, edit, wrap
from .views import UNARY

VIEWS = ("Transpose", "Reshape", "Slice", "Unsqueeze", "Squeeze")


def renamed(node, inputs, outputs):
    n = copy.deepcopy(node)
    n.name = ""
    del n.input[:], n.output[:]
    n.input.extend(inputs)
    n.output.extend(outputs)
    return n


@edit("unary_before_view", *UNARY, "Mul", "Div")
def unary_before_view(ed, node):
    """f(view(x)) = view(f(x)), also for products with a number."""
    others = [x for x in node.input[1:]]
    if not ed.floating(node.output[0]) or any(ed.scalar(x) is None or ed.rank(x) for x in others):
        return None
    view = ed.made_by(node.input[0], *VIEWS)
    if view is None:
        return None
    inner = renamed(node, [view.input[0], *others], [ed.name()])
    return [inner, renamed(view, [inner.output[0], *view.input[1:]], node.output)]


@edit("view_before_unary", *VIEWS)
def view_before_unary(ed, node):
    """view(f(x)) = f(view(x))"""
    f = ed.made_by(node.input[0], *UNARY)
    if f is None or not ed.floating(node.output[0]) or any(f.input[1:]):
        return None
    inner = renamed(node, [f.input[0], *node.input[1:]], [ed.name()])
    return [inner, renamed(f, inner.output, node.output)]


@edit("view_of_scaled", "Transpose", "Reshape")
def view_of_scaled(ed, node):
    """A number times a view is a view of the number times."""
    f = ed.made_by(node.input[0], "Mul", "Div")
    if f is None or ed.scalar(f.input[1]) is None or ed.rank(f.input[1]):
        return None
    inner = renamed(node, [f.input[0], *node.input[1:]], [ed.name()])
    return [inner, renamed(f, [inner.output[0], f.input[1]], node.output)]


@edit("sum_operator", "Add")
def sum_operator(ed, node):
    return [helper.make_node("Sum", list(node.input), node.output)] if ed.floating(node.output[0]) else None


@edit("swish_apart", "Mul")
def swish_apart(ed, node):
    """x sigmoid(x) = x / (1 + exp(-x))"""
    for side in (0, 1):
        s = ed.made_by(node.input[side], "Sigmoid")
        if s is not None and s.input[0] == node.input[1 - side]:
            c, x = Chain(ed), s.input[0]
            c("Div", x, c("Add", c("Exp", c("Neg", x)), ed.const(1.0, ed.kind(node.output[0]))), out=node.output[0])
            return c.nodes
    return None


@edit("product_of_merged", "MatMul")
def product_of_merged(ed, node):
    """A product over [a, b, ...] as one over [a b, ...]."""
    ranks = [ed.rank(x) for x in node.input]
    a, b = (ed.dims(x) for x in node.input)
    if ranks != [4, 4] or a[1] is None or a[1] != b[1] or (a[0] == 1) != (b[0] == 1) or 0 in a or 0 in b or a[0] is None and b[0] == 1:
        return None
    c = Chain(ed)
    shapes = [c("Shape", x) for x in node.input]
    part = lambda shape, i, j: c("Slice", shape, ed.ints([i]), ed.ints([j]), ed.ints([0]))
    flat = [c("Reshape", x, c("Concat", ed.ints([-1]), part(s, 2, 4), axis=0)) for x, s in zip(node.input, shapes)]
    y = c("MatMul", *flat)
    c("Reshape", y, c("Concat", part(shapes[0], 0, 3), part(shapes[1], 3, 4), axis=0), out=node.output[0])
    return c.nodes


@edit("softmax_of_merged", "Softmax")
def softmax_of_merged(ed, node):
    rank = ed.rank(node.output[0])
    if rank is None or rank < 3 or attribute(node, "axis", -1) % rank != rank - 1 or ed.opset < 13:
        return None
    c, x = Chain(ed), node.input[0]
    shape = c("Shape", x)
    last = c("Slice", shape, ed.ints([-1]), ed.ints([2 ** 31]), ed.ints([0]))
    c("Reshape", c("Softmax", c("Reshape", x, c("Concat", ed.ints([-1]), last, axis=0)), axis=1), shape, out=node.output[0])
    return c.nodes


@edit("mean_by_pooling", "ReduceMean")
def mean_by_pooling(ed, node):
    """Over the last dim of three: AveragePool or GlobalAveragePool."""
    axes, dims = ed.axes(node), ed.dims(node.input[0])
    if dims is None or len(dims) != 3 or axes not in ([2], [-1]) or not dims[2] or not attribute(node, "keepdims", 1) or ed.kind(node.output[0]) != TensorProto.FLOAT:
        return None
    if ed.rnd.random() < 0.5:
        return [helper.make_node("GlobalAveragePool", [node.input[0]], node.output)]
    return [helper.make_node("AveragePool", [node.input[0]], node.output, kernel_shape=[dims[2]])]


@edit("slice_to_gather", "Slice")
def slice_to_gather(ed, node):
    """A slice of known bounds as a Gather of the positions."""
    if len(node.input) < 4:
        return None
    starts, ends, axes = (ed.constants.get(x) for x in node.input[1:4])
    steps = ed.constants.get(node.input[4]) if len(node.input) > 4 and node.input[4] else np.array([1])
    dims = ed.dims(node.input[0])
    if starts is None or ends is None or axes is None or steps is None or dims is None or axes.size != 1 or not dims[axes.item()]:
        return None
    positions = list(range(dims[axes.item()]))[slice(starts.item(), ends.item(), steps.item())] if steps.item() > 0 else []
    return [helper.make_node("Gather", [node.input[0], ed.ints(positions)], node.output, axis=axes.item())] if positions else None


@edit("part_of_shape", "Gather")
def part_of_shape(ed, node):
    """One dim by Shape's own start and end."""
    shape, index = ed.made_by(node.input[0], "Shape"), ed.constants.get(node.input[1])
    if shape is None or index is None or index.size != 1 or ed.opset < 15 or shape.attribute or index.item() < 0:
        return None
    c, i = Chain(ed), index.item()
    if index.ndim == 0:
        c.axes("Squeeze", c("Shape", shape.input[0], start=i, end=i + 1), [0], out=node.output[0])
    else:
        c("Shape", shape.input[0], start=i, end=i + 1, out=node.output[0])
    return c.nodes


@edit("shape_in_int32", "Shape")
def shape_in_int32(ed, node):
    c = Chain(ed)
    narrow = c("Cast", c("Shape", node.input[0], **{a.name: a.i for a in node.attribute}), to=TensorProto.INT32)
    c("Cast", narrow, to=TensorProto.INT64, out=node.output[0])
    return c.nodes


@edit("unsqueeze_in_steps", "Unsqueeze")
def unsqueeze_in_steps(ed, node):
    axes, rank = ed.axes(node), ed.rank(node.output[0])
    if axes is None or rank is None or len(axes) < 2:
        return None
    c, x = Chain(ed), node.input[0]
    ordered = sorted(a % rank for a in axes)
    for i, a in enumerate(ordered):
        x = c.axes("Unsqueeze", x, [a], out=node.output[0] if i + 1 == len(ordered) else None)
    return c.nodes


@edit("branch", "Softmax", "Add", "MatMul", "Transpose")
def branch(ed, node):
    """In the branch of an If whose condition is a constant."""
    kind = ed.kind(node.output[0])
    if kind is None:
        return None

    def graph(name):
        inner = ed.name()
        return helper.make_graph([renamed(node, node.input, [inner])], name, [], [helper.make_tensor_value_info(inner, kind, None)])
    return [helper.make_node("If", [ed.const(np.array(True))], node.output, then_branch=graph("then"), else_branch=graph("else"))]


@edit("function", "Softmax", "Add", "MatMul", "Mul", "Transpose", "LayerNormalization", "Erf", "Tanh", "Sqrt")
def function(ed, node):
    """A call of a function of the model with this one operator."""
    name = f"only_{node.op_type}_{ed.count}"
    ed.count += 1
    inputs = [f"i{k}" for k in range(len(node.input))]
    body = renamed(node, inputs, ["o"])
    if len(node.output) != 1 or not all(node.input):
        return None
    ed.model.functions.append(helper.make_function("edits", name, inputs, ["o"], [body], [o for o in ed.model.opset_import if o.domain in ("", "ai.onnx")]))
    if not any(o.domain == "edits" for o in ed.model.opset_import):
        ed.model.opset_import.append(helper.make_opsetid("edits", 1))
    ed.model.ir_version = max(ed.model.ir_version, 8)
    return [helper.make_node(name, list(node.input), node.output, domain="edits")]


@wrap("whole")
def whole(ed, source, value, kind):
    """All of it: by Slice, Pad, Concat, Tile, Expand to its own shape, Where, Max with itself."""
    rank, c = ed.rank(value), Chain(ed)
    if not rank or not ed.floating(value):
        return None
    way = ed.rnd.randrange(7)
    if way == 0:
        c("Slice", source, ed.ints([0]), ed.ints([2 ** 63 - 1]), ed.ints([rank - 1]), out=value)
    elif way == 1:
        c("Pad", source, ed.ints([0] * (2 * rank)), out=value)
    elif way == 2:
        c("Concat", source, axis=rank - 1, out=value)
    elif way == 3:
        c("Tile", source, ed.ints([1] * rank), out=value)
    elif way == 4:
        c("Expand", source, c("Shape", source), out=value)
    elif way == 5:
        c("Where", ed.const(np.array(True)), source, ed.const(0.0, kind), out=value)
    else:
        c("Max", source, source, out=value)
    return c.nodes
