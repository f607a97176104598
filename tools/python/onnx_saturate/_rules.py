"""Rules and costs."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Union, cast

from . import _core
from ._errors import OptionError
from ._options import text, texts
from ._python_rules import Rule
from ._values import type_name

Operator = _core.Operator
"""An operator to be priced: `domain` ("" is ai.onnx), `op_type`, `attributes` (a dict), `inputs` and `outputs` (each with `dtype` and
`shape`: None for an unknown rank, else a tuple of numbers and, for symbolic dims, strings)."""

CostModel = Callable[[Operator], float]
"""A cost model of your own: what running one operator costs, a finite number of at least 0. Operators whose result is shared are counted
once. It is called for every e-node, so keep it quick."""


def dtype_name(number: int) -> str:
    """The name in ONNX text of a number of TensorProto.DataType ("float", "int64"), "" where there is none."""
    return type_name(number)


class RuleSet:
    """The rules of a run. Sets never change: each method gives a new one. They can be pickled; files of rules are then read again, by
    their paths.

    >>> rules = onnx_saturate.RuleSet.builtin().without("function_by_hand") + "my.rules"
    """

    def __init__(self, core: _core.RuleSet, made: tuple[tuple[str, tuple[Any, ...]], ...] = ()) -> None:
        self._core = core
        self._made = made  # what made it, a method of the compiled part and its arguments each, to be made again in another process

    def _then(self, method: str, *arguments: Any) -> RuleSet:
        return RuleSet(getattr(self._core, method)(*arguments), (*self._made, (method, arguments)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (self._made,)

    @classmethod
    def builtin(cls) -> RuleSet:
        """The rules that come with saturate, those that approximate too (`optimize` leaves them out unless `approximate=True`)."""
        return cls(_core.RuleSet.builtin(), (("builtin", ()),))

    @classmethod
    def none(cls) -> RuleSet:
        """No rules: nodes are written back as they came, but equal ones become one, and those that no output needs go."""
        return cls(_core.RuleSet.none(), (("none", ()),))

    @classmethod
    def from_text(cls, text: str, name: str = "text.rules") -> RuleSet:
        """Rules in the language of rules/README.md; errors name the place as `name:line:column`."""
        return cls.none().add_text(text, name)

    def add_text(self, text: str, name: str = "text.rules") -> RuleSet:
        """These and those of a text. A name that is taken is an error."""
        return self._then("with_text", text, name)

    def add_file(self, path: str | os.PathLike[str]) -> RuleSet:
        """These and those of a file."""
        return self._then("with_file", os.fspath(path))

    def without(self, *names: str) -> RuleSet:
        """All but these."""
        return self._then("without", list(names))

    def show(self, name: str) -> str:
        """A rule's text."""
        text = self._core.show(name)
        if not text:
            raise KeyError(name)
        return text

    def __add__(self, more: str | os.PathLike[str] | Rule) -> RuleSet:
        return self.add_text(more.text, f"{more.name}.rules") if isinstance(more, Rule) else self.add_file(more)

    def __iter__(self) -> Iterator[str]:
        return iter(self._core.names())

    def __len__(self) -> int:
        return len(self._core.names())

    def __contains__(self, name: object) -> bool:
        return name in self._core.names()

    def __repr__(self) -> str:
        return f"<onnx_saturate.RuleSet of {len(self)} rules>"


def _made_again(made: tuple[tuple[str, tuple[Any, ...]], ...]) -> RuleSet:
    core: Any = _core.RuleSet
    for method, arguments in made:
        core = getattr(core, method)(*arguments)
    return RuleSet(core, made)


Rules = Union[RuleSet, Rule, str, os.PathLike[str], Iterable[Union[Rule, str, os.PathLike[str]]]]
"""A RuleSet, or files and Python's rules beside the built-in ones."""


def _file_of_rules(given: object) -> str:
    path = text("rules", given)
    if ("\n" in path or "=>" in path or path.lstrip().startswith("rule ")) and not os.path.exists(path):
        raise OptionError("rules: this is the text of rules, and files are wanted; give RuleSet.builtin().add_text(TEXT)")
    return path


def rule_set(rules: Rules | None, skip: Iterable[str]) -> _core.RuleSet | None:
    """None: the built-in rules, all of them."""
    if rules is None:
        chosen = None
    elif isinstance(rules, RuleSet):
        chosen = rules._core
    else:
        many = isinstance(rules, Iterable) and not isinstance(rules, (str, bytes, Mapping))
        several: list[Any] = [rules] if isinstance(rules, Rule) else list(cast("Iterable[Any]", rules)) if many else texts("rules", rules)
        chosen = _core.RuleSet.builtin()
        for one in several:
            chosen = chosen.with_text(one.text, f"{one.name}.rules") if isinstance(one, Rule) else chosen.with_file(_file_of_rules(one))
    names = list(skip)
    return chosen if not names else (chosen or _core.RuleSet.builtin()).without(names)
