"""Part `spellings`: blocks written in random spellings (bench/spelled): is each one found, and does ONNX Runtime compute the same?

A model is written by choices ("softmax = by exp and sum", "scale = root of it on both sides", ...), each the plain one with probability CALM. With
--singles there is one model for each option of each choice, all others plain. The reference is ONNX Runtime on the plain spelling with the same
weights. A model with a missing block is brought to the fewest choices that lose it.
"""
import collections
import re
import shlex
import subprocess
import tempfile

import edits
import numpy as np
import onnx
import rooms  # noqa: F401
from edit_coverage import blocks, close
from spelled import Author, activations, attention, norms, wraps
from spelled.products import linear

from .workers import outcome

CALM = 0.6

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


def plans(kinds):
    """Of --singles: jobs are (kind, plan)."""
    return ((kind, plan) for kind in KINDS if kind not in WHOLE and re.search(kinds, kind) for plan in singles(kind))


def work(job, settings):
    """Of a seed, or of a kind and its plan."""
    command = f"{settings['command']} {{in}} -o {{out}} --target ort-cpu@1.31 --cost nodes --no-verify -q"
    if isinstance(job, tuple):
        (kind, plan), seed = job, 0
    else:
        kinds = [k for k in KINDS if re.search(settings["kinds"], k)]
        kind, plan, seed = kinds[job % len(kinds)], None, job
    verdict, detail, author, model = judged(kind, command, plan, seed, CALM if plan is None else 1.0)
    if verdict in ("lost", "bad") and plan is None:
        plan = fewest(kind, command, author, verdict)
        verdict, detail, author, model = judged(kind, command, plan)
    if verdict in ("lost", "bad"):
        return [outcome("wrong" if verdict == "bad" else verdict, f"{kind}: {detail} by {plan}", model=model, feed=author.feed)]
    return [outcome(verdict)]
