"""Random graphs for every target with odd options (part `odd`): original and result in ONNX Runtime, without and with its optimizations, on several
inputs. A third is quantized or half, a third has control flow or functions. Wrong is what docs/decisions.md calls a fault: a result that does not
load, ends the process, or lies outside of the tolerances, where the original does none of these and moves less by itself."""

import numpy as np
import onnx
import onnxruntime

import onnx_saturate

from . import bodies, dressed, firing, graphs, integers, known, odd_options, optimize, patterns, quantized, verdict, workers
from .workers import outcome

ATTEMPTS = 5
CONTROL = [*bodies.OUTSIDE, *[bodies.branch] * 10, *[bodies.loop] * 8, *[bodies.scan] * 6]
FLOATS = (np.float32,) * 6 + (np.float64, np.float16, np.int32, np.int64, np.uint8, np.int8)
LEVELS = optimize.LEVELS
_session_options = {}


def session(model, level):
    if level not in _session_options:
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads, options.graph_optimization_level = 4, 1, LEVELS[level]
        _session_options[level] = options
    return onnxruntime.InferenceSession(model.SerializeToString(), _session_options[level], providers=["CPUExecutionProvider"])


def run_once(model, feed):
    return session(model, "ORT").run(None, feed)


# ---- what is drawn --------------------------------------------------------------------------------------------------------------------


def grown(seed, rng, steps, dtype, longest=16, opsets=patterns.OPSETS):
    g = graphs.begun(seed, dtype, optimize.SIZES[int(rng.integers(len(optimize.SIZES)))], opsets=opsets)
    values = list(g.inputs)
    graphs.grow(g, values, len(values) + int(rng.integers(2, longest)), steps)
    return g, graphs.finished(g)


def quantized_graph(seed):
    g, outputs = quantized.drawn(seed)
    return g, (quantized.model_of(g, outputs), {name: g.arrays[name] for name in g.inputs}, [n.op_type for n in g.nodes])


def integer_operator(seed):
    model, feed = integers.drawn(seed)
    return None, (model, feed, [n.op_type for n in model.graph.node])


def as_halves(case):
    """None where there is none."""
    if case is None:
        return None
    model, feed, operators = case
    dressed.halved(model)
    return model, dressed.halves(feed), operators


def control_flow(seed, rng, put, dtype):
    """Patterns stand outside of the bodies and in branches."""
    g = graphs.begun(seed, dtype, optimize.SIZES[int(rng.integers(len(optimize.SIZES)))], opsets=patterns.OPSETS)
    g.inside = [*bodies.OUTSIDE, *[put] * 12, bodies.branch, bodies.loop]
    values = list(g.inputs)
    first = [bodies.branch, bodies.branch, bodies.loop, bodies.scan]
    graphs.grow(g, values, len(values) + 1, first)
    graphs.grow(g, values, len(values) + int(rng.integers(1, 10)), [*CONTROL, *[put] * 12])
    return g, graphs.finished(g)


def drawn(seed, pool):
    """(kind, graph or None, case or None)."""
    rng = np.random.default_rng([*seed, 1])
    put, kind = patterns.step(pool), rng.random()
    mixed = [*graphs.STEPS, *[put] * 12]
    if kind < 0.11:
        return "quantized", *quantized_graph(seed)
    if kind < 0.18:
        return "quantized", *integer_operator(seed)
    if kind < 1 / 3:
        g, case = grown(seed, rng, mixed if rng.random() < 0.8 else CONTROL, np.float32)
        return "half", g, as_halves(case)
    if kind < 0.55:
        g, case = control_flow(seed, rng, put, FLOATS[int(rng.integers(len(FLOATS)))])
        return "control flow", g, as_halves(case) if rng.random() < 0.1 else case
    if kind < 2 / 3:
        g, case = quantized_graph(seed) if rng.random() < 0.15 else grown(seed, rng, mixed, FLOATS[int(rng.integers(len(FLOATS)))])
        return "functions", g, case
    g, case = grown(seed, rng, mixed if rng.random() < 0.8 else graphs.STEPS, optimize.DTYPES[int(rng.integers(len(optimize.DTYPES)))])
    return "plain", g, case


