"""Runs models in one runtime, for `vet`: a line of JSON in, a line of JSON out. It stands alone, so that the interpreter of any environment runs it.

A line is {"model": FILE, "inputs": FILE, "outputs": FILE, "level": NAME, "disabled": [PASS, ...], "log": true or false}; with "draw": SEED inputs
are drawn and written to `inputs` first. The answer is {"status": "ran" | "load" | "run" | "draw", "message": TEXT}: what failed, or nothing.
"""
from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

SIZES = (7, 16, 1, 32, 64, 224)
KINDS = {"float": "f4", "double": "f8", "float16": "f2", "int64": "i8", "int32": "i4", "int16": "i2", "int8": "i1", "uint64": "u8", "uint32": "u4", "uint16": "u2", "uint8": "u1", "bool": "?"}


def dtype_of(kind: str) -> Any:
    """Of `tensor(float)` and the like; None where it is not drawn."""
    short = KINDS.get(kind.removeprefix("tensor(").removesuffix(")"))
    return None if short is None else np.dtype(short)


def draw(given: Iterable[tuple[str, str, list[Any]]], size: int, rng: Any, known: Mapping[str, int] = MappingProxyType({}), dtype: Callable[[str], Any] = dtype_of) -> dict[str, Any]:
    """Normal floats, integers of 0 and 1, empty strings. A symbolic dim is as `known`, else 1 on the first axis and `size` on others, the same for
    a name. `given`: (name, type, dims) of each input; `dtype`: of a type."""
    sizes: dict[Any, int] = dict(known)
    feeds: dict[str, Any] = {}
    for name, kind, dims in given:
        of = dtype(kind)
        if of is None:
            raise ValueError(f"{name} is of type {kind}, which is not drawn")
        shape = [dim if isinstance(dim, int) else sizes.setdefault(dim or (name, axis), 1 if axis == 0 else size) for axis, dim in enumerate(dims)]
        feeds[name] = np.full(shape, "", of) if of.kind == "O" else (rng.normal(size=shape) if of.kind == "f" else rng.integers(0, 2, size=shape)).astype(of)
    return feeds


class OnnxRuntime:
    levels = {"none": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}

    def __init__(self) -> None:
        self.runtime: Any = importlib.import_module("onnxruntime")
        self.version = str(self.runtime.__version__)

    def load(self, request: dict[str, Any]) -> Any:
        options = self.runtime.SessionOptions()
        options.graph_optimization_level = getattr(self.runtime.GraphOptimizationLevel, self.levels[request["level"]])
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level, options.log_verbosity_level = (0, 1) if request.get("log") else (3, 0)
        more = {"disabled_optimizers": request["disabled"]} if request.get("disabled") else {}
        return self.runtime.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"], **more)

    def inputs(self, session: Any) -> list[tuple[str, str, list[Any]]]:
        return [(i.name, i.type, i.shape) for i in session.get_inputs()]

    def run(self, session: Any, feeds: dict[str, Any]) -> dict[str, Any]:
        return {o.name: value for o, value in zip(session.get_outputs(), session.run(None, feeds)) if isinstance(value, np.ndarray)}


class OpenVino:
    levels = {"all": ""}

    def __init__(self) -> None:
        self.runtime: Any = importlib.import_module("openvino")
        self.version = str(self.runtime.__version__)

    def load(self, request: dict[str, Any]) -> Any:
        core = self.runtime.Core()
        return core.compile_model(core.read_model(request["model"]), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})

    def inputs(self, session: Any) -> list[tuple[str, str, list[Any]]]:
        raise ValueError("inputs are drawn in ONNX Runtime")

    def run(self, session: Any, feeds: dict[str, Any]) -> dict[str, Any]:
        made = session({i: feeds[i.get_any_name()] for i in session.inputs})
        return {output.get_any_name(): value for output, value in made.items()}


RUNTIMES: dict[str, type[Any]] = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}


def answer(runtime: Any, request: dict[str, Any]) -> dict[str, str]:
    stage = "load"
    try:
        session = runtime.load(request)
        if "draw" in request:
            stage = "draw"
            failure: Exception | None = None
            for size in SIZES:
                try:
                    feeds = draw(runtime.inputs(session), size, np.random.default_rng(request["draw"]))
                    runtime.run(session, feeds)
                    break
                except Exception as error:
                    failure = failure or error
            else:
                raise failure or ValueError("no inputs")
            np.savez(request["inputs"], **feeds)
        stage = "run"
        with np.load(request["inputs"]) as archive:
            feeds = {name: archive[name] for name in archive.files}
        np.savez(request["outputs"], **runtime.run(session, feeds))
    except Exception as error:
        return {"status": stage, "message": " ".join(str(error).split())[:400]}
    return {"status": "ran", "message": ""}


def main() -> None:
    runtime = RUNTIMES[sys.argv[1]]()
    print(json.dumps({"version": runtime.version, "levels": list(runtime.levels)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(runtime, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
