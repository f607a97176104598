#!/usr/bin/env python3
"""Models in float16 by us, by onnxruntime.transformers.float16 and by onnxconverter-common: error, Casts, and numbers that leave the type.

Usage: half.py --binary build/saturate FOLDER|MODEL.onnx... [--only PART] [--fused] [--json OUT.json]

MODEL.inputs.npz lies beside each model. All three keep the operators that ours keeps in float (handed to theirs as op_block_list), and inputs and
outputs. Each result runs in ONNX Runtime without its optimizations. Told: the largest difference from the float model's outputs, relative to the
largest element; the number of Casts; how many outputs have a NaN or an infinity that the float model has not. With --fused all three start from
what `optimize --target onnx` made. Exit status 1 where ours has a larger error than both of theirs by more than a tenth, or leaves the type.
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

from refused import fixed


def outputs(path, feed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: feed[i.name] for i in session.get_inputs()})


def judged(path, feed, wanted):
    row = {"casts": sum(node.op_type == "Cast" for node in onnx.load(path, load_external_data=False).graph.node), "error": None, "left": 0}
    try:
        got = outputs(path, feed)
    except Exception as error:
        return row | {"state": str(error).strip().split("\n")[0][:160]}
    worst = 0.0
    for a, b in zip(got, wanted):
        a, b = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(b)
        row["left"] += int(not np.isfinite(a[finite]).all())
        both = finite & np.isfinite(a)
        if both.any():
            worst = max(worst, float(np.abs(a[both] - b[both]).max() / max(1e-6, np.abs(b[finite]).max())))
    return row | {"error": worst, "state": "runs"}


def ours(args, source, out):
    done = subprocess.run([args.binary, "transform", source, "-o", out, "--pass", "precision", "--no-verify", "--quiet"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()[:200]}")


def by_transformers(args, source, out):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True, op_block_list=args.blocked), out)


def by_common(args, source, out):
    from onnxconverter_common.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True, op_block_list=args.blocked), out)


TOOLS = {"ours": ours, "transformers": by_transformers, "common": by_common}


def measured(args, path, folder):
    source, dims, feed = fixed(path, folder)
    if feed is None:
        return None
    if args.fused:
        made = folder / f"fused_{path.name}"
        subprocess.run([args.binary, "optimize", source, made, "--target", "onnx", "--no-verify", "--quiet"], check=True, capture_output=True)
        source = made
    wanted, row = outputs(source, feed), {"model": path.stem}
    for name, tool in TOOLS.items():
        out = folder / f"{name}_{path.name}"
        try:
            tool(args, source, out)
            row[name] = judged(out, feed, wanted)
        except Exception as error:
            row[name] = {"state": f"{type(error).__name__}: {error}"[:160], "error": None, "casts": None, "left": None}
    return row


def shown(row):
    cell = lambda r: f"{r['error']:.1e} {r['casts']:4} {'left' if r['left'] else '    '}" if r["error"] is not None else r["state"][:40]
    return f"{row['model']:28} " + " | ".join(f"{name} {cell(row[name])}" for name in TOOLS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--binary", default="saturate")
    parser.add_argument("--only", default="")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    passes = json.loads(subprocess.run([args.binary, "transform", "--list-passes", "--json"], capture_output=True, text=True, check=True).stdout)
    fields = next(p for p in passes if p["pass"] == "precision")["fields"]
    # A Cast on their list makes them insert Casts before it without end.
    args.blocked = [op.split(".")[-1] for op in next(f for f in fields if f["name"] == "keep")["default"] if op != "Cast"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(p for m in args.models for p in (m.glob("*.onnx") if m.is_dir() else [m]) if args.only in p.name):
            if row := measured(args, path, pathlib.Path(folder)):
                rows.append(row)
                print(shown(row), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    bad = 0
    for name in TOOLS:
        states = collections.Counter("runs" if r[name]["error"] is not None else "fails" for r in rows)
        print(f"{name}: {dict(states)}, leaves the type in {sum(bool(r[name]['left']) for r in rows)}")
    for other in ("transformers", "common"):
        both = [r for r in rows if r["ours"]["error"] is not None and r[other]["error"] is not None and not r[other]["left"]]
        ratios = sorted((r["ours"]["error"] + 1e-7) / (r[other]["error"] + 1e-7) for r in both)
        more = [r["model"] for r in both if r["ours"]["error"] > 1.1 * r[other]["error"] + 1e-7]
        casts = [r["model"] for r in both if r["ours"]["casts"] > r[other]["casts"]]
        if both:
            print(f"beside {other} ({len(both)} models): error {ratios[len(ratios) // 2]:.2f} at the median, larger in {len(more)} {more[:6]}; more Casts in {len(casts)} {casts[:6]}")
        bad += len(more)
    return int(bad > 0 or any(r["ours"]["error"] is None or r["ours"]["left"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
