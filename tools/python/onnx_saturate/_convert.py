"""What users have as a model, to and from the library's model."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Union

import numpy as np
import onnx

from . import _core
from ._errors import MissingFileError, OptionError
from ._options import text
from ._values import raw_bytes

if TYPE_CHECKING:
    import onnx_ir

    class Exported(Protocol):
        """What `torch.onnx.export` gives."""

        @property
        def model_proto(self) -> onnx.ModelProto: ...

    class Script(Protocol):
        """What `onnxscript.script()` makes of a function."""

        def to_model_proto(self) -> onnx.ModelProto: ...

    ModelLike = Union[onnx.ModelProto, bytes, str, os.PathLike[str], onnx_ir.Model, Exported, Script]
else:
    ModelLike = Any

# Weights of at least so many bytes are handed over one by one: a serialized model would be a second copy of all of them.
_APART = 1 << 16


def _has_unknown_fields(message: Any) -> bool:
    try:
        from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:  # protobuf < 4
        return len(message.UnknownFields()) > 0
    return len(UnknownFieldSet(message)) > 0


def _copy_fields(source: Any, target: Any, without: str) -> None:
    """All fields but one, without reading that one."""
    for field in source.DESCRIPTOR.fields:
        name = field.name
        if name == without:
            continue
        value = getattr(source, name) if name != "raw_data" else None
        if isinstance(value, (str, bytes, int, float)) or value is None:
            if source.HasField(name):
                setattr(target, name, getattr(source, name))
        elif hasattr(value, "MergeFrom") and not hasattr(value, "DESCRIPTOR"):  # repeated
            getattr(target, name).MergeFrom(value)
        elif source.HasField(name):
            getattr(target, name).CopyFrom(value)


def from_proto(proto: onnx.ModelProto, folder: str = "") -> _core.Model:
    """Holds one copy of the weights; the message itself is only read."""
    graph = proto.graph
    apart = [
        index
        for index, tensor in enumerate(graph.initializer)
        if raw_bytes(tensor.data_type, list(tensor.dims)) >= _APART and tensor.HasField("raw_data") and not _has_unknown_fields(tensor)
    ]
    if not apart or _has_unknown_fields(proto) or _has_unknown_fields(graph):
        return from_bytes(proto.SerializeToString(), folder)
    skeleton = type(proto)()
    _copy_fields(proto, skeleton, without="graph")
    _copy_fields(graph, skeleton.graph, without="initializer")
    weights = []
    chosen = set(apart)
    for index, tensor in enumerate(graph.initializer):
        copy = skeleton.graph.initializer.add()
        if index in chosen:
            _copy_fields(tensor, copy, without="raw_data")
            weights.append((index, np.frombuffer(tensor.raw_data, dtype=np.uint8)))
        else:
            copy.CopyFrom(tensor)
    return _core.Model.parse(np.frombuffer(skeleton.SerializeToString(), dtype=np.uint8), folder, weights)


def to_proto(model: _core.Model) -> onnx.ModelProto:
    """Weights go over one by one; external data is read in."""
    skeleton, weights = model.detach(_APART)
    proto: onnx.ModelProto = onnx.ModelProto.FromString(skeleton)
    del skeleton
    for index, data in weights:
        proto.graph.initializer[index].raw_data = data.tobytes()
    return proto


def from_bytes(data: bytes, folder: str = "") -> _core.Model:
    """A serialized ModelProto."""
    return _core.Model.parse(np.frombuffer(data, dtype=np.uint8), folder, [])


def is_ir(model: object) -> bool:
    """Whether this is an onnx_ir.Model, without importing onnx_ir."""
    return type(model).__name__ == "Model" and type(model).__module__.partition(".")[0] == "onnx_ir"


def _ir_folder(model: Any) -> str:
    """The folder of the external data, if all of it lies in one."""
    import onnx_ir

    tensors = [value.const_value for value in model.graph.initializers.values()]
    folders = {os.fspath(t.base_dir) for t in tensors if isinstance(t, onnx_ir.ExternalTensor)}
    return folders.pop() if len(folders) == 1 else ""


def _written(script: object, write: Callable[[], object]) -> onnx.ModelProto:
    try:
        proto = write()
    except Exception as error:
        name, why = getattr(script, "name", type(script).__name__), " ".join(str(error).split())
        raise OptionError(f"{name}: it can't be written as a model: {why}; annotate its inputs and outputs with their types") from error
    if not isinstance(proto, onnx.ModelProto):
        raise TypeError(f"to_model_proto() of a {type(script).__name__} gives no onnx.ModelProto, but a {type(proto).__name__}")
    return proto


def to_core(model: ModelLike, base_dir: str | os.PathLike[str] | None = None) -> _core.Model:
    """`base_dir`: where external data of a model from memory lies."""
    folder = "" if base_dir is None else "." if base_dir == "" else text("base_dir", base_dir)
    exported = getattr(model, "model_proto", None)
    if isinstance(exported, onnx.ModelProto):
        model = exported  # torch's ONNXProgram
    write = None if isinstance(model, type) else getattr(model, "to_model_proto", None)
    if callable(write):
        model = _written(model, write)
    if isinstance(model, onnx.ModelProto):
        return from_proto(model, folder)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return from_bytes(bytes(model) if not isinstance(model, bytes) else model, folder)
    if isinstance(model, (str, os.PathLike)):
        if wrong := _core.wrong_model(os.fspath(model)):
            raise MissingFileError(wrong, os.fspath(model))
        return _core.Model.load(os.fspath(model))
    if is_ir(model):
        import onnx_ir

        ir: Any = model
        return from_proto(onnx_ir.to_proto(ir), folder or _ir_folder(ir))
    raise TypeError(f"a model is an onnx.ModelProto, bytes, a path or an onnx_ir.Model, what has one as `.model_proto` (torch's ONNXProgram), or gives one by `.to_model_proto()` (a function of onnxscript), not {type(model).__name__}")
