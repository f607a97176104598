"""Models written for every target, each judged by onnx.checker, by the target's own limits, and by ONNX Runtime's numbers: one table.

    python bench/quality/all_targets.py ZOO [--binary build/release/tools/saturate] [--target npu-4d ...]

ZOO has NAME.onnx, and beside it NAME.inputs.npz and NAME.expected.npz. Sizes are those of the inputs for targets that want fixed ones.
A row has the number of models
- whose result onnx.checker takes, whose opset and IR version the oldest runtime of the target loads, and whose report is of docs/report.schema.json;
- in which the target refuses no operator, before and after (`saturate targets check`);
- whose result gives PyTorch's numbers in ONNX Runtime on the CPU (to 1e-3 of the largest element); those that it can't load are told apart.
Of `ort-cuda` the operators are told that have no kernel of their version on the CUDA provider, before and after (bench/data/cuda_kernels.json); loading there is
untried. Ends with status 1 if a result is refused by onnx.checker, too new, off, has no right report, or has more operators that the target refuses than the
original had, or more without a kernel.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema
import onnx

import zoo
from refused import fixed, refused

ROOT = pathlib.Path(__file__).resolve().parents[2]


def asked(binary, *words):
    return json.loads(subprocess.run([binary, *words, "--json"], capture_output=True, text=True, check=True).stdout)


def graphs_of(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_of(attribute.g)


def without_kernel(model, table):
    """Operators of which the table has no version that the model's opset means. An open end takes its first version alone."""
    opsets, missing = {i.domain.replace("ai.onnx", ""): i.version for i in model.opset_import}, collections.Counter()
    for graph in graphs_of(model.graph):
        for node in graph.node:
            domain = node.domain.replace("ai.onnx", "")
            version = opsets.get(domain, 1)
            if domain == "":
                try:
                    version = onnx.defs.get_schema(node.op_type, version, "").since_version
                except onnx.defs.SchemaError:  # ONNX Runtime's own in the standard's domain
                    version = 1
            if node.op_type != "Constant" and not any(first <= version <= (last or first) for first, last in table.get(domain, {}).get(node.op_type, [])):
                missing[f"{node.op_type}-{version}"] += 1
    return missing


class Target:
    def __init__(self, binary, name):
        self.binary, self.name, self.says = binary, name, asked(binary, "targets", "show", name)
        versions = self.says.get("runtime", {}).get("versions", {})
        oldest = min(versions, key=lambda version: [int(part) for part in version.split(".")]) if versions else None
        self.given = f"{name}@{oldest}" if oldest else name
        self.release = versions[oldest] if oldest else None
        self.wants_sizes = any(limit.get("static_shapes") for limit in self.says.get("limits", []))

    def newest(self, model):
        """Opset and IR version that a result may have: what the oldest release loads; a target without releases keeps a newer model's own."""
        raised = self.says.get("max_opset", 1)
        return (self.release["opset"], self.release["ir"]) if self.release else (max(raised, opset_of(model)), 99)


def opset_of(model):
    return next((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), 1)


def why_unchecked(path):
    try:
        onnx.checker.check_model(str(path))
    except Exception as error:  # of several kinds
        text = str(error)
        return "" if "No Op registered for SimplifiedLayerNormalization" in text else text.splitlines()[0]
    return ""


def judged(target, path, folder, schema, table):
    """What is said of one model; `bad` lists what must not be."""
    dims, feeds = [], zoo.beside(path)[0]
    model = path
    if target.wants_sizes:
        model, dims, _ = fixed(path, folder)
    out, report = folder / path.name.replace(".onnx", ".out.onnx"), folder / "r.json"
    words = [target.binary, model, "-o", out, "--target", target.given, "--cost", "nodes", "--no-verify", "-q", "--report", report, *dims]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        return {"bad": [f"not written: {done.stderr.strip()[:200]}"]}
    before, after, bad = onnx.load(path), onnx.load(out), []
    row = {"written": 1, "bad": bad}
    problems = list(schema.iter_errors(json.loads(report.read_text())))
    row["reports"] = not problems
    bad += [f"report: {problem.message[:200]}" for problem in problems[:1]]
    unchecked = why_unchecked(out)
    row["checked"] = not unchecked
    bad += [f"onnx.checker: {unchecked}"] * bool(unchecked)
    opset, ir = target.newest(before)
    row["fits"] = opset_of(after) <= opset and after.ir_version <= ir
    bad += [f"opset {opset_of(after)}, IR {after.ir_version}: beyond {opset}, {ir}"] * (not row["fits"])
    refusals = [len(refused(target.binary, which, target.given)) for which in (model, out)]
    row["taken before"], row["taken"] = (count == 0 for count in refusals)
    bad += [f"refused operators {refusals[0]} -> {refusals[1]}"] * (refusals[1] > refusals[0])
    verdict, why = zoo.verdict(out, feeds, zoo.beside(path)[1], as_it_is=True)
    row[verdict] = 1
    row["why"] = why if verdict != "right" else ""
    bad += [f"{verdict}: {why}"] * (verdict in ("off", "fails"))
    if target.name == "ort-cuda":
        row["kernels"] = [without_kernel(before, table), without_kernel(after, table)]
        bad += [f"without a kernel {dict(row['kernels'][0])} -> {dict(row['kernels'][1])}"] * (sum(row["kernels"][1].values()) > sum(row["kernels"][0].values()))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoo", type=pathlib.Path)
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "tools" / "saturate"))
    parser.add_argument("--target", dest="targets", action="append", help="of these alone; may be repeated")
    args = parser.parse_args()
    schema = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    table = json.loads((ROOT / "bench" / "data" / "cuda_kernels.json").read_text())
    models, bad = sorted(args.zoo.glob("*.onnx")), 0
    print("| target | models | reports | onnx.checker | opset, IR | nothing refused, before | after | right | not loaded on a CPU |\n|---|---|---|---|---|---|---|---|---|")
    for name in args.targets or [target["name"] for target in asked(args.binary, "targets", "list")]:
        target, reasons = Target(args.binary, name), collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            rows = [judged(target, path, pathlib.Path(folder), schema, table) for path in models]
        count = lambda key: sum(bool(row.get(key)) for row in rows)
        print(f"| `{name}` | {count('written')} | {count('reports')} | {count('checked')} | {count('fits')} | {count('taken before')} | {count('taken')} | {count('right')} | {count('refused')} |", flush=True)
        for path, row in zip(models, rows):
            bad += bool(row["bad"])
            for what in row["bad"]:
                print(f"{name} {path.stem}: {what}", file=sys.stderr)
            if row.get("refused"):
                reasons[re.sub(r"Node \(.*?\)|[\w/]*\.onnx", "", row["why"])[:150]] += 1
        for why, number in reasons.most_common():
            print(f"{name}: {number} not loaded: {why}", file=sys.stderr)
        if any("kernels" in row for row in rows):
            for side, what in enumerate(("before", "after")):
                print(f"{name}: without a kernel {what}: {dict(sum((row['kernels'][side] for row in rows if 'kernels' in row), collections.Counter()))}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
