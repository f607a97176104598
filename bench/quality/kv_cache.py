#!/usr/bin/env python3
"""Puts caches into exported decoders by `saturate transform --pass kv_cache`, and compares each step in ONNX Runtime with the exported model.

    python bench/export/export_decoders.py FOLDER
    python bench/quality/kv_cache.py FOLDER [NAME ...] [--modes growing,window,buffer,tensor_scatter,group_query_attention] [--dtype fp16]
                             [--saturate BINARY]

For each model and mode a row: the largest difference of logits, by their scale, over 64 steps of given tokens (a prompt, then one or three at
a time) and while tokens are generated greedily; those tokens beside the exported model's on the whole sequence and those of transformers'
generate; how much of the scale the logits move when the past is permuted; and what three broken versions give, which must be beyond the
tolerance: positions shifted by one, the oldest cached token dropped (in mode window: a late one hidden), the past zeroed.
In mode window (--window and --sequence) steps are one window each, up to the sequence.

A token may be another one where the two best logits of the exported model lie closer than the tolerance. Such a step is counted as a tie, and
both references go on with our token: transformers' generate begins again behind it, which takes torch and transformers.

Decoders of encoder-decoders (bench/export/export_cross.py) take keys and values of cross attention from the model that `model=cross` writes, run once;
a fourth broken version has zeros there.

With --dtype fp16 the passes are those of `saturate slm --dtype fp16`, and the tolerance is that of halves.

A refused row is measured, too: that the exported model can't be run, that its logits move by what comes later, or by what its mask hides.
A refusal for which nothing of this is found is a row that fails. The last line counts; the exit status is 1 where a row fails.
Needs onnxruntime and numpy.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401

TOLERANCES = {"fp32": 1e-3, "fp16": 2e-2}
MOVES = 0.1
TOKENS = 95  # of 64 steps: see steps_of
ROOM = 112
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


def session(path, as_it_is=False):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what a run says stands in the row
    if as_it_is:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def first_rows(given, count):
    return {name: value[:count] for name, value in given.items()}


class Whole:
    """The exported model on all tokens at once; `given`: what an encoder gives."""

    def __init__(self, path, given={}, as_it_is=False):
        self.session = session(path, as_it_is)
        self.masked = any(i.name == "attention_mask" for i in self.session.get_inputs())
        self.given = given

    def __call__(self, ids, mask=None):
        feed = {"input_ids": ids, **first_rows(self.given, len(ids))}
        if self.masked:
            feed["attention_mask"] = np.ones_like(ids) if mask is None else mask
        return self.session.run(["logits"], feed)[0].astype(np.float32)

    def draw(self, rows, tokens):
        vocabulary = self.session.get_outputs()[0].shape[-1]
        return np.random.RandomState(1).randint(2, vocabulary if isinstance(vocabulary, int) else 256, (rows, tokens))


class Growing:
    """The model with a cache that grows."""

    def __init__(self, path, given={}, as_it_is=False):
        self.session = session(path, as_it_is)
        self.given = self.kept = given
        self.shapes = {i.name: i.shape for i in self.session.get_inputs()}
        self.types = {i.name: TYPES.get(i.type) for i in self.session.get_inputs()}
        self.names = [o.name for o in self.session.get_outputs() if o.name != "logits"]
        self.masked = "attention_mask" in self.shapes

    def start(self, batch):
        self.mask, self.given = np.zeros((batch, 0), np.int64), first_rows(self.kept, batch)
        self.past = self.empty(batch, 0)
        return self

    def empty(self, batch, tokens):
        return {n: np.zeros((batch, s[1], tokens, s[3]), self.types[n]) for n, s in self.pasts().items()}

    def pasts(self):
        """Inputs that presents are handed on to, and their shapes."""
        return {n: s for n, s in self.shapes.items() if n.replace("past_key_values", "present") in self.names}

    def __call__(self, ids, mask=None):
        self.mask = np.concatenate([self.mask, np.ones_like(ids) if mask is None else mask], 1)
        feed = {"input_ids": ids, **self.past, **self.given, **({"attention_mask": self.mask} if self.masked else {})}
        logits, *present = self.session.run(["logits", *self.names], feed)
        self.past = {n.replace("present", "past_key_values"): v for n, v in zip(self.names, present)}
        return logits.astype(np.float32)

    def steps(self, tokens):
        return steps_of(tokens)

    def shift(self):  # a token behind the past that is seen, so that positions that are counted by the mask move, too
        self.past = {n: np.concatenate([v, np.zeros_like(v[:, :, :1])], 2) for n, v in self.past.items()}
        self.mask = np.concatenate([self.mask, np.ones_like(self.mask[:, :1])], 1)

    def drop_oldest(self):
        self.past = {n: v[:, :, 1:] for n, v in self.past.items()}
        self.mask = self.mask[:, 1:]

    def zero(self):
        self.past = {n: np.zeros_like(v) for n, v in self.past.items()}

    def zero_given(self):
        self.given = {n: v if "mask" in n else np.zeros_like(v) for n, v in self.given.items()}


class Window(Growing):
    """The model with a window of fixed size at the end of a sequence of fixed size."""

    def start(self, batch):
        self.window, self.sequence = self.shapes["input_ids"][1], self.shapes["attention_mask"][1] if self.masked else None
        self.mask, self.seen = np.zeros((batch, self.sequence or 0), np.int64), np.zeros((batch, 0), np.int64)
        self.past, self.given = self.empty(batch, next(s[2] for s in self.pasts().values())), first_rows(self.kept, batch)
        return self

    def before(self):
        """How many tokens came before, where the model asks: places, or what the mask has shown of each row."""
        shape = self.shapes.get("past_length")
        return {} if shape is None else {"past_length": np.array([self.seen.shape[1]]) if shape == [1] else self.seen.sum(1)}

    def __call__(self, ids, mask=None):
        fresh = np.ones_like(ids) if mask is None else mask
        self.mask = np.concatenate([self.mask, fresh], 1)[:, -self.sequence:]
        feed = {"input_ids": ids, "attention_mask": self.mask, **self.before(), **self.past, **self.given}
        logits, *present = self.session.run(["logits", *self.names], feed)
        self.seen = np.concatenate([self.seen, fresh], 1)
        self.past = {n.replace("present", "past_key_values"): v[:, :, self.window:] for n, v in zip(self.names, present)}
        return logits.astype(np.float32)

    def steps(self, tokens):
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
        self.room = next(s[2] for s in self.pasts().values())
        self.count, self.mask, self.given = 0, np.zeros((batch, 0), np.int64), first_rows(self.kept, batch)
        self.past = self.empty(batch, self.room)
        return self

    def __call__(self, ids, mask=None):
        self.mask = np.concatenate([self.mask, np.ones_like(ids) if mask is None else mask], 1)
        whole = self.masked and self.shapes["attention_mask"][1] == self.room  # else of past and new tokens
        padded = np.pad(self.mask, ((0, 0), (0, self.room - self.mask.shape[1]))) if whole else self.mask
        feed = {"input_ids": ids, "past_length": np.array([self.count]), "attention_mask": padded, **self.past, **self.given}
        feed = {n: v for n, v in feed.items() if n in self.shapes}
        logits, *present = self.session.run(["logits", *self.names], feed)
        self.past = {n.replace("present", "past_key_values"): v for n, v in zip(self.names, present)}
        self.count += ids.shape[1]
        return logits.astype(np.float32)

    def shift(self):  # what is not filled yet is 0
        self.mask = np.concatenate([self.mask, np.ones_like(self.mask[:, :1])], 1)
        self.count += 1

    def drop_oldest(self):
        self.past = {n: np.concatenate([v[:, :, 1:], v[:, :, -1:]], 2) for n, v in self.past.items()}
        self.mask = self.mask[:, 1:]
        self.count -= 1


class GroupQuery(Buffer):
    """Behind a past ONNX Runtime's GroupQueryAttention takes several tokens of one row alone."""

    def steps(self, tokens):
        return steps_of(tokens) if len(self.mask) == 1 else [8] + [1] * (tokens - 8)


