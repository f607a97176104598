"""--approximate is never worse than the exact rules where the runtime makes up for what they change."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run_ok, tensor, value


def feed_forward(width=96, tokens=32):
    """Two products with a GELU between them, a sum and a LayerNormalization."""
    rng = np.random.default_rng(0)
    stored = [tensor("r", np.float32(2**0.5)), tensor("one", np.float32(1)), tensor("h", np.float32(0.5)),
              tensor("g", np.ones(width, np.float32)), tensor("z", np.zeros(width, np.float32))]  # yapf: disable
    for name, rows, columns in (("a", width, 4 * width), ("b", 4 * width, width)):
        stored += [tensor(name, (rng.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)), tensor(f"{name}_bias", rng.standard_normal(columns).astype(np.float32))]
    nodes = [helper.make_node(op, inputs, [output]) for op, inputs, output in (
        ("MatMul", ["x", "a"], "m"), ("Add", ["m", "a_bias"], "s"), ("Div", ["s", "r"], "d"), ("Erf", ["d"], "e"), ("Add", ["e", "one"], "p"), ("Mul", ["s", "p"], "t"),
        ("Mul", ["t", "h"], "u"), ("MatMul", ["u", "b"], "n"), ("Add", ["n", "b_bias"], "w"), ("Add", ["w", "x"], "v"), ("LayerNormalization", ["v", "g", "z"], "y"),
    )]  # yapf: disable
    shape = [1, tokens, width]
    return make_model(nodes, [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, shape)], stored, opset=17)


def test_exact_rules_where_approximate_ones_are_dearer(tmp_path):
    """The model was returned as it came, though exact rules make it cheaper."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    onnx.save(feed_forward(), tmp_path / "float.onnx")

    class Numbers(quantization.CalibrationDataReader):
        all = iter([{"x": np.random.default_rng(k).standard_normal((1, 32, 96)).astype(np.float32)} for k in range(3)])

        def get_next(self):
            return next(self.all, None)

    quantization.quantize_static(tmp_path / "float.onnx", tmp_path / "m.onnx", Numbers())

    def told(*options):
        return json.loads(run_ok(tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--force", "--json", "--target", "ort-cpu@1.23", *options).stdout)

    exact, approximate = told(), told("--approximate")
    assert exact["cost_after"] < exact["cost_before"]
    assert any("exact rules alone were applied" in warning for warning in approximate["warnings"])
    assert approximate["cost_after"] == exact["cost_after"] and approximate["after"] == exact["after"]
