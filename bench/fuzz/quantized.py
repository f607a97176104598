"""Random quantized graphs through the optimizer, with its exact rules alone: original and result have the same bits in ONNX Runtime without its
optimizations. Floats and integers of every width are moved, joined, cut, bounded and compared between quantizers with random parameters."""
import re

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

import onnx_saturate

from . import graphs, workers
from .graphs import Unfit
from .optimize import in_onnx_runtime
from .workers import outcome

OPSETS = (13, 17, 19, 21, 21, 23)
EIGHT, MORE = (np.uint8, np.int8), (np.uint16, np.int16, ml_dtypes.uint4, ml_dtypes.int4)
SCALES = (0.05, 0.1, 0.007, 0.3, 1.0, 0.5, 2.0**-4)
ODD_SCALES = (-0.1, 0.0, np.inf, 1e-40, 1e35, np.nan, 3e-38)
TARGETS = ("ort-cpu@1.20", "onnx", "ort-cpu@1.20")
MOVES = [graphs.transpose, graphs.reshape] * 3 + [graphs.cut, graphs.split, graphs.gather, graphs.concat, graphs.unsqueeze, graphs.squeeze, graphs.expand, graphs.flatten] * 2
_rules = {}


def not_exact():
    if not _rules:
        rules = onnx_saturate.RuleSet.builtin()
        _rules["names"] = [name for name in rules if re.search(r"\beffect (reassociates|approximates)\b", rules.show(name))]
    return _rules["names"]


class Quantized:
    """What a graph's integers were quantized with: (scale, zero point or "", axis)."""

    def __init__(self):
        self.of, self.used = {}, []


def parameters(g, q, x):
    """New ones, or those of another value."""
    rank = g.arrays[x].ndim
    if q.used and g.chance(0.6):
        kind = g.pick(q.used)
        if kind[2] is None or (kind[2] < rank and g.arrays[kind[0]].shape == (g.arrays[x].shape[kind[2]],)):
            return kind
    dtype = g.pick(EIGHT if g.opset < 21 or g.chance(0.6) else MORE)
    axis = int(g.rng.integers(rank)) if rank and g.chance(0.25) else None
    shape = () if axis is None else (g.arrays[x].shape[axis],)
    draw = ODD_SCALES if g.chance(0.06) else SCALES
    scale = g.constant(np.array([g.pick(draw) for _ in range(int(np.prod(shape)))], np.float32).reshape(shape))
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    zero = g.constant(np.array([g.pick((0, low, high, int(g.rng.integers(low, high + 1)))) for _ in range(int(np.prod(shape)))], np.int64).astype(dtype).reshape(shape))
    if dtype == np.uint8 and g.chance(0.2):
        zero = ""
    q.used.append((scale, zero, axis))
    return q.used[-1]


def call(g, op, x, kind):
    scale, zero, axis = kind
    attributes = {} if axis is None else {"axis": axis}
    return g.add(op, [x, scale] + ([zero] if zero else []), checked=False, **attributes)[0]


def quantize(g, q, x):
    kind = parameters(g, q, x)
    name = call(g, "QuantizeLinear", x, kind)
    q.of[name] = kind
    return name


def is_float(g, name):
    return g.arrays[name].dtype == np.float32


def float_step(g, q, floats, x):
    step = g.pick((*MOVES, "relu", "clip", "binary", "matmul", "pool", "where", "pad", "gather"))
    if callable(step):
        return step(g, floats, x)
    if step == "relu":
        return g.add(g.pick(("Relu", "Neg", "Abs", "Relu")), [x])
    if step == "clip":
        return g.add("Clip", [x, g.pick(("", g.constant(np.float32(g.pick((0, -1, -6, -12.8)))))), g.constant(np.float32(g.pick((6, 1, 12.7, 25.5))))])
    if step == "binary":
        fits = [v for v in floats if graphs.broadcasts(g.arrays[v].shape, g.arrays[x].shape)]
        op = g.pick(("Max", "Min", "Add", "Greater", "LessOrEqual", "Equal", "Mul"))
        return g.add(op, [x, g.pick(fits)])
    if step == "matmul":
        return graphs.matmul(g, floats, x)
    if step == "pool":
        if g.arrays[x].ndim != 4:
            raise Unfit
        return g.add("MaxPool", [x], kernel_shape=[g.pick((1, 2)), g.pick((1, 2))], pads=[0, 0, g.pick((0, 0, 1)), 0] if g.arrays[x].shape[2] > 1 else [0] * 4)
    if step == "where":
        fits = [v for v in floats if graphs.broadcasts(g.arrays[v].shape, g.arrays[x].shape)]
        condition = g.constant(g.rng.integers(0, 2, g.arrays[x].shape).astype(bool))
        return g.add("Where", [condition, x, g.pick(fits)])
    if step == "pad":
        return graphs.pad(g, floats, x)
    if g.arrays[x].ndim == 0:
        raise Unfit
    axes = g.ints(int(g.rng.integers(g.arrays[x].ndim)))
    if g.opset >= 18 and g.chance(0.5):
        return g.add(g.pick(("ReduceMax", "ReduceMin")), [x, axes], keepdims=int(g.chance(0.5)))
    return g.add(g.pick(("ArgMax", "ArgMin")), [x], axis=int(g.rng.integers(g.arrays[x].ndim)), keepdims=int(g.chance(0.5)))


