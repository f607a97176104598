"""How good cost models are on equal graphs that were timed: error by family, known or unseen, rank correlation and regret, beside baselines."""
from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BASELINES = ("nodes", "flops", "bytes", "roofline")
"""Cost models that need no measurement: what `learned` is fitted on."""
_FOLDS = 5
_RIDGE = 1e-3

COLUMNS: Mapping[str, type] = {
    "cost": str, "family": str, "models": int, "graphs": int, "pairs": int, "tau": float, "rank_regret": float, "rank_regret_worst": float,
    "error_family": float, "error_random": float, "error_unseen": float,
}  # fmt: skip
"""Of scores.csv; a row for each cost model and family, and one for all families."""


@dataclass(frozen=True)
class Graph:
    """One of the equal graphs of a model."""

    sha256: str
    seconds: float
    ratio: float
    """Its time, of the original's."""
    low: float
    high: float
    prices: Mapping[str, float]
    """By cost model."""


@dataclass(frozen=True)
class Group:
    """Equal graphs, timed on the same inputs beside the same original, which is one of them."""

    model: str
    family: str
    graphs: Sequence[Graph]

    @property
    def fastest(self) -> float:
        """The least ratio."""
        return min(graph.ratio for graph in self.graphs)


Price = Callable[[Graph], "float | None"]
"""What a cost model says of a graph."""


def rounded(value: float | None) -> float | None:
    """With the digits that every machine's logarithms agree on."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def pairs_of(group: Group, price: Price) -> list[int]:
    """1 for each pair that is ranked as it runs, -1 for one the other way round, 0 where both cost the same. Pairs whose times are within their noise don't count."""
    out = []
    for a, b in itertools.combinations(group.graphs, 2):
        x, y = price(a), price(b)
        if x is None or y is None or not (a.high < b.low or b.high < a.low):
            continue
        out.append(0 if x == y else 1 if (x < y) == (a.ratio < b.ratio) else -1)
    return out


def rank_regret(group: Group, price: Price) -> float | None:
    """Time lost by taking the graph that is predicted to be the fastest; where several are, the mean of them."""
    known = [(value, graph.ratio) for graph in group.graphs if (value := price(graph)) is not None]
    if not known:
        return None
    least = min(value for value, _ in known)
    return statistics.fmean(ratio for value, ratio in known if value == least) / group.fastest - 1


def _logs(groups: Sequence[Group], cost: str) -> list[float]:
    """Logarithms of measured over predicted."""
    return [math.log(graph.seconds / graph.prices[cost]) for group in groups for graph in group.graphs if graph.prices.get(cost, 0) > 0]


def _off(logs: Sequence[float], scale: float) -> list[float]:
    """How far predictions are off, as shares of the time, where a price times e^scale is a prediction."""
    return [abs(math.exp(scale - log) - 1) for log in logs]


def _error_random(logs: Sequence[float]) -> float | None:
    """Each of five parts predicted from the others, whatever families they are of: flatters."""
    out: list[float] = []
    for fold in range(_FOLDS):
        train = [log for number, log in enumerate(logs) if number % _FOLDS != fold]
        out += _off(logs[fold::_FOLDS], statistics.median(train)) if train else []
    return _mean(out)


@dataclass
class _Learned:
    """Least squares of the logarithm of a time over those of the baselines' prices, with a little ridge."""

    costs: Sequence[str]
    weights: Any = field(default=None)

    def row(self, graph: Graph) -> list[float] | None:
        """What it knows of a graph."""
        prices = [graph.prices.get(cost, 0.0) for cost in self.costs]
        return [1.0, *(math.log(price) for price in prices)] if min(prices, default=0) > 0 else None

    def fit(self, groups: Sequence[Group]) -> _Learned:
        """To the graphs of these."""
        known = [(row, math.log(graph.seconds)) for group in groups for graph in group.graphs if (row := self.row(graph)) is not None]
        if known:
            x, y = np.array([row for row, _ in known]), np.array([log for _, log in known])
            self.weights = np.linalg.solve(x.T @ x + _RIDGE * np.eye(x.shape[1]), x.T @ y)
        return self

    def price(self, graph: Graph) -> float | None:
        """Seconds."""
        row = self.row(graph)
        return None if row is None or self.weights is None else rounded(math.exp(float(np.dot(self.weights, row))))


