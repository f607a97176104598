"""Verbs of the command as functions: measuring, drawing other graphs, cost models, rules and targets. Each runs the command in a process of its own."""
from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from . import _convert, _core
from ._convert import ModelLike
from ._errors import error_of
from ._results import Benched
from ._options import Path, check_names, cost_points, document, number, shapes, sizes, text, texts, truth, whole

# How an option of the command is given: its word, and the words of a value.
_KINDS: Mapping[str, Any] = {
    "text": lambda word, name, value: [f"{word}={text(name, value)}"],
    "texts": lambda word, name, value: [f"{word}={item}" for item in texts(name, value)],
    "whole": lambda word, name, value: [f"{word}={whole(name, value)}"],
    "number": lambda word, name, value: [f"{word}={number(name, value)!r}"],
    "on": lambda word, name, value: [word] * truth(name, value),
    "off": lambda word, name, value: [word] * (not truth(name, value)),
    "megabytes": lambda word, name, value: [f"{word}={max(1, whole(name, value) >> 20)}"],
    "either": lambda word, name, value: [word if truth(name, value) else word.replace("--", "--no-", 1)],
    "sizes": lambda word, name, value: [f"{word}={key}={size}" for key, size in sizes(name, value).items()],
    "shapes": lambda word, name, value: [f"{word}={key}:{','.join(map(str, dims))}" for key, dims in shapes(name, value).items()],
    "points": lambda word, name, value: [
        f"{word}={','.join(f'{key}={size}' for key, size in at.items())}:{weight!r}" for at, weight in cost_points(name, value)
    ],
}
_SHAPES = {"dims": ("--dim", "sizes"), "input_shapes": ("--input-shapes", "shapes"), "allow_empty": ("--allow-empty", "on")}
_RUN = {"threads": ("--threads", "whole"), "seed": ("--seed", "whole"), "max_memory": ("--max-memory", "megabytes"), "time_limit": ("--time-limit", "number")}
_RUNTIME = {"runtime": ("--runtime", "text"), "custom_op_library": ("--custom-op-library", "texts")}
_BENCH = {
    **_SHAPES, **_RUN, **_RUNTIME,
    "iterations": ("--iterations", "whole"), "warmup": ("--warmup", "whole"), "as_is": ("--as-is", "on"), "pin": ("--pin", "on"),
    "check_finite": ("--check-finite", "on"), "profile": ("--profile", "text"),
}  # fmt: skip
_SATURATE = {
    "target": ("--target", "text"), "prefer": ("--prefer", "texts"), "cost": ("--cost", "text"), "cost_at": ("--cost-at", "points"),
    "memory_slack": ("--memory-slack", "number"), "max_growth": ("--max-growth", "number"), "extractor": ("--extractor", "text"), "rules": ("--rules", "texts"),
    "skip_rules": ("--skip-rule", "texts"), "skip_fusions": ("--skip-fusion", "texts"), "assume": ("--assume", "texts"),
    "no_assume": ("--no-assume", "texts"), "not_assumed": ("--no-assume", "texts"), "within_one_step": ("--within-one-step", "either"),
    "rescale": ("--rescale", "on"), "approximate": ("--approximate", "on"), "opset": ("--opset", "whole"),
    "keep_opset": ("--keep-opset", "on"), "iterations": ("--iterations", "whole"), "node_limit": ("--node-limit", "whole"),
    "time_limit": ("--time-limit", "number"),
}  # fmt: skip
_EXTRACT = {**_SHAPES, **_RUN, **_SATURATE, **_RUNTIME, "verify": ("--no-verify", "off"), "rtol": ("--check-rtol", "number"), "atol": ("--check-atol", "number"), "steps": ("--steps", "whole")}  # fmt: skip
_Rows = list[dict[str, Any]]
_COST = {**_SHAPES, **_SATURATE, "threads": ("--threads", "whole")}


def _words(options: Mapping[str, Any], known: Mapping[str, tuple[str, str]]) -> list[str]:
    check_names(options, known, "the function's help")
    return [
        word
        for name, value in options.items()
        if value is not None
        for word in _KINDS[known[name][1]](known[name][0], name, value)
    ]


