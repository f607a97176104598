"""Operators on 8-bit integers of com.microsoft. What is multiplied has 7 bits unless told: ONNX Runtime's products of 8 bits saturate on processors without VNNI."""
import numpy as np

from .attention import MASKS, padding_mask
from .cases import F16, F32, LOWEST, Made, given, need, operator

U8, I8, I32 = np.uint8, np.int8, np.int32
KINDS = [U8, I8]
SHAPES = [(2, 3, 5), (), (7,), (2, 0, 5), (1, 64), (2, 3, 4, 5)]
ZEROS = ["usual", None, "ends"]
SCALES = ["usual", "small", "large", "one"]


def bytes_of(source, kind, shape, bits=8):
    info = np.iinfo(kind)
    low, high = (info.min, info.max) if bits == 8 else (-63, 63) if kind == I8 else (0, 127)
    return np.asarray(source.ints(I32, low, high, *shape)).astype(kind)


def zero_of(source, kind, how, shape=()):
    if how is None:
        return None
    info = np.iinfo(kind)
    return np.asarray(source.ints(I32, 3, 9, *shape) if how == "usual" else np.full(shape, info.max)).astype(kind)


def scale_of(source, how="usual", shape=()):
    low, high = {"usual": (0.01, 0.03), "small": (1e-6, 1e-5), "large": (50, 90), "one": (1, 1)}[how]
    return np.asarray(source.rng.uniform(low, high, shape)).astype(F32)


def triple(source, s, shape, zero=None):
    return [bytes_of(source, s["kind"], shape), scale_of(source, s["scales"]), zero_of(source, s["kind"], zero or s["zero"])]


def result(source, s, factor=1.0):
    return [(scale_of(source, s["result"]) * F32(factor)).astype(F32), zero_of(source, s["kind"], s["result_zero"])]


QLINEAR = dict(kind=KINDS, shape=SHAPES, zero=ZEROS, scales=SCALES, result=SCALES, result_zero=ZEROS)


@operator("QLinearAdd", "QLinearMul", **QLINEAR, other=["same", "last", "scalar", "ones", "wider"])
def binary(source, s):
    shape = s["shape"]
    other = {"same": shape, "last": shape[-1:], "scalar": (), "ones": tuple(1 if k % 2 else d for k, d in enumerate(shape)), "wider": (2, *shape)}[s["other"]]
    return Made(triple(source, s, shape) + triple(source, s, other) + result(source, s), always=(1, 2, 4, 5, 6, 7), weights=(3,), data=())


@operator("QLinearSigmoid", "QLinearLeakyRelu", **QLINEAR, alpha=[None, 0.2, 0.0, -1.0, 2.0])
def unary(source, s):
    need(s["alpha"] is None or s["op"] == "QLinearLeakyRelu")
    return Made(triple(source, s, s["shape"]) + result(source, s), given(s, "alpha"), always=(1, 2, 3, 4), data=())


@operator("QLinearSoftmax", kind=KINDS, shape=[(2, 3, 5), (7,), (1, 64), (2, 3, 4, 5), (2, 0, 5)], zero=ZEROS, scales=SCALES, result=["1/256", "1/128", "usual"], result_zero=["lowest", "usual"], axis=[-1, 0, 1, None], opset=[13, 12, 11])
def softmax(source, s):
    need(s["axis"] is None or -len(s["shape"]) <= s["axis"] < len(s["shape"]))
    scale = {"1/256": F32(1 / 256), "1/128": F32(1 / 128), "usual": scale_of(source)}[s["result"]]
    zero = np.asarray(np.iinfo(s["kind"]).min if s["result_zero"] == "lowest" else 5, s["kind"])
    return Made(triple(source, s, s["shape"]) + [np.asarray(scale, F32), zero], given(s, "axis", "opset"), weights=(1, 2, 3, 4), data=())


@operator("QLinearAveragePool", "QLinearGlobalAveragePool", kind=KINDS, shape=[(2, 3, 6, 7), (1, 16, 5, 5), (2, 3, 9), (1, 2, 4, 4, 4), (0, 3, 6, 7)], zero=ZEROS, scales=SCALES, result=SCALES, result_zero=ZEROS, channels_last=[None, 0, 1],
          kernel=[2, 1, 3], strides=[None, 2], pads=[None, 1, "uneven"], auto_pad=[None, "SAME_UPPER", "SAME_LOWER", "VALID"], ceil_mode=[None, 1], count_include_pad=[None, 0, 1])
def pool(source, s):
    shape, whole = s["shape"], s["op"] == "QLinearGlobalAveragePool"
    rank = len(shape) - 2
    attributes = given(s, "channels_last")
    if whole:
        need(all(s[name] == first for name, first in (("kernel", 2), ("strides", None), ("pads", None), ("auto_pad", None), ("ceil_mode", None), ("count_include_pad", None))))
    else:
        need(s["auto_pad"] is None or s["pads"] is None)
        attributes |= given(s, "auto_pad", "ceil_mode", "count_include_pad") | {"kernel_shape": [s["kernel"]] * rank}
        attributes |= {} if s["strides"] is None else {"strides": [2] * rank}
        attributes |= {} if s["pads"] is None else {"pads": [min(1, s["kernel"] - 1)] * 2 * rank if s["pads"] == 1 else [k % 2 * (s["kernel"] > 1) for k in range(2 * rank)]}
    return Made(triple(source, s, shape) + result(source, s), attributes, always=(1, 2, 3, 4), data=())


