"""onnx_saturate.pre_post: steps around a model, beside those of onnxruntime-extensions."""
import json
import re
import subprocess
import sys

import numpy as np
import onnx
import onnx.inliner
import pytest
import super_resolution
from conftest import ROOT, make_model, tensor, value
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
from onnx_saturate import pre_post  # noqa: E402

# As Olive's document writes it, commas in front of brackets and all.
EXAMPLE = """{
    "pre": [
        {"ConvertImageToBGR": {}},
        {
            "Resize": {
                "resize_to": [
                    {"type": "__model_input__", "input_index": 0, "dim_index": -2},
                    {"type": "__model_input__", "input_index": 0, "dim_index": -1},
                ]
            }
        },
        {
            "CenterCrop": {
                "height": {"type": "__model_input__", "input_index": 0, "dim_index": -2},
                "width": {"type": "__model_input__", "input_index": 0, "dim_index": -1},
            }
        },
        {"PixelsToYCbCr": {"layout": "BGR"}},
        {"ImageBytesToFloat": {}},
        {"Unsqueeze": {"axes": [0, 1]}},
    ],
    "post": [
        {"Squeeze": {"axes": [0, 1]}},
        {"FloatToImageBytes": {"name": "Y1_uint8"}},
        {
            "Resize": {
                "params": {
                    "resize_to": [
                        {"type": "__model_output__", "output_index": 0, "dim_index": -2},
                        {"type": "__model_output__", "output_index": 0, "dim_index": -1},
                    ],
                    "layout": "HW",
                },
                "io_map": [["PixelsToYCbCr", 1, 0]],
            }
        },
        {"FloatToImageBytes": {"multiplier": 1.0, "name": "Cb1_uint8"}},
        {
            "Resize": {
                "params": {
                    "resize_to": [
                        {"type": "__model_output__", "output_index": 0, "dim_index": -2},
                        {"type": "__model_output__", "output_index": 0, "dim_index": -1},
                    ],
                    "layout": "HW",
                },
                "io_map": [["PixelsToYCbCr", 2, 0]],
            }
        },
        {"FloatToImageBytes": {"multiplier": 1.0, "name": "Cr1_uint8"}},
        {
            "YCbCrToPixels": {
                "params": {
                    "layout": "BGR", // as it came
                },
                "io_map": [
                    ["Y1_uint8", 0, 0],
                    ["Cb1_uint8", 0, 1],
                    ["Cr1_uint8", 0, 2],
                ],
            }
        },
        {"ConvertBGRToImage": {"image_format": "png"}},
    ],
    "tool_command_args": [
        {
            "name": "image",
            "data_type": "uint8",
            "shape": ["num_bytes"],
        }
    ],
    "target_opset": 16,
}
"""


@pytest.fixture
def extensions():
    pytest.importorskip("onnxruntime")
    return pytest.importorskip("onnxruntime_extensions")


