#!/usr/bin/env python3
"""What an attribute that rules set changes about an operator's time in ONNX Runtime: timed with it and without it, in turns.

    python bench/runtime/attribute_times.py [--only REGEX] [--seconds 0.3] [--passes 5]              # a table
    python bench/runtime/attribute_times.py --convolutions                                           # activations within convolutions
    python bench/runtime/attribute_times.py --json bench/data/attribute_times.json                   # the data of tests/extract/attribute_rows_test.cpp

A row of the table: the operator, the attribute with its value, seconds without and with it, and the ratio (median of the passes, with the
least and the most). Attributes that change no more than MATTERS at any size of it need no rows of their own in the table of times
(extract/costs); the others are a feature (extract/sizes/op_features.h), and the table has rows of them.
"""
import argparse
import json
import re
import statistics
from pathlib import Path

import numpy as np

from gather_ort import machine, seconds_in_turns
from ort_grid import MS, NCHWC, Case, scale, u8, zero

MATTERS = 1.15


def case(op, inputs, attrs=None, weights=(), outputs=1, opset=23):
    domain, _, name = op.rpartition("::")
    return Case(name, inputs, attrs, weights=weights, outputs=outputs, domain=domain, opset=opset)


def with_each(op, inputs, base, changes, **more):
    """(operator, attribute, value, with it, without it) for each of `changes`: {attribute: value, or (values of several attributes)}."""
    for name, value in changes.items():
        changed = value if isinstance(value, dict) else {name: value}
        yield op, name, changed, case(op, inputs, base | changed, **more), case(op, inputs, base, **more)


def attention():
    for rows, keys in ((1, 128), (16, 16), (128, 128), (256, 256)):
        q, k, mask = (1, 12, rows, 64), (1, 12, keys, 64), (1, 1, rows, keys)
        changes = {"scale": 0.1, "softcap": 30.0, "softmax_precision": 1}
        yield from with_each("Attention", [q, k, k], {}, changes)
        yield from with_each("Attention", [q, k, k, mask], {}, {"softcap": 30.0})
        yield from with_each("Attention", [(1, rows, 768), (1, keys, 768), (1, keys, 768)], {"q_num_heads": 12, "kv_num_heads": 12}, changes)
        scores = case("Attention", [q, k, k, None, None, None], {"qk_matmul_output_mode": 0}, outputs=4)
        yield "Attention", "qk_matmul_output_mode", {"qk_matmul_output_mode": 0}, scores, case("Attention", [q, k, k])
        flat_q, flat_k = (1, rows, 768), (1, keys, 768)
        changes = {"scale": 0.1, "mask_filter_value": -1e4} | ({"unidirectional": 1} if rows == keys else {})
        yield from with_each(MS + "::MultiHeadAttention", [flat_q, flat_k, flat_k], {"num_heads": 12}, changes)
        if rows == keys:
            packed = [(1, rows, 768), (768, 2304), (2304,)]
            changes |= {"do_rotary": 1, "qkv_hidden_sizes": [768, 768, 768]}
            yield from with_each(MS + "::Attention", packed, {"num_heads": 12}, changes, weights=(1, 2))
            integer = [u8(1, rows, 768), np.random.default_rng(0).integers(-127, 127, (768, 2304)).astype(np.int8), (2304,), scale(), scale(0.01), None, zero(), zero(np.int8)]
            changes = {"scale": 0.1, "mask_filter_value": -1e4, "unidirectional": 1}
            yield from with_each(MS + "::QAttention", integer, {"num_heads": 12}, changes, weights=(1, 2, 3, 4, 6, 7))
        if rows in (1, keys):
            past = [(1, 12, keys - rows, 64)] * 2 if keys > rows else [None, None]
            lengths = [np.array([keys - 1], np.int32), np.array(keys, np.int32)]
            grouped = [flat_q, flat_q, flat_q, *past, *lengths]
            changes = {"scale": 0.1, "softcap": 30.0, "local_window_size": 8, "smooth_softmax": 1}
            yield from with_each(MS + "::GroupQueryAttention", grouped, {"num_heads": 12, "kv_num_heads": 12}, changes, outputs=3)
            tables = [(1024, 32), (1024, 32)]
            rotated = case(MS + "::GroupQueryAttention", [*grouped, *tables], {"num_heads": 12, "kv_num_heads": 12, "do_rotary": 1}, outputs=3, weights=(7, 8))
            plain = case(MS + "::GroupQueryAttention", grouped, {"num_heads": 12, "kv_num_heads": 12}, outputs=3)
            yield MS + "::GroupQueryAttention", "do_rotary", {"do_rotary": 1}, rotated, plain
        for op in ("RotaryEmbedding", MS + "::RotaryEmbedding"):
            x = [(1, 12, rows, 64), (1024, 32), (1024, 32), np.arange(rows).reshape(1, rows)]
            if op != "RotaryEmbedding":
                x = [x[0], x[3], x[1], x[2]]
            tables = (1, 2) if op == "RotaryEmbedding" else (2, 3)
            yield from with_each(op, x, {}, {"interleaved": 1}, weights=tables)
            half = [(1024, 16) if i in tables else value for i, value in enumerate(x)]
            part = case(op, half, {"rotary_embedding_dim": 32, "num_heads": 12}, weights=tables)
            yield op, "rotary_embedding_dim", {"rotary_embedding_dim": 32}, part, case(op, x, {}, weights=tables)
            flat = [(1, rows, 768), *x[1:]]
            yield op, "num_heads", {"num_heads": 12}, case(op, flat, {"num_heads": 12}, weights=tables), case(op, x, {}, weights=tables)


