#!/usr/bin/env python3
"""Writes one model per matrix product for bench/latency.py: with a constant right side as in a linear layer, and batched as in attention.

    python bench/matmul_models.py FOLDER
"""
import pathlib
import sys

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


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for m, k, n in LINEAR:
        write(folder, f"linear_{m}x{k}x{n}", (m, k), (k, n), True)
    for batch, m, k, n in BATCHED:
        write(folder, f"batched_{batch}x{m}x{k}x{n}", (batch, m, k), (batch, k, n), False)


if __name__ == "__main__":
    main()
