#!/usr/bin/env python3
"""Exports small decoder-only language models without a cache to ONNX: what the pass `kv_cache` is measured on (bench/quality/kv_cache.py).

    python bench/export/export_decoders.py FOLDER [NAME ...] [--exporters dynamo-18-sdpa,torchscript-14-eager] [--past] [--list]

With --past they have past_key_values and present, as optimum exports them: what bench/quality/change_cache.py changes.

The weights are random. Those of attention are drawn so large that the past matters: permuting it moves the logits by a tenth of their scale
at least, which bench/quality/kv_cache.py proves. Needs torch, transformers, onnx and onnxscript. Beside NAME.EXPORTER.onnx stands NAME.npz with a
prompt and the tokens that transformers' generate makes of it (greedy, with its DynamicCache).
What an exporter can't export is told and left out.
"""
import argparse
import pathlib
import sys
import time
import warnings

import numpy as np
import torch

VOCABULARY = 256
PROMPT, NEW = 8, 16
EXPORTERS = ["torchscript-14-eager", "torchscript-17-sdpa", "dynamo-18-sdpa", "dynamo-18-eager", "dynamo-23-sdpa"]

GROUPED = dict(hidden_size=128, intermediate_size=192, num_attention_heads=8, num_key_value_heads=2, num_hidden_layers=3)
WHOLE = {**GROUPED, "num_key_value_heads": 8}
MODELS = {
    "gpt2": ("GPT2LMHeadModel", dict(n_embd=96, n_head=12, n_layer=3, n_positions=128)),
    "llama": ("LlamaForCausalLM", GROUPED),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "llama3": ("LlamaForCausalLM", dict(**GROUPED, rope_parameters={
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64})),
    "llama_yarn": ("LlamaForCausalLM", dict(**GROUPED, rope_parameters={
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64})),
    "mistral": ("MistralForCausalLM", dict(**GROUPED, sliding_window=8)),
    "opt": ("OPTForCausalLM", dict(hidden_size=96, ffn_dim=192, num_attention_heads=12, num_hidden_layers=3, max_position_embeddings=128,
                                   word_embed_proj_dim=96)),
    "bloom": ("BloomForCausalLM", dict(hidden_size=128, n_head=8, n_layer=3)),
    "qwen3": ("Qwen3ForCausalLM", dict(**GROUPED, head_dim=24)),
    "gemma2": ("Gemma2ForCausalLM", dict(**{**GROUPED, "num_hidden_layers": 4}, head_dim=16, sliding_window=8, query_pre_attn_scalar=16)),
    "gemma3": ("Gemma3ForCausalLM", dict(**{**GROUPED, "num_hidden_layers": 4}, head_dim=16, sliding_window=8, query_pre_attn_scalar=16,
                                         layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"])),
    "phi3": ("Phi3ForCausalLM", dict(**WHOLE, pad_token_id=0)),
    "phi": ("PhiForCausalLM", dict(**WHOLE, partial_rotary_factor=0.5)),
    "gpt_neox": ("GPTNeoXForCausalLM", dict(hidden_size=128, intermediate_size=192, num_attention_heads=8, num_hidden_layers=3)),
    "stablelm": ("StableLmForCausalLM", dict(**WHOLE, partial_rotary_factor=0.25)),
    "falcon": ("FalconForCausalLM", dict(hidden_size=128, num_attention_heads=8, num_hidden_layers=3, multi_query=True,
                                         new_decoder_architecture=False)),
    "falcon_new": ("FalconForCausalLM", dict(hidden_size=128, num_attention_heads=8, num_kv_heads=2, num_hidden_layers=3,
                                             new_decoder_architecture=True)),
    "olmo2": ("Olmo2ForCausalLM", GROUPED),
    "smollm3": ("SmolLM3ForCausalLM", dict(**{**GROUPED, "num_hidden_layers": 4}, pad_token_id=0)),
    "cohere": ("CohereForCausalLM", dict(**GROUPED)),
    "granite": ("GraniteForCausalLM", dict(**GROUPED, attention_multiplier=0.25)),
    "gptj": ("GPTJForCausalLM", dict(n_embd=128, n_head=8, n_layer=3, n_positions=128, rotary_dim=8)),
    "gpt_neo": ("GPTNeoForCausalLM", dict(hidden_size=128, num_heads=8, num_layers=2, attention_types=[[["global", "local"], 1]], window_size=8,
                                          max_position_embeddings=128, intermediate_size=192)),
    "codegen": ("CodeGenForCausalLM", dict(n_embd=128, n_head=8, n_layer=3, n_positions=128, rotary_dim=8)),
    "starcoder2": ("Starcoder2ForCausalLM", dict(**GROUPED, sliding_window=8)),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", dict(n_embd=96, n_head=12, n_layer=3, n_positions=128, multi_query=True)),
    "mpt": ("MptForCausalLM", dict(d_model=128, n_heads=8, n_layers=3, max_seq_len=128)),
    "glm": ("GlmForCausalLM", dict(**GROUPED, head_dim=16, pad_token_id=0)),
    "nemotron": ("NemotronForCausalLM", dict(**GROUPED)),
}


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class Cached(torch.nn.Module):
    """With the past as inputs and the present as outputs, keys and values of each layer in turn."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, *past):
        from transformers.cache_utils import DynamicCache, DynamicLayer

        cache = DynamicCache()
        for keys, values in zip(past[::2], past[1::2]):
            layer = DynamicLayer()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
            cache.layers.append(layer)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return (out.logits, *(part for layer in out.past_key_values.layers for part in (layer.keys, layer.values)))


def build(name):
    import transformers

    cls, settings = MODELS[name]
    torch.manual_seed(sum(name.encode()))
    cls = getattr(transformers, cls)
    config = cls.config_class(**{"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": None, **settings})
    model = cls(config).eval()
    draw(model)
    return model


def draw(model):
    """Weights as of a network that looks at its past: projections keep the scale of what they read, so that scores differ by several."""
    generator = torch.Generator().manual_seed(3)
    scaled = model.config.hidden_size ** 0.5 if model.config.model_type.startswith("gemma") else 1  # by which Gemma multiplies what it looks up
    sharp = 0.8 if model.config.model_type == "gpt_neo" else 1.6  # GPT-Neo does not divide scores by the root of the heads' size, 4
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                parameter += 0.05 * noise
            elif "embed" in name or "wte" in name or "wpe" in name:
                parameter.copy_(noise * 0.5 / scaled)
            else:
                wide = any(part in name for part in ("q_proj", "k_proj", "qkv", "query_key_value", "c_attn", "Wqkv"))
                parameter.copy_(noise * (sharp if wide else 1.0) / parameter.shape[-1] ** 0.5)


def ids(batch, length, seed):
    return torch.randint(2, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def generate(model, prompt, count):
    return model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, min_new_tokens=count, do_sample=False,
                          pad_token_id=0)


def reference(model, path):
    prompt = ids(1, PROMPT, 5)
    with torch.no_grad():
        np.savez(path, prompt=prompt.numpy(), tokens=generate(model, prompt, NEW).numpy())


def export(model, exporter, path):
    kind, opset, attention = exporter.split("-")
    # Also where transformers has no sdpa. BLOOM, MPT and GPT-Neo lose their masks so, or part of them: that is to be refused.
    for module in model.modules():
        if hasattr(module, "config"):
            module.config._attn_implementation = attention
    example = ids(2, 12, 7)
    inputs = (example, torch.ones_like(example))
    names = dict(input_names=["input_ids", "attention_mask"], output_names=["logits"], opset_version=int(opset))
    axes = {0: "batch", 1: "sequence"}
    with torch.no_grad():
        if kind == "dynamo":
            batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence", max=127)
            torch.onnx.export(Logits(model), inputs, str(path), dynamo=True, external_data=False, verbose=False,
                              dynamic_shapes=({0: batch, 1: sequence}, {0: batch, 1: sequence}), **names)
        else:
            torch.onnx.export(Logits(model), inputs, str(path), dynamo=False,
                              dynamic_axes={name: axes for name in ("input_ids", "attention_mask", "logits")}, **names)


def export_with_past(model, exporter, path):
    kind, opset, attention = exporter.split("-")
    model.set_attn_implementation(attention)
    example = ids(2, 5, 7)
    with torch.no_grad():
        past = [part for layer in model(ids(2, 7, 9), use_cache=True).past_key_values.layers for part in (layer.keys, layer.values)]
        slots = [f"{i // 2}.{('key', 'value')[i % 2]}" for i in range(len(past))]
        inputs = (example, torch.ones(2, 12, dtype=torch.int64), *past)
        names = dict(input_names=["input_ids", "attention_mask", *(f"past_key_values.{slot}" for slot in slots)],
                     output_names=["logits", *(f"present.{slot}" for slot in slots)], opset_version=int(opset))
        if kind == "dynamo":
            batch, sequence, before = (torch.export.Dim(name, max=most) for name, most in (("batch", 64), ("sequence", 63), ("past", 63)))
            shapes = ({0: batch, 1: sequence}, {0: batch, 1: torch.export.Dim.AUTO}, tuple({0: batch, 2: before} for _ in past))
            torch.onnx.export(Cached(model), inputs, str(path), dynamo=True, external_data=False, verbose=False, dynamic_shapes=shapes, **names)
        else:
            axes = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "past + sequence"},
                    "logits": {0: "batch", 1: "sequence"}}
            for slot in slots:
                axes[f"past_key_values.{slot}"], axes[f"present.{slot}"] = {0: "batch", 2: "past"}, {0: "batch", 2: "past + sequence"}
            torch.onnx.export(Cached(model), inputs, str(path), dynamo=False, dynamic_axes=axes, **names)


def command(says, models, one, more=lambda parser: None):
    """The command line of an exporter: calls one(name, exporter, path, args) for each; tells what can't be exported."""
    parser = argparse.ArgumentParser(description=says.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of --list; default: all")
    parser.add_argument("--exporters", default=",".join(EXPORTERS))
    more(parser)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(models))
        return 0
    if unknown := set(args.names) - set(models):
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    args.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    failures = 0
    for name in args.names or models:
        for exporter in args.exporters.split(","):
            start, path = time.time(), args.folder / f"{name}.{exporter}.onnx"
            try:
                one(name, exporter, path, args)
                print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, {time.time() - start:.0f} s", flush=True)
            except Exception as error:  # noqa: BLE001 (exporters raise anything)
                failures += 1
                path.unlink(missing_ok=True)
                print(f"{path.name}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}", flush=True)
    return 1 if failures else 0


def main():
    def one(name, exporter, path, args):
        model = build(name)
        if not (args.folder / f"{name}.npz").exists():
            reference(model, args.folder / f"{name}.npz")
        (export_with_past if args.past else export)(model, exporter, path)

    return command(__doc__, MODELS, one,
                   lambda parser: parser.add_argument("--past", action="store_true", help="with past_key_values and present"))


if __name__ == "__main__":
    sys.exit(main())
