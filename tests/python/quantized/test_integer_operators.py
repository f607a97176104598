"""Integer operators and the operators between quantizers that they stand for: each becomes the other where the target wants it, a step apart at most."""
import collections
import json

import numpy as np
import onnx
import pytest
from onnx import helper

from conftest import make_model, onnxruntime_outputs, run_ok, tensor, value

MICROSOFT = "com.microsoft"
OPERATORS = ["QGemm", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearAveragePool", "QLinearGlobalAveragePool",
             "QLinearConcat", "QLinearWhere", "QAttention", "MatMulIntegerToFloat", "MatMulNBits", "GatherBlockQuantized"]
U, I = np.uint8, np.int8


class Drawn:
    """One operator in both spellings, its inputs and its parameters."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.inputs, self.parameters = {}, {}

    def integers(self, shape, dtype):
        info = np.iinfo(dtype)
        if dtype == np.int8:  # of 7 bits: where a processor has no dot products, ONNX Runtime's sums of two products with uint8 saturate
            return self.rng.integers(-64, 64, shape).astype(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def quantized(self, name, shape, dtype, constant=False, axis=None, zero=None):
        """A tensor with its scale and its zero point; of weights one for each index of an axis."""
        (self.parameters if constant else self.inputs)[name] = self.integers(shape, dtype)
        several = () if axis is None else (shape[axis],)
        self.parameters[f"{name}_s"] = self.rng.uniform(0.005, 0.05, several).astype(np.float32)
        self.parameters[f"{name}_z"] = np.full(several, 0 if zero is None and axis is not None else self.integers((), dtype) if zero is None else zero, dtype)
        return [name, f"{name}_s", f"{name}_z"]

    def result(self, dtype, scale, zero=None):
        self.parameters["r"], self.parameters["u"] = np.float32(scale), self.integers((), dtype) if zero is None else np.array(zero, dtype)
        return ["r", "u"]

    def scale(self, name):
        return float(np.max(self.parameters[f"{name}_s"]))


def dequantize(x, made, **attributes):
    return helper.make_node("DequantizeLinear", x, [made], **attributes)


def quantize(x, to):
    return helper.make_node("QuantizeLinear", [x, *to], ["y"])


def pair(op, d, a, b, c):
    x, w = d.quantized("x", (4, 16), a), d.quantized("w", (16,), a)
    r = d.result(a, d.scale("x") + d.scale("w") if op == "Add" else 60.3 * d.scale("x") * d.scale("w"))
    return ([helper.make_node("QLinear" + op, x + w + r, ["y"], domain=MICROSOFT)],
            [dequantize(x, "d"), dequantize(w, "e"), helper.make_node(op, ["d", "e"], ["f"]), quantize("f", r)])


def unary(op, d, a, shape=(2, 3, 8, 8), scale=None, only=(), **attributes):
    x = d.quantized("x", shape, a)
    r = d.result(a, scale or 0.7 * d.scale("x"), np.iinfo(a).min if op == "Softmax" else None)
    plain = {k: v for k, v in attributes.items() if k not in only}
    return ([helper.make_node("QLinear" + op, x + r, ["y"], domain=MICROSOFT, **attributes)],
            [dequantize(x, "d"), helper.make_node(op, ["d"], ["f"], **plain), quantize("f", r)])


def joined(d, a, b, c):
    x, w = d.quantized("x", (4, 16), a), d.quantized("w", (4, 5), a)
    r = d.result(a, d.scale("x") + d.scale("w"))
    return ([helper.make_node("QLinearConcat", r + x + w, ["y"], domain=MICROSOFT, axis=1)],
            [dequantize(x, "d"), dequantize(w, "e"), helper.make_node("Concat", ["d", "e"], ["f"], axis=1), quantize("f", r)])


def chosen(d, a, b, c):
    x, w = d.quantized("x", (4, 16), a), d.quantized("w", (16,), a)
    d.inputs["m"] = d.rng.integers(0, 2, (4, 16)).astype(bool)
    r = d.result(a, d.scale("x") + d.scale("w"))
    return ([helper.make_node("QLinearWhere", ["m"] + x + w + r, ["y"], domain=MICROSOFT)],
            [dequantize(x, "d"), dequantize(w, "e"), helper.make_node("Where", ["m", "d", "e"], ["f"]), quantize("f", r)])


def matmul(d, a, b, columns=False, floats=False):
    x, w = d.quantized("x", (2, 6, 32), a), d.quantized("w", (32, 10), b, constant=True, axis=1 if columns else None)
    group = [dequantize(x, "d"), dequantize(w, "e"), helper.make_node("MatMul", ["d", "e"], ["y" if floats else "f"])]
    if floats:
        return [helper.make_node("MatMulIntegerToFloat", [x[0], w[0], x[1], w[1], x[2], w[2]], ["y"], domain=MICROSOFT)], group
    r = d.result(a, 80 * d.scale("x") * d.scale("w"))
    return [helper.make_node("QLinearMatMul", x + w + r, ["y"])], group + [quantize("f", r)]


def biased(d, filters, axis):
    d.parameters["b"] = d.rng.integers(-9000, 9000, filters).astype(np.int32)
    d.parameters["k"] = np.asarray(d.parameters["x_s"] * d.parameters["w_s"], np.float32)
    return dequantize(["b", "k"], "g", **({} if axis is None else {"axis": 0}))


def gemm(d, a, b, columns=False, bias=False, transposed=0, floats=False, **attributes):
    shape = (10, 32) if transposed else (32, 10)
    axis = None if not columns else 0 if transposed else 1
    x, w = d.quantized("x", (6, 32), a), d.quantized("w", shape, b, constant=True, axis=axis)
    group = [dequantize(x, "d"), dequantize(w, "e", **({} if axis is None else {"axis": axis}))]
    group += [biased(d, 10, axis)] if bias else []
    group.append(helper.make_node("Gemm", ["d", "e"] + ["g"] * bias, ["y" if floats else "f"], transB=transposed, **attributes))
    r = [] if floats else d.result(a, 80 * d.scale("x") * d.scale("w"))
    integer = x + w + ["b" if bias else ""] * (bias or not floats) + r
    return [helper.make_node("QGemm", integer, ["y"], domain=MICROSOFT, transB=transposed, **attributes)], group + ([] if floats else [quantize("f", r)])


def convolution(d, a, b, columns=False, bias=False):
    axis = 0 if columns else None
    x, w = d.quantized("x", (1, 4, 9, 9), a), d.quantized("w", (6, 4, 3, 3), b, constant=True, axis=axis)
    group = [dequantize(x, "d"), dequantize(w, "e", **({} if axis is None else {"axis": 0}))]
    group += [biased(d, 6, axis)] if bias else []
    group.append(helper.make_node("Conv", ["d", "e"] + ["g"] * bias, ["f"], pads=[1, 1, 0, 1], strides=[2, 1]))
    r = d.result(a, 80 * d.scale("x") * d.scale("w"))
    return [helper.make_node("QLinearConv", x + w + r + ["b"] * bias, ["y"], pads=[1, 1, 0, 1], strides=[2, 1])], group + [quantize("f", r)]


def attention(d, a, b, past=False):
    x, w = d.quantized("x", (2, 3, 8), U), d.quantized("w", (8, 24), b, constant=True)
    d.parameters["b"] = d.rng.normal(size=24).astype(np.float32)
    given, made = [], ["y"]
    if past:
        d.inputs["past"] = d.rng.normal(size=(2, 2, 2, 5, 4)).astype(np.float32)
        given, made = ["past"], ["y", "present"]
    integer = [x[0], w[0], "b", x[1], w[1], "", x[2], w[2]] + given
    return ([helper.make_node("QAttention", integer, made, domain=MICROSOFT, num_heads=2, unidirectional=1)],
            [dequantize(x, "d"), dequantize(w, "e"),
             helper.make_node("Attention", ["d", "e", "b"] + [""] * past + given, made, domain=MICROSOFT, num_heads=2, unidirectional=1)])


FORMS = {
    "add": lambda d, a, b: pair("Add", d, a, b, a), "mul": lambda d, a, b: pair("Mul", d, a, b, a),
    "sigmoid": lambda d, a, b: unary("Sigmoid", d, a, scale=1 / 256), "leaky_relu": lambda d, a, b: unary("LeakyRelu", d, a, alpha=0.3),
    "softmax": lambda d, a, b: unary("Softmax", d, a, scale=1 / 256, axis=-1, opset=13, only=("opset",)),
    "softmax_of_another_scale": lambda d, a, b: unary("Softmax", d, a, scale=0.01, axis=1, opset=13, only=("opset",)),
    "average_pool": lambda d, a, b: unary("AveragePool", d, a, kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1], count_include_pad=1),
    "global_average_pool": lambda d, a, b: unary("GlobalAveragePool", d, a), "concat": lambda d, a, b: joined(d, a, b, a),
    "where": lambda d, a, b: chosen(d, a, b, a), "matmul": matmul, "matmul_by_column": lambda d, a, b: matmul(d, a, b, columns=True),
    "matmul_to_float": lambda d, a, b: matmul(d, a, b, floats=True), "gemm_with_bias": lambda d, a, b: gemm(d, a, b, bias=True),
    "gemm_by_column": lambda d, a, b: gemm(d, a, b, columns=True, bias=True, transposed=1),
    "gemm_to_float": lambda d, a, b: gemm(d, a, b, columns=True, bias=True, floats=True),
    "gemm_without_bias": lambda d, a, b: gemm(d, a, b, transposed=1, alpha=0.7), "conv": convolution,
    "conv_with_bias": lambda d, a, b: convolution(d, a, b, bias=True), "conv_by_filter": lambda d, a, b: convolution(d, a, b, columns=True, bias=True),
    "attention": attention, "attention_with_past": lambda d, a, b: attention(d, a, b, past=True),
}
# Of all elements, at most how many are a step apart (rules/library/quantized/operators.rules).
SHARE = 0.005
# Where the other spelling, or another operator, costs less: a bias is added by MatMulIntegerToFloat for nothing, and attention reads bytes.
CHEAPER_OTHERWISE = (("gemm_to_float",), ("gemm_to_float", "attention", "attention_with_past"))


def written(path, d, nodes, opset, dtypes):
    used = {i for n in nodes for i in n.input}
    inputs = [value(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in d.inputs.items() if n in used]
    outputs = [value(o, helper.np_dtype_to_tensor_dtype(np.dtype(t)), None) for o, t in dtypes.items()]
    model = make_model(nodes, inputs, outputs, [v if isinstance(v, onnx.TensorProto) else tensor(n, v) for n, v in d.parameters.items() if n in used], opset=opset, domains=[MICROSOFT])
    onnx.save(model, path)
    return path


def spellings(folder, name, a, b, seed=0, opset=21):
    d = Drawn(seed)
    integer, group = FORMS[name](d, a, b)
    floats = group[-1].op_type not in ("QuantizeLinear",)
    dtypes = {o: np.float32 if floats else a for o in group[-1].output}
    return d, written(folder / "integer.onnx", d, integer, opset, dtypes), written(folder / "group.onnx", d, group, opset, dtypes), integer[0].op_type


def operators(path):
    return collections.Counter(n.op_type for n in onnx.load(path).graph.node)


def close(wanted, got):
    assert wanted.dtype == got.dtype and wanted.shape == got.shape
    if wanted.dtype == np.float32:
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * max(1, np.abs(wanted).max()))
        return
    apart = np.abs(wanted.astype(int) - got.astype(int))
    assert apart.max(initial=0) <= 1 and np.count_nonzero(apart) <= 1 + SHARE * apart.size


@pytest.fixture(scope="module")
def takes_operators(tmp_path_factory):
    """A runtime that has integer operators, and makes none of groups when it loads a model."""
    path = tmp_path_factory.mktemp("target") / "integers.json"
    path.write_text(json.dumps({"name": "integers", "max_opset": 23, "domains": {MICROSOFT: OPERATORS + ["Attention"]}}))
    return path


@pytest.fixture(scope="module")
def takes_attention(tmp_path_factory):
    path = tmp_path_factory.mktemp("target") / "attention.json"
    path.write_text(json.dumps({"name": "attention", "max_opset": 23, "domains": {MICROSOFT: ["Attention"]}}))
    return path


DTYPES = [(U, I), (U, U), (I, I)]


@pytest.mark.parametrize("a, b", DTYPES)
@pytest.mark.parametrize("name", FORMS)
def test_an_operator_becomes_its_group_where_the_target_lacks_it(tmp_path, takes_attention, name, a, b):
    d, integer, _, op = spellings(tmp_path, name, a, b)
    if op in ("QLinearMatMul", "QLinearConv"):
        pytest.skip("the standard has it")
    if name.startswith("attention") and a == I:
        pytest.skip("ONNX Runtime has no such kernel")
    target = takes_attention if name.startswith("attention") else "onnx"
    run_ok(integer, tmp_path / "o.onnx", "--target", target, "--within-one-step", "--keep-opset")
    assert operators(tmp_path / "o.onnx")[op] == 0
    wanted, got = onnxruntime_outputs(integer, d.inputs), onnxruntime_outputs(tmp_path / "o.onnx", d.inputs)
    for output in wanted:
        close(wanted[output], got[output])


@pytest.mark.parametrize("a, b", DTYPES)
@pytest.mark.parametrize("name", FORMS)
def test_a_group_becomes_the_operator_where_the_target_has_it(tmp_path, takes_operators, name, a, b):
    if name.startswith("attention") and a == I:
        pytest.skip("ONNX Runtime has no such kernel")
    d, _, group, op = spellings(tmp_path, name, a, b, seed=1)
    run_ok(group, tmp_path / "same.onnx", "--target", takes_operators)
    assert operators(tmp_path / "same.onnx")[op] == 0  # a step is allowed by the user, or by what the target does at load
    run_ok(group, tmp_path / "o.onnx", "--target", takes_operators, "--within-one-step", "--cost", "nodes")
    assert operators(tmp_path / "o.onnx") == {op if name != "gemm_to_float" else "MatMulIntegerToFloat": 1}
    wanted, got = onnxruntime_outputs(group, d.inputs), onnxruntime_outputs(tmp_path / "o.onnx", d.inputs)
    for output in wanted:
        close(wanted[output], got[output])


@pytest.mark.parametrize("op, two", [("Sigmoid", False), ("LeakyRelu", False), ("Add", True), ("Mul", True)])
def test_operators_have_the_zero_points_that_groups_leave_out(tmp_path, takes_operators, op, two):
    """ONNX Runtime dies of a function's operator without the result's, and refuses a sum or a product without one."""
    pair = "b = DequantizeLinear (w, s)  c = %s (a, b)" % op if two else "c = %s (a)" % op
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 17]> g (uint8[2,3] x, uint8[2,3] w) => (uint8[2,3] y) <float s = {{0.1}}>
      {{ a = DequantizeLinear (x, s)  {pair}  y = QuantizeLinear (c, s) }}""")
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--target", takes_operators, "--within-one-step", "--cost", "nodes", "--no-verify")
    (node,) = onnx.load(tmp_path / "o.onnx").graph.node
    assert node.domain == MICROSOFT and all(node.input)
    feed = {name: np.arange(6, dtype=U).reshape(2, 3) * 40 for name in "xw"}
    wanted, got = onnxruntime_outputs(tmp_path / "m.onnx", feed), onnxruntime_outputs(tmp_path / "o.onnx", feed)
    close(wanted["y"], got["y"])


