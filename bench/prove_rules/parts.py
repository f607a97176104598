"""Views of tensors, and their parts."""
from __future__ import annotations

from collections.abc import Sequence

import z3

from . import scalars
from .operators import Attributes, Elementwise, Operands, axes_in, axis_of, content, flag
from .tensors import INT, Index, Tensor, known, one_sort, times
from .values import IllTyped, Refused, Value, number, value


class Parts(Elementwise):
    """Operators that move elements, or pick some."""

    # ---- views

    def op_Identity(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        return [args[0]]

    def transposed(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        if sorted(perm) != list(range(x.rank)):
            raise IllTyped("a permutation")
        back = [list(perm).index(n) for n in range(x.rank)]
        return self.space.tensor(x.sort, [x.dims[p] for p in perm], lambda i: x.at(tuple(i[b] for b in back)), item=x.item)

    def op_Transpose(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x = args[0]
        return [self.transposed(x, attributes.get("perm", list(reversed(range(x.rank)))))]

    def op_Reshape(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, shape = args
        return [self.space.reshaped(x, self.space.resolve(shape, x.dims, flag(attributes, "allowzero", 0)))]

    def op_Squeeze(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x = args[0]
        axes = axes_in(args[1] if len(args) > 1 else None, x.rank)
        if axes is None:
            axes = [n for n, d in enumerate(x.dims) if self.space.choices.pick([True, False])]
            for n, d in enumerate(x.dims):
                self.space.require((d == 1) if n in axes else (d != 1))
        for a in axes:
            self.space.require(x.dims[a] == 1)
        return [self.space.reshaped(x, [d for n, d in enumerate(x.dims) if n not in axes])]

    def op_Unsqueeze(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x = args[0]
        raw = content(args[1], "axes that are computed")
        axes = axes_in(args[1], x.rank + len(raw)) or []
        rest = iter(x.dims)
        return [self.space.reshaped(x, [z3.IntVal(1) if n in axes else next(rest) for n in range(x.rank + len(raw))])]

    def op_Flatten(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, n = args[0], attributes.get("axis", 1)
        if not isinstance(n, int) or not -x.rank <= n <= x.rank:
            raise IllTyped("an axis")
        at = n + x.rank if n < 0 else n
        return [self.space.reshaped(x, [z3.simplify(times(x.dims[:at])), z3.simplify(times(x.dims[at:]))])]

    def op_Expand(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, shape = args
        dims = self.space.broadcast([x.dims, tuple(content(shape, "a shape that is computed"))])
        return [self.space.tensor(x.sort, dims, lambda i: x.at(self.space.broadcast_index(i, x.dims, dims)), item=x.item)]

    def op_Shape(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        return [self.space.vector(list(args[0].dims))]

    # ---- parts

    def op_Concat(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        first = args[0]
        axis = axis_of(attributes["axis"], first.rank)
        joined = first
        for other in args[1:]:
            joined = self.concat(joined, other, axis)
        return [joined]

    def concat(self, a: Tensor, b: Tensor, axis: int) -> Tensor:
        if a.rank != b.rank or a.sort != b.sort:
            raise IllTyped("Concat")
        for n in range(a.rank):
            if n != axis:
                self.space.require(a.dims[n] == b.dims[n])
        first = a.dims[axis]
        dims = [*a.dims[:axis], z3.simplify(first + b.dims[axis]), *a.dims[axis + 1:]]

        def at(index: Index) -> Value:
            i = index[axis]
            moved = (*index[:axis], z3.simplify(i - first), *index[axis + 1:])
            if self.ctx.proves(i < first, facts=False):
                return a.at(index)
            if self.ctx.proves(i >= first, facts=False):
                return b.at(moved)
            return scalars.chosen(self.ctx, value(i < first), a.at(index), b.at(moved))
        whole = a.content + b.content if a.content is not None and b.content is not None else None
        return self.space.tensor(a.sort, dims, at, content=whole)

    def part(self, x: Tensor, axis: int, start: z3.ArithRef, count: z3.ArithRef, step: z3.ArithRef | int = 1) -> Tensor:
        dims = [*x.dims[:axis], count, *x.dims[axis + 1:]]
        return self.space.tensor(x.sort, dims, lambda i: x.at((*i[:axis], z3.simplify(start + i[axis] * step), *i[axis + 1:])), item=x.item)

    def split(self, args: Operands, attributes: Attributes, outputs: int) -> list[Tensor]:
        x = args[0]
        axis = axis_of(attributes.get("axis", 0), x.rank)
        sizes = args[1] if len(args) > 1 else None
        if sizes is None:
            each = z3.simplify((x.dims[axis] + outputs - 1) / outputs)
            counts = [each] * (outputs - 1) + [z3.simplify(x.dims[axis] - each * (outputs - 1))]
            self.space.require(counts[-1] >= 0)
        else:
            counts = list(content(sizes, "sizes that are computed"))
            if len(counts) != outputs:
                raise IllTyped("Split")
            self.space.require(z3.And(z3.Sum(counts) == x.dims[axis], *(c >= 0 for c in counts)))
        parts, start = [], z3.IntVal(0)
        for count in counts:
            parts.append(self.part(x, axis, start, count))
            start = z3.simplify(start + count)
        return parts

    def op_Slice(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, starts, ends, axes, steps = [*args, None, None][:5]
        first, last = content(starts, "starts that are computed"), content(ends, "ends that are computed")
        along = axes_in(axes, x.rank)
        by = [z3.IntVal(1)] * len(first) if steps is None else content(steps, "steps that are computed")
        if along is None:
            along = list(range(len(first)))
        if not len(first) == len(last) == len(along) == len(by) <= x.rank:
            raise IllTyped("Slice")
        for axis, s, e, step in zip(along, first, last, by):
            x = self.sliced(x, axis, s, e, step)
        return [x]

    def sliced(self, x: Tensor, axis: int, start: z3.ArithRef, end: z3.ArithRef, step: z3.ArithRef) -> Tensor:
        d, n = x.dims[axis], known(step)
        forward = n > 0 if n is not None else self.space.choices.pick([True, False])
        if n is None:
            self.space.require(step > 0 if forward else step < 0)
        low, high = (z3.IntVal(0), d) if forward else (z3.IntVal(-1), d - 1)
        cut = lambda i, least: z3.If(i < 0, z3.If(i + d < least, least, i + d), z3.If(i > high, high, i))  # noqa: E731
        s, e = z3.simplify(cut(start, z3.IntVal(0))), z3.simplify(cut(end, low))
        span = (e - s + step - 1) / step if forward else (s - e - step - 1) / -step
        count = z3.simplify(z3.If(span > 0, span, 0))
        return self.part(x, axis, s, count, step)

    def op_Gather(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, at = args
        at = self.space.in_sort(at, INT)
        if at.sort != INT:
            raise IllTyped("Gather")
        axis = axis_of(attributes.get("axis", 0), x.rank)
        dims = [*x.dims[:axis], *at.dims, *x.dims[axis + 1:]]

        def element(index: Index) -> Value:
            place = self.place(at.at(index[axis:axis + at.rank]), x.dims[axis])
            return x.at((*index[:axis], place, *index[axis + at.rank:]))
        return [self.space.tensor(x.sort, dims, element, item=x.item)]

    def place(self, v: Value, d: z3.ArithRef) -> z3.ArithRef:
        """An index that may count from behind; it is in bounds."""
        i = self.ctx.reify(v)
        self.ctx.fact(z3.And(i >= -d, i < d))
        return z3.simplify(z3.If(i < 0, i + d, i))

    def op_GatherElements(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, at = args
        if at.sort != INT or at.rank != x.rank:
            raise IllTyped("GatherElements")
        axis = axis_of(attributes.get("axis", 0), x.rank)
        return [self.space.tensor(x.sort, at.dims, lambda i: x.at((*i[:axis], self.place(at.at(i), x.dims[axis]), *i[axis + 1:])))]

    def op_Pad(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, pads, fill, axes = [*args, None, None][:4]
        if attributes.get("mode", "constant") != "constant":
            raise Refused("the mode of a Pad")
        along = axes_in(axes, x.rank)
        along = list(range(x.rank)) if along is None else along
        amounts = content(pads, "pads that are computed")
        if len(amounts) != 2 * len(along):
            raise IllTyped("Pad")
        filled = value(number(0, x.sort)) if fill is None else self.space.in_sort(fill, x.sort).at(tuple(z3.IntVal(0) for _ in fill.dims))
        before = {a: amounts[n] for n, a in enumerate(along)}
        after = {a: amounts[n + len(along)] for n, a in enumerate(along)}
        dims = [z3.simplify(d + before.get(n, 0) + after.get(n, 0)) for n, d in enumerate(x.dims)]
        for d in dims:
            self.space.require(d >= 0)

        def at(index: Index) -> Value:
            moved = tuple(z3.simplify(i - before.get(n, 0)) for n, i in enumerate(index))
            inside = [z3.And(i >= 0, i < d) for n, (i, d) in enumerate(zip(moved, x.dims)) if n in before]
            return scalars.chosen(self.ctx, value(z3.And(inside)), x.at(moved), filled)
        return [self.space.tensor(x.sort, dims, at)]

    def op_Tile(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, repeats = args[0], content(args[1], "repeats that are computed")
        if len(repeats) != x.rank:
            raise IllTyped("Tile")
        dims = [z3.simplify(d * r) for d, r in zip(x.dims, repeats)]
        one = [known(r) == 1 for r in repeats]
        return [self.space.tensor(x.sort, dims, lambda i: x.at(tuple(n if o else n % d for n, d, o in zip(i, x.dims, one))), item=x.item)]

    def op_Range(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        first, last, step = (self.space.in_sort(a, one_sort(args)) for a in args)
        s, e, by = (self.ctx.reify(a.at(())) for a in (first, last, step))
        if first.sort != INT:
            raise Refused("Range of floats")
        n = known(by)
        if n != 1:
            raise Refused("Range by steps")
        count = z3.simplify(z3.If(e > s, e - s, 0))
        return [self.space.tensor(INT, [count], lambda i: value(s + i[0]))]

    def op_Trilu(self, args: Operands, attributes: Attributes) -> list[Tensor]:
        x, k = [*args, None][:2]
        if x.rank < 2:
            raise IllTyped("Trilu")
        moved = z3.IntVal(0) if k is None else self.ctx.reify(k.at(tuple(z3.IntVal(0) for _ in k.dims)))
        upper = flag(attributes, "upper", 1)

        def at(index: Index) -> Value:
            away = index[-1] - index[-2]
            kept = away >= moved if upper else away <= moved
            return scalars.chosen(self.ctx, value(kept), x.at(index), value(number(0, x.sort)))
        return [self.space.tensor(x.sort, x.dims, at)]
