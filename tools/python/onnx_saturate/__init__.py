"""An optimizer for ONNX models that doesn't depend on how a model is spelled.

>>> import onnx_saturate
>>> optimized = onnx_saturate.optimize(model)                        # an onnx.ModelProto, bytes, a path, an onnx_ir.Model or torch's ONNXProgram
>>> onnx_saturate.optimize("in.onnx", "out.onnx", target="ort-cpu")  # file to file
>>> model, report = onnx_saturate.optimize_with_report("in.onnx")    # what was done
>>> onnx_saturate.verify("in.onnx", "out.onnx").equal
>>> onnx_saturate.diff("in.onnx", "out.onnx")                        # what differs, region by region
>>> onnx_saturate.run(model, {"x": array})
>>> onnx_saturate.generate("llama.onnx", [1, 15043]).tokens[0]

The input is never changed, and the result is verified: original and result are run on the same inputs by saturate's own runtime.
"""
from ._core import __version__
from ._diff import Difference, diff
from ._prove import Proof, prove
from ._egraph import EGraph, Rewrite
from ._errors import Error, MissingFileError, OptionError, UnsupportedError, VerificationError
from ._files import Reduced, reduce, slm
from ._generate import Generated
from ._generate import generate as generate  # not in __all__: the module of its command has the same name, and documents it
from ._optimize import (
    Optimized,
    Verification,
    explain,
    inspect,
    optimize,
    optimize_with_report,
    verify,
)
from ._options import Options
from ._python_rules import Rule, rule
from ._report import Report
from ._results import Benched, Explained, Inspected, Result
from ._rules import CostModel, Operator, Rules, RuleSet, dtype_name
from ._session import Session, run
from ._drop_in import simplify, slim
from ._transform import Transformed, passes, split, transform, transform_with_report
from ._verbs import bench, cost, extract, rules, targets

__all__ = [
    "optimize",
    "optimize_with_report",
    "slim",
    "simplify",
    "transform",
    "transform_with_report",
    "split",
    "passes",
    "Transformed",
    "verify",
    "diff",
    "prove",
    "Proof",
    "slm",
    "reduce",
    "Reduced",
    "Difference",
    "run",
    "Generated",
    "inspect",
    "explain",
    "targets",
    "rules",
    "bench",
    "extract",
    "cost",
    "Options",
    "Optimized",
    "Report",
    "Verification",
    "Result",
    "Inspected",
    "Explained",
    "Benched",
    "Session",
    "RuleSet",
    "Rules",
    "rule",
    "Rule",
    "CostModel",
    "Operator",
    "dtype_name",
    "EGraph",
    "Rewrite",
    "Error",
    "MissingFileError",
    "OptionError",
    "VerificationError",
    "UnsupportedError",
    "__version__",
]
