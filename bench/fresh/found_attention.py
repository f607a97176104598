#!/usr/bin/env python3
"""How many attentions, norms and rotary embeddings are found of those that bench/fresh/export_attention.py's models have, and what the result takes.

    python bench/fresh/found_attention.py FOLDER [FILE ...] --binary build/release/tools/saturate [--turns 9] [--options "--target ort-cpu@1.31"]

Of each export of FOLDER one row: found of existing, operators, how far ONNX Runtime's outputs lie apart, and the ratio of times there (one thread,
in turns, medians). `saturate explain` says why one is missed. Status 1: one differs, is refused, or takes more than --slower.
"""
import argparse
import json
import pathlib
import subprocess
import sys

from mobius_graphs import beside, operators

KINDS = {
    "attention": ("Attention", "MultiHeadAttention", "GroupQueryAttention", "DecoderMaskedMultiHeadAttention"),
    "norms": ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
              "EmbedLayerNormalization", "LpNormalization"),
    "rotary": ("RotaryEmbedding", "MRotaryEmbedding"),
}


def found(counts):
    return {kind: sum(n for op, n in counts.items() if op.split(".")[-1] in names) for kind, names in KINDS.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="*", metavar="FILE", help="of FOLDER; default: all")
    parser.add_argument("--binary", default="saturate")
    parser.add_argument("--options", default="")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--slower", type=float, default=1.05, help="the quarter of the ratios of times that counts as slower (1.05)")
    args = parser.parse_args()
    out, bad, totals = args.folder / "out", 0, {kind: [0, 0] for kind in KINDS}
    out.mkdir(exist_ok=True)
    for path in sorted(args.folder / name for name in args.files) or sorted(args.folder.glob("*.onnx")):
        done = subprocess.run([*args.binary.split(), str(path), "-o", str(out / path.name), "--force", *args.options.split()],
                              capture_output=True, text=True, timeout=300)
        if done.returncode:
            bad += 1
            print(f"{path.name}: status {done.returncode}: {done.stderr.strip()[-300:]}", flush=True)
            continue
        there = json.loads((args.folder / f"{path.name.split('.')[0]}.json").read_text())
        before, after = operators(path), operators(out / path.name)
        now, missed = found(after), []
        for kind, exist in there.items():
            totals[kind][0] += min(now[kind], exist)
            totals[kind][1] += exist
            missed += [kind] if now[kind] < exist else []
        said = " ".join(f"{kind} {now[kind]}/{exist}" for kind, exist in there.items())
        try:
            apart, (low, middle, high) = beside(path, out / path.name, args.turns)
            worse = apart > 1e-3 or low > args.slower
            times = f"apart {apart:.0e}, time {middle:.2f} [{low:.2f}, {high:.2f}]"
        except Exception as error:  # noqa: BLE001 (what the original needs is not known)
            worse, times = False, "not run: " + str(error).replace("\n", " ")[-120:]
        bad += worse
        print(f"{path.name}: {said}, operators {sum(before.values())} -> {sum(after.values())}, {times}"
              f"{', MISSED ' + ' '.join(missed) if missed else ''}{', BAD' if worse else ''}", flush=True)
    print(", ".join(f"{kind} {a} of {b}" for kind, (a, b) in totals.items()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
