#!/usr/bin/env python3
"""Exports small models whose attention has newer forms to ONNX: what is found of attention, norms and rotary embeddings (bench/fresh/found_attention.py).

    python bench/fresh/export_attention.py FOLDER [NAME ...] [--exporters dynamo-18-eager,dynamo-20-sdpa,dynamo-23-sdpa,torchscript-17-eager] [--list]

Sinks, caps on scores, local windows, relative positions, heads in five dims, fewer queries than keys, rotations of three axes or turned back,
differential attention, normed queries and keys, talking heads. Weights are random, two layers of little width; beside NAME.EXPORTER.onnx stands
NAME.json, which tells how many calls of attention, norms and rotary embeddings the model has by its modules. Needs torch, transformers, timm,
onnx and onnxscript. What an exporter can't export is told and left out.
"""
import json
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
from export_decoders import GROUPED, VOCABULARY, command, ids  # noqa: E402

EXPORTERS = "dynamo-18-eager,dynamo-20-sdpa,dynamo-23-sdpa,torchscript-17-eager"
TEXT = {**GROUPED, "num_hidden_layers": 2, "vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "max_position_embeddings": 128}
HALF_LOCAL = dict(sliding_window=8, layer_types=["sliding_attention", "full_attention"])
ENCODER = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, vocab_size=VOCABULARY)
PICTURE = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=64, patch_size=8)
SHIFTED = dict(image_size=64, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4)
MROPE = dict(rope_type="default", mrope_section=[2, 3, 3], rope_theta=10000.0)

