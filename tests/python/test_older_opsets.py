"""--opset below the model's: what the older opset lacks is refused by name, types too."""
import onnx
import pytest
from onnx import parser

import onnx_saturate
from conftest import run_ok

PRODUCT = '<ir_version: 10, opset_import: ["": 24]> g (int8[2,N] x) => (int8[2,N] y) {{ {} }}'


@pytest.mark.parametrize("body", ["y = Mul (x, x)", "m = Mul (x, x) y = Abs (m)", "y = Add (x, x)"])
def test_types_that_an_older_opset_lacks_are_refused(body):
    model = parser.parse_model(PRODUCT.format(body))
    with pytest.raises(onnx_saturate.Error, match="opset 13 does not have its dtypes; the lowest that can express it is opset 14"):
        onnx_saturate.optimize(model, opset=13, verify=False)
    onnx.checker.check_model(onnx_saturate.optimize(model, opset=14, verify=False), full_check=True)


def test_a_lowered_opset_needs_no_newer_runtime(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(PRODUCT.format("y = Mul (x, x)")), path)
    done = run_ok("optimize", path, "-o", tmp_path / "o.onnx", "--opset", "14", "--no-verify")
    assert "needs ONNX Runtime" not in done.stdout
