"""What few exporters write: detours that are equal, in arithmetic, masks, views, products, types and control flow."""
import numpy as np
from onnx import TensorProto, helper

from .editor import Chain, attribute, edit, wrap
from .structure import renamed


# ---- arithmetic

@edit("roots_of_squares", "Mul", "Div")
def roots_of_squares(ed, node):
    """A positive number as the root of its square, or as a power."""
    s = ed.scalar(node.input[1])
    if s is None or not 1e-4 < s < 1e4 or ed.rank(node.input[1]):
        return None
    c, kind = Chain(ed), ed.kind(node.output[0])
    made = c("Sqrt", ed.const(s * s, kind)) if ed.rnd.random() < 0.5 else c("Pow", ed.const(1 / s ** 2, kind), ed.const(-0.5, kind))
    c(node.op_type, node.input[0], made, out=node.output[0])
    return c.nodes


@edit("root_by_logarithm", "Sqrt")
def root_by_logarithm(ed, node):
    """sqrt x = exp(log(x) / 2)"""
    if node.input[0] in ed.constants:
        return None
    c = Chain(ed)
    c("Exp", c("Mul", c("Log", node.input[0]), ed.const(0.5, ed.kind(node.output[0]))), out=node.output[0])
    return c.nodes


@edit("square_of_size", "Mul", "Pow")
def square_of_size(ed, node):
    """x x = |x| |x|, or -(x (-x))"""
    if not ed.floating(node.output[0]) or (node.input[0] != node.input[1] if node.op_type == "Mul" else ed.scalar(node.input[1]) != 2):
        return None
    c, x = Chain(ed), node.input[0]
    if ed.rnd.random() < 0.5:
        m = c("Abs", x)
        c("Mul", m, m, out=node.output[0])
    else:
        c("Neg", c("Mul", x, c("Neg", x)), out=node.output[0])
    return c.nodes


@edit("power_of_integer", "Pow")
def power_of_integer(ed, node):
    e = ed.scalar(node.input[1])
    if e not in (2, 3) or ed.opset < 12:
        return None
    return [helper.make_node("Pow", [node.input[0], ed.const(np.array(int(e), ed.rnd.choice([np.int32, np.int64])))], node.output)]


@edit("gain_less_one", "Mul")
def gain_less_one(ed, node):
    """x g = x + x (g - 1), or x ((g - 1) + 1), for a constant vector."""
    for side in (1, 0):
        g = ed.constants.get(node.input[side])
        if g is not None and g.dtype == np.float32 and g.size > 1 and np.abs(g).max() < 100 and node.input[1 - side] not in ed.constants and ed.rank(node.output[0]) == ed.rank(node.input[1 - side]):
            c, x = Chain(ed), node.input[1 - side]
            less = ed.const(g - 1)
            if ed.rnd.random() < 0.5:
                c("Add", x, c("Mul", x, less), out=node.output[0])
            else:
                c("Mul", x, c("Add", less, ed.const(1.0, TensorProto.FLOAT)), out=node.output[0])
            return c.nodes
    return None


@edit("added_backwards", "Add")
def added_backwards(ed, node):
    """x + c = 2 c - (c - x)"""
    for side in (1, 0):
        v = ed.scalar(node.input[side])
        if v is not None and abs(v) < 1e3 and node.input[1 - side] not in ed.constants:
            c, kind = Chain(ed), ed.kind(node.output[0])
            c("Sub", ed.const(2 * v, kind), c("Sub", node.input[side], node.input[1 - side]), out=node.output[0])
            return c.nodes
    return None


@edit("distributed", "Mul")
def distributed(ed, node):
    """x (y + c) = x y + x c"""
    if not ed.floating(node.output[0]):
        return None
    for side in (1, 0):
        inner = ed.made_by(node.input[side], "Add")
        if inner is not None and any(ed.scalar(i) is not None for i in inner.input):
            c, x = Chain(ed), node.input[1 - side]
            c("Add", c("Mul", x, inner.input[0]), c("Mul", x, inner.input[1]), out=node.output[0])
            return c.nodes
    return None