def _command(*words: str, fine: Sequence[int] = (0,), behind: Sequence[str] = ()) -> Any:
    """What the command says with --json. `behind`: words behind --."""
    end = ["--", *behind] if behind else []
    done = subprocess.run([sys.executable, "-m", "onnx_saturate", *words, "--json", *end], capture_output=True, text=True)
    if done.returncode not in fine:
        errors = [json.loads(line)["error"]["message"] for line in done.stderr.splitlines() if line.startswith('{"error"')]
        raise error_of(done.returncode, " ".join(errors) or done.stderr.strip() or f"the command ended with {done.returncode}", None)
    return json.loads(done.stdout) if done.stdout.strip() else None


@contextlib.contextmanager
def _files(models: Iterable[ModelLike], inputs: Mapping[str, Any] | Path | None = None) -> Iterator[tuple[list[str], list[str]]]:
    """The models as paths, and the words that give these inputs; what is in memory is written for as long as this lasts."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for index, model in enumerate(models):
            if isinstance(model, (str, os.PathLike)):
                paths.append(os.fspath(model))
            else:
                paths.append(str(FilePath(folder) / f"model{index}.onnx"))
                _convert.to_core(model).save(paths[-1])
        words = []
        if isinstance(inputs, Mapping):
            arrays: dict[str, Any] = {name: np.asarray(value) for name, value in inputs.items()}
            np.savez(FilePath(folder) / "inputs.npz", **arrays)
            words = [f"--inputs={FilePath(folder) / 'inputs.npz'}"]
        elif inputs is not None:
            words = [f"--inputs={text('inputs', inputs)}"]
        yield paths, words


def bench(model: ModelLike, other: ModelLike | None = None, *, inputs: Mapping[str, Any] | Path | None = None, **options: Any) -> Benched:
    """How long a model takes in saturate's own runtime (or another `runtime`), or two in turns (the keys of `saturate bench --json`).

    Of the options of `Options`: `dims`, `input_shapes`, `allow_empty`, `seed`, `threads`, `max_memory`, `time_limit`, `runtime`, `custom_op_library`. Also: `iterations`
    (as many as fit into 2 s, 10 to 1000), `warmup` (3), `as_is` (False: nothing folded or fused beforehand), `pin` (False: to CPUs),
    `check_finite` (False), `profile` (a file for a Chrome trace).

    >>> onnx_saturate.bench("in.onnx", "out.onnx", dims={"batch": 1}).ratio
    """
    with _files([model] if other is None else [model, other], inputs) as (paths, given):
        return Benched(_command("bench", *paths, *given, *_words(options, _BENCH)))


def extract(model: ModelLike, folder: Path | None = None, *, samples: int = 8, **options: Any) -> _Rows:
    """Other graphs that equal a model, near the chosen one and far from it, written into `folder` or only listed (the keys of
    `saturate extract --json`).

    `samples`: how many beside the first, which is what `optimize` would give (8). `rules` are files here, and `cost` no function.
    """
    with _files([model]) as (paths, _):
        words = [] if folder is None else [f"--output={text('folder', folder)}"]
        told: _Rows = _command("extract", *paths, *words, f"--sample={whole('samples', samples, 0, 100000)}", *_words(options, _EXTRACT))
    return told


document(extract, _EXTRACT)


class _Cost:
    """Times of operators, cost models made of them, and how good those are: `saturate cost`.

    >>> onnx_saturate.cost.gather("in.onnx", "rows.jsonl", dims={"batch": 1})
    >>> onnx_saturate.cost.fit("rows.jsonl", "mine.json")
    >>> onnx_saturate.optimize("in.onnx", cost="mine.json")
    """

    def gather(self, models: ModelLike | Sequence[ModelLike], output: Path, *, graphs: bool = False, seconds: float = 0.05, **options: Any) -> Any:
        """Times every operator of the models in saturate's runtime, or whole `graphs`, `seconds` each (0.05); rows go to `output`."""
        several: list[Any] = list(models) if isinstance(models, (list, tuple)) else [models]
        with _files(several) as (paths, _):
            given = ["--graphs"] * truth("graphs", graphs)
            return _command(
                "cost", "gather", *paths, f"--output={text('output', output)}", f"--seconds={number('seconds', seconds)!r}", *given,
                *_words(options, _COST),
            )  # fmt: skip

    def fit(self, rows: Path | Sequence[Path], output: Path, *, kind: str = "fitted", **options: Any) -> Any:
        """A cost model from rows: fitted (the default), measured, roofline or npu."""
        return _command("cost", "fit", *texts("rows", rows), f"--output={text('output', output)}", f"--kind={text('kind', kind)}", *_words(options, _COST))

    def calibrate(self, output: Path, *, rows: int = 300, seconds: float = 120, **options: Any) -> Any:
        """Fits the shipped prices (`cost`, measured) to this machine and `threads`, by at most so many `rows` of them that are timed in the installed ONNX
        Runtime; `output` is a `cost` for the other functions. At most 300 rows and 600 seconds."""
        given = [f"--rows={whole('rows', rows, 1, 300)}", f"--seconds={number('seconds', seconds)!r}"]
        return _command("cost", "calibrate", f"--output={text('output', output)}", *given, *_words(options, _COST))

    def __repr__(self) -> str:
        return "<onnx_saturate.cost: gather, fit, eval, calibrate>"

    def eval(self, graphs: Path | Sequence[Path] = (), *, rows: Path | None = None, folds: int | None = None, **options: Any) -> Any:
        """How far a cost model (`cost`) is off: for times of `graphs`, and by operator for `rows`."""
        given = [] if rows is None else [f"--rows={text('rows', rows)}"]
        given += [] if folds is None else [f"--folds={whole('folds', folds, 2, 1000)}"]
        return _command("cost", "eval", *texts("graphs", graphs), *given, *_words(options, _COST))


