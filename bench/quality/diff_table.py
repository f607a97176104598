"""How `saturate diff` divides what optimizers do to models: original against the result of each, for every model given.

    python bench/quality/diff_table.py --saturate build/release/tools/saturate --work diffs a.onnx b.onnx ...

For each pair: operators before and after, share of equal ones, number of regions and of their forms, the largest region, lines of the text.
What holds of every diff is checked: each node of both models stands in one region or is equal, and no inner value of a region has the name
and the numbers of a value of the other model (run by ONNX Runtime on the inputs beside the model, `NAME.inputs.npz`, where they are).
Peers are those that the interpreter can import: onnxsim, onnxslim, onnxscript, onnxruntime.transformers.
"""
import argparse
import copy
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx


def by_onnxsim(model, path):
    import onnxsim

    onnx.save(onnxsim.simplify(model)[0], path)


def by_onnxslim(model, path):
    import onnxslim

    onnx.save(onnxslim.slim(model), path)


def by_onnxscript(model, path):
    import onnxscript.optimizer

    onnx.save(onnxscript.optimizer.optimize(model), path)


def by_transformers(model, path):
    from onnxruntime.transformers import optimizer

    onnx.save(model, path)
    kind = next((k for k in ("bert", "gpt2", "vit", "clip", "bart", "t5") if k in path.name), "bert")
    optimizer.optimize_model(str(path), model_type=kind, opt_level=0).save_model_to_file(str(path))


PEERS = {"onnxsim": by_onnxsim, "onnxslim": by_onnxslim, "onnxscript": by_onnxscript, "ort.transformers": by_transformers}


def inner_values_that_both_have(found, first, second, inputs):
    """Names of inner values on both sides of the diff that are the same numbers in both models."""
    import onnxruntime

    inner = {v for r in found["regions"] if not r["graph"] for v in r["inside_before"]} & {v for r in found["regions"] if not r["graph"] for v in r["inside_after"]}
    if not inner or not inputs.exists():
        return []
    given = dict(np.load(inputs))
    values = []
    for path in (first, second):
        model = onnx.load(path)
        have = {o.name for o in model.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=v) for v in sorted(inner - have))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            wanted = {i.name for i in session.get_inputs()}
            values.append(dict(zip(sorted(inner), session.run(sorted(inner), {k: v for k, v in given.items() if k in wanted}))))
        except Exception as error:  # an operator that it has not
            print(f"  not run: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            return []

    def same(a, b):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if not np.issubdtype(a.dtype, np.floating):
            return np.array_equal(a, b)
        return np.allclose(a, b, rtol=1e-5, atol=1e-6 * max(1e-30, float(np.abs(np.where(np.isfinite(a), a, 0)).max(initial=0))), equal_nan=True)

    return [v for v in sorted(inner) if same(*(np.asarray(side[v]) for side in values))]


def check(found):
    for side in ("before", "after"):
        nodes = sum(len(r[side]) for r in found["regions"])
        assert found[f"nodes_{side}"] == found[f"equal_nodes_{side}"] + nodes, "a node is in no region, or in several"
    for region in found["regions"]:
        assert not set(region["inside_before"]) & set(region["outputs"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--saturate", default="saturate")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a folder for results")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    rows = []
    print(f"{'model':28} {'tool':17} {'operators':>12} {'equal':>6} {'regions':>7} {'forms':>5} {'largest':>8} {'lines':>5} {'both':>4}")
    for path in args.models:
        for tool in (*PEERS, "saturate"):
            result = args.work / f"{path.stem}.{tool}.onnx"
            try:
                if tool == "saturate":
                    subprocess.run([args.saturate, path, "-o", result, "-q"], check=True, capture_output=True)
                else:
                    PEERS[tool](copy.deepcopy(onnx.load(path)), result)
            except Exception as error:
                print(f"{path.stem:28} {tool:17} failed: {type(error).__name__} {str(error).splitlines()[0][:80] if str(error) else ''}")
                continue
            done = subprocess.run([args.saturate, "diff", path, result, "--json"], capture_output=True, text=True)
            if done.returncode not in (0, 3):
                print(f"{path.stem:28} {tool:17} diff failed: {done.stderr.strip()[:120]}")
                continue
            found = json.loads(done.stdout)
            check(found)
            text = subprocess.run([args.saturate, "diff", path, result], capture_output=True, text=True).stdout
            both = inner_values_that_both_have(found, path, result, path.with_name(path.name.removesuffix(".onnx") + ".inputs.npz"))
            largest = max((len(r["before"]) + len(r["after"]) for r in found["regions"]), default=0)
            row = {
                "model": path.stem, "tool": tool, "before": found["nodes_before"], "after": found["nodes_after"],
                "equal": (found["equal_nodes_before"] + found["equal_nodes_after"]) / max(1, found["nodes_before"] + found["nodes_after"]),
                "regions": len(found["regions"]), "forms": len(found["groups"]), "largest": largest, "lines": len(text.splitlines()),
                "proven": found["proven"], "differ": sum(r["values_differ"] for r in found["regions"]), "both": both,
            }
            rows.append(row)
            print(f"{path.stem:28} {tool:17} {row['before']:>5} ->{row['after']:>5} {row['equal']:>6.0%} {row['regions']:>7} {row['forms']:>5} {largest:>8} {row['lines']:>5} {len(both):>4}"
                  + ("" if row["proven"] else "  (structure only)") + (f"  ({row['differ']} outputs differ)" if row["differ"] else ""), flush=True)
    for tool in (*PEERS, "saturate"):
        of = [r for r in rows if r["tool"] == tool]
        if of:
            print(f"{tool}: {len(of)} models, equal {np.mean([r['equal'] for r in of]):.0%}, regions {np.mean([r['regions'] for r in of]):.1f}, "
                  f"largest region {np.median([r['largest'] for r in of]):.0f} in the median, {max(r['largest'] for r in of)} at most, "
                  f"lines at most {max(r['lines'] for r in of)}, inner values that both have {sum(len(r['both']) for r in of)}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
