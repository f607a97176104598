#!/usr/bin/env python3
"""Exports real-size architectures with random weights to ONNX: what latency is measured on (bench/speed/latency.py).

    python bench/export/export_models.py FOLDER [--small] [NAME ...]     names as in --list; all where none is given

--small takes two layers of little width instead, for fast trials.

Needs torch, torchvision, transformers, onnx and onnxscript. For every model NAME.EXPORTER.onnx is written, with EXPORTER torchscript (attention spelled out)
or dynamo (scaled_dot_product_attention), batch and lengths open, weights inside the file where they are below 2 GB, and NAME.inputs.npz.
What an exporter can't export is told and left out.
"""
import argparse
import pathlib
import sys
import time
import warnings

import numpy as np
import torch

OPSETS = {"torchscript": 14, "dynamo": 18}
ATTENTION = {"torchscript": "eager", "dynamo": "sdpa"}


class Named(torch.nn.Module):
    """Positional arguments in the order of `names`, keyword arguments inside; the named fields of the result as a tuple."""

    def __init__(self, model, names, fields, **fixed):
        super().__init__()
        self.model, self.names, self.fields, self.fixed = model, names, fields, fixed

    def forward(self, *arguments):
        out = self.model(**dict(zip(self.names, arguments)), **self.fixed)
        return tuple(out[f] for f in self.fields) if self.fields else out


class WithPast(torch.nn.Module):
    """A decoder with a key-value cache as flat tensors: (ids, mask, position, k0, v0, k1, v1, ...) -> (logits, k0', v0', ...)."""

    def __init__(self, model, layers):
        super().__init__()
        self.model, self.layers = model, layers

    def forward(self, ids, mask, position, *past):
        cache = filled_cache(past)
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=position, past_key_values=cache, use_cache=True)
        return (out.logits if hasattr(out, "logits") else out.last_hidden_state, *flat(out.past_key_values))


