"""specs.py, continued: com.microsoft's fused and quantized operators, each optional input and output there or left out."""
import numpy as np

from .specs import F16, F32, F64, I8, I32, I64, U8, Made, floats, image, maybe, need, spec, window
from .specs_data import bytes_of, scale_of

MS = {"domain": "com.microsoft", "themes": (), "exact": False}
SOME = (F32, F32, F16)


def sometimes(d, make, p=0.5):
    return make() if d.chance(p) else None


def rows(d, low=2, high=3):
    """Batch and sequence: sometimes nothing at all."""
    return [d.int(0 if d.zero_size else 1, 4) for _ in range(d.int(low, high) - 1)]


# Element by element, and norms

@spec("BiasGelu", "FastGelu", "QuickGelu", "Gelu", **MS)
def _gelu(d, x, op):
    x = floats(d, x, 1, 4, SOME)
    if op == "BiasGelu" or (op == "FastGelu" and d.chance(0.5)):
        return Made([x, d.array(x.dtype, x.shape[-1:])])
    return Made([x], maybe(d, alpha=d.pick((1.0, 1.702, -0.5))) if op == "QuickGelu" else {})


@spec("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", **MS)
def _skip_norm(d, x, op):
    x = d.array(d.pick(SOME), (*rows(d, 2, 3), d.size())) if x is None else floats(d, x, 2, 3, SOME)
    need(x.shape[-1])
    wide, three = x.shape[-1:], x.ndim == 3
    skip = d.array(x.dtype, d.pick((x.shape, (1, *x.shape[1:]), x.shape[1:])) if three else x.shape)
    inputs = [x, skip, d.array(x.dtype, wide)] + [sometimes(d, lambda: d.array(x.dtype, wide)) for _ in range(2 if op == "SkipLayerNormalization" else 1)]
    sums = d.chance(0.5)
    return Made(inputs, maybe(d, epsilon=1e-3), outputs=4 if sums else 1, absent=(1, 2) if sums else ())


@spec("SimplifiedLayerNormalization", themes=("dense",), exact=False)
def _rms(d, x, op):
    x = floats(d, x, 1, 4, SOME + (F64,))
    need(x.shape[-1])
    return Made([x, d.array(x.dtype, x.shape[-1:])], maybe(d, epsilon=1e-3, axis=-1))


@spec("EmbedLayerNormalization", **MS)
def _embed(d, x, op):
    need(x is None)
    dtype, b, s, h = d.pick(SOME), d.int(1, 3), d.int(1, 6), d.int(1, 20)
    segments = d.chance(0.5)
    def ids(high):
        return d.array(I32, (b, s), 0, high)
    inputs = [ids(8), ids(1) if segments else None, d.array(dtype, (9, h)), d.array(dtype, (8, h)), d.array(dtype, (2, h)) if segments else None,
              d.array(dtype, (h,)), d.array(dtype, (h,)), sometimes(d, lambda: ids(1)), sometimes(d, lambda: ids(7))]
    return Made(inputs, maybe(d, epsilon=1e-3), outputs=d.pick((2, 3)))


# Attention

@spec("MultiHeadAttention", **MS)
def _multi_head(d, x, op):
    need(x is None)
    dtype, b, s, n, h = d.pick(SOME), d.int(1, 3), d.int(1, 6), d.int(1, 4), d.pick((4, 8, 16))
    layout = d.pick(("separate", "separate", "packed_kv", "packed_qkv", "heads_first"))
    length = s if layout == "packed_qkv" else d.int(1, 8)
    wide = h if layout.startswith("packed") or d.chance(0.7) else 6
    past = d.int(1, 4) if layout == "separate" and wide == h and d.chance(0.4) else 0
    total = past + length
    q, key, value = {"separate": lambda: ((b, s, n * h), (b, length, n * h), (b, length, n * wide)), "packed_kv": lambda: ((b, s, n * h), (b, length, n, 2, h), None),
                     "packed_qkv": lambda: ((b, s, n, 3, h), None, None), "heads_first": lambda: ((b, s, n * h), (b, n, length, h), (b, n, length, wide))}[layout]()
    inputs = [None if e is None else d.array(dtype, e) for e in (q, key, value)]
    inputs.append(sometimes(d, lambda: d.array(dtype, (2 * n * h + n * wide,)), 0.3) if layout in ("separate", "heads_first") else None)
    mask = d.pick((None, None, (b,), (b, total), (b, s, total)))
    inputs.append(None if mask is None else d.array(I32, mask, 1, total) if len(mask) == 1 else d.array(I32, mask, 0, 1))
    if mask is not None and len(mask) > 1:
        inputs[-1][..., 0] = 1
    inputs.append(sometimes(d, lambda: d.array(dtype, (d.pick((1, b)), d.pick((1, n)), s, total)), 0.4))
    if past:
        inputs += [d.array(dtype, (b, n, past, h)) for _ in range(2)]
    presents = layout == "separate" and (past or d.chance(0.3))
    return Made(inputs, dict(num_heads=n) | maybe(d, scale=0.25) | ({"unidirectional": 1} if d.chance(0.3) else {}), outputs=3 if presents else 1)


