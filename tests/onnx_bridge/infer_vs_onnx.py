"""Checks facts and canonical forms against what really comes out.

  infer_vs_onnx.py DUMP_FACTS MODEL.onnx ... [--egraph] [--convert OPSET ...]

Every value of a model is made an output and run (ONNX Runtime without optimization, else onnx's reference); then every known dim,
dtype and content of `dump_facts` must hold, at the sizes of MODEL.inputs.npz where that file exists and at other sizes drawn here. With --convert each model is
brought to canonical form, written as that opset and run again: the outputs must agree. Exit code 1 if anything is wrong.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

NUMPY = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64, 2: np.uint8, 3: np.int8}


def session(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def with_all_outputs(model):
    every = onnx.ModelProto()
    every.CopyFrom(model)
    have = {o.name for o in every.graph.output}
    for node in every.graph.node:
        for name in node.output:
            if name and name not in have:
                have.add(name)
                every.graph.output.add().name = name
    return every


def draw_inputs(model, rng, alike):
    """Other sizes for every symbolic dim; alike: the same symbol has the same size in all inputs."""
    sizes, inputs = {}, {}
    initializers = {i.name for i in model.graph.initializer}
    for i in model.graph.input:
        if i.name in initializers:
            continue
        t = i.type.tensor_type
        shape = []
        for d in t.shape.dim:
            if d.dim_value > 0:
                shape.append(d.dim_value)
            else:
                key = d.dim_param if d.dim_param and alike else (i.name, d.dim_param or len(shape))
                shape.append(sizes.setdefault(key, int(rng.integers(1 if alike else 2, 8))))
        dtype = NUMPY.get(t.elem_type)
        if dtype is None:
            return None
        if dtype == np.bool_:
            inputs[i.name] = np.ones(shape, np.bool_)
        elif np.issubdtype(dtype, np.integer):
            inputs[i.name] = np.ones(shape, dtype) if "mask" in i.name else rng.integers(0, 2, shape).astype(dtype)
        else:
            inputs[i.name] = rng.standard_normal(shape).astype(dtype)
    return inputs


def compare(facts, name, value):
    """Complaints about one value, and counts of (known dims, dims)."""
    f = facts.get(name)
    if f is None or f["kind"] != 1 or not isinstance(value, np.ndarray):
        return [], (0, 0)
    bad = []
    dtype = NUMPY.get(f["dtype"])
    if f["dtype"] and dtype is not None and dtype != value.dtype:
        bad.append(f"dtype {value.dtype}")
    shape = f.get("shape")
    if shape is not None:
        if len(shape) != value.ndim or any(d is not None and d != n for d, n in zip(shape, value.shape)):
            bad.append(f"shape {list(value.shape)} v {shape}")
    for key in ("content", "bools"):
        if key in f:
            flat = value.reshape(-1).tolist()
            if len(flat) != len(f[key]) or any(d is not None and d != n for d, n in zip(f[key], flat)):
                bad.append(f"{key} {flat} v {f[key]}")
    known = 0 if shape is None else sum(d is not None for d in shape)
    return [f"{name}: {', '.join(bad)}: {f['text']}"] if bad else [], (known, value.ndim)


def check_facts(args, path, model, runner, inputs):
    try:
        outputs = runner.run(None, inputs)
    except Exception as error:
        if args.verbose:
            print("does not run:", path, str(error)[:200])
        return [], (0, 0)
    sizes = [f"{k}={','.join(map(str, v.shape))}" for k, v in inputs.items()]
    command = [args.dump_facts, "facts", path] + (["--egraph"] if args.egraph else []) + sizes
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode or told.stderr:
        return [f"dump_facts: {told.stderr.strip()} ({told.returncode})"], (0, 0)
    facts = json.loads(told.stdout)
    bad, known, total = [], 0, 0
    for info, value in zip(runner.get_outputs(), outputs):
        complaints, (k, n) = compare(facts, info.name, value)
        bad += complaints
        known, total = known + k, total + n
        if args.unknown and n > k:
            print("   unknown", info.name, list(value.shape), facts.get(info.name, {}).get("text"))
    return bad, (known, total)


def check_conversion(args, path, model, inputs, opset):
    try:
        onnx.checker.check_model(model)
        expected = session(model).run(None, inputs)
    except Exception as error:
        return None, f"original does not run: {error}"
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "converted.onnx")
        told = subprocess.run([args.dump_facts, "convert", path, out, str(opset)], capture_output=True, text=True)
        if told.returncode == 3:
            return None, told.stderr.strip()
        if told.returncode:
            return False, told.stderr.strip()
        converted = onnx.load(out)
        onnx.checker.check_model(converted)
        got = session(converted).run(None, inputs)
    for a, b in zip(expected, got):
        if not np.allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-4, atol=1e-4, equal_nan=True):
            return False, "numbers differ"
    return True, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump_facts")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--egraph", action="store_true")
    parser.add_argument("--convert", type=int, action="append", default=[])
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--unknown", action="store_true", help="list values of unknown dims")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    wrong = known = total = ran = skipped = converted = inexpressible = 0
    for path in args.models:
        model = onnx.load(path)
        stem = re.sub(r"\.onnx$", "", path)
        rng = np.random.default_rng(1)
        wanted = {i.name for i in model.graph.input}
        given = np.load(stem + ".inputs.npz") if os.path.exists(stem + ".inputs.npz") else None
        draws = [] if given is None else [{k: given[k] for k in given.files if k in wanted}]
        draws += [d for d in (draw_inputs(model, rng, k != args.draws) for k in range(args.draws + 1)) if d is not None]
        try:
            runner = session(with_all_outputs(model))
        except Exception as error:
            skipped += 1
            if args.verbose:
                print("SKIP", path, str(error)[:200])
            continue
        for inputs in draws:
            bad, (k, n) = check_facts(args, path, model, runner, inputs)
            known, total, ran, wrong = known + k, total + n, ran + (n > 0), wrong + bool(bad)
            for line in bad[:8]:
                print("WRONG", os.path.basename(path), line)
        for opset in args.convert if draws else []:
            try:
                ok, why = check_conversion(args, path, model, draws[0], opset)
            except Exception as error:
                ok, why = False, str(error)[:300]
            wrong += ok is False
            converted, inexpressible = converted + (ok is True), inexpressible + (ok is None)
            if not ok and (ok is False or args.verbose):
                print("CONVERT" if ok is False else "cannot", opset, os.path.basename(path), why)
    print(f"{len(args.models)} models, {skipped} not run, {ran} runs compared, {known} of {total} dims known, {converted} converted, {inexpressible} inexpressible, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