def products():
    for rows, inner, columns in ((16, 64, 64), (128, 256, 256), (128, 768, 768)):
        straight = case(MS + "::FusedMatMul", [(rows, inner), (inner, columns)])
        turned = case(MS + "::FusedMatMul", [(inner, rows), (inner, columns)], {"transA": 1})
        yield MS + "::FusedMatMul", "transA", {"transA": 1}, turned, straight
        for side, inputs in (("A", [(rows, 8, inner // 8), (8, inner // 8, columns)]), ("B", [(8, rows, inner // 8), (inner // 8, 8, columns)])):
            moved = case(MS + "::FusedMatMul", inputs, {f"transBatch{side}": 1})
            plain = case(MS + "::FusedMatMul", [(8, rows, inner // 8), (8, inner // 8, columns)])
            yield MS + "::FusedMatMul", f"transBatch{side}", {f"transBatch{side}": 1}, moved, plain
        weight = np.random.default_rng(0).integers(-127, 127, (inner, columns)).astype(np.int8)
        s, z, bias = scale(), zero(), np.zeros(columns, np.int32)
        plain = case(MS + "::QGemm", [u8(rows, inner), s, z, weight, s, zero(np.int8), bias, s, z], {}, weights=(1, 2, 3, 4, 5, 6, 7, 8))
        yield MS + "::QGemm", "transA", {"transA": 1}, case(MS + "::QGemm", [u8(inner, rows), s, z, weight, s, zero(np.int8), bias, s, z], {"transA": 1}, weights=(1, 2, 3, 4, 5, 6, 7, 8)), plain
        yield MS + "::QGemm", "transB", {"transB": 1}, case(MS + "::QGemm", [u8(rows, inner), s, z, weight.T.copy(), s, zero(np.int8), bias, s, z], {"transB": 1}, weights=(1, 2, 3, 4, 5, 6, 7, 8)), plain


def images():
    for channels, size in ((16, 56), (64, 28), (128, 14)):
        x = (1, channels, size, size)
        yield from with_each("Conv", [x, (channels, channels, 3, 3)], {"pads": [1] * 4}, {"dilations": {"dilations": [2, 2], "pads": [2] * 4}}, weights=(1,))
        changes = {"output_padding": {"output_padding": [1, 1]}, "dilations": {"dilations": [2, 2]}}
        yield from with_each("ConvTranspose", [x, (channels, channels, 3, 3)], {"strides": [2, 2]}, changes, weights=(1,))
        pooled = {"kernel_shape": [2, 2], "strides": [2, 2]}
        changes = {"pads": [1] * 4, "count_include_pad": {"pads": [1] * 4, "count_include_pad": 1}, "ceil_mode": 1, "dilations": [2, 2]}
        yield from with_each("AveragePool", [x], pooled, changes, opset=22)
        yield from with_each("MaxPool", [x], pooled, {"ceil_mode": 1, "dilations": [2, 2]}, opset=22)
        s, z = scale(), zero()
        del changes["dilations"]
        yield from with_each(MS + "::QLinearAveragePool", [u8(*x), s, z, s, z], pooled, changes, weights=(1, 2, 3, 4))
        yield from with_each("DepthToSpace", [x], {"blocksize": 2}, {"mode": b"CRD"})
        pads = [x, np.array([0, 0, 1, 1, 0, 0, 1, 1])]
        for mode in (b"edge", b"reflect", b"wrap"):
            yield from with_each("Pad", pads, {}, {"mode": mode}, weights=(1,))
        to = [x, None, None, np.array([1, channels, 2 * size, 2 * size])]
        cubic = {"mode": b"cubic"}
        yield from with_each("Resize", to, cubic, {"cubic_coeff_a": -0.5, "exclude_outside": 1}, weights=(3,))
        yield from with_each("BatchNormalization", [x, *[(channels,)] * 3, np.ones(channels, np.float32)], {}, {"epsilon": 1e-3}, weights=(1, 2, 3, 4))
        yield from with_each("InstanceNormalization", [x, *[(channels,)] * 2], {}, {"epsilon": 1e-3}, weights=(1, 2))
        yield from with_each("GroupNormalization", [x, *[(channels,)] * 2], {"num_groups": 8}, {"epsilon": 1e-3}, weights=(1, 2))


def others():
    for rows, width in ((16, 64), (128, 768), (512, 1024)):
        x = (1, rows, width)
        for op in ("LayerNormalization", "RMSNormalization"):
            both = (rows, width)
            flat = case(op, [(1, 1, rows * width), *[(rows * width,)] * (2 if op[0] == "L" else 1)], {"axis": -1}, weights=(1, 2) if op[0] == "L" else (1,))
            yield op, "axis", {"axis": -2}, case(op, [x, *[both] * (2 if op[0] == "L" else 1)], {"axis": -2}, weights=(1, 2) if op[0] == "L" else (1,)), flat
        yield from with_each("LpNormalization", [x], {}, {"p": 1})
        yield from with_each("CumSum", [x, np.array(2)], {}, {"reverse": 1, "exclusive": 1}, weights=(1,))
        yield from with_each("ArgMax", [x], {"axis": 2}, {"select_last_index": 1, "keepdims": 0})
        yield from with_each("ReduceLogSum", [x, np.array([2])], {}, {"keepdims": 0}, weights=(1,))
        for op, changes in {"LeakyRelu": {"alpha": 0.2}, "Elu": {"alpha": 0.5}, "Celu": {"alpha": 0.5}, "HardSigmoid": {"alpha": 0.1, "beta": 0.4}, "Selu": {"alpha": 1.5, "gamma": 1.1},
                            "ThresholdedRelu": {"alpha": 0.5}, "Shrink": {"bias": 0.1, "lambd": 0.2}}.items():
            yield from with_each(op, [x], {}, changes)
        yield from with_each("Swish", [x], {}, {"alpha": 1.7}, opset=24)
        s, z, ss, zz = scale(), zero(), np.full(width, 0.05, np.float32), np.zeros(width, np.uint8)
        blocks = np.full((1, rows, width // 32), 0.05, np.float32)
        for op, value in (("QuantizeLinear", x), ("DequantizeLinear", u8(*x))):
            plain = case(op, [value, s, z], {}, weights=(1, 2))
            yield op, "axis", {"axis": 2}, case(op, [value, ss, zz], {"axis": 2}, weights=(1, 2)), plain
            yield op, "block_size", {"block_size": 32}, case(op, [value, blocks, np.zeros_like(blocks, np.uint8)], {"axis": 2, "block_size": 32}, weights=(1, 2)), plain
        yield from with_each("QuantizeLinear", [x, s, z], {}, {"saturate": 0}, weights=(1, 2))
        yield from with_each("QuantizeLinear", [x, s], {}, {"output_dtype": 2}, weights=(1,))
        places, put = np.arange(rows).reshape(rows, 1), (rows, width)
        yield from with_each("ScatterND", [(2 * rows, width), places, put], {}, {"reduction": b"add"})
        yield "GatherND", "batch_dims", {"batch_dims": 1}, case("GatherND", [(8, rows, width), np.zeros((8, rows, 1), np.int64)], {"batch_dims": 1}), case("GatherND", [(8 * rows, width), np.zeros((8 * rows, 1), np.int64)])
        targets = np.zeros(rows, np.int64)
        yield from with_each("NegativeLogLikelihoodLoss", [(rows, width), targets], {}, {"reduction": b"sum", "ignore_index": 1})


def within_convolutions(args):
    """What share of its own kernel's time an activation takes in the kernel of a convolution in blocks (extract/sizes/blocks.cpp)."""
    for channels, size in ((16, 28), (64, 56)):
        x = (1, channels, size, size)
        filters, base = [x, (channels, 1, 3, 3), (channels,)], {"pads": [1] * 4, "group": channels}
        for name, numbers in (("Relu", None), ("HardSwish", None), ("Sigmoid", None), ("Tanh", None), ("HardSigmoid", [0.2, 0.5]), ("LeakyRelu", [0.1])):
            fused = base | {"activation": name} | ({"activation_params": numbers} if numbers else {})
            cases = [case(NCHWC + "::Conv", filters, attrs, weights=(1, 2)) for attrs in (base, fused)] + [case(name, [x])]
            plain, with_it, alone = seconds_in_turns(cases, 1, args.seconds)
            print(f"{name:12} within a convolution of {str(x):18} {(with_it - plain) / alone:5.2f} of its own kernel", flush=True)


def measured(args):
    pairs = [p for f in (attention, products, images, others) for p in f() if re.search(args.only, f"{p[0]}.{p[1]}")]
    out = {}
    for op, name, values, changed, plain in pairs:
        try:
            raws = [seconds_in_turns([changed, plain], 1, args.seconds) for _ in range(args.passes)]
        except Exception as error:  # a combination that the runtime has no kernel of is no row
            print(f"{op:36} {name:24} not run: {str(error).splitlines()[0][:90]}", flush=True)
            continue
        ratios = sorted(w / p for w, p in raws)
        ratio, without = statistics.median(ratios), statistics.median(p for _, p in raws)
        print(f"{op:36} {name:24} {str(plain.inputs[0] if isinstance(plain.inputs[0], tuple) else plain.inputs[0].shape):22} {without * 1e6:9.2f} us  {ratio:5.2f} "
              f"[{ratios[0]:.2f}, {ratios[-1]:.2f}]", flush=True)
        known = out.setdefault(op, {}).setdefault(name, [ratio, ratio])
        known[:] = round(min(known[0], ratio), 2), round(max(known[1], ratio), 2)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--convolutions", action="store_true", help="activations within convolutions instead")
    args = parser.parse_args()
    if args.convolutions:
        return within_convolutions(args)
    out = measured(args)
    print(f"\nbeyond {MATTERS}: " + ", ".join(f"{op}.{name} {low} to {high}" for op, names in out.items() for name, (low, high) in names.items()
                                              if high > MATTERS or low < 1 / MATTERS))
    if args.json:
        written = json.loads(args.json.read_text()) if args.json.exists() else {}  # what is said there of attributes that nobody timed stays
        written |= {"machine": machine(), "matters": MATTERS, "ratios": written.get("ratios", {}) | out}
        rows = {key: json.dumps(value) if key in ("machine", "matters") else "{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "\n }"
                for key, value in written.items()}
        args.json.write_text("{\n" + ",\n".join(f" {json.dumps(key)}: {text}" for key, text in rows.items()) + "\n}\n")


if __name__ == "__main__":
    main()
