#!/usr/bin/env python3
"""Models in OpenVINO: the original and what `optimize --target openvino` writes, compared and timed in turns.

    python bench/in_openvino/models.py DIR --binary build/release/tools/saturate [NAME ...] [--options "--target openvino"] [--precision f32] [--rounds 31] [--runs 2]
        [--json OUT.json] [--budget S] [--work FOLDER]
    python bench/in_openvino/models.py DIR --binary ... --exports    # what bench/export/export_models.py wrote into DIR, instead of bench/speed/trained.py's

Needs openvino, onnx, onnxruntime and numpy. Both run in one process with one thread, in turns and in another order each round, by processor time; that is done
`--runs` times, each in a process of its own. Printed: the median of (result / original) of the same round with its 95 % interval, nodes of the graphs that
OpenVINO executes (`executable`) of both, and how far outputs are from the original's, in shares of their scale. Judge of right is the original in OpenVINO; where
the two differ, the original in ONNX Runtime says which of them is off. A result is slower where in all runs the interval lies above 1.00 and the median above 1.01.
"""
import argparse
import collections
import functools
import json
import math
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
import trained  # noqa: E402

TOLERANCE = 1e-3  # of the scale of an output


def compiled(path, precision):
    import openvino

    core = openvino.Core()
    hints = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1", "ENABLE_CPU_PINNING": "NO"}
    return core.compile_model(core.read_model(str(path)), "CPU", hints)


def feeds_of(path, spec):
    """Inputs of a model of bench/speed/trained.py by its list, those of an export from the file beside it."""
    import numpy as np

    if "npz" in spec:
        return dict(np.load(spec["npz"]))
    session = trained.new_session(path)  # it tells the types
    return trained.feeds_of(session, spec)


def outputs(path, feeds, precision):
    """By name: OpenVINO drops the names of outputs that are one value."""
    model = compiled(path, precision)
    known = {name for port in model.inputs for name in port.names}
    found = model({name: value for name, value in feeds.items() if name in known})
    return {name: found[port] for port in model.outputs for name in port.names}


def in_onnxruntime(path, feeds):
    session = trained.new_session(path)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})))


def distance(found, wanted):
    """The largest difference by the scale of its output; infinite for another shape."""
    import numpy as np

    far = 0.0
    for name in wanted.keys() & found.keys():
        a, b = np.asarray(found[name]), np.asarray(wanted[name])
        if a.shape != b.shape:
            return math.inf
        if not b.size or b.dtype.kind not in "fiu":
            continue
        with np.errstate(all="ignore"):
            a, b = a.astype(np.float64), b.astype(np.float64)
            if (np.isfinite(a) != np.isfinite(b)).any():
                return math.inf
            good = np.isfinite(b)
            if good.any():
                far = max(far, float(np.max(np.abs(a[good] - b[good])) / max(1e-9, np.max(np.abs(b[good])))))
    return far


def compare(source, result, spec, precision):
    feeds = feeds_of(source, spec)
    wanted = outputs(source, feeds, precision)
    row = {"error": distance(outputs(result, feeds, precision), wanted)}
    if row["error"] > TOLERANCE:
        judge = in_onnxruntime(source, feeds)
        row |= {"original_in_onnxruntime": distance(wanted, judge), "result_in_onnxruntime": distance(outputs(result, feeds, precision), judge)}
    return row


def executed(path, precision):
    """How many nodes of each type OpenVINO's CPU plugin executes."""
    return dict(collections.Counter(op.get_rt_info()["layerType"].astype(str) for op in compiled(path, precision).get_runtime_model().get_ops()))


def timed(paths, spec, precision, rounds, seed):
    """Medians of the paired ratios to the first path with their intervals, and the seconds of that."""
    feeds, runs = feeds_of(paths[0], spec), []
    for path in paths:
        model = compiled(path, precision)
        known = {name for port in model.inputs for name in port.names}
        request = model.create_infer_request()
        own = {name: value for name, value in feeds.items() if name in known}
        request.infer(own)
        runs.append(functools.partial(request.infer, own))
    return trained.in_turns(runs, rounds, seed)


