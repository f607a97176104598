#!/usr/bin/env python3
"""Quantizes models and our results of them by other projects' quantizers, and tells which operators run in floats behind ours that do not behind the original.

    python bench/quality/then_quantize.py run MODEL... --saturate build/release/tools/saturate [--options "--target onnx" ...] [--quantizer ort-qdq ...]
        [--nncf PYTHON] [--neural-compressor PYTHON] [--time ROUNDS] [--json OUT.json]
    python bench/quality/then_quantize.py quantize MODEL OUT QUANTIZER --inputs X.npz      # one of them, in an interpreter that has it

Quantizers are ort-qdq, ort-qdq-prepared (behind quant_pre_process), ort-qoperator, ort-dynamic of the onnxruntime that runs this; nncf; and nc-qdq, nc-qoperator,
nc-dynamic of onnx-neural-compressor. Inputs are MODEL.inputs.npz beside a model, else those of bench/data/trained.json by the model's name.

An operator is quantized where it is one of integers (QLinearConv, MatMulInteger, QGemm, ...), or where the quantizer knows it (extract/runtimes/quantizers.json) and a
DequantizeLinear gives what it works on. All others run in floats. An operator that takes others in (FusedConv, Attention, HardSwish, ...) counts for each of these, and
a product with a sum for a product. Printed for each model, option and quantizer: quantized operators, and the kinds of which more run in floats than behind the original. A Relu or
Clip that a quantizer takes into the range of its integers is gone, and counts as quantized. `--time` tells the time of the quantized result by that of the
quantized original: medians of pairs in turns, one thread, processor time.

Exit status 1: some operator that is quantized in the original runs in floats in a result, or a result takes longer beyond the interval and 1.01.
"""
import argparse
import collections
import functools
import json
import logging
import pathlib
import shlex
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
LEAST = 8  # runs of the calibration
ORT = ["ort-qdq", "ort-qdq-prepared", "ort-qoperator", "ort-dynamic"]
TABLE = pathlib.Path(__file__).resolve().parents[2] / "extract" / "runtimes" / "quantizers.json"
NAMES = {"ort-qdq": "ONNX Runtime, static", "ort-qdq-prepared": "ONNX Runtime, static", "ort-qoperator": "ONNX Runtime, static, QOperator", "ort-dynamic": "ONNX Runtime, dynamic",
         "nncf": "NNCF", "nc-qdq": "Neural Compressor, static", "nc-qoperator": "Neural Compressor, static, QOperator", "nc-dynamic": "Neural Compressor, dynamic"}
COMPRESSOR = ["nc-qdq", "nc-qoperator", "nc-dynamic"]
# What an operator of ours computes that quantizers know by itself.
TAKES_IN = {
    "FusedConv": ["Conv", "activation"], "FusedGemm": ["product", "activation"], "FusedMatMul": ["product"], "Gemm": ["product"], "MatMul": ["product"],
    "Attention": ["product", "product", "Softmax"], "MultiHeadAttention": ["product", "product", "Softmax"], "GroupQueryAttention": ["product", "product", "Softmax"],
    "HardSwish": ["HardSigmoid", "Mul"], "Swish": ["Sigmoid", "Mul"], "QuickGelu": ["Sigmoid", "Mul"], "Gelu": ["Mul", "Add"], "FastGelu": ["Mul", "Add"],
    "BiasGelu": ["Mul", "Add"], "RotaryEmbedding": ["Mul", "Add"], "SkipLayerNormalization": ["Add", "LayerNormalization"], "Sum": ["Add"],
    "SkipSimplifiedLayerNormalization": ["Add", "RMSNormalization"], "Relu": ["activation"], "Clip": ["activation"],
}
KINDS = ["Conv", "ConvTranspose", "product", "Softmax", "activation", "Sigmoid", "HardSigmoid", "LeakyRelu", "Mul", "Add", "Sub", "Pow", "Max", "Min", "MaxPool",
         "AveragePool", "GlobalAveragePool", "InstanceNormalization", "LayerNormalization", "BatchNormalization", "Resize", "Abs", "ReduceMax", "ReduceMin", "LSTM"]
OF_INTEGERS = {"QGemm": "product", "MatMulInteger": "product", "MatMulIntegerToFloat": "product", "DynamicQuantizeMatMul": "product", "ConvInteger": "Conv",
               "QAttention": "Attention", "MatMulNBits": "product", "DynamicQuantizeLSTM": "LSTM"}


# ---- quantizers