@pytest.mark.parametrize("target", ["onnx", "ort-cpu@1.31"])
@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("op, per_axis", [("Concat", False), ("Concat", True), ("Split", False), ("Split", True), ("QLinearConcat", False)])
def test_a_negative_axis_is_of_values_whose_rank_is_known_late(tmp_path, target, axis, per_axis, op):
    """The rank of an integer operator of com.microsoft is known once it became standard operators, and that of a scale says nothing of an axis."""
    d = Drawn(1)
    d.parameters |= {"s": np.float32(0.03), "z": np.array(120, U)}
    of = ["t", *(["c", "p"] if per_axis else ["s", "z"])]
    if per_axis:
        d.parameters |= {"c": np.array([0.02, 0.03, 0.04], np.float32), "p": np.array([110, 120, 130], U)}
    d.inputs |= {name: d.rng.normal(size=(2, 3, 4)).astype(np.float32) for name in ("x", "w")}
    nodes = [helper.make_node("QuantizeLinear", [name, "s", "z"], [f"{name}_q"]) for name in ("x", "w")]
    nodes += [helper.make_node("QLinearConcat", ["s", "z", "x_q", "s", "z"], ["t"], domain=MICROSOFT, axis=1), dequantize(of, "e", axis=1)]
    if op == "Concat":
        nodes += [dequantize(["w_q", *of[1:]], "f", axis=1), helper.make_node("Concat", ["e", "f"], ["y"], axis=axis)]
    elif op == "Split":
        d.parameters["sizes"] = np.array([1, (2 if axis == -2 else 3)])
        nodes += [helper.make_node("Split", ["e", "sizes"], ["y", "v"], axis=axis)]
    else:
        nodes += [helper.make_node("QLinearConcat", ["s", "z", "t", "s", "z", "w_q", "s", "z"], ["j"], domain=MICROSOFT, axis=axis),
                  dequantize(["j", "s", "z"], "y")]
    path = written(tmp_path / "m.onnx", d, nodes, 21, {"y": np.float32})
    run_ok(path, tmp_path / "o.onnx", "--target", target, "--within-one-step")
    np.testing.assert_array_equal(onnxruntime_outputs(path, d.inputs)["y"], onnxruntime_outputs(tmp_path / "o.onnx", d.inputs)["y"])


