"""Small decoder-only language models, written by hand: with and without a cache, as exporters write them."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Shape:
    """What a model is like; `cache` is none, growing, sliding or in-place."""

    cache: str = "none"
    positions: str = "input"  # or arange (counted by the model itself), or none
    mask: bool = True
    layers: int = 2
    heads: int = 4
    head_size: int = 8
    vocabulary: int = 61
    table: int = 48  # rows of the table of positions
    batch: int | str = "batch"
    window: int | str = "sequence"  # fixed with sliding
    past: int = 12  # length of a sliding past or of a buffer
    ids: int = TensorProto.INT64
    last_only: bool = False
    broken: str = ""  # a mistake, for tests that must see it: shifted positions, the oldest token dropped, the past zeroed
    names: tuple[str, str] = ("past_key_values.{}.{}", "present.{}.{}")
    presents_whole: bool = True  # sliding: whether the present holds the past, too


class _Builder:
    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape, self.random = shape, np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.count = 0

    def constant(self, array: object, dtype: object = np.int64) -> str:
        self.count += 1
        name = f"c{self.count}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype=dtype), name))
        return name

    def weight(self, *dims: int, scale: float | None = None) -> str:
        scale = dims[0] ** -0.5 if scale is None else scale
        return self.constant(self.random.normal(size=dims) * scale, np.float32)

    def op(self, kind: str, *inputs: str, out: str | None = None, **attributes: object) -> str:
        self.count += 1
        name = out or f"v{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"n{self.count}", **attributes))
        return name

    def input(self, name: str, dtype: int, dims: list[object]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def output(self, name: str, dims: list[object]) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))

    def length(self, value: str, axis: int) -> str:
        return self.op("Gather", self.op("Shape", value), self.constant(axis), axis=0)

    def norm(self, x: str) -> str:
        size = self.shape.heads * self.shape.head_size
        return self.op("LayerNormalization", x, self.constant(np.ones(size), np.float32), self.constant(np.zeros(size), np.float32), axis=-1)

    def split(self, x: str) -> str:
        s = self.shape
        return self.op("Transpose", self.op("Reshape", x, self.constant([0, 0, s.heads, s.head_size])), perm=[0, 2, 1, 3])


def decoder(shape: Shape = Shape(), seed: int = 0) -> ModelProto:
    """The same seed gives the same weights, whatever the cache."""
    s, b = shape, _Builder(shape, seed)
    width = s.heads * s.head_size
    ids = b.input("input_ids", s.ids, [s.batch, s.window])
    before = ""
    fixed = {"sliding": s.past + (s.window if isinstance(s.window, int) else 0), "in-place": s.past}.get(s.cache)
    total = fixed or (s.window if s.cache == "none" else "past_sequence + sequence")
    mask = b.input("attention_mask", TensorProto.INT64, [s.batch, total]) if s.mask else ""
    tokens = b.length(ids, 1)
    if s.cache == "in-place":
        index = b.input("cache_position", TensorProto.INT64, [s.window])
        keys = b.constant(s.past)
    else:
        past = s.names[0].format(0, "key")
        before = b.length(past, 2) if s.cache != "none" else b.constant(0)
        keys = b.op("Add", before, tokens)
        index = b.op("Range", before, keys, b.constant(1))
    table, places = b.weight(s.vocabulary, width, scale=1.0), b.weight(s.table, width, scale=0.5)
    x = b.op("Gather", table, ids)
    if s.positions == "input":
        position = b.input("position_ids", TensorProto.INT64, [s.batch, s.window])
        if s.broken == "shifted":  # behind the first run
            position = b.op("Add", position, b.op("Min", before, b.constant(1)))
        x = b.op("Add", x, b.op("Gather", places, position))
    elif s.positions == "arange":
        x = b.op("Add", x, b.op("Gather", places, index))
    key_index = b.op("Range", b.constant(0), keys, b.constant(1))
    seen = b.op("LessOrEqual", b.op("Unsqueeze", key_index, b.constant([0])), b.op("Unsqueeze", index, b.constant([1])))
    if s.mask:
        on = b.op("Cast", mask, to=TensorProto.BOOL)
        seen = b.op("And", seen, b.op("Unsqueeze", on, b.constant([1, 2])))
    if s.broken == "dropped":  # token 0 is seen by the first run alone
        seen = b.op("And", seen, b.op("Or", b.op("Greater", key_index, b.constant(0)), b.op("Equal", before, b.constant(0))))
    bias = b.op("Where", seen, b.constant(0.0, np.float32), b.constant(-1e9, np.float32))
    for layer in range(s.layers):
        x = _layer(b, layer, x, bias, index)
    if s.last_only:
        x = b.op("Unsqueeze", b.op("Gather", x, b.constant(-1), axis=1), b.constant([1]))
    b.op("MatMul", b.norm(x), b.weight(width, s.vocabulary, scale=2 * width**-0.5), out="logits")
    b.outputs.insert(0, helper.make_tensor_value_info("logits", TensorProto.FLOAT, [s.batch, 1 if s.last_only else s.window, s.vocabulary]))
    graph = helper.make_graph(b.nodes, "decoder", b.inputs, b.outputs, b.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _layer(b: _Builder, layer: int, x: str, bias: str, index: str) -> str:
    s = b.shape
    width = s.heads * s.head_size
    h = b.norm(x)
    q, k, v = (b.split(b.op("MatMul", h, b.weight(width, width, scale=scale * width**-0.5))) for scale in (1.5, 1.5, 1.0))
    k, v = (_cached(b, layer, kind, value, index) for kind, value in (("key", k), ("value", v)))
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = b.op("Add", b.op("Mul", scores, b.constant(s.head_size**-0.5, np.float32)), bias)
    mixed = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    mixed = b.op("MatMul", b.op("Reshape", mixed, b.constant([0, 0, width])), b.weight(width, width, scale=2 * width**-0.5))
    x = b.op("Add", x, mixed)
    inner = b.op("Relu", b.op("MatMul", b.norm(x), b.weight(width, 2 * width)))
    return b.op("Add", x, b.op("MatMul", inner, b.weight(2 * width, width)))


def _cached(b: _Builder, layer: int, kind: str, value: str, index: str) -> str:
    s = b.shape
    if s.cache == "none":
        return value
    length = "past_sequence" if s.cache == "growing" else s.past
    past = b.input(s.names[0].format(layer, kind), TensorProto.FLOAT, [s.batch, s.heads, length, s.head_size])
    present = s.names[1].format(layer, kind)
    dims = [s.batch, s.heads, "past_sequence + sequence" if s.cache == "growing" else s.past, s.head_size]
    if s.cache == "in-place":
        spread = b.op("Expand", b.op("Unsqueeze", index, b.constant([0, 1, 3])), b.op("Shape", value))
        b.output(present, dims)
        return b.op("ScatterElements", past, spread, value, out=present, axis=2)
    if s.broken == "zeroed":
        past = b.op("Mul", past, b.constant(0.0, np.float32))
    joined = b.op("Concat", past, value, axis=2, **({"out": present} if s.presents_whole else {}))
    if s.cache == "sliding":
        dims[2] = s.past + s.window if s.presents_whole else s.window
        if not s.presents_whole:
            b.op("Identity", value, out=present)
    b.output(present, dims)
    return joined
