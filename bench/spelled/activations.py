"""GELU, its approximations, SiLU, and gates."""
import math

from onnx import TensorProto


def phi(a, x):
    """1 + erf(x / sqrt 2)"""
    way = a.pick("erf", "plain", "odd", "complement", "minus_minus")
    u = a.times(x, math.sqrt(0.5))
    if way == "odd":
        return a.op("Sub", a.number(1.0), a.op("Erf", a.op("Neg", u)))
    if way == "complement":
        return a.op("Sub", a.number(2.0), a.op("Sub", a.number(1.0), a.op("Erf", u)))
    if way == "minus_minus":
        return a.op("Sub", a.op("Erf", u), a.number(-1.0))
    return a.add(a.op("Erf", u), a.number(1.0))


def gelu(a, x):
    way = a.pick("gelu", "product", "halves", "half_inside", "operator")
    if way == "operator" and a.opset >= 20:
        return a.op("Gelu", x)
    if way == "halves":
        half = a.times(x, 0.5)
        return a.add(half, a.mul(half, a.op("Erf", a.times(x, math.sqrt(0.5)))))
    if way == "half_inside":
        return a.mul(x, a.add(a.times(a.op("Erf", a.times(x, math.sqrt(0.5))), 0.5), a.number(0.5)))
    return a.product(x, 0.5, phi(a, x))


def tanh(a, u):
    way = a.pick("tanh", "operator", "sigmoid", "quotient", "exp", "odd", "sinh")
    if way == "sigmoid":
        return a.op("Sub", a.times(a.op("Sigmoid", a.times(u, 2.0)), 2.0), a.number(1.0))
    if way == "quotient":
        e = a.op("Exp", a.times(u, 2.0))
        return a.op("Div", a.op("Sub", e, a.number(1.0)), a.add(e, a.number(1.0)))
    if way == "exp":
        e = a.op("Exp", a.times(u, 2.0))
        return a.op("Sub", a.number(1.0), a.op("Div", a.number(2.0), a.add(e, a.number(1.0))))
    if way == "odd":
        return a.op("Neg", a.op("Tanh", a.op("Neg", u)))
    if way == "sinh":
        p, n = a.op("Exp", u), a.op("Exp", a.op("Neg", u))
        return a.op("Div", a.op("Sub", p, n), a.op("Add", p, n))
    return a.op("Tanh", u)


def cube(a, x):
    way = a.pick("cube", "pow", "left", "right")
    if way == "pow":
        return a.op("Pow", x, a.number(3.0))
    square = a.op("Mul", x, x) if a.coin("square") else a.op("Pow", x, a.number(2.0))
    return a.op("Mul", *((square, x) if way == "left" else (x, square)))


def inner(a, x):
    """sqrt(2 / pi) (x + 0.044715 x^3)"""
    c, k = math.sqrt(2 / math.pi), 0.044715
    way = a.pick("polynomial", "outside", "inside", "factored", "scaled_factored", "horner")
    if way == "inside":
        return a.add(a.times(x, c), a.times(cube(a, x), c * k))
    if way == "factored":
        return a.product(x, c, a.add(a.number(1.0), a.times(a.op("Mul", x, x), k)))
    if way == "scaled_factored":
        return a.mul(x, a.add(a.times(a.op("Pow", x, a.number(2.0)), c * k), a.number(c)))
    if way == "horner":
        return a.product(x, c, a.add(a.mul(a.times(x, k), x), a.number(1.0)))
    return a.times(a.add(x, a.times(cube(a, x), k)), c)


def gelu_tanh(a, x):
    way = a.pick("gelu_tanh", "product", "sigmoid", "halves", "half_inside")
    u = inner(a, x)
    if way == "sigmoid":
        return a.mul(x, sigmoid(a, a.times(u, 2.0)))
    if way == "halves":
        half = a.times(x, 0.5)
        return a.add(half, a.mul(half, tanh(a, u)))
    if way == "half_inside":
        return a.mul(x, a.add(a.times(tanh(a, u), 0.5), a.number(0.5)))
    return a.product(x, 0.5, a.add(tanh(a, u), a.number(1.0)))


def sigmoid(a, x):
    way = a.pick("sigmoid", "operator", "quotient", "reciprocal", "growing", "tanh", "other_side", "softplus")
    one = a.number(1.0)
    if way == "quotient":
        return a.op("Div", one, a.add(one, a.op("Exp", a.op("Neg", x))))
    if way == "reciprocal":
        return a.op("Reciprocal", a.add(a.op("Exp", a.times(x, -1.0)), one))
    if way == "growing":
        e = a.op("Exp", x)
        return a.op("Div", e, a.add(e, one))
    if way == "tanh":
        return a.times(a.add(a.op("Tanh", a.times(x, 0.5)), one), 0.5)
    if way == "other_side":
        return a.op("Sub", one, a.op("Sigmoid", a.op("Neg", x)))
    if way == "softplus":
        return a.op("Exp", a.op("Neg", a.op("Softplus", a.op("Neg", x))))
    return a.op("Sigmoid", x)


def silu(a, x):
    way = a.pick("silu", "product", "quotient", "growing", "tanh", "halves")
    one = a.number(1.0)
    if way == "quotient":
        return a.op("Div", x, a.add(one, a.op("Exp", a.op("Neg", x))))
    if way == "growing":
        e = a.op("Exp", x)
        return a.op("Div", a.mul(x, e), a.add(e, one))
    if way == "tanh":
        return a.product(x, 0.5, a.add(one, tanh(a, a.times(x, 0.5))))
    if way == "halves":
        h = a.times(x, 0.5)
        return a.add(h, a.mul(h, a.op("Tanh", h)))
    return a.mul(x, sigmoid(a, x))


def quick_gelu(a, x):
    return a.mul(x, sigmoid(a, a.times(x, 1.702)))


KINDS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu, "quick_gelu": quick_gelu}


def activation(a, x, kind):
    """Of [batch, positions, size]; perhaps on a view of it, or in double precision."""
    around = a.pick("around", "plain", "transposed", "flat", "double", "unsqueezed")
    before = x
    if around == "transposed":
        x = a.op("Transpose", x, perm=[1, 2, 0])
    elif around == "flat":
        x = a.reshape(x, [1, -1])
    elif around == "double":
        x = a.op("Cast", a.op("Cast", x, to=TensorProto.DOUBLE), to=TensorProto.FLOAT)
    elif around == "unsqueezed":
        x = a.axes("Unsqueeze", x, [0])
    y = KINDS[kind](a, x)
    if around == "transposed":
        y = a.op("Transpose", y, perm=[2, 0, 1])
    elif around == "flat":
        y = a.op("Reshape", y, a.op("Shape", before))
    elif around == "unsqueezed":
        y = a.axes("Squeeze", y, [0])
    return y
