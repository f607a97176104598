"""Compares the results of cases, and keeps those in which something is wrong."""
import numpy as np

TOLERANCE = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-6}


def close(a, b):
    """Of one shape and type, and within TOLERANCE of the largest number of `a`; integers equal."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    bound = TOLERANCE.get(a.dtype.name, 0)
    scale = max(1.0, float(np.abs(a).max(initial=0))) if bound else 0
    return np.allclose(a, b, rtol=bound, atol=bound * scale, equal_nan=bool(bound))


def keep(folder, seed, model, feed=None):
    """Writes FOLDER/SEED.onnx, of a ModelProto or bytes, and SEED.npz; nothing where the folder is None."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{seed}.onnx").write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    if feed is not None:
        np.savez(folder / f"{seed}.npz", **feed)
