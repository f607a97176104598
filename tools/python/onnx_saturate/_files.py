"""Verbs of the command that make a model out of one: small language models ready for an accelerator, and failures made small."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import onnx

from . import _command_options, _convert
from ._convert import ModelLike
from ._errors import error_of
from ._options import Path, check_names, number, text, texts, truth
from ._transform import Transformed
from ._verbs import _RUN, _SHAPES, _command, _files, _words

_SLM = {
    "dims": _SHAPES["dims"], "threads": _RUN["threads"], "seed": _RUN["seed"], "max_memory": _RUN["max_memory"], "time_limit": _RUN["time_limit"],
    "window": ("--window", "whole"), "sequence": ("--sequence", "whole"), "max_context": ("--max-context", "whole"), "cache": ("--cache", "text"),
    "dtype": ("--dtype", "text"), "max_error": ("--max-error", "number"), "calibrate": ("--calibrate", "text"), "clamp": ("--clamp", "on"),
    "opset": ("--opset", "whole"), "target": ("--target", "text"), "verify": ("--no-verify", "off"), "rtol": ("--check-rtol", "number"),
    "atol": ("--check-atol", "number"), "judge": ("--judge", "texts"), "onnxruntime": ("--onnxruntime", "text"),
}  # fmt: skip


class Reduced(NamedTuple):
    """The smallest model found that shows a failure, and how it was found."""

    model: Any
    """An onnx.ModelProto; an onnx_ir.Model or bytes where the input was; the path where `output` was given."""
    report: dict[str, Any]
    """The keys of `saturate reduce --json`."""


def _like(given: ModelLike, made: str, output: Path | None) -> Any:
    """The model of a file in the kind of the one that was given; the path that was asked for."""
    if output is not None:
        return output
    if isinstance(given, (bytes, bytearray, memoryview)):
        return FilePath(made).read_bytes()
    if _convert.is_ir(given):
        import onnx_ir

        return onnx_ir.from_proto(onnx.load(made))
    return onnx.load(made)


def _printed(*words: str) -> str:
    """What the command prints; its errors are ours."""
    done = subprocess.run([sys.executable, "-m", "onnx_saturate", *words], capture_output=True, text=True)
    if done.returncode:
        errors = [line.removeprefix("saturate: error: ") for line in done.stderr.splitlines() if line.startswith("saturate: error: ")]
        raise error_of(done.returncode, " ".join(errors) or done.stderr.strip() or f"the command ended with {done.returncode}", None)
    return done.stdout


def slm(model: ModelLike, output: Path | None = None, *, external_data: bool = False, **options: Any) -> Transformed:
    """A decoder without a cache made ready for an accelerator: `saturate slm`, verified step by step against the original.

    It gets a cache of keys and values, half precision where `dtype` says so ("fp16", "bf16"), and operators of an `opset` or `target`
    ("onnx": any runtime). With `window`, `sequence` or `max_context` the cache slides and all sizes are fixed; without, it grows; `cache`
    names a mode ("growing", "window", "buffer"). Also: `max_error`, `calibrate` (an .npz) and `clamp`, of half precision; `dims`, `verify`,
    `rtol`, `atol`, `judge`, `onnxruntime`, `seed`, `threads`, `max_memory`, `time_limit`. docs/slm.md tells more.

    >>> cached, report, table = onnx_saturate.slm("decoder.onnx", dtype="fp16")
    """
    words = _words(options, _SLM) + ["--no-external-data"] * (not truth("external_data", external_data))
    with _files([model]) as (paths, _), tempfile.TemporaryDirectory() as folder:
        made = text("output", output) if output is not None else os.path.join(folder, "model.onnx")
        told = os.path.join(folder, "report.json")
        table = _printed("slm", *paths, f"--output={made}", f"--report={told}", *words)
        return Transformed(_like(model, made, output), json.loads(FilePath(told).read_text()), table)


def reduce(
    model: ModelLike,
    because: str,
    output: Path | None = None,
    *,
    keep: str | Sequence[str] = (),
    good: Path | None = None,
    command: Path | None = None,
    time_limit: float | None = None,
    trial_limit: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Reduced:
    """A model on which `optimize` fails, made as small as it goes while it still fails in the same way: `saturate reduce`.

    `because` says what the failure looks like: "wrong", "exit 3", "signal", "hang", "warning: TEXT", "error: TEXT" or "no Attention" (then
    `keep` names operators that must stay). `options` are those of the run that fails, such as {"target": "onnx", "rules": "my.rules"}; `good`
    is a saturate that does not fail, `command` the one that does (this one). `time_limit` (300) and `trial_limit` are seconds. An `Error` where
    the model does not show the failure.

    >>> onnx_saturate.reduce("bart.onnx", "wrong", "small.onnx", options={"rules": "my.rules"}).report["nodes_after"]
    """
    given = dict(options or {})
    check_names(given, [option.name for option in _command_options.OPTIONS], "the function's help")
    words = [f"--because={text('because', because)}", *(f"--keep={name}" for name in texts("keep", keep))]
    words += [f"--{name}={text(name, value)}" for name, value in (("good", good), ("command", command)) if value is not None]
    limits = (("time-limit", time_limit), ("trial-limit", trial_limit))
    words += [f"--{name}={number(name.replace('-', '_'), value)!r}" for name, value in limits if value is not None]
    behind = _command_options.words(given)
    with _files([model]) as (paths, _), tempfile.TemporaryDirectory() as folder:
        made = text("output", output) if output is not None else os.path.join(folder, "small.onnx")
        report: dict[str, Any] = _command("reduce", *paths, f"--output={made}", *words, behind=behind)
        return Reduced(_like(model, made, output), report)
