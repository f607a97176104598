"""The attention of NPU documents as quantizers write it: one head at a time, whole units, quantizers of the model's parameters."""
import collections
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import heads_graphs
from conftest import ROOT, make_model, run_ok, tensor, value
from test_heads import in_onnxruntime, of_document, operators

sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
from whole_units import count  # noqa: E402

SMALL = {"T": 6, "H": 8, "L": 10}
QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")
VIEWS = ("Reshape", "Transpose", "Split", "Slice", "Concat", "Identity")


def quantized(model, activations, seed=0):
    """Each float that an operator reads or makes stands between quantizers, by the range that ONNX Runtime found in two runs; views keep their input's."""
    dtype = np.dtype(activations)
    floats = collections.OrderedDict()
    for node in model.graph.node:
        for name in (*node.input, *node.output):
            floats[name] = None
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    made = [o for n in model.graph.node for o in n.output]
    known = {o.name for o in model.graph.output}
    probe.graph.output.extend(onnx.helper.make_empty_tensor_value_info(o) for o in made if o not in known)
    names = [o.name for o in probe.graph.output]
    ranges = {}
    for run in (seed, seed + 1):
        feeds = heads_graphs.draw(model, run)
        for name, array in [*zip(names, in_onnxruntime(probe, feeds)), *feeds.items(), *((t.name, numpy_helper.to_array(t)) for t in model.graph.initializer)]:
            if array.dtype == np.float32:
                low, high = ranges.get(name, (0.0, 0.0))
                ranges[name] = (min(low, float(array.min())), max(high, float(array.max())))
    given = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes, constants, parameters = [], list(model.graph.initializer), {}

    def parameters_of(name):
        if name not in parameters:
            low, high = ranges[name]
            info = np.iinfo(dtype)
            scale = np.float32(max((high - low) / (info.max - info.min), 1e-6))
            zero = np.clip(np.round(info.min - low / scale), info.min, info.max).astype(dtype)
            constants.extend([tensor(f"{name}_scale", np.asarray(scale)), tensor(f"{name}_zero", np.asarray(zero))])
            parameters[name] = (f"{name}_scale", f"{name}_zero")
        return parameters[name]

    between = {}

    def dequantized(name, of=None):
        if name not in ranges:
            return name
        if name not in between:
            of = parameters_of(name)
            if name in given:
                scale, zero = (numpy_helper.to_array(t) for t in constants[-2:])
                constants.append(tensor(f"{name}_q", np.clip(np.rint(given[name] / scale) + zero, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)))
            else:
                nodes.append(helper.make_node("QuantizeLinear", [name, *of], [f"{name}_q"]))
            nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *of], [f"{name}_d"]))
            between[name] = f"{name}_d"
        return between[name]

    outputs = {o.name for o in model.graph.output}
    for node in model.graph.node:
        if node.op_type in VIEWS and node.op_type != "Concat":
            ranges_of = parameters_of(node.input[0]) if node.input[0] in ranges else None
            if ranges_of:
                parameters[node.output[0]] = ranges_of
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        if node.output[0] in outputs:
            nodes.append(copy)
            continue
        del copy.input[:]
        copy.input.extend(dequantized(name) for name in node.input)
        nodes.append(copy)
    out = make_model(nodes, list(model.graph.input), list(model.graph.output), constants, opset=21)
    onnx.checker.check_model(out, full_check=True)
    return out


def without_quantizers(model):
    return {op: n for op, n in operators(model).items() if op not in QUANTIZERS}


def optimized(tmp_path, model, *words):
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", *words)
    return onnx.load(tmp_path / "o.onnx")


def steps(model, feeds, other):
    """How far the outputs lie apart, in steps of the coarsest quantizer in front of them."""
    return max(float(np.abs(a - b).max()) for a, b in zip(in_onnxruntime(model, feeds), in_onnxruntime(other, feeds)))


