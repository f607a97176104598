"""What a study needs: its experiments, and the pieces of each."""
from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._errors import Error
from ._file import Study
from ._groups import Drawn, drawing, price
from ._models import Given, Model, hash_of
from ._pieces import Outcome, Piece

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
    drawn: Drawn | None = None
    """The graphs of its model, where cost models are scored."""


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
        self.drawn = self._drawn() if "splits" in study.measure else []

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
        reads = [*self._reads(key), *([model.given] if model.path is not None else [])]
        return Experiment(model, target, cost, extractor, variant[0], seed, Piece(key, label, tuple(reads), self._study.timing.limit))

    def _drawn(self) -> list[Drawn]:
        """A model for a target and a seed once, with the experiments that are of it."""
        out: dict[tuple[str, str, str, int], Drawn] = {}
        for experiment in self.experiments:
            model, target, seed = experiment.model, self._named("targets", experiment.target), experiment.seed
            known = (model.sha256, str(sorted(model.dims.items())), experiment.target, seed)
            if known not in out:
                out[known] = drawing(self._study, model, target, experiment.target, seed, self._environment, self._reads(target))
            experiment.drawn = out[known]
        return list(out.values())

    def _reads(self, told: Any) -> list[Given]:
        return [self._given[sha] for sha in _hashes(told) if sha in self._given]

    def gather(self) -> None:
        """Puts the results of experiments among the graphs of their models."""
        for experiment in self.experiments:
            if experiment.drawn is not None and experiment.optimized is not None and not experiment.optimized.failed:
                experiment.drawn.results[experiment.optimized.result["made"]] = experiment.model.dims or experiment.optimized.result["sizes"]

    def price(self, made: Path) -> None:
        """Plans pieces that price all graphs, where graphs are known."""
        for one in self.drawn:
            target, costs = self._named("targets", one.target), {name: self._named("costs", name) for name in self._study.costs}
            if one.results:
                price(one, costs, target, self._environment, self._reads([target, *costs.values()]), made, self._study.timing.limit)

    def timing(self, experiment: Experiment, made: Path) -> Piece | None:
        """The piece that times a result beside its original; None where there is no result."""
        if experiment.optimized is None or experiment.optimized.failed:
            return None
        result = experiment.optimized.result
        return self.timed(experiment.model, result["made"], result["sizes"], experiment.seed, experiment.optimizing.label, made)

    def timed(self, model: Model, graph: str, sizes: Mapping[str, int], seed: int, label: str, made: Path) -> Piece:
        """The piece that times a graph beside its original."""
        asked = self._study.timing
        key = {
            "piece": "time", "onnxruntime": self._environment["onnxruntime"], "before": model.sha256, "after": graph,
            "dims": dict(model.dims) or dict(sizes), "threads": asked.threads, "rounds": asked.rounds, "burst": asked.burst,
            "confidence": asked.confidence, "seed": seed,
        }  # fmt: skip
        reads = [Given(graph, made / f"{graph}.onnx"), *([model.given] if model.path is not None else [])]
        return Piece(key, label, tuple(reads), asked.limit)


def _hashes(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "file" in value:
            yield value["file"]
        for item in value.values():
            yield from _hashes(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _hashes(item)
