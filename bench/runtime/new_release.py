#!/usr/bin/env python3
"""What a new release of ONNX Runtime changes, from its wheel: the row that targets need, and what to look at.

    python bench/runtime/new_release.py 1.32.0 [--python PYTHON] [--before PYTHON] [--write] [--models M.onnx ...] [--pairs N] [--times REGEX] [--json OUT.json]

Without --python the wheel is installed into a folder that is removed afterwards. --before is an interpreter with the release before (default: this one).
It tells, and with --write puts into the files of this repository,
- the newest opset and IR version that it loads: a row of each target whose runtime is ONNX Runtime (extract/targets), where it is not as the row before;
- what it has CPU kernels for: extract/runtimes/kernels.json;
- the schemas of com.microsoft: onnx_bridge/operators/op_table_microsoft.inc.
It only tells, for a person to judge,
- optimizers of the library that came and went, and what both releases make at load (all optimizations) of --models;
- what it computes otherwise than the release before, beside our kernels (bench/runtime/runtime_fine_print.py, --pairs of values an operator; 0: none);
- times of kernels in both releases (bench/runtime/gather_ort.py, the operators that match --times)."""
import argparse
import collections
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import ort_kernel_types  # noqa: E402

BENCH, TARGETS, KERNELS = ROOT / "bench", ROOT / "extract" / "targets", ROOT / "extract" / "runtimes" / "kernels.json"
SCHEMAS = ROOT / "onnx_bridge" / "operators" / "op_table_microsoft.inc"
OPTIMIZER = re.compile(rb"N11onnxruntime\d+([A-Za-z0-9]+(?:Fusion|Elimination|Folding|Transformer|Rewrite|Propagation))E")
AT_LOAD = """
import collections, json, os, sys, tempfile, onnx, onnxruntime as ort
def made(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = os.path.join(folder, "m.onnx")
        try:
            ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            return str(error).splitlines()[0]
        nodes = onnx.load(options.optimized_model_filepath, load_external_data=False).graph.node
        return collections.Counter(f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in nodes)
print(json.dumps({path: made(path) for path in sys.argv[1:]}))
"""


def asked(python, *words):
    return subprocess.run([python, *map(str, words)], capture_output=True, text=True, check=True).stdout


@contextlib.contextmanager
def interpreter(version):
    """One that runs as this one, with that release of the package."""
    with tempfile.TemporaryDirectory() as folder:
        place, script = pathlib.Path(folder) / "packages", pathlib.Path(folder) / "python"
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place, f"onnxruntime=={version}"], check=True)
        script.write_text(f'#!/bin/sh\nPYTHONPATH="{place}" exec "{sys.executable}" "$@"\n')
        script.chmod(0o755)
        yield str(script)


def release_of(version):
    return ".".join(version.split(".")[:2])


def loads(python):
    """{"opset": 28, "ir": 14}"""
    return json.loads("{" + asked(python, BENCH / "runtime" / "runtime_versions.py") + "}").popitem()[1]


def kernels(python):
    return json.loads(asked(python, "-c", ort_kernel_types.ASK))[1]


def lacking(target, rows):
    """Of what a target on the CPU takes, the operators that have no kernel."""
    known = {f"{domain}::{op}" if domain else op for domain, op, *_ in rows}
    taken = {f"{domain}::{op}" if domain else op for domain, ops in target.get("domains", {}).items() for op in ops}
    return sorted(taken - known - {"SimplifiedLayerNormalization"}) if target.get("cpu_kernels") else []


def numbers(version):
    return [int(n) for n in version.split(".")]


def with_row(text, version, row):
    """The target's text with the row; unchanged where the row before says the same."""
    versions = json.loads(text)["runtime"]["versions"]
    line_of = lambda known: re.search(rf'( +)"{re.escape(known)}": (\{{[^\n]*?\}})(?=,?\n)', text)
    if version in versions:
        line = line_of(version)
        return text[: line.start(2)] + json.dumps(row) + text[line.end(2) :]
    before = max((known for known in versions if numbers(known) < numbers(version)), key=numbers, default=None)
    if before is None or versions[before] == row:
        return text
    line = line_of(before)
    return f'{text[: line.end()]},\n{line.group(1)}"{version}": {json.dumps(row)}{text[line.end() :]}'


def with_kernels(text, version, rows):
    """The table of kernels with a release behind its last; the same where it has it."""
    table = json.loads(text)
    if version in table["releases"]:
        return text
    since, found = ort_kernel_types.table([(table["releases"][-1], []), (version, rows)])
    standard = collections.defaultdict(list)
    for domain, op, first, last, types in rows:
        if not domain:
            standard[op].append((first, last, types))
    for op, of_op in standard.items():
        if op in ort_kernel_types.FOUND_BY_RUNNING:
            continue
        types = ort_kernel_types.kernel_types(op, of_op)
        told = " ".join(types) if types else "any"
        known = table["dtypes"].get(op)
        if told != (list(known.values())[-1] if known else "any"):
            table["dtypes"].setdefault(op, {table["releases"][0]: "any"})[version] = told
    for op in since:
        table["since"].setdefault(op, version)
    return ort_kernel_types.spelled([*table["releases"], version], table["since"], table["dtypes"])