MODES = {"growing": Growing, "window": Window, "buffer": Buffer, "tensor_scatter": Buffer, "group_query_attention": GroupQuery}


def steps_of(tokens):
    steps = [8]
    while sum(steps) < tokens:
        steps.append(min(3 if len(steps) % 5 == 0 else 1, tokens - sum(steps)))
    return steps


def scale_of(logits):
    return float(np.abs(logits).max())


def teacher_forced(whole, model, ids, mask, breaks=None, steps=None):
    """The largest difference by the scale of the logits, over tokens that see something."""
    reference = whole(ids, mask)
    model.start(ids.shape[0])
    at, worst, scale = 0, 0.0, scale_of(reference)
    steps = steps or model.steps(ids.shape[1])
    for i, count in enumerate(steps):
        if breaks and i == len(steps) // 2:
            breaks(model)
        part = slice(at, at + count)
        got = model(ids[:, part], mask[:, part])
        seen = mask[:, part].astype(bool)
        worst = float(np.maximum(worst, np.abs(got - reference[:, part])[seen].max(initial=0) / scale))  # NaN stays
        at += count
    return worst


class Generated:
    """The tokens of transformers' generate behind given ones. Those behind the prompt were kept when the model was exported."""

    def __init__(self, path, given):
        self.name, self.given = path.name.split(".")[0], given
        kept = np.load(path.parent / f"{self.name}.npz")
        self.prompt, self.tokens, self.model = kept["prompt"], kept["tokens"], None

    def behind(self, ids):
        if (self.tokens[:, :ids.shape[1]] != ids).any():
            self.tokens = self.generate(ids)
        return int(self.tokens[0, ids.shape[1]])

    def generate(self, ids):
        import export_cross
        import export_decoders
        import torch

        exporter = export_cross if self.given else export_decoders
        self.model = self.model or exporter.build(self.name)
        given = [torch.from_numpy(v[:1]) for v in self.given.values()]
        with torch.no_grad():
            return exporter.generate(self.model, torch.from_numpy(ids), self.tokens.shape[1] - ids.shape[1], *given).numpy()


