"""Whether a difference is rounding that a graph amplifies: numbers that cancel, choices that hang on the last bit."""
import numpy as np
import onnx.shape_inference
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

import onnx_saturate

WIDER = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
FLOATS = ("float16", "bfloat16", "float32", "float64")
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-50}
TRIES, FACTOR = 4, 8
UNROUNDED = {"Abs", "Ceil", "Clip", "Compress", "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Dropout", "Expand", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Identity", "Max", "MaxPool", "Min",
             "Neg", "OneHot", "Pad", "Range", "ReduceMax", "ReduceMin", "Relu", "Reshape", "Round", "ScatterElements", "ScatterND", "Sign", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where"}


def widened(graph):
    """The graph in double throughout, in place, with bodies."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in WIDER:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for t in graph.initializer:
        if t.data_type in WIDER:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("g"):
                widened(a.g)
            elif a.HasField("t") and a.t.data_type in WIDER:
                a.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(a.t).astype(np.float64), a.t.name))
            elif a.name in ("to", "dtype") and a.i in WIDER:
                a.i = TensorProto.DOUBLE


def in_double(model, feed):
    """The outputs of our reference kernels in double."""
    wide = type(model)()
    wide.CopyFrom(model)
    widened(wide.graph)
    return list(onnx_saturate.Session(wide, reference=True).run({n: v.astype(np.float64) if v.dtype.name in FLOATS else v for n, v in feed.items()}).values())


def by_fast_kernels(model, feed):
    """The outputs of our fast kernels: they round inside of an operator what the reference kernels keep in double."""
    return list(onnx_saturate.Session(model).run(feed).values())


def jittered(array, rng):
    """Every number a few last bits away."""
    if array.dtype.name not in FLOATS:
        return array
    with np.errstate(all="ignore"):
        return (array.astype(np.float64) * (1 + EPSILON[array.dtype.name] * rng.uniform(-2, 2, array.shape))).astype(array.dtype)


def jittered_model(model, rng):
    """The weights, too; single numbers are what they are."""
    other = type(model)()
    other.CopyFrom(model)
    for t in other.graph.initializer:
        array = numpy_helper.to_array(t)
        if array.size > 1:
            t.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(jittered(array, rng)), t.name))
    return other


def is_float(array):
    return getattr(array, "dtype", np.dtype(bool)).name in FLOATS


def all_values(model, feed):
    """What our reference kernels give for each value of the graph, by name."""
    every = type(model)()
    every.CopyFrom(model)
    del every.graph.output[:]
    every.graph.output.extend(ValueInfoProto(name=name) for node in model.graph.node for name in node.output if name)
    return onnx_saturate.Session(every, reference=True).run(feed)


def with_noise(model, noise):
    """The model with operators behind each output for which noise(node, name) gives any: (operator, its other operand)."""
    other = type(model)()
    other.CopyFrom(model)
    del other.graph.node[:]
    for node in model.graph.node:
        node, behind = type(node).FromString(node.SerializeToString()), []
        for i, name in enumerate(node.output):
            if not name or not (made := noise(node, name)):
                continue
            node.output[i] = f"{name}/exact"
            for k, (operator, operand) in enumerate(made):
                other.graph.initializer.append(numpy_helper.from_array(operand, f"{name}/noise{k}"))
                behind.append(helper.make_node(operator, [f"{name}/exact{k or ''}", f"{name}/noise{k}"], [name if k == len(made) - 1 else f"{name}/exact{k + 1}"]))
        other.graph.node.extend([node, *behind])
    return other


def noise_in_bodies(graph, kinds, rng):
    """Noise of the last bits behind each operator of bodies that rounds, in place: one factor for all elements, whose number is not known."""
    for body in (a.g for node in graph.node for a in node.attribute if a.HasField("g")):
        noise_in_bodies(body, kinds, rng)
        nodes = []
        for node in body.node:
            nodes.append(node)
            for i, name in enumerate(node.output):
                if node.op_type in UNROUNDED or kinds.get(name) not in (*WIDER, TensorProto.DOUBLE):
                    continue
                one = np.ones((), helper.tensor_dtype_to_np_dtype(kinds[name]))
                body.initializer.append(numpy_helper.from_array(jittered(one, rng), f"{name}/noise"))
                nodes.append(helper.make_node("Mul", [f"{name}/exact", f"{name}/noise"], [name]))
                node.output[i] = f"{name}/exact"
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del body.node[:]
        body.node.extend(copies)


def kinds_in_bodies(graph):
    """The types of floats and others that bodies compute, by name, of a graph whose shapes were inferred."""
    found = {}
    for body in (a.g for node in graph.node for a in node.attribute if a.HasField("g")):
        found.update({v.name: v.type.tensor_type.elem_type for v in (*body.value_info, *body.output)}, **kinds_in_bodies(body))
    return found


def disturbed(model, feed, rng):
    """The model with noise of the last bits behind each operator that rounds, in bodies too: any sum of products may be rounded so.
    A half of 0 may be a number too small for halves, which ONNX Runtime still has where it computes a chain of them in float."""
    values = all_values(model, feed)

    def noise(node, name):
        array = values.get(name)
        if node.op_type in UNROUNDED or not is_float(array):
            return []
        factor = ("Mul", jittered(np.ones_like(array), rng))
        if array.dtype != np.float16 or (array != 0).all():
            return [factor]
        return [factor, ("Add", np.where(array == 0, rng.integers(0, 2, array.shape) * 2.0**-24, 0).astype(np.float16))]

    other = with_noise(model, noise)
    noise_in_bodies(other.graph, kinds_in_bodies(onnx.shape_inference.infer_shapes(model).graph), rng)
    return other


def off_in_the_last_bits_of_one(model, feed, rng):
    """The model with another error of its Sigmoid: ONNX Runtime's is right to the last bits of 1, and 0 below -18."""
    values = {**feed, **all_values(model, feed)}

    def noise(node, name):
        if node.op_type not in ("Sigmoid", "QuickGelu", "Swish") or not is_float(values.get(name)):
            return None
        of = 1 if node.op_type == "Sigmoid" else np.abs(values.get(node.input[0], np.float32(1)).astype(np.float64))
        array = values[name]
        with np.errstate(all="ignore"):
            return [("Add", (EPSILON[array.dtype.name] / 8 * rng.uniform(-2, 2, array.shape) * of).astype(array.dtype))]

    return with_noise(model, noise)


def spread(model, feed, judges, wanted, judge, k, exact):
    """How far output k moves where its inputs are rounded otherwise, or another judge runs it; infinite where it can't be said.
    Unless all rules are exact, also where what operators make is rounded otherwise."""
    rng, reference = np.random.default_rng(0), wanted[judge][k].astype(np.float64)
    run = judges[judge]
    moved = np.zeros(reference.shape)

    def note(other):
        nonlocal moved
        with np.errstate(all="ignore"):
            gap = np.abs(other.astype(np.float64) - reference)
        same = (other.astype(np.float64) == reference) | (np.isnan(reference) & np.isnan(other.astype(np.float64)))
        moved = np.maximum(moved, np.where(same, 0, np.where(np.isfinite(gap), gap, np.inf)))

    others = [lambda: in_double(model, feed), lambda: by_fast_kernels(model, feed)] + [lambda outputs=outputs: outputs for name, outputs in wanted.items() if name != judge] + [lambda: run(jittered_model(model, rng), {n: jittered(v, rng) for n, v in feed.items()}) for _ in range(TRIES)]
    if not exact:
        others += [lambda: run(disturbed(model, feed, rng), feed) for _ in range(TRIES)]
    for other in others:
        try:
            output = other()[k]
        except Exception:
            continue
        if output.shape != reference.shape:
            return np.full(reference.shape, np.inf)
        note(output)
    return moved


def sigmoid_spread(result, feed, run, got):
    """How far an output of the result moves by the error of ONNX Runtime's Sigmoid. What is not finite then (a logarithm of 0) is no rounding."""
    rng, moved = np.random.default_rng(0), np.zeros(np.shape(got[0]))
    output, k = got
    for _ in range(TRIES):
        try:
            gap = np.abs(run(off_in_the_last_bits_of_one(result, feed, rng), feed)[k].astype(np.float64) - output.astype(np.float64))
        except Exception:
            break
        moved = np.maximum(moved, np.where(np.isfinite(gap), gap, 0))
    return moved


def explains(model, result, feed, judges, wanted, judge, got, k, apart, exact):
    """Whether `got` is no farther from what the judge gives for the original than what rounding moves."""
    if apart is None:
        return False
    moved = spread(model, feed, judges, wanted, judge, k, exact)
    if judge == "ORT" and not exact:
        with np.errstate(all="ignore"):
            moved = np.maximum(moved, sigmoid_spread(result, feed, judges[judge], (got[k], k)))
    if moved.ndim:  # an element is measured with its row
        moved = np.maximum(moved, np.max(np.where(np.isfinite(moved), moved, 0), axis=-1, keepdims=True, initial=0))
    with np.errstate(all="ignore"):
        gap = np.abs(got[k].astype(np.float64) - wanted[judge][k].astype(np.float64))
    return bool(np.all((gap <= FACTOR * moved)[apart]))