def run(model, feeds):
    """Outputs by name, in ONNX Runtime, with the operators of onnxruntime-extensions where they are there."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    try:
        import onnxruntime_extensions
    except ImportError:
        pass
    else:
        options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, feeds)))


# ---- the super-resolution example -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [16, 18])
@pytest.mark.parametrize("picture_out", ["png", "jpg"])
@pytest.mark.parametrize("how", ["command", "steps"])
def test_superresolution_is_that_of_onnxruntime_extensions(extensions, tmp_path, opset, picture_out, how):
    from onnxruntime_extensions.tools.add_pre_post_processing_to_model import superresolution

    net, theirs, ours = tmp_path / "net.onnx", tmp_path / "theirs.onnx", tmp_path / "ours.onnx"
    onnx.save(super_resolution.net(opset=15), net)
    superresolution(net, theirs, picture_out, opset)
    if how == "command":
        config = {"type": "AppendPrePostProcessingOps", "tool_command": "superresolution", "tool_command_args": {"output_format": picture_out}, "target_opset": opset}
    else:
        text = EXAMPLE.replace('"png"', f'"{picture_out}"').replace("16", str(opset))
        config = tmp_path / "steps.json"
        config.write_text(text)
    pre_post.add_pre_post(net, config, ours)
    model = onnx.load(ours)
    onnx.checker.check_model(model)
    assert [v.name for v in model.graph.input] == ["image"] and [v.name for v in model.graph.output] == ["image_out"]
    assert [v.name for v in onnx.load(theirs).graph.output] == ["image_out"]
    seen = set()
    for picture_in in ("png", "jpg"):
        for height, width in ((24, 32), (100, 80), (37, 91), (10, 11)):
            feeds = {"image": super_resolution.encode(super_resolution.picture(height, width, seed=height), picture_in)}
            mine, base = run(ours, feeds)["image_out"], run(theirs, feeds)["image_out"]
            pixels = super_resolution.decode(mine)
            assert pixels.shape == (72, 96, 3) and pixels.std() > 20
            np.testing.assert_array_equal(pixels, super_resolution.decode(base))
            seen.add(mine.tobytes())
            assert mine[:4].tobytes() == (b"\x89PNG" if picture_out == "png" else b"\xff\xd8\xff\xe0")
    assert len(seen) == 8


def test_the_result_is_a_larger_picture(extensions):
    """Of the net's own size, without its noise: each pixel three times and three times, but for what the net adds."""
    net = super_resolution.net()
    for weight, noise in ((net.graph.initializer[0], "w1"), (net.graph.initializer[2], "w2")):
        assert weight.name == noise
        weight.CopyFrom(tensor(noise, np.rint(onnx.numpy_helper.to_array(weight))))
    net.graph.initializer[1].CopyFrom(tensor("b1", np.zeros(8, np.float32)))
    model = pre_post.add_pre_post(net, {"tool_command": "superresolution", "tool_command_args": {"output_format": "png"}})
    pixels = super_resolution.picture(24, 32)
    out = super_resolution.decode(run(model, {"image": super_resolution.encode(pixels, "png")})["image_out"])
    grey = [image @ np.array([0.114, 0.587, 0.299]) for image in (out.astype(float), pixels.astype(float))]
    far = np.abs(grey[0] - np.repeat(np.repeat(grey[1], 3, 0), 3, 1))
    assert np.median(far) < 2 and far.mean() < 6


def test_the_result_can_be_inlined_and_optimized(extensions):
    model = pre_post.add_pre_post(super_resolution.net(), {"tool_command": "superresolution"})
    feeds = {"image": super_resolution.encode(super_resolution.picture(40, 50), "jpg")}
    expected = run(model, feeds)["image_out"]
    inlined = onnx.inliner.inline_local_functions(model)
    assert not inlined.functions
    np.testing.assert_array_equal(run(inlined, feeds)["image_out"], expected)
    optimized = onnx_saturate.optimize(model, verify=False)  # nobody but the extensions runs DecodeImage
    far = np.abs(super_resolution.decode(run(optimized, feeds)["image_out"]).astype(int) - super_resolution.decode(expected))
    assert far.mean() < 0.1


# ---- each step ------------------------------------------------------------------------------------------------------------------------


rng = np.random.default_rng(5)
PICTURE = super_resolution.picture(13, 22)
FLOATS = rng.uniform(-0.2, 1.2, (13, 22)).astype(np.float32)
BOXES = np.array([[3, 2, 9, 11, 0.9, 1], [10, 4, 20, 9, 0.5, 0]], np.float32)

