"""Chains of views drawn at random (Reshape, Transpose, Unsqueeze, Squeeze, with axes of size 1 in all places) between products and activations: what comes
out equals the original in ONNX Runtime, and saturation ends by itself."""
import json
import random

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run_ok, tensor, value

CHAINS = 40


def cut_again(dims, draw):
    """The same number of elements in other dims, with ones among them."""
    primes = []
    for d in dims:
        for p in (2, 3):
            while d % p == 0:
                primes.append(p)
                d //= p
    joined = []
    for p in primes:
        if joined and draw.random() < 0.5:
            joined[-1] *= p
        else:
            joined.append(p)
    out = []
    for d in [*joined, None]:
        while draw.random() < 0.25 and len(out) < 4:
            out.append(1)
        if d is not None:
            out.append(d)
    return out


def step(draw, dims, batch):
    """A node's operator, its constant if it has one, its attributes, the dims it makes and where the batch is then. None: this one does not fit here."""
    kind = draw.choice(["Transpose", "Transpose", "Reshape", "Reshape", "Reshape", "Unsqueeze", "Squeeze", "Relu", "MatMul"])
    if kind == "Transpose":
        perm = draw.sample(range(len(dims)), len(dims))
        return kind, None, {"perm": perm}, [dims[p] for p in perm], perm.index(batch)
    if kind == "Reshape":
        before, after = cut_again(dims[:batch], draw), cut_again(dims[batch + 1:], draw)
        return kind, np.array([*before, -1, *after], np.int64), {}, [*before, dims[batch], *after], len(before)
    if kind == "Unsqueeze":
        at = draw.randint(0, len(dims))
        return kind, np.array([at], np.int64), {}, [*dims[:at], 1, *dims[at:]], batch + (at <= batch)
    if kind == "Squeeze":
        ones = [i for i, d in enumerate(dims) if d == 1 and i != batch]
        if not ones:
            return None
        at = draw.choice(ones)
        return kind, np.array([at], np.int64), {}, dims[:at] + dims[at + 1:], batch - (at < batch)
    if kind == "MatMul":
        if len(dims) < 2 or batch == len(dims) - 1:
            return None
        columns = draw.choice([1, 2, 4])
        weight = np.random.default_rng(len(dims)).standard_normal((dims[-1], columns)).astype(np.float32)
        return kind, weight, {}, [*dims[:-1], columns], batch
    return kind, None, {}, dims, batch


def chain(seed):
    """A model of at most nine steps, its batch open or not, and the dims of its input."""
    draw = random.Random(seed)
    start = [draw.choice([1, 2, 3]), *(draw.choice([1, 2, 3, 4, 6]) for _ in range(draw.randint(1, 4)))]
    nodes, constants, dims, batch, x = [], [], start, 0, "x"
    for k in range(draw.randint(3, 9)):
        made = step(draw, dims, batch)
        if made is None or len(made[3]) > 7:
            continue
        kind, constant, attributes, dims, batch = made
        if constant is not None:
            constants.append(tensor(f"c{k}", constant))
        nodes.append(helper.make_node(kind, [x] if constant is None else [x, f"c{k}"], [f"v{k}"], **attributes))
        x = f"v{k}"
    nodes.append(helper.make_node("Identity", [x], ["y"]))
    is_open = draw.random() < 0.5
    named = lambda shape, at: ["b" if i == at and is_open else d for i, d in enumerate(shape)]
    return make_model(nodes, [value("x", TensorProto.FLOAT, named(start, 0))], [value("y", TensorProto.FLOAT, named(dims, batch))], constants), start


@pytest.mark.parametrize("seed", range(CHAINS))
def test_chains_of_views(tmp_path, seed):
    model, dims = chain(seed)
    onnx.save(model, tmp_path / "in.onnx")
    run_ok(tmp_path / "in.onnx", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes", "--report", tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["saturation"]["stop_reason"] == "saturated"
    feeds = {"x": np.random.default_rng(seed).standard_normal(dims).astype(np.float32)}
    before, after = (ort.InferenceSession(str(tmp_path / name), providers=["CPUExecutionProvider"]).run(None, feeds)[0] for name in ("in.onnx", "out.onnx"))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
