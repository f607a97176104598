#!/usr/bin/env python3
"""Graphs that mobius builds without an export, optimized with default options: none refused, wrong, or slower, nothing lost that they bring.

    python -m venv mobius && mobius/bin/pip install mobius-onnx transformers onnx onnxruntime
    mobius/bin/python bench/fresh/mobius_graphs.py FOLDER [ARCHITECTURE ...] --binary build/release/tools/saturate [--providers default,cpu,onnx-standard]

Small models of random weights; without names all architectures that can be built from the settings below in --seconds. Each graph is optimized,
run beside the original in ONNX Runtime on one thread (in turns, medians), and its operators of com.microsoft and those of KINDS are counted.
FOLDER keeps the graphs; one that is there is not built again. Status 1: a graph that ONNX Runtime runs
is refused, differs, loses an operator and gains nothing by it, or takes more than --slower.
"""
import argparse
import collections
import json
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np

SIZES = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
             max_position_embeddings=256)
EXPERTS = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)
LINEAR = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
              layer_types=["linear_attention", "full_attention"])
ENCODER = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
WHOLE = {**SIZES, "num_key_value_heads": 4}
GPT = dict(vocab_size=97, n_embd=64, n_layer=2, n_head=4, n_positions=128)
SETTINGS = {
    "gpt2": GPT, "gptj": {**GPT, "rotary_dim": 16}, "gpt_bigcode": GPT, "codegen": {**GPT, "rotary_dim": 16}, "gpt_neo": dict(
        vocab_size=97, hidden_size=64, num_heads=4, num_layers=2, attention_types=[[["global", "local"], 1]], max_position_embeddings=128),
    "bloom": dict(vocab_size=97, hidden_size=64, n_head=4, n_layer=2), "mpt": dict(vocab_size=97, d_model=64, n_heads=4, n_layers=2),
    "gpt_neox": WHOLE, "gpt_neox_japanese": WHOLE, "persimmon": WHOLE,
    "phi3": {k: v for k, v in WHOLE.items() if k != "head_dim"}, "phi": WHOLE, "opt": {**WHOLE, "ffn_dim": 96, "word_embed_proj_dim": 64},
    "qwen3_5_text": {**SIZES, **LINEAR, "head_dim": 64}, "glm4_moe": {**SIZES, **EXPERTS, "head_dim": 64},
    "qwen3_next": {**SIZES, **LINEAR, **EXPERTS, "head_dim": 64, "shared_expert_intermediate_size": 32},
    "mamba2": dict(vocab_size=97, hidden_size=64, num_heads=8, head_dim=16, state_size=16, num_hidden_layers=2, n_groups=1, chunk_size=16),
    "mamba": dict(vocab_size=97, hidden_size=64, state_size=8, num_hidden_layers=2),
    "t5": dict(vocab_size=97, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4),
    "bart": dict(vocab_size=97, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                 encoder_ffn_dim=96, decoder_ffn_dim=96, max_position_embeddings=128),
    "whisper": dict(vocab_size=97, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                    encoder_ffn_dim=96, decoder_ffn_dim=96, num_mel_bins=16, max_source_positions=50, max_target_positions=64,
                    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
}
SETTINGS.update({name: {**ENCODER, "type_vocab_size": 2} for name in ("bert", "deberta", "deberta-v2", "flaubert", "roberta", "distilbert", "albert", "electra", "camembert", "xlm-roberta", "mpnet", "nomic_bert")})
# Operators of one kind stand for one another; of all others of com.microsoft each is its own kind.
KINDS = {
    "norm": ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
             "EmbedLayerNormalization"),
    "attention": ("Attention", "MultiHeadAttention", "GroupQueryAttention"), "rotary": ("RotaryEmbedding",),
    "activation": ("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "Swish", "SwiGLU"), "product": ("FusedMatMul", "FusedGemm", "MatMul", "Gemm"),
    "loop": ("Scan", "Loop", "If"),
}


LENGTHS = (8, 1, 100, 400)  # of a sequence; some graphs take one token alone, others what a picture or a sound has


class Late(Exception):
    pass


def settings_of(name):
    if name in SETTINGS:
        return SETTINGS[name]
    return {**SIZES, **(EXPERTS if "moe" in name or name in ("mixtral", "gpt_oss", "dbrx", "jamba") else {})}


def registered(name):
    import mobius._registry as known

    return known.registry.get_registration(name)


def build(name, provider, folder):
    """The paths of the parts of a model."""
    import mobius
    import mobius._registry as known
    import onnx_ir as ir
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    there = sorted(folder.glob(f"{name}.{provider}.*.in.onnx"))
    if there:
        return there
    entry = registered(name)
    kind = known.registry.get_config_class(name) or getattr(entry.module_class, "config_class", None) or mobius.ArchitectureConfig
    config = kind.from_transformers(CONFIG_MAPPING[name](**settings_of(name)))
    task = entry.task or getattr(entry.module_class, "default_task", None) or "text-generation"
    package = mobius.build_from_module(entry.module_class(config), config, task, execution_provider=provider)
    rng, paths = np.random.default_rng(0), []
    for part, model in package.items():
        for key, value in model.graph.initializers.items():
            if value.const_value is None:
                shape, dtype = tuple(int(d) for d in value.shape), value.dtype.numpy()
                drawn = rng.standard_normal(shape) * 0.1 if np.issubdtype(dtype, np.floating) else np.zeros(shape)
                value.const_value = ir.tensor((np.ones(shape) if "norm" in key else drawn).astype(dtype), name=key)
        size = sum(int(np.prod(v.shape.numpy())) for v in model.graph.initializers.values() if v.shape is not None)
        if size > 20_000_000:
            raise ValueError(f"{part}: {size / 1e6:.0f} million weights")
        paths.append(folder / f"{name}.{provider}.{part}.in.onnx")
        ir.save(model, paths[-1])
    return paths


def operators(path):
    import onnx

    return collections.Counter((node.domain + "." if node.domain else "") + node.op_type for node in onnx.load(path).graph.node)


def kinds(counts):
    """How many of each kind, of what is to be kept."""
    known = {op: kind for kind, ops in KINDS.items() for op in ops}
    out = collections.Counter()
    for op, n in counts.items():
        kind = known.get(op.split(".")[-1]) or (op if op.startswith("com.microsoft.") else "")
        out[kind] += n if kind != "product" or op.startswith("com.microsoft.") else 0
    return {kind: n for kind, n in out.items() if kind}


def size_of(dim, length):
    if isinstance(dim, int):
        return dim
    dim = dim or ""
    return 1 if "batch" in dim else 4 + length if "total" in dim or "+" in dim else 4 if "past" in dim else length


def feeds(session, length):
    rng, given = np.random.default_rng(0), {}
    for one in session.get_inputs():
        shape = [size_of(dim, length) for dim in one.shape]
        if "bool" in one.type:
            given[one.name] = np.ones(shape, bool)
        elif "int" in one.type:
            value = np.ones(shape) if "mask" in one.name else rng.integers(0, 97, shape)
            if "position" in one.name:
                value = np.broadcast_to(np.arange(4, 4 + shape[-1]), shape)
            given[one.name] = (np.zeros(shape) if "type" in one.name else value).astype(np.int32 if "32" in one.type else np.int64)
        else:
            given[one.name] = (rng.standard_normal(shape) * 0.1).astype(np.float16 if "16" in one.type else np.float32)
    return given


def opened(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def taken(session):
    """Inputs that it takes, and what it makes of them."""
    for length in LENGTHS:
        given = feeds(session, length)
        try:
            return given, session.run(None, given)
        except Exception:  # noqa: BLE001 (which lengths it takes is not known)
            if length == LENGTHS[-1]:
                raise


def beside(first, second, turns):
    """How far outputs lie apart, as a share of the largest, and the ratio of times with its quarter and three quarters."""
    sessions = [opened(path) for path in (first, second)]
    given, one = taken(sessions[0])
    other = sessions[1].run(None, given)
    apart = max((float(np.abs(a.astype(float) - b).max() / (np.abs(a).max() + 1e-30)) for a, b in zip(one, other) if a.size), default=0.0)
    start, ratios = time.process_time(), []
    sessions[0].run(None, given)
    runs = max(3, min(200, int(0.01 / max(time.process_time() - start, 1e-5))))
    for _ in range(turns):
        took = {}
        for i in random.sample((0, 1), 2):
            start = time.process_time()
            for _ in range(runs):
                sessions[i].run(None, given)
            took[i] = time.process_time() - start
        ratios.append(took[1] / max(took[0], 1e-9))
    return apart, statistics.quantiles(ratios, n=4) if turns > 1 else [1, 1, 1]


def measured(path, args):
    out = path.with_name(path.name.replace(".in.onnx", ".out.onnx"))
    done = subprocess.run([*args.binary.split(), str(path), "-o", str(out), "--force"], capture_output=True, text=True, timeout=300)
    row = {"graph": path.name[: -len(".in.onnx")], "status": done.returncode, "says": (done.stdout + done.stderr).strip().splitlines()[:2]}
    if done.returncode:
        try:
            taken(opened(path))
        except Exception as error:  # noqa: BLE001 (some graphs nothing runs: tables without rows, heads that do not fit)
            row["unrun"] = str(error)[-200:]
        return row
    before, after = operators(path), operators(out)
    row.update(nodes=[sum(before.values()), sum(after.values())],
               lost={kind: [n, kinds(after).get(kind, 0)] for kind, n in kinds(before).items() if kinds(after).get(kind, 0) < n})
    try:
        row["apart"], row["time"] = beside(path, out, args.turns)
    except Exception as error:  # noqa: BLE001 (what the original needs is not known)
        row["unrun"] = str(error)[-200:]
    return row


def names_of(args):
    import mobius._registry as known

    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return args.names or sorted(name for name in known.registry.architectures() if name in CONFIG_MAPPING)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="ARCHITECTURE")
    parser.add_argument("--binary", default="saturate")
    parser.add_argument("--providers", default="default,cpu,onnx-standard")
    parser.add_argument("--seconds", type=int, default=20, help="an architecture may take to build (20)")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--slower", type=float, default=1.1, help="the ratio of times that counts as slower, also its quarter (1.1)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(Late("it takes too long to build")))
    bad = 0
    for name in names_of(args):
        for provider in args.providers.split(","):
            try:
                signal.alarm(args.seconds)
                paths = build(name, provider, args.folder)
            except Exception as error:  # noqa: BLE001 (builders raise anything)
                print(json.dumps({"graph": f"{name}.{provider}", "unbuilt": f"{type(error).__name__}: {str(error)[:120]}"}), flush=True)
                break
            finally:
                signal.alarm(0)
            for path in paths:
                row = measured(path, args)
                low, middle, _ = row.get("time", (0, 1, 1))
                row["bad"] = bool((row["status"] and "unrun" not in row) or (row.get("lost") and middle >= 1) or row.get("apart", 0) > 1e-3 or low > args.slower)
                bad += row["bad"]
                print(json.dumps(row), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
