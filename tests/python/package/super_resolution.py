"""A super-resolution net of random weights, one channel in and three times as large out, and pictures for it."""
import numpy as np
from conftest import make_model, tensor, value
from onnx import TensorProto, helper

EXTENSIONS = "com.microsoft.extensions"


def net(height=24, width=32, opset=16, seed=0):
    """Conv, Relu, Conv, DepthToSpace; near the picture made large, so that the result is one."""
    rng = np.random.default_rng(seed)
    first = rng.normal(0, 0.05, (8, 1, 5, 5)).astype(np.float32)
    first[0, 0, 2, 2] += 1  # what the second one makes large
    second = rng.normal(0, 0.05, (9, 8, 3, 3)).astype(np.float32)
    second[:, 0, 1, 1] += 1
    nodes = [
        helper.make_node("Conv", ["y", "w1", "b1"], ["c1"], pads=[2] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4),
        helper.make_node("DepthToSpace", ["c2"], ["larger"], blocksize=3, mode="CRD"),
    ]
    weights = [tensor("w1", first), tensor("b1", rng.normal(0, 0.02, 8).astype(np.float32)), tensor("w2", second)]
    large = value("larger", TensorProto.FLOAT, [1, 1, 3 * height, 3 * width])
    return make_model(nodes, [value("y", TensorProto.FLOAT, [1, 1, height, width])], [large], weights, opset=opset)


def picture(height, width, seed=0):
    """Smooth colours with some edges and noise, [height, width, 3] in BGR."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = [np.sin(2 * np.pi * (rng.uniform(0.5, 3) * x + rng.uniform(0.5, 3) * y + rng.uniform())) for _ in range(3)]
    pixels = 127 + 90 * np.stack(waves, -1) + rng.normal(0, 6, (height, width, 3))
    pixels[height // 4 : height // 2, width // 4 : width // 2] = rng.uniform(0, 255, 3)
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def _session(op_type, shape, **attributes):
    import onnxruntime
    import onnxruntime_extensions

    node = helper.make_node(op_type, ["x"], ["y"], domain=EXTENSIONS, **attributes)
    model = make_model([node], [value("x", TensorProto.UINT8, shape)], [value("y", TensorProto.UINT8, None)], domains=[EXTENSIONS])
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def encode(pixels, kind):
    """Bytes of a PNG or JPEG."""
    return _session("EncodeImage", ["h", "w", 3], format=kind).run(None, {"x": pixels})[0]


def decode(data):
    """Its pixels."""
    return _session("DecodeImage", ["n"]).run(None, {"x": data})[0]
