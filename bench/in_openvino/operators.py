#!/usr/bin/env python3
"""What OpenVINO has of the operators of ONNX and computes right: each in models of one operator.

    python bench/in_openvino/operators.py [--json OUT.json] [--only REGEX] [--check extract/targets/openvino.json]

Needs openvino, onnx, onnxruntime and numpy. The models are the standard's own tests of operators (onnx.backend.test; those of function bodies are left out), and
those of com.microsoft that the grid of bench/runtime/ort_grid.py has, for which ONNX Runtime is the judge. Each runs in a process that may die. Printed for each operator:
how many of its cases run right, run wrong, are refused, or end the process, and the names of those. Then the newest opset in which a model of one Neg loads.
--check compares that with a target: it fails where the target takes an operator of which no case runs right, or refuses one of which all do.
"""
import argparse
import collections
import json
import math
import multiprocessing
import os
import re
import sys

HINTS = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"}
MOST_ELEMENTS = 1 << 20  # of the inputs of a case of the grid


def standard_cases():
    """(name, operator, model, feeds, wanted outputs)."""
    import warnings

    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        ops = {(n.domain, n.op_type) for n in case.model.graph.node}
        if len(case.model.graph.node) != 1 or "expanded" in case.name:
            continue
        (domain, op) = ops.pop()
        if domain in ("", "ai.onnx"):
            inputs, wanted = case.data_sets[0]
            yield case.name, op, case.model, dict(zip([i.name for i in case.model.graph.input], inputs)), list(wanted)


def grid_cases():
    """Operators of com.microsoft with the outputs that ONNX Runtime gives."""
    import numpy as np
    import onnx

    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import rooms  # noqa: F401
    import gather_ort
    import ort_grid

    seen, rng = collections.Counter(), np.random.default_rng(5)
    for make in ort_grid.GRID:
        for case in make():
            sizes = [x.size if isinstance(x, np.ndarray) else math.prod(x) for x in case.inputs if x is not None]
            if case.domain != "com.microsoft" or sum(sizes) > MOST_ELEMENTS or seen[case.op] >= 24:
                continue
            seen[case.op] += 1
            data, feeds = gather_ort.build(case, 1, rng)
            model = onnx.load_from_string(data)
            feeds.pop("one")
            for nodes, last in ((model.graph.node, 1 + case.outputs), (model.graph.input, 0)):
                for item in [n for n in nodes if getattr(n, "op_type", "") in ("Shape", "Identity") or n.name == "one"]:
                    nodes.remove(item)
            del model.graph.output[:]
            model.graph.output.extend(onnx.ValueInfoProto(name=f"y0_{k}") for k in range(case.outputs))
            try:
                wanted = gather_ort.session(model.SerializeToString(), 1).run(None, feeds)
            except Exception:  # of ONNX Runtime, which has no class of its own for it
                continue
            yield f"{case.op}_{seen[case.op]}", f"com.microsoft::{case.op}", model, feeds, wanted


def near(found, wanted):
    import numpy as np

    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.kind not in "fiub":
        return str(found.dtype) == str(wanted.dtype)
    with np.errstate(all="ignore"):
        a, b = found.astype(np.float64), wanted.astype(np.float64)
        scale = max(1e-6, float(np.max(np.abs(b[np.isfinite(b)]), initial=0)))
        loose = 2e-2 if wanted.dtype.itemsize < 4 and wanted.dtype.kind == "f" else 1e-3
        return bool(np.all((np.abs(a - b) <= loose * scale) | (a == b) | (np.isnan(a) & np.isnan(b))))


def outcome(model, feeds, wanted):
    """Inputs as they are, or all but the first as constants, as models have axes and shapes."""
    import onnx

    found = run(model, feeds, wanted)
    if found == "right" or len(model.graph.input) < 2:
        return found
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in list(fixed.graph.input)[1:]:
        if value.name in feeds:
            fixed.graph.input.remove(value)
            data = feeds[value.name]
            tensor = onnx.numpy_helper.from_array(data, value.name) if not isinstance(data, onnx.TensorProto) else data
            fixed.graph.initializer.append(tensor)
            fixed.graph.initializer[-1].name = value.name
    return "right" if run(fixed, feeds, wanted) == "right" else found


