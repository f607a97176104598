"""Settings of ONNX Runtime's sessions by measured latency: `python -m onnx_saturate.tune MODEL` (needs `onnxruntime`).

>>> from onnx_saturate.tune import tune
>>> tuned = tune("model.onnx", budget=60)
>>> print(tuned.message)
>>> session = tuned.session("model.onnx")

The default settings stay unless others are faster beyond the noise, in two measurements.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from . import _convert
from ._data_files import json_of
from ._errors import Error, OptionError, tell_error
from ._tune_ort import LEVELS, Deadline, OrtLab, checked, drawn, make_session, one_line, read, runtime, session_options, source_of
from ._tune_search import Change, Found, OutOfTime, Refused, Search, Settings, Trial

__all__ = ["tune", "Tuned", "Settings", "Trial", "KNOBS"]

KNOBS = (
    "providers", "intra_op_num_threads", "execution_mode", "graph_optimization_level", "enable_cpu_mem_arena", "enable_mem_pattern",
    "io_binding", "config_entries",
)  # fmt: skip
"""What is searched: fields of `Settings`. "execution_mode" tries `inter_op_num_threads`, too."""

# Entries that leave numbers alone.
_ENTRIES: dict[str, Sequence[str]] = {
    "session.intra_op.allow_spinning": ["0"],
    "session.force_spinning_stop": ["1"],
    "session.dynamic_block_base": ["4"],
    "session.disable_prepacking": ["1"],
    "session.use_device_allocator_for_initializers": ["1"],
}
_ELSEWHERE = {"AzureExecutionProvider"}  # runs no graph of its own

Provider = Union[str, tuple[str, Mapping[str, Any]]]


# ---- what is searched -----------------------------------------------------------------------------------------------------------------


def _powers(most: int) -> list[int]:
    """1, 2, 4, ... and the most."""
    return sorted({1 << k for k in range(most.bit_length()) if 1 << k <= most} | {most})


def _chains(providers: Iterable[Provider] | None) -> list[tuple[tuple[str, Mapping[str, Any]], ...]]:
    """Each provider in front of the CPU's; the first is the default's."""
    there = [name for name in runtime().get_available_providers() if name not in _ELSEWHERE]
    chosen: list[tuple[str, Mapping[str, Any]]] = [(p, {}) if isinstance(p, str) else (p[0], p[1]) for p in (there if providers is None else providers)]
    for name, _ in chosen:
        if name not in there:
            raise OptionError(f"providers: {name} is not there; there are: {', '.join(there)}")
    if not chosen:
        raise OptionError(f"providers: none is given; there are: {', '.join(there)}")
    cpu = "CPUExecutionProvider"
    return [((name, options),) if name == cpu else ((name, options), (cpu, {})) for name, options in chosen]


def _counts(name: str, given: Iterable[int] | None, cores: int) -> list[int]:
    counts = _powers(cores) if given is None else list(given)
    for count in counts:
        if count < 0:
            raise OptionError(f"{name}: {count} is no number of threads; it is 0 (as many as cores) or more")
    return counts


def changes(
    chains: Sequence[tuple[tuple[str, Mapping[str, Any]], ...]],
    intra: Sequence[int],
    inter: Sequence[int],
    config: Mapping[str, Sequence[str]],
    knobs: Iterable[str],
) -> list[Change]:
    """What is tried, one after the other, on the best settings so far. Values of the default settings are among them: the way back."""
    wanted = list(knobs)
    for knob in wanted:
        if knob not in KNOBS:
            raise OptionError(f"knobs: {knob} is none; there are: {', '.join(KNOBS)}")
    entries = {**_ENTRIES, **config}
    levels, both = ("extended", "basic", "layout", "disable", "all"), (False, True)
    modes: list[Change] = [{"execution_mode": "parallel", "inter_op_num_threads": count} for count in inter]
    out: dict[str, list[Change]] = {
        "providers": [{"providers": chain} for chain in chains],
        "intra_op_num_threads": [{"intra_op_num_threads": count} for count in [0, *intra]],
        "execution_mode": [*modes, {"execution_mode": "sequential", "inter_op_num_threads": 0}],
        "graph_optimization_level": [{"graph_optimization_level": level} for level in levels],
        "enable_cpu_mem_arena": [{"enable_cpu_mem_arena": on} for on in both],
        "enable_mem_pattern": [{"enable_mem_pattern": on} for on in both],
        "io_binding": [{"io_binding": on} for on in both],
        "config_entries": [{"config_entries": {key: value}} for key, values in entries.items() for value in [*values, None]],
    }
    return [change for knob in KNOBS if knob in wanted for change in out[knob]]


# ---- results --------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tuned:
    """What `tune` found."""

    settings: Settings
    """The best settings: the default ones unless others are faster beyond the noise."""
    default: Settings
    message: str
    """One line: how much faster, or that nothing is."""
    trials: Sequence[Trial]
    """All comparisons, in order."""
    confirmed: Trial | None
    """The last comparison with the default settings; None where no settings came so far."""
    seconds: tuple[float, float] | None
    """Medians of that: default settings, the others."""
    budget: float
    spent: float
    """Seconds."""
    complete: bool
    """False where the budget ended before everything was tried."""
    rounds: int
    left_out: int
    """Rounds that don't count, since other work disturbed them."""

    @property
    def is_default(self) -> bool:
        """Whether the default settings stay."""
        return self.settings == self.default

    @property
    def inference_settings(self) -> dict[str, Any]:
        """As Olive's OrtSessionParamsTuning writes them into a model's `inference_settings`.

        `session_options` has two keys more where they are not the default's, enable_cpu_mem_arena and enable_mem_pattern: Olive's reader
        leaves them out.
        """
        ort, mine = runtime(), self.settings
        options: dict[str, Any] = {
            "execution_mode": int(getattr(ort.ExecutionMode, "ORT_PARALLEL" if mine.execution_mode == "parallel" else "ORT_SEQUENTIAL").value),
            "graph_optimization_level": int(getattr(ort.GraphOptimizationLevel, LEVELS[mine.graph_optimization_level]).value),
        }
        if mine.config_entries:
            options["extra_session_config"] = dict(mine.config_entries)
        for name in ("inter_op_num_threads", "intra_op_num_threads"):
            if getattr(mine, name):
                options[name] = getattr(mine, name)
        for name in ("enable_cpu_mem_arena", "enable_mem_pattern"):
            if not getattr(mine, name):
                options[name] = False
        return {
            "execution_provider": [name for name, _ in mine.providers],
            "provider_options": [dict(given) for _, given in mine.providers],
            "io_bind": mine.io_binding,
            "tuning_op_result": None,
            "session_options": options,
        }

    def session_options(self) -> Any:
        """An onnxruntime.SessionOptions."""
        return session_options(self.settings, None)

    def session(self, model: _convert.ModelLike) -> Any:
        """An onnxruntime.InferenceSession with these settings. (`settings.io_binding` is a way of running, not of the session.)"""
        return make_session(source_of(model), self.settings)

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "settings": _plain(self.settings),
            "is_default": self.is_default,
            "message": self.message,
            "inference_settings": self.inference_settings,
            "confirmed": None if self.confirmed is None else _trial(self.confirmed, self.default),
            "default_ms": None if self.seconds is None else self.seconds[0] * 1e3,
            "tuned_ms": None if self.seconds is None else self.seconds[1] * 1e3,
            "trials": [_trial(trial, self.default) for trial in self.trials],
            "budget": self.budget,
            "spent": self.spent,
            "complete": self.complete,
            "rounds": self.rounds,
            "left_out": self.left_out,
            "onnxruntime": runtime().__version__,
        }


