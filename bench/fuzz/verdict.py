"""What lies outside of the tolerances of docs/decisions.md, and whether the original itself moves as far: with its numbers one unit in the last
place away, or with what its operators give rounded otherwise, or its quantized values a step away."""
import numpy as np
import onnx.inliner
from onnx import TensorProto, helper

from . import stability

TOLERANCE = {"float16": 2e-2, "bfloat16": 2e-2, "float32": 1e-4, "float64": 1e-6}
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
LEAST = {"float16": 2.0**-23}  # two steps of its smallest numbers
FACTOR, TRIES = 4, 8
LOSSY = [("", "Softplus")]  # operators whose body by the standard loses what is small: there it stands beside 1
QUANTIZED = (np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int16), np.dtype(np.uint16))


def wide(array):
    return np.asarray(array).astype(np.float64)


def halves_inside(model):
    """Whether a half is anywhere: then floats may be computed of halves, and have their tolerance."""
    text = model.SerializeToString()
    halves = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
    if any(i.type.tensor_type.elem_type in halves for i in (*model.graph.input, *model.graph.output, *model.graph.value_info)):
        return True
    return any(t.data_type in halves for t in model.graph.initializer) or any(n in text for n in (b"Cast", b"Constant")) and _halves_in(model.graph.node, halves)


def _halves_in(nodes, halves):
    for node in nodes:
        for a in node.attribute:
            if a.name in ("to", "dtype") and a.i in halves or a.t.data_type in halves or _halves_in(a.g.node, halves) or any(t.data_type in halves for t in a.g.initializer):
                return True
    return False


def usual(size):
    """The median of what is not 0 in each row."""
    if not size.ndim or not size.size:
        return size
    with np.errstate(all="ignore"):
        filled = np.where(size > 0, size, np.nan)
        empty = np.isnan(filled).all(axis=-1, keepdims=True)
        return np.where(empty, 0, np.nanmedian(np.where(empty, 0, filled), axis=-1, keepdims=True))


def apart(wanted, got, halves=False):
    """Which elements are outside of the tolerance, of those that are finite in `wanted`; None: another shape or type."""
    a, b = np.asarray(wanted), np.asarray(got)
    if a.shape != b.shape or a.dtype != b.dtype:
        return None
    share = TOLERANCE.get(a.dtype.name, 0)
    if not share:
        return np.asarray(a != b)
    share = TOLERANCE["float16"] if halves else share
    with np.errstate(all="ignore"):
        x, y = wide(a), wide(b)
        size = np.abs(np.where(np.isfinite(x), x, 0))
        near = np.abs(x - y) <= share * np.maximum(size, usual(size)) + LEAST.get(a.dtype.name, 1e-38)
    return np.isfinite(x) & ~near


def a_unit_away(array, rng):
    """Every number moved by one unit in the last place, up or down, or left."""
    if array.dtype.name not in UNIT or not array.size:
        return array
    with np.errstate(all="ignore"):
        x = wide(array)
        return (x * (1 + 2 * UNIT[array.dtype.name] * rng.integers(-1, 2, array.shape))).astype(array.dtype)


def moved_model(model, rng):
    """The weights, too, of the graph and its bodies."""
    other = type(model)()
    other.CopyFrom(model)

    def tensor(t):
        if t.data_type in stability.WIDER or t.data_type == TensorProto.DOUBLE:
            t.CopyFrom(stability.numpy_helper.from_array(np.ascontiguousarray(a_unit_away(stability.numpy_helper.to_array(t), rng)), t.name))

    def graph(g):
        for t in g.initializer:
            tensor(t)
        for node in g.node:
            for a in node.attribute:
                if a.HasField("g"):
                    graph(a.g)
                elif a.HasField("t") and node.op_type == "Constant":
                    tensor(a.t)

    graph(other.graph)
    return other


