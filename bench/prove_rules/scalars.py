"""What operators do to numbers, element by element: of reals, whole numbers and truth values.

Rounding, overflow, NaN and infinities have no place here: rules state them as effects, and the checker runs them.
Where a function has no value (a quotient by 0, the root of a negative number) both sides are taken to be defined.
"""
from __future__ import annotations

import fractions
import math
from collections.abc import Callable, Sequence
from typing import Any

import z3

from .values import BOOL, INT, REAL, Context, IllTyped, Refused, Term, Value, factors, number, sort_of, value

Attributes = dict[str, object]
# Numbers that rules write in decimals: (what they round, its square's exact value or None)
SQUARES = {"sqrt2": (1.4142135623730951, z3.RealVal(2)), "sqrt_half": (0.7071067811865476, z3.Q(1, 2))}
PLAIN = {"sqrt_2_over_pi": 0.7978845608028654}


def literal(x: float) -> fractions.Fraction | z3.ExprRef:
    """The number that a literal rounds: a named irrational one, or a short decimal."""
    if not math.isfinite(x):
        raise Refused("infinity and NaN are no real numbers")
    for name, near in [*((n, v[0]) for n, v in SQUARES.items()), *PLAIN.items()]:
        if abs(abs(x) - near) < 1e-6 * near:
            return z3.Real(name) if x > 0 else -z3.Real(name)
    for under in (3, 6, 7, 9):
        near_by = fractions.Fraction(x).limit_denominator(under)
        if near_by.denominator > 1 and x != 0 and abs(float(near_by) - x) <= abs(x) * 6e-8:
            return near_by
    for digits in range(1, 18):
        if float(f"{x:.{digits}g}") == x or digits <= 8 and abs(float(f"{x:.{digits}g}") - x) <= abs(x) * 6e-8:
            return fractions.Fraction(f"{x:.{digits}g}")
    return fractions.Fraction(x)


def irrational_facts() -> list[z3.BoolRef]:
    roots = [z3.And(z3.Real(n) > 0, z3.Real(n) * z3.Real(n) == square) for n, (_, square) in SQUARES.items()]
    two = z3.Real("sqrt2") * z3.Real("sqrt_half") == 1
    return [*roots, two, z3.Real("sqrt_2_over_pi") > 0]


def function(name: str, arity: int = 1) -> z3.FuncDeclRef:
    return z3.Function(name, *[z3.RealSort()] * (arity + 1))


# ---- reals

def quotient(ctx: Context, a: z3.ExprRef, b: z3.ExprRef) -> z3.ExprRef:
    ctx.fact(b != 0)
    return a / b


