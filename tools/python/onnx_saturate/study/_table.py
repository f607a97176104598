"""The rows of a study: one for each experiment, the same bytes for the same outcomes."""
from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._models import write_whole
from ._plan import Experiment
from ._run import Finished
from ._scores import Graph, Group, pairs_of, rank_regret, rounded, scale_unseen

Row = dict[str, Any]

COLUMNS: Mapping[str, type] = {
    "study": str, "model": str, "family": str, "dims": str, "target": str, "cost": str, "extractor": str, "variant": str, "seed": int,
    "model_sha256": str, "result_sha256": str, "failed": str, "verified": bool,
    "cost_unit": str, "predicted_before": float, "predicted_after": float, "predicted_ratio": float,
    "nodes_before": int, "nodes_after": int,
    "measured_before": float, "measured_before_low": float, "measured_before_high": float,
    "measured_after": float, "measured_after_low": float, "measured_after_high": float,
    "ratio": float, "ratio_low": float, "ratio_high": float, "same_outputs": bool, "rounds": int, "threads": int, "load": float,
    "optimize_seconds": float, "saturate_seconds": float, "extract_seconds": float,
    "iterations": int, "stop": str, "enodes": int, "eclasses": int, "rules_fired": int, "matches_applied": int,
    "graphs": int, "tau": float, "rank_regret": float, "regret": float, "error_unseen": float,
    "saturate": str, "onnxruntime": str, "python": str, "processor": str, "cores": int, "system": str, "optimized_on": str,
    "optimize_part": str, "time_part": str,
}  # fmt: skip
"""What each column holds. Times are in seconds, predictions in `cost_unit`."""
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "predicted": ("cost_unit", "predicted_before", "predicted_after", "predicted_ratio"),
    "nodes": ("nodes_before", "nodes_after"),
    "measured": tuple(name for name in COLUMNS if name.startswith(("measured_", "ratio"))) + ("same_outputs", "rounds", "threads", "load", "time_part"),
    "seconds": ("optimize_seconds", "saturate_seconds", "extract_seconds"),
    "splits": ("graphs", "tau", "rank_regret", "regret", "error_unseen"),
    "saturation": ("iterations", "stop", "enodes", "eclasses", "rules_fired", "matches_applied"),
}


def columns_of(measure: Sequence[str]) -> dict[str, type]:
    """Those of what is measured, and those that every row has."""
    left_out = {column for group, columns in _GROUPS.items() if group not in measure for column in columns}
    return {name: kind for name, kind in COLUMNS.items() if name not in left_out}


def rows_of(finished: Finished) -> list[Row]:
    """A row for each experiment, in the order of the study's file."""
    columns = columns_of(finished.study.measure)
    return [{name: row.get(name) for name in columns} for row in (_row(finished, number, experiment) for number, experiment in enumerate(finished.experiments))]


def _row(finished: Finished, number: int, experiment: Experiment) -> Row:
    model, optimized, timed = experiment.model, experiment.optimized, experiment.timed
    assert optimized is not None
    failed = [outcome.failed for outcome in (optimized, timed) if outcome is not None and outcome.failed]
    row: Row = {
        "study": finished.study.sha256[:16], "model": model.name, "family": model.family, "model_sha256": model.sha256,
        "target": experiment.target, "cost": experiment.cost, "extractor": experiment.extractor, "variant": experiment.variant,
        "seed": experiment.seed, "dims": ",".join(f"{name}={size}" for name, size in sorted(model.dims.items())),
        "failed": failed[0] if failed else "", "optimize_part": experiment.optimizing.name, **finished.environment,
    }  # fmt: skip
    where = (timed if timed is not None and timed.where else optimized).where or {}
    row.update({name: where.get(name) for name in ("python", "processor", "cores", "system")})
    row["optimized_on"] = (optimized.where or {}).get("processor")
    if not optimized.failed:
        row.update(_optimized(optimized.result))
    if experiment.timing is not None:
        row.update({"time_part": experiment.timing.name, "threads": experiment.timing.key["threads"]})
    if timed is not None and not timed.failed:
        row.update(_timed(timed.result))
    if number in finished.groups:
        row.update(_scored(finished, finished.groups[number], row))
    return row


def _scored(finished: Finished, group: Group, row: Row) -> Row:
    """How good the cost model is on the graphs of this model, and the choice among them."""
    cost = row["cost"]

    def price(graph: Graph) -> float | None:
        return graph.prices.get(cost)

    pairs, scale = pairs_of(group, price), scale_unseen(finished.every, cost, group.family)
    ratio, predicted, measured = row.get("ratio"), row.get("predicted_after"), row.get("measured_after")
    off = abs(predicted * math.exp(scale) / measured - 1) if scale is not None and predicted and measured else None
    return {
        "graphs": len(group.graphs), "tau": rounded(sum(pairs) / len(pairs) if pairs else None), "rank_regret": rounded(rank_regret(group, price)),
        "regret": rounded(None if ratio is None else ratio / group.fastest - 1), "error_unseen": rounded(off),
    }  # fmt: skip


def _optimized(told: Mapping[str, Any]) -> Row:
    sizes, (before, after) = told["sizes"], told["cost"]
    return {
        "target": told["target"], "result_sha256": told["made"], "verified": told["verified"], "cost_unit": told["unit"],
        "dims": ",".join(f"{name}={size}" for name, size in sorted(sizes.items())),
        "predicted_before": before, "predicted_after": after, "predicted_ratio": after / before if before else None,
        "nodes_before": told["nodes"][0], "nodes_after": told["nodes"][1], "optimize_seconds": told["seconds"]["all"],
        "saturate_seconds": told["seconds"]["saturate"], "extract_seconds": told["seconds"]["extract"], "iterations": told["iterations"],
        "stop": told["stop"], "enodes": told["enodes"], "eclasses": told["eclasses"], "rules_fired": told["rules"], "matches_applied": told["applied"],
    }  # fmt: skip


def _timed(told: Mapping[str, Any]) -> Row:
    row: Row = {"same_outputs": told["same"], "rounds": told["rounds"], "load": told["load"]}
    for name, column in (("before", "measured_before"), ("after", "measured_after"), ("ratio", "ratio")):
        row.update({column: told[name]["median"], f"{column}_low": told[name]["low"], f"{column}_high": told[name]["high"]})
    return row


def cell(value: Any) -> str:
    """As CSV has it: true and false, numbers with all of their digits, nothing where nothing is known."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def csv_of(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """The rows as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(row[name]) for name in columns] for row in rows)
    return text.getvalue()


def write_parquet(path: Path, rows: Sequence[Row], columns: Mapping[str, type]) -> bool:
    """The rows as Parquet; False where pyarrow is not installed."""
    try:
        import pyarrow  # type: ignore[import-not-found,import-untyped,unused-ignore]
        import pyarrow.parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return False
    kinds: Mapping[type, Callable[[], Any]] = {str: pyarrow.string, float: pyarrow.float64, int: pyarrow.int64, bool: pyarrow.bool_}
    arrays = {
        name: pyarrow.array([None if row[name] is None else kind(row[name]) for row in rows], kinds[kind]())
        for name, kind in columns.items()
    }
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(arrays), content)
    write_whole(path, content.getvalue())
    return True
