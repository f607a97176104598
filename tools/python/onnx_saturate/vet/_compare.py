"""What is another number and what is rounding."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_SHARE = {2: 2e-2, 4: 1e-3, 8: 1e-6}  # of an output's scale, by bytes of a float
_STEPS = 2  # that quantized numbers may be apart


def difference(wanted: Mapping[str, Any], made: Mapping[str, Any], noise: Mapping[str, float]) -> str:
    """What differs by more than rounding, or nothing. `noise`: by how much of its scale an output moves where inputs move by their last bit."""
    for name, a in wanted.items():
        b = made.get(name)
        if b is None or a.shape != b.shape or a.dtype != b.dtype:
            return f"output '{name}' is {'missing' if b is None else f'{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}'}"
        if a.size == 0 or a.dtype.kind not in "fiub":
            continue
        share = distance(a, b)
        allowed = max(_SHARE[a.dtype.itemsize], 20 * noise.get(name, 0.0)) if a.dtype.kind == "f" else noise.get(name, 0.0)
        if share > allowed:
            return f"output '{name}': {share:.3g} of its scale apart, {allowed:.3g} allowed"
    return ""


def beyond_noise(wanted: Mapping[str, Any], made: Mapping[str, Any], noise: Callable[[], Mapping[str, float]]) -> str:
    """As `difference`; `noise` takes a run more, and is asked where something differs alone."""
    return difference(wanted, made, {}) and difference(wanted, made, noise())


def distance(a: Any, b: Any) -> float:
    """The largest difference, by the scale of the first; infinite where one is NaN or infinite and the other is not."""
    if a.dtype.kind != "f":
        far = np.abs(a.astype(np.float64) - b.astype(np.float64)) > (_STEPS if a.dtype.itemsize == 1 and a.dtype.kind != "b" else 0)
        return float(np.mean(far))
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x)
    if not np.array_equal(finite, np.isfinite(y)) or not np.array_equal(np.isnan(x), np.isnan(y)):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(np.max(np.abs(x[finite])))
    return float(np.max(np.abs(x[finite] - y[finite]))) / scale if scale > 0 else float(np.max(np.abs(y[finite])) > 0)


def moved(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Floats a unit in their last place away."""
    return {name: np.nextafter(a, np.array(np.inf, a.dtype)) if a.dtype.kind == "f" else a for name, a in inputs.items()}


def noise_of(wanted: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, float]:
    return {name: distance(a, beside[name]) for name, a in wanted.items() if name in beside and beside[name].shape == a.shape}
