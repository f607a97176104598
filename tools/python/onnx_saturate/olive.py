"""saturate as a pass of Olive (needs `olive-ai`).

With `package_config()` merged into the `passes` of Olive's package configuration, a run configuration says

>>> {"passes": {"optimize": {"type": "SaturatePass", "target": "ort-cpu"}}}
"""
from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

from olive.hardware.accelerator import AcceleratorSpec  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.model import ONNXModelHandler  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.model.utils import resolve_onnx_path  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.passes import Pass  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.passes.onnx.common import get_external_data_config, model_proto_to_olive_model  # type: ignore[import-not-found,import-untyped,unused-ignore]
from olive.passes.pass_config import BasePassConfig, PassConfigParam  # type: ignore[import-not-found,import-untyped,unused-ignore]

from ._optimize import Options, optimize_with_report


class SaturatePass(Pass):  # type: ignore[misc,unused-ignore]
    """`onnx_saturate.optimize` on an ONNX model: rewritten by equalities, extracted for the target, verified by running both."""

    @classmethod
    def _default_config(cls, accelerator_spec: AcceleratorSpec) -> dict[str, PassConfigParam]:
        def param(kind: Any, default: Any, description: str) -> PassConfigParam:
            return PassConfigParam(type_=kind, default_value=default, description=description)

        return {
            "target": param(str, "ort-cpu", "What can run and what it costs: a built-in target or a JSON file."),
            "cost": param(Optional[str], None, "Cost model: nodes, flops, bytes, roofline, measured or a file; None: the target's own."),
            "opset": param(Optional[int], None, "Opset of ai.onnx to write; None: the input's, or higher where the result needs it."),
            "verify": param(bool, True, "Run original and result on the same inputs."),
            "approximate": param(bool, False, "Also rules that approximate."),
            "time_limit": param(float, 60.0, "Seconds of rewriting, a safety net."),
            **get_external_data_config(),
        }

    def _run_for_config(
        self, model: ONNXModelHandler, config: type[BasePassConfig], output_model_path: str
    ) -> ONNXModelHandler:
        path = resolve_onnx_path(output_model_path, Path(model.model_path).name)
        options: Options = {"verify": config.verify, "approximate": config.approximate, "time_limit": config.time_limit}
        options["target"] = config.target
        if config.cost is not None:
            options["cost"] = config.cost
        if config.opset is not None:
            options["opset"] = config.opset
        result = optimize_with_report(model.model_path, **options)
        return model_proto_to_olive_model(result.model, path, config)


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
