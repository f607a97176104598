"""A study to look at: one page of HTML that needs no network, and the same as Markdown with its plots beside it."""
from __future__ import annotations

import html
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._report import _html_table
from ._models import write_whole
from ._plots import Bar, Point, intervals, scatter
from ._run import Finished
from ._scores import COLUMNS
from ._table import Row, cell

_CSS = (
    ":root{color-scheme:light dark}body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em}h1{font-size:1.5em}"
    "h2{font-size:1.15em;margin-top:2em}figure{display:inline-block;vertical-align:top;margin:0 1.5em 1em 0}figcaption{font-weight:600;margin-bottom:.4em}"
    "svg{max-width:100%;height:auto}.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:2px 8px;"
    "text-align:right;white-space:nowrap;border-bottom:1px solid #8883}td:first-child,th:first-child{text-align:left}.failed{color:#d55e00}"
)
_SHOWN = ("model", "family", "dims", "target", "cost", "extractor", "variant", "seed", "nodes_before", "nodes_after", "predicted_ratio", "ratio", "ratio_low",
          "ratio_high", "regret", "tau", "rank_regret", "error_unseen", "measured_before", "measured_after", "optimize_seconds", "extract_seconds", "enodes", "stop", "failed")  # fmt: skip


class Table:
    """A table of the page."""

    def __init__(self, title: str, note: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.title, self.note, self.columns, self.rows = title, note, list(columns), [[_short(value) for value in row] for row in rows]

    def html(self) -> str:
        """For the page."""
        return f'<h2>{html.escape(self.title)}</h2><p>{html.escape(self.note)}</p><div class="wide">{_html_table(self.columns, self.rows)}</div>'

    def markdown(self) -> str:
        """For the summary."""
        lines = ["| " + " | ".join(value.replace("|", "\\|").replace("\n", " ") for value in row) + " |" for row in [self.columns, *self.rows]]
        return "\n".join([f"## {self.title}", self.note, "", lines[0], "|" + "---|" * len(self.columns), *lines[1:], ""])


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else cell(value)


def _name(row: Row, varied: Sequence[str]) -> str:
    return " ".join([row["model"], *(str(row[name]) for name in varied if row[name] not in (None, ""))])


def _varied(rows: Sequence[Row]) -> list[str]:
    """What experiments on one model differ by."""
    return [name for name in ("dims", "target", "cost", "extractor", "variant", "seed") if len({row[name] for row in rows}) > 1]


def plots_of(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Title and SVG by name, in their order."""
    out: dict[str, tuple[str, str]] = {}
    varied = _varied(rows)
    by_cost: dict[str, list[Row]] = {}
    for row in rows:
        by_cost.setdefault(row["cost"], []).append(row)
    if rows and {"predicted_after", "measured_after"} <= rows[0].keys():
        for number, (cost, some) in enumerate(by_cost.items(), 1):
            points = [
                Point(row[f"predicted_{when}"], row[f"measured_{when}"], row["family"], f"{_name(row, varied)}, {when}", when == "before")
                for row in some for when in ("before", "after") if row[f"predicted_{when}"] and row[f"measured_{when}"]
            ]  # fmt: skip
            unit = next((row["cost_unit"] for row in some if row["cost_unit"]), "")
            title = f"{cost}: predicted against measured, originals hollow"
            out[f"predicted-{number}"] = title, scatter(points, title, f"predicted{f', {unit}' if unit else ''}", "measured, s", even=unit == "s")
    if rows and "ratio" in rows[0]:
        bars = [Bar(_name(row, varied), row["ratio"], row["ratio_low"], row["ratio_high"], row["family"]) for row in rows if row["ratio"] is not None]
        title = "time of the result, of the original's, with its interval"
        out["ratios"] = title, intervals(bars, title, 1.0)
        if "extract_seconds" in rows[0]:
            fast = [Point(row["extract_seconds"], row["ratio"], row["extractor"], _name(row, varied)) for row in rows if row["ratio"] and row["extract_seconds"]]
            title = "seconds of extraction against what was won"
            out["extraction"] = title, scatter(fast, title, "seconds of extraction", "time of the result, of the original's", (True, False))
    return {name: plot for name, plot in out.items() if plot[1]}


def summary_of(rows: Sequence[Row]) -> Table:
    """By family, cost model and extractor: how many experiments, what was predicted and what came."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["cost"], row["extractor"], row["family"]), []).append(row)

    def middle(some: Sequence[Row], name: str) -> float | None:
        values = [row[name] for row in some if row.get(name) is not None]
        return statistics.median(values) if values else None

    columns = ("cost", "extractor", "family", "experiments", "failed", "predicted ratio", "measured ratio", "least", "greatest", "seconds to optimize")
    lines = []
    for (cost, extractor, family), some in groups.items():
        ratios = [row["ratio"] for row in some if row.get("ratio") is not None]
        lines.append([
            cost, extractor, family, len(some), sum(bool(row["failed"]) for row in some), middle(some, "predicted_ratio"), middle(some, "ratio"),
            min(ratios, default=None), max(ratios, default=None), middle(some, "optimize_seconds"),
        ])  # fmt: skip
    return Table("By family", "Medians; a ratio is the result over the original, below 1 is faster.", columns, lines)


def scores_of(rows: Sequence[Row]) -> Table:
    """Cost models beside baselines."""
    note = (
        "tau: Kendall's, over pairs of equal graphs whose times differ by more than their noise. rank_regret: time lost by taking the graph that is predicted "
        "to be the fastest. Errors are of times, the scale fitted to the family itself, to other graphs of any family (random), or to other families alone (unseen). "
        "learned: least squares over the baselines' prices, fitted to other families; at random, as it is: choices that ask no model."
    )
    return Table("Cost models", note, list(COLUMNS), [[row[name] for name in COLUMNS] for row in rows])


def _facts(finished: Finished, rows: Sequence[Row]) -> list[str]:
    study, machines = finished.study, sorted({f"{row['processor']} ({row['cores']} cores, {row['system']})" for row in rows if row["processor"]})
    versions = ", ".join(f"{name} {version}" for name, version in finished.environment.items() if version)
    return [
        f"{len(rows)} experiments on {len({row['model_sha256'] for row in rows})} models of {len({row['family'] for row in rows})} families; {len(finished.failures)} pieces failed.",
        f"Made with {versions} on {'; '.join(machines) or 'an unknown machine'}.",
        f"The study's file has the SHA-256 {study.sha256}.",
    ]


def write_page(folder: Path, finished: Finished, rows: Sequence[Row], tables: Sequence[Table]) -> None:
    """results.html, results.md and plots/*.svg."""
    plots, title = plots_of(rows), finished.study.title
    facts = _facts(finished, rows)
    tables = [summary_of(rows), *tables]
    shown = [name for name in _SHOWN if rows and name in rows[0]]
    every = Table("Experiments", "All columns are in results.csv.", shown, [[row[name] for name in shown] for row in rows])
    failures = list(finished.failures)
    told: Mapping[str, str] = {
        "about": "".join(f"<p>{html.escape(text)}</p>" for text in [*filter(None, finished.study.about.split("\n\n")), *facts]),
        "failures": "".join(f'<p class="failed">{html.escape(line)}</p>' for line in failures),
        "plots": "".join(f"<figure><figcaption>{html.escape(name)}</figcaption>{svg}</figure>" for name, svg in plots.values()),
        "tables": "".join(table.html() for table in [*tables, every]),
    }
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    write_whole(folder / "results.html", (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title><style>{_CSS}</style></head>'
        f"<body><h1>{html.escape(title)}</h1>{told['about']}{told['failures']}{told['plots']}{told['tables']}</body></html>\n"
    ).encode())  # fmt: skip
    for name, (_, svg) in plots.items():
        write_whole(folder / "plots" / f"{name}.svg", (svg + "\n").encode())
    pictures = [f"![{name}](plots/{file}.svg)\n" for file, (name, _) in plots.items()]
    lines = [f"# {title}", finished.study.about, "", *facts, "", *(f"- failed: {line}" for line in failures), "", *pictures, *(table.markdown() for table in tables)]
    write_whole(folder / "results.md", "\n".join(lines).encode())