def learned(groups: Sequence[Group], costs: Sequence[str]) -> dict[str, Price]:
    """For each family the price of a model that was fitted to all others."""
    families = list(dict.fromkeys(group.family for group in groups))
    there = [cost for cost in costs if cost in BASELINES]
    if len(families) < 2 or not there:
        return {}
    return {family: _Learned(there).fit([group for group in groups if group.family != family]).price for family in families}


def _row(cost: str, family: str, groups: Sequence[Group], price: Callable[[Group], Price]) -> dict[str, Any]:
    pairs = [pair for group in groups for pair in pairs_of(group, price(group))]
    regrets = [regret for group in groups if (regret := rank_regret(group, price(group))) is not None]
    graphs = sum(len(group.graphs) for group in groups)
    return {
        "cost": cost, "family": family, "models": len(groups), "graphs": graphs, "pairs": len(pairs), "tau": rounded(_mean(pairs)),
        "rank_regret": rounded(_mean(regrets)), "rank_regret_worst": rounded(max(regrets, default=None)),
        "error_family": None, "error_random": None, "error_unseen": None,
    }  # fmt: skip


def scale_unseen(groups: Sequence[Group], cost: str, family: str) -> float | None:
    """Of prices into seconds, as a logarithm, from all families but this one."""
    others = _logs([group for group in groups if group.family != family], cost)
    return statistics.median(others) if others else None


def _of_cost(groups: Sequence[Group], cost: str, families: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    own_all: list[float] = []
    unseen_all: list[float] = []
    for family in families:
        mine = [group for group in groups if group.family == family]
        logs, scale = _logs(mine, cost), scale_unseen(groups, cost, family)
        own = _off(logs, statistics.median(logs)) if logs else []
        unseen = _off(logs, scale) if scale is not None else []
        own_all, unseen_all = own_all + own, unseen_all + unseen
        errors = {"error_family": rounded(_mean(own)), "error_random": rounded(_error_random(logs)), "error_unseen": rounded(_mean(unseen))}
        rows.append({**_row(cost, family, mine, lambda group: lambda graph: graph.prices.get(cost)), **errors})
    errors = {"error_family": rounded(_mean(own_all)), "error_random": rounded(_error_random(_logs(groups, cost))), "error_unseen": rounded(_mean(unseen_all))}
    return [*rows, {**_row(cost, "all", groups, lambda group: lambda graph: graph.prices.get(cost)), **errors}]


def _of_learned(groups: Sequence[Group], costs: Sequence[str], families: Sequence[str]) -> list[dict[str, Any]]:
    prices, out, every = learned(groups, costs), [], []
    if not prices:
        return []
    for family in families:
        mine = [group for group in groups if group.family == family]
        off = [abs(price / graph.seconds - 1) for group in mine for graph in group.graphs if (price := prices[family](graph)) is not None]
        every += off
        out.append({**_row("learned", family, mine, lambda group: prices[group.family]), "error_unseen": rounded(_mean(off))})
    return [*out, {**_row("learned", "all", groups, lambda group: prices[group.family]), "error_unseen": rounded(_mean(every))}]


def scores(groups: Sequence[Group], costs: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each cost model and family, of the learned one, and of choices that ask no model: one at random, and the original as ONNX Runtime runs it."""
    groups = [group for group in groups if len(group.graphs) > 1]
    families = list(dict.fromkeys(group.family for group in groups))
    out = [row for cost in costs for row in _of_cost(groups, cost, families)] + _of_learned(groups, costs, families)
    for name, price in (("at random", lambda graph: 1.0), ("as it is", lambda graph: 0.0 if graph.ratio == 1 and graph.low == graph.high else 1.0)):
        for family in [*families, "all"]:
            mine = [group for group in groups if family in ("all", group.family)]
            out.append({**_row(name, family, mine, lambda group, price=price: price), "tau": None, "pairs": None})  # type: ignore[misc]
    return out
