"""Runs a study: what has to be done, what is there already, and the rows that come of it."""
from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import Error
from . import _file
from ._engines import Engine, Local
from ._file import Study
from ._models import Given, Model, Models, hash_of
from ._pieces import Key, Outcome, Parts, Piece
from ._work import machine, versions

Told = Callable[[str], object]
_FILES = ("rules", "custom_op_library")


@dataclass
class Experiment:
    """One row: a model, what was tried with it, and what came of it."""

    model: Model
    target: str
    cost: str
    extractor: str
    variant: str
    seed: int
    optimizing: Piece
    optimized: Outcome | None = None
    timing: Piece | None = None
    timed: Outcome | None = None


@dataclass(frozen=True)
class Finished:
    """A study that was run."""

    study: Study
    experiments: Sequence[Experiment]
    environment: Mapping[str, str]
    """The versions that it was run with."""
    failures: Sequence[str] = field(default_factory=list)
    """A line for each piece that failed."""


class Plan:
    """The experiments of a study, with the pieces that they need."""

    def __init__(self, study: Study, models: Sequence[Model], environment: Mapping[str, str]) -> None:
        self._study, self._environment = study, environment
        self._given: dict[str, Given] = {}
        self._files: dict[str, Any] = {}
        self.experiments = [
            self._experiment(*chosen)
            for chosen in itertools.product(models, study.targets, study.costs, study.extractors, study.variants, study.seeds)
        ]

    def _file(self, place: str, name: str) -> Any:
        """A file of the study as keys tell it: by the hash of its content, with the function of Python that it names."""
        if name not in self._files:
            path, _, function = name.rpartition(":") if re.search(r"\.py:\w+$", name) else (name, "", "")
            whole = self._study.folder / os.path.expanduser(path)
            if not whole.is_file():
                raise Error(f"{self._study.path}: {place}: there is no file {path}; paths are relative to the study's folder")
            sha = hash_of(whole)
            self._given[sha] = Given(sha, whole)
            self._files[name] = {"file": sha, "function": function} if function else {"file": sha}
        return self._files[name]

    def _named(self, place: str, name: str) -> Any:
        return self._file(place, name) if re.search(r"\.(jsonl?|so|rules)$|\.py:\w+$", name) else name

    def _options(self, variant: str, options: Mapping[str, Any]) -> dict[str, Any]:
        out = dict(options)
        for name in _FILES:
            if name in out:
                values = [out[name]] if isinstance(out[name], str) else list(out[name])
                out[name] = [self._named(f"options.{name}", value) for value in values]
        return out

    def _experiment(self, model: Model, target: str, cost: str, extractor: str, variant: tuple[str, Mapping[str, Any]], seed: int) -> Experiment:
        key = {
            "piece": "optimize", **self._environment, "model": model.sha256, "dims": dict(model.dims),
            "target": self._named("targets", target), "cost": self._named("costs", cost), "extractor": extractor,
            "options": self._options(*variant), "seed": seed,
        }  # fmt: skip
        words = [model.name, *(f"{name}={size}" for name, size in model.dims.items()), target, cost, extractor, variant[0]]
        label = " ".join([*filter(None, words), *([f"seed {seed}"] if len(self._study.seeds) > 1 else [])])
        reads = [self._given[sha] for sha in _hashes(key) if sha in self._given]
        if model.path is not None:
            reads.append(model.given)
        return Experiment(model, target, cost, extractor, variant[0], seed, Piece(key, label, tuple(reads), self._study.timing.limit))

    def timing(self, experiment: Experiment, made: Path) -> Piece | None:
        """The piece that times a result beside its original; None where there is no result."""
        if experiment.optimized is None or experiment.optimized.failed:
            return None
        result, asked = experiment.optimized.result, self._study.timing
        key = {
            "piece": "time", "onnxruntime": self._environment["onnxruntime"], "before": experiment.model.sha256, "after": result["made"],
            "dims": dict(experiment.model.dims) or result["sizes"], "threads": asked.threads, "rounds": asked.rounds, "burst": asked.burst,
            "confidence": asked.confidence, "seed": experiment.seed,
        }  # fmt: skip
        reads = [Given(result["made"], made / f"{result['made']}.onnx")]
        if experiment.model.path is not None:
            reads.append(experiment.model.given)
        return Piece(key, experiment.optimizing.label, tuple(reads), asked.limit)


