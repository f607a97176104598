"""Where pieces are done: here in processes, or by an engine that others run."""
from __future__ import annotations

import concurrent.futures
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from .._errors import OptionError
from ._models import write_whole
from ._pieces import Outcome, Piece
from ._work import perform

Done = tuple[Piece, Outcome]


class Engine(Protocol):
    """What does pieces. `timing`: they time, and so one machine does one of them at a time.

    Each piece comes back once, in any order. What pieces make lies in `made` when they come back, named by the hash of its content.
    """

    def run(self, pieces: Sequence[Piece], made: Path, timing: bool) -> Iterator[Done]:
        """Does them."""

    def close(self) -> None:
        """Nothing more comes."""


def engine_of(name: str, jobs: int) -> Engine:
    """By what stands behind --on: local, ray, ray://HOST:PORT, dask, tcp://HOST:PORT."""
    kind = name.partition("://")[0]
    if name == "local":
        return Local(jobs)
    raise OptionError(f"--on: {kind} is no engine; there are: local")


def keep(folder: Path, outcome: Outcome, made: Path) -> None:
    """Puts what a piece made where the study keeps it."""
    if "made" in outcome.result:
        write_whole(made / f"{outcome.result['made']}.onnx", (folder / "made.onnx").read_bytes())


class Local:
    """This machine: so many pieces at a time, each in a process of its own."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def run(self, pieces: Sequence[Piece], made: Path, timing: bool) -> Iterator[Done]:
        """Does them; an interruption ends those that run."""
        pool = concurrent.futures.ThreadPoolExecutor(1 if timing else self._jobs)
        try:
            waiting = [pool.submit(_local, piece, made) for piece in pieces]
            for done in concurrent.futures.as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Nothing is left."""


def _local(piece: Piece, made: Path) -> Done:
    folder = Path(tempfile.mkdtemp(prefix="onnx_saturate-"))
    try:
        outcome = perform(piece.key, {given.sha256: str(given.path) for given in piece.reads}, folder, piece.limit)
        keep(folder, outcome, made)
        return piece, outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


Told = Callable[[str], object]
