"""Runs a study: what has to be done, what is there already, and the rows that come of it."""
from __future__ import annotations

import contextlib
import fcntl
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import Error
from . import _file
from ._engines import Engine, Local
from ._file import Study
from ._groups import groups_of
from ._models import Model, Models, write_whole
from ._pieces import Key, Outcome, Parts, Piece
from ._plan import Experiment, Plan
from ._scores import Group
from ._work import machine, versions

Told = Callable[[str], object]


@dataclass(frozen=True)
class Finished:
    """A study that was run."""

    study: Study
    experiments: Sequence[Experiment]
    environment: Mapping[str, str]
    """The versions that it was run with."""
    failures: Sequence[str] = field(default_factory=list)
    """A line for each piece that failed."""
    groups: Mapping[int, Group] = field(default_factory=dict)
    """The equal graphs of each experiment's model, by the experiment's number, where cost models are scored."""
    every: Sequence[Group] = field(default_factory=list)
    """All of them, each once."""


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
        write_whole(self.path / "study.json", (json.dumps(told, indent=1) + "\n").encode())

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
        self._draw(plan)
        if "measured" in study.measure:
            self._time(plan)
        outcomes = [pair for e in plan.experiments for pair in _outcomes(e)]
        outcomes += [(piece, one.outcomes[piece.name]) for one in plan.drawn for piece in one.pieces if piece.name in one.outcomes]
        failed = {(piece.name, piece.label, outcome.failed): None for piece, outcome in outcomes if outcome.failed}
        groups = {number: groups_of([e.drawn]) for number, e in enumerate(plan.experiments) if e.drawn is not None}
        return Finished(
            study, plan.experiments, environment, [f"{label}: {why} ({name})" for name, label, why in failed],
            {number: found[0] for number, found in groups.items() if found}, groups_of(plan.drawn),
        )  # fmt: skip

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

    def _draw(self, plan: Plan) -> None:
        """Graphs of each model, and what each cost model says of them."""
        plan.gather()
        done = self._done([one.drawing for one in plan.drawn if one.drawing is not None], False)
        for one in plan.drawn:
            sizes = next(iter(one.results.values()), None)
            if one.drawing is None or sizes is None:
                continue
            one.outcomes[one.drawing.name] = outcome = done[one.drawing.name]
            one.results.update(dict.fromkeys(outcome.result["made"] if not outcome.failed else (), sizes))
        plan.price(self._folder.models)
        done = self._done([piece for one in plan.drawn for piece in one.pricing.values()], False)
        for one in plan.drawn:
            one.outcomes.update({piece.name: done[piece.name] for piece in one.pricing.values()})

    def _time(self, plan: Plan) -> None:
        made = self._folder.models
        for experiment in plan.experiments:
            experiment.timing = plan.timing(experiment, made)
        for one in plan.drawn:
            one.timing = {sha: plan.timed(one.model, sha, sizes, one.seed, f"{one.label} {sha[:8]}", made) for sha, sizes in one.results.items()}
        pieces = [e.timing for e in plan.experiments if e.timing is not None] + [piece for one in plan.drawn for piece in one.timing.values()]
        done = self._replayed(pieces) if self._how.replay is not None else self._done(pieces, True)
        for experiment in plan.experiments:
            experiment.timed = None if experiment.timing is None else done[experiment.timing.name]
        for one in plan.drawn:
            one.outcomes.update({piece.name: done[piece.name] for piece in one.timing.values()})

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
        made = outcome.result.get("made", [])
        names = [made] if isinstance(made, str) else made
        return timing or self._how.replay is not None or all((self._folder.models / f"{name}.onnx").exists() for name in names)


def _told(piece: Piece, outcome: Outcome) -> str:
    result = outcome.result
    if piece.key["piece"] == "time":
        return f"{result['ratio']['median']:.3f} of the original's time"
    if piece.key["piece"] == "draw":
        return f"{len(result['made'])} graphs"
    if piece.key["piece"] == "price":
        return f"{len(result['prices'])} prices"
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

        def tell(piece: Piece) -> Outcome | None:
            there = folder.parts.load(piece.key)
            lines[piece.name] = f"{'done' if there else 'to do'}  {piece.name}  {piece.label}"
            return there

        for experiment in plan.experiments:
            experiment.optimized = tell(experiment.optimizing)
            timing = plan.timing(experiment, folder.models) if "measured" in study.measure else None
            if timing is not None:
                tell(timing)
            elif "measured" in study.measure and experiment.optimized is None:
                lines[experiment.optimizing.name + " time"] = f"to do  time of what {experiment.optimizing.name} makes  {experiment.optimizing.label}"
        for one in plan.drawn:
            there = None if one.drawing is None else tell(one.drawing)
            if there is None:
                lines[f"{one.label} {one.seed}"] = f"to do  prices and times of the graphs of {one.label}"
    scripts = [f"to do  {source.place}: {source.script} writes models, which are not known before" for source in study.sources if source.script]
    return [*lines.values(), *scripts]
