"""What executes models: saturate's own runtime, or ONNX Runtime."""
from __future__ import annotations

import contextlib
import glob
import importlib.util
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _core
from ._errors import Error, OptionError, UnsupportedError
from ._options import texts
from ._tune_ort import one_line
from ._tune_ort import runtime as onnxruntime
from ._values import STRING, from_core, numpy_dtype, to_core

RUNTIMES = ("saturate", "onnxruntime")

Run = Callable[["dict[str, tuple[Any, ...]]", "float | None"], "tuple[list[tuple[Any, ...]], float]"]
"""Takes inputs by name and the seconds that a run may take; gives outputs and the seconds that it took."""
Open = Callable[[_core.Model], Run]

_LARGE = 1 << 30  # bytes of weights beyond which a model goes to ONNX Runtime through files


def _array(value: tuple[Any, ...]) -> Any:
    """As ONNX Runtime takes it; tensors where they lie."""
    kind, number, *rest = value
    if kind != "tensor" or number == STRING or numpy_dtype(number).itemsize * 8 != _bits(rest):
        return from_core(value)
    return rest[1].view(numpy_dtype(number)).reshape(rest[0])


def _bits(rest: Sequence[Any]) -> int:
    """Of an element of these bytes; 0 where types are packed, or nothing is there."""
    elements = int(np.prod(rest[0], dtype=np.int64))
    return 0 if elements == 0 else 8 * rest[1].size // elements


def _outputs(made: Sequence[Any], declared: Sequence[str]) -> list[tuple[Any, ...]]:
    try:
        return [to_core(np.asarray(value) if isinstance(value, np.generic) else value, kind) for value, kind in zip(made, declared)]
    except TypeError as error:
        raise UnsupportedError(f"onnxruntime: an output is of a kind that is not compared: {one_line(error)}") from error


@contextlib.contextmanager
def _run_options(ort: Any, seconds: float | None) -> Iterator[Any]:
    """Of a run that ends after so long."""
    options = ort.RunOptions()
    options.log_severity_level = 4
    if seconds is None:
        yield options
        return
    watch = threading.Timer(min(seconds, 1e6), lambda: setattr(options, "terminate", True))
    watch.daemon = True
    watch.start()
    try:
        yield options
    finally:
        watch.cancel()


def _session(ort: Any, model: _core.Model, options: Any, weights: int) -> Any:
    providers = ["CPUExecutionProvider"]
    if weights < _LARGE:
        return ort.InferenceSession(model.serialize(), options, providers=providers)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        model.save(path, True)
        return ort.InferenceSession(path, options, providers=providers)


def make_onnxruntime(threads: int, libraries: Sequence[str]) -> Open:
    """ONNX Runtime on the CPU, with its own defaults."""

    def open_model(model: _core.Model) -> Run:
        ort = onnxruntime("runtime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        described = json.loads(model.inspect())
        try:
            for library in libraries:
                options.register_custom_ops_library(library)
            session = _session(ort, model, options, described["parameter_bytes"])
        except Error:
            raise
        except Exception as error:
            raise UnsupportedError(f"ONNX Runtime can't load the model: {one_line(error)}") from error
        declared = [value["type"] for value in described["outputs"]]

        def run(values: dict[str, tuple[Any, ...]], seconds: float | None) -> tuple[list[tuple[Any, ...]], float]:
            feeds = {name: _array(value) for name, value in values.items()}
            with _run_options(ort, seconds) as run_options:
                begin = time.perf_counter()
                try:
                    made = session.run(None, feeds, run_options)
                except Exception as error:
                    raise Error(f"ONNX Runtime: {one_line(error)}") from error
                took = time.perf_counter() - begin
            return _outputs(made, declared), took

        return run

    return open_model


def installed_onnxruntime() -> str:
    """The folder of the package onnxruntime beside this one, without importing it; "" where there is none with a shared library."""
    try:
        spec = importlib.util.find_spec("onnxruntime")
    except (ImportError, ValueError):
        return ""
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if glob.glob(os.path.join(glob.escape(folder), "capi", "libonnxruntime.so*")):
            return folder
    return ""


_core.tell_installed_onnxruntime(installed_onnxruntime())  # it judges, and tells the release of a target without one


def judge_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the core takes for `judge`, `onnxruntime`, `runtime` and `custom_op_library`."""
    judges = list(given.get("judge", ()))
    runtime = given.get("runtime", RUNTIMES[0])
    open_model = opener(runtime, given.get("custom_op_library"), given.get("threads", 1))
    if given.get("custom_op_library"):  # it may need Python, whose process the judge's is not
        return {"runtime": (runtime, open_model), "onnxruntime": given.get("onnxruntime", "")}
    if open_model is not None:
        judges.append(runtime)
    for judge in judges:
        if judge.partition("=")[0] not in RUNTIMES:
            raise OptionError(f"judge: {judge!r} is none; {_core.what_instead(str(judge), list(RUNTIMES))}")
    return {"judge": judges, "onnxruntime": given.get("onnxruntime", "")}


MAKERS: Mapping[str, Callable[[int, Sequence[str]], Open]] = {"onnxruntime": make_onnxruntime}
"""For the command: what `--runtime` names beside saturate's own."""


def opener(runtime: str, custom_op_library: Any, threads: int) -> Open | None:
    """How the runtime opens models; None is saturate's own."""
    if runtime not in RUNTIMES:
        raise OptionError(f"runtime: {runtime!r} is none; {_core.what_instead(str(runtime), list(RUNTIMES))}")
    libraries = [] if custom_op_library is None else texts("custom_op_library", custom_op_library)
    if runtime == "saturate":
        if libraries:
            raise OptionError('custom_op_library: saturate\'s own runtime takes no libraries; give runtime="onnxruntime"')
        return None
    for library in libraries:
        if not os.path.isfile(library):
            raise Error(f"{library}: there is no such file; name a shared library of custom operators")
    return MAKERS[runtime](threads, libraries)
