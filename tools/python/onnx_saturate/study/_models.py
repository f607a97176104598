"""The models of a study: found, made or written by a script, each known by the hash of its content."""
from __future__ import annotations

import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from .. import _core
from .._errors import Error
from ._file import Source, Study
from ._makers import made, name_of


@dataclass(frozen=True)
class Given:
    """A file that pieces read: a model, or a file of rules, costs or a target."""

    sha256: str
    path: Path
    beside: tuple[str, ...] = ()
    """Files of weights in the same folder."""


@dataclass(frozen=True)
class Model:
    """A model of the study, at sizes of its dims."""

    name: str
    family: str
    sha256: str
    dims: Mapping[str, int]
    path: Path | None = None
    """None where it is told by an earlier run, and not here."""
    beside: tuple[str, ...] = ()

    @property
    def given(self) -> Given:
        """As pieces read it."""
        if self.path is None:
            raise Error(f"{self.name}: a piece of it is missing, and with --replay models are not read; run the study without --replay")
        return Given(self.sha256, self.path, self.beside)


def hash_of(path: Path, beside: Iterable[str] = ()) -> str:
    """Of a file and of the files of weights that belong to it."""
    total = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
        for name in beside:
            total.update(f"\0{name}\0{hash_of(path.parent / name)}".encode())
    except OSError as error:
        raise Error(f"{error.filename}: can't be read: {error.strerror}; check the path") from None
    return total.hexdigest()


def _weights_beside(path: Path) -> tuple[str, ...]:
    """The files of weights that a model names. What is no model is told where it is optimized."""
    try:
        model = onnx.load(os.fspath(path), load_external_data=False)
    except Exception:  # protobuf's own errors; the model's row tells what is wrong with it
        return ()
    names = {entry.value for tensor in _tensors(model) for entry in tensor.external_data if entry.key == "location"}
    for name in names:
        if os.path.isabs(name) or ".." in Path(name).parts:
            raise Error(f"{path}: its weights lie outside of its folder ({name}); put them beside it")
    return tuple(sorted(names))


def _tensors(model: onnx.ModelProto) -> Iterator[Any]:
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        yield from (tensor for tensor in graph.initializer if tensor.external_data)
        for node in graph.node:
            for attribute in node.attribute:
                graphs += [attribute.g, *attribute.graphs] if attribute.HasField("g") or attribute.graphs else []
                yield from (tensor for tensor in [attribute.t] if attribute.HasField("t") and tensor.external_data)


def family_of(name: str) -> str:
    """What stands before the first dash: bert of bert-dyS18d."""
    return name.split("-")[0]


class Models:
    """Finds the models of a study. What makers and scripts make is kept in `folder`."""

    def __init__(self, study: Study, folder: Path) -> None:
        self._study, self._folder = study, folder

    def all(self, scripts: bool = True) -> list[Model]:
        """Every model at every size; without what scripts write where they shall not run. One of the same content and sizes counts once."""
        out: dict[tuple[str, str], Model] = {}
        for source in self._study.sources:
            for found, path in self._files(source, scripts):
                name = _core.printable(found)  # of a file that somebody named
                beside = _weights_beside(path)
                sha = hash_of(path, beside)
                for dims in source.dims:
                    out.setdefault((sha, str(sorted(dims.items()))), Model(name, source.family or family_of(name), sha, dims, path, beside))
        return list(out.values())

    def _files(self, source: Source, scripts: bool) -> list[tuple[str, Path]]:
        if source.maker:
            return [self._made(source)]
        if source.script:
            return [(path.stem, path) for path in self._written(source, scripts)]
        paths: list[Path] = []
        for pattern in source.files:
            whole = os.path.join(self._study.folder, os.path.expanduser(pattern))
            fitting = [whole] if os.path.exists(whole) else sorted(glob.glob(whole, recursive=True))
            if not fitting:
                raise Error(f"{self._study.path}: {source.place}.files: there is no file {pattern}; paths are relative to the study's folder")
            paths += map(Path, fitting)
        return [(path.stem, path) for path in paths]

    def _made(self, source: Source) -> tuple[str, Path]:
        content = made(source.maker, source.sizes or {})
        path = self._folder / f"{hashlib.sha256(content).hexdigest()}.onnx"
        keep(path, content)
        return name_of(source.maker, source.sizes or {}), path

    def _written(self, source: Source, run: bool) -> list[Path]:
        """What the script writes into the folder that it gets as its last word; it runs once for each content and arguments."""
        place = f"{self._study.path}: {source.place}.script: {source.script}"
        script = self._study.folder / source.script
        words = "\0".join([hash_of(script), *source.arguments])
        folder = self._folder / f"script-{hashlib.sha256(words.encode()).hexdigest()[:16]}"
        if not folder.exists():
            if not run:
                return []
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(dir=self._folder, prefix="part-"))
            done = subprocess.run([sys.executable, script, *source.arguments, partial], capture_output=True, text=True, check=False)
            if done.returncode or not list(partial.glob("*.onnx")):
                shutil.rmtree(partial)
                why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1] if done.returncode else "it wrote no .onnx file"
                raise Error(f"{place}: {why}; it gets the folder to write models into as its last word")
            partial.rename(folder)
        return sorted(folder.glob("*.onnx"))


def write_whole(path: Path, content: bytes) -> None:
    """In place of what was there, and only when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")  # threads may make the same
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), 0o644)
    os.replace(partial, path)


def keep(path: Path, content: bytes) -> None:
    """A file whose name tells its content: what is there stays."""
    if not path.exists():
        write_whole(path, content)
