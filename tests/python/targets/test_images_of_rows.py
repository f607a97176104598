"""Convolutions along one axis become those of images of one row where ONNX Runtime runs these in blocks of channels, with the runtime as judge."""
import json
import random
import sys

import numpy as np
import onnx
import pytest
from conftest import ROOT, run_ok
from onnx import TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")
sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
from rows_as_images import network  # noqa: E402

TARGET = "ort-cpu@" + ".".join(onnxruntime.__version__.split(".")[:2])


def conv(x, y, filters, of_filter, width=5, groups=1, dtype=np.float32, **attributes):
    weights = numpy_helper.from_array((np.random.default_rng(filters + of_filter).standard_normal((filters, of_filter, width)) * 0.1).astype(dtype), f"w_{y}")
    pads = {} if "auto_pad" in attributes else {"pads": [width // 2] * 2}
    return helper.make_node("Conv", [x, f"w_{y}"], [y], group=groups, **(pads | attributes)), weights


def over_image(weight):
    """The same weights for images of one row."""
    return numpy_helper.from_array(numpy_helper.to_array(weight)[:, :, None], weight.name)


def model(nodes, weights, shape, result, dtype=TensorProto.FLOAT, opset=20):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", dtype, shape)], [value(result, dtype, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def chain(shape, steps, dtype=TensorProto.FLOAT, **of_conv):
    """Convolutions and what stands between them."""
    nodes, weights, last = [], [], "x"
    for i, step in enumerate(steps):
        if step == "Conv":
            made, weight = conv(last, f"v{i}", 32, 32, dtype=helper.tensor_dtype_to_np_dtype(dtype), **of_conv)
            weights.append(weight)
        elif step == "Swish":
            nodes.append(helper.make_node("Sigmoid", [last], [f"s{i}"]))
            made = helper.make_node("Mul", [last, f"s{i}"], [f"v{i}"])
        elif step == "Sum":
            made = helper.make_node("Add", ["x", last], [f"v{i}"])
        elif step == "MaxPool":
            made = helper.make_node("MaxPool", [last], [f"v{i}"], kernel_shape=[2], strides=[2])
        else:
            made = helper.make_node(step, [last], [f"v{i}"])
        nodes.append(made)
        last = f"v{i}"
    return model(nodes, weights, shape, last, dtype)


def session(path, saved=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if saved:
        options.optimized_model_filepath = str(saved)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def optimized(made, folder, *words):
    onnx.save(made, folder / "m.onnx")
    run_ok(folder / "m.onnx", "-o", folder / "o.onnx", "--force", *(words or ("--target", TARGET)))
    return onnx.load(folder / "o.onnx")


def ranks(made):
    """Of the weights of convolutions."""
    weights = {i.name: len(i.dims) for i in made.graph.initializer}
    return [weights[n.input[1]] for n in made.graph.node if n.op_type in ("Conv", "FusedConv")]


def views(made):
    return sum(n.op_type in ("Reshape", "Squeeze", "Unsqueeze") for n in made.graph.node)


def same_numbers(folder, feeds, rtol=1e-4):
    first, second = (session(folder / name).run(None, feeds)[0] for name in ("m.onnx", "o.onnx"))
    np.testing.assert_allclose(second, first, rtol=rtol, atol=rtol * float(np.abs(first).max(initial=1)))


def rows(shape, dtype=np.float32):
    return {"x": np.random.default_rng(3).standard_normal(shape).astype(dtype)}


STEPS = [["Conv", "Relu", "Conv", "Relu", "Conv"], ["Conv", "Gelu", "Conv", "Sum", "Gelu", "Conv"], ["Conv", "Swish", "Conv", "Swish", "Conv"],
         ["Conv", "Tanh", "MaxPool", "Conv", "Relu", "Conv"], ["Conv", "Sum", "Conv", "Sum", "Conv", "Sum"]]


@pytest.mark.parametrize("steps", STEPS, ids=lambda s: "-".join(s))
@pytest.mark.parametrize("shape", [[1, 32, 500], [2, 32, 200], ["batch", 32, 400], [1, 32, "length"]], ids=str)
def test_a_chain_is_one_image(steps, shape, tmp_path):
    """All convolutions are over images, which are seen as rows at the ends alone; the runtime runs each in blocks, to the same numbers."""
    made = optimized(chain(shape, steps), tmp_path, "--target", TARGET, "--cost-at", "batch=2,length=500")
    assert ranks(made) == [4] * steps.count("Conv")
    assert views(made) <= 2
    same_numbers(tmp_path, rows([2 if d == "batch" else 321 if d == "length" else d for d in shape]))
    session(tmp_path / "o.onnx", tmp_path / "loaded.onnx")
    domains = [n.domain for n in onnx.load(tmp_path / "loaded.onnx").graph.node if n.op_type.endswith("Conv")]
    assert set(domains) == {"com.microsoft.nchwc"}


CHANNELS = [(filters, of_filter, groups) for filters in (1, 4, 6, 16, 30, 64) for of_filter in (1, 3, 7, 9, 12, 14, 16, 32) for groups in (1, 2, 4, 16)
            if filters % groups == 0]


def test_what_stays_a_row(tmp_path):
    """No kernel in blocks: doubles, halves, weights that are no constants, channels that are no multiple of four; and targets that have none."""
    steps = ["Conv", "Relu", "Conv", "Relu", "Conv"]
    for dtype in (TensorProto.DOUBLE, TensorProto.FLOAT16):
        assert ranks(optimized(chain([1, 32, 500], steps, dtype), tmp_path)) == [3, 3, 3]
    node, weight = conv("x", "y", 32, 9)
    assert ranks(optimized(model([node], [weight], [1, 9, 900], "y"), tmp_path)) == [3]
    for target in ("onnx", "ort-cuda", "ort-web"):
        assert ranks(optimized(chain([1, 32, 500], steps), tmp_path, "--target", target)) == [3, 3, 3]
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], pads=[2, 2])], "g",
                              [value("x", TensorProto.FLOAT, [1, 32, 900]), value("w", TensorProto.FLOAT, [32, 32, 5])], [value("y", TensorProto.FLOAT, None)])
    made = optimized(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path)
    assert [n.op_type for n in made.graph.node] == ["Conv"]