class Fed:
    """The inputs several times, floats moved a little: what ONNX Runtime and Neural Compressor read calibration data from."""

    def __init__(self, inputs):
        self.inputs = inputs
        self.rewind()

    def get_next(self):
        return self.left.pop() if self.left else None

    def rewind(self):
        rng = np.random.default_rng(0)
        self.left = [{n: (v + 0.05 * run * rng.standard_normal(v.shape)).astype(v.dtype) if v.dtype.kind == "f" else v for n, v in self.inputs.items()}
                     for run in range(LEAST)]


def by_onnxruntime(model, out, how, inputs):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(Fed, CalibrationDataReader):
        pass

    with tempfile.TemporaryDirectory() as folder:
        if how == "ort-qdq-prepared":
            quant_pre_process(model, f"{folder}/prepared.onnx", skip_symbolic_shape=True)
            model = f"{folder}/prepared.onnx"
        if how == "ort-dynamic":
            quantize_dynamic(model, out, weight_type=QuantType.QInt8)
        else:
            form = QuantFormat.QOperator if how == "ort-qoperator" else QuantFormat.QDQ
            quantize_static(model, out, Reader(inputs), quant_format=form, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


def by_nncf(model, out, inputs):
    import nncf

    fed = Fed(inputs)
    onnx.save(nncf.quantize(onnx.load(model), nncf.Dataset(fed.left), subset_size=LEAST), out)


def by_neural_compressor(model, out, how, inputs):
    from onnx_neural_compressor.data_reader import CalibrationDataReader
    from onnx_neural_compressor.quantization import QuantFormat, QuantType, config, quantize

    class Reader(Fed, CalibrationDataReader):
        pass

    given = {"weight_type": QuantType.QInt8, "activation_type": QuantType.QUInt8}
    if how == "nc-dynamic":
        chosen = config.DynamicQuantConfig(**given)
    else:
        form = QuantFormat.QOperator if how == "nc-qoperator" else QuantFormat.QDQ
        chosen = config.StaticQuantConfig(calibration_data_reader=Reader(inputs), quant_format=form, execution_provider="CPUExecutionProvider", **given)
    quantize(model, out, chosen)


def quantize(args):
    logging.getLogger().setLevel(logging.ERROR)
    inputs = dict(np.load(args.inputs))
    if args.quantizer == "nncf":
        by_nncf(args.model, args.out, inputs)
    elif args.quantizer in COMPRESSOR:
        by_neural_compressor(args.model, args.out, args.quantizer, inputs)
    else:
        by_onnxruntime(args.model, args.out, args.quantizer, inputs)
    return 0


# ---- counting


def kinds_of(op):
    return TAKES_IN.get(op, [op])


def count(model, known):
    """Operators of a model by kind: those in integers, and those in floats. `known`: what the quantizer knows."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    constants = {t.name for t in graph.initializer} | {n.output[0] for n in graph.node if n.op_type == "Constant"}
    integers, floats = collections.Counter(), collections.Counter()
    for node in graph.node:
        kind = node.op_type
        if kind.startswith("QLinear") or kind in OF_INTEGERS:
            integers.update([OF_INTEGERS[kind]] if kind in OF_INTEGERS else kinds_of(kind.removeprefix("QLinear")))
            continue
        data = [n for n in node.input[:2] if n and n not in constants] or list(node.input[:1])
        is_read = any(makers[n].op_type == "DequantizeLinear" for n in data[:1] if n in makers)
        name = f"{node.domain}::{kind}" if node.domain not in ("", "ai.onnx") else kind
        for each in kinds_of(kind):
            (integers if is_read and name in known else floats)[each] += 1
    return integers, floats


def in_floats(before, after):
    """Kinds of which more operators run in floats in the second model than in the first."""
    return {kind: after[1][kind] - before[1][kind] for kind in KINDS if after[1][kind] > before[1][kind] and before[0][kind] > after[0][kind]}


@functools.cache
def known_to(how):
    return set(json.loads(TABLE.read_text())["quantizers"][NAMES[how]])


# ---- run


def inputs_of(path):
    """A model's inputs by name."""
    beside = path.with_name(f"{path.stem}.inputs.npz")
    if beside.exists():
        return dict(np.load(beside))
    import onnxruntime
    import trained

    known = [m for _, m in trained.models() if m["name"] == path.stem]
    if not known:
        raise ValueError(f"no {beside.name}, and no such model in bench/data/trained.json")
    return trained.feeds_of(onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]), known[0])