class _RuleList:
    """Rules as text: `saturate rules`. (A set of rules to optimize with is a `RuleSet`.)"""

    def list(self, rules: Path | Sequence[Path] = ()) -> _Rows:
        """The built-in rules, and those of files: name, effect, assumptions, place, what it is."""
        told: _Rows = _command("rules", "list", *(f"--rules={path}" for path in texts("rules", rules)))
        return told

    def show(self, name: str, rules: Path | Sequence[Path] = ()) -> str:
        """The text of a rule."""
        told: str = _command("rules", "show", text("name", name), *(f"--rules={path}" for path in texts("rules", rules)))["text"]
        return told

    def check(self, file: Path, *, instances: int = 24, seed: int = 1) -> _Rows:
        """Runs both sides of the rules of a file on drawn inputs: for each rule `ok`, `findings`, counts. A file that can't be read as rules
        is an `Error`."""
        words = [f"--instances={whole('instances', instances, 0, 1000)}", f"--seed={whole('seed', seed)}"]
        told: _Rows | None = _command("rules", "check", text("file", file), *words, fine=(0, 1))
        if told is None:  # the file can't be read: the error again
            _command("rules", "check", text("file", file), *words)
        return told or []

    def functions(self) -> _Rows:
        """What `where` and `let` of a rule may call."""
        told: _Rows = _command("rules", "list", "--functions")
        return told

    def __repr__(self) -> str:
        return "<onnx_saturate.rules: list, show, check, functions; a set of rules to optimize with is a RuleSet>"


class _Targets:
    """What results can be made for: `saturate targets`."""

    def __call__(self) -> list[str]:
        """Names of the built-in targets."""
        return _core.targets()

    def show(self, target: Path) -> dict[str, Any]:
        """A built-in target, or one of a file, as what stands in its JSON."""
        told: dict[str, Any] = _command("targets", "show", text("target", target))
        return told

    def check(self, model: ModelLike, target: Path, *, forms: bool = True, **options: Any) -> list[dict[str, Any]]:
        """The nodes that a target can't express: `node`, `op_type`, `reason`, and with `forms` (True) what equal form it takes. Of the options:
        `dims`, `input_shapes`, `allow_empty`."""
        with _files([model]) as (paths, _):
            words = [f"--target={text('target', target)}"] + ["--no-forms"] * (not truth("forms", forms))
            told = _command("targets", "check", *paths, *words, *_words(options, _SHAPES), fine=(0, 1))
            if told is None:  # no answer: the error again
                _command("targets", "check", *paths, *words)
        nodes: list[dict[str, Any]] = told["inexpressible"]
        return nodes

    def __repr__(self) -> str:
        return f"<onnx_saturate.targets: {', '.join(self())}>"


cost: _Cost = _Cost()
rules: _RuleList = _RuleList()
targets: _Targets = _Targets()
