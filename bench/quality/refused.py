#!/usr/bin/env python3
"""What a target refuses of models before and after optimizing, beside the time and the e-nodes that ort-cpu takes in the same run.

Usage: refused.py --binary build/saturate FOLDER|MODEL.onnx... --target npu-4d [--only PART] [--json OUT.json] [--no-compare] [--keep DIR]

Sizes are those of MODEL.inputs.npz where it lies beside the model (`--dim`). The result runs in ONNX Runtime on these inputs, and is
compared with MODEL.expected.npz. The command verifies by itself as well.
"""
import argparse
import collections
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import zoo


def fixed(path, folder):
    """A model whose dims the arrays beside it fix: its path, the options that do, and these arrays. Where a symbol stands for several sizes,
    it is that of a copy whose inputs have their own."""
    names = [path.name.removesuffix(".onnx"), path.name.split(".")[0]]  # MODEL.onnx, or MODEL.EXPORTER.onnx
    beside = next((p for name in names if (p := path.parent / f"{name}.inputs.npz").exists()), None)
    if beside is None:
        return path, [], None
    arrays, dims, clear = np.load(beside), {}, True
    feed, model = {name: arrays[name] for name in arrays.files}, onnx.load(path)
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, feed[value.name].shape if value.name in feed else ()):
            clear &= not dim.dim_param or dims.setdefault(dim.dim_param, size) == size
            dim.dim_value = size
    if clear:
        return path, [f"--dim={symbol}={size}" for symbol, size in dims.items()], feed
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    del model.graph.value_info[:]
    onnx.save(model, folder / f"fixed_{path.name}")
    return folder / f"fixed_{path.name}", [], feed


def optimized(binary, path, out, target, dims, options):
    """The report of one run, and its exit status."""
    report = out.with_suffix(".json")
    command = [binary, "optimize", path, out, "--target", target, "--report", report, "--quiet", *options]
    done = subprocess.run([str(c) for c in [*command, *dims]], capture_output=True, text=True)
    return (json.loads(report.read_text()) if report.exists() else None), done.returncode, done.stderr.strip()


def refused(binary, path, target):
    done = subprocess.run([binary, "targets", "check", path, "--target", target, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["inexpressible"] if done.stdout else []


def difference(path, beside, feed):
    """The largest difference of the result's outputs in ONNX Runtime from what was written down, relative to the largest element."""
    return zoo.farthest(zoo.run(zoo.session(path, as_it_is=True), feed), zoo.arrays(beside))


def measured(args, path, folder):
    model, dims, feed = fixed(path, folder)
    out, row = folder / path.name, {"model": path.name.removesuffix(".onnx")}
    report, row["exit"], row["error"] = optimized(args.binary, model, out, args.target, dims, args.option)
    beside, _, _ = optimized(args.binary, model, folder / "beside.onnx", args.beside, dims, ["--no-verify"])
    if report is None or row["exit"] not in (0, 4):
        return row | {"before": None, "after": None}
    stages = lambda r: sum(r["seconds"].get(s, 0) for s in ("lower", "saturate", "extract", "emit"))
    left = refused(args.binary, out, args.target)
    row |= {"before": report["refused_before"], "after": len(left), "by_operator": dict(collections.Counter(r["op_type"] for r in left)), "reasons": [f"{r['op_type']} {r['node']}: {r['reason']}" for r in left],
            "nodes": [report["before"]["nodes"], report["after"]["nodes"]], "enodes": report["egraph"]["enodes"], "enodes_beside": beside["egraph"]["enodes"], "seconds": stages(report), "seconds_beside": stages(beside), "stop": report["saturation"].get("stop_reason", ""), "left_out": report["left_out"]}
    expected = path.parent / (row["model"] + ".expected.npz")
    if args.compare and feed is not None and expected.exists():
        try:
            row["difference"] = difference(out, expected, feed)
        except Exception as error:
            row["difference"], row["error"] = None, str(error)[:300]
    return row


def shown(row):
    if row["after"] is None:
        return f"{row['model']:28} exit {row['exit']}: {row['error'][:150]}"
    kinds = ", ".join(f"{op} {n}" for op, n in sorted(row["by_operator"].items()))
    diff = row.get("difference", "-")
    diff = f"{diff:8.1e}" if isinstance(diff, float) else str(diff)
    return (f"{row['model']:28} {row['before']:4} -> {row['after']:3}  nodes {row['nodes'][0]:4} -> {row['nodes'][1]:4}  e-nodes {row['enodes']:6} ({row['enodes_beside']:6})"
            f"  {row['seconds']:6.2f} s ({row['seconds_beside']:5.2f})  {diff}  {row['stop'] if row['stop'] != 'saturated' else ''} {kinds} {row['error'][:100] if row['error'] else ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--binary", default="saturate")
    parser.add_argument("--target", required=True)
    parser.add_argument("--beside", default="ort-cpu@1.20", help="the target whose time and e-nodes stand beside")
    parser.add_argument("--only", default="", help="models whose names hold this")
    parser.add_argument("--option", action="append", default=[], help="a further option of the command")
    parser.add_argument("--no-compare", dest="compare", action="store_false")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the results")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    paths = sorted(p for m in args.models for p in (m.glob("*.onnx") if m.is_dir() else [m]) if args.only in p.name)
    folder, rows = args.keep or pathlib.Path(tempfile.mkdtemp()), []
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        rows.append(measured(args, path, folder))
        print(shown(rows[-1]), flush=True)
    if not args.keep:
        shutil.rmtree(folder)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    done = [r for r in rows if r["after"] is not None]
    left = collections.Counter()
    for r in done:
        left.update(r["by_operator"])
    print(f"{len(rows)} models, {len(rows) - len(done)} failed; nothing refused in {sum(r['after'] == 0 for r in done)}; operators {sum(r['before'] for r in done)} -> {sum(r['after'] for r in done)}: "
          + ", ".join(f"{op} {n}" for op, n in left.most_common()))
    if done:
        times = sorted(r["seconds"] / max(r["seconds_beside"], 1e-9) for r in done)
        print(f"seconds {sum(r['seconds'] for r in done):.1f} beside {sum(r['seconds_beside'] for r in done):.1f}; times as long: median {times[len(times) // 2]:.2f}, most {times[-1]:.2f}; "
              f"e-nodes {sum(r['enodes'] for r in done)} beside {sum(r['enodes_beside'] for r in done)}")
    return 0 if len(done) == len(rows) and all(r.get("difference") is None or r["difference"] < 1e-3 for r in done) else 1


if __name__ == "__main__":
    sys.exit(main())