def test_attributes_and_places_keep_their_meaning(tmp_path):
    for attributes in ({"strides": [3]}, {"dilations": [2]}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER", "strides": [2]}, {"pads": [3, 0]}):
        made = optimized(chain([2, 32, 301], ["Conv", "Relu", "Conv"], **attributes), tmp_path)
        assert ranks(made) == [4, 4], attributes
        same_numbers(tmp_path, rows([2, 32, 301]))
    made = optimized(chain([0, 32, 300], ["Conv", "Relu", "Conv"]), tmp_path, "--target", TARGET, "--no-verify")
    assert session(tmp_path / "o.onnx").run(None, rows([0, 32, 300]))[0].shape == (0, 32, 300)
    assert made.graph.node


@pytest.mark.parametrize("shape", [[], [1], [1, 1], [1, 1, 1, 1]], ids=str)
def test_an_image_of_one_element_may_be_seen_as_anything(shape, tmp_path):
    node, weight = conv("x", "y", 1, 4, width=1)
    nodes = [helper.make_node("Conv", list(node.input), ["y"]), helper.make_node("Reshape", ["y", "to"], ["z"]), helper.make_node("Neg", ["z"], ["n"])]
    optimized(model(nodes, [over_image(weight), numpy_helper.from_array(np.array(shape, np.int64), "to")], [1, 4, 1, 1], "n"), tmp_path)
    same_numbers(tmp_path, rows([1, 4, 1, 1]))


def must_be_images(folder):
    """The target, to which convolutions along one axis are refused, so that prices have no say."""
    target = json.loads((ROOT / "extract" / "targets" / "ort-cpu.json").read_text())
    target["limits"].append({"operators": ["Conv", "com.microsoft::FusedConv"], "min_rank": 4, "because": "images alone"})
    (folder / "images.json").write_text(json.dumps(target | {"name": "images"}))
    return folder / "images.json"


def test_random_networks_compute_the_same(tmp_path):
    target, images = must_be_images(tmp_path), 0
    for seed in range(1000, 1060):
        made, feeds = network(random.Random(seed), np.random.default_rng(seed))
        result = optimized(made, tmp_path, "--target", target, "--no-verify")
        images += 4 in ranks(result)
        same_numbers(tmp_path, feeds, 1e-3)
    assert images > 50


def priced(made, folder):
    """What a model costs as it is, of that what the runtime takes to lay out values anew, and the operators that it runs."""
    onnx.save(made, folder / "p.onnx")
    done = run_ok(folder / "p.onnx", "-o", folder / "o.onnx", "--force", "--json", "--no-verify", "--rules", "none", "--target", TARGET)
    report = json.loads(done.stdout)
    return report["cost_before"], report["cost_before"] - sum(node["cost"] for node in report["nodes_before"]), report["at_load"]["before"]


def price(made, folder):
    return priced(made, folder)[0]


def test_the_price_is_of_the_kernel_that_runs(tmp_path):
    """Whatever the numbers of channels and groups: a row costs as much as the image that stands for it, but where the runtime runs that in blocks."""
    dearer = 0
    for filters, of_filter, groups in CHANNELS:
        node, weight = conv("x", "y", filters, of_filter, groups=groups)
        row = price(model([node], [weight], [1, of_filter * groups, 500], "y"), tmp_path)
        over = helper.make_node("Conv", list(node.input), ["y"], group=groups, pads=[0, 2, 0, 2])
        image = price(model([over], [over_image(weight)], [1, of_filter * groups, 1, 500], "y"), tmp_path)
        session(tmp_path / "p.onnx", tmp_path / "loaded.onnx")
        in_blocks = any(n.domain == "com.microsoft.nchwc" for n in onnx.load(tmp_path / "loaded.onnx").graph.node)
        assert row == pytest.approx(image, rel=1e-3) or in_blocks, (filters, of_filter, groups)
        dearer += row > 1.05 * image
    assert dearer > 25


def test_operators_that_stay_in_blocks(tmp_path):
    """Between two convolutions the runtime lays out nothing anew for these, and does for the others; the price has what it lays out."""
    def between(op, height, domain=""):
        first, w = conv("x", "a", 32, 32)
        second, v = conv("b", "y", 32, 32)
        nodes = [helper.make_node("Conv", list(first.input), ["a"], pads=[0, 2, 0, 2]), helper.make_node(op, ["a"], ["b"], domain=domain),
                 helper.make_node("Conv", list(second.input), ["y"], pads=[0, 2, 0, 2])]
        made = model(nodes, [over_image(w), over_image(v)], [1, 32, height, 500 // height], "y")
        made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        return made

    node, weight = conv("x", "y", 32, 32)
    alone = helper.make_node("Conv", list(node.input), ["y"], pads=[0, 2, 0, 2])
    twice = priced(model([alone], [over_image(weight)], [1, 32, 2, 250], "y"), tmp_path)[1]  # into blocks and out of them
    assert twice > 0
    for op, domain, stays in [(op, "", True) for op in ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "HardSwish", "Gelu")] + [
            ("QuickGelu", "com.microsoft", True)] + [(op, "", False) for op in ("Elu", "Erf", "Exp", "Neg", "Softplus")]:
        _, layouts, run = priced(between(op, 2, domain), tmp_path)
        if f"{domain}::{op}".removeprefix("::") in run:  # others are fused, and cost less than their parts
            assert layouts == pytest.approx(twice if stays else 2 * twice, rel=0.05), op
        onnx.save(between(op, 1, domain), tmp_path / "m.onnx")
        session(tmp_path / "m.onnx", tmp_path / "loaded.onnx")
        assert sum(n.op_type.startswith("Reorder") for n in onnx.load(tmp_path / "loaded.onnx").graph.node) == (2 if stays else 4), op