def sources(folder, args):
    if not args.exports:
        for _, model in trained.models(args.names):
            if (folder / f"{model['name']}.onnx").exists():
                yield model["name"], folder / f"{model['name']}.onnx", model
        return
    for path in sorted(folder.glob("*.onnx")):
        npz = folder / f"{path.name.split('.')[0]}.inputs.npz"
        if npz.exists() and (not args.names or any(n in path.name for n in args.names)):
            yield path.stem, path, {"npz": str(npz)}


def measure(name, source, spec, args, work):
    result = work / f"{name}.result.onnx"
    command = [args.binary, "optimize", str(source), "-o", str(result), "--force", "--report", f"{result}.json", *shlex.split(args.options)]
    done = subprocess.run(command, capture_output=True, text=True)
    row = {"name": name, "status": done.returncode}
    if done.returncode:
        return row | {"refused": (done.stderr or done.stdout).strip()[-300:]}
    try:
        before = trained.in_child(executed, source, args.precision)
    except Exception as error:  # of OpenVINO, which has no class of its own for it
        return row | {"not_loaded": str(error).strip().splitlines()[-1][:200]}
    row |= {"executed": [before, trained.in_child(executed, result, args.precision)]}
    row |= trained.in_child(compare, source, result, spec, args.precision)
    runs = [trained.in_child(timed, [source, result], spec, args.precision, args.rounds, seed) for seed in range(args.runs)]
    return row | {"original_seconds": runs[0][1], "ratios": [ratios[1] for ratios, _ in runs]}


def is_wrong(row):
    return row.get("error", 0) > TOLERANCE and row["result_in_onnxruntime"] > max(TOLERANCE, 1.1 * row["original_in_onnxruntime"])


def show(row):
    if "ratios" not in row:
        print(f"{row['name']:36} {row.get('refused') or 'the original does not run: ' + row['not_loaded']}", flush=True)
        return
    real = "  ".join(f"{m:.3f} [{low:.3f}, {high:.3f}]" for m, low, high in row["ratios"])
    before, after = row["executed"]
    other = "  ".join(f"{op} {before.get(op, 0)}->{after.get(op, 0)}" for op in sorted(before | after) if before.get(op, 0) != after.get(op, 0))
    print(
        f"{row['name']:36} {row['original_seconds'] * 1e3:9.3f} ms  {real}  error {row['error']:.1e}{'  WRONG' if is_wrong(row) else ''}"
        f"{'  SLOWER' if trained.is_slower(row) else ''}  {other}",
        flush=True,
    )


def summary(rows):
    good = [r for r in rows if "ratios" in r]
    return {
        "models": len(good),
        "geomean": round(trained.geomean([trained.middle(r) for r in good]), 4) if good else None,
        "worst": max((round(trained.middle(r), 3), r["name"]) for r in good) if good else None,
        "slower": [r["name"] for r in good if trained.is_slower(r)],
        "wrong": [r["name"] for r in good if is_wrong(r)],
        "original does not run": [r["name"] for r in rows if "not_loaded" in r],
        "refused": [r["name"] for r in rows if "refused" in r],
    }


def run(args, work):
    stamp = [args.options, args.precision]
    known = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    rows = known.get("rows", []) if known.get("stamp") == stamp else []
    done, begin = {r["name"] for r in rows}, time.perf_counter()
    for name, source, spec in sources(args.folder, args):
        if name in done:
            continue
        if args.budget and time.perf_counter() - begin > args.budget:
            break
        try:
            rows.append(measure(name, source, spec, args, work))
        except Exception as error:  # as above
            rows.append({"name": name, "not_loaded": f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:200]}"})
        show(rows[-1])
        if args.json:
            args.json.write_text(json.dumps({"stamp": stamp, "rows": rows}) + "\n")
    print(json.dumps(summary(rows), indent=1))
    return 1 if summary(rows)["wrong"] or summary(rows)["slower"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="models whose names hold one of these words")
    parser.add_argument("--binary", default="saturate")
    parser.add_argument("--exports", action="store_true")
    parser.add_argument("--options", default="--target openvino")
    parser.add_argument("--precision", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--budget", type=float, help="seconds after which no other model is begun")
    parser.add_argument("--work", type=pathlib.Path, help="where results are kept")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = args.work or pathlib.Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        return run(args, work)


if __name__ == "__main__":
    sys.exit(main())
