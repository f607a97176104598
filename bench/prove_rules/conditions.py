"""Conditions and `let`s of rules as terms of z3.

A condition that is not understood is left out: a law proven without it holds all the more. A `let` that is not understood ends the proof.
"""
from __future__ import annotations

import dataclasses
import fractions
from collections.abc import Callable, Sequence
from typing import Any

import z3

from . import scalars
from .values import BOOL, INT, REAL, Context, Refused, number

Json = Any


class Unknown(Exception):
    """A term that the denotation can't tell."""


class Undecided(Unknown):
    """A question that has no answer for the engine either, as an element behind the end of a list: the rule does not apply."""


@dataclasses.dataclass(frozen=True)
class Dtype:
    """An element type, of which a proof knows the sort, and where it comes from."""
    sort: str
    name: str


DTYPES = {**dict.fromkeys((1, 10, 11, 16), REAL), **dict.fromkeys((2, 3, 4, 5, 6, 7, 12, 13), INT), 9: BOOL}
DTYPE_NAMES = {"float": REAL, "double": REAL, "float16": REAL, "bfloat16": REAL, "bool": BOOL,
               **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), INT)}


def as_dtype(to: Any) -> Dtype:
    """What a Cast's `to` holds."""
    if isinstance(to, Dtype):
        return to
    if not isinstance(to, int) or to not in DTYPES:
        raise Refused("the dtype of a Cast")
    return Dtype(DTYPES[to], str(to))


# Said of all elements of a constant.
CLAIMS: dict[str, Callable[[z3.ExprRef, Sequence[Any]], z3.BoolRef]] = {
    "all_positive": lambda x, a: x > 0,
    "all_nonneg": lambda x, a: x >= 0,
    "never_negative": lambda x, a: x >= 0,
    "nonzero": lambda x, a: x != 0,
    "all_at_least": lambda x, a: x >= a[0],
    "all_at_most": lambda x, a: x <= a[0],
    "zero_or_one": lambda x, a: z3.Or(x == 0, x == 1),
    "zeros_and_ones": lambda x, a: z3.Or(x == 0, x == 1),
    "may_be_mask": lambda x, a: z3.Or(x == 0, x == 1),
}
ALL_ONE_NUMBER = {"all_zeros": 0, "all_ones": 1}
SORTS = {"float": {REAL}, "wide_float": {REAL}, "integer": {INT}, "boolean": {BOOL}, "signed": {REAL, INT}, "numeric": {REAL, INT}}


def conjuncts(term: Json) -> list[Json]:
    if term[0] == "binary" and term[1] == "and":
        return conjuncts(term[2]) + conjuncts(term[3])
    return [term]


def calls(term: Json, name: str) -> list[Json]:
    """Calls of a function, those within `useful` left out."""
    if not isinstance(term, list) or term[:2] == ["call", "useful"]:
        return []
    found = [term] if term[:2] == ["call", name] else []
    return found + [c for part in term for c in calls(part, name)]


def assumed_masks(rule: Json) -> set[str]:
    """Inputs that hold zeros and ones, as the rule assumes: those that become truth values."""
    if "mask_of_zeros_and_ones" not in rule["assumes"]:
        return set()
    return {n["inputs"][0] for n in rule["right"] if n["op"] == "Cast" and n["attributes"]["to"].get("literal") == 9}


def symbolic(*xs: object) -> bool:
    return any(isinstance(x, z3.ExprRef) for x in xs)


def as_z3(x: object) -> z3.ExprRef:
    if isinstance(x, z3.ExprRef):
        return x
    if isinstance(x, bool):
        return z3.BoolVal(x)
    if isinstance(x, int):
        return z3.IntVal(x)
    if isinstance(x, fractions.Fraction):
        return z3.RealVal(x)
    raise Unknown(f"{x!r} as a number")


def both(a: object, b: object) -> tuple[z3.ExprRef, z3.ExprRef]:
    x, y = as_z3(a), as_z3(b)
    if z3.is_bool(x) or z3.is_bool(y):
        return x, y
    if x.is_int() != y.is_int():
        return number(x, REAL), number(y, REAL)
    return x, y


