#!/usr/bin/env python3
"""Changes the caches of exported decoders, and compares each step in ONNX Runtime with the export.

    python bench/export/export_decoders.py FOLDER llama gpt2 --past
    python bench/quality/change_cache.py FOLDER [NAME ...] [--saturate BINARY]

For each model and change a row: the largest difference of logits, by their scale, over 48 given tokens (a prompt, then one or three at a time),
and greedy tokens that are others than those of the export. The last line counts; the exit status is 1 where a row is beyond its tolerance.
Needs onnxruntime and numpy.
"""
import argparse
import pathlib
import subprocess
import sys

import numpy as np
from kv_cache import TOLERANCES, Buffer, Growing, Window, scale_of

SIZES = "max_context=80"
CHANGES = {  # passes, what runs the result, the largest difference that is expected
    "buffer": (["remove_cache", f"kv_cache:mode=buffer;{SIZES}"], Buffer, 1e-3),
    "window": (["remove_cache", f"kv_cache:mode=window;window=1;sequence=64;{SIZES}"], Window, 1e-3),
    "growing again": (["remove_cache", "kv_cache"], Growing, 1e-3),
    "buffer to growing": (["remove_cache", f"kv_cache:mode=buffer;{SIZES}", "remove_cache", "kv_cache"], Growing, 1e-3),
    "grouped to growing": (["remove_cache", f"kv_cache:mode=buffer;write=group_query_attention;{SIZES}", "remove_cache", "kv_cache"], Growing, 1e-3),
    "buffer to window": (["remove_cache", f"kv_cache:mode=buffer;{SIZES}", "remove_cache",
                          f"kv_cache:mode=window;window=1;sequence=64;{SIZES}"], Window, 1e-3),
    "tensor scatter to buffer": (["remove_cache", f"kv_cache:mode=buffer;write=tensor_scatter;{SIZES}", "remove_cache",
                                  f"kv_cache:mode=buffer;{SIZES}"], Buffer, 1e-3),
    "float16": (["cache_dtype:float16"], Growing, 0.02),
    "int8 by head": (["cache_dtype:int8"], Growing, 0.5),
    "int8 by channel": (["cache_dtype:int8;scales=channel"], Growing, 0.5),
    "last logits": (["last_logits"], Growing, 1e-3),
}


class Export(Growing):
    """The export with a past, run on all tokens at once."""

    def __call__(self, ids, mask=None):
        self.start(ids.shape[0])
        return super().__call__(ids, mask)


def of_dtype(base):
    """Of a past that is no float."""

    class OfDtype(base):
        def start(self, batch):
            super().start(batch)
            kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int8)": np.int8}
            types = {i.name: kinds.get(i.type) for i in self.session.get_inputs()}
            self.past = {name: past.astype(types[name]) for name, past in self.past.items()}
            return self

        def __call__(self, ids, mask=None):
            logits = super().__call__(ids, mask)  # of the last token alone: as of all
            return np.concatenate([np.full((*ids.shape, logits.shape[2]), np.nan, np.float32)[:, logits.shape[1]:], logits], 1)

    return OfDtype


def differing(whole, model, ids, mask):
    """The largest difference by the scale of the logits, where there are some."""
    reference, at, worst = whole(ids, mask), 0, 0.0
    model.start(ids.shape[0])
    for count in model.steps(ids.shape[1]):
        part = slice(at, at + count)
        got = model(ids[:, part], mask[:, part])
        seen = mask[:, part].astype(bool)[..., None] & ~np.isnan(got)
        worst = float(np.maximum(worst, np.abs(np.where(seen, got - reference[:, part], 0)).max()))  # NaN stays
        at += count
    return worst / np.abs(reference).max()


def greedy(whole, model, ids, count):
    """Steps at which the export would have taken another token, and those of them that are near ties."""
    model.start(1)
    other, ties, at, width = 0, 0, 0, getattr(model, "window", ids.shape[1])
    for _ in range(count):
        while at < ids.shape[1]:
            logits = model(ids[:, at:at + width])[0, -1]
            at, width = at + width, getattr(model, "window", 1)
        reference, token = whole(ids)[0, -1], int(np.argmax(logits))
        if token != int(np.argmax(reference)):
            second, first = np.sort(reference)[-2:]
            other, ties = other + 1, ties + (first - second < TOLERANCES["fp32"] * scale_of(reference))
        ids = np.concatenate([ids, [[token]]], 1)
    return other, ties


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all with a past")
    parser.add_argument("--saturate", default="saturate")
    args = parser.parse_args()
    wrong = rows = 0
    for path in sorted(args.folder.glob("*.onnx")):
        export = Export(path)
        if not any(name.startswith("past") for name in export.shapes) or (args.names and path.name.split(".")[0] not in args.names):
            continue
        for change, (passes, runner, tolerance) in CHANGES.items():
            made = path.parent / "changed" / f"{path.stem}.{change.replace(' ', '_')}.onnx"
            made.parent.mkdir(exist_ok=True)
            words = [word for one in passes for word in ("--pass", one)]
            done = subprocess.run([args.saturate, "transform", path, "-o", made, *words], capture_output=True, text=True)
            rows += 1
            if done.returncode:
                print(f"{path.stem:28} {change:24} refused: {done.stderr.strip().split(': pass ')[-1][:160]}", flush=True)
                wrong += 1
                continue
            ids = np.random.RandomState(4).randint(2, 200, (1, 48))
            model = of_dtype(runner)(made)
            apart = differing(export, model, ids, np.ones_like(ids))
            other, ties = greedy(export, model, ids[:, :8], 16)
            bad = not apart <= tolerance
            wrong += bad
            print(f"{path.stem:28} {change:24} {apart:.1e}  {other} of 16 greedy tokens are others ({ties} near ties){'  WRONG' if bad else ''}", flush=True)
    print(f"{rows} rows, {wrong} wrong")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