def _hashes(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "file" in value:
            yield value["file"]
        for item in value.values():
            yield from _hashes(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _hashes(item)


class Folder:
    """The folder of a study's results: parts, models, and what the run was."""

    def __init__(self, path: Path) -> None:
        self.path, self.parts, self.models = path, Parts(path / "parts"), path / "models"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """By this run alone. A folder of something else is refused."""
        mine = ("parts", "models", "study.json", "lock")
        if self.path.exists() and (not self.path.is_dir() or (any(self.path.iterdir()) and not any((self.path / name).exists() for name in mine))):
            raise Error(f"{self.path}: is there, and no study wrote it; name another folder with -o")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / "lock", "a", encoding="utf-8")
        except OSError as error:
            raise Error(f"{self.path}: can't be written: {error.strerror}; name another folder with -o") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Error(f"{self.path}: another run is writing it; wait for it, or name another folder with -o") from None
            yield

    def record(self, study: Study, models: Sequence[Model], environment: Mapping[str, str]) -> None:
        """What --replay needs where models are not there any more."""
        told = {
            "study": study.sha256, "environment": dict(environment), "machine": machine(),
            "models": [{"name": m.name, "family": m.family, "sha256": m.sha256, "dims": dict(m.dims)} for m in models],
        }  # fmt: skip
        partial = self.path / "study.json.part"
        partial.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, self.path / "study.json")

    def recorded(self, study: Study) -> tuple[list[Model], dict[str, str]]:
        """The models and versions of the last run."""
        try:
            told = json.loads((self.path / "study.json").read_text(encoding="utf-8"))
            models = [Model(m["name"], m["family"], m["sha256"], m["dims"]) for m in told["models"]]
        except (OSError, ValueError, KeyError, TypeError):
            raise Error(f"{self.path}: holds no run that could be replayed; run the study without --replay first") from None
        if told["study"] != study.sha256:
            raise Error(f"{self.path}: was made by another text of {study.path}; run the study without --replay first")
        return models, dict(told["environment"])


@dataclass(frozen=True)
class How:
    """How a study is run."""

    engine: Engine = field(default_factory=lambda: Local(1))
    tell: Told = lambda line: None
    retry: bool = False
    """Do again what failed."""
    replay: Path | None = None
    """The folder that times come from; none is measured."""


