"""The options of `saturate optimize` as fields of a configuration, and the command run by them."""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from ._errors import OptionError, error_of
from ._log import warn


@dataclass(frozen=True)
class Option:
    """A field, the option that it stands for, and what it holds."""

    name: str
    word: str
    kind: str
    what: str


def _table(kind: str, *rows: tuple[str, str]) -> list[Option]:
    return [Option(name, f"--{name.replace('_', '-')}", kind, what) for name, what in rows]


OPTIONS: tuple[Option, ...] = (
    *_table(
        "text",
        ("target", "What can run and what it costs: a built-in target or a JSON file (ort-cpu)."),
        ("cost", "Cost model: nodes, flops, bytes, roofline, measured or a file (the target's own)."),
        ("extractor", "How the cheapest choice is looked for (search)."),
        ("report", "JSON file for all that is known of the run."),
        ("dump_egraph", "JSON file for the e-graph with its costs."),
        ("save_repro", "A new folder for what repeats the run."),
        ("onnxruntime", "Shared library of ONNX Runtime, or the folder of its package (the package's)."),
        ("runtime", "An older name of judge."),
        ("measured", "With measure: a file that keeps what was measured, for later runs."),
    ),
    *_table(
        "texts",
        ("prefer", "What the target would rather have, such as single-heads."),
        ("cost_at", "Dim sizes at which costs are evaluated, SYMBOL=SIZE,...[:WEIGHT]."),
        ("rules", "Files of rules beside the built-in ones; none: without those."),
        ("assume", "Risky assumptions that rules may make, too."),
        ("no_assume", "Assumptions that no rule may make, or all."),
        ("inputs", ".npz files to verify on instead of random inputs."),
        ("judge", "Who judges the result: saturate, onnxruntime or onnxruntime=PATH (saturate, and onnxruntime where it is installed)."),
        ("custom_op_library", "With runtime: shared libraries of custom operators."),
        ("dump", "STAGE or STAGE=FILE: what a stage has made."),
        ("before", "JSON files of passes of `saturate transform` to run before optimizing."),
        ("after", "JSON files of passes of `saturate transform` to run after optimizing."),
    ),
    Option("skip_rules", "--skip-rule", "texts", "Rules to leave out."),
    Option("skip_fusions", "--skip-fusion", "texts", "Operators: the rules that make one of what holds none are left out."),
    *_table(
        "whole",
        ("opset", "Opset of ai.onnx to write (the input's, or higher where the result needs it)."),
        ("io_rank", "Rank of the result's inputs and outputs."),
        ("iterations", "Rounds of rewriting (30)."),
        ("node_limit", "E-nodes that rules may make."),
        ("memory_limit", "Memory of the e-graph in MB (no limit)."),
        ("max_memory", "Memory in MB that the tensors of a run, or of what is folded, may take."),
        ("threads", "Threads; 0: all cores (1)."),
        ("steps", "Steps that quantized values in outputs may differ by (0)."),
        ("seed", "Of the random inputs (0)."),
    ),
    *_table(
        "number",
        ("measure", "Seconds for which graphs and the original are timed in ONNX Runtime; the fastest is taken (not measured)."),
        ("memory_slack", "How much dearer the result may be for a lower peak of memory, as a share (0)."),
        ("max_growth", "How many times the model's weights the result's may take, 1.1 for a tenth more (any)."),
        ("time_limit", "Seconds of rewriting, and again of verifying, a safety net (60); where it is given, of the whole run, half of them of rewriting."),
    ),
    Option("rtol", "--check-rtol", "number", "Relative tolerance of the verification (by type)."),
    Option("atol", "--check-atol", "number", "Absolute tolerance of the verification (0)."),
    *_table(
        "on",
        ("approximate", "Also rules that approximate."),
        ("rescale", "Also rules that move the scales of quantized numbers."),
        ("keep_opset", "Write the input's opset."),
        ("keep_functions", "Keep functions that the target names as functions of the model."),
        ("allow_empty", "Take sizes of 0 in dims and input_shapes."),
        ("annotate", "Write into metadata_props which rules made new nodes, and what they stand for."),
        ("diff", "Tell what differs in the result, region by region."),
        ("strict_verify", "Fail where the result differs, instead of leaving out the rule that is to blame."),
        ("strict_budget", "Fail where a budget ended the rewriting before nothing was left to do."),
        ("debug_rules", "Where verification fails, fail and tell which application of which rule is to blame."),
        ("verbose", "Log more: which rules fired."),
    ),
    Option("verify", "--no-verify", "off", "Run original and result on the same inputs."),
    Option("within_one_step", "--within-one-step", "either", "Rules that move quantized numbers by a step at most (the target's own)."),
    Option("dims", "--dim", "sizes", "Sizes of symbolic dims, by name."),
    Option("input_shapes", "--input-shapes", "shapes", "Dims of inputs, by name; -1 leaves one as it is."),
)

TYPES: Mapping[str, Any] = {
    "text": Optional[str],
    "texts": Optional[Union[str, list[str]]],
    "whole": Optional[int],
    "number": Optional[float],
    "on": bool,
    "off": bool,
    "either": Optional[bool],
    "sizes": Optional[dict[str, int]],
    "shapes": Optional[dict[str, list[int]]],
}
DEFAULTS: Mapping[str, Any] = {"on": False, "off": True}

_WORDS: Mapping[str, Callable[[str, Any], list[str]]] = {
    "text": lambda word, value: [f"{word}={value}"],
    "texts": lambda word, value: [f"{word}={item}" for item in ([value] if isinstance(value, str) else value)],
    "whole": lambda word, value: [f"{word}={value}"],
    "number": lambda word, value: [f"{word}={value!r}"],
    "on": lambda word, value: [word] * bool(value),
    "off": lambda word, value: [word] * (not value),
    "either": lambda word, value: [word if value else word.replace("--", "--no-", 1)],
    "sizes": lambda word, value: [f"{word}={name}={size}" for name, size in value.items()],
    "shapes": lambda word, value: [f"{word}={name}:{','.join(map(str, dims))}" for name, dims in value.items()],
}


def words(values: Mapping[str, Any]) -> list[str]:
    """The command's words for these fields; None is its default."""
    return [word for option in OPTIONS if values.get(option.name) is not None for word in _WORDS[option.kind](option.word, values[option.name])]


def optimize_file(model: str, output: str, values: Mapping[str, Any]) -> str:
    """Runs the command; what it printed. Its warnings are RuntimeWarnings, its errors those of the package."""
    cost = str(values.get("cost") or "")
    if cost.endswith((".so", ".dylib")):
        raise OptionError(f"cost: {cost}: a library runs code, and only --cost of the command and cost= in Python take one")
    with tempfile.TemporaryDirectory() as folder:
        report = values.get("report") or str(Path(folder) / "report.json")
        command = [sys.executable, "-m", "onnx_saturate", "optimize", model, "-o", output, *words({**values, "report": report})]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            errors = [line.removeprefix("saturate: error: ") for line in done.stderr.splitlines() if line.startswith("saturate: error: ")]
            raise error_of(done.returncode, " ".join(errors) or done.stderr.strip() or f"the command ended with {done.returncode}", None)
        for text in json.loads(Path(report).read_text())["warnings"]:
            warn(text)
    return done.stdout
