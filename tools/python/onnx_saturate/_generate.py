"""Tokens out of language models."""
from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import numpy as np

from . import _convert, _core
from ._data_files import json_of, read_text
from ._errors import Error, OptionError, UnsupportedError
from ._values import numpy_dtype, to_core

Prompts = Union[Sequence[int], Sequence[Sequence[int]]]
_Run = Callable[[dict[str, "tuple[Any, ...]"]], "list[tuple[Any, ...]]"]


@dataclass(frozen=True)
class Generated:
    """What `generate` made."""

    tokens: list[list[int]]
    """By prompt, without it; with the token that ended it."""
    ended_by: list[str]
    """By prompt: "eos" or "length"."""
    report: Mapping[str, Any]
    """The keys of `saturate generate --json`, without `peak_bytes`."""

    @property
    def tokens_per_second(self) -> float | None:
        """Of decoding; None where there was none."""
        rate: float | None = self.report["decode"]["tokens_per_second"]
        return rate


def _in_onnxruntime(model: _convert.ModelLike, threads: int) -> _Run:
    """Runs in an InferenceSession; arrays go in and out where they lie."""
    from ._tune_ort import runtime, source_of

    ort = runtime("generate")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        session = ort.InferenceSession(source_of(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise UnsupportedError(f"generate: ONNX Runtime can't load the model: {' '.join(str(error).split())}") from error

    def run(inputs: dict[str, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        feeds = {name: data.view(numpy_dtype(dtype)).reshape(shape) for name, (_, dtype, shape, data) in inputs.items()}
        try:
            return [to_core(np.asarray(output)) for output in session.run(None, feeds)]
        except Exception as error:
            raise Error(f"generate: ONNX Runtime: {' '.join(str(error).split())}") from error

    return run


def _rows(prompt_ids: Prompts) -> list[list[int]]:
    rows: list[Any] = list(prompt_ids)
    if not rows or isinstance(rows[0], (int, np.integer)):
        rows = [rows]
    return [[int(token) for token in row] for row in rows]


def generate(
    model: _convert.ModelLike,
    prompt_ids: Prompts,
    *,
    max_new_tokens: int | None = None,
    min_new_tokens: int = 0,
    eos_ids: int | Iterable[int] = (),
    max_context: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    runtime: str = "saturate",
    threads: int = 1,
    base_dir: str | os.PathLike[str] | None = None,
    encoders: Sequence[_convert.ModelLike] = (),
    encoder_ids: Prompts = (),
    encoder_inputs: Mapping[str, Any] | None = None,
    **names: Any,
) -> Generated:
    """What a language model makes of a prompt (token ids), or of several at once.

    Without `max_new_tokens` it makes 64, or as many as the model holds. A cache is fed back from run to run; without one the whole sequence runs again. The likeliest token is taken unless `temperature`,
    `top_k` or `top_p` say to draw one; the same `seed` draws the same. `runtime` is "saturate" or "onnxruntime".
    Of an encoder-decoder `encoders` are models that run once in front, `encoder_ids` the tokens that they read, and `encoder_inputs` arrays by name of what they read or give.
    Inputs and outputs are found by themselves; where they are not: `input_ids`, `attention_mask`, `position_ids`, `logits` (names),
    `past_names`, `present_names` (lists of patterns with %d for the layer), `given` (names of what an encoder gives), `cache` ("growing", "sliding", "in-place"), `dims`.

    >>> onnx_saturate.generate("llama.onnx", [1, 15043], max_new_tokens=16, eos_ids=2).tokens[0]
    >>> onnx_saturate.generate("step.onnx", [0], encoders=["encoder.onnx", "cross.onnx"], encoder_ids=[17, 24, 1], eos_ids=1).tokens[0]
    """
    known = {"input_ids", "attention_mask", "position_ids", "logits", "past_names", "present_names", "given", "cache", "dims"}
    for name in names:
        if name not in known:
            raise TypeError(f"generate() has no option {name!r}; beside those of its own it has: {', '.join(sorted(known))}")
    if runtime not in ("saturate", "onnxruntime"):
        raise OptionError(f'runtime: "{runtime}": give one of saturate and onnxruntime')
    ends = [eos_ids] if isinstance(eos_ids, (int, np.integer)) else list(eos_ids)
    options = {
        "max_new_tokens": max_new_tokens, "min_new_tokens": min_new_tokens, "eos_ids": [int(end) for end in ends], "max_context": max_context,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "threads": threads, **names,
    }  # fmt: skip
    options |= {
        "encoders": [_convert.to_core(encoder, base_dir) for encoder in encoders],
        "encoder_ids": _rows(encoder_ids) if len(encoder_ids) else [],
        "encoder_inputs": {name: to_core(np.asarray(array)) for name, array in (encoder_inputs or {}).items()},
        "run_encoders": [_in_onnxruntime(encoder, threads) for encoder in encoders] if runtime == "onnxruntime" else [],
    }
    core = _convert.to_core(model, base_dir)
    run = _in_onnxruntime(model, threads) if runtime == "onnxruntime" else None
    report = json.loads(_core.generate(core, _rows(prompt_ids), options, run))
    return Generated([row["tokens"] for row in report["rows"]], [row["ended_by"] for row in report["rows"]], report)


def start_token(model: str) -> int:
    """The token that begins what a decoder makes, of the generation_config.json or config.json beside the model."""
    for name in ("generation_config.json", "config.json"):
        path = Path(model).parent / name
        if path.is_file():
            try:
                token = json_of(read_text(path)).get("decoder_start_token_id")
            except (ValueError, AttributeError) as error:
                raise Error(f"{path}: is no configuration of a model: {error}") from error
            if isinstance(token, int):
                return token
    raise OptionError("no prompt is given, and no generation_config.json beside the model tells decoder_start_token_id; write --prompt-ids")


def find_tokenizer(model: str, given: str | None) -> Any:
    """The tokenizer of a tokenizer.json: the file given, or the one beside the model."""
    try:
        import tokenizers  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise UnsupportedError("--prompt: tokenizers is not installed; pip install tokenizers, or give --prompt-ids") from None
    path = Path(model).parent / "tokenizer.json" if given is None else Path(given)
    if not path.is_file():
        raise Error(f"{path}: there is no such file; name the model's tokenizer.json by --tokenizer, or give --prompt-ids")
    text = read_text(path)
    try:
        return tokenizers.Tokenizer.from_str(text)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        raise Error(f"{path}: is no tokenizer: {' '.join(str(error).split())}") from error
