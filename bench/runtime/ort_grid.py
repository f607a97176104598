"""The cases of bench/runtime/gather_ort.py: operators over a grid of sizes of transformers, decoding steps and convolutional networks."""
import math

import numpy as np
from onnx import TensorProto

MS = "com.microsoft"
NCHWC = "com.microsoft.nchwc"  # ONNX Runtime's own layout, in which it runs convolutions and what is between them at ENABLE_ALL
FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL


class Case:
    """A node: inputs are (shape, how they are filled); `weights` are the positions of inputs that a model has as constants."""

    def __init__(self, op, inputs, attrs=None, weights=(), outputs=1, domain="", opset=23, from_model=False, without=None, nhwc=False):
        self.from_model, self.without = from_model, without  # `without`: a case timed in turns with this one, of which the rest is asked: a Gemm's bias
        self.nhwc = nhwc  # channels last, as ONNX Runtime lays integer convolutions out; the row tells the shapes as ONNX has them
        self.op, self.domain, self.attrs, self.weights, self.outputs, self.opset = op, domain, attrs or {}, weights, outputs, opset
        self.inputs = [i if i is None or isinstance(i, (tuple, np.ndarray)) else tuple(i) for i in inputs]

    def name(self):
        if self.without:
            return f"{self.op}/bias"
        if self.nhwc and self.op == "QLinearConv":
            return self.op
        return f"{self.domain}::{self.op}" if self.domain not in ("", NCHWC) else self.op


SEQUENCES = (1, 16, 128, 512)
UNARY = ("Sqrt", "Tanh", "Erf", "Sigmoid", "Exp", "Neg", "Reciprocal", "Relu", "Gelu", "Cos", "Sin", "Softplus", "HardSigmoid", "HardSwish", "LeakyRelu")
MORE_ROWS = (1, 4, 16, 64, 128, 256, 512)


def elementwise():
    for rows, widths in ((1, (64, 256, 768, 3072, 11008)), (16, (64, 256, 768, 3072)), (50, (64, 256, 1024)), (128, (64, 256, 768, 3072)), (512, (64, 768, 3072))):
        for width in widths:
            x, w = (1, rows, width), (width,)
            for op in UNARY:
                if width in (64, 768) or op in ("Tanh", "Erf", "Gelu", "Sigmoid", "Neg"):
                    yield Case(op, [x])
            yield Case("Gelu", [x], {"approximate": "tanh"})
            yield Case("Gelu", [x], domain=MS)
            yield Case("QuickGelu", [x], {"alpha": 1.702}, domain=MS)
            yield Case("QuickGelu", [x], {"alpha": 1.0}, domain=MS)
            yield Case("FastGelu", [x], domain=MS)
            yield Case("FastGelu", [x, w], weights=(1,), domain=MS)
            yield Case("BiasGelu", [x, w], weights=(1,), domain=MS)
            for op in ("Add", "Mul", "Sub", "Div"):
                yield Case(op, [x, x])
                yield Case(op, [x, (1,)], weights=(1,))
                if op in ("Add", "Mul") or width == 768:
                    yield Case(op, [x, w], weights=(1,))
                if op in ("Mul", "Sub", "Div") or width == 768:
                    yield Case(op, [x, (1, rows, 1)])
            yield Case("Sum", [x, x])
            yield Case("Sum", [x, x, x])
            yield Case("Sum", [x, x, w], weights=(2,))
            yield Case("Pow", [x, np.array(2.0, np.float32)], weights=(1,))
            if width in (64, 768, 3072):
                yield Case("Pow", [x, np.array(3.0, np.float32)], weights=(1,))
                yield Case("Max", [x, (1,)], weights=(1,))
                yield Case("Min", [x, (1,)], weights=(1,))
                yield Case("Clip", [x, np.array(0.0, np.float32), np.array(6.0, np.float32)], weights=(1, 2))


def norms():
    for rows in (1, 16, 50, 128, 512):
        for width in (64, 128, 256, 768, 2048):
            x, w, axes = (1, rows, width), (width,), np.array([-1], np.int64)
            yield Case("LayerNormalization", [x, w, w], {"epsilon": 1e-5}, weights=(1, 2))
            yield Case("RMSNormalization", [x, w], {"epsilon": 1e-5}, weights=(1,))
            yield Case("SimplifiedLayerNormalization", [x, w], {"epsilon": 1e-5, "axis": -1, "stash_type": 1}, weights=(1,), opset=17)
            yield Case("SkipLayerNormalization", [x, x, w, w], {"epsilon": 1e-5}, weights=(2, 3), domain=MS)
            yield Case("SkipLayerNormalization", [x, x, w, w, w], {"epsilon": 1e-5}, weights=(2, 3, 4), outputs=4, domain=MS)
            yield Case("SkipSimplifiedLayerNormalization", [x, x, w], {"epsilon": 1e-5}, weights=(2,), domain=MS)
            yield Case("SkipSimplifiedLayerNormalization", [x, x, w], {"epsilon": 1e-5}, weights=(2,), outputs=4, domain=MS)
            yield Case("ReduceMean", [x, axes], {"keepdims": 1}, weights=(1,))
            if width in (64, 768):
                for op in ("ReduceSum", "ReduceMax", "ReduceL2"):
                    yield Case(op, [x, axes], {"keepdims": 1}, weights=(1,))


def scores():
    for heads in (4, 12):
        for rows in SEQUENCES:
            for keys in sorted({rows, 16, 128, 512}):
                if heads == 4 and keys == 512 and rows == 512:
                    continue
                x, mask = (1, heads, rows, keys), (1, 1, rows, keys)
                yield Case("Softmax", [x], {"axis": -1})
                yield Case("Add", [x, mask])
                yield Case("Mul", [x, (1,)], weights=(1,))
                yield Case("Where", [np.ones(mask, bool), x, np.zeros((1,), np.float32)])
                if heads == 12:
                    yield Case("Add", [x, x])
                    yield Case("Div", [x, (1,)], weights=(1,))
                    yield Case("IsNaN", [x])
                    yield Case("Where", [np.zeros(x, bool), np.zeros((1,), np.float32), x], weights=(1,))
                    yield Case("Softmax", [(heads * rows, keys)], {"axis": -1})


