"""Studies of cost models and extractors from one file: `python -m onnx_saturate.study STUDY.toml` (docs/study.md).

>>> from onnx_saturate.study import run
>>> done = run("study.toml", "out")
>>> done.rows[0]["ratio"]

A study names models, targets, cost models, extractors, options and seeds; each combination is one row of a table. Every piece of work is
done once and kept, known by the content of what it depends on, so that a run that was ended goes on, and a table can be made again.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ._engines import Engine, engine_of
from ._file import MEASURES, STUDIES, Source, Study, Timing, read
from ._models import write_whole
from ._page import scores_of, write_page
from ._run import Folder, How, Run, planned
from ._scores import COLUMNS as SCORES
from ._scores import scores
from ._table import COLUMNS, columns_of, csv_of, rows_of, write_parquet

__all__ = ["run", "plan", "read", "Results", "Engine", "Study", "Source", "Timing", "COLUMNS", "SCORES", "MEASURES", "STUDIES"]


@dataclass(frozen=True)
class Results:
    """What came of a study."""

    folder: Path
    rows: Sequence[dict[str, Any]]
    """A row for each experiment, by `COLUMNS`."""
    failures: Sequence[str]
    """A line for each piece that failed."""
    files: Sequence[Path]
    """What was written."""


def _output(study: str, output: str | PathLike[str] | None) -> Path:
    """Where results go: the study's name with .study behind it, here."""
    return Path(f"{Path(study).stem}.study") if output is None else Path(output)


def _tables(folder: Path, name: str, rows: Sequence[dict[str, Any]], columns: Mapping[str, type]) -> list[Path]:
    """As CSV, and as Parquet where pyarrow is installed."""
    files = [folder / f"{name}.csv"]
    write_whole(files[0], csv_of(rows, list(columns)).encode())
    parquet = folder / f"{name}.parquet"
    return [*files, parquet] if write_parquet(parquet, rows, columns) else files


def run(
    study: str | PathLike[str],
    output: str | PathLike[str] | None = None,
    *,
    jobs: int = 1,
    on: str | Engine = "local",
    replay: str | PathLike[str] | bool | None = None,
    retry: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Results:
    """Runs a study, or goes on with it, and writes its tables and its page into the folder `output` (STUDY.study).

    - `study`: a file, or the name of a study that comes with the package.
    - `jobs`: pieces that are done at a time on this machine; those that time are always one at a time.
    - `on`: where pieces are done: "local", "ray", "ray://HOST:PORT", "ray:ADDRESS", "dask", "tcp://HOST:PORT", or an `Engine`.
    - `replay`: True makes the tables of `output` again from what is recorded there; another folder gives the times, while graphs are made anew.
    - `retry`: pieces that failed are done again.
    - `progress`: a function of lines of text.
    """
    told, folder = read(fspath(study)), Folder(_output(fspath(study), output))
    engine = engine_of(on, jobs) if isinstance(on, str) else on
    times = None if replay is None or replay is False else folder.path if replay is True else Path(replay)
    try:
        with folder.held():
            finished = Run(told, folder, How(engine, progress or (lambda line: None), retry, times)).finished()
            rows, columns = rows_of(finished), columns_of(told.measure)
            scored = scores(finished.every, told.costs) if "splits" in told.measure else []
            files = _tables(folder.path, "results", rows, columns) + (_tables(folder.path, "scores", scored, SCORES) if scored else [])
            write_page(folder.path, finished, rows, [scores_of(scored)] if scored else [])
            files += [folder.path / name for name in ("results.html", "results.md")]
    finally:
        engine.close()
    return Results(folder.path, rows, list(finished.failures), files)


def plan(study: str | PathLike[str], output: str | PathLike[str] | None = None) -> list[str]:
    """A line for each piece that `run` would do, and whether it is done already; nothing is written."""
    return planned(fspath(study), _output(fspath(study), output))
