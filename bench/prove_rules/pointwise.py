"""Laws that hold at each place by itself, at every rank and for any sizes.

The argument: a side of operators that work element by element has, at an index of its output, a value made of one element of each input:
the one at the index that broadcasting gives (0 along a dim of 1, else the output's). Broadcasting to an inner value and from there on is
broadcasting at once, so each side is a function of these elements, and its shape is the broadcast of the shapes of the inputs it reads.
Both sides are equal if they read inputs of the same broadcast shape (what guards say is absorbed: `broadcasts_to(c, X)`), and the two
functions are. An operator that works otherwise may be a view of what one input gives: that commutes with what works element by element.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import z3

from . import scalars
from .conditions import ALL_ONE_NUMBER, CLAIMS, Dtype, Json, Reader, Unknown, as_dtype, as_z3, assumed_masks, calls, conjuncts
from .values import BOOL, INT, REAL, Context, IllTyped, Refused, Value, number, value

Leaf = tuple[Any, ...]  # the name of an input, and the views of it
Shape = frozenset[Leaf]
VIEWS = {"Transpose", "Reshape", "Slice", "Squeeze", "Unsqueeze", "Flatten", "Gather", "Tile", "DepthToSpace", "SpaceToDepth", "GatherElements"}
SORTS_OF_Z3 = {REAL: z3.Real, INT: z3.Int, BOOL: z3.Bool}


@dataclasses.dataclass
class Point:
    """A tensor, seen at one place."""
    value: Value | None           # None of a literal, which takes the sort that is asked for
    shape: Shape
    literal: Any = None
    alone: bool = False           # all elements are this one number
    key: Any = None               # of an input, for views

    @property
    def sort(self) -> str | None:
        return None if self.value is None else self.value.sort


class NotPointwise(Refused):
    """The law is not one of single places."""


class PointReader(Reader):
    """Terms where shapes are names of inputs."""

    def point(self, term: Json) -> Point:
        x = self.read(term)
        if not isinstance(x, Point):
            raise Unknown("a tensor")
        return x

    def f_item(self, x: Json) -> Any:
        p = self.point(x)
        if p.value is None:
            return p.literal
        if not p.alone or p.value.expr is None:
            raise Unknown("one number")
        return p.value.expr

    f_splat_value = f_item

    def f_scalar_like(self, n: Json, x: Json) -> Point:
        return self.filled(self.read(n), self.dtype(self.read(x)).sort, frozenset())

    def filled(self, n: Any, sort: str, shape: Shape) -> Point:
        exact = as_z3(n) if isinstance(n, z3.ExprRef) else number(n, sort)
        if z3.is_real(exact) and sort == INT:
            raise Unknown("a whole number")
        return Point(value(number(exact, sort) if sort != BOOL else exact), shape, alone=True)

    def f_shape(self, x: Json) -> Shape:
        return self.point(x).shape

    def f_broadcast(self, a: Json, b: Json) -> Shape:
        return self.shape(a) | self.shape(b)

    def f_filled(self, n: Json, dims: Json, x: Json) -> Point:
        shape = self.read(dims)
        if shape == []:
            shape = frozenset()
        if not isinstance(shape, frozenset):
            raise Unknown("a shape")
        return self.filled(self.read(n), self.dtype(self.read(x)).sort, shape)

    def f_mask_fill(self, n: Json, x: Json) -> Any:
        raise Unknown("mask_fill")

    def shape(self, term: Json) -> Shape:
        x = self.read(term)
        if isinstance(x, Point):
            return x.shape
        if isinstance(x, frozenset):
            return x
        raise Unknown("a shape")


def absorbed(reader: PointReader, where: Sequence[Json]) -> list[tuple[Shape, Shape]]:
    """What guards say of shapes: the first of each pair widens nothing that the second is."""
    out: list[tuple[Shape, Shape]] = []
    for term in (c for w in where for c in conjuncts(w)):
        try:
            if term[:2] in (["call", "broadcasts_to"], ["call", "broadcastable_to"]) or term[:2] == ["call", "scalar"] and len(term) == 4:
                out.append((reader.shape(term[2]), reader.shape(term[3])))
            elif term[:2] == ["call", "same_shape"]:
                a, b = reader.shape(term[2]), reader.shape(term[3])
                out += [(a, b), (b, a)]
            elif term[:3] == ["binary", "==", ["int", 0]] or term[0] == "binary" and term[1] == "==" and term[3] == ["int", 0]:
                if term[2][:2] == ["call", "rank"]:
                    out.append((reader.shape(term[2][2]), frozenset()))
            elif term[0] == "binary" and term[1] == "==" and all(t[:2] == ["call", "shape"] for t in term[2:]):
                a, b = (reader.shape(t[2]) for t in term[2:])
                out += [(a, b), (b, a)]
        except Unknown:
            continue
    return out


def closure(shape: Shape, pairs: Sequence[tuple[Shape, Shape]]) -> Shape:
    """All that broadcasts into this shape."""
    grown = True
    while grown:
        grown = False
        for narrow, wide in pairs:
            if wide <= shape and not narrow <= shape:
                shape, grown = shape | narrow, True
    return shape


class Side:
    """Evaluates the nodes of one side."""

    def __init__(self, ctx: Context, reader: PointReader) -> None:
        self.ctx, self.reader = ctx, reader
        self.narrow: list[tuple[Shape, Shape]] = []  # what must widen nothing: the first beside the second

    def run(self, nodes: Sequence[Json]) -> None:
        for node in nodes:
            args = [self.argument(name) for name in node["inputs"]]
            attributes = {}
            for name, a in node["attributes"].items():
                attributes[name] = self.attribute(a)
            results = self.node(node, args, attributes)
            for name, result in zip(node["outputs"], results):
                if name:
                    self.reader.env[name] = result

    def argument(self, name: str) -> Any:
        if not name:
            return None
        try:
            found = self.reader.name(name)
        except Unknown as e:
            raise NotPointwise(f"{name}: {e}") from None
        if isinstance(found, (int, float)) or isinstance(found, z3.ExprRef) or hasattr(found, "numerator"):
            return Point(None, frozenset(), found)
        return found

    def attribute(self, a: Json) -> Any:
        if "literal" in a:
            return scalars.literal(a["literal"]) if isinstance(a["literal"], float) else a["literal"]
        if "variable" in a:
            try:
                return self.reader.name(a["variable"])
            except Unknown as e:
                raise NotPointwise(str(e)) from None
        return "any"

    def node(self, node: Json, args: list[Any], attributes: dict[str, Any]) -> list[Point]:
        op, outputs = node["op"], len(node["outputs"])
        if op == "Constant":
            return [self.constant(attributes)]
        if op == "Identity":
            return [args[0]]
        if op in ("Cast", "CastLike"):
            return [self.cast(node, args, attributes)]
        if op == "Expand":
            if not isinstance(args[0], Point) or args[0].value is None:
                raise NotPointwise("Expand")
            wide = args[1] if isinstance(args[1], frozenset) else frozenset({("shape of", id(args[1]))})
            return [dataclasses.replace(args[0], shape=args[0].shape | wide)]
        if outputs == 1 and all(a is None or isinstance(a, Point) for a in args):
            made = self.elementwise(op, args, attributes)
            if made is not None:
                return [made]
        if op in VIEWS and outputs == 1 and isinstance(args[0], Point) and len(args[0].shape) == 1 and args[0].value is not None:
            return [self.view(op, args, attributes)]
        raise NotPointwise(f"{op} works otherwise than element by element")

    def constant(self, attributes: dict[str, Any]) -> Point:
        for name in ("value_float", "value_int"):
            if name in attributes:
                return Point(None, frozenset(), attributes[name], alone=True)
        raise NotPointwise("a list of numbers")

    def cast(self, node: Json, args: list[Any], attributes: dict[str, Any]) -> Point:
        x = args[0]
        if not isinstance(x, Point) or x.value is None:
            raise NotPointwise("Cast of a literal")
        if len(args) > 1 and isinstance(args[1], Point) and args[1].sort:
            to = Dtype(args[1].sort, f"dtype({node['inputs'][1]})")
        else:
            to = as_dtype(attributes.get("to"))
        return dataclasses.replace(x, value=value(scalars.cast(self.ctx, self.ctx.reify(x.value), to.sort, to.name)))

    def elementwise(self, op: str, args: list[Any], attributes: dict[str, Any]) -> Point | None:
        there = [a for a in args if a is not None]
        group = there[1:] if op == "Where" else there
        sorts = [a.sort for a in group if a.sort]
        if op == "Pow" and sorts and len(sorts) == 1:
            sorts = [group[0].sort or REAL]
        sort = sorts[0] if sorts else REAL
        values = [a.value if a.value is not None else value(number(a.literal, BOOL if op == "Where" and a is there[0] else sort)) for a in there]
        shape = frozenset().union(*(a.shape for a in there))
        if op == "PRelu":
            self.narrow.append((there[1].shape, there[0].shape))
        if op == "Clip":
            self.narrow += [(a.shape, frozenset()) for a in there[1:]]
            padded = iter(values)
            whole = [next(padded) if a is not None else None for a in args]
            scalars.same_sort([v for v in whole if v is not None], REAL, INT)
            return Point(scalars.clipped(self.ctx, whole), args[0].shape, alone=all(a.alone for a in there))  # the bounds have no dims
        made = scalars.elementwise(self.ctx, op, values, attributes)
        return None if made is None else Point(made, shape, alone=bool(there) and all(a.alone for a in there))

    def view(self, op: str, args: list[Any], attributes: dict[str, Any]) -> Point:
        """The view of one input's elements: of each function of an element, that function of the viewed one."""
        x = args[0]
        path = (op, repr(sorted(attributes.items(), key=lambda a: a[0])), tuple(self.identity(a) for a in args[1:]))
        (leaf,) = x.shape
        exprs = self.ctx.reify(x.value)
        seen = self.reader.env["leaves"]
        pairs = []
        for key, const in list(seen.items()):
            if (*key, path) in seen:
                pairs.append((const, seen[(*key, path)]))
                continue
            moved = z3.Const(f"{key}{path}", const.sort())
            pairs.append((const, moved))
            seen[(*key, path)] = moved
        numbers = [p for p in pairs]
        for (key, claims) in list(self.reader.env["claims"].items()):
            if key in seen and (*key, path) in seen:
                self.reader.env["claims"][(*key, path)] = claims
                for claim in claims:
                    self.ctx.fact(claim(seen[(*key, path)]))
        return Point(value(self.ctx.renamed(exprs, numbers)), frozenset({(*leaf, path)}), alone=x.alone)

    def identity(self, a: Any) -> Any:
        """What tells an operand of a view from others."""
        if isinstance(a, Point) and a.value is not None:
            return (str(a.value.terms), a.shape)
        return repr(a)


