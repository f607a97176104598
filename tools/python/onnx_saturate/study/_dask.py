"""Studies on Dask: https://distributed.dask.org. Tasks are Dask's own, and models are data that it holds."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from .._errors import Error
from .._tune_ort import one_line
from ._engines import TRIES, Done, arrived, away, library, lost, packed
from ._pieces import Piece
from ._work import Stop


class Dask:
    """A cluster by the address of its scheduler, or one of so many workers on this machine that ends with the study.

    A worker times one piece at a time where it has the resource `timing` of 1: `dask worker ADDRESS --resources timing=1`.
    """

    def __init__(self, address: str | None = None, jobs: int = 1) -> None:
        self._distributed = library("distributed", "Dask")
        self._data: dict[str, Any] = {}
        self._cluster: Any = None
        try:
            if address is None:
                self._cluster = self._distributed.LocalCluster(
                    n_workers=jobs, threads_per_worker=1, resources={"timing": 1}, dashboard_address=None, silence_logs=50
                )
            self._client = self._distributed.Client(self._cluster or address, set_as_default=False, timeout=20)
        except (OSError, ValueError) as error:
            raise Error(f"--on: Dask can't be reached at {address}: {one_line(error)}") from None

    def _files(self, piece: Piece) -> list[Any]:
        """The files of a piece on workers, each content once; a file whose worker is lost is sent again."""
        for given in piece.reads:
            there = self._data.get(given.sha256)
            if there is None or there.status != "finished":
                (self._data[given.sha256],) = self._client.scatter([packed(given)], hash=True)
        return [self._data[given.sha256] for given in piece.reads]

    def _begun(self, piece: Piece, tries: int, timing: bool) -> Any:
        hashes = [given.sha256 for given in piece.reads]
        more = {"resources": {"timing": 1}} if timing else {}
        return self._client.submit(away, dict(piece.key), piece.limit, hashes, *self._files(piece), key=f"{piece.name}-{tries}", pure=False, **more)

    def run(self, pieces: Sequence[Piece], made: Path, timing: bool) -> Iterator[Done]:
        """Does them; those of a worker that is lost are done again."""
        if timing and not any("timing" in worker["resources"] for worker in self._client.scheduler_info(n_workers=-1)["workers"].values()):
            raise Stop("--on: no worker of this Dask cluster has the resource timing; start workers with dask worker ADDRESS --resources timing=1")
        running = {self._begun(piece, 1, timing): (piece, 1) for piece in pieces}
        coming = self._distributed.as_completed(list(running), loop=self._client.loop)
        try:
            for future in coming:
                piece, tries = running.pop(future)
                told = self._told(future)
                if told is not None:
                    yield piece, arrived(told, made)
                elif tries == TRIES:
                    yield piece, lost()
                else:
                    again = self._begun(piece, tries + 1, timing)
                    running[again] = piece, tries + 1
                    coming.add(again)
        finally:
            self._client.cancel(list(running))

    def _told(self, future: Any) -> Any:
        """What a task gave; None where it, or a file that it reads, was lost with its worker."""
        try:
            return future.result()
        except Stop:
            raise
        except (CancelledError, self._distributed.KilledWorker, OSError):
            return None
        except Exception as error:
            raise Stop(f"{type(error).__name__} on a worker: {one_line(error)}") from None

    def close(self) -> None:
        """Ends what was begun for the study."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
