#!/usr/bin/env python3
"""Times a decoding step in ONNX Runtime of a cache that `kv_cache` puts in, beside the same model exported with a cache by torch.

    python bench/speed/decode_ort.py FOLDER [--models llama,gpt2] [--saturate BINARY] [--target ort-cpu@1.31] [--past 128,512,1024] [--processes 9] [--rounds 15] [--clock wall|cpu] [--json OUT.json]

Decoders of 12 layers of 768 with random weights are exported into FOLDER without a cache and with one (past_key_values, as optimum has it), where they are not
there. Models that are timed, as users load them (ENABLE_ALL), on one thread, one new token behind a past:

    ours        exported without a cache, `transform --pass kv_cache`, `optimize`
    theirs      exported with a cache, `optimize`
    export      exported with a cache, as it is: ONNX Runtime's own optimizations

They take turns in one process, in another order each round, and the median over rounds counts. Where weights come to lie in memory makes a tenth of
difference between two sessions of one file on pages of 4 kB: all get huge pages (glibc 2.35 and newer; --small-pages leaves them out), and there are several
processes, which load the models in another order each. Told: milliseconds, and the
ratio of ours to both in the same process, its median and the 95 % interval. Logits must be equal within 1e-3 of the scale. Needs torch and transformers for
the exports, onnxruntime and numpy. --clock cpu takes processor time, for busy machines.
Exit status 1 where ours takes more than 1.02 of theirs or more than 0.95 of the export, with that interval.
"""
import argparse
import collections
import concurrent.futures
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
from ort_latency import interval  # noqa: E402

WIDTH, LAYERS, HEADS, VOCABULARY, POSITIONS = 768, 12, 12, 4096, 2048
MODELS = {
    "llama": ("LlamaForCausalLM", dict(hidden_size=WIDTH, intermediate_size=2048, num_attention_heads=HEADS, num_key_value_heads=HEADS, num_hidden_layers=LAYERS,
                                       max_position_embeddings=POSITIONS)),
    "gpt2": ("GPT2LMHeadModel", dict(n_embd=WIDTH, n_head=HEADS, n_layer=LAYERS, n_positions=POSITIONS)),
}
EXPORTER = "dynamo-18-sdpa"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
MOST = {"theirs": 1.02, "export": 0.95}


def export(name, folder):
    """Paths of the two exports."""
    paths = {kind: folder / f"{name}.{kind}.onnx" for kind in ("whole", "past")}
    if all(path.exists() for path in paths.values()):
        return paths
    import export_decoders

    export_decoders.VOCABULARY = VOCABULARY
    export_decoders.MODELS[name] = MODELS[name]
    model = export_decoders.build(name)
    export_decoders.export(model, EXPORTER, paths["whole"])
    export_decoders.export_with_past(model, EXPORTER, paths["past"])
    return paths


def made(name, args):
    paths = export(name, args.folder)
    out = {"ours": args.folder / f"{name}.ours.onnx", "theirs": args.folder / f"{name}.theirs.onnx", "export": paths["past"]}
    between = args.folder / f"{name}.growing.onnx"
    saturate = lambda *words: subprocess.run([args.saturate, *map(str, words), "--quiet", "--no-verify"], check=True)
    optimized = lambda path, to: saturate("optimize", path, to, "--target", args.target)
    saturate("transform", paths["whole"], "-o", between, "--pass", "kv_cache:opset=23")
    optimized(between, out["ours"])
    optimized(paths["past"], out["theirs"])
    between.unlink()
    return out


class Step:
    def __init__(self, path):
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.feeds = {}

    def behind(self, past):
        """Feeds one new token behind a drawn past, which is the same for all."""
        arrays = {"input_ids": np.array([[7]]), "attention_mask": np.ones((1, past + 1), np.int64)}
        for i, name in enumerate(sorted(i.name for i in self.session.get_inputs() if i.name.startswith("past"))):
            arrays[name] = np.random.default_rng(i).standard_normal((1, HEADS, past, WIDTH // HEADS)).astype(np.float32)
        self.feeds = {i.name: ort.OrtValue.ortvalue_from_numpy(arrays[i.name]) for i in self.session.get_inputs()}

    def __call__(self):
        return self.session.run_with_ort_values(None, self.feeds)[0]


def timed(steps, past, rounds, clock):
    """The median of seconds, by model."""
    logits, times, rng = {}, collections.defaultdict(list), random.Random(past)
    for kind, step in steps.items():
        step.behind(past)
        step()
        logits[kind] = step().numpy()
    for kind, found in logits.items():
        if not np.abs(found - logits["export"]).max() <= 1e-3 * np.abs(logits["export"]).max():
            raise SystemExit(f"{kind} differs from the export behind {past} tokens by {np.abs(found - logits['export']).max():.2g}")
    for _ in range(rounds):
        for kind in rng.sample(list(steps), len(steps)):
            begin = clock()
            steps[kind]()
            times[kind].append(clock() - begin)
    return {kind: statistics.median(seconds) for kind, seconds in times.items()}


def in_a_process(paths, order, pasts, rounds, clock):
    """By past and model: seconds."""
    steps = {kind: Step(paths[kind]) for kind in order}
    return {past: timed(steps, past, rounds, CLOCKS[clock]) for past in pasts}


def compared(paths, pasts, args):
    """Of each process what it measured; all orders of loading come about as often."""
    orders, found = list(itertools.permutations(paths)), []
    for number in range(args.processes):
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found.append(pool.submit(in_a_process, paths, orders[number % len(orders)], pasts, args.rounds, args.clock).result())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--saturate", default="saturate")
    parser.add_argument("--target", default="ort-cpu@1.31")
    parser.add_argument("--past", default="128,512,1024")
    parser.add_argument("--processes", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--small-pages", action="store_true", help="pages as a process gets them by default")
    parser.add_argument("--prepare", action="store_true", help="makes the models alone, so that what follows on a quiet machine is timing")
    parser.add_argument("--reuse", action="store_true", help="takes the models that an earlier run has made")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    if not args.small_pages:
        os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"  # read by the processes that are started
    args.folder.mkdir(parents=True, exist_ok=True)
    rows, slow = [], 0
    for name in args.models.split(","):
        kept = {kind: args.folder / f"{name}.{kind}.onnx" for kind in ("ours", "theirs")} | {"export": args.folder / f"{name}.past.onnx"}
        paths = kept if args.reuse else made(name, args)
        if args.prepare:
            continue
        pasts = [int(past) for past in args.past.split(",")]
        found = compared(paths, pasts, args)
        for past in pasts:
            row = {"model": name, "past": past, "ms": {kind: 1e3 * statistics.median(f[past][kind] for f in found) for kind in paths}}
            row["ratio"] = {kind: interval([f[past]["ours"] / f[past][kind] for f in found]) for kind in MOST}
            slow += sum(row["ratio"][kind][1] > most for kind, most in MOST.items())
            rows.append(row)
            print(f"{name:6} behind {past:5}: " + ", ".join(f"{kind} {ms:.1f} ms" for kind, ms in row["ms"].items()) + "; ours by "
                  + ", by ".join(f"{kind} {m:.3f} [{low:.3f}, {high:.3f}]" for kind, (m, low, high) in row["ratio"].items()), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
