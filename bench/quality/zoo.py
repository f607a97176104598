"""Models with what goes in and what PyTorch made of it beside them: NAME.onnx, NAME.inputs.npz, NAME.expected.npz."""
import numpy as np

RIGHT = 1e-3  # of the largest element


def released(words):
    """The command's words with a target that names its release, where they name no target: without one it is that of this machine."""
    return words if any(word.startswith("--target") for word in words) else ["--target=ort-cpu@1.20", *words]


def arrays(path):
    return dict(np.load(path)) if path.exists() else {}


def beside(model):
    """Inputs and expected outputs of the model at this path; empty where there are none."""
    return arrays(model.with_suffix(".inputs.npz")), arrays(model.with_suffix(".expected.npz"))


def apart(got, wanted):
    """The largest difference, by the largest finite element; infinite where shape or type differ, or one alone is NaN."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return float("inf")
    if not got.size:
        return 0.0
    numbers = wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((got == wanted) | ((got != got) & (wanted != wanted)), 0, np.abs(got.astype(np.float64) - numbers))
        difference = np.where(np.isnan(difference), np.inf, difference)
    return float(difference.max()) / float(np.max(np.abs(numbers), initial=1e-6, where=np.isfinite(numbers)))


def farthest(got, expected):
    """Of outputs by name; those without their name in `expected` by place."""
    names = list(expected)
    return max((apart(array, expected[name if name in expected else names[place]]) for place, (name, array) in enumerate(got.items())), default=0.0)


def session(model, as_it_is=False):
    """Of a path or bytes, in ONNX Runtime on one thread; `as_it_is`: what it fuses itself is left out."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if as_it_is:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"])


def run(opened, feeds):
    """Outputs by name. The model may have lost an input that nothing reads."""
    names = [o.name for o in opened.get_outputs()]
    return dict(zip(names, opened.run(names, {i.name: feeds[i.name] for i in opened.get_inputs() if i.name in feeds})))


def verdict(model, feeds, expected, as_it_is=False):
    """refused, fails, off or right; and the number or the reason behind it."""
    try:
        opened = session(model, as_it_is)
    except Exception as error:  # of several kinds
        return "refused", str(error).splitlines()[0]
    if not feeds:
        return "right", "loads; there is nothing to run it on"
    try:
        far = farthest(run(opened, feeds), expected)
    except Exception as error:
        return "fails", str(error).splitlines()[0]
    return ("right" if far <= RIGHT else "off"), f"{far:.1e}"
