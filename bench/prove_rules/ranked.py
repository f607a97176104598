"""Laws at each rank up to a bound, for any sizes: both sides as functions from an index of the output to a number.

A run chooses ranks, sorts, attributes and axes where it meets them; all runs together are all choices.
"""
from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import z3

from . import scalars
from .conditions import ALL_ONE_NUMBER, CLAIMS, SORTS, Dtype, Json, Reader, Undecided, Unknown, as_z3, assumed_masks, calls, conjuncts, symbolic
from .losses import Operators
from .tensors import Choices, Space, Tensor, as_int, times
from .values import BOOL, INT, REAL, Context, IllTyped, Refused, number, value

SORTS_OF_Z3 = {REAL: z3.RealSort(), INT: z3.IntSort(), BOOL: z3.BoolSort()}
NUMBERS = {"alpha", "beta", "gamma", "epsilon", "bias", "lambd", "scale", "softcap"}
FLAGS = {"keepdims", "allowzero", "noop_with_empty_axes", "select_last_index", "fmod", "interleaved"}
ONLY_REAL = {*scalars.REAL_FUNCTIONS, "Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "InstanceNormalization", "LpNormalization",
             "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "Sum", "Mean", "com.microsoft.FusedMatMul"}
COUNTS = {"times", "count", "num_groups", "groups"}  # at least one
LOSSES = {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}
VIEWS = {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Concat", "Slice", "Split", "Gather", "Tile", "Identity", "Constant",
         "GatherElements", "Shape"}


class NotApplied(Exception):
    """A `let` has no answer, so that the rule does not apply."""


class Unformed:
    """An input whose rank and sort are not chosen yet."""

    def __init__(self, name: str) -> None:
        self.name = name


class RankedReader(Reader):
    """Terms where shapes are lists of dims."""

    space: Space

    def tensor(self, term: Json) -> Tensor:
        x = self.read(term)
        if not isinstance(x, Tensor):
            raise Unknown("a tensor")
        return x

    def dims(self, term: Json) -> list[Any]:
        x = self.read(term)
        return list(x.dims) if isinstance(x, Tensor) else self.listed(x)

    def f_rank(self, x: Json) -> int:
        return self.tensor(x).rank

    def f_shape(self, x: Json) -> list[Any]:
        return self.dims(x)

    def f_dim(self, x: Json, i: Json) -> Any:
        return self.index(self.dims(x), self.read(i))

    def f_size(self, x: Json) -> Any:
        return times([as_int(d) for d in self.dims(x)])

    def f_len(self, x: Json) -> int:
        found = self.read(x)
        return len(found.content) if isinstance(found, Tensor) and found.content is not None else len(self.listed(found))

    def f_item(self, x: Json) -> Any:
        t = self.tensor(x)
        if t.item is None:
            raise Unknown("one number")
        return t.item

    f_splat_value = f_item

    def f_value(self, x: Json) -> Any:
        t = self.tensor(x)
        if t.content is None:
            raise Unknown("known content")
        return list(t.content)

    def f_scalar_like(self, n: Json, x: Json) -> Tensor:
        return self.filled(self.read(n), [], self.dtype(self.read(x)).sort)

    def f_filled(self, n: Json, dims: Json, x: Json) -> Tensor:
        return self.filled(self.read(n), self.dims(dims), self.dtype(self.read(x)).sort)

    def filled(self, n: Any, dims: Sequence[Any], sort: str) -> Tensor:
        if n is None:
            raise Undecided("an attribute that is absent")
        if isinstance(n, z3.ExprRef) and z3.is_real(n) and sort == INT:  # the engine makes none of a fraction
            self.ctx.premises.append(z3.IsInt(n))
            n = z3.ToInt(n)
        return self.space.filled(n, sort, dims)

    def f_int_tensor(self, n: Json) -> Tensor:
        return self.filled(self.read(n), [], INT)

    def f_ints_tensor(self, xs: Json) -> Tensor:
        return self.space.vector(self.listed(self.read(xs)))

    def f_vector_like(self, xs: Json, x: Json) -> Tensor:
        return self.space.vector(self.listed(self.read(xs)), self.dtype(self.read(x)).sort)

    def f_axes_of(self, axes: Json, x: Json) -> list[int]:
        of = self.read(x)
        rank = of.rank if isinstance(of, Tensor) else self.concrete(of)
        named = self.read(axes)
        if named is None:
            return list(range(rank))
        items = named.content if isinstance(named, Tensor) else self.listed(named)
        if items is None:
            raise Unknown("axes")
        found = [self.concrete(i) for i in items]
        if any(not -rank <= a < rank for a in found):
            raise Undecided("axes")
        axes_found = sorted(a % rank for a in found)
        if len(set(axes_found)) != len(axes_found):
            raise Undecided("an axis twice")
        return axes_found

    def f_broadcast(self, a: Json, b: Json) -> list[Any]:
        x, y = self.dims(a), self.dims(b)
        rank = max(len(x), len(y))
        one = z3.IntVal(1)
        padded = [[one] * (rank - len(s)) + [as_int(d) for d in s] for s in (x, y)]
        return [z3.simplify(z3.If(p == 1, q, p)) for p, q in zip(*padded)]

    def f_trailing(self, axes: Json, x: Json) -> bool:
        of = self.read(x)
        rank = of.rank if isinstance(of, Tensor) else self.concrete(of)
        found = self.f_axes_of(axes, ["int", rank])
        return bool(found) and found == list(range(rank - len(found), rank))

    f_last_axes = f_trailing

    # ---- conditions

    def _condition(self, term: Json) -> z3.BoolRef | None:
        if term[0] == "not" and term[1][:2] == ["call", "may_be_empty"]:
            return z3.And([as_z3(d >= 1) for d in self.dims(term[1][2])])
        return super()._condition(term)

    def test_of_shapes(self, name: str, args: Sequence[Json]) -> z3.BoolRef | None:
        if name == "same_shape":
            return self.same(self.dims(args[0]), self.dims(args[1]))
        if name in ("broadcasts_to", "broadcastable_to"):
            narrow, wide = self.dims(args[0]), self.dims(args[1])
            if len(narrow) > len(wide):
                return z3.BoolVal(False)
            return z3.And([z3.Or(as_int(d) == 1, as_int(d) == as_int(w)) for d, w in zip(narrow, wide[len(wide) - len(narrow):])])
        if name == "scalar":
            ones = z3.And([as_int(d) == 1 for d in self.dims(args[0])])
            return ones if len(args) == 1 else z3.And(ones, z3.BoolVal(len(self.dims(args[0])) <= len(self.dims(args[1]))))
        if name == "no_zero":
            return z3.And([as_int(d) != 0 for d in self.dims(args[0])])
        if name == "moves_only_ones":
            dims, p = self.dims(args[0]), self.ints(args[1])
            pairs = [(p[i], p[j]) for i in range(len(p)) for j in range(i + 1, len(p)) if p[i] > p[j]]
            return z3.And([z3.Or(as_int(dims[a]) == 1, as_int(dims[b]) == 1) for a, b in pairs])
        if name in ("trailing", "last_axes"):
            return as_z3(self.f_trailing(*args))
        raise Unknown(name)


class Run:
    """One choice of ranks, sorts, attributes and axes."""

    def __init__(self, rule: Json, bodies: dict[str, list[Json]], choices: Choices, most: int, absent: frozenset[str]) -> None:
        self.rule, self.bodies, self.choices, self.most = rule, bodies, choices, most
        self.ctx = Context(exact=rule["effect"] == "exact")
        self.ctx.premises += scalars.irrational_facts()
        self.space = Space(self.ctx, choices, most)
        self.operators = Operators(self.space)
        self.env: dict[str, Any] = {name: None if name in absent else Unformed(name) for name in rule["inputs"]}
        self.reader = RankedReader(self.ctx, self.env, rule["lets"])
        self.reader.space = self.space
        self.sorts: set[str] = set()
        self.ranks: dict[str, int] = {}
        self.attributes: dict[str, Any] = {}
        # No dim is longer than what the rule counts with, or assumes.
        self.short_dims = 2**24 if "small_counts" in rule["assumes"] else 2**31 if "2147483647" in str([rule["lets"], rule["where"]]) else 0
        self.only_views = all(n["op"] in VIEWS for n in rule["left"] + rule["right"])

    # ---- inputs

    def conditions_on(self, name: str) -> list[Json]:
        return [c for w in self.rule["where"] for c in conjuncts(w) if len(c) > 2 and ["name", name] in c]

    def form(self, name: str, options: Sequence[str], ranks: Sequence[int] | None = None) -> Tensor:
        """An input with a rank and a sort, its elements unknown."""
        fixed = None
        for term in (c for w in self.rule["where"] for c in conjuncts(w)):
            if term[:2] == ["binary", "=="] and term[2] == ["call", "rank", ["name", name]] and term[3][0] == "int":
                fixed = term[3][1]
            if term[0] == "call" and term[1] in SORTS and ["name", name] in term:
                options = [o for o in options if o in SORTS[term[1]]]
        if self.only_views and REAL in options:
            options = [REAL]
        sort = self.choices.pick(options)
        rank = fixed if fixed is not None else self.choices.pick(list(ranks if ranks is not None else range(self.most + 1)))
        self.sorts.add(sort)
        self.ranks[name] = rank
        dims = [z3.Int(f"{name}_d{n}") for n in range(rank)]
        self.ctx.premises += [d >= 0 for d in dims]
        if self.short_dims:
            self.ctx.premises += [d < self.short_dims for d in dims]
        f = z3.Function(name, *[z3.IntSort()] * rank, SORTS_OF_Z3[sort]) if rank else None
        claims, item = self.claims(name, sort)
        if item is not None and not any(c[:2] in (["call", w] for w in (*ALL_ONE_NUMBER, "all_equal", "splat")) for c in self.conditions_on(name)):
            self.ctx.premises += [d == 1 for d in dims]

        def at(index: tuple[z3.ArithRef, ...]) -> Any:
            e = item if item is not None else f(*index) if f is not None else z3.Const(name, SORTS_OF_Z3[sort])
            for claim in claims:
                self.ctx.fact(claim(e))
            return value(e)
        return self.space.tensor(sort, dims, at, item=item)

    def claims(self, name: str, sort: str) -> tuple[list[Any], z3.ExprRef | None]:
        claims: list[Any] = []
        item = None
        if name in assumed_masks(self.rule) and sort != BOOL:
            claims.append(lambda x: z3.Or(x == 0, x == 1))
        for term in self.conditions_on(name):
            if term[0] != "call" or term[2] != ["name", name]:
                continue
            if term[1] in ALL_ONE_NUMBER or term[1] == "all_equal":
                n = ALL_ONE_NUMBER.get(term[1])
                item = number(self.reader.read(term[3]) if n is None else n, sort)
            elif term[1] in CLAIMS and sort != BOOL:
                bound = [number(self.reader.read(t), REAL) for t in term[3:]]
                claims.append(lambda x, check=CLAIMS[term[1]], bound=bound: check(x, bound))
            elif term[1] in ("scalar", "splat") and item is None:
                item = z3.Const(f"{name}_item", SORTS_OF_Z3[sort])
        asked = [call for source in (*self.rule["where"], *(t for _, t in self.rule["lets"])) for w in ("item", "splat_value") for call in calls(source, w)]
        if item is None and any(call[2] == ["name", name] for call in asked):
            item = z3.Const(f"{name}_item", SORTS_OF_Z3[sort])
        if item is not None:
            for claim in claims:
                self.ctx.fact(claim(item))
        return claims, item

    def axes(self, name: str, rank: int, fewest: int = 0) -> Tensor:
        """A vector of axes: each set of them, counted from the front or from behind."""
        options: list[list[int]] = []
        for n in range(fewest, rank + 1):
            for some in itertools.combinations(range(rank), n):
                options.append(list(some))
                if n:
                    options.append([a - rank for a in reversed(some)])
        chosen = self.choices.pick(options)
        self.attributes[name] = chosen
        return self.space.vector(chosen)

    def numbers(self, name: str, length: int, label: str, least: int | None = None) -> Tensor:
        for term in self.conditions_on(name):
            if term[0] == "call" and term[1] in ALL_ONE_NUMBER and term[2] == ["name", name]:
                return self.space.vector([ALL_ONE_NUMBER[term[1]]] * length)
        items = [z3.Int(f"{label}_{name}_{n}") for n in range(length)]
        if least is not None:
            self.ctx.premises += [i >= least for i in items]
        self.ranks[name] = 1
        return self.space.vector(items)

    def formed(self, name: str, node: Json, at: int, args: Sequence[Any]) -> Tensor:
        """An input as its first reader wants it."""
        op, outputs = node["op"], len(node["outputs"])
        data = args[0] if args and isinstance(args[0], Tensor) else None
        rank = data.rank if data is not None else 0
        lengths = list(range(self.most + 1))
        if op.startswith("Reduce") and at == 1 or op == "Squeeze" and at == 1 or op in ("Slice", "Pad") and at == 3:
            return self.axes(name, rank)
        if op == "Unsqueeze" and at == 1:
            more = self.choices.pick(list(range(0, max(self.most - rank, 0) + 1)))
            options = [list(c) for c in itertools.combinations(range(rank + more), more)]
            chosen = self.choices.pick(options + [[a - rank - more for a in c] for c in options if c])
            return self.space.vector(chosen)
        if op == "Reshape" and at == 1:
            return self.numbers(name, self.choices.pick(lengths), "entry", -1)
        if op == "Expand" and at == 1 or op == "ConstantOfShape":
            return self.numbers(name, self.choices.pick(lengths), "wide", 0)
        if op == "Tile" and at == 1:
            return self.numbers(name, rank, "times", 0)
        if op == "Slice" and at in (1, 2, 4):
            axes = args[3] if len(args) > 3 else None
            length = len(axes.content) if isinstance(axes, Tensor) and axes.content is not None else self.choices.pick(list(range(1, rank + 1)))
            made = self.numbers(name, length, "cut")
            if at == 4:
                self.ctx.premises += [c != 0 for c in made.content or []]
            return made
        if op == "Pad" and at == 1:
            axes = args[3] if len(args) > 3 else None
            return self.numbers(name, 2 * (len(axes.content) if isinstance(axes, Tensor) and axes.content is not None else rank), "pad")
        if op == "Split" and at == 1:
            return self.numbers(name, outputs, "count", 0)
        return self.form(name, self.sort_options(op, at, args), self.ranks_of(node, at))

    def ranks_of(self, node: Json, at: int) -> list[int]:
        """The ranks that an operator takes."""
        op, all_ranks = node["op"], list(range(self.most + 1))
        perm = node["attributes"].get("perm", {}).get("literal")
        if op == "Transpose" and perm is not None:
            return [n for n in all_ranks if n == len(perm)]
        if op == "Gemm":
            return [n for n in all_ranks if n == 2 or at == 2 and n < 2]
        if op == "InstanceNormalization":
            return [n for n in all_ranks if (n >= 3 if at == 0 else n == 1)]
        if op == "MatMul":
            return all_ranks[1:]
        return all_ranks

    @staticmethod
    def sort_options(op: str, at: int, args: Sequence[Any]) -> list[str]:
        if op in ("Gather", "GatherElements") and at == 1 or op in LOSSES and at == 1:
            return [INT]
        if op in LOSSES:
            return [REAL]
        if op in scalars.TRUTHS or op == "Where" and at == 0:
            return [BOOL]
        if op in ONLY_REAL:
            return [REAL]
        group = args[1:] if op == "Where" else args
        others = {a.sort for a in group if isinstance(a, Tensor) and a.sort}
        if others and (Operators.knows(op) or op in ("MatMul", "Gemm", "Concat")):
            return sorted(others)
        if op in ("MatMul", "Gemm") or op in scalars.ARITHMETIC or op in scalars.COMPARISONS or op in scalars.NUMBER_FUNCTIONS:
            return [REAL, INT]
        return [REAL, INT, BOOL]

    # ---- nodes

    def side(self, nodes: Sequence[Json], env: dict[str, Any], reader: RankedReader) -> None:
        for node in nodes:
            outputs = node["outputs"]
            if node["op"] == "Constant":
                env[outputs[0]] = self.constant(node)
                continue
            args: list[Any] = [self.argument(n, env, reader) for n in node["inputs"]]
            order = [0, 3, 1, 2, 4] if node["op"] in ("Slice", "Pad") else range(len(args))
            for at in order:
                if at < len(args) and isinstance(args[at], Unformed):
                    name = args[at].name
                    args[at] = env[name] = self.formed(name, node, at, args)
                    for n, a in enumerate(args):
                        if isinstance(a, Unformed) and a.name == name:
                            args[n] = env[name]
            attributes = {n: self.attribute(n, a, args, env, reader, node["op"]) for n, a in node["attributes"].items()}
            for name, made in zip(outputs, self.node(node["op"], args, attributes, len(outputs))):
                if name:
                    env[name] = made

    def constant(self, node: Json) -> Tensor:
        for name, a in node["attributes"].items():
            if name in ("value_float", "value_int"):
                n = a["literal"]
                return Tensor(None, (), lambda i: value(z3.RealVal(0)), literal=scalars.literal(n) if isinstance(n, float) else n)
            if name == "value_ints":
                return self.space.vector(a["literal"])
            if name == "value_floats":
                listed = [scalars.literal(n) for n in a["literal"]]
                return Tensor(None, (z3.IntVal(len(listed)),), lambda i: value(z3.RealVal(0)), literal=listed)
        raise Refused("a constant tensor")

    def argument(self, name: str, env: dict[str, Any], reader: RankedReader) -> Any:
        if not name:
            return None
        try:
            found = reader.name(name)
        except Undecided as e:
            raise NotApplied(str(e)) from None
        except Unknown as e:
            raise Refused(f"{name}: {e}") from None
        return self.as_tensor(found)

    def as_tensor(self, found: Any) -> Any:
        if found is None or isinstance(found, (Tensor, Unformed)):
            return found
        if isinstance(found, list):
            if all(isinstance(x, int) or isinstance(x, z3.ExprRef) and x.is_int() for x in found):
                return self.space.vector(found)
            return Tensor(None, (z3.IntVal(len(found)),), lambda i: value(z3.RealVal(0)), literal=found)
        if symbolic(found):
            return self.space.filled(found, INT if found.is_int() else REAL, [])
        return Tensor(None, (), lambda i: value(z3.RealVal(0)), literal=found)

    def attribute(self, name: str, a: Json, args: Sequence[Any], env: dict[str, Any], reader: RankedReader, op: str) -> Any:
        if "literal" in a:
            return scalars.literal(a["literal"]) if isinstance(a["literal"], float) else a["literal"]
        if "variable" not in a:
            return "any"
        variable = a["variable"]
        if variable not in env and variable in self.rule["attributes"] and not self.space.showing:
            env[variable] = self.choices.pick(self.options(name, args, variable, op))
            self.attributes[variable] = env[variable]
        try:
            return reader.name(variable)
        except Undecided as e:
            raise NotApplied(str(e)) from None
        except Unknown as e:
            raise Refused(f"{variable}: {e}") from None

    def options(self, name: str, args: Sequence[Any], variable: str, op: str) -> list[Any]:
        rank = args[0].rank if args and isinstance(args[0], Tensor) else 0
        if name == "perm":
            return [list(p) for p in itertools.permutations(range(rank))]
        if name == "axis":
            return list(range(rank + (op == "Flatten")))  # the engine counts axes from the front
        if name in NUMBERS:
            return [z3.Real(f"@{variable}")]
        if name in FLAGS or name == "upper":
            return [0, 1]
        if name in COUNTS:
            n = z3.Int(f"@{variable}")
            self.ctx.premises.append(n >= 1)
            return [n]
        if name in ("offset", "step"):
            return [z3.Int(f"@{variable}")]
        if name.startswith("trans"):
            return [0, 1, 2]
        if name == "to":
            return [Dtype(s, variable) for s in (REAL, INT, BOOL)]
        if name == "approximate":
            return ["none", "tanh"]
        if name == "reduction":
            return ["none", "sum", "mean"]
        if name == "ignore_index":  # absent, or some class
            return [None, z3.Int(f"@{variable}")]
        raise Refused(f"the attribute {name} of {op}")

    def node(self, op: str, args: list[Any], attributes: dict[str, Any], outputs: int) -> list[Tensor]:
        if op == "CastLike":
            raise Refused(op)
        if op in self.bodies:
            return self.body(op, args, attributes)
        return self.operators.run(op, args, attributes, outputs)

    def body(self, op: str, args: list[Any], attributes: dict[str, Any]) -> list[Tensor]:
        """An operator that a rule file defines: the case of its body that fits."""
        for case in self.bodies[op]:
            head = case["left"][0]
            given = args + [None] * (len(head["inputs"]) - len(args))
            if len(given) != len(head["inputs"]) or any((a is None) != (not n) for a, n in zip(given, head["inputs"])):
                continue
            env: dict[str, Any] = {n: self.operators.space.in_sort(a, REAL) for n, a in zip(head["inputs"], given) if n}
            for name, a in head["attributes"].items():
                env[a["variable"]] = attributes[name] if name in attributes else self.default(case, name)
            reader = RankedReader(self.ctx, env, case["lets"])
            reader.space = self.space
            held = [reader.guard(t) for w in case["where"] for t in conjuncts(w)]
            if any(h is not None and z3.is_false(z3.simplify(h)) for h in held):
                continue
            for h in held:
                if h is not None:
                    self.space.require(h)
            self.side(case["right"], env, reader)
            return [env[n] for n in head["outputs"]]
        raise IllTyped(op)

    @staticmethod
    def default(case: Json, name: str) -> Any:
        a = case["left"][0]["attributes"][name]
        if "default" not in a:
            raise Refused(f"the attribute {name}")
        return scalars.literal(a["default"]) if isinstance(a["default"], float) else a["default"]

    # ---- the proof

    def prove(self) -> bool:
        for _ in range(2 if self.rule["where"] else 1):  # once more with what the guards tell of sizes
            self.space.forget()
            self.reader.forget()
            self.side(self.rule["left"], self.env, self.reader)
            for term in (c for w in self.rule["where"] for c in conjuncts(w)):
                held = self.reader.guard(term)
                if held is not None:
                    if z3.is_false(z3.simplify(held)):
                        raise IllTyped("a guard is false")
                    self.ctx.premises.append(held)
            if not self.ctx.consistent():
                raise IllTyped("nothing meets the guards")
        left = {name: self.env[name] for name in self.rule["outputs"]}
        self.space.showing = True
        self.side(self.rule["right"], self.env, self.reader)
        return all(self.agree(left[n], self.as_tensor(self.env[n])) for n in self.rule["outputs"])

    def agree(self, a: Tensor, b: Tensor) -> bool:
        if b.sort is None and a.sort is not None:
            b = self.space.in_sort(b, a.sort)
        if a.sort is None or a.sort != b.sort or a.rank != b.rank:
            return False
        if not all(self.ctx.proves(x == y, facts=False) for x, y in zip(a.dims, b.dims)):
            return False
        index = tuple(z3.Int(f"i{n}") for n in range(a.rank))
        before = list(self.ctx.premises)
        self.ctx.premises += [z3.And(i >= 0, i < d) for i, d in zip(index, a.dims)]
        held = self.ctx.equal(a.at(index), b.at(index))
        if not held and self.choices.taken is not None and not self.ctx.consistent():
            held = True  # no such place
        self.ctx.premises = before
        return held

    def told(self) -> str:
        ranks = ", ".join(f"rank({n}) = {r}" for n, r in self.ranks.items())
        chosen = ", ".join(f"{n} = {v}" for n, v in self.attributes.items())
        return "; ".join(t for t in (ranks, chosen) if t)


class Outcome:
    """What all runs of an instance at ranks up to a bound have shown."""

    def __init__(self) -> None:
        self.met = 0
        self.sorts: set[str] = set()
        self.notes: set[str] = set()
        self.failed = ""
        self.late = False
        self.highest = 0  # rank of what a run held


NAMED = {"perm", "axis", "upper", "offset", "step", "to", "approximate", "reduction", "ignore_index", *NUMBERS, *FLAGS, *COUNTS}


def reached(rule: Json, bodies: dict[str, list[Json]]) -> None:
    """Refused where an operator or an attribute has no denotation."""
    for node in rule["left"] + rule["right"]:
        op = node["op"]
        known = op in ("Constant", "Split", "ArgMax", "ArgMin") or op.startswith("Reduce") or Operators.knows(op)
        if not known and op not in bodies and not hasattr(Operators, "op_" + op.replace(".", "_")):
            raise Refused(op)
        for name, a in node["attributes"].items():
            if "variable" in a and a["variable"] in rule["attributes"] and name not in NAMED and not name.startswith("trans"):
                raise Refused(f"the attribute {name} of {op}")


def prove(rule: Json, bodies: dict[str, list[Json]], most: int, seconds: float, absents: Sequence[frozenset[str]]) -> Outcome:
    out, start = Outcome(), time.process_time()
    for absent in absents:
        prefix: list[int] | None = []
        while prefix is not None:
            choices = Choices(prefix)
            run = Run(rule, bodies, choices, most, absent)
            try:
                if not run.prove():
                    out.failed = run.told() or "no choice"
                    return out
                out.met += 1
                out.sorts |= run.sorts
                out.notes |= run.ctx.notes
                out.highest = max([out.highest, *(x.rank for x in run.env.values() if isinstance(x, Tensor))])
                if run.space.unshown:
                    out.notes.add("where the right side has a type")
            except NotApplied:
                pass
            except IllTyped:
                if run.space.showing:  # the engine builds none
                    out.notes.add("where the right side has a type")
            prefix = choices.following()
            if time.process_time() - start > seconds:
                out.late = True
                return out
    return out
