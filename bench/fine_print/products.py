"""Products of com.microsoft: fused ones, and ones with weights in blocks of few bits."""
import ml_dtypes
import numpy as np

from .cases import F16, F32, F64, Made, given, need, operator

U8, I8, I32, I64 = np.uint8, np.int8, np.int32, np.int64


def turned(array, last_two, batch):
    """A matrix as the attributes of FusedMatMul have it: transposed, its batch axes moved in between the last two or not."""
    if last_two:
        array = np.swapaxes(array, -1, -2)
    if batch:  # [batch..., m, k] -> [m, batch..., k]
        array = np.moveaxis(array, -2, 0)
    return np.ascontiguousarray(array)


@operator("FusedMatMul", dtype=[F32, F16, F64], left=[(2, 4, 5), (4, 5), (2, 3, 4, 5), (5,), (0, 4, 5)], right=["batch", "matrix", "one", "vector"], sizes=[(4, 5, 3), (1, 1, 1), (4, 0, 3), (0, 5, 3), (17, 33, 19)],
          alpha=[None, 0.5, -2.0, 0.0], transA=[None, 1], transB=[None, 1], transBatchA=[None, 1], transBatchB=[None, 1])
def fused_matmul(source, s):
    m, k, n = s["sizes"]
    batch = s["left"][:-2]
    need(len(s["left"]) > 1 or s["right"] == "matrix" and not s["transA"] and not s["transBatchA"])
    a = source.floats(s["dtype"], *batch, m, k) if len(s["left"]) > 1 else source.floats(s["dtype"], k)
    b = source.floats(s["dtype"], *{"batch": batch, "matrix": (), "one": (1,) * len(batch), "vector": ()}[s["right"]], *((k, n) if s["right"] != "vector" else (k,)))
    need(s["right"] != "vector" or not s["transB"] and not s["transBatchB"])
    need(not s["transBatchA"] or a.ndim > 2) or need(not s["transBatchB"] or b.ndim > 2)
    a = a if a.ndim == 1 else turned(a, s["transA"], s["transBatchA"])
    b = b if b.ndim == 1 else turned(b, s["transB"], s["transBatchB"])
    return Made([a, b], given(s, "alpha", "transA", "transB", "transBatchA", "transBatchB"), weights=(1,))


