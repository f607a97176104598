"""saturate's runtime as an ONNX backend (onnx.backend.base): `onnx_saturate.backend.prepare(model).run(inputs)`."""
from __future__ import annotations

from typing import Any

import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from ._session import Session


class SaturateBackendRep(BackendRep):  # type: ignore[misc,unused-ignore]
    """A model made ready to run."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in the model's order."""
        if not isinstance(inputs, (list, tuple, dict)):
            inputs = [inputs]
        return tuple(self._session.run(inputs).values())


class SaturateBackend(Backend):  # type: ignore[misc,unused-ignore]
    """CPU only; any model that ONNX's checker accepts."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> SaturateBackendRep:
        """`threads` and `reference` as `onnx_saturate.Session` has them."""
        if not cls.supports_device(device):
            raise ValueError(f"device {device}: only CPU is there")
        return SaturateBackendRep(Session(model, **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepares a model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Runs one operator on arrays: by name, or in the node's order, with or without those that it leaves out. `opset_version`: of the
        operator's domain (the newest)."""
        from ._node import by_name, model_of_node

        version, named = kwargs.pop("opset_version", None), by_name(node, inputs)
        return cls.run_model(model_of_node(node, named, version), named, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU and CPU:0."""
        try:
            wanted = Device(device)
        except (AttributeError, ValueError, KeyError):
            return False
        return bool(wanted.type == DeviceType.CPU and wanted.device_id == 0)


prepare = SaturateBackend.prepare
run_model = SaturateBackend.run_model
run_node = SaturateBackend.run_node
supports_device = SaturateBackend.supports_device
