"""For the habit of `onnxslim.slim` and `onnxsim.simplify`: their arguments, each taken, or told to mean nothing here, or refused.

Both keep the model's opset and to operators of the standard, and the result is verified as that of `optimize`.
"""
from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, Union, cast

import numpy as np
import onnx

from . import _convert
from ._errors import OptionError, UnsupportedError, VerificationError
from ._log import logger, warn
from ._optimize import Optimized, inspect, optimize_with_report
from ._options import number, shapes, text, texts, truth, whole
from ._prove import prove
from ._rules import RuleSet
from ._transform import transform
from ._values import _NUMBERS, STRING, numpy_dtype

Model = Union[onnx.ModelProto, str, os.PathLike[str]]
Shapes = Union[Mapping[str, Sequence[int]], Iterable[str], None]
_TYPES = {"fp16": "float16", "float16": "float16", "fp32": "float", "float32": "float", "int32": "int32", "bool": "bool"}
_FILLS = ("random", "ones", "zeros", "arange")
_SLIM_STAGES = ("constant_folding", "graph_fusion", "dead_node_elimination", "subexpression_elimination", "weight_tying")
_LIKE_PEERS: Mapping[str, Any] = {"target": "onnx", "cost": "nodes", "keep_opset": True}
_FUSE_BN = "batch_normalization_is_affine"  # what a Conv takes in is an affine function


# What each peer has and saturate doesn't: arguments by name, with the value that asks for nothing, and what to do instead or why it has no
# effect. All others are taken.
_RULES = "rules= of optimize takes rules of your own"
SLIM_REFUSED: Mapping[str, tuple[Any, str]] = {
    "dump_to_disk": (False, "inspect(model).to_dataframe().to_csv(FILE) writes the table"),
}
SLIM_WITHOUT_EFFECT: Mapping[str, tuple[Any, str]] = {
    "no_shape_infer": (False, "shapes are what rules ask for"),
    "size_threshold": (None, "max_growth of optimize bounds how much weights grow"),
    "inspect": (False, "onnx_saturate.inspect(model) tells it"),
}
SIMPLIFY_REFUSED: Mapping[str, tuple[Any, str]] = {
    "skip_constant_folding": (False, "max_growth of optimize bounds how much weights grow"),
    "initializers_as_constants": (True, "the pass initializers_to_inputs of transform makes inputs of them"),
    "inline_functions": (False, "onnx.inliner does it"),
    "extra_optimizers": (None, _RULES),
    "custom_rewriter": (None, f"call it on the result, or {_RULES}"),
    "function_rewrite_rules": (None, _RULES),
    "profile": (None, "the logger onnx_saturate tells stages, and a report their seconds"),
    "ort_profile": (None, "bench(model, profile=FILE) writes a trace"),
    "merge_ort_profile": (False, "bench(model, profile=FILE) writes a trace"),
    "range_opt": (False, _RULES),
    "check_hazards": (False, "run(model, inputs) gives values to look at"),
    "check_gradients": (False, "gradients are no part of a model here"),
    "gradient_precision": ("fp32", "gradients are no part of a model here"),
}
SIMPLIFY_WITHOUT_EFFECT: Mapping[str, tuple[Any, str]] = {
    "skip_shape_inference": (False, "shapes are what rules ask for"),
    "dynamic_input_shape": (False, "symbolic sizes stay symbolic"),
    "include_subgraph": (False, "bodies are always looked into"),
    "tensor_size_threshold": ("1.5GB", "max_growth of optimize bounds how much weights grow"),
    "import_custom_schemas": (True, "operators that nobody knows are carried through"),
    "providers": (None, "constants are folded here, on the CPU"),
    "gemm_fusion_backend": ("ort_cpu", "target of optimize says where the model will run"),
}


def _asks(value: Any, nothing: Any) -> bool:
    if isinstance(nothing, bool):
        return bool(value) != nothing
    return value is not None and value != nothing and value != []


def _told_apart(function: str, given: Mapping[str, Any], refused: Mapping[str, tuple[Any, str]], without: Mapping[str, tuple[Any, str]]) -> None:
    """Refuses what is not done, and warns of what changes nothing."""
    for name, (nothing, instead) in refused.items():
        if _asks(given[name], nothing):
            raise OptionError(f"{function}: {name}: not done here; {instead}")
    for name, (nothing, why) in without.items():
        if _asks(given[name], nothing):
            warn(f"{function}: {name} has no effect: {why}", 3)


