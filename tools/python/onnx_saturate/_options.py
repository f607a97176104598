"""The options of the package: what each is, and a check of what is given, before it goes to the compiled part."""
from __future__ import annotations

import ast
import inspect
import math
import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Union

import numpy as np

from . import _core
from ._errors import OptionError

if TYPE_CHECKING:
    from ._rules import CostModel, Rules
    from ._session import Inputs

Path = Union[str, os.PathLike[str]]
Progress = Union[bool, Callable[[str, int, int], object], None]


class Options(TypedDict, total=False):
    """How to optimize. Everything has the default of the command `saturate optimize`."""

    target: str | os.PathLike[str]
    """What can run, and what it costs: "ort-cpu" (the default), another of `onnx_saturate.targets()`, or a JSON file; "ort-cpu@1.23" for that
    release, else the installed one."""
    prefer: str | Iterable[str]
    """What the target would rather have, beside its own wishes: "single-heads" computes attention one head at a time, "quantizable" keeps what quantizers know."""
    cost: str | os.PathLike[str] | CostModel
    """"nodes", "flops", "bytes", "roofline", "measured", a file (docs/extraction.md), or a function of an `Operator` (default: the target's own)."""
    cost_at: Mapping[str, int] | Sequence[Mapping[str, int] | tuple[Mapping[str, int], float]]
    """Dim sizes at which costs are evaluated, each with its weight or alone: the weighted mean counts (else by what inputs hold, docs/sizes.md)."""
    memory_slack: float
    """How much dearer the result may be for a lower peak of memory, as a share of the cost (0)."""
    max_growth: float
    """How many times the model's weights the result's may take, 1.1 for a tenth more; where no cheaper form keeps to it, the graph stays (None: any)."""
    constant_cost: float
    """With a function as cost: of a byte of a new constant (1/65536)."""
    rules: Rules
    """A `RuleSet`, or files of rules and functions made rules by `rule`, beside the built-in ones (the built-in ones)."""
    skip_rules: str | Iterable[str]
    """Names of rules to leave out (none)."""
    skip_fusions: str | Iterable[str]
    """Operators, such as "Attention": the rules that make one of what holds none are left out (none)."""
    assume: str | Iterable[str]
    """Risky assumptions that rules may make, too (docs/assumptions.md); `report` tells which assumptions were made (none)."""
    no_assume: str | Iterable[str]
    """Assumptions that no rule may make, or "all"; these win over `assume` and the target (none)."""
    not_assumed: str | Iterable[str]
    """An older name of `no_assume`."""
    extractor: str
    """How the cheapest choice is looked for ("search"; `saturate optimize --help` names the others)."""
    approximate: bool
    """Also rules that approximate, such as Erf by Tanh (False)."""
    rescale: bool
    """Also rules that move the scales of quantized numbers (False)."""
    within_one_step: bool
    """Rules that move quantized numbers by a step at most; not given: where the target's runtime does the same when it loads a model."""
    opset: int
    """Write this opset of ai.onnx (default: the input's, or higher where the result needs it)."""
    keep_opset: bool
    """Write the input's opset (False)."""
    keep_functions: bool
    """Keep functions that the target names as functions of the file (False)."""
    dims: Mapping[str, int] | Sequence[str]
    """Sizes of symbolic dims, to be fixed: {"batch": 1}, or ["batch=1"] (none)."""
    input_shapes: Mapping[str, Sequence[int | str | None]] | Sequence[str]
    """Dims of inputs, to be fixed: {"x": [1, 3]}, or ["x:1,3"]; -1, None or a name leaves one as it is. They are the rank of an input that
    has none (none)."""
    allow_empty: bool
    """Take sizes of 0 in `dims` and `input_shapes` (False)."""
    io_rank: int
    """Rank of the result's inputs and outputs: ones stand in front of their dims, and `report.to_dict()["io_rank"]` tells which changed
    (default: the model's own). `inputs` keep the shapes of the model itself."""
    iterations: int
    """Rounds of rewriting (30)."""
    node_limit: int
    """E-nodes that rules may make (60 for each node of the model, 10,000 to 1,000,000)."""
    memory_limit: int
    """Bytes of the e-graph (no limit)."""
    time_limit: float
    """Seconds of rewriting, and again of verifying (60); where it is given, of the whole run, half of them of rewriting: a safety net; where
    it is hit the result depends on the machine."""
    max_memory: int
    """Bytes that the tensors of one run, or of what is folded, may take together (4 GB for a run, 256 MB or four times the weights for
    folding)."""
    threads: int
    """0: all cores. The result is the same for any number (1)."""
    verify: bool
    """Run original and result on the same inputs, and give out only what computes the same (True)."""
    annotate: bool
    """Write into the `metadata_props` of new nodes which rules made them (`saturate.rules`) and which nodes of the model they stand for
    (`saturate.replaces`) (False)."""
    strict_verify: bool
    """Where the result does not compute the same, raise `VerificationError`. Else the rule that is to blame is left out, with a warning
    (False)."""
    debug_rules: bool
    """Where the result does not compute the same, raise `VerificationError` that tells which application of which rule is to blame (False)."""
    rtol: float
    """Relative tolerance of the verification, times the size of the element or what is usual in its row, whichever is larger (by type:
    float 1e-4, double 1e-6, float16 and bfloat16 2e-2, and what rounding explains)."""
    atol: float
    """Absolute tolerance (0)."""
    measure: float
    """Seconds for which the best different graphs and the original are timed in ONNX Runtime in turns, on the sizes of `cost_at` or on
    `inputs`, with `threads`; the fastest is taken, and the original where nothing is faster (not measured)."""
    measured: str | os.PathLike[str]
    """With `measure`: a file that keeps what was measured, for later runs of this model and of others (none)."""
    steps: int
    """Steps that quantized values may differ by when models are compared; what is computed of them may then differ by what a step of some
    makes (0)."""
    seed: int
    """Of the random inputs (0)."""
    judge: str | Iterable[str]
    """Who compares original and result: "saturate", "onnxruntime" (in a process of its own, without and with its optimizations), or
    "onnxruntime=PATH" of its shared library ("saturate", and "onnxruntime" where it is installed)."""
    onnxruntime: str | os.PathLike[str]
    """The shared library of ONNX Runtime, or the folder of its package; it is code, and trusted (the package beside this one)."""
    runtime: str
    """An older name of `judge`; with `custom_op_library` it runs the models in this process."""
    custom_op_library: str | os.PathLike[str] | Iterable[str]
    """With `runtime="onnxruntime"`: shared libraries of custom operators (none)."""
    inputs: Inputs | Sequence[Mapping[str, Any]]
    """Verify on these instead of random ones; a list of dicts: one case each (random ones)."""
    progress: Progress
    """True or False: a bar by tqdm, or none. Or a function of stage, iteration and number of e-nodes. Default: a bar on a terminal or in a
    notebook, if tqdm is installed."""
    base_dir: str | os.PathLike[str]
    """Where external data of a model from memory lies (nowhere)."""
    external_data: bool
    """With `output`: write weights to `<output>.data` even where the input has them inline (False)."""
    external_data_threshold: int
    """With `output`: smallest tensor to write there (1024 bytes)."""
    external_data_format: str
    """With `output`: as `external_data`, in this format: "raw" (`<output>.data`) or "safetensors" (`<output>.safetensors`) (as the model's)."""


