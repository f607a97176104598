"""Part `runs`: random graphs (graphs.py, bodies.py) and single operators (specs*.py) again and again in one session: several threads, other
sizes between.

Tensors are large enough to be shared out to threads, or small. Looked for: a run that differs by a single bit from the first one or from that of
one thread; results and inputs that a later run overwrote; numbers other than the reference kernels' or (of graphs) ONNX Runtime's.
"""
import warnings

import numpy as np
import onnx_saturate

from . import bodies, draw, graphs, specs, specs_contrib, specs_data  # noqa: F401
from .cases import close
from .optimize import in_onnx_runtime
from .stability import in_double
from .workers import outcome

THREADS = (1, 2, 3)
RUNS = 3
LARGE, MOST = (1, 2, 3, 7, 16, 33, 64, 100, 130, 257), 400_000


def same(a, b):
    """Bit by bit; of NaNs none is told from another."""
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and (x.tobytes() == y.tobytes() or (x.dtype.kind == "f" and np.array_equal(x, y, equal_nan=True) and np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0]))))
        for x, y in zip(a, b))


def all_close(a, b):
    return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))


def other_sizes(model, feed):
    """Inputs with one row less or more, where the model leaves the size open."""
    other = {}
    for info in model.graph.input:
        array, dims = feed[info.name], info.type.tensor_type.shape.dim
        rows = np.concatenate([array, array[:1]]) if len(array) < 3 else array[:-1]
        other[info.name] = np.ascontiguousarray(rows) if dims[0].dim_param else array
    return other


def values(session, feed):
    return list(session.run(feed).values())


def repeated(session, feed, between, kept):
    """What is wrong with runs on `feed` (and on `between`, in turns), which should give `kept`; None where nothing is."""
    first = values(session, feed)
    copies, given = [v.copy() for v in first], {n: v.copy() for n, v in feed.items()}
    if not same(first, kept):
        return "differs from another session of one thread"
    for _ in range(RUNS - 1):
        if between is not None:
            values(session, between)
        if not same(values(session, feed), copies):
            return "differs from the first run"
    if not same(first, copies):
        return "overwrote an earlier result"
    return None if same(list(feed.values()), list(given.values())) else "overwrote an input"


def nearer(model, feed, ours, theirs):
    """Whether ours are nearer than theirs to what float64 gives, or as near."""
    exact = in_double(model, feed)
    return all(o.shape == e.shape and np.abs(o - e).max(initial=0) <= 1.5 * np.abs(t - e).max(initial=0) + 1e-6 for o, t, e in zip(ours, theirs, exact) if not close(o, t))


def runs_differ(model, feed, kept, other, judged):
    """What is wrong with runs on several threads, if anything. `judged`: what the reference kernels give for `other`."""
    for threads in THREADS:
        session = onnx_saturate.Session(model, threads=threads)
        problem = repeated(session, feed, other, kept)
        if problem is None and other is not None and not all_close(judged, values(session, other)):
            problem = "other numbers than the reference kernels' on other sizes"
        if problem:
            return f"{threads} threads: {problem}"
    return None


def of_graph(model, feed):
    """A word, and what is wrong, if anything."""
    try:
        wanted = values(onnx_saturate.Session(model, reference=True), feed)
    except onnx_saturate.Error as error:
        return "wrong", f"refused: {error}"
    kept = values(onnx_saturate.Session(model), feed)
    if not all_close(wanted, kept):
        return "wrong", "other numbers than the reference kernels'"
    other, judged = other_sizes(model, feed), None
    try:
        judged = values(onnx_saturate.Session(model, reference=True), other)
    except onnx_saturate.Error:
        other = None  # a constant of it depends on the size
    problem = runs_differ(model, feed, kept, other, judged)
    if problem:
        return "wrong", problem
    if any(v.dtype == np.float16 for v in feed.values()):
        return "right", None  # ONNX Runtime goes on in float32 from one operator to the next
    try:
        theirs = in_onnx_runtime(model, feed)
    except Exception:
        return "right, ONNX Runtime refuses", None
    if all_close(theirs, kept):
        return "right", None
    return ("right, ONNX Runtime rounds more", None) if nearer(model, feed, kept, theirs) else ("wrong", "other numbers than ONNX Runtime's")


def of_operator(model, feed):
    """The same; only one run is held against another."""
    try:
        kept = values(onnx_saturate.Session(model), feed)
    except onnx_saturate.Error:
        return "refused", None
    if not all(isinstance(v, np.ndarray) and v.dtype.kind in "biufcV" for v in kept):
        return "no numbers", None
    problem = runs_differ(model, feed, kept, None, None)
    return ("wrong", problem) if problem else ("right", None)


def operator(seed):
    """One operator, or None where nothing came of the seed."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return draw.random_model(seed, specs.SPECS, (13, 15, 17, 18, 20, 21, 23, 24)[seed % 8], large=True)
    except (draw.Skip, KeyError, IndexError, ValueError, TypeError):
        return None


def work(seed, settings):
    rng = np.random.default_rng([seed, 1])
    single, small, dtype = rng.random() < 0.5, rng.random() < 0.4, (np.float32, np.float32, np.float64, np.float16)[int(rng.integers(4))]
    case = operator(seed) if single else graphs.random_graph(seed, dtype, bodies.STEPS, *(() if small else (LARGE, MOST)))
    if not case or not case[2]:
        return []
    model, feed, operators = case
    word, why = (of_operator if single else of_graph)(model, feed)
    return [outcome(word, why, model=model, feed=feed, label=" ".join(operators))]
