"""`saturate prove`: two models in one e-graph, and what keeps a proof from being one."""
import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import onnx_saturate
from conftest import DATA, run, run_ok

PROVEN, DIFFERENT, OPEN = 0, 3, 5


def model(body, *, inputs="float[N,8] x", outputs="float[N,8] y", constants="", opset=17, functions="", more=""):
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1{more}]> g ({inputs}) => ({outputs}) <{constants}> {{ {body} }} {functions}')


def prove(folder, first, second, *words):
    paths = [folder / "a.onnx", folder / "b.onnx"]
    for path, m in zip(paths, (first, second)):
        onnx.save(m, path)
    done = run("prove", *paths, "--json", *words)
    return done.returncode, json.loads(done.stdout)


SAME = {
    "a commuted product": ("c = Mul (x, x) y = Add (c, x)", "c = Mul (x, x) y = Add (x, c)"),
    "GELU by hand and fused": ("a = Div (x, r) e = Erf (a) s = Add (e, one) p = Mul (x, s) y = Mul (p, h)", "y = com.microsoft.Gelu (x)"),
    "names of values": ("inner = Tanh (x) y = Neg (inner)", "z = Tanh (x) y = Neg (z)"),
    "a product of constants": ("m = Mul (x, h) y = Mul (m, two)", "y = Identity (x)"),
}
CONSTANTS = "float r = {1.41421354}, float one = {1}, float h = {0.5}, float two = {2}"


@pytest.mark.parametrize("name", SAME)
def test_the_same_in_other_words_is_proven(tmp_path, name):
    first, second = (model(body, constants=CONSTANTS) for body in SAME[name])
    for a, b in ((first, second), (second, first)):
        status, found = prove(tmp_path, a, b)
        assert (status, found["verdict"]) == (PROVEN, "proven"), found
        assert all(o["proven"] for o in found["outputs"]) and not found["regions"]


OTHER = {
    "another constant": ("y = Mul (x, two)", "y = Mul (x, h)"),
    "another order": ("y = Sub (x, two)", "y = Sub (two, x)"),
    "another axis": ("y = Softmax <axis = 1> (x)", "y = Softmax <axis = 0> (x)"),
    "a missing operator": ("a = Tanh (x) y = Relu (a)", "y = Tanh (x)"),
    "another attribute": ("y = Elu <alpha = 1.5> (x)", "y = Elu <alpha = 1.25> (x)"),
    "a missing epsilon": ("s = ReduceSumSquare <keepdims = 1> (x) e = Add (s, r) y = Div (x, e)", "s = ReduceSumSquare <keepdims = 1> (x) y = Div (x, s)"),
}


@pytest.mark.parametrize("name", OTHER)
def test_what_differs_is_told_by_its_numbers(tmp_path, name):
    first, second = (model(body, constants=CONSTANTS) for body in OTHER[name])
    status, found = prove(tmp_path, first, second)
    assert (status, found["verdict"]) == (DIFFERENT, "different")
    assert "first at element" in found["numbers"]["message"]
    assert found["regions"] and found["regions"][0]["outputs"] == ["y", "y"]
    status, found = prove(tmp_path, first, second, "--no-compare")
    assert (status, found["verdict"]) == (OPEN, "open")


def test_one_place_of_many_is_told_alone(tmp_path):
    """What stands behind the place where two models part tells nothing of its own."""
    body = " ".join(f"t{i} = Tanh (a{i}) a{i + 1} = Add (t{i}, x)" for i in range(8))
    first = model("a0 = Relu (x) " + body + " y = Neg (a8)")
    second = model("a0 = Relu (x) " + body.replace("t3 = Tanh (a3)", "t3 = Sigmoid (a3)") + " y = Neg (a8)")
    _, found = prove(tmp_path, first, second, "--no-compare")
    assert [r["outputs"] for r in found["regions"]] == [["t3", "t3"]]
    assert found["regions"][0]["operators"] == [["Tanh"], ["Sigmoid"]]


def test_random_nodes_of_two_models_are_two(tmp_path):
    random = model("r = RandomNormalLike (x) y = Add (x, r)")
    assert prove(tmp_path, random, random, "--no-compare")[0] == OPEN


def test_functions_of_one_name_are_two(tmp_path):
    """A call says what its model's function says."""
    def calling(body):
        return model("y = local.f (x)", more=', "local": 1', functions=f'<domain: "local", opset_import: ["": 17]> f (x) => (y) {{ {body} }}')

    assert prove(tmp_path, calling("y = Tanh (x)"), calling("y = Sigmoid (x)"))[0] == DIFFERENT
    assert prove(tmp_path, calling("y = Tanh (x)"), calling("y = Tanh (x)"))[0] == PROVEN


