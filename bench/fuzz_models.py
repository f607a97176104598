#!/usr/bin/env python3
"""Random small models in our runtime (the Python package), in ONNX Runtime and in the standard's reference evaluator.

usage: fuzz_models.py [--cases N] [--seed S] [--ops A,B] [--wild] [--show SORT] [--save FOLDER] [--json FILE]

Three quarters of the models are chains of one to five operators that are valid by the specification (fuzz/specs*.py); with --wild they are
single operators drawn from their schemas alone, which mostly all refuse: there crashes and hangs are looked for. Prints each sort of
outcome with its operators, and exits 1 where we crash, hang, differ from two others that agree, or refuse a valid model that both others run
(with operators of com.microsoft: that ONNX Runtime runs), unless fuzz/explained.py says why.
"""
import argparse
import collections
import json
import pathlib
import sys
import warnings

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fuzz import draw, explained, judges, specs, specs_contrib, specs_data  # noqa: E402, F401
from fuzz.cases import keep  # noqa: E402

BATCH = 250
OPSETS = (13, 14, 15, 16, 17, 18, 18, 19, 20, 21, 21, 22, 23, 23, 24)


def tolerance(dtype, length):
    """(relative to the element, relative to the largest): what orders of summation and float32 functions may differ by."""
    return {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-4, "float64": 1e-6}.get(dtype.name, 0) * length


def close(a, b, loosest, length):
    """Whether two outputs are the same up to rounding in the coarsest type that the model computes with."""
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        return isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b) and all(close(x, y, loosest, length) for x, y in zip(a, b))
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    texts = a.dtype.kind in "OUS", b.dtype.kind in "OUS"
    if a.shape != b.shape or texts[0] != texts[1] or (not texts[0] and a.dtype != b.dtype):
        return False
    if texts[0]:
        return all((x.decode() if isinstance(x, bytes) else str(x)) == (y.decode() if isinstance(y, bytes) else str(y)) for x, y in zip(a.flat, b.flat))
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        x, y = a.astype(np.complex128), b.astype(np.complex128)
        finite = np.abs(y[np.isfinite(y)])
        bound = max(tolerance(a.dtype, length), loosest)
        scale = min(float(finite.max()), 1e30) if finite.size else 0.0
        scale = max(scale, 1.0) if length > 1 else scale  # a chain's last step may cancel what the steps before rounded
        same = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound * (np.abs(y) + scale) + 1e-6 * (bound > 0))
    return bool(same.all())


def loosest_type(model, feed):
    """The bound of the coarsest float type in the model; 0 where there is none."""
    names = {np.asarray(v).dtype.name for v in feed.values()} | {onnx.helper.tensor_dtype_to_np_dtype(i.data_type).name for i in model.graph.initializer if i.data_type != onnx.TensorProto.STRING}
    names |= {onnx.helper.tensor_dtype_to_np_dtype(a.i).name for n in model.graph.node for a in n.attribute if n.op_type == "Cast" and a.name == "to" and a.i != onnx.TensorProto.STRING}
    return max((tolerance(np.dtype(n), 1) for n in ("float16", "float32", "float64") if n in names), default=0) if "bfloat16" not in names else 3e-2


def agree(a, b, loosest, length):
    return len(a) == len(b) and all(close(x, y, loosest, length) for x, y in zip(a, b))


def sort_of(outcome, loosest, length):
    """The name of what happened; outcomes by judge."""
    state = {judge: result[0] for judge, result in outcome.items()}
    for judge in ("ours", "ours_reference"):
        if state[judge] in ("crash", "hang"):
            return f"we {state[judge]}"
    others = {j: outcome[j][1] for j in ("ort", "standard") if state[j] == "ran"}
    if state["ours"] != state["ours_reference"]:
        return "only one of our two levels runs"
    if state["ours"] == "refused":
        return "refused by all" if not others else "we refuse, both others run" if len(others) == 2 else f"we refuse, {next(iter(others))} runs"
    ours = outcome["ours"][1]
    if not agree(ours, outcome["ours_reference"][1], loosest, length):
        return "fast and reference differ"
    if not others:
        return "only we run"
    right = {j for j, o in others.items() if agree(ours, o, loosest, length)}
    if len(right) == len(others):
        return f"agree with {'both' if len(others) == 2 else next(iter(others))}"
    if right:
        return f"{next(iter(set(others) - right))} differs from us and the other"
    if len(others) == 2:
        return "we differ from both" if agree(others["ort"], others["standard"], loosest, length) else "all three differ"
    return f"differ from {next(iter(others))}, the other refuses"


BAD = ("we crash", "we hang", "fast and reference differ", "only one of our two levels runs", "we differ from both", "all three differ", "we refuse, both others run")
DOUBT = ("we refuse, ort runs", "we refuse, standard runs", "differ from ort, the other refuses", "differ from standard, the other refuses")


