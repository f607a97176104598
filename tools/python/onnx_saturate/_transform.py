"""Passes that change what a model is."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from . import _convert, _core
from ._convert import ModelLike
from ._optimize import _core_options, save
from ._options import Options, Path

if TYPE_CHECKING:
    from typing_extensions import Unpack

Passes = Union[str, Mapping[str, Any], Sequence[Union[str, Mapping[str, Any]]]]


class Transformed(NamedTuple):
    """A model and what was done to get it."""

    model: Any
    """An onnx.ModelProto; an onnx_ir.Model or bytes where the input was; the path where `output` was given."""
    report: dict[str, Any]
    """The keys of `saturate transform --report`."""
    table: str
    """The same for people."""


def transform_with_report(model: ModelLike, passes: Passes, output: Path | None = None, **options: Unpack[Options]) -> Transformed:
    """`transform`, with what was done."""
    core = _convert.to_core(model, options.get("base_dir"))
    text = json.dumps([passes] if isinstance(passes, str) else passes)
    result, table, report = _core.transform(core, text, _core_options(options, core))
    told = json.loads(report)
    if output is not None:
        save(result, output, options)
        return Transformed(output, told, table)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Transformed(result.serialize(), told, table)
    if _convert.is_ir(model):
        import onnx_ir

        return Transformed(onnx_ir.from_proto(_convert.to_proto(result)), told, table)
    return Transformed(_convert.to_proto(result), told, table)


def transform(model: ModelLike, passes: Passes, output: Path | None = None, **options: Unpack[Options]) -> Any:
    """The model that passes make of this one, one after the other: names, types, dims and layout of inputs and outputs, constants, shapes,
    parts of a model (docs/transforms.md; `passes()` lists them).

    `passes` is a list of names and of dicts such as `{"pass": "rename_inputs", "names": {"old": "new"}}`, a name alone, or surgeries of
    Olive. Each pass states how its result is verified, and what fails raises `VerificationError`. Of the options: `verify`, `rtol`,
    `atol`, `steps`, `seed`, `inputs`, `time_limit`, `max_memory`, `threads`, `runtime`, `custom_op_library`, `base_dir`, and with `output` `external_data`,
    `external_data_threshold` and `external_data_format`.

    >>> onnx_saturate.transform(model, [{"pass": "expose", "values": ["hidden"]}, "strip_metadata"])
    """
    return transform_with_report(model, passes, output, **options).model


def split(model: ModelLike, at: Sequence[str], **options: Unpack[Options]) -> list[Any]:
    """The model as a chain of parts: the first makes the first of these values, the next one the second, the last one the outputs.

    What a later part reads of an earlier one is an output there and an input here. Options as for `transform`.

    >>> encoder, head = onnx_saturate.split(model, ["pooled"])
    """
    core = _convert.to_core(model, options.get("base_dir"))
    return [transform(model, json.loads(part), **options) for part in _core.split_passes(core, list(at))]


def passes() -> list[dict[str, Any]]:
    """The passes: `pass`, `does`, `compared`, `verified` and `fields`, as `saturate transform --list-passes --json` tells them."""
    told: list[dict[str, Any]] = json.loads(_core.passes())
    return told
