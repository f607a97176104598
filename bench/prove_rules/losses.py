"""Losses of classes."""
from __future__ import annotations

from typing import Any

import z3

from . import scalars
from .operators import Attributes, Operands
from .sums import Sums
from .tensors import INT, REAL, Index, Tensor
from .values import IllTyped, Refused, Value, number, value


class Operators(Sums):
    """Each operator as a method `op_NAME` that gives its outputs; `run` finds it."""

    def op_NegativeLogLikelihoodLoss(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, t, w = [*args, None][:3]
        x = self.reals(x)
        if t.sort != INT or x.rank < 2 or t.rank != x.rank - 1 or w is not None and w.rank != 1:
            raise IllTyped("a loss")
        for a, b in zip((x.dims[0], *x.dims[2:]), t.dims):
            self.space.require(a == b)
        if w is not None:
            self.space.require(w.dims[0] == x.dims[1])
        ignored, reduction = attributes.get("ignore_index"), attributes.get("reduction", "mean")
        one, none = value(z3.RealVal(1)), value(number(0, REAL))

        def of_class(index: Index, make: Any) -> Value:
            c = self.ctx.reify(t.at(index))
            counted = z3.BoolVal(True) if ignored is None else c != ignored
            with self.ctx.given(counted):
                self.ctx.fact(z3.And(c >= 0, c < x.dims[1]))
                made = make(c)
            return made if ignored is None else scalars.chosen(self.ctx, value(counted), made, none)

        def weight(c: z3.ArithRef) -> Value:
            return one if w is None else w.at((c,))

        def loss(index: Index) -> Value:
            return of_class(index, lambda c: scalars.multiply(self.ctx, scalars.negated(x.at((index[0], c, *index[1:]))), weight(c)))
        losses = self.space.tensor(REAL, t.dims, loss)
        if reduction == "none":
            return [losses]
        total = self.sum_over(losses, range(t.rank), False)
        if reduction == "sum":
            return [total]
        if reduction != "mean":
            raise Refused("how losses are reduced")
        weights = self.space.tensor(REAL, t.dims, lambda i: of_class(i, weight))
        return [self.arith("Div", total, self.sum_over(weights, range(t.rank), False))]

    def op_SoftmaxCrossEntropyLoss(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        logs = self.op_LogSoftmax(args[:1], {"axis": 1})[0]
        return [self.op_NegativeLogLikelihoodLoss([logs, *args[1:]], attributes)[0], logs]

    def run(self, op: str, args: Operands, attributes: Attributes, outputs: int) -> list[Tensor]:
        if op == "Split":
            return self.split(args, attributes, outputs)
        if op.startswith("Reduce"):
            return [self.reduction(op, args, attributes)]
        if op in ("ArgMax", "ArgMin"):
            return [self.argument(op, args, attributes)]
        method = getattr(self, "op_" + op.replace(".", "_"), None)
        if method is not None:
            return method(args, attributes)
        made = self.elementwise(op, args, attributes)
        if made is None:
            raise Refused(f"{op} has no denotation")
        return [made]

