#!/usr/bin/env python3
"""Blocks written in random spellings (bench/spelled): is each one found, and does ONNX Runtime compute the same?

usage: spelling_fuzz.py [--cases N] [--seed S] [--calm P] [--kinds REGEX] [--singles] [--command 'saturate {in} -o {out} ...'] [--jobs N] [--save FOLDER]

A model is written by choices ("softmax = by exp and sum", "scale = root of it on both sides", ...). --singles makes one model for each option of each
choice, all others plain; otherwise N models draw their choices, each the plain one with probability P. The reference is ONNX Runtime on the plain
spelling with the same weights. A model with a missing block is brought to the fewest choices that lose it. Prints these, and a table of choices by the blocks they lose.
Exit status 1 where a block is missing or a result is wrong.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import edits  # noqa: E402
from edit_coverage import blocks, close  # noqa: E402
from spelled import Author, activations, attention, norms, wraps  # noqa: E402
from spelled.products import linear  # noqa: E402

SIZE = attention.SIZE
WHOLE = ("encoder", "decoder")  # made of the others
LAYER = ("LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization")
KINDS = ("layer_norm", "rms_norm", *activations.KINDS, "attention", "cross_attention", "gate", "encoder", "decoder")


def write(author, kind):
    """Writes a model of this kind; what it must hold, by family."""
    a, wanted = author, collections.Counter()
    x = a.input("x", a.random(2, 5, SIZE), ["batch", "seq", SIZE])
    memory = a.input("memory", a.random(2, 7, SIZE), ["batch", "keys", SIZE]) if kind == "cross_attention" else x

    def norm(value, family):
        wanted["norm"] += 1
        wanted["layer"] += family == "layer"
        with a.within(family):
            return wraps.around(a, value, lambda v: {"layer": norms.layer_norm, "rms": norms.rms_norm}[family](a, v, SIZE))

    def act(value, name):
        wanted["activation"] += 1
        with a.within(name):
            return wraps.around(a, value, lambda v: activations.activation(a, v, name))

    def attend(value, other):
        wanted["attention"] += 1
        with a.within("attention"):
            y, turned, normed = attention.attention(a, value, other)
        wanted["rope"] += turned
        wanted["norm"] += normed
        return y

    def mlp(value, name):
        with a.within("up"):
            up = linear(a, value, a.random(SIZE, 2 * SIZE, scale=SIZE ** -0.5), a.random(2 * SIZE, scale=0.1))
        hidden = act(up, name)
        with a.within("down"):
            return linear(a, hidden, a.random(2 * SIZE, SIZE, scale=SIZE ** -0.5), a.random(SIZE, scale=0.1))

    def gated(value):
        weights = a.random(SIZE, 2 * SIZE, scale=SIZE ** -0.5)
        if a.pick("gate", "apart", "packed") == "apart":
            with a.within("gate"):
                g = linear(a, value, weights[:, :SIZE])
            with a.within("up"):
                u = linear(a, value, weights[:, SIZE:])
        else:
            with a.within("packed"):
                both = linear(a, value, weights)
            cut = lambda i: a.op("Slice", both, *(a.initializer(np.int64([v])) for v in (i * SIZE, (i + 1) * SIZE, 2)))
            g, u = cut(0), cut(1)
        order = a.pick("gated", "plain", "swapped")
        s = act(g, "silu")
        y = a.op("Mul", *((s, u) if order == "plain" else (u, s)))
        with a.within("down"):
            return linear(a, y, a.random(SIZE, SIZE, scale=SIZE ** -0.5))

    x0 = wraps.noise(a, x)
    memory = x0 if kind != "cross_attention" else memory
    if kind == "layer_norm":
        y = norm(x0, "layer")
    elif kind == "rms_norm":
        y = norm(x0, "rms")
    elif kind in activations.KINDS:
        y = act(x0, kind)
    elif kind in ("attention", "cross_attention"):
        y = attend(x0, memory)
    elif kind == "gate":
        y = gated(x0)
    elif kind == "encoder":
        h = a.add(x0, attend(x0, x0))
        h = norm(h, "layer")
        h = a.add(mlp(h, a.pick("activation", "gelu", "gelu_tanh", "quick_gelu")), h)
        y = norm(wraps.noise(a, h), "layer")
    else:
        n = norm(x0, "rms")
        h = a.add(x0, attend(n, n))
        y = a.add(h, gated(norm(wraps.noise(a, h), "rms")))
    a.output(wraps.noise(a, y))
    return wanted


def written(kind, plan=None, seed=0, calm=0.5):
    author = Author(seed, plan, calm)
    wanted = write(author, kind)
    return author, wanted, author.model()


def optimized(model, command):
    """The result, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = folder + "/in.onnx", folder + "/out.onnx"
        onnx.save(model, source)
        done = subprocess.run([w.replace("{in}", source).replace("{out}", out) for w in shlex.split(command)], capture_output=True, text=True, timeout=300)
        if done.returncode:
            return None, f"exit status {done.returncode}: {done.stderr.strip()[-300:]}"
        return onnx.load(out), None


