"""Attention as NPU documents draw it: heads folded into rows (Gemma3, prefill; decode is T = 1), and a choice by NotEqual ("Select").

`gemma(...)` and `select(...)` give a model of any sizes. Run as a program it writes one: `heads_graphs.py prefill out.onnx --T 128 --N 4`.
"""
import argparse

import numpy as np
import onnx
from onnx import helper, numpy_helper

DOCUMENT = {"B": 1, "T": 128, "N": 4, "K": 1, "H": 256, "L": 1280}  # Gemma3 1B; L is the length of the cache


class Graph:
    """Collects nodes; every method that adds one returns the name of its value."""

    def __init__(self, dtype=np.float32):
        self.nodes, self.constants, self.dtype = [], [], np.dtype(dtype)

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"{op.lower()}_{len(self.nodes)}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value, dtype=None):
        array = np.asarray(value, dtype or self.dtype)
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def reshape(self, x, shape):
        return self.add("Reshape", x, self.constant(shape, np.int64))

    def transpose(self, x, perm):
        return self.add("Transpose", x, perm=perm)

    def slice(self, x, start, end, axis):
        return self.add("Slice", x, *[self.constant([i], np.int64) for i in (start, end, axis)])

    def model(self, inputs, outputs, opset=18):
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        value = lambda name, shape, dtype=kind: helper.make_tensor_value_info(name, dtype, shape)
        nodes = self.nodes + [helper.make_node("Identity", [made], [name]) for name, (made, _) in outputs.items()]
        graph = helper.make_graph(nodes, "heads", [value(n, *s) for n, s in inputs.items()], [value(n, s) for n, (_, s) in outputs.items()], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        return model


def gemma(B=1, T=128, N=4, K=1, H=256, L=1280, opset=18, dtype=np.float32):
    """Gemma3's attention: N heads of queries are rows of one matrix beside the one head of keys. T = 1 is a step of decoding."""
    assert K == 1, "the figure folds all heads of queries into rows of one matrix, so there is one head of keys"
    g = Graph(dtype)
    q = g.transpose(g.add("Mul", "rope", g.constant(H**-0.5)), [0, 2, 1, 3])
    rows = g.reshape(q, [B, 1, N * T, H])
    k_slice = g.reshape("k", [B, 1, K * T, H])
    v_slice = g.transpose("v", [0, 2, 3, 1])
    scores = g.add("Concat", g.add("MatMul", rows, g.transpose("k_cache", [0, 1, 3, 2])), g.add("MatMul", rows, g.transpose(k_slice, [0, 1, 3, 2])), axis=3)
    masked = g.add("Add", g.reshape(scores, [B, N, T, L + K * T]), "mask")
    weights = g.add("Softmax", g.reshape(masked, [B, 1, N * T, L + K * T]), axis=3)
    old = g.add("MatMul", g.slice(weights, 0, L, 3), g.transpose("v_cache", [0, 1, 3, 2]))
    new = g.add("MatMul", g.slice(weights, L, L + K * T, 3), g.transpose(v_slice, [0, 1, 3, 2]))
    heads = g.transpose(g.reshape(g.add("Add", old, new), [B, N, T, H]), [0, 2, 1, 3])
    inputs = {"rope": ([B, T, N, H],), "k_cache": ([B, 1, K * L, H],), "k": ([B, K * T, 1, H],), "mask": ([B, 1, T, L + K * T],),
              "v_cache": ([B, 1, H, K * L],), "v": ([B, K * T, 1, H],)}
    return g.model(inputs, {"fc_in": (g.reshape(heads, [B, T, N * H]), [B, T, N * H]), "k_out": (k_slice, [B, 1, K * T, H]), "v_out": (v_slice, [B, 1, H, K * T])}, opset)


def select(B=1, T=128, N=4, K=1, H=256, L=1280, opset=18, layers=1, fill=-1e9, dtype=np.float32, scales=False):
    """Attention that chooses scores by a mask; the second product is V times the transposed probabilities. All layers share the choice.

    `scales`: those of queries and keys are inputs."""
    del K
    g = Graph(dtype)
    seen = g.add("Not", g.add("Equal", g.reshape("mask", [B, 1, T, L]), g.constant(0)))  # NotEqual
    inputs, outputs = {"mask": ([B, T, L],)}, {}
    for i in range(layers):
        inputs |= {f"q{i}": ([B, T, N, H],), f"k{i}": ([B, L, N, H],), f"v{i}": ([B, L, N, H],)}
        if scales:
            inputs |= {f"q{i}_scale": ([H],), f"k{i}_scale": ([H],)}
        scale = lambda name: f"{name}_scale" if scales else g.constant(H**-0.25)
        q = g.transpose(g.add("Mul", f"q{i}", scale(f"q{i}")), [0, 2, 1, 3])
        k = g.transpose(g.add("Mul", f"k{i}", scale(f"k{i}")), [0, 2, 3, 1])
        scores = g.add("Where", seen, g.add("MatMul", q, k), g.constant(fill))
        weights = g.transpose(g.add("Softmax", scores, axis=3), [0, 1, 3, 2])  # adj_y
        heads = g.add("MatMul", g.transpose(f"v{i}", [0, 2, 3, 1]), weights)
        outputs[f"out{i}"] = (g.transpose(heads, [0, 3, 1, 2]), [B, T, N, H])
    return g.model(inputs, outputs, opset)


FORMS = {"prefill": gemma, "decode": lambda **sizes: gemma(**(sizes | {"T": 1})), "select": select}


def draw(model, seed=0):
    """Inputs: numbers around 0; a mask that hides the future of the last T positions (by -inf where it is added, by 0 where it chooses)."""
    random = np.random.default_rng(seed)
    feeds = {}
    for i in model.graph.input:
        shape, dtype = [d.dim_value for d in i.type.tensor_type.shape.dim], helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        feeds[i.name] = random.standard_normal(shape).astype(dtype)
        if i.name == "mask":
            t, s = shape[-2:]
            seen = np.tri(t, s, s - t) * np.ones(shape)
            feeds[i.name] = (seen if len(shape) == 3 else np.where(seen > 0, 0, -1e4)).astype(dtype)
    return feeds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("output")
    for name, default in DOCUMENT.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--opset", type=int, default=18)
    given = vars(parser.parse_args())
    form, output = given.pop("form"), given.pop("output")
    onnx.save(FORMS[form](**given), output)
