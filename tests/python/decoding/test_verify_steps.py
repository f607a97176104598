"""Verification of quantized models: rules may move values by a step where they say so, and a wrong rule is still caught."""
import collections
import json

import numpy as np
import onnx
import onnx_saturate
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run, run_ok, tensor, value


def network(layers=1, width=24, end="float", seed=0):
    """Products and sums between quantizers, with scales that hold what comes out."""
    rng = np.random.default_rng(seed)
    nodes, stored = [], []

    def constant(name, array):
        stored.append(tensor(name, array))
        return name

    def quantizer(name, scale, zero, dtype=np.uint8):
        return constant(f"{name}_s", np.float32(scale)), constant(f"{name}_z", dtype(zero))

    nodes.append(helper.make_node("QuantizeLinear", ["x", *quantizer("x", 0.03, 120)], ["q0"]))
    at, given = "q0", ("x_s", "x_z")
    for i in range(layers):
        weights = rng.integers(-127, 128, size=(width, width)).astype(np.int8)
        w = constant(f"w{i}", weights), *quantizer(f"w{i}", 0.02, 0, np.int8)
        product = quantizer(f"p{i}", 0.02 * 73 * np.sqrt(width) * 0.9 * 3 / 128, 125)
        total = quantizer(f"t{i}", 0.02 * 73 * np.sqrt(width) * 0.9 * 3 / 110, 131)
        other = constant(f"b{i}", rng.integers(0, 256, size=width).astype(np.uint8)), *quantizer(f"b{i}", 0.05, 128)
        nodes += [helper.make_node("DequantizeLinear", [at, *given], [f"d{i}"]), helper.make_node("DequantizeLinear", list(w), [f"v{i}"]),
                  helper.make_node("MatMul", [f"d{i}", f"v{i}"], [f"m{i}"]), helper.make_node("QuantizeLinear", [f"m{i}", *product], [f"p{i}"]),
                  helper.make_node("DequantizeLinear", [f"p{i}", *product], [f"e{i}"]), helper.make_node("DequantizeLinear", list(other), [f"c{i}"]),
                  helper.make_node("Add", [f"e{i}", f"c{i}"], [f"a{i}"]), helper.make_node("QuantizeLinear", [f"a{i}", *total], [f"q{i + 1}"])]
        at, given = f"q{i + 1}", total
        # The next layer reads values of about the size that the first one does.
        if i + 1 < layers:
            nodes.append(helper.make_node("DequantizeLinear", [at, *given], [f"f{i}"]))
            nodes.append(helper.make_node("Mul", [f"f{i}", constant(f"k{i}", np.float32(1 / (0.02 * 73 * np.sqrt(width))))], [f"g{i}"]))
            given = quantizer(f"n{i}", 0.03, 120)
            nodes.append(helper.make_node("QuantizeLinear", [f"g{i}", *given], [f"r{i}"]))
            at = f"r{i}"
    if end == "float":
        nodes.append(helper.make_node("DequantizeLinear", [at, *given], ["y"]))
        result = value("y", TensorProto.FLOAT, ["n", width])
    elif end == "softmax":
        nodes += [helper.make_node("DequantizeLinear", [at, *given], ["z"]), helper.make_node("Softmax", ["z"], ["y"])]
        result = value("y", TensorProto.FLOAT, ["n", width])
    else:
        nodes.append(helper.make_node("Identity", [at], ["y"]))
        result = value("y", TensorProto.UINT8, ["n", width])
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", width])], [result], stored, opset=17, domains=["com.microsoft"])


def operators(model):
    return collections.Counter(n.op_type for n in model.graph.node)


PRODUCT = """opset "" 17, com.microsoft 1
rule product_in_integers (A, p, s, B, q, t, r, u) => (Y)  effect within_one_step
  {{ C = MatMul (DequantizeLinear (A, p, s), DequantizeLinear (B, q, t))  Y = QuantizeLinear (C, r, u) }}
  where const(s, u, p, r)
  let {lets}
  => QLinearMatMul ({inputs})
"""
RIGHT = {
    "the same": ("v = 0", "A, p, s, B, q, t, r, u"),
    "a step on one element of a hundred": ("v = scalar_like(item(r) * 1.0001, r)", "A, p, s, B, q, t, v, u"),
}
WRONG = {
    "scale": ("v = scalar_like(item(r) * 1.05, r)", "A, p, s, B, q, t, v, u"),
    "zero point": ("v = scalar_like(item(u) + 2, u)", "A, p, s, B, q, t, r, v"),
    "zero point of the input": ("v = scalar_like(item(s) + 2, s)", "A, p, v, B, q, t, r, u"),
    "other scale": ("v = 0", "A, q, s, B, p, t, p, u"),
    "operands": ("v = 0", "B, q, t, A, p, s, r, u"),
}


