"""Rules written as Python functions: traced into the language of rules/README.md, and the same rules then as those of a file."""
from __future__ import annotations

import inspect
import linecache
import re
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Union

import numpy as np

from ._errors import Error, OptionError

Texts = Union[str, Sequence[str]]
_OUTPUTS = "YZUVW"
_MADE = re.compile(r"\bv\d+\b")  # what the tracer calls values


class _Untraceable(Exception):
    """What Python does with a traced value that no rule can say."""


def _refuse(what: str) -> NoReturn:
    raise _Untraceable(what)


class _Traced:
    """What has no value while a rule is traced: nothing may depend on it but what is traced itself."""

    text: str

    def __bool__(self) -> bool:
        _refuse("a condition on what is traced; a rule has no branches, op.where(CONDITION) says when it holds, and & | ~ join conditions")

    def __iter__(self) -> Any:
        _refuse("a loop over what is traced; its length is not known")

    def __len__(self) -> int:
        _refuse("the length of what is traced; op.rank(x) and op.dim(x, i) are what a rule knows of sizes")

    def __index__(self) -> int:
        _refuse("a number is wanted where something is traced")

    def __float__(self) -> float:
        _refuse("a number is wanted where something is traced")

    def __str__(self) -> str:
        _refuse("the text of what is traced")

    def __int__(self) -> int:
        _refuse("a number is wanted where something is traced")

    def __format__(self, _: str) -> str:
        _refuse("the text of what is traced")

    def __repr__(self) -> str:
        return f"<traced {self.text}>"


class Expression(_Traced):
    """A number, a list or a truth of the rule language: what `op.rank(x)` gives, attributes, and what is computed of them."""

    def __init__(self, text: str, variable: bool = False) -> None:
        self.text = text
        self.variable = variable  # of an attribute

    def __invert__(self) -> Expression:
        return Expression(f"not {self.text}")

    def __neg__(self) -> Expression:
        return Expression(f"-{self.text}")

    def __getitem__(self, at: Any) -> Expression:
        return Expression(f"{self.text}[{_slice(at)}]")


def _binary(sign: str, swapped: bool = False) -> Callable[[Any, Any], Expression]:
    def make(self: Expression, other: Any) -> Expression:
        first, second = (_literal(other), self.text) if swapped else (self.text, _literal(other))
        return Expression(f"({first} {sign} {second})")

    return make


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "and", "or": "or"}.items():
    setattr(Expression, f"__{_name}__", _binary(_sign))
    setattr(Expression, f"__r{_name}__", _binary(_sign, True))
for _name, _sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(Expression, f"__{_name}__", _binary(_sign))


def _slice(at: Any) -> str:
    if not isinstance(at, slice):
        return _literal(at)
    if at.step is not None:
        _refuse("a slice with a step")
    return ":".join("" if end is None else _literal(end) for end in (at.start, at.stop))


class Value(_Traced):
    """A tensor: an input of the rule, or what an operator makes."""

    def __init__(self, op: Tracer, text: str) -> None:
        self._op = op
        self.text = text

    def __neg__(self) -> Value:
        made: Value = self._op.Neg(self)
        return made


def _compared(self: Value, other: object) -> NoReturn:
    _refuse("a comparison of tensors; op.Equal, op.Less and op.Greater are operators")


for _name, _operator in {"add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "pow": "Pow", "matmul": "MatMul"}.items():
    setattr(Value, f"__{_name}__", lambda self, other, _kind=_operator: getattr(self._op, _kind)(self, other))
    setattr(Value, f"__r{_name}__", lambda self, other, _kind=_operator: getattr(self._op, _kind)(other, self))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Value, f"__{_name}__", _compared)


def _literal(value: Any) -> str:
    """As the rule language writes it."""
    if isinstance(value, _Traced):
        return value.text
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, np.ndarray) and value.ndim <= 1:
        return _literal(value.tolist())
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_literal, value)) + "]"
    _refuse(f"a {type(value).__name__}; a rule holds numbers, texts and lists of them")