def drawn(seed):
    g, q = graphs.Graph(seed, np.float32), Quantized()
    g.opset = g.pick(OPSETS)
    values = []
    for _ in range(g.pick((1, 1, 2))):
        shape = tuple(int(g.pick((1, 2, 3, 4, 6))) for _ in range(g.pick((1, 2, 3, 4, 4))))
        values.append(g.input(g.noise(shape, g.pick((1.0, 10.0)))))
    steps = int(g.rng.integers(4, 14))
    for _ in range(200):
        if steps == 0:
            break
        x = g.pick(values[-4:])
        try:
            if is_float(g, x):
                new = [quantize(g, q, x)] if g.chance(0.45) else float_step(g, q, [v for v in values if is_float(g, v)], x)
            elif x in q.of and g.chance(0.6):
                new = [call(g, "DequantizeLinear", x, q.of[x] if g.chance(0.9) else parameters_of_type(g, q, x))]
            elif x in q.of:
                new = g.pick((graphs.transpose, graphs.reshape, graphs.cut, graphs.gather, graphs.split))(g, [x], x)
                if q.of[x][2] is None:
                    q.of.update((name, q.of[x]) for name in new)
            else:
                raise Unfit
        except Exception:  # what does not run is not drawn
            continue
        values += new
        steps -= 1
    read = set(graphs.names_read(g.nodes))
    last = [v for v in values if v not in read and v not in g.inputs] or values[-1:]
    return g, [v for v in last if v not in g.inputs] or [g.add("Neg", [values[0]])[0]]


def parameters_of_type(g, q, x):
    alike = [k for k in q.used if k[1] and g.arrays[k[1]].dtype == g.arrays[x].dtype and k[2] is None]
    if not alike:
        raise Unfit
    return g.pick(alike)


def model_of(g, outputs):
    def declared(name):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(g.arrays[name].dtype), g.arrays[name].shape)

    graph = helper.make_graph(g.nodes, "drawn", [declared(i) for i in g.inputs], [declared(o) for o in outputs], g.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)], ir_version=10)


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def work(seed, settings):
    g, outputs = drawn(seed)
    model = model_of(g, outputs)
    feed = {name: g.arrays[name] for name in g.inputs}
    options = {"target": TARGETS[seed % 3], "cost": ("nodes", "measured")[seed % 2], "skip_rules": not_exact(), "verify": False, "time_limit": 20.0}
    try:
        wanted = in_onnx_runtime(model, feed)
    except Exception as error:
        return [outcome("refused by ORT", label=str(error)[:100])]
    workers.about_to_run(settings, "the optimizer", model, feed)
    try:
        result = onnx_saturate.optimize(model, **options)
    except onnx_saturate.Error as error:
        return [outcome("wrong", f"the optimizer refuses: {error}", model=model, feed=feed)]
    try:
        got = in_onnx_runtime(result, feed)
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) and options["target"] != "ort-cpu@1.20":
            return [outcome("no kernel", counted={"fewer": len(result.graph.node) < len(model.graph.node)})]
        return [outcome("wrong", f"ORT refuses the result: {' '.join(str(error).split())[:300]}", model=model, feed=feed)]
    for k, (a, b) in enumerate(zip(wanted, got)):
        if not same(a, b):
            a, b = np.asarray(a), np.asarray(b)
            return [outcome("wrong", f"output {k}: {a.ravel()[:6]} became {b.ravel()[:6]} ({options['target']})", model=model, feed=feed)]
    return [outcome("equal", counted={"fewer": len(result.graph.node) < len(model.graph.node)})]