def with_rules(folder, text):
    (folder / "my.rules").write_text(text)
    return ["--rules", "none", "--rules", folder / "my.rules", "--target", "onnx", "--cost", "nodes", "--within-one-step", "--strict-verify"]


NETWORKS = pytest.mark.parametrize("layers, end", [(1, "integer"), (1, "float"), (1, "softmax"), (8, "integer"), (8, "float"), (8, "softmax")])


@NETWORKS
@pytest.mark.parametrize("what", RIGHT)
def test_a_rule_that_moves_values_by_a_step_is_verified(tmp_path, what, layers, end):
    onnx.save(network(layers, end=end), tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *with_rules(tmp_path, PRODUCT.format(lets=RIGHT[what][0], inputs=RIGHT[what][1])))
    assert operators(onnx.load(tmp_path / "o.onnx"))["QLinearMatMul"] == layers


@NETWORKS
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_rule_is_refused_though_it_says_a_step(tmp_path, what, layers, end):
    onnx.save(network(layers, end=end), tmp_path / "m.onnx")
    done = run(tmp_path / "m.onnx", tmp_path / "o.onnx", *with_rules(tmp_path, PRODUCT.format(lets=WRONG[what][0], inputs=WRONG[what][1])))
    assert done.returncode == 3, (done.returncode, done.stderr, done.stdout)


LEFT_OUT = """opset "" 17, com.microsoft 1
rule left_out (X, c, z) => (Y)  effect approximates  assume quantizer_holds_values
  {{ Q = QuantizeLinear (X, c, z)  Y = DequantizeLinear (Q, c, z) }}
  where const(c, z)
  let k = scalar_like({number}, X)
  => {right}
"""


@NETWORKS
def test_quantizers_are_left_out_where_approximations_are_allowed(tmp_path, layers, end):
    onnx.save(network(layers, end=end), tmp_path / "m.onnx")
    words = with_rules(tmp_path, LEFT_OUT.format(number=0, right="Identity (X)"))
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *words, "--approximate", "--json")
    assert operators(onnx.load(tmp_path / "o.onnx"))["QuantizeLinear"] == (end == "integer")


@NETWORKS
@pytest.mark.parametrize("number, right", [("1.2", "Mul (X, k)"), ("4 * item(c)", "Add (X, k)"), ("0", "Relu (X)")])
def test_what_is_put_for_quantizers_must_be_near(tmp_path, number, right, layers, end):
    onnx.save(network(layers, end=end), tmp_path / "m.onnx")
    words = with_rules(tmp_path, LEFT_OUT.format(number=number, right=right))
    done = run(tmp_path / "m.onnx", tmp_path / "o.onnx", *words, "--approximate")
    assert done.returncode == 3, (done.returncode, done.stderr, done.stdout)


def test_the_report_names_effects(tmp_path):
    onnx.save(network(), tmp_path / "m.onnx")
    text = PRODUCT.format(lets=RIGHT["the same"][0], inputs=RIGHT["the same"][1])
    report = json.loads(run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *with_rules(tmp_path, text), "--json").stdout)
    assert report["effects"] == [{"effect": "within_one_step", "rules": ["product_in_integers"]}]


def test_reports_tell_steps(tmp_path):
    """One value of a hundred lies a step off: an integer output, its table and its JSON say so, and --steps allows it."""
    rng = np.random.default_rng(0)
    names = {"s": np.float32(0.05), "z": np.uint8(120)}

    def model(scale):
        nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                 helper.make_node("MatMul", ["d", "w"], ["m"]), helper.make_node("QuantizeLinear", ["m", "t", "z"], ["y"])]
        stored = [*(tensor(n, v) for n, v in names.items()), tensor("t", np.float32(scale)), tensor("w", weights)]
        return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 16])], [value("y", TensorProto.UINT8, ["n", 32])], stored, opset=19)

    weights = rng.normal(size=(16, 32)).astype(np.float32)
    for name, scale in (("a", 0.1), ("b", 0.1001), ("c", 0.105)):
        onnx.save(model(scale), tmp_path / f"{name}.onnx")
    assert run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx").returncode == 3
    done = run_ok("verify", tmp_path / "a.onnx", tmp_path / "b.onnx", "--steps", 1)
    assert "within 1 step" in done.stdout, done.stdout
    report = json.loads(run_ok("verify", tmp_path / "a.onnx", tmp_path / "b.onnx", "--steps", 1, "--json").stdout)
    outputs = [o for c in report["cases"] for o in c["outputs"] if o["step"] is not None]
    assert outputs and all(o["step"] == 1 and o["steps_diff"] == 1 and 0 < o["moved"] < o["elements"] / 10 for o in outputs), outputs
    assert run("verify", tmp_path / "a.onnx", tmp_path / "c.onnx", "--steps", 1).returncode == 3
    assert run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx", "--steps", -1).returncode == 2
    first, second = (onnx.load(tmp_path / f"{n}.onnx") for n in "ab")
    assert not onnx_saturate.verify(first, second) and onnx_saturate.verify(first, second, steps=1)


