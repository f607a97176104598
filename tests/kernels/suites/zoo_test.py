#!/usr/bin/env python3
"""Runs the models of a folder (name.onnx, name.inputs.npz, name.expected.npz) through backend_runner and compares with the recorded outputs.

usage: zoo_test.py RUNNER FOLDER [--rtol 1e-3] [--work DIR] [--filter TEXT] [--reference]

The tolerance is relative to the largest expected magnitude of each output. Exits 1 where a model differs or cannot be run.
"""
import argparse
import collections
import glob
import os
import shutil
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backend_test


def write_arrays(path, folder, kind, names):
    arrays = np.load(path)
    positional = set(arrays.files).isdisjoint(names)
    for k, name in enumerate(names):
        key = arrays.files[k] if positional and k < len(arrays.files) else name
        if key in arrays.files:
            with open(os.path.join(folder, f"{kind}_{k}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(arrays[key], name).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("folder")
    parser.add_argument("--rtol", type=float, default=1e-3)
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "saturate_zoo_cases"))
    parser.add_argument("--filter", default="")
    parser.add_argument("--reference", action="store_true")
    args = parser.parse_args()
    lines = []
    for model_path in sorted(glob.glob(os.path.join(args.folder, "*.onnx"))):
        name = os.path.basename(model_path)[: -len(".onnx")]
        if args.filter not in name:
            continue
        folder = os.path.join(args.work, name)
        data = os.path.join(folder, "test_data_set_0")
        if not os.path.isdir(data):
            os.makedirs(data)
            model = onnx.load(model_path, load_external_data=False)
            shutil.copy(model_path, os.path.join(folder, "model.onnx"))
            for side in glob.glob(model_path + ".data"):
                shutil.copy(side, folder)
            stem = model_path[: -len(".onnx")]
            write_arrays(stem + ".inputs.npz", data, "input", [i.name for i in model.graph.input])
            write_arrays(stem + ".expected.npz", data, "output", [o.name for o in model.graph.output])
        lines.append(f"{folder} {args.rtol} 1e-5 scale" + (" reference" if args.reference else ""))
    results = backend_test.run(args.runner, lines)
    counts = collections.Counter(r.split()[0] for r in results.values())
    for folder, result in sorted(results.items()):
        if result != "PASS":
            print(os.path.basename(folder), result)
    print(len(results), dict(counts))
    sys.exit(0 if results and counts["PASS"] == len(results) else 1)


if __name__ == "__main__":
    main()
