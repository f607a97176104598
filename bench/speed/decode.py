#!/usr/bin/env python3
"""Tokens a second of `saturate generate` beside ONNX Runtime's own loop over the same model with a growing cache.

    python bench/speed/decode.py MODEL.onnx [--behind 64,512] [--tokens 40] [--rounds 5] [--threads 1] [--json OUT.json]

Both take the likeliest token; the tokens must be equal. ONNX Runtime hands its cache on by run() and by IOBinding, and the faster of the two in a round
counts. Rounds are interleaved, each in processes of its own; ratios are ours by theirs, above 1 where ours is faster: the median and its interval.

Wants onnxruntime, numpy, and a saturate command (SATURATE_BIN). The model has inputs input_ids, attention_mask, position_ids, and a past of rank 4.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

import ort_latency


def prompt_of(length):
    return [(7 * i + 3) % 200 for i in range(length)]


def by_saturate(model, behind, tokens, threads):
    words = [os.environ.get("SATURATE_BIN", "saturate"), "generate", str(model), "--prompt-ids", ",".join(map(str, prompt_of(behind))),
             "--max-new-tokens", str(tokens), "--threads", str(threads), "--json"]
    told = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return told["rows"][0]["tokens"], told["prefill"]["tokens_per_second"], told["decode"]["tokens_per_second"]


class Loop:
    """ONNX Runtime's, with the cache as arrays or bound."""

    def __init__(self, model, threads, bound):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.pasts = [i for i in self.session.get_inputs() if i.name.startswith("past") and len(i.shape) == 4]
        self.inputs = {i.name for i in self.session.get_inputs()}
        self.outputs = [o.name for o in self.session.get_outputs()]
        self.bound = bound

    def empty(self):
        arrays = {i.name: np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32) for i in self.pasts}
        return {name: ort.OrtValue.ortvalue_from_numpy(a) for name, a in arrays.items()} if self.bound else arrays

    def step(self, feeds, past):
        if not self.bound:
            out = self.session.run(None, {**feeds, **past})
            return out[0], out[1:]
        binding = self.session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name, value in past.items():
            binding.bind_ortvalue_input(name, value)
        for name in self.outputs:
            binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        out = binding.get_outputs()
        return out[0].numpy(), out[1:]

    def run(self, behind, tokens):
        ids, past, seen, made, ends = np.array([prompt_of(behind)]), self.empty(), 0, [], [time.perf_counter()]
        for _ in range(tokens):
            new = ids.shape[1]
            feeds = {"input_ids": ids, "attention_mask": np.ones((1, seen + new), np.int64), "position_ids": np.arange(seen, seen + new)[None]}
            logits, present = self.step({name: a for name, a in feeds.items() if name in self.inputs}, past)
            past = dict(zip([i.name for i in self.pasts], present))
            made.append(int(logits[0, -1].argmax()))
            ids, seen = np.array([[made[-1]]]), seen + new
            ends.append(time.perf_counter())
        return made, behind / (ends[1] - ends[0]), (tokens - 1) / (ends[-1] - ends[1])


def by_onnxruntime(model, behind, tokens, threads, bound):
    loop = Loop(model, threads, bound)
    loop.run(behind, 3)
    return loop.run(behind, tokens)


def compare(model, behind, args):
    ratios = {"prefill": [], "decode": []}
    for _ in range(args.rounds):
        ours = by_saturate(model, behind, args.tokens, args.threads)
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            theirs = [pool.submit(by_onnxruntime, model, behind, args.tokens, args.threads, bound).result() for bound in (False, True)]
        if any(t[0] != ours[0] for t in theirs):
            raise SystemExit(f"{model}: the tokens differ: {ours[0]}, {[t[0] for t in theirs]}")
        for i, part in enumerate(ratios, 1):
            ratios[part].append(ours[i] / max(t[i] for t in theirs))
    return {part: ort_latency.interval(r) for part, r in ratios.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--behind", default="64,512", help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows = []
    for behind in map(int, args.behind.split(",")):
        found = compare(args.model, behind, args)
        rows.append({"model": args.model.name, "behind": behind, **found})
        print(f"{args.model.name}  behind {behind}: " + ", ".join(f"{part} {m:.3f} [{low:.3f}, {high:.3f}]" for part, (m, low, high) in found.items()), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    sys.exit(main())