def call_quantizer(python, model, out, how, inputs, seconds=600):
    done = subprocess.run([python, __file__, "quantize", str(model), str(out), how, "--inputs", str(inputs)], capture_output=True, text=True, timeout=seconds)
    if done.returncode or not out.exists():
        return (done.stderr.strip().splitlines() or ["?"])[-1][:160]
    return ""


def timed(paths, inputs, rounds):
    import trained

    runs = [functools.partial(trained.new_session(p).run, None, inputs) for p in map(str, paths)]
    for run in runs:
        run()
    ratios, _ = trained.in_turns(runs, rounds, 1)
    return ratios[1]


def one_row(before, after, times):
    lost = in_floats(before, after)
    slower = times is not None and times[1] > 1 and times[0] > 1.01
    words = f"quantized {sum(before[0].values()):4} -> {sum(after[0].values()):4}  " + (" ".join(f"{k} {n} in floats" for k, n in lost.items()) or "none lost")
    if times is not None:
        words += f"  time {times[0]:.3f} [{times[1]:.3f}, {times[2]:.3f}]"
    return {"quantized": [sum(before[0].values()), sum(after[0].values())], "floats": [dict(before[1]), dict(after[1])], "lost": lost, "slower": slower, "time": times}, words


def run_model(path, args, pythons, folder):
    """Rows of one model."""
    inputs = inputs_of(path)
    np.savez(folder / "inputs.npz", **inputs)
    optimized = {}
    for i, options in enumerate(args.options):
        out = folder / f"result{i}.onnx"
        done = subprocess.run([args.saturate, "optimize", str(path), "-o", str(out), *shlex.split(options)], capture_output=True, text=True)
        optimized[options] = out if out.exists() else done.stderr
    for how, python in pythons:
        base = folder / f"base.{how}.onnx"
        if wrong := call_quantizer(python, path, base, how, folder / "inputs.npz"):
            print(f"{path.stem:28} {how:16} the original: {wrong}", flush=True)
            yield {"model": path.stem, "quantizer": how, "original": wrong, "lost": {}, "slower": False}
            continue
        before = count(onnx.load(base), known_to(how))
        for i, (options, result) in enumerate(optimized.items()):
            row = {"model": path.stem, "quantizer": how, "options": options}
            out = folder / f"result{i}.{how}.onnx"
            wrong = call_quantizer(python, result, out, how, folder / "inputs.npz") if isinstance(result, pathlib.Path) else f"not optimized: {result[:100]}"
            if wrong:
                row.update(lost={"all": wrong}, slower=False)
                words = wrong
            else:
                made, words = one_row(before, count(onnx.load(out), known_to(how)), timed([base, out], inputs, args.time) if args.time else None)
                row.update(made)
            print(f"{path.stem:28} {how:16} {options:40} {words}", flush=True)
            yield row


def run(args):
    pythons = [(how, sys.executable) for how in ORT]
    pythons += [("nncf", args.nncf)] if args.nncf else []
    pythons += [(how, args.neural_compressor) for how in COMPRESSOR] if args.neural_compressor else []
    pythons = [(how, python) for how, python in pythons if not args.quantizer or how in args.quantizer]
    args.options = args.options or ["", "--target onnx", "--prefer quantizable"]
    rows = []
    for path in args.models:
        with tempfile.TemporaryDirectory() as folder:
            rows += run_model(path, args, pythons, pathlib.Path(folder))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    bad = 0
    for options in args.options:
        own = [r for r in rows if r.get("options") == options]
        lost, slower = sum(bool(r["lost"]) for r in own), sum(r["slower"] for r in own)
        bad += lost + slower
        print(f"{options or '(default)'}: {len(own)} results, {lost} in which what was quantized runs in floats, {slower} slower")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("models", nargs="+", type=pathlib.Path)
    one.add_argument("--saturate", default="saturate")
    one.add_argument("--options", action="append", help="of `optimize`; several")
    one.add_argument("--quantizer", action="append", choices=[*ORT, "nncf", *COMPRESSOR])
    one.add_argument("--nncf", help="a Python that has nncf and onnxruntime")
    one.add_argument("--neural-compressor", help="a Python that has onnx-neural-compressor")
    one.add_argument("--time", type=int, default=0, metavar="ROUNDS")
    one.add_argument("--json", type=pathlib.Path)
    one.set_defaults(run=run)
    two = commands.add_parser("quantize")
    two.add_argument("model")
    two.add_argument("out", type=pathlib.Path)
    two.add_argument("quantizer")
    two.add_argument("--inputs", required=True)
    two.set_defaults(run=quantize)
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
