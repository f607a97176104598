#!/usr/bin/env python3
"""Puts caches into exported decoders by `saturate transform --pass kv_cache`, and compares each step in ONNX Runtime with the exported model.

    python bench/export_decoders.py FOLDER
    python bench/kv_cache.py FOLDER [NAME ...] [--modes growing,window,buffer,tensor_scatter,group_query_attention] [--saturate BINARY]

For each model and mode a row: the largest difference of logits, by their scale, over 64 given tokens (a prompt, then one or three at a time);
greedy tokens beside those of the exported model on the whole sequence and of transformers' generate; how much of the scale the logits move
when the past is permuted; and what three broken versions give, which must be beyond the tolerance: positions shifted by one, the oldest
cached token dropped (in mode window: a late one hidden), the past zeroed. In mode window (--window and --sequence) steps are one window each, up to the sequence.
The last line counts; the exit status is 1 where a row fails. Needs onnxruntime and numpy.
"""
import argparse
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime as ort

TOLERANCE = 1e-3
MOVES = 0.1


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Whole:
    """The exported model on all tokens at once."""

    def __init__(self, path):
        self.session = session(path)
        self.masked = any(i.name == "attention_mask" for i in self.session.get_inputs())

    def __call__(self, ids, mask=None):
        feed = {"input_ids": ids}
        if self.masked:
            feed["attention_mask"] = np.ones_like(ids) if mask is None else mask
        return self.session.run(["logits"], feed)[0]


class Growing:
    """The model with a cache that grows."""

    def __init__(self, path):
        self.session = session(path)
        self.shapes = {i.name: i.shape for i in self.session.get_inputs()}
        self.names = [o.name for o in self.session.get_outputs() if o.name != "logits"]
        self.masked = "attention_mask" in self.shapes

    def start(self, batch):
        self.mask = np.zeros((batch, 0), np.int64)
        self.past = {n.replace("present", "past_key_values"): np.zeros((batch, self.shapes[n.replace("present", "past_key_values")][1], 0,
                     self.shapes[n.replace("present", "past_key_values")][3]), np.float32) for n in self.names}
        return self

    def __call__(self, ids, mask=None):
        self.mask = np.concatenate([self.mask, np.ones_like(ids) if mask is None else mask], 1)
        feed = {"input_ids": ids, **self.past, **({"attention_mask": self.mask} if self.masked else {})}
        logits, *present = self.session.run(["logits", *self.names], feed)
        self.past = {n.replace("present", "past_key_values"): v for n, v in zip(self.names, present)}
        return logits

    def steps(self, tokens, most):
        return steps_of(tokens)

    def shift(self):  # a token in front that is seen, so that positions that are counted by the mask move, too
        self.past = {n: np.concatenate([np.zeros_like(v[:, :, :1]), v], 2) for n, v in self.past.items()}
        self.mask = np.concatenate([np.ones_like(self.mask[:, :1]), self.mask], 1)

    def drop_oldest(self):
        self.past = {n: v[:, :, 1:] for n, v in self.past.items()}
        self.mask = self.mask[:, 1:]

    def zero(self):
        self.past = {n: np.zeros_like(v) for n, v in self.past.items()}


