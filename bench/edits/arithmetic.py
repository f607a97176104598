"""Sums, products, quotients, powers and elementary functions, written otherwise."""
import numpy as np
from onnx import TensorProto, helper

from .editor import Chain, edit, wrap


@edit("commute", "Add", "Mul")
def commute(ed, node):
    return [helper.make_node(node.op_type, [node.input[1], node.input[0]], node.output)]


@edit("reassociate", "Add", "Mul")
def reassociate(ed, node):
    """(a + b) + c = a + (b + c), where c does not belong to another dtype or a shape computation."""
    if not ed.floating(node.output[0]):
        return None
    for side in (0, 1):
        inner = ed.made_by(node.input[side], node.op_type)
        if inner is not None:
            c, at = Chain(ed), ed.rnd.randrange(2)
            c(node.op_type, inner.input[at], c(node.op_type, inner.input[1 - at], node.input[1 - side]), out=node.output[0])
            return c.nodes
    return None


@edit("add_to_sub", "Add")
def add_to_sub(ed, node):
    if not ed.floating(node.output[0]):
        return None
    c, at = Chain(ed), ed.rnd.randrange(2)
    c("Sub", node.input[at], c("Neg", node.input[1 - at]), out=node.output[0])
    return c.nodes


@edit("sub_to_add", "Sub")
def sub_to_add(ed, node):
    c = Chain(ed)
    minus = c("Neg", node.input[1]) if ed.rnd.random() < 0.5 or not ed.floating(node.output[0]) else c("Mul", node.input[1], ed.const(-1.0, ed.kind(node.output[0])))
    c("Add", *((node.input[0], minus) if ed.rnd.random() < 0.5 else (minus, node.input[0])), out=node.output[0])
    return c.nodes


@edit("sub_swapped", "Sub")
def sub_swapped(ed, node):
    c = Chain(ed)
    c("Neg", c("Sub", node.input[1], node.input[0]), out=node.output[0])
    return c.nodes


@edit("mul_to_div", "Mul")
def mul_to_div(ed, node):
    """By a constant: division by its reciprocal."""
    for side in (1, 0):
        v = ed.scalar(node.input[side])
        if v is not None and 1e-4 < abs(v) < 1e4:
            array = ed.constants[node.input[side]]
            return [helper.make_node("Div", [node.input[1 - side], ed.const((1 / array.astype(np.float64)).astype(array.dtype))], node.output)]
    return None


@edit("div_to_mul", "Div")
def div_to_mul(ed, node):
    if not ed.floating(node.output[0]):
        return None
    c, way = Chain(ed), ed.rnd.randrange(3)
    if way == 0:
        inverse = c("Reciprocal", node.input[1])
    elif way == 1:
        inverse = c("Pow", node.input[1], ed.const(-1.0, ed.kind(node.output[0])))
    else:
        inverse = c("Div", ed.const(1.0, ed.kind(node.output[0])), node.input[1])
    c("Mul", *((node.input[0], inverse) if ed.rnd.random() < 0.5 else (inverse, node.input[0])), out=node.output[0])
    return c.nodes


@edit("root_to_power", "Sqrt")
def root_to_power(ed, node):
    c, kind = Chain(ed), ed.kind(node.output[0])
    if ed.rnd.random() < 0.5:
        c("Pow", node.input[0], ed.const(0.5, kind), out=node.output[0])
    else:
        c("Reciprocal", c("Pow", node.input[0], ed.const(-0.5, kind)), out=node.output[0])
    return c.nodes


@edit("root_of_reciprocal", "Reciprocal")
def root_of_reciprocal(ed, node):
    root = ed.made_by(node.input[0], "Sqrt")
    if root is None:
        return None
    c = Chain(ed)
    c("Sqrt", c("Reciprocal", root.input[0]), out=node.output[0])
    return c.nodes


@edit("power_to_product", "Pow")
def power_to_product(ed, node):
    exponent, x, c = ed.scalar(node.input[1]), node.input[0], Chain(ed)
    if exponent == 2:
        c("Mul", x, x, out=node.output[0])
    elif exponent == 3:
        square = c("Mul", x, x)
        c("Mul", *((square, x) if ed.rnd.random() < 0.5 else (x, square)), out=node.output[0])
    elif exponent == 0.5:
        c("Sqrt", x, out=node.output[0])
    elif exponent == -0.5:
        c("Reciprocal", c("Sqrt", x), out=node.output[0])
    else:
        return None
    return c.nodes


@edit("square_to_power", "Mul")
def square_to_power(ed, node):
    if node.input[0] != node.input[1] or not ed.floating(node.output[0]):
        return None
    return [helper.make_node("Pow", [node.input[0], ed.const(2.0, ed.rnd.choice([ed.kind(node.output[0]), TensorProto.FLOAT]))], node.output)]


@edit("halved_and_doubled", "MatMul")
def halved_and_doubled(ed, node):
    """A factor moved through a product: (2 a) b / 2, on either side."""
    if not ed.floating(node.output[0]):
        return None
    c, kind, side = Chain(ed), ed.kind(node.output[0]), ed.rnd.randrange(2)
    inputs = list(node.input)
    inputs[side] = c("Mul", inputs[side], ed.const(2.0, kind))
    c("Mul", c("MatMul", *inputs), ed.const(0.5, kind), out=node.output[0])
    return c.nodes


