#!/usr/bin/env python3
"""How good tables of prices are on architectures that none of them was fitted by: errors by operator, regret of the choice, and choices that differ.

    /path/of/torch/python bench/export/export_models.py FOLDER --held-out                         # the seven architectures, two exporters
    python bench/runtime/held_out.py FOLDER OUT --binary saturate --cost measured here.jsonl       # tables or files of prices, the first is what others are beside

The split is by architecture and fixed: tables are made of bench/runtime/ort_grid.py alone, and the sizes of these models are none of the grid's.
Operators are timed as they stand in the graph that ONNX Runtime makes at ENABLE_ALL. Errors are told as they are, and with the median of measured to predicted
of each model taken out, since a busy machine is slower by one factor. Regret: of equal graphs (`saturate extract --sample`), what the one that is predicted to be
the cheapest takes beyond the fastest. Where two tables choose other graphs, both are timed in turns.
Of one thread processor time counts. What was timed lies in OUT, and is not timed again.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import onnx

import gather_ort

HERE = pathlib.Path(__file__).resolve().parents[1]


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()[-400:]}")
    return done.stdout


def sizes_of(path, npz):
    """Of symbolic dims, as the inputs have them."""
    with np.load(npz) as file:
        shapes = {name: file[name].shape for name in file.files}
    sizes = {}
    for info in onnx.load(path, load_external_data=False).graph.input:
        for size, dim in zip(shapes.get(info.name, ()), info.type.tensor_type.shape.dim):
            if dim.dim_param:
                sizes.setdefault(dim.dim_param, size)
    return [word for symbol, size in sizes.items() for word in ("--dim", f"{symbol}={size}")]


class Held:
    def __init__(self, path, args):
        self.path, self.args, self.name = path, args, path.stem
        self.npz = path.parent / f"{path.name.split('.')[0]}.inputs.npz"
        self.dims = sizes_of(path, self.npz)
        self.common = ["--target", args.target]

    def gathered(self, kind, *words):
        out = self.args.out / f"{self.name}.{kind}.jsonl"
        if not out.exists():
            run(sys.executable, HERE / "gather_ort.py", out, "--inputs", self.npz, "--threads", self.args.threads, *words)
        return out

    def errors(self, cost):
        rows = self.gathered("rows", "--models", self.path, "--passes", 2, "--seconds", self.args.seconds)
        found = json.loads(run(self.args.binary, "cost", "eval", "--rows", rows, "--cost", cost, "--json"))["rows"]
        ratios = [r["predicted"] / r["measured"] for r in found]
        middle = statistics.median(ratios)
        return [abs(r - 1) for r in ratios], [abs(r / middle - 1) for r in ratios], middle

    def regret(self, cost):
        folder = self.args.out / f"{self.name}.graphs"
        if not folder.exists():
            run(self.args.binary, "extract", self.path, "--sample", self.args.graphs - 1, "-o", folder, "--no-verify", *self.dims, *self.common)
        times = self.gathered("times", "--graphs", *sorted(folder.glob("*.onnx")), "--passes", self.args.passes, "--seconds", 0.8)
        found = json.loads(run(self.args.binary, "cost", "eval", times, "--cost", cost, "--json", *self.common))["graphs"][0]
        return found["pairs"], found["tau"], found["regret"]

    def choice(self, cost):
        out = self.args.out / f"{self.name}.by.{pathlib.Path(cost).stem}.onnx"
        run(self.args.binary, self.path, "-o", out, "--force", "--no-verify", "--cost", cost, *self.dims, *self.common)
        return out

    def differs(self, cost):
        """What operators stand there beside those of the first table's choice, and the ratio of times; None where both choose the same."""
        ours, first = self.choice(cost), self.choice(self.args.cost[0])
        if ours.read_bytes() == first.read_bytes():
            return None
        count = lambda path: collections.Counter(n.op_type for n in onnx.load(path).graph.node)
        a, b = count(ours), count(first)
        changed = ", ".join(f"{a[op] - b[op]:+d} {op}" for op in sorted(a | b) if a[op] != b[op]) or "the same operators, joined otherwise"
        feeds = {str(p): gather_ort.model_feeds(onnx.load(p), {}, self.npz) for p in (ours, first)}
        times = gather_ort.graph_times([str(ours), str(first)], feeds, self.args.threads, 0.4, self.args.passes)
        return changed, gather_ort.interval([x / y for x, y in zip(times[str(ours)], times[str(first)])])


def percent(share):
    return f"{100 * share:.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--binary", default="saturate")
    parser.add_argument("--cost", nargs="+", default=["measured"])
    parser.add_argument("--target", default="ort-cpu@1.31")
    parser.add_argument("--only", default="", help="models whose names have this in them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--graphs", type=int, default=12)
    parser.add_argument("--passes", type=int, default=12)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
    models = [Held(path, args) for path in sorted(args.folder.glob("*.onnx")) if args.only in path.name]
    print("| prices | model | operators | error | without the machine's factor | predicted / measured | pairs | tau | regret |\n|---|---|---|---|---|---|---|---|---|")
    for cost in args.cost:
        plain, centred, regrets, taus = [], [], [], []
        for model in models:
            raw, without, middle = model.errors(cost)
            pairs, tau, regret = model.regret(cost)
            plain.append(statistics.mean(raw)), centred.append(statistics.mean(without)), regrets.append(regret), taus.append(tau)
            print(f"| {cost} | {model.name} | {len(raw)} | {percent(plain[-1])} | {percent(centred[-1])} | {middle:.2f} | {pairs} | {tau:.2f} | {percent(regret)} |", flush=True)
        print(f"| {cost} | mean | | {percent(statistics.mean(plain))} | {percent(statistics.mean(centred))} | | | {statistics.mean(taus):.2f} | {percent(statistics.mean(regrets))} |")
    for cost in args.cost[1:]:
        for model in models:
            found = model.differs(cost)
            if found:
                changed, (middle, low, high) = found
                print(f"{model.name}: {cost} beside {args.cost[0]}: {changed}: {middle:.3f} [{low:.3f}, {high:.3f}] of its time", flush=True)


if __name__ == "__main__":
    main()
