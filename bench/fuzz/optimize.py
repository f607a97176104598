"""Random graphs through the optimizer (parts `graphs` and `rules`): original and result in ONNX Runtime, with its optimizer and without, and in
our own runtime. Wrong is what lies outside of the tolerance where both agree on the original, and is no rounding that the graph amplifies."""
import re

import ml_dtypes
import numpy as np
import onnxruntime

import onnx_saturate

from . import bodies, firing, graphs, known, patterns, stability, workers
from .cases import far
from .workers import outcome

DTYPES = (*(np.float32,) * 9, np.float64, np.float16, np.float16, ml_dtypes.bfloat16, np.int32, np.int64, np.uint8, np.int8, np.float64)
SIZES = ((1, 2, 3, 4, 6), (1, 2, 3, 4, 6), (1, 1, 2, 3), (0, 1, 2, 3), (1, 2, 3, 17, 33))
TARGETS = ("ort-cpu@1.20", "ort-cpu@1.31", "onnx", "onnx", "ort-cpu@1.20", "onnx", "npu-4d", "qnn-htp", "ort-web", "ort-cuda")
COSTS = ("nodes", "measured", "nodes", "roofline")
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1e-45, 1e4, -1e4, 1.7e9, 1e-4, 65504.0, 1.0)
LEVELS = {"ORT": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, "ORT optimizing": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL}
RISKY = ("causal_rows",)
OLDER_OPSETS = (13, 15, 17, 19)  # these lack operators that rules take apart
BROKEN_PASS = "FuseFp16InitializerToFp32NodeTransformer"  # ONNX Runtime 1.31 ends in it for some graphs in half precision, with an unused node more or less not

onnxruntime.set_default_logger_severity(4)
_kept = {}  # rules and patterns, read once for each process


def kept(settings):
    if not _kept:
        _kept.update(rules=onnx_saturate.RuleSet.builtin(), pool=patterns.Pool(settings["patterns"], settings["rare"]))
    return _kept


def draw(seed, settings):
    """(graph, what finished() gives). Part `rules`: one pattern and a little around it; else some steps, in half of them also patterns."""
    pool, rng = kept(settings)["pool"], np.random.default_rng([seed, 1])
    sizes, kind = SIZES[int(rng.integers(len(SIZES)))], rng.random()
    plain = settings["part"] == "graphs" and kind < 0.5
    g = graphs.begun(seed, DTYPES[int(rng.integers(len(DTYPES)))], sizes, opsets=() if plain else patterns.OPSETS)
    put = patterns.step(pool)
    if settings["part"] == "rules":
        around, most = [*graphs.STEPS, *[put] * 3], int(rng.integers(0, 4))
        values = []
        graphs.grow(g, values, 1, [put], start=list(g.inputs))
        if not values:
            return g, None
        g.dtype = next((g.arrays[v].dtype for v in values if g.arrays[v].dtype.kind in "fV"), g.dtype)
        graphs.grow(g, values, len(values) + most, around)
        return g, graphs.finished(g)
    steps = graphs.STEPS if plain and kind < 0.35 else bodies.STEPS if plain else [*graphs.STEPS, *[put] * 12]
    values = list(g.inputs)
    graphs.grow(g, values, len(values) + int(rng.integers(2, 16)), steps)
    return g, graphs.finished(g)


def with_specials(g, feed, rng):
    """Some elements of inputs that may be any number become special; whether any did."""
    changed = False
    for name, array in feed.items():
        if name not in g.free or not array.size or rng.random() < 0.3:
            continue
        array = feed[name] = array.copy()
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(array.size))
            if array.dtype.kind in "iu":
                info = np.iinfo(array.dtype)
                array.flat[at] = (info.max, info.min, info.max // 2 + 1)[int(rng.integers(3))]
            elif array.dtype.kind != "b":
                with np.errstate(all="ignore"):
                    array.flat[at] = np.asarray(SPECIAL[int(rng.integers(len(SPECIAL)))] + float(array.flat[at]) * (rng.random() < 0.3)).astype(array.dtype)
            changed = changed or array.dtype.kind != "b"
    return changed


def in_onnx_runtime(model, feed, level="ORT"):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.graph_optimization_level = 4, 1, LEVELS[level]
    without = [BROKEN_PASS] if level == "ORT optimizing" else []
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"], disabled_optimizers=without).run(None, feed)


def in_ours(model, feed):
    return list(onnx_saturate.Session(model, reference=True).run(feed).values())


def in_standard(model, feed):
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in ReferenceEvaluator(model).run(None, feed)]


