"""Running models."""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from . import _convert, _core
from ._errors import OptionError
from ._runtimes import opener
from ._values import Value, from_core, to_core

Inputs = Union[Mapping[str, Any], Sequence[Any]]
"""By name, or in the model's order: all inputs, or those alone that have no default value."""


def named_inputs(inputs: Inputs, declared: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """As the extension takes them."""
    types = {str(value["name"]): str(value["type"]) for value in declared}
    if not isinstance(inputs, Mapping):
        if len(inputs) > len(types):
            raise ValueError(f"{len(inputs)} inputs for a model of {len(types)}")
        needed = [str(value["name"]) for value in declared if not value["has_default"]]
        inputs = dict(zip(needed if len(inputs) <= len(needed) else types, inputs))
    return {name: to_core(value, types.get(name, "")) for name, value in inputs.items()}


class Session:
    """A model made ready to run on the CPU, by saturate's own runtime unless another is named: for checking and measuring, not for serving.

    Inputs are NumPy arrays or onnx.TensorProtos (lists for sequences, None for optionals without a value); arrays are used where they lie when they are in C order.
    Runs release the GIL, and may go on in several threads at once.
    """

    def __init__(
        self,
        model: _convert.ModelLike,
        *,
        threads: int = 1,
        reference: bool = False,
        runtime: str = "saturate",
        custom_op_library: str | os.PathLike[str] | Iterable[str] | None = None,
        base_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """`threads`: 0 takes all cores. `reference`: the slow kernels that the fast ones are judged by. `runtime`: "saturate", or
        "onnxruntime" where that is installed, which takes libraries of custom operators."""
        core = _convert.to_core(model, base_dir)
        open_model = opener(runtime, custom_op_library, threads)
        if reference and open_model is not None:
            raise OptionError("reference: of saturate's own runtime alone; leave it or runtime out")
        self._core = _core.Session.create(core, threads, reference) if open_model is None else None
        self._elsewhere = None if open_model is None else open_model(core)
        described = json.loads(core.inspect())
        self._inputs: list[dict[str, Any]] = described["inputs"]
        self._outputs: list[dict[str, Any]] = described["outputs"]

    @property
    def input_names(self) -> list[str]:
        """In the model's order, those with a default value too."""
        return [value["name"] for value in self._inputs]

    @property
    def output_names(self) -> list[str]:
        """In the model's order."""
        return [value["name"] for value in self._outputs]

    def run(self, inputs: Inputs) -> dict[str, Value]:
        """All outputs by name."""
        values = named_inputs(inputs, self._inputs)
        made = self._core.run(values) if self._core is not None else zip(self.output_names, self._run_elsewhere(values))
        return {name: from_core(value) for name, value in made}

    def _run_elsewhere(self, values: dict[str, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        assert self._elsewhere is not None
        return self._elsewhere(values, None)[0]

    def __repr__(self) -> str:
        return f"<onnx_saturate.Session: {', '.join(self.input_names)} -> {', '.join(self.output_names)}>"


def run(
    model: _convert.ModelLike,
    inputs: Inputs,
    *,
    threads: int = 1,
    runtime: str = "saturate",
    custom_op_library: str | os.PathLike[str] | Iterable[str] | None = None,
    base_dir: str | os.PathLike[str] | None = None,
) -> dict[str, Value]:
    """Runs a model once; all outputs by name. For several runs make a `Session`, which tells of `runtime`."""
    session = Session(model, threads=threads, runtime=runtime, custom_op_library=custom_op_library, base_dir=base_dir)
    return session.run(inputs)