def test_inputs_are_paired_by_name_then_by_place(tmp_path):
    first = model("y = Sub (x, z)", inputs="float[N,8] x, float[N,8] z")
    renamed = model("y = Sub (p, q)", inputs="float[M,8] p, float[M,8] q")
    turned = model("y = Sub (z, x)", inputs="float[N,8] z, float[N,8] x")
    assert prove(tmp_path, first, renamed, "--no-compare")[0] == PROVEN
    assert prove(tmp_path, first, turned)[0] == DIFFERENT
    more = model("a = Add (x, z) y = Sub (a, z)", inputs="float[N,8] x, float[N,8] z")
    assert prove(tmp_path, model("y = Identity (x)"), more, "--no-compare")[1]["interface"] == ["input 'z' is new"]


def test_inputs_of_different_types_sizes_or_defaults_are_two(tmp_path):
    first = model("y = Relu (x)", inputs="float[N,8] x")
    for other in (model("y = Relu (x)", inputs="double[N,8] x", outputs="double[N,8] y"), model("y = Relu (x)", inputs="float[N,7] x", outputs="float[N,7] y"),
                  model("y = Relu (x)", inputs="float[8] x", outputs="float[8] y")):
        status, found = prove(tmp_path, first, other, "--no-compare")
        assert status == OPEN and "of another type or size" in found["interface"][0]

    def by_default(value):
        made = model("y = Mul (x, w)", inputs="float[N,8] x, float w")
        made.graph.initializer.append(numpy_helper.from_array(np.float32(value), "w"))
        return made

    assert prove(tmp_path, by_default(1), by_default(1), "--no-compare")[0] == PROVEN
    assert "another default" in prove(tmp_path, by_default(1), by_default(2), "--no-compare")[1]["interface"][0]


def test_declared_types_of_inner_values_prove_nothing(tmp_path):
    """A declaration that m has one element would make both equal."""
    first = model("m = com.custom.Unknown (x) y = Add (m, m)", more=', "com.custom": 1')
    second = model("m = com.custom.Unknown (x) k = ReduceSum <keepdims = 1> (m) y = Add (k, k)", more=', "com.custom": 1')
    for made in (first, second):
        made.graph.value_info.append(onnx.helper.make_tensor_value_info("m", onnx.TensorProto.FLOAT, [1, 1]))
    status, found = prove(tmp_path, first, second, "--no-compare")
    assert status == OPEN or found["believes_types"]


def test_constants_in_their_last_bits_are_told(tmp_path):
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)

    def of(values):
        made = model("y = MatMul (x, w)")
        made.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), "w"))
        return made

    status, found = prove(tmp_path, of(weights), of(np.nextafter(weights, np.float32(9))))
    assert (status, found["rounded"]) == (PROVEN, ["w"])
    assert "but for constants in their last bits" in run("prove", tmp_path / "a.onnx", tmp_path / "b.onnx").stdout
    changed = weights.copy()
    changed[3, 4] *= 1.001
    assert prove(tmp_path, of(weights), of(changed), "--no-compare")[0] == OPEN


def test_what_a_proof_assumes_is_told(tmp_path):
    """A fill of -10000 hides as -1e9 does where scores are no such numbers."""
    def of(fill):
        return model("s = MatMul (x, t) m = Where (k, s, f) p = Softmax <axis = -1> (m) y = MatMul (p, x)", inputs="float[8,8] x, float[8,8] t, bool[8,8] k",
                     outputs="float[8,8] y", constants=f"float f = {{{fill}}}")

    status, found = prove(tmp_path, of("-10000"), of("-1e9"), "--no-compare")
    assert status == PROVEN and "finite_scores" in found["assumes"]
    assert prove(tmp_path, of("-10000"), of("-1e9"), "--no-compare", "--no-assume", "all")[0] == OPEN
    assert prove(tmp_path, of("-10"), of("-1e9"))[0] == DIFFERENT


@pytest.mark.parametrize("target", ["ort-cpu@1.31", "onnx", "npu-4d"])
def test_a_result_is_proven(tmp_path, target):
    attention = model(
        "q = MatMul (x, wq) k = MatMul (x, wk) v = MatMul (x, wv) kt = Transpose <perm = [0, 2, 1]> (k) s = MatMul (q, kt) d = Div (s, two) "
        "p = Softmax <axis = -1> (d) o = MatMul (p, v) r = Add (o, x) y = LayerNormalization <axis = -1> (r, g, g)",
        inputs="float[N,T,8] x, float[8,8] wq, float[8,8] wk, float[8,8] wv", outputs="float[N,T,8] y", constants="float two = {2}, float[8] g = {1,2,3,4,5,6,7,8}")
    result = onnx_saturate.optimize(attention, target=target, verify=False)
    proof = onnx_saturate.prove(attention, result)
    assert proof, str(proof)
    assert proof.verdict == "proven" and "proven" in repr(proof)
    assert not onnx_saturate.prove(attention, model("y = Identity (x)", inputs="float[N,T,8] x", outputs="float[N,T,8] y"))