class Window(Growing):
    """The model with a window of fixed size at the end of a sequence of fixed size."""

    def start(self, batch):
        self.window, self.sequence = self.shapes["input_ids"][1], self.shapes["attention_mask"][1] if self.masked else None
        self.mask, self.seen = np.zeros((batch, self.sequence or 0), np.int64), np.zeros((batch, 0), np.int64)
        self.past = {n: np.zeros((batch, *s[1:]), np.float32) for n, s in self.shapes.items() if n.startswith("past_key")}
        return self

    def before(self):
        """How many tokens came before, where the model asks: places, or what the mask has shown of each row."""
        shape = self.shapes.get("past_length")
        return {} if shape is None else {"past_length": np.array([self.seen.shape[1]]) if shape == [1] else self.seen.sum(1)}

    def __call__(self, ids, mask=None):
        fresh = np.ones_like(ids) if mask is None else mask
        self.mask = np.concatenate([self.mask, fresh], 1)[:, -self.sequence:]
        feed = {"input_ids": ids, "attention_mask": self.mask, **self.before(), **self.past}
        logits, *present = self.session.run(["logits", *self.names], feed)
        self.seen = np.concatenate([self.seen, fresh], 1)
        self.past = {n.replace("present", "past_key_values"): v[:, :, self.window:] for n, v in zip(self.names, present)}
        return logits

    def steps(self, tokens, most):
        return [self.window] * (min(tokens, self.sequence) // self.window)

    def shift(self):  # past keys one further away
        self.past = {n: np.concatenate([v[:, :, 1:], np.zeros_like(v[:, :, :1])], 2) for n, v in self.past.items()}
        self.mask = np.concatenate([self.mask[:, 1:], np.ones_like(self.mask[:, :1])], 1)
        self.seen = np.concatenate([self.seen, np.ones_like(self.seen[:, :1])], 1)

    def drop_oldest(self):
        self.mask[:, -2] = 0  # a late one: sliding layers don't see the oldest anyway, and here it is at its place without the others moving


class Buffer(Growing):
    """The model with buffers that new tokens are written into."""

    def start(self, batch):
        self.room = next(s[2] for n, s in self.shapes.items() if n.startswith("past_key"))
        self.count, self.mask = 0, np.zeros((batch, 0), np.int64)
        self.past = {n: np.zeros((batch, *s[1:]), np.float32) for n, s in self.shapes.items() if n.startswith("past_key")}
        return self

    def __call__(self, ids, mask=None):
        self.mask = np.concatenate([self.mask, np.ones_like(ids) if mask is None else mask], 1)
        whole = self.masked and self.shapes["attention_mask"][1] == self.room  # else of past and new tokens
        padded = np.pad(self.mask, ((0, 0), (0, self.room - self.mask.shape[1]))) if whole else self.mask
        feed = {"input_ids": ids, "past_length": np.array([self.count]), "attention_mask": padded, **self.past}
        feed = {n: v for n, v in feed.items() if n in self.shapes}
        logits, *present = self.session.run(["logits", *self.names], feed)
        self.past = {n.replace("present", "past_key_values"): v for n, v in zip(self.names, present)}
        self.count += ids.shape[1]
        return logits

    def shift(self):
        super().shift()
        self.past = {n: v[:, :, :-1] for n, v in self.past.items()}
        self.count += 1

    def drop_oldest(self):
        self.past = {n: np.concatenate([v[:, :, 1:], v[:, :, -1:]], 2) for n, v in self.past.items()}
        self.mask = self.mask[:, 1:]
        self.count -= 1


class GroupQuery(Buffer):
    """Behind a past ONNX Runtime's GroupQueryAttention takes several tokens of one row alone."""

    def steps(self, tokens, most):
        return steps_of(tokens) if len(self.mask) == 1 else [8] + [1] * (tokens - 8)


MODES = {"growing": Growing, "window": Window, "buffer": Buffer, "tensor_scatter": Buffer, "group_query_attention": GroupQuery}


def steps_of(tokens):
    steps = [8]
    while sum(steps) < tokens:
        steps.append(min(3 if len(steps) % 5 == 0 else 1, tokens - sum(steps)))
    return steps


def teacher_forced(whole, model, ids, mask, breaks=None):
    """The largest difference by the scale of the logits, over tokens that see something."""
    reference = whole(ids, mask)
    model.start(ids.shape[0])
    at, worst, scale = 0, 0.0, np.abs(reference).max()
    steps = model.steps(ids.shape[1], ids.shape[1])
    for i, count in enumerate(steps):
        if breaks and i == len(steps) // 2:
            breaks(model)
        part = slice(at, at + count)
        got = model(ids[:, part], mask[:, part])
        seen = mask[:, part].astype(bool)
        worst = max(worst, float(np.abs(got - reference[:, part])[seen].max(initial=0)) / scale)
        at += count
    return worst


def greedy(whole, model, prompt, count):
    """Tokens of the cached model; steps at which the whole model would have taken another, and those of them that are near ties."""
    model.start(1)
    ids, other, ties = prompt, 0, 0
    at = 0
    while ids.shape[1] < prompt.shape[1] + count:
        width = getattr(model, "window", ids.shape[1] - at)
        while at < ids.shape[1]:
            logits = model(ids[:, at:at + width])[0, -1]
            at += width
        reference = whole(ids)[0, -1]
        token = int(np.argmax(logits))
        if token != int(np.argmax(reference)):
            other += 1
            best = np.sort(reference)[-2:]
            ties += best[1] - best[0] < TOLERANCE * np.abs(reference).max()
        ids = np.concatenate([ids, [[token]]], 1)
    return ids, other, ties


def moved_by_permutation(whole, ids):
    order = np.random.RandomState(2).permutation(ids.shape[1] - 1)
    a, b = whole(ids)[:, -1], whole(np.concatenate([ids[:, order], ids[:, -1:]], 1))[:, -1]
    return float(np.abs(a - b).max() / np.abs(a).max())


def check(path, mode, args):
    made = path.parent / "cached" / f"{path.stem}.{mode}.onnx"
    made.parent.mkdir(exist_ok=True)
    buffer = f"mode=buffer;max_context={args.sequence + 16}"
    fields = {"growing": "mode=growing", "buffer": buffer,
              "window": f"mode=window;window={args.window};sequence={args.sequence};max_context={args.sequence + 16}"}.get(mode, f"{buffer};write={mode}")
    run = subprocess.run([args.saturate, "transform", path, "-o", made, "--pass", f"kv_cache:{fields}"], capture_output=True, text=True)
    if run.returncode:
        return "refused", run.stderr.strip().split("pass kv_cache: ")[-1].removesuffix("; nothing was written")[:200]
    try:
        whole = Whole(path)
        random = np.random.RandomState(1)
        ids = random.randint(2, 256, (2, 64))
        mask = np.ones_like(ids)
        mask[1, :2] = 0
        try:
            whole(ids, mask)
        except Exception:  # noqa: BLE001: exports exist that take one row alone
            ids, mask = ids[:1], mask[:1]
    except Exception as error:  # noqa: BLE001
        return "original fails", str(error).splitlines()[0][:120]
    try:
        model = MODES[mode](made)
        difference = teacher_forced(whole, model, ids, mask)
        given = np.load(path.parent / f"{path.name.split('.')[0]}.npz")
        prompt, reference = given["prompt"], given["tokens"]
        tokens, other, ties = greedy(whole, model, prompt, reference.shape[1] - prompt.shape[1])
        same = bool((tokens == reference).all())
        broken = [teacher_forced(whole, model, ids[:1], mask[:1], by) for by in (lambda m: m.shift(), lambda m: m.drop_oldest(), lambda m: m.zero())]
    except Exception as error:  # noqa: BLE001: the table tells it
        return "FAILS", str(error).splitlines()[0][:200]
    moved = moved_by_permutation(whole, ids[:1])
    good = difference <= TOLERANCE and other == ties and (same or other > 0) and min(broken) > TOLERANCE and moved >= MOVES
    return ("equal" if good else "DIFFERS"), (
        f"{difference:.1e}, greedy {'as generate' if same else 'not as generate'} ({other} other, {ties} ties), past moves {moved:.2f}, "
        f"broken {' '.join(f'{b:.1e}' for b in broken)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="as llama or llama.dynamo-18-sdpa; default: all")
    parser.add_argument("--modes", default="growing,window,buffer", help="of growing, window, buffer, and what writes into buffers: "
                        "tensor_scatter, group_query_attention")
    parser.add_argument("--window", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--saturate", default=os.environ.get("SATURATE_BIN", "saturate"))
    args = parser.parse_args()
    paths = [p for p in sorted(args.folder.glob("*.onnx")) if not args.names or p.stem in args.names or p.name.split(".")[0] in args.names]
    counts = {}
    for path in paths:
        for mode in args.modes.split(","):
            word, rest = check(path, mode, args)
            for made in (path.parent / "cached").glob(f"{path.stem}.{mode}.onnx"):
                made.unlink()
            counts[mode, word] = counts.get((mode, word), 0) + 1
            print(f"{path.stem} {mode}: {word}: {rest}", flush=True)
    print(", ".join(f"{mode} {word}: {n}" for (mode, word), n in sorted(counts.items())))
    return 1 if any(word in ("DIFFERS", "FAILS") for _, word in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