# Step, its fields, its inputs; type and rank of the output.
CASES = [
    ("Resize", {"resize_to": 7}, [PICTURE], "uint8", 3),
    ("Resize", {"resize_to": [40, 33]}, [PICTURE], "uint8", 3),
    ("Resize", {"resize_to": [40, 33], "policy": "not_larger"}, [PICTURE], "uint8", 3),
    ("Resize", {"resize_to": [5, 9], "layout": "CHW"}, [np.ascontiguousarray(PICTURE.transpose(2, 0, 1))], "uint8", 3),
    ("Resize", {"resize_to": [5, 9], "layout": "NHWC"}, [PICTURE[None]], "uint8", 4),
    ("Resize", {"resize_to": [50, 9], "layout": "NCHW"}, [np.ascontiguousarray(PICTURE.transpose(2, 0, 1)[None])], "uint8", 4),
    ("Resize", {"resize_to": [31, 31], "layout": "HW"}, [FLOATS], "float32", 2),
    ("CenterCrop", {"height": 6, "width": 11}, [PICTURE], "uint8", 3),
    ("CenterCrop", {"height": 13, "width": 21}, [PICTURE], "uint8", 3),
    ("PixelsToYCbCr", {"layout": "BGR"}, [PICTURE], "float32", 2),
    ("PixelsToYCbCr", {"layout": "RGB"}, [PICTURE], "float32", 2),
    ("YCbCrToPixels", {"layout": "BGR"}, [PICTURE[..., 0], PICTURE[..., 1], PICTURE[..., 2]], "uint8", 3),
    ("YCbCrToPixels", {"layout": "RGB"}, [FLOATS * 255, FLOATS[::-1] * 200, FLOATS * 90], "uint8", 3),
    ("ImageBytesToFloat", {}, [PICTURE], "float32", 3),
    ("ImageBytesToFloat", {"rescale_factor": 0.5}, [FLOATS], "float32", 2),
    ("FloatToImageBytes", {}, [FLOATS], "uint8", 2),
    ("FloatToImageBytes", {"multiplier": 1.0}, [FLOATS * 300], "uint8", 2),
    ("Normalize", {"normalization_values": [[0.485, 0.229], [0.456, 0.224], [0.406, 0.225]], "layout": "HWC"}, [PICTURE], "float32", 3),
    ("Normalize", {"normalization_values": [[0.5, 0.3]], "layout": "CHW"}, [np.ascontiguousarray(PICTURE.transpose(2, 0, 1))], "float32", 3),
    ("LetterBox", {"target_shape": [20, 30], "fill_value": 7}, [PICTURE], "uint8", 3),
    ("LetterBox", {"target_shape": [8, 31]}, [PICTURE], "uint8", 3),
    ("LetterBox", {"target_shape": [8, 8], "layout": "CHW"}, [np.ascontiguousarray(PICTURE.transpose(2, 0, 1))], "uint8", 3),
    ("DrawBoundingBoxes", {}, [PICTURE, BOXES], "uint8", 3),
    ("DrawBoundingBoxes", {"mode": "XYWH", "thickness": 1, "num_classes": 2, "colour_by_classes": True}, [PICTURE, BOXES], "uint8", 3),
    ("ChannelsLastToChannelsFirst", {}, [PICTURE], "uint8", 3),
    ("ChannelsLastToChannelsFirst", {"has_batch_dim": True}, [PICTURE[None]], "uint8", 4),
    ("Identity", {"num_inputs": 2}, [PICTURE, FLOATS], "uint8", 3),
    ("ReverseAxis", {"axis": 2, "dim_value": 3}, [PICTURE], "uint8", 3),
    ("ReverseAxis", {}, [PICTURE], "uint8", 3),
    ("Split", {"num_outputs": 2, "axis": 1, "splits": [3, 19]}, [PICTURE], "uint8", 3),
    ("Squeeze", {"axes": [0]}, [PICTURE[None]], "uint8", 3),
    ("Squeeze", {}, [PICTURE[None, :, None]], "uint8", 3),
    ("Unsqueeze", {"axes": [0, 2]}, [FLOATS], "float32", 4),
    ("Transpose", {"perms": [1, 2, 0]}, [PICTURE], "uint8", 3),
    ("Softmax", {}, [FLOATS], "float32", 2),
    ("ArgMax", {}, [FLOATS], "int64", 1),
    ("ArgMax", {"axis": 0, "keepdims": 1}, [FLOATS], "int64", 2),
]


def model_behind(dtype, rank, opset):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    dims = [f"d{i}" for i in range(rank)]
    return make_model([helper.make_node("Identity", ["last"], ["out"])], [value("last", kind, dims)], [value("out", kind, dims)], opset=opset)


def declared(arrays):
    return [(f"in{i}", helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape)) for i, array in enumerate(arrays)]


