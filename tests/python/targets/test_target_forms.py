"""What targets refuse is written in another form that is equal: the rules of rules/library/bodies/limits.rules, each on a small model."""
import json

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest

from conftest import run_ok, run

X4 = "float[1,3,4,8] x"


def refused(model, target, *words):
    return json.loads(run("targets", "check", model, "--target", target, "--no-forms", "--json", *words).stdout)["inexpressible"]


def compare(before, after, feed):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    results = [ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feed) for path in (before, after)]
    for a, b in zip(*results):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def drawn(model, tops):
    """Floats around 0, truth values of integers, and integers below `tops` by name."""
    rng = np.random.default_rng(0)
    feed = {}
    for i in onnx.load(model).graph.input:
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        kind = i.type.tensor_type.elem_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
        feed[i.name] = rng.integers(0, tops.get(i.name, 2), shape).astype(dtype) if kind != onnx.TensorProto.FLOAT else rng.standard_normal(shape).astype(dtype)
    return feed


TABLE = "t = Constant <value = float[3,2] {1, 2, 3, 4, 5, 6}> ()"
IDS = "i = Constant <value = int64[2,2] {2, 0, 1, 3}> ()"
ONES = lambda n: f"s = Constant <value = float[{n}] {{{', '.join(['1.5'] * (n if isinstance(n, int) else int(np.prod([int(d) for d in n.split(',')]))))}}}> ()"


@pytest.mark.parametrize("target, inputs, output, body, gone", [
    ("qnn-htp", X4, "float[1,3,4,8] y", "y = Softsign (x)", "Softsign"),
    ("npu-4d", X4, "float[1,3,4,8] y", "y = Softplus (x)", "Softplus"),
    ("npu-4d", X4, "float[1,3,4,8] y", "y = Mish (x)", "Mish"),
    ("npu-4d", X4, "float[1,3,4,8] y", "y = Selu (x)", "Selu"),
    ("npu-4d", X4, "float[1,3,4,8] y", "y = LpNormalization <axis = -1, p = 2> (x)", "LpNormalization"),
    ("qnn-htp-generic", X4, "float[1,3,4,8] y", "y = LpNormalization <axis = 1, p = 2> (x)", "LpNormalization"),
    ("coreml", X4, "float[1,3,4,8] y", "y = Neg (x)", "Neg"),
    ("coreml", X4, "float[1,3,4,8] y", "y = Abs (x)", "Abs"),
    ("coreml", "float[3,1,8] x", "float[2,3,4,8] y", "s = Constant <value = int64[4] {2, 3, 4, 8}> ()  y = Expand (x, s)", "Expand"),
    ("npu-4d", X4, "bool[1,3,4,8] y", "y = IsNaN (x)", "IsNaN"),
    ("qnn-htp", "float[4,8] x", "float[4,8] y", "y = Trilu (x)", "Trilu"),
    ("qnn-htp", "float[4,8] x", "float[4,8] y", "k = Constant <value = int64 {1}> ()  y = Trilu <upper = 0> (x, k)", "Trilu"),
    ("qnn-htp", "float[3,4,8] x", "float[3,4,8] y", ONES("4,8") + " y = LayerNormalization <axis = -2> (x, s)", None),
    ("qnn-htp", "float[2,3,4,8] x", "float[2,3,4,8] y", ONES("3,4,8") + " y = RMSNormalization <axis = 1> (x, s)", None),
    ("qnn-htp", "float[1,2,3,4,8] x", "float[1,2,3,4,8] y", ONES(8) + " y = LayerNormalization (x, s)", None),
    ("qnn-htp", "float[4,8] x, float[8,6] z", "float[4,6] y", "y = Gemm <alpha = 0.5> (x, z)", "Gemm"),
    ("qnn-htp", "float[1,4,2,8] x, float[1,6,2,8] z", "float[1,2,4,6] y", 'y = Einsum <equation = "bthd,bshd->bhts"> (x, z)', "Einsum"),
    ("qnn-htp", "float[1,5,4,8] x", "float[1,5,4,8] y", ONES(5) + " y = GroupNormalization <num_groups = 5> (x, s, s)", "GroupNormalization"),
    ("npu-4d", "int64[1,5] x", "float[1,5,2] y", TABLE + " y = Gather (t, x)", None),
    ("npu-4d", X4, "float[1,3] y", "i = Constant <value = int64[1,3,3] {0, 1, 2, 0, 2, 3, 0, 0, 0}> ()  g = GatherND (x, i)  "
                                  "a = Constant <value = int64[1] {-1}> ()  y = ReduceMax <keepdims = 0> (g, a)", "GatherND"),
    ("npu-4d", "int64[2,1,7] x, int64[2,7,1] z, float[2,7,7] f", "float[2,7,7] y",
     "m = Mul (x, z)  c = Cast <to = 9> (m)  h = Constant <value = float {-1}> ()  y = Where (c, f, h)", "Mul"),
])
def test_what_is_refused_has_another_form(tmp_path, target, inputs, output, body, gone):
    text = f'<ir_version: 10, opset_import: ["" : 23]> g ({inputs}) => ({output}) {{ {body} }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    assert refused(tmp_path / "in.onnx", target)
    run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", target)
    assert not refused(tmp_path / "out.onnx", target)
    assert gone not in [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node]
    compare(tmp_path / "in.onnx", tmp_path / "out.onnx", drawn(tmp_path / "in.onnx", {"x": 3 if "int64[1,5]" in inputs else 2}))


def test_erf_is_tanh_only_when_asked_for(tmp_path):
    onnx.save(onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]> g (float[1,3,4,8] x) => (float[1,3,4,8] y) { y = Erf (x) }'), tmp_path / "in.onnx")
    for words, operators in (([], ["Erf"]), (["--approximate", "--check-atol", "0.001"], ["Tanh"])):
        run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "qnn-htp", *words)
        made = [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node]
        assert [op for op in made if op in ("Erf", "Tanh")] == operators


def test_targets_that_take_it_keep_it(tmp_path):
    text = '<ir_version: 10, opset_import: ["" : 23]> g (float[1,3,4,8] x, int64[1,5] i) => (float[1,3,4,8] y, float[1,5,3,4,8] z) { a = Abs (x)  b = Softplus (a)  y = Selu (b)  z = Gather (x, i) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "onnx")
    assert {n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node} == {"Abs", "Softplus", "Selu", "Gather"}
