#!/usr/bin/env python3
"""Olive's surgeries towards rank 4 beside ours, on the same graphs.

Usage: olive_rank4.py --binary build/saturate [FOLDER|MODEL.onnx...] [--graphs 200] [--seed 1] [--target npu-4d] [--json OUT.json]

Needs olive-ai, onnxruntime and onnx, best in a venv of its own. Graphs are drawn that hold what the surgeons look for: each surgeon alone on
graphs with its operator, and the whole chain on graphs with several. Models come with MODEL.inputs.npz, whose sizes are made fixed.
Theirs is judged kindly: nodes are put in order, and shapes that no longer hold are taken away first.
Where their outputs have other ranks than the graph's, ours is asked for the same by --io-rank 4.
Told of each side: whether the result is valid and loads in ONNX Runtime, whether its outputs are those of the graph (the same numbers in the
same order, of any rank), its operators, and how many of them the target refuses. Exit status 1 where ours is not right, or needs more operators
than a right result of theirs with the same shapes of which the target refuses no more.
"""
import argparse
import collections
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from refused import fixed

CHAIN = ["RemoveIntermediarySqueezeAndUnsqueeze", "Non4DModelInputs", "StandaloneReduceSum", "Gather", "GatherElements",
         "MatMulToTransposeConvTranspose", "Non4DInitializers", "Non4DReshape", "Non4DExpand", "Non4DTranspose", "Non4DSlice", "Non4DLpNorm",
         "Flatten", "RemoveAllTensorValueShapes", "Non4DModelOutputs"]
OPSET = 18
CLOSE = 1e-4  # of the largest element


