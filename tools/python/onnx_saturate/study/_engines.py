"""Where pieces are done: here in processes, or by an engine that others run. All of them do a piece by `_work.perform`."""
from __future__ import annotations

import concurrent.futures
import importlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .._errors import OptionError, UnsupportedError
from ._models import Given, keep
from ._pieces import Key, Outcome, Piece
from ._work import machine, perform

Done = tuple[Piece, Outcome]
TRIES = 3
"""How often a piece is given to an engine again whose worker was lost."""


class Engine(Protocol):
    """What does pieces. `timing`: they time, and so one machine does one of them at a time.

    Each piece comes back once, in any order. What pieces make lies in `made` when they come back, named by the hash of its content.
    """

    def run(self, pieces: Sequence[Piece], made: Path, timing: bool) -> Iterator[Done]:
        """Does them."""

    def close(self) -> None:
        """Nothing more comes."""


def engine_of(name: str, jobs: int) -> Engine:
    """By what stands behind --on: local, ray, ray://HOST:PORT, ray:ADDRESS, dask, tcp://HOST:PORT."""
    kind, _, address = name.partition(":")
    if name == "local":
        return Local(jobs)
    if kind == "ray" and (name == "ray" or address):
        from ._ray import Ray

        return Ray(name if address.startswith("//") else address or None, jobs)
    if name == "dask" or (kind in ("tcp", "tls") and address.startswith("//")):
        from ._dask import Dask

        return Dask(None if name == "dask" else name, jobs)
    raise OptionError(f"--on: {name} is no engine; give local, ray, ray://HOST:PORT, ray:ADDRESS, dask or tcp://HOST:PORT")


def _keep(folder: Path, outcome: Outcome, made: Path) -> None:
    """Puts what a piece made where the study keeps it."""
    for path in _made(folder, outcome):
        keep(made / path.name, path.read_bytes())


def _made(folder: Path, outcome: Outcome) -> list[Path]:
    return [] if outcome.failed else sorted((folder / "made").glob("*.onnx"))


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
        _keep(folder, outcome, made)
        return piece, outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ---- for engines on other machines --------------------------------------------------------------------------------------------------------

def library(module: str, called: str) -> Any:
    """What an engine is run by."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UnsupportedError(f"--on: {called} is not installed; pip install onnx-saturate[{called.lower()}]") from None


Packed = Mapping[str, bytes]
"""A file with those that belong to it, by name, itself first: what travels through an engine's store, once for each content."""


def packed(given: Given) -> Packed:
    """A file, ready to travel."""
    return {name: (given.path.parent / name).read_bytes() for name in (given.path.name, *given.beside)}


Told = tuple[dict[str, Any], Packed]
"""What came of a piece, and what it made."""


def away(key: Key, limit: float, hashes: Sequence[str], *contents: Packed) -> Told:
    """On a worker: what came of a piece, and what it made."""
    folder = Path(tempfile.mkdtemp(prefix="onnx_saturate-"))
    try:
        paths = {}
        for sha, content in zip(hashes, contents):
            (folder / sha).mkdir()
            for name, data in content.items():
                (folder / sha / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / sha / name).write_bytes(data)
            paths[sha] = str(folder / sha / next(iter(content)))
        outcome = perform(key, paths, folder, limit)
        made = {path.name: path.read_bytes() for path in _made(folder, outcome)}
        return {"result": outcome.result, "failed": outcome.failed, "where": outcome.where}, made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def arrived(told: Told, made: Path) -> Outcome:
    """What `away` gave, with what was made put where the study keeps it."""
    for name, content in told[1].items():
        keep(made / name, content)
    return Outcome(**told[0])


def lost() -> Outcome:
    """Of a piece whose workers were lost again and again."""
    return Outcome({}, f"its worker was lost, {TRIES} times", machine())
