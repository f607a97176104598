"""What verbs find: mappings with the keys of the command's `--json`, that print as text, and give tables."""
from __future__ import annotations

from typing import Any, ClassVar

from . import _core
from ._errors import OptionError, UnsupportedError
from ._report import _html_table

Rows = list[dict[str, Any]]


class Result(dict[str, Any]):
    """A mapping with the keys of the command's `--json`: `print` shows it as text, notebooks as a table, `to_dataframe()` gives pandas'."""

    _tables: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """A plain dict of it."""
        return dict(self)

    def rows(self, table: str = "") -> Rows:
        """One of its tables, a dict for each row; the first one where none is named."""
        name = table or self._tables[0]
        if name not in self._tables:
            raise OptionError(f"table: {table!r} is none; give one of {', '.join(self._tables)}")
        return self._rows(name)

    def to_dataframe(self, table: str = "") -> Any:
        """`rows(table)` as a pandas.DataFrame."""
        try:
            import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
        except ImportError:
            raise UnsupportedError("to_dataframe: pandas is not installed; pip install pandas, or take rows()") from None
        return pandas.DataFrame(self.rows(table))

    def _rows(self, table: str) -> Rows:
        told: Rows = self.get(table) or []
        return told

    def _summary(self) -> str:
        return ""

    def __str__(self) -> str:
        rows = self.rows()
        header = list(rows[0]) if rows else []
        cells = [header, *([_shown(row[name]) for name in header] for row in rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells if header]
        return _core.printable("\n".join([self._summary(), *lines]))

    def __repr__(self) -> str:
        return _core.printable(f"<onnx_saturate.{type(self).__name__}: {self._summary()}>")

    def _repr_html_(self) -> str:
        rows = self.rows()
        return _html_table([self._summary(), *list(rows[0])[1:]], [list(map(_said, row.values())) for row in rows]) if rows else _html_table([self._summary()], [])


def _said(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(str(item.get("reason", item)) if isinstance(item, dict) else str(item) for item in value)
    return "" if value is None else str(value)


def _shown(value: object, most: int = 60) -> str:
    text = _said(value)
    return text if len(text) <= most else text[: most - 3] + "..."


class Inspected(Result):
    """What is in a model; `rows` of "operators" (the first), "fused", "inputs", "outputs", "initializers"."""

    _tables = ("operators", "fused", "inputs", "outputs", "initializers")

    def _rows(self, table: str) -> Rows:
        told = self[table if table != "initializers" else "initializer_types"]
        if table in ("operators", "fused"):
            return [{"operator": name, "count": count} for name, count in told.items()]
        if table == "initializers":
            return [{"type": name, **counts} for name, counts in told.items()]
        return [dict(row) for row in told]

    def _summary(self) -> str:
        opsets = ", ".join(f"{domain} {version}" for domain, version in self["opsets"].items())
        return f"{self['nodes']} nodes, {self['parameters']:,} parameters, opsets {opsets}"


class Explained(Result):
    """Which rules made what, and why others were not made; `rows` of "kinds" (of a question: "places"), "made_by_rules", "rules"."""

    _tables = ("kinds", "places", "made_by_rules", "rules")

    def rows(self, table: str = "") -> Rows:
        """One of its tables; where none is named "kinds", or what answers the question: "places", or "made_by_rules"."""
        answers = [name for name in self._tables[:3] if self.get(name)]
        return super().rows(table or (answers[0] if answers else ""))

    def _rows(self, table: str) -> Rows:
        if table != "kinds":
            return super()._rows(table)
        return [
            {"kind": kind["kind"], "found": kind["found"], "expected": kind["expected"],
             "operators": [f"{count} {name}" for name, count in kind["operators"].items()],
             "rest": [f"{part['count']} {part['what']}: {part['reason']}" + (f": {part['help']}" if part["help"] else "") for part in kind["rest"]]}
            for kind in self.get("kinds") or []
        ]  # fmt: skip

    def _summary(self) -> str:
        return str(self.get("predicted") or self.get("stop_reason") or "")


class Benched(Result):
    """How long models took; `rows` of "models" (the first), "runs" and "operators", times in seconds."""

    _tables = ("models", "runs", "operators")

    @property
    def seconds(self) -> float:
        """The median of the first model's runs."""
        median: float = self["models"][0]["seconds"]["median"]
        return median

    @property
    def ratio(self) -> float | None:
        """The median of paired ratios of the second model to the first; None of one model."""
        ratio: float | None = self["ratio"]["median"] if "ratio" in self else None
        return ratio

    def _rows(self, table: str) -> Rows:
        if table == "models":
            return [{"model": one["model"], "runs": one["runs"], **one["seconds"]} for one in self["models"]]
        if table == "runs":
            return [{"model": one["model"], "run": run, "seconds": took} for one in self["models"] for run, took in enumerate(one["all_seconds"])]
        return [{"model": one["model"], **row} for one in self["models"] for row in one.get("operators", [])]

    def _summary(self) -> str:
        beside = "" if self.ratio is None else f", the other takes {self.ratio:.3f} of it"
        return f"{self.seconds * 1e3:.4g} ms in {self['runtime']}, {self['threads']} threads{beside}"
