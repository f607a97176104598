"""Disagreements that have been looked at: whose reading is whose, and why ours stays. docs/fuzz.md has them as text."""
import numpy as np
import onnx

NORMS = {"InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization", "BatchNormalization", "MeanVarianceNormalization", "LpNormalization", "LRN",
         "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "EmbedLayerNormalization"}
RECURRENT = {"LSTM", "GRU", "RNN"}
ATTENTIONS = {"MultiHeadAttention", "Attention", "GroupQueryAttention"}
QUANTIZED = {"QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearReduceMean", "QLinearSoftmax", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearConcat", "QLinearWhere", "QGemm"}
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


def overflows(outcome):
    """Whether an integer result is so large that sums before it may have been too large."""
    return any(isinstance(v, np.ndarray) and v.dtype.kind in "iu" and v.size and int(v.max()) > 2**29 for v in outcome["ours"][1])


def has_extreme_integers(model, feed):
    arrays = [a for a in leaves(model, feed) if a.dtype.kind in "iu" and a.size]
    return any(int(a.max()) == np.iinfo(a.dtype).max or int(a.min()) == np.iinfo(a.dtype).min for a in arrays if a.dtype.itemsize >= 2)


def within_one_step(a, b):
    """Whether quantized results are as near as two ways of rounding."""
    return len(a) == len(b) and all(isinstance(y, np.ndarray) and x.shape == y.shape and x.dtype == y.dtype and x.dtype.kind in "iu" and x.dtype.itemsize == 1
                                    and (np.abs(x.astype(int) - y.astype(int)) <= 1).all() for x, y in zip(a, b))


def means_of_no_integers(outcome):
    """Whether ours differs from the standard's evaluator only by 0 for the smallest integer, which is its 0 / 0 as a NaN that was cast."""
    ours, theirs = (outcome[judge][1] for judge in ("ours", "standard"))
    pairs = [(a, b) for a, b in zip(ours, theirs) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray)]
    if outcome["standard"][0] != "ran" or len(pairs) != len(ours) or any(a.shape != b.shape or a.dtype != b.dtype for a, b in pairs):
        return False
    return all(a.dtype.kind == "i" and np.all((a == b) | ((a == 0) & (b == np.iinfo(a.dtype).min))) for a, b in pairs if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def reason_of_fused(ops, model, feed, outcome):
    """The same for operators of com.microsoft, where ONNX Runtime alone is asked."""
    ours, theirs = outcome["ours"][1], outcome["ort"][1]
    if any(y is None for y in theirs):
        return "ONNX Runtime gives no output at all for an empty tensor"
    if ops & QUANTIZED and within_one_step(ours, theirs):
        return "ONNX Runtime computes by tables and whole numbers, which may round to the neighbour"
    if ops & ATTENTIONS and has_special_floats(model, feed):
        return "NaN or infinity where a mask or the order hides it: ONNX Runtime multiplies it by a weight of 0, or adds it to the mask"
    if ops & {"QLinearSoftmax"} and any(v.size and v.max() == np.iinfo(v.dtype).max for v in ours):
        return "ONNX Runtime wraps where the quantized 1 is above the largest number"
    if ops & {"MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QGemm", "FusedGemm", "FusedMatMul"} and any(a.ndim > 1 and not a.size for a in leaves(model, feed)):
        return "where nothing is summed ONNX Runtime leaves the result as its memory was, or C without its factor"
    if ops & {"DynamicQuantizeMatMul"} and has_special_floats(model, feed):
        return "the range that a NaN or an infinity is quantized by"
    return None


def reason(sort, model, feed, outcome):
    """Why this outcome is as it is; None where nobody has looked at one like it."""
    ops = {n.op_type for n in model.graph.node}
    if "differ" not in sort:
        return None
    if "Conv" in ops and has_special_floats(model, feed):
        return "an infinite weight over padding: 0 * inf where the zeros are multiplied, nothing where they are skipped"
    if sort == "fast and reference differ":
        return None
    if any(n.domain for n in model.graph.node) and (why := reason_of_fused(ops, model, feed, outcome)):
        return why
    if ops & {"MaxPool", "GlobalMaxPool"} and has_special_floats(model, feed):
        return "NaN in a pooled window: ours (as PyTorch's and ReduceMax) gives NaN, the others skip it"
    if ops & (NORMS | RECURRENT | {"Resize", "DFT", "Softmax", "LogSoftmax", "DynamicQuantizeLinear", "ReduceLogSumExp", "ReduceL2", "LpPool", "GlobalLpPool"}) and has_special_floats(model, feed):
        return "NaN, infinity or an overflow of float32 inside the operator: ours sums in double, so that what overflows elsewhere may stay finite"
    if "Pow" in ops and any(a.dtype.kind in "iu" for a in leaves(model, feed)):
        return "an integer power that is negative or overflows: no language of the three defines the conversion"
    if ops & INTEGER_SUMS and (has_extreme_integers(model, feed) or overflows(outcome)):
        return "integer overflow: ours wraps, ONNX Runtime goes through floats, the reference evaluator widens to int64"
    if "ReduceMean" in ops and means_of_no_integers(outcome):
        return "the mean of no integers: no language defines 0 / 0 of them; ours is 0, the evaluator casts a NaN, ONNX Runtime keeps the empty axis"
    if "ReduceLogSumExp" in ops and any(a.dtype.kind in "iu" for a in leaves(model, feed)):
        return "ONNX Runtime truncates every exponential to an integer"
    return None
