#!/usr/bin/env python3
"""Writes one model per matrix product for bench/speed/latency.py: with a constant right side as in a linear layer, batched as in attention, and of bytes;
convolutions of bytes, too.

    python bench/export/matmul_models.py FOLDER
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LINEAR = [(128, 768, 768), (128, 768, 3072), (512, 4096, 4096), (1, 768, 3072), (197, 768, 768)]  # m, k, n
BATCHED = [(12, 128, 64, 128), (12, 128, 128, 64)]                                                # batch, m, k, n


def write(folder, name, a, b, constant):
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal(a, np.float32), rng.standard_normal(b, np.float32)
    infos = [helper.make_tensor_value_info("a", TensorProto.FLOAT, a)] + ([] if constant else [helper.make_tensor_value_info("b", TensorProto.FLOAT, b)])
    # Repeated, so that what a run costs beside the products doesn't count.
    nodes = [helper.make_node("MatMul", ["a", "b"], [f"y{i}"]) for i in range(8 if constant else 1)]
    weights = [numpy_helper.from_array(right, "b")] if constant else []
    outputs = [helper.make_tensor_value_info(n.output[0], TensorProto.FLOAT, None) for n in nodes]
    graph = helper.make_graph(nodes, "g", infos, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / f"{name}.onnx")
    np.savez(folder / f"{name}.inputs.npz", a=left, **({} if constant else {"b": right}))


BYTES = [(128, 768, 768), (128, 768, 3072), (512, 4096, 4096), (1, 768, 3072)]
BYTE_CONVOLUTIONS = [(64, 64, 56, 3, 1), (256, 64, 56, 1, 1), (512, 512, 7, 3, 1), (96, 96, 56, 3, 96)]  # channels, filters, size, kernel, groups


def constants(**values):
    return [numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()]


def save(folder, name, inputs, nodes, weights, opsets=(("", 17), ("com.microsoft", 1))):
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()]
    outputs = [helper.make_value_info(n.output[0], onnx.TypeProto()) for n in nodes]
    for node, output in zip(nodes, outputs):
        kinds = {"MatMulInteger": TensorProto.INT32, "ConvInteger": TensorProto.INT32, "DynamicQuantizeMatMul": TensorProto.FLOAT}
        output.type.tensor_type.elem_type = kinds.get(node.op_type, TensorProto.UINT8)
    graph = helper.make_graph(nodes, "g", infos, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets], ir_version=8), folder / f"{name}.onnx")
    np.savez(folder / f"{name}.inputs.npz", **inputs)


def write_bytes(folder, m, k, n):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n), np.int8)
    scales = constants(b=b, az=np.uint8(127), bz=np.int8(0), sa=np.float32(0.02), sb=np.float32(0.01), sy=np.float32(1.5), yz=np.uint8(120))
    pick = {c.name: c for c in scales}

    def repeated(op, inputs, domain=""):
        return [helper.make_node(op, inputs, [f"y{i}"], domain=domain) for i in range(8)], [pick[i] for i in inputs if i in pick]

    size = f"{m}x{k}x{n}"
    save(folder, f"integer_{size}", {"a": a}, *repeated("MatMulInteger", ["a", "b", "az", "bz"]))
    save(folder, f"qlinear_{size}", {"a": a}, *repeated("QLinearMatMul", ["a", "sa", "az", "b", "sb", "bz", "sy", "yz"]))
    save(folder, f"dynamic_{size}", {"a": rng.standard_normal((m, k), np.float32)}, *repeated("DynamicQuantizeMatMul", ["a", "b", "sb", "bz"], "com.microsoft"))


def write_byte_convolution(folder, channels, filters, size, kernel, groups):
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (1, channels, size, size), np.uint8), rng.integers(-128, 128, (filters, channels // groups, kernel, kernel), np.int8)
    weights = constants(w=w, xz=np.uint8(127), wz=np.int8(0), sx=np.float32(0.02), sw=np.float32(0.01), sy=np.float32(1.5), yz=np.uint8(120))
    pick = {c.name: c for c in weights}
    attributes = {"pads": [kernel // 2] * 4, "group": groups}
    name = f"{channels}to{filters}_{size}_{kernel}x{kernel}"
    for kind, op, inputs in (("convinteger", "ConvInteger", ["x", "w", "xz", "wz"]), ("qlinearconv", "QLinearConv", ["x", "sx", "xz", "w", "sw", "wz", "sy", "yz"])):
        nodes = [helper.make_node(op, inputs, [f"y{i}"], **attributes) for i in range(8)]
        save(folder, f"{kind}_{name}", {"x": x}, nodes, [pick[i] for i in inputs if i in pick])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for m, k, n in LINEAR:
        write(folder, f"linear_{m}x{k}x{n}", (m, k), (k, n), True)
    for batch, m, k, n in BATCHED:
        write(folder, f"batched_{batch}x{m}x{k}x{n}", (batch, m, k), (batch, k, n), False)
    for sizes in BYTES:
        write_bytes(folder, *sizes)
    for sizes in BYTE_CONVOLUTIONS:
        write_byte_convolution(folder, *sizes)


if __name__ == "__main__":
    main()