def _plain(settings: Settings) -> dict[str, Any]:
    out = dict(vars(settings))
    out["providers"] = [[name, dict(options)] for name, options in settings.providers]
    out["config_entries"] = dict(settings.config_entries)
    return out


def _trial(trial: Trial, default: Settings) -> dict[str, Any]:
    ratio = None if trial.ratio is None else [None if number != number or abs(number) == float("inf") else number for number in trial.ratio]
    return {
        "settings": trial.settings.describe(default),
        "against": trial.against.describe(default),
        "verdict": trial.verdict,
        "ratio": ratio,
        "rounds": trial.rounds,
    }


def _told(found: Found, default: Settings, gain: float) -> str:
    """The message."""
    left = "" if found.complete else "; the budget ended before everything was tried"
    if found.left_out:
        left += f"; {found.left_out} of {found.rounds} rounds don't count, since other work took the machine"
    last = found.confirmed
    if last is None:
        near = sum(trial.verdict == "within noise" for trial in found.trials)
        return f"the defaults stay: none of {len(found.trials)} changes is faster by {gain:.0%} or more beyond the noise ({near} are within it){left}"
    assert last.ratio is not None
    if last.verdict.startswith("not measured"):
        return f"the defaults stay: {last.settings.describe(default)} was faster, but {last.verdict}{left}"
    figures = f"{last.ratio[0]:.3f} of the default's time [{last.ratio[1]:.3f}, {last.ratio[2]:.3f}]"
    if last.verdict == "faster":
        return f"{found.settings.describe(default)}: {figures}{left}"
    return f"the defaults stay: {last.settings.describe(default)} was faster, but measured again {figures} is {last.verdict}{left}"


