"""What an optimization did."""
from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from . import _core


def _html_table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    def line(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(_core.printable(str(cell)))}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(header, "th") + "".join(line(row, "td") for row in rows) + "</table>"


class Told:
    """What the core found: a text for people, and details as JSON. `print` shows the one, `to_dict()` has the other."""

    def __init__(self, text: str, details: str) -> None:
        self._text = text
        self._details = details
        self._dict: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything, with the keys of the command's `--json`."""
        if self._dict is None:
            self._dict = json.loads(self._details)
        return self._dict

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Told) and (self._text, self._details) == (other._text, other._details)

    def __hash__(self) -> int:
        return hash(self._details)


class _Kept:
    """What a report of the compiled part told, to be told again in another process."""

    def __init__(self, details: str, tables: tuple[str, ...]) -> None:
        self._details = details
        self._tables = tables

    def json(self) -> str:
        return self._details

    def table(self, verbosity: int) -> str:
        return self._tables[verbosity]


class Report:
    """What an optimization did: `print(report)` shows tables, notebooks show them too, `to_dict()` has everything.

    It can be pickled, and equals what comes back.
    """

    def __init__(self, core: _core.Report | _Kept, interrupted: bool = False) -> None:
        self._core = core
        self._dict: dict[str, Any] | None = None
        self.interrupted = interrupted
        """Whether Ctrl-C ended the rewriting early."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, with the keys of `saturate optimize --report`."""
        if self._dict is None:
            self._dict = json.loads(self._core.json())
        return self._dict

    @property
    def nodes(self) -> tuple[int, int]:
        """Operators before and after."""
        return self.to_dict()["before"]["nodes"], self.to_dict()["after"]["nodes"]

    @property
    def operators(self) -> tuple[dict[str, int], dict[str, int]]:
        """Count of each operator before and after."""
        return self.to_dict()["before"]["operators"], self.to_dict()["after"]["operators"]

    @property
    def cost(self) -> tuple[float, float]:
        """Predicted cost before and after, in the cost model's own unit."""
        return self.to_dict()["cost_before"], self.to_dict()["cost_after"]

    @property
    def stop_reason(self) -> str:
        """Why the rewriting ended: "saturated", a limit, or "cancelled"."""
        return cast(str, self.to_dict()["saturation"]["stop_reason"])

    @property
    def rules(self) -> dict[str, int]:
        """How often each rule that fired was applied."""
        return {rule["rule"]: rule["applied"] for rule in self.to_dict()["saturation"]["rules"]}

    @property
    def not_fused(self) -> list[dict[str, Any]]:
        """Places where attention, a normalization, Gelu, Swish or a rotary embedding might have been made and was not: `operator`, `place`
        (a value) and `op_type`, the `rule` that comes nearest, the `reason`, and `found` where equal models have it and another was chosen.
        `explain` tells more."""
        return cast("list[dict[str, Any]]", self.to_dict()["not_fused"])

    @property
    def verified(self) -> bool:
        """Whether original and result were run and agreed."""
        check = self.to_dict()["verify"]
        return check is not None and check["status"] == "equal"

    @property
    def left_out(self) -> list[dict[str, Any]]:
        """Rules (or all rules of an assumption) that verification blamed, and that the result does without: `rule`, `assumption`,
        `because`, `built_in`."""
        return cast("list[dict[str, Any]]", self.to_dict()["left_out"])

    @property
    def warnings(self) -> list[str]:
        """What to know of this run."""
        return cast("list[str]", self.to_dict()["warnings"])

    def table(self, rules: bool = False) -> str:
        """The tables of the command; `rules`: also the rules that fired."""
        return self._core.table(1 if rules else 0)

    def __str__(self) -> str:
        return self.table()

    def __reduce__(self) -> tuple[Any, ...]:
        return Report, (_Kept(self._core.json(), (self._core.table(0), self._core.table(1))), self.interrupted)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and self.interrupted == other.interrupted and self._core.json() == other._core.json()

    def __hash__(self) -> int:
        return hash(self._core.json())

    @property
    def summary(self) -> str:
        """In a line: operators before and after, whether the result was verified, for which target."""
        verified = "verified" if self.verified else "not verified"
        return f"{self.nodes[0]} -> {self.nodes[1]} operators, {verified}, target {self.to_dict()['target']}"

    def __repr__(self) -> str:
        return f"<onnx_saturate.Report: {self.summary}>"

    def _repr_html_(self) -> str:
        before, after = self.operators
        names = sorted(before.keys() | after.keys())
        rows: list[list[object]] = []
        for name in names:
            a, b = before.get(name, 0), after.get(name, 0)
            rows.append([name, a, b, f"{b - a:+d}" if a != b else ""])
        rows.append(["all", *self.nodes, f"{self.nodes[1] - self.nodes[0]:+d}"])
        facts: list[list[object]] = [
            ["target", self.to_dict()["target"]],
            ["predicted", self.to_dict()["predicted"]],
            ["stopped", self.stop_reason],
            ["verified", "yes" if self.verified else "no"],
        ]
        facts.extend(["warning", warning] for warning in self.warnings)
        return _html_table(["operator", "before", "after", "change"], rows) + _html_table(["", ""], facts)