class Run:
    """Does the pieces that are not there, in two rounds: all optimizing, then all timing, so that a quiet machine is timed."""

    def __init__(self, study: Study, folder: Folder, how: How) -> None:
        self._study, self._folder, self._how = study, folder, how
        self._times = folder.parts if how.replay is None else Parts(how.replay / "parts")

    def finished(self) -> Finished:
        """The study with all that came of it."""
        study, folder, how = self._study, self._folder, self._how
        own = how.replay is not None and how.replay.resolve() == folder.path.resolve()
        if own:
            models, environment = folder.recorded(study)
        else:
            environment = versions() if how.replay is None else Folder(how.replay).recorded(study)[1]
            models = Models(study, folder.models).all()
        if "measured" in study.measure and not environment["onnxruntime"]:
            raise Error(f"{study.path}: measure: measured needs ONNX Runtime; pip install onnxruntime, or leave it out of measure")
        plan = Plan(study, models, environment)
        if not own:
            folder.record(study, models, environment)
        self._optimize(plan)
        if "measured" in study.measure:
            self._time(plan)
        failed = {(piece.name, piece.label, outcome.failed): None for e in plan.experiments for piece, outcome in _outcomes(e) if outcome.failed}
        return Finished(study, plan.experiments, environment, [f"{label}: {why} ({name})" for name, label, why in failed])

    def _optimize(self, plan: Plan) -> None:
        done = self._done([e.optimizing for e in plan.experiments], False)
        for experiment in plan.experiments:
            experiment.optimized = self._with_times(experiment.optimizing.key, done[experiment.optimizing.name])

    def _with_times(self, key: Key, outcome: Outcome) -> Outcome:
        """With the seconds of the folder that times come from."""
        if self._times is self._folder.parts or outcome.failed:
            return outcome
        recorded = self._times.load(key)
        if recorded is None or recorded.failed:
            raise Error(f"{self._how.replay}: holds no times of {key['piece']} {key['model'][:16]}; replay a folder in which the same study ran")
        return Outcome({**outcome.result, "seconds": recorded.result["seconds"]}, "", recorded.where)

    def _time(self, plan: Plan) -> None:
        for experiment in plan.experiments:
            experiment.timing = plan.timing(experiment, self._folder.models)
        pieces = [e.timing for e in plan.experiments if e.timing is not None]
        done = self._replayed(pieces) if self._how.replay is not None else self._done(pieces, True)
        for experiment in plan.experiments:
            experiment.timed = None if experiment.timing is None else done[experiment.timing.name]

    def _replayed(self, pieces: Sequence[Piece]) -> dict[str, Outcome]:
        out = {}
        for piece in pieces:
            found = self._times.load(piece.key)
            if found is None:
                raise Error(f"{self._how.replay}: holds no times of {piece.label} ({piece.name}); replay a folder in which the same study ran")
            out[piece.name] = found
        return out

    def _done(self, pieces: Sequence[Piece], timing: bool) -> dict[str, Outcome]:
        """The outcomes of these pieces by their names, each done once."""
        out: dict[str, Outcome] = {}
        missing: dict[str, Piece] = {}
        for piece in pieces:
            there = self._folder.parts.load(piece.key)
            if there is not None and not (there.failed and self._how.retry) and self._whole(there, timing):
                out[piece.name] = there
            elif piece.name not in missing:
                missing[piece.name] = piece
        for number, (piece, outcome) in enumerate(self._how.engine.run(list(missing.values()), self._folder.models, timing) if missing else (), 1):
            self._folder.parts.save(piece.key, outcome)
            out[piece.name] = outcome
            what = f"failed: {outcome.failed}" if outcome.failed else _told(piece, outcome)
            self._how.tell(f"[{number}/{len(missing)}] {piece.key['piece']} {piece.label}: {what}")
        return out

    def _whole(self, outcome: Outcome, timing: bool) -> bool:
        """Whether what a piece made is still there; it is read where it is timed, unless times are replayed."""
        made = outcome.result.get("made")
        return timing or made is None or self._how.replay is not None or (self._folder.models / f"{made}.onnx").exists()


def _told(piece: Piece, outcome: Outcome) -> str:
    result = outcome.result
    if piece.key["piece"] == "time":
        return f"{result['ratio']['median']:.3f} of the original's time"
    return f"{result['nodes'][0]} -> {result['nodes'][1]} nodes, {result['seconds']['all']:.2f} s"


def _outcomes(experiment: Experiment) -> list[tuple[Piece, Outcome]]:
    pairs = ((experiment.optimizing, experiment.optimized), (experiment.timing, experiment.timed))
    return [(piece, outcome) for piece, outcome in pairs if piece is not None and outcome is not None]


def planned(name: str, output: Path) -> list[str]:
    """A line for each piece that a run would do, and for what is not known before."""
    study, folder = _file.read(name), Folder(output)
    with tempfile.TemporaryDirectory() as scratch:
        models = Models(study, folder.models if folder.models.is_dir() else Path(scratch)).all(scripts=False)
        plan = Plan(study, models, versions())
        lines: dict[str, str] = {}
        for experiment in plan.experiments:
            piece = experiment.optimizing
            there = folder.parts.load(piece.key)
            lines[piece.name] = f"{'done' if there else 'to do'}  {piece.name}  {piece.label}"
            experiment.optimized = there
            timing = plan.timing(experiment, folder.models) if "measured" in study.measure else None
            if timing is not None:
                lines[timing.name] = f"{'done' if folder.parts.load(timing.key) else 'to do'}  {timing.name}  {timing.label}"
            elif "measured" in study.measure and there is None:
                lines[piece.name + " time"] = f"to do  time of what {piece.name} makes  {piece.label}"
    scripts = [f"to do  {source.place}: {source.script} writes models, which are not known before" for source in study.sources if source.script]
    return [*lines.values(), *scripts]