JUDGES = {"ORT": in_onnx_runtime, "ours": in_ours, "standard": in_standard}


def outputs_of_original(model, feed, settings):
    """By judge, of those that run it; the standard's evaluator is asked where ONNX Runtime doesn't."""
    ran = {}
    for judge in ("ours", "ORT"):
        workers.about_to_run(settings, f"the original, {judge}", model, feed)
        try:
            ran[judge] = JUDGES[judge](model, feed)
        except Exception:
            continue
    if "ORT" not in ran and "ours" in ran:
        try:
            ran["standard"] = in_standard(model, feed)
        except Exception:
            pass
    return ran


def settled(wanted):
    """For each output, which elements the judges agree on; None where they don't agree on shape or type."""
    lists = list(wanted.values())
    first, masks = lists[0], []
    for k, a in enumerate(first):
        others = [o[k] for o in lists[1:]]
        masks.append(None if any(far(a, o) is None for o in others) else ~np.any([far(a, o) for o in others] or [np.zeros(np.shape(a), bool)], axis=0))
    return masks


def differing(wanted, got, masks, strict):
    """(output, elements that differ) of the first output that does; elements None: shape or type. What is not finite in the original
    counts only where `strict`, and not of halves: what overflows there does not where ONNX Runtime computes chains of them in float."""
    for k, (a, b) in enumerate(zip(wanted, got)):
        if masks[k] is None:
            continue
        apart = far(a, b)
        if apart is None:
            return k, None
        apart &= masks[k]
        if (not strict or a.dtype.itemsize == 2) and a.dtype.kind not in "biu":
            apart &= np.isfinite(a.astype(np.float64))
        if apart.any():
            return k, apart
    return None


def nan_at(array):
    return np.isnan(array.astype(np.float64)) if array.dtype.kind in "fV" else np.zeros(array.shape, bool)


def judged(model, result, feed, strict, wanted, settings, options, nan_by_chance=False):
    """A word, and what is wrong with the result, if anything. Of what approximates, only that it runs. `nan_by_chance`: where ONNX Runtime
    gives NaN for the original, it is not asked."""
    target, agreed = options["target"], settled(wanted)
    if options.get("approximate"):
        agreed = [None] * len(agreed)
    for level in ("ORT", "ORT optimizing", "ours"):
        judge = level.split()[0]
        if judge not in wanted:
            continue
        masks = [m if m is None or not nan_by_chance or judge == "ours" else m & ~nan_at(v) for m, v in zip(agreed, wanted[judge])]
        if level == "ORT optimizing" and changed_by_its_optimizer(model, feed, wanted[judge], masks, strict, settings):
            continue
        workers.about_to_run(settings, f"the result, {level}", model, feed)
        try:
            got = in_ours(result, feed) if judge == "ours" else in_onnx_runtime(result, feed, level)
        except Exception as error:
            if "NOT_IMPLEMENTED" in str(error) and (not target.startswith("ort-cpu") or "opset" in options):
                continue  # another target takes operators and types that ONNX Runtime's CPU kernels don't; an older opset may have no others
            return "wrong", f"{level} refuses the result: {' '.join(str(error).split())[:300]}"
        found = differing(wanted[judge], got, masks, strict)
        if found is None or stability.explains(model, result, feed, JUDGES, wanted, judge, got, *found, strict):
            continue
        k, apart = found
        if apart is None:
            return "wrong", f"{level}: output {k} is {got[k].dtype}{list(got[k].shape)}, not {wanted[judge][k].dtype}{list(wanted[judge][k].shape)}"
        at = int(np.flatnonzero(apart)[0])
        return "wrong", f"{level}: output {k}[{at}] is {got[k].flat[at]!r}, not {wanted[judge][k].flat[at]!r} ({apart.sum()} of {apart.size} differ)"
    return "equal", None


