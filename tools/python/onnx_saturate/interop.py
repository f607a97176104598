"""saturate in the pipelines that people have: a pass for onnx_ir's pass manager. (For Olive: `onnx_saturate.olive`.)"""
from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir
from onnx_ir.passes import FunctionalPass, PassResult

from ._options import Options
from ._optimize import optimize_with_report
from ._report import Report

if TYPE_CHECKING:
    from typing_extensions import Unpack


class OptimizePass(FunctionalPass):
    """`onnx_saturate.optimize` as a pass: gives a new model, the input stays as it is.

    >>> onnx_ir.passes.Sequential(OptimizePass(target="ort-cpu"), ...)(model).model
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__()
        self.options = options
        self.report: Report | None = None
        """Of the last call."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Optimizes `model`; `modified` tells whether a rule changed anything."""
        result, self.report = optimize_with_report(model, **self.options)
        before, after = self.report.operators
        return PassResult(result, modified=before != after or bool(self.report.to_dict()["made_by_rules"]))
