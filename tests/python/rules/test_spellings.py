"""Blocks in odd spellings (bench/spelled): each is found, and ONNX Runtime computes the same. The plans are spellings that were missed once."""
import sys

import pytest

from conftest import ROOT, binary

pytest.importorskip("onnxruntime")
sys.path.insert(0, str(ROOT / "bench"))
from fuzz import spellings  # noqa: E402


def turned_by_matrices(way, stack):
    """Rotations of queries and of keys."""
    return {"attention.rotary": "neighbours", **{f"attention.turn.{k}{n}": v for n in ("", "#2") for k, v in {"rotation": "matrices", "matrices": way, "stack": stack}.items()}}


MISSED = {
    "layer_norm": [{"layer.layer_norm": "keras"}, {"layer.layer_norm": "product_of_differences"}, {"layer.mean_of_squares": "einsum"}, {"layer.mean_of_squares": "matmul"},
                   {"layer.square": "abs"}, {"layer.root": "exp_log"}, {"layer.gain": "on_root"}],
    "rms_norm": [{"rms.rms_norm": "l2_scaled"}, {"rms.rms_norm": "l2_scaled", "rms.norm": "sqrt"}, {"rms.gain": "on_root"}],
    "gelu": [{"gelu.erf": "complement"}, {"gelu.gelu": "half_inside", "gelu.number#2": (1, 1)}],
    "gelu_tanh": [{"gelu_tanh.tanh": "quotient"}, {"gelu_tanh.tanh": "exp"}, {"gelu_tanh.tanh": "sinh"}, {"gelu_tanh.gelu_tanh": "sigmoid", "gelu_tanh.sigmoid": "other_side"},
                  {"gelu_tanh.gelu_tanh": "sigmoid", "gelu_tanh.polynomial": "inside"}],
    "silu": [{"silu.silu": "growing"}, {"silu.sigmoid": "growing"}, {"silu.sigmoid": "softplus"}, {"silu.silu": "tanh", "silu.tanh": "sinh"}, {"silu.silu": "tanh", "silu.number#2": (1,)}],
    "attention": [{"attention.rotary": "neighbours"}, {"attention.rotary": "neighbours", "attention.turn.interleave": "gather"}, {"attention.rotary": "halves", "attention.turn.rotated": "where"}, {"attention.scores": "transposed_result"},
                  {"attention.scores": "batch_of_batches"}, {"attention.mask": "multiplied"}, {"attention.scale": "mask_before", "attention.mask": "causal_positions", "attention.low": -1e9},
                  {"attention.scale": "mask_before", "attention.mask": "ints"}, {"attention.mask": "truths_blended"}, {"attention.mask": "least"}, {"attention.mask": "causal_blended"},
                  {"attention.mask": "causal_in_float", "attention.causal_in_float.compare": "greater_or_equal"}, {"attention.mask": "causal_in_float", "attention.causal_in_float.compare": "less_than_next"}, {"attention.groups": 1, "attention.k.repeat": "leave"}, {"attention.groups": 1, "attention.v.repeat": "leave"}, *(turned_by_matrices(*how) for how in (("matmul", "four"), ("matmul", "columns"), ("matmul_row", "four"), ("einsum", "rows")))],
}


def command():
    return f"{binary()} {{in}} -o {{out}} --target ort-cpu@1.31 --cost nodes --no-verify -q"


@pytest.mark.parametrize("kind, plan", [(kind, plan) for kind, plans in MISSED.items() for plan in plans], ids=lambda v: v if isinstance(v, str) else "+".join(map(str, v.values())))
def test_spelling_is_found(kind, plan):
    verdict, detail, author, _ = spellings.judged(kind, command(), plan)
    assert not set(plan) - set(author.choices), "a choice of the plan does not exist"
    assert verdict == "found", detail


@pytest.mark.parametrize("seed", range(22))
def test_drawn_spellings_are_right(seed):
    verdict, detail, _, _ = spellings.judged(spellings.KINDS[seed % len(spellings.KINDS)], command(), seed=seed)
    assert verdict in ("found", "lost"), detail


def test_a_missing_block_is_seen():
    """Without rules nothing is found, and the fewest choices are none."""
    without = command() + " --rules none"
    author = spellings.written("gelu", {"gelu.erf": "odd"})[0]
    assert spellings.judged("gelu", without)[0] == "lost"
    assert spellings.fewest("gelu", without, author, "lost") == {}
