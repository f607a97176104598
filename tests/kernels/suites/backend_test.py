#!/usr/bin/env python3
"""Runs the standard's own backend node cases (onnx.backend.test) through backend_runner, all in one process. (Through the Python
package: bench/runtime/backend_table.py.)

usage: backend_test.py RUNNER [--work DIR] [--filter TEXT] [--reference] [--failures] [--at-least N]

Prints a count by outcome and, with --failures, a line for every case that doesn't pass. Exits 1 below --at-least.
"""
import argparse
import collections
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import helper, numpy_helper


def to_proto(value, type_proto, name):
    """A data set's value as the message that its graph input's type asks for."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    kind = type_proto.WhichOneof("value")
    if kind == "optional_type":
        return numpy_helper.from_optional(value, name)
    if kind == "sequence_type":
        return numpy_helper.from_list(list(value), name)
    array = np.asarray(value)
    dtype = type_proto.tensor_type.elem_type
    if array.dtype == object or array.dtype.kind in "US":
        return numpy_helper.from_array(array.astype(object), name)
    try:
        if helper.tensor_dtype_to_np_dtype(dtype) == array.dtype:
            return numpy_helper.from_array(array, name)
    except Exception:
        pass
    return numpy_helper.from_array(array, name)


def write_case(case, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(case.model.SerializeToString())
    initializers = {i.name for i in case.model.graph.initializer}
    declared = [i for i in case.model.graph.input if i.name not in initializers]
    declared = declared if len(declared) >= len(case.data_sets[0][0]) else list(case.model.graph.input)
    positions = {i.name: k for k, i in enumerate(case.model.graph.input)}
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = os.path.join(folder, f"test_data_set_{number}")
        os.makedirs(data, exist_ok=True)
        for value, info in zip(inputs, declared):
            with open(os.path.join(data, f"input_{positions[info.name]}.pb"), "wb") as f:
                f.write(to_proto(value, info.type, info.name).SerializeToString())
        for k, (value, info) in enumerate(zip(outputs, case.model.graph.output)):
            with open(os.path.join(data, f"output_{k}.pb"), "wb") as f:
                f.write(to_proto(value, info.type, info.name).SerializeToString())


def run(runner, lines):
    """Outcome by folder. A case that takes the process down counts as a crash; the next process goes on after it."""
    results, left = {}, list(lines)
    while left:
        process = subprocess.run([runner], input="\n".join(left) + "\n", capture_output=True, text=True, errors="replace")
        current = None
        for line in process.stdout.splitlines():
            if line.startswith("RUN "):
                current = line[4:]
            elif current is not None:
                results[current] = line
                current = None
        if current is not None:
            results[current] = f"CRASH {process.returncode}"
        rest = [line for line in left if line.split()[0] not in results]
        if len(rest) == len(left):
            sys.exit(f"{runner} ran nothing: {process.stderr[-500:]}")
        left = rest
    return results


def node_cases():
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_model_tests(kind="node")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "saturate_backend_cases"))
    parser.add_argument("--filter", default="")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--failures", action="store_true")
    parser.add_argument("--at-least", type=int, default=0)
    args = parser.parse_args()
    stamp = os.path.join(args.work, "cases.txt")
    if not os.path.exists(stamp):
        lines = []
        for case in node_cases():
            folder = os.path.join(args.work, case.name)
            write_case(case, folder)
            lines.append(f"{folder} {case.rtol} {case.atol} each")
        with open(stamp, "w") as f:
            f.write("\n".join(lines))
    with open(stamp) as f:
        lines = [line for line in f.read().splitlines() if args.filter in os.path.basename(line.split()[0])]
    if args.reference:
        lines = [line + " reference" for line in lines]
    finish(run(args.runner, lines), args)


def finish(results, args):
    counts = collections.Counter(r.split()[0] for r in results.values())
    if args.failures:
        for folder, result in sorted(results.items()):
            if result != "PASS":
                print(os.path.basename(folder), result)
    print(len(results), dict(counts))
    sys.exit(0 if counts["PASS"] >= args.at_least else 1)


if __name__ == "__main__":
    main()
