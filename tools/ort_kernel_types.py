#!/usr/bin/env python3
"""What releases of ONNX Runtime have CPU kernels for, as they say themselves: extract/runtimes/kernels.json.

    python tools/ort_kernel_types.py PYTHON... [-o extract/runtimes/kernels.json]

Each PYTHON is an interpreter with another onnxruntime; this one has onnx, whose schemas say what an input's type is called. The file has
- "releases": the releases asked, each with the newest opset that onnx and it have kernels for;
- "since": operators of other domains than the standard's, and the first release with a kernel ("" where the oldest asked has one);
- "dtypes": of the standard's operators that have kernels, but not of all types that the standard allows: the types of the first input that is not bool, by
  the first release that has just these. Where a kernel lacks, ONNX Runtime takes an operator's body: of such operators those are there that were tried.
float16 is added where there is float: the runtime casts to float and back.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import onnx

FOUND_BY_RUNNING = {"LayerNormalization", "RMSNormalization", "Gelu", "Attention", "RotaryEmbedding", "Swish"}  # rows of extract/targets/ort-cpu.json
# Operators of ONNX Runtime without a kernel, whose bodies it takes: what those have kernels for (found by running).
BY_BODY = {"HardSwish": ["float", "float16"], "Mish": ["float", "float16"]}
ORDER = "float double float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool string uint4 int4 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz".split()
ASK = """
import json, onnxruntime, onnxruntime.capi.onnxruntime_pybind11_state as runtime
kernels = [k for k in runtime.get_all_opkernel_def() if k.provider == "CPUExecutionProvider"]
rows = [[k.domain, k.op_name, *k.version_range, {name: [str(t) for t in types] for name, types in k.type_constraints.items()}] for k in kernels]
print(json.dumps([".".join(onnxruntime.__version__.split(".")[:2]), rows]))
"""


def types_of(constraint):
    return {t[len("tensor("):-1] for t in map(str, constraint) if t.startswith("tensor(")}


def kernel_types(op, kernels):
    """Element types of the first input that is not bool of an operator's newest kernels; None where there are all that the standard allows, or it is not known."""
    newest = max(min(last, onnx.defs.onnx_opset_version()) for _, last, _ in kernels)
    try:
        schema = onnx.defs.get_schema(op, newest)
    except onnx.defs.SchemaError:
        return None
    if not schema.inputs or op.startswith("Optional"):
        return None
    conditions = {c.type_param_str for c in schema.type_constraints if types_of(c.allowed_type_strs) == {"bool"}}
    name = next((i.type_str for i in schema.inputs if i.type_str not in conditions), schema.inputs[0].type_str)  # of Where what it chooses from
    defs = [types for first, last, types in kernels if first <= newest <= last]
    if not defs or any(name not in types for types in defs):
        return None
    allowed = set().union(*(types_of(c.allowed_type_strs) for c in schema.type_constraints if c.type_param_str == name)) & set(ORDER)
    types = set().union(*(types_of(t[name]) for t in defs)) & set(ORDER)
    if "float" in types:
        types.add("float16")
    return None if not types or allowed <= types else [t for t in ORDER if t in types]


def table(releases):
    """`releases`: each with its rows of kernels, oldest first."""
    since, dtypes = {}, {}
    for version, rows in releases:
        standard = {}
        for domain, op, first, last, types in rows:
            if domain:
                since.setdefault(f"{domain}::{op}", "" if version == releases[0][0] else version)
            else:
                standard.setdefault(op, []).append((first, last, types))
        for op, kernels in standard.items():
            if op in FOUND_BY_RUNNING:
                continue
            types = kernel_types(op, kernels)
            known = dtypes.setdefault(op, [])
            if (known[-1][1] if known else None) != types:
                known.append((version if known else releases[0][0], types))
    by_body = {op: {releases[0][0]: types} for op, types in BY_BODY.items()}
    return since, by_body | {op: dict(known) for op, known in dtypes.items() if known and known != [(releases[0][0], None)]}


def spelled(releases, since, dtypes):
    join = lambda rows: ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(rows.items()))
    return f'{{\n  "releases": {json.dumps(releases)},\n  "since": {{\n{join(since)}\n  }},\n  "dtypes": {{\n{join(dtypes)}\n  }}\n}}\n'


def text_of(releases):
    since, dtypes = table(releases)
    words = {op: {version: " ".join(types) if types else "any" for version, types in known.items()} for op, known in dtypes.items()}
    return spelled([version for version, _ in releases], since, words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="+", help="interpreters, each with its onnxruntime")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    args = parser.parse_args()
    told = [json.loads(subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=True).stdout) for python in args.python]
    text = text_of(sorted(told, key=lambda row: [int(n) for n in row[0].split(".")]))
    args.output.write_text(text) if args.output else sys.stdout.write(text)


if __name__ == "__main__":
    main()
