#!/usr/bin/env python3
"""How far quantized models are from the float models they were made of, before and after optimizing, in ONNX Runtime as users load them.

    python bench/quality/quantized_error.py FLOATS QUANTIZED --binary build/release/tools/saturate [--options "--approximate"] [--only REGEX] [--positions 1000]
        [--json FILE]

FLOATS is what bench/export/export_models.py wrote (NAME.EXPORTER.onnx), QUANTIZED what `bench/export/quantize_models.py make` made of it (NAME.SCHEME.onnx,
NAME.inputs.npz). Inputs are drawn like those of the file until the first output has --positions rows along its last axis. Told of original and result:
the ratio of signal and error over all rows (SQNR, in dB), and the share of rows whose largest element is that of the float model, with its 95 % interval
(Wilson). A result is worse where its SQNR is lower by more than 0.1 dB, or its share below the interval of the original's. Exit status 1 if any is.
"""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

MOST_LOST = 0.1  # dB
MOST_RUNS = 400
BATCH = 8  # where the first dim of all inputs is open


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = len(os.sched_getaffinity(0))  # it counts the machine's, and they would wait for each other
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def stays(value):
    """Masks and positions: what is not drawn."""
    return np.isin(value, (0, 1)).all() or (np.diff(value, axis=-1) == 1).all()


def batched(inputs, model):
    """The inputs so many times beside each other, where they are a batch of one and may be more."""
    first = {i.shape[0] if i.shape else None for i in model.get_inputs()}
    one = len(first) == 1 and isinstance(first.pop(), str) and all(value.shape[0] == 1 for value in inputs.values())
    return {name: np.repeat(value, BATCH, axis=0) for name, value in inputs.items()} if one else inputs


def drawn_like(inputs, rng):
    out = {}
    for name, value in inputs.items():
        if value.dtype.kind == "f":
            out[name] = (value.mean() + max(value.std(), 1e-3) * rng.standard_normal(value.shape)).astype(value.dtype)
        else:
            out[name] = value if value.dtype.kind == "b" or stays(value) else rng.integers(value.min(), value.max() + 1, value.shape).astype(value.dtype)
    return out


def rows_of(models, inputs, positions):
    """The rows of the first output of each model, on the same inputs."""
    rng, rows = np.random.default_rng(0), [[] for _ in models]
    inputs = batched(inputs, models[0])
    for _ in range(MOST_RUNS):
        feeds = drawn_like(inputs, rng)
        for model, kept in zip(models, rows):
            (out,) = model.run([model.get_outputs()[0].name], {i.name: feeds[i.name] for i in model.get_inputs()})
            kept.append(out.reshape(-1, out.shape[-1]).astype(np.float64))
        if sum(len(r) for r in rows[0]) >= positions:
            break
    return [np.concatenate(kept) for kept in rows]


def sqnr(rows, reference):
    error = float(np.square(rows - reference).sum())
    return math.inf if error == 0 else 10 * math.log10(max(float(np.square(reference).sum()), 1e-300) / error)


def agreement(rows, reference):
    """The share, and its interval."""
    n, share = len(rows), float((rows.argmax(-1) == reference.argmax(-1)).mean())
    z = 1.96
    middle, half = (share + z * z / (2 * n)) / (1 + z * z / n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return [share, middle - half, middle + half]


def measured(source, args):
    name = source.name.split(".")[0]
    (exported,) = sorted(args.floats.glob(f"{name}.*.onnx"))[:1]
    inputs = dict(np.load(args.quantized / f"{name}.inputs.npz"))
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "o.onnx"
        subprocess.run([args.binary, "optimize", source, "-o", made, "-q", "--no-verify", *args.options.split()], check=True, capture_output=True)
        reference, before, after = rows_of([session(p) for p in (exported, source, made)], inputs, args.positions)
    row = {"rows": len(reference), "sqnr": [sqnr(before, reference), sqnr(after, reference)], "agreement": [agreement(before, reference), agreement(after, reference)]}
    row["worse"] = not row["sqnr"][1] >= row["sqnr"][0] - MOST_LOST or row["agreement"][1][0] < row["agreement"][0][1]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("floats", type=pathlib.Path)
    parser.add_argument("quantized", type=pathlib.Path)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--options", default="", help="of saturate")
    parser.add_argument("--only", default="", help="regular expression over names")
    parser.add_argument("--positions", type=int, default=1000)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    print("| model | rows | SQNR, dB | after | same largest element | after | |\n|---|---|---|---|---|---|---|")
    rows = {}
    for source in sorted(args.quantized.glob("*.onnx")):
        if not re.search(args.only, source.name):
            continue
        row = rows[source.stem] = measured(source, args)
        shares = [f"{s:.1%} [{low:.1%}, {high:.1%}]" for s, low, high in row["agreement"]]
        print(f"| {source.stem} | {row['rows']} | {row['sqnr'][0]:.2f} | {row['sqnr'][1]:.2f} | {shares[0]} | {shares[1]} | {'worse' if row['worse'] else ''} |", flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1) + "\n")
    worse = [name for name, row in rows.items() if row["worse"]]
    print(f"\n{len(rows)} models, worse: {', '.join(worse) or 'none'}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