# What is drawn, its settings, what it is given, and what it has: attention, norms, rotations.
MODELS = {
    "gpt_oss": ("GptOssModel", dict(**TEXT, head_dim=16, num_local_experts=2, num_experts_per_tok=1, **HALF_LOCAL), "text", (2, 5, 4)),
    "gemma2": ("Gemma2Model", dict(**TEXT, head_dim=16, query_pre_attn_scalar=16, **HALF_LOCAL), "text", (2, 9, 4)),
    "gemma3": ("Gemma3TextModel", dict(**TEXT, head_dim=16, query_pre_attn_scalar=16, **HALF_LOCAL), "text", (2, 13, 4)),
    "qwen3": ("Qwen3Model", dict(**TEXT, head_dim=24), "text", (2, 9, 4)),
    "olmo3": ("Olmo3Model", dict(**TEXT, **HALF_LOCAL), "text", (2, 9, 4)),
    "mistral": ("MistralModel", dict(**TEXT, sliding_window=8), "text", (2, 5, 4)),
    "cohere2": ("Cohere2Model", dict(**TEXT, **HALF_LOCAL), "text", (2, 3, 2)),
    "nanochat": ("NanoChatModel", TEXT, "text", (2, 10, 4)),
    "diffllama": ("DiffLlamaModel", {**TEXT, "num_key_value_heads": 4}, "text", (2, 7, 4)),
    "qwen2_vl": ("Qwen2VLTextModel", dict(**TEXT, rope_parameters=MROPE), "text_of_axes", (2, 5, 4)),
    "qwen2_vl_vision": ("Qwen2VisionTransformerPretrainedModel",
                        dict(depth=2, embed_dim=64, hidden_size=64, num_heads=4, patch_size=4, temporal_patch_size=2, mlp_ratio=2), "patches", (2, 4, 4)),
    "vitdet": ("VitDetModel", dict(**{k: v for k, v in PICTURE.items() if k != "intermediate_size"}, use_relative_position_embeddings=True,
                                   window_block_indices=[0], window_size=4), "picture", (2, 4, 0)),
    "swin": ("SwinModel", SHIFTED, "picture", (4, 11, 0)),
    "swinv2": ("Swinv2Model", SHIFTED, "picture", (4, 11, 0)),
    "beit": ("BeitModel", dict(**PICTURE, use_relative_position_bias=True), "picture", (2, 4, 0)),
    "data2vec_vision": ("Data2VecVisionModel", dict(**PICTURE, use_shared_relative_position_bias=True), "picture", (2, 4, 0)),
    "hiera": ("HieraModel", dict(image_size=[64, 64], embed_dim=32, depths=[1, 2], num_heads=[1, 2], embed_dim_multiplier=2.0, num_query_pool=1,
                                 masked_unit_size=[4, 4], masked_unit_attention=[True, False]), "picture", (3, 6, 0)),
    "sam_vision": ("SamVisionModel", dict(**{k: v for k, v in PICTURE.items() if k != "intermediate_size"}, window_size=4, global_attn_indexes=[1],
                                          output_channels=32), "picture", (2, 6, 0)),
    "cait": ("timm:cait_xxs24_224", dict(img_size=64, depth=2, embed_dim=64, num_heads=4, depth_token_only=1), "picture", (1, 7, 0)),
    "eva": ("timm:eva02_tiny_patch14_224", dict(img_size=56, depth=2), "picture", (2, 5, 4)),
    "vit_qk_norm": ("timm:vit_tiny_patch16_224", dict(img_size=64, depth=2, qk_norm=True), "picture", (2, 9, 0)),
    "dinov3": ("DINOv3ViTModel", PICTURE, "picture", (2, 5, 4)),
    "t5": ("T5EncoderModel", dict(d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, vocab_size=VOCABULARY), "text", (2, 5, 0)),
    "deberta": ("DebertaV2Model", dict(**ENCODER, relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"]), "text", (2, 5, 0)),
    "modernbert": ("ModernBertModel", dict(**ENCODER, global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                           cls_token_id=1, sep_token_id=2), "text", (2, 5, 4)),
    "roformer": ("RoFormerModel", dict(**ENCODER), "text", (2, 5, 4)),
    "bloom": ("BloomModel", dict(hidden_size=64, n_head=4, n_layer=2, vocab_size=VOCABULARY), "text", (2, 6, 0)),
    "deepseek_v3": ("DeepseekV3Model", dict(**TEXT, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, n_shared_experts=1,
                                            first_k_dense_replace=2, kv_lora_rank=16, q_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8,
                                            v_head_dim=16), "text", (2, 9, 4)),
    "helium": ("HeliumModel", dict(**TEXT, head_dim=16), "text", (2, 5, 4)),
    "glm4": ("Glm4Model", dict(**TEXT, head_dim=16), "text", (2, 9, 4)),
    "exaone4": ("Exaone4Model", dict(**TEXT, **HALF_LOCAL), "text", (2, 9, 2)),
    "apertus": ("ApertusModel", TEXT, "text", (2, 9, 4)),
    "doge": ("DogeModel", TEXT, "text", (2, 9, 4)),
    "xlnet": ("XLNetModel", dict(vocab_size=VOCABULARY, d_model=64, n_layer=2, n_head=4, d_inner=96), "text", (2, 4, 0)),
    "longt5": ("LongT5EncoderModel", dict(d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, vocab_size=VOCABULARY,
                                          encoder_attention_type="transient-global", local_radius=3, global_block_size=4), "text", (2, 7, 0)),
    "mpnet": ("MPNetModel", ENCODER, "text", (2, 5, 0)),
    "esm": ("EsmModel", dict(**ENCODER, position_embedding_type="rotary", pad_token_id=1), "text", (2, 5, 4)),
    "levit": ("timm:levit_128s", {}, "picture", (10, 0, 0)),
    "pvt": ("timm:pvt_v2_b0", dict(img_size=64), "picture", (8, 26, 0)),
    "xcit": ("timm:xcit_nano_12_p16_224", dict(img_size=64, depth=2), "picture", (4, 11, 0)),
    "beitv2": ("timm:beitv2_base_patch16_224", dict(img_size=64, depth=2, embed_dim=64, num_heads=4), "picture", (2, 5, 0)),
    "twins": ("timm:twins_svt_small", dict(img_size=64), "picture", (18, 42, 0)),
    "vits": ("VitsModel", dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=48, vocab_size=VOCABULARY), "encoder_of_vits", (2, 4, 0)),
}


class Given(torch.nn.Module):
    """Tensors in, the first tensor out."""

    def __init__(self, model, names, **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *tensors):
        out = self.model(**dict(zip(self.names, tensors)), **self.fixed) if self.names else self.model(*tensors)
        return out if isinstance(out, torch.Tensor) else out[0]


class Patches(torch.nn.Module):
    """Pictures of one size as Qwen2-VL takes them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, patches):
        out = self.model(patches, grid_thw=torch.tensor([[1, 8, 8]]))
        return out if isinstance(out, torch.Tensor) else out[0]


class Speech(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model.text_encoder

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, padding_mask=attention_mask.unsqueeze(-1).float())[0]


def build(name):
    cls, settings, _, _ = MODELS[name]
    torch.manual_seed(sum(name.encode()))
    if cls.startswith("timm:"):
        import timm

        model = timm.create_model(cls[5:], pretrained=False, num_classes=0, **settings)
    else:
        import transformers
        import transformers.models.qwen2_vl.modeling_qwen2_vl as qwen2_vl

        made = getattr(transformers, cls, None) or getattr(qwen2_vl, cls)
        model = made(made.config_class(**settings))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else parameter + 0.05 * noise)
    return model.eval()


def given(model, kind):
    """The module, its inputs by name, and the dims that stay open."""
    open_text = {0: "batch", 1: "sequence"}
    text = {"input_ids": ids(2, 12, 7), "attention_mask": torch.ones(2, 12, dtype=torch.int64)}
    cached = {"use_cache": False} if hasattr(getattr(model, "config", None), "use_cache") else {}
    if kind == "text":
        return Given(model, list(text), **cached), text, {name: open_text for name in text}
    if kind == "encoder_of_vits":
        return Speech(model), text, {name: open_text for name in text}
    if kind == "text_of_axes":
        places = torch.arange(12).expand(3, 2, 12).contiguous()
        given_ = {**text, "position_ids": places}
        return Given(model, list(given_), **cached), given_, {**{name: open_text for name in text}, "position_ids": {1: "batch", 2: "sequence"}}
    if kind == "patches":
        return Patches(model), {"patches": torch.randn(64, 3 * 2 * 4 * 4)}, {"patches": {}}
    size = getattr(getattr(model, "config", None), "image_size", None) or getattr(model, "img_size", None) or 64
    size = size[0] if isinstance(size, (list, tuple)) else size
    size = getattr(getattr(model, "patch_embed", None), "img_size", (size,))[0]
    name = "x" if not hasattr(model, "config") else "pixel_values"
    return Given(model, [name] if hasattr(model, "config") else []), {name: torch.randn(2, 3, size, size)}, {name: {0: "batch"}}


def export(name, exporter, path, args):
    kind, opset, attention = exporter.split("-")
    model = build(name)
    for module in model.modules():
        if hasattr(module, "config"):
            module.config._attn_implementation, module.config._experts_implementation = attention, "batched_mm"
        if hasattr(module, "fused_attn"):
            module.fused_attn = attention == "sdpa"
    module, inputs, axes = given(model, MODELS[name][2])
    (args.folder / f"{name}.json").write_text(json.dumps(dict(zip(("attention", "norms", "rotary"), MODELS[name][3]))))
    named = dict(input_names=list(inputs), output_names=["y"], opset_version=int(opset))
    with torch.no_grad():
        if kind == "dynamo":
            dims = {"batch": torch.export.Dim("batch"), "sequence": torch.export.Dim("sequence", max=127)}
            shapes = [{axis: dims[symbol] for axis, symbol in axes[n].items()} for n in inputs]
            shapes = (tuple(shapes),) if isinstance(module, Given) else tuple(shapes)
            torch.onnx.export(module, tuple(inputs.values()), str(path), dynamo=True, external_data=False, verbose=False, dynamic_shapes=shapes, **named)
        else:
            torch.onnx.export(module, tuple(inputs.values()), str(path), dynamo=False, dynamic_axes={n: a for n, a in axes.items() if a}, **named)


if __name__ == "__main__":
    sys.exit(command(__doc__, MODELS, export, lambda parser: parser.set_defaults(exporters=EXPORTERS)))