def input_point(ctx: Context, name: str, sort: str, env: dict[str, Any], rule: Json) -> Point:
    """An input at one place, with what guards say of all its elements."""
    where, lets, masks = rule["where"], rule["lets"], assumed_masks(rule)
    const = SORTS_OF_Z3[sort](name)
    env["leaves"][(name,)] = const
    alone = False
    claims = env["claims"].setdefault((name,), [])
    if name in masks and sort != BOOL:
        claims.append(lambda x: z3.Or(x == 0, x == 1))
        ctx.fact(claims[-1](const))
    for term in (c for w in where for c in conjuncts(w)):
        if term[0] != "call" or len(term) < 3 or term[2] != ["name", name]:
            continue
        if term[1] in ALL_ONE_NUMBER or term[1] == "all_equal":
            n = ALL_ONE_NUMBER.get(term[1])
            if n is None:
                n = Reader(ctx, env, lets).read(term[3])
            return Point(value(number(n, sort)), frozenset({(name,)}), alone=True)
        if term[1] in CLAIMS and sort != BOOL:
            bound = [number(Reader(ctx, env, lets).read(t), REAL) for t in term[3:]]
            check = CLAIMS[term[1]]
            claims.append(lambda x, check=check, bound=bound: check(x, bound))
            ctx.fact(claims[-1](const))
        alone = alone or term[1] in ("scalar", "splat")
    asked = [call for source in (*where, *(t for _, t in lets)) for word in ("item", "splat_value") for call in calls(source, word)]
    alone = alone or any(call[2] == ["name", name] for call in asked)
    return Point(value(const), frozenset({(name,)}), alone=alone)


