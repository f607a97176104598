"""Small models that need no download: one maker for a family, by sizes. The same sizes give the same bytes on every machine."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class _Graph:
    """Nodes in their order, and weights drawn one after the other."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._state = 1

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int) -> str:
        """Numbers of a size that keeps values usual; drawn by integers alone, so that no machine rounds them otherwise."""
        count = math.prod(shape)
        words = (np.arange(count, dtype=np.uint64) + np.uint64(self._state)) * np.uint64(0x9E3779B97F4A7C15)
        self._state += count
        words ^= words >> np.uint64(29)
        words *= np.uint64(0xBF58476D1CE4E5B9)
        steps = (words >> np.uint64(48)).astype(np.int64) - 32768
        scale = 2.0 ** -round(math.log2(32768 * math.sqrt(max(1, math.prod(shape[1:]) if len(shape) > 2 else shape[0]) / 3)))
        return self.constant((steps * scale).astype(np.float32).reshape(shape))

    def linear(self, x: str, inner: int, outer: int) -> str:
        return self.node("Add", self.node("MatMul", x, self.weight(inner, outer)), self.weight(outer))

    def shape(self, *dims: int) -> str:
        return self.constant(np.array(dims, np.int64))

    def layer_norm(self, x: str, width: int) -> str:
        """Spelled out, as exporters do."""
        axes = self.shape(-1)
        centred = self.node("Sub", x, self.node("ReduceMean", x, axes))
        variance = self.node("ReduceMean", self.node("Mul", centred, centred), axes)
        deviation = self.node("Sqrt", self.node("Add", variance, self.constant(np.float32(1e-5))))
        scaled = self.node("Mul", self.node("Div", centred, deviation), self.constant(np.ones(width, np.float32)))
        return self.node("Add", scaled, self.constant(np.zeros(width, np.float32)))

    def rms_norm(self, x: str, width: int) -> str:
        mean = self.node("ReduceMean", self.node("Mul", x, x), self.shape(-1))
        root = self.node("Sqrt", self.node("Add", mean, self.constant(np.float32(1e-6))))
        return self.node("Mul", self.node("Div", x, root), self.constant(np.ones(width, np.float32)))

    def gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.constant(np.float32(math.sqrt(2)))))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.constant(np.float32(1)))), self.constant(np.float32(0.5)))

    def silu(self, x: str) -> str:
        return self.node("Mul", x, self.node("Sigmoid", x))

    def attention(self, x: str, width: int, heads: int, causal: int = 0) -> str:
        """Over a causal mask of so many positions, or over all."""
        size = width // heads

        def head(name: str, order: list[int]) -> str:
            return self.node("Transpose", self.node("Reshape", self.linear(name, width, width), self.shape(0, 0, heads, size)), perm=order)

        query, key, value = head(x, [0, 2, 1, 3]), head(x, [0, 2, 3, 1]), head(x, [0, 2, 1, 3])
        scores = self.node("Mul", self.node("MatMul", query, key), self.constant(np.float32(2.0 ** -round(math.log2(size) / 2))))
        if causal:
            scores = self.node("Add", scores, self.constant(np.triu(np.full((causal, causal), -1e4, np.float32), 1)))
        mixed = self.node("Transpose", self.node("MatMul", self.node("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        return self.linear(self.node("Reshape", mixed, self.shape(0, 0, width)), width, width)

    def model(self, output: str, shape: list[Any], result: list[Any]) -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)]
        self._nodes.append(helper.make_node("Identity", [output], ["y"], name="end"))
        graph = helper.make_graph(self._nodes, "made", *ends, self._weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8, producer_name="onnx_saturate.study")


def _mlp(layers: int, width: int) -> onnx.ModelProto:
    graph, x = _Graph(), "x"
    for _ in range(layers):
        x = graph.node("Relu", graph.linear(x, width, width))
    return graph.model(x, ["batch", width], ["batch", width])


def _encoder(layers: int, width: int, heads: int) -> onnx.ModelProto:
    graph, x = _Graph(), "x"
    for _ in range(layers):
        x = graph.layer_norm(graph.node("Add", x, graph.attention(x, width, heads)), width)
        inner = graph.gelu(graph.linear(x, width, 4 * width))
        x = graph.layer_norm(graph.node("Add", x, graph.linear(inner, 4 * width, width)), width)
    return graph.model(x, ["batch", "seq", width], ["batch", "seq", width])


def _decoder(layers: int, width: int, heads: int, tokens: int) -> onnx.ModelProto:
    graph, x = _Graph(), "x"
    for _ in range(layers):
        x = graph.node("Add", x, graph.attention(graph.rms_norm(x, width), width, heads, tokens))
        normal = graph.rms_norm(x, width)
        gate = graph.silu(graph.node("MatMul", normal, graph.weight(width, 2 * width)))
        inner = graph.node("Mul", gate, graph.node("MatMul", normal, graph.weight(width, 2 * width)))
        x = graph.node("Add", x, graph.node("MatMul", inner, graph.weight(2 * width, width)))
    return graph.model(x, ["batch", tokens, width], ["batch", tokens, width])


def _convnet(layers: int, width: int, side: int) -> onnx.ModelProto:
    graph = _Graph()
    x = graph.node("Conv", "x", graph.weight(width, 3, 3, 3), graph.weight(width), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    for _ in range(layers):
        inner = graph.node("Conv", x, graph.weight(width, width, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        parts = [np.ones(width, np.float32), np.zeros(width, np.float32), np.zeros(width, np.float32), np.ones(width, np.float32)]
        inner = graph.node("Relu", graph.node("BatchNormalization", inner, *map(graph.constant, parts)))
        x = graph.node("Add", x, inner)
    pooled = graph.node("Reshape", graph.node("GlobalAveragePool", x), graph.shape(0, -1))
    return graph.model(graph.linear(pooled, width, 16), ["batch", 3, side, side], ["batch", 16])


def _depthwise(layers: int, width: int, side: int) -> onnx.ModelProto:
    graph = _Graph()
    x = graph.node("Conv", "x", graph.weight(width, 3, 4, 4), graph.weight(width), kernel_shape=[4, 4], strides=[4, 4])
    for _ in range(layers):
        inner = graph.node("Conv", x, graph.weight(width, 1, 7, 7), graph.weight(width), kernel_shape=[7, 7], pads=[3, 3, 3, 3], group=width)
        inner = graph.layer_norm(graph.node("Transpose", inner, perm=[0, 2, 3, 1]), width)
        inner = graph.linear(graph.gelu(graph.linear(inner, width, 4 * width)), 4 * width, width)
        x = graph.node("Add", x, graph.node("Transpose", inner, perm=[0, 3, 1, 2]))
    return graph.model(x, ["batch", 3, side, side], ["batch", width, side // 4, side // 4])


def _mixer(layers: int, width: int, tokens: int) -> onnx.ModelProto:
    graph, x = _Graph(), "x"
    for _ in range(layers):
        across = graph.node("Transpose", graph.layer_norm(x, width), perm=[0, 2, 1])
        across = graph.linear(graph.gelu(graph.linear(across, tokens, 2 * tokens)), 2 * tokens, tokens)
        x = graph.node("Add", x, graph.node("Transpose", across, perm=[0, 2, 1]))
        x = graph.node("Add", x, graph.linear(graph.gelu(graph.linear(graph.layer_norm(x, width), width, 2 * width)), 2 * width, width))
    return graph.model(x, ["batch", tokens, width], ["batch", tokens, width])


@dataclass(frozen=True)
class Maker:
    """Makes one family."""

    make: Callable[..., onnx.ModelProto]
    sizes: Mapping[str, int]
    """What it takes, with what it takes unasked."""


MAKERS: Mapping[str, Maker] = {
    "mlp": Maker(_mlp, {"layers": 3, "width": 64}),
    "encoder": Maker(_encoder, {"layers": 2, "width": 64, "heads": 4}),
    "decoder": Maker(_decoder, {"layers": 2, "width": 64, "heads": 4, "tokens": 16}),
    "convnet": Maker(_convnet, {"layers": 2, "width": 16, "side": 32}),
    "depthwise": Maker(_depthwise, {"layers": 2, "width": 32, "side": 32}),
    "mixer": Maker(_mixer, {"layers": 2, "width": 64, "tokens": 16}),
}
"""Makers by name."""


def made(maker: str, sizes: Mapping[str, int]) -> bytes:
    """The model of a maker at these sizes."""
    return bytes(MAKERS[maker].make(**sizes).SerializeToString(deterministic=True))


def name_of(maker: str, sizes: Mapping[str, int]) -> str:
    """Such as encoder-2-64-4."""
    return "-".join([maker, *(str(size) for size in sizes.values())])
