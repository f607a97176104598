#!/usr/bin/env python3
"""Compares our data movement, resizing and quantized kernels with ONNX Runtime's CPU kernels on generated instances.

usage: data_vs_ort.py RUNNER [--seed N] [--filter TEXT]

Quantized outputs may differ by one step (products rounded in another order). Instances that ONNX Runtime refuses are
counted. Exits 1 where the two disagree.
"""
import argparse
import collections
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backend_test

MS = "com.microsoft"
U8, I8, F = np.uint8, np.int8, np.float32


class Case:
    def __init__(self, name, op, inputs, outputs=1, domain="", opset=18, **attributes):
        self.name, self.op, self.inputs, self.outputs, self.domain, self.opset, self.attributes = name, op, inputs, outputs, domain, opset, attributes


def q8(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def factor(rng, *shape):
    """What uint8 is multiplied with: of 7 bits, for where a processor has no dot products, ONNX Runtime's sums of two products saturate."""
    return rng.integers(-64, 64, shape).astype(I8)


def scale(rng):
    return F(rng.uniform(0.005, 0.1))


def zero(rng, dtype):
    return dtype(rng.integers(100, 150) if dtype == U8 else rng.integers(-20, 20))


def quantized_cases(rng):
    for k in range(6):
        t = (U8, I8)[k % 2]
        m, kk, n = (int(v) for v in rng.integers(1, 70, 3))
        kk += 300 * (k % 3 == 0)
        per_column = k % 3 == 1
        bs = rng.uniform(0.005, 0.1, n).astype(F) if per_column else scale(rng)
        bz = np.zeros(n, I8) if per_column else zero(rng, I8)
        ys = F(0.05 * np.sqrt(kk))
        yield Case(f"QLinearMatMul_{k}", "QLinearMatMul", [q8(rng, U8, 2, m, kk), scale(rng), zero(rng, U8), factor(rng, kk, n), bs, bz, ys * F(20), zero(rng, U8)])
        yield Case(f"MatMulInteger_{k}", "MatMulInteger", [q8(rng, t, m, kk), q8(rng, U8, kk, n), zero(rng, t), zero(rng, U8)])
        yield Case(f"MatMulIntegerToFloat_{k}", "MatMulIntegerToFloat", [q8(rng, U8, m, kk), factor(rng, kk, n), scale(rng), bs, zero(rng, U8), bz, rng.standard_normal(n).astype(F)], domain=MS)
        yield Case(f"DynamicQuantizeMatMul_{k}", "DynamicQuantizeMatMul", [rng.standard_normal((m, kk)).astype(F), factor(rng, kk, n), bs, bz, rng.standard_normal(n).astype(F)], domain=MS)
        yield Case(f"QGemm_{k}", "QGemm", [q8(rng, U8, *((kk, m) if k % 2 else (m, kk))), scale(rng), zero(rng, U8), factor(rng, *((n, kk) if k % 3 else (kk, n))), bs, bz,
                   rng.integers(-500, 500, n).astype(np.int32), F(3.0), zero(rng, U8)], domain=MS, transA=k % 2, transB=int(k % 3 > 0))
        g = 1 + k % 2
        for op, domain, extra in (("QLinearConv", "", {}), ("ConvInteger", "", {})):
            x, w = q8(rng, U8, 2, 4, 9, 7), factor(rng, 6, 4 // g, 3, 2)
            attributes = dict(group=g, strides=[1 + k % 2, 1], pads=[1, 0, 0, 1], dilations=[1, 1 + k % 3])
            if op == "ConvInteger":
                yield Case(f"ConvInteger_{k}", op, [x, q8(rng, U8, 6, 4 // g, 3, 2), zero(rng, U8)], **attributes)
            else:
                ws = rng.uniform(0.01, 0.1, 6).astype(F)
                yield Case(f"QLinearConv_{k}", op, [x, scale(rng), zero(rng, U8), w, ws, np.zeros(6, I8), F(0.7), zero(rng, U8), rng.integers(-900, 900, 6).astype(np.int32)], **attributes)
        a, b = q8(rng, t, 3, 1, 5), q8(rng, t, 4, 5)
        for op in ("QLinearAdd", "QLinearMul"):
            yield Case(f"{op}_{k}", op, [a, scale(rng), zero(rng, t), b, scale(rng), zero(rng, t), F(0.08), zero(rng, t)], domain=MS)
        x = q8(rng, t, 2, 3, 6, 5)
        pair = [scale(rng), zero(rng, t)]
        yield Case(f"QLinearSigmoid_{k}", "QLinearSigmoid", [x, *pair, F(1 / 256), t(0)], domain=MS)
        yield Case(f"QLinearLeakyRelu_{k}", "QLinearLeakyRelu", [x, *pair, F(0.05), zero(rng, t)], domain=MS, alpha=0.2)
        yield Case(f"QLinearAveragePool_{k}", "QLinearAveragePool", [x, *pair, F(0.05), zero(rng, t)], domain=MS, kernel_shape=[2, 3], strides=[1, 2])
        yield Case(f"QLinearGlobalAveragePool_{k}", "QLinearGlobalAveragePool", [x, *pair, F(0.02), zero(rng, t)], domain=MS, channels_last=k % 2)
        softmax = Case(f"QLinearSoftmax_{k}", "QLinearSoftmax", [x, *pair, F(1 / 256), t(0)], domain=MS, axis=-1)
        softmax.attributes["opset"] = 13
        yield softmax
        yield Case(f"QLinearConcat_{k}", "QLinearConcat", [F(0.05), zero(rng, t), x, *pair, x[:, :2], scale(rng), zero(rng, t)], domain=MS, axis=1)
        yield Case(f"QLinearWhere_{k}", "QLinearWhere", [rng.random((4, 5)) < 0.5, a, scale(rng), zero(rng, t), b, scale(rng), zero(rng, t), F(0.06), zero(rng, t)], domain=MS)


def weight_cases(rng):
    for k in range(8):
        block, n, kk = int(rng.choice([16, 32, 64])), int(rng.integers(1, 20)), int(rng.integers(17, 130))
        bits = 4 if k < 6 else 8
        blocks = -(-kk // block)
        inputs = [rng.standard_normal((3, kk)).astype(F), q8(rng, U8, n, blocks, block * bits // 8), rng.uniform(0.01, 0.1, n * blocks).astype(F)]
        if k % 2:
            inputs.append(q8(rng, U8, n * ((blocks * bits + 7) // 8)))
        yield Case(f"MatMulNBits_{k}", "MatMulNBits", inputs, domain=MS, K=kk, N=n, bits=bits, block_size=block)
    for k in range(4):
        block, n, kk = 16, 5 + k, 32 * (1 + k)
        inputs = [rng.standard_normal((3, kk)).astype(F), q8(rng, U8, n * kk // 2), rng.uniform(0.1, 1, n * kk // block).astype(F)]
        yield Case(f"MatMulBnb4_{k}", "MatMulBnb4", inputs, domain=MS, K=kk, N=n, block_size=block, quant_type=k % 2)


def qdq_cases(rng):
    x = (rng.standard_normal((4, 6, 5)) * 3).astype(F)
    for k, t in enumerate((U8, I8, np.uint16, np.int16)):
        yield Case(f"QuantizeLinear_{k}", "QuantizeLinear", [x, scale(rng), t(7)], opset=21)
        yield Case(f"QuantizeLinear_axis_{k}", "QuantizeLinear", [x, rng.uniform(0.01, 0.1, 6).astype(F), np.arange(6).astype(t)], opset=21, axis=-2)
        yield Case(f"QuantizeLinear_block_{k}", "QuantizeLinear", [x, rng.uniform(0.01, 0.1, (4, 2, 5)).astype(F), np.full((4, 2, 5), 3, t)], opset=21, axis=1, block_size=3)
        yield Case(f"DequantizeLinear_block_{k}", "DequantizeLinear", [q8(rng, t, 4, 6, 5), rng.uniform(0.01, 0.1, (2, 6, 5)).astype(F), np.full((2, 6, 5), 3, t)], opset=21, axis=0, block_size=2)
        yield Case(f"DequantizeLinear_{k}", "DequantizeLinear", [q8(rng, t, 4, 6), scale(rng), t(3)], opset=21)
    yield Case("DynamicQuantizeLinear", "DynamicQuantizeLinear", [x], outputs=3)


def resize_cases(rng):
    x = rng.standard_normal((1, 2, 6, 5)).astype(F)
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"):
            for number, (h, w) in enumerate(((11, 9), (3, 2), (1, 1), (6, 8))):
                for antialias in (0, 1) if mode != "nearest" and coordinates == "half_pixel" else (0,):
                    extra = {"antialias": antialias} if antialias else {}
                    if mode == "nearest":
                        extra["nearest_mode"] = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")[number]
                    yield Case(f"Resize_{mode}_{coordinates}_{h}x{w}_{antialias}", "Resize", [x, None, None, np.array([1, 2, h, w], np.int64)], opset=19, mode=mode,
                               coordinate_transformation_mode=coordinates, **extra)
    for k, scales in enumerate(([1, 1, 2, 2], [1, 1, 0.5, 0.6], [1, 1, 1.7, 1])):
        for mode in ("nearest", "linear"):
            yield Case(f"Resize10_{mode}_{k}", "Resize", [x, np.array(scales, F)], opset=10, mode=mode)
            if min(scales) >= 1:
                yield Case(f"Upsample9_{mode}_{k}", "Upsample", [x, np.array(scales, F)], opset=9, mode=mode)
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                yield Case(f"GridSample_{mode}_{padding}_{corners}", "GridSample", [x, rng.uniform(-1.6, 1.6, (1, 4, 3, 2)).astype(F)], opset=20, mode=mode, padding_mode=padding, align_corners=corners)
    rois = np.sort(rng.uniform(0, 5, (4, 4)).astype(F), axis=1)[:, [0, 1, 2, 3]]
    for mode in ("avg", "max"):
        yield Case(f"RoiAlign_{mode}", "RoiAlign", [x, rois, np.zeros(4, np.int64)], opset=16, mode=mode, output_height=2, output_width=3, sampling_ratio=2)
    yield Case("MaxRoiPool", "MaxRoiPool", [x, np.array([[0, 0, 0, 3, 4], [0, 1, 2, 2, 3]], F)], opset=1, pooled_shape=[2, 2])
    boxes = rng.uniform(0, 10, (2, 30, 4)).astype(F)
    for centred in (0, 1):
        yield Case(f"NonMaxSuppression_{centred}", "NonMaxSuppression", [boxes, rng.random((2, 3, 30)).astype(F), np.array([7], np.int64), np.array([0.3], F), np.array([0.2], F)], opset=11,
                   center_point_box=centred)


def movement_cases(rng):
    for k in range(40):
        rank = int(rng.integers(1, 5))
        dims = [int(v) for v in rng.integers(1, 6, rank)]
        x = rng.standard_normal(dims).astype((F, np.float64, np.int64, np.int32)[k % 4])
        yield Case(f"Transpose_{k}", "Transpose", [x], perm=[int(v) for v in rng.permutation(rank)])
        axes = [int(a) for a in rng.permutation(rank)[: int(rng.integers(1, rank + 1))]]
        starts, ends, steps = rng.integers(-8, 8, len(axes)), rng.integers(-8, 8, len(axes)), rng.choice([-3, -2, -1, 1, 2, 3], len(axes))
        yield Case(f"Slice_{k}", "Slice", [x, starts, ends, np.array(axes, np.int64), steps.astype(np.int64)], opset=13)
        pads = rng.integers(0, 3, 2 * rank)
        mode = ("constant", "edge", "reflect")[k % 3]
        if mode == "reflect":
            pads = np.minimum(pads, np.array(dims * 2) - 1)
        yield Case(f"Pad_{k}", "Pad", [x, pads.astype(np.int64)], opset=13, mode=mode)
        axis = int(rng.integers(0, rank))
        n = dims[axis]
        yield Case(f"Gather_{k}", "Gather", [x, rng.integers(-n, n, (2, 3))], axis=axis)
        yield Case(f"GatherElements_{k}", "GatherElements", [x, rng.integers(-n, n, dims)], axis=axis)
        order = np.argsort(rng.random(dims), axis=axis)
        reduction = ("none", "add", "mul", "max", "min")[k % 5]
        yield Case(f"ScatterElements_{k}", "ScatterElements", [x, order, (x + 1).astype(x.dtype)], opset=18, axis=axis, reduction=reduction)
        yield Case(f"TopK_{k}", "TopK", [x, np.array([int(rng.integers(0, n + 1))], np.int64)], outputs=2, opset=11, axis=axis, largest=k % 2)
        yield Case(f"CumSum_{k}", "CumSum", [x, np.array(axis, np.int32)], opset=14, exclusive=k % 2, reverse=k // 2 % 2)
        yield Case(f"Tile_{k}", "Tile", [x, rng.integers(0, 4, rank)], opset=13)
        yield Case(f"Expand_{k}", "Expand", [x, np.array([2] + dims, np.int64)], opset=13)
        yield Case(f"Split_{k}", "Split", [x, np.array([n // 2, n - n // 2], np.int64)], outputs=2, opset=13, axis=axis)
        yield Case(f"Concat_{k}", "Concat", [x, x, x], axis=axis, opset=13)
        yield Case(f"Unique_{k}", "Unique", [np.round(x).astype(F)], outputs=4, opset=11, sorted=k % 2, **({"axis": axis} if k % 3 else {}))
    for k in range(20):
        n = int(rng.integers(2, 40))
        yield Case(f"DFT_{k}", "DFT", [rng.standard_normal((2, n, 1 + k % 2)).astype(F)], opset=17, axis=1, onesided=int(k % 2 == 0 and k % 4 < 2), inverse=int(k % 2 == 1 and k % 3 == 0))
        frame = int(rng.integers(2, n + 1))
        yield Case(f"STFT_{k}", "STFT", [rng.standard_normal((2, n, 1)).astype(F), np.array(1 + k % 3, np.int64), rng.random(frame).astype(F)], opset=17, onesided=k % 2)
        yield Case(f"Det_{k}", "Det", [rng.standard_normal((3, 1 + k % 4, 1 + k % 4)).astype(F)], opset=11)


def build(case):
    values = [(f"i{k}", np.array(v, order="C")) for k, v in enumerate(case.inputs) if v is not None]
    names = [f"i{k}" if v is not None else "" for k, v in enumerate(case.inputs)]
    outputs = [f"o{k}" for k in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, domain=case.domain, name=case.name, **case.attributes)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in values]
    graph = helper.make_graph([node], case.name, inputs, [helper.make_empty_tensor_value_info(o) for o in outputs])
    imports = [helper.make_opsetid("", case.opset), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9), dict(values), outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--filter", default="")
    parser.add_argument("--keep", default="")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    lines, refused = [], {}
    with tempfile.TemporaryDirectory() as scratch:
        work = args.keep or scratch
        for make in (quantized_cases, weight_cases, qdq_cases, resize_cases, movement_cases):
            for case in make(rng):
                if args.filter not in case.name:
                    continue
                model, inputs, outputs = build(case)
                try:
                    results = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(outputs, inputs)
                except Exception as e:
                    refused[case.name] = str(e).splitlines()[0][:200]
                    continue
                folder = os.path.join(work, case.name)
                data = os.path.join(folder, "test_data_set_0")
                os.makedirs(data, exist_ok=True)
                with open(os.path.join(folder, "model.onnx"), "wb") as f:
                    f.write(model.SerializeToString())
                for kind, values in (("input", list(inputs.values())), ("output", results)):
                    for k, value in enumerate(values):
                        with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as f:
                            f.write(numpy_helper.from_array(value).SerializeToString())
                one_step = case.op.startswith("QLinear") or case.op == "QGemm"
                lines.append(f"{folder} 2e-4 {1 if one_step else 2e-5} scale")
        results = backend_test.run(args.runner, lines)
    counts = collections.Counter(r.split()[0] for r in results.values())
    for folder, result in sorted(results.items()):
        if result != "PASS":
            print(os.path.basename(folder), result)
    reasons = collections.defaultdict(list)
    for name, why in refused.items():
        reasons[why.split("Status Message: ")[-1]].append(name)
    for why, names in reasons.items():
        print(f"refused by ONNX Runtime: {why} ({len(names)}: {names[0]}, ...)")
    print(len(results), dict(counts), "refused", len(refused))
    sys.exit(0 if counts["PASS"] == len(results) else 1)


if __name__ == "__main__":
    main()