def _bytes(place: str, value: object) -> int:
    """1.5GB and the like."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([KMG]?B)?\s*", str(value), re.IGNORECASE)
    if isinstance(value, bool) or not found or found[1].count(".") > 1 or found[1] == ".":
        raise OptionError(f"{place}: {value!r} is no size; write 100MB")
    return int(float(found[1]) * {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[(found[2] or "").upper()])


def _array(name: str, kind: str, dims: Sequence[int], fill: str, rng: np.random.Generator) -> Any:
    tensor = _NUMBERS.get(kind, STRING)
    if tensor == STRING:
        raise OptionError(f"{name}: inputs of {kind} are not drawn; give its values")
    elements, dtype = int(np.prod(dims, dtype=np.int64)), numpy_dtype(tensor)
    if fill == "random":
        drawn = rng.random(elements) if dtype.kind not in "iub" else rng.integers(0, 2, elements)
    else:
        drawn = np.arange(elements) if fill == "arange" else np.full(elements, float(fill == "ones"))
    return drawn.reshape(dims).astype(dtype)


def _inputs(function: str, model: Model, given: Mapping[str, Any], at: Mapping[str, Sequence[int]], fill: str = "random") -> dict[str, Any]:
    """Arrays for all inputs: those given, and drawn ones of these dims."""
    if fill not in _FILLS:
        raise OptionError(f"{function}: input_fill: {fill!r} is none of {', '.join(_FILLS)}")
    declared = [one for one in inspect(model)["inputs"] if not one["has_default"]]
    names = [one["name"] for one in declared]
    for name in (*given, *at):
        if name not in names:
            raise OptionError(f"{function}: {name}: there is no such input; the model has {', '.join(names)}")
    rng, out = np.random.default_rng(0), dict(given)
    for one in declared:
        dims = at.get(one["name"], one["shape"])
        if one["name"] in out:
            continue
        if dims is None or any(not isinstance(dim, int) or dim < 0 for dim in dims):
            raise OptionError(f"{function}: {one['name']}: the dims {dims} are not all numbers; give them, too")
        out[one["name"]] = _array(one["name"], one["type"], dims, fill, rng)
    return out


def _optimized(model: Model, output: Any, needs_check: bool, options: dict[str, Any]) -> Optimized:
    """Where nobody asked for a check our runtime alone does it, which takes half the time, and what can't be run is not checked."""
    if needs_check or "runtime" in options:
        return optimize_with_report(model, output, **options)
    try:
        return optimize_with_report(model, output, **{**options, "judge": ["saturate"]})
    except UnsupportedError as error:
        warn(f"not verified: {error}", 3)
        return optimize_with_report(model, output, **{**options, "verify": False})


# ---- onnxslim -------------------------------------------------------------------------------------------------------------------------