def tune(
    model: _convert.ModelLike,
    *,
    budget: float = 60.0,
    inputs: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    providers: Iterable[Provider] | None = None,
    intra: Iterable[int] | None = None,
    inter: Iterable[int] | None = None,
    config: Mapping[str, Sequence[str]] | None = None,
    knobs: Iterable[str] = KNOBS,
    custom_ops: str | os.PathLike[str] | None = None,
    gain: float = 0.02,
    confidence: float = 0.95,
    max_load: float = 0.05,
    seed: int = 0,
    progress: Callable[[str], object] | None = None,
    begin: float | None = None,
) -> Tuned:
    """The settings with which ONNX Runtime runs a model fastest here, or the default ones where none are clearly faster.

    Each change is timed in turns with the best settings so far, on the same inputs, and kept where the median of paired ratios is lower by
    `gain` or more and its interval (order statistics, `confidence`) is below 1. A comparison ends as soon as that is decided. What is found
    is then compared with the default settings by new sessions, several times, and dropped unless it is faster there, too. Settings with
    which outputs differ by more than 1e-3 of their scale are refused.

    - `budget`: seconds for all of it; what runs when they end is ended, and what is not confirmed by then is dropped.
    - `inputs`: arrays by name, or an .npz; else drawn by the declared shapes, with `dims` for symbolic ones (1 on first axes, 128 on others).
    - `providers`: names, or (name, options); the default settings have the first (default: those that are there).
    - `intra`, `inter`: numbers of threads to try (1, 2, 4, ... to the number of cores).
    - `config`: values to try of further configuration entries, such as {"session.set_denormal_as_zero": ["1"]}.
    - `max_load`: rounds in which other work takes more than this share of the machine's processors don't count, since it decides how many
      threads are best; 1: they count (on Linux, which counts it).
    - `knobs`: what to search, of `KNOBS`. `custom_ops`: a library of custom operators that sessions register.
    - `progress`: a function of lines of text.
    - `begin`: since when the budget counts, of time.perf_counter() (now).
    """
    begin = time.perf_counter() if begin is None else begin
    for name, value, right, allowed in (
        ("budget", budget, budget > 0 and budget < float("inf"), "seconds above 0"),
        ("gain", gain, 0 <= gain < 1, "a share from 0 to below 1"),
        ("confidence", confidence, 0.5 <= confidence < 1, "a share from 0.5 to below 1"),
        ("max_load", max_load, 0 < max_load <= 1, "a share above 0, and up to 1"),
    ):
        if not right:
            raise OptionError(f"{name}: {value} is not {allowed}")
    chains, cores = _chains(providers), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    default = Settings(providers=chains[0])
    todo = changes(chains, _counts("intra", intra, cores), _counts("inter", inter, cores), dict(config or {}), knobs)
    source = source_of(model)
    given = None if inputs is None else read(inputs)
    deadline = Deadline(begin + budget)
    tell = (lambda trial: progress(_line(trial, default))) if progress else (lambda trial: None)
    try:
        try:
            first = make_session(source, default, custom_ops, quiet=True)
        except Exception as error:
            raise Error(f"the model does not load in ONNX Runtime: {one_line(error)}") from None
        feeds = drawn(first, dims or {}, seed, deadline) if given is None else checked(given, first, deadline)
        del first
        lab = OrtLab(source, feeds, deadline, custom_ops)
        left = begin + budget - lab.clock()
        load = max_load * (os.cpu_count() or 1) if max_load < 1 else float("inf")
        search = Search(lab, default, budget=left, gain=gain, confidence=confidence, load=load, seed=seed, told=tell)
        found = search.run(todo)
    except Refused as error:
        raise Error(f"the model does not run with the default settings: {error}") from None
    except OutOfTime as error:
        raise OptionError(f"budget: {budget:g} s are not enough: {str(error) or 'they ended while the default settings were loaded'}") from None
    finally:
        deadline.cancel()
    return Tuned(
        found.settings, default, _told(found, default, gain), found.trials, found.confirmed, found.seconds, budget,
        time.perf_counter() - begin, found.complete, found.rounds, found.left_out,
    )  # fmt: skip


# ---- the command ----------------------------------------------------------------------------------------------------------------------


def _line(trial: Trial, default: Settings) -> str:
    ratio = "" if trial.ratio is None else f"{trial.ratio[0]:.3f} [{trial.ratio[1]:.3f}, {trial.ratio[2]:.3f}] of {trial.rounds} rounds"
    over = trial.against.describe(default)
    return f"{trial.settings.describe(default):60} {ratio:40} {trial.verdict}" + ("" if over == "defaults" else f" (over {over})")


