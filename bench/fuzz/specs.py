"""How to draw a valid instance of each operator, by its specification. The rest of the operators is drawn "wild"."""
import dataclasses
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from .draw import FLOATS, Skip, is_exotic, is_float

F32, F16, F64, BF16 = np.float32, np.float16, np.float64, ml_dtypes.bfloat16
I8, U8, I32, I64 = np.int8, np.uint8, np.int32, np.int64
INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
COMMON_FLOATS = (F32, F32, F32, F32, F64, F16, BF16)
NUMBERS = (F32, F32, F32, F64, F16, BF16, I32, I64, I8, U8, np.int16, np.uint16, np.uint32, np.uint64)
ANY = NUMBERS + (np.bool_, object)


@dataclasses.dataclass
class Made:
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    chained: int = 0           # which input a chain's value becomes
    constants: tuple = ()      # inputs that have to be initializers
    evaluate: bool = True
    absent: tuple = ()         # outputs that are left out


@dataclasses.dataclass
class Spec:
    op: str
    make: Callable
    themes: tuple = ("pointwise",)
    exact: bool = True         # results do not depend on the order of sums
    jumps: bool = False        # a rounding error before it may change its result at large
    since: int = 13
    until: int = 99
    domain: str = ""           # of others than ai.onnx: in no version of it


SPECS = []


def spec(*ops, **kwargs):
    def register(function):
        for op in ops:
            SPECS.append(Spec(op, lambda d, x, op=op: function(d, x, op), **kwargs))
        return function

    return register


def floats(d, x, low=0, high=4, dtypes=COMMON_FLOATS):
    """The chained value, or a new array of floats, of that rank."""
    if x is None:
        return d.array(d.pick(dtypes), d.shape(low, high))
    if not low <= x.ndim <= high or x.dtype not in [np.dtype(t) for t in dtypes]:
        raise Skip
    return x


def numbers(d, x, low=0, high=4, dtypes=NUMBERS):
    return floats(d, x, low, high, dtypes)


def need(condition):
    if not condition:
        raise Skip


def maybe(d, **attributes):
    return {k: v for k, v in attributes.items() if d.chance(0.6)}


# Element by element

@spec("Abs", "Neg")
@spec("Sign", jumps=True)
def _unary(d, x, op):
    signed = tuple(t for t in NUMBERS if not np.dtype(t).name.startswith("uint")) if op == "Neg" else NUMBERS
    return Made([numbers(d, x, dtypes=signed)])


@spec("Floor", "Ceil", "Round", "IsNaN", jumps=True)
def _rounding(d, x, op):
    return Made([floats(d, x)])


@spec("IsInf", jumps=True, since=20)
def _isinf(d, x, op):
    return Made([floats(d, x)], maybe(d, detect_negative=d.int(0, 1), detect_positive=d.int(0, 1)))


@spec("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Softsign", "Sqrt", "Reciprocal", "Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh", "HardSwish", exact=False)
def _float_unary(d, x, op):
    return Made([floats(d, x, dtypes=COMMON_FLOATS if op != "HardSwish" else (F32, F16, F64))])


@spec("Mish", exact=False, since=18)
@spec("Gelu", exact=False, since=20)
@spec("Swish", exact=False, since=24)
def _new_unary(d, x, op):
    x = floats(d, x)
    return Made([x], {} if op == "Mish" else maybe(d, alpha=1.702) if op == "Swish" else maybe(d, approximate=d.pick(("none", "tanh"))))


@spec("Log", "Acos", "Asin", "Atanh", "Acosh", "Tan", exact=False, jumps=True, themes=())
def _domain_unary(d, x, op):
    need(x is None)
    low, high = {"Log": (0.01, 9), "Acosh": (1, 9), "Tan": (-1, 1)}.get(op, (-1, 1))
    dtype, shape = d.pick(COMMON_FLOATS), d.shape()
    return Made([d.array(dtype, shape) if d.special else d.array(dtype, shape, low, high)])


