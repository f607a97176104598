"""Disagreements that have been looked at: whose reading is whose, and why ours stays. docs/fuzz.md has them as text."""
import numpy as np
import onnx

NORMS = {"InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization", "BatchNormalization", "MeanVarianceNormalization", "LpNormalization", "LRN"}
RECURRENT = {"LSTM", "GRU", "RNN"}
INTEGER_SUMS = {"ReduceSum", "ReduceSumSquare", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceMean", "ReduceLogSumExp", "Pow", "CumSum", "MatMul", "Mul"}


def leaves(model, feed):
    yield from (np.asarray(v) for v in feed.values())
    for initializer in model.graph.initializer:
        yield onnx.numpy_helper.to_array(initializer)


def has_special_floats(model, feed):
    """NaN, infinities, or numbers whose squares overflow float32."""
    for array in leaves(model, feed):
        if array.dtype.kind in "OUSbiu":
            continue
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64)
        if not np.isfinite(wide).all() or (wide.size and np.abs(wide).max() > 1e18):
            return True
    return False


def has_extreme_integers(model, feed):
    arrays = [a for a in leaves(model, feed) if a.dtype.kind in "iu" and a.size]
    return any(int(a.max()) == np.iinfo(a.dtype).max or int(a.min()) == np.iinfo(a.dtype).min for a in arrays if a.dtype.itemsize >= 2)


def reason(sort, model, feed, outcome):
    """Why this outcome is as it is; None where nobody has looked at one like it."""
    ops = {n.op_type for n in model.graph.node}
    if "differ" not in sort:
        return None
    if "Conv" in ops and has_special_floats(model, feed):
        return "an infinite weight over padding: 0 * inf where the zeros are multiplied, nothing where they are skipped"
    if sort == "fast and reference differ":
        return None
    if ops & {"MaxPool", "GlobalMaxPool"} and has_special_floats(model, feed):
        return "NaN in a pooled window: ours (as PyTorch's and ReduceMax) gives NaN, the others skip it"
    if ops & (NORMS | RECURRENT | {"Resize", "DFT", "Softmax", "LogSoftmax", "DynamicQuantizeLinear", "ReduceLogSumExp", "ReduceL2", "LpPool", "GlobalLpPool"}) and has_special_floats(model, feed):
        return "NaN, infinity or an overflow of float32 inside the operator: ours sums in double, so that what overflows elsewhere may stay finite"
    if "Pow" in ops and any(a.dtype.kind in "iu" for a in leaves(model, feed)):
        return "an integer power that is negative or overflows: no language of the three defines the conversion"
    if ops & INTEGER_SUMS and has_extreme_integers(model, feed):
        return "integer overflow: ours wraps, ONNX Runtime goes through floats, the reference evaluator widens to int64"
    if "ReduceLogSumExp" in ops and any(a.dtype.kind in "iu" for a in leaves(model, feed)):
        return "ONNX Runtime truncates every exponential to an integer"
    return None
