"""Reductions, products and normalizations."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import z3

from . import scalars
from .operators import Attributes, Operands, axes_in, axis_of, flag
from .parts import Parts
from .tensors import INT, REAL, Index, Tensor, times
from .values import IllTyped, Value, value


class Sums(Parts):
    """Operators that sum, and those made of them."""

    # ---- reductions

    def reduced(self, x: Tensor, axes: Sequence[int], keep: bool, how: Callable[[Value, list[tuple[z3.ArithRef, z3.ArithRef]]], Value],
                sort: str | None = None) -> Tensor:
        kept = [n for n in range(x.rank) if n not in axes]
        dims = [x.dims[n] if n in kept else z3.IntVal(1) for n in range(x.rank) if keep or n in kept]

        def at(index: Index) -> Value:
            outer = {n: index[n if keep else kept.index(n)] for n in kept}
            binders = [(self.ctx.place(x.dims[a]), x.dims[a]) for a in axes]
            inner = dict(zip(axes, (k for k, _ in binders)))
            return how(x.at(tuple(outer[n] if n in outer else inner[n] for n in range(x.rank))), binders)
        return self.space.tensor(sort or x.sort, dims, at)

    def total(self, v: Value, binders: list[tuple[z3.ArithRef, z3.ArithRef]]) -> Value:
        for k, n in binders:
            v = self.ctx.total(v, k, n)
        return v

    def sum_over(self, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
        return self.reduced(x, axes, keep, self.total)

    def mean_over(self, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
        whole = z3.simplify(times([x.dims[a] for a in axes]))
        count = z3.ToReal(whole)

        def how(v: Value, binders: list[tuple[z3.ArithRef, z3.ArithRef]]) -> Value:
            if v.sort == INT:
                return value(scalars.truncated(self.ctx, self.ctx.reify(self.total(v, binders)), whole))
            self.ctx.fact(count != 0)
            return scalars.scaled(self.total(v, binders), lambda e: e / count)
        return self.reduced(x, axes, keep, how)

    def extreme_over(self, x: Tensor, axes: Sequence[int], keep: bool, kind: str) -> Tensor:
        def how(v: Value, binders: list[tuple[z3.ArithRef, z3.ArithRef]]) -> Value:
            return value(self.ctx.fold(kind, tuple(binders), self.ctx.reify(v), x.sort or REAL)) if binders else v
        return self.reduced(x, axes, keep, how)

    def reduction(self, op: str, args: Operands, attributes: Attributes) -> Tensor:
        x = args[0]
        axes = axes_in(args[1] if len(args) > 1 else None, x.rank)
        if axes is None or not axes:
            axes = [] if flag(attributes, "noop_with_empty_axes", 0) else list(range(x.rank))
        keep = bool(flag(attributes, "keepdims", 1))
        if op in ("ReduceMax", "ReduceMin", "ReduceProd"):
            return self.extreme_over(x, axes, keep, op)
        if x.sort != REAL and (x.sort != INT or op not in ("ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceMean")):
            raise IllTyped(op)
        if op == "ReduceMean":
            return self.mean_over(x, axes, keep)
        inner = {"ReduceSumSquare": lambda: self.arith("Mul", x, x), "ReduceL2": lambda: self.arith("Mul", x, x),
                 "ReduceL1": lambda: self.apply("Abs", x), "ReduceLogSumExp": lambda: self.apply("Exp", x)}.get(op, lambda: x)()
        summed = self.sum_over(inner, axes, keep)
        outer = {"ReduceL2": "Sqrt", "ReduceLogSum": "Log", "ReduceLogSumExp": "Log"}.get(op)
        return self.apply(outer, summed) if outer else summed

    def argument(self, op: str, args: Operands, attributes: Attributes) -> Tensor:
        x, axis = args[0], axis_of(attributes.get("axis", 0), args[0].rank)
        last = flag(attributes, "select_last_index", 0)
        how = lambda v, binders: value(self.ctx.named(f"{op}{last}", tuple(binders), self.ctx.reify(v), INT))  # noqa: E731
        return self.reduced(x, [axis], bool(flag(attributes, "keepdims", 1)), how, INT)

    def op_Softmax(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        e = self.apply("Exp", self.reals(args[0]))
        return [self.arith("Div", e, self.sum_over(e, [axis_of(attributes.get("axis", -1), e.rank)], True))]

    def op_LogSoftmax(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x = self.reals(args[0])
        axis = axis_of(attributes.get("axis", -1), x.rank)
        return [self.arith("Sub", x, self.apply("Log", self.sum_over(self.apply("Exp", x), [axis], True)))]

    def reals(self, x: Tensor | None) -> Tensor:
        if x is None or x.sort != REAL:
            raise IllTyped("numbers that are not real")
        return x

    # ---- products

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        if a.sort != b.sort or a.sort not in (REAL, INT) or not a.rank or not b.rank:
            raise IllTyped("MatMul")
        left, right = a, b
        if a.rank == 1:
            left = self.space.tensor(a.sort, [z3.IntVal(1), *a.dims], lambda i: a.at(i[1:]))
        if b.rank == 1:
            right = self.space.tensor(b.sort, [*b.dims, z3.IntVal(1)], lambda i: b.at(i[:1]))
        self.space.require(left.dims[-1] == right.dims[-2])
        batch = self.space.broadcast([left.dims[:-2], right.dims[:-2]])
        count = left.dims[-1]

        def at(index: Index) -> Value:
            k = self.ctx.place(count)
            outer = index[:-2]
            x = left.at((*self.space.broadcast_index(outer, left.dims[:-2], batch), index[-2], k))
            y = right.at((*self.space.broadcast_index(outer, right.dims[:-2], batch), k, index[-1]))
            return self.ctx.total(scalars.multiply(self.ctx, x, y), k, count)
        whole = self.space.tensor(a.sort, [*batch, left.dims[-2], right.dims[-1]], at)
        if a.rank > 1 and b.rank > 1:
            return whole
        rows = [] if a.rank == 1 else [a.dims[-2]]
        columns = [] if b.rank == 1 else [b.dims[-1]]
        zero = z3.IntVal(0)

        def inner(index: Index) -> Value:
            tail = list(index[len(batch):])
            row = zero if a.rank == 1 else tail.pop(0)
            return whole.at((*index[:len(batch)], row, zero if b.rank == 1 else tail.pop(0)))
        return self.space.tensor(a.sort, [*batch, *rows, *columns], inner)

    def op_MatMul(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        a, b = args
        return [self.matmul(a, b)]

    def swapped(self, x: Tensor, yes: int) -> Tensor:
        if not yes:
            return x
        if x.rank < 2:
            raise IllTyped("a matrix")
        return self.transposed(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])

    def scaled(self, x: Tensor, by: Any) -> Tensor:
        return self.arith("Mul", x, self.space.filled(by, x.sort or REAL, []))

    def op_Gemm(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        a, b, c = [*args, None][:3]
        if a.rank != 2 or b.rank != 2:
            raise IllTyped("Gemm")
        y = self.matmul(self.swapped(a, flag(attributes, "transA", 0)), self.swapped(b, flag(attributes, "transB", 0)))
        if "alpha" in attributes:
            y = self.scaled(y, attributes["alpha"])
        if c is not None:
            c = self.space.in_sort(c, y.sort or REAL)
            if c.rank > 2:
                raise IllTyped("Gemm")
            for n, d in zip(reversed(y.dims), reversed(c.dims)):
                self.space.require(z3.Or(d == n, d == 1))
            y = self.arith("Add", y, self.scaled(c, attributes["beta"]) if "beta" in attributes else c)
        return [y]

    def op_com_microsoft_FusedMatMul(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        sides = []
        for x, name in zip(args, "AB"):
            rank = x.rank
            if flag(attributes, f"transBatch{name}", 0):
                if rank < 3:
                    raise IllTyped("a batch")
                x = self.transposed(x, [*range(1, rank - 1), 0, rank - 1])
            sides.append(self.swapped(x, flag(attributes, f"trans{name}", 0) if rank > 1 else 0))
        y = self.matmul(*sides)
        return [self.scaled(y, attributes["alpha"]) if "alpha" in attributes else y]

    # ---- normalizations

    def normalized(self, x: Tensor, axes: Sequence[int], epsilon: Any, centred: bool) -> tuple[Tensor, Tensor, Tensor]:
        x = self.reals(x)
        mean = self.mean_over(x, axes, True)
        d = self.arith("Sub", x, mean) if centred else x
        deviation = self.apply("Sqrt", self.arith("Add", self.mean_over(self.arith("Mul", d, d), axes, True), self.space.filled(epsilon, REAL, [])))
        return self.arith("Div", d, deviation), mean, self.apply("Reciprocal", deviation)

    def onto(self, x: Tensor, other: Tensor | None, op: str) -> Tensor:
        """A scale or a bias, which widens nothing."""
        if other is None:
            return x
        other = self.space.in_sort(other, REAL)
        self.widens_nothing(other.dims, x.dims)
        return self.arith(op, x, other)

    def op_LayerNormalization(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, s, b = [*args, None][:3]
        axis = axis_of(attributes.get("axis", -1), x.rank)
        y, mean, inverse = self.normalized(x, range(axis, x.rank), attributes.get("epsilon", scalars.literal(1e-5)), True)
        return [self.onto(self.onto(y, s, "Mul"), b, "Add"), mean, inverse]

    def op_RMSNormalization(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, s = args
        axis = axis_of(attributes.get("axis", -1), x.rank)
        return [self.onto(self.normalized(x, range(axis, x.rank), attributes.get("epsilon", scalars.literal(1e-5)), False)[0], s, "Mul")]

    op_SimplifiedLayerNormalization = op_RMSNormalization

    def skipped(self, args: Operands, attributes: Attributes, centred: bool) -> list[Tensor]:
        a, b, g, *rest = args
        bias = rest.pop(0) if centred and rest else None
        more = rest.pop(0) if rest else None
        total = self.arith("Add", a, b)
        if not total.rank:
            raise IllTyped("a normalization of a number")
        if more is not None:
            total = self.arith("Add", total, more)
        y, mean, inverse = self.normalized(total, [total.rank - 1], attributes.get("epsilon", scalars.literal(1e-12)), centred)
        return [self.onto(self.onto(y, g, "Mul"), bias, "Add"), mean, inverse, total]

    def op_com_microsoft_SkipLayerNormalization(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        return self.skipped(args, attributes, True)

    def op_com_microsoft_SkipSimplifiedLayerNormalization(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        return self.skipped(args, attributes, False)

    def op_InstanceNormalization(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, s, b = args
        if x.rank < 3:
            raise IllTyped("InstanceNormalization")
        y = self.normalized(x, range(2, x.rank), attributes.get("epsilon", scalars.literal(1e-5)), True)[0]
        return [self.of_channels(self.of_channels(y, s, "Mul"), b, "Add")]

    def of_channels(self, x: Tensor, c: Tensor, op: str) -> Tensor:
        if c.rank != 1:
            raise IllTyped("one number for each channel")
        self.space.require(c.dims[0] == x.dims[1])
        spread = self.space.tensor(c.sort, [c.dims[0], *[z3.IntVal(1)] * (x.rank - 2)], lambda i: c.at(i[:1]), item=c.item)
        return self.arith(op, x, spread)

    def op_GlobalAveragePool(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x = self.reals(args[0])
        if x.rank < 3:
            raise IllTyped("GlobalAveragePool")
        return [self.mean_over(x, range(2, x.rank), True)]

    def op_LpNormalization(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x = self.reals(args[0])
        axis, p = axis_of(attributes.get("axis", -1), x.rank), attributes.get("p", 2)
        norm = self.reduction({1: "ReduceL1", 2: "ReduceL2"}[p], [x, self.space.vector([axis])], {})
        zero, one = self.space.filled(0, REAL, []), self.space.filled(1, REAL, [])
        return [self.arith("Div", x, self.arith("Where", self.arith("Equal", norm, zero), one, norm))]
