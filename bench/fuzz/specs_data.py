"""specs.py, continued: shapes and data movement, quantization, text, signals."""
import ml_dtypes
import numpy as np

from .specs import ANY, F16, F32, F64, I8, I32, I64, NUMBERS, U8, BF16, Made, floats, image, maybe, need, numbers, spec, window


@spec("Transpose", themes=("pointwise", "conv", "dense"))
def _transpose(d, x, op):
    x = numbers(d, x, 0, 5, ANY)
    return Made([x], maybe(d, perm=[int(p) for p in d.rng.permutation(x.ndim)]) if x.ndim else {})


@spec("Reshape", themes=("pointwise", "dense"))
def _reshape(d, x, op):
    x = numbers(d, x, 0, 4, ANY)
    left, shape = x.size, []
    while left > 1 and len(shape) < 3:
        factor = d.pick([f for f in range(1, left + 1) if left % f == 0])
        shape.append(factor)
        left //= factor
    shape.append(left)
    if x.size:
        if d.chance(0.5):
            shape[d.int(0, len(shape) - 1)] = -1
        for k in range(min(len(shape), x.ndim)):
            if shape[k] == x.shape[k] and d.chance(0.5):
                shape[k] = 0
    else:
        shape = list(x.shape[::-1]) if d.chance(0.5) else [0 if e == 0 else e for e in x.shape]
        return Made([x, np.array(shape, I64)], {"allowzero": 1} if d.opset >= 14 else {})
    return Made([x, np.array(shape, I64)])


@spec("Flatten", themes=("pointwise", "conv", "dense"))
def _flatten(d, x, op):
    x = numbers(d, x, 0, 4, ANY)
    return Made([x], maybe(d, axis=d.int(-x.ndim, x.ndim)) if x.ndim else {"axis": 0})


@spec("Squeeze")
def _squeeze(d, x, op):
    x = numbers(d, x, 0, 4, ANY)
    ones = [k for k, e in enumerate(x.shape) if e == 1]
    if not ones or d.chance(0.2):
        return Made([x])
    chosen = d.rng.permutation(ones)[: d.int(1, len(ones))]
    return Made([x, np.array([int(k) - (x.ndim if d.chance(0.4) else 0) for k in chosen], I64)])


@spec("Unsqueeze", themes=("pointwise", "dense"))
def _unsqueeze(d, x, op):
    x = numbers(d, x, 0, 4, ANY)
    count = d.int(1, 2)
    rank = x.ndim + count
    return Made([x, np.array([int(k) - (rank if d.chance(0.4) else 0) for k in d.rng.permutation(rank)[:count]], I64)])


@spec("Expand")
def _expand(d, x, op):
    x = numbers(d, x, 0, 4, ANY)
    shape = [d.int(1, 4) if e == 1 else d.pick((1, e)) for e in x.shape]
    shape = [d.int(1, 3)] * d.int(0, 1) + shape[d.int(0, 1):] if d.chance(0.4) else shape
    need(np.prod(shape + [x.size]) < 40000)
    return Made([x, np.array(shape, I64)])


@spec("Tile")
def _tile(d, x, op):
    x = numbers(d, x, 0, 4, ANY)
    repeats = [d.pick((1, 1, 2, 3, 0 if d.chance(0.1) else 1)) for _ in x.shape]
    return Made([x, np.array(repeats, I64)])


@spec("Concat", themes=("pointwise", "conv", "dense"))
def _concat(d, x, op):
    x = numbers(d, x, 1, 4, ANY)
    axis = d.axis(x.ndim)
    others = []
    for _ in range(d.int(0, 3)):
        shape = list(x.shape)
        shape[axis] = d.size()
        others.append(d.array(x.dtype, shape))
    place = d.int(0, len(others))
    return Made(others[:place] + [x] + others[place:], {"axis": axis}, chained=place)


