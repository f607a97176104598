#!/usr/bin/env python3
"""Generates by onnxruntime-genai with caches that `saturate transform --pass kv_cache` has put into exported decoders.

    python bench/export/export_decoders.py FOLDER
    python bench/speed/genai.py FOLDER [NAME ...] [--caches growing,group_query_attention] [--saturate BINARY]

`saturate generate --genai-config` writes the configuration. For each model and cache a row: whether the tokens are those of transformers'
generate, greedy, from the prompt that the export has beside it. The buffers of GroupQueryAttention are shared: past and present are one
memory. The last line counts; the exit status is 1 where a row fails. Needs onnxruntime-genai and numpy.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime_genai as genai

ROOM = 64
CACHES = {"growing": "kv_cache", "group_query_attention": f"kv_cache:mode=buffer;max_context={ROOM};write=group_query_attention"}
TYPES = {"gemma3": "gemma3_text", "olmo2": "olmo"}  # where it is not the name
KNOWN = ["llama", "mistral", "qwen2", "qwen3", "phi", "phi3", "gemma2", "gemma3_text", "nemotron", "granite", "smollm3", "olmo"]


def told(words):
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    return run.stderr.strip() if run.returncode else ""


def make(path, cache, eos, folder, args):
    """Model and configuration; the reason where there is none."""
    model = folder / "model.onnx"
    passes = [word for name in [CACHES[cache], *args.passes] for word in ("--pass", name)]
    kind = TYPES.get(path.name.split(".")[0], path.name.split(".")[0])
    return told([args.saturate, "transform", path, "-o", model, *passes]) or told(
        [args.saturate, "generate", model, "--genai-config", folder / "genai_config.json", "--eos-id", eos, "--bos-id", 1, "--max-context", ROOM,
         "--genai-type", kind if kind in KNOWN else "llama"])


def generate(folder, prompt, count):
    model = genai.Model(str(folder))
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(max_length=min(ROOM, len(prompt) + count), do_sample=False)
    generator = genai.Generator(model, parameters)
    generator.append_tokens(prompt.astype(np.int32)[None])
    made = []
    while not generator.is_done() and len(made) < count:
        generator.generate_next_token()
        made.append(int(generator.get_next_tokens()[0]))
    return made


def check(path, cache, args):
    given = np.load(path.parent / f"{path.name.split('.')[0]}.npz")
    prompt, expected = given["prompt"][0], given["tokens"][0][given["prompt"].shape[1]:].tolist()
    eos = next(token for token in range(2, 256) if token not in expected)  # generate was told of no token that ends a text
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if refused := make(path, cache, eos, folder, args):
            return "refused", refused[:200]
        kind = json.loads((folder / "genai_config.json").read_text())["model"]["type"]
        try:
            made = generate(folder, prompt, len(expected))
        except Exception as error:  # noqa: BLE001: the table tells it
            return "FAILS", str(error).splitlines()[0][:200]
    return ("equal" if made == expected else "DIFFERS"), f"{len(made)} tokens as type {kind}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="as llama or llama.dynamo-18-sdpa; default: all")
    parser.add_argument("--caches", default=",".join(CACHES))
    parser.add_argument("--pass", action="append", default=[], dest="passes", metavar="PASS", help="a pass behind kv_cache, as optimize:ort-cpu")
    parser.add_argument("--saturate", default=os.environ.get("SATURATE_BIN", "saturate"))
    args = parser.parse_args()
    paths = [p for p in sorted(args.folder.glob("*.onnx")) if not args.names or p.stem in args.names or p.name.split(".")[0] in args.names]
    counts = {}
    for path in paths:
        for cache in args.caches.split(","):
            word, rest = check(path, cache, args)
            counts[cache, word] = counts.get((cache, word), 0) + 1
            print(f"{path.stem} {cache}: {word}: {rest}", flush=True)
    print(", ".join(f"{cache} {word}: {n}" for (cache, word), n in sorted(counts.items())))
    return 1 if any(word in ("FAILS", "DIFFERS") for _, word in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
