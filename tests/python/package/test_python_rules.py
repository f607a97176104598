"""Rules as Python functions: traced, checked as any rule, they fire; what cannot be traced is refused with its line."""
import math
import pickle

import numpy as np
import pytest
from conftest import make_model, value
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
from onnx_saturate import rule  # noqa: E402

FLOAT = TensorProto.FLOAT
X = "x = float[2,3]"
XY = "x = float[2,3], y = float[2,3]"


@rule(example=X)
def relu_twice(op, x):
    """Relu changes nothing the second time."""
    return op.Relu(op.Relu(x)), op.Relu(x)


@rule(example="x = float[2,3,5], p = [1,2,0], q = [2,0,1]")
def transposed_twice(op, x, *, p, q):
    return op.Transpose(op.Transpose(x, perm=p), perm=q), op.Transpose(x, perm=op.compose(p, q))


@rule(example=X)
def halved_twice(op, x):
    return x * 0.5 * 0.5, x * 0.25


@rule(example=X)
def negative_twice(op, x):
    return -(-x), x


@rule(example=X)
def absolute_of_negative(op, x):
    return op.Abs(-x), op.Abs(x)


@rule(example=XY, effect="reassociates")
def difference_of_squares(op, x, y):
    op.where(op.float(x), op.float(y))
    return (x - y) * (x + y), x * x - y * y


@rule(example=XY)
def minus_is_plus_negative(op, x, y):
    return x - y, x + (-y)


@rule(example=X)
def not_not(op, x):
    return op.Not(op.Not(op.Greater(x, 0.5))), op.Greater(x, 0.5)


@rule(example=XY)
def max_of_negatives(op, x, y):
    op.where(op.float(x))
    return op.Max(-x, -y), -op.Min(x, y)


@rule(example=X)
def even_cosine(op, x):
    return op.Cos(-x), op.Cos(x)


@rule(example=X)
def floor_twice(op, x):
    return op.Floor(op.Floor(x)), op.Floor(x)


@rule(example=X)
def sign_twice(op, x):
    return op.Sign(op.Sign(x)), op.Sign(x)


@rule(example="x = float[2,3], y = float[3,4]; x = float[5,2,3], y = float[3,4]", effect="reassociates")
def product_of_negative(op, x, y):
    op.where(op.float(x))
    return (-x) @ y, -(x @ y)


@rule(example=X, effect="reassociates")
def swish_of_mine(op, x):
    return x * op.Sigmoid(x), op.Swish(x)


SCALE = 3.0


@rule(example=X)
def from_outside(op, x):
    """A number and a loop of Python's own are its own business."""
    for _ in range(2):
        x = op.Relu(x)
    return op.Mul(x, SCALE), op.Mul(op.Relu(x), math.sqrt(9.0))


@rule(example=X)
def rounded_down(op, x):
    return op.Ceil(op.Floor(x)), op.Floor(x)


@rule(example=XY)
def both_of(op, x, y):
    """Two outputs at once."""
    inner = -(x * y)
    return (op.Abs(inner), inner), (op.Abs(x * y), x * (-y))


@rule(example="x = float[2,3,5], axis = 1", effect="reassociates")
def softmax_of_any_axis(op, x, *, axis):
    op.where(op.rank(x) >= 1, op.float(x))
    return op.Log(op.Softmax(x, axis=axis)), op.LogSoftmax(x, axis=axis)


round_twice = rule(example=X, name="round_twice")(lambda op, x: (op.Round(op.Round(x)), op.Round(x)))


@rule(example="x = float[2,3], b = float[3]", effect="reassociates")
def bias_gelu(op, x, b):
    op.where((op.rank(b) == 1) & (op.dim(x, -1) == op.dim(b, 0)), op.float(x))
    return op.Gelu(op.Add(x, b)), op.BiasGelu(x, b, _domain="com.microsoft")


RULES = [
    relu_twice, transposed_twice, halved_twice, negative_twice, absolute_of_negative, difference_of_squares, minus_is_plus_negative, not_not,
    max_of_negatives, even_cosine, floor_twice, sign_twice, product_of_negative, swish_of_mine, from_outside, rounded_down, both_of,
    softmax_of_any_axis, round_twice, bias_gelu,
]  # fmt: skip
ARGUMENTS = {"transposed_twice": {"p": [1, 2, 0], "q": [2, 0, 1]}, "softmax_of_any_axis": {"axis": 1}}
SHAPES = {"transposed_twice": [[2, 3, 5]], "product_of_negative": [[2, 3], [3, 4]], "softmax_of_any_axis": [[2, 3, 5]], "bias_gelu": [[2, 3], [3]]}  # fmt: skip