@edit("tanh_by_exp", "Tanh")
def tanh_by_exp(ed, node):
    """1 - 2 / (exp(2 x) + 1)"""
    c, kind = Chain(ed), ed.kind(node.output[0])
    one, two = ed.const(1.0, kind), ed.const(2.0, kind)
    c("Sub", one, c("Div", two, c("Add", c("Exp", c("Mul", node.input[0], two)), one)), out=node.output[0])
    return c.nodes


@edit("sigmoid_from_the_other_side", "Sigmoid")
def sigmoid_from_the_other_side(ed, node):
    c, one = Chain(ed), ed.const(1.0, ed.kind(node.output[0]))
    if ed.rnd.random() < 0.5:
        c("Sub", one, c("Sigmoid", c("Neg", node.input[0])), out=node.output[0])
    else:
        e = c("Exp", node.input[0])
        c("Div", e, c("Add", e, one), out=node.output[0])
    return c.nodes


@edit("operand_expanded", "Add", "Mul", "Sub", "Div")
def operand_expanded(ed, node):
    """A constant expanded to the shape of the other operand."""
    x, k = node.input
    if k not in ed.constants or x in ed.constants or not ed.floating(node.output[0]) or not (ed.rank(k) or 0) <= (ed.rank(x) or 0) or ed.rank(x) != ed.rank(node.output[0]):
        return None
    if any(d not in (1, None) and e not in (d,) for d, e in zip(reversed(ed.dims(k)), reversed(ed.dims(x)))):
        return None
    c = Chain(ed)
    c(node.op_type, x, c("Expand", k, c("Shape", x)), out=node.output[0])
    return c.nodes


@edit("in_double", "Add", "Mul", "Sub", "Div", "Sqrt", "Softmax", "Exp", "Neg")
def in_double(ed, node):
    """Not MatMul: its sums in double hold what float loses, so that is another model."""
    if ed.kind(node.output[0]) != TensorProto.FLOAT:
        return None
    c = Chain(ed)
    inner = renamed(node, [c("Cast", x, to=TensorProto.DOUBLE) for x in node.input], [ed.name()])
    c.nodes.append(inner)
    c("Cast", inner.output[0], to=TensorProto.FLOAT, out=node.output[0])
    return c.nodes


# ---- sums, means, softmax

@edit("softmax_by_sums", "Softmax")
def softmax_by_sums(ed, node):
    """exp(x) / sum, or exp(x - log sum exp); no maximum is taken off."""
    rank, axis = ed.rank(node.output[0]), attribute(node, "axis", -1 if ed.opset >= 13 else 1)
    if rank is None or ed.opset < 13 and axis % rank != rank - 1 or ed.kind(node.output[0]) != TensorProto.FLOAT:
        return None
    c = Chain(ed)
    e = c("Exp", node.input[0])
    total = c.axes("ReduceSum", e, [axis], keepdims=1)
    if ed.rnd.random() < 0.5:
        c("Mul", e, c("Reciprocal", total), out=node.output[0])
    else:
        c("Exp", c("Sub", node.input[0], c("Log", total)), out=node.output[0])
    return c.nodes


@edit("mean_by_einsum", "ReduceMean")
def mean_by_einsum(ed, node):
    axes, dims = ed.axes(node), ed.dims(node.input[0])
    if axes is None or dims is None or len(axes) != 1 or axes[0] % len(dims) != len(dims) - 1 or not dims[-1] or not attribute(node, "keepdims", 1) or ed.opset < 12:
        return None
    c, letters = Chain(ed), "abcdef"[:len(dims)]
    column = ed.const(np.full(dims[-1], 1 / dims[-1]), ed.kind(node.output[0]))
    c.axes("Unsqueeze", c("Einsum", node.input[0], column, equation=f"{letters},{letters[-1]}->{letters[:-1]}"), [len(dims) - 1], out=node.output[0])
    return c.nodes