class Tracer:
    """`op`: operators by their names (`op.Add(x, y)`, `op.Gelu(x, _domain="com.microsoft")`), functions of the rule language by theirs
    (`op.rank(x)`, `op.compose(p, q)`), and `op.where(CONDITION)`."""

    def __init__(self) -> None:
        self._nodes: list[tuple[list[str], str]] = []
        self._conditions: list[str] = []
        self._lets: list[tuple[str, str]] = []
        self._made: dict[str, int] = {}  # of which node a value is
        self._domains: set[str] = set()

    def where(self, *conditions: Any) -> None:
        """What must hold."""
        self._conditions += [_literal(condition) for condition in conditions]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name[0].islower():
            return lambda *arguments: Expression(f"{name}({', '.join(map(_literal, arguments))})")
        return lambda *inputs, **attributes: self._node(name, inputs, attributes)

    def _attribute(self, name: str, value: Any) -> str:
        if isinstance(value, Value):
            _refuse(f"{name}: a tensor as an attribute")
        if isinstance(value, Expression) and not value.variable:  # computed: by a name
            known = next((let for let, text in self._lets if text == value.text), None)
            if known is None:
                self._lets.append((known := f"let{len(self._lets) + 1}", value.text))
            return f"{name} = @{known}"
        return f"{name} = {'@' if isinstance(value, Expression) else ''}{_literal(value)}"

    def _input(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, Expression):  # what a let computes acts as a constant
            return self._attribute("", value).partition("@")[2]
        return _literal(value)

    def _node(self, kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        given = dict(attributes)
        domain, count = given.pop("_domain", ""), given.pop("_outputs", 1)
        if other := [name for name in given if name.startswith("_")]:
            _refuse(f"{other[0]}: only _domain and _outputs are known beside attributes")
        if domain:
            self._domains.add(domain)
        texts = ", ".join(self._attribute(name, value) for name, value in given.items())
        call = f"{domain + '.' if domain else ''}{kind}{f' <{texts}>' if texts else ''} ({', '.join(map(self._input, inputs))})"
        names = [f"v{len(self._made) + i + 1}" for i in range(count if isinstance(count, int) else _refuse("_outputs: their number is wanted"))]
        self._nodes.append((names, call))
        self._made.update(dict.fromkeys(names, len(self._nodes) - 1))
        values = [Value(self, name) for name in names]
        return values[0] if count == 1 else tuple(values)

    def _side(self, values: Sequence[Any], left: bool) -> list[str]:
        """The nodes that make these values, as lines; the values have the names of the rule's outputs."""
        wanted: list[int] = []
        renamed: dict[str, str] = {}
        more = []
        for value, name in zip(values, _OUTPUTS):
            if not isinstance(value, (Value, int, float, np.number)):
                _refuse("a rule gives (what to find, what it equals), tensors or tuples of them")
            text = _literal(value)
            made = isinstance(value, Value) and text in self._made and text not in renamed
            if left and not made:
                _refuse("what to find has to be made by an operator")
            if made:
                wanted.append(self._made[text])
                renamed[text] = name
            else:
                more.append(f"{name} = Identity ({renamed.get(text, text)})")
        for node in wanted:  # grows
            wanted += [self._made[word] for word in _MADE.findall(self._nodes[node][1]) if self._made[word] not in wanted]
        lines = [f"{', '.join(self._nodes[node][0])} = {self._nodes[node][1]}" for node in sorted(set(wanted))]
        return [_MADE.sub(lambda found: renamed.get(found[0], found[0]), line) for line in lines] + more


class Rule:
    """A rule that a Python function states: `text` is the rule, `check()` tries it as `saturate rules check` does.

    It goes wherever rules go: `optimize(model, rules=[rule, "my.rules"])`, `RuleSet.builtin() + rule`.
    """

    def __init__(self, function: Callable[..., Any], name: str, text: str, place: str) -> None:
        self.function = function
        """What was traced."""
        self.name = name
        """Of the rule."""
        self.text = text
        """In the language of rules/README.md."""
        self.place = place
        """Where the function stands, as FILE:LINE."""
        self.__doc__ = function.__doc__

    def check(self, *, instances: int = 24, seed: int = 1) -> dict[str, Any]:
        """Runs both sides on drawn inputs, and says what is wrong: `ok`, `findings`, counts."""
        from ._verbs import rules

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{self.name}.rules"
            path.write_text(self.text)
            rows = rules.check(path, instances=instances, seed=seed)
        told: dict[str, Any] = next((row for row in rows if row.get("rule", row.get("name")) == self.name), {"ok": all(row["ok"] for row in rows), "rows": rows})
        return told

    def __reduce__(self) -> tuple[Any, ...]:
        return _told_again, (self.name, self.text, self.place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and (self.name, self.text) == (other.name, other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<onnx_saturate.Rule {self.name} of {self.place}>"


def _told_again(name: str, text: str, place: str) -> Rule:
    def gone(*_: Any) -> NoReturn:
        raise Error(f"{name}: the function stayed in the process that traced it")

    return Rule(gone, name, text, place)


def _place(function: Callable[..., Any], error: BaseException) -> tuple[int, str]:
    """Line and text of the function at which this came up."""
    code = function.__code__
    lines = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == code.co_filename]
    line = lines[-1] if lines else code.co_firstlineno
    return line, linecache.getline(code.co_filename, line).strip()


def _traced(function: Callable[..., Any], tracer: Tracer) -> tuple[list[str], list[str], list[str], list[str], int]:
    """Inputs, attributes, both sides as lines, and the number of outputs."""
    parameters = list(inspect.signature(function).parameters.values())
    inputs = [p.name for p in parameters[1:] if p.kind is p.POSITIONAL_OR_KEYWORD]
    attributes = [p.name for p in parameters[1:] if p.kind is p.KEYWORD_ONLY]
    if not parameters or len(inputs) + len(attributes) + 1 != len(parameters):
        _refuse("its parameters are op, inputs by place, and attributes behind *")
    if clash := [name for name in inputs + attributes if re.fullmatch(r"v\d+|let\d+|[YZUVW]", name)]:
        _refuse(f"{clash[0]}: names like it are the tracer's; take another")
    values = [Value(tracer, name) for name in inputs]
    sides = function(tracer, *values, **{name: Expression(name, True) for name in attributes})
    if not isinstance(sides, tuple) or len(sides) != 2:
        _refuse("a rule gives (what to find, what it equals)")
    before, after = (side if isinstance(side, (tuple, list)) else (side,) for side in sides)
    if len(before) != len(after) or len(before) > len(_OUTPUTS):
        _refuse(f"{len(before)} outputs of what to find, and {len(after)} of what it equals")
    return inputs, attributes, tracer._side(before, True), tracer._side(after, False), len(before)


def _block(lines: Sequence[str]) -> str:
    return "  { " + "\n    ".join(lines) + " }"


def _several(given: Texts) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _written(name: str, function: Callable[..., Any], tracer: Tracer, options: Mapping[str, Any]) -> str:
    inputs, attributes, before, after, outputs = _traced(function, tracer)
    versions = {"": options["opset"], **dict.fromkeys(sorted(tracer._domains - {"saturate"}), 1), **(options["domains"] or {})}
    lines = ["opset " + ", ".join(f"{domain or chr(34) * 2} {version}" for domain, version in versions.items()), ""]
    lines += [f"# {line.strip()}" for line in (inspect.getdoc(function) or "").splitlines() if line.strip()]
    lines.append(f"rule {name}{f' <{chr(44).join(attributes)}>' if attributes else ''} ({', '.join(inputs)}) => ({', '.join(_OUTPUTS[:outputs])})")
    lines.append(_block(before))
    if conditions := [*tracer._conditions, *_several(options["where"])]:
        lines.append("  where " + ", ".join(conditions))
    if tracer._lets:
        lines.append("  let " + ", ".join(f"{let} = {text}" for let, text in tracer._lets))
    lines += ["  <=>" if options["both_ways"] else "  =>", _block(after)]
    lines += [f"  effect {options['effect']}"] if options["effect"] != "exact" else []
    lines += [f"  assume {assumption}" for assumption in _several(options["assume"])]
    for kind in ("example", "counterexample"):
        lines += [f"  {kind} {text}" for text in _several(options[kind])]
    return "\n".join(lines) + "\n"


def rule(
    function: Callable[..., Any] | None = None,
    /,
    *,
    example: Texts = (),
    counterexample: Texts = (),
    where: Texts = (),
    effect: str = "exact",
    assume: Texts = (),
    both_ways: bool = False,
    opset: int = 23,
    domains: Mapping[str, int] | None = None,
    name: str | None = None,
) -> Any:
    """A rule of a function that gives (what to find, what it equals), both made by `op` of the same inputs.

    The function is called once, with stand-ins for tensors (by place) and for attributes (behind `*`), and what it does is written down as
    a rule of the language: operators with capitals, `+ - * / ** @` on tensors, numbers and lists as constants, functions of the language
    by their names, conditions by `op.where`. Nothing else of Python can depend on a stand-in: a branch, a loop or a number made of one is
    refused with its line. `example` is sizes to try it on ("x = float[2,3]"), `counterexample` where a condition alone keeps it from being
    wrong; `effect`, `assume` and `both_ways` are as in rules/README.md.

    >>> @onnx_saturate.rule(example="x = float[2,3,5], p = [1,2,0], q = [2,0,1]")
    ... def transpose_twice(op, x, *, p, q):
    ...     return op.Transpose(op.Transpose(x, perm=p), perm=q), op.Transpose(x, perm=op.compose(p, q))
    >>> transpose_twice.check()["ok"]
    >>> onnx_saturate.optimize(model, rules=transpose_twice)
    """
    options = {"example": example, "counterexample": counterexample, "where": where, "effect": effect, "assume": assume, "both_ways": both_ways, "opset": opset, "domains": domains}

    def make(traced: Callable[..., Any]) -> Rule:
        called = name or traced.__name__
        file, first = traced.__code__.co_filename, traced.__code__.co_firstlineno
        try:
            text = _written(called, traced, Tracer(), options)
        except Exception as error:
            line, source = _place(traced, error)
            raise OptionError(f"{file}:{line}: {called}: can't be traced into a rule: {error}: {source}") from error
        _parse(text, called, f"{file}:{first}")
        return Rule(traced, called, text, f"{file}:{first}")

    return make if function is None else make(function)


def _parse(text: str, name: str, place: str) -> None:
    """What the language says of it, at once."""
    from ._rules import RuleSet

    try:
        RuleSet.from_text(text, "traced")
    except Error as error:
        refused = OptionError(f"{place}: {name}: {error}")
        if hasattr(refused, "add_note"):  # from Python 3.11 on
            refused.add_note(f"It was traced as:\n{text}")
        raise refused from error
