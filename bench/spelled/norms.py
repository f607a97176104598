"""LayerNormalization and RMSNormalization of [batch, positions, size] over the last dim."""
import numpy as np
from onnx import TensorProto

EPSILON = 1e-3


def mean(a, x, size):
    way = a.pick("mean", "reduce", "sum_div", "sum_mul", "matmul", "unsqueezed", "global_pool", "pool", "einsum", "counted", "transposed")
    if way == "sum_div":
        return a.op("Div", a.axes("ReduceSum", x, [-1], keepdims=1), a.number(float(size)))
    if way == "sum_mul":
        return a.times(a.axes("ReduceSum", x, [2], keepdims=1), 1 / size)
    if way == "matmul":
        return a.op("MatMul", x, a.const(np.full((size, 1), 1 / size)))
    if way == "unsqueezed":
        return a.axes("Unsqueeze", a.axes("ReduceMean", x, [-1], keepdims=0), [2])
    if way == "global_pool":
        return a.op("GlobalAveragePool", x)
    if way == "pool":
        return a.op("AveragePool", x, kernel_shape=[size])
    if way == "einsum" and a.opset >= 12:
        return a.axes("Unsqueeze", a.op("Einsum", x, a.const(np.full(size, 1 / size)), equation="bsc,c->bs"), [-1])
    if way == "counted":
        count = a.op("Cast", a.dim(x, 2), to=TensorProto.FLOAT)
        return a.op("Div", a.axes("ReduceSum", x, [-1], keepdims=1), count)
    if way == "transposed":
        return a.op("Transpose", a.axes("ReduceMean", a.op("Transpose", x, perm=[0, 2, 1]), [1], keepdims=1), perm=[0, 2, 1])
    return a.axes("ReduceMean", x, [-1], keepdims=1)


def square(a, x):
    way = a.pick("square", "pow", "mul", "abs", "neg", "int_power")
    if way == "mul":
        return a.op("Mul", x, x)
    if way == "abs":
        m = a.op("Abs", x)
        return a.op("Mul", m, m)
    if way == "neg":
        return a.op("Neg", a.op("Mul", x, a.op("Neg", x)))
    if way == "int_power":
        return a.op("Pow", x, a.ints(2)) if a.opset >= 12 else a.op("Pow", x, a.number(2.0))
    return a.op("Pow", x, a.number(2.0))


def mean_of_squares(a, x, size):
    way = a.pick("mean_of_squares", "mean", "sum_square", "l2", "einsum", "matmul")
    if way == "sum_square":
        return a.op("Div", a.axes("ReduceSumSquare", x, [-1], keepdims=1), a.number(float(size)))
    if way == "l2":
        n = a.axes("ReduceL2", x, [-1], keepdims=1)
        return a.times(a.op("Mul", n, n), 1 / size)
    if way == "einsum" and a.opset >= 12:
        return a.times(a.axes("Unsqueeze", a.op("Einsum", x, x, equation="bsc,bsc->bs"), [2]), 1 / size)
    if way == "matmul":
        row, column = a.axes("Unsqueeze", x, [2]), a.axes("Unsqueeze", x, [3])
        return a.times(a.axes("Squeeze", a.op("MatMul", row, column), [3]), 1 / size)
    return mean(a, square(a, x), size)


def inverse_root(a, v):
    """(what to do with it, value): a value to divide by, or to multiply with."""
    way = a.pick("root", "div_sqrt", "reciprocal", "pow", "one_over", "pow_half", "exp_log", "sqrt_of_reciprocal", "sqrt_of_quotient", "div_pow")
    if way == "reciprocal":
        return "Mul", a.op("Reciprocal", a.op("Sqrt", v))
    if way == "pow":
        return "Mul", a.op("Pow", v, a.number(-0.5))
    if way == "one_over":
        return "Mul", a.op("Div", a.number(1.0), a.op("Sqrt", v))
    if way == "pow_half":
        return "Div", a.op("Pow", v, a.number(0.5))
    if way == "exp_log":
        return "Mul", a.op("Exp", a.times(a.op("Log", v), -0.5))
    if way == "sqrt_of_reciprocal":
        return "Mul", a.op("Sqrt", a.op("Reciprocal", v))
    if way == "sqrt_of_quotient":
        return "Mul", a.op("Sqrt", a.op("Div", a.number(1.0), v))
    if way == "div_pow":
        return "Mul", a.op("Reciprocal", a.op("Pow", v, a.number(0.5)))
    return "Div", a.op("Sqrt", v)


def epsilon(a, v):
    way = a.pick("epsilon", "add", "minus_minus", "vector")
    if way == "minus_minus":
        return a.op("Sub", v, a.number(-EPSILON))
    if way == "vector":
        return a.op("Add", v, a.const(np.full((1, 1, 1), EPSILON)))
    return a.add(v, a.number(EPSILON))


def scaled(a, x, how, root, gain, size):
    """x root gain, in one of its orders."""
    way = a.pick("gain", "last", "first", "on_root", "one_plus", "rank3", "expanded", "split", "matmul")
    g = lambda array: a.const(array)
    if way == "first":
        return a.op(how, a.mul(x, g(gain)), root)
    if way == "on_root":
        return a.mul(x, a.mul(root, g(gain)) if how == "Mul" else a.op("Div", g(gain), root))
    y = a.op("Mul", *((x, root) if a.coin("root_right") else (root, x))) if how == "Mul" else a.op("Div", x, root)
    if way == "one_plus":
        return a.mul(y, a.add(g(gain - 1), a.number(1.0)))
    if way == "rank3":
        return a.mul(y, g(gain.reshape(1, 1, size)))
    if way == "expanded":
        return a.op("Mul", y, a.op("Expand", g(gain), a.op("Shape", x)))
    if way == "split":
        return a.op("Add", y, a.mul(y, g(gain - 1)))
    if way == "matmul":
        return a.op("MatMul", y, g(np.diag(gain)))
    return a.mul(y, g(gain))