# ---- inputs ---------------------------------------------------------------------------------------------------------------------------


def scaled(feed, free, factor):
    with np.errstate(all="ignore"):
        return {n: (v * v.dtype.type(factor)).astype(v.dtype) if n in free and v.dtype.name in verdict.UNIT else v for n, v in feed.items()}


def other_sizes(model, feed, rng):
    """Inputs whose open dims have other sizes; None where none is open."""
    symbols = odd_options.open_dims(model)
    if not symbols:
        return None
    sizes = {s: int(rng.choice((1, 2, 3, 5))) for s in symbols}
    shapes = {i.name: [sizes.get(d.dim_param, d.dim_value) for d in i.type.tensor_type.shape.dim] for i in model.graph.input if i.name in feed}
    return {n: np.resize(v, shapes[n]) if v.size or 0 in shapes[n] else np.ones(shapes[n], v.dtype) for n, v in feed.items()}


def inputs(g, model, feed, rng):
    """(what they are, feed)."""
    free = g.free if g is not None else set()
    given = [("drawn", feed)]
    if any(v.dtype.name in verdict.UNIT for n, v in feed.items() if n in free):
        given += [("small", scaled(feed, free, 1e-3)), ("large", scaled(feed, free, 300 if all(v.dtype != np.float16 for v in feed.values()) else 20)), ("zeros", scaled(feed, free, 0))]
    if g is not None and rng.random() < 0.5:
        special = dict(feed)
        if optimize.with_specials(g, special, rng):
            given.append(("special", special))
    if (sized := other_sizes(model, feed, rng)) is not None:
        given.append(("other sizes", sized))
    return given


# ---- judging --------------------------------------------------------------------------------------------------------------------------


class Original:
    """The model, and what it gives at both levels; `usable` where ONNX Runtime runs it."""

    def __init__(self, model, given, settings):
        self.model, self.settings, self.cases, self.optimizing, self.usable = model, settings, [], None, False
        workers.about_to_run(settings, "the original, ORT", model, given[0][1])
        try:
            plain = session(model, "ORT")
        except Exception as error:
            self.why = str(error)
            return
        for what, feed in given:
            try:
                wanted = plain.run(None, feed)
            except Exception as error:
                if what == "drawn":
                    self.why = str(error)
                    return
                continue
            if all(isinstance(v, np.ndarray) for v in wanted) and not optimize.declares_other_shapes(model, {"ORT": wanted}):
                self.cases.append((what, feed, wanted))
        self.usable = bool(self.cases) and self.cases[0][0] == "drawn"
        try:
            self.optimizing = session(model, "ORT optimizing")
            for _, feed, _ in self.cases[:1]:
                self.optimizing.run(None, feed)
        except Exception:
            self.optimizing = None

    def moves_as_far(self, feed, wanted, k, got):
        """Whether the runtime's own optimizations move the original's output as far."""
        if self.optimizing is None:
            return True
        try:
            other = self.optimizing.run(None, feed)[k]
        except Exception:
            return True
        if other.shape != got.shape or other.dtype != got.dtype:
            return True
        with np.errstate(all="ignore"):
            def gap(a):
                a = np.abs(verdict.wide(a) - verdict.wide(wanted[k]))[np.isfinite(verdict.wide(wanted[k]))]
                return np.where(np.isfinite(a), a, np.inf).max(initial=0)

            return gap(other) >= gap(got) / 2


def fed(session_of_result, feed):
    """The inputs as the result takes them: io_rank puts ones in front."""
    ranks = {i.name: len(i.shape) for i in session_of_result.get_inputs()}
    return {n: v.reshape((1,) * (ranks[n] - v.ndim) + v.shape) for n, v in feed.items() if n in ranks}


