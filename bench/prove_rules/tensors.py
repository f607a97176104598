"""Tensors of a proof: dims that are symbols, and elements as a function of an index; views, broadcasting, and what fills a shape."""
from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import z3

from .values import BOOL, INT, REAL, Context, IllTyped, Refused, Value, number, value

Index = tuple[z3.ArithRef, ...]
T = TypeVar("T")


class Choices:
    """What a run chose of several possibilities: each run replays the beginning of another, and goes on otherwise."""

    def __init__(self, prefix: Sequence[int] = ()) -> None:
        self.prefix = list(prefix)
        self.taken: list[tuple[int, int]] = []

    def pick(self, options: Sequence[T]) -> T:
        if not options:
            raise IllTyped("nothing to choose from")
        if len(options) == 1:
            return options[0]
        at = self.prefix[len(self.taken)] if len(self.taken) < len(self.prefix) else 0
        self.taken.append((at, len(options)))
        return options[at]

    def following(self) -> list[int] | None:
        """The beginning of the next run; None behind the last."""
        taken = list(self.taken)
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        return [i for i, _ in taken[:-1]] + [taken[-1][0] + 1] if taken else None


@dataclasses.dataclass(frozen=True)
class Flat:
    """A place among all elements in order: that of an index in dims."""
    index: Index
    dims: Index


@dataclasses.dataclass
class Tensor:
    sort: str | None                        # None of a literal
    dims: Index
    at: Callable[[Index], Value]
    at_flat: Callable[[Flat], Value] | None = None
    content: list[Any] | None = None        # of a vector of whole numbers whose elements are terms
    literal: Any = None
    item: z3.ExprRef | None = None          # all elements are this one number

    @property
    def rank(self) -> int:
        return len(self.dims)


def times(ns: Sequence[z3.ArithRef]) -> z3.ArithRef:
    return z3.IntVal(1) if not ns else ns[0] if len(ns) == 1 else z3.Product(list(ns))


def as_int(n: Any) -> z3.ArithRef:
    return n if isinstance(n, z3.ExprRef) else z3.IntVal(int(n))


def known(n: z3.ArithRef) -> int | None:
    n = z3.simplify(n)
    return n.as_long() if z3.is_int_value(n) else None


def position(index: Sequence[z3.ArithRef], dims: Sequence[z3.ArithRef]) -> z3.ArithRef:
    place = z3.IntVal(0)
    for i, d in zip(index, dims):
        place = place * d + i
    return z3.simplify(place)