@spec("Split", themes=("pointwise", "conv", "dense"))
def _split(d, x, op):
    x = numbers(d, x, 1, 4, ANY)
    axis = d.axis(x.ndim)
    size = x.shape[axis]
    if d.opset >= 18 and d.chance(0.4) and size:
        n = d.int(1, min(size, 4))
        need(-(-size // n) * (n - 1) <= size)
        return Made([x], dict(axis=axis, num_outputs=n), outputs=n)
    cut = d.int(0, size)
    return Made([x, np.array([cut, size - cut], I64)], {"axis": axis}, outputs=2)


@spec("Slice", themes=("pointwise", "conv", "dense"))
def _slice(d, x, op):
    x = numbers(d, x, 1, 4, ANY)
    kind = d.pick((I32, I64))
    axes = d.axes(x.ndim)
    big = np.iinfo(kind).max if d.chance(0.3) else 100
    starts, ends, steps = [], [], []
    for a in axes:
        size, step = x.shape[a], d.pick((1, 1, 1, 2, -1, -2))
        start, end = d.int(-size - 1, size + 1), d.int(-size - 1, size + 1)
        if d.chance(0.5):
            start, end = (0, big) if step > 0 else (big, -big)
        starts.append(start), ends.append(end), steps.append(step)
    inputs = [x, np.array(starts, kind), np.array(ends, kind), np.array(axes, kind)]
    return Made(inputs + ([np.array(steps, kind)] if min(steps) < 1 or max(steps) > 1 or d.chance(0.5) else []))


@spec("Pad", themes=("pointwise", "conv"))
def _pad(d, x, op):
    x = numbers(d, x, 1, 4, NUMBERS)
    mode = d.pick(("constant", "constant", "reflect", "edge") + (("wrap",) if d.opset >= 19 else ()))
    if mode == "constant":
        pads = [d.int(-min(1, x.shape[k % x.ndim]) if d.chance(0.2) else 0, 3) for k in range(2 * x.ndim)]
        need(all(x.shape[k] + pads[k] + pads[k + x.ndim] >= 0 for k in range(x.ndim)))
        return Made([x, np.array(pads, I64)] + ([d.array(x.dtype, ())] if d.chance(0.5) else []), maybe(d, mode=mode))
    need(x.size)
    pads = [d.int(0, min(3, x.shape[k % x.ndim] - (mode == "reflect"))) for k in range(2 * x.ndim)]
    return Made([x, np.array(pads, I64)], {"mode": mode})


@spec("Gather", themes=("pointwise", "dense"))
def _gather(d, x, op):
    x = numbers(d, x, 1, 4, ANY)
    axis = d.axis(x.ndim)
    size = x.shape[axis]
    need(size)
    return Made([x, d.array(d.pick((I32, I64)), d.shape(0, 2), -size, size - 1)], maybe(d, axis=axis) if axis == 0 else {"axis": axis})


@spec("GatherElements")
def _gather_elements(d, x, op):
    x = numbers(d, x, 1, 4, ANY)
    axis = d.axis(x.ndim)
    need(x.size)
    shape = [d.int(0 if d.zero_size else 1, e) for e in x.shape]
    shape[axis] = d.size()
    return Made([x, d.array(d.pick((I32, I64)), shape, -x.shape[axis], x.shape[axis] - 1)], {"axis": axis})


@spec("GatherND")
def _gather_nd(d, x, op):
    x = numbers(d, x, 1, 4, ANY)
    need(x.size)
    batch = d.int(0, min(1, x.ndim - 1)) if d.chance(0.4) else 0
    depth = d.int(1, x.ndim - batch)
    lead = [*x.shape[:batch], *d.shape(0, 2)]
    indices = np.stack([d.array(I64, lead, -x.shape[batch + k], x.shape[batch + k] - 1) for k in range(depth)], -1)
    return Made([x, indices], {"batch_dims": batch} if batch else {})


@spec("ScatterElements", exact=False)
def _scatter_elements(d, x, op):
    x = numbers(d, x, 1, 4)
    axis = d.axis(x.ndim)
    need(x.size)
    shape = [d.int(1, e) for e in x.shape]
    reduction = d.pick(("none", "add", "mul", "max", "min")) if d.opset >= 18 else d.pick(("none", "add", "mul")) if d.opset >= 16 else "none"
    if reduction == "none":  # no index twice: the order is not defined
        row = np.stack([d.rng.permutation(x.shape[axis])[: shape[axis]] for _ in range(int(np.prod(shape) // shape[axis]))])
        moved = [e for k, e in enumerate(shape) if k != axis % x.ndim]
        indices = np.moveaxis(row.reshape(*moved, shape[axis]), -1, axis).astype(I64)
    else:
        indices = d.array(I64, shape, -x.shape[axis], x.shape[axis] - 1)
    return Made([x, indices, d.array(x.dtype, shape)], dict(axis=axis) | ({"reduction": reduction} if reduction != "none" else {}))


@spec("ScatterND", exact=False)
def _scatter_nd(d, x, op):
    x = numbers(d, x, 1, 4)
    need(x.size)
    depth = d.int(1, x.ndim)
    reduction = d.pick(("none", "add", "mul", "max", "min")) if d.opset >= 18 else d.pick(("none", "add", "mul")) if d.opset >= 16 else "none"
    lead = [1] if reduction == "none" else list(d.shape(1, 2))
    indices = np.stack([d.array(I64, lead, -x.shape[k], x.shape[k] - 1) for k in range(depth)], -1)
    return Made([x, indices, d.array(x.dtype, [*lead, *x.shape[depth:]])], {"reduction": reduction} if reduction != "none" else {})


@spec("OneHot")
def _one_hot(d, x, op):
    need(x is None)
    indices = d.array(d.pick((I32, I64, F32)), d.shape(0, 3), -4, 4)
    indices = np.trunc(indices).astype(indices.dtype)
    depth = np.array(d.pick((3, 5)), d.pick((I64, I32, F32)))
    return Made([indices, depth if d.chance(0.5) else depth.reshape(1), d.array(d.pick((F32, I64, I32)), (2,))], maybe(d, axis=d.axis(indices.ndim + 1)))


@spec("Range")
def _range(d, x, op):
    need(x is None)
    kind = d.pick((F32, F64, I32, I64, np.int16))
    step = d.pick((1, 2, -1, -3)) if np.dtype(kind).kind == "i" else d.pick((1, 0.5, -0.25))
    return Made([np.array(v, kind) for v in (d.int(-5, 5), d.int(-8, 8), step)])


@spec("ConstantOfShape", "Shape", "Size", "EyeLike")
def _makers(d, x, op):
    if op == "ConstantOfShape":
        need(x is None)
        import onnx

        value = d.array(d.pick((F32, I64, np.bool_, F16, U8)), (1,))
        return Made([np.array(d.shape(0, 3), I64)], maybe(d, value=onnx.numpy_helper.from_array(value)))
    if op == "EyeLike":
        return Made([numbers(d, x, 2, 2, (F32, I64, U8, F64))], maybe(d, k=d.int(-3, 3), dtype=d.pick((1, 7, 11))))
    x = numbers(d, x, 0, 4, ANY)
    return Made([x], maybe(d, start=d.int(-5, 5), end=d.int(-5, 5)) if op == "Shape" and d.opset >= 15 else {})


@spec("Trilu", since=14)
def _trilu(d, x, op):
    x = numbers(d, x, 2, 4, NUMBERS + (np.bool_,))
    return Made([x] + ([np.array(d.int(-4, 4), I64)] if d.chance(0.6) else []), maybe(d, upper=d.int(0, 1)))


@spec("NonZero", jumps=True)
def _non_zero(d, x, op):
    return Made([numbers(d, x, 1, 4, NUMBERS + (np.bool_,))])


@spec("Unique", jumps=True)
def _unique(d, x, op):
    x = numbers(d, x, 1, 3, (F32, I64, I8, F64, object))
    return Made([x], maybe(d, axis=d.axis(x.ndim), sorted=d.int(0, 1)), outputs=d.pick((1, 4)))


@spec("Compress")
def _compress(d, x, op):
    x = numbers(d, x, 1, 4, ANY)
    if d.chance(0.3):
        return Made([x, d.array(np.bool_, (d.int(0, x.size),))])
    axis = d.axis(x.ndim)
    return Made([x, d.array(np.bool_, (d.int(0, x.shape[axis]),))], {"axis": axis})


@spec("ReverseSequence")
def _reverse(d, x, op):
    x = numbers(d, x, 2, 4, ANY)
    need(x.size)
    time = d.int(0, 1)
    return Made([x, d.array(I64, (x.shape[1 - time],), 1, x.shape[time])], dict(time_axis=time, batch_axis=1 - time))


@spec("CenterCropPad", since=18)
def _crop(d, x, op):
    x = numbers(d, x, 1, 4, NUMBERS)
    if d.chance(0.5):
        return Made([x, np.array([d.int(1, 9) for _ in x.shape], I64)])
    axes = sorted(d.axes(x.ndim))
    return Made([x, np.array([d.int(1, 9) for _ in axes], I64)], {"axes": axes})


@spec("Col2Im", since=18, exact=False)
def _col2im(d, x, op):
    need(x is None)
    size, block = [d.int(2, 6), d.int(2, 6)], [d.int(1, 2), d.int(1, 2)]
    strides, pads = [d.int(1, 2), d.int(1, 2)], [d.int(0, 1) for _ in range(4)]
    count = [(size[k] + pads[k] + pads[k + 2] - block[k]) // strides[k] + 1 for k in range(2)]
    need(min(count) > 0)
    x = d.array(d.pick((F32, F64)), (d.int(1, 2), d.int(1, 3) * block[0] * block[1], count[0] * count[1]))
    return Made([x, np.array(size, I64), np.array(block, I64)], dict(strides=strides, pads=pads))


@spec("NonMaxSuppression", jumps=True)
def _nms(d, x, op):
    need(x is None)
    boxes, n, classes = d.int(1, 8), d.int(1, 2), d.int(1, 3)
    corner = d.rng.uniform(0, 5, (n, boxes, 2))
    full = np.concatenate([corner, corner + d.rng.uniform(0.5, 4, (n, boxes, 2))], -1).astype(F32)
    return Made([full, d.array(F32, (n, classes, boxes), 0, 1), np.array([d.int(0, 4)], I64), np.array([0.4], F32), np.array([0.2], F32)], maybe(d, center_point_box=0))


@spec("RoiAlign", exact=False, since=16)
def _roi(d, x, op):
    x = image(d, x, dtypes=(F32, F64), ranks=(4,))
    need(x.ndim == 4)
    n = d.int(1, 3)
    corner = d.rng.uniform(0, 4, (n, 2))
    rois = np.concatenate([corner, corner + d.rng.uniform(0.5, 4, (n, 2))], 1).astype(x.dtype)
    return Made([x, rois, d.array(I64, (n,), 0, x.shape[0] - 1)], maybe(d, mode=d.pick(("avg", "max")), output_height=2, output_width=3, sampling_ratio=d.int(0, 2), spatial_scale=0.5))


@spec("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", exact=False, themes=())
def _loss(d, x, op):
    need(x is None)
    n, c = d.int(1, 4), d.int(1, 5)
    extra = d.shape(0, 2)
    need(np.prod(extra))
    dtype = d.pick((F32, F32, F64))
    inputs = [d.array(dtype, (n, c, *extra)), d.array(d.pick((I32, I64)), (n, *extra), 0, c - 1)] + ([d.array(dtype, (c,), 0.1, 2)] if d.chance(0.5) else [])
    return Made(inputs, maybe(d, reduction=d.pick(("none", "mean", "sum"))) | ({"ignore_index": 0} if d.chance(0.2) else {}), outputs=d.int(1, 2) if op[0] == "S" else 1)


# Quantized

def scale_of(d, shape=()):
    return np.asarray(d.rng.uniform(0.02, 0.2, shape)).astype(F32)


@spec("QuantizeLinear", jumps=True, since=13)
def _quantize(d, x, op):
    x = floats(d, x, 0, 4, (F32,))
    kind = d.pick((U8, I8))
    if x.ndim > 1 and d.chance(0.4):
        axis = d.axis(x.ndim)
        return Made([x, scale_of(d, (x.shape[axis],)), d.array(kind, (x.shape[axis],), 0, 9)], {"axis": axis})
    return Made([x, scale_of(d)] + ([d.array(kind, (), 0, 9)] if d.chance(0.7) else []))


@spec("DequantizeLinear", exact=True)
def _dequantize(d, x, op):
    x = floats(d, x, 0, 4, (U8, I8, I32) + ((np.int16, np.uint16, ml_dtypes.int4, ml_dtypes.uint4) if d.opset >= 21 else ()))
    if x.ndim > 1 and d.chance(0.4):
        axis = d.axis(x.ndim)
        zero = [] if d.chance(0.3) else [d.array(x.dtype, (x.shape[axis],), 0, 7)] if x.dtype != I32 else []
        return Made([x, scale_of(d, (x.shape[axis],)), *zero], {"axis": axis})
    return Made([x, scale_of(d)] + ([d.array(x.dtype, (), 0, 7)] if d.chance(0.6) and x.dtype != I32 else []))


@spec("DynamicQuantizeLinear", jumps=True)
def _dynamic(d, x, op):
    x = floats(d, x, 1, 3, (F32,))
    need(x.size and np.isfinite(x).all())
    return Made([x], outputs=3)


def bytes_of(d, kind, shape):
    """Small numbers, or of the whole range."""
    info = np.iinfo(kind)
    return d.array(kind, shape, int(info.min), int(info.max)) if d.chance(0.5) else d.array(kind, shape)


def inner_size(d, shape):
    """The last dim at times beyond a vector or a tile of bytes."""
    return (*shape[:-1], d.pick((63, 64, 65, 130, 200))) if shape and d.chance(0.3) and np.prod(shape[:-1]) < 100 else shape


@spec("MatMulInteger")
def _matmul_integer(d, x, op):
    need(x is None)
    a = bytes_of(d, d.pick((U8, I8)), inner_size(d, d.shape(2, 3)))
    b = bytes_of(d, d.pick((U8, I8)), (a.shape[-1], d.size()))
    return Made([a, b] + ([d.array(a.dtype, (), 0, 5)] if d.chance(0.5) else [None]) + ([d.array(b.dtype, d.pick(((), (b.shape[-1],))), 0, 5)] if d.chance(0.5) else []))


@spec("QLinearMatMul", jumps=True)
def _qmatmul(d, x, op):
    need(x is None)
    kind = d.pick((U8, I8))
    a = bytes_of(d, kind, inner_size(d, d.shape(2, 3)))
    b = bytes_of(d, kind, (a.shape[-1], d.size()))
    wide = (b.shape[-1],) if d.chance(0.3) else ()
    return Made([a, scale_of(d), d.array(kind, (), 0, 5), b, scale_of(d, wide), d.array(kind, wide, 0, 5), scale_of(d), d.array(kind, (), 0, 5)])


@spec("ConvInteger", "QLinearConv", jumps=True, themes=())
def _qconv(d, x, op):
    need(x is None)
    kind = d.pick((U8, I8)) if op == "QLinearConv" else U8
    x = image(d, None, dtypes=(U8,), ranks=(3, 4, 4, 4)).astype(kind)
    kernel, attributes = window(d, x.shape[2:])
    group = d.pick([g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0])
    filters = group * d.int(1, 4)
    attributes |= {"group": group} if group > 1 else {}
    w = bytes_of(d, d.pick((kind, I8)), [filters, x.shape[1] // group, *kernel])
    if op == "ConvInteger":
        zero = [d.array(U8, (), 0, 5)] if d.chance(0.6) else []
        return Made([x, w] + zero + ([d.array(w.dtype, (), 0, 5)] if zero and d.chance(0.4) else []), attributes)
    wide = (filters,) if d.chance(0.4) else ()
    inputs = [x, scale_of(d), d.array(kind, (), 0, 5), w, scale_of(d, wide), d.array(w.dtype, wide, 0, 0 if wide and w.dtype == I8 else 5), scale_of(d), d.array(kind, (), 0, 5)]
    return Made(inputs + ([d.array(I32, (filters,), -50, 50)] if d.chance(0.5) else []), attributes)


# Signals and text

@spec("DFT", exact=False, since=20)
def _dft(d, x, op):
    need(x is None)
    inverse = d.chance(0.3)
    onesided = d.chance(0.3)
    n = d.int(1, 12)
    x = d.array(d.pick((F32, F64)), (d.int(1, 2), n, 1 if onesided and not inverse else 2))
    length = np.array(d.int(1, 14), I64) if d.chance(0.3) else None
    return Made([x, length, np.array(d.pick((1, -2)), I64)], maybe(d, inverse=1) if inverse else {"onesided": 1} if onesided else {})


@spec("HannWindow", "HammingWindow", "BlackmanWindow", exact=False, since=17)
def _window(d, x, op):
    need(x is None)
    return Made([np.array(d.int(1, 20), d.pick((I32, I64)))], maybe(d, periodic=d.int(0, 1), output_datatype=d.pick((1, 11))), evaluate=False)  # its zeros are rounded sums: nothing to go on from


@spec("StringConcat", "StringSplit", since=20, themes=())
def _strings(d, x, op):
    x = floats(d, x, 1, 3, (object,))
    if op == "StringConcat":
        return Made([x, d.array(object, d.broadcastable(x.shape))])
    return Made([x], maybe(d, delimiter=d.pick(("a", " ", ".")), maxsplit=d.int(1, 2)), outputs=2)


@spec("StringNormalizer", themes=())
def _normalizer(d, x, op):
    need(x is None)
    return Made([d.array(object, d.pick(((4,), (1, 3))))], maybe(d, case_change_action=d.pick(("LOWER", "UPPER", "NONE")), is_case_sensitive=d.int(0, 1)))