@edit("mean_counted", "ReduceMean")
def mean_counted(ed, node):
    """A sum by the size that Shape says."""
    axes, rank = ed.axes(node), ed.rank(node.input[0])
    if axes is None or len(axes) != 1 or rank is None:
        return None
    c = Chain(ed)
    count = c("Cast", c("Gather", c("Shape", node.input[0]), ed.const(np.int64(axes[0] % rank)), axis=0), to=ed.kind(node.output[0]))
    c("Div", c.axes("ReduceSum", node.input[0], axes, keepdims=attribute(node, "keepdims", 1)), count, out=node.output[0])
    return c.nodes


@edit("layer_norm_by_instances", "LayerNormalization")
def layer_norm_by_instances(ed, node):
    """Over the last dim: as instances of one channel, scale and bias outside."""
    dims, rank = ed.dims(node.input[1]), ed.rank(node.input[0])
    if rank is None or attribute(node, "axis", -1) % rank != rank - 1 or not dims or any(node.output[1:]) or ed.kind(node.output[0]) != TensorProto.FLOAT:
        return None
    c = Chain(ed)
    one, zero = ed.const([1.0], TensorProto.FLOAT), ed.const([0.0], TensorProto.FLOAT)
    y = c("InstanceNormalization", c("Reshape", node.input[0], ed.ints([-1, 1, dims[0]])), one, zero, epsilon=attribute(node, "epsilon", 1e-5))
    y = c("Mul", c("Reshape", y, c("Shape", node.input[0])), node.input[1])
    c("Add", y, node.input[2], out=node.output[0]) if len(node.input) > 2 and node.input[2] else c("Identity", y, out=node.output[0])
    return c.nodes


# ---- masks

@edit("condition_through_numbers", "Where")
def condition_through_numbers(ed, node):
    """c as Cast to numbers and back, as > 0.5, or as not equal to 0."""
    c, way = Chain(ed), ed.rnd.randrange(3)
    if node.input[0] in ed.constants:
        return None
    if way == 0:
        made = c("Cast", c("Cast", node.input[0], to=TensorProto.INT32), to=TensorProto.BOOL)
    elif way == 1:
        made = c("Greater", c("Cast", node.input[0], to=TensorProto.FLOAT), ed.const(0.5, TensorProto.FLOAT))
    else:
        made = c("Not", c("Equal", c("Cast", node.input[0], to=TensorProto.INT64), ed.const(np.int64(0))))
    c("Where", made, *node.input[1:], out=node.output[0])
    return c.nodes


@edit("condition_expanded", "Where")
def condition_expanded(ed, node):
    """The condition as And with itself, or expanded to the shape of the result."""
    if node.input[0] in ed.constants or not ed.floating(node.output[0]):
        return None
    c = Chain(ed)
    wide = [i for i in node.input[1:] if i not in ed.constants and ed.rank(i) == ed.rank(node.output[0])]
    if ed.rnd.random() < 0.5 or len(wide) != 1 or (ed.rank(node.input[0]) or 0) > ed.rank(wide[0]):
        made = c("And", node.input[0], node.input[0])
    else:
        made = c("Expand", node.input[0], c("Shape", wide[0]))
    c("Where", made, *node.input[1:], out=node.output[0])
    return c.nodes


