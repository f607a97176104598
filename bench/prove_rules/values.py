"""Numbers of a proof: z3 expressions, and sums over places of symbolic many terms that are kept apart until they must be one number.

A Value is a sum of terms, each a body under binders (place, how many places). A Context knows what holds, and asks z3.
"""
from __future__ import annotations

import contextlib
import dataclasses
import fractions
import itertools
from collections.abc import Iterable, Iterator, Sequence

import z3

REAL, INT, BOOL = "real", "int", "bool"
Binders = tuple[tuple[z3.ArithRef, z3.ArithRef], ...]
MILLISECONDS = 3000


class Refused(Exception):
    """The denotation does not reach this."""


class IllTyped(Exception):
    """A side has no type here."""


@dataclasses.dataclass(frozen=True)
class Term:
    binders: Binders
    body: z3.ExprRef


@dataclasses.dataclass(frozen=True)
class Value:
    sort: str
    terms: tuple[Term, ...]

    @property
    def expr(self) -> z3.ExprRef | None:
        """The expression, where no binder is left."""
        if len(self.terms) == 1 and not self.terms[0].binders:
            return self.terms[0].body
        return None


def sort_of(expr: z3.ExprRef) -> str:
    if z3.is_bool(expr):
        return BOOL
    return INT if expr.is_int() else REAL


def value(expr: z3.ExprRef) -> Value:
    return Value(sort_of(expr), (Term((), expr),))


def number(n: object, sort: str) -> z3.ExprRef:
    """A literal in a sort; IllTyped where the sort lacks it."""
    if isinstance(n, z3.ExprRef):
        if sort == REAL and sort_of(n) == INT:
            return z3.ToReal(n)
        if sort_of(n) != sort:
            raise IllTyped(f"a number of sort {sort_of(n)} as {sort}")
        return n
    exact = n if isinstance(n, fractions.Fraction) else fractions.Fraction(str(n))
    if sort == REAL:
        return z3.RealVal(exact)
    if exact.denominator != 1:
        raise IllTyped(f"{n} as {sort}")
    return z3.BoolVal(exact != 0) if sort == BOOL else z3.IntVal(exact.numerator)


def constants_in(expr: z3.ExprRef) -> set[z3.ExprRef]:
    """The uninterpreted constants of an expression."""
    found, seen, stack = set(), set(), [expr]
    while stack:
        e = stack.pop()
        if e.get_id() in seen:
            continue
        seen.add(e.get_id())
        if z3.is_const(e) and e.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found.add(e)
        stack += e.children()
    return found


def factors(expr: z3.ExprRef, power: int = 1) -> list[tuple[z3.ExprRef, int]]:
    """A product's factors with their powers, quotients too."""
    kind = expr.decl().kind()
    if kind == z3.Z3_OP_MUL:
        return [f for e in expr.children() for f in factors(e, power)]
    if kind == z3.Z3_OP_DIV:
        return factors(expr.arg(0), power) + factors(expr.arg(1), -power)
    if kind == z3.Z3_OP_UMINUS:
        return [(z3.RealVal(-1), power), *factors(expr.arg(0), power)]
    return [(expr, power)]


def product(parts: Iterable[tuple[z3.ExprRef, int]]) -> z3.ExprRef:
    over, under = z3.RealVal(1), z3.RealVal(1)
    for base, power in parts:
        for _ in range(abs(power)):
            if power > 0:
                over = base if z3.eq(over, z3.RealVal(1)) else over * base
            else:
                under = base if z3.eq(under, z3.RealVal(1)) else under * base
    return over if z3.eq(under, z3.RealVal(1)) else over / under