@operator("QLinearConcat", **QLINEAR, axis=[0, -1, 1], parts=[2, 1, 3])
def concat(source, s):
    need(s["shape"] and -len(s["shape"]) <= s["axis"] < len(s["shape"]) and s["zero"] is not None and s["result_zero"] is not None)
    inputs = result(source, s)
    for part in range(s["parts"]):
        shape = list(s["shape"])
        shape[s["axis"]] += part if shape[s["axis"]] else 0
        inputs += triple(source, s, shape)
    return Made(inputs, {"axis": s["axis"]}, always=tuple(k for k in range(len(inputs)) if k < 2 or (k - 2) % 3), data=())


@operator("QLinearWhere", **QLINEAR, other=["same", "last", "scalar"], condition=["same", "scalar", "last"])
def where(source, s):
    need(s["zero"] is not None and s["result_zero"] is not None)
    shapes = {"same": s["shape"], "last": s["shape"][-1:], "scalar": ()}
    condition = np.asarray(source.rng.random(shapes[s["condition"]]) < 0.5)
    return Made([condition] + triple(source, s, s["shape"]) + triple(source, s, shapes[s["other"]]) + result(source, s), always=(2, 3, 5, 6, 7, 8), data=())


@operator("QLinearConv", kind=KINDS, weight_kind=KINDS, channels_last=[None, 0, 1], spatial=[(6, 7), (9,), (4, 4, 4)], channels=[(3, 4), (16, 16), (4, 4)], group=[1, 2, "each"], kernel=[3, 1], pads=[None, 1, "uneven"], strides=[None, 2], dilations=[None, 2],
          auto_pad=[None, "SAME_UPPER", "SAME_LOWER"], bias=[False, True], zero=["usual", "ends"], weight_zero=["zero", "usual", "per channel"], scales=["usual", "per channel"], result=SCALES, result_zero=["usual", "ends"])
