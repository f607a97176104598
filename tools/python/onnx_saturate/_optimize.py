"""Optimizing, verifying, inspecting, explaining."""
from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Union, overload

import onnx

from . import _convert, _core
from ._convert import ModelLike
from ._errors import OptionError
from ._report import Report
from ._rules import CostModel, Rules, rule_set
from ._session import Inputs, named_inputs

if TYPE_CHECKING:
    import onnx_ir
    from typing_extensions import Unpack

Path = Union[str, os.PathLike[str]]
Progress = Union[bool, Callable[[str, int, int], object], None]


class Options(TypedDict, total=False):
    """How to optimize. Everything has the default of the command `saturate optimize`."""

    target: str | os.PathLike[str]
    """What can run, and what it costs: "ort-cpu" (the default), another of `onnx_saturate.targets()`, or a JSON file."""
    prefer: Iterable[str]
    """What the target would rather have, beside its own wishes: "single-heads" computes attention one head at a time."""
    cost: str | os.PathLike[str] | CostModel
    """"nodes", "flops", "bytes", "roofline", "measured", a file (docs/extraction.md), or a function of an `Operator` (default: the target's own)."""
    constant_cost: float
    """With a function as cost: of a byte of a new constant (1/65536)."""
    rules: Rules
    """A `RuleSet`, or files of rules beside the built-in ones."""
    skip_rules: Iterable[str]
    """Names of rules to leave out."""
    assume: Iterable[str]
    """Risky assumptions that rules may make, too (docs/assumptions.md); `report` tells which assumptions were made."""
    no_assume: Iterable[str]
    """Assumptions that no rule may make, or ["all"]; these win over `assume` and the target."""
    not_assumed: Iterable[str]
    """An older name of `no_assume`."""
    extractor: str
    """How the cheapest choice is looked for ("search"; `saturate optimize --help` names the others)."""
    approximate: bool
    """Also rules that approximate, such as Erf by Tanh."""
    rescale: bool
    """Also rules that move the scales of quantized numbers."""
    within_one_step: bool
    """Rules that move quantized numbers by a step at most; not given: where the target's runtime does the same when it loads a model."""
    opset: int
    """Write this opset of ai.onnx (default: the input's, or higher where the result needs it)."""
    keep_opset: bool
    """Write the input's opset."""
    dims: Mapping[str, int]
    """Sizes of symbolic dims, to be fixed."""
    input_shapes: Mapping[str, Sequence[int]]
    """Dims of inputs, to be fixed; -1 leaves one as it is. They are the rank of an input that has none."""
    allow_empty: bool
    """Take sizes of 0 in `dims` and `input_shapes` (False)."""
    io_rank: int
    """Rank of the result's inputs and outputs: ones stand in front of their dims, and `report.to_dict()["io_rank"]` tells which changed
    (default: the model's own). `inputs` keep the shapes of the model itself."""
    iterations: int
    """Rounds of rewriting (30)."""
    node_limit: int
    """E-nodes (1,000,000)."""
    memory_limit: int
    """Bytes of the e-graph (no limit)."""
    time_limit: float
    """Seconds of rewriting, and again of verifying (60): a safety net; where it is hit the result depends on the machine."""
    max_memory: int
    """Bytes that the tensors of one run, or of what is folded, may take together (4 GB for a run, 256 MB or four times the weights for
    folding)."""
    threads: int
    """0: all cores. The result is the same for any number (1)."""
    verify: bool
    """Run original and result on the same inputs, and give out only what computes the same (True)."""
    strict_verify: bool
    """Where the result does not compute the same, raise `VerificationError`. Else the rule that is to blame is left out, with a warning
    (False)."""
    rtol: float
    """Relative tolerance of the verification, times the size of the element or what is usual in its row, whichever is larger (by type:
    float 1e-4, double 1e-6, float16 and bfloat16 2e-2, and what rounding explains)."""
    atol: float
    """Absolute tolerance (0)."""
    steps: int
    """Steps that quantized values may differ by when models are compared; what is computed of them may then differ by what a step of some
    makes (0)."""
    seed: int
    """Of the random inputs (0)."""
    inputs: Inputs | Sequence[Mapping[str, Any]]
    """Verify on these instead of random ones; a list of dicts: one case each."""
    progress: Progress
    """True or False: a bar by tqdm, or none. Or a function of stage, iteration and number of e-nodes. Default: a bar on a terminal or in a
    notebook, if tqdm is installed."""
    base_dir: str | os.PathLike[str]
    """Where external data of a model from memory lies."""
    external_data: bool
    """With `output`: write weights to `<output>.data` even where the input has them inline."""
    external_data_threshold: int
    """With `output`: smallest tensor to write there (1024 bytes)."""


_OF_OUTPUT = {"external_data", "external_data_threshold"}


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


def _core_options(options: Mapping[str, Any], model: _core.Model) -> dict[str, Any]:
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"no such option: {', '.join(sorted(unknown))}; onnx_saturate.Options lists them")
    out = {name: value for name, value in options.items() if name not in _OF_OUTPUT | {"skip_rules", "progress", "base_dir"}}

    def names(key: str) -> list[str]:
        given = out.pop(key, None)
        return [given] if isinstance(given, str) else list(given or ())

    out["prefer"] = names("prefer")
    out["assumed"] = names("assume")
    out["not_assumed"] = names("no_assume") + names("not_assumed")
    out["rules"] = rule_set(options.get("rules"), options.get("skip_rules", ()))
    if "target" in out:
        out["target"] = os.fspath(out["target"])
    cost = out.pop("cost", None)
    if callable(cost):
        out["cost_model"] = cost
    elif cost is not None:
        out["cost"] = os.fspath(cost)
    if out.get("dims") is not None:
        out["dims"] = dict(out["dims"])
    if out.get("input_shapes") is not None:
        out["input_shapes"] = {name: list(dims) for name, dims in out["input_shapes"].items()}
    if out.get("inputs") is not None:
        declared = json.loads(model.inspect())["inputs"]
        several = isinstance(out["inputs"], (list, tuple)) and all(isinstance(case, Mapping) for case in out["inputs"]) and out["inputs"]
        out["inputs"] = [named_inputs(case, declared) for case in (out["inputs"] if several else [out["inputs"]])]
    return out


