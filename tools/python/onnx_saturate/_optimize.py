"""Optimizing, verifying, inspecting, explaining."""
from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import onnx

from . import _convert, _core
from ._convert import ModelLike
from ._errors import OptionError
from ._log import followed, logger, warn
from ._options import Options, Path, Progress, checked, document, price, text
from ._report import Report
from ._results import Explained, Inspected
from ._rules import rule_set
from ._runtimes import judge_options
from ._session import named_inputs
from ._values import type_name

if TYPE_CHECKING:
    import onnx_ir
    from typing_extensions import Unpack

# What goes to the compiled part in another form, or does not go there.
_APART = {
    "external_data", "external_data_threshold", "external_data_format", "skip_rules", "progress", "base_dir", "assume", "no_assume", "not_assumed", "cost", "rules",
    "judge", "onnxruntime", "runtime", "custom_op_library",
}  # fmt: skip


class _Bar:
    """A tqdm bar that is made when the rewriting begins."""

    def __init__(self, shown: bool | None, total: int) -> None:
        from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]

        self._bar = tqdm(total=total, desc="load", unit="iteration", leave=False, disable=None if shown is None else False)

    def __call__(self, stage: str, iteration: int, nodes: int) -> None:
        self._bar.set_description(stage, refresh=False)
        if nodes:
            self._bar.update(iteration + 1 - self._bar.n)
            self._bar.set_postfix({"e-nodes": nodes}, refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


@contextlib.contextmanager
def _progress(given: Progress, iterations: int) -> Iterator[Callable[[str, int, int], object] | None]:
    if callable(given):
        yield given
        return
    bar = None
    if given is not False:
        try:
            bar = _Bar(given, iterations)
        except ImportError:
            if given:
                raise OptionError("progress: tqdm is not installed; pip install tqdm, or give a function") from None
    try:
        yield bar
    finally:
        if bar is not None:
            bar.close()


def _fitting(values: dict[str, tuple[Any, ...]], declared: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The inputs given, where they are those of the model: what is wrong with them is no fault of the model."""
    for one in declared:
        name, given = one["name"], values.get(one["name"])
        if given is None:
            if not one["has_default"]:
                raise OptionError(f"inputs: {name!r} is missing; the model reads {', '.join(d['name'] for d in declared if not d['has_default'])}")
            continue
        if given[0] != "tensor" or one["shape"] is None:
            continue
        if type_name(given[1]) != one["type"]:
            raise OptionError(f"inputs: {name!r} is {type_name(given[1])}, and the model reads {one['type']}")
        if len(given[2]) != len(one["shape"]):
            raise OptionError(f"inputs: {name!r} has the dims {list(given[2])}, and the model reads {one['shape']}")
    return values


def _core_options(options: Mapping[str, Any], model: _core.Model) -> dict[str, Any]:
    given = checked(options)
    out = {name: value for name, value in given.items() if name not in _APART}
    out["assumed"] = given.get("assume", [])
    out["not_assumed"] = given.get("no_assume", []) + given.get("not_assumed", [])
    out["rules"] = rule_set(given.get("rules"), given.get("skip_rules", ()))
    out.update(judge_options(given))
    cost = given.get("cost")
    if callable(cost):
        out["cost_model"] = lambda op: price(f"cost: {op.op_type}", cost(op))
    elif cost is not None:
        out["cost"] = text("cost", cost)
    if "inputs" in out:
        declared = json.loads(model.inspect())["inputs"]
        several = isinstance(out["inputs"], (list, tuple)) and all(isinstance(case, Mapping) for case in out["inputs"]) and out["inputs"]
        out["inputs"] = [_fitting(named_inputs(case, declared), declared) for case in (out["inputs"] if several else [out["inputs"]])]
    return out


def _run(model: ModelLike, options: Mapping[str, Any], in_full: bool) -> tuple[_core.Model, Report]:
    core = _convert.to_core(model, options.get("base_dir"))
    plain = _core_options(options, core)
    plain["not_fused"] = in_full
    with _progress(options.get("progress"), plain.get("iterations", 30)) as progress:
        plain["progress"] = followed(progress)
        result, report, interrupted = _core.optimize(core, plain)
    if interrupted:
        warn("interrupted: this is the best result so far", 4)
    told = Report(report, interrupted)
    for warning in told.warnings:
        warn(warning, 4)
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s: %s", os.fspath(model) if isinstance(model, (str, os.PathLike)) else type(model).__name__, told.summary)
    return result, told


class Optimized(NamedTuple):
    """A model and what was done to get it. It can be pickled."""

    model: Any
    """An onnx.ModelProto; an onnx_ir.Model or bytes where the input was; the path where `output` was given."""
    report: Report

    def __reduce__(self) -> tuple[Any, ...]:
        if not _convert.is_ir(self.model):
            return Optimized, (self.model, self.report)
        import onnx_ir

        return _of_ir, (onnx_ir.to_proto(self.model), self.report)

    def __repr__(self) -> str:
        kind = repr(self.model) if isinstance(self.model, (str, os.PathLike)) else f"<{type(self.model).__name__}>"
        return f"Optimized(model={kind}, report={self.report!r})"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def _of_ir(proto: onnx.ModelProto, report: Report) -> Optimized:
    import onnx_ir

    return Optimized(onnx_ir.from_proto(proto), report)


def optimize_with_report(model: ModelLike, output: Path | None = None, **options: Unpack[Options]) -> Optimized:
    """`optimize`, with the `Report` of what was done."""
    return _optimized(model, output, options, True)


def _optimized(model: ModelLike, output: Path | None, options: Mapping[str, Any], in_full: bool) -> Optimized:
    if output is not None and (wrong := _core.wrong_result(text("output", output))):
        raise OptionError(f"output: {wrong}")
    result, report = _run(model, options, in_full)
    if output is not None:
        save(result, output, options)
        return Optimized(output, report)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Optimized(result.serialize(), report)
    if _convert.is_ir(model):
        import onnx_ir

        return Optimized(onnx_ir.from_proto(_convert.to_proto(result)), report)
    return Optimized(_convert.to_proto(result), report)


def save(model: _core.Model, output: Path, options: Mapping[str, Any]) -> None:
    """To the file `output`."""
    given = checked(options)
    if wrong := _core.wrong_result(text("output", output)):
        raise OptionError(f"output: {wrong}")
    model.save(
        text("output", output), given.get("external_data", False), given.get("external_data_threshold", 1024), given.get("external_data_format", "")
    )


if TYPE_CHECKING:

    @overload
    def optimize(model: ModelLike, output: str, **options: Unpack[Options]) -> str: ...
    @overload
    def optimize(model: ModelLike, output: os.PathLike[str], **options: Unpack[Options]) -> os.PathLike[str]: ...
    @overload
    def optimize(
        model: onnx.ModelProto | str | os.PathLike[str] | _convert.Exported, output: None = None, **options: Unpack[Options]
    ) -> onnx.ModelProto: ...
    @overload
    def optimize(model: bytes, output: None = None, **options: Unpack[Options]) -> bytes: ...
    @overload
    def optimize(model: onnx_ir.Model, output: None = None, **options: Unpack[Options]) -> onnx_ir.Model: ...


def optimize(model: ModelLike, output: Path | None = None, **options: Unpack[Options]) -> Any:
    """An equal, cheaper model that the target can run.

    `model` is an onnx.ModelProto, bytes, an onnx_ir.Model, torch's ONNXProgram, a function of onnxscript or a path (external data is
    mapped); it is never changed. The result is of the same kind (an onnx.ModelProto for a path, an ONNXProgram or a function), or goes to the file `output`, whose path is returned.

    Where a rule makes the result differ it is left out, with a RuntimeWarning (`report.left_out`, `strict_verify`). Raises
    `VerificationError` where that doesn't help, `UnsupportedError` where nothing can be compared, `OptionError`
    for options that make no sense, `MissingFileError` (also a FileNotFoundError) and `Error` for models that can't be read. Ctrl-C ends the rewriting and gives the best result so far, with a
    RuntimeWarning; a second one raises KeyboardInterrupt, as does one during verification.

    >>> onnx_saturate.optimize("bart.onnx", "bart.opt.onnx", target="ort-cpu")
    >>> optimized = onnx_saturate.optimize(model, cost=lambda op: 10 if op.op_type == "MatMul" else 1)
    """
    return _optimized(model, output, options, False).model


class Verification(NamedTuple):
    """Whether two models compute the same. True and False like `equal`."""

    equal: bool
    message: str
    """One line: how equal, or what differs."""
    details: dict[str, Any]
    """Cases and outputs, with the keys of `saturate verify --json`."""

    def __bool__(self) -> bool:
        return self.equal

    def __repr__(self) -> str:
        return f"Verification(equal={self.equal}, {self.message!r})"


def verify(original: ModelLike, other: ModelLike, **options: Unpack[Options]) -> Verification:
    """Runs both on the same inputs (random ones of several sizes unless `inputs` gives them) and compares every output.

    Of the options: `dims` and `input_shapes` (sizes to try), `allow_empty`, `rtol`, `atol`, `steps`, `seed`, `inputs`, `time_limit`,
    `max_memory`, `threads`, `runtime`, `custom_op_library`, `base_dir`.
    """
    first = _convert.to_core(original, options.get("base_dir"))
    second = _convert.to_core(other, options.get("base_dir"))
    equal, message, details = _core.verify(first, second, _core_options(options, first))
    return Verification(equal, message, json.loads(details))


def inspect(
    model: ModelLike,
    *,
    base_dir: Path | None = None,
    after_load: bool = False,
    judge: str | None = None,
    onnxruntime: Path | None = None,
) -> Inspected:
    """What is in a model: opsets, inputs and outputs, operators, fused operators, parameters, how it is quantized.

    A mapping with the keys of `saturate inspect --json`; `quantization` is None where nothing is quantized.
    With `after_load`, the key of this name tells what ONNX Runtime makes of the model when it loads it, as it saves that itself: the
    installed one, or the one that `judge` ("onnxruntime=PATH") or `onnxruntime` names.
    """
    core = _convert.to_core(model, base_dir)
    if not after_load:
        if judge is not None or onnxruntime is not None:
            raise OptionError("judge, onnxruntime: of the runtime that after_load asks; give after_load=True")
        return Inspected(json.loads(core.inspect()))
    options: Options = {}
    if judge is not None:
        options["judge"] = judge
    if onnxruntime is not None:
        options["onnxruntime"] = onnxruntime
    return Inspected(json.loads(_core.inspect_after_load(core, _core_options(options, core))))


def explain(model: ModelLike, op: str = "", *, rule: str = "", value: str = "", **options: Unpack[Options]) -> Explained:
    """Which rules made the operators of the optimized model, and why others were not made (the keys of `saturate explain --json`).

    Asked of an operator type `op`, of a `rule`, or of a `value` of the model; of none: of everything that was made.
    """
    core = _convert.to_core(model, options.get("base_dir"))
    explained = Explained(json.loads(_core.explain(core, op, rule, value, _core_options(options, core))))
    for warning in explained.get("warnings", []):
        warn(warning)
    return explained


document(optimize)
document(optimize_with_report)
document(explain)
document(verify, ("dims", "input_shapes", "allow_empty", "rtol", "atol", "steps", "seed", "inputs", "time_limit", "max_memory", "threads", "judge", "onnxruntime", "runtime", "custom_op_library", "base_dir"))
