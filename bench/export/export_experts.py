#!/usr/bin/env python3
"""Exports mixtures of experts to ONNX, each block alone and small models of two layers: what com.microsoft's MoE is made of.

    python bench/export/export_experts.py FOLDER [NAME ...] [--exporters dynamo-18-batched_mm,torchscript-17-loop] [--whole] [--wide] [--list]

The last part of an exporter says how the experts are written: `batched_mm`, transformers' own, gathers the weights of each token's experts;
`loop` goes over all experts, and adds what its tokens give, as models did that bring their own code; `dense` lets every expert see every token,
and masks by one-hot rows. With --whole the model of two layers is exported, and with --wide the block has sizes at which it is worth timing.
Weights are random. Needs torch, transformers, onnx and onnxscript. What an exporter can't export is told and left out.
"""
import sys

import torch
from export_decoders import VOCABULARY, Logits, command, ids

EXPORTERS = "dynamo-18-batched_mm,dynamo-18-dense,torchscript-17-batched_mm,torchscript-17-loop,torchscript-17-dense"
SIZES = dict(hidden_size=32, intermediate_size=48, moe_intermediate_size=24, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
             head_dim=8, vocab_size=VOCABULARY, pad_token_id=0, bos_token_id=1, eos_token_id=2, max_position_embeddings=128)
WIDE = dict(hidden_size=512, intermediate_size=256, moe_intermediate_size=256)
MIXTRAL = dict(num_local_experts=4, num_experts_per_tok=2)
QWEN = dict(num_experts=6, num_experts_per_tok=3)
GROUPS = dict(n_routed_experts=8, num_local_experts=8, num_experts_per_tok=3, n_group=2, topk_group=1, n_shared_experts=1, first_k_dense_replace=0)
MODELS = {
    "mixtral": ("MixtralForCausalLM", MIXTRAL),
    "qwen2_moe": ("Qwen2MoeForCausalLM", dict(**QWEN, shared_expert_intermediate_size=40)),
    "qwen3_moe": ("Qwen3MoeForCausalLM", dict(**QWEN, norm_topk_prob=True)),
    "qwen3_moe_plain": ("Qwen3MoeForCausalLM", dict(**QWEN, norm_topk_prob=False)),
    "olmoe": ("OlmoeForCausalLM", QWEN),
    "granitemoe": ("GraniteMoeForCausalLM", MIXTRAL),
    "phimoe": ("PhimoeForCausalLM", MIXTRAL),
    "gpt_oss": ("GptOssForCausalLM", MIXTRAL),
    "deepseek_v3": ("DeepseekV3ForCausalLM", dict(**GROUPS, kv_lora_rank=16, q_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, head_dim=8, num_key_value_heads=4)),
    "glm4_moe": ("Glm4MoeForCausalLM", GROUPS),
    "dots1": ("Dots1ForCausalLM", GROUPS),
    "minimax_m2": ("MiniMaxM2ForCausalLM", MIXTRAL),
    "lfm2_moe": ("Lfm2MoeForCausalLM", dict(**QWEN, num_dense_layers=0, layer_types=["full_attention"] * 2)),
    "ernie4_5_moe": ("Ernie4_5_MoeForCausalLM", dict(moe_num_experts=6, moe_k=3, moe_num_shared_experts=1, moe_layer_start_index=0)),
}


def projections(experts, expert):
    """What an expert makes of its tokens, of the stacked weights of all."""
    up, down = experts.gate_up_proj[expert], experts.down_proj[expert]
    transposed, biased = experts.is_transposed, experts.has_bias

    def make(x):
        wide = x @ (up if transposed else up.T)
        wide = wide + experts.gate_up_proj_bias[expert] if biased else wide
        narrow = experts._apply_gate(wide) @ (down if transposed else down.T)
        return narrow + experts.down_proj_bias[expert] if biased else narrow

    return make


def loop(experts, x, indices, weights):
    mask = torch.nn.functional.one_hot(indices, num_classes=experts.num_experts).permute(2, 1, 0)
    out = torch.zeros_like(x)
    for expert in range(experts.num_experts):
        slot, token = torch.where(mask[expert])
        out.index_add_(0, token, projections(experts, expert)(x[token]) * weights[token, slot, None])
    return out


def dense(experts, x, indices, weights):
    mask = torch.nn.functional.one_hot(indices, num_classes=experts.num_experts).to(weights.dtype)
    each = (mask * weights.unsqueeze(-1)).sum(1)
    return sum(projections(experts, expert)(x) * each[:, expert, None] for expert in range(experts.num_experts))


class Block(torch.nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        y = self.block(x)
        return y[0] if isinstance(y, tuple) else y


def build(name, wide):
    import transformers
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register("loop", loop)
    ALL_EXPERTS_FUNCTIONS.register("dense", dense)
    cls, settings = MODELS[name]
    torch.manual_seed(sum(name.encode()))
    cls = getattr(transformers, cls)
    more = wide and {k: 4 * v for k, v in settings.items() if "num" in k and "expert" in k and "per_tok" not in k and "shared" not in k} or {}
    model = cls(cls.config_class(**{**SIZES, **(WIDE if wide else {}), **settings, **more})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape)
            parameter.copy_(noise / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else parameter + 0.05 * noise)
    return model


def block_of(model):
    for module in model.modules():
        if any(hasattr(child, "gate_up_proj") and child.gate_up_proj.__class__ is torch.nn.Parameter for child in module.children()):
            return Block(module)
    raise ValueError("no experts")


def export(name, exporter, path, args):
    kind, opset, experts = exporter.split("-")
    model = build(name, args.wide)
    for module in model.modules():
        if hasattr(module, "config"):
            module.config._experts_implementation, module.config._attn_implementation = experts, "eager" if name == "gpt_oss" else "sdpa"
    if args.whole:
        example = ids(2, 12, 7)
        module, inputs, named = Logits(model), (example, torch.ones_like(example)), dict(input_names=["input_ids", "attention_mask"], output_names=["logits"])
    else:
        module, inputs, named = block_of(model), (torch.randn(2, 5, model.config.hidden_size),), dict(input_names=["x"], output_names=["y"])
    with torch.no_grad():
        if kind == "dynamo":
            batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence", max=127)
            torch.onnx.export(module, inputs, str(path), dynamo=True, external_data=False, verbose=False, opset_version=int(opset),
                              dynamic_shapes=tuple({0: batch, 1: sequence} for _ in inputs), **named)
        else:
            axes = {i: {0: "batch", 1: "sequence"} for i in named["input_names"] + named["output_names"]}
            torch.onnx.export(module, inputs, str(path), dynamo=False, opset_version=int(opset), dynamic_axes=axes, **named)


def main():
    def more(parser):
        parser.set_defaults(exporters=EXPORTERS)
        parser.add_argument("--whole", action="store_true", help="the model of two layers instead of the block alone")
        parser.add_argument("--wide", action="store_true", help="sizes at which times tell something")

    return command(__doc__, MODELS, export, more)


if __name__ == "__main__":
    sys.exit(main())
