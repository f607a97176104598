"""Does a runtime compute the same whatever its optimizations and however a model is spelled? `python -m onnx_saturate vet MODEL` (docs/vet.md).

>>> from onnx_saturate.vet import vet
>>> done = vet(["model.onnx"], "vetted", samples=8, seconds=600)
>>> [(f.level, f.kind, f.passes) for f in done.findings]
"""
from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from .. import _verbs
from .._errors import Error
from ._compare import beyond_noise
from ._findings import BASE, Finding, Question, reduced
from ._runtimes import Outcome, Runtime

__all__ = ["vet", "Vetted", "Finding"]

_KEPT = 3  # findings of one key that are made small
_TARGETS = ("ort-cpu", "onnx")


@dataclass
class Vetted:
    """What was run, and what was found."""

    findings: list[Finding]
    runs: int
    """Of a graph at a level, in all runs of the folder."""
    refused: list[str]
    """Models and graphs that could not be tried, with the reason."""
    graphs: int


class _Record:
    """What is done, a line a graph, so that the same call goes on where it ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    row = json.loads(line)
                    self.rows[row["key"]] = row
                except (ValueError, KeyError, TypeError):  # the last line of a run that was killed
                    continue

    def add(self, row: dict[str, Any]) -> None:
        self.rows[row["key"]] = row
        with self._path.open("a") as out:
            out.write(json.dumps(row) + "\n")

    def findings(self) -> list[Finding]:
        return [Finding(**finding) for row in self.rows.values() for finding in row["findings"]]


class _Vetting:
    def __init__(self, output: Path, temporary: Path, specs: Sequence[str], samples: int, seed: int, until: float, reduce_seconds: float, tell: Callable[[str], None]) -> None:
        self._output, self._temporary, self._specs, self._samples, self._seed = output, temporary, specs, samples, seed
        self._until, self._reduce_seconds, self._tell = until, reduce_seconds, tell
        self._runtimes = [Runtime(spec, temporary, 120) for spec in specs]
        self._record = _Record(output / "graphs.jsonl")

    def close(self) -> None:
        for runtime in self._runtimes:
            runtime.close()

    def over(self) -> bool:
        return time.monotonic() > self._until

    def model(self, path: Path) -> None:
        inputs = self._temporary / "inputs.npz"
        first = self._runtimes[0].run(path, inputs, BASE, draw=self._seed)
        if first.outputs is None:
            self._note(str(path), path, f"not run by {self._runtimes[0].name}: {(first.message or first.status)[:120]}")
            return
        for graph in self._graphs(path):
            if self.over():
                return
            self._graph(path, graph, inputs, first)

    def _graphs(self, path: Path) -> Iterable[Path]:
        yield path
        for target in _TARGETS:
            folder = self._temporary / f"graphs-{target}"
            for old in folder.glob("*"):
                old.unlink()
            try:
                rows: Any = _verbs.extract(str(path), str(folder), samples=self._samples, target=target, seed=self._seed, verify=False, time_limit=60.0)
            except Error as error:
                self._note(f"{path} {target}", path, str(error))
                continue
            for row in rows:
                yield Path(row["graph"])

    def _note(self, key: str, path: Path, why: str) -> None:
        self._record.add({"key": key, "model": str(path), "refused": f"{path}: {why}", "runs": 0, "findings": []})
        self._tell(f"{path}: {why}")

    def _graph(self, model: Path, graph: Path, inputs: Path, original: Outcome) -> None:
        key = hashlib.sha256(graph.read_bytes()).hexdigest() + " " + " ".join(runtime.name for runtime in self._runtimes)
        if key in self._record.rows:
            return
        findings, runs = [], 0
        for spec, runtime in zip(self._specs, self._runtimes):
            base = runtime.run(graph, inputs, BASE) if BASE in runtime.levels else original
            runs += 1
            said = "" if base.outputs is None else beyond_noise(original.outputs or {}, base.outputs, lambda: self._noise(runtime, model, inputs, original))
            if base.outputs is None or said:
                findings.append(self._own(model, graph, runtime, base, said))
                continue
            known: set[tuple[str, str]] = set()
            for level in runtime.levels:
                if level == BASE or self.over():
                    continue
                runs += 1
                kind, message = self._ask(runtime, level, graph, inputs, base)
                what = (kind, message.partition(":")[0])
                if kind and what not in known:  # a higher level does what a lower one does
                    known.add(what)
                    findings.append(self._found(Finding(str(model), graph.name, runtime.name, level, kind, message), spec, runtime, graph, inputs))
        self._record.add({"key": key, "model": str(model), "refused": "", "runs": runs, "findings": [finding.as_dict() for finding in findings]})

    def _ask(self, runtime: Runtime, level: str, graph: Path, inputs: Path, base: Outcome) -> tuple[str, str]:
        if BASE in runtime.levels:
            return Question(runtime, level, self._temporary).ask(graph, inputs, base)
        other = runtime.run(graph, inputs, level)
        if other.outputs is None:
            return other.status, other.message
        said = beyond_noise(base.outputs or {}, other.outputs, lambda: self._noise(self._runtimes[0], graph, inputs, base))
        return ("different", said) if said else ("", "")

    def _noise(self, runtime: Runtime, model: Path, inputs: Path, base: Outcome) -> dict[str, float]:
        return Question(runtime, BASE, self._temporary).noise(model, inputs, base) if BASE in runtime.levels else {}

    def _own(self, model: Path, graph: Path, runtime: Runtime, base: Outcome, said: str) -> Finding:
        """Without optimizations a drawn graph is not what the model is: a rule of saturate's, or a kernel."""
        kind = "different" if base.outputs is not None else base.status
        return self._kept(Finding(str(model), graph.name, runtime.name, BASE, kind, said or base.message), graph)

    def _found(self, finding: Finding, spec: str, runtime: Runtime, graph: Path, inputs: Path) -> Finding:
        if BASE in runtime.levels:
            finding.passes = Question(runtime, finding.level, self._temporary).guilty(graph, inputs, finding.kind)
        self._tell(f"{graph.name}, {finding.runtime}, {finding.level}: {finding.kind}: {finding.message[:120]} ({', '.join(finding.passes) or 'no pass found'})")
        alike = sum(known.key() == finding.key() for known in self._record.findings())
        if alike >= _KEPT or BASE not in runtime.levels:
            return self._kept(finding, graph) if alike < _KEPT else finding
        folder = self._next_folder()
        reduced(graph, inputs, finding, spec, folder, self._reduce_seconds)
        finding.nodes = len(onnx.load(folder / "model.onnx", load_external_data=False).graph.node)
        return finding

    def _kept(self, finding: Finding, graph: Path) -> Finding:
        folder = self._next_folder()
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(graph.read_bytes())
        finding.folder = str(folder)
        return finding

    def _next_folder(self) -> Path:
        number = 1
        while (folder := self._output / f"finding-{number:03}").exists():
            number += 1
        return folder

    def done(self) -> Vetted:
        rows = list(self._record.rows.values())
        return Vetted(self._record.findings(), sum(row["runs"] for row in rows), [row["refused"] for row in rows if row["refused"]], sum(not row["refused"] for row in rows))


