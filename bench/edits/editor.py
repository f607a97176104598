"""A model under edit: what is known of its values, new names and constants, and nodes replaced by equal ones."""
import copy

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

onnxruntime.set_default_logger_severity(4)
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}
EDITS = {}  # name -> (operators or None, edit of a node)
WRAPS = {}  # name -> edit of a value


def edit(name, *operators):
    """Registers edit(ed, node) -> nodes that make the same outputs, or None where it does not apply."""
    def register(function):
        EDITS[name] = (frozenset(operators), function)
        return function
    return register


def wrap(name):
    """Registers edit(ed, source, value, kind) -> nodes that make `value`, of which `source` is a copy; or None."""
    def register(function):
        WRAPS[name] = function
        return function
    return register


def session(model, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.graph_optimization_level = 4, 1, level
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model, feed, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL):
    s = session(model, level)
    return s.run(None, {i.name: feed[i.name] for i in s.get_inputs()})


class Facts:
    """Types of a model's values: ranks and element types from a run, static dims from inference (a run cannot tell them from free ones)."""

    def __init__(self, model, feed):
        probe = copy.deepcopy(model)
        have = {o.name for o in probe.graph.output}
        names = [o for n in probe.graph.node for o in n.output if o and o not in have]
        probe.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
        values = dict(feed)
        s = session(probe)
        values.update(zip((o.name for o in s.get_outputs()), s.run(None, {i.name: feed[i.name] for i in s.get_inputs()})))
        values.update((i.name, numpy_helper.to_array(i)) for i in model.graph.initializer)
        self.rank = {k: v.ndim for k, v in values.items() if isinstance(v, np.ndarray)}
        self.kind = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in values.items() if isinstance(v, np.ndarray) and v.dtype != object}
        self.dims = {}
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        for v in [*inferred.value_info, *inferred.input, *inferred.output]:
            if v.type.HasField("tensor_type") and v.type.tensor_type.HasField("shape"):
                self.dims[v.name] = [d.dim_value if d.HasField("dim_value") else None for d in v.type.tensor_type.shape.dim]
        for i in model.graph.initializer:
            self.dims[i.name] = list(i.dims)


class Editor:
    def __init__(self, model, facts, rnd):
        self.model, self.facts, self.rnd = model, facts, rnd
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.producer = {o: n for n in model.graph.node for o in n.output if o}
        self.constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        for n in model.graph.node:
            if n.op_type == "Constant" and n.attribute and n.attribute[0].name == "value":
                self.constants[n.output[0]] = numpy_helper.to_array(n.attribute[0].t)
        self.count = 0

    def name(self):
        self.count += 1
        return f"edited_{self.count}"

    def const(self, array, kind=None):
        """The name of a new initializer; `kind`: of this element type."""
        array = np.asarray(array) if kind is None else np.asarray(array).astype(helper.tensor_dtype_to_np_dtype(kind))
        name = self.name()
        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, values):
        return self.const(np.asarray(values, np.int64))

    def rank(self, value):
        return self.facts.rank.get(value)

    def kind(self, value):
        return self.facts.kind.get(value)

    def dims(self, value):
        """Static dims, None for the others; None where not even the rank is sure."""
        dims, rank = self.facts.dims.get(value), self.rank(value)
        return dims if dims is not None and rank == len(dims) else [None] * rank if rank is not None else None

    def floating(self, value):
        return self.kind(value) in FLOATS

    def scalar(self, value):
        """The number that a constant of one element holds."""
        c = self.constants.get(value)
        return c.item() if c is not None and c.size == 1 and c.dtype.kind == "f" else None

    def made_by(self, value, *operators):
        n = self.producer.get(value)
        return n if n is not None and n.domain in ("", "ai.onnx") and n.op_type in operators else None

    def axes(self, node):
        """Axes of a reduction, Squeeze or Unsqueeze: attribute or constant input."""
        given = attribute(node, "axes")
        if given is None and len(node.input) > 1 and node.input[1] in self.constants:
            given = self.constants[node.input[1]].tolist()
        return given


class Chain:
    """Nodes one after another: `chain("Mul", a, b)` adds one and returns its output; the last one may be named."""

    def __init__(self, ed):
        self.ed, self.nodes = ed, []

    def __call__(self, op_type, *inputs, out=None, outputs=1, domain="", **attributes):
        names = [out] if out else [self.ed.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def axes(self, op_type, x, axes, out=None, **attributes):
        """Squeeze, Unsqueeze or ReduceSum: axes are an input since opset 13; ReduceMean: since 18."""
        if self.ed.opset >= (18 if op_type.startswith("Reduce") and op_type != "ReduceSum" else 13):
            return self(op_type, x, self.ed.ints(axes), out=out, **attributes)
        return self(op_type, x, out=out, axes=list(axes), **attributes)


def attribute(node, name, default=None):
    for a in node.attribute:
        if a.name == name:
            value = helper.get_attribute_value(a)
            return list(value) if a.type == onnx.AttributeProto.INTS else value
    return default


def plain(node):
    return node.domain in ("", "ai.onnx")


def sites(ed, name):
    """Outputs of the nodes, or values, to which an edit may apply."""
    if name in WRAPS:
        return [n.output[0] for n in ed.model.graph.node if plain(n) and n.op_type != "Constant" and n.output and ed.kind(n.output[0]) is not None]
    operators = EDITS[name][0]
    return [n.output[0] for n in ed.model.graph.node if plain(n) and n.op_type in operators and n.output]


def apply(model, facts, decisions, seed):
    """An edited copy; `decisions` are (output, edit) pairs. Also those that applied."""
    import random
    model = copy.deepcopy(model)
    ed = Editor(model, facts, None)
    edits = {output: name for output, name in decisions if name in EDITS}
    wraps = {output: name for output, name in decisions if name in WRAPS}
    nodes, applied = [], []
    for node in model.graph.node:
        output = node.output[0] if node.output else ""
        made = None
        if output in edits:
            ed.rnd = random.Random(f"{seed}/{output}/{edits[output]}")
            made = EDITS[edits[output]][1](ed, node)
            if made is not None:
                applied.append((output, edits[output]))
        made = [copy.deepcopy(node)] if made is None else made
        if output in wraps:
            ed.rnd = random.Random(f"{seed}/{output}/{wraps[output]}")
            source = ed.name()
            around = WRAPS[wraps[output]](ed, source, output, ed.kind(output))
            if around is not None:
                applied.append((output, wraps[output]))
                for n in made:
                    for i, o in enumerate(n.output):
                        if o == output:
                            n.output[i] = source
                made = made + around
        nodes += made
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model, applied
