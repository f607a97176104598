"""Where a runtime's own optimizations change what it computes: found, blamed on a pass, and made small."""
from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import _files
from .._errors import Error
from ._compare import beyond_noise, moved, noise_of
from ._runtimes import Outcome, Runtime

BASE = "none"
REPRODUCE = '''"""{title}"""
import numpy as np
import onnxruntime as ort

print(ort.__version__)
feeds = dict(np.load("inputs.npz"))
made = []
for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.{level}):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    session = ort.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
    made.append(session.run(None, feeds))
for output, a, b in zip(session.get_outputs(), *made):
    print(output.name, a.dtype, a.shape, b.dtype, b.shape, np.max(np.abs(a.astype(float) - b.astype(float))) if a.shape == b.shape and a.size else "")
'''
ATTRIBUTES = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}


@dataclass
class Finding:
    """Something that a runtime does to a graph at one of its levels, and not without its optimizations."""

    model: str
    graph: str
    """The file of the drawn graph."""
    runtime: str
    level: str
    kind: str
    """"different", "load" or "run" (refused there), "signal N", "exit N" or "hang"."""
    message: str
    passes: list[str] = field(default_factory=list)
    """Optimizers of the runtime without any one of which it does not happen."""
    nodes: int | None = None
    """Of the reduced model."""
    folder: str = ""
    """With the reduced model, inputs and a script that shows it."""

    def key(self) -> tuple[str, ...]:
        """Findings of one key are taken for one."""
        return (self.runtime, self.level, self.kind, ",".join(self.passes) or self.message.partition(":")[0])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Question:
    """Does it happen to this model on these inputs?"""

    def __init__(self, runtime: Runtime, level: str, folder: Path) -> None:
        self._runtime, self._level, self._folder = runtime, level, folder

    def ask(self, model: Path, inputs: Path, base: Outcome | None = None, disabled: Sequence[str] = ()) -> tuple[str, str]:
        """(kind, message); a kind of "" where nothing happens, "base" where the runtime does not run it without optimizations either."""
        base = self._runtime.run(model, inputs, BASE) if base is None else base
        if base.outputs is None:
            return "base", base.message
        other = self._runtime.run(model, inputs, self._level, disabled=disabled)
        if other.outputs is None:
            return other.status, other.message
        said = beyond_noise(base.outputs, other.outputs, lambda: self.noise(model, inputs, base))
        return ("different", said) if said else ("", "")

    def noise(self, model: Path, inputs: Path, base: Outcome) -> dict[str, float]:
        beside = self._folder / "moved.npz"
        with np.load(inputs) as archive:
            np.savez(beside, **moved({name: archive[name] for name in archive.files}))
        outcome = self._runtime.run(model, beside, BASE)
        return noise_of(base.outputs or {}, outcome.outputs or {})

    def guilty(self, model: Path, inputs: Path, kind: str) -> list[str]:
        """The optimizers without which it does not happen, each alone."""
        told = self._runtime.run(model, inputs, self._level, log=True)
        found = [name for name in told.passes if self.ask(model, inputs, disabled=[name])[0] != kind]
        others = [] if found else [name for name in self._runtime.known if name not in told.passes]  # one that ended the process told nothing
        return found + [name for name in others if self.ask(model, inputs, disabled=[name])[0] != kind]


def reduced(model: Path, inputs: Path, finding: Finding, spec: str, folder: Path, seconds: float) -> None:
    """Writes the smallest model found that still shows the finding, with inputs and a script, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = folder / "asked.json"
    asked.write_text(json.dumps({"runtime": spec, "level": finding.level, "kind": finding.kind, "inputs": str(inputs)}))
    program = folder / "shows_it"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m onnx_saturate.vet._trial {shlex.quote(str(asked))} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    small = folder / "model.onnx"
    try:
        _files.reduce(os.fspath(model), "exit 3", os.fspath(small), command=os.fspath(program), time_limit=seconds, trial_limit=60)
    except Error as error:
        finding.message += f" (not reduced: {error})"
    if not small.exists():
        small.write_bytes(model.read_bytes())
    for extra in (asked, program):
        extra.unlink()
    if finding.level in ATTRIBUTES:
        title = f"{finding.runtime}, level {finding.level}: {finding.kind}: {finding.message}; optimizers: {', '.join(finding.passes) or 'not found'}"
        (folder / "reproduce.py").write_text(REPRODUCE.format(title=title.replace('"', "'"), level=ATTRIBUTES[finding.level]))
    finding.folder = str(folder)
