"""Draws shapes, arrays and whole models: chains of operators, each instance valid by its specification (specs*.py), or, "wild", made from
the schema alone and mostly refused by everybody."""
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
LARGE = (1, 2, 3, 16, 33, 64, 65, 100, 130, 257)
EXOTIC = {"bfloat16": ml_dtypes.bfloat16, "float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e5m2": ml_dtypes.float8_e5m2,
          "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}
NATIVE = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_, "string": object, "int8": np.int8, "int16": np.int16,
          "int32": np.int32, "int64": np.int64, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64}
FLOATS = (np.float32, np.float16, np.float64, ml_dtypes.bfloat16)
WORDS = ("", "a", "B", "zebra", "Äpfel", "a b", "1", "-2.5", "nan", "aaa")


class Skip(Exception):
    """This operator does not take what it was offered."""


def proto_type(array):
    return TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)


def is_float(dtype):
    return np.dtype(dtype) in [np.dtype(f) for f in FLOATS]


def is_exotic(dtype):
    return np.dtype(dtype) in [np.dtype(t) for t in EXOTIC.values()]


class Draw:
    """A seeded source of everything. `special`: NaN, infinities, signed zeros and extreme integers are drawn, too. `large`: tensors large
    enough to be shared out to threads."""

    def __init__(self, seed, opset, large=False):
        self.rng = np.random.default_rng(seed)
        self.opset, self.large = opset, large
        self.special = self.chance(0.12)
        self.zero_size = self.chance(0.08)

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def int(self, low, high):
        """Both ends included."""
        return int(self.rng.integers(low, high + 1))

    def size(self):
        return 0 if self.zero_size and self.chance(0.3) else self.pick(LARGE if self.large else SIZES)

    def shape(self, low=0, high=4):
        shape = [self.size() for _ in range(self.int(low, high))]
        while np.prod(shape) > (400_000 if self.large else 20000):
            shape[int(np.argmax(shape))] = 2
        return tuple(shape)

    def axis(self, rank):
        return self.int(-rank, rank - 1)

    def axes(self, rank):
        chosen = self.rng.permutation(rank)[: self.int(1, rank)]
        return [int(a) - (rank if self.chance(0.4) else 0) for a in chosen]

    def array(self, dtype, shape, low=None, high=None):
        """Without bounds: numbers around 0 (floats), small (integers)."""
        dtype, shape = np.dtype(dtype), tuple(shape)
        if dtype == object:
            return np.array([self.pick(WORDS) for _ in range(int(np.prod(shape)))], dtype=object).reshape(shape)
        if dtype == np.bool_:
            return np.asarray(self.rng.random(shape) < 0.5)
        if is_float(dtype) or dtype.name.startswith("float8"):
            a = self.rng.standard_normal(shape) * self.pick((0.5, 1, 1, 3)) if low is None else self.rng.uniform(low, high, shape)
            a = np.asarray(a)
            if self.special and a.size and low is None:
                for _ in range(self.int(1, 3)):
                    a.flat[self.int(0, a.size - 1)] = self.pick((np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e-40))
            with np.errstate(over="ignore", invalid="ignore"):
                return a.astype(dtype)
        unsigned = dtype.name.startswith("u")
        low = (0 if unsigned else -7) if low is None else low
        high = 7 if high is None else high
        a = np.asarray(self.rng.integers(low, high + 1, shape))
        if self.special and a.size and not is_exotic(dtype) and (low, high) in ((0, 7), (-7, 7)):
            info = np.iinfo(dtype)
            a = a.astype(dtype)
            a.flat[self.int(0, a.size - 1)] = self.pick((info.min, info.max))
        return np.asarray(a).astype(dtype)

    def broadcastable(self, shape):
        """A shape that broadcasts with this one."""
        out = [1 if self.chance(0.3) else d for d in shape[self.int(0, len(shape)) if self.chance(0.4) else 0:]]
        if self.chance(0.1):
            out = [self.int(1, 3)] * self.int(0, 1) + out if len(out) == len(shape) else out
        return tuple(out)


