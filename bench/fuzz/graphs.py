"""Random small graphs in which rules find something to do: transposes, views, slices and concatenations that meet, arithmetic with numbers
like 0, 1 and -1, products with constants, normalizations, values that several nodes read, bodies that read values from outside."""
import copy

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import onnx_saturate
from onnx_saturate import backend

OPSETS = (13, 14, 17, 18, 20, 21, 23)
NUMBERS = (0, 1, 2, -1, 0.5, 3, -2, 0.125, 1e-5, 8)
UNARY = ("Neg", "Abs", "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "Reciprocal", "Identity", "Log", "Softplus", "Floor", "Sign", "Sin", "Cos",
         "HardSigmoid", "LeakyRelu", "Elu")
BINARY = ("Add", "Sub", "Mul", "Div", "Add", "Mul", "Max", "Min", "Pow")
COMPARE = ("Greater", "Less", "Equal", "GreaterOrEqual")
REDUCE = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceSumSquare")
MOST_ELEMENTS, LARGEST = 20_000, 1e4


class Unfit(Exception):
    """This step does not fit what is there; another is tried."""


def broadcasts(a, b):
    try:
        np.broadcast_shapes(a, b)
        return True
    except ValueError:
        return False


class Graph:
    """Nodes so far, and the array that each value has on the drawn inputs: so every step is known to run, and stays finite."""

    def __init__(self, seed, dtype, most=MOST_ELEMENTS):
        self.rng, self.dtype, self.most, self.empty = np.random.default_rng(seed), np.dtype(dtype), most, False  # empty: sizes may be 0
        self.nodes, self.initializers, self.arrays, self.count = [], [], {}, 0
        self.inputs, self.outputs, self.rules = [], [], []  # outputs: beside those that nothing reads; rules: whose patterns were put in
        self.free = set()  # inputs that may be any number
        self.opset = self.pick(OPSETS)
        self.inside, self.depth = None, 0  # steps of branches, where others are wanted; how deep in bodies

    def child(self):
        """For a body: it sees all values so far; its names are its own. `count` has to be taken over afterwards."""
        inner = copy.copy(self)
        inner.nodes, inner.initializers, inner.arrays = [], [], dict(self.arrays)
        inner.outputs, inner.depth = [], self.depth + 1
        return inner

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p):
        return self.rng.random() < p

    def noise(self, shape, scale=1.0):
        numbers = self.rng.standard_normal(shape) * scale
        if self.dtype.kind in "iu":
            numbers = np.abs(numbers * 4) if self.dtype.kind == "u" else numbers * 4
        return numbers.astype(self.dtype)

    def constant(self, array):
        name, array = f"c{self.count}", np.asarray(array)
        self.count += 1
        if self.chance(0.3):
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.initializers.append(numpy_helper.from_array(array, name))
        self.arrays[name] = array
        return name

    def input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.arrays[name] = array
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def number(self, *options):
        value = self.pick(options or NUMBERS)
        return self.constant(np.full((1,) * self.pick((0, 0, 1, 2)) if not options else (), value, self.dtype))

    def add(self, op, inputs, outputs=1, checked=True, **attributes):
        """Names of the outputs. `checked`: numbers stay finite and small, sizes above 0 where they were."""
        names = [f"v{self.count + i}" for i in range(outputs)]
        self.count += outputs
        return self.put(helper.make_node(op, inputs, names, **attributes), inputs, checked)

    def add_node(self, node, inputs):
        """A node of another graph on values of this one."""
        names = [f"v{self.count + i}" if name else "" for i, name in enumerate(node.output)]
        self.count += len(names)
        del node.input[:], node.output[:]
        node.input.extend(inputs)
        node.output.extend(names)
        return self.put(node, inputs, False)

    def put(self, node, inputs, checked):
        if node.op_type.startswith("Reduce") and len(inputs) > 1 and inputs[1] and self.arrays[inputs[0]].ndim:
            axes = self.arrays[inputs[1]] % self.arrays[inputs[0]].ndim
            if len(set(axes.tolist())) < axes.size:
                raise Unfit  # an axis named twice: nothing says what is left
        versions = {"opset_version": self.opset} if not node.domain else {}
        with np.errstate(all="ignore"):
            results = backend.run_node(node, [self.arrays[i] if i else None for i in inputs], **versions)
        for result in results:
            if not isinstance(result, np.ndarray) or result.size > self.most or (checked and result.size == 0 and not self.empty):
                raise Unfit
            if checked and result.dtype == self.dtype and not np.all(np.abs(result) <= LARGEST):
                raise Unfit
        self.nodes.append(node)
        self.arrays.update((name, result) for name, result in zip(node.output, results) if name)
        return list(node.output)