def as_wanted(wanted, got):
    """Without the ones that io_rank put in front."""
    return [b.reshape(a.shape) if b.ndim > a.ndim and b.shape == (1,) * (b.ndim - a.ndim) + a.shape else b for a, b in zip(wanted, got)]


def one_input(original, runs, case, level, halves):
    """(word, why) of one input at one level; None where nothing is wrong."""
    what, feed, wanted = case
    try:
        got = as_wanted(wanted, runs.run(None, fed(runs, feed)))
    except Exception as error:
        if any(0 in v.shape for v in (*feed.values(), *wanted)):
            return "refuses inputs of size 0", None
        if what == "other sizes" and original.fixed:
            return None
        return "wrong", f"{level} refuses {what} inputs: {' '.join(str(error).split())[:300]}"
    for k, (a, b) in enumerate(zip(wanted, got)):
        outside = verdict.apart(a, b, halves)
        if outside is not None and not outside.any():
            continue
        if what in ("large", "other sizes", "special") and a.dtype.name in verdict.UNIT and not np.isfinite(verdict.wide(a)).all():
            continue
        if level != "ORT" and original.moves_as_far(feed, wanted, k, b):
            continue
        if why := verdict.explained(original.model, feed, run_once, k, a, b, outside):
            return why, None
        if outside is None:
            return "wrong", f"{level}, {what} inputs: output {k} is {b.dtype}{list(b.shape)}, not {a.dtype}{list(a.shape)}"
        at = int(np.flatnonzero(outside)[0])
        return "wrong", f"{level}, {what} inputs: output {k}[{at}] is {b.flat[at]!r}, not {a.flat[at]!r} ({outside.sum()} of {outside.size} differ)"
    return None


def judged(original, result, settings, numbers=True):
    """(word, why) of the result."""
    halves, found = verdict.halves_inside(original.model), ("equal", None)
    for level in LEVELS:
        if level != "ORT" and original.optimizing is None:
            continue
        workers.about_to_run(settings, f"the result, {level}", result, original.cases[0][1])
        try:
            runs = session(result, level)
        except Exception as error:
            why = f"{level} does not load the result: {' '.join(str(error).split())[:300]}"
            return ("no kernel", None) if "NOT_IMPLEMENTED" in why else ("wrong", why)
        for case in original.cases if numbers else original.cases[:1]:
            new = one_input(original, runs, case, level, halves)
            if new and new[0] == "wrong" and not numbers and "refuses" not in new[1]:
                continue
            if new and new[0] == "wrong":
                return new
            found = new or found
    return found


def quantizes_by_nothing(model, inputs=None):
    """Whether a quantizer's scale is 0 or no number: what NaN is as an integer is said nowhere."""
    nodes = [n for graph in (model.graph, *model.functions) for n in graph.node]
    scales = {n.input[1] for n in nodes if n.op_type in ("QuantizeLinear", "DequantizeLinear")}
    given = [(t.name, t) for t in model.graph.initializer] + [(n.output[0], n.attribute[0].t) for n in nodes if n.op_type == "Constant" and n.attribute[0].HasField("t")]
    values = [onnx.numpy_helper.to_array(t) for name, t in given if name in scales]
    values += [np.asarray(value) for name, value in (inputs or {}).items() if name in scales]
    return any(v.dtype.name in verdict.UNIT and not (np.isfinite(v) & (v != 0)).all() for v in values)


def excused(original, result, settings, case):
    """What is known of ONNX Runtime, and to blame."""
    if quantizes_by_nothing(original.model, case[1]):
        return "a scale of 0 or no number"
    values = known.values_of(original.model, case[1])
    if known.reads_old_memory(original.model, values) or known.reads_old_memory(result, values):
        return "ONNX Runtime reads old memory"
    if optimize.reduces_nothing(original.model, case[1]):
        return "ONNX Runtime reduces nothing to another shape"
    if known.pools_nan(original.model, values):
        return "ONNX Runtime passes over NaN in MaxPool"
    if any(not v.size for v in case[2]) and optimize.computes_a_shape(original.model):
        return optimize.COPIED
    return None