@operator("FusedGemm", dtype=[F32, F16, F64], sizes=[(4, 5, 3), (1, 1, 1), (4, 0, 3), (0, 5, 3), (17, 33, 19)], bias=[None, "[n]", "[1, n]", "[m, 1]", "[m, n]", "scalar"], alpha=[None, 0.5, 0.0], beta=[None, 1.5, 0.0], transA=[None, 1],
          transB=[None, 1], activation=["Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "HardSigmoid", "Softplus", "Softsign", "ThresholdedRelu", "Selu", ""], activation_alpha=[None, 0.3], activation_beta=[None, 0.4],
          activation_gamma=[None, 0.7])
def fused_gemm(source, s):
    m, k, n = s["sizes"]
    shape = {"[n]": (n,), "[1, n]": (1, n), "[m, 1]": (m, 1), "[m, n]": (m, n), "scalar": ()}
    bias = None if s["bias"] is None else np.asarray(source.floats(s["dtype"], *shape[s["bias"]]))
    inputs = [source.floats(s["dtype"], *((k, m) if s["transA"] else (m, k))), source.floats(s["dtype"], *((n, k) if s["transB"] else (k, n))), bias]
    return Made(inputs, given(s, "alpha", "beta", "transA", "transB", "activation", "activation_alpha", "activation_beta", "activation_gamma"), weights=(1, 2))


@operator("FusedConv", dtype=[F32, F16], spatial=[(6, 7), (9,), (4, 5, 3), (1, 1), (0, 4)], batch=[1, 2, 0], channels=[(3, 4), (16, 16), (8, 32), (1, 1), (4, 4)], group=[1, 2, "each"], kernel=[3, 1, 2], pads=[None, 1, "uneven"], strides=[None, 2],
          dilations=[None, 2], auto_pad=[None, "SAME_UPPER", "SAME_LOWER", "VALID"], bias=[False, True], sum=[False, True], kernel_shape=[True, False],
          activation=["Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "HardSigmoid", "Elu", "none"])
def fused_conv(source, s):
    rank, (c, filters), dtype = len(s["spatial"]), s["channels"], s["dtype"]
    group = c if s["group"] == "each" else s["group"]
    need(c % group == 0 and filters % group == 0 and (s["auto_pad"] is None or s["pads"] is None and s["dilations"] is None))
    kernel, strides, dilations = (s["kernel"],) * rank, (s["strides"] or 1,) * rank, (s["dilations"] or 1,) * rank
    pads = {None: [0] * 2 * rank, 1: [1] * 2 * rank, "uneven": [k % 3 for k in range(2 * rank)]}[s["pads"]]
    parameters = {"LeakyRelu": [0.2], "Clip": [-0.5, 1.0], "HardSigmoid": [0.3, 0.4], "Elu": [0.7]}.get(s["activation"])
    attributes = dict(group=group) | ({} if s["activation"] == "none" else {"activation": s["activation"]}) | ({"activation_params": parameters} if parameters else {})
    attributes |= {"kernel_shape": kernel} if s["kernel_shape"] else {}
    attributes |= {name: value for name, value in (("pads", pads), ("strides", strides), ("dilations", dilations), ("auto_pad", s["auto_pad"])) if s[name] is not None}
    if (s["auto_pad"] or "").startswith("SAME"):
        sizes = [-(-x // st) for x, st in zip(s["spatial"], strides)]
    else:
        sizes = [(x + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i, x in enumerate(s["spatial"])]
    need(min(sizes) >= 0)
    inputs = [source.floats(dtype, s["batch"], c, *s["spatial"]), source.floats(dtype, filters, c // group, *kernel), source.floats(dtype, filters) if s["bias"] else None,
              source.floats(dtype, s["batch"], filters, *sizes) if s["sum"] else None]
    return Made(inputs, attributes, weights=(1, 2))


@operator("MatMulNBits", dtype=[F32, F16], bits=[4, 8, 2], sizes=[(3, 64, 5), (1, 64, 5), (3, 16, 1), (3, 50, 5), (3, 1, 5), (0, 64, 5), (65, 256, 64)], block_size=[32, 16, 64, 128, 256], zero=[None, "packed", "floats", "bytes"], bias=[False, True], g_idx=[None, "in order", "mixed"],
          accuracy_level=[None, 0, 1, 2, 3, 4], rank=[2, 1, 3], scales=["[n, blocks]", "flat", "negative", "of float"], weight_prepacked=[None, 0])
def matmul_nbits(source, s):
    dtype, bits, block, (m, k, n) = s["dtype"], s["bits"], s["block_size"], s["sizes"]
    blocks = -(-k // block)
    weights = source.ints(U8, 0, 255, n, blocks, block * bits // 8)
    scale_type = F32 if s["scales"] == "of float" else dtype
    scales = (source.rng.uniform(0.01, 0.1, (n, blocks)) * (-1 if s["scales"] == "negative" else 1)).astype(scale_type)
    zero = {None: lambda: None, "packed": lambda: source.ints(U8, 0, 255, n, -(-blocks * bits // 8)), "floats": lambda: source.rng.uniform(0, 15, (n, blocks)).astype(dtype),
            "bytes": lambda: source.ints(U8, 0, 255, n * -(-blocks * bits // 8))}[s["zero"]]()
    order = None if s["g_idx"] is None else (np.arange(k) // block).astype(I32) if s["g_idx"] == "in order" else source.ints(I32, 0, blocks - 1, k)
    shape = {2: (m, k), 1: (k,), 3: (2, m, k)}[s["rank"]]
    inputs = [source.floats(dtype, *shape), weights, scales.ravel() if s["scales"] == "flat" else scales, zero, order, source.floats(dtype, n) if s["bias"] else None]
    attributes = dict(K=k, N=n, block_size=block, bits=bits) | given(s, "accuracy_level", "weight_prepacked")
    return Made(inputs, attributes, weights=(1, 2, 3, 4, 5))


@operator("MoE", dtype=[F32, F16], activation_type=["swiglu", "silu", "relu", "gelu", "identity"], swiglu_fusion=[1, 0, 2], k=[2, 1, 4, 5], normalize_routing_weights=[None, 0, 1], sizes=[(6, 8, 12), (1, 8, 12), (0, 8, 12), (33, 7, 5)], experts=[4, 1],
          bias=[True, False], numbers=[None, (1.0, 0.0, None), (1.702, 1.0, 7.0), (0.5, 0.25, 1.0)], scores=["usual", "large", "equal", "some equal", "-inf"], rank=[2, 3], use_sparse_mixer=[None, 1], third=[False, True])
def mixture_of_experts(source, s):
    dtype, kind, (tokens, hidden, inter), experts = s["dtype"], s["activation_type"], s["sizes"], s["experts"]
    need(s["k"] <= experts or experts == 4) or need(kind == "swiglu" or s["swiglu_fusion"] == 1 and s["numbers"] is None)
    wide = inter * (2 if kind == "swiglu" and not s["third"] else 1)
    scores = source.floats(dtype, tokens, experts)
    if s["scores"] == "large":
        scores = scores * dtype(50)
    if s["scores"] in ("equal", "some equal"):
        scores[:, :: 1 if s["scores"] == "equal" else 2] = 0.5
    if s["scores"] == "-inf":
        scores[:, 1:2] = -np.inf
    x = source.floats(dtype, *((tokens, hidden) if s["rank"] == 2 else (1, tokens, hidden)))
    bias = lambda width: source.floats(dtype, experts, width) if s["bias"] else None
    inputs = [x, scores, source.floats(dtype, experts, wide, hidden), bias(wide), source.floats(dtype, experts, hidden, inter), bias(hidden)]
    if s["third"]:
        inputs += [source.floats(dtype, experts, inter, hidden), bias(inter)]
    attributes = dict(activation_type=kind, k=s["k"]) | given(s, "normalize_routing_weights", "use_sparse_mixer")
    if kind == "swiglu":
        alpha, beta, limit = s["numbers"] or (None, None, None)
        attributes |= {"swiglu_fusion": s["swiglu_fusion"]} | ({"activation_alpha": alpha, "activation_beta": beta} if alpha else {}) | ({"swiglu_limit": limit} if limit else {})
    return Made(inputs, attributes, weights=(2, 3, 4, 5))


@operator("GatherBlockQuantized", dtype=[F32, F16], data=["uint8", "uint4", "int4"], bits=[4, 8], shape=[(6, 64), (1, 32), (2, 3, 64)], block_size=[32, 16, 64], zero=[False, True], indices=[(3,), (), (2, 2), (0,)], kind=[I64, I32],
          which=["usual", "negative", "ends", "beyond"], axes=[(0, -1), (0, 1), (1, 0), (1, -1)])
def gather_blocks(source, s):
    dtype, shape, block, (gather, quantize) = s["dtype"], list(s["shape"]), s["block_size"], s["axes"]
    rank = len(shape)
    packed = 8 // s["bits"] if s["data"] == "uint8" else 1
    need(s["data"] == "uint8" or s["bits"] == 4)
    need(s["data"] != "uint8" or gather == 0)
    wide = shape[quantize]
    def along(length):
        return [length if i == quantize % rank else d for i, d in enumerate(shape)]
    blocks = -(-wide // block)
    kinds = {"uint8": U8, "uint4": ml_dtypes.uint4, "int4": ml_dtypes.int4}
    low, high = {"uint8": (0, 255), "uint4": (0, 15), "int4": (-8, 7)}[s["data"]]
    data = source.ints(I32, low, high, *along(-(-wide // packed))).astype(kinds[s["data"]])
    scales = source.rng.uniform(0.01, 0.1, along(blocks)).astype(dtype)
    zero = source.ints(I32, low, high, *along(-(-blocks // packed))).astype(kinds[s["data"]]) if s["zero"] else None
    indices = source.ints(s["kind"], 0, shape[gather] - 1, *s["indices"])
    if indices.size:
        indices.flat[0] = {"usual": 0, "negative": -1, "ends": shape[gather] - 1, "beyond": shape[gather]}[s["which"]]
    attributes = dict(gather_axis=gather, quantize_axis=quantize, block_size=block) | ({"bits": s["bits"]} if s["bits"] != 4 or s["data"] == "uint8" else {})
    return Made([data, indices, scales, zero], attributes, weights=(0, 2, 3), data=(), opset=21)