def schemas(python):
    """The text of the operator table."""
    with tempfile.TemporaryDirectory() as folder:
        asked(python, ROOT / "tools" / "generate_op_table.py", "--out", folder)
        return (pathlib.Path(folder) / SCHEMAS.name).read_text()


def operators(text):
    """Each operator's lines of an operator table, with types in place of the numbers of their sets."""
    sets, out, name = [], {}, None
    for line in text.splitlines():
        word = line.removeprefix('R"optable(').split(" ")
        if word[0] == "types":
            sets.append(" ".join(word[1:]))
        elif word[0] == "op":
            out[name := f"{word[1]}::{word[2]}-{word[3]}"] = [line]
        elif name:
            out[name].append(f"c {word[1]} {sets[int(word[2])]}" if word[0] == "c" else line)
    return out


def changed(before, after):
    """Names that came, went and are otherwise."""
    return {"new": sorted(after.keys() - before.keys()), "gone": sorted(before.keys() - after.keys()),
            "changed": sorted(name for name in before.keys() & after.keys() if before[name] != after[name])}


def optimizers(python):
    folder = pathlib.Path(asked(python, "-c", "import onnxruntime; print(onnxruntime.__file__)").strip()).parent / "capi"
    found = (library.read_bytes() for library in folder.glob("libonnxruntime.so*"))
    return {name.decode(): True for text in found for name in OPTIMIZER.findall(text)}


def computes(pythons, pairs, binary):
    """Cases that the two releases compute otherwise, beside our kernels."""
    import runtime_fine_print as fine

    names, _ = fine.chosen(None)
    found, releases = fine.judged(list(fine.models(names, pairs)), pythons, binary)
    before, after = releases
    return [{"operator": name, "case": changes, before: told[before], after: told[after]} for name, changes, told in found if told[before] != told[after]]


def times(python, only, seconds):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "rows.jsonl"
        asked(python, BENCH / "runtime" / "gather_ort.py", out, "--only", only, "--budget", seconds)
        rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    return {json.dumps({key: row[key] for key in ("op", "dtype", "in", "attrs") if key in row}, sort_keys=True): row["seconds"] for row in rows}


def told_of(args, python):
    version = asked(python, "-c", "import onnxruntime; print(onnxruntime.__version__)").strip()
    if release_of(version) != release_of(args.version):
        raise SystemExit(f"new_release: error: {python} has onnxruntime {version}, not {args.version}")
    pythons, rows = (args.before, python), kernels(python)
    spelled = lambda rows: {f"{domain}::{op}-{first}": types for domain, op, first, _, types in rows}
    told = {"release": release_of(version), "loads": loads(python), "kernels": changed(spelled(kernels(args.before)), spelled(rows)),
            "schemas": changed(*(operators(schemas(p)) for p in pythons)), "optimizers": changed(*map(optimizers, pythons))}
    if args.models:
        both = [json.loads(asked(p, "-c", AT_LOAD, *args.models)) for p in pythons]
        told["at_load"] = {path: [b[path] for b in both] for path in args.models if both[0][path] != both[1][path]}
    if args.pairs:
        told["computes"] = computes(pythons, args.pairs, args.binary)
    if args.times:
        before, after = (times(p, args.times, args.budget) for p in pythons)
        told["times"] = {case: [before[case], after[case]] for case in before.keys() & after.keys()}
    return told, rows


def write(told, rows, python):
    for path in sorted(TARGETS.glob("*.json")):
        text = path.read_text()
        target = json.loads(text)
        if target.get("runtime", {}).get("name") != "ONNX Runtime":
            continue
        lacks = lacking(target, rows)
        path.write_text(with_row(text, told["release"], told["loads"] | ({"lacks": lacks} if lacks else {})))
    KERNELS.write_text(with_kernels(KERNELS.read_text(), told["release"], rows))
    SCHEMAS.write_text(schemas(python))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--python", help="an interpreter that has it")
    parser.add_argument("--before", default=sys.executable, help="an interpreter with the release before")
    parser.add_argument("--write", action="store_true", help="put the row, the kernels and the schemas into their files")
    parser.add_argument("--models", nargs="+", default=[], metavar="M.onnx")
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--times", default="", metavar="REGEX")
    parser.add_argument("--budget", type=float, default=60, help="seconds for the times of each release")
    parser.add_argument("--binary", default=ROOT / "build" / "release" / "tools" / "saturate")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    with contextlib.nullcontext(args.python) if args.python else interpreter(args.version) as python:
        told, rows = told_of(args, python)
        if args.write:
            write(told, rows, python)
    text = json.dumps(told, indent=1)
    args.json.write_text(text + "\n") if args.json else print(text)


if __name__ == "__main__":
    main()