@spec("LeakyRelu", "Elu", "ThresholdedRelu", "Celu", "Selu", "HardSigmoid", exact=False)
def _alpha(d, x, op):
    x = floats(d, x, dtypes=(F32,) if op == "Celu" else (F32, F32, F64, F16))
    extra = {"Selu": dict(alpha=1.5, gamma=0.8), "HardSigmoid": dict(alpha=0.3, beta=0.4)}.get(op, dict(alpha=d.pick((0.1, 0.5, 1.0, 2.0))))
    return Made([x], maybe(d, **extra))


@spec("PRelu", exact=True)
def _prelu(d, x, op):
    x = floats(d, x, dtypes=(F32, F64, F16))
    return Made([x, d.array(x.dtype, [e if d.chance(0.5) else 1 for e in x.shape[d.int(0, x.ndim):]])])


@spec("Clip")
def _clip(d, x, op):
    x = numbers(d, x)
    unsigned = x.dtype.name.startswith("uint")
    bounds = [None if d.chance(0.25) else np.array(v, x.dtype) for v in ((1 if unsigned else -1), d.pick((2, 3, 0 if d.chance(0.1) else 6)))]
    return Made([x, *bounds])


@spec("Shrink", jumps=True)
def _shrink(d, x, op):
    return Made([floats(d, x, dtypes=(F32, F64, F16))], maybe(d, lambd=0.4, bias=0.2))


@spec("Not")
def _not(d, x, op):
    return Made([floats(d, x, dtypes=(np.bool_,))])


@spec("BitwiseNot", since=18)
def _bitnot(d, x, op):
    return Made([floats(d, x, dtypes=INTS)])


@spec("Add", "Sub", "Mul", exact=False, themes=("pointwise", "conv", "dense"))
@spec("Div", exact=False)
def _arithmetic(d, x, op):
    x = numbers(d, x)
    y = d.array(x.dtype, d.broadcastable(x.shape)) if d.chance(0.85) else x.copy()
    if op == "Div":
        y = np.where(np.abs(y.astype(np.float64)) < 0.1, np.array(1, x.dtype), y).astype(x.dtype) if not (d.special and is_float(x.dtype)) else y
        if not is_float(x.dtype):
            x = np.where(x == np.iinfo(x.dtype).min, np.array(0, x.dtype), x).astype(x.dtype) if x.size else x
    swap = d.chance(0.4)
    return Made([y, x] if swap else [x, y], chained=int(swap))


@spec("Mod", jumps=True)
def _mod(d, x, op):
    x = numbers(d, x)
    y = d.array(x.dtype, d.broadcastable(x.shape), *((0.5, 3) if is_float(x.dtype) else (1, 5)))
    if x.dtype.kind == "i" and x.dtype != np.int8 and d.chance(0.5):
        y = (-y.astype(np.int64)).astype(x.dtype)
    return Made([x, y], {"fmod": 1} if is_float(x.dtype) or d.chance(0.4) else {})


@spec("Pow", exact=False, jumps=True)
def _pow(d, x, op):
    x = floats(d, x, dtypes=(F32, F32, F64, F16, I32, I64))
    kind = d.pick((F32, F64, I32, I64)) if d.chance(0.4) else x.dtype
    if not is_float(x.dtype):
        return Made([x, d.array(kind, d.broadcastable(x.shape), 0, 3)])
    if d.chance(0.5):
        return Made([x, np.array(d.pick((0, 1, 2, 3, -1)), kind) if d.chance(0.6) else d.array(kind, d.broadcastable(x.shape), 0, 3)])
    return Made([np.abs(x) + np.array(0.1, x.dtype), d.array(kind, d.broadcastable(x.shape), 0, 3)], chained=9)


@spec("And", "Or", "Xor")
def _logic(d, x, op):
    x = floats(d, x, dtypes=(np.bool_,))
    return Made([x, d.array(np.bool_, d.broadcastable(x.shape))])


@spec("BitwiseAnd", "BitwiseOr", "BitwiseXor", since=18)
def _bits(d, x, op):
    x = floats(d, x, dtypes=INTS)
    return Made([x, d.array(x.dtype, d.broadcastable(x.shape))])