class Context:
    """What holds in a proof, and what was named in it."""

    def __init__(self, exact: bool = False) -> None:
        self.exact = exact  # the law says that both sides are the same bits
        self.premises: list[z3.BoolRef] = []  # of sizes and attributes
        self.facts: list[z3.BoolRef] = []     # of elements: where both sides are defined, and what guards say of all elements
        self.notes: set[str] = set()
        self.rounded: dict[str, list[z3.ExprRef]] = {}  # what was rounded, by the type
        self.exponents: dict[int, z3.ExprRef] = {}  # by the id of what exp gave: its argument
        self._cases: list[z3.BoolRef] = []
        self._kept: list[object] = []  # ids are those of living expressions alone
        self._count = itertools.count()
        self._sums: list[tuple[str, Binders, z3.ExprRef, list[z3.ExprRef], z3.ExprRef]] = []
        self._bound: dict[z3.ExprRef, z3.ExprRef] = {}  # place -> how many there are
        self._asked: dict[tuple[int, int, int], bool] = {}

    def place(self, size: z3.ArithRef) -> z3.ArithRef:
        """A new bound variable."""
        k = z3.Int(f"k!{next(self._count)}")
        self._bound[k] = size
        return k

    @contextlib.contextmanager
    def given(self, case: z3.BoolRef) -> Iterator[None]:
        """Facts within hold in this case."""
        self._cases.append(case)
        yield
        self._cases.pop()

    def keep(self, expr: z3.ExprRef) -> None:
        """Lets an expression live, so that its id stays its own."""
        self._kept.append(expr)

    def fact(self, condition: z3.BoolRef) -> None:
        """Holds of elements; of those at bound places where there are such."""
        if z3.is_true(z3.simplify(condition)):
            return
        if self._cases:
            condition = z3.Implies(z3.And(self._cases), condition)
        bound = [z3.And(k >= 0, k < self._bound[k]) for k in sorted(constants_in(condition) & self._bound.keys(), key=str)]
        self.facts.append(z3.Implies(z3.And(bound), condition) if bound else condition)

    # ---- z3

    def proves(self, goal: z3.BoolRef, extra: Sequence[z3.BoolRef] = (), facts: bool = True) -> bool:
        goal = z3.simplify(goal, som=True)
        if z3.is_true(goal):
            return True
        if z3.is_false(goal) and not extra and not self.premises:
            return False
        key = (goal.get_id(), len(self.premises), len(self.facts) if facts else -1, *(e.get_id() for e in extra))
        if key not in self._asked:
            self._kept.append((goal, extra))
            solver = z3.Solver()
            solver.set("timeout", MILLISECONDS)
            solver.add(*self.premises, *extra, *(self.facts if facts else ()))
            solver.add(z3.Not(goal))
            self._asked[key] = solver.check() == z3.unsat
        return self._asked[key]

    def consistent(self, extra: Sequence[z3.BoolRef] = ()) -> bool:
        solver = z3.Solver()
        solver.set("timeout", MILLISECONDS)
        solver.add(*self.premises, *self.facts, *extra)
        return solver.check() != z3.unsat

    # ---- binders

    def renamed(self, expr: z3.ExprRef, pairs: Sequence[tuple[z3.ExprRef, z3.ExprRef]]) -> z3.ExprRef:
        """Other places for bound ones; what holds of the old ones holds of the new ones."""
        if not pairs:
            return expr
        old = {a for a, _ in pairs}
        for fact in list(self.facts):
            if constants_in(fact) & old:
                moved = z3.substitute(fact, *pairs)
                if not any(z3.eq(moved, f) for f in self.facts):
                    self.facts.append(moved)
        return z3.substitute(expr, *pairs)

    @staticmethod
    def bounds(binders: Binders) -> list[z3.BoolRef]:
        return [z3.And(k >= 0, k < n) for k, n in binders]

    def total(self, v: Value, place: z3.ArithRef, size: z3.ArithRef) -> Value:
        """The sum of a value over all places."""
        terms = []
        for t in v.terms:
            body = number(t.body, v.sort) if v.sort != BOOL else t.body
            if not (constants_in(body) & {place}) and not any(constants_in(n) & {place} for _, n in t.binders):
                terms.append(Term(t.binders, body * (z3.ToReal(size) if v.sort == REAL else size)))
            else:
                terms.append(Term((*t.binders, (place, size)), body))
        return Value(v.sort, tuple(terms))

    def reify(self, v: Value) -> z3.ExprRef:
        """One expression for a value: sums get names, equal ones the same."""
        if v.expr is not None:
            return v.expr
        pure = [t.body for t in v.terms if not t.binders]
        groups: dict[int, list[Term]] = {}
        for t in v.terms:
            if t.binders:
                groups.setdefault(len(t.binders), []).append(t)
        parts = list(pure)
        for terms in groups.values():
            for t in terms:
                body, outside = t.body, []
                if v.sort == REAL:
                    mine = {k for k, _ in t.binders}
                    split = factors(body)
                    outside = [f for f in split if not constants_in(f[0]) & mine]
                    body = product(f for f in split if constants_in(f[0]) & mine)
                named = self.named("sum", t.binders, body, v.sort)
                parts.append(product([*outside, (named, 1)]) if outside else named)
        return z3.Sum(parts) if len(parts) > 1 else parts[0]

    def named(self, kind: str, binders: Binders, body: z3.ExprRef, sort: str) -> z3.ExprRef:
        """A name for what binders make of a body; the same for the same."""
        mine = {k for k, _ in binders}
        inside = constants_in(body).union(*(constants_in(n) for _, n in binders))
        free = sorted((inside & self._bound.keys()) - mine, key=str)
        for other_kind, other_binders, other_body, other_free, name in self._sums:
            if other_kind != kind or len(other_binders) != len(binders) or len(other_free) != len(free):
                continue
            for order in itertools.permutations(free):
                pairs = list(zip(other_free, order))
                sized = tuple((k, z3.substitute(n, *pairs) if pairs else n) for k, n in other_binders)
                if self.same_under(binders, body, sized, self.renamed(other_body, pairs)):
                    return z3.substitute(name, *pairs) if pairs else name
        label = f"{kind}!{next(self._count)}"
        result = {REAL: z3.RealSort(), INT: z3.IntSort(), BOOL: z3.BoolSort()}[sort]
        name = z3.Function(label, *(z3.IntSort() for _ in free), result)(*free) if free else z3.Const(label, result)
        self._sums.append((kind, binders, body, free, name))
        if kind == "sum" and sort != BOOL:
            self._sign(binders, body, name)
        return name

    def _sign(self, binders: Binders, body: z3.ExprRef, name: z3.ExprRef) -> None:
        """A sum of what is never negative is so; one of some that are positive is positive."""
        zero = number(0, sort_of(body))
        if self.proves(body >= zero, self.bounds(binders)):
            self.fact(name >= zero)
            if self.proves(body > zero, self.bounds(binders)):
                self.fact(z3.Implies(z3.And([n >= 1 for _, n in binders]), name > zero))

    def fold(self, kind: str, binders: Binders, body: z3.ExprRef, sort: str) -> z3.ExprRef:
        """The largest or least of all places: of one of the same kind, that over all places of both."""
        for other, inner, inside, free, name in self._sums:
            if other == kind and body.decl().name() == name.decl().name():
                pairs = [(k, self.place(n)) for k, n in inner] + list(zip(free, body.children()))
                fresh = tuple((dict(pairs)[k], z3.substitute(n, *pairs)) for k, n in inner)
                return self.named(kind, (*binders, *fresh), self.renamed(inside, pairs), sort)
        return self.named(kind, binders, body, sort)

    def same_under(self, binders: Binders, body: z3.ExprRef, others: Binders, other: z3.ExprRef) -> bool:
        """Whether two bodies are one, some order of the second's binders given."""
        if body.sort() != other.sort():
            return False
        for order in itertools.permutations(others):
            if all(self.proves(n == m, facts=False) for (_, n), (_, m) in zip(binders, order)):
                moved = self.renamed(other, [(b, a) for (a, _), (b, _) in zip(binders, order)])
                if self.proves(body == moved, self.bounds(binders)):
                    return True
        return False

    # ---- equality

    def equal(self, left: Value, right: Value) -> bool:
        if left.sort != right.sort:
            return False
        if left.expr is not None and right.expr is not None:
            return self.proves(left.expr == right.expr)
        if left.sort == BOOL:
            return False
        minus = tuple(Term(t.binders, -t.body) for t in right.terms)
        return self._vanishes(left.terms + minus, left.sort) or self.proves(self.reify(left) == self.reify(right))

    def _vanishes(self, terms: Sequence[Term], sort: str) -> bool:
        """Whether a sum is 0, terms under the same binders taken together."""
        groups: list[tuple[Binders, z3.ExprRef]] = []
        pure = z3.RealVal(0) if sort == REAL else z3.IntVal(0)
        for t in terms:
            if not t.binders:
                pure = pure + t.body
                continue
            for i, (binders, body) in enumerate(groups):
                order = self._aligned(binders, t.binders, body, t.body)
                if order is not None:
                    groups[i] = (binders, body + order)
                    break
            else:
                groups.append((t.binders, t.body))
        for binders, body in groups:
            if self.proves(body == 0, self.bounds(binders)):
                continue
            simple = z3.simplify(body, som=True)
            if len(binders) == 1 and not constants_in(simple) & {binders[0][0]}:
                size = z3.ToReal(binders[0][1]) if sort == REAL else binders[0][1]
                pure = pure + simple * size
                continue
            return False
        return self.proves(pure == 0)

    def _aligned(self, binders: Binders, others: Binders, body: z3.ExprRef, other: z3.ExprRef) -> z3.ExprRef | None:
        """The other body with the first one's places; of several ways the one in which they cancel."""
        if len(binders) != len(others):
            return None
        ways = []
        for order in itertools.permutations(others):
            if all(self.proves(n == m, facts=False) for (_, n), (_, m) in zip(binders, order)):
                ways.append(self.renamed(other, [(b, a) for (a, _), (b, _) in zip(binders, order)]))
        for moved in ways if len(ways) > 1 else ():
            if self.proves(body + moved == 0, self.bounds(binders)):
                return moved
        return ways[0] if ways else None
