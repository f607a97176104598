"""At which shapes of graph ONNX Runtime's optimizers end the process or refuse the model: the rows of extract/runtimes/dies_of.json.

    python bench/runtime/runtime_deaths.py PYTHON...    # interpreters, each with another onnxruntime

A dequantized value behind each of some operators is read by a node, a body or nobody; a Transpose of halves stands before a MatMul, with a Reshape or without;
and a MatMul with an Add behind it reads a dequantized value.
Each graph is loaded with and without optimizations, in a process of its own; those are printed that end by a signal, or are refused, with them alone."""
import argparse
import itertools
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LOAD = """
import os, sys, onnxruntime as ort
print("release", ort.__version__, flush=True)
ort.set_default_logger_severity(4)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
def ends(path, level):
    child = os.fork()
    if child == 0:
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        try:
            ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]
for line in sys.stdin:
    plain, optimized = (ends(line.strip(), level) for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL))
    print(plain, optimized & 127, optimized >> 8, flush=True)
"""
INDICES = {"Reshape": [[3, 8]], "Squeeze": [[3]], "Unsqueeze": [[0]], "Slice": [[0], [1], [1]], "Expand": [[2, 2, 3, 4, 1]], "Tile": [[2, 1, 1, 1]], "Gather": [[1, 0]]}
ATTRIBUTES = {"Transpose": {"perm": [1, 0, 2, 3]}, "MaxPool": {"kernel_shape": [1, 1]}, "Flatten": {}, "Relu": {}, "Concat": {"axis": 0}}


def model(nodes, inputs, outputs, constants):
    values = lambda given: [helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in given]
    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def moved_behind_a_dequantizer():
    for op, dtype, reader, zero in itertools.product([*INDICES, *ATTRIBUTES], ["uint8", "int8", "int16"], ["If", "node", "output"], [0, 5]):
        constants = {"s": np.float32(0.5), "z": np.dtype(dtype).type(zero)} | {f"i{i}": np.int64(v) for i, v in enumerate(INDICES.get(op, []))}
        nodes = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"])]
        nodes.append(helper.make_node(op, ["d", *(name for name in constants if name[0] == "i")], ["y"], **ATTRIBUTES.get(op, {})))
        inputs, last = [("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [2, 3, 4, 1])], "y" if reader == "output" else "r"
        if reader == "If":
            body = lambda name: helper.make_graph([helper.make_node("Neg", ["y"], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)])
            nodes.append(helper.make_node("If", ["c"], ["r"], then_branch=body("p"), else_branch=body("q")))
            inputs.append(("c", TensorProto.BOOL, []))
        elif reader == "node":
            nodes.append(helper.make_node("Neg", ["y"], ["r"]))
        yield f"DequantizeLinear {dtype} {zero}, {op}, {reader}", model(nodes, inputs, [(last, 1, None)], constants)


def products_of_halves():
    half = TensorProto.FLOAT16
    for rank, lead, other in itertools.product([2, 3, 4], [0, 1], ["matrix", "tensor of its rank", "tensor of a higher rank"]):
        for perm in itertools.permutations(range(rank)):
            shape = [[2, 3, 4, 5][p] for p in perm]
            nodes, constants = [helper.make_node("Transpose", ["x"], ["t"], perm=perm)], {}
            if lead:
                nodes.append(helper.make_node("Reshape", ["t", "to"], ["v"]))
                constants["to"] = np.int64([1, *shape])
            more = {"matrix": 0, "tensor of its rank": rank + lead - 2, "tensor of a higher rank": rank + lead - 1}[other]
            constants["w"] = np.ones([1] * more + [shape[-1], 6], np.float16)
            nodes.append(helper.make_node("MatMul", ["v" if lead else "t", "w"], ["y"]))
            name = f"Transpose {list(perm)},{' Reshape,' if lead else ''} MatMul with a {other}"
            yield name, model(nodes, [("x", half, [2, 3, 4, 5][:rank])], [("y", half, None)], constants)


def sums_behind_a_dequantizer():
    for rank, dtype, bias in itertools.product([2, 3, 4], ["uint8", "int8"], [[6], [1, 6], [3, 6]]):
        constants = {"s": np.float32(0.5), "z": np.dtype(dtype).type(5), "w": np.ones([5, 6], np.float32), "b": np.ones(bias, np.float32)}
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
            helper.make_node("MatMul", ["d", "w"], ["p"]),
            helper.make_node("Add", ["p", "b"], ["y"]),
        ]
        inputs = [("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [2, 2, 3, 5][4 - rank:])]
        yield f"MatMul of rank {rank} behind {dtype}, Add of rank {len(bias)}", model(nodes, inputs, [("y", 1, None)], constants)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="+")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as here:
        paths = {}
        for number, (name, drawn) in enumerate([*moved_behind_a_dequantizer(), *products_of_halves(), *sums_behind_a_dequantizer()]):
            onnx.save(drawn, path := pathlib.Path(here) / f"{number}.onnx")
            paths[name] = path
        for python in args.python:
            done = subprocess.run([python, "-c", LOAD], input="".join(f"{path}\n" for path in paths.values()), capture_output=True, text=True, check=True)
            release, *rows = done.stdout.splitlines()
            ended = [(name, *row.split()[1:]) for name, row in zip(paths, rows, strict=True) if row.split()[0] == "0" and row.split()[1:] != ["0", "0"]]
            print(f"{release}: {len(paths)} graphs, {sum(signal != '0' for _, signal, _ in ended)} end the process")
            for name, signal, _ in ended:
                print(f"  signal {signal}: {name}" if signal != "0" else f"  refused: {name}")


if __name__ == "__main__":
    main()