@pytest.mark.parametrize("opset", [16, 18])
@pytest.mark.parametrize("step, fields, arrays, dtype, rank", CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_steps_are_those_of_onnxruntime_extensions(extensions, opset, step, fields, arrays, dtype, rank):
    from onnxruntime_extensions.tools import pre_post_processing as theirs

    inputs = [{"name": name, "data_type": "float" if kind == TensorProto.FLOAT else "uint8", "shape": dims} for name, kind, dims in declared(arrays)]
    config = {"pre": [{step: fields}], "tool_command_args": inputs, "target_opset": opset}
    ours = pre_post.add_pre_post(model_behind(dtype, rank, opset), config)
    onnx.checker.check_model(ours)
    feeds = {f"in{i}": array for i, array in enumerate(arrays)}
    mine = run(ours, feeds)["out"]

    pipeline = theirs.PrePostProcessor([theirs.create_named_value(*given) for given in declared(arrays)], opset)
    plain = {name: [tuple(v) if isinstance(v, list) else v for v in given] if name == "normalization_values" else given for name, given in fields.items()}
    plain = {name: tuple(v) if name in ("resize_to", "target_shape") and isinstance(v, list) else v for name, v in plain.items()}
    pipeline.add_pre_processing([getattr(theirs, step)(**plain)])
    base = run(pipeline.run(model_behind(dtype, rank, opset)), feeds)["out"]
    assert mine.dtype == base.dtype == dtype
    np.testing.assert_array_equal(mine, base)


def test_all_steps_are_tested():
    elsewhere = {"ConvertImageToBGR", "ConvertBGRToImage"}  # the example
    assert {case[0] for case in CASES} | elsewhere == set(pre_post.STEPS)


def only(step, fields, array, rank, dtype=None, opset=18):
    """The first output of a step."""
    given = [{"name": "x", "data_type": "float" if array.dtype == np.float32 else str(array.dtype), "shape": list(array.shape)}]
    model = pre_post.add_pre_post(model_behind(dtype or array.dtype, rank, opset), {"pre": [{step: fields}], "tool_command_args": given})
    return run(model, {"x": array})["out"]


def test_what_theirs_refuses_or_gets_wrong_and_negative_axes():
    np.testing.assert_array_equal(only("Split", {"num_outputs": 2, "axis": 1}, PICTURE, 3), PICTURE[:, :11])  # theirs writes 11.0
    np.testing.assert_array_equal(only("Unsqueeze", {"axes": [-1, 0]}, FLOATS, 4), FLOATS[None, :, :, None])
    np.testing.assert_array_equal(only("Squeeze", {"axes": [-2]}, FLOATS[:, None], 2), FLOATS)
    five = rng.uniform(size=(5, 2, 2)).astype(np.float32)
    pairs = [[0.1 * i, 1.0 + i] for i in range(5)]
    expected = (five - np.float32([p[0] for p in pairs]).reshape(5, 1, 1)) / np.float32([p[1] for p in pairs]).reshape(5, 1, 1)
    np.testing.assert_array_equal(only("Normalize", {"normalization_values": pairs}, five, 3), expected)
    # A picture smaller than the crop: theirs counts from its end.
    given = [{"name": "x", "data_type": "uint8", "shape": ["h", "w", 3]}]
    model = pre_post.add_pre_post(model_behind("uint8", 3, 18), {"pre": [{"CenterCrop": {"height": 9, "width": 9}}], "tool_command_args": given})
    np.testing.assert_array_equal(run(model, {"x": PICTURE[:5]})["out"], PICTURE[:5, 6:15])


# ---- how steps are put together -------------------------------------------------------------------------------------------------------


def two_in_two_out(opset=16):
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Mul", ["a", "b"], ["product"])]
    shape = [2, 3]
    return make_model(nodes, [value("a", TensorProto.FLOAT, shape), value("b", TensorProto.FLOAT, shape)], [value("sum", TensorProto.FLOAT, shape), value("product", TensorProto.FLOAT, shape)], opset=opset)


A = rng.normal(size=(2, 3)).astype(np.float32)
B = rng.normal(size=(2, 3)).astype(np.float32)
X = [{"name": "x", "data_type": "float", "shape": [3, 2]}]


def test_inputs_and_outputs_that_no_step_takes_stay():
    config = {"pre": [{"Transpose": {"perms": [1, 0]}}], "post": [{"Unsqueeze": {"axes": [0]}}], "tool_command_args": X}
    model = pre_post.add_pre_post(two_in_two_out(), config)
    assert [v.name for v in model.graph.input] == ["x", "b"] and [v.name for v in model.graph.output] == ["product", "expanded"]
    out = run(model, {"x": np.ascontiguousarray(A.T), "b": B})
    np.testing.assert_array_equal(out["product"], A * B)
    np.testing.assert_array_equal(out["expanded"], (A + B)[None])


def test_only_post_steps_and_links_between_them():
    post = [
        {"Identity": {"num_inputs": 2, "name": "both"}},
        {"Softmax": {"params": {"name": "s"}, "io_map": [["both", 1, 0]]}},
        {"Identity": {"params": {"num_inputs": 3}, "io_map": [[None, 0, 2], ["both", 0, 0], ["both", 1, 1]]}},
    ]
    model = pre_post.add_pre_post(two_in_two_out(), {"post": post})
    assert [v.name for v in model.graph.output] == ["out_0", "out_1", "out_2"]
    sums, products, softmax = run(model, {"a": A, "b": B}).values()
    np.testing.assert_array_equal(sums, A + B)
    np.testing.assert_array_equal(products, A * B)
    np.testing.assert_allclose(softmax, np.exp(A * B) / np.exp(A * B).sum(-1, keepdims=True), rtol=1e-5)


def test_names_of_the_model_are_left_alone():
    """Values of the model, those in its subgraphs, too, are called like steps and their outputs; and steps are added to what has some."""
    inner = helper.make_graph([helper.make_node("Neg", ["sum"], ["Transpose_transposed"])], "then", [], [value("Transpose_transposed", TensorProto.FLOAT, None)])
    other = helper.make_graph([helper.make_node("Abs", ["sum"], ["squeezed"])], "else", [], [value("squeezed", TensorProto.FLOAT, None)])
    nodes = [helper.make_node("Add", ["Transpose", "Transpose"], ["sum"]), helper.make_node("If", ["yes"], ["expanded"], then_branch=inner, else_branch=other)]
    base = make_model(nodes, [value("Transpose", TensorProto.FLOAT, [2, 3])], [value("expanded", TensorProto.FLOAT, [2, 3])], [tensor("yes", np.bool_(True))])
    config = {"pre": [{"Transpose": {"perms": [1, 0]}}], "post": [{"Unsqueeze": {"axes": [0]}}], "tool_command_args": X}
    model = pre_post.add_pre_post(base, config)
    onnx.checker.check_model(model)
    np.testing.assert_array_equal(run(model, {"x": np.ascontiguousarray(A.T)})["expanded_out"], -2 * A[None])
    again = pre_post.add_pre_post(model, {"pre": [{"Transpose": {"perms": [1, 0]}}], "tool_command_args": [{"name": "z", "data_type": "float", "shape": [2, 3]}]})
    onnx.checker.check_model(again)
    np.testing.assert_array_equal(run(again, {"z": A})["expanded_out"], -2 * A[None])
    assert len({f.name for f in again.functions}) == len(again.functions) == 3


def test_nothing_of_the_model_is_lost():
    base = two_in_two_out(opset=18)
    base.metadata_props.add(key="who", value="me")
    base.graph.doc_string, base.producer_name = "a graph", "somebody"
    before = base.SerializeToString()
    model = pre_post.add_pre_post(base, {"post": [{"Softmax": {}}]})
    assert base.SerializeToString() == before
    assert (model.metadata_props[0].value, model.graph.doc_string, model.producer_name) == ("me", "a graph", "somebody")
    assert [node.op_type for node in model.graph.node][:2] == ["Add", "Mul"] and model.ir_version == max(8, base.ir_version)


def test_the_opset():
    opset = lambda model: next(entry.version for entry in model.opset_import if entry.domain == "")
    softmax = {"post": [{"Softmax": {}}]}
    assert opset(pre_post.add_pre_post(two_in_two_out(12), softmax)) == 16
    assert opset(pre_post.add_pre_post(two_in_two_out(18), softmax)) == 18
    assert opset(pre_post.add_pre_post(two_in_two_out(12), {**softmax, "target_opset": 20})) == 20
    for base, target, text in ((18, 17, r"from 18 \(the model is of opset 18\) to"), (12, 15, "from 16 to"), (12, "17", '"17" is not allowed'), (12, 999, "999 is not allowed")):
        with pytest.raises(onnx_saturate.OptionError, match=f"target_opset: .*{text}"):
            pre_post.add_pre_post(two_in_two_out(base), {**softmax, "target_opset": target})


PRE = {"tool_command_args": X}
SIZE = {"type": "__model_input__", "input_index": 0, "dim_index": -1}


@pytest.mark.parametrize(
    "config, message",
    [
        ({}, "no step is given; it takes pre, post or tool_command"),
        ({"steps": []}, "steps is no field of it; there are: type, pre, post"),
        ({"type": "OnnxConversion", "post": [{"Softmax": {}}]}, 'type: "OnnxConversion" is not allowed'),
        ({"tool_command": "whisper"}, 'tool_command: "whisper" is not allowed; it is "superresolution"'),
        ({"tool_command": "superresolution", "tool_command_args": {"output_format": "gif"}}, 'output_format: "gif" is not allowed; it is "jpg" or "png"'),
        ({"tool_command": "superresolution", "tool_command_args": {"format": "jpg"}}, "format is no argument of it; there is: output_format"),
        ({"tool_command": "superresolution", "post": [{"Softmax": {}}]}, "tool_command has steps of its own"),
        ({"post": {"Softmax": {}}}, "post: .* is not allowed; it is a list of steps"),
        ({"post": ["Softmax"]}, 'post: 0: "Softmax" is not allowed; it is an object of one step'),
        ({"post": [{"Sofmax": {}}]}, r"post\[0\]: there is no step Sofmax; there are: .*Softmax"),
        ({"post": [{"Softmax": {"axis": 1}}]}, r"post\[0\]: step Softmax: axis is no field of it; there are: name"),
        ({"post": [{"Squeeze": {"axes": [0, 0]}}]}, r"step Squeeze: axes: \[0, 0\] is not allowed; it is a list of distinct whole numbers"),
        ({"post": [{"Squeeze": {"axes": [0]}}]}, r"post\[0\]: step Squeeze: axes: 0 of float\[2, 3\] has a dim of 2; it is 1"),
        ({"post": [{"Unsqueeze": {"axes": [7]}}]}, "axes: 7 is no axis of a result of rank 3; it is -3 to 2"),
        ({"post": [{"Unsqueeze": {}}]}, "step Unsqueeze: axes is missing; it is a list"),
        ({"post": [{"Transpose": {"perms": [0, 2]}}]}, r"perms: \[0, 2\] is no order of the axes"),
        ({"post": [{"Resize": {"resize_to": 0}}]}, "resize_to: 0 is not allowed; it is a whole number above 0, or"),
        ({"post": [{"Resize": {"resize_to": [3, 4, 5]}}]}, r"resize_to: \[3, 4, 5\] is not allowed"),
        ({"post": [{"Resize": {"resize_to": 5, "layout": "WH"}}]}, 'layout: "WH" is not allowed; it is "HWC" or'),
        ({"post": [{"Resize": {"resize_to": 5}}]}, r"layout: HWC takes a value of rank 3, and its input is float\[2, 3\]"),
        ({"post": [{"Resize": {"resize_to": {"type": "__model__"}}}]}, "resize_to: .*__model__.* is not allowed; it is .*__model_input__"),
        ({"post": [{"Resize": {"resize_to": {**SIZE, "input_index": 2}}}]}, "input_index: 2 is not allowed; the model has 2 inputs"),
        ({"post": [{"Resize": {"resize_to": {**SIZE, "dim_index": 2}}}]}, "dim_index: 2 is no axis of the model's input a"),
        ({"post": [{"FloatToImageBytes": {"multiplier": "255"}}]}, 'multiplier: "255" is not allowed; it is a number'),
        ({"post": [{"ConvertBGRToImage": {}}]}, r"bgr_data is float\[2, 3\]; it is uint8"),
        ({"post": [{"YCbCrToPixels": {}}]}, "its input Cr comes from nowhere; name a step in io_map"),
        ({"post": [{"Softmax": {"params": {}, "io_map": [["Nope", 0, 0]]}}]}, "no step before it is named Nope; there are: none"),
        ({"post": [{"Identity": {}}, {"Identity": {}}, {"Softmax": {"params": {}, "io_map": [["Identity", 0, 0]]}}]}, "2 steps before it are named Identity"),
        ({"post": [{"Identity": {}}, {"Softmax": {"params": {}, "io_map": [["Identity", 1, 0]]}}]}, "Identity has no output 1; it has 1"),
        ({"post": [{"Softmax": {"params": {}, "io_map": [[None, 0, 1]]}}]}, r"it has no input 1; there are: 0 \(data\)"),
        ({"post": [{"Softmax": {"params": {}, "io_map": [["a", 0]]}}]}, "io_map: .* is not allowed; it is .step or null, output, input"),
        ({"pre": [{"Identity": {}}]}, "tool_command_args: null is not allowed; it is a list of inputs"),
        ({"pre": [{"Identity": {}}], **PRE}, r"the last step, Identity, gives float\[3, 2\], and the model's input a is float\[2, 3\]"),
        ({"pre": [{"Identity": {}}], "tool_command_args": [{**X[0], "name": "sum"}]}, "name: sum is a value of the model; choose another name"),
        ({"pre": [{"Identity": {}}], "tool_command_args": [{**X[0], "data_type": "real"}]}, 'data_type: "real" is not allowed; it is one of float, uint8'),
        ({"pre": [{"Identity": {}}], "tool_command_args": [{**X[0], "shape": [-1]}]}, r"shape: \[-1\] is not allowed"),
        ({"pre": [{"CenterCrop": {"height": 5, "width": 1}}], "tool_command_args": [{"name": "x", "data_type": "float", "shape": [4, 4, 3]}]}, "height: 5 is more than the picture has; it is at most 4"),
        ({"pre": [{"PixelsToYCbCr": {}}], "tool_command_args": [{"name": "x", "data_type": "uint8", "shape": [4, 4, 4]}]}, "its last dim is 3"),
        ({"pre": [{"Split": {"num_outputs": 3}}], "tool_command_args": [{"name": "x", "data_type": "uint8", "shape": [4, 4, 4]}]}, "num_outputs: 4 of .* can't be split into 3 at opset 16"),
    ],
)
def test_wrong_configurations_are_named(config, message):
    base = two_in_two_out()
    with pytest.raises(onnx_saturate.OptionError) as caught:
        pre_post.add_pre_post(base, config)
    assert re.search(message, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_a_size_that_is_not_fixed():
    net = super_resolution.net()
    net.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "w"
    with pytest.raises(onnx_saturate.OptionError, match=r"resize_to: dim -1 of the model's input y, float\[1, 1, 24, 'w'\], has no fixed size; fix it first"):
        pre_post.add_pre_post(net, {"tool_command": "superresolution"})
    net = super_resolution.net()
    net.graph.output[0].type.tensor_type.ClearField("shape")  # then inference tells
    assert pre_post.add_pre_post(net, {"tool_command": "superresolution"}).graph.output[0].name == "image_out"


def test_the_command(tmp_path):
    net, out, steps = tmp_path / "net.onnx", tmp_path / "out.onnx", tmp_path / "steps.json"
    onnx.save(super_resolution.net(), net)
    steps.write_text(EXAMPLE)

    def command(*words):
        return subprocess.run([sys.executable, "-m", "onnx_saturate.pre_post", *map(str, words)], capture_output=True, text=True, timeout=120)

    done = command(net, out, "--config", steps)
    assert done.returncode == 0 and not done.stderr, done.stderr
    by_steps = onnx.load(out)
    done = command(net, out, "--tool-command", "superresolution", "--output-format", "png", "--target-opset", "16")
    assert done.returncode == 0 and len(onnx.load(out).graph.node) == len(by_steps.graph.node) == 18
    out.unlink()
    (tmp_path / "bad.json").write_text("{")
    for words, code, text in (
        ([net, out], 2, "give --config or --tool-command"),
        ([net, out, "--config", tmp_path / "bad.json"], 1, "bad.json: is no JSON"),
        ([net, out, "--config", tmp_path / "none.json"], 1, "none.json: can't be read"),
        ([tmp_path / "none.onnx", out, "--config", steps], 1, "none.onnx"),
        ([net, out, "--tool-command", "whisper"], 2, '"whisper" is not allowed'),
    ):
        done = command(*words)
        assert done.returncode == code and text in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not out.exists()


def test_the_page_lists_the_steps():
    page = (ROOT / "docs" / "pre_post.md").read_text()
    for step, fields in pre_post.STEPS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{step}` |"))
        assert all(f"`{field}`" in row for field in fields if field != "name"), row
    assert json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])
