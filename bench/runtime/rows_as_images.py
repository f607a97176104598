#!/usr/bin/env python3
"""What ONNX Runtime's CPU provider gains where convolutions along one axis are written as those of images of one row.

    python bench/runtime/rows_as_images.py kernels SATURATE   # each shape's kernel in both layouts, and how far off the prices of `saturate` are
    python bench/runtime/rows_as_images.py models SATURATE [--models 80] [--seed 0]   # random small networks, the original beside the result of `saturate`

One thread, processor time, in turns. `kernels` is what the constants of extract/sizes/blocks.cpp were fitted to.
"""
import argparse
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import gather_ort
from ort_grid import NCHWC, Case

PASSES = 3


def shapes():
    """(channels, filters, places, width, stride, dilation, groups)"""
    for channels, filters, places in ((16, 16, 2000), (32, 64, 1000), (64, 64, 500), (128, 128, 300), (256, 256, 100), (512, 512, 50), (80, 512, 300), (16, 16, 64), (64, 128, 20), (128, 64, 4)):
        for width, stride, dilation in ((1, 1, 1), (3, 1, 1), (5, 1, 1), (9, 1, 1), (3, 2, 1), (5, 2, 1), (3, 1, 4), (1, 2, 1)):
            yield channels, filters, places, width, stride, dilation, 1
    for channels, places in ((32, 1000), (64, 300), (256, 256), (512, 50), (128, 20)):
        for width, stride, dilation in ((3, 1, 1), (5, 1, 1), (7, 1, 1), (31, 1, 1), (3, 2, 1), (3, 1, 4)):
            yield channels, channels, places, width, stride, dilation, channels
    for channels, places, stride in ((8, 1500, 1), (64, 500, 1), (128, 128, 1), (256, 100, 1), (64, 500, 2), (256, 100, 2)):
        yield channels, channels, places, 1, stride, 1, channels
    for channels, places, width, stride in ((1, 16000, 9, 4), (1, 16000, 256, 64), (1, 8000, 80, 16), (2, 4000, 7, 2), (4, 1000, 3, 1), (1, 400, 256, 64)):
        yield channels, 64, places, width, stride, 1, 1