@edit("comparison_otherwise", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def comparison_otherwise(ed, node):
    a, b = node.input
    if ed.kind(a) not in (TensorProto.INT64, TensorProto.INT32):
        return None
    other = {"Less": "Greater", "Greater": "Less", "LessOrEqual": "GreaterOrEqual", "GreaterOrEqual": "LessOrEqual"}[node.op_type]
    negation = {"Less": "Less", "Greater": "Greater", "LessOrEqual": "Less", "GreaterOrEqual": "Greater"}[node.op_type]
    c = Chain(ed)
    if node.op_type.endswith("OrEqual") and (ed.rnd.random() < 0.5 or ed.opset < 12):
        c("Not", c(negation, b, a), out=node.output[0])
    else:
        c(other, b, a, out=node.output[0])
    return c.nodes


# ---- products

@edit("conv_of_positions", "MatMul")
def conv_of_positions(ed, node):
    """x W of three dims as a convolution of one tap over channels first."""
    weight, rank = ed.constants.get(node.input[1]), ed.rank(node.input[0])
    if weight is None or weight.ndim != 2 or rank != 3 or weight.dtype != np.float32:
        return None
    c = Chain(ed)
    y = c("Conv", c("Transpose", node.input[0], perm=[0, 2, 1]), ed.const(np.ascontiguousarray(weight.T[:, :, None])), kernel_shape=[1])
    c("Transpose", y, perm=[0, 2, 1], out=node.output[0])
    return c.nodes


@edit("product_of_one_more_batch", "MatMul")
def product_of_one_more_batch(ed, node):
    """a b with a dim of 1 before, or a constant matrix as a batch of one."""
    ranks, weight, c = [ed.rank(x) for x in node.input], ed.constants.get(node.input[1]), Chain(ed)
    if None in ranks or min(ranks) < 2 or not ed.floating(node.output[0]):
        return None
    if weight is not None and weight.ndim == 2 and ranks[0] >= 3 and ed.rnd.random() < 0.7:
        c("MatMul", node.input[0], ed.const(weight[None]), out=node.output[0])
    elif ranks[0] == ranks[1]:
        c.axes("Squeeze", c("MatMul", *(c.axes("Unsqueeze", x, [0]) for x in node.input)), [0], out=node.output[0])
    else:
        return None
    return c.nodes


# ---- views

@edit("transpose_by_einsum", "Transpose")
def transpose_by_einsum(ed, node):
    perm = attribute(node, "perm")
    if perm is None or ed.opset < 12 or ed.kind(node.output[0]) != TensorProto.FLOAT:
        return None
    letters = "abcdef"
    return [helper.make_node("Einsum", [node.input[0]], node.output, equation=f"{letters[:len(perm)]}->{''.join(letters[p] for p in perm)}")]


@edit("split_by_gathers", "Split")
def split_by_gathers(ed, node):
    """Outputs by their numbers; those of size one by a number and Unsqueeze."""
    dims, axis = ed.dims(node.input[0]), attribute(node, "axis", 0)
    sizes = [(ed.dims(o) or [None] * 9)[axis] for o in node.output if o]
    if dims is None or not dims[axis] or len(sizes) != len(node.output) or None in sizes or sum(sizes) != dims[axis]:
        return None
    c, begin = Chain(ed), 0
    for size, output in zip(sizes, node.output):
        if size == 1:
            c.axes("Unsqueeze", c("Gather", node.input[0], ed.const(np.int64(begin)), axis=axis), [axis], out=output)
        else:
            c("Gather", node.input[0], ed.ints(range(begin, begin + size)), axis=axis, out=output)
        begin += size
    return c.nodes


@edit("expand_in_other_words", "Expand")
def expand_in_other_words(ed, node):
    """Plus zeros of the shape, or a choice of which one side is zeros of the shape."""
    if ed.kind(node.output[0]) != TensorProto.FLOAT:
        return None
    c = Chain(ed)
    zeros = c("ConstantOfShape", node.input[1], value=helper.make_tensor("value", TensorProto.FLOAT, [1], [0]))
    if ed.rnd.random() < 0.5:
        c("Add", node.input[0], zeros, out=node.output[0])
    else:
        c("Where", ed.const(np.array(True)), node.input[0], zeros, out=node.output[0])
    return c.nodes


@edit("concat_by_steps", "Concat")
def concat_by_steps(ed, node):
    """Two values of equal static sizes along an axis: stacked on a new axis before it, then joined by Reshape."""
    axis, dims = attribute(node, "axis"), ed.dims(node.output[0])
    if len(node.input) != 2 or dims is None or not ed.floating(node.output[0]):
        return None
    axis %= len(dims)
    sides = [ed.dims(x) for x in node.input]
    if any(s is None or not s[axis] for s in sides) or sides[0][axis] != sides[1][axis] or sum(d is None for d in dims[axis + 1:]) or len(dims) > 5:
        return None
    c = Chain(ed)
    stacked = c("Concat", *(c.axes("Unsqueeze", x, [axis]) for x in node.input), axis=axis)
    c("Reshape", stacked, ed.ints([0] * axis + [2 * sides[0][axis]] + dims[axis + 1:]), out=node.output[0])
    return c.nodes


@edit("dim_from_the_end", "Gather")
def dim_from_the_end(ed, node):
    shape, index = ed.made_by(node.input[0], "Shape"), ed.constants.get(node.input[1])
    rank = ed.rank(shape.input[0]) if shape is not None else None
    if rank is None or index is None or (index < 0).any() or shape.attribute or ed.opset < 11:
        return None
    return [helper.make_node("Gather", [node.input[0], ed.const(index - rank)], node.output, axis=0)]


# ---- control flow

@edit("loop_of_one_turn", "Softmax", "Add", "MatMul", "Mul", "Tanh", "Erf")
def loop_of_one_turn(ed, node):
    kind, rank = ed.kind(node.output[0]), ed.rank(node.output[0])
    wide = next((x for x in node.input if ed.rank(x) == rank and ed.kind(x) == kind and x not in ed.constants), None)
    if kind is None or wide is None or not ed.floating(node.output[0]):
        return None
    turn, go, still, held, made = (ed.name() for _ in range(5))
    info = helper.make_tensor_value_info
    body = helper.make_graph([helper.make_node("Identity", [go], [still]), renamed(node, node.input, [made])], "turn",
                             [info(turn, TensorProto.INT64, []), info(go, TensorProto.BOOL, []), info(held, kind, None)], [info(still, TensorProto.BOOL, []), info(made, kind, None)])
    return [helper.make_node("Loop", [ed.const(np.int64(1)), ed.const(np.array(True)), wide], node.output, body=body)]


@edit("branch_by_rank", "Softmax", "Add", "MatMul", "Mul", "Sqrt")
def branch_by_rank(ed, node):
    """In the branch of an If whose condition is that the input has its rank."""
    kind, rank = ed.kind(node.output[0]), ed.rank(node.input[0])
    if kind is None or rank is None or not ed.floating(node.output[0]):
        return None
    c = Chain(ed)
    condition = c("Equal", c("Size", c("Shape", node.input[0])), ed.const(np.int64(rank)))

    def graph(name, nodes, out):
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(out, kind, None)])
    inner, other = ed.name(), ed.name()
    return c.nodes + [helper.make_node("If", [condition], node.output, then_branch=graph("then", [renamed(node, node.input, [inner])], inner),
                                       else_branch=graph("else", [helper.make_node("Identity", [node.input[0]], [other])], other))]


@wrap("gathered_whole")
def gathered_whole(ed, source, value, kind):
    """All of the last dim by its numbers, or its two halves in Where's order."""
    dims = ed.dims(value)
    if not dims or not dims[-1] or not ed.floating(value):
        return None
    return [helper.make_node("Gather", [source, ed.ints(range(dims[-1]))], [value], axis=len(dims) - 1)]


@wrap("added_and_taken")
def added_and_taken(ed, source, value, kind):
    """Times 2 by 2, or in the middle of two Transposes of ones, Clip without bounds."""
    if not ed.floating(value):
        return None
    c, way = Chain(ed), ed.rnd.randrange(3)
    if way == 0:
        c("Mul", c("Mul", source, ed.const(2.0, kind)), ed.const(0.5, kind), out=value)
    elif way == 1 and ed.opset >= 11:
        c("Clip", source, out=value)
    else:
        c("Mul", c("Div", source, ed.const(4.0, kind)), ed.const(4.0, kind), out=value)
    return c.nodes
