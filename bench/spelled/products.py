"""x W + b for x of [batch, positions, size]."""
import numpy as np


def linear(a, x, weight, bias=None):
    """`weight` [in, out]."""
    way = a.pick("linear", "matmul", "gemm", "gemm_transposed", "einsum", "conv", "transposed", "halves", "flat", "conv2d", "swapped", "einsum_out_in", "batched")
    n, m = weight.shape
    rest = [(x, 0), (x, 1)]
    if way in ("gemm", "gemm_transposed"):
        rows = a.reshape(x, [-1, n])
        w = a.const(weight if way == "gemm" else weight.T)
        y = a.op("Gemm", rows, w, *([a.const(bias)] if bias is not None else [a.const(np.zeros(m))] if a.opset < 11 else []), transB=int(way != "gemm"))
        return a.reshape(y, [*rest, m])
    if way == "conv":
        y = a.op("Conv", a.op("Transpose", x, perm=[0, 2, 1]), a.const(weight.T[:, :, None]), *([a.const(bias)] if bias is not None else []), kernel_shape=[1])
        return a.op("Transpose", y, perm=[0, 2, 1])
    if way == "conv2d":
        wide = a.axes("Unsqueeze", a.op("Transpose", x, perm=[0, 2, 1]), [2])
        y = a.op("Conv", wide, a.const(weight.T[:, :, None, None]), *([a.const(bias)] if bias is not None else []), kernel_shape=[1, 1])
        return a.op("Transpose", a.axes("Squeeze", y, [2]), perm=[0, 2, 1])
    if way == "einsum" and a.opset >= 12:
        y = a.op("Einsum", x, a.const(weight), equation="abc,cd->abd")
    elif way == "einsum_out_in" and a.opset >= 12:
        y = a.op("Einsum", a.const(weight.T), x, equation="oi,bsi->bso")
    elif way == "transposed":
        y = a.op("MatMul", x, a.op("Transpose", a.const(weight.T), perm=[1, 0]))
    elif way == "halves":
        y = a.op("Concat", a.op("MatMul", x, a.const(weight[:, :m // 2])), a.op("MatMul", x, a.const(weight[:, m // 2:])), axis=2)
    elif way == "flat":
        y = a.reshape(a.op("MatMul", a.reshape(x, [-1, n]), a.const(weight)), [*rest, m])
    elif way == "swapped":
        y = a.op("Transpose", a.op("MatMul", a.const(weight.T), a.op("Transpose", x, perm=[0, 2, 1])), perm=[0, 2, 1])
    elif way == "batched":
        y = a.op("MatMul", x, a.const(weight[None]))
    else:
        y = a.op("MatMul", x, a.const(weight))
    if bias is None:
        return y
    shape = a.pick("bias", (m,), (1, m), (1, 1, m))
    return a.add(y, a.const(bias.reshape(shape)))