def _provider(text: str) -> Provider:
    name, equals, options = text.partition("=")
    if not equals:
        return name
    try:
        given = json_of(options)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise OptionError(f'--provider: {options!r} is no JSON object of options, such as CUDAExecutionProvider={{"device_id": 0}}')
    return name, given


def _pairs(option: str, texts: Sequence[str], what: str) -> dict[str, str]:
    for text in texts:
        if not text.partition("=")[1] or not text.partition("=")[2]:
            raise OptionError(f"{option}: {text!r} is not {what}")
    return {text.partition("=")[0]: text.partition("=")[2] for text in texts}


def _numbers(option: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not all(part.strip().isdigit() for part in text.split(",")):
        raise OptionError(f"{option}: {text!r} is not whole numbers with commas between, such as 1,2,4")
    return [int(part) for part in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onnx_saturate.tune",
        description="Looks for the session settings with which ONNX Runtime runs a model fastest here. The defaults stay unless others are clearly faster.",
    )
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--budget", type=float, default=60.0, metavar="SECONDS", help="for all of it (60)")
    parser.add_argument("--inputs", metavar="X.npz", help="what to run on; else drawn by the declared shapes")
    parser.add_argument("--dim", action="append", default=[], metavar="SYMBOL=SIZE", help="size of a symbolic dim of drawn inputs; may be repeated")
    parser.add_argument("--provider", action="append", metavar="NAME[=JSON]", help="execution provider to try, with options; the first is the default's; may be repeated (those that are there)")
    parser.add_argument("--intra", metavar="N,N", help="threads of one operator to try (1, 2, 4, ... to the number of cores)")
    parser.add_argument("--inter", metavar="N,N", help="threads between operators to try")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE,VALUE", help="values of a configuration entry to try; may be repeated")
    parser.add_argument("--knobs", default=",".join(KNOBS), metavar="KNOB,KNOB", help=f"what to search ({','.join(KNOBS)})")
    parser.add_argument("--custom-ops", metavar="LIBRARY", help="library of custom operators")
    parser.add_argument("--gain", type=float, default=0.02, metavar="SHARE", help="how much faster settings have to be (0.02)")
    parser.add_argument("--confidence", type=float, default=0.95, metavar="SHARE", help="of intervals (0.95)")
    parser.add_argument("--max-load", type=float, default=0.05, metavar="SHARE", help="of the machine that other work may take; rounds with more don't count (0.05)")
    parser.add_argument("--seed", type=int, default=0, help="of drawn inputs and of the order of runs (0)")
    parser.add_argument("-o", "--output", metavar="BEST.json", help="write settings and measurements here")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but Olive's inference_settings")
    return parser


def _run(args: argparse.Namespace) -> Tuned:
    sizes = _pairs("--dim", args.dim, "SYMBOL=SIZE")
    for name, size in sizes.items():
        if not size.isdigit():
            raise OptionError(f"--dim: {name}={size} is no size")
    if args.output is not None and not Path(args.output).resolve().parent.is_dir():
        raise Error(f"{args.output}: its folder does not exist")
    started = time.perf_counter() - time.process_time()  # imports take the processor all of their time
    return tune(
        args.model, begin=started, budget=args.budget, inputs=args.inputs, dims={name: int(size) for name, size in sizes.items()},
        providers=None if args.provider is None else [_provider(text) for text in args.provider],
        intra=_numbers("--intra", args.intra), inter=_numbers("--inter", args.inter),
        config={key: values.split(",") for key, values in _pairs("--config", args.config, "KEY=VALUE,VALUE").items()},
        knobs=[knob for knob in args.knobs.split(",") if knob], custom_ops=args.custom_ops, gain=args.gain, confidence=args.confidence,
        max_load=args.max_load, seed=args.seed, progress=None if args.quiet else lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    args = _parser().parse_args(words)
    try:
        tuned = _run(args)
    except Error as error:
        return tell_error("onnx_saturate.tune", error)
    if not args.quiet:
        times = "" if tuned.seconds is None else f" ({tuned.seconds[0] * 1e3:.3g} ms, {tuned.seconds[1] * 1e3:.3g} ms)"
        print(f"{tuned.message}{times}; {tuned.spent:.1f} s of {tuned.budget:g} s", file=sys.stderr)
    print(json.dumps({"inference_settings": tuned.inference_settings}, indent=2))
    if args.output is not None:
        Path(args.output).write_text(json.dumps(tuned.to_dict(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