def in_both_layouts(channels, filters, places, width, stride, dilation, groups):
    before = (width - 1) * dilation // 2
    behind = (width - 1) * dilation - before
    row = Case("Conv", [(1, channels, places), (filters, channels // groups, width), (filters,)], {"pads": [before, behind], "strides": [stride], "dilations": [dilation], "group": groups}, weights=(1, 2))
    attrs = {"pads": [0, before, 0, behind], "strides": [1, stride], "dilations": [1, dilation], "group": groups}
    return row, Case("Conv", [(1, channels, 1, places), (filters, channels // groups, 1, width), (filters,)], attrs, weights=(1, 2), domain=NCHWC)


def told(saturate, timed):
    """The ratio of each pair's prices. `timed`: pairs of cases with their seconds."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "rows.jsonl"
        lines = [gather_ort.identity(case, 1) | {"out": gather_ort.output_shapes(case, rng, 1), "seconds": spent} for pair in timed for case, spent in pair]
        rows.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        done = subprocess.run([saturate, "cost", "eval", "--rows", rows, "--cost", "measured", "--json"], check=True, capture_output=True, text=True)
    prices = [row["predicted"] for row in sorted(json.loads(done.stdout)["rows"], key=lambda row: row["row"])]
    return [row / image for row, image in zip(prices[::2], prices[1::2], strict=True)]


def kernels(args):
    timed = []
    for number, shape in enumerate(shapes()):
        print(f"\r{number + 1} shapes timed", end="", file=sys.stderr, flush=True)
        pair = in_both_layouts(*shape)
        times = [gather_ort.seconds_in_turns(list(pair), 1, 0.08) for _ in range(PASSES)]
        timed.append((shape, statistics.median(row / image for row, image in times), [(case, statistics.median(t[i] for t in times)) for i, case in enumerate(pair)]))
    print(file=sys.stderr)
    print(f"{'channels, filters, places, width, stride, dilation, groups':58s} {'row':>10s} {'image':>10s}  {'row / image':>11s}  told")
    off = {}
    for (shape, ratio, ((_, row), (_, image))), price in zip(timed, told(args.saturate, [pair for _, _, pair in timed]), strict=True):
        print(f"{str(shape):58s} {row * 1e6:7.1f} us {image * 1e6:7.1f} us  {ratio:11.2f}  {price:.2f}")
        off.setdefault("of a channel alone" if shape[6] > 1 else "others", []).append(math.log(price / ratio))
    for name, errors in off.items():
        print(f"{name}: {len(errors)} shapes, off by {math.sqrt(statistics.fmean(e * e for e in errors)):.2f} (root mean square of the logarithm)")


def network(rng, values):
    """A few convolutions along one axis, with what stands behind such."""
    channels = rng.choice([1, 3, 8, 16, 40, 64, 80])
    shape = [rng.choice([1, 1, 4]), channels, rng.choice([30, 100, 400, 1500])]
    nodes, weights, last = [], [], "x"

    def add(op, inputs, **attributes):
        nonlocal last
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        last = nodes[-1].output[0]
        return last

    def weight(value):
        weights.append(numpy_helper.from_array(value.astype(np.float32), f"w{len(weights)}"))
        return weights[-1].name

    for _ in range(rng.randint(1, 6)):
        width, alone = rng.choice([1, 3, 5, 9]), rng.random() < 0.25 and channels >= 8
        filters, groups = (channels, channels) if alone else (rng.choice([8, 16, 24, 64, 100, 128]), 1)
        w = weight(values.standard_normal((filters, channels // groups, width)) * 0.2)
        y = add("Conv", [last, w], group=groups, pads=[width // 2] * 2, strides=[rng.choice([1, 1, 1, 2])], kernel_shape=[width])
        channels, kind = filters, rng.choice(["Relu", "Relu", "Gelu", "Tanh", "swish", "sum", "norm", "none"])
        if kind in ("Relu", "Gelu", "Tanh"):
            add(kind, [y])
        elif kind == "swish":
            add("Mul", [y, add("Sigmoid", [y])])
        elif kind == "sum":
            add("Add", [y, add("Relu", [y])])
        elif kind == "norm":
            add("Transpose", [add("LayerNormalization", [add("Transpose", [y], perm=[0, 2, 1]), weight(np.ones(channels))])], perm=[0, 2, 1])
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, shape)], [value(last, TensorProto.FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), {"x": values.standard_normal(shape).astype(np.float32)}


def ratio_of(before, after, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    sessions = [onnxruntime.InferenceSession(str(p), options, providers=["CPUExecutionProvider"]) for p in (before, after)]
    first, second = (s.run(None, feeds)[0] for s in sessions)
    np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(first).max())))
    begin = time.thread_time()
    sessions[0].run(None, feeds)
    turns, ratios = max(1, int(0.004 / max(time.thread_time() - begin, 1e-6))), []
    for k in range(24):
        spent = [0.0, 0.0]
        for i in (0, 1) if k % 2 else (1, 0):
            begin = time.thread_time()
            for _ in range(turns):
                sessions[i].run(None, feeds)
            spent[i] = time.thread_time() - begin
        ratios.append(spent[1] / spent[0])
    return statistics.quantiles(ratios[3:], n=4)


def models(args):
    made, left = [], 0
    with tempfile.TemporaryDirectory() as folder:
        before, after = (pathlib.Path(folder) / name for name in ("m.onnx", "o.onnx"))
        for seed in range(args.seed, args.seed + args.models):
            model, feeds = network(random.Random(seed), np.random.default_rng(seed))
            onnx.save(model, before)
            subprocess.run([args.saturate, before, "-o", after, "--force", "--no-verify", "-q", "--target", "ort-cpu@1.31"], check=True)
            graph = onnx.load(after).graph
            weights = {i.name for i in graph.initializer if len(i.dims) == 4}
            lifted = sum(n.op_type.endswith("Conv") and n.input[1] in weights for n in graph.node)
            if not lifted:
                left += 1
                continue
            low, middle, high = ratio_of(before, after, feeds)
            made.append(middle)
            print(f"{seed:4d}  {lifted} of {sum(n.op_type == 'Conv' for n in model.graph.node)} as images  {middle:.3f} [{low:.3f}, {high:.3f}]", flush=True)
    print(f"{len(made)} of {args.models} networks have images; time with them: geomean {statistics.geometric_mean(made):.3f}, most {max(made):.3f}; {left} stayed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("kernels").add_argument("saturate")
    of_models = commands.add_parser("models")
    of_models.add_argument("saturate")
    of_models.add_argument("--models", type=int, default=80)
    of_models.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    return models(args) if args.command == "models" else kernels(args)


if __name__ == "__main__":
    sys.exit(main())