class Builder:
    """`op` of a rule that makes ONNX's nodes instead."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def __getattr__(self, kind):
        if kind[0].islower():
            return lambda *_: Anything()

        def make(*inputs, _domain="", _outputs=1, **attributes):
            attributes = {name: given for name, given in attributes.items() if not isinstance(given, Anything)}
            names = [f"{kind}{len(self.nodes)}_{i}" for i in range(_outputs)]
            self.nodes.append(helper.make_node(kind, [self.name(one) for one in inputs], names, domain=_domain, **attributes))
            made = [Node(self, name) for name in names]
            return made[0] if _outputs == 1 else made

        return make

    def where(self, *_):
        pass

    def name(self, one):
        if isinstance(one, Node):
            return one.text
        self.constants.append(helper.make_tensor(f"c{len(self.constants)}", FLOAT, [], [one]))
        return self.constants[-1].name


class Anything:
    def __ge__(self, _):
        return self

    def __and__(self, _):
        return self

    __eq__ = __ge__
    __hash__ = None


class Node:
    def __init__(self, op, text):
        self.op, self.text = op, text

    def __neg__(self):
        return self.op.Neg(self)

    def __add__(self, other):
        return self.op.Add(self, other)

    def __sub__(self, other):
        return self.op.Sub(self, other)

    def __mul__(self, other):
        return self.op.Mul(self, other)

    def __matmul__(self, other):
        return self.op.MatMul(self, other)


def left_of(one):
    """A model of what the rule finds."""
    import inspect

    names = [p.name for p in inspect.signature(one.function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
    shapes = SHAPES.get(one.name, [[2, 3]] * len(names))
    builder = Builder()
    before, _ = one.function(builder, *(Node(builder, name) for name in names), **ARGUMENTS.get(one.name, {}))
    before = before if isinstance(before, tuple) else (before,)
    kind = TensorProto.BOOL if one is not_not else FLOAT
    outputs = [value(node.text, kind, None) for node in before]
    keep = {name for node in builder.nodes for name in node.output}
    seen, wanted = set(), [node.text for node in before]
    while wanted:
        name = wanted.pop()
        if name in keep and name not in seen:
            seen.add(name)
            wanted += next(list(node.input) for node in builder.nodes if name in node.output)
    nodes = [node for node in builder.nodes if seen & set(node.output)]
    return make_model(nodes, [value(name, FLOAT, dims) for name, dims in zip(names, shapes)], outputs, builder.constants, opset=20)


def test_there_are_twenty():
    assert len({one.name for one in RULES}) == 20


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.name)
def test_it_is_checked_and_fires(one):
    assert one.check()["ok"], one.check()
    rules = onnx_saturate.RuleSet.none() + one
    _, report = onnx_saturate.optimize_with_report(left_of(one), target="ort-cpu@1.31", cost="nodes", rules=rules)
    assert report.rules.get(one.name, 0) > 0 and report.verified, (one.text, report.rules)


def test_beside_the_built_in_ones_and_files(tmp_path):
    (tmp_path / "my.rules").write_text('opset "" 23\nrule of_file (x) => (y)\n  Neg (Neg (x)) => Identity (x)\n  example x = float[2,3]\n')
    model = left_of(relu_twice)
    for given in (relu_twice, [relu_twice, tmp_path / "my.rules"], onnx_saturate.RuleSet.builtin() + relu_twice + (tmp_path / "my.rules")):
        report = onnx_saturate.optimize_with_report(model, rules=given, skip_rules=["relu_relu"] if "relu_relu" in onnx_saturate.RuleSet.builtin() else []).report
        assert report.rules.get("relu_twice", 0) > 0
    assert onnx_saturate.explain(model, rule="relu_twice", rules=relu_twice)


def test_a_wrong_one_is_found():
    @rule(example=X)
    def wrong(op, x):
        return op.Relu(x), op.Abs(x)

    told = wrong.check()
    assert not told["ok"] and told["findings"]


def test_it_comes_back():
    back = pickle.loads(pickle.dumps(relu_twice))
    assert back == relu_twice and back.text == relu_twice.text and hash(back) == hash(relu_twice) and "relu_twice" in repr(back)
    assert onnx_saturate.optimize_with_report(left_of(relu_twice), rules=onnx_saturate.RuleSet.none() + back).report.rules["relu_twice"] > 0
    rules = pickle.loads(pickle.dumps(onnx_saturate.RuleSet.none() + relu_twice))
    assert list(rules) == ["relu_twice"]


def test_several_outputs_of_an_operator():
    @rule(example="x = float[2,6]; x = float[4,3]")
    def split_and_joined(op, x):
        a, b = op.Split(x, axis=1, num_outputs=2, _outputs=2)
        return op.Concat(a, b, axis=1), x

    assert "{ v1, v2 = Split <axis = 1, num_outputs = 2> (x)" in split_and_joined.text and "{ Y = Identity (x) }" in split_and_joined.text


def test_the_text():
    assert relu_twice.text.splitlines()[2:4] == ["# Relu changes nothing the second time.", "rule relu_twice (x) => (Y)"]
    assert relu_twice.place.startswith(__file__ + ":") and relu_twice.__doc__ == "Relu changes nothing the second time."
    assert onnx_saturate.RuleSet.none().add_text(relu_twice.text).show("relu_twice")


# What cannot be traced

def branch(op, x):
    y = op.Relu(x)
    if op.rank(x) > 2:
        return y, x
    return y, y


def loop(op, x):
    for one in x:
        x = one
    return x, x


def compared(op, x):
    return op.Relu(x), op.Relu(x) if x == 0 else x


def number(op, x):
    return op.Relu(x), op.Mul(x, math.sqrt(x))


def text(op, x):
    return op.Relu(x), op.Cast(x, to=f"{x}")


def size(op, x):
    return op.Relu(x), op.Mul(x, len(x))


def array(op, x):
    return op.Relu(x), op.Mul(x, np.zeros((2, 2)))


def chained(op, x):
    op.where(0 < op.rank(x) < 3)
    return op.Relu(x), op.Relu(op.Relu(x))


def alone(op, x):
    return op.Relu(x)


def nothing(op, x):
    return x, op.Relu(x)


def uneven(op, x):
    return (op.Relu(x), op.Abs(x)), op.Relu(x)


def method(op, x):
    return op.Relu(x), x.reshape(3, 2)


def attribute(op, x):
    return op.Relu(x), op.Softmax(x, axis=x)


def flag(op, x):
    return op.Relu(x), op.Relu(x, _allow_other_attributes=True)


def raises(op, x):
    return op.Relu(x), {}["key"]


REFUSED = [
    (branch, 2, "a rule has no branches"), (loop, 1, "a loop over"), (compared, 1, "a comparison of tensors; op.Equal"), (number, 1, "a number is wanted"),
    (text, 1, "the text of what is traced"), (size, 1, "the length of"), (array, 1, "a ndarray; a rule holds numbers"), (chained, 1, "no branches"),
    (alone, 0, "(what to find, what it equals)"), (nothing, 0, "made by an operator"), (uneven, 0, "2 outputs of what to find, and 1"),
    (method, 1, "no attribute 'reshape'"), (attribute, 1, "a tensor as an attribute"), (flag, 1, "_allow_other_attributes"), (raises, 1, "'key'"),
]  # fmt: skip


@pytest.mark.parametrize("function, below, said", REFUSED, ids=lambda one: getattr(one, "__name__", None))
def test_refused_with_its_line(function, below, said):
    with pytest.raises(onnx_saturate.OptionError) as caught:
        rule(example=X)(function)
    line = function.__code__.co_firstlineno + below
    assert str(caught.value).startswith(f"{__file__}:{line}: {function.__name__}: can't be traced into a rule: ") and said in str(caught.value), caught.value


def test_what_the_language_refuses_names_the_function():
    def unknown(op, x):
        return op.Relu(x), op.NoSuchOperator(x)

    def capital(op, Y):
        return op.Relu(Y), Y

    for function, said in (unknown, "NoSuchOperator"), (capital, "take another"):
        with pytest.raises(onnx_saturate.OptionError, match=said) as caught:
            rule(example=X)(function)
        assert str(caught.value).startswith(f"{__file__}:{function.__code__.co_firstlineno}: ")
