"""Times of two graphs in ONNX Runtime, in turns on the same inputs, one measurement at a time on a machine."""
from __future__ import annotations

import contextlib
import fcntl
import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from .._tune_ort import Deadline, Running, _is_close, drawn, make_session, others
from .._tune_search import Settings, interval

_WARM = 3  # runs before any is timed
_FAR = 86400.0  # seconds: what takes too long is ended from outside


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """No other piece of this user is timed on this machine meanwhile, whichever study or engine it is of."""
    path = os.path.join(tempfile.gettempdir(), f"onnx_saturate.timing.{os.getuid()}.lock")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _burst(running: Running, seconds: float) -> float:
    """The median of runs of so many seconds together."""
    times: list[float] = []
    begin = now = time.perf_counter()
    while not times or (now - begin < seconds and len(times) < 1000):
        running.run()
        times.append(time.perf_counter() - now)
        now = time.perf_counter()
    return statistics.median(times)


def _bounded(values: list[float], confidence: float) -> dict[str, float | None]:
    middle, low, high = interval(values, confidence)
    return {"median": middle, "low": low if low > 0 else None, "high": high if math.isfinite(high) else None}


def compared(before: str, after: str, dims: Mapping[str, int], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Medians with their intervals of both graphs and of their ratio, and whether they give the same.

    `asked`: threads, rounds, burst, confidence, seed. The order within a round is drawn, so that neither always comes first.
    """
    deadline = Deadline(time.perf_counter() + _FAR)
    try:
        settings = Settings(intra_op_num_threads=asked["threads"])
        sessions = [make_session(path, settings, quiet=True) for path in (before, after)]
        named = {dim for given in sessions[0].get_inputs() for dim in given.shape if isinstance(dim, str)}
        feeds = drawn(sessions[0], {name: size for name, size in dims.items() if name in named}, asked["seed"], deadline)
        running = []
        for session in sessions:
            names = {given.name for given in session.get_inputs()}
            running.append(Running(session, {name: array for name, array in feeds.items() if name in names}, deadline.options, False))
        outputs = [one.run() for one in running]
        for one in running:
            for _ in range(_WARM):
                one.run()
        times: list[list[float]] = [[], []]
        order, draws = [0, 1], random.Random(asked["seed"])
        begin, busy = time.perf_counter(), others()
        for _ in range(asked["rounds"]):
            draws.shuffle(order)
            for which in order:
                times[which].append(_burst(running[which], asked["burst"]))
        spent = time.perf_counter() - begin
        load = max(0.0, others() - busy) / (spent * (os.cpu_count() or 1)) if spent > 0 else 0.0
    finally:
        deadline.cancel()
    return {
        "before": _bounded(times[0], asked["confidence"]), "after": _bounded(times[1], asked["confidence"]),
        "ratio": _bounded([after / before for before, after in zip(*times)], asked["confidence"]),
        "same": all(map(_is_close, outputs[1], outputs[0])), "load": round(load, 4), "rounds": asked["rounds"],
    }  # fmt: skip