def _run(model: ModelLike, options: Mapping[str, Any]) -> tuple[_core.Model, Report]:
    core = _convert.to_core(model, options.get("base_dir"))
    plain = _core_options(options, core)
    with _progress(options.get("progress"), int(options.get("iterations") or 30)) as progress:
        plain["progress"] = progress
        result, report, interrupted = _core.optimize(core, plain)
    if interrupted:
        warnings.warn("interrupted: this is the best result so far", RuntimeWarning, stacklevel=4)
    told = Report(report, interrupted)
    for text in told.warnings:
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    return result, told


class Optimized(NamedTuple):
    """A model and what was done to get it."""

    model: Any
    """An onnx.ModelProto; an onnx_ir.Model or bytes where the input was; the path where `output` was given."""
    report: Report


def optimize_with_report(model: ModelLike, output: Path | None = None, **options: Unpack[Options]) -> Optimized:
    """`optimize`, with the `Report` of what was done."""
    result, report = _run(model, options)
    if output is not None:
        external, threshold = bool(options.get("external_data")), int(options.get("external_data_threshold") or 1024)
        result.save(os.fspath(output), external, threshold)
        return Optimized(output, report)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Optimized(result.serialize(), report)
    if _convert.is_ir(model):
        import onnx_ir

        return Optimized(onnx_ir.from_proto(_convert.to_proto(result)), report)
    return Optimized(_convert.to_proto(result), report)


if TYPE_CHECKING:

    @overload
    def optimize(model: ModelLike, output: str, **options: Unpack[Options]) -> str: ...
    @overload
    def optimize(model: ModelLike, output: os.PathLike[str], **options: Unpack[Options]) -> os.PathLike[str]: ...
    @overload
    def optimize(
        model: onnx.ModelProto | str | os.PathLike[str], output: None = None, **options: Unpack[Options]
    ) -> onnx.ModelProto: ...
    @overload
    def optimize(model: bytes, output: None = None, **options: Unpack[Options]) -> bytes: ...
    @overload
    def optimize(model: onnx_ir.Model, output: None = None, **options: Unpack[Options]) -> onnx_ir.Model: ...


def optimize(model: ModelLike, output: Path | None = None, **options: Unpack[Options]) -> Any:
    """An equal, cheaper model that the target can run.

    `model` is an onnx.ModelProto, bytes, an onnx_ir.Model or a path (external data is mapped); it is never changed. The result is of the
    same kind (an onnx.ModelProto for a path), or goes to the file `output`, whose path is returned. `options` are those of `Options`.

    Where a rule makes the result differ it is left out, with a RuntimeWarning (`report.left_out`, `strict_verify`). Raises
    `VerificationError` where that doesn't help, `UnsupportedError` where nothing can be compared, `OptionError`
    for options that make no sense, `Error` for models that can't be read. Ctrl-C ends the rewriting and gives the best result so far, with a
    RuntimeWarning; a second one raises KeyboardInterrupt, as does one during verification.

    >>> onnx_saturate.optimize("bart.onnx", "bart.opt.onnx", target="ort-cpu")
    >>> optimized = onnx_saturate.optimize(model, cost=lambda op: 10 if op.op_type == "MatMul" else 1)
    """
    return optimize_with_report(model, output, **options).model


class Verification(NamedTuple):
    """Whether two models compute the same. True and False like `equal`."""

    equal: bool
    message: str
    """One line: how equal, or what differs."""
    details: dict[str, Any]
    """Cases and outputs, with the keys of `saturate verify --json`."""

    def __bool__(self) -> bool:
        return self.equal


def verify(original: ModelLike, other: ModelLike, **options: Unpack[Options]) -> Verification:
    """Runs both on the same inputs (random ones of several sizes unless `inputs` gives them) and compares every output.

    Of the options: `dims` and `input_shapes` (sizes to try), `allow_empty`, `rtol`, `atol`, `steps`, `seed`, `inputs`, `time_limit`,
    `max_memory`, `threads`, `base_dir`.
    """
    first = _convert.to_core(original, options.get("base_dir"))
    second = _convert.to_core(other, options.get("base_dir"))
    equal, message, details = _core.verify(first, second, _core_options(options, first))
    return Verification(equal, message, json.loads(details))


def inspect(model: ModelLike, *, base_dir: Path | None = None) -> dict[str, Any]:
    """What is in a model: opsets, inputs and outputs, operators, fused operators, parameters, how it is quantized.

    The keys are those of `saturate inspect --json`; `quantization` is None where nothing is quantized.
    """
    described: dict[str, Any] = json.loads(_convert.to_core(model, base_dir).inspect())
    return described


def explain(model: ModelLike, op: str = "", *, rule: str = "", value: str = "", **options: Unpack[Options]) -> dict[str, Any]:
    """Which rules made the operators of the optimized model, and why others were not made (the keys of `saturate explain --json`).

    Asked of an operator type `op`, of a `rule`, or of a `value` of the model; of none: of everything that was made.
    """
    core = _convert.to_core(model, options.get("base_dir"))
    explained: dict[str, Any] = json.loads(_core.explain(core, op, rule, value, _core_options(options, core)))
    return explained


def targets() -> list[str]:
    """Names of the built-in targets."""
    return _core.targets()