@spec("BitShift")
def _shift(d, x, op):
    x = floats(d, x, dtypes=tuple(t for t in INTS if np.dtype(t).name.startswith("u")))
    return Made([x, d.array(x.dtype, d.broadcastable(x.shape), 0, 7)], {"direction": d.pick(("LEFT", "RIGHT"))})


@spec("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", jumps=True)
def _compare(d, x, op):
    x = numbers(d, x, dtypes=NUMBERS + ((np.bool_, object) if op == "Equal" and d.opset >= 19 else (np.bool_,) if op == "Equal" else ()))
    return Made([x, d.array(x.dtype, d.broadcastable(x.shape)) if d.chance(0.8) else x.copy()])


@spec("Max", "Min", "Sum", "Mean", exact=False, themes=("pointwise", "conv"))
def _variadic(d, x, op):
    x = numbers(d, x) if op in ("Max", "Min") else floats(d, x)
    return Made([x] + [d.array(x.dtype, d.broadcastable(x.shape)) for _ in range(d.int(0, 3))])


@spec("Where")
def _where(d, x, op):
    x = numbers(d, x, dtypes=ANY)
    return Made([d.array(np.bool_, d.broadcastable(x.shape)), x, d.array(x.dtype, d.broadcastable(x.shape))], chained=1)


@spec("Cast", "CastLike", jumps=True)
def _cast(d, x, op):
    x = numbers(d, x, dtypes=NUMBERS + (np.bool_,))
    to = d.pick(NUMBERS + (np.bool_,) + ((ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2) if d.opset >= 19 else ()))
    need(op != "CastLike" or d.opset >= 15)
    if is_float(x.dtype) and not is_float(to):
        x = np.abs(x) if np.dtype(to).name.startswith("uint") else x
        need(np.isfinite(x.astype(np.float64)).all() and (np.abs(x.astype(np.float64)) < 100).all())
        if op == "Cast":
            return Made([x], {"to": onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))}, chained=9)
    if op == "Cast":
        return Made([x], {"to": onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))})
    return Made([x, d.array(to, (1,))])


# Images

def window(d, spatial, *, dilate=True, pad=True):
    """kernel_shape, strides, dilations, pads that fit an image."""
    kernel = [d.int(1, min(4, max(1, s))) for s in spatial]
    dilations = [d.pick((1, 1, 1, 2)) if dilate else 1 for _ in spatial]
    for k, s in enumerate(spatial):
        if dilations[k] * (kernel[k] - 1) + 1 > s:
            dilations[k] = 1
    attributes = {"strides": [d.pick((1, 1, 2, 3)) for _ in spatial], "dilations": dilations}
    if pad and d.chance(0.6):
        if d.chance(0.25) and max(dilations) == 1:
            attributes["auto_pad"] = d.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
        else:
            attributes["pads"] = [d.int(0, (kernel[k % len(kernel)] - 1) * dilations[k % len(kernel)]) if d.chance(0.7) else 0 for k in range(2 * len(spatial))]
    if max(dilations) == 1 and d.chance(0.5):
        del attributes["dilations"]
    return kernel, attributes


def image(d, x, dtypes=(F32, F32, F32, F32, F64, F16), ranks=(3, 4, 4, 4, 5)):
    if x is None:
        rank = d.pick(ranks)
        most = 30 if d.large and rank < 5 else 9
        return d.array(d.pick(dtypes), [d.int(1, 2), d.pick((1, 2, 3, 4, 6, 8, 16, 16 + most))] + [d.int(1, most) for _ in range(rank - 2)])
    need(3 <= x.ndim <= 5 and x.dtype in [np.dtype(t) for t in dtypes] and x.size)
    return x


