"""Part `models`: random small models in our runtime (the Python package), in ONNX Runtime and in the standard's reference evaluator.

Three quarters of the models are chains of one to five operators that are valid by the specification (specs*.py); a job in five has single
operators drawn from their schemas alone (wild), which mostly all refuse: there crashes and hangs are looked for. Wrong is where we crash, hang,
differ from two others that agree, or refuse a valid model that both others run (with operators of com.microsoft: that ONNX Runtime runs),
unless explained.py says why.
"""
import warnings

import numpy as np
import onnx

from . import draw, explained, judges, specs, specs_contrib, specs_data  # noqa: F401
from .workers import outcome

CASES = 50  # of a job: judges are processes of their own
OPSETS = (13, 14, 15, 16, 17, 18, 18, 19, 20, 21, 21, 22, 23, 23, 24)


def tolerance(dtype, length):
    """(relative to the element, relative to the largest): what orders of summation and float32 functions may differ by."""
    return {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-4, "float64": 1e-6}.get(dtype.name, 0) * length


def close(a, b, loosest, length):
    """Whether two outputs are the same up to rounding in the coarsest type that the model computes with."""
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        return isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b) and all(close(x, y, loosest, length) for x, y in zip(a, b))
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    texts = a.dtype.kind in "OUS", b.dtype.kind in "OUS"
    if a.shape != b.shape or texts[0] != texts[1] or (not texts[0] and a.dtype != b.dtype):
        return False
    if texts[0]:
        return all((x.decode() if isinstance(x, bytes) else str(x)) == (y.decode() if isinstance(y, bytes) else str(y)) for x, y in zip(a.flat, b.flat))
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        x, y = a.astype(np.complex128), b.astype(np.complex128)
        finite = np.abs(y[np.isfinite(y)])
        bound = max(tolerance(a.dtype, length), loosest)
        scale = min(float(finite.max()), 1e30) if finite.size else 0.0
        scale = max(scale, 1.0) if length > 1 else scale  # a chain's last step may cancel what the steps before rounded
        same = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound * (np.abs(y) + scale) + 1e-6 * (bound > 0))
    return bool(same.all())


def loosest_type(model, feed):
    """The bound of the coarsest float type in the model; 0 where there is none."""
    names = {np.asarray(v).dtype.name for v in feed.values()} | {onnx.helper.tensor_dtype_to_np_dtype(i.data_type).name for i in model.graph.initializer if i.data_type != onnx.TensorProto.STRING}
    names |= {onnx.helper.tensor_dtype_to_np_dtype(a.i).name for n in model.graph.node for a in n.attribute if n.op_type == "Cast" and a.name == "to" and a.i != onnx.TensorProto.STRING}
    return max((tolerance(np.dtype(n), 1) for n in ("float16", "float32", "float64") if n in names), default=0) if "bfloat16" not in names else 3e-2


def agree(a, b, loosest, length):
    return len(a) == len(b) and all(close(x, y, loosest, length) for x, y in zip(a, b))


def sort_of(outcome, loosest, length):
    """The name of what happened; outcomes by judge."""
    state = {judge: result[0] for judge, result in outcome.items()}
    for judge in ("ours", "ours_reference"):
        if state[judge] in ("crash", "hang"):
            return f"we {state[judge]}"
    others = {j: outcome[j][1] for j in ("ort", "standard") if state[j] == "ran"}
    if state["ours"] != state["ours_reference"]:
        return "only one of our two levels runs"
    if state["ours"] == "refused":
        return "refused by all" if not others else "we refuse, both others run" if len(others) == 2 else f"we refuse, {next(iter(others))} runs"
    ours = outcome["ours"][1]
    if not agree(ours, outcome["ours_reference"][1], loosest, length):
        return "fast and reference differ"
    if not others:
        return "only we run"
    right = {j for j, o in others.items() if agree(ours, o, loosest, length)}
    if len(right) == len(others):
        return f"agree with {'both' if len(others) == 2 else next(iter(others))}"
    if right:
        return f"{next(iter(set(others) - right))} differs from us and the other"
    if len(others) == 2:
        return "we differ from both" if agree(others["ort"], others["standard"], loosest, length) else "all three differ"
    return f"differ from {next(iter(others))}, the other refuses"


