#!/usr/bin/env python3
"""Quantizes exports of bench/export/export_models.py by ONNX Runtime's own quantizer, and tells where the time of the results goes.

    python bench/export/quantize_models.py make FOLDER OUT [--only REGEX] [--schemes NAME,...] [--exporter torchscript]
    python bench/export/quantize_models.py profile OUT [--only REGEX] [--threads 1] [--json FILE]

`make` writes OUT/NAME.SCHEME.onnx and a copy of NAME.inputs.npz for each scheme:

    qdq_u8          static, QuantizeLinear and DequantizeLinear, uint8 activations, int8 weights for each tensor
    qdq_u8_channel  the same with int8 weights for each channel
    qdq_u16         static, uint16 activations, int8 weights
    qoperator       static, QLinear operators, int8 weights for each channel
    dynamic         activations quantized at run time, int8 weights
    w4              4-bit weights in blocks of 32 as DequantizeLinear, activations in float
    w4_nbits        the same as com.microsoft.MatMulNBits

`profile` loads each file with all of ONNX Runtime's optimizations and prints the share of kernel time in QuantizeLinear and DequantizeLinear, in float
kernels between integer ones (some integer kernel before them and another behind), in other float kernels, and in integer kernels. Views count as float.
"""
import argparse
import collections
import json
import logging
import pathlib
import platform
import re
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.onnx_model import ONNXModel
from onnxruntime.quantization.shape_inference import quant_pre_process

STATIC = {
    "qdq_u8": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QUInt8, "per_channel": False},
    "qdq_u8_channel": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QUInt8, "per_channel": True},
    "qdq_u16": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QUInt16, "per_channel": False},
    "qoperator": {"quant_format": QuantFormat.QOperator, "activation_type": QuantType.QUInt8, "per_channel": True},
}
SCHEMES = [*STATIC, "dynamic", "w4", "w4_nbits"]
CALIBRATION_RUNS = 2
QUANTIZERS = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
INTEGER = re.compile(r"^(QLinear\w+|QGemm|QAttention|MatMulInteger\w*|ConvInteger|DynamicQuantize(MatMul|LSTM)|MatMulNBits|GatherBlockQuantized|QEmbedLayerNormalization|QMoE)$")


class Drawn(CalibrationDataReader):
    """The inputs of the export, and others of the same kind: integers as they are, floats moved a little."""

    def __init__(self, inputs):
        rng = np.random.default_rng(0)
        self.left = [
            {name: value if value.dtype.kind != "f" or not run else (value + 0.1 * rng.standard_normal(value.shape)).astype(value.dtype) for name, value in inputs.items()}
            for run in range(CALIBRATION_RUNS)
        ]

    def get_next(self):
        return self.left.pop() if self.left else None


def make_one(source, inputs, scheme, target):
    if scheme in STATIC:
        quantize_static(str(source), str(target), Drawn(inputs), weight_type=QuantType.QInt8, **STATIC[scheme])
    elif scheme == "dynamic":
        quantize_dynamic(str(source), str(target), weight_type=QuantType.QInt8)
    else:
        model = onnx.load(source)
        if scheme == "w4" and model.opset_import[0].version < 21:  # 4-bit integers and blocks came with it
            model = onnx.version_converter.convert_version(model, 21)
        wrapped = ONNXModel(model)
        wrapped.replace_gemm_with_matmul()  # as GPT-2 is exported; the quantizer takes MatMul alone
        wrapped.topological_sort()
        fmt = QuantFormat.QDQ if scheme == "w4" else QuantFormat.QOperator
        quantizer = MatMulNBitsQuantizer(model, block_size=32, is_symmetric=True, quant_format=fmt, op_types_to_quantize=("MatMul",))
        quantizer.process()
        made = quantizer.model.model
        if not any(n.op_type in ("MatMulNBits", "DequantizeLinear") for n in made.graph.node):
            raise ValueError("no MatMul with constant weights")
        onnx.save(made, target)


