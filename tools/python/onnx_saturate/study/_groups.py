"""The equal graphs of each model: drawn, priced by every cost model, and timed, for scores of cost models."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._file import Study
from ._models import Given, Model
from ._pieces import Outcome, Piece
from ._scores import Graph, Group


@dataclass
class Drawn:
    """A model for a target, with the pieces of its graphs and what came of them."""

    model: Model
    target: str
    seed: int
    label: str
    drawing: Piece | None
    """None where no graphs are drawn."""
    results: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Graphs by their hashes, those that experiments gave among them, with the sizes of dims that prices are of."""
    pricing: dict[str, Piece] = field(default_factory=dict)
    """By cost model."""
    timing: dict[str, Piece] = field(default_factory=dict)
    """By graph; the original is timed beside each."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By the names of pieces."""

    @property
    def pieces(self) -> list[Piece]:
        """All of them."""
        return [*([self.drawing] if self.drawing is not None else []), *self.pricing.values(), *self.timing.values()]


def drawing(study: Study, model: Model, target: Any, name: str, seed: int, environment: Mapping[str, str], reads: Sequence[Given]) -> Drawn:
    """A model's graphs, not drawn yet."""
    label = " ".join([model.name, *(f"{dim}={size}" for dim, size in model.dims.items()), name])
    key = {
        "piece": "draw", **environment, "model": model.sha256, "dims": dict(model.dims), "target": target, "samples": study.samples, "seed": seed,
    }  # fmt: skip
    piece = Piece(key, label, (*reads, *([model.given] if model.path is not None else [])), study.timing.limit)
    return Drawn(model, name, seed, label, piece if study.samples else None)


def price(drawn: Drawn, costs: Mapping[str, Any], target: Any, environment: Mapping[str, str], reads: Sequence[Given], made: Path, limit: float) -> None:
    """Plans a piece for each cost model, which prices all graphs of the model."""
    sizes = next(iter(drawn.results.values()), {})
    graphs = [Given(sha, made / f"{sha}.onnx") for sha in sorted(drawn.results)]
    own = [drawn.model.given] if drawn.model.path is not None else []
    for name, cost in costs.items():
        key = {
            "piece": "price", **environment, "graphs": [drawn.model.sha256, *sorted(drawn.results)], "dims": dict(sizes), "target": target, "cost": cost,
        }  # fmt: skip
        drawn.pricing[name] = Piece(key, f"{drawn.label} {name}", (*reads, *own, *graphs), limit)


def groups_of(drawn: Sequence[Drawn]) -> list[Group]:
    """What was measured, for scores. A graph that gave other outputs than its original does not count."""
    return [group for one in drawn if (group := _group(one)).graphs]


def _group(drawn: Drawn) -> Group:
    prices: dict[str, dict[str, float]] = {}
    for cost, piece in drawn.pricing.items():
        outcome = drawn.outcomes.get(piece.name)
        for sha, value in (outcome.result["prices"] if outcome is not None and not outcome.failed else {}).items():
            if value is not None:
                prices.setdefault(sha, {})[cost] = value
    graphs, original = [], None
    for sha, piece in drawn.timing.items():
        outcome = drawn.outcomes.get(piece.name)
        if outcome is None or outcome.failed or not outcome.result["same"]:
            continue
        told = outcome.result
        ratio = told["ratio"]
        graphs.append(Graph(sha, told["after"]["median"], ratio["median"], ratio["low"] or 0.0, ratio["high"] or float("inf"), prices.get(sha, {})))
        original = original or Graph(drawn.model.sha256, told["before"]["median"], 1.0, 1.0, 1.0, prices.get(drawn.model.sha256, {}))
    return Group(drawn.model.name, drawn.model.family, [original, *graphs] if original is not None else [])
