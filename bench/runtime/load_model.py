#!/usr/bin/env python3
"""How well saturate knows what ONNX Runtime makes of a model when it loads it: `at_load` of the report beside the runtime's saved model.

    bench/runtime/load_model.py [FILE|FOLDER ...] [--saturate PROGRAM] [--target ort-cpu@1.31] [--json OUT]

Run it by the interpreter that has the release of ONNX Runtime (its version and the target's should be one). For each model, the original
and saturate's result are loaded at ENABLE_EXTENDED with `optimized_model_filepath`, and operators are counted, those of bodies too.
Printed is, over all models and both files, the sum of the smaller count by operator over the sum of the larger one: of all operators, and
of those that the runtime's optimizer made or removed; then the operators that differ most.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
import onnxruntime

ATTRIBUTE_GRAPH = onnx.AttributeProto.GRAPH
UNCOUNTED = {"Constant", "Identity"}  # neither runs


def operators(model: onnx.ModelProto) -> collections.Counter:
    counts: collections.Counter = collections.Counter()

    def visit(graph):
        for node in graph.node:
            name = f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            if node.op_type not in UNCOUNTED:
                counts[name] += 1
            for attribute in node.attribute:
                if attribute.type == ATTRIBUTE_GRAPH:
                    visit(attribute.g)

    visit(model.graph)
    return counts


def after_load(path: Path, folder: Path) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "loaded.onnx")
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "loaded.onnx")


def agreement(pairs, wanted=lambda model, op: True):
    """Sum of the smaller count over the sum of the larger one, of (model, ours, theirs)."""
    low = high = 0
    for model, ours, theirs in pairs:
        for op in ours.keys() | theirs.keys():
            if wanted(model, op):
                low += min(ours[op], theirs[op])
                high += max(ours[op], theirs[op])
    return low / high if high else 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--saturate", default="saturate")
    parser.add_argument("--target", default="ort-cpu@" + ".".join(onnxruntime.__version__.split(".")[:2]))
    parser.add_argument("--json", type=Path)
    parser.add_argument("-v", action="store_true", help="each model that differs")
    args = parser.parse_args()
    files = [f for m in args.models for f in (sorted(m.glob("*.onnx")) if m.is_dir() else [m])]
    pairs, changed, rows = [], {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in files:
            result = folder / "result.onnx"
            run = subprocess.run([args.saturate, str(file), "-o", str(result), "--target", args.target, "--no-verify", "--json"],
                                 capture_output=True, text=True, check=False)
            if run.returncode != 0:
                print(f"{file.name}: not optimized: {run.stderr.strip()[:200]}")
                continue
            told = json.loads(run.stdout)["at_load"]
            for which, path in (("before", file), ("after", result)):
                raw = operators(onnx.load(path, load_external_data=False))
                try:
                    theirs = operators(after_load(path, folder))
                except Exception as refusal:  # noqa: BLE001: whatever the runtime throws
                    print(f"{file.name}, {which}: not loaded: {str(refusal)[:160]}")
                    continue
                ours = collections.Counter(told[which])
                key = (file.name, which)
                pairs.append((key, ours, theirs))
                changed[key] = {op for op in raw.keys() | theirs.keys() if raw[op] != theirs[op]}
                rows.append({"model": file.name, "which": which, "ours": ours, "runtime": theirs})
                if args.v and ours != theirs:
                    print(file.name, which, {op: (ours[op], theirs[op]) for op in sorted(ours.keys() | theirs.keys()) if ours[op] != theirs[op]})
    all_ops = agreement(pairs)
    touched = agreement(pairs, lambda model, op: op in changed[model])
    print(f"ONNX Runtime {onnxruntime.__version__}, {args.target}: {len(pairs)} files, agreement {all_ops:.4f} of all operators, "
          f"{touched:.4f} of those that it made or removed")
    for which in ("before", "after"):
        some = [p for p in pairs if p[0][1] == which]
        print(f"  {which}: {agreement(some):.4f}, {agreement(some, lambda model, op: op in changed[model]):.4f}")
    more: collections.Counter = collections.Counter()
    for _, ours, theirs in pairs:
        for op in ours.keys() | theirs.keys():
            more[op] += abs(ours[op] - theirs[op])
    for op, count in more.most_common(25):
        difference = sum(o[op] - t[op] for _, o, t in pairs)
        if count:
            print(f"  {op}: {count} apart, ours {difference:+d}")
    if args.json:
        args.json.write_text(json.dumps({"onnxruntime": onnxruntime.__version__, "target": args.target, "all": all_ops, "touched": touched,
                                         "models": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