BAD = ("we crash", "we hang", "fast and reference differ", "only one of our two levels runs", "we differ from both", "all three differ", "we refuse, both others run")
DOUBT = ("we refuse, ort runs", "we refuse, standard runs", "differ from ort, the other refuses", "differ from standard, the other refuses")


def drawn(seed, usable, ops, wild):
    """(model, feed, operators), or None where nothing came of the seed."""
    opset = OPSETS[seed % len(OPSETS)]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if wild:
                schemas = [onnx.defs.get_schema(n, opset) for n in sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and s.since_version <= opset})]
                schemas = [s for s in schemas if not s.deprecated and (not ops or s.name in ops) and s.name not in ("If", "Loop", "Scan", "SequenceMap")]
                case = draw.wild_model(seed, schemas, opset)
            else:
                case = draw.random_model(seed, usable, opset, ops)
    except (draw.Skip, KeyError, IndexError, ValueError, TypeError, onnx.defs.SchemaError):
        return None
    return case if case[2] else None


def first_difference(outputs, ours):
    """(output, index) of the first element that is clearly another; None where there is none, or the shapes differ."""
    for k, (a, b) in enumerate(zip(outputs, ours)):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.shape != b.shape or a.dtype.kind in "OUS" or not a.size:
            continue
        with np.errstate(all="ignore"):
            x, y = a.astype(np.complex128).ravel(), b.astype(np.complex128).ravel()
            far = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.nan_to_num(np.abs(x - y), nan=1e300))
        if far.max() > 0:
            return k, int(far.argmax())
    return None


def describe(results):
    ran = [o[1] for o in results.values() if o[0] == "ran"]
    place = next((p for p in (first_difference(o, ran[0]) for o in ran[1:] if ran) if p), None)

    def text(value):
        if isinstance(value, str):
            return value
        parts = []
        for k, v in enumerate(value):
            if isinstance(v, (list, tuple)):
                parts.append(str(v)[:80])
                continue
            v = np.asarray(v)
            at = place[1] if place and place[0] == k else 0
            parts.append(f"{v.dtype}{list(v.shape)} from {at}: {np.array2string(v.ravel()[at:at + 5], precision=8, separator=',')}")
        return "; ".join(parts)

    return "\n".join(f"      {judge:15}{result[0]:8}{text(result[1])[:300]}" for judge, result in results.items())


def as_text(seed, model, feed, results):
    return (f"seed {seed} opset {model.opset_import[0].version}\n      {' | '.join(onnx.printer.to_text(n) for n in model.graph.node)[:600]}\n      "
            f"{({n: (v.dtype.name, v.shape) for n, v in feed.items()})} {[(i.name, onnx.TensorProto.DataType.Name(i.data_type), tuple(i.dims)) for i in model.graph.initializer]}\n{describe(results)}")


def work(first, settings):
    """The cases of the seeds from `first` on."""
    ops, wild = set(settings["ops"] or ()) or None, first // CASES % 5 == 4
    usable = [s for s in specs.SPECS if not ops or s.op in ops]
    batch = [(seed, *case) for seed in range(first, first + CASES) if (case := drawn(seed, usable, ops, wild))]
    pairs = [(model.SerializeToString(), feed) for _, model, feed, _ in batch]
    results = {judge: judges.run(judge, pairs) for judge in judges.JUDGES}
    found = []
    for k, (seed, model, feed, operators) in enumerate(batch):
        ran = {judge: results[judge][k] for judge in judges.JUDGES}
        sort = sort_of(ran, loosest_type(model, feed), len(operators))
        fused = any(n.domain for n in model.graph.node)  # ONNX Runtime's own: its word is the standard's
        against = sort in BAD[:2] if wild else sort in BAD or (fused and sort in DOUBT)
        text = as_text(seed, model, feed, ran) if against or (settings["show"] and settings["show"] in sort) else None
        if against and explained.reason(sort, model, feed, ran) is None:
            found.append(outcome("wrong", f"{sort}: {text}", seed=seed, model=model, feed=feed, label=" ".join(operators)))
        else:
            shown = settings["show"] and settings["show"] in sort
            found.append(outcome(sort + (" (wild)" if wild else ""), text=f"{sort}: {text}" if shown else None))
    return found
