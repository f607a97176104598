"""Sessions of ONNX Runtime for `onnx_saturate.tune`: made by settings, run on inputs, timed, and ended with the budget."""
from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from . import _convert
from ._errors import Error, OptionError, UnsupportedError
from ._tune_search import OutOfTime, Refused, Settings
from ._values import _NUMBERS, numpy_dtype

LEVELS = {"disable": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "layout": "ORT_ENABLE_LAYOUT", "all": "ORT_ENABLE_ALL"}
_SIZES = (128, 16, 1)  # of symbolic dims behind the first axis: the first with which the model runs

_BURST = 0.02  # seconds of runs that one figure is the median of
_LONG = 0.1  # seconds of a run that needs none before it to wake threads up
_IDLE = 0.01
_TOLERANCE = 1e-3  # of the largest number of an output


def runtime(asker: str = "tune") -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise UnsupportedError(f"{asker}: onnxruntime is not installed; pip install onnxruntime (or the package of your hardware)") from None
    return onnxruntime


def session_options(settings: Settings, custom_ops: str | os.PathLike[str] | None) -> Any:
    ort = runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.intra_op_num_threads
    options.inter_op_num_threads = settings.inter_op_num_threads
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL if settings.execution_mode == "parallel" else ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[settings.graph_optimization_level])
    options.enable_cpu_mem_arena = settings.enable_cpu_mem_arena
    options.enable_mem_pattern = settings.enable_mem_pattern
    for key, value in settings.config_entries.items():
        options.add_session_config_entry(key, value)
    if custom_ops is not None:
        options.register_custom_ops_library(os.fspath(custom_ops))
    return options


