"""One operator as a model."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from ._values import to_core


def _info(name: str, value: Any) -> onnx.ValueInfoProto:
    kind, *rest = to_core(value)
    if kind == "tensor":
        return helper.make_tensor_value_info(name, rest[0], rest[1])
    if kind == "sequence":
        return helper.make_tensor_sequence_value_info(name, rest[0] or onnx.TensorProto.FLOAT, None)
    return onnx.ValueInfoProto(name=name)


def by_name(node: onnx.NodeProto, inputs: Any) -> dict[str, Any]:
    """Inputs of a node by name, of arrays in its order: one for each input, or for those alone that it doesn't leave out."""
    if isinstance(inputs, dict):
        return inputs
    given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    names = list(node.input) if len(given) == len(node.input) else [name for name in node.input if name]
    if len(given) > len(names):
        raise ValueError(f"{len(given)} inputs for a node of {len(names)}")
    return {name: value for name, value in zip(names, given) if name}


def model_of_node(node: onnx.NodeProto, inputs: dict[str, Any], version: int | None = None) -> onnx.ModelProto:
    """A model that runs the node on such inputs."""
    arrays = {name: value if isinstance(value, (list, type(None))) else np.asarray(value) for name, value in inputs.items()}
    if version is None:
        version = onnx.defs.onnx_opset_version() if node.domain in ("", "ai.onnx") else 1
    imports = [helper.make_opsetid(node.domain, version)]
    if node.domain not in ("", "ai.onnx"):
        imports.append(helper.make_opsetid("", onnx.defs.onnx_opset_version()))
    graph = helper.make_graph(
        [node],
        node.op_type,
        [_info(name, value) for name, value in arrays.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    return helper.make_model(graph, opset_imports=imports)
