#!/usr/bin/env python3
"""Models in float16 by us, by onnxruntime.transformers.float16 and by onnxconverter-common: error, Casts, and numbers that leave the type.

Usage: half.py --binary build/saturate FOLDER|MODEL.onnx... [--only PART] [--fused] [--draws 9] [--own-runtime] [--dtype bfloat16] [--fields F] [--large table] [--json OUT.json]

MODEL.inputs.npz lies beside each model, or MODEL.npz with tokens (bench/export/export_decoders.py). All three keep the operators that ours keeps in float (handed to
theirs as op_block_list), and inputs and outputs. Each result runs in ONNX Runtime without its optimizations, on these inputs and on others drawn like them.
The error of a draw is the largest difference from the float model's outputs, relative to the largest element of the output. Told: its median over the draws;
the number of Casts and CastLikes; "left" where outputs have a NaN or an infinity that the float model has not. Beside each other tool: the ratio of both errors in the same
draw, the median with its 95 % interval. An error is larger where that interval lies above 1 in these draws and in four times as many others, which are told
then: two roundings of one number differ by chance, and of a hundred such intervals some lie above 1.

With --fused all start from what `optimize --target onnx` made. With --own-runtime all run by `saturate run`, which rounds behind each operator; ONNX Runtime's
CPU rounds only where it has a kernel for halves. --dtype bfloat16 makes ours in it; the others have none. --fields are further fields of the pass.
With --large activations are some 1e5: the table that tokens are looked up in has such numbers, or the weights of the product in the middle make them.
Exit status 1 where ours has a larger error or more Casts than another, fails, or leaves the type.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
from ort_latency import interval  # noqa: E402
from refused import fixed  # noqa: E402

LEAST = 1e-7  # an error that is that of float
LARGE = 1e5
FIRST, AGAIN, MORE = 11, 12, 4  # seeds, and how many more draws there are the second time


class OnnxRuntime:
    def __init__(self, path, args):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, feed):
        return self.session.run(None, {i.name: feed[i.name] for i in self.session.get_inputs()})


class OwnRuntime:
    def __init__(self, path, args):
        self.path, self.binary = path, args.binary
        graph = onnx.load(path, load_external_data=False).graph
        self.inputs, self.outputs = [i.name for i in graph.input], [o.name for o in graph.output]

    def __call__(self, feed):
        with tempfile.TemporaryDirectory() as folder:
            given, made = pathlib.Path(folder) / "in.npz", pathlib.Path(folder) / "out.npz"
            np.savez(given, **{name: feed[name] for name in self.inputs if name in feed})
            done = subprocess.run([self.binary, "run", self.path, "--inputs", given, "-o", made], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip()[:200])
            arrays = np.load(made)
            return [arrays[name] for name in self.outputs]


def drawn(feed, count, seed):
    """These inputs and others like them: integers from their range, floats from their numbers; what is a choice of two, as a mask, stays."""
    if seed == FIRST:
        yield feed
    rng = np.random.default_rng(seed)
    for _ in range(count):
        other = dict(feed)
        for name, array in feed.items():
            if array.dtype.kind == "f":
                other[name] = rng.permutation(array.ravel()).reshape(array.shape)
            elif array.dtype.kind in "iu" and len(np.unique(array)) > 2:
                other[name] = rng.integers(array.min(), array.max() + 1, array.shape).astype(array.dtype)
        yield other


def wanted_of(model, feed, draws, seed=FIRST):
    """Pairs of inputs and what the float model makes of them, where it takes them."""
    pairs = []
    for given in drawn(feed, draws, seed):
        try:
            pairs.append((given, model(given)))
        except Exception:
            if not pairs:
                raise
    return pairs


def error_of(got, wanted):
    """The error, and whether a finite number became none."""
    worst, left = 0.0, False
    for a, b in zip(got, wanted):
        a, b = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(b)
        left |= not np.isfinite(a[finite]).all()
        both = finite & np.isfinite(a)
        if both.any():
            worst = max(worst, float(np.abs(a[both] - b[both]).max() / max(1e-6, np.abs(b[finite]).max())))
    return worst, left


def judged(args, path, pairs):
    row = {"casts": sum(node.op_type in ("Cast", "CastLike") for node in onnx.load(path, load_external_data=False).graph.node), "error": None, "left": 0}
    try:
        model = args.runtime(path, args)
        errors = [error_of(model(feed), wanted) for feed, wanted in pairs]
    except Exception as error:
        return row | {"state": str(error).strip().split("\n")[0][:160]}
    row["errors"] = [error for error, _ in errors]
    return row | {"error": float(np.median(row["errors"])), "left": sum(left for _, left in errors), "state": "runs"}


def ours(args, source, out):
    words = f"precision:{';'.join([f'dtype={args.dtype}', *args.fields])}"
    done = subprocess.run([args.binary, "transform", source, "-o", out, "--pass", words, "--no-verify", "--quiet"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()[:200]}")


def by_transformers(args, source, out):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True, op_block_list=args.blocked), out)


def by_common(args, source, out):
    from onnxconverter_common.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True, op_block_list=args.blocked), out)


TOOLS = {"ours": ours, "transformers": by_transformers, "common": by_common}


def enlarged(source, how, out):
    """The model with activations of 1e5; None where it has nothing to enlarge."""
    model = onnx.load(source)
    held = {i.name: i for i in model.graph.initializer if i.data_type == onnx.TensorProto.FLOAT and len(i.dims) >= 2}
    read = [held[name] for node in model.graph.node for name in node.input
            if node.op_type in {"table": ("Gather",), "product": ("MatMul", "Gemm", "Conv")}[how] and name in held]
    if not read:
        return None
    chosen = read[0] if how == "table" else read[len(read) // 2]
    numbers = onnx.numpy_helper.to_array(chosen)
    chosen.CopyFrom(onnx.numpy_helper.from_array(numbers * np.float32(LARGE / np.abs(numbers).max()), chosen.name))
    onnx.save(model, out)
    return out


def inputs_of(path, folder):
    source, _, feed = fixed(path, folder)
    tokens = path.parent / f"{path.name.split('.')[0]}.npz"
    if feed is None and tokens.exists():
        ids = np.load(tokens)["tokens"]
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return source, feed


def measured(args, path, folder):
    source, feed = inputs_of(path, folder)
    if feed is None:
        return None
    if args.fused:
        made = folder / f"fused_{path.name}"
        subprocess.run([args.binary, "optimize", source, made, "--target", "onnx", "--no-verify", "--quiet"], check=True, capture_output=True)
        source = made
    if args.large and not (source := enlarged(source, args.large, folder / f"large_{path.name}")):
        return None
    row, file = {"model": path.name.removesuffix(".onnx")}, path.name
    try:
        pairs = wanted_of(args.runtime(source, args), feed, args.draws)
    except Exception as error:
        print(f"{row['model']:28} left out, for the float model fails: {str(error).strip()[:100]}", flush=True)
        return None
    for name in args.tools:
        out = folder / f"{name}_{file}"
        try:
            TOOLS[name](args, source, out)
            row[name] = judged(args, out, pairs)
        except Exception as error:
            row[name] = {"state": f"{type(error).__name__}: {error}"[:160], "error": None, "casts": None, "left": None}
    for name in args.tools[1:]:
        row[name]["ratio"] = ratio_of(row["ours"], row[name])
        if row[name]["ratio"] and row[name]["ratio"][1] > 1:
            more = wanted_of(args.runtime(source, args), feed, MORE * args.draws, AGAIN)
            row[name]["ratio"] = ratio_of(*(judged(args, folder / f"{tool}_{file}", more) for tool in ("ours", name)))
    for path in folder.iterdir():
        path.unlink()
    return row


def ratio_of(mine, theirs):
    """Of errors, over draws: the median and its interval; None where one of the two does not run within the type."""
    if mine["error"] is None or theirs["error"] is None or theirs["left"]:
        return None
    return interval([(a + LEAST) / (b + LEAST) for a, b in zip(mine["errors"], theirs["errors"])])


def shown(row, tools):
    def cell(r):
        if r["error"] is None:
            return r["state"][:40]
        beside = f" x{r['ratio'][0]:.2f} [{r['ratio'][1]:.2f}, {r['ratio'][2]:.2f}]" if r.get("ratio") else ""
        return f"{r['error']:.1e} {r['casts']:4} {'left' if r['left'] else '    '}{beside}"

    return f"{row['model']:28} " + " | ".join(f"{name} {cell(row[name])}" for name in tools)


def summary(rows, tools):
    """Says it, and gives the number of what is not as it should be."""
    for name in tools:
        states = collections.Counter("runs" if r[name]["error"] is not None else "fails" for r in rows)
        print(f"{name}: {dict(states)}, leaves the type in {sum(bool(r[name]['left']) for r in rows)}")
    bad = sum(r["ours"]["error"] is None or bool(r["ours"]["left"]) for r in rows)
    for name in tools[1:]:
        both = [r for r in rows if r[name]["ratio"]]
        if not both:
            continue
        larger, smaller = [r["model"] for r in both if r[name]["ratio"][1] > 1], [r["model"] for r in both if r[name]["ratio"][2] < 1]
        casts = [r["model"] for r in both if r["ours"]["casts"] > r[name]["casts"]]
        print(f"beside {name} ({len(both)} models): error {np.median([r[name]['ratio'][0] for r in both]):.2f} at the median, larger in {len(larger)} "
              f"{larger[:6]}, smaller in {len(smaller)}; more Casts in {len(casts)} {casts[:6]}")
        bad += len(larger) + len(casts)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--binary", default="saturate")
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1", help="k/n: every n-th model, from the k-th on")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--large", choices=["table", "product"])
    parser.add_argument("--draws", type=int, default=9)
    parser.add_argument("--own-runtime", dest="runtime", action="store_const", const=OwnRuntime, default=OnnxRuntime)
    parser.add_argument("--dtype", default="float16", choices=["float16", "bfloat16"])
    parser.add_argument("--fields", action="append", default=[], help="as clamp=true; may be repeated")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    args.tools = list(TOOLS) if args.dtype == "float16" else ["ours"]
    passes = json.loads(subprocess.run([args.binary, "transform", "--list-passes", "--json"], capture_output=True, text=True, check=True).stdout)
    fields = next(p for p in passes if p["pass"] == "precision")["fields"]
    # A Cast on their list makes them insert Casts before it without end.
    args.blocked = [op.split(".")[-1] for op in next(f for f in fields if f["name"] == "keep")["default"] if op != "Cast"]
    first, step = map(int, args.part.split("/"))
    paths = sorted(p for m in args.models for p in (m.glob("*.onnx") if m.is_dir() else [m]) if args.only in p.name)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for path in paths[first::step]:
            if row := measured(args, path, pathlib.Path(folder)):
                rows.append(row)
                print(shown(row, args.tools), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return int(summary(rows, args.tools) > 0)


if __name__ == "__main__":
    sys.exit(main())