@spec("Attention", **MS)
def _packed_attention(d, x, op):
    need(x is None)
    b, s, n, h, wide = d.int(1, 3), d.int(1, 6), d.int(1, 4), d.pick((4, 8)), d.int(1, 20)
    past = d.int(1, 4) if d.chance(0.3) else 0
    total, hidden = past + s, n * h
    value = hidden if past or d.chance(0.7) else n * 6
    mask = d.pick((None, None, (b,), (b, total), (b, s, total)))
    mask = None if mask is None else d.array(I32, mask, 1, total) if len(mask) == 1 else d.array(I32, mask, 0, 1)
    if mask is not None and mask.ndim > 1:
        mask[..., 0] = 1
    inputs = [d.array(F32, (b, s, wide)), d.array(F32, (wide, 2 * hidden + value)), sometimes(d, lambda: d.array(F32, (2 * hidden + value,)), 0.7), mask,
              d.array(F32, (2, b, n, past, h)) if past else None, sometimes(d, lambda: d.array(F32, (d.pick((1, b)), d.pick((1, n)), s, total)), 0.3)]
    attributes = dict(num_heads=n) | maybe(d, scale=0.3) | ({"unidirectional": 1} if d.chance(0.4) else {}) | ({"qkv_hidden_sizes": [hidden, hidden, value]} if value != hidden else {})
    return Made(inputs, attributes, outputs=2 if past or d.chance(0.3) and value == hidden else 1)


