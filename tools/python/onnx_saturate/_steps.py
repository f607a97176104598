"""The steps of `onnx_saturate.pre_post`: what each takes, and the nodes that it is made of. A step becomes a local function of the model."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Union

import numpy as np
import onnx
from onnx import TensorProto, helper

from ._errors import OptionError
from ._values import type_name

EXTENSIONS = "com.microsoft.extensions"
FLOAT, UINT8, INT64 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT64

Dim = Union[int, str]


@dataclass(frozen=True)
class Value:
    """What is known of a value: its type, and its dims where its rank is known."""

    name: str
    dtype: int
    dims: tuple[Dim, ...] | None

    def __str__(self) -> str:
        return f"{type_name(self.dtype) or 'a value'}{'' if self.dims is None else list(self.dims)}"


# ---- fields ---------------------------------------------------------------------------------------------------------------------------

REQUIRED = object()


@dataclass(frozen=True)
class Field:
    """A parameter of a step: what is allowed, in words, and the function that takes a value, or raises ValueError."""

    allowed: str
    take: Callable[[Any], Any]
    default: Any = REQUIRED


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value


def _positive(value: Any) -> int:
    if _whole(value) < 1:
        raise ValueError
    return int(value)


def _byte(value: Any) -> int:
    if not 0 <= _whole(value) <= 255:
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value):
        raise ValueError
    return float(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _list(value: Any, item: Callable[[Any], Any]) -> list[Any]:
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError
    return [item(v) for v in value]


def _size(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return _positive(value), _positive(value)
    height, width = _list(value, _positive)
    return height, width


def _distinct(value: Any) -> list[int]:
    axes = _list(value, _whole)
    if len(set(axes)) != len(axes):
        raise ValueError
    return axes


def _mean_and_deviation(value: Any) -> tuple[float, float]:
    mean, deviation = _list(value, _number)
    if deviation == 0:
        raise ValueError
    return mean, deviation


def _or_none(take: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else take(value)


def _one_of(*words: str) -> tuple[str, Callable[[Any], Any]]:
    def take(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return " or ".join(f'"{word}"' for word in words), take


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


_SIZE = Field("a whole number above 0, or [height, width]", _size)
_CHANNELS = Field(*_one_of("BGR", "RGB"), default="BGR")
_IMAGE = ("HWC", "CHW")


# ---- how steps are built --------------------------------------------------------------------------------------------------------------


class Body:
    """Nodes of a step, which become the body of a function."""

    def __init__(self, step: str, opset: int) -> None:
        self.step, self.opset = step, opset
        self.nodes: list[onnx.NodeProto] = []
        self._count = 0

    def op(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """A node of one output; its name."""
        self._count += 1
        name = f"v{self._count}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], domain=domain, **attributes))
        return name

    def several(self, op_type: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """A node of several outputs; their names."""
        self._count += 1
        names = [f"v{self._count}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, **attributes))
        return names

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """A Constant."""
        return self.op("Constant", value=onnx.numpy_helper.from_array(np.asarray(value, dtype=dtype)))

    def ints(self, *values: int) -> str:
        """A Constant of int64[n]."""
        return self.constant(values, np.int64)

    def bytes_of(self, floats: str) -> str:
        """Rounded, in 0..255, as uint8."""
        return self.op("Cast", self.in_bytes(floats), to=UINT8)

    def in_bytes(self, floats: str) -> str:
        """Rounded, in 0..255."""
        return self.op("Clip", self.op("Round", floats), self.constant(0), self.constant(255))

    def fail(self, what: str) -> NoReturn:
        """An error of this step."""
        raise OptionError(f"step {self.step}: {what}")

    def want(self, value: Value, what: str, dtypes: Sequence[int], rank: Sequence[int] = ()) -> None:
        """Checks an input; no `dtypes`: any."""
        if dtypes and value.dtype not in dtypes:
            self.fail(f"{what} is {value}; it is {' or '.join(type_name(t) for t in dtypes)}")
        if rank and value.dims is not None and len(value.dims) not in rank:
            self.fail(f"{what} is {value}; its rank is {' or '.join(map(str, rank))}")

    def axis(self, value: Value, axis: int, name: str) -> int:
        """Counted from the front; `value` has a rank."""
        rank = len(self.dims(value, name))
        if not -rank <= axis < rank:
            self.fail(f"{name}: {axis} is no axis of {value}; it is {-rank} to {rank - 1}")
        return axis % rank

    def dims(self, value: Value, why: str) -> tuple[Dim, ...]:
        """Of a value whose rank must be known."""
        if value.dims is None:
            self.fail(f"{why}: the rank of its input is not known; declare the model's shapes")
        return value.dims


Build = Callable[[Body, Mapping[str, Any], Sequence[Value]], list[Value]]


@dataclass(frozen=True)
class Kind:
    """A type of step."""

    inputs: Callable[[Mapping[str, Any]], list[str]]
    outputs: Callable[[Mapping[str, Any]], list[str]]
    fields: Mapping[str, Field]
    build: Build


KINDS: dict[str, Kind] = {}
NAME = Field("a name", _or_none(_text), None)

Names = Union[str, Callable[[Mapping[str, Any]], list[str]]]


def _names(given: Names) -> Callable[[Mapping[str, Any]], list[str]]:
    if isinstance(given, str):
        fixed = given.split()
        return lambda _: list(fixed)
    return given


def _step(inputs: Names, outputs: Names, **fields: Field) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        KINDS[build.__name__] = Kind(_names(inputs), _names(outputs), {**fields, "name": NAME}, build)
        return build

    return add


# ---- pictures -------------------------------------------------------------------------------------------------------------------------

# ITU-T T.871: Y, Cb, Cr of R, G, B, and the way back.
_TO_YCBCR = np.array([[0.299, 0.587, 0.114], [-0.299 / 1.772, -0.587 / 1.772, 0.5], [0.5, -0.587 / 1.402, -0.114 / 1.402]], np.float32)
_OF_YCBCR = np.array([[1, 0, 1.402], [1, -0.114 * 1.772 / 0.587, -0.299 * 1.402 / 0.587], [1, 1.772, 0]], np.float32)
_ZEROS = [0, 128, 128]


@_step("image", "bgr_data")
def ConvertImageToBGR(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Bytes of a PNG or JPEG to its pixels."""
    b.want(given[0], "image", [UINT8], [1])
    return [Value(b.op("DecodeImage", given[0].name, domain=EXTENSIONS), UINT8, ("h", "w", 3))]