def make(args):
    logging.getLogger().setLevel(logging.ERROR)  # the quantizer tells of every node that it takes or leaves
    args.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for export in sorted(args.folder.glob(f"*.{args.exporter}.onnx")):
        name = export.name.split(".")[0]
        if not re.search(args.only, name):
            continue
        inputs = dict(np.load(args.folder / f"{name}.inputs.npz"))
        with tempfile.TemporaryDirectory() as folder:
            prepared = pathlib.Path(folder) / "prepared.onnx"
            quant_pre_process(str(export), str(prepared), skip_symbolic_shape=True)
            for scheme in args.schemes.split(","):
                target = args.out / f"{name}.{scheme}.onnx"
                try:
                    make_one(prepared, inputs, scheme, target)
                    count = len(onnx.load(target).graph.node)
                    print(f"{target.name}: {target.stat().st_size >> 20} MB, {count} operators", flush=True)
                except Exception as error:  # what the quantizer can't is told and left out
                    failed += 1
                    print(f"{target.name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
        shutil.copy(args.folder / f"{name}.inputs.npz", args.out)
    return 1 if failed else 0


def kind_of(op):
    return "quantizers" if op in QUANTIZERS else "integer" if INTEGER.match(op) else "float"


def nodes_between(graph):
    """Names of float nodes with an integer kernel before and behind them."""
    maker = {o: n for n in graph.node for o in n.output}
    before, behind = {}, collections.defaultdict(bool)
    for node in graph.node:  # sorted
        before[node.name] = any(before[maker[i].name] or kind_of(maker[i].op_type) == "integer" for i in node.input if i in maker)
    for node in reversed(graph.node):
        here = behind[node.name] or kind_of(node.op_type) == "integer"
        for i in node.input:
            if i in maker:
                behind[maker[i].name] |= here
    return {n.name for n in graph.node if kind_of(n.op_type) == "float" and before[n.name] and behind[n.name]}


def profile_one(path, inputs, threads):
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.enable_profiling = True
        options.log_severity_level = 3
        options.profile_file_prefix = f"{folder}/profile"
        options.optimized_model_filepath = f"{folder}/optimized.onnx"
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for _ in range(6):
            session.run(None, inputs)
        events = json.loads(pathlib.Path(session.end_profiling()).read_text())
        graph = onnx.load(f"{folder}/optimized.onnx", load_external_data=False).graph
    between = nodes_between(graph)
    seconds, by_op = collections.Counter(), collections.Counter()
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
            continue
        op = event["args"]["op_name"]
        kind = kind_of(op)
        if kind == "float":
            kind = "float between" if event["name"].removesuffix("_kernel_time") in between else "float elsewhere"
        seconds[kind] += event["dur"]
        by_op[op] += event["dur"]
    total = sum(seconds.values())
    counts = collections.Counter(kind_of(n.op_type) for n in graph.node)
    return {
        "shares": {k: seconds[k] / total for k in ("quantizers", "float between", "float elsewhere", "integer")},
        "kernels": dict(counts),
        "largest": {op: t / total for op, t in by_op.most_common(6)},
    }


def instruction_sets():
    try:
        flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M).group(1).split()
    except (OSError, AttributeError):
        return []
    return [f for f in ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8") if f in flags]


def profile(args):
    print(f"onnxruntime {ort.__version__}, {platform.machine()} with {', '.join(instruction_sets()) or 'unknown instruction sets'}, {args.threads} thread(s)\n")
    print("| model | quantizers | float between | both | float elsewhere | integer | kernels that take most |\n|---|---|---|---|---|---|---|")
    rows = {}
    for path in sorted(args.out.glob("*.onnx")):
        if not re.search(args.only, path.name):
            continue
        inputs = dict(np.load(args.out / f"{path.name.split('.')[0]}.inputs.npz"))
        try:
            row = rows[path.name.removesuffix(".onnx")] = profile_one(path, inputs, args.threads)
        except Exception as error:
            print(f"| {path.name.removesuffix('.onnx')} | {type(error).__name__}: {str(error).splitlines()[0][:120]} | | | | | |", flush=True)
            continue
        s = row["shares"]
        both = s["quantizers"] + s["float between"]
        largest = ", ".join(f"{op} {share:.0%}" for op, share in row["largest"].items())
        print(f"| {path.name.removesuffix('.onnx')} | {s['quantizers']:.1%} | {s['float between']:.1%} | {both:.1%} | {s['float elsewhere']:.1%} | {s['integer']:.1%} | {largest} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"runtime": ort.__version__, "extensions": instruction_sets(), "threads": args.threads, "models": rows}, indent=1) + "\n")
    return 0 if rows else 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("make", help="quantize exports")
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("out", type=pathlib.Path)
    one.add_argument("--exporter", default="torchscript")
    one.add_argument("--schemes", default=",".join(SCHEMES))
    one.set_defaults(run=make)
    two = commands.add_parser("profile", help="shares of time by kind of kernel")
    two.add_argument("out", type=pathlib.Path)
    two.add_argument("--threads", type=int, default=1)
    two.add_argument("--json", type=pathlib.Path)
    two.set_defaults(run=profile)
    for command in (one, two):
        command.add_argument("--only", default="", help="regular expression over names")
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
