"""Models of the patterns in extract/runtimes/fusions.json: the spelling that ONNX Runtime is said to fuse, and nothing else."""
import json
import re

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TOKEN = re.compile(r'\s*(\.\.\.|[A-Za-z_][\w.]*(?:::\w+)?|-?\d+(?:\.\d+)?|"[^"]*"|[\[\]():,=!*|])')


def parse(text):
    """As ("op", name, operators, attributes, inputs), ("value", name, constant), ("number", n) and ("rest",)."""
    words, end = [], 0
    while end < len(text):
        found = TOKEN.match(text, end)
        words.append(found[1])
        end = found.end()
    words.reverse()

    def term():
        name, word = None, words.pop()
        if words and words[-1] == "=":
            words.pop()
            name, word = word, words.pop()
        if re.match(r"-?\d", word):
            return ("number", float(word))
        if word == "...":
            return ("rest",)
        operators = [word]
        while words and words[-1] == "|":
            words.pop()
            operators.append(words.pop())
        attributes = {}
        if words and words[-1] == "[":
            text_of = ""
            words.pop()
            while (word := words.pop()) != "]":
                text_of += word
                if word == "[":
                    while (word := words.pop()) != "]":
                        text_of += word
                    text_of += "]"
            for part in re.split(r",(?![^\[]*\])", text_of):
                if not part.startswith("*"):
                    key, value = part.split(":", 1)
                    attributes[key] = json.loads(value)
        if words and words[-1] == "(":
            words.pop()
            inputs = [term()]
            while words.pop() == ",":
                inputs.append(term())
            return ("op", name, operators, attributes, inputs)
        constant = bool(words) and words[-1] == "!"
        if constant:
            words.pop()
        return ("value", operators[0], constant)

    out = term()
    assert not words, text
    return out


OUTPUTS = {"DynamicQuantizeLinear": 3}
RANKED = {0: [], 1: [8], 2: [4, 8], 3: [2, 4, 8], 4: [2, 3, 4, 8]}


class Builder:
    """`fusion`: an entry of the table; `first`: which alternative stands at the top. Values that are no constants come from a Neg each, so
    that they are no inputs of the graph."""

    def __init__(self, fusion, opset=17, first=0):
        self.fusion, self.opset, self.first = fusion, opset, first
        self.nodes, self.initializers, self.inputs, self.named, self.numbers = [], {}, {}, {}, {}
        self.shapes = dict(fusion.get("example", {}).get("shapes", {}))
        self.integers = dict(fusion.get("example", {}).get("integers", {}))
        self.types = dict(fusion.get("example", {}).get("types", {}))  # of values that are no floats
        self.random = np.random.default_rng(0)

    def shape_of(self, name):
        ranks = self.fusion.get("ranks", {}).get(name)
        if name in self.fusion.get("one_element", []):
            return self.shapes.get(name, [])
        return self.shapes.get(name, RANKED[ranks[0]] if ranks else [2, 4, 8])

    def value(self, name, constant):
        if name in self.named:
            return self.named[name]
        if name in self.integers:
            self.initializers[name] = np.array(self.integers[name], np.int64)
            self.named[name] = name
        elif constant:
            numbers = self.random.random(self.shape_of(name)) + 0.5
            self.initializers[name] = (numbers * (10 if name in self.types else 1)).astype(self.types.get(name, "float32"))
            self.named[name] = name
        elif name in self.types:  # few operators take 8 bits
            self.inputs[name] = self.shape_of(name)
            self.named[name] = name
        else:
            self.inputs[name] = self.shape_of(name)
            self.nodes.append(helper.make_node("Not" if self.types.get(name) == "bool" else "Neg", [name], [f"{name}.neg"]))
            self.named[name] = f"{name}.neg"
        return self.named[name]

    def term(self, term, top=False):
        kind = term[0]
        if kind == "number":
            name = self.numbers.setdefault(term[1], f"number{len(self.numbers)}")
            shape = [1] if self.fusion.get("example", {}).get("vectors") else []
            dtype = np.int64 if shape else np.float32
            self.initializers[name] = np.full(shape, term[1], dtype)
            return name
        if kind == "value":
            return self.value(term[1], term[2])
        _, name, operators, attributes, inputs = term
        domain, _, op = operators[self.first if top else 0].rpartition("::")
        names = [self.term(child) for child in inputs if child[0] != "rest"]
        attributes = dict(attributes) | self.fusion.get("example", {}).get("attributes", {}).get(op, {})
        if op.startswith("Reduce") and self.opset < 18 and len(names) > 1:
            attributes["axes"] = self.integers[names.pop()]
        output = f"value{len(self.nodes)}"
        outputs = [output, f"{output}.1", f"{output}.2"][:OUTPUTS.get(op, 1)]
        self.nodes.append(helper.make_node(op, names, outputs, domain=domain, **attributes))
        if name:
            self.named |= {f"{name}.{i}": o for i, o in enumerate(outputs)}
        if name:
            self.named[name] = output
        return output

    def model(self):
        out = self.term(parse(self.fusion["pattern"]), top=True)
        self.nodes.append(helper.make_node("Neg", [out], ["out"]))
        used = {name for node in self.nodes for name in node.input}
        graph = helper.make_graph(
            self.nodes, "pattern", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(self.types.get(n, "float32"))), s) for n, s in self.inputs.items()],
            [helper.make_empty_tensor_value_info("out")], [numpy_helper.from_array(v, k) for k, v in self.initializers.items() if k in used])
        graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)])