def refusal(error, options):
    """The word for an error of the optimizer."""
    text = str(error)
    if "Could not find an implementation" in text:
        return "no kernel"
    if isinstance(error, onnx_saturate.VerificationError):
        return "caught"
    if isinstance(error, onnx_saturate.OptionError) or text.startswith("io_rank"):
        return "options refused"
    if isinstance(error, onnx_saturate.UnsupportedError) or "can't verify" in text:
        return "not verifiable"
    if "opset" in text and ("opset" in options or "keep_opset" in options or options["target"] == "trt-dla"):
        return "the opset lacks an operator"
    return "wrong"


def compared(original, options, settings, told):
    model, feed = original.model, original.cases[0][1]
    workers.about_to_run(settings, "the optimizer", model, feed)
    try:
        result, report = onnx_saturate.optimize_with_report(model, progress=False, **options)
    except onnx_saturate.Error as error:
        word = refusal(error, options)
        return outcome(word, f"{type(error).__name__}: {error}", text=None if word != "options refused" else f"{word}: {error}", **told)
    report = report.to_dict()
    told["fired"] = firing.of_report(report)
    if report["left_out"]:
        return outcome("caught", f"verification left out {[x['rule'] for x in report['left_out']]}: {report['left_out'][0]['because'][:300]}", **told)
    word, why = judged(original, result, settings, numbers=not options.get("approximate"))
    if word == "wrong":
        for case in original.cases:
            if excuse := excused(original, result, settings, case):
                return outcome(excuse, **told)
        if report["assumed"]:
            again = onnx_saturate.optimize(model, progress=False, **{**options, "verify": False, "no_assume": ["all"]})
            if judged(original, again, settings)[0] != "wrong":
                return outcome("differs by assumption", **told)
    made = sorted({m["rule"] for m in report["made_by_rules"]})
    if word == "equal" and not made:
        word = "equal, without a rule"
    return outcome(word, f"{why}; made by {', '.join(made)[:400]}" if why else None, **told)


def work(seed, settings):
    there = optimize.kept(settings)
    for attempt in range(ATTEMPTS):
        kind, g, case = drawn([seed, attempt], there["pool"])
        if case is None:
            continue
        rng = np.random.default_rng([seed, attempt, 2])
        model, feed, operators = case
        dressed.dressed(model, rng, kind == "functions" or rng.random() < 0.08)
        original = Original(model, inputs(g, model, feed, rng), settings)
        if original.usable:
            break
        if settings["show"] and settings["show"] in getattr(original, "why", ""):
            print(original.why[:400], flush=True)
    else:
        return [outcome("nothing that ONNX Runtime runs was drawn")]
    if "names" not in there:
        there["names"] = list(there["rules"])
    rules = g.rules if g is not None else []
    asked = optimize.needs(there["rules"], rules) if rules else set()
    options = odd_options.drawn(rng, model, feed, there["rules"], there["names"], asked)
    original.fixed = bool({"dims", "input_shapes"} & set(options)) or options["target"] in ("npu-4d", "trt-dla", "qnn-htp", "qnn-htp-generic", "coreml")
    label = f"{odd_options.text(options)}; {kind}, {'+'.join(rules)}: {' '.join(operators)}"[:600]
    counted = {kind: True, "quantized or half": kind in ("quantized", "half"), "control flow or functions": kind in ("control flow", "functions") or bool(model.functions),
               "verified": options["verify"], f"target {options['target']}": True}
    return [compared(original, options, settings, {"model": model, "feed": feed, "label": label, "counted": counted})]
