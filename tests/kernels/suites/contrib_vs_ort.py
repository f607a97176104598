#!/usr/bin/env python3
"""Compares our com.microsoft and fused kernels with ONNX Runtime's own CPU kernels on generated instances.

usage: contrib_vs_ort.py RUNNER [--seed N] [--rtol 2e-4] [--filter TEXT]

Instances that ONNX Runtime refuses are skipped and counted. Exits 1 where the two disagree.
"""
import argparse
import collections
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backend_test

MS = "com.microsoft"


class Case:
    def __init__(self, name, op, inputs, outputs, domain=MS, **attributes):
        self.name, self.op, self.inputs, self.outputs, self.domain, self.attributes = name, op, inputs, outputs, domain, attributes


def f32(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def attention_cases(rng):
    for k in range(40):
        b, s, n, h, d = (int(v) for v in (rng.integers(1, 4), rng.integers(1, 9), rng.integers(1, 4), rng.choice([4, 8, 16]), rng.integers(3, 20)))
        past = int(rng.choice([0, 0, 3, 5]))
        total = past + s
        hidden = n * h
        kind = k % 6
        mask = {
            0: None,
            1: rng.integers(1, total + 1, (b,)).astype(np.int32),
            2: np.concatenate([rng.integers(max(1, total - 1), total + 1, (b,)), np.zeros(b)]).astype(np.int32),
            3: rng.integers(0, 2, (b, total)).astype(np.int32),
            4: rng.integers(0, 2, (b, s, total)).astype(np.int32),
            5: np.tril(np.ones((b, 1, 16, 16))).astype(np.int32),
        }[kind]
        inputs = [f32(rng, b, s, d), f32(rng, d, 3 * hidden), f32(rng, 3 * hidden), mask, f32(rng, 2, b, n, past, h) if past else None]
        if kind in (0, 3):
            inputs.append(f32(rng, int(rng.choice([1, b])), int(rng.choice([1, n])), s, total))
            if k % 4 == 0:
                inputs[-1][0, :, 0] = -np.inf  # a row that sees nothing
        attributes = {"num_heads": n, "unidirectional": int(rng.integers(0, 2)) if kind != 5 else 0}
        if k % 5 == 0:
            attributes["mask_filter_value"] = -500.0
        if k % 7 == 0:
            attributes["scale"] = 0.3
        yield Case(f"attention_{k}", "Attention", inputs, 2 if past or k % 2 else 1, **attributes)
    for k in range(6):
        b, s, n, h, hv, d = 2, 5, 2, 8, 6, 7
        yield Case(f"attention_vsize_{k}", "Attention", [f32(rng, b, s, d), f32(rng, d, 2 * n * h + n * hv), f32(rng, 2 * n * h + n * hv)], 1, num_heads=n,
                   qkv_hidden_sizes=[n * h, n * h, n * hv], unidirectional=k % 2)


def mha_cases(rng):
    for k in range(60):
        b, s, n, h = (int(v) for v in (rng.integers(1, 4), rng.integers(1, 7), rng.integers(1, 4), rng.choice([4, 8])))
        hv = int(rng.choice([h, 6]))
        layout = k % 5
        length = s if layout in (0, 3) else int(rng.integers(1, 9))
        past = int(rng.choice([0, 4])) if layout in (0, 1) else 0
        if past or layout in (2, 3):
            hv = h
        total = past + length
        q = f32(rng, b, s, n * h)
        key, value = f32(rng, b, length, n * h), f32(rng, b, length, n * hv)
        if layout == 2:
            key, value = f32(rng, b, length, n, 2, h), None
        if layout == 3:
            q, key, value = f32(rng, b, s, n, 3, h), None, None
        if layout == 4:
            key, value = f32(rng, b, n, length, h), f32(rng, b, n, length, hv)
        bias = f32(rng, 2 * n * h + n * hv) if k % 3 == 0 and layout in (0, 1, 4) else None
        mask = [None, rng.integers(1, total + 1, (b,)).astype(np.int32), rng.integers(0, 2, (b, total)).astype(np.int32),
                rng.integers(0, 2, (b, s, total)).astype(np.int32)][(k // 5) % 4]
        extra = f32(rng, int(rng.choice([1, b])), int(rng.choice([1, n])), s, total) if k % 4 == 1 else None
        if extra is not None and k % 8 == 1:
            extra[0, :, 0] = -np.inf  # a row that sees nothing
        inputs = [q, key, value, bias, mask, extra]
        if past:
            inputs += [f32(rng, b, n, past, h), f32(rng, b, n, past, hv)]
        attributes = {"num_heads": n, "unidirectional": int(rng.integers(0, 2))}
        if k % 7 == 0:
            attributes["scale"] = 0.25
        yield Case(f"mha_{k}_{layout}", "MultiHeadAttention", inputs, 3 if layout in (0, 1) and (past or k % 2) else 1, **attributes)


def gqa_cases(rng):
    for k in range(60):
        b, kv, group, h = (int(v) for v in (rng.integers(1, 4), rng.integers(1, 3), rng.integers(1, 4), rng.choice([16, 32])))
        n = kv * group
        prompt = k % 2 == 0
        s = int(rng.integers(1, 8)) if prompt else int(rng.choice([1, 1, 3]))
        past = 0 if prompt else int(rng.integers(1, 7))
        if not prompt and s > 1:
            b = 1
        total = past + s
        lengths = np.full(b, total, np.int32)
        if not prompt and s == 1:
            lengths = rng.integers(2, total + 1, b).astype(np.int32)
            lengths[0] = total
        buffer = past + int(rng.choice([0, 4])) if not prompt else int(rng.choice([0, 0]))
        packed = k % 3 == 0
        q = f32(rng, b, s, (n + 2 * kv) * h) if packed else f32(rng, b, s, n * h)
        key, value = (None, None) if packed else (f32(rng, b, s, kv * h), f32(rng, b, s, kv * h))
        rotary = k % 4 < 2
        half = h // 2
        inputs = [q, key, value, f32(rng, b, kv, buffer, h) if past else None, f32(rng, b, kv, buffer, h) if past else None, (lengths - 1).astype(np.int32),
                  np.array([total], np.int32)]
        if rotary:
            angle = rng.standard_normal((32, half)).astype(np.float32)
            inputs += [np.cos(angle), np.sin(angle)]
        attributes = {"num_heads": n, "kv_num_heads": kv, "do_rotary": int(rotary), "rotary_interleaved": int(k % 8 == 1)}
        if k % 5 == 0:
            attributes["local_window_size"] = int(rng.integers(1, 5))
        if k % 6 == 1:
            attributes["softcap"] = 2.5
        if k % 7 == 2:
            attributes["scale"] = 0.2
        if k % 9 == 4:
            attributes["smooth_softmax"] = 1
        if k % 10 == 3:
            inputs += [None] * (10 - len(inputs)) + [f32(rng, 1, n, s, total)]
        if k % 10 == 6:
            inputs += [None] * (11 - len(inputs)) + [f32(rng, n)]
        yield Case(f"gqa_{k}", "GroupQueryAttention", inputs, 3, **attributes)


def norm_cases(rng):
    for k in range(12):
        b, s, h = 2, int(rng.integers(1, 6)), int(rng.integers(1, 40))
        x = f32(rng, b, s, h)
        skip = [f32(rng, b, s, h), f32(rng, 1, s, h), f32(rng, s, h)][k % 3]
        bias = f32(rng, h) if k % 2 else None
        yield Case(f"skip_ln_{k}", "SkipLayerNormalization", [x, skip, f32(rng, h), f32(rng, h) if k % 4 else None, bias], (1, 4)[k % 2], epsilon=1e-5)
        yield Case(f"skip_rms_{k}", "SkipSimplifiedLayerNormalization", [x, skip, f32(rng, h), bias], (1, 4)[k % 2], epsilon=1e-5)
        yield Case(f"rms_{k}", "SimplifiedLayerNormalization", [x, f32(rng, h)], 1, domain="", axis=-1, epsilon=1e-6)
        ids = rng.integers(0, 9, (b, s)).astype(np.int32)
        segments = rng.integers(0, 2, (b, s)).astype(np.int32)
        mask = rng.integers(0, 2, (b, s)).astype(np.int32)
        yield Case(f"embed_ln_{k}", "EmbedLayerNormalization",
                   [ids, segments if k % 2 else None, f32(rng, 9, h), f32(rng, 8, h), f32(rng, 2, h) if k % 2 else None, f32(rng, h), f32(rng, h), mask if k % 3 == 0 else None,
                    rng.integers(0, 8, (b, s)).astype(np.int32) if k % 4 == 1 else None], 3 if k % 2 else 2)


def pointwise_cases(rng):
    for k in range(6):
        x, bias = f32(rng, 2, 3, 10) * 3, f32(rng, 10)
        yield Case(f"bias_gelu_{k}", "BiasGelu", [x, bias], 1)
        yield Case(f"fast_gelu_{k}", "FastGelu", [x, bias if k % 2 else None], 1)
        yield Case(f"gelu_{k}", "Gelu", [x], 1)
        yield Case(f"quick_gelu_{k}", "QuickGelu", [x], 1, alpha=[1.702, 1.0, 0.5][k % 3])


def rotary_cases(rng):
    for k in range(16):
        b, s, n, h = int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.choice([8, 16]))
        x = f32(rng, b, s, n * h) if k % 2 else f32(rng, b, n, s, h)
        partial = k % 4 == 1
        half = h // 4 if partial else h // 2
        angle = f32(rng, 20, half)
        positions = np.array([3], np.int64) if k % 3 == 0 else rng.integers(0, 20, (b, s)).astype(np.int64)
        attributes = {"interleaved": int(k % 5 == 0)}
        if partial:
            attributes.update(num_heads=n, rotary_embedding_dim=2 * half)
        yield Case(f"rotary_{k}", "RotaryEmbedding", [x, positions, np.cos(angle), np.sin(angle)], 1, **attributes)


def matmul_cases(rng):
    for k in range(16):
        m, kk, n = (int(v) for v in rng.integers(1, 9, 3))
        ta, tb = k % 2, k // 2 % 2
        a = f32(rng, 2, *((kk, m) if ta else (m, kk)))
        b = f32(rng, *((2,) if k % 3 else ()), *((n, kk) if tb else (kk, n)))
        yield Case(f"fused_matmul_{k}", "FusedMatMul", [a, b], 1, transA=ta, transB=tb, alpha=[1.0, 0.5][k % 2])
    for k in range(8):
        a, b = f32(rng, 3, 4, 5), f32(rng, 3, 5, 6)
        ba, bb = k % 2, k // 2 % 2
        x = np.ascontiguousarray(np.moveaxis(f32(rng, 3, 4, 5), 0, 1)) if ba else a
        y = np.ascontiguousarray(np.moveaxis(f32(rng, 3, 5, 6), 0, 1)) if bb else b
        yield Case(f"fused_matmul_batch_{k}", "FusedMatMul", [x, y], 1, transBatchA=ba, transBatchB=bb, alpha=1.5)
    for k, name in enumerate(["Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu"]):
        attributes = {"activation": name}
        if name in ("LeakyRelu", "Elu"):
            attributes["activation_alpha"] = 0.3
        yield Case(f"fused_gemm_{name}", "FusedGemm", [f32(rng, 4, 5), f32(rng, 5, 6), f32(rng, 6)], 1, alpha=0.7, beta=1.3, **attributes)
    for k, (name, params) in enumerate([("Relu", []), ("LeakyRelu", [0.2]), ("Sigmoid", []), ("Tanh", []), ("Clip", [0.0, 1.0]), ("HardSigmoid", [0.3, 0.4])]):
        attributes = {"activation": name, "pads": [1, 1, 1, 1]}
        if params:
            attributes["activation_params"] = params
        z = [f32(rng, 1, 4, 6, 6)] if k % 2 == 0 else []
        yield Case(f"fused_conv_{name}", "FusedConv", [f32(rng, 1, 3, 6, 6), f32(rng, 4, 3, 3, 3), f32(rng, 4)] + z, 1, **attributes)


def linear_attention_cases(rng):
    """Each rule, a decay for each head or each element of a key, a beta for each head or one, fewer heads of queries or keys than of values, a state or none."""
    for k in range(64):
        rule = ("linear", "gated", "delta", "gated_delta")[k % 4]
        b, t = int(rng.integers(1, 4)), int(rng.choice([1, 1, 3, 7, 70]))
        heads, dk, dv = int(rng.choice([1, 2, 4])), int(rng.choice([3, 8, 72])), int(rng.choice([5, 8, 64]))
        queries, keys = (max(1, heads // int(rng.choice([1, 1, 2]))) for _ in range(2))
        decay = -np.abs(f32(rng, b, t, heads * (dk if k % 3 == 0 else 1))) if rule.startswith("gated") else None
        beta = rng.random((b, t, 1 if k % 5 == 0 else heads), dtype=np.float32) if rule.endswith("delta") else None
        state = f32(rng, b, heads, dk, dv) if k % 2 else None
        key = f32(rng, b, t, keys * dk) / np.float32(2 * np.sqrt(dk))
        attributes = {"q_num_heads": queries, "kv_num_heads": heads, "update_rule": rule}
        if k % 7 == 0:
            attributes["scale"] = 0.3
        if k % 9 == 0:
            attributes["chunk_size"] = 16
        inputs = [f32(rng, b, t, queries * dk), key, f32(rng, b, t, heads * dv), state, decay, beta]
        yield Case(f"linear_attention_{k}", "LinearAttention", inputs, 2, **attributes)


def expert_cases(rng):
    """Each activation, biases or none, equal scores (the expert of the higher number is taken), limits, one token, none, and all experts."""
    for k in range(48):
        kind = ("swiglu", "silu", "relu", "gelu", "identity", "swiglu")[k % 6]
        tokens, experts = int(rng.choice([0, 1, 3, 8])), int(rng.choice([1, 4, 7]))
        hidden, inter = (int(v) for v in rng.integers(1, 20, 2))
        scores = f32(rng, tokens, experts)
        if k % 4 == 1:
            scores = np.round(scores)
        if k % 9 == 0:
            scores *= 100
        bias = lambda width: f32(rng, experts, width) if k % 3 else None
        x = f32(rng, tokens, hidden) * np.float32(3) if k % 5 else f32(rng, 1, tokens, hidden)
        wide = 2 * inter if kind == "swiglu" else inter
        inputs = [x, scores, f32(rng, experts, wide, hidden), bias(wide), f32(rng, experts, hidden, inter), bias(hidden)]
        attributes = {"activation_type": kind, "k": int(rng.integers(1, experts + 1)), "normalize_routing_weights": k // 2 % 2}
        if kind == "swiglu":
            attributes["swiglu_fusion"] = 1
            if k % 4 == 3:
                attributes |= {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}
        yield Case(f"experts_{k}", "MoE", inputs, 1, **attributes)


def causal_convolution_cases(rng):
    for k in range(16):
        b, c, t, w = (int(v) for v in (rng.integers(1, 4), rng.integers(1, 9), rng.choice([1, 2, 5, 17]), rng.choice([1, 2, 4])))
        inputs = [f32(rng, b, c, t), f32(rng, c, 1, w), f32(rng, c) if k % 3 else None, f32(rng, b, c, w - 1) if k % 2 and w > 1 else None]
        yield Case(f"causal_convolution_{k}", "CausalConvWithState", inputs, 2, activation=("none", "silu", "swish")[k % 3])


def lstm_cases(rng):
    """One row a batch: ONNX Runtime's scale of several rows depends on its threads."""
    for k in range(12):
        s, d, h, dirs = int(rng.integers(1, 6)), int(rng.integers(1, 9)), int(rng.integers(1, 7)), int(k % 3 == 2) + 1
        dtype = np.int8 if k % 2 else np.uint8
        low, high = (-64, 64) if k % 2 else (0, 256)  # 7 bits beside uint8: without dot products, ONNX Runtime's sums of two products saturate
        shape = (dirs, 4 * h) if k % 4 > 1 else (dirs,)

        def weight(rows):
            zero = rng.integers(-3, 4, shape) if dtype == np.int8 else rng.integers(120, 130, shape)
            return rng.integers(low, high, (dirs, rows, 4 * h)).astype(dtype), (0.01 + 0.01 * rng.random(shape)).astype(np.float32), (zero if k % 4 < 2 else np.full(shape, zero.flat[0])).astype(dtype)

        (w, ws, wz), (r, rs, rz) = weight(d), weight(h)
        inputs = [f32(rng, s, 1, d), w, r, f32(rng, dirs, 8 * h) if k % 5 else None, None, f32(rng, dirs, 1, h) if k % 3 else None,
                  f32(rng, dirs, 1, h) if k % 4 else None, f32(rng, dirs, 3 * h) if k % 7 == 1 else None, ws, wz, rs, rz]
        yield Case(f"lstm_{k}", "DynamicQuantizeLSTM", inputs, 3, hidden_size=h, direction="bidirectional" if dirs == 2 else ("reverse" if k % 6 == 1 else "forward"))


def build(case):
    names, values = [], []
    for k, value in enumerate(case.inputs):
        names.append("" if value is None else f"x{k}")
        if value is not None:
            values.append((f"x{k}", value))
    outputs = [f"y{k}" for k in range(case.outputs)]
    if case.op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization") and case.outputs == 4:
        outputs[1] = outputs[2] = ""
    node = helper.make_node(case.op, names, outputs, domain=case.domain, name="node", **case.attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in values],
                              [onnx.ValueInfoProto(name=o) for o in outputs if o])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)])
    model.ir_version = 10
    return model, dict(values), [o for o in outputs if o]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rtol", type=float, default=2e-4)
    parser.add_argument("--filter", default="")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    lines, refused = [], {}
    with tempfile.TemporaryDirectory() as work:
        for make in (attention_cases, mha_cases, gqa_cases, norm_cases, pointwise_cases, rotary_cases, matmul_cases, linear_attention_cases, expert_cases, causal_convolution_cases, lstm_cases):
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
                os.makedirs(data)
                with open(os.path.join(folder, "model.onnx"), "wb") as f:
                    f.write(model.SerializeToString())
                for kind, values in (("input", list(inputs.values())), ("output", results)):
                    for k, value in enumerate(values):
                        with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as f:
                            f.write(numpy_helper.from_array(value).SerializeToString())
                lines.append(f"{folder} {args.rtol} 1e-5 scale")
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