@pytest.mark.parametrize("cost", ["measured", "nodes"])
@pytest.mark.parametrize("spelling", [0, 1])
@pytest.mark.parametrize("name", FORMS)
def test_at_equal_price_a_model_stays_as_it_is_spelled(tmp_path, name, spelling, cost):
    _, integer, group, _ = spellings(tmp_path, name, U, I)
    path = (integer, group)[spelling]
    run_ok(path, tmp_path / "o.onnx", "--target", "ort-cpu@1.31", "--cost", cost)
    if name in CHEAPER_OTHERWISE[spelling]:
        return
    assert operators(tmp_path / "o.onnx") == operators(path)


@pytest.mark.parametrize("opset", [10, 13, 17, 20, 21, 23])
@pytest.mark.parametrize("name", ["add", "matmul", "conv", "conv_by_filter", "gemm_by_column", "average_pool"])
def test_operators_of_every_opset_are_groups(tmp_path, takes_operators, name, opset):
    if opset < 13 and name in ("conv_by_filter", "gemm_by_column"):
        pytest.skip("there are no scales of rows before opset 13")
    d, integer, group, op = spellings(tmp_path, name, U, I, opset=opset)
    run_ok(group, tmp_path / "o.onnx", "--target", takes_operators, "--within-one-step", "--cost", "nodes")
    assert operators(tmp_path / "o.onnx") == {op: 1}
    close(onnxruntime_outputs(group, d.inputs)["y"], onnxruntime_outputs(tmp_path / "o.onnx", d.inputs)["y"])
    if op not in ("QLinearMatMul", "QLinearConv"):
        run_ok(integer, tmp_path / "p.onnx", "--target", "onnx", "--within-one-step")
        assert operators(tmp_path / "p.onnx")[op] == 0
        close(onnxruntime_outputs(integer, d.inputs)["y"], onnxruntime_outputs(tmp_path / "p.onnx", d.inputs)["y"])