def describe(names: Iterable[str] = ()) -> str:
    """The options, or those of these names, for a docstring: told once, in `Options`."""
    try:
        nodes = ast.parse(inspect.getsource(sys.modules[__name__])).body
    except (OSError, TypeError, SyntaxError):  # no source
        return ""
    body = next(node for node in nodes if isinstance(node, ast.ClassDef) and node.name == "Options").body
    wanted, lines = set(names), []
    for field, text in zip(body, body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            if not wanted or field.target.id in wanted:
                lines.append(f"    {field.target.id}: {' '.join(ast.literal_eval(text.value).split())}")
    return "\n".join(lines)


def document(function: Callable[..., Any], names: Iterable[str] = ()) -> None:
    """Appends the options to the docstring of a function."""
    told = describe(names)
    if function.__doc__ and told:
        function.__doc__ = f"{function.__doc__.rstrip()}\n\n    Options:\n\n{told}\n    "


# ---- checks ---------------------------------------------------------------------------------------------------------------------------

_LARGEST = 2**63 - 1


def _wrong(place: str, value: object, what: str) -> OptionError:
    return OptionError(f"{place}: {value!r} is {what}")


def whole(place: str, value: object, least: int = 0, most: int = _LARGEST) -> int:
    """Python's and NumPy's integers, within bounds."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise _wrong(place, value, "not a whole number") from None
    if not least <= number <= most:
        raise _wrong(place, number, f"out of bounds; give a whole number from {least} to {most}")
    return number


def price(place: str, value: object) -> float:
    """Any number: bounds are checked where they are known."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise _wrong(place, value, "not a number")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise _wrong(place, value, "not a number") from None


def number(place: str, value: object) -> float:
    """Numbers from 0 on."""
    found = price(place, value)
    if not math.isfinite(found) or found < 0:
        raise _wrong(place, value, "out of bounds; give a number from 0 on")
    return found


def truth(place: str, value: object) -> bool:
    """True and False, Python's or NumPy's."""
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong(place, value, "neither True nor False")
    return bool(value)


def text(place: str, value: object) -> str:
    """A name, or a path."""
    if not isinstance(value, (str, os.PathLike)):
        raise _wrong(place, value, "not a text")
    found = os.fspath(value)
    if not isinstance(found, str):
        raise _wrong(place, value, "not a text")
    if not found:
        raise _wrong(place, value, "empty; leave the option out, or give a value")
    return found


def texts(place: str, value: object) -> list[str]:
    """Names: several, or one."""
    if isinstance(value, (str, os.PathLike)):
        return [text(place, value)]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise _wrong(place, value, "not a list of texts")
    return [text(place, item) for item in value]


def _pairs(place: str, value: object, separators: str, example: str) -> list[tuple[str, object]]:
    """{name: x}, or the words of a command: ["name:x"]."""
    if isinstance(value, Mapping):
        return [(text(place, name), item) for name, item in value.items()]
    out: list[tuple[str, object]] = []
    for word in texts(place, value):
        at = max(word.rfind(separator) for separator in separators)
        if at < 1 or at == len(word) - 1:
            raise _wrong(place, word, f"not {example}")
        out.append((word[:at], word[at + 1 :]))
    return out


def _word_as_whole(place: str, value: object) -> int:
    if isinstance(value, str):
        raise _wrong(place, value, "not a whole number")
    return whole(place, value)


def sizes(place: str, value: object) -> dict[str, int]:
    """Sizes of dims."""
    out = {}
    for name, size in _pairs(place, value, "=:", "NAME=SIZE; write {'batch': 1} or ['batch=1']"):
        if isinstance(size, str) and not isinstance(value, Mapping) and size.isdigit():
            size = int(size)
        out[name] = _word_as_whole(f"{place}: {name!r}", size)
    return out


def _dims(place: str, value: object) -> list[int]:
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise _wrong(place, value, "not a list of whole numbers; write [1, 3]")
    # A name or None leaves a dim as it is.
    return [-1 if dim is None or isinstance(dim, str) else whole(place, dim, -1) for dim in value]


def _dims_of_word(place: str, word: str) -> list[int]:
    out = []
    for dim in word.strip("[]").split(","):
        dim = dim.strip()
        if not dim:
            raise _wrong(place, word, "not a list of whole numbers; write 1,3")
        out.append(whole(place, int(dim), -1) if dim.lstrip("-").isdigit() else -1)
    return out


def shapes(place: str, value: object) -> dict[str, list[int]]:
    """Dims of inputs."""
    words = not isinstance(value, Mapping)
    return {
        name: _dims_of_word(f"{place}: {name!r}", str(dims)) if words else _dims(f"{place}: {name!r}", dims)
        for name, dims in _pairs(place, value, ":=", "NAME:1,3,224,224")
    }


def cost_points(place: str, value: object) -> list[tuple[dict[str, int], float]]:
    """Sizes, alone or with a weight."""
    points: list[Any] = [value] if isinstance(value, Mapping) else list(value) if isinstance(value, (list, tuple)) else [value]
    out = []
    for point in points:
        at, weight = point if isinstance(point, tuple) and len(point) == 2 else (point, 1.0)
        if not isinstance(at, Mapping):
            raise _wrong(place, point, "not sizes of dims; write {'batch': 1, 'seq': 128}, or a list of these or of (sizes, weight)")
        out.append((sizes(place, at), number(place, weight)))
    return out


def _inputs(place: str, value: object) -> object:
    if isinstance(value, (str, bytes)) or not isinstance(value, (Mapping, Sequence)):
        raise _wrong(place, value, "neither a dict of arrays nor a list of them")
    return value


def _progress(place: str, value: object) -> object:
    return value if callable(value) else truth(place, value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("target", "extractor", "base_dir", "onnxruntime", "runtime", "measured", "external_data_format"), text),
    **dict.fromkeys(("prefer", "skip_rules", "skip_fusions", "assume", "no_assume", "not_assumed", "custom_op_library", "judge"), texts),
    **dict.fromkeys(("iterations", "memory_limit", "max_memory", "external_data_threshold", "seed"), whole),
    **dict.fromkeys(("constant_cost", "time_limit", "rtol", "atol", "memory_slack", "measure", "max_growth"), number),
    **dict.fromkeys(
        ("approximate", "rescale", "within_one_step", "keep_opset", "keep_functions", "allow_empty", "verify", "annotate", "strict_verify",
         "debug_rules", "external_data"),
        truth,
    ),
    "inputs": _inputs,
    "progress": _progress,
    "opset": whole,
    "io_rank": whole,
    "node_limit": lambda place, value: whole(place, value, 1),
    "threads": lambda place, value: whole(place, value, 0, 4096),
    "steps": lambda place, value: whole(place, value, 0, 65535),
    "dims": sizes,
    "input_shapes": shapes,
    "cost_at": cost_points,
}


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """A TypeError for an argument that nobody knows, as Python itself raises it."""
    names = list(known)
    for name in given:
        if name not in names:
            raise TypeError(f"no such option: {name}; {_core.what_instead(name, names)}; {what} lists them")


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, each as the compiled part takes it; None is not given."""
    check_names(options, Options.__annotations__, "onnx_saturate.Options")
    return {name: _CHECKS[name](name, value) if name in _CHECKS else value for name, value in options.items() if value is not None}
