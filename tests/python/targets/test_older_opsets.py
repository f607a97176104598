"""--opset below the model's: what the older opset lacks is refused by name, types too."""
import onnx
import onnxruntime
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


def test_what_an_older_form_adds_has_names_of_its_own():
    """Shape of some dims is Shape and Slice before opset 15: its bounds must not take names that the model has."""
    model = parser.parse_model('''<ir_version: 10, opset_import: ["": 18]> g (float[A,B] x, int64[1] y_start) => (int64[1] z, int64[1] w)
        <int64[1] y_end = {7}, int64[1] y_shape = {3}> {
          y = Shape <start = 1> (x)  a = Add (y_start, y_shape)  w = Mul (a, y_end)  z = Add (y, y_start)  }''')
    made = onnx_saturate.optimize(model, opset=14)
    onnx.checker.check_model(made, full_check=True)
    names = [i.name for i in made.graph.initializer] + [i.name for i in made.graph.input] + [o for n in made.graph.node for o in n.output]
    assert len(set(names)) == len(names), names
    again = onnx_saturate.optimize(onnx_saturate.optimize(made, opset=18), opset=14)
    onnx.checker.check_model(again, full_check=True)


@pytest.mark.parametrize("opset", [9, 13, 14])
def test_inputs_that_an_older_opset_wants_of_one_dtype_are_refused(opset):
    model = parser.parse_model('''<ir_version: 10, opset_import: ["": 17]> g (float16[N,3,4] x, float[3] s) => (float16[N,3,4] y)
        <float[3] m = {0, 0.5, 1}, float[3] v = {1, 2, 3}> { y = BatchNormalization (x, s, m, m, v) }''')
    with pytest.raises(onnx_saturate.Error, match=f"opset {opset} does not have its dtypes; the lowest that can express it is opset 15"):
        onnx_saturate.optimize(model, opset=opset, verify=False, rules=onnx_saturate.RuleSet.none())
    onnx.checker.check_model(onnx_saturate.optimize(model, opset=15, rules=onnx_saturate.RuleSet.none()), full_check=True)


IN_FUNCTIONS = '''<ir_version: 10, opset_import: ["": 23, "local": 1]> g ({dtype}[2,N] x) => ({dtype}[2,N] y, {dtype}[2,N] z) {{ y, z = local.outer (x) }}
<domain: "local", opset_import: ["": 23]> inner (x) => (y, z) {{ y = Sub (x, x) z = Add (x, y) }}
<domain: "local", opset_import: ["": 23, "local": 1]> outer (x) => (y, z) {{ y, z = local.inner (x) }}'''


def test_types_that_an_older_opset_lacks_are_refused_in_functions():
    """Where a function stands, nobody knows its dtypes: its body takes the place of its call, and the error is of the opset."""
    model = parser.parse_model(IN_FUNCTIONS.format(dtype="uint8"))
    with pytest.raises(onnx_saturate.Error, match="opset 12 is written: that opset does not have the dtypes of its operators"):
        onnx_saturate.optimize(model, opset=12, verify=False)
    for opset, dtype in ((14, "uint8"), (12, "int32"), (12, "float")):
        made = onnx_saturate.optimize(parser.parse_model(IN_FUNCTIONS.format(dtype=dtype)), opset=opset, verify=False)
        onnx.checker.check_model(made, full_check=True)
        onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("dtype", ["uint8", "float"])
def test_functions_go_where_the_release_lacks_a_kernel(tmp_path, dtype):
    """Flatten has another version in opset 23, and ONNX Runtime 1.20 has no Mul of uint8: the call stayed, and nothing could be written."""
    model = parser.parse_model(f'''<ir_version: 10, opset_import: ["": 23, "local": 1]> g ({dtype}[2,N] x) => ({dtype}[2,N] y, {dtype}[a,b] z) {{ y, z = local.f (x) }}
<domain: "local", opset_import: ["": 23]> f (x) => (y, z) {{ y = Mul (x, x) z = Flatten <axis = 1> (x) }}''')
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--target", "ort-cpu@1.20", "--no-verify")
    made = onnx.load(tmp_path / "o.onnx")
    onnx.checker.check_model(made, full_check=True)
    assert not made.functions and {i.domain: i.version for i in made.opset_import}[""] == 21


LACKED = {  # operators of newer opsets, which bodies or parts stand for before
    "LayerNormalization": "y = LayerNormalization (x, s, b)",
    "LayerNormalization of matrices": "t = Expand (s, matrix) y = LayerNormalization <axis = 2> (x, t)",
    "RMSNormalization": "y = RMSNormalization (x, s)",
    "GroupNormalization": "y = GroupNormalization <num_groups = 2> (x, c, c)",
    "Gelu": "y = Gelu (x)",
    "tanh Gelu": 'y = Gelu <approximate = "tanh"> (x)',
    "HardSwish": "y = HardSwish (x)",
    "Mish": "y = Mish (x)",
    "Swish": "y = Swish (x)",
    "Attention": "y = Attention (x, x, x)",
    "RotaryEmbedding": "n = Shape <end = 1> (x) all = Concat <axis = 0> (n, angles) r = Expand (c, all) y = RotaryEmbedding (x, r, r)",
}
LACKING = """<ir_version: 11, opset_import: ["": 24]> g (float[FIRST,4,6,8] x) => (float[FIRST,4,6,8] y)
    <float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] b = {8, 7, 6, 5, 4, 3, 2, 1}, float[4] c = {1, 2, 3, 4}, int64[2] matrix = {6, 8}, int64[2] angles = {6, 4}>
    { BODY }"""


@pytest.mark.parametrize("first", ["2", "N"])
@pytest.mark.parametrize("op", LACKED)
def test_every_target_writes_what_an_older_opset_lacks(op, first, tmp_path):
    """A target that takes an operator at some places alone kept it at the others, where the opset lacks it: nothing could be written."""
    onnx.save(parser.parse_model(LACKING.replace("FIRST", first).replace("BODY", LACKED[op])), tmp_path / "m.onnx")
    for target in onnx_saturate.targets():
        run_ok("optimize", "m.onnx", "-o", "o.onnx", "--opset", "13", "--target", target, cwd=tmp_path)
        assert {o.version for o in onnx.load(tmp_path / "o.onnx").opset_import if not o.domain} == {13}