def blocks_of_weights(d, bits, zeros, k=80, n=128, block=32, rows=False, signed=False, dtype=np.float32):
    """A product with MatMulNBits, and with DequantizeLinear of a block of rows each."""
    m, byte_rows = -(-k // block), lambda x: x if bits == 8 else x[:, 0::2] | x[:, 1::2] << 4
    codes, points = d.rng.integers(0, 1 << bits, (n, m * block)).astype(np.uint8), d.rng.integers(0, 1 << bits, (n, m)).astype(np.uint8)
    scales = d.rng.uniform(0.01, 0.1, (n, m)).astype(dtype)
    if not zeros:
        points[:] = 1 << (bits - 1)
    codes[:, k:] = 0
    d.inputs["x"] = d.rng.normal(size=(2, 3, k)).astype(dtype)
    padded = np.pad(points, ((0, 0), (0, m % 2)))
    d.parameters |= {"B": byte_rows(codes).reshape(n, m, block * bits // 8), "c": scales.ravel(), "p": byte_rows(padded if bits == 4 else points).ravel()}
    kind = getattr(onnx.TensorProto, f"{'INT' if signed else 'UINT'}{bits}")
    middle = 1 << (bits - 1) if signed else 0
    turn = (lambda x: x) if rows else (lambda x: x.T)
    for name, values in (("w", codes[:, :k]), ("z", points)):
        d.parameters[name] = helper.make_tensor(name, kind, turn(values).shape, (turn(values).astype(int) - middle).ravel().tolist())
    d.parameters["s"] = np.ascontiguousarray(turn(scales))
    given = ["x", "B", "c"] + ["p"] * zeros
    integer = [helper.make_node("MatMulNBits", given, ["y"], domain=MICROSOFT, K=k, N=n, bits=bits, block_size=block)]
    weights = ["w", "s"] + ["z"] * (zeros or not signed)
    group = [helper.make_node("DequantizeLinear", weights, ["e"], axis=int(rows), block_size=block)]
    group += [helper.make_node("Transpose", ["e"], ["t"], perm=[1, 0])] if rows else []
    return integer, group + [helper.make_node("MatMul", ["x", "t" if rows else "e"], ["y"])]


@pytest.mark.parametrize("k", [320, 336])
@pytest.mark.parametrize("bits, zeros, rows, signed", [(4, True, False, False), (4, False, False, True), (4, True, True, True), (4, False, True, False),
                                                       (8, True, False, False), (8, False, True, True)])
def test_weights_in_blocks_are_bytes_or_integers_of_few_bits(tmp_path, takes_operators, k, bits, zeros, rows, signed):
    d = Drawn(3)
    integer, group = blocks_of_weights(d, bits, zeros, k=k, rows=rows, signed=signed)
    one, other = (written(tmp_path / f"{name}.onnx", d, nodes, 21, {"y": np.float32}) for name, nodes in (("integer", integer), ("group", group)))
    run_ok(one, tmp_path / "o.onnx", "--target", "onnx", "--within-one-step")
    assert operators(tmp_path / "o.onnx")["MatMulNBits"] == 0
    run_ok(other, tmp_path / "p.onnx", "--target", takes_operators, "--within-one-step", "--cost", "nodes")
    assert operators(tmp_path / "p.onnx") == {"MatMulNBits": 1}
    wanted = onnxruntime_outputs(one, d.inputs)["y"]
    for path in (other, tmp_path / "o.onnx", tmp_path / "p.onnx"):
        close(wanted, onnxruntime_outputs(path, d.inputs)["y"])


@pytest.mark.parametrize("cost", ["measured", "nodes"])
@pytest.mark.parametrize("spelling", [0, 1])
def test_weights_in_blocks_stay_as_they_are_spelled(tmp_path, spelling, cost):
    """In bytes they also stay of four bits: a runtime that has the operator is never given floats in their place. And ONNX Runtime quantizes the
    activations of DequantizeLinear and MatMul to bytes when it loads a model, which the operator does only if it says so: it would be slower."""
    d = Drawn(5)
    path = written(tmp_path / "m.onnx", d, blocks_of_weights(d, 4, True, k=320)[spelling], 21, {"y": np.float32})
    run_ok(path, tmp_path / "o.onnx", "--target", "ort-cpu@1.31", "--cost", cost)
    assert operators(tmp_path / "o.onnx") == operators(path)


@pytest.mark.parametrize("rows", [1, 16])
def test_a_bias_does_not_change_which_kernel_weights_in_blocks_get(tmp_path, rows):
    """ONNX Runtime makes Gemm of MatMul and Add at load, and finds the kernel of 4 bits around that, too."""
    d = Drawn(6)
    _, group = blocks_of_weights(d, 4, False, k=320, signed=True)
    d.inputs["x"] = d.rng.normal(size=(1, rows, 320)).astype(np.float32)
    d.parameters["b"] = d.rng.normal(size=128).astype(np.float32)
    group[-1].output[0] = "m"
    path = written(tmp_path / "m.onnx", d, [*group, helper.make_node("Add", ["m", "b"], ["y"])], 21, {"y": np.float32})
    run_ok(path, tmp_path / "o.onnx", "--target", "ort-cpu@1.31")
    made = operators(tmp_path / "o.onnx")
    assert made["DequantizeLinear"] == 1 and made["MatMul"] + made["Gemm"] == 1 and made["MatMulNBits"] == 0, made
    close(onnxruntime_outputs(path, d.inputs)["y"], onnxruntime_outputs(tmp_path / "o.onnx", d.inputs)["y"])


@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_a_table_in_blocks(tmp_path, takes_operators, zeros):
    d = Drawn(4)
    d.inputs["i"] = d.rng.integers(0, 9, (2, 3))
    d.parameters |= {"T": d.integers((9, 24), U), "c": d.rng.uniform(0.01, 0.1, (9, 3)).astype(np.float32), "z": d.integers((9, 2), U)}
    nodes = [helper.make_node("GatherBlockQuantized", ["T", "i", "c"] + ["z"] * zeros, ["y"], domain=MICROSOFT, block_size=16, quantize_axis=1)]
    path = written(tmp_path / "m.onnx", d, nodes, 21, {"y": np.float32})
    run_ok(path, tmp_path / "o.onnx", "--target", "onnx")
    assert operators(tmp_path / "o.onnx")["GatherBlockQuantized"] == 0
    np.testing.assert_array_equal(onnxruntime_outputs(path, d.inputs)["y"], onnxruntime_outputs(tmp_path / "o.onnx", d.inputs)["y"])
    if not zeros:
        return
    run_ok(tmp_path / "o.onnx", tmp_path / "p.onnx", "--target", takes_operators, "--cost", "nodes", "--within-one-step")
    np.testing.assert_array_equal(onnxruntime_outputs(path, d.inputs)["y"], onnxruntime_outputs(tmp_path / "p.onnx", d.inputs)["y"])