def cases(args):
    usable = [s for s in specs.SPECS if not args.ops or s.op in args.ops]
    seed = args.seed * 1_000_003
    made = 0
    while made < args.cases:
        seed += 1
        opset = OPSETS[seed % len(OPSETS)]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                if args.wild:
                    schemas = [onnx.defs.get_schema(n, opset) for n in sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and s.since_version <= opset})]
                    schemas = [s for s in schemas if not s.deprecated and (not args.ops or s.name in args.ops) and s.name not in ("If", "Loop", "Scan", "SequenceMap")]
                    case = draw.wild_model(seed, schemas, opset)
                else:
                    case = draw.random_model(seed, usable, opset, args.ops)
        except (draw.Skip, KeyError, IndexError, ValueError, TypeError, onnx.defs.SchemaError):
            continue
        if case[2]:
            made += 1
            yield seed, *case


def first_difference(outputs, ours):
    """(output, index) of the first element that is clearly another; None where there is none, or the shapes differ."""
    for k, (a, b) in enumerate(zip(outputs, ours)):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.shape != b.shape or a.dtype.kind in "OUS" or not a.size:
            continue
        with np.errstate(all="ignore"):
            x, y = a.astype(np.complex128).ravel(), b.astype(np.complex128).ravel()
            far = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.nan_to_num(np.abs(x - y), nan=1e300))
        if far.max() > 0:
            return k, int(far.argmax())
    return None


def describe(outcome):
    ran = [o[1] for o in outcome.values() if o[0] == "ran"]
    place = next((p for p in (first_difference(o, ran[0]) for o in ran[1:] if ran) if p), None)

    def text(value):
        if isinstance(value, str):
            return value
        parts = []
        for k, v in enumerate(value):
            if isinstance(v, (list, tuple)):
                parts.append(str(v)[:80])
                continue
            v = np.asarray(v)
            at = place[1] if place and place[0] == k else 0
            parts.append(f"{v.dtype}{list(v.shape)} from {at}: {np.array2string(v.ravel()[at:at + 5], precision=8, separator=',')}")
        return "; ".join(parts)

    return "\n".join(f"      {judge:15}{result[0]:8}{text(result[1])[:300]}" for judge, result in outcome.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ops", type=lambda t: set(t.split(",")), default=None)
    parser.add_argument("--wild", action="store_true")
    parser.add_argument("--show", default="", help="print the cases whose sort of outcome contains this; `bad`: all that count against us")
    parser.add_argument("--save", type=pathlib.Path, help="write model.onnx and inputs of those here")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    counts, by_op, unexplained, batch = collections.Counter(), collections.defaultdict(collections.Counter), 0, []

    def finish():
        nonlocal unexplained
        pairs = [(model.SerializeToString(), feed) for _, model, feed, _ in batch]
        results = {judge: judges.run(judge, pairs) for judge in judges.JUDGES}
        for k, (seed, model, feed, ops) in enumerate(batch):
            outcome = {judge: results[judge][k] for judge in judges.JUDGES}
            sort = sort_of(outcome, loosest_type(model, feed), len(ops))
            counts[sort] += 1
            by_op[sort][" ".join(ops)] += 1
            fused = any(n.domain for n in model.graph.node)  # ONNX Runtime's own: its word is the standard's
            counts_against = sort in BAD[:2] if args.wild else sort in BAD or (fused and sort in DOUBT)
            why = explained.reason(sort, model, feed, outcome)
            unexplained += counts_against and why is None
            if args.show and (args.show in sort or (args.show == "bad" and counts_against and why is None)):
                print(f"{sort}{' (explained)' if why else ''}: seed {seed} opset {model.opset_import[0].version}\n      "
                      f"{' | '.join(onnx.printer.to_text(n) for n in model.graph.node)[:600]}\n      {({n: (v.dtype.name, v.shape) for n, v in feed.items()})} {[(i.name, onnx.TensorProto.DataType.Name(i.data_type), tuple(i.dims)) for i in model.graph.initializer]}\n{describe(outcome)}", flush=True)
                keep(args.save, seed, model, feed)
        batch.clear()

    for case in cases(args):
        batch.append(case)
        if len(batch) == BATCH:
            finish()
    if batch:
        finish()
    for sort, n in counts.most_common():
        print(f"{n:6} {sort}")
        if sort in BAD + DOUBT:
            print("         " + ", ".join(f"{op} {k}" for op, k in by_op[sort].most_common(25)))
    print(f"{unexplained} unexplained")
    if args.json:
        args.json.write_text(json.dumps({"counts": counts, "operators": by_op}, indent=1))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
