"""NumPy arrays to and from the library's values, without copying where the layouts agree."""
from __future__ import annotations

import functools
from typing import Any, Union

import numpy as np
import numpy.typing as npt
import onnx
import onnx.numpy_helper

Array = npt.NDArray[Any]
Value = Union[Array, list[Any], None]
"""A tensor, a sequence (list) or an optional without a value (None)."""

STRING = 8
# Names of TensorProto.DataType's numbers, as ONNX text has them, with NumPy's (or ml_dtypes') name and the bits of an element.
_TYPES: dict[int, tuple[str, str, int]] = {
    1: ("float", "float32", 32), 2: ("uint8", "uint8", 8), 3: ("int8", "int8", 8), 4: ("uint16", "uint16", 16),
    5: ("int16", "int16", 16), 6: ("int32", "int32", 32), 7: ("int64", "int64", 64), STRING: ("string", "object", 0),
    9: ("bool", "bool", 8), 10: ("float16", "float16", 16), 11: ("double", "float64", 64), 12: ("uint32", "uint32", 32),
    13: ("uint64", "uint64", 64), 14: ("complex64", "complex64", 64), 15: ("complex128", "complex128", 128),
    16: ("bfloat16", "bfloat16", 16), 17: ("float8e4m3fn", "float8_e4m3fn", 8), 18: ("float8e4m3fnuz", "float8_e4m3fnuz", 8),
    19: ("float8e5m2", "float8_e5m2", 8), 20: ("float8e5m2fnuz", "float8_e5m2fnuz", 8), 21: ("uint4", "uint4", 4),
    22: ("int4", "int4", 4), 23: ("float4e2m1", "float4_e2m1fn", 4), 24: ("float8e8m0", "float8_e8m0fnu", 8),
    25: ("uint2", "uint2", 2), 26: ("int2", "int2", 2), 27: ("float6e2m3", "float6_e2m3fn", 6), 28: ("float6e3m2", "float6_e3m2fn", 6),
}
_NUMBERS = {name: number for number, (name, _, _) in _TYPES.items()}
_NUMPY_NUMBERS = {name: number for number, (_, name, _) in _TYPES.items() if number != STRING}


@functools.cache
def numpy_dtype(number: int) -> np.dtype[Any]:
    """NumPy's type for an ONNX one; the ones that NumPy lacks are those of ml_dtypes."""
    if number not in _TYPES:
        raise TypeError(f"type {number} of TensorProto.DataType is not known here")
    name = _TYPES[number][1]
    if name in ("bool", "object") or hasattr(np, name):
        return np.dtype(name)
    import ml_dtypes

    if not hasattr(ml_dtypes, name):
        raise TypeError(f"this ml_dtypes has no {name}; install a newer one")
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def raw_bytes(number: int, dims: list[int]) -> int:
    """Bytes of raw_data of such a tensor; -1 where that isn't known."""
    if number not in _TYPES or number == STRING or any(dim < 0 for dim in dims):
        return -1
    elements = 1
    for dim in dims:
        elements *= dim
    return (elements * _TYPES[number][2] + 7) // 8


def _pack(array: Array, bits: int) -> Array:
    unpacked = np.unpackbits(array.reshape(-1, 1).view(np.uint8), axis=1, count=bits, bitorder="little")
    return np.packbits(unpacked, bitorder="little")


def _unpack(data: Array, bits: int, elements: int) -> Array:
    unpacked = np.unpackbits(data, count=elements * bits, bitorder="little").reshape(elements, bits)
    return np.packbits(unpacked, axis=1, bitorder="little").reshape(-1)


def _text(item: Any) -> str:
    return item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)


def _tensor(array: Array) -> tuple[Any, ...]:
    shape = array.shape
    if array.dtype.kind in "USOT":
        return "tensor", STRING, shape, [_text(item) for item in array.reshape(-1).tolist()]
    number = _NUMPY_NUMBERS.get(array.dtype.name)
    if number is None:
        raise TypeError(f"NumPy's type {array.dtype} has no counterpart in ONNX; convert the array")
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and np.little_endian is False):
        array = array.astype(array.dtype.newbyteorder("<"))
    flat = np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"]).reshape(-1)
    bits = _TYPES[number][2]
    return "tensor", number, shape, flat.view(np.uint8) if bits >= 8 else _pack(flat, bits)


def to_core(value: Any, declared: str = "") -> tuple[Any, ...]:
    """A value (an array, a list, None, an onnx.TensorProto) as the extension takes it. `declared`: the type that a model gives it, in words ("sequence of float")."""
    if declared.startswith("optional "):
        return "optional", None if value is None else to_core(value, declared.removeprefix("optional "))
    if declared.startswith("sequence of ") or (not declared and isinstance(value, (list, tuple))):
        element = declared.removeprefix("sequence of ")
        items = [to_core(item, element) for item in value]
        return "sequence", _NUMBERS.get(element, 0) or (items[0][1] if items and items[0][0] == "tensor" else 0), items
    if value is None:
        return "optional", None
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return _tensor(np.asarray(value))
    number = _NUMBERS.get(declared)
    return _tensor(np.asarray(value) if number is None else np.asarray(value, dtype=numpy_dtype(number)))


def from_core(value: tuple[Any, ...]) -> Value:
    """The other way. Arrays are writable and share no memory with inputs or weights."""
    if value[0] == "sequence":
        return [from_core(item) for item in value[2]]
    if value[0] == "optional":
        return None if value[1] is None else from_core(value[1])
    _, number, shape, data = value
    if number == STRING:
        strings = np.empty(len(data), dtype=object)
        strings[:] = data
        return strings.reshape(shape)
    dtype, bits = numpy_dtype(number), _TYPES[number][2]
    if bits < 8:
        return _unpack(data, bits, int(np.prod(shape, dtype=np.int64))).view(dtype).reshape(shape)
    if not data.flags.writeable:
        data = data.copy()
    return np.asarray(data.view(dtype).reshape(shape))


def type_name(number: int) -> str:
    """ONNX text's name of a type, "" for 0 and what isn't known."""
    return _TYPES[number][0] if number in _TYPES else ""
