"""How a model is quantized, which operators a target computes in integers, and why others stay floats."""
import json

import numpy as np
import onnx
import onnx_saturate
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run, run_ok, tensor, value


def float_model():
    """A convolution, a sum, a pooling, an error function and a product."""
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Add", ["c", "x"], ["s"]),
             helper.make_node("GlobalAveragePool", ["s"], ["g"]), helper.make_node("Flatten", ["g"], ["f"]), helper.make_node("Erf", ["f"], ["e"]),
             helper.make_node("MatMul", ["e", "w"], ["y"])]
    stored = [tensor("k", rng.normal(size=(4, 4, 3, 3)).astype(np.float32)), tensor("w", rng.normal(size=(4, 16)).astype(np.float32))]
    return make_model(nodes, [value("x", TensorProto.FLOAT, [1, 4, 8, 8])], [value("y", TensorProto.FLOAT, [1, 16])], stored, opset=17)


@pytest.fixture
def quantize(tmp_path):
    """ONNX Runtime's quantizer on that model."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    onnx.save(float_model(), tmp_path / "float.onnx")

    class Numbers(quantization.CalibrationDataReader):
        def __init__(self):
            rng = np.random.default_rng(1)
            self.all = iter([{"x": rng.normal(size=(1, 4, 8, 8)).astype(np.float32)} for _ in range(4)])

        def get_next(self):
            return next(self.all, None)

    def make(how, **options):
        path = tmp_path / f"{how}.onnx"
        if how == "dynamic":
            quantization.quantize_dynamic(tmp_path / "float.onnx", path, op_types_to_quantize=["MatMul"], **options)
        else:
            style = quantization.QuantFormat.QDQ if how == "qdq" else quantization.QuantFormat.QOperator
            quantization.quantize_static(tmp_path / "float.onnx", path, Numbers(), quant_format=style, **options)
        return path

    return make


def quantization_of(path, *words):
    return json.loads(run_ok("inspect", path, "--json", *words).stdout)["quantization"]


def kinds(quantized, role):
    return {(t["type"], t["granularity"], t["symmetric"]): t["tensors"] for t in quantized["tensors"] if t["role"] == role}


def test_a_float_model_is_not_quantized(tmp_path):
    onnx.save(float_model(), tmp_path / "m.onnx")
    assert quantization_of(tmp_path / "m.onnx") is None
    assert "integer kernel" not in run_ok("inspect", tmp_path / "m.onnx").stdout
    place = json.loads(run_ok("explain", tmp_path / "m.onnx", "--value", "e", "--json").stdout)["places"][0]
    assert "integer_kernel" not in place


@pytest.mark.parametrize("per_channel", [False, True])
def test_quantizers_around_operators(quantize, per_channel):
    from onnxruntime.quantization import QuantType

    path = quantize("qdq", per_channel=per_channel, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    quantized = quantization_of(path)
    assert list(quantized["schemes"]) == ["quantizers around operators (QDQ), static"]
    weights = kinds(quantized, "weights")
    assert sum(weights.values()) == 2 and all(k[0] == "int8" and k[2] == "yes" for k in weights)
    assert {k[1] for k in weights} == ({"per axis 0", "per axis 1"} if per_channel else {"per tensor"})
    assert {k[:2] for k in kinds(quantized, "activations")} == {("uint8", "per tensor")}
    assert quantized["kernels"]["QLinearConv"] == 1 and quantized["kernels"]["com.microsoft::QLinearAdd"] == 1
    macs = 4 * 4 * 9 * 64 + 4 * 16
    assert quantized["macs"] == macs and quantized["integer_macs"] == macs
    (erf,) = quantized["float_islands"]
    assert erf["op_type"] == "Erf" and "no integer kernel for Erf" in erf["why"]
    assert quantized["integer_operators"] == quantized["operators"] - 1
    shown = run_ok("inspect", path).stdout
    assert "100 % of the multiply-accumulates" in shown and "no integer kernel for Erf" in shown and "float islands between integers: 1" in shown


def test_integer_operators_and_what_is_quantized_as_it_comes(quantize):
    from onnxruntime.quantization import QuantType

    static = quantization_of(quantize("qoperator", activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8))
    assert "integer operators, static" in static["schemes"] and static["kernels"]["QLinearConv"] == 1
    assert ("int8", "per tensor", "yes") in kinds(static, "weights")
    dynamic = quantization_of(quantize("dynamic", weight_type=QuantType.QInt8))
    assert dynamic["schemes"] == {"integer operators, dynamic": 1} and dynamic["kernels"] == {"MatMulInteger": 1}
    assert kinds(dynamic, "activations") == {("uint8", "per tensor, dynamic", "no"): 1}
    assert 0 < dynamic["integer_macs"] < dynamic["macs"]


def test_sixteen_bits_are_no_integer_kernel_of_this_target(quantize):
    from onnxruntime.quantization import QuantType

    quantized = quantization_of(quantize("qdq", activation_type=QuantType.QUInt16, weight_type=QuantType.QInt8))
    assert quantized["integer_macs"] == 0
    (conv,) = [f for f in quantized["float_islands"] if f["op_type"] == "Conv"]
    assert "dequantized from uint16, and ort-cpu@1.20 takes uint8 or int8 there" in conv["why"]
    assert quantization_of(quantize("qdq", activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8), "--target", "onnx")["kernels"] == {}


def test_weights_alone(tmp_path):
    """Four bits in blocks; the product is an integer kernel of the target (MatMulNBits), and nothing else is quantized."""
    rng = np.random.default_rng(0)
    weights = helper.make_tensor("w", TensorProto.INT4, [32, 8], rng.integers(-8, 8, size=(32, 8)).flatten().tolist())
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=16), helper.make_node("MatMul", ["x", "d"], ["m"]),
             helper.make_node("Relu", ["m"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 32])], [value("y", TensorProto.FLOAT, ["n", 8])],
                       [weights, tensor("s", np.full((2, 8), 0.1, np.float32))], opset=21, ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    quantized = quantization_of(tmp_path / "m.onnx")
    assert quantized["schemes"] == {"weight-only": 1}
    assert kinds(quantized, "weights") == {("int4", "blocks of 16 along axis 0", "yes"): 1} and not kinds(quantized, "activations")
    assert quantized["kernels"] == {"com.microsoft::MatMulNBits": 1} and quantized["float_islands"] == []
    assert onnx_saturate.inspect(model)["quantization"] | {"target": quantized["target"]} == quantized  # of another release


def around(op, of=np.uint8, to=np.uint8, dequantized=(True, True), quantized=True, output=False, scale=0.1, shape=(1, 4, 8, 8), **attributes):
    """`op` of one or two inputs between quantizers, in all the ways in which one may be missing or wrong."""
    nodes, stored, inputs, args = [], [], [], []
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(of))
    for i, through in enumerate(dequantized):
        inputs.append(value(f"x{i}", kind if through else TensorProto.FLOAT, shape))
        if through:
            stored += [tensor(f"s{i}", np.float32(0.1)), tensor(f"z{i}", of(3))]
            nodes.append(helper.make_node("DequantizeLinear", [f"x{i}", f"s{i}", f"z{i}"], [f"d{i}"]))
        args.append(f"d{i}" if through else f"x{i}")
    nodes.append(helper.make_node(op, args, ["r"], **attributes))
    outputs = [value("r", TensorProto.FLOAT, None)] if output or not quantized else []
    if quantized:
        stored += [tensor("t", np.float32(scale)), tensor("u", to(3))]
        nodes.append(helper.make_node("QuantizeLinear", ["r", "t", "u"], ["y"]))
        outputs.append(value("y", helper.np_dtype_to_tensor_dtype(np.dtype(to)), None))
    return make_model(nodes, inputs, outputs, stored, opset=21, ir_version=10)


def biased_product():
    model = around("MatMul", quantized=False)
    model.graph.initializer.append(tensor("b", np.ones(8, np.float32)))
    model.graph.node.append(helper.make_node("Add", ["r", "b"], ["sum"]))
    model.graph.output[0].name = "sum"
    return model


def test_outputs_that_are_left_out_are_no_trouble(tmp_path):
    """The first output of a recurrent operator that nobody wants, in a quantized model."""
    nodes = [helper.make_node("DequantizeLinear", ["x", "s"], ["d"]), helper.make_node("RNN", ["d", "w", "r"], ["", "h"], hidden_size=4),
             helper.make_node("QuantizeLinear", ["h", "s"], ["y"])]
    shapes = {"w": [1, 4, 2], "r": [1, 4, 4]}
    model = make_model(nodes, [value("x", TensorProto.UINT8, [3, 1, 2]), *(value(n, TensorProto.FLOAT, s) for n, s in shapes.items())],
                       [value("y", TensorProto.UINT8, [1, 1, 4])], [tensor("s", np.float32(0.1))], opset=21, ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    (island,) = quantization_of(tmp_path / "m.onnx")["float_islands"]
    assert island["op_type"] == "RNN" and island["value"] == "h"


@pytest.mark.parametrize("model, kernel, why", [
    (around("Add"), "com.microsoft::QLinearAdd", None),
    (around("MaxPool", dequantized=(True,), kernel_shape=[2, 2]), "MaxPool", None),
    (around("MatMul", quantized=False), "com.microsoft::MatMulIntegerToFloat", None),
    (around("Add", dequantized=(True, False)), None, "its input 'x1' (an input) comes from no DequantizeLinear"),
    (around("Gemm", dequantized=(True, False), shape=(8, 8), transB=1), None, "its input 'x1' (an input) comes from no DequantizeLinear"),
    (around("Add", of=np.uint16, to=np.uint16), None, "its input 'd0' (DequantizeLinear) is dequantized from uint16, and ort-cpu@1.20 takes uint8 or int8 there"),
    (around("Add", quantized=False), None, "no QuantizeLinear reads its result"),
    (around("Add", output=True), None, "its result is an output of the graph, so that the float is needed"),
    (around("Add", to=np.int8), None, "its result is quantized to int8, its input from uint8"),
    (around("MaxPool", dequantized=(True,), kernel_shape=[2, 2], scale=0.2), None, "its result is quantized with another scale or zero point than its input has"),
    (biased_product(), None, "ort-cpu@1.20 joins it with the operator that reads its result before it looks for integer kernels"),
    (around("Erf", dequantized=(True,)), None, "ort-cpu@1.20 has no integer kernel for Erf"),
])
def test_explain_says_why_an_operator_is_no_integer_kernel(tmp_path, model, kernel, why):
    onnx.save(model, tmp_path / "m.onnx")
    explained = json.loads(run_ok("explain", tmp_path / "m.onnx", "--value", "r", "--json").stdout)
    assert explained["places"][0]["integer_kernel"] == {"kernel": kernel, "why_not": why}
    shown = run_ok("explain", tmp_path / "m.onnx", "--value", "r").stdout
    assert (f"in integers: {kernel}" if kernel else f"no integer kernel: {why}") in " ".join(shown.split()), shown
    op = next(n.op_type for n in model.graph.node if "r" in n.output)
    places = onnx_saturate.explain(model, op)["places"]
    assert {"kernel": kernel, "why_not": why} in [p.get("integer_kernel") for p in places if p["value"] == "r"]


def test_explain_takes_the_name_of_an_integer_kernel(tmp_path):
    onnx.save(around("Add", to=np.int8), tmp_path / "m.onnx")
    places = json.loads(run_ok("explain", tmp_path / "m.onnx", "--op", "QLinearAdd", "--json").stdout)["places"]  # also what comes near a rule
    (place,) = (p for p in places if p["op_type"] == "Add")
    assert "quantized to int8" in place["integer_kernel"]["why_not"]


def test_a_result_that_others_read_stays_a_float(tmp_path):
    model = around("Add")
    model.graph.node.append(helper.make_node("Relu", ["r"], ["more"]))
    model.graph.output.append(value("more", TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "m.onnx")
    place = json.loads(run_ok("explain", tmp_path / "m.onnx", "--value", "r", "--json").stdout)["places"][0]
    assert place["integer_kernel"]["why_not"] == "its result is read by others beside the QuantizeLinear, so that the float is needed"
    assert quantization_of(tmp_path / "m.onnx")["kernels"] == {}


def test_blocked_weights_must_be_constant(tmp_path):
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [2, 4]), value("w", TensorProto.INT4, [4, 8])], [value("y", TensorProto.FLOAT, [2, 8])],
                       [tensor("s", np.float32(0.1))], opset=21, ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    done = run("explain", tmp_path / "m.onnx", "--value", "y", "--json")
    assert json.loads(done.stdout)["places"][0]["integer_kernel"]["why_not"] == "its input 'd' (DequantizeLinear) is dequantized from integers that are no constant"


@pytest.mark.parametrize("trans, answer", [(0, {"kernel": "com.microsoft::MatMulNBits", "why_not": None}), (1, {"kernel": None, "why_not": "transB is 1, wanted 0"})])
def test_explain_names_an_attribute_that_the_kernel_does_not_take(tmp_path, trans, answer):
    weights = [helper.make_tensor("w", TensorProto.INT4, [32, 32], [1] * 1024), tensor("s", np.full((2, 32), 0.1, np.float32))]
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=16), helper.make_node("Gemm", ["x", "d"], ["r"], transB=trans)]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [4, 32])], [value("r", TensorProto.FLOAT, [4, 32])], weights, opset=21, ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    (place,) = json.loads(run_ok("explain", tmp_path / "m.onnx", "--value", "r", "--json").stdout)["places"]
    assert place["integer_kernel"] == answer
