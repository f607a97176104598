#!/usr/bin/env python3
"""Which fused blocks are lost when a model is rewritten by edits that keep its meaning (bench/edits).

usage: edit_coverage.py --data FOLDER --command 'saturate {in} -o {out} --target ort-cpu@1.20 --cost nodes --no-verify'
                        [--only REGEX] [--edits NAME,...|all|list] [--mix N] [--rate R] [--seed S] [--jobs N] [--save FOLDER]

FOLDER holds models/NAME.onnx and models/NAME.inputs.npz. Each edit is made at every place where it applies; with --mix N, N rewritings of each model
draw at every place, with probability R, one of the edits (and what is put around its value). An edit counts where ONNX Runtime says that it
keeps the outputs. Blocks of the optimized edited model are compared with those of the optimized original. A lost block of a mixture is traced
to the fewest edits that lose it. Exit status 1 where a block is lost or a result is wrong. Needs onnx, onnxruntime, numpy.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
import edits  # noqa: E402

FAMILIES = {
    "attention": ("Attention", "MultiHeadAttention", "GroupQueryAttention"),
    "norm": ("LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
             "SkipSimplifiedLayerNormalization"),
    "activation": ("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "Swish"),
    "rope": ("RotaryEmbedding", "GemmaRotaryEmbedding"),
}


def blocks(model):
    """Fused operators by family, in the graph and its subgraphs."""
    counts = collections.Counter()

    def walk(graph):
        for n in graph.node:
            for family, names in FAMILIES.items():
                counts[family] += n.op_type in names
            counts["rope"] += 2 * any(a.name == "do_rotary" and a.i for a in n.attribute)
            for a in n.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    walk(a.g)
    walk(model.graph)
    return counts


def close(got, wanted, share):
    for a, b in zip(got, wanted):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.kind == "f":
            scale = max(1.0, float(np.abs(b[np.isfinite(b)], dtype=np.float64).max(initial=0)))
            if not np.allclose(a, b, rtol=0, atol=share * scale, equal_nan=True):
                return False
        elif not (a == b).all():
            return False
    return True


class Case:
    """A model with its inputs and what the optimizer makes of it."""

    def __init__(self, name, model, feed, command):
        self.name, self.model, self.feed, self.command = name, model, feed, command
        self.wanted = edits.run(self.model, self.feed)
        half = any(t.data_type == onnx.TensorProto.FLOAT16 for t in self.model.graph.initializer)
        self.tolerance = 3e-2 if half else 1e-3
        self.facts = edits.Facts(self.model, self.feed)
        self.before, problem = self.optimized(self.model)
        if problem:
            raise RuntimeError(problem)

    def optimized(self, model):
        """Blocks of the optimized model, and what is wrong with it."""
        with tempfile.TemporaryDirectory() as folder:
            source, out = folder + "/in.onnx", folder + "/out.onnx"
            onnx.save(model, source)
            words = [w.replace("{in}", source).replace("{out}", out) for w in shlex.split(self.command)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=300)
            if done.returncode:
                return None, f"exit status {done.returncode}: {done.stderr.strip()[-300:]}"
            result = onnx.load(out)
        try:
            if not close(edits.run(result, self.feed), self.wanted, 2 * self.tolerance):
                return None, "other outputs"
        except Exception as error:
            return None, f"ONNX Runtime refuses the result: {' '.join(str(error).split())[:300]}"
        return blocks(result), None

    def try_edits(self, decisions, seed):
        """What became of the model under these edits: (verdict, detail, model)."""
        model, applied = edits.apply(self.model, self.facts, decisions, seed)
        if not applied:
            return "nothing to edit", None, model
        try:
            same = close(edits.run(model, self.feed), self.wanted, self.tolerance)
        except Exception as error:
            return "refused", f"{applied[:3]} {' '.join(str(error).split())[:200]}", model
        if not same:
            return "not equal", None, model
        after, problem = self.optimized(model)
        if problem:
            return "bad", problem, model
        lost = {k: (after[k], n) for k, n in self.before.items() if after[k] < n}
        return ("lost", lost, model) if lost else ("kept", None, model)

    def fewest(self, decisions, seed):
        """A smallest subset of the decisions under which blocks are lost still."""
        def loses(subset):
            return self.try_edits(subset, seed)[0] in ("lost", "bad")
        pieces = 2
        while len(decisions) > 1:
            size = -(-len(decisions) // pieces)
            parts = [decisions[i:i + size] for i in range(0, len(decisions), size)]
            smaller = next((p for p in parts if loses(p)), None)
            if smaller is None and pieces > 2:
                smaller = next((rest for i in range(len(parts)) if loses(rest := [d for j, p in enumerate(parts) for d in p if j != i])), None)
            if smaller is not None:
                decisions, pieces = smaller, max(2, min(pieces, len(smaller)))
            elif pieces >= len(decisions):
                break
            else:
                pieces = min(len(decisions), 2 * pieces)
        return decisions


def everywhere(case, name):
    ed = edits.Editor(case.model, case.facts, None)
    return [(site, name) for site in edits.sites(ed, name)]


def mixture(case, names, rate, seed):
    ed, rnd = edits.Editor(case.model, case.facts, None), random.Random(f"{case.name}/{seed}")
    options = collections.defaultdict(lambda: ([], []))
    for name in names:
        for site in edits.sites(ed, name):
            options[site][name in edits.WRAPS].append(name)
    return [(site, rnd.choice(list(group))) for site, groups in options.items() for group in groups if group and rnd.random() < rate]


def work(path, args, names):
    """All lines about one model."""
    rows = []
    try:
        case = Case(path.stem, onnx.load(path), dict(np.load(path.with_suffix(".inputs.npz"))), args.command)
    except Exception as error:
        return [(path.stem, "original", "unusable", " ".join(str(error).split())[:300])]

    def note(label, verdict, detail, model):
        rows.append((case.name, label, verdict, detail))
        if args.save and verdict in ("lost", "bad"):
            args.save.mkdir(parents=True, exist_ok=True)
            onnx.save(model, args.save / f"{case.name}+{label}.onnx")
    if args.mix:
        for number in range(args.mix):
            seed = f"{args.seed}.{number}"
            decisions = mixture(case, names, args.rate, seed)
            verdict, detail, model = case.try_edits(decisions, seed)
            if verdict in ("lost", "bad"):
                decisions = case.fewest(decisions, seed)
                verdict, detail, model = case.try_edits(decisions, seed)
                detail = f"{detail} by {decisions}"
            note(f"mix{seed}", verdict, detail, model)
    else:
        for name in names:
            note(name, *case.try_edits(everywhere(case, name), str(args.seed)))
    return rows


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--command", default="saturate {in} -o {out} --target ort-cpu@1.20 --cost nodes --no-verify -q")
    parser.add_argument("--only", default="", help="names of models, a regular expression")
    parser.add_argument("--edits", default="all", help="names with commas, all, or list to print them")
    parser.add_argument("--mix", type=int, default=0, help="random mixtures of each model, instead of one edit everywhere")
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--save", type=pathlib.Path, help="folder for edited models that lose a block")
    return parser.parse_args()


def main():
    args = parse()
    every = [*edits.EDITS, *edits.WRAPS]
    if args.edits == "list":
        print("\n".join(every))
        return 0
    names = every if args.edits == "all" else args.edits.split(",")
    if unknown := [n for n in names if n not in every]:
        sys.exit(f"--edits {','.join(unknown)}: no such edit; --edits list names them")
    paths = [p for p in sorted((args.data / "models").glob("*.onnx")) if re.search(args.only, p.stem)]
    table = collections.defaultdict(collections.Counter)
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        for rows in pool.map(work, paths, [args] * len(paths), [names] * len(paths)):
            for name, label, verdict, detail in rows:
                table["mix" if label.startswith("mix") else label][verdict] += 1
                if verdict in ("lost", "bad", "refused", "unusable"):
                    print(f"{verdict.upper():8} {name} {label}: {detail}", flush=True)
    verdicts = sorted({v for c in table.values() for v in c})
    print(f"\n{'edit':26}" + "".join(f"{v:>17}" for v in verdicts))
    for label, counts in table.items():
        print(f"{label:26}" + "".join(f"{counts[v]:>17}" for v in verdicts))
    total = sum(table.values(), collections.Counter())
    print(json.dumps(total))
    return 1 if total["lost"] or total["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