def conv(source, s):
    rank, (c, filters) = len(s["spatial"]), s["channels"]
    group = c if s["group"] == "each" else s["group"]
    need(c % group == 0 and filters % group == 0 and (s["auto_pad"] is None or s["pads"] is None and s["dilations"] is None) and s["kind"] in (U8, s["weight_kind"]))
    x = bytes_of(source, s["kind"], (2, c, *s["spatial"]), 7)
    x = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if s["channels_last"] else x
    per = (filters,) if s["scales"] == "per channel" else ()
    wz = {"zero": lambda: np.zeros(per, s["weight_kind"]), "usual": lambda: np.full(per, 5, s["weight_kind"]), "per channel": lambda: source.ints(s["weight_kind"], 0, 5, filters)}[s["weight_zero"]]()
    need(wz.shape == per)
    inputs = [x, scale_of(source), zero_of(source, s["kind"], s["zero"]), bytes_of(source, s["weight_kind"], (filters, c // group, *[s["kernel"]] * rank), 7), scale_of(source, "usual", per), wz,
              scale_of(source, s["result"]), zero_of(source, s["kind"], s["result_zero"]), source.ints(I32, -500, 500, filters) if s["bias"] else None]
    attributes = dict(group=group) | given(s, "channels_last", "auto_pad")
    for name, value in (("pads", [1] * 2 * rank if s["pads"] == 1 else [k % 3 for k in range(2 * rank)]), ("strides", [2] * rank), ("dilations", [2] * rank)):
        attributes |= {} if s[name] is None else {name: value}
    return Made(inputs, attributes, weights=(1, 2, 3, 4, 5, 6, 7, 8), data=())


PRODUCT = dict(kind=KINDS, weight_kind=KINDS, bits=[7, 8], sizes=[(4, 5, 3), (1, 1, 1), (0, 5, 3), (4, 0, 3), (17, 64, 19)], per_column=[False, True], zero=ZEROS, weight_zero=ZEROS, bias=[False, True])


@operator("MatMulIntegerToFloat", **PRODUCT, rank=[2, 3, "3 and 3"], scales=SCALES)
def integer_to_float(source, s):
    m, k, n = s["sizes"]
    per = (n,) if s["per_column"] else ()
    a, b = {2: ((m, k), (k, n)), 3: ((2, m, k), (k, n)), "3 and 3": ((2, m, k), (2, k, n))}[s["rank"]]
    need(s["rank"] != "3 and 3" or not per)
    inputs = [bytes_of(source, s["kind"], a, s["bits"]), bytes_of(source, s["weight_kind"], b, s["bits"]), scale_of(source, s["scales"]), scale_of(source, "usual", per), zero_of(source, s["kind"], s["zero"]),
              zero_of(source, s["weight_kind"], s["weight_zero"], per), source.floats(F32, n) if s["bias"] else None]
    return Made(inputs, weights=(1, 2, 3, 4, 5, 6), data=())


@operator("DynamicQuantizeMatMul", **{axis: values for axis, values in PRODUCT.items() if axis not in ("kind", "zero", "bits")}, rank=[2, 3, "3 and 3"], sign=["both", "above 0", "below 0"])
def dynamic(source, s):
    m, k, n = s["sizes"]
    per = (n,) if s["per_column"] else ()
    a, b = {2: ((m, k), (k, n)), 3: ((2, m, k), (k, n)), "3 and 3": ((2, m, k), (2, k, n))}[s["rank"]]
    need(s["rank"] != "3 and 3" or not per)
    x = source.floats(F32, *a)
    x = {"both": x, "above 0": np.abs(x) + 1, "below 0": -np.abs(x) - 1}[s["sign"]]
    inputs = [x, bytes_of(source, s["weight_kind"], b, 7), scale_of(source, "usual", per), zero_of(source, s["weight_kind"], s["weight_zero"], per), source.floats(F32, n) if s["bias"] else None]
    return Made(inputs, weights=(1, 2, 3, 4))


@operator("QGemm", **PRODUCT, transA=[None, 1], transB=[None, 1], alpha=[None, 0.5, 0.0, -1.0], shape_of_bias=["[n]", "[1, n]", "[m, n]", "scalar"], result=["usual", None, "small", "large"], result_zero=["usual", "ends"])
def qgemm(source, s):
    m, k, n = s["sizes"]
    per = (n,) if s["per_column"] else ()
    need(s["zero"] is not None and s["weight_zero"] is not None and (s["bias"] or s["shape_of_bias"] == "[n]"))
    shape = {"[n]": (n,), "[1, n]": (1, n), "[m, n]": (m, n), "scalar": ()}[s["shape_of_bias"]]
    inputs = [bytes_of(source, s["kind"], (k, m) if s["transA"] else (m, k), s["bits"]), scale_of(source), zero_of(source, s["kind"], s["zero"]),
              bytes_of(source, s["weight_kind"], (n, k) if s["transB"] else (k, n), s["bits"]), scale_of(source, "usual", per), zero_of(source, s["weight_kind"], s["weight_zero"], per),
              np.asarray(source.ints(I32, -500, 500, *shape)).astype(I32) if s["bias"] else None]
    inputs += [] if s["result"] is None else [scale_of(source, s["result"]), zero_of(source, s["kind"], s["result_zero"])]
    return Made(inputs, given(s, "transA", "transB", "alpha"), weights=(1, 2, 3, 4, 5, 6, 7, 8), data=())


@operator("QAttention", kind=KINDS, weight_kind=KINDS, batch=[2, 1], heads=[2, 1], size=[8, 5, 64], queries=[4, 1, 0], past=[None, 3], mask=[m for m in MASKS], unidirectional=[None, 0, 1], scale=[None, 0.25, 0.0],
          mask_filter_value=[None, -500.0, LOWEST], zero=ZEROS, weight_zero=ZEROS, per_column=[False, True], do_rotary=[None, 1])
def qattention(source, s):
    b, n, h, q, past, wide = s["batch"], s["heads"], s["size"], s["queries"], s["past"] or 0, 8
    need(s["kind"] in (U8, s["weight_kind"]))
    columns, per = 3 * n * h, (3 * n * h,) if s["per_column"] else ()
    inputs = [bytes_of(source, s["kind"], (b, q, wide), 7), bytes_of(source, s["weight_kind"], (wide, columns), 7), source.floats(F32, columns), scale_of(source), scale_of(source, "usual", per),
              padding_mask(source, s["mask"], b, q, past + q, past), zero_of(source, s["kind"], s["zero"]), zero_of(source, s["weight_kind"], s["weight_zero"], per),
              None if s["past"] is None else source.floats(F32, 2, b, n, past, h)]
    return Made(inputs, dict(num_heads=n) | given(s, "unidirectional", "scale", "mask_filter_value", "do_rotary"), [True, True] if past else [True], weights=(1, 2, 3, 4, 6, 7), data=())


LINEAR = dict(kind=[U8, I8, np.int16, np.uint16, I32], shape=[(2, 3, 5), (), (7,), (2, 0, 5)], per_axis=[False, True], axis=[1, 0, -1], zero=ZEROS, scales=SCALES, dtype=[F32, F16])


@operator("QuantizeLinear", "DequantizeLinear", **LINEAR)
def linear(source, s):
    shape, quantizes = s["shape"], s["op"] == "QuantizeLinear"
    need(not s["per_axis"] or -len(shape) <= s["axis"] < len(shape))
    per = (shape[s["axis"]],) if s["per_axis"] else ()
    x = np.asarray(source.floats(s["dtype"], *shape) * s["dtype"](2)) if quantizes else bytes_of(source, s["kind"], shape)
    return Made([x, scale_of(source, s["scales"], per).astype(s["dtype"]), zero_of(source, s["kind"], s["zero"], per)], {"axis": s["axis"]}, weights=(1, 2))
