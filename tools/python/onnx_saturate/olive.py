"""saturate as a pass of Olive (needs `olive-ai`).

With `package_config()` merged into the `passes` of Olive's package configuration, a run configuration says

>>> {"passes": {"optimize": {"type": "SaturatePass", "target": "ort-cpu"}}}

The pass has the options of the command `saturate optimize`, under the names that `onnx_saturate.Options` has (docs/olive.md).
"""
from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

import onnx
from olive.hardware.accelerator import AcceleratorSpec  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.model import ONNXModelHandler  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.model.utils import resolve_onnx_path  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.passes import Pass  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.passes.onnx.common import get_external_data_config, model_proto_to_olive_model  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.passes.pass_config import BasePassConfig, PassConfigParam  # type: ignore[import-not-found,import-untyped,unused-ignore]

from ._command_options import DEFAULTS, OPTIONS, TYPES, optimize_file

_logger = logging.getLogger(__name__)


class SaturatePass(Pass):  # type: ignore[misc,unused-ignore]
    """`saturate optimize` on an ONNX model: rewritten by equalities, extracted for the target, verified by running both."""

    @classmethod
    def _default_config(cls, accelerator_spec: AcceleratorSpec) -> dict[str, PassConfigParam]:
        ours = {
            option.name: PassConfigParam(type_=TYPES[option.kind], default_value=DEFAULTS.get(option.kind), description=option.what)
            for option in OPTIONS
        }
        return {**ours, **get_external_data_config()}

    def _run_for_config(
        self, model: ONNXModelHandler, config: type[BasePassConfig], output_model_path: str
    ) -> ONNXModelHandler:
        path = resolve_onnx_path(output_model_path, Path(model.model_path).name)
        with tempfile.TemporaryDirectory() as folder:
            result = str(Path(folder) / "model.onnx")
            printed = optimize_file(str(model.model_path), result, {option.name: getattr(config, option.name) for option in OPTIONS})
            _logger.info("%s", printed.rstrip())
            return model_proto_to_olive_model(onnx.load(result), path, config)


def package_config() -> dict[str, Any]:
    """The entry of Olive's package configuration (`passes`) that makes the pass known."""
    return {
        "SaturatePass": {
            "module_path": "onnx_saturate.olive.SaturatePass",
            "supported_providers": ["*"],
            "supported_accelerators": ["*"],
            "supported_precisions": ["*"],
            "supported_algorithms": [],
            "supported_quantization_encodings": [],
            "extra_dependencies": [],
        }
    }
