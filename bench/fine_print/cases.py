"""Single nodes along axes: each operator has a base, and per axis the other values that are tried, alone and in pairs."""
import dataclasses
import itertools
import zlib
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
F32, F16, F64 = np.float32, np.float16, np.float64
LOWEST = float(np.finfo(np.float32).min)
INPUTS_FOR_ALL = {"values": ["usual", "large", "tiny", "zeros", "special"], "constants": [False, True]}


class Skip(Exception):
    """These settings make no model: they need each other, or exclude each other."""


def need(condition):
    if not condition:
        raise Skip


@dataclasses.dataclass
class Made:
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: list = dataclasses.field(default_factory=lambda: [True])  # which are asked for
    weights: tuple = ()       # inputs that are initializers with `constants`
    always: tuple = ()        # inputs that are initializers in any case
    opset: int = 21
    data: tuple = (0,)        # floats that `values` is about


@dataclasses.dataclass
class Operator:
    op: str
    domain: str
    axes: dict        # name -> its values, of which the first is the base's
    make: Callable    # (source, settings) -> Made

    def name(self):
        return f"{self.domain}::{self.op}" if self.domain else self.op


OPERATORS = {}


def operator(*ops, domain=MS, **axes):
    """Of a function (source, settings) that makes the node for the settings; `op` is among them."""
    def register(function):
        for op in ops:
            made = Operator(op, domain, {"op": [op], **axes, **INPUTS_FOR_ALL}, function)
            OPERATORS[made.name()] = made
        return function

    return register


class Source:
    """Of numbers: the same for the same settings."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def floats(self, dtype, *shape):
        return self.rng.standard_normal(shape).astype(dtype)

    def ints(self, dtype, low, high, *shape):
        """The upper end is included."""
        return self.rng.integers(low, high + 1, shape).astype(dtype)


def given(settings, *names):
    """The attributes of these names that are set."""
    return {name: settings[name] for name in names if settings[name] is not None}


def scaled(array, how, rng):
    """Floats of another kind of size; `special`: some of them NaN, infinite, huge or nearly 0."""
    if how == "usual" or array is None or array.dtype.kind != "f":
        return array
    if how == "special":
        array = array.copy()
        most = 6e4 if array.dtype == F16 else 1e30
        for place, value in zip(rng.permutation(array.size), (np.nan, np.inf, -np.inf, most, -most, 1e-7, -0.0)):
            array.flat[place] = value
        return array
    return (array * {"large": 300.0, "tiny": 1e-4, "zeros": 0.0}[how]).astype(array.dtype)


def seed_of(*words):
    return zlib.crc32(repr(words).encode())


def base(operator):
    return {axis: values[0] for axis, values in operator.axes.items()}


def build(operator, settings):
    """The model, and what is fed to it."""
    source = Source(seed_of(operator.name(), [settings.get(axis) for axis in ("batch", "queries", "shape")]))
    made = operator.make(source, settings)
    names, feed, initializers = [], {}, []
    for place, array in enumerate(made.inputs):
        names.append("" if array is None else f"x{place}")
        if array is None:
            continue
        if place in made.data:
            array = scaled(array, settings["values"], source.rng)
        if place in made.always or (settings["constants"] and place in made.weights) or array.dtype.name in ("int4", "uint4"):  # which NumPy has no files for
            initializers.append(numpy_helper.from_array(array, names[-1]))
        else:
            feed[names[-1]] = array
    while names and not names[-1]:
        names.pop()
    outputs = [f"y{place}" if wanted else "" for place, wanted in enumerate(made.outputs)]
    while not outputs[-1]:
        outputs.pop()
    node = helper.make_node(operator.op, names, outputs, domain=operator.domain, name="node", **made.attributes)
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in feed.items()]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs if name], initializers)
    imports = [helper.make_opsetid("", made.opset), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feed


def drawn(operator, pairs, seed=0):
    """Settings: the base, each other value alone, and so many pairs of two values (None: all pairs)."""
    first = base(operator)
    yield first
    changes = [(axis, value) for axis, values in operator.axes.items() for value in values[1:]]
    for axis, value in changes:
        yield first | {axis: value}
    two = [first | dict(both) for both in itertools.combinations(changes, 2) if both[0][0] != both[1][0]]
    rng = np.random.default_rng(seed_of(operator.name(), seed))
    yield from two if pairs is None else [two[k] for k in rng.permutation(len(two))[:pairs]]


def changed(operator, settings):
    """The axes that are not as in the base."""
    return {axis: value for axis, value in settings.items() if value != operator.axes[axis][0]}
