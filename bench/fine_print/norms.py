"""Normalizations, and what is element by element."""
import numpy as np

from .cases import F16, F32, F64, Made, Skip, given, need, operator

I32 = np.int32
SHAPES = [(2, 3, 8), (2, 3, 1), (2, 3, 33), (1, 8), (8,), (2, 3, 0), (0, 3, 8), (2, 2, 3, 8)]
EPSILON = [None, 1e-3, 0.0, 1e-12]


def normalized_dims(s):
    shape, axis = s["shape"], s["axis"] if s["axis"] is not None else -1
    need(-len(shape) <= axis < len(shape))
    return shape[axis % len(shape):]


@operator("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", domain="", shape=SHAPES, dtype=[F32, F64, F16], axis=[None, -1, 0, 1, -2, 2], epsilon=EPSILON, stash_type=[None, 1, 10, 11, 16],
          bias=[False, True], outputs=[1, 2, 3], scale=["whole", "last", "one", "scalar", "of float"], mean=[0, 1000])
def layer_norm(source, s):
    op, dtype = s["op"], s["dtype"]
    dims = normalized_dims(s)
    most = {"LayerNormalization": 3, "RMSNormalization": 1, "SimplifiedLayerNormalization": 2}[op]
    need(s["outputs"] <= most and (not s["bias"] or op == "LayerNormalization"))
    shape = {"whole": dims, "last": dims[-1:], "one": (1,) * len(dims), "scalar": ()}.get(s["scale"], dims)
    x = source.floats(dtype, *s["shape"]) + dtype(s["mean"])
    inputs = [x, np.asarray(source.floats(F32 if s["scale"] == "of float" else dtype, *shape))] + ([source.floats(dtype, *dims)] if s["bias"] else [])
    return Made(inputs, given(s, "axis", "epsilon", "stash_type"), [True] * s["outputs"], weights=(1, 2), opset=23 if op == "RMSNormalization" else 21)


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", shape=[(2, 3, 8), (2, 3, 1), (2, 3, 33), (6, 8), (2, 0, 8), (1, 3, 8)], dtype=[F32, F16, F64], skip=["same", "[1, s, h]", "[s, h]", "[1, 1, h]", "[h]"],
          beta=[False, True], bias=[False, True], sums=["none", "sum", "all", "mean"], epsilon=EPSILON)
def skip_norm(source, s):
    shape, dtype = s["shape"], s["dtype"]
    need(s["skip"] == "same" or len(shape) == 3)
    layer = s["op"] == "SkipLayerNormalization"
    need(layer or not s["beta"])
    skip = {"same": shape, "[1, s, h]": (1, *shape[1:]), "[s, h]": shape[1:], "[1, 1, h]": (1, 1, shape[-1]), "[h]": shape[-1:]}[s["skip"]]
    vector = lambda there: source.floats(dtype, shape[-1]) if there else None
    inputs = [source.floats(dtype, *shape), source.floats(dtype, *skip), vector(True)] + ([vector(s["beta"])] if layer else []) + [vector(s["bias"])]
    outputs = {"none": [True], "sum": [True, False, False, True], "all": [True] * 4, "mean": [True, True, True]}[s["sums"]]
    return Made(inputs, given(s, "epsilon"), outputs, weights=(1, 2, 3, 4), data=(0, 1))


@operator("EmbedLayerNormalization", dtype=[F32, F16], rows=[4, 1, 0], width=[8, 1, 33], segments=[False, True], mask=[None, "right", "left", "zeros", "holes"], positions=[None, "each", "[1, s]"], epsilon=EPSILON,
          outputs=[2, 3], mask_index_type=[None, 0, 1], ids=["usual", "ends", "negative", "beyond"])
def embed(source, s):
    dtype, b, rows, h = s["dtype"], 2, s["rows"], s["width"]
    ids = source.ints(I32, 0, 8, b, rows)
    if rows:
        ids.flat[0] = {"usual": 1, "ends": 8, "negative": -1, "beyond": 9}[s["ids"]]
    lengths = source.ints(I32, 1, max(1, rows), b)[:, None]
    mask = {None: None, "right": np.arange(rows) < lengths, "left": np.arange(rows) >= rows - lengths, "zeros": np.zeros((b, rows)), "holes": np.arange(rows) % 2 + np.zeros((b, 1))}[s["mask"]]
    positions = {None: None, "each": source.ints(I32, 0, 6, b, rows), "[1, s]": source.ints(I32, 0, 6, 1, rows)}[s["positions"]]
    inputs = [ids, source.ints(I32, 0, 1, b, rows) if s["segments"] else None, source.floats(dtype, 9, h), source.floats(dtype, 7, h), source.floats(dtype, 2, h) if s["segments"] else None,
              source.floats(dtype, h), source.floats(dtype, h), None if mask is None else mask.astype(I32), positions]
    return Made(inputs, given(s, "epsilon", "mask_index_type"), [True] * s["outputs"], weights=(2, 3, 4, 5, 6), data=(2, 3))


@operator("BiasGelu", "FastGelu", "QuickGelu", "Gelu", shape=[(2, 3, 8), (8,), (2, 0, 8), (3, 1), (2, 3, 33), (2, 2, 3, 8)], dtype=[F32, F16, F64], bias=["as needed", "always"], alpha=[None, 1.0, 0.0, -0.5])
def gelus(source, s):
    x, op = source.floats(s["dtype"], *s["shape"]) * s["dtype"](3), s["op"]
    need(s["bias"] == "as needed" or op == "FastGelu")
    need(s["alpha"] is None or op == "QuickGelu")
    bias = op == "BiasGelu" or s["bias"] == "always"
    return Made([x] + ([source.floats(s["dtype"], s["shape"][-1])] if bias else []), given(s, "alpha"), weights=(1,))


@operator("Gelu", domain="", shape=[(2, 3, 8), (), (2, 0, 8), (2, 3, 33)], dtype=[F32, F16, F64], approximate=[None, "none", "tanh"])
def gelu(source, s):
    return Made([np.asarray(source.floats(s["dtype"], *s["shape"]) * s["dtype"](3), s["dtype"])], given(s, "approximate"))


@operator("Swish", domain="", shape=[(2, 3, 8), (), (2, 0, 8), (2, 3, 33)], dtype=[F32, F16, F64], alpha=[None, 1.702, 0.0, -1.0])
def swish(source, s):
    return Made([np.asarray(source.floats(s["dtype"], *s["shape"]) * s["dtype"](3), s["dtype"])], given(s, "alpha"), opset=24)


@operator("GroupNormalization", domain="", shape=[(2, 4, 3, 3), (2, 4), (2, 4, 5), (1, 4, 1, 1), (0, 4, 3, 3), (2, 4, 0, 3), (2, 4, 2, 2, 2)], groups=[2, 1, 4], dtype=[F32, F16, F64], epsilon=EPSILON, stash_type=[None, 1, 10], opset=[21, 18])
def group_norm(source, s):
    wide = s["shape"][1] if s["opset"] == 21 else s["groups"]
    need(s["opset"] == 21 or s["stash_type"] is None)
    inputs = [source.floats(s["dtype"], *s["shape"])] + [source.floats(s["dtype"], wide) for _ in range(2)]
    return Made(inputs, dict(num_groups=s["groups"]) | given(s, "epsilon", "stash_type"), weights=(1, 2), opset=s["opset"])