class CrossWithPast(torch.nn.Module):
    """A decoder that attends to an encoder's states, whose keys and values it is given: (ids, states, k0, v0, ..., ck0, cv0, ...) -> (hidden, k0', v0', ...)."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, states, *past):
        from transformers.cache_utils import EncoderDecoderCache

        own, cross = past[: len(past) // 2], past[len(past) // 2 :]
        cache = EncoderDecoderCache(filled_cache(own), filled_cache(cross))
        cache.is_updated = dict.fromkeys(range(len(own) // 2), True)
        out = self.model(input_ids=ids, encoder_hidden_states=states, past_key_values=cache, use_cache=True)
        return (out.last_hidden_state, *flat(cache.self_attention_cache))


def filled_cache(past):
    from transformers.cache_utils import DynamicCache

    cache = DynamicCache()
    for i in range(len(past) // 2):
        cache.update(past[2 * i], past[2 * i + 1], i)
    return cache


def flat(cache):
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def ids(batch, length, vocabulary):
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(1))


def ones(batch, length):
    return torch.ones(batch, length, dtype=torch.int64)


def transformer(name, **config):
    import transformers

    cls = getattr(transformers, name)
    settings = cls.config_class(**config)
    return cls(settings)


def bert(vocabulary=30522, length=128, **config):
    model = transformer("BertModel", vocab_size=vocabulary, **config)
    return Named(model, ["input_ids", "attention_mask", "token_type_ids"], ["last_hidden_state", "pooler_output"]), {
        "input_ids": ids(1, length, min(vocabulary, 30000)), "attention_mask": ones(1, length), "token_type_ids": torch.zeros(1, length, dtype=torch.int64)}


def bart(layers=(6, 6)):
    return transformer("BartModel", d_model=768, encoder_layers=layers[0], decoder_layers=layers[1], encoder_attention_heads=12,
                       decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072)


def bart_encoder():
    return Named(bart((6, 1)).get_encoder(), ["input_ids", "attention_mask"], ["last_hidden_state"]), {
        "input_ids": ids(1, 128, 50000), "attention_mask": ones(1, 128)}


def bart_decoder():
    return Named(bart((1, 6)).get_decoder(), ["input_ids", "encoder_hidden_states"], ["last_hidden_state"], use_cache=False), {
        "input_ids": ids(1, 128, 50000), "encoder_hidden_states": normal(1, 128, 768)}


def bart_decoder_past():
    inputs = {"input_ids": ids(1, 1, 50000), "encoder_hidden_states": normal(1, 128, 768)}
    for part, length in (("past", 127), ("cross", 128)):
        inputs.update(cache_inputs(6, 12, 64, length, part))
    return CrossWithPast(bart((1, 6)).get_decoder()), inputs


def normal(*shape, seed=2):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def cache_inputs(layers, heads, head_size, length, prefix="past"):
    return {f"{prefix}_{kind}_{i}": normal(1, heads, length, head_size, seed=100 * i + len(kind))
            for i in range(layers) for kind in ("key", "value")}


def decoder(model, layers, heads, head_size, length, past, vocabulary):
    inputs = {"input_ids": ids(1, length, vocabulary), "attention_mask": ones(1, past + length),
              "position_ids": torch.arange(past, past + length)[None], **cache_inputs(layers, heads, head_size, past)}
    return WithPast(model, layers), inputs


def prefill(model, field="last_hidden_state", vocabulary=32000):
    return Named(model, ["input_ids", "attention_mask"], [field], use_cache=False), {
        "input_ids": ids(1, 128, vocabulary), "attention_mask": ones(1, 128)}


def gpt2_decode():
    """Without the product by the embedding table, which is most of a step and nothing can be done about; so are the other decoders but *_past and llama_*."""
    return decoder(transformer("GPT2Model"), 12, 12, 64, 1, 127, 50000)


def gpt2_small():
    return transformer("GPT2Model", n_embd=128, n_layer=2, n_head=4, vocab_size=1000, bos_token_id=0, eos_token_id=0)


def gpt2_past():
    return decoder(transformer("GPT2LMHeadModel"), 12, 12, 64, 1, 127, 50000)


TINY = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512)
SMALL = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=2048, vocab_size=32000, max_position_embeddings=2048)


def llama_gqa():
    return transformer("LlamaModel", num_key_value_heads=4, **SMALL)


def qwen3():
    return transformer("Qwen3Model", num_key_value_heads=4, head_dim=64, **SMALL)


def llama():
    return transformer("LlamaForCausalLM", num_key_value_heads=12, **SMALL)


def llama_small():
    return transformer("LlamaForCausalLM", num_key_value_heads=2, **{**TINY, "vocab_size": 1000}, max_position_embeddings=512)


def vit(size=224, **config):
    model = transformer("ViTModel", image_size=size, **config)
    return Named(model, ["pixel_values"], ["last_hidden_state"]), {"pixel_values": torch.randn(1, 3, size, size)}


def whisper_encoder(width=512, layers=6, heads=8, states=1500):
    model = transformer("WhisperModel", d_model=width, encoder_layers=layers, encoder_attention_heads=heads, encoder_ffn_dim=4 * width, decoder_layers=1,
                        decoder_attention_heads=heads, decoder_ffn_dim=4 * width, max_source_positions=states).get_encoder()
    return Named(model, ["input_features"], ["last_hidden_state"]), {"input_features": torch.randn(1, 80, 2 * states)}


def t5_encoder(length=128, vocabulary=32000, **config):
    model = transformer("T5EncoderModel", **({"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12} | config))
    return Named(model, ["input_ids", "attention_mask"], ["last_hidden_state"]), {"input_ids": ids(1, length, vocabulary), "attention_mask": ones(1, length)}


def vision(name, size=224):
    import torchvision

    model = getattr(torchvision.models, name)(weights=None)
    for module in model.modules():  # statistics as of a trained network, so that values neither vanish nor explode
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model, {"x": torch.randn(1, 3, size, size)}


MODELS = {
    "bert_base": bert,
    "bart_encoder": bart_encoder,
    "bart_decoder": bart_decoder,
    "bart_decoder_past": bart_decoder_past,
    "gpt2_past": gpt2_past,
    "gpt2_prefill": lambda: prefill(transformer("GPT2Model")),
    "gpt2_decode": gpt2_decode,
    "llama_gqa_prefill": lambda: prefill(llama_gqa()),
    "llama_gqa_decode": lambda: decoder(llama_gqa(), 12, 4, 64, 1, 127, 32000),
    "llama_prefill": lambda: prefill(llama(), "logits"),
    "llama_decode": lambda: decoder(llama(), 12, 12, 64, 1, 127, 32000),
    "qwen3_prefill": lambda: prefill(qwen3()),
    "qwen3_decode": lambda: decoder(qwen3(), 12, 4, 64, 1, 127, 32000),
    "vit_b16": vit,
    "whisper_encoder": whisper_encoder,
    "swin_t": lambda: vision("swin_t"),
    "resnet50": lambda: vision("resnet50"),
    "mobilenet_v2": lambda: vision("mobilenet_v2"),
    "efficientnet_b0": lambda: vision("efficientnet_b0"),
    "t5_encoder": t5_encoder,
}
SMALL_MODELS = {
    "bert_small": lambda: bert(1000, **TINY),
    "vit_small": lambda: vit(64, **TINY),
    "whisper_encoder_small": lambda: whisper_encoder(128, 2, 4, 100),
    "gpt2_prefill_small": lambda: prefill(gpt2_small(), vocabulary=1000),
    "gpt2_decode_small": lambda: decoder(gpt2_small(), 2, 4, 32, 1, 127, 1000),
    "llama_prefill_small": lambda: prefill(llama_small(), "logits", 1000),
    "llama_decode_small": lambda: decoder(llama_small(), 2, 2, 32, 1, 127, 1000),
    "resnet18_small": lambda: vision("resnet18", 64),
    "mobilenet_v2_small": lambda: vision("mobilenet_v2", 64),
    "efficientnet_b0_small": lambda: vision("efficientnet_b0", 64),
}


# Sizes that the grid of bench/runtime/ort_grid.py has not: what tables of prices are judged by (bench/runtime/held_out.py).
HELD_OUT_MODELS = {
    "bert_held": lambda: bert(1000, 40, hidden_size=320, num_hidden_layers=4, num_attention_heads=5, intermediate_size=1280),
    "llama_held": lambda: decoder(transformer("LlamaModel", hidden_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
                                              intermediate_size=1376, vocab_size=1000), 4, 4, 64, 1, 200, 1000),
    "gpt2_held": lambda: decoder(transformer("GPT2Model", n_embd=448, n_layer=4, n_head=7, vocab_size=1000, bos_token_id=0, eos_token_id=0), 4, 7, 64, 1, 90, 1000),
    "vit_held": lambda: vit(96, hidden_size=192, num_hidden_layers=4, num_attention_heads=3, intermediate_size=768),
    "efficientnet_held": lambda: vision("efficientnet_b0", 112),
    "qwen3_held": lambda: decoder(transformer("Qwen3Model", hidden_size=576, num_hidden_layers=4, num_attention_heads=9, num_key_value_heads=3, head_dim=64,
                                              intermediate_size=1536, vocab_size=1000), 4, 3, 64, 1, 150, 1000),
    "t5_held": lambda: t5_encoder(72, 1000, d_model=384, d_ff=1536, num_layers=4, num_heads=6, vocab_size=1000),
}


def open_axes(name, rank, cached):
    """Names of the dims that are left open: any batch, and any length of what is no picture."""
    if name.startswith(("past_", "cross_")):
        return {0: "batch", 2: "past" if name.startswith("past_") else "encoder"}
    lengths = {"attention_mask": "total" if cached else "seq", "encoder_hidden_states": "encoder"}
    return {0: "batch", 1: lengths.get(name, "seq")} if rank < 4 and name != "input_features" else {0: "batch"}


def twice(tensor):
    """An example of batch 2: torch.export takes a dim of 1 for a constant."""
    return torch.cat([tensor, tensor])


def export(model, inputs, exporter, path):
    cached = isinstance(model, (WithPast, CrossWithPast))
    axes = {name: open_axes(name, tensor.dim(), cached) for name, tensor in inputs.items()}
    options = dict(input_names=list(inputs), opset_version=OPSETS[exporter])
    for module in model.modules():
        if hasattr(module, "config"):
            module.config._attn_implementation = ATTENTION[exporter]
    with torch.no_grad():
        if exporter == "dynamo":
            examples = [twice(tensor) for tensor in inputs.values()]
            dims = [{a: torch.export.Dim.AUTO for a in axes[name] if t.shape[a] > 1} for name, t in zip(inputs, examples)]
            first = next((i for i, name in enumerate(inputs) if name.startswith("past_")), 0)
            if cached or isinstance(model, Named):  # what `*arguments` of forward takes is one entry
                dims = [*dims[:first], tuple(dims[first:])]
            torch.onnx.export(model, tuple(examples), str(path), dynamo=True, external_data=False, verbose=False, dynamic_shapes=tuple(dims), **options)
        else:
            torch.onnx.export(model, tuple(inputs.values()), str(path), dynamo=False, dynamic_axes=axes, **options)


def trained(model):
    """Biases and scales as of a trained network: fresh ones are zeros and ones, which any optimizer drops."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.05 * torch.randn(parameter.shape, generator=generator)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of --list; default: all")
    parser.add_argument("--exporters", default="torchscript,dynamo")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--held-out", action="store_true", help="architectures that tables of prices are judged by, at moderate sizes")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    models = HELD_OUT_MODELS if args.held_out else SMALL_MODELS if args.small else MODELS
    if args.list:
        print("\n".join(models))
        return 0
    unknown = set(args.names) - set(models)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    args.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    failures = 0
    for name in args.names or models:
        torch.manual_seed(0)
        model, inputs = models[name]()
        trained(model.eval())
        np.savez(args.folder / f"{name}.inputs.npz", **{k: v.numpy() for k, v in inputs.items()})
        for exporter in args.exporters.split(","):
            start = time.time()
            path = args.folder / f"{name}.{exporter}.onnx"
            try:
                export(model, inputs, exporter, path)
                print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, {time.time() - start:.0f} s", flush=True)
            except Exception as error:  # noqa: BLE001 (exporters raise anything)
                failures += 1
                path.unlink(missing_ok=True)
                print(f"{path.name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
