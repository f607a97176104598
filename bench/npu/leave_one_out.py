"""How well a cost file that was fitted on some chips and precisions of an accelerator predicts another pair of them.

    python bench/npu/leave_one_out.py --binary saturate [--json]

Of the nine cells (chip and precision) of figures.csv each is left out in turn; `saturate cost fit --kind npu` makes a cost file of the other
eight, and `saturate cost eval` prices the cell's four graphs by it. Told are the orders of heads together against heads apart (two a cell;
forms within 2 % of each other count as right), and the rank correlation of all predicted figures with the measured ones.
"""
import argparse
import csv
import itertools
import json
import pathlib
import subprocess
import tempfile

import numpy as np

import block

CLOSE = 0.02
CHIPS = ("v73", "v81", "v85")


def read_figures(path=pathlib.Path(__file__).with_name("figures.csv")):
    """Cycles by (chip, precision, T, form), and the bytes of (activations, weights) by precision."""
    rows = list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))
    cycles = {(chip, r["precision"], int(r["T"]), r["form"]): float(r[chip]) for r in rows for chip in CHIPS}
    return cycles, {r["precision"]: (float(r["activation_bytes"]), float(r["weight_bytes"])) for r in rows}


def rows_of(keys, cycles, stored, graphs):
    lines = []
    for chip, precision, rows, form in keys:
        data, weights = stored[precision]
        lines.append(json.dumps({"graph": str(graphs[rows, form]), "machine": chip, "precision": precision, "activation_bytes": data,
                                 "weight_bytes": weights, "seconds": cycles[chip, precision, rows, form]}))
    return "\n".join(lines) + "\n"


def run(binary, *words):
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def ranks(values):
    order = np.argsort(np.argsort(values))
    return [np.mean([order[j] for j, w in enumerate(values) if w == v]) for v in values]


def predict(binary, folder, cycles, stored, graphs, chip, precision):
    """What a file without this cell says of its four graphs."""
    kept = [k for k in cycles if k[:2] != (chip, precision)]
    (folder / "fit.jsonl").write_text(rows_of(kept, cycles, stored, graphs))
    run(binary, "cost", "fit", folder / "fit.jsonl", "--kind", "npu", "--machine", chip, "--precision", precision, "-o", folder / "npu.json")
    out = {}
    for key in (k for k in cycles if k[:2] == (chip, precision)):
        (folder / "one.jsonl").write_text(rows_of([key], cycles, stored, graphs))
        told = json.loads(run(binary, "cost", "eval", folder / "one.jsonl", "--cost", folder / "npu.json", "--json"))
        out[key] = told["graphs"][0]["points"][0][0]
    return out


def leave_one_out(binary):
    cycles, stored = read_figures()
    predicted = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        graphs = block.write(folder)
        for chip, precision in itertools.product(CHIPS, stored):
            predicted.update(predict(binary, folder, cycles, stored, graphs, chip, precision))
    orders = {}
    for chip, precision, rows in sorted({k[:3] for k in cycles}):
        (a, b), (p, q) = ([table[chip, precision, rows, form] for form in ("MHA", "SHA")] for table in (cycles, predicted))
        orders[f"{chip} {precision} T={rows}"] = (a < b) == (p < q) or abs(a - b) <= CLOSE * min(a, b)
    keys = sorted(cycles)
    correlation = float(np.corrcoef(ranks([cycles[k] for k in keys]), ranks([predicted[k] for k in keys]))[0, 1])
    error = float(np.mean([abs(predicted[k] / cycles[k] - 1) for k in keys]))
    return {"orders": len(orders), "right": sum(orders.values()), "wrong": [k for k, right in orders.items() if not right],
            "rank_correlation": correlation, "mean_error": error,
            "figures": [{"cell": " ".join(map(str, k)), "cycles": cycles[k], "predicted": round(predicted[k])} for k in keys]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="saturate")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    told = leave_one_out(args.binary)
    if args.json:
        print(json.dumps(told, indent=1))
        return
    for row in told["figures"]:
        print(f"{row['cell']:22} {row['cycles']:>12,.0f} {row['predicted']:>12,}")
    print(f"orders right: {told['right']} of {told['orders']}" + (f" (wrong: {', '.join(told['wrong'])})" if told["wrong"] else ""))
    print(f"rank correlation: {told['rank_correlation']:.3f}, mean error {100 * told['mean_error']:.1f} %")


if __name__ == "__main__":
    main()
