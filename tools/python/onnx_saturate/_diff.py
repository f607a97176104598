"""What differs between two models."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _convert, _core
from ._convert import ModelLike
from ._optimize import _core_options
from ._options import Options
from ._report import Told, _html_table

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Difference(Told):
    """What differs between two models: `print(difference)` shows it, notebooks show a table, `to_dict()` has everything."""

    def __init__(self, equal: bool, text: str, details: str) -> None:
        super().__init__(text, details)
        self.equal = equal
        """Whether nothing differs but names of inner values."""

    @property
    def regions(self) -> list[dict[str, Any]]:
        """Nodes of both models between values that both have: `outputs`, `before`, `after`, `rules` and more."""
        regions: list[dict[str, Any]] = self.to_dict()["regions"]
        return regions

    def __repr__(self) -> str:
        found = self.to_dict()
        what = "equal" if self.equal else f"{len(found['regions'])} regions in {len(found['groups'])} forms"
        return f"<Difference: {found['nodes_before']} -> {found['nodes_after']} operators, {what}>"

    def _repr_html_(self) -> str:
        found = self.to_dict()

        def operators(nodes: list[dict[str, Any]]) -> str:
            counts: dict[str, int] = {}
            for node in nodes:
                counts[node["op_type"]] = counts.get(node["op_type"], 0) + 1
            return "  ".join(f"{name} x{count}" if count > 1 else name for name, count in counts.items())

        rows: list[list[object]] = []
        for group in found["groups"]:
            region = found["regions"][group["regions"][0]]
            rows.append([group["label"], len(group["regions"]), operators(region["before"]), operators(region["after"]), " \u2192 ".join(region["rules"])])
        rows.append(["all", len(found["regions"]), found["nodes_before"], found["nodes_after"], ""])
        return _html_table(["where", "alike", "before", "after", "rules"], rows)


def diff(first: ModelLike, second: ModelLike, **options: Unpack[Options]) -> Difference:
    """What differs between two models, whatever tool made them: regions between values that both have, and interface, opsets, weights.

    Both are run on the same random inputs, to tell which values are equal. Of the options: `dims` and `input_shapes` (sizes to run at),
    `seed`, `time_limit`, `max_memory`, `threads`, `runtime`, `custom_op_library`, `base_dir`; `target` and `cost` for what is predicted.
    """
    a = _convert.to_core(first, options.get("base_dir"))
    b = _convert.to_core(second, options.get("base_dir"))
    return Difference(*_core.diff(a, b, _core_options(options, a)))