def _cut(model: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """The part between values, each NAME or NAME:TYPE."""
    passes: list[dict[str, Any]] = []
    names: list[list[str]] = []
    for words, cast_pass in ((inputs, "cast_inputs"), (outputs, "cast_outputs")):
        pairs = [word.rsplit(":", 1) if word.rpartition(":")[2] in _TYPES else [word] for word in words]
        dtypes = {name: _TYPES[dtype[0]] for name, *dtype in pairs if dtype}
        passes += [{"pass": cast_pass, "dtypes": dtypes}] * bool(dtypes)
        names.append([pair[0] for pair in pairs])
    return transform(model, [{"pass": "cut", "inputs": names[0], "outputs": names[1]}, *passes])


def _check_inputs(model: Model, words: Sequence[str]) -> dict[str, Any]:
    """Words are NAME:1,3,224,224 or NAME:FILE.npy."""
    files = {word.rpartition(":")[0]: word.rpartition(":")[2] for word in words if word.endswith(".npy")}
    try:
        arrays = {name: np.load(file, allow_pickle=False) for name, file in files.items()}
    except (OSError, ValueError) as error:
        raise OptionError(f"slim: model_check_inputs: {error}") from None
    return _inputs("slim", model, arrays, shapes("model_check_inputs", [word for word in words if not word.endswith(".npy")]))


def _skipped(stages: Iterable[str]) -> RuleSet | None:
    """The rules that are left where these stages of OnnxSlim are left out."""
    named = texts("skip_optimizations", stages)
    for stage in named:
        if stage not in _SLIM_STAGES:
            raise OptionError(f"slim: skip_optimizations: {stage!r} is none of {', '.join(_SLIM_STAGES)}; skip_rules of optimize names rules")
    anyway = [stage for stage in named if stage != "graph_fusion"]
    if anyway:
        warn(f"slim: skip_optimizations has no effect on {', '.join(anyway)}: it is done anyway", 4)
    return RuleSet.none() if "graph_fusion" in named else None


def slim(
    model: Model | list[Model],
    output_model: str | os.PathLike[str] | None = None,
    *,
    model_check: bool = False,
    input_shapes: Shapes = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    no_shape_infer: bool = False,
    skip_optimizations: Iterable[str] | None = None,
    dtype: str | None = None,
    skip_fusion_patterns: Iterable[str] | None = None,
    size_threshold: int | None = None,
    inspect: bool = False,
    dump_to_disk: bool = False,
    save_as_external_data: bool = False,
    model_check_inputs: Sequence[str] | None = None,
    verbose: bool = False,
) -> onnx.ModelProto | None:
    """In the place of `onnxslim.slim`: fewer nodes, operators of the standard, the opset that the model has; checked by running.

    Like `optimize(model, output_model, target="onnx", cost="nodes", keep_opset=True)`. With `output_model` the result goes there, and None is
    returned. A list of models is printed as `inspect` tells them. docs/guide/from_onnxslim.md says what each argument does here: some
    have no effect, and warn (`no_shape_infer`, `size_threshold`, `inspect`), some are refused (`dump_to_disk`, `dtype` but of half precision).

    >>> import onnx_saturate as onnxslim
    >>> onnxslim.slim("model.onnx", "model.slim.onnx")
    """
    _told_apart("slim", {**locals()}, SLIM_REFUSED, SLIM_WITHOUT_EFFECT)
    if isinstance(model, list):
        for one in model:
            print(_told(one))
        return None
    if dtype is not None and _TYPES.get(dtype) != "float16":
        raise OptionError(f"slim: dtype: {dtype!r}: not done here; float16 is, and quantizers make models of integers (docs/guide/quantize.md)")
    given: Any = _cut(model, texts("inputs", inputs or ()), texts("outputs", outputs or ())) if inputs or outputs else model
    options = {
        **_fusions(texts("skip_fusion_patterns", skip_fusion_patterns or ())), "input_shapes": shapes("input_shapes", input_shapes or ()),
        "rules": None if skip_optimizations is None else _skipped(skip_optimizations), "external_data": save_as_external_data,
        "inputs": None if model_check_inputs is None else _check_inputs(given, texts("model_check_inputs", model_check_inputs)),
    }  # fmt: skip
    made, report = _optimized(given, None if dtype else output_model, truth("model_check", model_check), {**_LIKE_PEERS, **options})
    if dtype:
        made = transform(made, [{"pass": "precision", "interface": True}], output_model, external_data=save_as_external_data)
    if truth("verbose", verbose):
        print(report)
    return None if output_model is not None else cast(onnx.ModelProto, made)


def _fusions(patterns: Sequence[str]) -> dict[str, list[str]]:
    """Names of rules, or what they make as OnnxSlim names it: FusionGelu."""
    made = [name.removeprefix("Fusion") for name in patterns if name.startswith("Fusion")]
    return {"skip_rules": [name for name in patterns if not name.startswith("Fusion")], "skip_fusions": made}


def _told(model: Model) -> str:
    name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else "a model"
    return f"{name}\n{inspect(model)}\n"


# ---- onnxsim --------------------------------------------------------------------------------------------------------------------------


def _opset(wanted: object) -> dict[str, Any]:
    if wanted is None:
        return {}
    return {"keep_opset": False, "opset": onnx.defs.onnx_opset_version() if wanted == "latest" else whole("target_opset_version", wanted, 1)}


def _without_default_inputs(model: Model) -> Model:
    """Initializers that are listed as inputs are constants, unless they are to be changed (`mutable_initializer`)."""
    defaults = any(one["has_default"] for one in inspect(model)["inputs"])
    return cast(Model, transform(model, "freeze")) if defaults else model


def _certify(model: Model, made: onnx.ModelProto) -> None:
    proof = prove(model, made)
    logger.info("simplify: certify: %s", proof.verdict)
    if proof.verdict == "different":
        raise VerificationError(f"certify: the simplified model is another one: {proof}")
    if not proof:
        warn(f"simplify: certify: not proven, {len(proof.regions)} places are open; onnx_saturate.prove tells which", 4)


def _save(made: onnx.ModelProto, output_path: str, threshold: int) -> None:
    from ._optimize import save

    save(_convert.to_core(made), output_path, {"external_data": made.ByteSize() > threshold})


def simplify(
    model: Union[str, onnx.ModelProto],
    check_n: int = 0,
    perform_optimization: bool = True,
    skip_fuse_bn: bool = False,
    overwrite_input_shapes: Shapes = None,
    test_input_shapes: Shapes = None,
    skipped_optimizers: Optional[list[str]] = None,
    skip_constant_folding: bool = False,
    skip_shape_inference: bool = False,
    input_data: Optional[Mapping[str, Any]] = None,
    dynamic_input_shape: bool = False,
    custom_lib: Optional[str] = None,
    include_subgraph: bool = False,
    unused_output: Optional[Sequence[str]] = None,
    tensor_size_threshold: str = "1.5GB",
    mutable_initializer: bool = False,
    *,
    initializers_as_constants: bool = True,
    inline_functions: bool = False,
    import_custom_schemas: bool = True,
    input_shapes: Shapes = None,
    target_opset_version: Union[int, Literal["latest"], None] = None,
    extra_optimizers: Optional[list[str]] = None,
    custom_rewriter: Optional[Callable[[onnx.ModelProto], Any]] = None,
    function_rewrite_rules: Optional[Sequence[Any]] = None,
    check_rtol: float = 1e-4,
    check_atol: float = 1e-5,
    input_fill: str = "random",
    providers: Optional[Sequence[Any]] = None,
    gemm_fusion_backend: str = "ort_cpu",
    profile: Optional[str] = None,
    ort_profile: Optional[str] = None,
    merge_ort_profile: bool = False,
    output_path: Optional[str] = None,
    external_data_threshold: str = "100MB",
    range_opt: bool = False,
    certify: Optional[bool] = None,
    check_hazards: bool = False,
    check_gradients: bool = False,
    gradient_precision: str = "fp32",
) -> tuple[onnx.ModelProto, bool]:
    """In the place of `onnxsim.simplify`: (the simplified model, whether it was checked to compute the same).

    Like `optimize(model, target="onnx", cost="nodes", keep_opset=True)`. The result is verified whatever `check_n` is; where no result
    holds, the model itself comes back with False. docs/guide/from_onnxsim.md says what each argument does here: taken, without effect
    (with a warning), or refused.

    >>> from onnx_saturate import simplify
    >>> simplified, check = simplify(onnx.load("model.onnx"))
    """
    given = {**locals()}
    _told_apart("simplify", given, SIMPLIFY_REFUSED, SIMPLIFY_WITHOUT_EFFECT)
    return _simplified(given)


def _check_options(given: Mapping[str, Any], model: Model, at: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """On what it is checked, and how close results have to be."""
    options: dict[str, Any] = {}
    for name, usual in (("rtol", 1e-4), ("atol", 1e-5)):  # the usual ones are ours, by type
        if given[f"check_{name}"] != usual:
            options[name] = number(f"check_{name}", given[f"check_{name}"])
    if given["custom_lib"] is not None:
        options |= {"runtime": "onnxruntime", "custom_op_library": text("custom_lib", given["custom_lib"])}
    if given["input_data"] or given["test_input_shapes"] or given["input_fill"] != "random":
        at = {**at, **shapes("test_input_shapes", given["test_input_shapes"] or ())}
        options["inputs"] = _inputs("simplify", model, dict(given["input_data"] or {}), at, given["input_fill"])
    return options


def _skipped_rules(given: Mapping[str, Any]) -> list[str]:
    passes = texts("skipped_optimizers", given["skipped_optimizers"] or ())
    others = [name for name in passes if name != "fuse_bn_into_conv"]
    if others:
        warn(f"simplify: skipped_optimizers has no effect on {', '.join(others)}: skip_rules of optimize names rules", 4)
    return [_FUSE_BN] if truth("skip_fuse_bn", given["skip_fuse_bn"]) or len(others) < len(passes) else []


def _simplified(given: Mapping[str, Any]) -> tuple[onnx.ModelProto, bool]:
    model, output_path = given["model"], given["output_path"]
    is_path = isinstance(model, (str, os.PathLike))
    if output_path is not None and not is_path:
        raise OptionError("simplify: output_path: the model has to be a path, too")
    threshold, checks = _bytes("external_data_threshold", given["external_data_threshold"]), whole("check_n", given["check_n"])
    source: Any = model if truth("mutable_initializer", given["mutable_initializer"]) else _without_default_inputs(model)
    if given["unused_output"]:
        source = transform(source, [{"pass": "remove_outputs", "names": texts("unused_output", given["unused_output"])}])
    at = shapes("overwrite_input_shapes", given["overwrite_input_shapes"] or given["input_shapes"] or ())
    skip, plain = _skipped_rules(given), not truth("perform_optimization", given["perform_optimization"])
    options = {**_LIKE_PEERS, **_opset(given["target_opset_version"]), **_check_options(given, source, at), "input_shapes": at}
    options |= {"rules": RuleSet.none()} if plain else {"skip_rules": skip}
    try:
        made = cast(onnx.ModelProto, _optimized(source, None, checks > 0, options).model)
    except VerificationError as error:
        warn(f"simplify: the model stays as it is: {error}", 3)
        return (onnx.load(model) if is_path else model), False
    if given["certify"]:
        _certify(source, made)
    if output_path is not None:
        _save(made, output_path, threshold)
    return made, True