def movement():
    for rows in MORE_ROWS:
        for heads, size in ((4, 16), (4, 64), (12, 64)):
            x, split, joined = (1, rows, heads * size), (1, rows, heads, size), (1, heads, rows, size)
            yield Case("Transpose", [split], {"perm": [0, 2, 1, 3]})
            yield Case("Transpose", [joined], {"perm": [0, 2, 1, 3]})
            yield Case("Transpose", [joined], {"perm": [0, 1, 3, 2]})
            yield Case("Transpose", [split], {"perm": [0, 2, 3, 1]})
            yield Case("Transpose", [x], {"perm": [0, 2, 1]})
            yield Case("Neg", [(1, heads, rows, size // 2)])
            yield Case("Concat", [(1, heads, rows, size // 2), (1, heads, rows, size // 2)], {"axis": 3})
            yield Case("Split", [(1, rows, 3 * heads * size), np.array([heads * size] * 3, np.int64)], {"axis": 2}, weights=(1,), outputs=3)
            yield Case("Split", [joined, np.array([size // 2] * 2, np.int64)], {"axis": 3}, weights=(1,), outputs=2)
            yield Case("Slice", [joined, *[np.array([v], np.int64) for v in (size // 2, size, 3, 1)]], weights=(1, 2, 3, 4))
            yield Case("Slice", [joined, *[np.array([v], np.int64) for v in (0, size // 2, 3, 1)]], weights=(1, 2, 3, 4))
            yield Case("Mul", [joined, (1, 1, rows, size)])
            yield Case("Gather", [(3, 1, heads, rows, size), np.array(1, np.int64)], {"axis": 0}, weights=(1,))
            table = (512, size // 2)
            yield Case("RotaryEmbedding", [joined, np.arange(rows, dtype=np.int64)[None], table, table], weights=(2, 3), domain=MS)
            yield Case("RotaryEmbedding", [joined, (1, rows, size // 2), (1, rows, size // 2)])
            if rows in SEQUENCES:
                yield Case("Gather", [(30522, heads * size), np.zeros((1, rows), np.int64)], {"axis": 0}, weights=(0,))
                yield Case("Tile", [(1, 1, heads * size), np.array([1, rows, 1], np.int64)], weights=(1,))
        yield Case("Cast", [np.zeros((1, rows), np.int64)], {"to": FLOAT})
        yield Case("Cast", [np.zeros((1, 1, rows, rows), bool)], {"to": FLOAT})
    for heads in (2, 4, 12):
        for past in (15, 127, 511, 1023):
            yield Case("Concat", [(1, heads, past, 64), (1, heads, 1, 64)], {"axis": 2})
            if heads != 12:
                yield Case("Expand", [(1, heads, 1, past + 1, 64), np.array([1, heads, 3, past + 1, 64], np.int64)], weights=(1,))
                yield Case("Gather", [(1, heads, past + 1, 64), np.repeat(np.arange(heads, dtype=np.int64), 3)], {"axis": 1}, weights=(1,))
            yield Case("Transpose", [(1, heads, past + 1, 64)], {"perm": [0, 1, 3, 2]})
    for dim in (14, 56):
        yield Case("Transpose", [(1, dim, dim, 96)], {"perm": [0, 3, 1, 2]})
        yield Case("Transpose", [(1, 96, dim, dim)], {"perm": [0, 2, 3, 1]})
        yield Case("Transpose", [(1, dim // 7, 7, dim // 7, 7, 96)], {"perm": [0, 1, 3, 2, 4, 5]})
        for channels in (16, 96, 384):  # no matrices are transposed: ONNX Runtime counts axes of one element
            yield Case("Transpose", [(dim, 1, dim, channels)], {"perm": [1, 3, 0, 2]})
            yield Case("Transpose", [(1, channels, dim, dim)], {"perm": [0, 3, 2, 1]})
        for channels in (16, 96, 384):
            yield Case("Pad", [(1, channels, dim, dim), np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)], weights=(1,))
    x = (1, 16, 768)
    yield Case("Reshape", [x, np.array(x, np.int64)], weights=(1,))
    yield Case("Unsqueeze", [x, np.array([1], np.int64)], weights=(1,))
    yield Case("Squeeze", [(1, 1, 16, 768), np.array([1], np.int64)], weights=(1,))
    yield Case("Flatten", [(16, 768)])
    yield Case("Identity", [x])
    yield Case("Shape", [x])
    for n in (1, 4):
        yield Case("Gather", [np.arange(4, dtype=np.int64), np.zeros(() if n == 1 else n, np.int64)], {"axis": 0}, weights=(1,))
        yield Case("Concat", [np.ones(n, np.int64), np.ones(1, np.int64)], {"axis": 0})
        yield Case("Slice", [np.arange(4, dtype=np.int64), *[np.array([v], np.int64) for v in (0, n, 0, 1)]], weights=(1, 2, 3, 4))
    yield Case("Unsqueeze", [np.array(3, np.int64), np.array([0], np.int64)], weights=(1,))
    for op in ("Add", "Sub", "Mul", "Equal", "Less"):
        yield Case(op, [np.array(3, np.int64), np.array(5, np.int64)], weights=(1,))
        yield Case(op, [np.arange(128, dtype=np.int64)[None], np.array([5], np.int64)], weights=(1,))
    for op in ("And", "Or"):
        for n in (1, 32, 128):
            yield Case(op, [np.ones((1, 1, n, 128), bool), np.ones((1, 1, 1, 128), bool)])
            yield Case(op, [np.ones((1, 1, n, 1), bool), np.ones((1, 1, 1, n), bool)])
    for n in (1, 32, 128):
        yield Case("Not", [np.ones((1, 1, n, 128), bool)])
        yield Case("GatherND", [np.ones((1, n), bool), np.zeros((1, 1, n, n, 2), np.int64)])
        yield Case("Cast", [np.zeros((1, 1, n, n), np.int64)], {"to": BOOL})
        yield Case("Less", [np.arange(n, dtype=np.int64)[None, None, None], np.arange(n, dtype=np.int64)[None, None, :, None]])
        yield Case("Range", [np.array(v, np.int64) for v in (0, n, 1)], weights=(0, 2))
        yield Case("ConstantOfShape", [np.array([1, n], np.int64)])
    yield Case("LessOrEqual", [np.arange(128, dtype=np.int64)[None, None, None], np.arange(128, dtype=np.int64)[None, None, :, None]])


def masks():
    """Positions and truth values, of which models make masks and buckets of distances."""
    for n in (1, 16, 72, 200, 512):
        row, column, square, truth = np.arange(n)[None], np.arange(n)[:, None], np.arange(n * n).reshape(n, n), np.ones((n, n), bool)
        for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
            yield Case(op, [row[None, None], column[None, None]])
            yield Case(op, [square, np.array(5)], weights=(1,))
        for op in ("Add", "Sub", "Mul", "Min", "Max"):
            yield Case(op, [square, square])
            yield Case(op, [square, np.array(5)], weights=(1,))
            yield Case(op, [row, column])
        for op in ("Abs", "Neg"):
            yield Case(op, [square])
        for op in ("And", "Or"):
            yield Case(op, [truth, truth])
        yield Case("Where", [truth, square, square])
        yield Case("Where", [truth, (n, n), np.array(0, np.float32)], weights=(2,))
        yield Case("Cast", [square], {"to": FLOAT})
        yield Case("Cast", [(n, n)], {"to": TensorProto.INT64})
        yield Case("Cast", [truth], {"to": TensorProto.INT64})
        yield Case("Log", [(n, n)])
        yield Case("Gather", [(32, 6), np.zeros((n, n), np.int64)], weights=(0,))
        yield Case("Concat", [np.zeros((1, 1, n, n, 1), np.int64)] * 2, {"axis": 4})
        yield Case("Expand", [row[None, None], np.array([1, 1, n, n])], weights=(1,))
        yield Case("Expand", [column[None, None], np.array([1, 1, n, n])], weights=(1,))
        yield Case("Expand", [row[None, None], np.array([1, 1, 1, n])], weights=(1,))


def biases():
    """What a Gemm takes beyond the product without bias: it writes the bias to all rows first, and adds the product to it."""
    for rows in (1, 4, 16, 50, 128, 256, 512, 1024, 2048, 4096):
        for columns in (64, 192, 384, 768, 1536, 3072):
            if rows * columns > 4096 * 384:
                continue
            x, w = (rows, 64), (64, columns)
            yield Case("Gemm", [x, w, (columns,)], weights=(1, 2), without=Case("MatMul", [x, w], weights=(1,)))
            if columns in (192, 768):
                yield Case("Gemm", [x, w, (rows, columns)], weights=(1,), without=Case("MatMul", [x, w], weights=(1,)))


def tiny():
    """Operators on a few numbers, of which a model has dozens: what a call takes."""
    for n in (1, 16, 128, 512):
        row = (1, 1, 1, n)
        for dtype in (np.float32, np.int64, bool):
            one, full = np.ones((), dtype), np.ones(row, dtype)
            yield Case("Expand", [one, np.array(row, np.int64)], weights=(1,))
            yield Case("Expand", [one, np.array((1, 1, n, n), np.int64)], weights=(1,))
            yield Case("Expand", [full, np.array(row, np.int64)], weights=(1,))
            yield Case("Where", [np.ones(row, bool), one, one], weights=(1, 2))
            yield Case("Concat", [full, full], {"axis": 2})
        yield Case("And", [np.ones(row, bool), np.ones((), bool)])
        yield Case("Or", [np.ones(row, bool), np.ones((), bool)])
        for op in ("Add", "Sub", "Mul", "Div"):
            yield Case(op, [np.ones(row, np.int64), np.ones((), np.int64)])
            yield Case(op, [np.ones(row, np.float32), np.ones((), np.float32)])
        for op in ("GreaterOrEqual", "Less", "Equal"):
            yield Case(op, [np.ones(row, np.int64), np.ones((), np.int64)])
        yield Case("Cast", [np.ones((1, n), np.int64)], {"to": BOOL})
        yield Case("Neg", [(1, 4, 1, 16 * n)])
        for heads in (2, 8):
            yield Case("Transpose", [(1, heads, 1, n)], {"perm": [0, 2, 1, 3]})


def turned_products():
    """Products of which the first operand is turned, and those that do without: what a Conv of one point becomes, and scores over channels."""
    for inner, out, places in ((512, 1536, 256), (256, 768, 256), (128, 384, 784), (64, 192, 3136), (384, 1152, 196), (768, 2304, 49), (96, 96, 3136), (192, 768, 196), (64, 64, 784), (32, 128, 196)):
        x = (1, inner, places)
        yield Case("MatMul", [(out, inner), x], weights=(0,))
        yield Case("FusedMatMul", [(inner, out), x], {"transA": 1}, weights=(0,), domain=MS)
        yield Case("FusedMatMul", [x, (inner, out)], {"transA": 1}, weights=(1,), domain=MS)
    for heads, inner, rows, columns in ((4, 64, 128, 128), (12, 64, 16, 128), (8, 32, 256, 256), (3, 196, 64, 64)):
        yield Case("FusedMatMul", [(1, heads, inner, rows), (1, heads, inner, columns)], {"transA": 1}, domain=MS)


def products():
    sizes = ((64, 64), (64, 256), (256, 64), (128, 384), (256, 256), (256, 1024), (1024, 256), (384, 1536), (768, 768), (768, 2304), (768, 3072), (3072, 768), (2048, 2048))
    for rows in (1, 4, 16, 50, 128, 512):
        for k, n in sizes:
            if rows * k * n > 512 * 768 * 3072:
                continue
            yield Case("MatMul", [(1, rows, k), (k, n)], weights=(1,))
            if (k, n) in ((64, 256), (256, 256), (768, 768), (768, 3072), (3072, 768)):
                yield Case("MatMul", [(rows, k), (k, n)], weights=(1,))
                yield Case("FusedMatMul", [(1, rows, k), (k, n)], {"alpha": 0.125}, weights=(1,), domain=MS)
                yield Case("FusedMatMul", [(1, rows, k), (n, k)], {"transB": 1}, weights=(1,), domain=MS)
    for k, n in ((192, 192), (192, 768), (768, 192), (384, 384), (320, 640), (512, 1024), (1024, 1024), (1536, 384), (2048, 768), (640, 1920), (1152, 48)):
        for rows in (1, 8, 32, 64):
            yield Case("MatMul", [(1, rows, k), (k, n)], weights=(1,))
    for k, n in ((64, 1), (256, 1), (512, 2), (512, 8)):  # few columns, of many rows
        for rows in (1, 64, 1024, 8192):
            yield Case("MatMul", [(1, rows, k), (k, n)], weights=(1,))
    for rows in (1024, 8192):
        yield Case("DynamicQuantizeLinear", [(1, rows, 512)], outputs=3)
    for k, n in ((256, 32000), (768, 30522)):
        yield Case("MatMul", [(1, 1, k), (k, n)], weights=(1,))
    for heads, size in ((4, 16), (4, 64), (12, 64)):
        for rows in SEQUENCES:
            for keys in sorted({rows, 16, 128, 1024 if rows == 1 else 128}):
                q, kt, p, v = (1, heads, rows, size), (1, heads, size, keys), (1, heads, rows, keys), (1, heads, keys, size)
                yield Case("MatMul", [q, kt])
                yield Case("MatMul", [p, v])
                yield Case("FusedMatMul", [q, v], {"transB": 1, "alpha": 0.125}, domain=MS)
                yield Case("FusedMatMul", [q, kt], {"alpha": 0.125}, domain=MS)
    for rows in (1, 16, 128):
        for keys in (128, 1024):
            yield Case("MatMul", [(1, 4, 3 * rows, 64), (1, 4, 64, keys)])
            yield Case("MatMul", [(1, 4, 3 * rows, keys), (1, 4, keys, 64)])
            yield Case("FusedMatMul", [(1, 4, 3 * rows, 64), (1, 4, keys, 64)], {"transB": 1, "alpha": 0.125}, domain=MS)
    for k, n in ((768, 768), (768, 3072), (256, 256), (64, 64), (320, 1280)):
        weight = np.ones((k, n), np.int8)
        yield Case("DequantizeLinear", [weight, np.array(0.1, np.float32), np.array(0, np.int8)], weights=(0, 1, 2))
        yield Case("DequantizeLinear", [weight, np.full(n, 0.1, np.float32), np.zeros(n, np.int8)], {"axis": 1}, weights=(0, 1, 2))
        for rows in (1, 16, 128):
            yield Case("MatMulInteger", [np.ones((1, rows, k), np.uint8), weight], weights=(1,))
            yield Case("QuantizeLinear", [(1, rows, k), np.array(0.1, np.float32), np.array(0, np.uint8)], weights=(1, 2))
            yield Case("DequantizeLinear", [np.ones((1, rows, k), np.uint8), np.array(0.1, np.float32), np.array(0, np.uint8)], weights=(1, 2))
            yield Case("DynamicQuantizeLinear", [(1, rows, k)], outputs=3)


def u8(*shape):
    """Integers that are no inputs of one kernel alone: all values occur."""
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def scale(value=0.05):
    return np.array(value, np.float32)


def zero(dtype=np.uint8):
    return np.array(128 if dtype == np.uint8 else 0, dtype)


def weight_of(*shape):
    return np.random.default_rng(1).integers(-127, 128, shape, np.int8)


def integer_products():
    s, z, zw = scale(), zero(), zero(np.int8)
    for k, n in ((64, 64), (256, 256), (384, 1536), (768, 768), (768, 2304), (768, 3072), (3072, 768), (2048, 768), (1024, 256)):
        for rows in (1, 4, 16, 50, 128, 512):
            if rows * k * n > 512 * 768 * 2304:
                continue
            a, w, f = u8(1, rows, k), weight_of(k, n), (1, rows, k)
            each = np.full(n, 0.01, np.float32)
            yield Case("QLinearMatMul", [a, s, z, w, s, zw, s, z], weights=(1, 2, 3, 4, 5, 6, 7))
            yield Case("QGemm", [u8(rows, k), s, z, w, each, np.zeros(n, np.int8), np.zeros(n, np.int32), s, z], {"alpha": 1.0}, weights=(1, 2, 3, 4, 5, 6, 7, 8), domain=MS)
            yield Case("MatMulIntegerToFloat", [a, w, s, s, z, zw], weights=(1, 2, 3, 4, 5), domain=MS)
            yield Case("DynamicQuantizeMatMul", [f, w, s, zw], weights=(1, 2, 3), domain=MS)
            if rows in (1, 16, 128):
                blocks = (n, k // 32, 16)
                for level in ({}, {"accuracy_level": 4}):  # what ONNX Runtime makes of DequantizeLinear and MatMul has the latter
                    yield Case("MatMulNBits", [f, u8(*blocks), np.full((n, k // 32), 0.01, np.float32)], {"K": k, "N": n, "bits": 4, "block_size": 32} | level, weights=(1, 2), domain=MS)
    for k, n in ((256, 1), (512, 1), (512, 8)):  # few columns, of many rows
        for rows in (64, 1024, 8192):
            yield Case("MatMulIntegerToFloat", [u8(1, rows, k), weight_of(k, n), s, s, z, zw], weights=(1, 2, 3, 4, 5), domain=MS)
    for heads, size in ((4, 16), (4, 64), (12, 64)):
        for rows in SEQUENCES:
            for keys in sorted({rows, 128}):
                if heads * rows * keys > 12 * 512 * 512:
                    continue
                for a, b in (((rows, size), (size, keys)), ((rows, keys), (keys, size))):
                    a, b = u8(1, heads, *a), u8(1, heads, *b)
                    yield Case("QLinearMatMul", [a, s, z, b, s, z, s, z], weights=(1, 2, 4, 5, 6, 7))
                    yield Case("MatMulIntegerToFloat", [a, b, s, s, z, z], weights=(2, 3, 4, 5), domain=MS)


def integer_convolutions():
    s, z, zw = scale(), zero(), zero(np.int8)

    def conv(x, w, attrs):
        return Case("QLinearConv", [x, s, z, w, s, zw, s, z, np.zeros(w.shape[0], np.int32)], attrs | {"channels_last": 1}, weights=tuple(range(1, 9)), domain=MS, nhwc=True)

    for channels, size in ((16, 112), (32, 28), (48, 14), (64, 56), (96, 56), (128, 28), (192, 14), (256, 14), (512, 7), (960, 7)):
        x = u8(1, size, size, channels)
        yield conv(x, weight_of(channels, channels, 1, 1), {})
        yield conv(x, weight_of(max(16, channels // 64 * 16), channels, 1, 1), {})
        if channels < 300:
            yield conv(x, weight_of(channels * 4, channels, 1, 1), {})
        for kernel in (3, 5):
            for stride in (1, 2):
                attrs = {"pads": [kernel // 2] * 4, "strides": [stride, stride]}
                yield conv(x, weight_of(channels, 1, kernel, kernel), attrs | {"group": channels})
                if kernel == 3 and channels <= 512:
                    yield conv(x, weight_of(channels, channels, 3, 3), attrs)
        yield Case("QLinearGlobalAveragePool", [x, s, z, s, z], {"channels_last": 1}, weights=(1, 2, 3, 4), domain=MS, nhwc=True)
        yield Case("QLinearAveragePool", [x, s, z, s, z], {"kernel_shape": [2, 2], "strides": [2, 2], "channels_last": 1}, weights=(1, 2, 3, 4), domain=MS, nhwc=True)
        if channels <= 256:
            for kernel in (1, 3):
                x, w = u8(1, channels, size, size), u8(channels, channels, kernel, kernel)  # as ONNX Runtime's dynamic quantizer writes it
                yield Case("ConvInteger", [x, w, z, z], {"pads": [kernel // 2] * 4}, weights=(1, 3))
    for channels, kernel, stride, size in ((64, 16, 16, 224), (768, 16, 16, 224), (64, 7, 2, 224), (32, 3, 2, 224)):
        yield conv(u8(1, size, size, 3), weight_of(channels, 3, kernel, kernel), {"strides": [stride, stride], "pads": [0 if kernel == stride else kernel // 2] * 4})


def integers():
    """Integer kernels element by element, what moves integers, and what makes them of floats."""
    s, z = scale(), zero()
    for shape in ((1, 1, 64), (1, 1, 768), (1, 16, 768), (1, 128, 768), (1, 128, 3072), (1, 512, 768), (1, 64, 56, 56), (1, 32, 28, 28), (1, 960, 7, 7), (1, 12, 128, 128), (1, 12, 512, 512), (1, 4, 16, 16)):
        x = u8(*shape)
        for op in ("QLinearAdd", "QLinearMul"):
            yield Case(op, [x, s, z, x, s, z, s, z], weights=(1, 2, 4, 5, 6, 7), domain=MS)
            yield Case(op, [x, s, z, u8(shape[-1]), s, z, s, z], weights=(1, 2, 3, 4, 5, 6, 7), domain=MS)
            yield Case(op, [x, s, z, u8(1), s, z, s, z], weights=(1, 2, 3, 4, 5, 6, 7), domain=MS)
        for op, attrs in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1})):
            yield Case(op, [x, s, z, s, z], attrs, weights=(1, 2, 3, 4), domain=MS)
        yield Case("QLinearSoftmax", [x, s, z, scale(1 / 256), np.array(0, np.uint8)], {"axis": len(shape) - 1, "opset": 13}, weights=(1, 2, 3, 4), domain=MS)
        yield Case("QLinearConcat", [s, z, x, s, z, x, s, z], {"axis": len(shape) - 1}, weights=(0, 1, 3, 4, 6, 7), domain=MS)
        yield Case("QLinearWhere", [np.ones(shape, bool), x, s, z, x, s, z, s, z], weights=(2, 3, 5, 6, 7, 8), domain=MS)
        yield Case("Concat", [x, x], {"axis": len(shape) - 1})
        yield Case("Concat", [x, x], {"axis": 1})
        yield Case("Where", [np.ones(shape, bool), x, x])
        yield Case("Expand", [u8(*shape[:-1], 1), np.array(shape, np.int64)], weights=(1,))
        yield Case("Slice", [x, np.array([0], np.int64), np.array([shape[-1] // 2], np.int64), np.array([-1], np.int64)], weights=(1, 2, 3))
        yield Case("Split", [x], {"axis": -1, "num_outputs": 2}, outputs=2)
        if len(shape) == 4:
            yield Case("Transpose", [x], {"perm": [0, 2, 1, 3]})
            yield Case("Transpose", [x], {"perm": [0, 1, 3, 2]})
        for number in (z, zero(np.uint16)):
            yield Case("QuantizeLinear", [shape, s, number], weights=(1, 2))
            yield Case("DequantizeLinear", [x.astype(number.dtype), s, number], weights=(1, 2))
    for rows, width, n in ((30522, 768, 16), (30522, 768, 1), (50257, 768, 128), (1000, 64, 16), (512, 768, 128)):
        yield Case("Gather", [u8(rows, width), np.arange(n, dtype=np.int64)[None]], {"axis": 0}, weights=(0,))
    for channels, size in ((64, 112), (16, 28)):
        yield Case("MaxPool", [u8(1, channels, size, size)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]})


def attention():
    for heads, size in ((4, 16), (4, 64), (12, 64)):
        width = heads * size
        for rows in (1, 16, 50, 128, 512):
            for keys in sorted({rows, 16, 128, 512, 1024}) if rows == 1 else sorted({rows, 128} if rows < 128 else {rows}):
                flat_q, flat_k = (1, rows, width), (1, keys, width)
                q, k, mask = (1, heads, rows, size), (1, heads, keys, size), (1, 1, rows, keys)
                flat, causal = {"q_num_heads": heads, "kv_num_heads": heads}, {"is_causal": 1}
                yield Case("MultiHeadAttention", [flat_q, flat_k, flat_k], {"num_heads": heads}, domain=MS)
                yield Case("MultiHeadAttention", [flat_q, flat_k, flat_k, None, None, mask], {"num_heads": heads}, domain=MS)
                yield Case("MultiHeadAttention", [flat_q, flat_k, flat_k, (3 * width,)], {"num_heads": heads}, weights=(3,), domain=MS)
                yield Case("MultiHeadAttention", [flat_q, k, k], {"num_heads": heads}, domain=MS)
                yield Case("Attention", [q, k, k])
                yield Case("Attention", [q, k, k, mask])
                yield Case("Attention", [flat_q, flat_k, flat_k], flat)
                yield Case("Attention", [flat_q, flat_k, flat_k, mask], flat)
                if rows == keys:
                    yield Case("Attention", [q, k, k], causal)
                    yield Case("Attention", [flat_q, flat_k, flat_k], flat | causal)
                for groups in (heads // 2, heads // 3) if heads == 12 else (2,):
                    grouped, flat_grouped = (1, groups, keys, size), (1, keys, groups * size)
                    yield Case("Attention", [q, grouped, grouped])
                    yield Case("Attention", [q, grouped, grouped, mask])
                    yield Case("Attention", [flat_q, flat_grouped, flat_grouped, mask], {"q_num_heads": heads, "kv_num_heads": groups})
                    if keys > rows:
                        old, new = (1, groups, keys - rows, size), (1, groups, rows, size)
                        yield Case("Attention", [q, new, new, mask, old, old], outputs=3)
                        yield Case("Attention", [flat_q, *[(1, rows, groups * size)] * 2, mask, old, old], {"q_num_heads": heads, "kv_num_heads": groups}, outputs=3)
                if keys > rows:
                    past, new = (1, heads, keys - rows, size), (1, heads, rows, size)
                    yield Case("Attention", [new, new, new, None, past, past], outputs=3)
                    yield Case("Attention", [new, new, new, mask, past, past], outputs=3)
                    yield Case("Attention", [flat_q, flat_q, flat_q, None, past, past], flat, outputs=3)
                    yield Case("Attention", [flat_q, flat_q, flat_q, mask, past, past], flat, outputs=3)
                    yield Case("MultiHeadAttention", [flat_q, flat_q, flat_q, None, None, None, past, past], {"num_heads": heads}, outputs=3, domain=MS)
                    yield Case("MultiHeadAttention", [flat_q, flat_q, flat_q, None, None, mask, past, past], {"num_heads": heads}, outputs=3, domain=MS)
                if rows == 1 or rows == keys:
                    lengths = [np.array([keys - 1], np.int32), np.array(keys, np.int32)]
                    for groups in {heads, heads // 2}:
                        cache, kv = (1, groups, max(keys - rows, 0), size), (1, rows, groups * size)
                        past = [cache, cache] if keys > rows else [None, None]
                        yield Case("GroupQueryAttention", [flat_q, kv, kv, *past, *lengths], {"num_heads": heads, "kv_num_heads": groups}, outputs=3, domain=MS)
    for heads, size in ((4, 16), (4, 32), (3, 64), (4, 64), (6, 64), (8, 64), (12, 64)):
        width = heads * size
        for rows in (1, 16, 32, 50, 64, 128, 200, 512):
            yield Case("Attention", [(1, rows, width), (width, 3 * width), (3 * width,)], {"num_heads": heads}, weights=(1, 2), domain=MS)
            yield Case("Attention", [(1, rows, width), (width, 3 * width), (3 * width,), None, None, (1, 1, rows, rows)], {"num_heads": heads}, weights=(1, 2), domain=MS)
    for rows in (1024, 1500):  # attention and its parts where scores fit into no cache
        heads, size = 8, 64
        flat, q, k, scores, mask = (1, rows, heads * size), (1, heads, rows, size), (1, heads, size, rows), (1, heads, rows, rows), (1, 1, rows, rows)
        for more in ((), (mask,)):
            yield Case("MultiHeadAttention", [flat, flat, flat, *([None, None, mask] if more else [])], {"num_heads": heads}, domain=MS)
            yield Case("Attention", [flat, flat, flat, *more], {"q_num_heads": heads, "kv_num_heads": heads})
            yield Case("Attention", [q, q, q, *more])
        yield Case("FusedMatMul", [q, q], {"transB": 1, "alpha": 0.125}, domain=MS)
        yield Case("FusedMatMul", [q, k], {"alpha": 0.125}, domain=MS)
        yield Case("MatMul", [scores, q])
        yield Case("Softmax", [scores], {"axis": -1})
        yield Case("Add", [scores, mask])
        yield Case("Transpose", [(1, rows, heads, size)], {"perm": [0, 2, 1, 3]})
        yield Case("Transpose", [q], {"perm": [0, 2, 1, 3]})
        yield Case("Transpose", [(1, rows, heads, size)], {"perm": [0, 2, 3, 1]})
    for heads in (4, 12):
        width = heads * 64
        for past in (15, 127, 511, 1023):
            yield Case("Attention", [(1, 1, width), (width, 3 * width), (3 * width,), None, (2, 1, heads, past, 64)], {"num_heads": heads}, weights=(1, 2), outputs=2, domain=MS)


def convolutions():
    for channels, size in ((16, 112), (32, 28), (48, 14), (64, 56), (96, 56), (128, 28), (192, 14), (256, 14), (512, 7), (960, 7)):
        x, bias = (1, channels, size, size), (channels,)
        yield Case("Conv", [x, (channels, channels, 1, 1), bias], weights=(1, 2), domain=NCHWC)
        yield Case("Conv", [x, (max(16, channels // 64 * 16), channels, 1, 1), (max(16, channels // 64 * 16),)], weights=(1, 2), domain=NCHWC)
        if channels < 300:
            yield Case("Conv", [x, (channels * 4, channels, 1, 1), (channels * 4,)], weights=(1, 2), domain=NCHWC)
        for kernel in (3, 5):
            pads = [kernel // 2] * 4
            for stride in (1, 2):
                attrs = {"pads": pads, "strides": [stride, stride]}
                yield Case("Conv", [x, (channels, 1, kernel, kernel), bias], attrs | {"group": channels}, weights=(1, 2), domain=NCHWC)
                if kernel == 3 and channels <= 512:
                    yield Case("Conv", [x, (channels, channels, 3, 3), bias], attrs, weights=(1, 2), domain=NCHWC)
        yield Case("GlobalAveragePool", [x], domain=NCHWC)
        yield Case("MaxPool", [x], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}, domain=NCHWC)
        yield Case("AveragePool", [x], {"kernel_shape": [2, 2], "strides": [2, 2]}, domain=NCHWC)
        yield Case("BatchNormalization", [x, *[np.ones(channels, np.float32)] * 4], weights=(1, 2, 3, 4))
        yield Case("InstanceNormalization", [x, bias, bias], weights=(1, 2))
        yield Case("GroupNormalization", [x, bias, bias], {"num_groups": 8}, weights=(1, 2))
        yield Case("ReduceMean", [x, np.array([2, 3], np.int64)], {"keepdims": 1}, weights=(1,))
        for op in ("Relu", "Sigmoid", "HardSigmoid", "HardSwish"):
            yield Case(op, [x])
        yield Case("Mul", [x, (1, channels, 1, 1)])
        yield Case("Add", [x, x])
    for squeezed, channels in ((8, 32), (16, 64), (24, 96), (48, 1152)):  # of one pixel
        yield Case("Conv", [(1, channels, 1, 1), (squeezed, channels, 1, 1), (squeezed,)], weights=(1, 2))
        yield Case("Conv", [(1, squeezed, 1, 1), (channels, squeezed, 1, 1), (channels,)], weights=(1, 2))
    for channels, kernel, stride, size in ((64, 16, 16, 224), (192, 16, 16, 96), (768, 16, 16, 224), (96, 4, 4, 224), (64, 7, 2, 224), (32, 3, 2, 224), (16, 3, 2, 112)):
        pads = [0 if kernel == stride else kernel // 2] * 4
        yield Case("Conv", [(1, 3, size, size), (channels, 3, kernel, kernel), (channels,)], {"strides": [stride, stride], "pads": pads}, weights=(1, 2), domain=NCHWC)
    for width, rows in ((80, 3000), (512, 3000)):
        yield Case("Conv", [(1, width, rows), (512, width, 3), (512,)], {"pads": [1, 1]}, weights=(1, 2))


def recurrences():
    """LSTM, GRU and RNN as exporters write them (their other inputs absent or constant), and the LSTM that ONNX Runtime's quantizer makes."""
    sizes = ((16, 16), (40, 64), (128, 128), (64, 256), (256, 256), (512, 256), (768, 512))
    for width, hidden in sizes:
        for batch, steps in ((1, 1), (1, 12), (1, 50), (1, 200), (4, 25), (16, 50)):
            if steps * batch * hidden * (width + hidden) > 2e8:
                continue
            for both in (1, 2):
                way = {"hidden_size": hidden, "direction": "bidirectional" if both == 2 else "forward"}
                x, start = (steps, batch, width), (both, batch, hidden)
                for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
                    if op == "RNN" and (batch, steps) not in ((1, 1), (1, 50), (4, 25)):
                        continue
                    w, r, b = (both, gates * hidden, width), (both, gates * hidden, hidden), (both, 2 * gates * hidden)
                    more = {"linear_before_reset": 1} if op == "GRU" else {}
                    yield Case(op, [x, w, r, b, None, *[start] * (2 if op == "LSTM" else 1)], way | more, weights=(1, 2, 3), outputs=3 if op == "LSTM" else 2)
                w, r = weight_of(both, width, 4 * hidden), weight_of(both, hidden, 4 * hidden)
                of = [np.full(both, 0.004, np.float32), np.zeros(both, np.int8)]
                inputs = [x, w, r, (both, 8 * hidden), None, start, start, None, *of, *of]
                yield Case("DynamicQuantizeLSTM", inputs, way, weights=(1, 2, 3, 8, 9, 10, 11), outputs=3, domain=MS)


def linear_attention():
    """The gated delta rule with a state, and the same without the delta, from a step of a small model to a prompt of a large one."""
    for heads, size in ((1, 16), (4, 16), (16, 16), (8, 32), (4, 64), (8, 64), (32, 64), (4, 128), (16, 128), (32, 128)):
        for batch, tokens in ((1, 1), (1, 4), (1, 16), (1, 64), (1, 200), (1, 512), (4, 1), (4, 64)):
            if batch * tokens * heads * size * size > 6e7:
                continue
            wide, state = (batch, tokens, heads * size), (batch, heads, size, size)
            decay, beta = (np.full((batch, tokens, heads), value, np.float32) for value in (-0.1, 0.5))
            for rule in ("gated_delta", "gated"):
                if rule == "gated" and tokens not in (1, 64):
                    continue
                key = np.full(wide, 1 / size, np.float32)
                inputs = [wide, key, wide, state, decay, *([beta] if rule == "gated_delta" else [])]
                yield Case("LinearAttention", inputs, {"q_num_heads": heads, "kv_num_heads": heads, "update_rule": rule, "scale": 1.0}, outputs=2, domain=MS)


def experts():
    """Mixtures of experts, from a step of a small model to a prompt; tokens go to all experts alike."""
    for hidden, inter, experts, chosen in ((32, 48, 4, 2), (64, 32, 16, 4), (128, 128, 8, 2), (256, 512, 4, 2), (256, 128, 32, 4), (512, 256, 32, 4),
                                           (512, 1024, 8, 2), (768, 256, 64, 8), (1024, 512, 16, 4), (1024, 2048, 4, 1), (2048, 768, 8, 8)):
        for tokens in (1, 4, 16, 32, 64, 128, 512):
            if 3 * tokens * chosen * hidden * inter > 4e9:
                continue
            for kind in ("swiglu", "silu"):
                if kind == "silu" and tokens not in (1, 32):
                    continue
                wide = 2 * inter if kind == "swiglu" else inter
                inputs = [(tokens, hidden), (tokens, experts), (experts, wide, hidden), None, (experts, hidden, inter)]
                yield Case("MoE", inputs, {"k": chosen, "activation_type": kind, "normalize_routing_weights": 1, "swiglu_fusion": int(kind == "swiglu")},
                           weights=(2, 4), domain=MS)


def causal_convolutions():
    """Short convolutions over time with what came before, of a step and of prompts."""
    for channels, width in ((64, 4), (160, 4), (768, 3), (1024, 4), (2048, 4), (6144, 4)):
        for batch, tokens in ((1, 1), (1, 8), (1, 64), (1, 200), (1, 512), (4, 1), (4, 64)):
            if batch * channels * tokens > 2e6:
                continue
            for activation in ("silu", "none"):
                if activation == "none" and tokens not in (1, 64):
                    continue
                inputs = [(batch, channels, tokens), (channels, 1, width), (channels,), (batch, channels, width - 1)]
                yield Case("CausalConvWithState", inputs, {"activation": activation}, weights=(1, 2), outputs=2, domain=MS)


def images_made_larger():
    for channels, out, size in ((16, 16, 32), (24, 1, 160), (64, 32, 28), (96, 24, 40), (128, 64, 14), (256, 128, 14), (512, 256, 7)):
        x = (1, channels, size, size)
        for kernel, stride in ((2, 2), (3, 2), (4, 2), (3, 1)):
            attrs = {"strides": [stride] * 2, "pads": [(kernel - 1) // 2] * 4}
            yield Case("ConvTranspose", [x, (channels, out, kernel, kernel), (out,)], attrs, weights=(1, 2))
        if channels == out or channels == 64:
            yield Case("ConvTranspose", [x, (channels, 1, 4, 4), (channels,)], {"strides": [2, 2], "pads": [1] * 4, "group": channels}, weights=(1, 2))
        yield Case("ConvTranspose", [(1, channels, size * 4), (channels, out, 4), (out,)], {"strides": [2], "pads": [1, 1]}, weights=(1, 2))
        for mode, where in (("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"), ("cubic", "half_pixel")):
            if mode == "cubic" and channels > 64:
                continue
            attrs = {"mode": mode, "coordinate_transformation_mode": where} | ({"nearest_mode": "floor"} if mode == "nearest" else {})
            yield Case("Resize", [x, None, np.array([1, 1, 2, 2], np.float32)], attrs, weights=(2,))
        yield Case("Resize", [x, None, None, np.array([1, channels, size // 2 + 1, size // 2 + 1])], {"mode": "linear"}, weights=(3,))
        yield Case("DepthToSpace", [(1, channels * 4, size, size)], {"blocksize": 2})
        yield Case("SpaceToDepth", [(1, channels, size // 2 * 2, size // 2 * 2)], {"blocksize": 2})
        rows = np.arange(size, dtype=np.float32) / size
        grid = np.stack([np.broadcast_to(rows[None, :], (size, size)), np.broadcast_to(rows[:, None], (size, size))], -1)[None]
        for mode in ("linear", "nearest"):
            yield Case("GridSample", [x, grid], {"mode": mode})
        wave = np.sin(np.arange(channels * size * size, dtype=np.float32) / 3).reshape(x)  # signs come in runs, as in what is learned
        yield Case("PRelu", [wave, np.full((channels, 1, 1), 0.25, np.float32)], weights=(1,))
        yield Case("LRN", [x], {"size": 5})
        yield Case("GlobalMaxPool", [x])
        yield Case("LpNormalization", [x], {"axis": 1})


def indices():
    """What takes or puts numbers where other numbers say, and what finds such places."""
    axis_sizes = ((64, 32), (32, 256), (256, 64), (512, 768), (2048, 16), (8, 8), (128, 128))
    for rows, width in axis_sizes:
        x, rng = (rows, width), np.random.default_rng(0)
        for taken in sorted({8, rows // 2, rows}):
            each = rng.integers(0, rows, (taken, width))
            whole = rng.permutation(rows)[:taken, None]
            yield Case("GatherElements", [x, each], {"axis": 0})
            yield Case("ScatterElements", [x, each, (taken, width)], {"axis": 0})
            yield Case("ScatterElements", [x, each, (taken, width)], {"axis": 0, "reduction": "add"})
            yield Case("ScatterND", [x, whole, (taken, width)])
            yield Case("GatherND", [x, whole])
        for k in (1, 5):
            yield Case("TopK", [x, np.array([k])], {"axis": -1}, weights=(1,), outputs=2)
        yield Case("TopK", [(1, rows * width), np.array([min(100, width)])], {"axis": -1}, weights=(1,), outputs=2)
        for op in ("ArgMax", "ArgMin"):
            for axis in (0, -1):
                yield Case(op, [x], {"axis": axis, "keepdims": 0})
        for axis in (0, 1):
            yield Case("CumSum", [x, np.array(axis)], weights=(1,))
            yield Case("CumSum", [np.ones(x, np.int64), np.array(axis)], weights=(1,))
        yield Case("NonZero", [rng.random(x) < 0.5])
        yield Case("OneHot", [rng.integers(0, width, rows), np.array(width), np.array([0, 1], np.float32)], {"axis": -1}, weights=(1, 2))
        yield Case("Trilu", [(1, rows, rows)], {"upper": 1})
        yield Case("Hardmax", [x], {"axis": -1})
        yield Case("LogSoftmax", [x], {"axis": -1})
        yield Case("ReduceLogSumExp", [x, np.array([-1])], {"keepdims": 1}, weights=(1,))
        yield Case("ReverseSequence", [(rows, 4, width), np.full(4, rows)], {"time_axis": 0, "batch_axis": 1})
        for op in ("ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare"):
            for axis in (0, -1):
                yield Case(op, [x, np.array([axis])], {"keepdims": 1}, weights=(1,))


def seldom():
    """Elementwise operators that few models have."""
    for shape in ((1, 1, 8), (1, 1, 64), (1, 1, 1024), (1, 16, 768), (1, 128, 256), (1, 64, 56, 56)):
        for op in ("Elu", "Selu", "Celu", "Mish", "Softsign", "ThresholdedRelu", "Floor", "Ceil", "Round", "Sign", "IsInf", "Atan"):
            yield Case(op, [shape])
        yield Case("Swish", [shape], opset=24)
        yield Case("Mod", [shape, (1,)], {"fmod": 1}, weights=(1,))
        yield Case("Mod", [np.arange(math.prod(shape)).reshape(shape), np.array(7)], weights=(1,))
        yield Case("Xor", [np.ones(shape, bool), np.ones(shape, bool)])
        yield Case("PRelu", [np.sin(np.arange(math.prod(shape), dtype=np.float32) / 3).reshape(shape), (1,)], weights=(1,))


def made_by_rules():
    """Other operators that rules make of several."""
    s, z = scale(), zero()
    for rows, width in ((1, 128), (1, 768), (16, 128), (16, 768), (50, 256), (128, 384), (128, 768), (512, 256)):
        ids = np.zeros((1, rows), np.int32)
        tables, norm = [(1000, width), (512, width), (2, width)], [(width,)] * 2
        yield Case("EmbedLayerNormalization", [ids, ids, *tables, *norm, np.ones((1, rows), np.int32)], {"epsilon": 1e-5}, weights=(2, 3, 4, 5, 6), outputs=2, domain=MS)
        yield Case("EmbedLayerNormalization", [ids, None, *tables[:2], None, *norm], {"epsilon": 1e-5}, weights=(2, 3, 5, 6), outputs=2, domain=MS)
        for heads in (4, width // 32):
            inputs = [u8(1, rows, width), weight_of(width, 3 * width), (3 * width,), s, scale(0.01), None, z, zero(np.int8)]
            yield Case("QAttention", inputs, {"num_heads": heads}, weights=(1, 2, 3, 4, 6, 7), domain=MS)
        inputs = [u8(1000, width // 2), np.zeros((1, rows), np.int64), (1000, width // 32)]
        yield Case("GatherBlockQuantized", inputs, {"block_size": 32, "gather_axis": 0, "quantize_axis": 1, "bits": 4}, weights=(0, 2), domain=MS)
        yield Case("Shrink", [(1, rows, width)])
        yield Case("ReduceLogSum", [(1, rows, width), np.array([-1])], weights=(1,))
        yield Case("NegativeLogLikelihoodLoss", [(rows, width), np.zeros(rows, np.int64)])
        yield Case("SoftmaxCrossEntropyLoss", [(rows, width), np.zeros(rows, np.int64)])
    for size in (16, 64, 224):
        yield Case("CenterCropPad", [(1, 3, size, size), np.array([size - size // 8] * 2)], {"axes": [2, 3]}, weights=(1,))
    for op in ("BlackmanWindow", "HammingWindow", "HannWindow"):
        for size in (32, 400, 2048):
            yield Case(op, [np.array(size)])


def images_and_signals():
    """What moves images, maps of spectra and short runs of signals: channels joined and split, cuts, borders; and runs of few elements that meet one number."""
    for channels, height, width in ((16, 14, 14), (32, 28, 28), (64, 56, 56), (24, 80, 80), (8, 172, 264), (128, 14, 14), (96, 40, 40)):
        x, half = (1, channels, height, width), channels // 2
        yield Case("Concat", [x, x], {"axis": 1})
        yield Case("Concat", [x, x, x], {"axis": 1})
        yield Case("Concat", [x] * 4, {"axis": 1})
        yield Case("Concat", [x, x], {"axis": 3})
        yield Case("Split", [x, np.array([half] * 2)], {"axis": 1}, weights=(1,), outputs=2)
        yield Case("Slice", [x, *[np.array([v]) for v in (0, half, 1, 1)]], weights=(1, 2, 3, 4))
        yield Case("Slice", [x, *[np.array([v]) for v in (half, channels, 1, 1)]], weights=(1, 2, 3, 4))
        yield Case("Slice", [x, *[np.array(v) for v in ([1, 1], [height - 1, width - 1], [2, 3], [1, 1])]], weights=(1, 2, 3, 4))
        yield Case("Pad", [x, np.array([0, 0, 2, 2, 0, 0, 2, 2])], weights=(1,))
        for mode in ("reflect", "edge"):
            yield Case("Pad", [x, np.array([0, 0, 2, 2, 0, 0, 2, 2])], {"mode": mode}, weights=(1,))
        yield Case("Transpose", [x], {"perm": [0, 2, 3, 1]})
        yield Case("Transpose", [(1, height, width, channels)], {"perm": [0, 3, 1, 2]})
        yield Case("Gather", [x, np.arange(half)], {"axis": 1}, weights=(1,))
        yield Case("Add", [x, (1, channels, 1, 1)], weights=(1,))
        yield Case("Sub", [x, (1, 1, height, width)])
        for op in ("Tanh", "Exp", "Softplus", "LeakyRelu", "Clip"):
            yield Case(op, [x, np.array(0, np.float32), np.array(6, np.float32)] if op == "Clip" else [x], weights=(1, 2) if op == "Clip" else ())
        for filters in (1, 3, 4):  # too few for blocks
            for kernel in (1, 3):
                yield Case("Conv", [x, (filters, channels, kernel, kernel), (filters,)], {"pads": [kernel // 2] * 4}, weights=(1, 2))
    for rows, last in ((20, 2), (300, 1), (300, 2), (300, 4), (5000, 1), (5000, 2), (5000, 4), (50000, 1), (50000, 2), (50000, 8)):
        x, one = (1, rows, last), (1, rows, 1)
        yield Case("Concat", [x, x], {"axis": 1})
        yield Case("Concat", [x, x], {"axis": 2})
        yield Case("Pad", [x, np.array([0, 8, 0, 0, 8, 0])], weights=(1,))
        yield Case("Slice", [x, *[np.array([v]) for v in (1, rows, 1, 1)]], weights=(1, 2, 3, 4))
        yield Case("Transpose", [x], {"perm": [0, 2, 1]})
        yield Case("ReduceSum", [x, np.array([1])], weights=(1,))
        if last > 1:
            yield Case("Split", [x, np.array([last // 2] * 2)], {"axis": 2}, weights=(1,), outputs=2)
            yield Case("ReduceSum", [x, np.array([2])], weights=(1,))
            for op in ("Add", "Mul", "Div"):
                yield Case(op, [x, one])
                yield Case(op, [x, (last,)], weights=(1,))
    for rows, width in ((784, 192), (1500, 512), (3136, 96), (3136, 384), (4096, 96), (4096, 384), (12544, 32), (12544, 128), (50176, 16)):
        for op in ("Add", "Mul"):
            yield Case(op, [(1, rows, width), (width,)], weights=(1,))
    for size, kernel, stride in ((2000, 25, 1), (16000, 10, 5), (22000, 256, 2), (5736, 256, 32), (16000, 400, 160)):
        for filters in (1, 16, 48, 258):
            if filters * size * kernel / stride < 4e8:
                yield Case("Conv", [(1, 1, size), (filters, 1, kernel)], {"strides": [stride]}, weights=(1,))
    for channels, length, kernel in ((32, 200, 3), (64, 100, 5), (128, 60, 3), (256, 40, 3), (64, 1000, 7), (128, 400, 1)):
        x = (1, channels, length)
        yield Case("Conv", [x, (channels, channels, kernel), (channels,)], {"pads": [kernel // 2] * 2}, weights=(1, 2))
        yield Case("Conv", [x, (channels, 1, kernel), (channels,)], {"pads": [kernel // 2] * 2, "group": channels}, weights=(1, 2))
        yield Case("Concat", [x, (1, channels, 4)], {"axis": 2})
        yield Case("Pad", [x, np.array([0, 0, 2, 0, 0, 2])], weights=(1,))
    for height, width, rows, columns in ((172, 264, 3, 39), (172, 88, 7, 3), (40, 100, 1, 7), (40, 100, 3, 1), (64, 64, 5, 5), (64, 64, 7, 7)):
        for before, behind in ((8, 16), (16, 16), (32, 16)):
            yield Case("Conv", [(1, before, height, width), (behind, before, rows, columns), (behind,)], {"pads": [rows // 2, columns // 2] * 2}, weights=(1, 2), domain=NCHWC if before >= 16 else "")


def images_of_one_row():
    """Signals that are seen as images of one row."""
    for channels, length in ((16, 32), (16, 200), (32, 4), (32, 32), (32, 128), (64, 4), (64, 32), (64, 200), (128, 4), (128, 32), (128, 200), (256, 40)):
        x = (1, channels, 1, length)
        for kernel in (1, 3, 5):
            yield Case("Conv", [x, (channels, channels, 1, kernel), (channels,)], {"pads": [0, kernel // 2] * 2}, weights=(1, 2), domain=NCHWC)
        yield Case("Conv", [x, (channels, 1, 1, 5), (channels,)], {"pads": [0, 2] * 2, "group": channels}, weights=(1, 2), domain=NCHWC)
        yield Case("Conv", [x, (2 * channels, channels, 1, 3), (2 * channels,)], {"pads": [0, 1] * 2, "strides": [1, 2]}, weights=(1, 2), domain=NCHWC)
    for length, kernel, stride in ((832, 256, 128), (1728, 256, 64), (12640, 512, 160), (5736, 256, 32), (16000, 10, 5)):
        for filters in (16, 48, 272):
            yield Case("Conv", [(1, 1, 1, length), (filters, 1, 1, kernel)], {"strides": [1, stride]}, weights=(1,), domain=NCHWC)


def blocks():
    """Into the blocks of channels in which convolutions of images run, and out of them."""
    for channels, height, width in ((16, 1, 64), (16, 7, 7), (64, 7, 7), (16, 14, 14), (32, 28, 28), (512, 7, 7), (128, 28, 28), (64, 56, 56), (32, 80, 80), (16, 112, 112), (64, 112, 112), (32, 200, 152), (32, 400, 304)):
        x = (1, channels, height, width)
        yield Case("ReorderInput", [x], domain=NCHWC)
        yield Case("ReorderOutput", [x], {"channels": channels}, domain=NCHWC)


def attributes():
    """Attributes that change an operator's time (bench/runtime/attribute_times.py)."""
    for heads, size in ((4, 64), (12, 64)):
        width = heads * size
        for rows, keys in ((1, 16), (1, 128), (1, 1024), (16, 16), (50, 50), (128, 128), (512, 512)):
            q, k, mask = (1, heads, rows, size), (1, heads, keys, size), (1, 1, rows, keys)
            flat_q, flat_k, flat, capped = (1, rows, width), (1, keys, width), {"q_num_heads": heads, "kv_num_heads": heads}, {"softcap": 30.0}
            yield Case("Attention", [q, k, k], capped)
            yield Case("Attention", [q, k, k, mask], capped)
            yield Case("Attention", [flat_q, flat_k, flat_k, mask], flat | capped)
            yield Case("Attention", [q, k, k], outputs=4)
            yield Case("Attention", [q, k, k, mask], outputs=4)
            if keys > rows:
                past = (1, heads, keys - rows, size)
                yield Case("Attention", [q, q, q, mask, past, past], capped, outputs=3)
            if rows == keys:
                yield Case("MultiHeadAttention", [flat_q, flat_k, flat_k], {"num_heads": heads, "unidirectional": 1}, domain=MS)
                yield Case("Attention", [flat_q, (width, 3 * width), (3 * width,)], {"num_heads": heads, "unidirectional": 1}, weights=(1, 2), domain=MS)
            if rows == 1 or rows == keys:
                lengths = [np.array([keys - 1], np.int32), np.array(keys, np.int32)]
                past = [(1, heads, keys - rows, size)] * 2 if keys > rows else [None, None]
                base = {"num_heads": heads, "kv_num_heads": heads}
                yield Case("GroupQueryAttention", [flat_q, flat_q, flat_q, *past, *lengths], base | capped, outputs=3, domain=MS)
                tables = [(2048, size // 2)] * 2
                yield Case("GroupQueryAttention", [flat_q, flat_q, flat_q, *past, *lengths, *tables], base | {"do_rotary": 1}, weights=(7, 8), outputs=3, domain=MS)
            table = [(1, rows, size // 2)] * 2
            yield Case("RotaryEmbedding", [q, *table], {"interleaved": 1})
            yield Case("RotaryEmbedding", [q, np.arange(rows)[None], *[(2048, size // 2)] * 2], {"interleaved": 1}, weights=(2, 3), domain=MS)
    for rows, width in ((1, 64), (16, 64), (16, 768), (128, 768), (512, 1024)):
        x, blocks = (1, rows, width), np.full((1, rows, width // 32), 0.05, np.float32)
        for op, value in (("QuantizeLinear", x), ("DequantizeLinear", u8(*x))):
            yield Case(op, [value, np.full(width, 0.05, np.float32), np.zeros(width, np.uint8)], {"axis": 2}, weights=(1, 2))
            yield Case(op, [value, blocks, np.zeros_like(blocks, np.uint8)], {"axis": 2, "block_size": 32}, weights=(1, 2))
        yield Case("ArgMax", [x], {"axis": 2, "select_last_index": 1, "keepdims": 0})
        yield Case("NegativeLogLikelihoodLoss", [(rows, width), np.zeros(rows, np.int64)], {"ignore_index": 1})
    for channels, size in ((16, 56), (64, 28), (128, 14), (32, 112)):
        x = (1, channels, size, size)
        yield Case("MaxPool", [x], {"kernel_shape": [2, 2], "strides": [2, 2], "dilations": [2, 2]})
        yield Case("MaxPool", [x], {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [2] * 4, "dilations": [2, 2]})


GRID = (elementwise, norms, scores, movement, masks, tiny, turned_products, products, biases, attention, convolutions, integer_products, integer_convolutions, integers,
        recurrences, linear_attention, experts, causal_convolutions, images_made_larger, indices, seldom, made_by_rules, images_and_signals, images_of_one_row, blocks, attributes)
