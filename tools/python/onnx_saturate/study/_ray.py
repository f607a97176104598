"""Studies on Ray: https://docs.ray.io. Tasks are Ray's own, and models are objects of its store."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .._errors import Error
from .._tune_ort import one_line
from ._engines import TRIES, Done, arrived, away, library, lost, packed
from ._pieces import Piece
from ._work import Stop


class Ray:
    """A cluster by its address, or one of so many workers on this machine that ends with the study.

    A node times one piece at a time where it has the resource `timing` of 1: `ray start --resources='{"timing": 1}'`.
    """

    def __init__(self, address: str | None = None, jobs: int = 1) -> None:
        self._ray = library("ray", "Ray")
        self._objects: dict[str, Any] = {}
        self._mine = not self._ray.is_initialized()
        quiet = {"logging_level": "error", "log_to_driver": False}
        try:
            if self._mine and address is None:
                self._ray.init(address="local", num_cpus=jobs, resources={"timing": 1}, include_dashboard=False, **quiet)
            elif self._mine:
                self._ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise Error(f"--on: Ray can't be reached at {address}: {one_line(error)}") from None

    def _object(self, piece: Piece) -> list[Any]:
        """The files of a piece in Ray's store, each once."""
        for given in piece.reads:
            if given.sha256 not in self._objects:
                self._objects[given.sha256] = self._ray.put(packed(given))
        return [self._objects[given.sha256] for given in piece.reads]

    def run(self, pieces: Sequence[Piece], made: Path, timing: bool) -> Iterator[Done]:
        """Does them; those of a worker or a node that is lost are done again."""
        ray = self._ray
        if timing and not ray.cluster_resources().get("timing"):
            raise Stop("--on: no node of this Ray cluster has the resource timing; start nodes with ray start --resources='{\"timing\": 1}'")
        task = ray.remote(away).options(num_cpus=1, max_retries=TRIES, resources={"timing": 1} if timing else {})

        def begun(piece: Piece) -> Any:
            return task.remote(dict(piece.key), piece.limit, [given.sha256 for given in piece.reads], *self._object(piece))

        running = {begun(piece): (piece, 1) for piece in pieces}
        try:
            while running:
                (ready,), _ = ray.wait(list(running), num_returns=1)
                piece, tries = running.pop(ready)
                try:
                    yield piece, arrived(ray.get(ready), made)
                except ray.exceptions.RayTaskError as error:
                    raise Stop(str(getattr(error, "cause", error))) from None
                except ray.exceptions.RayError:  # a worker, a node or an object is lost
                    self._objects.clear()
                    if tries == TRIES:
                        yield piece, lost()
                    else:
                        running[begun(piece)] = piece, tries + 1
        finally:
            for left in running:
                ray.cancel(left, force=True)

    def close(self) -> None:
        """Ends what was begun for the study."""
        self._objects.clear()
        if self._mine:
            self._ray.shutdown()
