#!/usr/bin/env python3
"""Exports real-size architectures with random weights to ONNX: what latency is measured on (bench/latency.py).

    python bench/export_models.py FOLDER [NAME ...]     names as in --list; all where none is given

Needs torch, torchvision, transformers, onnx and onnxscript. For every model NAME.EXPORTER.onnx is written, with EXPORTER torchscript or dynamo,
weights inside the file where they are below 2 GB, and NAME.inputs.npz. What an exporter can't export is told and left out.
"""
import argparse
import pathlib
import sys
import time
import warnings

import numpy as np
import torch

OPSETS = {"torchscript": 17, "dynamo": 18}


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
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache()
        for i in range(self.layers):
            cache.update(past[2 * i], past[2 * i + 1], i)
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=position, past_key_values=cache, use_cache=True)
        present = []
        for layer in out.past_key_values.layers:
            present += [layer.keys, layer.values]
        return (out.logits if hasattr(out, "logits") else out.last_hidden_state, *present)


def ids(batch, length, vocabulary):
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(1))


def ones(batch, length):
    return torch.ones(batch, length, dtype=torch.int64)


def transformer(name, **config):
    import transformers

    cls = getattr(transformers, name)
    settings = cls.config_class(**config)
    settings._attn_implementation = "eager"
    return cls(settings)


def bert():
    model = transformer("BertModel")
    return Named(model, ["input_ids", "attention_mask", "token_type_ids"], ["last_hidden_state", "pooler_output"]), {
        "input_ids": ids(1, 128, 30000), "attention_mask": ones(1, 128), "token_type_ids": torch.zeros(1, 128, dtype=torch.int64)}


def bart_encoder():
    model = transformer("BartModel", d_model=768, encoder_layers=6, decoder_layers=1, encoder_attention_heads=12, decoder_attention_heads=12,
                        encoder_ffn_dim=3072, decoder_ffn_dim=3072).get_encoder()
    return Named(model, ["input_ids", "attention_mask"], ["last_hidden_state"]), {"input_ids": ids(1, 128, 50000), "attention_mask": ones(1, 128)}


def decoder(model, layers, heads, head_size, length, past, vocabulary):
    generator = torch.Generator().manual_seed(2)
    inputs = {"input_ids": ids(1, length, vocabulary), "attention_mask": ones(1, past + length),
              "position_ids": torch.arange(past, past + length)[None]}
    for i in range(layers):
        for kind in ("key", "value"):
            inputs[f"past_{kind}_{i}"] = torch.randn(1, heads, past, head_size, generator=generator)
    return WithPast(model, layers), inputs


def free(inputs):
    """Names of the dims that are left open: a decoder with a cache serves any batch and any length."""
    axes = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "total"}, "position_ids": {0: "batch", 1: "seq"}}
    return {name: axes.get(name, {0: "batch", 2: "past"}) for name in inputs}


def gpt2_decode():
    """Without the product by the embedding table, which is most of a step and nothing can be done about."""
    model, inputs = decoder(transformer("GPT2Model"), 12, 12, 64, 1, 127, 50000)
    return model, inputs, free(inputs)


def llama_gqa_decode():
    settings = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, intermediate_size=2048, vocab_size=32000, max_position_embeddings=2048)
    model, inputs = decoder(transformer("LlamaModel", **settings), 12, 4, 64, 1, 127, 32000)
    return model, inputs, free(inputs)


def gpt2_past():
    return decoder(transformer("GPT2LMHeadModel"), 12, 12, 64, 1, 127, 50000)


def llama(length, past):
    model = transformer("LlamaForCausalLM", hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=12,
                        intermediate_size=2048, vocab_size=32000, max_position_embeddings=2048)
    if past:
        return decoder(model, 12, 12, 64, length, past, 32000)
    return Named(model, ["input_ids", "attention_mask"], ["logits"], use_cache=False), {
        "input_ids": ids(1, length, 32000), "attention_mask": ones(1, length)}


def vit():
    return Named(transformer("ViTModel"), ["pixel_values"], ["last_hidden_state"]), {"pixel_values": torch.randn(1, 3, 224, 224)}


def whisper_encoder():
    model = transformer("WhisperModel", d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048, decoder_layers=1,
                        decoder_attention_heads=8, decoder_ffn_dim=2048).get_encoder()
    return Named(model, ["input_features"], ["last_hidden_state"]), {"input_features": torch.randn(1, 80, 3000)}


def t5_encoder():
    model = transformer("T5EncoderModel", d_model=768, d_ff=3072, num_layers=12, num_heads=12)
    return Named(model, ["input_ids", "attention_mask"], ["last_hidden_state"]), {"input_ids": ids(1, 128, 32000), "attention_mask": ones(1, 128)}


def vision(name):
    import torchvision

    model = getattr(torchvision.models, name)(weights=None)
    for module in model.modules():  # statistics as of a trained network, so that values neither vanish nor explode
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model, {"x": torch.randn(1, 3, 224, 224)}


MODELS = {
    "bert_base": bert,
    "bart_encoder": bart_encoder,
    "gpt2_past": gpt2_past,
    "gpt2_decode": gpt2_decode,
    "llama_gqa_decode": llama_gqa_decode,
    "llama_prefill": lambda: llama(128, 0),
    "llama_decode": lambda: llama(1, 127),
    "vit_b16": vit,
    "whisper_encoder": whisper_encoder,
    "swin_t": lambda: vision("swin_t"),
    "resnet50": lambda: vision("resnet50"),
    "mobilenet_v2": lambda: vision("mobilenet_v2"),
    "efficientnet_b0": lambda: vision("efficientnet_b0"),
    "t5_encoder": t5_encoder,
}


def export(model, inputs, axes, exporter, path):
    arguments = tuple(inputs.values())
    options = dict(input_names=list(inputs), opset_version=OPSETS[exporter])
    with torch.no_grad():
        if exporter == "dynamo":
            if axes:  # dims of 1 stay fixed: torch.export takes them for constants
                dims = [{a: torch.export.Dim.AUTO for a in axes[n] if t.shape[a] > 1} for n, t in inputs.items()]
                options["dynamic_shapes"] = (*dims[:3], tuple(dims[3:]))
            torch.onnx.export(model, arguments, str(path), dynamo=True, external_data=False, verbose=False, **options)
        else:
            torch.onnx.export(model, arguments, str(path), dynamo=False, dynamic_axes=axes, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of --list; default: all")
    parser.add_argument("--exporters", default="torchscript,dynamo")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(MODELS))
        return 0
    unknown = set(args.names) - set(MODELS)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    args.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    failures = 0
    for name in args.names or MODELS:
        torch.manual_seed(0)
        model, inputs, *axes = MODELS[name]()
        model.eval()
        np.savez(args.folder / f"{name}.inputs.npz", **{k: v.numpy() for k, v in inputs.items()})
        for exporter in args.exporters.split(","):
            start = time.time()
            path = args.folder / f"{name}.{exporter}.onnx"
            try:
                export(model, inputs, axes[0] if axes else None, exporter, path)
                print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, {time.time() - start:.0f} s", flush=True)
            except Exception as error:  # noqa: BLE001 (exporters raise anything)
                failures += 1
                path.unlink(missing_ok=True)
                print(f"{path.name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