def prove(rule: Json, sorts: dict[str, str], attributes: dict[str, Any], absent: frozenset[str]) -> tuple[bool, Context]:
    """Whether both sides agree, of inputs of these sorts. IllTyped where the left side has no type, NotPointwise where it is no such law."""
    ctx = Context(exact=rule["effect"] == "exact")
    ctx.premises += scalars.irrational_facts()
    env: dict[str, Any] = {"leaves": {}, "claims": {}, **attributes}
    for name in rule["inputs"]:
        env[name] = None if name in absent else input_point(ctx, name, sorts[name], env, rule)
    reader = PointReader(ctx, env, rule["lets"])
    found = Side(ctx, reader)
    found.run(rule["left"])
    for term in (c for w in rule["where"] for c in conjuncts(w)):
        held = reader.guard(term)
        if held is not None:
            if z3.is_false(z3.simplify(held)):
                raise IllTyped("a guard is false")
            ctx.premises.append(held)
    left = {name: env[name] for name in rule["outputs"]}
    pairs = absorbed(reader, rule["where"]) + found.narrow
    if not ctx.consistent():
        raise IllTyped("nothing meets the guards")
    try:
        made = Side(ctx, reader)
        made.run(rule["right"])
    except Unknown as e:
        raise NotPointwise(str(e)) from None
    if not all(narrow <= closure(wide, pairs) for narrow, wide in made.narrow):
        raise NotPointwise("shapes that guards tell")
    for name in rule["outputs"]:
        a, b = left[name], env[name]
        if not isinstance(a, Point) or not isinstance(b, Point) or a.value is None:
            raise NotPointwise("an output")
        right = b.value if b.value is not None else value(number(b.literal, a.value.sort))
        if not (a.shape <= closure(b.shape, pairs) and b.shape <= closure(a.shape, pairs)):
            raise NotPointwise("shapes that guards tell")
        if not ctx.equal(a.value, right):
            return False, ctx
    return True, ctx
