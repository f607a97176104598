#!/usr/bin/env python3
"""How much memory `onnx_saturate.optimize` takes for a big onnx.ModelProto: peak resident size beyond the input, in copies of its weights.

usage: python_memory.py [--megabytes 500] [--no-verify] [--kind proto|bytes|path]

The model is a chain of MatMul, Add and Relu with square weights. The result is a model of its own and holds one copy; what is above it is
extra. Measured in a process of its own, from /proc (VmHWM, reset after the input is there).
"""
import argparse
import gc
import pathlib
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE = 1024  # a weight takes 4 MiB


def make_model(megabytes):
    rng = np.random.default_rng(1)
    nodes, weights, value = [], [], "x"
    for i in range(max(1, round(megabytes * 1e6 / (4 * SIDE * SIDE)))):
        weights.append(numpy_helper.from_array(rng.normal(size=(SIDE, SIDE)).astype(np.float32) / SIDE**0.5, f"w{i}"))
        weights.append(numpy_helper.from_array(rng.normal(size=SIDE).astype(np.float32), f"b{i}"))
        nodes += [
            helper.make_node("MatMul", [value, f"w{i}"], [f"p{i}"]),
            helper.make_node("Add", [f"p{i}", f"b{i}"], [f"s{i}"]),
            helper.make_node("Relu", [f"s{i}"], [f"r{i}"]),
        ]
        value = f"r{i}"
    nodes.append(helper.make_node("Identity", [value], ["y"]))
    shape = ["n", SIDE]
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=500)
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--kind", choices=["proto", "bytes", "path"], default="proto")
    args = parser.parse_args()
    import onnx_saturate

    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name) / "model.onnx"
    onnx.save(make_model(args.megabytes), path)
    onnx_saturate.optimize(make_model(1))  # what is loaded once
    gc.collect()
    model = {"proto": lambda: onnx.load(path), "bytes": path.read_bytes, "path": lambda: path}[args.kind]()
    weights = path.stat().st_size
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    before, start = status("VmRSS"), time.perf_counter()
    result = onnx_saturate.optimize(model, verify=not args.no_verify)
    seconds, peak, after = time.perf_counter() - start, status("VmHWM"), status("VmRSS")
    del result
    def copies(size):
        return size / weights

    print(
        f"{args.kind}, {weights / 1e6:.0f} MB, {'without' if args.no_verify else 'with'} verification: {seconds:.1f} s; "
        f"peak {copies(peak - before):.2f} copies above the input, of which the result is 1: {copies(peak - before) - 1:.2f} extra; "
        f"{copies(after - before):.2f} held afterwards"
    )


if __name__ == "__main__":
    main()
