"""For the habit of `onnxslim.slim(model)`."""
from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

import onnx

from ._errors import OptionError
from ._optimize import optimize_with_report
from ._options import shapes, texts

_DONE_ANYWAY = {"model_check", "no_shape_infer", "size_threshold"}


def slim(
    model: onnx.ModelProto | str | os.PathLike[str],
    output_model: str | os.PathLike[str] | None = None,
    *,
    input_shapes: Iterable[str] | None = None,
    skip_fusion_patterns: Iterable[str] | None = None,
    save_as_external_data: bool = False,
    verbose: bool = False,
    **others: Any,
) -> onnx.ModelProto | None:
    """A drop-in for `onnxslim.slim`: fewer nodes, standard operators only, checked by running.

    Same as `optimize(model, output_model, target="onnx", cost="nodes")`. With `output_model` the result goes there and None is returned.
    `skip_fusion_patterns` names rules, or what they make as OnnxSlim does ("FusionGelu"). What saturate does anyway (`model_check`, ...) is taken without effect; what it doesn't do
    (`dtype`, `inputs`, `outputs`, ...) is an error rather than left out silently.
    """
    refused = {name for name, value in others.items() if name not in _DONE_ANYWAY and value}
    if refused:
        raise OptionError(f"slim: {', '.join(sorted(refused))} is not done by saturate; use onnxslim for it")
    if others.keys() - _DONE_ANYWAY and verbose:
        warnings.warn(f"no effect: {', '.join(sorted(others))}", stacklevel=2)
    patterns = texts("skip_fusion_patterns", skip_fusion_patterns or ())
    result = optimize_with_report(
        model,
        output_model,
        target="onnx",
        cost="nodes",
        skip_rules=[name for name in patterns if not name.startswith("Fusion")],
        skip_fusions=[name.removeprefix("Fusion") for name in patterns if name.startswith("Fusion")],
        input_shapes=shapes("input_shapes", input_shapes or ()),
        external_data=save_as_external_data,
    )
    if verbose:
        print(result.report)
    return None if output_model is not None else result.model
