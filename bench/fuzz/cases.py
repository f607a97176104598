"""Compares the results of cases, and keeps those in which something is wrong."""
import numpy as np

TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "float64": 1e-6}


def far(a, b):
    """Which elements are apart by more than TOLERANCE of what is usual in their row of `a` (the last axis); None: another shape or type."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return None
    bound = TOLERANCE.get(a.dtype.name, 0)
    if not bound:
        return np.asarray(a != b)
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        size = np.abs(np.where(np.isfinite(x), x, 0))
        row = size.max(axis=-1, keepdims=True, initial=0) if size.ndim else size
        return ~((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound * (size + row) + 1e-30))


def close(a, b):
    """Of one shape and type, and within TOLERANCE of the largest number of `a`; integers equal."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    bound = TOLERANCE.get(a.dtype.name, 0)
    scale = max(1.0, float(np.abs(a).max(initial=0))) if bound else 0
    return np.allclose(a, b, rtol=bound, atol=bound * scale, equal_nan=bool(bound))


def keep(folder, name, model, feed=None):
    """Writes FOLDER/NAME.onnx, of a ModelProto or bytes, and NAME.npz."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.onnx").write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    if feed is not None:
        np.savez(folder / f"{name}.npz", **feed)
