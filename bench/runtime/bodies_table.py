#!/usr/bin/env python3
"""Operators and their function bodies, over the standard's node cases that have both forms (`test_X` and `test_X_expanded*`).

usage: bench/runtime/bodies_table.py --binary build/saturate [--only PART] [--misses] [--json OUT.json] [--rules MORE.rules]

An operator's model is optimized for a target that takes all but this operator: does it go, and is the result right?
An expanded model is optimized with the cost of nodes: is the result the one operator (or nothing dearer), and right?
Results run in the reference evaluator of onnx, or where that fails in saturate, on the inputs of the case, and are compared with its outputs.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

RANDOM = {"Bernoulli"}  # drawn: two runs differ, so only shapes and types are compared


def cases_with_bodies():
    """name -> TestCase of each case that has an expanded form, and of each expanded form."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = {c.name: c for c in load_model_tests(kind="node")}
    expanded = [n for n in cases if "_expanded" in n]
    plain = {n.split("_expanded")[0] for n in expanded}
    return {n: c for n, c in cases.items() if n in plain}, {n: cases[n] for n in expanded}


def operator_of(case):
    (node,) = case.model.graph.node
    return node.op_type


def operators(model):
    """Operators of a model, those of bodies of control flow too; without Constants."""
    def of(graph):
        for node in graph.node:
            if node.op_type != "Constant":
                yield node.op_type
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    yield from of(attribute.g)
    return list(of(model.graph))


def declared_feed(case, inputs):
    initializers = {i.name for i in case.model.graph.initializer}
    declared = [i for i in case.model.graph.input if i.name not in initializers]
    return {i.name: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for i, v in zip(declared, inputs)}


NUMBERS = {"bool", "float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}  # of a .npz


def plain_inputs(case):
    """The inputs of a case, where a .npz can hold them: a size or an index among them is one that the operator takes."""
    feed = declared_feed(case, case.data_sets[0][0])
    plain = all(isinstance(v, np.ndarray) and v.dtype.name in NUMBERS for v in map(as_array, feed.values()))
    return {n: as_array(v) for n, v in feed.items()} if plain else None


def as_array(x):
    return np.asarray(x) if isinstance(x, np.generic) else x


def run_reference(path, feed):
    from onnx.reference import ReferenceEvaluator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(onnx.load(path)).run(None, feed)


def run_saturate(binary, path, feed):
    """Without sequences and optionals."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = onnx.load(path)
        np.savez(folder / "in.npz", **feed)
        subprocess.run([binary, "run", path, "--inputs", folder / "in.npz", "-o", folder / "out.npz"], check=True, capture_output=True)
        out = np.load(folder / "out.npz")
        return [typed(out[o.name], o.type.tensor_type.elem_type) for o in model.graph.output]


def typed(array, elem_type):
    """A .npz has types that NumPy does not know as bytes."""
    return array.view(onnx.helper.tensor_dtype_to_np_dtype(elem_type)) if array.dtype.kind == "V" else array


def as_numbers(x):
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype.kind not in "OUS" else x


def differs(got, expected, case, random):
    """Why two results are not the same, or nothing."""
    if isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            return "another number of elements"
        return next((why for g, e in zip(got, expected) if (why := differs(g, e, case, random))), None)
    if isinstance(expected, onnx.TensorProto):
        expected = numpy_helper.to_array(expected)
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return f"shape {got.shape}, not {expected.shape}"
    if got.dtype != expected.dtype:
        return f"type {got.dtype}, not {expected.dtype}"
    if random:
        return None
    half = str(expected.dtype) in ("float16", "bfloat16")
    rtol, atol = (2e-2, 2e-3) if half else (max(case.rtol, 1e-3), max(case.atol, 1e-6))
    got, expected = as_numbers(got), as_numbers(expected)
    if got.dtype.kind == "O" or np.allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True):
        return None if got.dtype.kind != "O" or (got == expected).all() else "other strings"
    with np.errstate(invalid="ignore"):
        return f"off by {np.nanmax(np.abs(got - expected)):.2g}"


def check(binary, path, case, random):
    for inputs, expected in case.data_sets:
        feed = declared_feed(case, inputs)
        why = None
        for run in (lambda: run_reference(path, feed), lambda: run_saturate(binary, path, feed)):
            try:
                got = run()
            except Exception as error:
                why = why or f"does not run: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
                continue
            why = next((w for g, e in zip(got, expected) if (w := differs(g, e, case, random))), None)
            if why is None:
                break
        if why:
            return why
    return None


def optimize(binary, case, folder, target, more):
    """The result's path, or what the command says."""
    (folder / "in.onnx").write_bytes(case.model.SerializeToString())
    (folder / "target.json").write_text(json.dumps(target))
    if case.name.startswith("test_bernoulli"):
        more = [*more, "--no-verify"]
    elif given := plain_inputs(case):
        np.savez(folder / "given.npz", **given)
        more = [*more, "--inputs", folder / "given.npz"]
    command = [binary, "optimize", folder / "in.onnx", folder / "out.onnx", "--target", folder / "target.json", "--report", folder / "report.json", *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return None, "takes more than 120 s"
    if done.returncode:
        return None, f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1][:160] if done.stderr.strip() else ''}"
    return folder / "out.onnx", done.stderr