class Greedy:
    """Generates by the cached model, beside the whole one and transformers' generate, which go on with our tokens."""

    def __init__(self, whole, model, generated, tolerance):
        self.worst, self.ties, self.other = 0.0, 0, 0
        model.start(1)
        ids, at = generated.prompt, 0
        width = getattr(model, "window", ids.shape[1])
        while ids.shape[1] < generated.tokens.shape[1]:
            while at < ids.shape[1]:
                logits = model(ids[:, at:at + width])[0, -1]
                at, width = at + width, getattr(model, "window", 1)
            token = self.take(logits, whole(ids)[0, -1], generated.behind(ids), tolerance)
            ids = np.concatenate([ids, [[token]]], 1)

    def take(self, logits, reference, generated, tolerance):
        scale, token = scale_of(reference), int(np.argmax(logits))
        self.worst = float(np.maximum(self.worst, np.abs(logits - reference).max() / scale))
        if token != int(np.argmax(reference)) or token != generated:
            second, first = np.sort(reference)[-2:]
            tie = first - second < tolerance * scale
            self.ties, self.other = self.ties + tie, self.other + (not tie)
        return token

    def __str__(self):
        same = "tokens as generate" if self.ties + self.other == 0 else f"{self.other} other tokens, {self.ties} ties"
        return f"greedy {self.worst:.1e}, {same}"


def moved_by_permutation(whole, ids):
    order = np.random.RandomState(2).permutation(ids.shape[1] - 1)
    a, b = whole(ids)[:, -1], whole(np.concatenate([ids[:, order], ids[:, -1:]], 1))[:, -1]
    return float(np.abs(a - b).max() / np.abs(a).max())