ARITHMETIC: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "/": (lambda a, b: fractions.Fraction(a) / fractions.Fraction(b), lambda a, b: number(a, REAL) / number(b, REAL)),
    "//": (lambda a, b: a // b, lambda a, b: a / b),
    "%": (lambda a, b: a % b, lambda a, b: a % b),
}
ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}


class Reader:
    """Reads terms in an environment of values, attributes and lets; subclasses know what a tensor is."""

    def __init__(self, ctx: Context, env: dict[str, Any], lets: Sequence[Json]) -> None:
        self.ctx, self.env, self.lets = ctx, env, dict(lets)
        self.reading: set[str] = set()

    def forget(self) -> None:
        """What `let`s gave so far."""
        for name in self.reading:
            self.env.pop(name, None)
        self.reading.clear()

    # ---- terms

    def read(self, term: Json) -> Any:
        kind = term[0]
        if kind == "int":
            return term[1]
        if kind == "real":
            return scalars.literal(float(term[1]))
        if kind == "string":
            return term[1]
        if kind == "name":
            return self.name(term[1])
        if kind == "list":
            return [self.read(t) for t in term[1:]]
        if kind == "negate":
            return -self.read(term[1])
        if kind == "index":
            return self.index(self.read(term[1]), self.read(term[2]))
        if kind == "slice":
            whole = self.read(term[1])
            first, last = (None if t is None else self.concrete(self.read(t)) for t in term[2:])
            return self.listed(whole)[first:last]
        if kind == "call":
            return self.call(term[1], term[2:])
        if kind == "binary" and term[1] in ARITHMETIC:
            return self.arithmetic(term[1], self.read(term[2]), self.read(term[3]))
        if kind in ("binary", "not"):
            held = self.condition(term)
            if held is None:
                raise Unknown("a condition")
            return held
        raise Unknown(kind)

    def name(self, name: str) -> Any:
        if name in self.env:
            return self.env[name]
        if name in self.lets and name not in self.reading:
            self.reading.add(name)
            self.env[name] = self.read(self.lets[name])
            return self.env[name]
        if name in DTYPE_NAMES:
            return Dtype(DTYPE_NAMES[name], name)
        if name in ("true", "false"):
            return name == "true"
        raise Unknown(name)

    def listed(self, x: Any) -> list[Any]:
        if isinstance(x, list):
            return x
        raise Unknown("a list")

    def concrete(self, x: Any) -> int:
        if isinstance(x, int):
            return x
        if isinstance(x, z3.ExprRef) and z3.is_int_value(z3.simplify(x)):
            return z3.simplify(x).as_long()
        raise Unknown("a number that is known")

    def index(self, whole: Any, i: Any) -> Any:
        at, items = self.concrete(i), self.listed(whole)
        if not -len(items) <= at < len(items):
            raise Undecided("an index beyond the list")
        return items[at]

    def arithmetic(self, op: str, a: Any, b: Any) -> Any:
        if op == "+" and isinstance(a, list) and isinstance(b, list):
            return a + b
        if isinstance(a, (list, str, Dtype)) or isinstance(b, (list, str, Dtype)):
            raise Unknown(op)
        if not symbolic(a, b):
            as_z3(a), as_z3(b)
            if op in ("/", "//", "%") and b == 0:
                raise Undecided("a quotient by 0")
            return ARITHMETIC[op][0](a, b)
        return ARITHMETIC[op][1](*both(a, b))

    # ---- conditions: a z3 term, or None where it is not understood

    def condition(self, term: Json) -> z3.BoolRef | None:
        try:
            return self._condition(term)
        except Undecided:
            raise
        except Unknown:
            return None

    def guard(self, term: Json) -> z3.BoolRef | None:
        """A condition of `where`: what has no answer does not hold."""
        try:
            return self.condition(term)
        except Undecided:
            return z3.BoolVal(False)

    def part_of_or(self, term: Json) -> z3.BoolRef | None:
        try:
            return self.condition(term)
        except Undecided:
            return None

    def _condition(self, term: Json) -> z3.BoolRef | None:
        kind = term[0]
        if kind == "binary" and term[1] in ("and", "or"):
            parts = [(self.condition if term[1] == "and" else self.part_of_or)(t) for t in term[2:]]
            if term[1] == "and":
                return z3.And([p for p in parts if p is not None])
            return None if None in parts else z3.Or(parts)
        if kind == "not":
            inner = None if self.weak(term[1]) else self.condition(term[1])
            return None if inner is None else z3.Not(inner)
        if kind == "binary" and term[1] in ("==", "!="):
            same = self.same(self.read(term[2]), self.read(term[3]))
            return same if term[1] == "==" or same is None else z3.Not(same)
        if kind == "binary" and term[1] in ORDERS:
            a, b = self.read(term[2]), self.read(term[3])
            return as_z3(ORDERS[term[1]](*((a, b) if not symbolic(a, b) else both(a, b))))
        if kind == "call":
            return self.test(term[1], term[2:])
        held = self.read(term)
        return as_z3(held) if isinstance(held, bool) or z3.is_bool(held) else None

    def weak(self, term: Json) -> bool:
        """Whether `condition` may leave out a part of this, so that its negation would say too much."""
        text = str(term)
        return any(f"'{word}'" in text for word in ("and", "dtype", "signed", "wide_float", "scalar", *CLAIMS, *ALL_ONE_NUMBER))

    def same(self, a: Any, b: Any) -> z3.BoolRef | None:
        if isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return z3.BoolVal(False)
            parts = [self.same(x, y) for x, y in zip(a, b)]
            return None if None in parts else z3.And(parts)
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Dtype) and isinstance(y, int):
                y = Dtype(DTYPES.get(y, ""), str(y))
            if isinstance(x, Dtype) and isinstance(y, Dtype):
                return z3.BoolVal(False) if x.sort != y.sort else None
        if isinstance(a, str) or isinstance(b, str):
            return z3.BoolVal(a == b)
        if not symbolic(a, b):
            return z3.BoolVal(as_z3(a) is not None and as_z3(b) is not None and a == b)
        x, y = both(a, b)
        return x == y

    def test(self, name: str, args: Sequence[Json]) -> z3.BoolRef | None:
        if name in ("absent", "present"):
            there = self.name(args[0][1]) is not None
            return z3.BoolVal(there == (name == "present"))
        if name in SORTS:
            sorts = [self.sort(self.read(a)) for a in args]
            return z3.BoolVal(all(s in SORTS[name] for s in sorts))
        if name == "floating":
            return z3.BoolVal(self.dtype(self.read(args[0])).sort == REAL)
        if name == "same_dtype":
            different = len({self.sort(self.read(a)) for a in args}) > 1
            return z3.BoolVal(False) if different else None
        if name in ("approx", "near"):
            self.ctx.notes.add("numbers that a rule takes for equal are equal")
            return self.same(self.read(args[0]), self.read(args[1]))
        if name == "positive":
            n = self.read(args[0])
            return as_z3(n > 0)
        if name == "nonneg":
            return as_z3(self.read(args[0]) >= 0)
        if name in ("identity_perm", "swaps_last_two", "is_permutation", "contains"):
            held = self.call(name, args)
            return as_z3(held)
        return self.test_of_shapes(name, args)

    def test_of_shapes(self, name: str, args: Sequence[Json]) -> z3.BoolRef | None:
        raise Unknown(name)

    # ---- functions

    def sort(self, x: Any) -> str:
        found = getattr(x, "sort", None)
        if not isinstance(found, str):
            raise Unknown("an element type")
        return found

    def dtype(self, x: Any) -> Dtype:
        if isinstance(x, int) and x in DTYPES:
            return Dtype(DTYPES[x], str(x))
        return x if isinstance(x, Dtype) else Dtype(self.sort(x), "")

    def call(self, name: str, args: Sequence[Json]) -> Any:
        plain = getattr(self, f"f_{name}", None)
        if plain is None:
            raise Unknown(name)
        return plain(*args)

    def ints(self, term: Json) -> list[int]:
        return [self.concrete(i) for i in self.listed(self.read(term))]

    def f_dtype(self, x: Json) -> Dtype:
        return dataclasses.replace(self.dtype(self.read(x)), name=f"dtype({x[1]})" if x[0] == "name" else str(x))

    def f_int(self, x: Json) -> Any:
        return self.read(x)

    def f_abs(self, x: Json) -> Any:
        n = self.read(x)
        return z3.If(n >= 0, n, -n) if symbolic(n) else abs(n)

    def f_max(self, *xs: Json) -> Any:
        return self._best(scalars.high, max, xs)

    def f_min(self, *xs: Json) -> Any:
        return self._best(scalars.low, min, xs)

    def _best(self, symbolically: Callable[..., Any], plainly: Callable[..., Any], xs: Sequence[Json]) -> Any:
        values = [self.read(x) for x in xs]
        if len(values) == 1 and isinstance(values[0], list):
            values = values[0]
        best = values[0]
        for v in values[1:]:
            best = symbolically(*both(best, v)) if symbolic(best, v) else plainly(best, v)
        return best

    def f_sqrt(self, x: Json) -> Any:
        return scalars.root(self.ctx, number(as_z3(self.read(x)), REAL))

    def f_rsqrt(self, x: Json) -> Any:
        return scalars.quotient(self.ctx, z3.RealVal(1), self.f_sqrt(x))

    def f_exp(self, x: Json) -> Any:
        return scalars.exponential(self.ctx, number(as_z3(self.read(x)), REAL))

    def f_log(self, x: Json) -> Any:
        return scalars.logarithm(self.ctx, number(as_z3(self.read(x)), REAL))

    # ---- lists and permutations

    def f_len(self, x: Json) -> int:
        return len(self.listed(self.read(x)))

    def f_range(self, *xs: Json) -> list[int]:
        return list(range(*(self.concrete(self.read(x)) for x in xs)))

    def f_repeat(self, x: Json, n: Json) -> list[Any]:
        return [self.read(x)] * self.concrete(self.read(n))

    def f_select(self, xs: Json, places: Json) -> list[Any]:
        items = self.listed(self.read(xs))
        return [self.index(items, i) for i in self.ints(places)]

    def f_without(self, xs: Json, places: Json) -> list[Any]:
        items, out = self.listed(self.read(xs)), self.ints(places)
        return [x for i, x in enumerate(items) if i not in [o % len(items) for o in out]]

    def f_replace_at(self, xs: Json, i: Json, x: Json) -> list[Any]:
        items, at = list(self.listed(self.read(xs))), self.concrete(self.read(i))
        if not -len(items) <= at < len(items):
            raise Undecided("an index beyond the list")
        items[at] = self.read(x)
        return items

    def f_plus(self, p: Json, q: Json) -> list[Any]:
        return [self.arithmetic("+", a, b) for a, b in zip(self.listed(self.read(p)), self.listed(self.read(q)), strict=True)]

    def f_contains(self, xs: Json, x: Json) -> bool:
        return self.concrete(self.read(x)) in self.ints(xs)

    def f_product(self, xs: Json) -> Any:
        total: Any = 1
        for n in self.listed(self.read(xs)):
            total = self.arithmetic("*", total, n)
        return total

    def f_sum(self, xs: Json) -> Any:
        total: Any = 0
        for n in self.listed(self.read(xs)):
            total = self.arithmetic("+", total, n)
        return total

    def f_inverse(self, p: Json) -> list[int]:
        perm = self.ints(p)
        if sorted(perm) != list(range(len(perm))):
            raise Undecided("no permutation")
        return [perm.index(i) for i in range(len(perm))]

    def f_compose(self, p: Json, q: Json) -> list[int]:
        first, second = self.ints(p), self.ints(q)
        if len(first) != len(second) or sorted(second) != list(range(len(second))):
            raise Undecided("permutations of two lengths")
        return [first[i] for i in second]

    def f_permute(self, xs: Json, p: Json) -> list[Any]:
        items = self.listed(self.read(xs))
        return [self.index(items, i) for i in self.ints(p)]

    def f_identity_perm(self, p: Json) -> bool:
        perm = self.ints(p)
        return perm == sorted(perm)

    def f_is_permutation(self, p: Json) -> bool:
        perm = self.ints(p)
        return sorted(perm) == list(range(len(perm)))

    def f_swap_last_two(self, n: Json) -> list[int]:
        rank = self.concrete(self.read(n))
        if rank < 2:
            raise Undecided("two axes")
        return [*range(rank - 2), rank - 1, rank - 2]

    def f_swaps_last_two(self, p: Json) -> bool:
        perm = self.ints(p)
        return len(perm) >= 2 and perm == [*range(len(perm) - 2), len(perm) - 1, len(perm) - 2]


def not_read(term: Json) -> Refused:
    return Refused(f"its terms: {term}")