def judged(kind, command, plan=None, seed=0, calm=0.5):
    """(verdict, detail, author, model)"""
    author, wanted, model = written(kind, plan, seed, calm)
    try:
        expected = edits.run(model, author.feed)
    except Exception as error:
        return "refused", " ".join(str(error).split())[:300], author, model
    result, problem = optimized(model, command)
    if problem:
        return "bad", problem, author, model
    try:
        if not close(edits.run(result, author.feed), expected, 1e-3):
            return "bad", "other outputs", author, model
    except Exception as error:
        return "bad", f"ONNX Runtime refuses the result: {' '.join(str(error).split())[:300]}", author, model
    found = blocks(result)
    found["layer"] = sum(n.op_type in LAYER for n in result.graph.node)
    lost = {k: (found[k], n) for k, n in wanted.items() if found[k] < n}
    return ("lost", lost, author, model) if lost else ("found", None, author, model)


def fewest(kind, command, author, verdict):
    """The fewest choices other than the plain ones with this verdict."""
    plan = {k: v for k, v in author.choices.items() if v != author.options[k][0]}
    for key in sorted(plan, key=lambda k: k != "opset"):
        rest = {k: v for k, v in plan.items() if k != key}
        if judged(kind, command, rest)[0] == verdict:
            plan = rest
    return plan


def one(job):
    kind, plan, seed, calm, command, save = job
    verdict, detail, author, model = judged(kind, command, plan, seed, calm)
    if verdict in ("lost", "bad") and plan is None:
        plan = fewest(kind, command, author, verdict)
        verdict, detail, _, model = judged(kind, command, plan)
    if verdict in ("lost", "bad") and save:
        save.mkdir(parents=True, exist_ok=True)
        name = "+".join(f"{k}={v}" for k, v in plan.items()).replace("/", "_").replace(" ", "") or "plain"
        onnx.save(model, save / f"{kind}-{name[:150]}.onnx")
    return kind, verdict, detail, plan


def singles(kind):
    """Each option of each choice that a plain model meets, also those met after another one."""
    seen, open_plans = set(), [{}]
    while open_plans:
        plan = open_plans.pop(0)
        author = written(kind, plan)[0]
        yield plan
        if len(plan) > 1:
            continue
        for key, options in author.options.items():
            if re.search(r"#\d|constant$", key) and not key.startswith("constant"):
                continue
            for option in options[1:]:
                if (key, option) not in seen and key not in plan:
                    seen.add((key, option))
                    open_plans.append({**plan, key: option})


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calm", type=float, default=0.6)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--singles", action="store_true")
    parser.add_argument("--command", default="saturate {in} -o {out} --target ort-cpu --cost nodes --no-verify -q")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--save", type=pathlib.Path)
    return parser.parse_args()


def main():
    args = parse()
    kinds = [k for k in KINDS if re.search(args.kinds, k)]
    if args.singles:
        jobs = [(kind, plan, 0, 1.0, args.command, args.save) for kind in kinds if kind not in WHOLE for plan in singles(kind)]
    else:
        jobs = [(kinds[i % len(kinds)], None, args.seed * 1000003 + i, args.calm, args.command, args.save) for i in range(args.cases)]
    verdicts, blamed = collections.defaultdict(collections.Counter), collections.Counter()
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        for kind, verdict, detail, plan in pool.map(one, jobs, chunksize=4):
            verdicts[kind][verdict] += 1
            if verdict in ("lost", "bad", "refused"):
                print(f"{verdict.upper():8} {kind}: {detail} by {plan}", flush=True)
            if verdict in ("lost", "bad"):
                blamed.update(f"{k} = {v}" for k, v in plan.items())
    for choice, count in blamed.most_common(60):
        print(f"{count:5}  {choice}")
    for kind, counts in verdicts.items():
        print(f"{kind:16} {dict(counts)}")
    total = sum(verdicts.values(), collections.Counter())
    print(json.dumps(total))
    return 1 if total["lost"] or total["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