# Steps: (graph, values of the graph's type, x) -> names of new values.


def binary(g, values, x):
    op, rank = g.pick(BINARY), g.arrays[x].ndim
    if op == "Pow":
        return g.add("Pow", [x, g.number(2, 0.5, 1, 0, 3, -1)])
    kind = g.rng.random()
    if kind < 0.4:
        other = g.number()
    elif kind < 0.6 and rank:
        tail = g.arrays[x].shape[int(g.rng.integers(rank)):]
        other = g.constant(g.noise([d if g.chance(0.7) else 1 for d in tail]))
    else:
        other = g.pick([v for v in values if broadcasts(g.arrays[v].shape, g.arrays[x].shape)])
    return g.add(op, [x, other] if g.chance(0.6) else [other, x])


def unary(g, values, x):
    return g.add(g.pick(UNARY), [x])


def transpose(g, values, x):
    if g.arrays[x].ndim == 0:
        raise Unfit
    return g.add("Transpose", [x], perm=[int(i) for i in g.rng.permutation(g.arrays[x].ndim)])


def reshape(g, values, x):
    shape = list(g.arrays[x].shape)
    if shape and g.chance(0.3):  # two dims are joined, or all stay
        i = int(g.rng.integers(len(shape)))
        joined = [0] * i + [-1] + shape[i + 2:] if g.chance(0.5) and i + 1 < len(shape) else [0] * i + [-1] + [0] * (len(shape) - i - 1)
        return g.add("Reshape", [x, g.ints(*joined)])
    factors, left = [], g.arrays[x].size
    for prime in (2, 3, 5, 7, 11):
        while left and left % prime == 0:
            factors.append(prime)
            left //= prime
    wanted = [1] * int(g.rng.integers(1, 5))
    for factor in factors + [left]:
        wanted[int(g.rng.integers(len(wanted)))] *= factor
    if g.chance(0.3):
        wanted[int(g.rng.integers(len(wanted)))] = -1
    return g.add("Reshape", [x, g.ints(*wanted)])


def flatten(g, values, x):
    return g.add("Flatten", [x], axis=int(g.rng.integers(g.arrays[x].ndim + 1)))


def unsqueeze(g, values, x):
    more = int(g.rng.integers(1, 3))
    rank = g.arrays[x].ndim + more
    if rank > 5:
        raise Unfit
    axes = g.rng.choice(np.arange(rank), more, replace=False)
    return g.add("Unsqueeze", [x, g.ints(*[int(a) - (rank if g.chance(0.3) else 0) for a in axes])])


def squeeze(g, values, x):
    ones = [axis for axis, dim in enumerate(g.arrays[x].shape) if dim == 1]
    if not ones:
        raise Unfit
    return g.add("Squeeze", [x] if g.chance(0.3) else [x, g.ints(g.pick(ones))])


def axis_of(g, x):
    """(axis, its size, the axis as it is written)."""
    rank = g.arrays[x].ndim
    if rank == 0:
        raise Unfit
    axis = int(g.rng.integers(rank))
    return axis, g.arrays[x].shape[axis], axis if g.chance(0.5) else axis - rank


def cut(g, values, x):
    _, size, axis = axis_of(g, x)
    step = g.pick((1, 1, 1, 2, -1))
    if step < 0:
        start, end = g.pick(((-1, -(2**31)), (size - 1, -size - 1)))
    else:
        start, end = int(g.rng.integers(-size, size)), g.pick((size, 2**31 - 1, int(g.rng.integers(-size, size + 1)), -1))
    return g.add("Slice", [x, *(g.ints(i) for i in (start, end, axis, step))])


def concat(g, values, x):
    axis, _, written = axis_of(g, x)
    shape = g.arrays[x].shape
    fits = [v for v in values if g.arrays[v].ndim == len(shape) and all(p == q for i, (p, q) in enumerate(zip(g.arrays[v].shape, shape)) if i != axis)]
    return g.add("Concat", [x, *(g.pick(fits) for _ in range(g.pick((1, 1, 2))))], axis=written)


def split(g, values, x):
    _, size, axis = axis_of(g, x)
    if size < 2:
        raise Unfit
    first = int(g.rng.integers(1, size))
    return g.add("Split", [x, g.ints(first, size - first)], 2, axis=axis)


def gather(g, values, x):
    _, size, axis = axis_of(g, x)
    ids = g.pick((np.int64(g.rng.integers(-size, size)), np.arange(size)[::-1], np.arange(size), g.rng.integers(0, size, int(g.rng.integers(1, 4)))))
    return g.add("Gather", [x, g.constant(np.asarray(ids, np.int64).copy())], axis=axis)


