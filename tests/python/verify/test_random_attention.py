"""An attention block, rewritten by random equalities, must fuse and still compute the same."""
import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import run_ok

ort = pytest.importorskip("onnxruntime")
HEADS, SIZE, HIDDEN = 2, 4, 8
ATTENTION = {"Attention", "MultiHeadAttention", "GroupQueryAttention"}


class Block:
    """Writes one self-attention block; every choice is drawn from `rnd`."""

    def __init__(self, rnd):
        self.rnd, self.nodes, self.constants, self.count = rnd, [], [], 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def const(self, array):
        name, array = self.name(), np.asarray(array)
        if self.rnd.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.constants.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def noise(self, x):
        choice = self.rnd.randrange(12)
        if choice == 0:
            return self.op("Identity", x)
        if choice == 1:
            return self.op("Cast", x, to=TensorProto.FLOAT)
        if choice == 2:
            return self.mul(x, self.const(np.float32(1)))
        if choice == 3:
            return self.op("Neg", self.op("Neg", x))
        return x

    def commuted(self, kind, a, b):
        return self.op(kind, *((a, b) if self.rnd.random() < 0.5 else (b, a)))

    def add(self, a, b):
        return self.noise(self.commuted("Add", a, b))

    def mul(self, a, b):
        return self.commuted("Mul", a, b)

    def times(self, x, number):
        choice, shape = self.rnd.randrange(3), self.rnd.choice([(), (1,)])
        if choice == 0:
            return self.op("Div", x, self.const(np.full(shape, 1 / number, np.float32)))
        if choice == 1 and number == 0.5:
            return self.op("Div", x, self.op("Sqrt", self.const(np.float32(4))))
        return self.noise(self.mul(x, self.const(np.full(shape, number, np.float32))))

    def project(self, x, weight, bias):
        choice = self.rnd.randrange(3)
        if choice == 0:
            product = self.op("MatMul", x, self.const(weight))
        elif choice == 1:
            product = self.op("Einsum", x, self.const(weight), equation="bsh,hd->bsd")
        else:
            product = self.op("MatMul", x, self.op("Transpose", self.const(np.ascontiguousarray(weight.T)), perm=[1, 0]))
        return self.noise(self.add(product, self.const(bias)))

    def reshaped(self, x, to):
        """`to` in one of its spellings; 0 stands for batch (at 0) and sequence (at 1)."""
        if self.rnd.random() < 0.5 or to.count(0) == 0:
            return self.op("Reshape", x, self.const(np.array(to, np.int64)))
        shape, parts = self.op("Shape", "x"), []
        for i, d in enumerate(to):
            if d == 0:
                parts.append(self.op("Unsqueeze", self.op("Gather", shape, self.const(np.int64(i))), self.const(np.array([0], np.int64))))
            else:
                parts.append(self.const(np.array([d], np.int64)))
        return self.op("Reshape", x, self.op("Concat", *parts, axis=0))

    def heads(self, x):
        x = self.reshaped(x, self.rnd.choice([[0, 0, HEADS, SIZE], [0, 0, -1, SIZE], [0, 0, HEADS, -1]]))
        return self.noise(self.op("Transpose", x, perm=[0, 2, 1, 3]))

    def scores(self, q, k):
        """Q K^T / 2 over [B, H, S, S], or over [B * H, S, S]; the second says so."""
        where = self.rnd.choice(["q", "k", "both", "after"])
        if where in ("q", "both"):
            q = self.times(q, 0.5 if where == "q" else 0.5**0.5)
        if where in ("k", "both"):
            k = self.times(k, 0.5 if where == "k" else 0.5**0.5)
        form = self.rnd.choice(["4d", "4d", "two_steps", "3d", "einsum"])
        if form == "einsum":
            s = self.op("Einsum", q, k, equation="bhqd,bhkd->bhqk")
        elif form == "3d":
            q3, k3 = (self.op("Reshape", t, self.merged()) for t in (q, k))
            s = self.op("MatMul", q3, self.op("Transpose", k3, perm=[0, 2, 1]))
        elif form == "two_steps":
            back = self.op("Transpose", k, perm=[0, 2, 1, 3])
            s = self.op("MatMul", q, self.op("Transpose", back, perm=[0, 2, 3, 1]))
        else:
            s = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        return (self.times(s, 0.5) if where == "after" else s), form == "3d"

    def merged(self, last=SIZE):
        shape = self.op("Shape", "x")
        batch, seq = (self.op("Slice", shape, self.const(np.array([i], np.int64)), self.const(np.array([i + 1], np.int64))) for i in (0, 1))
        rows = self.op("Mul", batch, self.const(np.array([HEADS], np.int64)))
        return self.op("Concat", rows, seq, self.const(np.array([last], np.int64)) if last else seq, axis=0)

    def masked(self, s):
        form = self.rnd.choice(["none", "add", "where", "where_not", "sub", "product", "scaled"])
        if form == "none":
            return s, False
        ints = self.op("Unsqueeze", "mask", self.const(np.array([1, 2], np.int64)))
        if form in ("where", "where_not"):
            fill = self.const(np.float32(self.rnd.choice([-1e9, -1e4, np.finfo(np.float32).min])))
            if form == "where":
                return self.op("Where", self.op("Cast", ints, to=TensorProto.BOOL), s, fill), True
            return self.op("Where", self.op("Equal", ints, self.const(np.int64(0))), fill, s), True
        kept = self.op("Cast", ints, to=TensorProto.FLOAT)
        hidden = self.op("Sub", self.const(np.float32(1)), kept)
        if form == "sub":
            return self.op("Sub", s, self.mul(hidden, self.const(np.float32(1e4)))), True
        if form == "scaled":
            return self.times(self.add(self.op("Div", s, self.const(np.float32(0.25))), self.mul(hidden, self.const(np.float32(-1e5)))), 0.25), True
        if form == "product":
            return self.add(s, self.mul(self.op("Neg", hidden), self.const(np.float32(1e4)))), True
        return self.add(s, self.mul(hidden, self.const(np.float32(-1e4)))), True

    def softmax(self, s):
        form = self.rnd.choice(["plain", "plain", "positive", "hand", "log"])
        if form == "hand":
            axes = self.const(np.array([-1], np.int64))
            e = self.op("Exp", self.op("Sub", s, self.op("ReduceMax", s, axes, keepdims=1)))
            return self.op("Div", e, self.op("ReduceSum", e, axes, keepdims=1))
        if form == "log":
            return self.op("Exp", self.op("LogSoftmax", s, axis=-1))
        return self.noise(self.op("Softmax", s, axis=3 if form == "positive" else -1))

    def write(self, weights):
        q, k, v = (self.heads(self.project("x", w, b)) for w, b in weights)
        s, flat = self.scores(q, k)
        if flat:
            shape = self.op("Shape", "x")
            batch, seq = (self.op("Slice", shape, self.const(np.array([i], np.int64)), self.const(np.array([i + 1], np.int64))) for i in (0, 1))
            s = self.op("Reshape", s, self.op("Concat", batch, self.const(np.array([HEADS], np.int64)), seq, seq, axis=0))
        s, masked = self.masked(s)
        p = self.softmax(s)
        if flat and self.rnd.random() < 0.5:
            p3, v3 = self.op("Reshape", p, self.merged(None)), self.op("Reshape", v, self.merged())
            y3 = self.op("MatMul", p3, v3)
            shape = self.op("Shape", "x")
            batch, seq = (self.op("Slice", shape, self.const(np.array([i], np.int64)), self.const(np.array([i + 1], np.int64))) for i in (0, 1))
            y = self.op("Reshape", y3, self.op("Concat", batch, self.const(np.array([HEADS], np.int64)), seq, self.const(np.array([SIZE], np.int64)), axis=0))
        elif self.rnd.random() < 0.2:
            y = self.op("Einsum", p, v, equation="bhqk,bhkd->bhqd")
        else:
            y = self.op("MatMul", p, v)
        y = self.reshaped(self.op("Transpose", self.noise(y), perm=[0, 2, 1, 3]), self.rnd.choice([[0, 0, HIDDEN], [0, 0, -1]]))
        self.nodes.append(helper.make_node("Tanh", [y], ["y"]))
        return masked


