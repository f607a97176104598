"""The attention block whose cycles figures.csv holds, with its heads together (MHA) and apart (SHA).

D = 1152, N = 4 heads, K = 1 for keys and values, H = 256, a cache of 1280: projections of q, k, v and o, rotary embedding of halves,
Concat of the cache, a mask that is added. MHA is 4-D with the key shared by the heads; SHA is 3-D head by head, the weights of q split.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

D, N, H, CACHE = 1152, 4, 256, 1280


class Block:
    def __init__(self, rows, apart):
        self.rows, self.apart = rows, apart
        self.nodes, self.weights, self.random = [], [], np.random.default_rng(0)

    def node(self, op, *inputs, outputs=1, **attributes):
        names = [f"{op.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array((self.random.standard_normal(shape) / 32).astype(np.float32), name))
        return name

    def ints(self, *values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def rotated(self, x):
        first = self.node("Slice", x, self.ints(0), self.ints(H // 2), self.ints(-1))
        second = self.node("Slice", x, self.ints(H // 2), self.ints(H), self.ints(-1))
        turned = self.node("Concat", self.node("Neg", second), first, axis=-1)
        return self.node("Add", self.node("Mul", x, "cos"), self.node("Mul", turned, "sin"))

    def scores_to_values(self, q, k, v):
        scores = self.node("Mul", self.node("MatMul", q, k), self.weight())
        masked = self.node("Add", scores, "mask")
        return self.node("MatMul", self.node("Softmax", masked, axis=-1), v)

    def heads_together(self, k, v):
        q = self.node("Reshape", self.node("MatMul", "x", self.weight(D, N * H)), self.ints(1, self.rows, N, H))
        q = self.rotated(self.node("Transpose", q, perm=[0, 2, 1, 3]))
        out = self.scores_to_values(q, k, v)
        return self.node("Reshape", self.node("Transpose", out, perm=[0, 2, 1, 3]), self.ints(1, self.rows, N * H))

    def heads_apart(self, k, v):
        heads = [self.rotated(self.node("MatMul", "x", self.weight(D, H))) for _ in range(N)]
        return self.node("Concat", *[self.scores_to_values(q, k, v) for q in heads], axis=-1)

    def model(self):
        lead = [1] if self.apart else [1, 1]
        whole = lambda x: x if self.apart else self.node("Reshape", x, self.ints(1, 1, self.rows, H))
        k = self.rotated(whole(self.node("MatMul", "x", self.weight(D, H))))
        v = whole(self.node("MatMul", "x", self.weight(D, H)))
        k = self.node("Concat", "past_k", k, axis=-2)
        v = self.node("Concat", "past_v", v, axis=-2)
        turned = self.node("Transpose", k, perm=[*range(len(lead)), len(lead) + 1, len(lead)])
        joined = self.heads_apart(turned, v) if self.apart else self.heads_together(turned, v)
        y = self.node("MatMul", joined, self.weight(N * H, D))
        value = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        total = CACHE + self.rows
        inputs = [value("x", 1, self.rows, D), value("cos", *lead, self.rows, H), value("sin", *lead, self.rows, H),
                  value("past_k", *lead, CACHE, H), value("past_v", *lead, CACHE, H), value("mask", *lead, self.rows, total)]
        outputs = [value(y, 1, self.rows, D), value(k, *lead, total, H), value(v, *lead, total, H)]
        graph = helper.make_graph(self.nodes, "block", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def write(folder):
    """The path of each graph by (rows, form); those of equal rows are named as `saturate cost eval` groups equal graphs."""
    paths = {}
    for rows in (1, 128):
        for number, form in enumerate(("MHA", "SHA")):
            paths[rows, form] = folder / f"block_{rows}.{number:04}.onnx"
            model = Block(rows, form == "SHA").model()
            onnx.checker.check_model(model)
            onnx.save(model, paths[rows, form])
    return paths
