"""An e-graph to play with."""
from __future__ import annotations

from collections.abc import Callable, Iterable

from . import _core

Rewrite = tuple[str, str, str]
"""Name, left side, right side."""


class EGraph:
    """The engine alone, over terms as s-expressions. Operators are names; in rules, `?x` is a variable.

    >>> g = onnx_saturate.EGraph()
    >>> a = g.add("(* (+ x 0) 2)")
    >>> g.run([("add-zero", "(+ ?a 0)", "?a"), ("double", "(* ?a 2)", "(<< ?a 1)")])
    'saturated'
    >>> g.extract(a)
    '(<< x 1)'
    """

    def __init__(self) -> None:
        self._core = _core.EGraph()

    def add(self, term: str) -> int:
        """Adds a term; returns an id of its e-class."""
        return self._core.add(term)

    def union(self, a: int, b: int) -> bool:
        """Makes two e-classes one; whether they were two."""
        return self._core.merge(a, b)

    def equal(self, a: int | str, b: int | str) -> bool:
        """Whether two terms (they are added) or e-classes are known to be equal."""
        return self._core.find(self._id(a)) == self._core.find(self._id(b))

    def run(self, rules: Iterable[Rewrite], iterations: int = 30, nodes: int = 1_000_000, seconds: float = 60) -> str:
        """Rewrites until nothing changes or a limit is met; returns why it stopped."""
        return self._core.run(list(rules), iterations, nodes, seconds)[0]

    def extract(self, id: int | str, cost: Callable[[str], float] | None = None) -> str:
        """The cheapest equal term, each operator counted as often as it stands in it. `cost` prices an operator by its name (1 each)."""
        return self._core.extract(self._id(id), cost)[0]

    def cost(self, id: int | str, cost: Callable[[str], float] | None = None) -> float:
        """What `extract`'s term costs."""
        return self._core.extract(self._id(id), cost)[1]

    def explain(self, a: int | str, b: int | str) -> str | None:
        """The chain of rules that made two terms equal; None where they aren't. Add both before `run`: a term that a rule made is known by
        its class only, and the chain then ends at another member of it."""
        return self._core.explain(self._id(a), self._id(b))

    def to_dot(self) -> str:
        """For Graphviz, a cluster per e-class."""
        return self._core.dot()

    def to_json(self, roots: Iterable[int] = ()) -> str:
        """In the format of egraph-serialize, which extraction-gym reads."""
        return self._core.json(list(roots))

    @property
    def num_nodes(self) -> int:
        """E-nodes."""
        return self._core.nodes()

    @property
    def num_classes(self) -> int:
        """E-classes."""
        return self._core.classes()

    def __repr__(self) -> str:
        return f"<onnx_saturate.EGraph: {self.num_nodes} e-nodes in {self.num_classes} e-classes>"

    def __str__(self) -> str:
        return self._core.text()

    def _id(self, of: int | str) -> int:
        return self.add(of) if isinstance(of, str) else of
