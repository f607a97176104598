"""What `saturate prove` finds on the models of a folder.

    python bench/proofs/proven.py results FOLDER --saturate build/release/tools/saturate [--every N] [--target T]   # each model and our result of it
    python bench/proofs/proven.py spellings FOLDER --saturate BIN         # models whose names differ behind the last `-`, pair by pair
    python bench/proofs/proven.py bugs FOLDER --saturate BIN --count 300 [--seed S]   # our results, one thing changed in each: none may be proven

A changed result is a bug where ONNX Runtime gives other numbers on drawn inputs, or where the file does not load; the others are told apart.
Prints a line for each case that is not as it should be, and the counts.
"""
import argparse
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import numpy_helper


def prove(tool, first, second, *words):
    begin = time.perf_counter()
    done = subprocess.run([tool, "prove", first, second, "--json", *words], capture_output=True, text=True, timeout=600)
    found = json.loads(done.stdout) if done.stdout.strip() else {"verdict": "error", "message": done.stderr.strip()}
    return {**found, "status": done.returncode, "seconds": time.perf_counter() - begin}


def optimized(tool, model, folder, *words):
    result = pathlib.Path(folder) / f"{model.stem}.result.onnx"
    done = subprocess.run([tool, model, "-o", result, "-q", "--no-verify", *words], capture_output=True, text=True)
    return result if done.returncode == 0 else None


# ---- bugs: one change in a model, or None where it has no place for it

def pick(rng, found):
    found = list(found)
    return rng.choice(found) if found else None


def change_attribute(model, rng):
    place = pick(rng, ((n, a) for n in model.graph.node for a in n.attribute if a.type in (1, 2) and a.name not in ("to", "saturation", "axis")))
    if place is None:
        return None
    node, attribute = place
    if attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = attribute.f * 1.5 + 0.01
    else:
        attribute.i = 1 - attribute.i if attribute.i in (0, 1) else attribute.i + 1
    return f"{node.op_type}.{attribute.name}"


def change_axis(model, rng):
    place = pick(rng, ((n, a) for n in model.graph.node for a in n.attribute if a.name in ("axis", "perm", "axes")))
    if place is None:
        return None
    node, attribute = place
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = 0 if attribute.i != 0 else 1
    elif len(attribute.ints) > 1:
        attribute.ints[0], attribute.ints[-1] = attribute.ints[-1], attribute.ints[0]
    return f"{node.op_type}.{attribute.name}"


def change_constant(model, rng):
    tensor = pick(rng, (t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT and 0 < np.prod(t.dims or [1]) < 100_000))
    if tensor is None:
        return None
    values = numpy_helper.to_array(tensor).copy()
    flat = values.reshape(-1)
    at = rng.randrange(flat.size)
    flat[at] = flat[at] * 1.25 + 0.1 if np.isfinite(flat[at]) else 1.0
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return f"constant {tensor.name}"


def change_order(model, rng):
    node = pick(rng, (n for n in model.graph.node if n.op_type in ("Sub", "Div", "MatMul", "Pow", "Less", "Where") and n.input[-1] != n.input[-2]))
    if node is None:
        return None
    node.input[-1], node.input[-2] = node.input[-2], node.input[-1]
    return f"order of {node.op_type}"


def change_operator(model, rng):
    others = {"Add": "Sub", "Mul": "Add", "Relu": "Sigmoid", "Sigmoid": "Tanh", "Tanh": "Sigmoid", "Gelu": "Relu", "ReduceMean": "ReduceMax", "Sub": "Add",
              "Less": "Greater", "Sqrt": "Abs", "Erf": "Tanh", "MaxPool": "AveragePool"}
    node = pick(rng, (n for n in model.graph.node if n.op_type in others and not n.domain))
    if node is None:
        return None
    was, node.op_type = node.op_type, others[node.op_type]
    return f"{was} is {node.op_type}"


def leave_out(model, rng):
    node = pick(rng, (n for n in model.graph.node if n.op_type in ("Mul", "Add", "Softmax", "Relu", "LayerNormalization", "Sigmoid", "Neg", "BiasGelu")))
    if node is None:
        return None
    was, kept = node.op_type, node.input[0]
    del node.input[:], node.attribute[:]
    node.op_type, node.domain = "Identity", ""
    node.input.append(kept)
    return f"without {was}"