@_step("bgr_data", "image", image_format=Field(*_one_of("jpg", "png"), default="jpg"))
def ConvertBGRToImage(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Pixels to the bytes of a PNG or JPEG."""
    b.want(given[0], "bgr_data", [UINT8], [3])
    return [Value(b.op("EncodeImage", given[0].name, domain=EXTENSIONS, format=at["image_format"]), UINT8, ("num_bytes",))]


@_step("pixels", "Y Cb Cr", layout=_CHANNELS)
def PixelsToYCbCr(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Pixels to floats of whole numbers in 0..255."""
    b.want(given[0], "pixels", [UINT8], [3])
    dims = given[0].dims or ("h", "w", 3)
    if dims[2] != 3:
        b.fail(f"pixels is {given[0]}; its last dim is 3")
    weights = _TO_YCBCR if at["layout"] == "RGB" else _TO_YCBCR[:, ::-1]
    weighted = b.op("MatMul", b.op("Cast", given[0].name, to=FLOAT), b.constant(weights.T))
    whole = b.in_bytes(b.op("Add", weighted, b.constant(_ZEROS)))
    return [Value(b.op("Gather", whole, b.constant(channel, np.int64), axis=-1), FLOAT, dims[:2]) for channel in range(3)]


@_step("Y Cb Cr", "bgr_data", layout=_CHANNELS)
def YCbCrToPixels(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """The way back, from uint8 or float."""
    for value, what in zip(given, ("Y", "Cb", "Cr")):
        b.want(value, what, [UINT8, FLOAT], [2])
    if len({value.dtype for value in given}) > 1:
        b.fail(f"Y, Cb and Cr are {', '.join(map(str, given))}; they have one type")
    last = b.ints(-1)
    together = b.op("Concat", *(b.op("Unsqueeze", value.name, last) for value in given), axis=-1)
    weights = _OF_YCBCR if at["layout"] == "RGB" else _OF_YCBCR[::-1]
    pixels = b.op("MatMul", b.op("Sub", b.op("Cast", together, to=FLOAT), b.constant(_ZEROS)), b.constant(weights.T))
    known = next((value.dims for value in given if value.dims), ("h", "w"))
    return [Value(b.bytes_of(pixels), UINT8, (*known, 3))]


@_step(
    "image", "resized_image", resize_to=_SIZE, layout=Field(*_one_of("HWC", "NHWC", "CHW", "NCHW", "HW"), default="HWC"),
    policy=Field(*_one_of("not_smaller", "not_larger"), default="not_smaller"),
)  # fmt: skip
def Resize(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """To this size at least (or at most), heights and widths alike."""
    image, layout = given[0], at["layout"]
    if image.dims is not None and len(image.dims) != len(layout):
        b.fail(f"layout: {layout} takes a value of rank {len(layout)}, and its input is {image}")
    high = layout.index("H")
    shape = b.op("Shape", image.name)
    size = b.op("Cast", b.op("Gather", shape, b.ints(high, high + 1)), to=FLOAT)
    ratios = b.op("Div", b.constant([float(n) for n in at["resize_to"]]), size)
    ratio = b.op("ReduceMax" if at["policy"] == "not_smaller" else "ReduceMin", ratios)
    wanted = b.op("Cast", b.op("Round", b.op("Mul", size, ratio)), to=INT64)
    parts = [b.op("Slice", shape, b.ints(0), b.ints(high))] if high else []
    parts.append(wanted)
    if high + 2 < len(layout):
        parts.append(b.op("Slice", shape, b.ints(high + 2), b.ints(len(layout))))
    smooth: dict[str, Any] = {"antialias": 1} if b.opset >= 18 else {}
    front = b.ints(0)
    if len(layout) == 3:  # of rank 3 a runtime would mix neighbours along all three
        sizes = b.op("Concat", b.ints(1), *parts, axis=0)
        resized = b.op("Squeeze", b.op("Resize", b.op("Unsqueeze", image.name, front), "", "", sizes, mode="linear", **smooth), front)
    else:
        sizes = b.op("Concat", *parts, axis=0) if len(parts) > 1 else wanted
        resized = b.op("Resize", image.name, "", "", sizes, mode="linear", **smooth)
    dims = list(image.dims or layout.lower())
    dims[high : high + 2] = ["h", "w"]
    return [Value(resized, image.dtype, tuple(dims))]


_HEIGHT = Field("a whole number above 0", _positive)


@_step("image", "cropped_image", height=_HEIGHT, width=_HEIGHT)
def CenterCrop(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """The middle of a picture (HWC). One that is smaller stays as small as it is."""
    dims = given[0].dims or ("h", "w", "c")
    b.want(given[0], "image", [], [3])
    for name, dim in zip(("height", "width"), dims):
        if isinstance(dim, int) and dim < at[name]:
            b.fail(f"{name}: {at[name]} is more than the picture has; it is at most {dim}")
    axes, wanted = b.ints(0, 1), b.ints(at["height"], at["width"])
    over = b.op("Sub", b.op("Gather", b.op("Shape", given[0].name), axes), wanted)
    start = b.op("Max", b.op("Div", over, b.ints(2)), b.ints(0))
    cropped = b.op("Slice", given[0].name, start, b.op("Add", start, wanted), axes)
    return [Value(cropped, given[0].dtype, (at["height"], at["width"], dims[2]))]


@_step(
    "image", "image_pad", target_shape=_SIZE, fill_value=Field("a whole number from 0 to 255", _byte, 0),
    layout=Field(*_one_of(*_IMAGE), default="HWC"),
)  # fmt: skip
def LetterBox(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Borders on all sides, or the middle, so that a picture has this size."""
    b.want(given[0], "image", [UINT8], [3])
    dims = list(given[0].dims or at["layout"].lower())
    high, none = at["layout"].index("H"), b.ints(0)
    size = b.op("Gather", b.op("Shape", given[0].name), b.ints(high, high + 1))
    missing = b.op("Sub", b.ints(*at["target_shape"]), size)
    front = b.op("Div", missing, b.ints(2))
    back = b.op("Sub", missing, front)
    order = [front, none, back, none] if high == 0 else [none, front, none, back]
    dims[high : high + 2] = at["target_shape"]
    padded = b.op("Pad", given[0].name, b.op("Concat", *order, axis=0), b.constant(at["fill_value"], np.uint8))
    return [Value(padded, UINT8, tuple(dims))]


@_step(
    "data", "normalized_data", normalization_values=Field("a list of [mean, standard deviation not 0]", lambda v: _list(v, _mean_and_deviation)),
    layout=Field(*_one_of(*_IMAGE), default="CHW"),
)  # fmt: skip
def Normalize(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """(x - mean) / deviation, of each channel or, where one pair is given, of all."""
    values, dims = at["normalization_values"], given[0].dims
    b.want(given[0], "data", [], [3])
    channels = None if dims is None else dims[0 if at["layout"] == "CHW" else 2]
    if len(values) > 1 and isinstance(channels, int) and channels != len(values):
        b.fail(f"normalization_values: {len(values)} pairs for {channels} channels; it is one pair, or {channels}")
    shape = (-1, 1, 1) if at["layout"] == "CHW" else (-1,)
    mean, deviation = (b.constant(np.reshape([value[i] for value in values], shape)) for i in (0, 1))
    return [Value(b.op("Div", b.op("Sub", b.op("Cast", given[0].name, to=FLOAT), mean), deviation), FLOAT, dims)]


@_step("data", "float_data", rescale_factor=Field("a number", _number, 1 / 255))
def ImageBytesToFloat(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """0..255 to 0..1."""
    b.want(given[0], "data", [UINT8, FLOAT])
    return [Value(b.op("Mul", b.op("Cast", given[0].name, to=FLOAT), b.constant(at["rescale_factor"])), FLOAT, given[0].dims)]


@_step("float_data", "pixel_data", multiplier=Field("a number", _number, 255.0))
def FloatToImageBytes(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """0..1 to 0..255, rounded."""
    b.want(given[0], "float_data", [FLOAT])
    scaled = given[0].name if at["multiplier"] == 1 else b.op("Mul", given[0].name, b.constant(at["multiplier"]))
    return [Value(b.bytes_of(scaled), UINT8, given[0].dims)]


@_step(
    "image boxes", "image_out", mode=Field(*_one_of("XYXY", "XYWH", "CENTER_XYWH"), default="XYXY"), thickness=Field("a whole number above 0", _positive, 4),
    num_classes=Field("a whole number above 0", _positive, 10), colour_by_classes=Field("true or false", _truth, False),
)  # fmt: skip
def DrawBoundingBoxes(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Boxes of x, y, x or width, y or height, score and class on a picture (BGR)."""
    b.want(given[0], "image", [UINT8], [3])
    b.want(given[1], "boxes", [FLOAT], [2])
    if given[1].dims is not None and isinstance(given[1].dims[1], int) and given[1].dims[1] != 6:
        b.fail(f"boxes is {given[1]}; its last dim is 6")
    words = {name: int(at[name]) for name in ("thickness", "num_classes", "colour_by_classes")}
    drawn = b.op("DrawBoundingBoxes", given[0].name, given[1].name, domain=EXTENSIONS, mode=at["mode"], **words)
    return [Value(drawn, UINT8, given[0].dims)]


# ---- anything -------------------------------------------------------------------------------------------------------------------------


def _numbered(word: str, field_name: str) -> Callable[[Mapping[str, Any]], list[str]]:
    return lambda at: [f"{word}{i}" for i in range(at[field_name])]


_COUNT = Field("a whole number above 0", _positive)


@_step(_numbered("in_", "num_inputs"), _numbered("out_", "num_inputs"), num_inputs=Field(_COUNT.allowed, _positive, 1))
def Identity(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Hands its inputs on."""
    return [Value(b.op("Identity", value.name), value.dtype, value.dims) for value in given]


@_step("data", "data_with_reversed_axis", axis=Field("a whole number", _whole, -1), dim_value=Field("a whole number above 0, or -1", lambda v: v if v == -1 else _positive(v), -1))
def ReverseAxis(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Last to first, such as RGB to BGR."""
    axis = b.axis(given[0], at["axis"], "axis")
    dim = b.dims(given[0], "axis")[axis]
    if at["dim_value"] != -1 and isinstance(dim, int) and dim != at["dim_value"]:
        b.fail(f"dim_value: {at['dim_value']} is not the dim of {given[0]}; it is {dim}")
    reversed_ = b.op("Slice", given[0].name, b.ints(-1), b.ints(np.iinfo(np.int64).min), b.ints(axis), b.ints(-1))
    return [Value(reversed_, given[0].dtype, given[0].dims)]


def _split_names(at: Mapping[str, Any]) -> list[str]:
    return [f"part_{i}" for i in range(at["num_outputs"])]


@_step("data", _split_names, num_outputs=_COUNT, axis=Field("a whole number", _or_none(_whole), None), splits=Field("a list of whole numbers above 0", _or_none(lambda v: _list(v, _positive)), None))
def Split(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Parts along an axis, of these sizes or alike."""
    count, splits = at["num_outputs"], at["splits"]
    axis = b.axis(given[0], at["axis"] or 0, "axis")
    dims = list(b.dims(given[0], "axis"))
    whole = dims[axis]
    if splits is not None and (len(splits) != count or (isinstance(whole, int) and sum(splits) != whole)):
        b.fail(f"splits: {splits} are not {count} sizes that make up the {whole} of {given[0]}")
    if splits is None and isinstance(whole, int):
        each = -(-whole // count)
        splits = [each] * (count - 1) + [whole - each * (count - 1)]
        if splits[-1] < 1 or (b.opset < 18 and splits[-1] != each):
            b.fail(f"num_outputs: {whole} of {given[0]} can't be split into {count} at opset {b.opset}; it is a divisor of {whole}")
    if splits is None:
        parts = b.several("Split", given[0].name, outputs=count, axis=axis, **({"num_outputs": count} if b.opset >= 18 else {}))
    else:
        parts = b.several("Split", given[0].name, b.ints(*splits), outputs=count, axis=axis)
    made = []
    for i, part in enumerate(parts):
        dims[axis] = splits[i] if splits is not None else f"part_{i}"
        made.append(Value(part, given[0].dtype, tuple(dims)))
    return made


_AXES = Field("a list of distinct whole numbers", _distinct)


@_step("data", "squeezed", axes=Field(_AXES.allowed, _or_none(_distinct), None))
def Squeeze(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Without these axes, or without all of size 1."""
    dims = b.dims(given[0], "axes")
    axes = at["axes"]
    if axes is None:
        if any(isinstance(dim, str) for dim in dims):
            b.fail(f"axes: none are given, and {given[0]} has dims of unknown size; give them")
        axes = [axis for axis, dim in enumerate(dims) if dim == 1]
    gone = {b.axis(given[0], axis, "axes") for axis in axes}
    for axis in gone:
        if isinstance(dims[axis], int) and dims[axis] != 1:
            b.fail(f"axes: {axis} of {given[0]} has a dim of {dims[axis]}; it is 1")
    rest = tuple(dim for axis, dim in enumerate(dims) if axis not in gone)
    return [Value(b.op("Squeeze", given[0].name, b.ints(*sorted(gone))) if gone else b.op("Identity", given[0].name), given[0].dtype, rest)]


@_step("data", "expanded", axes=_AXES)
def Unsqueeze(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """With new axes of size 1, counted in the result."""
    dims = list(b.dims(given[0], "axes"))
    rank = len(dims) + len(at["axes"])
    for axis in at["axes"]:
        if not -rank <= axis < rank:
            b.fail(f"axes: {axis} is no axis of a result of rank {rank}; it is {-rank} to {rank - 1}")
    axes = sorted({axis % rank for axis in at["axes"]})
    if len(axes) != len(at["axes"]):
        b.fail(f"axes: {at['axes']} names an axis twice")
    for axis in axes:
        dims.insert(axis, 1)
    return [Value(b.op("Unsqueeze", given[0].name, b.ints(*axes)), given[0].dtype, tuple(dims))]


@_step("X", "transposed", perms=_AXES)
def Transpose(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Axes in this order."""
    dims = b.dims(given[0], "perms")
    if sorted(at["perms"]) != list(range(len(dims))):
        b.fail(f"perms: {at['perms']} is no order of the axes of {given[0]}; it holds 0 to {len(dims) - 1}, once each")
    return [Value(b.op("Transpose", given[0].name, perm=at["perms"]), given[0].dtype, tuple(dims[axis] for axis in at["perms"]))]


@_step("data", "channels_first", has_batch_dim=Field("true or false", _truth, False))
def ChannelsLastToChannelsFirst(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """HWC to CHW, or NHWC to NCHW."""
    b.want(given[0], "data", [], [4 if at["has_batch_dim"] else 3])
    return Transpose(b, {"perms": [0, 3, 1, 2] if at["has_batch_dim"] else [2, 0, 1]}, given)


@_step("data", "probabilities")
def Softmax(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Along the last axis."""
    b.want(given[0], "data", [FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
    return [Value(b.op("Softmax", given[0].name, axis=-1), given[0].dtype, given[0].dims)]


@_step("data", "index", axis=Field("a whole number", _whole, -1), keepdims=Field("0 or 1", lambda v: int(_truth(bool(v) if v in (0, 1) else v)), 0))
def ArgMax(b: Body, at: Mapping[str, Any], given: Sequence[Value]) -> list[Value]:
    """Where the largest number is along an axis."""
    axis = b.axis(given[0], at["axis"], "axis")
    dims = list(b.dims(given[0], "axis"))
    dims[axis : axis + 1] = [1] if at["keepdims"] else []
    return [Value(b.op("ArgMax", given[0].name, axis=axis, keepdims=at["keepdims"]), INT64, tuple(dims))]