def run(model, feeds, wanted):
    import numpy as np
    import onnx
    import openvino

    def array(v):
        return onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v)

    wanted = [array(w) for w in wanted]

    try:
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", HINTS)
        known = {name for port in compiled.inputs for name in port.names}
        found = compiled({n: array(v) for n, v in feeds.items() if n in known})
        values = {name: found[port] for port in compiled.outputs for name in port.names}
        outs = [values.get(o.name) for o in model.graph.output]
    except Exception as error:  # of OpenVINO, which has no class of its own for it
        return "refused: " + re.sub(r"\s+", " ", str(error))[-160:]
    if any(o is None for o in outs):
        return "refused: an output is missing"
    return "right" if all(near(o, w) for o, w in zip(outs, wanted)) else "wrong"


def work(only, done, queue):
    """Cases that are not in `done`, in order; each is named before it runs."""
    for kind in (standard_cases, grid_cases):
        for name, op, model, feeds, wanted in kind():
            if name in done or not re.search(only, op):
                continue
            if any(isinstance(v, (list, dict)) or v is None for v in [*feeds.values(), *wanted]):
                continue  # sequences, maps and optionals
            queue.put((name, op, None))
            queue.put((name, op, outcome(model, feeds, wanted)))
    queue.put(None)


def gather(only):
    """By operator, the outcome of each case. A case that ends the process is told so, and the next process goes on behind it."""
    context, done, out = multiprocessing.get_context("spawn"), set(), collections.defaultdict(dict)
    while True:
        queue = context.Queue()
        child = context.Process(target=work, args=(only, done, queue))
        child.start()
        last = None
        while True:
            try:
                item = queue.get(timeout=1)
            except Exception:  # queue.Empty: nothing came for a while
                if child.is_alive():
                    continue
                break
            if item is None:
                child.join()
                return out
            name, op, result = item
            done.add(name)
            out[op][name] = result or "died"
            last = name
        print(f"{last}: the process ended with {child.exitcode}", file=sys.stderr, flush=True)


def newest_opset():
    import onnx
    from onnx import helper

    newest = 0
    for opset in range(7, onnx.defs.onnx_opset_version() + 1):
        values = [helper.make_tensor_value_info(n, 1, [2]) for n in "xy"]
        model = helper.make_model(helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", opset)])
        import numpy as np

        if outcome(model, {"x": np.ones(2, np.float32)}, [-np.ones(2, np.float32)]) == "right":
            newest = opset
    return newest


def check(rows, path):
    """What a target says otherwise than the cases do."""
    target = json.loads(open(path).read())
    takes = set(target.get("standard", []))
    wrong = []
    for op, cases in sorted(rows.items()):
        right = sum(v == "right" for v in cases.values())
        if op in takes and not right:
            wrong.append(f"{op} is taken, and no case runs right")
        if "::" not in op and op not in takes and right == len(cases):
            wrong.append(f"{op} is not taken, and all cases run right")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--only", default="", help="operators that hold this")
    parser.add_argument("--check", metavar="TARGET")
    args = parser.parse_args()
    import openvino

    rows = gather(args.only)
    for op, cases in sorted(rows.items()):
        counts = collections.Counter(v.split(":")[0] for v in cases.values())
        others = "; ".join(f"{name}: {v[:100]}" for name, v in cases.items() if v != "right")
        print(f"{op:40} {dict(counts)}  {others[:400]}", flush=True)
    found = {"openvino": openvino.__version__, "newest_opset": newest_opset(), "operators": rows}
    print(f"OpenVINO {found['openvino']}: opset {found['newest_opset']}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(found, f, indent=1)
    wrong = check(rows, args.check) if args.check else []
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