@edit("scale_before_product", "Mul", "Div")
def scale_before_product(ed, node):
    """s (a b) = (s a) b, for a number s; or the half of it on both sides."""
    product, s = ed.made_by(node.input[0], "MatMul"), ed.scalar(node.input[1])
    if product is None or s is None or s <= 0:
        return None
    c, kind, way = Chain(ed), ed.kind(node.output[0]), ed.rnd.randrange(3)
    a, b = product.input
    if way == 2:
        half = ed.const(s ** 0.5, kind)
        c("MatMul", c(node.op_type, a, half), c(node.op_type, b, half), out=node.output[0])
    else:
        c("MatMul", *((c(node.op_type, a, node.input[1]), b) if way == 0 else (a, c(node.op_type, b, node.input[1]))), out=node.output[0])
    return c.nodes


@edit("sigmoid_by_hand", "Sigmoid")
def sigmoid_by_hand(ed, node):
    c, kind = Chain(ed), ed.kind(node.output[0])
    one, way = ed.const(1.0, kind), ed.rnd.randrange(3)
    if way == 2:
        c("Add", c("Mul", c("Tanh", c("Mul", node.input[0], ed.const(0.5, kind))), ed.const(0.5, kind)), ed.const(0.5, kind), out=node.output[0])
        return c.nodes
    below = c("Add", c("Exp", c("Neg", node.input[0])), one)
    c(*(("Div", one) if way == 0 else ("Reciprocal",)), below, out=node.output[0])
    return c.nodes


@edit("tanh_by_sigmoid", "Tanh")
def tanh_by_sigmoid(ed, node):
    """tanh x = 2 sigmoid(2x) - 1"""
    c, kind = Chain(ed), ed.kind(node.output[0])
    two = ed.const(2.0, kind)
    c("Sub", c("Mul", c("Sigmoid", c("Mul", node.input[0], two)), two), ed.const(1.0, kind), out=node.output[0])
    return c.nodes


@edit("odd_function", "Erf", "Tanh")
def odd_function(ed, node):
    c = Chain(ed)
    c("Neg", c(node.op_type, c("Neg", node.input[0])), out=node.output[0])
    return c.nodes


@edit("neg_otherwise", "Neg")
def neg_otherwise(ed, node):
    if not ed.floating(node.output[0]):
        return None
    kind = ed.kind(node.output[0])
    if ed.rnd.random() < 0.5:
        return [helper.make_node("Mul", [node.input[0], ed.const(-1.0, kind)], node.output)]
    return [helper.make_node("Sub", [ed.const(0.0, kind), node.input[0]], node.output)]


@edit("relu_otherwise", "Relu")
def relu_otherwise(ed, node):
    zero = ed.const(0.0, ed.kind(node.output[0]))
    return [helper.make_node("Max" if ed.rnd.random() < 0.5 else "Clip", [node.input[0], zero], node.output)]


@edit("split_bias", "Add")
def split_bias(ed, node):
    """x + c = (x + c/2) + c/2"""
    for side in (1, 0):
        array = ed.constants.get(node.input[side])
        if array is not None and array.dtype.kind == "f" and np.isfinite(array).all() and np.abs(array).max(initial=0) < 1e3:
            c, half = Chain(ed), ed.const(array / 2)
            c("Add", c("Add", node.input[1 - side], half), half, out=node.output[0])
            return c.nodes
    return None


@edit("factor_out", "Mul")
def factor_out(ed, node):
    """A constant vector as its negative, and the sign outside."""
    for side in (1, 0):
        array = ed.constants.get(node.input[side])
        if array is not None and array.dtype.kind == "f" and array.size > 1:
            c = Chain(ed)
            c("Neg", c("Mul", node.input[1 - side], ed.const(-array)), out=node.output[0])
            return c.nodes
    return None


@wrap("identity")
def identity(ed, source, value, kind):
    return [helper.make_node("Identity", [source], [value])]


@wrap("dropout")
def dropout(ed, source, value, kind):
    if not ed.floating(value):
        return None
    if ed.opset >= 12:
        return [helper.make_node("Dropout", [source, ed.const(np.float32(0.1))], [value])]
    return [helper.make_node("Dropout", [source], [value], ratio=0.1)]


@wrap("cast_to_itself")
def cast_to_itself(ed, source, value, kind):
    return [helper.make_node("Cast", [source], [value], to=kind)]


@wrap("neutral")
def neutral(ed, source, value, kind):
    """Times 1, by 1, plus 0, minus 0, to the power of 1, twice negated."""
    if not ed.floating(value):
        return None
    way, number = ed.rnd.choice([("Mul", 1.0), ("Div", 1.0), ("Add", 0.0), ("Sub", 0.0), ("Pow", 1.0), ("Neg", None)])
    if way == "Neg":
        middle = ed.name()
        return [helper.make_node("Neg", [source], [middle]), helper.make_node("Neg", [middle], [value])]
    return [helper.make_node(way, [source, ed.const(number, kind)], [value])]


@wrap("through_double")
def through_double(ed, source, value, kind):
    if kind != TensorProto.FLOAT:
        return None
    middle = ed.name()
    return [helper.make_node("Cast", [source], [middle], to=TensorProto.DOUBLE), helper.make_node("Cast", [middle], [value], to=kind)]