def stepped(model, feed, rng):
    """The model with some quantized values a step away."""
    values = stability.all_values(model, feed)
    other = type(model)()
    other.CopyFrom(model)
    del other.graph.node[:]
    for node in model.graph.node:
        node, behind = type(node).FromString(node.SerializeToString()), []
        for i, name in enumerate(node.output):
            array = values.get(name)
            if not node.op_type.startswith(("Q", "DynamicQ")) or getattr(array, "dtype", None) not in QUANTIZED:
                continue
            info, kind = np.iinfo(array.dtype), helper.np_dtype_to_tensor_dtype(array.dtype)
            steps = (rng.integers(-1, 2, array.shape) * (rng.random(array.shape) < rng.choice((0.1, 0.4)))).astype(np.int32)
            for tag, constant in (("steps", steps), ("low", np.int32(info.min)), ("high", np.int32(info.max))):
                other.graph.initializer.append(stability.numpy_helper.from_array(np.asarray(constant), f"{name}/{tag}"))
            behind += [helper.make_node("Cast", [f"{name}/exact"], [f"{name}/wide"], to=TensorProto.INT32),
                       helper.make_node("Add", [f"{name}/wide", f"{name}/steps"], [f"{name}/moved"]),
                       helper.make_node("Clip", [f"{name}/moved", f"{name}/low", f"{name}/high"], [f"{name}/in"]),
                       helper.make_node("Cast", [f"{name}/in"], [name], to=kind)]
            node.output[i] = f"{name}/exact"
        other.graph.node.extend([node, *behind])
    return other


def reaches(runs, k, wanted, got, outside):
    """Whether `got` is no farther away in these runs of the original than FACTOR times what they move; integers: what one of them gave."""
    wanted, got = np.asarray(wanted), np.asarray(got)
    x, moved, seen = wide(wanted), np.zeros(wanted.shape), np.zeros(wanted.shape, bool)
    low, high = x.copy(), x.copy()
    for outputs in runs:
        y = np.asarray(outputs[k])
        if y.shape != wanted.shape:
            return True  # a size hangs on the last bit
        with np.errstate(all="ignore"):
            seen |= y == got
            gap = np.abs(wide(y) - x)
            moved = np.maximum(moved, np.where(np.isfinite(gap), gap, np.inf))
            low, high = np.fmin(low, wide(y)), np.fmax(high, wide(y))
    if not TOLERANCE.get(wanted.dtype.name):
        return bool(np.all((seen | (low <= wide(got)) & (wide(got) <= high))[outside]))
    if moved.ndim:
        moved = np.maximum(moved, np.max(np.where(np.isfinite(moved), moved, 0), axis=-1, keepdims=True, initial=0))
    with np.errstate(all="ignore"):
        return bool(np.all((np.abs(wide(got) - x) <= FACTOR * moved)[outside]))


def by_bodies(model):
    return onnx.inliner.inline_selected_functions(model, LOSSY, inline_schema_functions=True)


def ties(model, k, wanted, got):
    """Whether an output that a quantizer makes differs by a step on at most half of its elements: those that lie between two integers."""
    made_by = next((n.op_type for n in model.graph.node if model.graph.output[k].name in n.output), "")
    if wanted.dtype not in QUANTIZED or not made_by.startswith("Q"):
        return False
    steps = np.abs(wanted.astype(np.int64) - got)
    return steps.max() <= 1 and (steps > 0).sum() <= max(steps.size / 2, 1)


def ran(run, makers):
    """Outputs of those of the models and inputs that run."""
    for make in makers:
        try:
            yield run(*make())
        except Exception:
            continue


def explained(model, feed, run, k, wanted, got, outside):
    """Why a difference is none, or None. `run`: (model, feed) -> outputs, as `wanted` was made."""
    if outside is None:
        return None
    rng = np.random.default_rng(0)

    def a_unit():
        return moved_model(model, rng), {n: a_unit_away(v, rng) for n, v in feed.items()}

    runs = list(ran(run, [a_unit] * TRIES))
    if runs and reaches(runs, k, wanted, got, outside):
        return "a unit in the last place of the inputs"
    runs += ran(run, [lambda: (by_bodies(model), feed)])
    runs += ran(run, [lambda: (stability.disturbed(model, feed, rng), feed)] * TRIES)
    try:
        runs.append([np.asarray(v).astype(np.asarray(w).dtype) for v, w in zip(stability.in_double(model, feed), runs[0] if runs else [])] or stability.in_double(model, feed))
    except Exception:
        pass
    if runs and reaches(runs, k, wanted, got, outside):
        return "rounding inside"
    if ties(model, k, np.asarray(wanted), np.asarray(got)):
        return "a step of a quantized value"
    runs += ran(run, [lambda: (stepped(model, feed, rng), feed)] * TRIES)
    return "a step of a quantized value" if runs and reaches(runs, k, wanted, got, outside) else None
