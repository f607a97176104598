"""What releases and our kernels make of cases, and whether it is the same: by the tolerances of docs/decisions.md."""
import concurrent.futures
import pathlib
import subprocess
import tempfile

import numpy as np
from fuzz import judges

TOLERANCE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-6}  # kernels/compare/compare.h
STEPS_ONE_IN = 64                                               # elements that may be rounded to the next integer


def apart(ours, theirs):
    """None where two arrays are the same; else "differs", or "a step" where whole numbers lie one apart."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return "differs"
    if ours.dtype.kind != "f":
        steps = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
        if steps.max(initial=0) > 1:
            return "differs"
        return "a step" if np.count_nonzero(steps) > max(1, steps.size // STEPS_ONE_IN) else None
    with np.errstate(all="ignore"):
        a, b = theirs.astype(np.float64), ours.astype(np.float64)
        size = np.where(np.isfinite(a), np.abs(a), 0)
        filled = np.where(size > 0, size, np.nan)
        usual = np.nanmedian(filled, axis=-1, keepdims=True) if size.ndim and size.shape[-1] and not np.all(np.isnan(filled)) else size
        scale = np.maximum(size, np.nan_to_num(usual))
        near = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= TOLERANCE[ours.dtype.name] * scale + 1e-30)
    return None if near.all() else "differs"


def verdict(ours, theirs):
    """Of two outcomes: same, a step, differs, refuses (they), ends (their process), or only they run; and the reason that was given."""
    kind, values = theirs
    if kind in ("crash", "hang"):
        return "ends", values
    if kind == "refused":
        return ("both refuse" if ours[0] == "refused" else "refuses"), values
    if ours[0] != "ran":
        return "runs", ours[1]
    worst = {apart(a, b) for a, b in zip(ours[1], values)}
    return "differs" if "differs" in worst or len(ours[1]) != len(values) else "a step" if "a step" in worst else "same", ""


def of_release(python, cases):
    """The release, and per case two outcomes: without optimizations and with all. A process of its own, anew after each death."""
    ask = [python, "-c", "import onnxruntime; print(onnxruntime.__version__)"]
    release = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    return release, list(zip(*(judges.run(judge, cases, python) for judge in ("ort", "ort_optimized"))))


def _ours(binary, folder, number, case):
    model, feed = case
    path = pathlib.Path(folder) / str(number)
    path.with_suffix(".onnx").write_bytes(model)
    np.savez(path.with_suffix(".npz"), **feed)
    out = path.with_suffix(".out.npz")
    done = subprocess.run([binary, "run", path.with_suffix(".onnx"), "--inputs", path.with_suffix(".npz"), "-o", out, "-q"], capture_output=True, text=True, timeout=120)
    if done.returncode:
        return ("crash" if done.returncode < 0 else "refused"), done.stderr.strip()
    with np.load(out) as arrays:
        outcome = ("ran", [arrays[name] for name in sorted(arrays.files)])
    for suffix in (".onnx", ".npz", ".out.npz"):
        path.with_suffix(suffix).unlink()
    return outcome


def of_ours(binary, cases, at_once=2):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda item: _ours(binary, folder, *item), enumerate(cases)))