def looks_ahead(whole, ids):
    """How far logits move by tokens that come later."""
    reference = whole(ids)
    parts = (1, 2, ids.shape[1] // 2, ids.shape[1] - 1)
    return max(float(np.abs(whole(ids[:, :n]) - reference[:, :n]).max()) for n in parts) / scale_of(reference)


def sees_padding(whole, ids):
    """How far logits move by the tokens that the mask hides."""
    mask = np.ones_like(ids)
    mask[:, :4] = 0
    other = np.concatenate([ids[:, 4:8], ids[:, 4:]], 1)
    a, b = whole(ids, mask)[:, 4:], whole(other, mask)[:, 4:]
    return float(np.abs(a - b).max()) / scale_of(a)


def why_refused(path, mode):
    """What ONNX Runtime says of the model: why it can have no such cache, or nothing."""
    try:
        whole = Whole(path, given_to(path))
        ids = whole.draw(1, 64)
        ahead, hidden = looks_ahead(whole, ids), sees_padding(whole, ids) if mode == "window" else 0.0
    except Exception as error:  # noqa: BLE001
        return f"the export can't be run ({str(error).splitlines()[0][-160:]})"
    if ahead > TOLERANCES["fp32"]:
        return f"looks ahead by {ahead:.2f}"
    return f"hidden tokens move the logits by {hidden:.2f}" if hidden > TOLERANCES["fp32"] else ""


def passes_of(mode, args):
    buffer = {"mode": "buffer", "max_context": ROOM}
    fields = {"growing": {"mode": "growing"}, "buffer": buffer,
              "window": {"mode": "window", "window": args.window, "sequence": args.sequence, "max_context": args.sequence + 16}}
    cache = {"pass": "kv_cache", **fields.get(mode, {**buffer, "write": mode})}
    if args.dtype == "fp32":
        return [cache]
    words = ["slm", "model.onnx", "--dtype", args.dtype, "--print-passes", *(["--opset", args.opset] if args.opset else [])]
    first, *others = json.loads(subprocess.run([args.saturate, *words], capture_output=True, text=True, check=True).stdout)
    return [{**cache, "opset": 24 if mode == "tensor_scatter" else first["opset"]}, *others]  # TensorScatter begins there


def given_to(path):
    """Of an encoder-decoder: two rows of what the encoder gives, the first of which generate has had."""
    kept, random = np.load(path.parent / f"{path.name.split('.')[0]}.npz"), np.random.RandomState(6)
    rows = {i.name: kept[i.name] for i in session(path).get_inputs() if i.name.startswith("encoder_")}
    return {n: np.concatenate([v, np.ones_like(v) if "mask" in n else random.randn(*v.shape).astype(v.dtype)]) for n, v in rows.items()}


def cross_of(path, made, mode, given, args):
    """What the decoder takes of it: keys and values, made once, and the mask."""
    if not given:
        return {}
    if refused := transform(path, made, mode, args, {"model": "cross"}):
        raise RuntimeError(refused)
    cross = session(made)
    out = cross.run(None, {i.name: given[i.name].astype(TYPES.get(i.type, given[i.name].dtype)) for i in cross.get_inputs()})
    slots = {o.name.replace("present", "past_key_values"): v for o, v in zip(cross.get_outputs(), out)}
    return slots | {n: v for n, v in given.items() if "mask" in n}


def transform(path, made, mode, args, more={}):
    made.parent.mkdir(exist_ok=True)
    passes = made.with_suffix(".json")
    cache, *others = passes_of(mode, args)
    passes.write_text(json.dumps([cache | more, *others]))
    words = [args.saturate, "transform", path, "-o", made, "--passes", passes, *args.no_verify]
    run = subprocess.run(words, capture_output=True, text=True)
    passes.unlink()
    return run.stderr.strip() if run.returncode else None


def rows_that_run(whole, ids, mask):
    """Exports exist that take one row alone."""
    try:
        whole(ids, mask)
        return ids, mask
    except Exception:  # noqa: BLE001
        return ids[:1], mask[:1]


def check(path, mode, args):
    made = path.parent / "cached" / f"{path.stem}.{mode}.{args.dtype}.onnx"
    if refused := transform(path, made, mode, args):
        why = why_refused(path, mode)
        return ("refused" if why else "REFUSED"), f"{why or 'nothing is found that speaks against a cache'}: {refused[:300]}"
    tolerance = TOLERANCES[args.dtype]
    try:
        given = given_to(path)
        whole, model = Whole(path, given), MODES[mode](made, cross_of(path, made.with_suffix(".cross.onnx"), mode, given, args))
        ids = whole.draw(2, TOKENS if mode != "window" else args.sequence)
        mask = np.ones_like(ids)
        mask[1, :2] = 0
        ids, mask = rows_that_run(whole, ids, mask)
        difference = teacher_forced(whole, model, ids, mask)
        greedy = Greedy(whole, model, Generated(path, given), tolerance)
        breaks = [lambda m: m.shift(), lambda m: m.drop_oldest(), lambda m: m.zero(), *([lambda m: m.zero_given()] if given else [])]
        broken = [teacher_forced(whole, model, ids[:1], mask[:1], by) for by in breaks]
    except Exception as error:  # noqa: BLE001: the table tells it
        return "FAILS", str(error).splitlines()[0][:200]
    moved = moved_by_permutation(whole, ids[:1])
    good = max(difference, greedy.worst) <= tolerance and greedy.other == 0 and min(broken) > tolerance and moved >= MOVES
    return ("equal" if good else "DIFFERS"), (
        f"{difference:.1e}, {greedy}, past moves {moved:.2f}, broken {' '.join(f'{b:.1e}' for b in broken)}, rows {len(ids)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="as llama or llama.dynamo-18-sdpa; default: all")
    parser.add_argument("--modes", default="growing,window,buffer", help="of growing, window, buffer, and what writes into buffers: "
                        "tensor_scatter, group_query_attention")
    parser.add_argument("--dtype", choices=TOLERANCES, default="fp32")
    parser.add_argument("--opset", help="of the result in half precision")
    parser.add_argument("--no-verify", action="store_const", const=["--no-verify"], default=[], help="leave verifying to this script alone")
    parser.add_argument("--window", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--saturate", default=os.environ.get("SATURATE_BIN", "saturate"))
    args = parser.parse_args()
    paths = [p for p in sorted(args.folder.glob("*.onnx")) if not args.names or p.stem in args.names or p.name.split(".")[0] in args.names]
    counts = {}
    for path in paths:
        for mode in args.modes.split(","):
            word, rest = check(path, mode, args)
            for made in (path.parent / "cached").glob(f"{path.stem}.{mode}.{args.dtype}.*"):
                made.unlink()
            counts[mode, word] = counts.get((mode, word), 0) + 1
            print(f"{path.stem} {mode}: {word}: {rest}", flush=True)
    print(", ".join(f"{mode} {word}: {n}" for (mode, word), n in sorted(counts.items())))
    return 1 if any(word != "equal" and word != "refused" for _, word in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