def vet(
    models: Sequence[str | Path],
    output: str | Path,
    *,
    samples: int = 8,
    seconds: float = 600,
    runtimes: Sequence[str] = ("onnxruntime",),
    seed: int = 1,
    reduce_seconds: float = 120,
    progress: Callable[[str], None] | None = None,
) -> Vetted:
    """Runs each model and `samples` graphs that equal it, drawn for each of two targets, at every level of optimization of each runtime.

    A graph at a level is held against the same graph without optimizations, on drawn inputs. What ends in a signal, does not load, fails, or gives
    numbers that differ by more than rounding is a finding: the optimizers of ONNX Runtime that it takes are named, and the model is made small.
    Without optimizations each graph is held against the model: there a finding (level "none") is a rule of saturate's, or a kernel.
    `runtimes`: "onnxruntime" comes first; more of "onnxruntime=PYTHON" and "openvino", PYTHON being an interpreter of another environment.
    All goes into the folder `output`; the same call goes on where it ended. `seconds` bounds it, but for a reduction that has begun (`reduce_seconds`).
    """
    if not runtimes or not runtimes[0].startswith("onnxruntime"):
        raise Error("runtimes: the first one is onnxruntime, in which inputs are drawn")
    folder = Path(output).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        vetting = _Vetting(folder, Path(temporary), runtimes, samples, seed, time.monotonic() + seconds, reduce_seconds, progress or (lambda line: None))
        try:
            for path in models:
                if vetting.over():
                    break
                if not Path(path).is_file():
                    raise Error(f"{path}: no such file")
                vetting.model(Path(path))
            return vetting.done()
        finally:
            vetting.close()