def model_of(seed):
    rnd, numbers = random.Random(seed), np.random.default_rng(seed)
    block = Block(rnd)
    weights = [(numbers.standard_normal((HIDDEN, HIDDEN)).astype(np.float32) / 3, numbers.standard_normal(HIDDEN).astype(np.float32)) for _ in range(3)]
    masked = block.write(weights)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", HIDDEN])]
    if masked:
        inputs.append(helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "seq"]))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", HIDDEN])]
    graph = helper.make_graph(block.nodes, "block", inputs, outputs, block.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), masked


def outputs_of(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


@pytest.mark.parametrize("seed", range(60))
def test_a_rewritten_block_fuses(tmp_path, seed):
    model, masked = model_of(seed)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes", "-q")
    made = [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node]
    assert sum(op in ATTENTION for op in made) == 1, made
    assert "Softmax" not in made
    numbers = np.random.default_rng(seed)
    feeds = {"x": numbers.standard_normal((3, 5, HIDDEN)).astype(np.float32)}
    if masked:
        feeds["mask"] = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0], [1, 0, 0, 0, 0]], np.int64)
    np.testing.assert_allclose(outputs_of(tmp_path / "out.onnx", feeds), outputs_of(tmp_path / "in.onnx", feeds), atol=1e-5)


# Sizes that are declared under different names, and that this model takes apart: nothing says that they agree.
@pytest.mark.parametrize("keys, mask", [("other", None), ("seq", "other"), ("other", "seq"), ("other", "third")])
def test_different_names_are_not_equated(tmp_path, keys, mask):
    float32 = TensorProto.FLOAT
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["s"]),
             *([helper.make_node("Add", ["s", "m"], ["a"])] if mask else []), helper.make_node("Softmax", ["a" if mask else "s"], ["p"], axis=-1),
             helper.make_node("MatMul", ["p", "v"], ["y"])]
    inputs = [("q", ["batch", 2, "seq", 4]), ("k", ["kbatch", 2, keys, 4]), ("v", ["batch", 2, keys, 4]), *([("m", ["batch", 1, 1, mask])] if mask else [])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, float32, s) for n, s in inputs], [helper.make_tensor_value_info("y", float32, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "in.onnx")
    run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes", "-q")
    numbers = np.random.default_rng(0)
    for sizes in (dict(batch=3, kbatch=1, seq=5, other=7, third=7), dict(batch=1, kbatch=3, seq=5, other=7, third=1), dict(batch=3, kbatch=3, seq=7, other=7, third=7),
                  dict(batch=2, kbatch=2, seq=1, other=1, third=5)):
        feeds = {n: numbers.standard_normal([sizes.get(d, d) for d in s]).astype(np.float32) for n, s in inputs}
        try:
            wanted = outputs_of(tmp_path / "in.onnx", feeds)
        except Exception:  # these sizes don't go together
            continue
        np.testing.assert_allclose(outputs_of(tmp_path / "out.onnx", feeds), wanted, atol=1e-5)
