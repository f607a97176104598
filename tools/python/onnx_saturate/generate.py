"""A language model goes on from a prompt: `python -m onnx_saturate.generate MODEL --prompt TEXT`.

What `saturate generate` does, and text: `--prompt` (needs `tokenizers` and a tokenizer.json) and `--runtime onnxruntime` (needs `onnxruntime`).

>>> import onnx_saturate
>>> onnx_saturate.generate("llama.onnx", [1, 15043], max_new_tokens=16).tokens
"""
from __future__ import annotations

import argparse
import json
import sys
import types
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._errors import Error, OptionError, tell_error
from ._generate import Generated, find_tokenizer, generate, start_token

__all__ = ["Generated", "generate", "main"]


class _Callable(types.ModuleType):
    """This module, where it hides the package's function of its name."""

    def __call__(self, *args: Any, **options: Any) -> Generated:
        return generate(*args, **options)


sys.modules[__name__].__class__ = _Callable


def _ids(option: str, text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    for word in words:
        if not word.removeprefix("-").isdigit():
            raise OptionError(f"{option} {text}: {word!r} is no token's number; write e.g. {option} 1,2,3")
    return [int(word) for word in words]


def _sizes(texts: Sequence[str]) -> dict[str, int]:
    sizes = dict(text.rpartition("=")[::2] for text in texts)
    for name, size in sizes.items():
        if not name or not size.isdigit():
            raise OptionError(f"--dim {name}={size}: not SYMBOL=SIZE; write e.g. --dim batch=4")
    return {name: int(size) for name, size in sizes.items()}


def _arrays(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        with np.load(path) as arrays:
            return dict(arrays)
    except (OSError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise Error(f"{path}: no arrays can be read from it: {error}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onnx_saturate.generate",
        description="Lets a language model go on from a prompt. What an encoder gives it is computed once. The likeliest token is taken unless --temperature, --top-k or --top-p say to draw one.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL")
    add("--prompt", action="append", default=[], metavar="TEXT", help="a prompt as text; may be repeated for a batch")
    add("--tokenizer", metavar="FILE", help="the model's tokenizer.json (the one beside MODEL)")
    add("--prompt-ids", action="append", default=[], metavar="IDS", help="a prompt as tokens: 1,2,3; may be repeated for a batch")
    add("--encoder", action="append", default=[], metavar="MODEL", help="a model that runs once in front: an encoder, or what kv_cache:model=cross wrote; may be repeated, in their order")
    add("--encoder-prompt", action="append", default=[], metavar="TEXT", help="what an encoder reads as text; may be repeated for a batch")
    add("--encoder-ids", action="append", default=[], metavar="IDS", help="what an encoder reads as tokens; may be repeated for a batch")
    add("--inputs", metavar="X.npz", help="arrays that an encoder reads, or gives, by name of the input")
    add("--runtime", choices=("saturate", "onnxruntime"), default="saturate", help="what runs the model (saturate)")
    add("--max-new-tokens", type=int, metavar="N", help="how many to make of each prompt (64, or as many as the model holds)")
    add("--min-new-tokens", type=int, default=0, metavar="N", help="how many there are before one of --eos-id may come (0)")
    add("--eos-id", action="append", default=[], metavar="IDS", help="tokens that end a text; may be repeated")
    add("--max-context", type=int, metavar="N", help="tokens of a prompt and what follows together, where the model does not tell")
    add("--temperature", type=float, metavar="T", help="what logits are divided by (1)")
    add("--top-k", type=int, metavar="N", help="draw among the N likeliest")
    add("--top-p", type=float, metavar="P", help="draw among the likeliest that are together as likely as this")
    add("--seed", type=int, default=0, metavar="N", help="the same seed draws the same tokens (0)")
    add("--threads", type=int, default=1, metavar="T", help="threads; 0: all cores (1)")
    add("--json", action="store_true", help="print JSON instead of text and tables")
    for name in ("--input-ids", "--attention-mask", "--position-ids", "--logits"):
        add(name, metavar="NAME", help="where it is not found by itself")
    for name in ("--past-names", "--present-names"):
        add(name, metavar="PATTERNS", help="with %%d for the layer, and commas between: past.%%d.key,past.%%d.value")
    add("--given", metavar="NAMES", help="inputs that an encoder gives, with commas between")
    add("--cache", choices=("growing", "sliding", "in-place"), help="how the past is kept, where shapes and operators don't tell")
    add("--dim", action="append", default=[], metavar="SYMBOL=SIZE", help="the size of a symbolic dim; may be repeated")
    return parser


def _run(args: argparse.Namespace) -> tuple[Generated, list[str] | None]:
    """What was made, and as text where the prompts are text."""
    tokenizer = find_tokenizer(args.model, args.tokenizer) if args.prompt or args.encoder_prompt or args.tokenizer else None
    prompts = [_ids("--prompt-ids", text) for text in args.prompt_ids]
    encoder_ids = [_ids("--encoder-ids", text) for text in args.encoder_ids]
    if tokenizer is not None:
        prompts += [list(tokenizer.encode(text).ids) for text in args.prompt]
        encoder_ids += [list(tokenizer.encode(text).ids) for text in args.encoder_prompt]
    if not prompts and (args.encoder or encoder_ids or args.inputs):
        prompts = [[start_token(args.model)]]
    if not prompts:
        raise OptionError("no prompt is given; write --prompt TEXT or --prompt-ids 1,2,3")
    names: dict[str, Any] = {"cache": args.cache, "dims": _sizes(args.dim)}
    names |= {name: getattr(args, name) for name in ("input_ids", "attention_mask", "position_ids", "logits")}
    names |= {name: getattr(args, name).split(",") for name in ("past_names", "present_names", "given") if getattr(args, name)}
    made = generate(
        args.model, prompts, max_new_tokens=args.max_new_tokens, min_new_tokens=args.min_new_tokens,
        eos_ids=[end for text in args.eos_id for end in _ids("--eos-id", text)], max_context=args.max_context, temperature=args.temperature,
        top_k=args.top_k, top_p=args.top_p, seed=args.seed, runtime=args.runtime, threads=args.threads,
        encoders=args.encoder, encoder_ids=encoder_ids, encoder_inputs=_arrays(args.inputs), **names,
    )  # fmt: skip
    return made, None if tokenizer is None else [tokenizer.decode(tokens) for tokens in made.tokens]


def _print(made: Generated, texts: list[str] | None) -> None:
    for row, tokens in enumerate(made.tokens):
        print(texts[row] if texts else ",".join(map(str, tokens)))
    for phase in ("prefill", "decode"):
        told = made.report[phase]
        rate = told["tokens_per_second"]
        print(f"{phase}: {told['tokens']} tokens, {told['seconds']:.3g} s" + (f", {rate:.1f} tokens/s" if rate else ""), file=sys.stderr)
    for note in made.report["notes"]:
        print(f"note: {note}", file=sys.stderr)


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    args = _parser().parse_args(words)
    try:
        made, texts = _run(args)
    except Error as error:
        return tell_error("onnx_saturate.generate", error)
    if args.json:
        print(json.dumps({**made.report, **({} if texts is None else {"texts": texts})}, indent=2))
    else:
        _print(made, texts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