class Space:
    """Makes tensors, and knows which of their requirements are given (the left side's) and which must be shown (the right side's)."""

    def __init__(self, ctx: Context, choices: Choices, most: int) -> None:
        self.ctx, self.choices, self.most = ctx, choices, most
        self.showing = False
        self.unshown: list[z3.BoolRef] = []
        self._resolved: list[tuple[Any, Index, Any, Index]] = []
        self._count = itertools.count()
        self._memo: dict[Any, Value] = {}

    def require(self, condition: z3.BoolRef) -> None:
        """Without this the side has no type."""
        condition = z3.simplify(condition)
        if z3.is_true(condition):
            return
        if z3.is_false(condition):
            raise IllTyped("sizes")
        if not self.showing:
            self.ctx.premises.append(condition)
            if not self.ctx.consistent():
                raise IllTyped("sizes")
        elif not self.ctx.proves(condition, facts=False):
            self.unshown.append(condition)
            self.ctx.premises.append(condition)

    def fresh(self, name: str) -> z3.ArithRef:
        n = z3.Int(f"{name}!{next(self._count)}")
        self.ctx.premises.append(n >= 0)
        return n

    def forget(self) -> None:
        """The dims that Reshapes have made so far: more is known now of what they are made of."""
        self._resolved.clear()

    def is_one(self, n: z3.ArithRef) -> bool:
        return self.ctx.proves(n == 1, facts=False)

    def same(self, a: z3.ArithRef, b: z3.ArithRef) -> bool:
        return z3.eq(a, b) or self.ctx.proves(a == b, facts=False)

    def same_dims(self, a: Index, b: Index) -> bool:
        return len(a) == len(b) and all(self.same(x, y) for x, y in zip(a, b))

    # ---- making

    def tensor(self, sort: str | None, dims: Sequence[z3.ArithRef], at: Callable[[Index], Value], **more: Any) -> Tensor:
        """At the same index the same value: places under binders are named once."""
        made: dict[tuple[int, ...], tuple[Index, Value]] = {}

        def remembered(index: Index) -> Value:
            key = tuple(i.get_id() for i in index)
            if key not in made:
                made[key] = (index, at(index))
            return made[key][1]
        return Tensor(sort, tuple(dims), remembered, **more)

    def filled(self, n: Any, sort: str, dims: Sequence[Any]) -> Tensor:
        exact = number(n, sort)
        return self.tensor(sort, [as_int(d) for d in dims], lambda i: value(exact), item=exact, at_flat=lambda f: value(exact))

    def vector(self, content: Sequence[Any], sort: str = INT) -> Tensor:
        items = [as_int(c) if sort == INT else number(c, sort) for c in content]

        def at(index: Index) -> Value:
            if not items:
                return value(number(0, sort))
            found = items[-1]
            for n, item in reversed(list(enumerate(items[:-1]))):
                found = z3.If(index[0] == n, item, found)
            return value(z3.simplify(found))
        return self.tensor(sort, [z3.IntVal(len(items))], at, content=items if sort == INT else None)

    def in_sort(self, t: Tensor, sort: str) -> Tensor:
        """A literal in the sort that is asked for."""
        if t.sort is not None:
            return t
        if isinstance(t.literal, list):
            return self.vector(t.literal, sort)
        return self.filled(t.literal, sort, [])

    # ---- broadcasting

    def broadcast(self, shapes: Sequence[Index]) -> Index:
        """The shape of what works element by element; a requirement of the side."""
        rank = max(map(len, shapes), default=0)
        out: list[z3.ArithRef] = [z3.IntVal(1)] * rank
        for dims in shapes:
            for n, d in enumerate(dims):
                at = rank - len(dims) + n
                out[at] = self.joined(out[at], d)
        return tuple(out)

    def joined(self, a: z3.ArithRef, b: z3.ArithRef) -> z3.ArithRef:
        if z3.eq(a, b) or self.is_one(b):
            return a
        if self.is_one(a) or self.same(a, b):
            return b
        self.require(z3.Or(a == b, a == 1, b == 1))
        return z3.simplify(z3.If(a == 1, b, a))

    def broadcast_index(self, index: Index, dims: Index, out: Index) -> Index:
        skipped = len(out) - len(dims)
        return tuple(i if z3.eq(d, o) else z3.IntVal(0) if self.is_one(d) else i if self.same(d, o) else z3.simplify(z3.If(d == 1, 0, i))
                     for i, d, o in zip(index[skipped:], dims, out[skipped:]))

    # ---- views by order

    def read_flat(self, t: Tensor, place: Flat) -> Value:
        if t.item is not None:
            return value(t.item)
        if t.at_flat is not None:
            return t.at_flat(place)
        return t.at(self.unflattened(place, t.dims))

    def unflattened(self, place: Flat, dims: Index) -> Index:
        """The index in other dims of the same product."""
        source = [(i, d) for i, d in zip(place.index, place.dims) if not self.is_one(d)]
        wanted = [n for n, d in enumerate(dims) if not self.is_one(d)]
        found: dict[int, z3.ArithRef] = {}
        while source and wanted and self.same(source[0][1], dims[wanted[0]]):
            found[wanted.pop(0)] = source.pop(0)[0]
        while source and wanted and self.same(source[-1][1], dims[wanted[-1]]):
            found[wanted.pop()] = source.pop()[0]
        while source or wanted:
            a, b = self.group([d for _, d in source], [dims[n] for n in wanted])
            for n, i in zip(wanted[:b], self.ungrouped(source[:a], [dims[n] for n in wanted[:b]])):
                found[n] = i
            source, wanted = source[a:], wanted[b:]
        return tuple(found.get(n, z3.IntVal(0)) for n in range(len(dims)))

    def group(self, a: list[z3.ArithRef], b: list[z3.ArithRef]) -> tuple[int, int]:
        """The shortest beginnings of two lists of dims with the same product."""
        for total in range(2, len(a) + len(b)):
            for n in range(max(1, total - len(b)), min(len(a), total - 1) + 1):
                if self.same(times(a[:n]), times(b[:total - n])):
                    return n, total - n
        return len(a), len(b)

    def ungrouped(self, source: list[tuple[z3.ArithRef, z3.ArithRef]], dims: list[z3.ArithRef]) -> list[z3.ArithRef]:
        place = position([i for i, _ in source], [d for _, d in source])
        if len(dims) <= 1:
            return [place] * len(dims)
        name = "unflat!" + "!".join(str(d.get_id()) for d in dims)
        self.ctx.keep(dims)
        parts = [z3.Function(f"{name}!{n}", z3.IntSort(), z3.IntSort())(place) for n in range(len(dims))]
        self.ctx.fact(z3.And(*(z3.And(p >= 0, p < d) for p, d in zip(parts, dims)), position(parts, dims) == place))
        return parts

    def reshaped(self, t: Tensor, dims: Sequence[z3.ArithRef]) -> Tensor:
        out = tuple(dims)
        if self.same_dims(t.dims, out):
            return dataclasses.replace(t, dims=out)
        return self.tensor(t.sort, out, lambda i: self.read_flat(t, Flat(i, out)), at_flat=lambda f: self.read_flat(t, f), item=t.item,
                           content=t.content if len(out) == 1 else None)

    def resolve(self, shape: Tensor, dims: Index, zero_is_zero: Any) -> Index:
        """The dims that Reshape makes: 0 keeps one, -1 is what is left."""
        if shape.content is None:
            raise Refused("a shape that is computed")
        for other, before, flag, out in self._resolved:
            if other is shape and flag == zero_is_zero and self.same_dims(before, dims):
                return out
        made: list[z3.ArithRef] = []
        for n, entry in enumerate(shape.content):
            exact = known(entry)
            if exact == -1:
                made.append(self.fresh("rest"))
            elif exact == 0 and not zero_is_zero:
                if n >= len(dims):
                    raise IllTyped("Reshape")
                made.append(dims[n])
            elif z3.is_const(entry) and entry.decl().name().startswith("entry"):
                made.append(self.of_entry(entry, None if zero_is_zero or n >= len(dims) else dims[n], bool(zero_is_zero)))
            elif exact is not None or zero_is_zero or self.ctx.proves(entry > 0, facts=False):
                made.append(entry)
            else:
                kept = dims[n] if n < len(dims) else entry
                made.append(z3.If(entry == 0, kept, entry))
        out = tuple(made)
        self.require(times(out) == times(dims))
        self._resolved.append((shape, dims, zero_is_zero, out))
        return out

    def of_entry(self, entry: z3.ArithRef, kept: z3.ArithRef | None, zero: bool) -> z3.ArithRef:
        """A dim that an element of an input tells: itself, or one that is kept, or the rest."""
        d = self.fresh("dim")
        ways = [z3.And(entry >= (0 if zero else 1), d == entry), entry == -1]
        if kept is not None:
            ways.append(z3.And(entry == 0, d == kept))
        self.ctx.premises.append(z3.Or(ways))
        return d


def one_sort(args: Sequence[Tensor]) -> str:
    """The sort that literals among operands take."""
    sorts = [a.sort for a in args if a.sort]
    if sorts:
        return sorts[0]
    return REAL if any(hasattr(a.literal, "denominator") and a.literal.denominator != 1 for a in args) else INT


__all__ = ["BOOL", "INT", "REAL", "Choices", "Flat", "Index", "Space", "Tensor", "as_int", "known", "one_sort", "position", "times"]