def source_of(model: _convert.ModelLike) -> str | bytes:
    """What an InferenceSession takes."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if not os.path.isfile(path):
            raise Error(f"{path}: there is no such file")
        return path
    if isinstance(model, onnx.ModelProto):
        return bytes(model.SerializeToString())
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    return _convert.to_core(model).serialize()


def make_session(source: str | bytes, settings: Settings, custom_ops: str | os.PathLike[str] | None = None, quiet: bool = False) -> Any:
    options = session_options(settings, custom_ops)
    if quiet:
        options.log_severity_level = 4
    providers = [(name, dict(given)) for name, given in settings.providers]
    return runtime().InferenceSession(source, options, providers=providers)


def _is_close(mine: Any, base: Any) -> bool:
    if isinstance(base, np.ndarray) and base.dtype.kind == "f" and mine.shape == base.shape:
        finite = np.isfinite(base)
        if not np.array_equal(finite, np.isfinite(mine)):
            return False
        scale = float(np.max(np.abs(base[finite]), initial=0))
        return float(np.max(np.abs(mine[finite].astype(np.float64) - base[finite].astype(np.float64)), initial=0)) <= _TOLERANCE * scale
    if isinstance(base, np.ndarray):
        return mine.shape == base.shape and bool(np.array_equal(mine, base))
    if isinstance(base, list):
        return len(mine) == len(base) and all(map(_is_close, mine, base))
    return bool(mine == base)


class Running:
    """A session, ready to be timed."""

    def __init__(self, session: Any, feeds: Mapping[str, Any], options: Any, bound: bool) -> None:
        self._session, self._feeds, self._options = session, feeds, options
        self._binding = session.io_binding() if bound else None
        if self._binding is not None:
            for name, value in feeds.items():
                self._binding.bind_cpu_input(name, value)
            for output in session.get_outputs():
                self._binding.bind_output(output.name)
        self.usual = 0.0

    def run(self) -> Any:
        """All outputs, as arrays; with bound ones, too."""
        if self._binding is None:
            return self._session.run(None, self._feeds, self._options)
        self._session.run_with_iobinding(self._binding, self._options)
        return self._binding.copy_outputs_to_cpu()


class Deadline:
    """Options of runs that are ended at `end` (of time.perf_counter)."""

    def __init__(self, end: float) -> None:
        self.end = end
        self.options = runtime().RunOptions()
        self.options.log_severity_level = 4
        self._watch = threading.Timer(max(0.0, end - time.perf_counter()), self._stop)
        self._watch.daemon = True
        self._watch.start()

    def _stop(self) -> None:
        self.options.terminate = True

    def cancel(self) -> None:
        """Nothing is ended any more."""
        self._watch.cancel()

    def check(self) -> None:
        """Raises `OutOfTime` where what failed was ended."""
        if time.perf_counter() >= self.end:
            raise OutOfTime("it ended while the default settings were loaded and run") from None


def others() -> float:
    """Seconds that other processes, and the machines beside a virtual one, have taken of all processors; 0 where nobody counts (not on Linux)."""
    try:
        with open("/proc/stat") as stat:
            user, nice, system, _, _, *rest = map(int, stat.readline().split()[1:9])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK") - time.process_time()


class OrtLab:
    """Measures settings of one model on given inputs (`_tune_search.Lab`)."""

    def __init__(self, source: str | bytes, feeds: Mapping[str, Any], deadline: Deadline, custom_ops: str | os.PathLike[str] | None) -> None:
        self._source, self._feeds, self._deadline, self._custom_ops = source, feeds, deadline, custom_ops
        self._expected: list[Any] | None = None
        self._comparable = True

    def clock(self) -> float:
        return time.perf_counter()

    def _run(self, session: Running) -> Any:
        try:
            return session.run()
        except Exception as error:
            self._deadline.check()
            raise Refused(one_line(error)) from None

    def open(self, settings: Settings) -> Running:
        try:
            session = make_session(self._source, settings, self._custom_ops, quiet=True)
            there = session.get_providers()
            missing = [name for name, _ in settings.providers if name not in there]
            if missing:
                raise Refused(f"{missing[0]} is not there")
            running = Running(session, self._feeds, self._deadline.options, settings.io_binding)
        except Refused:
            raise
        except Exception as error:
            raise Refused(one_line(error)) from None
        outputs = self._run(running)
        if self._expected is None:
            self._expected = outputs
            self._comparable = all(map(_is_close, self._run(running), outputs))
        elif self._comparable and not all(map(_is_close, outputs, self._expected)):
            raise Refused(f"outputs differ from the default settings' by more than {_TOLERANCE:g} of their scale")
        begin = self.clock()
        self._run(running)
        running.usual = self.clock() - begin
        return running

    def others(self) -> float:
        return others()

    def close(self, session: Running) -> None:
        session.__dict__.clear()

    def time(self, session: Running) -> float:
        self._settle()
        if session.usual < _LONG:
            self._run(session)
        times: list[float] = []
        begin = now = self.clock()
        while not times or (now - begin < _BURST and len(times) < 100):
            self._run(session)
            times.append(self.clock() - now)
            now = self.clock()
        return statistics.median(times)

    def _settle(self) -> None:
        """Waits until no thread of this process works: those of a session look out for work for a while after a run, and would take a core."""
        for _ in range(50):
            begin = time.process_time()
            time.sleep(_IDLE)
            if time.process_time() - begin < _IDLE / 4:
                return


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


# ---- inputs ---------------------------------------------------------------------------------------------------------------------------


def _dtype_of(kind: str) -> Any:
    number = _NUMBERS.get(kind.removeprefix("tensor(").removesuffix(")"))
    if number is None or kind == "tensor(bfloat16)" or not kind.startswith("tensor("):
        return None
    return np.dtype(object) if kind == "tensor(string)" else numpy_dtype(number)


def _draw(session: Any, dims: Mapping[str, int], size: int, seed: int) -> dict[str, Any]:
    from .vet._child import draw  # when it is needed alone: vet asks the package for more than this module may

    try:
        return draw([(given.name, given.type, given.shape) for given in session.get_inputs()], size, np.random.default_rng(seed), dims, _dtype_of)
    except ValueError as error:
        raise OptionError(f"inputs: {error}; give inputs") from None


def drawn(session: Any, dims: Mapping[str, int], seed: int, deadline: Deadline) -> dict[str, Any]:
    """The first drawing with which the model runs."""
    named = {dim for given in session.get_inputs() for dim in given.shape if isinstance(dim, str)}
    unknown = sorted(dims.keys() - named)
    if unknown:
        raise OptionError(f"dims: no input has a dim {unknown[0]}; there are: {', '.join(sorted(named)) or 'none'}")
    failure = ""
    for size in _SIZES:
        feeds = _draw(session, dims, size, seed)
        try:
            session.run(None, feeds, deadline.options)
            return feeds
        except Exception as error:
            deadline.check()
            failure = failure or one_line(error)
    raise OptionError(f"inputs: the model does not run on drawn ones; give inputs (an .npz) or dims: {failure}")


def read(inputs: str | os.PathLike[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(inputs, Mapping):
        return inputs
    try:
        with np.load(os.fspath(inputs)) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise Error(f"{os.fspath(inputs)}: can't be read as an .npz: {one_line(error)}") from None


def checked(inputs: Mapping[str, Any], session: Any, deadline: Deadline) -> dict[str, Any]:
    names = [given.name for given in session.get_inputs()]
    missing = [name for name in names if name not in inputs]
    if missing:
        raise OptionError(f"inputs: {missing[0]} is missing; the model takes: {', '.join(names)}")
    feeds = {name: np.ascontiguousarray(inputs[name]) for name in names}
    try:
        session.run(None, feeds, deadline.options)
    except Exception as error:
        deadline.check()
        raise OptionError(f"inputs: the model does not run on these: {one_line(error)}") from None
    return feeds