class Build:
    """A model under construction, with the value of everything in it where the standard's evaluator knows it."""

    def __init__(self, draw):
        self.draw, self.nodes, self.initializers, self.inputs, self.feed = draw, [], [], [], {}
        self.count, self.constant_share = 0, draw.pick((0.0, 0.5, 0.5, 0.9))

    def fresh(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def leaf(self, array, constant=None):
        """The name of a new input or initializer. What NumPy lacks comes in as float and is cast."""
        array = np.asarray(array)
        name = self.fresh("x")
        if self.draw.chance(self.constant_share) if constant is None else constant:
            self.initializers.append(numpy_helper.from_array(array, name))
            return name
        exotic = is_exotic(array.dtype)
        fed = array.astype(np.float32) if exotic else array
        dims = list(fed.shape) if self.draw.chance(0.6) else [f"{name}_{k}" for k in range(fed.ndim)]
        self.inputs.append(helper.make_tensor_value_info(name, proto_type(fed), dims))
        self.feed[name] = fed
        if not exotic:
            return name
        cast = self.fresh("c")
        self.nodes.append(helper.make_node("Cast", [name], [cast], to=proto_type(array)))
        return cast

    def model(self, outputs):
        infos = []
        for name in outputs:
            info = onnx.ValueInfoProto()
            info.name = name
            infos.append(info)
        graph = helper.make_graph(self.nodes, "fuzz", self.inputs, infos, self.initializers)
        imports = [helper.make_opsetid("", self.draw.opset)] + [helper.make_opsetid(d, 1) for d in sorted({n.domain for n in self.nodes} - {""})]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def evaluate(node, arrays, opset):
    """One node by the standard's evaluator; None where it does not run."""
    from onnx.reference import ReferenceEvaluator

    names = [n for n in node.input if n]
    infos = [helper.make_tensor_value_info(n, proto_type(arrays[n]), arrays[n].shape) for n in dict.fromkeys(names)]
    outs = []
    for name in node.output:
        if name:
            info = onnx.ValueInfoProto()
            info.name = name
            outs.append(info)
    model = helper.make_model(helper.make_graph([node], "one", infos, outs), opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            values = ReferenceEvaluator(model).run(None, {n: arrays[n] for n in names})
    except Exception:
        return None
    values = {o.name: np.asarray(v) if isinstance(v, np.generic) else v for o, v in zip(outs, values)}
    return values if all(_as_inferred(model, name, v) for name, v in values.items()) else None


def _as_inferred(model, name, value):
    """The evaluator gives int64 for sums of int32, and images of other sizes than shape inference: no base for a chain."""
    if not isinstance(value, np.ndarray):
        return True
    try:
        info = next(o.type.tensor_type for o in onnx.shape_inference.infer_shapes(model).graph.output if o.name == name)
    except Exception:
        return False
    dims = [d.dim_value if d.HasField("dim_value") else None for d in info.shape.dim]
    fits = not info.HasField("shape") or (len(dims) == value.ndim and all(d in (None, e) for d, e in zip(dims, value.shape)))
    return info.elem_type == proto_type(value) and fits


def with_types(model):
    """Outputs that NumPy lacks a type for leave as float; types of the others as inferred."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:
        return model
    exotic = {proto_type(np.zeros(1, t)) for t in EXOTIC.values()}
    nodes, outputs = list(model.graph.node), []
    for info in inferred.graph.output:
        kept = onnx.ValueInfoProto()
        kept.name = info.name
        if info.type.tensor_type.elem_type in exotic:
            nodes.append(helper.make_node("Cast", [info.name], [info.name + "_f"], to=TensorProto.FLOAT))
            kept.name += "_f"
        elif info.type.WhichOneof("value"):
            kept.type.CopyFrom(info.type)
        outputs.append(kept)
    graph = helper.make_graph(nodes, "fuzz", list(model.graph.input), outputs, list(model.graph.initializer))
    return helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)


def add(build, spec, known, first=None):
    """Appends an instance of `spec`; with `first` (a name of `known`) that value is its first input. Names of its outputs."""
    draw = build.draw
    made = spec.make(draw, None if first is None else known[first])
    names, arrays = [], {}
    for position, value in enumerate(made.inputs):
        if value is None:
            names.append("")
        elif first is not None and position == made.chained:
            names.append(first)
            arrays[first] = known[first]
        else:
            constant = True if position in made.constants else None
            name = build.leaf(value, constant)
            names.append(name)
            arrays[name] = np.asarray(value)
    while names and names[-1] == "":
        names.pop()
    outputs = ["" if k in made.absent else build.fresh("y") for k in range(made.outputs)]
    node = helper.make_node(spec.op, names, outputs, domain=spec.domain, **made.attributes)
    build.nodes.append(node)
    values = evaluate(node, arrays, draw.opset) if made.evaluate and not (spec.domain or draw.large) else None
    outputs = [name for name in outputs if name]
    for name in outputs:
        known[name] = (values or {}).get(name)
    return outputs


def random_model(seed, specs, opset, only=None, large=False):
    """(model, feed, operators) of a chain of one to five operators; of one, if `large`."""
    draw = Draw(seed, opset, large)
    build, known = Build(draw), {}
    length = 1 if only or large or draw.chance(0.5) else draw.int(2, 5)
    draw.special = draw.special and length == 1
    usable = [s for s in specs if s.since <= opset <= s.until]
    pool = [s for s in usable if only is None or s.op in only]
    if length > 1 and draw.chance(0.6):
        theme = draw.pick(("conv", "dense", "pointwise"))
        pool = [s for s in pool if theme in s.themes]
    outputs, exact, ops = None, True, []
    for _ in range(length):
        candidates = [s for s in pool if exact or not s.jumps]
        for _ in range(30):
            spec = draw.pick(candidates)
            first = None
            if outputs is not None:
                live = [o for o in outputs if isinstance(known[o], np.ndarray) and 0 <= known[o].ndim and known[o].size <= 20000]
                if not live:
                    break
                first = live[0] if draw.chance(0.8) else draw.pick(live)
            try:
                before = (len(build.nodes), len(build.inputs), len(build.initializers), dict(build.feed), build.count)
                new = add(build, spec, known, first)
            except Skip:
                build.nodes, build.inputs, build.initializers = build.nodes[: before[0]], build.inputs[: before[1]], build.initializers[: before[2]]
                build.feed, build.count = before[3], before[4]
                continue
            kept = [o for o in outputs or [] if o != first or draw.chance(0.15)]
            outputs, exact = new + kept, exact and spec.exact
            ops.append(spec.op)
            break
    return with_types(build.model(outputs)), build.feed, ops


def wild_model(seed, schemas, opset):
    """(model, feed, operators): one operator with inputs and attributes that only its schema's types bound."""
    draw = Draw(seed, opset)
    schema = draw.pick(schemas)
    build, bound, names = Build(draw), {}, []
    shape = draw.shape(0, 5)
    count = draw.int(schema.min_input, min(schema.max_input, max(len(schema.inputs), schema.min_input + 2)))
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for k in range(count):
        formal = schema.inputs[min(k, len(schema.inputs) - 1)]
        types = [t for t in constraints.get(formal.type_str, [formal.type_str]) if t.startswith("tensor(") and t[7:-1] in NATIVE | EXOTIC]
        if not types or (formal.option == onnx.defs.OpSchema.FormalParameterOption.Optional and draw.chance(0.4)):
            if not types and k < schema.min_input:
                raise Skip
            names.append("")
            continue
        dtype = bound.setdefault(formal.type_str, draw.pick(types)) if formal.is_homogeneous else draw.pick(types)
        own = shape if draw.chance(0.5) else draw.broadcastable(shape) if draw.chance(0.5) else draw.shape(0, 4)
        if dtype == "tensor(int64)" and draw.chance(0.6):
            own = (draw.int(0, 4),)
        names.append(build.leaf(draw.array((NATIVE | EXOTIC)[dtype[7:-1]], own)))
    attributes = {}
    kinds = onnx.defs.OpSchema.AttrType
    for name, attribute in schema.attributes.items():
        if not attribute.required and draw.chance(0.6):
            continue
        value = {kinds.INT: lambda: draw.int(-2, 4), kinds.FLOAT: lambda: draw.pick((0.0, 0.1, 1.0, -2.5)), kinds.STRING: lambda: draw.pick(("constant", "NOTSET", "linear", "sum", "SAME_UPPER", "x")),
                 kinds.INTS: lambda: [draw.int(-1, 3) for _ in range(draw.int(0, 4))], kinds.FLOATS: lambda: [draw.pick((0.0, 1.0, 2.5)) for _ in range(draw.int(0, 4))],
                 kinds.STRINGS: lambda: ["a", "b"][: draw.int(0, 2)]}.get(attribute.type)
        if value is None:
            raise Skip
        attributes[name] = value()
    outputs = [build.fresh("y") for _ in range(max(1, schema.min_output, len(schema.outputs) if draw.chance(0.3) else 1))]
    nothing = [name for name, value in attributes.items() if value == []]
    node = helper.make_node(schema.name, names, outputs, **{k: v for k, v in attributes.items() if k not in nothing})
    build.nodes.append(node)
    return build.model(outputs), build.feed, [schema.name]  # no inference: that of onnx itself ends in a crash for some
