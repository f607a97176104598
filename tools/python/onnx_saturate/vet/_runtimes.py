"""Runtimes in processes of their own: what they end with, and what they make."""
from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import Error, OptionError

CHILD = Path(__file__).with_name("_child.py")
NAMES = ("onnxruntime", "openvino")
_PASS = re.compile(r"GraphTransformer (\S+) modified: ([01])")


@dataclass
class Outcome:
    """How a run of a model in a runtime ended."""

    status: str
    """"ran", "load" or "run" (it refused the model, or failed on the inputs), "draw" (no inputs fit), "signal N" or "hang"."""
    message: str = ""
    outputs: dict[str, Any] | None = None
    passes: tuple[str, ...] = ()
    """That changed the graph, in their order, where the run was asked to tell."""


class Runtime:
    """A runtime of an interpreter's environment. `spec`: `onnxruntime`, `openvino`, or one of them with `=PYTHON`, an interpreter that has it."""

    def __init__(self, spec: str, folder: Path, timeout: float) -> None:
        self.kind, _, python = spec.partition("=")
        if self.kind not in NAMES:
            raise OptionError(f"runtime: {spec}: there are {', '.join(NAMES)}, each with =PYTHON for the interpreter of another environment")
        self._python, self._folder, self._timeout = python or sys.executable, folder, timeout
        self.known: dict[str, None] = {}  # optimizers that it told of
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile(dir=folder)
        hello = self._start()
        self.version, self.levels = str(hello["version"]), tuple(str(level) for level in hello["levels"])
        self.name = f"{self.kind} {self.version}"

    def run(self, model: Path, inputs: Path, level: str, *, draw: int | None = None, disabled: Sequence[str] = (), log: bool = False) -> Outcome:
        outputs = self._folder / "outputs.npz"
        outputs.unlink(missing_ok=True)
        request = {"model": os.path.abspath(model), "inputs": os.path.abspath(inputs), "outputs": str(outputs), "level": level, "disabled": list(disabled), "log": log}
        if draw is not None:
            request["draw"] = draw
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        self._errors.seek(0)
        self._errors.truncate()
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        told = self._answer() or {"status": self._ended(), "message": ""}
        made = None
        if told["status"] == "ran":
            with np.load(outputs) as archive:
                made = {name: archive[name] for name in archive.files}
        return Outcome(told["status"], told["message"], made, self._passes() if log else ())

    def _passes(self) -> tuple[str, ...]:
        self._errors.seek(0)
        told = _PASS.findall(self._errors.read().decode(errors="replace"))
        self.known.update(dict.fromkeys(name for name, _ in told))
        return tuple(dict.fromkeys(name for name, changed in told if changed == "1"))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._errors.close()

    def _start(self) -> dict[str, Any]:
        try:
            self._process = subprocess.Popen(
                [self._python, str(CHILD), self.kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1, cwd=self._folder)
        except OSError as error:
            raise Error(f"{self._python}: {error.strerror}; name an interpreter that has {self.kind}: {self.kind}=PYTHON") from None
        hello = self._answer()
        if hello is None:
            self._ended()
            raise Error(f"{self.kind}: {self._python} has none; install it there, or name an interpreter that has it: {self.kind}=PYTHON")
        return hello

    def _answer(self) -> dict[str, Any] | None:
        """None: the process ended, or takes too long."""
        assert self._process is not None and self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], self._timeout)[0]:
            return None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else None

    def _ended(self) -> str:
        assert self._process is not None
        hangs = self._process.stdout is not None and not select.select([self._process.stdout], [], [], 0)[0]
        if hangs:
            self._process.kill()
        code = self._process.wait()
        self._process = None
        return "hang" if hangs else f"signal {-code}" if code < 0 else f"exit {code}"