def expand(g, values, x):
    shape = [1 if g.chance(0.3) else dim if dim > 1 else g.pick((1, 2, 3)) for dim in g.arrays[x].shape]
    return g.add("Expand", [x, g.ints(*([2] if g.chance(0.3) else []), *shape)])


def pad(g, values, x):
    return g.add("Pad", [x, g.ints(*(g.pick((0, 0, 1, 2)) for _ in range(2 * g.arrays[x].ndim))), g.number(0, 1, -1)], mode=g.pick(("constant", "constant", "edge")))


def matmul(g, values, x):
    shape = g.arrays[x].shape
    if not shape:
        raise Unfit
    fits = [v for v in values if g.arrays[v].ndim >= 2 and g.arrays[v].shape[-2] == shape[-1] and broadcasts(g.arrays[v].shape[:-2], shape[:-2])]
    return g.add("MatMul", [x, g.pick(fits) if fits and g.chance(0.4) else g.constant(g.noise((shape[-1], g.pick((1, 2, 3, 6))), 0.5))])


def gemm(g, values, x):
    shape, left, right = g.arrays[x].shape, int(g.chance(0.3)), int(g.chance(0.5))
    if len(shape) != 2:
        raise Unfit
    inner, columns = shape[1 - left], g.pick((1, 2, 3, 6))
    inputs = [x, g.constant(g.noise((columns, inner) if right else (inner, columns), 0.5))]
    if g.chance(0.6):
        inputs.append(g.constant(g.noise(g.pick(((columns,), (1, columns), (), (1,))))))
    return g.add("Gemm", inputs, transA=left, transB=right, alpha=g.pick((1.0, 0.5, 2.0)), beta=g.pick((1.0, 0.5, 0.0)))


def reduce(g, values, x):
    op, rank = g.pick(REDUCE), g.arrays[x].ndim
    if rank == 0:
        raise Unfit
    axes, keep = [int(a) for a in g.rng.permutation(rank)[: int(g.rng.integers(1, rank + 1))]], int(g.chance(0.6))
    if op == "ReduceSum" or g.opset >= 18:
        return g.add(op, [x, g.ints(*axes)], keepdims=keep)
    return g.add(op, [x], axes=axes, keepdims=keep)


def softmax(g, values, x):
    return g.add(g.pick(("Softmax", "LogSoftmax")), [x], axis=axis_of(g, x)[2])


def where(g, values, x):
    other = g.pick([v for v in values if broadcasts(g.arrays[v].shape, g.arrays[x].shape)])
    (condition,) = g.add(g.pick(COMPARE), [x, other if g.chance(0.5) else g.number()])
    if g.chance(0.3):
        (condition,) = g.add("Not", [condition])
    return g.add("Where", [condition, x if g.chance(0.5) else g.number(), other if g.chance(0.5) else g.number()])


def cast(g, values, x):
    (there,) = g.add("Cast", [x], to=g.pick((TensorProto.DOUBLE, TensorProto.INT32, TensorProto.BOOL, TensorProto.FLOAT)))
    return g.add("Cast", [there], to=helper.np_dtype_to_tensor_dtype(g.dtype))


def clip(g, values, x):
    return g.add("Clip", [x, g.number(-1) if g.chance(0.5) else "", g.number(2) if g.chance(0.5) else ""])


def computed_shape(g, values, x):
    (shape,) = g.add("Shape", [x])
    (order,) = g.add("Gather", [shape, g.ints(*g.rng.permutation(g.arrays[x].ndim))])
    return g.add("Reshape", [x, order])


def conv(g, values, x):
    shape = g.arrays[x].shape
    if len(shape) not in (3, 4):
        raise Unfit
    kernel, channels = [g.pick((1, 1, 3))] * (len(shape) - 2), g.pick((1, 2, 4))
    inputs = [x, g.constant(g.noise([channels, shape[1], *kernel], 0.3))]
    if g.chance(0.5):
        inputs.append(g.constant(g.noise(channels)))
    return g.add("Conv", inputs, kernel_shape=kernel, pads=[int(kernel[0] == 3 and g.chance(0.5))] * (2 * len(kernel)))


def batch_norm(g, values, x):
    if g.arrays[x].ndim < 2:
        raise Unfit
    channels = g.arrays[x].shape[1]
    return g.add("BatchNormalization", [x, *(g.constant(g.noise(channels)) for _ in range(3)), g.constant(np.abs(g.noise(channels)) + g.dtype.type(0.1))])


