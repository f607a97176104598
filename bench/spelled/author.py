"""Writes a model node by node; how a part is spelled is a choice that is drawn, or given."""
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OPSETS = (17, 11, 13, 14, 15, 18, 19, 20, 21, 22, 23)


class Problem(Exception):
    """Choices that do not go together."""


class Author:
    """`plan` gives choices by name, the others are the first option; without a plan all are drawn from `seed`, each the first option with
    probability `calm`. `choices` has what was chosen."""

    def __init__(self, seed=0, plan=None, calm=0.5):
        self.rnd, self.plan, self.calm = random.Random(seed), plan, calm
        self.choices, self.options, self.scope = {}, {}, ""
        self.nodes, self.initializers, self.inputs, self.outputs, self.feed, self.functions = [], [], [], [], {}, []
        self.domains, self.count = {}, 0
        self.numbers = np.random.default_rng(7)
        self.opset = self.pick("opset", *OPSETS)

    # ---- choices

    def pick(self, key, *options):
        name = base = f"{self.scope}{key}"
        number = 1
        while name in self.choices:
            number += 1
            name = f"{base}#{number}"
        if self.plan is not None:
            chosen = self.plan.get(name, options[0])
            chosen = chosen if chosen in options else options[0]
        else:
            chosen = options[0] if self.rnd.random() < self.calm else self.rnd.choice(options)
        self.choices[name], self.options[name] = chosen, options
        return chosen

    def coin(self, key):
        return self.pick(key, False, True)

    def within(self, scope):
        """The author, with another prefix for the names of choices."""
        author = self

        class Scope:
            def __enter__(self):
                self.before, author.scope = author.scope, f"{author.scope}{scope}."

            def __exit__(self, *_):
                author.scope = self.before
        return Scope()

    # ---- values

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def initializer(self, array):
        name = self.name()
        self.initializers.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def const(self, array, kind=np.float32):
        """A constant, in one of the places where constants come from."""
        array = np.asarray(array).astype(kind)
        way = self.pick("constant", "initializer", "node", "sum", "transposed", "double", "joined", "reshaped", "filled", "gathered")
        if way == "node":
            return self.op("Constant", value=numpy_helper.from_array(array))
        if way == "sum" and array.dtype == np.float32 and np.isfinite(array).all() and np.abs(array).max(initial=0) < 1e4:
            half = (array / 2).astype(kind)
            return self.op("Add", self.initializer(half), self.initializer(half))
        if way == "transposed" and array.ndim == 2:
            return self.op("Transpose", self.initializer(array.T), perm=[1, 0])
        if way == "double" and array.dtype == np.float32:
            return self.op("Cast", self.initializer(array.astype(np.float64)), to=FLOAT)
        if way == "joined" and array.ndim and len(array) > 1:
            return self.op("Concat", self.initializer(array[:1]), self.initializer(array[1:]), axis=0)
        if way == "reshaped":
            return self.op("Reshape", self.initializer(array.reshape(-1)), self.initializer(np.array(array.shape, np.int64)))
        if way == "filled" and array.size and (array == array.reshape(-1)[0]).all() and array.dtype == np.float32:
            return self.op("ConstantOfShape", self.initializer(np.array(array.shape, np.int64)), value=numpy_helper.from_array(array.reshape(-1)[:1]))
        if way == "gathered" and array.ndim:
            return self.op("Gather", self.initializer(np.stack([array + 1, array])), self.initializer(np.int64(1)), axis=0)
        return self.initializer(array)

    def number(self, value):
        """A number as a tensor of one element, of rank 0, 1, or more where `wide` allows."""
        shape = self.pick("number", (), (1,), (1, 1))
        return self.const(np.full(shape, value))

    def ints(self, values):
        return self.const(values, np.int64)

    def random(self, *dims, scale=1.0):
        return (self.numbers.standard_normal(dims) * scale).astype(np.float32)

    def input(self, name, array, dims):
        if name in self.feed:
            return name
        self.feed[name] = array
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
        return name

    def output(self, value, kind=FLOAT):
        name = f"out{len(self.outputs)}"
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    # ---- nodes

    def op(self, op_type, *inputs, outputs=1, domain="", **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def axes(self, op_type, x, axes, **attributes):
        """An operator whose axes became an input at some opset."""
        since = 13 if op_type in ("ReduceSum", "Squeeze", "Unsqueeze") else 18
        if self.opset >= since:
            return self.op(op_type, x, self.initializer(np.array(axes, np.int64)), **attributes)
        return self.op(op_type, x, axes=list(axes), **attributes)

    def add(self, a, b):
        way = self.pick("add", "add", "swapped", "sum", "minus")
        if way == "sum":
            return self.op("Sum", a, b)
        if way == "minus":
            return self.op("Sub", a, self.op("Neg", b))
        return self.op("Add", *((b, a) if way == "swapped" else (a, b)))

    def mul(self, a, b):
        return self.op("Mul", *((b, a) if self.coin("mul_swapped") else (a, b)))

    def times(self, x, value):
        """A product with a number."""
        way = self.pick("times", "mul", "div", "reciprocal", "sqrt", "pow", "vector")
        if way == "div":
            return self.op("Div", x, self.number(1 / value))
        if way == "reciprocal":
            return self.mul(x, self.op("Reciprocal", self.number(1 / value)))
        if way == "sqrt" and value > 0:
            return self.mul(x, self.op("Sqrt", self.number(value * value)))
        if way == "pow" and value > 0:
            return self.mul(x, self.op("Pow", self.number(1 / (value * value)), self.number(-0.5)))
        return self.mul(x, self.number(value))

    def product(self, *factors):
        """In any order and association; a factor is a value or a number."""
        tree = self.pick("tree", *range(16))
        rnd, factors = random.Random(tree), list(factors)
        while len(factors) > 1:
            i, j = (0, 1) if tree == 0 else sorted(rnd.sample(range(len(factors)), 2))
            a, b = factors[i], factors[j]
            if isinstance(a, float):
                a, b = b, a
            joined = a * b if isinstance(a, float) else self.times(a, b) if isinstance(b, float) else self.mul(a, b)
            factors = [joined] + [f for k, f in enumerate(factors) if k not in (i, j)]
        return factors[0]

    # ---- shapes

    def dim(self, x, axis):
        """One dim of a value as int64[1]."""
        way = self.pick("dim", "gather", "gather_unsqueeze", "slice", "part", "int32", "reshape", "squeeze")
        if way == "part" and self.opset >= 15:
            return self.op("Shape", x, start=axis, end=axis + 1)
        shape = self.op("Shape", x)
        if way == "gather_unsqueeze":
            return self.axes("Unsqueeze", self.op("Gather", shape, self.initializer(np.int64(axis)), axis=0), [0])
        if way == "slice":
            return self.op("Slice", shape, self.initializer(np.int64([axis])), self.initializer(np.int64([axis + 1])), self.initializer(np.int64([0])))
        if way == "int32":
            return self.op("Cast", self.op("Gather", self.op("Cast", shape, to=TensorProto.INT32), self.initializer(np.int64([axis])), axis=0), to=INT64)
        if way == "reshape":
            return self.op("Reshape", self.op("Gather", shape, self.initializer(np.int64(axis)), axis=0), self.initializer(np.int64([1])))
        if way == "squeeze":
            one = self.op("Gather", shape, self.initializer(np.int64([axis])), axis=0)
            return self.axes("Unsqueeze", self.axes("Squeeze", one, [0]), [0])
        return self.op("Gather", shape, self.initializer(np.int64([axis])), axis=0)

    def reshape(self, x, dims, kept=()):
        """`dims`: ints, or (value, axis) for a dim of a value. `kept`: places that keep the dim at their place."""
        open_dims = [i for i, d in enumerate(dims) if not isinstance(d, int)]
        way = self.pick("reshape", "zeros", "joined", "one_open", "arithmetic")
        if way == "zeros" and all(i in kept for i in open_dims):
            return self.op("Reshape", x, self.ints([d if isinstance(d, int) else 0 for d in dims]))
        if way == "one_open" and len(open_dims) == 1 and -1 not in dims:
            return self.op("Reshape", x, self.ints([d if isinstance(d, int) else -1 for d in dims]))
        parts = []
        for d in dims:
            if isinstance(d, int):
                parts.append(self.initializer(np.int64([d])))
            elif isinstance(d, list):
                part = self.dim(*d[0])
                for f in d[1:]:
                    part = self.op("Mul", part, self.initializer(np.int64([f])) if isinstance(f, int) else self.dim(*f))
                parts.append(part)
            elif way == "arithmetic":
                part = self.dim(*d)
                parts.append(self.op("Div", self.op("Mul", part, self.initializer(np.int64([2]))), self.initializer(np.int64([2]))))
            else:
                parts.append(self.dim(*d))
        return self.op("Reshape", x, self.op("Concat", *parts, axis=0))

    def model(self):
        opsets = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(d, v) for d, v in self.domains.items())]
        graph = helper.make_graph(self.nodes, "spelled", self.inputs, self.outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=opsets, functions=self.functions)
        model.ir_version = 8 if self.opset <= 18 else 9 if self.opset <= 20 else 10
        return model


def checked(model):
    onnx.checker.check_model(model)
    return model