def changed_by_its_optimizer(model, feed, wanted, masks, strict, settings):
    """Whether ONNX Runtime's optimizer changes the original, or fails on it."""
    workers.about_to_run(settings, "the original, ORT", model, feed)
    try:
        return differing(wanted, in_onnx_runtime(model, feed, "ORT optimizing"), masks, strict) is not None
    except Exception:
        return True


def needs(rules, names):
    """What the rules with these names ask of the options."""
    clauses = {word for name in names for word in re.sub(r"#.*", "", rules.show(name.removesuffix(".back"))).split()}
    return clauses & {"approximates", "assume", "if_unsupported", "if_any_unsupported"}


def options_of(seed, rules, names=()):
    """Options drawn at random; mostly such that rules with these names may fire."""
    rng = np.random.default_rng([seed, 2])
    chosen = {"target": TARGETS[int(rng.integers(len(TARGETS)))], "cost": COSTS[int(rng.integers(len(COSTS)))], "verify": bool(rng.random() < 0.1), "rules": rules}
    way, chosen["approximate"] = rng.random(), bool(rng.random() < 0.03)
    if way < 0.4:
        chosen["no_assume"] = ["all"]
    elif way < 0.5:
        chosen["assume"] = list(RISKY)
    asked = needs(rules, names) if rng.random() < 0.7 else set()
    if "approximates" in asked:
        chosen["approximate"] = True
    if "assume" in asked:
        chosen.pop("no_assume", None)
        chosen["assume"] = list(RISKY)
    if asked & {"if_unsupported", "if_any_unsupported"}:
        chosen["opset"] = OLDER_OPSETS[int(rng.integers(len(OLDER_OPSETS)))]
    return chosen


def shares(g, model, feed):
    """What this case counts for: sizes, types."""
    arrays = [g.arrays[n] for n in feed] + [g.arrays[o.name] for o in model.graph.output]
    names = {a.dtype.name for a in arrays}
    return {"size of 0": any(0 in a.shape for a in arrays), "size of 0 or 1": any(d <= 1 for a in arrays for d in a.shape), "double or half": bool(names & {"float64", "float16", "bfloat16"}),
            "integers": any(n.startswith(("int", "uint")) for n in names)}


def not_finite(lists):
    return any(not np.all(np.isfinite(v.astype(np.float64))) for values in lists for v in values if v.dtype.kind not in "biuOUS")


def reduces_nothing(model, feed):
    """Whether a reduction over several axes meets a tensor without elements: ONNX Runtime keeps a size of 0 there (docs/fuzz.md)."""
    return any(0 in v.shape for v in feed.values()) and any(n.op_type.startswith("Reduce") for n in model.graph.node)


COPIED = "a Reshape copies a size for a computed 0"  # docs/assumptions.md


def computes_a_shape(model):
    constants = {t.name for t in model.graph.initializer} | {o for n in model.graph.node if n.op_type == "Constant" for o in n.output}
    return any(n.op_type == "Reshape" and n.input[1] not in constants and not any(a.name == "allowzero" and a.i for a in n.attribute) for n in model.graph.node)


def copies_a_size(model, wanted, why):
    """Whether an empty tensor has another shape behind a Reshape to a computed shape, or one that does not fit what reads it."""
    if any(told in why for told in ("does not broadcast", "instead of [", "contradiction: dim")) and computes_a_shape(model):
        return any(not v.size for values in wanted.values() for v in values)
    place = re.search(r"output (\d+) is \S+\[([0-9, ]*)\], not", why)
    return bool(computes_a_shape(model) and place and 0 in map(int, re.findall(r"\d+", place[2])) and all(not o[int(place[1])].size for o in wanted.values()))


def declares_other_shapes(model, wanted):
    """Whether an output has another shape than the model says: a branch was drawn that its shapes do not know."""
    for k, declared in enumerate(model.graph.output):
        if not declared.type.tensor_type.HasField("shape"):
            continue
        dims = declared.type.tensor_type.shape.dim
        for values in wanted.values():
            shape = np.shape(values[k])
            if len(shape) != len(dims) or any(d.HasField("dim_value") and d.dim_value != size for d, size in zip(dims, shape)):
                return True
    return False