class Drawn:
    """A chain of operators on one value whose shape is known at each step."""

    def __init__(self, rng, shape):
        self.rng, self.shape, self.value = rng, list(shape), "x"
        self.start, self.nodes, self.initializers = list(shape), [], []

    def constant(self, array):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op, shape, *more, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.value, *more], [out], name=f"{op}_{len(self.nodes)}", **attributes))
        self.value, self.shape = out, list(shape)

    def model(self):
        if not self.nodes:
            self.add("Relu", self.shape)
        make = helper.make_tensor_value_info
        graph = helper.make_graph(self.nodes, "drawn", [make("x", TensorProto.FLOAT, self.start)], [make(self.value, TensorProto.FLOAT, self.shape)],
                                  self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def weights(g, *shape):
    return g.constant(g.rng.standard_normal(shape).astype(np.float32) / 4)


def matmul(g):
    width = int(g.rng.integers(2, 9))
    g.add("MatMul", [*g.shape[:-1], width], weights(g, g.shape[-1], width))


def gemm(g):
    if len(g.shape) != 2:
        return matmul(g)
    width, turned = int(g.rng.integers(2, 9)), int(g.rng.integers(2))
    w = weights(g, width, g.shape[-1]) if turned else weights(g, g.shape[-1], width)
    g.add("Gemm", [g.shape[0], width], w, weights(g, width), transB=turned)


def transpose(g):
    perm = [int(p) for p in g.rng.permutation(len(g.shape))]
    g.add("Transpose", [g.shape[p] for p in perm], perm=perm)


def reshape(g):
    size = int(np.prod(g.shape))
    first = int(g.rng.choice([d for d in range(1, size + 1) if size % d == 0]))
    rest = size // first
    second = int(g.rng.choice([d for d in range(1, rest + 1) if rest % d == 0]))
    shape = [first, second, rest // second]
    g.add("Reshape", shape, g.constant(np.array(shape, np.int64)))


def expand(g):
    if len(g.shape) != 3 or 1 not in g.shape:
        return reshape(g)
    shape = [int(g.rng.integers(2, 4)) if d == 1 else d for d in g.shape]
    g.add("Expand", shape, g.constant(np.array(shape, np.int64)))


def cut(g):
    axis = int(g.rng.integers(len(g.shape)))
    end = int(g.rng.integers(1, g.shape[axis] + 1))
    shape = [end if i == axis else d for i, d in enumerate(g.shape)]
    g.add("Slice", shape, *(g.constant(np.array([v], np.int64)) for v in (0, end, axis)))


def reduced(op):
    def make(g):
        if len(g.shape) < 2:
            return unary(g)
        axis, keep = int(g.rng.integers(len(g.shape))), int(g.rng.integers(2))
        shape = [1 if i == axis else d for i, d in enumerate(g.shape) if keep or i != axis]
        g.add(op, shape, g.constant(np.array([axis], np.int64)), keepdims=keep)
    return make


def gather(g):
    if len(g.shape) < 2:
        return unary(g)
    axis = int(g.rng.integers(len(g.shape)))
    g.add("Gather", [d for i, d in enumerate(g.shape) if i != axis], g.constant(np.int64(g.rng.integers(g.shape[axis]))), axis=axis)


def gather_elements(g):
    axis = int(g.rng.integers(len(g.shape)))
    g.add("GatherElements", g.shape, g.constant(g.rng.integers(g.shape[axis], size=g.shape).astype(np.int64)), axis=axis)


def lp_norm(g):
    g.add("LpNormalization", g.shape, axis=int(g.rng.integers(len(g.shape))), p=2)


def flatten(g):
    axis = int(g.rng.integers(len(g.shape) + 1))
    g.add("Flatten", [int(np.prod(g.shape[:axis])), int(np.prod(g.shape[axis:]))], axis=axis)


def scaled(g):
    g.add(str(g.rng.choice(["Mul", "Sub", "Div"])), g.shape, g.constant((1 + g.rng.random(g.shape[-1])).astype(np.float32)))


def unary(g):
    g.add(str(g.rng.choice(["Relu", "Tanh", "Sigmoid"])), g.shape)


def squeezed(g):
    axis = int(g.rng.integers(len(g.shape) + 1))
    back = list(g.shape)
    g.add("Unsqueeze", [*back[:axis], 1, *back[axis:]], g.constant(np.array([axis], np.int64)))
    unary(g)
    g.add("Squeeze", back, g.constant(np.array([axis], np.int64)))


# What each surgeon looks for.
SURGEONS = {
    "RemoveIntermediarySqueezeAndUnsqueeze": squeezed, "StandaloneReduceSum": reduced("ReduceSum"), "Gather": gather,
    "GatherElements": gather_elements, "MatMulToTransposeConvTranspose": matmul, "Non4DInitializers": scaled, "Non4DReshape": reshape,
    "Non4DExpand": expand, "Non4DTranspose": transpose, "Non4DSlice": cut, "Non4DLpNorm": lp_norm, "Flatten": flatten,
    "Non4DModelInputs": unary, "Non4DModelOutputs": unary, "ReduceMax": reduced("ReduceMax"),
}
STEPS = [matmul, gemm, transpose, reshape, expand, cut, reduced("ReduceSum"), reduced("ReduceMax"), gather, gather_elements, lp_norm, flatten,
         scaled, unary, squeezed]


def drawn(rng, steps):
    g = Drawn(rng, [int(d) for d in rng.integers(1, 7, int(rng.integers(2, 5)))])
    for step in steps:
        if len(g.shape) < 5 and np.prod(g.shape) < 4096:
            step(g)
    return g.model()


def operators(model):
    return sum(node.op_type != "Constant" for node in model.graph.node)


def refused(binary, path, target):
    done = subprocess.run([binary, "targets", "check", path, "--target", target, "--no-forms", "--json"], capture_output=True, text=True)
    return len(json.loads(done.stdout)["inexpressible"]) if done.stdout else None


def outputs(model, feed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shaped = {i.name: feed[i.name].reshape(i.shape) if all(isinstance(d, int) for d in i.shape) else feed[i.name] for i in session.get_inputs()}
    return session.run(None, shaped)


def equal(got, wanted):
    if len(got) != len(wanted):
        return False
    for a, b in zip(got, wanted):
        if a.size != b.size or a.dtype != b.dtype or [d for d in a.shape if d != 1] != [d for d in b.shape if d != 1]:
            return False
        a, b = a.reshape(b.shape).astype(np.float64), b.astype(np.float64)
        if not np.array_equal(np.isnan(a), np.isnan(b)) or (b.size and np.nanmax(np.abs(a - b), initial=0) > CLOSE * max(1e-6, np.nanmax(np.abs(b), initial=0))):
            return False
    return True


def judged(model, feed, wanted, args, path):
    """How one side did: "right", or what is wrong with it; operators, and those that the target refuses."""
    onnx.save(model, path)
    row = {"operators": operators(model)}
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return row | {"state": "invalid", "error": str(error)[:200]}
    try:
        got = outputs(model, feed)
    except Exception as error:
        return row | {"state": "does not run", "error": str(error)[:200]}
    row["shapes"] = [list(a.shape) for a in got]
    return row | {"state": "right" if equal(got, wanted) else "other numbers", "refused": refused(args.binary, path, args.target)}


def theirs(model, surgeons):
    from olive.passes.onnx.graph_surgeries import Surgeon

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name in surgeons:
        copy = Surgeon.registry[name.lower()]()(copy) or copy
    return copy


def mended(model):
    """With nodes in order and without the shapes that no longer hold, which their surgeons leave to others."""
    known, waiting, ordered = {"", *(i.name for i in model.graph.input), *(i.name for i in model.graph.initializer)}, list(model.graph.node), []
    while ready := [node for node in waiting if known.issuperset(node.input)]:
        known.update(name for node in ready for name in node.output)
        ordered += ready
        waiting = [node for node in waiting if not any(node is r for r in ready)]
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend([*ordered, *waiting])
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception:
        return model


def compare(name, model, surgeons, feed, args, folder):
    wanted = outputs(model, feed)
    source, out = folder / "source.onnx", folder / "ours.onnx"
    onnx.save(model, source)
    out.unlink(missing_ok=True)
    row = {"model": name, "surgeons": surgeons, "operators": operators(model), "refused": refused(args.binary, source, args.target)}
    try:
        changed = theirs(model, surgeons)
        row["touched"] = changed.SerializeToString(deterministic=True) != model.SerializeToString(deterministic=True)
        row["olive"] = judged(mended(changed), feed, wanted, args, folder / "theirs.onnx")
    except Exception as error:
        row |= {"touched": True, "olive": {"state": "fails", "error": f"{type(error).__name__}: {error}"[:200]}}
    shapes = [list(w.shape) for w in wanted]
    same = row["olive"].get("shapes", shapes) == shapes
    options = ["--target", args.target, "--quiet", *([] if same else ["--io-rank", "4"])]
    done = subprocess.run([args.binary, "optimize", source, out, *options], capture_output=True, text=True)
    row["ours"] = judged(onnx.load(out), feed, wanted, args, out) if done.returncode in (0, 4) else {"state": f"exit {done.returncode}", "error": done.stderr[:300]}
    a, b = row["olive"], row["ours"]
    row["more"] = a["state"] == "right" and b["state"] == "right" and row["touched"] and a["shapes"] == b["shapes"] and a["refused"] <= b["refused"] and b["operators"] > a["operators"]
    return row


def cases(args, folder):
    rng = np.random.default_rng(args.seed)
    for i in range(args.graphs):
        for name, step in SURGEONS.items():
            if i < args.alone:
                yield f"{name}_{i}", drawn(rng, [unary, step, unary]), [name], None
        yield f"chain_{i}", drawn(rng, rng.choice(STEPS, int(rng.integers(2, 7)))), CHAIN, None
    for path in sorted(p for m in args.models for p in (m.glob("*.onnx") if m.is_dir() else [m])):
        model, dims, feed = fixed(path, folder)
        if feed is None:
            continue
        loaded = onnx.load(model)
        sizes = dict(d.removeprefix("--dim=").split("=") for d in dims)
        for value in [*loaded.graph.input, *loaded.graph.output]:
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in sizes:
                    dim.dim_value = int(sizes[dim.dim_param])
        del loaded.graph.value_info[:]
        yield path.stem, onnx.shape_inference.infer_shapes(loaded), CHAIN, feed


def feed_of(model, rng):
    return {i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32) for i in model.graph.input}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--binary", default="saturate")
    parser.add_argument("--target", default="npu-4d")
    parser.add_argument("--graphs", type=int, default=100, help="graphs for the whole chain")
    parser.add_argument("--alone", type=int, default=20, help="graphs for each surgeon alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"
    logging.disable(logging.CRITICAL)
    rng, rows = np.random.default_rng(args.seed + 1), []
    with tempfile.TemporaryDirectory() as folder:
        for name, model, surgeons, feed in cases(args, pathlib.Path(folder)):
            rows.append(compare(name, model, surgeons, feed or feed_of(model, rng), args, pathlib.Path(folder)))
            row = rows[-1]
            if row["ours"]["state"] != "right" or row["more"]:
                print(json.dumps(row), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["surgeons"][0] if len(row["surgeons"]) == 1 else "chain, drawn" if row["model"].startswith("chain_") else "chain, models"].append(row)
    print("| surgeries | graphs | Olive right | other numbers | invalid, does not run or fails | untouched | ours right | ours needs more | refused before | Olive | ours |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, group in groups.items():
        states = collections.Counter(r["olive"]["state"] for r in group if r["touched"])
        broken = sum(n for state, n in states.items() if state not in ("right", "other numbers"))
        right = [r for r in group if r["touched"] and r["olive"]["state"] == "right"]
        print(f"| {name} | {len(group)} | {states['right']} | {states['other numbers']} | {broken} | {sum(not r['touched'] for r in group)} "
              f"| {sum(r['ours']['state'] == 'right' for r in group)} | {sum(r['more'] for r in group)} "
              f"| {sum(r['refused'] or 0 for r in right)} | {sum(r['olive']['refused'] for r in right)} | {sum(r['ours'].get('refused') or 0 for r in right)} |")
    return int(any(r["ours"]["state"] != "right" or r["more"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
