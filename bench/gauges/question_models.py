"""Small models that documents show commands on: each is made anew, and is the same each time."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NODE = helper.make_node


def saved(path, nodes, inputs, outputs, weights, opset=17):
    def infos(all_of, dtype=TensorProto.FLOAT):
        return [helper.make_tensor_value_info(name, TensorProto.BOOL if name == "flag" else dtype, shape) for name, shape in all_of.items()]

    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def resnet(path):
    """Two convolutions with their normalizations, and what goes past them."""
    nodes, weights, last = [], {}, "x"
    for i in range(2):
        weights |= {f"k{i}": drawn(i, 16, 16, 3, 3) / 12, f"scale{i}": np.ones(16, np.float32), f"shift{i}": drawn(i + 2, 16), f"mean{i}": drawn(i + 4, 16),
                    f"var{i}": drawn(i + 6, 16) ** 2 + 1}
        nodes += [NODE("Conv", [last, f"k{i}"], [f"c{i}"], pads=[1, 1, 1, 1]), NODE("BatchNormalization", [f"c{i}", f"scale{i}", f"shift{i}", f"mean{i}", f"var{i}"], [f"n{i}"])]
        nodes += [NODE("Relu", [f"n{i}"], [f"r{i}"])] if i == 0 else [NODE("Add", [f"n{i}", "x"], ["s"]), NODE("Relu", ["s"], ["y"])]
        last = f"r{i}"
    saved(path, nodes, {"x": ["batch", 16, 32, 32]}, {"y": ["batch", 16, 32, 32]}, weights)


def gated(path):
    """An attention whose probabilities are multiplied by a gate, which no fused operator does, behind a normalization in small operators."""
    nodes = [NODE("ReduceMean", ["x"], ["m"], axes=[-1]), NODE("Sub", ["x", "m"], ["d"]), NODE("Mul", ["d", "d"], ["dd"]), NODE("ReduceMean", ["dd"], ["v"], axes=[-1]),
             NODE("Add", ["v", "eps"], ["ve"]), NODE("Sqrt", ["ve"], ["sd"]), NODE("Div", ["d", "sd"], ["h"]), NODE("Mul", ["h", "gamma"], ["hg"]), NODE("Add", ["hg", "beta"], ["n"])]
    nodes += [NODE("MatMul", ["n", f"w{part}"], [part]) for part in "qkv"]
    nodes += [NODE("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), NODE("MatMul", ["q", "kt"], ["scores"]), NODE("Softmax", ["scores"], ["p"], axis=-1), NODE("Mul", ["p", "gate"], ["pg"]),
              NODE("MatMul", ["pg", "v_"], ["y"])]
    nodes[11].output[0] = "v_"  # the variance is v
    weights = {"eps": np.float32(1e-5), "gamma": np.ones(32, np.float32), "beta": np.zeros(32, np.float32)} | {f"w{part}": drawn(i, 32, 32) / 6 for i, part in enumerate("qkv")}
    saved(path, nodes, {"x": [1, 16, 32], "gate": [1, 16, 16]}, {"y": [1, 16, 32]}, weights)


def int8(path):
    """A convolution and an attention between quantizers, as ONNX Runtime's quantizer puts them."""
    nodes, weights = [], {"step": np.float32(0.05), "zero": np.int8(0)}

    def quantized(name):
        nodes.extend([NODE("QuantizeLinear", [name, "step", "zero"], [name + "_q"]), NODE("DequantizeLinear", [name + "_q", "step", "zero"], [name + "_d"])])
        return name + "_d"

    x = quantized("x")
    for i, part in enumerate("qkv"):
        weights |= {f"w{part}": np.random.default_rng(i).integers(-127, 128, (32, 32)).astype(np.int8), f"s{part}": np.float32(0.004)}
        nodes += [NODE("DequantizeLinear", [f"w{part}", f"s{part}"], [f"w{part}_d"]), NODE("MatMul", [x, f"w{part}_d"], [part])]
    nodes += [NODE("Transpose", [quantized("k")], ["kt"], perm=[0, 2, 1]), NODE("MatMul", [quantized("q"), "kt"], ["scores"])]
    nodes.append(NODE("Softmax", [quantized("scores")], ["p"], axis=-1))
    nodes.append(NODE("MatMul", [quantized("p"), quantized("v")], ["y"]))
    saved(path, nodes, {"x": [1, 16, 32]}, {"y": [1, 16, 32]}, weights)


def branches(path):
    """GELU in small operators on one side of an If, and nothing on the other."""
    gelu = [NODE("Div", ["x", "root"], ["a"]), NODE("Erf", ["a"], ["b"]), NODE("Add", ["b", "one"], ["c"]), NODE("Mul", ["x", "c"], ["d"]), NODE("Mul", ["d", "half"], ["t"])]
    sides = [helper.make_graph(body, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 64])]) for body, name in ((gelu, "t"), ([NODE("Identity", ["x"], ["e"])], "e"))]
    weights = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5), "w": drawn(0, 64, 64) / 8}
    saved(path, [NODE("If", ["flag"], ["i"], then_branch=sides[0], else_branch=sides[1]), NODE("MatMul", ["i", "w"], ["y"])], {"x": [8, 64], "flag": []}, {"y": [8, 64]}, weights)


MODELS = {"resnet.onnx": resnet, "gated.onnx": gated, "int8.onnx": int8, "branches.onnx": branches}