@spec("Conv", themes=("conv",), exact=False)
def _conv(d, x, op):
    x = image(d, x)
    channels = x.shape[1]
    group = d.pick([g for g in range(1, channels + 1) if channels % g == 0])
    kernel, attributes = window(d, x.shape[2:])
    filters = group * d.int(1, 4)
    w = d.array(x.dtype, [filters, channels // group, *kernel])
    attributes |= maybe(d, kernel_shape=kernel) | ({"group": group} if group > 1 else {})
    return Made([x, w] + ([d.array(x.dtype, [filters])] if d.chance(0.6) else []), attributes)


@spec("ConvTranspose", themes=("conv",), exact=False)
def _conv_transpose(d, x, op):
    x = image(d, x)
    channels = x.shape[1]
    group = d.pick([g for g in range(1, channels + 1) if channels % g == 0])
    kernel = [d.int(1, 3) for _ in x.shape[2:]]
    strides = [d.pick((1, 1, 2, 3)) for _ in kernel]
    attributes = {"strides": strides} | ({"group": group} if group > 1 else {})
    if d.chance(0.4):
        attributes["output_padding"] = [d.int(0, s - 1) for s in strides]
    if d.chance(0.3):
        attributes["pads"] = [d.int(0, (kernel[k % len(kernel)] - 1) // 2) for k in range(2 * len(kernel))]
    elif d.chance(0.2):
        attributes["dilations"] = [d.int(1, 2) for _ in kernel]
    filters = d.int(1, 3)
    return Made([x, d.array(x.dtype, [channels, filters, *kernel])] + ([d.array(x.dtype, [filters * group])] if d.chance(0.6) else []), attributes)


@spec("MaxPool", "AveragePool", "LpPool", themes=("conv",), exact=False)
def _pool(d, x, op):
    x = image(d, x)
    kernel, attributes = window(d, x.shape[2:], dilate=op == "MaxPool" or d.opset >= 19 - (op == "LpPool"))
    if "pads" in attributes:
        attributes["pads"] = [min(p, kernel[k % len(kernel)] - 1) for k, p in enumerate(attributes["pads"])]
    attributes["kernel_shape"] = kernel
    if (op != "LpPool" or d.opset >= 18) and "auto_pad" not in attributes and d.chance(0.3):
        attributes["ceil_mode"] = 1
    if op == "AveragePool":
        attributes |= maybe(d, count_include_pad=d.int(0, 1))
    if op == "LpPool":
        attributes |= maybe(d, p=d.int(1, 3))
    indices = op == "MaxPool" and d.chance(0.3)
    if indices:
        attributes |= maybe(d, storage_order=d.int(0, 1))
    return Made([x], attributes, outputs=2 if indices else 1)


@spec("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", themes=("conv",), exact=False)
def _global_pool(d, x, op):
    return Made([image(d, x)], maybe(d, p=d.int(1, 3)) if op == "GlobalLpPool" else {})


@spec("BatchNormalization", themes=("conv",), exact=False, since=15)
def _batch_norm(d, x, op):
    x = image(d, x)
    c = [x.shape[1]]
    training = d.chance(0.2)
    return Made([x, d.array(x.dtype, c), d.array(x.dtype, c), d.array(x.dtype, c), d.array(x.dtype, c, 0.2, 2)],
                maybe(d, epsilon=1e-3, momentum=0.7) | ({"training_mode": 1} if training else {}), outputs=3 if training else 1)


@spec("InstanceNormalization", "LRN", themes=("conv",), exact=False)
def _image_norm(d, x, op):
    x = image(d, x)
    if op == "LRN":
        return Made([x], dict(size=d.int(1, 5)) | maybe(d, alpha=0.1, beta=0.6, bias=2.0))
    return Made([x, d.array(x.dtype, [x.shape[1]]), d.array(x.dtype, [x.shape[1]])], maybe(d, epsilon=1e-3))


@spec("GroupNormalization", themes=("conv",), exact=False, since=21)
def _group_norm(d, x, op):
    x = image(d, x)
    groups = d.pick([g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0])
    return Made([x, d.array(x.dtype, [x.shape[1]]), d.array(x.dtype, [x.shape[1]])], dict(num_groups=groups) | maybe(d, epsilon=1e-3))


@spec("DepthToSpace", "SpaceToDepth", themes=("conv",))
def _depth(d, x, op):
    x = image(d, None, ranks=(4,)) if x is None else x
    need(x.ndim == 4)
    block = d.int(1, 3)
    need(x.shape[1] % block**2 == 0 if op == "DepthToSpace" else x.shape[2] % block == 0 and x.shape[3] % block == 0)
    return Made([x], dict(blocksize=block) | (maybe(d, mode=d.pick(("DCR", "CRD"))) if op == "DepthToSpace" else {}))


@spec("Resize", themes=("conv",), exact=False, jumps=True, since=18)
def _resize(d, x, op):
    x = image(d, x, dtypes=(F32,), ranks=(4,))
    need(x.ndim == 4)
    mode = d.pick(("nearest", "linear", "cubic"))
    attributes = dict(mode=mode, coordinate_transformation_mode=d.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")))
    if mode == "nearest":
        attributes |= maybe(d, nearest_mode=d.pick(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")))
    if d.chance(0.5):
        sizes = np.array(list(x.shape[:2]) + [d.int(1, 12), d.int(1, 12)], I64)
        return Made([x, None, None, sizes], attributes)
    return Made([x, None, np.array([1, 1, d.pick((0.5, 1, 2, 1.5)), d.pick((0.6, 1, 2, 3))], F32)], attributes)


@spec("GridSample", exact=False, since=20)
def _grid(d, x, op):
    x = image(d, x, dtypes=(F32,), ranks=(4,))
    need(x.ndim == 4)
    return Made([x, d.array(F32, [x.shape[0], d.int(1, 4), d.int(1, 4), 2], -1.4, 1.4)],
                maybe(d, mode=d.pick(("linear", "nearest", "cubic")), padding_mode=d.pick(("zeros", "border", "reflection")), align_corners=d.int(0, 1)))


@spec("MeanVarianceNormalization", exact=False)
def _mvn(d, x, op):
    x = image(d, x, dtypes=(F32,), ranks=(4,))
    need(x.ndim == 4)
    return Made([x])


# Matrices

@spec("MatMul", themes=("dense",), exact=False)
def _matmul(d, x, op):
    x = floats(d, x, 1, 4, (F32, F32, F32, F64, F16, BF16, I32, I64))
    right = d.chance(0.3) and x.ndim >= 2
    inner = x.shape[-2] if right else x.shape[-1]
    batch = d.broadcastable(x.shape[:-2]) if d.chance(0.5) and x.ndim > 1 else ()
    if right:
        return Made([d.array(x.dtype, (*batch, d.size(), inner)), x], chained=1)
    return Made([x, d.array(x.dtype, (inner,) if d.chance(0.1) else (*batch, inner, d.size()))])


@spec("Gemm", themes=("dense",), exact=False)
def _gemm(d, x, op):
    x = floats(d, x, 2, 2, (F32, F32, F32, F64, F16))
    ta, tb = d.int(0, 1), d.int(0, 1)
    m, k = x.shape[::-1] if ta else x.shape
    n = d.size()
    inputs = [x, d.array(x.dtype, (n, k) if tb else (k, n))]
    if d.chance(0.6):
        inputs.append(d.array(x.dtype, d.pick(((m, n), (1, n), (n,), (m, 1), (1,), ()))))
    return Made(inputs, maybe(d, alpha=d.pick((0.5, 2.0)), beta=d.pick((0.0, 0.5))) | ({"transA": 1} if ta else {}) | ({"transB": 1} if tb else {}))


@spec("Einsum", themes=("dense",), exact=False)
def _einsum(d, x, op):
    equation = d.pick(("ij,jk->ik", "bij,bjk->bik", "bij,bkj->bik", "ij->ji", "ij->", "ii->i", "bhqd,bhkd->bhqk", "i,j->ij", "...ij,...jk->...ik", "ij,ij->i", "ij,jk"))
    sizes = {c: d.int(1, 6) for c in "abcdefghijkqhbd"}
    terms = equation.split("->")[0].split(",")
    shapes = [[sizes[c] for c in t.replace("...", "")] for t in terms]
    if "..." in equation:
        shapes = [[2, 3, *shapes[0]], [3, *shapes[1]]]
    need(x is None)
    dtype = d.pick((F32, F32, F64))
    return Made([d.array(dtype, s) for s in shapes], {"equation": equation})


@spec("LayerNormalization", themes=("dense",), exact=False, since=17)
@spec("RMSNormalization", themes=("dense",), exact=False, since=23)
def _layer_norm(d, x, op):
    x = floats(d, x, 1, 4, (F32, F32, F32, F64, F16, BF16))
    need(x.size)
    axis = d.axis(x.ndim)
    scale = x.shape[axis:] if axis < 0 else x.shape[axis:]
    inputs = [x, d.array(x.dtype, scale)] + ([d.array(x.dtype, scale)] if op[0] == "L" and d.chance(0.5) else [])
    return Made(inputs, dict(axis=axis) | maybe(d, epsilon=1e-3), outputs=d.pick((1, 1, 3)) if op[0] == "L" else 1)


@spec("Softmax", "LogSoftmax", "Hardmax", themes=("dense",), exact=False)
def _softmax(d, x, op):
    need(op != "Hardmax" or x is None)
    x = floats(d, x, 1, 4)
    return Made([x], maybe(d, axis=d.axis(x.ndim)))


@spec("LpNormalization", exact=False)
def _lp(d, x, op):
    x = floats(d, x, 1, 4, (F32, F64))
    return Made([x], maybe(d, axis=d.axis(x.ndim), p=d.int(1, 2)))


REDUCE = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")


@spec(*REDUCE, themes=("dense", "pointwise"), exact=False, jumps=False)
def _reduce(d, x, op):
    sums = (F32, F32, F32, F64, F16, BF16, I32, I64)
    x = floats(d, x, 0, 4, sums if op not in ("ReduceMax", "ReduceMin") else sums + (I8, U8) + ((np.bool_,) if d.opset >= 20 else ()))
    if op == "ReduceLogSum":
        need(is_float(x.dtype))
        return Made([np.abs(x) + np.array(0.1, x.dtype)], maybe(d, keepdims=d.int(0, 1)), chained=9)
    need(op != "ReduceProd" or x.size < 200)
    attributes = maybe(d, keepdims=d.int(0, 1))
    axes = d.axes(x.ndim) if x.ndim and d.chance(0.75) else None
    if d.opset >= 18 or op == "ReduceSum":
        if axes is None:
            attributes |= maybe(d, noop_with_empty_axes=d.int(0, 1))
            return Made([x] + ([np.zeros(0, I64)] if d.chance(0.3) else []), attributes)
        return Made([x, np.array(axes, I64)], attributes)
    return Made([x], attributes | ({} if axes is None else {"axes": axes}))


@spec("ArgMax", "ArgMin", jumps=True)
def _arg(d, x, op):
    x = numbers(d, x, 1, 4)
    axis = d.axis(x.ndim)
    need(x.shape[axis])
    return Made([x], dict(axis=axis) | maybe(d, keepdims=d.int(0, 1), select_last_index=d.int(0, 1)))


@spec("CumSum", exact=False)
def _cumsum(d, x, op):
    x = floats(d, x, 1, 4, (F32, F64, I32, I64))
    return Made([x, np.array(d.axis(x.ndim), d.pick((I32, I64)))], maybe(d, exclusive=d.int(0, 1), reverse=d.int(0, 1)))


@spec("TopK", jumps=True)
def _topk(d, x, op):
    x = floats(d, x, 1, 4, (F32, F64, I32, I64))
    axis = d.axis(x.ndim)
    return Made([x, np.array([d.int(0, x.shape[axis])], I64)], dict(axis=axis) | maybe(d, largest=d.int(0, 1)), outputs=2)


@spec("Det", exact=False)
def _det(d, x, op):
    need(x is None)
    n = d.int(1, 5)
    return Made([d.array(d.pick((F32, F64)), [*d.shape(0, 2), n, n])])


@spec("Attention", themes=("dense",), exact=False, since=23)
def _attention(d, x, op):
    need(x is None)
    dtype, b, heads, q, k, size, value = d.pick((F32, F32, F16)), d.int(1, 2), d.int(1, 4), d.int(1, 5), d.int(1, 6), d.pick((2, 4, 8)), d.pick((2, 4, 8))
    kv = d.pick([h for h in range(1, heads + 1) if heads % h == 0])
    attributes = maybe(d, is_causal=d.int(0, 1), scale=0.3, softcap=d.pick((0.0, 2.0)))
    if d.chance(0.5):
        inputs = [d.array(dtype, (b, heads, q, size)), d.array(dtype, (b, kv, k, size)), d.array(dtype, (b, kv, k, value))]
    else:
        inputs = [d.array(dtype, (b, q, heads * size)), d.array(dtype, (b, k, kv * size)), d.array(dtype, (b, k, kv * value))]
        attributes |= dict(q_num_heads=heads, kv_num_heads=kv)
    past = d.int(1, 4) if d.chance(0.3) else 0
    shape = d.pick(((q, k + past), (b, 1, q, k + past), (b, heads, q, k + past), (1, heads, q, k + past)))
    mask = None if d.chance(0.4) else d.array(np.bool_, shape) if d.chance(0.4) else d.array(dtype, shape)
    if mask is not None and mask.dtype == np.bool_:
        mask[..., 0] = True
    inputs.append(mask)
    if past:
        inputs += [d.array(dtype, (b, kv, past, size)), d.array(dtype, (b, kv, past, value))]
        return Made(inputs, attributes, outputs=3, evaluate=False)
    return Made(inputs, attributes, evaluate=False)


@spec("RotaryEmbedding", themes=("dense",), exact=False, since=23)
def _rotary(d, x, op):
    need(x is None)
    b, heads, s, size = d.int(1, 2), d.int(1, 3), d.int(1, 5), d.pick((4, 8))
    rotary = size if d.chance(0.6) else size // 2
    ids = d.chance(0.6)
    table = (7, rotary // 2) if ids else (b, s, rotary // 2)
    four = d.chance(0.5)
    inputs = [d.array(F32, (b, heads, s, size) if four else (b, s, heads * size)), d.array(F32, table), d.array(F32, table)] + ([d.array(I64, (b, s), 0, 6)] if ids else [])
    attributes = maybe(d, interleaved=d.int(0, 1)) | ({} if four else {"num_heads": heads}) | ({"rotary_embedding_dim": rotary} if rotary != size else {})
    need(four or rotary == size or "num_heads" in attributes)
    return Made(inputs, attributes)


# Recurrent

@spec("LSTM", "GRU", "RNN", exact=False, themes=(), since=14)
def _recurrent(d, x, op):
    need(x is None)
    t, b, i, h = d.int(1, 5), d.int(1, 3), d.int(1, 4), d.int(1, 5)
    direction = d.pick(("forward", "reverse", "bidirectional"))
    n, gates = 1 + (direction == "bidirectional"), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    layout = 0 if d.chance(0.8) else 1
    inputs = [d.array(F32, (b, t, i) if layout else (t, b, i)), d.array(F32, (n, gates * h, i)), d.array(F32, (n, gates * h, h))]
    inputs += [d.array(F32, (n, 2 * gates * h)) if d.chance(0.6) else None, d.array(I32, (b,), 1, t) if d.chance(0.4) else None]
    state = (b, n, h) if layout else (n, b, h)
    inputs += [d.array(F32, state) if d.chance(0.5) else None] + ([d.array(F32, state) if d.chance(0.5) else None, d.array(F32, (n, 3 * h)) if d.chance(0.3) else None] if op == "LSTM" else [])
    attributes = dict(hidden_size=h, direction=direction) | ({"layout": 1} if layout else {}) | maybe(d, clip=0.9)
    if op == "GRU":
        attributes |= maybe(d, linear_before_reset=d.int(0, 1))
    if op == "LSTM":
        attributes |= {"input_forget": 1} if d.chance(0.15) else {}
    return Made(inputs, attributes, outputs=3 if op == "LSTM" else 2)
