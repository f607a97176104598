#!/usr/bin/env python3
"""Exports decoders of small encoder-decoders without a cache to ONNX: what cross attention of the pass `kv_cache` is measured on (bench/quality/kv_cache.py).

    python bench/export/export_cross.py FOLDER [NAME ...] [--exporters dynamo-18-sdpa,torchscript-14-eager] [--list]

They take input_ids, attention_mask, encoder_hidden_states and, but for Whisper, encoder_attention_mask. Weights are drawn as those of
bench/export/export_decoders.py, and so large that what the encoder gives matters. Needs what that needs.
Beside NAME.EXPORTER.onnx stands NAME.npz with a prompt, the states and mask of an encoder, and the tokens that transformers' generate makes of
them (greedy, with its EncoderDecoderCache). What an exporter can't export is told and left out.
"""
import sys

import numpy as np
import torch
from export_decoders import NEW, PROMPT, VOCABULARY, command, draw, ids

STATES = 10  # of the encoder

BART = dict(d_model=96, encoder_layers=1, decoder_layers=3, encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=128,
            decoder_ffn_dim=128, max_position_embeddings=128)
T5 = dict(d_model=96, d_kv=16, d_ff=128, num_layers=3, num_decoder_layers=3, num_heads=6, relative_attention_num_buckets=16,
          relative_attention_max_distance=32)
MODELS = {
    "t5": ("T5ForConditionalGeneration", T5),
    "mt5": ("MT5ForConditionalGeneration", dict(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "umt5": ("UMT5ForConditionalGeneration", T5),
    "bart": ("BartForConditionalGeneration", BART),
    "mbart": ("MBartForConditionalGeneration", BART),
    "marian": ("MarianMTModel", dict(**BART, pad_token_id=0)),
    "pegasus": ("PegasusForConditionalGeneration", BART),
    "m2m_100": ("M2M100ForConditionalGeneration", BART),
    "blenderbot": ("BlenderbotForConditionalGeneration", BART),
    "whisper": ("WhisperForConditionalGeneration", dict(
        d_model=96, encoder_layers=1, decoder_layers=3, encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=128,
        decoder_ffn_dim=128, max_target_positions=128, max_source_positions=STATES, suppress_tokens=None, begin_suppress_tokens=None)),
}


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.takes_mask = takes_mask(model)

    def forward(self, input_ids, attention_mask, encoder_hidden_states, encoder_attention_mask=None):
        mask = {"attention_mask": encoder_attention_mask} if self.takes_mask else {}
        return self.model(decoder_input_ids=input_ids, decoder_attention_mask=attention_mask, encoder_outputs=(encoder_hidden_states,),
                          use_cache=False, **mask).logits


def takes_mask(model):
    """Whisper's encoder has states of one number, none of which is padding."""
    return model.config.model_type != "whisper"


def build(name):
    import transformers

    cls, settings = MODELS[name]
    torch.manual_seed(sum(name.encode()))
    cls = getattr(transformers, cls)
    config = cls.config_class(**{"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0,
                                 "decoder_start_token_id": 1, "forced_eos_token_id": None, **settings})
    model = cls(config).eval()
    draw(model)
    return model


def states(batch, model, seed):
    return torch.randn(batch, STATES, model.config.d_model, generator=torch.Generator().manual_seed(seed))


def generate(model, prompt, count, given, mask=None):
    from transformers import GenerationMixin
    from transformers.modeling_outputs import BaseModelOutput

    # Whisper's own generate deals with segments of audio, and leaves the prompt out.
    return GenerationMixin.generate(model, encoder_outputs=BaseModelOutput(given), decoder_input_ids=prompt, max_new_tokens=count,
                                    min_new_tokens=count, do_sample=False, **({"attention_mask": mask} if takes_mask(model) else {}))


def reference(model, path):
    prompt, given = ids(1, PROMPT, 5), states(1, model, 6)
    prompt[:, 0] = model.generation_config.decoder_start_token_id  # which generate else puts in front
    mask = torch.ones(1, STATES, dtype=torch.int64)
    mask[:, -2:] = 0 if takes_mask(model) else 1
    with torch.no_grad():
        out = generate(model, prompt, NEW, given, mask)
    np.savez(path, prompt=prompt.numpy(), tokens=out.numpy(), encoder_hidden_states=given.numpy(), encoder_attention_mask=mask.numpy())


def export(model, exporter, path):
    kind, opset, attention = exporter.split("-")
    model.set_attn_implementation(attention)
    example = ids(2, 12, 7)
    inputs = (example, torch.ones_like(example), states(2, model, 8))
    names = ["input_ids", "attention_mask", "encoder_hidden_states", "encoder_attention_mask"]
    if takes_mask(model):
        inputs += (torch.ones(2, STATES, dtype=torch.int64),)
    names = names[:len(inputs)]
    settings = dict(input_names=names, output_names=["logits"], opset_version=int(opset))
    with torch.no_grad():
        if kind == "dynamo":
            batch, sequence, given = torch.export.Dim("batch"), torch.export.Dim("sequence", max=127), torch.export.Dim("encoder_sequence")
            shapes = tuple({0: batch, 1: given if name.startswith("encoder") else sequence} for name in names)
            torch.onnx.export(Logits(model), inputs, str(path), dynamo=True, external_data=False, verbose=False, dynamic_shapes=shapes, **settings)
        else:
            axes = {name: {0: "batch", 1: "encoder_sequence" if name.startswith("encoder") else "sequence"} for name in (*names, "logits")}
            torch.onnx.export(Logits(model), inputs, str(path), dynamo=False, dynamic_axes=axes, **settings)


def main():
    def one(name, exporter, path, args):
        model = build(name)
        if not (args.folder / f"{name}.npz").exists():
            reference(model, args.folder / f"{name}.npz")
        export(model, exporter, path)

    return command(__doc__, MODELS, one)


if __name__ == "__main__":
    sys.exit(main())