def layer_norm(g, values, x):
    if g.arrays[x].ndim < 1 or g.opset < 17:
        raise Unfit
    width = g.arrays[x].shape[-1]
    return g.add("LayerNormalization", [x, g.constant(g.noise(width)), g.constant(g.noise(width))])


STEPS = ([binary] * 7 + [unary] * 3 + [transpose, reshape] * 4 + [unsqueeze, squeeze, cut, concat, split, gather, matmul, reduce] * 2
         + [flatten, expand, pad, gemm, softmax, where, cast, clip, computed_shape, conv, batch_norm, layer_norm])


def declared(name, array, symbolic):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), symbolic or array.shape)


def names_read(nodes):
    """Also in bodies."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from names_read(attribute.g.node)


def grow(g, values, wanted, steps, start=()):
    """Steps until there are that many values, appended to `values`; fewer where too little fits. `start`: values for a first step."""
    for _ in range(8 * wanted):
        before = len(g.nodes), len(g.initializers), len(g.inputs), len(g.outputs)
        mine = [v for v in (*start, *values) if g.arrays[v].dtype == g.dtype]
        try:
            if not mine:
                raise Unfit
            values += g.pick(steps)(g, mine, g.pick(mine[-4:] if g.chance(0.7) else mine))
        except (Unfit, onnx_saturate.Error, ValueError, IndexError, OverflowError):
            g.nodes, g.initializers, g.outputs = g.nodes[: before[0]], g.initializers[: before[1]], g.outputs[: before[3]]
            for name in g.inputs[before[2]:]:
                g.inputs.remove(name)
            g.arrays = known(g)
        if len(values) >= wanted:
            return


def known(g):
    """The arrays of what is still there."""
    there = {*g.inputs, *(i.name for i in g.initializers), *(o for n in g.nodes for o in n.output)}
    return {name: array for name, array in g.arrays.items() if name in there}


def begun(seed, dtype, sizes, most=MOST_ELEMENTS, opsets=()):
    """A graph with one or two inputs."""
    g = Graph(seed, dtype, most)
    g.opset = g.pick(opsets) if opsets else g.opset
    g.empty = 0 in sizes
    for _ in range(g.pick((1, 2))):
        shape = [g.pick(sizes) for _ in range(int(g.rng.integers(1, 5)))]
        g.free.add(g.input(g.noise(shape[: max(n for n in range(1, len(shape) + 1) if np.prod(shape[:n]) <= most)])))
    return g


def random_graph(seed, dtype=np.float32, steps=STEPS, sizes=(1, 2, 3, 4, 6), most=MOST_ELEMENTS):
    """(model, feed, operators), or None where nothing came of the seed."""
    g = begun(seed, dtype, sizes, most)
    values, length = list(g.inputs), int(g.rng.integers(2, 16))
    grow(g, values, len(values) + length, steps)
    return finished(g)


def every_node(nodes):
    """Also of bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from every_node(attribute.g.node)


def with_open_bodies(nodes):
    """Inputs of bodies have the ranks that they had, and no sizes."""
    for node in nodes:
        for attribute in node.attribute:
            for info in attribute.g.input:
                for dim in info.type.tensor_type.shape.dim:
                    dim.Clear()
            with_open_bodies(attribute.g.node)


def finished(g):
    """(model, feed, operators); None where there is no node."""
    made = [o for n in g.nodes if n.op_type != "Constant" for o in n.output if o]
    if not made:
        return None
    read = set(names_read(g.nodes))
    outputs = [v for v in made if v not in read] or made[-1:]
    outputs = list(dict.fromkeys([*outputs, *g.outputs]))
    if g.chance(0.2):  # a value inside that others need too
        outputs = list(dict.fromkeys([*outputs, g.pick(made)]))
    inputs = [n for n in g.inputs if n in read] or g.inputs[:1]
    if inputs and g.chance(0.1):  # an input as it is
        outputs.append(g.pick(inputs))
    free = g.chance(0.4) and not any(n.op_type == "Scan" for n in every_node(g.nodes))  # its state keeps its shape: of other sizes it might not
    if free:
        with_open_bodies(g.nodes)
    graph = helper.make_graph(
        g.nodes, "g",
        [declared(n, g.arrays[n], free and [f"{n}_{i}" for i in range(g.arrays[n].ndim)]) for n in inputs],
        [declared(n, g.arrays[n], free and [None] * g.arrays[n].ndim) for n in outputs],
        [i for i in g.initializers if i.name in read])
    domains = {n.domain for n in g.nodes} - {""}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset), *(helper.make_opsetid(d, 1) for d in sorted(domains))], ir_version=10)
    return model, {n: g.arrays[n] for n in inputs}, [n.op_type for n in g.nodes if n.op_type != "Constant"]
