"""Operators on whole tensors that work element by element."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import z3

from . import scalars
from .conditions import as_dtype
from .tensors import INT, REAL, Flat, Index, Space, Tensor, known, one_sort
from .values import BOOL, IllTyped, Refused, Value, value

Attributes = dict[str, Any]
Operands = Sequence[Any]  # tensors; None of what is left out


def axis_of(n: Any, rank: int, beyond: int = 0) -> int:
    if not isinstance(n, int):
        raise Refused("an axis that is not known")
    if not -rank - beyond <= n < rank + beyond:
        raise IllTyped("an axis")
    return n % (rank + beyond) if rank + beyond else 0


def axes_in(t: Tensor | None, rank: int, beyond: int = 0) -> list[int] | None:
    """The axes in a vector, counted from the front; None where it is left out."""
    if t is None:
        return None
    if t.content is None:
        raise Refused("axes that are computed")
    found = [known(c) for c in t.content]
    if None in found:
        raise Refused("axes that are symbols")
    axes = [axis_of(a, rank, beyond) for a in found]
    if len(set(axes)) != len(axes):
        raise IllTyped("an axis twice")
    return axes


def content(t: Tensor | None, what: str) -> list[z3.ArithRef]:
    if t is None or t.content is None:
        raise Refused(what)
    return t.content


def flag(attributes: Attributes, name: str, default: int) -> int:
    n = attributes.get(name, default)
    if not isinstance(n, int):
        raise Refused(f"the attribute {name}")
    return n


class Elementwise:
    """Operators that work element by element, and the helpers of all."""

    def __init__(self, space: Space) -> None:
        self.space, self.ctx = space, space.ctx

    # ---- element by element

    def elementwise(self, op: str, args: Operands, attributes: Attributes) -> Tensor | None:
        there = [a for a in args if a is not None]
        if op == "Where":
            there = [self.space.in_sort(there[0], BOOL), *(self.space.in_sort(a, one_sort(there[1:])) for a in there[1:])]
        elif op == "Pow":
            there = [self.space.in_sort(a, REAL) for a in there]
        else:
            there = [self.space.in_sort(a, one_sort(there)) for a in there]
        probe = scalars.elementwise  # the sorts are checked by the first element that is read
        if not self.knows(op):
            return None
        dims = self.space.broadcast([a.dims for a in there])
        self.sorted(op, there)
        if op == "PRelu":
            self.widens_nothing(there[1].dims, there[0].dims)

        def make(values: Sequence[Value]) -> Value:
            made = probe(self.ctx, op, values, attributes)
            if made is None:
                raise Refused(op)
            return made

        def at(index: Index) -> Value:
            return make([a.at(self.space.broadcast_index(index, a.dims, dims)) for a in there])
        def at_flat(place: Flat) -> Value:
            return make([self.space.read_flat(a, place) for a in there])
        flat = at_flat if all(a.item is not None or self.space.same_dims(a.dims, dims) for a in there) else None
        item = make([value(a.item) for a in there]).expr if all(a.item is not None for a in there) else None
        return self.space.tensor(self.result_sort(op, there), dims, at, at_flat=flat, item=item, content=self.content_of(op, there))

    def content_of(self, op: str, args: Sequence[Tensor]) -> list[Any] | None:
        """Of vectors of known content, as shapes are computed."""
        apply = {"Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b}.get(op)
        if apply is None or len(args) != 2 or any(a.content is None and not (a.item is not None and a.sort == INT) for a in args):
            return None
        length = max(len(a.content) for a in args if a.content is not None) if any(a.content is not None for a in args) else 0
        lists = [a.content if a.content is not None else [a.item] * length for a in args]
        lists = [x * length if len(x) == 1 else x for x in lists]
        return [z3.simplify(apply(x, y)) for x, y in zip(*lists)] if len(lists[0]) == len(lists[1]) else None

    @staticmethod
    def knows(op: str) -> bool:
        tables = (scalars.ARITHMETIC, scalars.REAL_FUNCTIONS, scalars.NUMBER_FUNCTIONS, scalars.COMPARISONS, scalars.TRUTHS)
        return any(op in t for t in tables) or op in ("Equal", "Where", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "com.microsoft.BiasGelu", "IsNaN", "IsInf")

    @staticmethod
    def result_sort(op: str, args: Sequence[Tensor]) -> str:
        if op in scalars.COMPARISONS or op in scalars.TRUTHS or op == "Equal":
            return BOOL
        return args[1 if op == "Where" else 0].sort or REAL

    def sorted(self, op: str, args: Sequence[Tensor]) -> None:
        """IllTyped where the operator does not take these sorts."""
        allowed: tuple[str, ...] = (REAL, INT)
        if op in scalars.REAL_FUNCTIONS or op in ("Sum", "Mean"):
            allowed = (REAL,)
        elif op in scalars.TRUTHS:
            allowed = (BOOL,)
        elif op in ("Equal", "Where"):
            allowed = (REAL, INT, BOOL)
        elif op.startswith("Bitwise"):
            allowed = (INT,)
        group = args[1:] if op == "Where" else args
        if len({a.sort for a in group}) != 1 or group[0].sort not in allowed or op == "Where" and args[0].sort != BOOL:
            raise IllTyped(op)

    def widens_nothing(self, narrow: Index, wide: Index) -> None:
        if len(narrow) > len(wide):
            raise IllTyped("what would widen")
        for a, b in zip(reversed(narrow), reversed(wide)):
            self.space.require(z3.Or(a == 1, a == b))

    def arith(self, op: str, *args: Tensor) -> Tensor:
        made = self.elementwise(op, args, {})
        assert made is not None
        return made

    def apply(self, op: str, x: Tensor, attributes: Attributes | None = None) -> Tensor:
        made = self.elementwise(op, [x], attributes or {})
        assert made is not None
        return made

    def op_Clip(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x = args[0]
        for bound, pick in zip(args[1:], ("Max", "Min")):
            if bound is not None:
                bound = self.space.in_sort(bound, x.sort)
                if bound.rank:
                    raise IllTyped("a bound with dims")
                x = self.arith(pick, x, bound)
        return [x]

    def op_Cast(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        to = as_dtype(attributes["to"])
        return [self.cast(args[0], to.sort, to.name)]

    def cast(self, x: Tensor, sort: str, name: str) -> Tensor:
        if x.sort is None:
            raise Refused("the dtype of a literal")

        def convert(v: Value) -> Value:
            return value(scalars.cast(self.ctx, self.ctx.reify(v), sort, name))
        return self.space.tensor(sort, x.dims, lambda i: convert(x.at(i)), at_flat=lambda f: convert(self.space.read_flat(x, f)),
                                 item=None if x.item is None else convert(value(x.item)).expr)