@pytest.mark.parametrize("target", ["qnn-htp", "npu-4d", "onnx"])
@pytest.mark.parametrize("activations", [np.uint8, np.uint16, np.int16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("heads", [2, 4, 8])
@pytest.mark.parametrize("form", ["prefill", "decode"])
def test_the_figures_stand_between_quantizers(tmp_path, form, heads, activations, target):
    if target == "npu-4d" and activations is np.uint16:
        pytest.skip("npu-4d has no uint16")
    model = quantized(heads_graphs.FORMS[form](**SMALL, N=heads), activations)
    result = optimized(tmp_path, model, "--target", target, "--prefer", "single-heads")
    assert without_quantizers(result) == of_document(form, heads)
    before, after = count(model)[0], count(result)[0]
    assert before == {"Mul": 1, "MatMul": 4, "Add": 2, "Softmax": 1}
    assert after == {op: n * heads for op, n in before.items()}
    feeds = heads_graphs.draw(model, 7)
    assert steps(model, feeds, result) <= 1e-4


def test_masks_are_added_between_quantizers(tmp_path):
    """A fill that its quantizer brings to the lowest integer is a sum that falls below its range: equal to the last integer."""
    model = quantized(heads_graphs.select(**SMALL, N=4, fill=-1e4), np.uint8)
    result = optimized(tmp_path, model, "--target", "qnn-htp", "--prefer", "single-heads")
    counts = without_quantizers(result)
    assert "Where" not in counts
    assert {op: counts[op] for op in ("Mul", "MatMul", "Add", "Softmax")} == {"Mul": 8, "MatMul": 8, "Add": 4, "Softmax": 4}
    assert count(result)[0] == {"Mul": 8, "MatMul": 8, "Add": 4, "Softmax": 4}
    feeds = heads_graphs.draw(model, 3)
    assert steps(model, feeds, result) <= 1e-4


def projected(heads=4, size=8, tokens=6):
    """Attention behind projections with biases, as exporters write an encoder's."""
    g, random, width = heads_graphs.Graph(), np.random.default_rng(0), heads * size
    def projection(x, name):
        made = g.add("Add", g.add("MatMul", x, g.constant(random.normal(0, 0.2, (width, width)))), g.constant(random.normal(0, 0.1, width)))
        return g.reshape(made, [2, tokens, heads, size]) if name != "out" else made
    q, k, v = (projection("x", name) for name in "qkv")
    scores = g.add("Mul", g.add("MatMul", g.transpose(q, [0, 2, 1, 3]), g.transpose(k, [0, 2, 3, 1])), g.constant(size**-0.5))
    weights = g.add("Softmax", g.add("Add", scores, "mask"), axis=-1)
    together = g.reshape(g.transpose(g.add("MatMul", weights, g.transpose(v, [0, 2, 1, 3])), [0, 2, 1, 3]), [2, tokens, width])
    shapes = {"x": ([2, tokens, width],), "mask": ([2, 1, tokens, tokens],)}
    return g.model(shapes, {"y": (projection(together, "out"), [2, tokens, width])})


@pytest.mark.parametrize("activations", [np.uint8, np.int16], ids=lambda d: d.__name__)
def test_projections_stay_whole(tmp_path, activations):
    """Heads come apart behind the sum with the bias, whose weights are quantized; views of single heads have quantizers, too."""
    model = quantized(projected(), activations)
    result = optimized(tmp_path, model, "--target", "qnn-htp", "--prefer", "single-heads")
    (before, weights), (after, weights_after) = count(model), count(result)
    assert before == {"MatMul": 6, "Add": 4, "Mul": 1, "Softmax": 1} and weights == 8
    assert after == {"MatMul": 4 + 2 * 4, "Add": 3 + 4, "Mul": 4, "Softmax": 4} and weights_after == 8
    feeds = heads_graphs.draw(model, 5)
    assert steps(model, feeds, result) <= 1e-4


def concat_parameters(model):
    """Of each Concat along the last axis: whether all parts are dequantized by the parameters that its own quantizer has."""
    makers = {o: n for n in model.graph.node for o in n.output}
    constants = {t.name: numpy_helper.to_array(t).tolist() for t in model.graph.initializer}
    readers = {n.input[0]: n for n in model.graph.node if n.op_type == "QuantizeLinear"}
    same = lambda a, b: [constants[x] for x in a.input[1:]] == [constants[x] for x in b.input[1:]]
    return [all(same(makers[part], readers[n.output[0]]) for part in n.input) for n in model.graph.node if n.op_type == "Concat" and n.attribute[0].i == 3]


def test_products_write_in_the_parameters_of_the_concat(tmp_path):
    """MatMul-Convert of the document: no Convert stands between a product and the Concat of each head."""
    model = quantized(heads_graphs.FORMS["prefill"](**SMALL, N=4), np.uint8)
    assert concat_parameters(model) == [False]
    options = ("--target", "qnn-htp", "--prefer", "single-heads")
    assert not any(concat_parameters(optimized(tmp_path, model, *options)))
    result = optimized(tmp_path, model, *options, "--approximate")
    assert concat_parameters(result) == [True] * 4
    assert count(result)[0] == {"Mul": 4, "MatMul": 16, "Add": 8, "Softmax": 4}


@pytest.mark.parametrize("views", [["Transpose"], ["Transpose", "Reshape"]], ids="-".join)
def test_an_output_that_is_turned_and_quantized_stays_a_copy(tmp_path, views):
    """ONNX Runtime moves a quantizer in front of a Transpose even where that reads an output of the model, which is then quantized."""
    constants = [tensor("s", np.float32(0.05)), tensor("z", np.uint8(128)), tensor("shape", np.array([24]))]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Identity", ["a"], ["kept"])]
    last = "a"
    for op in views:
        nodes.append(helper.make_node(op, [last, "shape"][: 1 + (op == "Reshape")], [op], **({"perm": [1, 0]} if op == "Transpose" else {})))
        last = op
    nodes += [helper.make_node("QuantizeLinear", [last, "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
              helper.make_node("Sigmoid", ["d"], ["y"])]
    shape = [12, 2] if len(views) == 1 else [24]
    model = make_model(nodes, [value("x", 1, [2, 12])], [value("kept", 1, [2, 12]), value("y", 1, shape)], constants, opset=18)
    result = optimized(tmp_path, model, "--target", "onnx")
    assert [n.op_type for n in result.graph.node].count("Identity") == 1


def test_an_output_is_no_copy_where_nothing_is_quantized(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Identity", ["a"], ["kept"]), helper.make_node("Transpose", ["a"], ["t"], perm=[1, 0]),
             helper.make_node("Sigmoid", ["t"], ["y"])]
    result = optimized(tmp_path, make_model(nodes, [value("x", 1, [2, 12])], [value("kept", 1, [2, 12]), value("y", 1, [12, 2])]), "--target", "onnx")
    assert "Identity" not in [n.op_type for n in result.graph.node]
