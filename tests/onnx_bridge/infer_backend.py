"""Facts and canonical forms against the standard's own node cases (onnx.backend.test).

  infer_backend.py DUMP_FACTS [--filter TEXT] [--convert OPSET ...]

Each case's graph is inferred three times: with the sizes it declares, with a symbol for every dim of its inputs, and with its inputs
as constants; what is told of the outputs must hold for the expected ones. With --convert, each case is brought to canonical form, written
as that opset and run by onnx's reference; the outputs must be those of the original. Exit code 1 if anything is wrong.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

warnings.filterwarnings("ignore")


def dtype_number(value):
    try:
        return onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    except Exception:
        return None


def variant(case, inputs, kind):
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.value_info[:]
    for o in model.graph.output:  # the expected shape must not be read off
        if o.type.HasField("tensor_type"):
            o.type.tensor_type.ClearField("shape")
    sizes = []
    for value, info in zip(inputs, list(model.graph.input)):
        if not isinstance(value, np.ndarray) or not info.type.HasField("tensor_type"):
            continue
        if kind == "constant":
            tensor = numpy_helper.from_array(value, info.name)
            if tensor.data_type != info.type.tensor_type.elem_type:
                continue
            model.graph.initializer.append(tensor)
            model.graph.input.remove(info)
        elif kind == "symbolic":
            shape = info.type.tensor_type.shape
            del shape.dim[:]
            for axis in range(value.ndim):
                shape.dim.add().dim_param = f"{info.name}_{axis}"
            sizes.append(f"{info.name}={','.join(map(str, value.shape))}")
    return model, sizes


def complaints(fact, info, value):
    if fact is None or fact["kind"] == 0 or not isinstance(value, np.ndarray):
        return []
    bad = []
    if fact["kind"] != 1:
        return [f"kind {fact['kind']}"]
    wanted = info.type.tensor_type.elem_type
    if fact["dtype"] and fact["dtype"] != wanted:
        bad.append(f"dtype {fact['dtype']} v {wanted}")
    shape = fact.get("shape")
    if shape is not None and (len(shape) != value.ndim or any(d is not None and d != n for d, n in zip(shape, value.shape))):
        bad.append(f"shape {shape} v {list(value.shape)}")
    for key in ("content", "bools"):
        if key in fact and any(d is not None and d != n for d, n in zip(fact[key], value.reshape(-1).tolist())):
            bad.append(f"{key} {fact[key]} v {value.reshape(-1).tolist()}")
    return bad


def check_facts(tool, case, inputs, outputs, folder, counts):
    wrong = []
    for kind in ("declared", "symbolic", "constant"):
        model, sizes = variant(case, inputs, kind)
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        told = subprocess.run([tool, "facts", path, *sizes], capture_output=True, text=True)
        if told.returncode or told.stderr:
            wrong.append(f"{kind}: {told.stderr.strip()}")
            counts["refused"] += 1
            continue
        facts = json.loads(told.stdout)
        for info, value in zip(model.graph.output, outputs):
            wrong += [f"{kind}: {info.name}: {c}: {facts[info.name]['text']}" for c in complaints(facts.get(info.name), info, value)]
            counts[kind, "rank known" if "shape" in facts.get(info.name, {}) else "rank unknown"] += 1
            known = facts.get(info.name, {}).get("shape")
            counts[kind, "all dims known" if known is not None and None not in known else "not all dims known"] += 1
            if kind == "declared" and (known is None or None in known):
                counts["open", case.model.graph.node[-1].op_type] += 1
    return wrong


def check_conversion(tool, case, inputs, folder, opset):
    path, out = os.path.join(folder, "model.onnx"), os.path.join(folder, "out.onnx")
    onnx.save(case.model, path)
    ops = {n.op_type for n in case.model.graph.node}
    if "Bernoulli" in case.name or "bernoulli" in case.name or any(op.startswith("Random") for op in ops):
        return None, "random"
    if "BatchNormalization" in ops and opset < 14 or "RoiAlign" in ops and opset < 16:
        return None, "the reference normalizes by the batch below opset 14, and aligns otherwise than ONNX Runtime below 16"
    feed = {i.name: v for i, v in zip(case.model.graph.input, inputs)}
    try:
        expected = ReferenceEvaluator(case.model).run(None, feed)
    except Exception:
        return None, "original"
    told = subprocess.run([tool, "convert", path, out, str(opset)], capture_output=True, text=True)
    if told.returncode == 3:
        return None, told.stderr.strip()
    if told.returncode:
        return False, told.stderr.strip()
    try:
        converted = onnx.load(out)
        got = ReferenceEvaluator(converted).run(None, feed)
    except Exception as error:
        if "No implementation for operator" in str(error):
            return None, "the reference does not have this version"
        return False, f"{type(error).__name__}: {str(error)[:200]}"
    for a, b in zip(expected, got):
        if isinstance(a, np.ndarray) and a.dtype.kind in "fiub":
            if a.shape != np.shape(b) or a.dtype != b.dtype or not np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-4, atol=1e-5, equal_nan=True):
                return False, f"differs: {a.dtype}{list(a.shape)} {b.dtype}{list(np.shape(b))}"
    return True, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump_facts")
    parser.add_argument("--filter", default="")
    parser.add_argument("--convert", type=int, action="append", default=[])
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    from onnx.backend.test.case.node import collect_testcases

    counts, wrong = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for case in collect_testcases(None):
            if args.filter not in case.name or not case.data_sets:
                continue
            inputs, outputs = case.data_sets[0]
            bad = check_facts(args.dump_facts, case, inputs, outputs, folder, counts) if not args.convert else []
            for opset in args.convert:
                ok, why = check_conversion(args.dump_facts, case, inputs, folder, opset)
                counts["convert", opset, {True: "same", False: "WRONG", None: "cannot"}[ok]] += 1
                if ok is False or (args.verbose and ok is None and why != "original"):
                    (bad if ok is False else []).append(f"{opset}: {why}")
                    if ok is None:
                        print("cannot", case.name, why)
            wrong += bool(bad)
            for line in bad[:3]:
                print("WRONG", case.name, line, flush=True)
    for key, n in sorted(counts.items(), key=str):
        print(key, n)
    print(f"{wrong} cases wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