def root(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
    s = function("sqrt")(x)
    ctx.fact(z3.And(x >= 0, s >= 0, s * s == x))
    return s


def monomials(x: z3.ExprRef) -> list[tuple[fractions.Fraction, z3.ExprRef | None]]:
    """A sum's terms as (coefficient, rest); rest None of a number."""
    x = z3.simplify(x, som=True)
    out = []
    for e in x.children() if z3.is_add(x) else [x]:
        if z3.is_rational_value(e):
            out.append((e.as_fraction(), None))
        elif z3.is_mul(e) and z3.is_rational_value(e.arg(0)):
            rest = e.children()[1:]
            out.append((e.arg(0).as_fraction(), rest[0] if len(rest) == 1 else z3.Product(rest)))
        else:
            out.append((fractions.Fraction(1), e))
    return out


def choice_in(x: z3.ExprRef) -> z3.ExprRef | None:
    """A choice between numbers within an expression."""
    if z3.is_app_of(x, z3.Z3_OP_ITE) and not z3.is_bool(x):
        return x
    if x.decl().kind() == z3.Z3_OP_UNINTERPRETED:
        return None
    return next((found for e in x.children() if (found := choice_in(e)) is not None), None)


def by_cases(f: Callable[[Context, z3.ExprRef], z3.ExprRef]) -> Callable[[Context, z3.ExprRef], z3.ExprRef]:
    """A function of a choice is a choice between what it gives; facts are those of the case."""
    def apply(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
        choice = choice_in(x)
        if choice is None:
            return f(ctx, x)
        condition, *cases = choice.children()
        results = []
        for case, held in zip(cases, (condition, z3.Not(condition))):
            with ctx.given(held):
                results.append(apply(ctx, z3.substitute(x, (choice, case))))
        return z3.If(condition, *results)
    return apply


@by_cases
def exponential(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
    """e^x as a product of powers of e^(m/2), m the monomials of x: e^(a+b) is e^a e^b."""
    parts = []
    for c, rest in monomials(x):
        if rest is None and c == 0:
            continue
        doubled = 2 * c
        if rest is None or doubled.denominator != 1 or abs(doubled) > 8:
            doubled, rest = (fractions.Fraction(2 if c > 0 else -2), z3.RealVal(abs(c)) if rest is None else z3.simplify(z3.RealVal(abs(c)) * rest))
        half = function("exp_of_half")(rest)
        ctx.fact(z3.And(half > 0, (rest > 0) == (half > 1), (rest == 0) == (half == 1)))
        if rest.decl().name() == "log" and rest.num_args() == 1:
            ctx.fact(half * half == rest.arg(0))
        parts += [(half, int(doubled))]
    result = product_of(parts)
    ctx.exponents[result.get_id()] = x
    ctx.keep(result)
    return result


def product_of(parts: Sequence[tuple[z3.ExprRef, int]]) -> z3.ExprRef:
    over = [b for b, p in parts for _ in range(p)]
    under = [b for b, p in parts for _ in range(-p)]
    top = z3.RealVal(1) if not over else over[0] if len(over) == 1 else z3.Product(over)
    return top if not under else top / (under[0] if len(under) == 1 else z3.Product(under))


def over_exponentials(x: z3.ExprRef) -> tuple[z3.ExprRef, list[tuple[z3.ExprRef, int]]]:
    """A sum over one denominator made of exponentials: what is left above, and the denominator's powers."""
    summands = [factors(e) for e in (x.children() if z3.is_add(x) else [x])]
    under: dict[int, tuple[z3.ExprRef, int]] = {}
    for parts in summands:
        powers: dict[int, tuple[z3.ExprRef, int]] = {}
        for base, n in parts:
            if base.decl().name() == "exp_of_half":
                powers[base.get_id()] = (base, powers.get(base.get_id(), (base, 0))[1] + n)
        for key, (base, n) in powers.items():
            if n < under.get(key, (base, 0))[1]:
                under[key] = (base, n)
    bases = list(under.values())
    if not bases:
        return x, []
    whole = []
    for parts in summands:
        left = {b.get_id(): (b, -n) for b, n in bases}
        rest = []
        for base, n in parts:
            if base.get_id() in left:
                left[base.get_id()] = (base, left[base.get_id()][1] + n)
            else:
                rest.append((base, n))
        whole.append(product_of([*rest, *left.values()]))
    return z3.Sum(whole) if len(whole) > 1 else whole[0], bases


@by_cases
def logarithm(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
    if x.get_id() in ctx.exponents:
        return ctx.exponents[x.get_id()]
    ctx.fact(x > 0)
    above, bases = over_exponentials(x)
    known, rest = z3.RealVal(0), []
    for base, power in [*factors(above), *bases]:
        if base.decl().name() == "exp_of_half":
            known = known + z3.RealVal(fractions.Fraction(power, 2)) * base.arg(0)
        else:
            rest.append((base, power))
    left = z3.simplify(product_of(rest), som=True)
    if z3.is_rational_value(left) and left.as_fraction() == 1:
        return known
    ctx.fact(left > 0)
    return function("log")(left) + known


def tanh(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
    e = exponential(ctx, 2 * x)
    return (e - 1) / (e + 1)


def sigmoid(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
    return 1 / (1 + exponential(ctx, -x))


def softplus(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
    return logarithm(ctx, 1 + exponential(ctx, x))


def opaque(name: str, parity: int = 0) -> Callable[[Context, z3.ExprRef], z3.ExprRef]:
    """A function of which no more is known than that it is odd (-1), even (1) or neither."""
    def apply(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
        f = function(name)
        x = z3.simplify(x, som=True)
        if parity:
            ctx.fact(f(z3.simplify(-x, som=True)) == parity * f(x))
        return f(x)
    return apply


def power(ctx: Context, x: z3.ExprRef, e: z3.ExprRef) -> z3.ExprRef:
    e = z3.simplify(e)
    exact = e.as_fraction() if z3.is_rational_value(e) else None
    if exact is not None and exact.denominator == 1 and 0 <= exact <= 8:
        return product_of([(x, int(exact))])
    if exact is not None and exact.denominator == 1 and -8 <= exact < 0:
        ctx.fact(x != 0)
        return product_of([(x, int(exact))])
    if exact is not None and exact.denominator == 2 and abs(exact) <= 4:
        s = root(ctx, x)
        if exact < 0:
            ctx.fact(x != 0)
        return product_of([(s, int(2 * exact))])
    return function("pow", 2)(x, e)


def low(x: z3.ExprRef, y: z3.ExprRef) -> z3.ExprRef:
    return z3.If(x <= y, x, y)


def high(x: z3.ExprRef, y: z3.ExprRef) -> z3.ExprRef:
    return z3.If(x >= y, x, y)


def positive_part(x: z3.ExprRef) -> z3.ExprRef:
    return z3.If(x > 0, x, number(0, sort_of(x)))


def elu(ctx: Context, x: z3.ExprRef, a: z3.ExprRef) -> z3.ExprRef:
    return z3.If(x < 0, a * (exponential(ctx, x) - 1), x)


def celu(ctx: Context, x: z3.ExprRef, a: z3.ExprRef) -> z3.ExprRef:
    zero = z3.RealVal(0)
    return high(zero, x) + low(zero, a * (exponential(ctx, quotient(ctx, x, a)) - 1))


def hard_swish(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
    return x * high(z3.RealVal(0), low(z3.RealVal(1), x / 6 + z3.Q(1, 2)))


def gelu(ctx: Context, x: z3.ExprRef, attributes: Attributes) -> z3.ExprRef:
    way = attributes.get("approximate", "none")
    if way == "none":
        return x / 2 * (1 + opaque("erf", -1)(ctx, x * z3.Real("sqrt_half")))
    if way == "tanh":
        return fast_gelu(ctx, x)
    raise Refused("the way in which Gelu approximates")


def fast_gelu(ctx: Context, x: z3.ExprRef) -> z3.ExprRef:
    return x / 2 * (1 + tanh(ctx, z3.Real("sqrt_2_over_pi") * (x + z3.RealVal("0.044715") * x * x * x)))


def shrink(x: z3.ExprRef, bias: z3.ExprRef, bound: z3.ExprRef) -> z3.ExprRef:
    return z3.If(x < -bound, x + bias, z3.If(x > bound, x - bias, number(0, sort_of(x))))


def sign(x: z3.ExprRef) -> z3.ExprRef:
    one, none = number(1, sort_of(x)), number(0, sort_of(x))
    return z3.If(x > 0, one, z3.If(x < 0, -one, none))


def floor(x: z3.ExprRef) -> z3.ExprRef:
    return z3.ToReal(z3.ToInt(x))


def real(attributes: Attributes, name: str, default: float) -> z3.ExprRef:
    return number(attributes.get(name, literal(default)), REAL)


REAL_FUNCTIONS: dict[str, Callable[[Context, z3.ExprRef, Attributes], z3.ExprRef]] = {
    "Exp": lambda c, x, a: exponential(c, x),
    "Log": lambda c, x, a: logarithm(c, x),
    "Sqrt": lambda c, x, a: root(c, x),
    "Reciprocal": lambda c, x, a: quotient(c, z3.RealVal(1), x),
    "Tanh": lambda c, x, a: tanh(c, x),
    "Sigmoid": lambda c, x, a: sigmoid(c, x),
    "Softplus": lambda c, x, a: softplus(c, x),
    "Softsign": lambda c, x, a: x / (1 + z3.If(x >= 0, x, -x)),
    "Mish": lambda c, x, a: x * tanh(c, softplus(c, x)),
    "Sinh": lambda c, x, a: (exponential(c, x) - exponential(c, -x)) / 2,
    "Cosh": lambda c, x, a: (exponential(c, x) + exponential(c, -x)) / 2,
    "Floor": lambda c, x, a: floor(x),
    "Ceil": lambda c, x, a: -floor(-x),
    "Elu": lambda c, x, a: elu(c, x, real(a, "alpha", 1)),
    "Selu": lambda c, x, a: real(a, "gamma", 1.0507010221481323) * elu(c, x, real(a, "alpha", 1.6732631921768188)),
    "Celu": lambda c, x, a: celu(c, x, real(a, "alpha", 1)),
    "LeakyRelu": lambda c, x, a: z3.If(x < 0, real(a, "alpha", 0.01) * x, x),
    "ThresholdedRelu": lambda c, x, a: z3.If(x > real(a, "alpha", 1), x, z3.RealVal(0)),
    "HardSigmoid": lambda c, x, a: high(z3.RealVal(0), low(z3.RealVal(1), real(a, "alpha", 0.2) * x + real(a, "beta", 0.5))),
    "HardSwish": lambda c, x, a: hard_swish(c, x),
    "Swish": lambda c, x, a: x * sigmoid(c, real(a, "alpha", 1) * x),
    "com.microsoft.QuickGelu": lambda c, x, a: x * sigmoid(c, real(a, "alpha", 1.702) * x),
    "Gelu": gelu,
    "com.microsoft.Gelu": lambda c, x, a: gelu(c, x, {}),
    "com.microsoft.FastGelu": lambda c, x, a: fast_gelu(c, x),
    "Erf": lambda c, x, a: opaque("erf", -1)(c, x),
    "Round": lambda c, x, a: opaque("round", -1)(c, x),
    **{name: (lambda f: lambda c, x, a: f(c, x))(opaque(name.lower(), -1)) for name in ("Sin", "Tan", "Asin", "Atan", "Asinh", "Atanh")},
    "Cos": lambda c, x, a: opaque("cos", 1)(c, x),
    "Acos": lambda c, x, a: opaque("acos")(c, x),
    "Acosh": lambda c, x, a: opaque("acosh")(c, x),
}
NUMBER_FUNCTIONS: dict[str, Callable[[z3.ExprRef, Attributes], z3.ExprRef]] = {
    "Abs": lambda x, a: z3.If(x >= 0, x, -x),
    "Relu": lambda x, a: positive_part(x),
    "Sign": lambda x, a: sign(x),
    "Shrink": lambda x, a: shrink(x, number(a.get("bias", 0), sort_of(x)), number(a.get("lambd", literal(0.5)), sort_of(x))),
}
COMPARISONS: dict[str, Callable[[z3.ExprRef, z3.ExprRef], z3.BoolRef]] = {
    "Less": lambda x, y: x < y,
    "LessOrEqual": lambda x, y: x <= y,
    "Greater": lambda x, y: x > y,
    "GreaterOrEqual": lambda x, y: x >= y,
}
TRUTHS: dict[str, Callable[..., z3.BoolRef]] = {"And": z3.And, "Or": z3.Or, "Xor": z3.Xor, "Not": z3.Not}


# ---- whole numbers

def truncated(ctx: Context, a: z3.ExprRef, b: z3.ExprRef) -> z3.ExprRef:
    """The quotient of whole numbers as ONNX has it, cut toward 0."""
    ctx.fact(b != 0)
    size = z3.If(a >= 0, a, -a) / z3.If(b >= 0, b, -b)
    return z3.If((a >= 0) == (b >= 0), size, -size)


def remainder(ctx: Context, a: z3.ExprRef, b: z3.ExprRef, of_c: bool) -> z3.ExprRef:
    """Mod: with the sign of the divisor, or that of the dividend as in C."""
    cut = a - b * truncated(ctx, a, b)
    return cut if of_c else z3.If(z3.And(cut != 0, (cut < 0) != (b < 0)), cut + b, cut)


def rounded_facts(ctx: Context, held: z3.FuncDeclRef, x: z3.ExprRef) -> None:
    """Rounding to the nearest keeps the order, signs and 0."""
    ctx.fact(z3.And(held(-x) == -held(x), z3.Implies(x >= 0, held(x) >= 0), z3.Implies(x == 0, held(x) == 0)))
    ctx.fact(z3.Implies(x <= 0, held(x) <= 0))
    for y in ctx.rounded.setdefault(held.name(), []):
        ctx.fact(z3.And(z3.Implies(x <= y, held(x) <= held(y)), z3.Implies(y <= x, held(y) <= held(x))))
    ctx.rounded[held.name()].append(x)


def cast(ctx: Context, x: z3.ExprRef, to: str, name: str) -> z3.ExprRef:
    """A number in another element type. Of a rule that is exact, rounding to a type (or wrapping) is a function that nothing is known of."""
    sort = sort_of(x)
    if sort == BOOL:
        return x if to == BOOL else z3.If(x, number(1, to), number(0, to))
    if to == BOOL:
        return x != 0
    if sort != to:
        x = z3.ToReal(x) if to == REAL else z3.If(x >= 0, z3.ToInt(x), -z3.ToInt(-x))
    if ctx.exact:
        over = z3.RealSort() if to == REAL else z3.IntSort()
        held = z3.Function(f"held by {name}", over, over)
        if to == REAL:
            rounded_facts(ctx, held, x)
        return held(x)
    ctx.notes.add("a cast rounds nothing")
    return x


# ---- sums, kept as they are

def add(a: Value, b: Value, sign_of_b: int = 1) -> Value:
    if a.expr is not None and b.expr is not None:
        return value(a.expr + b.expr if sign_of_b > 0 else a.expr - b.expr)
    other = b.terms if sign_of_b > 0 else tuple(Term(t.binders, -t.body) for t in b.terms)
    pure = [t.body for t in (*a.terms, *other) if not t.binders]
    kept = tuple(t for t in (*a.terms, *other) if t.binders)
    return Value(a.sort, (*kept, Term((), z3.Sum(pure))) if pure else kept)


def multiply(ctx: Context, a: Value, b: Value) -> Value:
    if a.expr is not None and b.expr is not None:
        return value(a.expr * b.expr)
    terms = []
    for s in a.terms:
        for t in b.terms:
            pairs = [(k, ctx.place(n)) for k, n in t.binders] if s.binders and t.binders else []
            fresh = dict(pairs)
            binders = tuple((fresh.get(k, k), z3.substitute(n, *pairs) if pairs else n) for k, n in t.binders)
            terms.append(Term((*s.binders, *binders), s.body * ctx.renamed(t.body, pairs)))
    return Value(a.sort, tuple(terms))


def scaled(v: Value, by: Callable[[z3.ExprRef], z3.ExprRef]) -> Value:
    """Each term through a function that is linear."""
    return Value(v.sort, tuple(Term(t.binders, by(t.body)) for t in v.terms))


def negated(v: Value) -> Value:
    return scaled(v, lambda x: -x)


def divide(ctx: Context, a: Value, b: Value) -> Value:
    if a.sort == INT:
        return value(truncated(ctx, ctx.reify(a), ctx.reify(b)))
    by = ctx.reify(b)
    ctx.fact(by != 0)
    return scaled(a, lambda x: x / by)


def chosen(ctx: Context, c: Value, a: Value, b: Value) -> Value:
    condition = ctx.reify(c)
    if a.expr is not None and b.expr is not None or a.sort == BOOL:
        return value(z3.If(condition, ctx.reify(a), ctx.reify(b)))
    zero = number(0, a.sort)
    return add(scaled(a, lambda x: z3.If(condition, x, zero)), scaled(b, lambda x: z3.If(condition, zero, x)))


# ---- by name

def same_sort(args: Sequence[Value], *allowed: str) -> str:
    sorts = {a.sort for a in args}
    if len(sorts) != 1 or not sorts <= set(allowed):
        raise IllTyped(f"operands of {', '.join(sorted(sorts))}")
    return sorts.pop()


VARIADIC = {"Sum", "Mean", "Max", "Min"}
ARITHMETIC = {"Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Mod", "Neg", *VARIADIC}


def arithmetic(ctx: Context, op: str, args: Sequence[Value], attributes: Attributes) -> Value:
    sort = same_sort(args, REAL, INT)
    if op in ("Sum", "Mean"):
        if sort != REAL:
            raise IllTyped(op)
        total = args[0]
        for a in args[1:]:
            total = add(total, a)
        return total if op == "Sum" else scaled(total, lambda x: x / len(args))
    if op in ("Max", "Min"):
        best = ctx.reify(args[0])
        for a in args[1:]:
            best = (high if op == "Max" else low)(best, ctx.reify(a))
        return value(best)
    if op == "Neg":
        return negated(args[0])
    a, b = args
    if op in ("Add", "Sub"):
        return add(a, b, 1 if op == "Add" else -1)
    if op == "Mul":
        return multiply(ctx, a, b)
    if op == "Div":
        return divide(ctx, a, b)
    x, y = ctx.reify(a), ctx.reify(b)
    if op == "PRelu":  # that its slope widens nothing is for the operator to see
        return value(z3.If(x < 0, y * x, x))
    if op == "Mod":
        if sort == REAL:
            return value(function("mod", 2)(x, y))
        return value(remainder(ctx, x, y, bool(attributes.get("fmod", 0))))
    exponent = z3.simplify(y)
    if z3.is_int_value(exponent) and 0 <= exponent.as_long() <= 8:
        return value(z3.Product([x] * exponent.as_long()) if exponent.as_long() > 1 else x if exponent.as_long() else number(1, sort))
    if sort == INT:
        return value(z3.Function("power", z3.IntSort(), z3.IntSort(), z3.IntSort())(x, y))
    return value(power(ctx, x, y))


def clipped(ctx: Context, args: Sequence[Any]) -> Value:
    x: Value = args[0]
    for bound, pick in zip(args[1:], (high, low)):
        if bound is not None:
            same_sort([x, bound], REAL, INT)
            x = value(pick(ctx.reify(x), ctx.reify(bound)))
    return x


def elementwise(ctx: Context, op: str, args: Sequence[Value], attributes: Attributes) -> Value | None:
    """What an operator gives of numbers at one place; None of an operator that works otherwise."""
    if op in ARITHMETIC:
        return arithmetic(ctx, op, args, attributes)
    if op in REAL_FUNCTIONS:
        same_sort(args[:1], REAL)
        if len(args) > 1:  # a bias
            same_sort(args, REAL)
            return value(REAL_FUNCTIONS[op](ctx, ctx.reify(add(args[0], args[1])), attributes))
        return value(REAL_FUNCTIONS[op](ctx, ctx.reify(args[0]), attributes))
    if op in NUMBER_FUNCTIONS:
        same_sort(args, REAL, INT)
        return value(NUMBER_FUNCTIONS[op](ctx.reify(args[0]), attributes))
    if op in COMPARISONS:
        same_sort(args, REAL, INT)
        return value(COMPARISONS[op](ctx.reify(args[0]), ctx.reify(args[1])))
    if op == "Equal":
        same_sort(args, REAL, INT, BOOL)
        return value(ctx.reify(args[0]) == ctx.reify(args[1]))
    if op in TRUTHS:
        same_sort(args, BOOL)
        return value(TRUTHS[op](*(ctx.reify(a) for a in args)))
    if op == "Where":
        same_sort(args[:1], BOOL)
        same_sort(args[1:], REAL, INT, BOOL)
        return chosen(ctx, *args)
    if op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        same_sort(args, INT)
        x, y = (ctx.reify(a) for a in args)
        f = z3.Function(op, z3.IntSort(), z3.IntSort(), z3.IntSort())
        ctx.fact(f(x, y) == f(y, x))
        if op != "BitwiseXor":
            ctx.fact(f(x, x) == x)
        return value(f(x, y))
    if op == "BitwiseNot":
        same_sort(args, INT)
        return value(-1 - ctx.reify(args[0]))
    if op == "com.microsoft.BiasGelu":
        return value(gelu(ctx, ctx.reify(add(args[0], args[1])), {}))
    if op == "BitCast":
        x = ctx.reify(args[0])
        return value(z3.Function(f"the bits as {attributes['to']}", x.sort(), z3.RealSort())(x))
    if op in ("IsNaN", "IsInf"):  # some predicate: what is proven holds of each
        same_sort(args, REAL)
        return value(z3.Function(op, z3.RealSort(), z3.BoolSort())(ctx.reify(args[0])))
    return None