EVERYTHING = {"name": "everything", "description": "The whole standard.", "min_opset": 7, "max_opset": 28, "cost_model": "nodes",
              "domains": {"ai.onnx.preview": ["*"]}}


def to_body(binary, case, target, more):
    """`gone`, or why not."""
    op = operator_of(case)
    lacking = {**target, "name": f"without {op}", "forbidden": [op, f"ai.onnx.preview::{op}"] if case.model.graph.node[0].domain else [op]}
    with tempfile.TemporaryDirectory() as folder:
        path, said = optimize(binary, case, pathlib.Path(folder), lacking, more)
        if path is None:
            return said, []
        left = operators(onnx.load(path))
        if op in left:
            return "kept", left
        return check(binary, path, case, op in RANDOM) or "gone", left


def to_operator(binary, case, op, target, more):
    """`one` where the operator stands alone, `fewer` where less than an operator does or an older one alone, or what is left."""
    with tempfile.TemporaryDirectory() as folder:
        path, said = optimize(binary, case, pathlib.Path(folder), target, [*more, "--cost", "nodes"])
        if path is None:
            return said, []
        left = operators(onnx.load(path))
        if wrong := check(binary, path, case, op in RANDOM):
            return wrong, left
        return "one" if left == [op] else "fewer" if len(left) <= 1 else "parts", left


def outcomes_of(binary, plain, expanded, ways=("body", "operator"), more=(), jobs=2):
    """One dict for each case and way: case, operator, way, outcome, operators left, and whether it is a hit."""
    todo = []
    if "body" in ways:
        todo += [(n, operator_of(c), "body", lambda c=c: to_body(binary, c, EVERYTHING, more)) for n, c in plain.items()]
    if "operator" in ways:
        for name, case in expanded.items():
            op = operator_of(plain[name.split("_expanded")[0]])
            todo.append((name, op, "operator", lambda c=case, op=op: to_operator(binary, c, op, EVERYTHING, more)))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(lambda job: job[3](), todo))
    return [{"case": name, "operator": op, "way": way, "outcome": outcome, "left": left, "hit": outcome in ("gone", "one", "fewer")}
            for (name, op, way, _), (outcome, left) in zip(todo, done)]


def counted(told):
    """operator -> way -> [hits, cases]."""
    counts = collections.defaultdict(lambda: {"body": [0, 0], "operator": [0, 0]})
    for t in told:
        counts[t["operator"]][t["way"]][0] += t["hit"]
        counts[t["operator"]][t["way"]][1] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--only", default="", help="cases of operators with this in their name")
    parser.add_argument("--misses", action="store_true", help="a line for each case that is no hit")
    parser.add_argument("--way", choices=["body", "operator"], help="one direction only")
    parser.add_argument("--json", help="every outcome")
    parser.add_argument("--rules", help="rules beside the built-in ones, separated by commas")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    plain, expanded = cases_with_bodies()
    plain = {n: c for n, c in plain.items() if args.only in operator_of(c)}
    expanded = {n: c for n, c in expanded.items() if n.split("_expanded")[0] in plain}
    more = [w for rules in (args.rules or "").split(",") if rules for w in ("--rules", rules)]
    told = outcomes_of(args.binary, plain, expanded, [args.way] if args.way else ("body", "operator"), more, args.jobs)
    if args.misses:
        for t in told:
            if not t["hit"]:
                print(f"{t['way']:8} {t['case']}: {t['outcome']} {' '.join(t['left'])}")
    counts = counted(told)
    total = {way: [sum(c[way][i] for c in counts.values()) for i in (0, 1)] for way in ("body", "operator")}
    print("| function | to its body | of | from its body | of |\n|---|---|---|---|---|")
    for op, c in [*sorted(counts.items()), ("all", total)]:
        print(f"| {op} | {c['body'][0]} | {c['body'][1]} | {c['operator'][0]} | {c['operator'][1]} |")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    sys.exit(main())