def excused(model, result, feed, strict, wanted, settings, options):
    """What is to blame beside the result: without it nothing is wrong."""
    values = known.values_of(model, feed)
    if "ORT" in wanted and known.reads_old_memory(model, values):
        others = {judge: v for judge, v in wanted.items() if judge != "ORT"}
        if not others or judged(model, result, feed, strict, others, settings, options)[0] == "equal":
            return "ONNX Runtime reads old memory"
    if "ORT" in wanted and known.pools_nan(model, values) and judged(model, result, feed, strict, wanted, settings, options, nan_by_chance=True)[0] == "equal":
        return "ONNX Runtime passes over NaN in MaxPool"
    if not strict and (tame := known.without_infinity(model, feed, values)):
        again = outputs_of_original(model, tame, settings)
        if again and judged(model, result, tame, strict, again, settings, options)[0] == "equal":
            return "equal but for an infinity that the original makes NaN"
    return None


def compared(model, feed, options, settings, **told):
    """The outcome for one graph: original and result, by all judges. `told`: what an outcome says beside."""
    told |= {"model": model, "feed": feed}
    wanted = outputs_of_original(model, feed, settings)
    if not wanted:
        return outcome("nobody runs it")
    if declares_other_shapes(model, wanted):
        return outcome("has other shapes than it declares")
    workers.about_to_run(settings, "the optimizer", model, feed)
    try:
        result, report = onnx_saturate.optimize_with_report(model, inputs=feed, progress=False, **options)
    except onnx_saturate.UnsupportedError:
        return outcome("not verifiable")
    except onnx_saturate.Error as error:
        if "can't verify" in str(error):
            return outcome("not verifiable")
        if "opset" in options and re.search(r"opset \d+ does not have", str(error)):
            return outcome("the older opset that was asked for lacks an operator")
        if copies_a_size(model, wanted, str(error)):
            return outcome(COPIED, **told)
        return outcome("wrong", f"{type(error).__name__}: {error}", **told)
    report = report.to_dict()
    told["fired"] = firing.of_report(report)
    if report["left_out"]:
        if not_finite([*wanted.values(), feed.values()]):  # rules that reassociate may give a number there
            return outcome("left out, as not all is finite", **told)
        return outcome("caught", f"verification left out {[x['rule'] for x in report['left_out']]}: {report['left_out'][0]['because'][:200]}", **told)
    if not report["made_by_rules"] and result.graph.node == model.graph.node:
        return outcome("unchanged", **told)
    effects = settings["effects"]
    strict = not report["assumed"] and all(effects.get(name.removesuffix(".back")) == "exact" for name, (_, fired, _) in told["fired"].items() if fired)
    word, why = judged(model, result, feed, strict, wanted, settings, options)
    if word == "wrong" and (excuse := excused(model, result, feed, strict, wanted, settings, options)):
        return outcome(excuse, **told)
    if word == "wrong" and reduces_nothing(result, feed):
        return outcome("ONNX Runtime reduces nothing to another shape", **told)
    if word == "wrong" and copies_a_size(model, wanted, why):
        return outcome(COPIED, **told)
    if word == "wrong" and report["assumed"]:
        again = onnx_saturate.optimize(model, inputs=feed, progress=False, **{**options, "verify": False, "no_assume": ["all"]})
        if judged(model, again, feed, strict, wanted, settings, options)[0] != "wrong":
            return outcome(f"differs by assumption ({', '.join(sorted(a['assumption'] for a in report['assumed']))})", **told)
    made = sorted({m["rule"] for m in report["made_by_rules"]})
    return outcome(word, f"{why}; made by {', '.join(made)[:300]}" if why else None, **told)


def work(seed, settings):
    g, case = draw(seed, settings)
    if case is None:
        return []
    model, feed, operators = case
    rng = np.random.default_rng([seed, 3])
    special = rng.random() < 0.4 and with_specials(g, feed, rng)
    options = options_of(seed, kept(settings)["rules"], g.rules)
    label = f"{options['target']} by {options['cost']}, {'+'.join(g.rules)}: {' '.join(operators)}"[:400]
    return [compared(model, feed, options, settings, label=label, counted={**shares(g, model, feed), "special values": bool(special)})]
