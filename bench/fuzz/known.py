"""What is known of the judges (docs/fuzz.md), each as narrow as can be said: asked where something is wrong, so that it is judged without."""
import numpy as np

from . import stability

LARGE = 1e4  # in place of an infinity


def values_of(model, feed):
    """All values of the graph, by name, of our reference kernels; none where they refuse it."""
    try:
        values = stability.all_values(model, feed)
    except Exception:
        return {}
    return {**{t.name: stability.numpy_helper.to_array(t) for t in model.graph.initializer}, **feed, **values}


def nan_in(array):
    return getattr(array, "dtype", np.dtype(bool)).name in stability.FLOATS and bool(np.isnan(array.astype(np.float64)).any())


def inputs_of(node, values):
    return [values[name] for name in node.input if name in values]


def reads_old_memory(model, values):
    """ONNX Runtime's Conv over no channels, and MatMulIntegerToFloat over nothing, leave the result as its memory was."""
    def over_nothing(node):
        inputs = inputs_of(node, values)
        weight = inputs[1].shape if len(inputs) > 1 else ()
        return node.op_type in ("Conv", "FusedConv") and 0 in weight[1:] or node.op_type == "MatMulIntegerToFloat" and 0 in weight[-2:-1]

    return any(over_nothing(node) for node in model.graph.node)


def pools_nan(model, values):
    """MaxPool passes over NaN in ONNX Runtime, by the order of the window: what it makes of one says nothing of another window."""
    return any(node.op_type in ("MaxPool", "GlobalMaxPool") and any(map(nan_in, inputs_of(node, values))) for node in model.graph.node)


def without_infinity(model, feed, values):
    """The inputs with a large number for each infinity above, where the original makes NaN of what is none (inf - inf in a softmax by hand);
    else None. -inf stays, for masks are made of it, and so does NaN."""
    if not any(not any(map(nan_in, inputs_of(node, values))) and any(nan_in(values.get(name)) for name in node.output) for node in model.graph.node):
        return None
    tame = {name: np.where(v == np.inf, np.asarray(LARGE, v.dtype), v) if v.dtype.name in stability.FLOATS else v for name, v in feed.items()}
    return tame if any((v == np.inf).any() for v in feed.values() if v.dtype.name in stability.FLOATS) else None
