#!/usr/bin/env python3
"""The element types that ONNX Runtime's CPU kernels of the standard's operators take, for "dtypes" of extract/targets/ort-cpu.json.

    python tools/ort_kernel_types.py [--target extract/targets/ort-cpu.json]

Prints `"Op": [types of the first input]` for operators that have kernels, but not of all types that the standard allows; with --target writes them into the file
(operators whose types were found by running models, those of com.microsoft among them, are left as they are). float16 is added where there is float: the runtime
casts to float and back.
"""
import argparse
import json
import pathlib

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as runtime

FOUND_BY_RUNNING = {"LayerNormalization", "RMSNormalization", "Gelu", "Attention", "RotaryEmbedding", "Swish"}
ORDER = "float double float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool string uint4 int4 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz".split()


def types_of(constraint):
    return {str(t)[len("tensor("):-1] for t in constraint if str(t).startswith("tensor(")}


def kernel_types(newest=23):
    """{op: element types of its first input}, of the kernels of opset `newest`; operators without a kernel, or with one for all types, are not there."""
    found, kernels = {}, {}
    for k in runtime.get_all_opkernel_def():
        if k.provider == "CPUExecutionProvider" and k.domain == "" and k.version_range[0] <= newest <= k.version_range[1]:
            kernels.setdefault(k.op_name, []).append(k)
    for op, defs in kernels.items():
        try:
            schema = onnx.defs.get_schema(op, newest)
        except onnx.defs.SchemaError:
            continue
        if not schema.inputs:
            continue
        conditions = {c.type_param_str for c in schema.type_constraints if types_of(c.allowed_type_strs) == {"bool"}}
        name = next((i.type_str for i in schema.inputs if i.type_str not in conditions), schema.inputs[0].type_str)  # of Where what it chooses from
        if any(name not in k.type_constraints for k in defs):
            continue
        allowed = set().union(*(types_of(c.allowed_type_strs) for c in schema.type_constraints if c.type_param_str == name)) & set(ORDER)
        types = set().union(*(types_of(k.type_constraints[name]) for k in defs)) & set(ORDER)
        if "float" in types:
            types.add("float16")
        if types and not allowed <= types:
            found[op] = [t for t in ORDER if t in types]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=pathlib.Path)
    args = parser.parse_args()
    rows = {op: types for op, types in sorted(kernel_types().items()) if op not in FOUND_BY_RUNNING}
    lines = [f"    {json.dumps(op)}: {json.dumps(types)}" for op, types in rows.items()]
    if not args.target:
        print(",\n".join(lines))
        return
    text = args.target.read_text()
    kept = {op: types for op, types in json.loads(text)["dtypes"].items() if op not in rows}
    first = [f"    {json.dumps(op)}: {json.dumps(types)}" for op, types in kept.items()]
    begin = text.index('  "dtypes": {')
    end = text.index("\n  }", begin)
    args.target.write_text(text[:begin] + '  "dtypes": {\n' + ",\n".join(first + lines) + text[end:])


if __name__ == "__main__":
    main()