def biased(a, y, bias, size):
    way = a.pick("shift", "add", "sub", "rank3", "expanded", "halves")
    if way == "sub":
        return a.op("Sub", y, a.const(-bias))
    if way == "rank3":
        return a.add(a.const(bias.reshape(1, 1, size)), y)
    if way == "expanded":
        return a.op("Add", y, a.op("Expand", a.const(bias.reshape(1, 1, size)), a.op("Shape", y)))
    if way == "halves":
        half = a.const(bias / 2)
        return a.op("Add", a.op("Add", y, half), half)
    return a.add(y, a.const(bias))


def by_operator(a, x, gain, bias, size, way):
    """LayerNormalization by the operators that normalize channels."""
    if way == "operator" and a.opset >= 17:
        return a.op("LayerNormalization", x, a.const(gain), a.const(bias), axis=-1, epsilon=EPSILON)
    if way == "group" and a.opset >= 18:
        rows = a.reshape(x, [-1, size])
        y = a.op("GroupNormalization", a.axes("Unsqueeze", rows, [2]), *map(a.const, (np.ones(1), np.zeros(1)) if a.opset < 21 else (np.ones(size), np.zeros(size))), num_groups=1, epsilon=EPSILON)
        y = a.op("Reshape", y, a.op("Shape", x))
    elif way == "instance_flat":
        y = a.op("InstanceNormalization", a.reshape(x, [-1, 1, size]), a.const(np.ones(1)), a.const(np.zeros(1)), epsilon=EPSILON)
        y = a.op("Reshape", y, a.op("Shape", x))
    elif way == "instance_row":
        rows = a.axes("Unsqueeze", a.reshape(x, [-1, size]), [0])
        ones, zeros = (a.op("Expand", a.const([v]), a.dim(rows, 1)) for v in (1.0, 0.0))
        y = a.op("Reshape", a.op("InstanceNormalization", rows, ones, zeros, epsilon=EPSILON), a.op("Shape", x))
    else:
        return None
    return a.add(a.mul(y, a.const(gain)), a.const(bias))


def layer_norm(a, x, size):
    gain, bias = 1 + a.random(size, scale=0.3), a.random(size, scale=0.3)
    way = a.pick("layer_norm", "apart", "moments", "operator", "group", "instance_flat", "instance_row", "keras", "two_means", "product_of_differences", "double")
    if (y := by_operator(a, x, gain, bias, size, way)) is not None:
        return y
    if way == "double":
        x = a.op("Cast", x, to=TensorProto.DOUBLE)
        m = a.axes("ReduceMean", x, [-1], keepdims=1)
        d = a.op("Sub", x, m)
        v = a.axes("ReduceMean", a.op("Mul", d, d), [-1], keepdims=1)
        y = a.op("Div", d, a.op("Sqrt", a.op("Add", v, a.initializer(np.float64(EPSILON)))))
        return biased(a, a.mul(a.op("Cast", y, to=TensorProto.FLOAT), a.const(gain)), bias, size)
    m = mean(a, x, size)
    d = a.op("Sub", x, m) if a.pick("centre", "sub", "add") == "sub" else a.op("Add", a.op("Neg", m), x)
    if way == "moments":
        v = a.op("Sub", mean(a, square(a, x), size), square(a, m))
    elif way == "product_of_differences":
        v = mean(a, a.op("Mul", a.op("Sub", x, m), a.op("Sub", m, x)), size)
        v = a.op("Neg", v)
    elif way == "two_means":
        v = mean_of_squares(a, a.op("Sub", x, mean(a, x, size)), size)
    else:
        v = mean_of_squares(a, d, size)
    how, root = inverse_root(a, epsilon(a, v))
    if way == "keras":
        i = a.mul(root, a.const(gain)) if how == "Mul" else a.op("Div", a.const(gain), root)
        return a.op("Add", a.op("Mul", x, i), a.op("Sub", a.const(bias), a.op("Mul", m, i)))
    return biased(a, scaled(a, d, how, root, gain, size), bias, size)


def rms_norm(a, x, size):
    gain = 1 + a.random(size, scale=0.3)
    way = a.pick("rms_norm", "apart", "operator", "double", "l2_scaled", "float_of_product")
    if way == "operator" and a.opset >= 23:
        return a.op("RMSNormalization", x, a.const(gain), axis=-1, epsilon=EPSILON)
    if way == "double":
        wide = a.op("Cast", x, to=TensorProto.DOUBLE)
        v = a.axes("ReduceMean", a.op("Mul", wide, wide), [-1], keepdims=1)
        y = a.op("Mul", wide, a.op("Reciprocal", a.op("Sqrt", a.op("Add", v, a.initializer(np.float64(EPSILON))))))
        return a.mul(a.op("Cast", y, to=TensorProto.FLOAT), a.const(gain))
    if way == "l2_scaled":  # x sqrt(n) / |x|, without an epsilon
        length = a.axes("ReduceL2", x, [-1], keepdims=1) if a.pick("norm", "l2", "sqrt") == "l2" else a.op("Sqrt", a.axes("ReduceSumSquare", x, [2], keepdims=1))
        y = a.op("Div", x, length)
        return a.mul(a.times(y, size ** 0.5), a.const(gain))
    how, root = inverse_root(a, epsilon(a, mean_of_squares(a, x, size)))
    return scaled(a, x, how, root, gain, size)