BUGS = [change_attribute, change_axis, change_constant, change_order, change_operator, leave_out]


def differs(first, second, seed):
    """Whether ONNX Runtime tells the two apart; None: one of them does not run."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        sessions = [onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]) for m in (first, second)]
        rng = np.random.default_rng(seed)
        for size in (3, 7):
            symbols, feed = {}, {}
            for i in sessions[0].get_inputs():
                dims = [d if isinstance(d, int) else symbols.setdefault(d, size if len(symbols) else 2) for d in i.shape]
                feed[i.name] = rng.integers(0, 2, dims).astype(np.int64) if "int64" in i.type else rng.standard_normal(dims).astype(
                    np.float16 if "float16" in i.type else np.float32) if "float" in i.type else rng.integers(0, 2, dims).astype(bool)
            a, b = (s.run(None, feed) for s in sessions)
            if any(x.shape != y.shape or not np.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True) for x, y in zip(a, b)):
                return True
        return False
    except Exception:
        return None


# ---- commands

def told(name, found):
    places = "; ".join(f"{r['outputs'][0]}: {len(r['nodes'][0])} -> {len(r['nodes'][1])}" for r in found.get("regions", [])[:3])
    return f"{name}: {found['verdict']} {found.get('message', '')}{found.get('stop', '')} {places}"


def tally(name, found, counts):
    counts[found["verdict"]] = counts.get(found["verdict"], 0) + 1
    counts["seconds"] = counts.get("seconds", 0) + found["seconds"]
    if found["verdict"] != "proven":
        print(told(name, found), flush=True)


def results(args, folder):
    counts = {}
    for model in sorted(args.folder.glob("*.onnx"))[::args.every]:
        result = optimized(args.saturate, model, folder, *(["--target", args.target] if args.target else []))
        if result is None:
            counts["not optimized"] = counts.get("not optimized", 0) + 1
            continue
        tally(model.stem, prove(args.saturate, model, result, "--no-compare"), counts)
    return counts


def spellings(args, _):
    counts, families = {}, {}
    for model in sorted(args.folder.glob("*.onnx")):
        families.setdefault(model.stem.rsplit("-", 1)[0], []).append(model)
    for models in families.values():
        for a, b in list(itertools.combinations(models, 2))[::args.every]:
            tally(f"{a.stem} / {b.stem}", prove(args.saturate, a, b, "--no-compare"), counts)
    return counts


def bugs(args, folder):
    rng, counts = random.Random(args.seed), {}
    models = sorted(args.folder.glob("*.onnx"))
    done = 0
    while done < args.count:
        model = rng.choice(models)
        result = optimized(args.saturate, model, folder)
        if result is None or result.stat().st_size > 50 << 20:
            continue
        changed = onnx.load(result)
        what = rng.choice(BUGS)(changed, rng)
        if what is None:
            continue
        done += 1
        broken = pathlib.Path(folder) / "broken.onnx"
        onnx.save(changed, broken)
        found = prove(args.saturate, model, broken, *([] if args.compare else ["--no-compare", "--time-limit", "5"]))
        differ = differs(onnx.load(result), changed, done)
        key = f"{'bug' if differ else 'does not run' if differ is None else 'no bug seen'}: {found['verdict']}"
        counts[key] = counts.get(key, 0) + 1
        if found["verdict"] == "proven" and differ is not False:
            print(f"{model.stem}: {what}: PROVEN", flush=True)
            onnx.save(changed, f"{args.keep or folder}/{model.stem}-{done}.onnx")
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["results", "spellings", "bugs"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--saturate", required=True)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--target")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compare", action="store_true", help="bugs: let prove run the models, too")
    parser.add_argument("--keep", help="bugs: where what was proven is kept")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = {"results": results, "spellings": spellings, "bugs": bugs}[args.command](args, folder)
    print("  ".join(f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in counts.items()))
    proven_bug = any(k in ("bug: proven", "does not run: proven") for k in counts)
    return 1 if proven_bug else 0


if __name__ == "__main__":
    sys.exit(main())