SIZES = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] last = {-1}, int64[3] apart = {0, 2, -1}, int64[2] turned = {-1, 0}"
HALVES = ("s = Shape (x) n = Slice (s, zero, one, zero) w = Slice (s, one, two, zero) h = Div (w, two) t = Concat <axis = 0> (n, two, h) ", "y = Reshape (x, t)")


def test_arithmetic_on_sizes_is_one_however_it_is_spelled(tmp_path):
    def of(body):
        return model(body, inputs="float[N,M] x", outputs="float[N,2,M2] y", constants=SIZES)

    number = HALVES[0] + "q = Concat <axis = 0> (last, one) c = Slice (s, zero, two, zero) p = ReduceProd <keepdims = 1> (c) d = Mul (n, two) e = Div (p, d) "
    assert prove(tmp_path, of("".join(HALVES)), of("y = Reshape (x, apart)"))[0] == PROVEN
    assert prove(tmp_path, of(number + "u = Concat <axis = 0> (n, two, e) y = Reshape (x, u)"), of("".join(HALVES)))[0] == PROVEN
    assert prove(tmp_path, of("y = Reshape (x, apart)"), of(HALVES[0] + "u = Concat <axis = 0> (n, h, two) y = Reshape (x, u)"))[0] != PROVEN


def test_turned_sizes_are_others(tmp_path):
    as_it_is, turned = (model(body, inputs="float[N,M] x", outputs="float[A,B] y", constants=SIZES) for body in (
        "s = Shape (x) y = Reshape (x, s)", "s = Shape (x) n = Slice (s, zero, one, zero) w = Slice (s, one, two, zero) t = Concat <axis = 0> (w, n) y = Reshape (x, t)"))
    assert prove(tmp_path, as_it_is, turned)[0] == DIFFERENT


def test_a_size_that_one_model_asks_for_is_told(tmp_path):
    """A fixed size in the place of any: where it runs at all, it is the same."""
    any_size, fixed = (model(f"y = Reshape (x, {shape})", inputs="float[N,M] x", outputs="float[A,2,B] y", constants="int64[3] any = {0, 2, -1}, int64[3] fixed = {0, 2, 5}")
                       for shape in ("any", "fixed"))
    status, found = prove(tmp_path, any_size, fixed)
    assert status == PROVEN and found["sizes"] == ["floor(M / 2) = 5"], found
    done = run("prove", tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert "proven equal but for sizes at which a model fails" in done.stdout
    assert prove(tmp_path, any_size, any_size)[1]["sizes"] == []


def test_two_operators_on_either_side_are_a_pair_of_lists(tmp_path):
    status, found = prove(tmp_path, model("a = IsNaN (x) y = Cast <to = 1> (a)"), model("a = ReduceMax (x) y = Sub (x, a)"), "--no-compare")
    assert status == OPEN and found["regions"][0]["operators"] == [["IsNaN", "Cast"], ["ReduceMax", "Sub"]]


@pytest.mark.parametrize("release", ["1.20", "1.23", "1.31"])
def test_all_that_a_proof_rests_on_is_told(tmp_path, release):
    """A mask by -inf became one by numbers: that holds where scores are finite. Older releases take the mask in another form."""
    bart, result = DATA / "bart_encoder.onnx", tmp_path / "result.onnx"
    run_ok("optimize", bart, "-o", result, "--target", f"ort-cpu@{release}", "--no-verify")
    found = json.loads(run_ok("prove", bart, result, "--json", "--no-compare").stdout)
    assert found["verdict"] == "proven" and found["assumes"] == ["finite_scores"]
    laws = {law["rule"] for law in found["laws"]}
    assert {"raised_mask_of_sdpa", "sdpa_of_product[bias]"} <= laws, laws
    assert run("prove", bart, result, "--no-compare", "--no-assume", "finite_scores", "--time-limit", "5").returncode == OPEN


def test_text_and_errors(tmp_path):
    onnx.save(model("y = Relu (x)"), tmp_path / "a.onnx")
    done = run("prove", tmp_path / "a.onnx", tmp_path / "a.onnx")
    assert done.returncode == PROVEN and "proven equal" in done.stdout and "assumes" in done.stdout
    assert run("prove", tmp_path / "a.onnx", tmp_path / "none.onnx").returncode == 1
    assert run("prove", tmp_path / "a.onnx").returncode == 2