def test_quantizers_of_integer_operators_are_left_out(tmp_path):
    """Rules see QLinearMatMul as an operator between quantizers; the original has no pair of them to leave out."""
    rng = np.random.default_rng(0)
    width, layers = 48, 3
    stored = [tensor("xs", np.float32(0.04)), tensor("z", np.uint8(128)), tensor("zw", np.int8(0)), tensor("ws", np.float32(0.01))]
    nodes, at, scale = [helper.make_node("QuantizeLinear", ["x", "xs", "z"], ["q"])], "q", "xs"
    for i in range(layers):
        stored += [tensor(f"w{i}", rng.integers(-127, 128, size=(width, width)).astype(np.int8)), tensor(f"s{i}", np.float32(0.04 * (5.5 ** (i + 1))))]
        nodes.append(helper.make_node("QLinearMatMul", [at, scale, "z", f"w{i}", "ws", "zw", f"s{i}", "z"], [f"q{i}"]))
        at, scale = f"q{i}", f"s{i}"
    nodes.append(helper.make_node("DequantizeLinear", [at, scale, "z"], ["y"]))
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", width])], [value("y", TensorProto.FLOAT, ["n", width])], stored, opset=19)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--target", "onnx", "--within-one-step", "--approximate", "--strict-verify")
    made = operators(onnx.load(tmp_path / "o.onnx"))
    assert made["QLinearMatMul"] == made["QuantizeLinear"] == 0 and made["MatMul"] > 0, made


def test_inputs_that_a_quantizer_cuts_off_keep_the_quantizer(tmp_path):
    """The user's inputs tell whether a quantizer that is to be left out holds its values; drawn ones only give a note."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "c", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "c", "z"], ["d"]), helper.make_node("Sin", ["d"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [8, 16])], [value("y", TensorProto.FLOAT, [8, 16])], [tensor("c", np.float32(0.01)), tensor("z", np.uint8(128))], opset=19)
    onnx.save(model, tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    for spread, kept, told in ((0.4, 0, False), (3.0, 1, True)):
        np.savez(tmp_path / "x.npz", x=(spread * rng.uniform(-1, 1, size=(8, 16))).astype(np.float32))
        done = run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--target", "onnx", "--approximate", "--inputs", tmp_path / "x.npz")
        assert sum(n.op_type == "QuantizeLinear" for n in onnx.load(tmp_path / "o.onnx").graph.node) == kept
        assert ("break the assumption quantizer_holds_values" in done.stdout) == told


def test_what_is_rounded_otherwise_before_a_quantizer_moves_it_by_a_step(tmp_path):
    """117 / 0.3 lies in the middle between two steps, 117 * (1 / 0.3) beside it. No weight is there that a move of could tell so."""
    stored = [tensor("one", np.float32(1)), tensor("c", np.float32(0.3)), tensor("s", np.float32(0.416)), tensor("z", np.int16(0))]
    nodes = [helper.make_node("DequantizeLinear", ["x", "one"], ["f"]), helper.make_node("Div", ["f", "c"], ["d"]),
             helper.make_node("QuantizeLinear", ["d", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.INT8, ["n", 1024])], [value("y", TensorProto.FLOAT, ["n", 1024])], stored, opset=21)
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "cost.json").write_text(json.dumps({"costs": {"Div": 3}, "default": 1}))
    out = run_ok("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--strict-verify", "--cost", tmp_path / "cost.json")
    assert "Div" not in operators(onnx.load(tmp_path / "o.onnx"))
    assert "differs by up to 1 step of 0.416" in out.stdout