@spec("GroupQueryAttention", **MS)
def _grouped(d, x, op):
    need(x is None)
    dtype, b, kv, h = d.pick(SOME), d.int(1, 3), d.int(1, 3), d.pick((16, 32))
    n, prompt = kv * d.int(1, 3), d.chance(0.5)
    s, past = (d.int(1, 6), 0) if prompt else (1, d.int(1, 6))
    total = past + s
    lengths = np.full(b, total, I32) if prompt or d.chance(0.5) else d.array(I32, (b,), 2, total)
    lengths[0] = total
    packed = d.chance(0.3)
    inputs = [d.array(dtype, (b, s, (n + 2 * kv) * h if packed else n * h))] + [None if packed else d.array(dtype, (b, s, kv * h)) for _ in range(2)]
    buffer = past + d.pick((0, 3))
    inputs += [d.array(dtype, (b, kv, buffer, h)) if past else None for _ in range(2)] + [(lengths - 1).astype(I32), np.array([total], I32)]
    rotary = d.chance(0.4)
    inputs += [d.array(dtype, (32, h // 2), -1, 1) if rotary else None for _ in range(2)] + [None]
    inputs.append(sometimes(d, lambda: d.array(dtype, (d.pick((1, b)), d.pick((1, n)), s, total)), 0.2))
    inputs.append(sometimes(d, lambda: d.array(dtype, (n,)), 0.2))
    attributes = dict(num_heads=n, kv_num_heads=kv) | maybe(d, scale=0.3) | ({"do_rotary": 1, "rotary_interleaved": d.int(0, 1)} if rotary else {})
    attributes |= {"local_window_size": d.int(1, 5)} if d.chance(0.2) else {}
    return Made(inputs, attributes | ({"softcap": 2.0} if d.chance(0.2) else {}), outputs=3)


@spec("RotaryEmbedding", **MS)
def _rotary(d, x, op):
    need(x is None)
    dtype, b, s, n, h = d.pick(SOME), d.int(1, 3), d.int(1, 6), d.int(1, 4), d.pick((4, 8, 16))
    four, part = d.chance(0.5), d.chance(0.3)
    half = h // 4 if part else h // 2
    positions = np.array([d.int(0, 5)], I64) if d.chance(0.4) else d.array(I64, (b, s), 0, 19)
    inputs = [d.array(dtype, (b, n, s, h) if four else (b, s, n * h)), positions, d.array(dtype, (20, half)), d.array(dtype, (20, half))]
    return Made(inputs, maybe(d, interleaved=d.int(0, 1)) | ({"num_heads": n, "rotary_embedding_dim": 2 * half} if part else {}))


# Products

@spec("FusedMatMul", **MS)
def _fused_matmul(d, x, op):
    need(x is None)
    dtype, batch, ta, tb = d.pick((F32, F32, F64)), d.shape(0, 2), d.int(0, 1), d.int(0, 1)
    m, k, n = d.size(), d.size(), d.size()
    other = batch if d.chance(0.6) else ()
    return Made([d.array(dtype, (*batch, *((k, m) if ta else (m, k)))), d.array(dtype, (*other, *((n, k) if tb else (k, n))))],
                maybe(d, alpha=d.pick((0.5, -2.0))) | dict(transA=ta, transB=tb))


@spec("FusedGemm", **MS)
def _fused_gemm(d, x, op):
    need(x is None)
    ta, tb, m, k, n = d.int(0, 1), d.int(0, 1), d.size(), d.size(), d.size()
    inputs = [d.array(F32, (k, m) if ta else (m, k)), d.array(F32, (n, k) if tb else (k, n)), sometimes(d, lambda: d.array(F32, d.pick(((m, n), (1, n), (n,), (m, 1), ()))), 0.7)]
    name = d.pick(("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu"))
    return Made(inputs, dict(activation=name, transA=ta, transB=tb) | maybe(d, alpha=0.5, beta=1.5) | ({"activation_alpha": 0.3} if name in ("LeakyRelu", "Elu") else {}))


@spec("FusedConv", **MS)
def _fused_conv(d, x, op):
    x = image(d, x, dtypes=(F32,), ranks=(3, 4, 4, 4))
    channels = x.shape[1]
    group = d.pick([g for g in range(1, channels + 1) if channels % g == 0])
    kernel, attributes = window(d, x.shape[2:])
    need("auto_pad" not in attributes)
    filters = group * d.int(1, 4)
    pads, strides, dilations = (attributes.get(name, [default] * 9) for name, default in (("pads", 0), ("strides", 1), ("dilations", 1)))
    rank = len(kernel)
    sizes = [(x.shape[2 + k] + pads[k] + pads[k + rank] - dilations[k] * (kernel[k] - 1) - 1) // strides[k] + 1 for k in range(rank)]
    bias, sum_ = sometimes(d, lambda: d.array(F32, (filters,)), 0.6), sometimes(d, lambda: d.array(F32, (x.shape[0], filters, *sizes)), 0.3)
    name, parameters = d.pick((("Relu", []), ("LeakyRelu", [0.2]), ("Sigmoid", []), ("Tanh", []), ("Clip", [-0.5, 1.0]), ("HardSigmoid", [0.3, 0.4])))
    attributes |= dict(activation=name, kernel_shape=kernel, group=group) | ({"activation_params": parameters} if parameters else {})
    return Made([x, d.array(F32, [filters, channels // group, *kernel]), bias, sum_], attributes)


# Quantized

def zero_of(d, kind, shape=()):
    return d.array(kind, shape, 0, 9)


def quantized(d, kind, shape, optional=True):
    """A tensor, its scale, its zero point (left out at times)."""
    return [bytes_of(d, kind, shape), scale_of(d), sometimes(d, lambda: zero_of(d, kind), 0.7) if optional else zero_of(d, kind)]


@spec("QLinearAdd", "QLinearMul", **MS, jumps=True)
def _qbinary(d, x, op):
    need(x is None)
    kind, shape = d.pick((U8, I8)), d.shape(0, 4)
    return Made(quantized(d, kind, shape) + quantized(d, kind, d.broadcastable(shape)) + [scale_of(d), sometimes(d, lambda: zero_of(d, kind))])


@spec("QLinearSigmoid", "QLinearLeakyRelu", "QLinearReduceMean", "QLinearSoftmax", **MS, jumps=True)
def _qunary(d, x, op):
    need(x is None)
    kind, shape = d.pick((U8, I8)), d.shape(1, 4)
    soft = op == "QLinearSoftmax"  # ONNX Runtime rounds 1 / scale down to a whole number
    inputs = quantized(d, kind, shape) + [np.array(1 / 256, F32) if soft else scale_of(d), zero_of(d, kind) if soft else sometimes(d, lambda: zero_of(d, kind))]
    attributes = {"QLinearLeakyRelu": lambda: maybe(d, alpha=0.2), "QLinearSoftmax": lambda: dict(opset=13, axis=d.axis(len(shape))), "QLinearSigmoid": dict,
                  "QLinearReduceMean": lambda: dict(axes=d.axes(len(shape)), keepdims=d.int(0, 1))}[op]()
    return Made(inputs, attributes)


@spec("QLinearAveragePool", "QLinearGlobalAveragePool", **MS, jumps=True)
def _qpool(d, x, op):
    need(x is None)
    kind = d.pick((U8, I8))
    shape = (d.int(1, 2), d.int(1, 5), d.int(1, 8), d.int(1, 8))
    whole = op == "QLinearGlobalAveragePool"
    inputs = quantized(d, kind, shape, optional=not whole) + [scale_of(d), zero_of(d, kind) if whole else sometimes(d, lambda: zero_of(d, kind))]
    if whole:
        return Made(inputs, maybe(d, channels_last=0))
    kernel, attributes = window(d, shape[2:], dilate=False)
    attributes.pop("dilations", None)
    need("auto_pad" not in attributes)  # ONNX Runtime begins beyond the edge where the padding would be negative
    return Made(inputs, attributes | dict(kernel_shape=kernel) | maybe(d, count_include_pad=d.int(0, 1)))


@spec("QLinearConcat", "QLinearWhere", **MS, jumps=True)
def _qjoin(d, x, op):
    need(x is None)
    kind, shape = d.pick((U8, I8)), d.shape(1, 3)
    if op == "QLinearWhere":
        return Made([d.array(np.bool_, d.broadcastable(shape))] + quantized(d, kind, shape, False) + quantized(d, kind, d.broadcastable(shape), False) + [scale_of(d), zero_of(d, kind)])
    axis, inputs = d.axis(len(shape)), [scale_of(d), zero_of(d, kind)]
    for _ in range(d.int(1, 3)):
        own = list(shape)
        own[axis] = d.size()
        inputs += quantized(d, kind, own, False)
    return Made(inputs, {"axis": axis}, constants=tuple(k for k in range(len(inputs)) if k < 2 or (k - 2) % 3))


@spec("MatMulIntegerToFloat", "DynamicQuantizeMatMul", **MS, jumps=True)
def _to_float(d, x, op):
    need(x is None)
    kind, shape, n = d.pick((U8, I8)), d.shape(2, 3), d.size()
    wide = (n,) if d.chance(0.4) else ()
    b, scale, zero = bytes_of(d, kind, (shape[-1], n)), scale_of(d, wide), sometimes(d, lambda: zero_of(d, kind, wide))
    bias = sometimes(d, lambda: d.array(F32, (n,)))
    if op == "DynamicQuantizeMatMul":
        need(np.prod(shape))
        return Made([d.array(F32, shape), b, scale, zero, bias])
    own = d.pick((U8, I8)) if kind == I8 else U8
    return Made([bytes_of(d, own, shape), b, scale_of(d), scale, sometimes(d, lambda: zero_of(d, own)), zero, bias])


@spec("QGemm", **MS, jumps=True)
def _qgemm(d, x, op):
    need(x is None)
    kind, ta, tb, m, k, n = d.pick((U8, I8)), d.int(0, 1), d.int(0, 1), d.size(), d.size(), d.size()
    own = d.pick((U8, I8)) if kind == I8 else U8
    wide = (n,) if d.chance(0.4) else ()
    inputs = [bytes_of(d, own, (k, m) if ta else (m, k)), scale_of(d), zero_of(d, own), bytes_of(d, kind, (n, k) if tb else (k, n)), scale_of(d, wide), zero_of(d, kind, wide)]
    inputs.append(sometimes(d, lambda: d.array(I32, d.pick(((n,), (1, n), (m, n))), -500, 500)))
    if d.chance(0.6):
        inputs += [np.asarray(scale_of(d) * 30, F32), zero_of(d, own)]
    return Made(inputs, dict(transA=ta, transB=tb) | maybe(d, alpha=0.5))


@spec("MatMulNBits", **MS)
def _nbits(d, x, op):
    need(x is None)
    dtype, bits, block, n, k = d.pick(SOME), d.pick((4, 4, 8)), d.pick((16, 32, 64)), d.size(), d.int(1, 100)
    need(n)
    blocks = -(-k // block)
    weights = d.array(U8, (n, blocks, block * bits // 8), 0, 255)
    zero = sometimes(d, lambda: d.array(U8, (n, -(-blocks * bits // 8)), 0, 255))
    bias = sometimes(d, lambda: d.array(dtype, (n,)), 0.3)
    return Made([d.array(dtype, (*rows(d, 2, 3), k)), weights, np.abs(d.array(dtype, (n, blocks), 0.01, 0.1)), zero, None, bias],
                dict(K=k, N=n, block_size=block, bits=bits) | maybe(d, accuracy_level=0), constants=(1, 2, 3, 5))


@spec("GatherBlockQuantized", **MS)
def _gather_block(d, x, op):
    need(x is None)
    dtype, block, n, k = d.pick(SOME), d.pick((16, 32)), d.int(1, 9), 32 * d.int(1, 3)
    data, blocks = d.array(U8, (n, k // 2), 0, 255), k // block
    zero = sometimes(d, lambda: d.array(U8, (n, -(-blocks // 2)), 0, 255))
    return Made([data, d.array(d.pick((I32, I64)), d.shape(0, 2), 0, n - 1), d.array(dtype, (n, blocks), 0.01, 0.1), zero], dict(bits=4, block_size=block, gather_axis=0, quantize_axis=1))
