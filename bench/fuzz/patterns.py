"""What rules look for, put into random contexts: left sides of rules on their examples and random instances (`saturate rules examples`), with
inputs that other operators make, operands in the other order, detours inside, inner values that others need, changed numbers."""
import collections
import functools
import pathlib
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .graphs import Unfit

COMMUTATIVE = ("Add", "Mul", "And", "Or", "Xor", "Max", "Min", "Equal", "Sum")
OPSETS = (18, 20, 21, 23, 24)
ODD_NUMBERS = (0, 1, -1, 2, 0.5, 1e-3, 1.0001, -1e4, np.inf, -np.inf, np.nan)


def write(folder, command, seed=1, instances=12):
    """The models of all rules into a folder."""
    subprocess.run([*command, "rules", "examples", str(folder), "--instances", str(instances), "--seed", str(seed), "-q"], check=True)


class Pool:
    """The models of a folder, by rule."""

    def __init__(self, folder, rare=()):
        self.by_rule = collections.defaultdict(lambda: ([], []))
        for path in sorted(pathlib.Path(folder).glob("*.onnx")):
            rule, _, rest = path.name.removesuffix(".onnx").rpartition(".")
            applies = rest != "not"
            self.by_rule[rule if applies else rule.rpartition(".")[0]][0 if applies else 1].append(path)
        self.rules = sorted(self.by_rule)
        self.rare = [rule for rule in self.rules if rule in set(rare)]  # drawn every other time

    def draw(self, g):
        """(rule, model): mostly of an instance that the rule applies to."""
        rule = g.pick(self.rare if self.rare and g.chance(0.5) else self.rules)
        applies, other = self.by_rule[rule]
        return rule, loaded(g.pick(other if other and (not applies or g.chance(0.12)) else applies))


def oldest_opset(model):
    """The oldest version of ai.onnx in which its nodes mean the same."""
    newest = next((o.version for o in model.opset_import if not o.domain), 1)
    names = {n.op_type for n in model.graph.node if not n.domain}
    return max((onnx.defs.get_schema(name, newest).since_version for name in names if onnx.defs.has(name)), default=1)


@functools.lru_cache(4096)
def loaded(path):
    return onnx.load(path)


def kept_as_it_is(g, x, depth=0):
    """A detour: the same value by another name."""
    a = g.arrays[x]
    kind = g.pick(("Identity", "Transpose", "Reshape", "Cast", "Unsqueeze", "Neg", "Slice"))
    if kind == "Transpose" and a.ndim >= 2:
        perm = [int(i) for i in g.rng.permutation(a.ndim)]
        (t,) = g.add("Transpose", [x], perm=perm, checked=False)
        return g.add("Transpose", [t], perm=[int(i) for i in np.argsort(perm)], checked=False)[0]
    if kind == "Reshape" and a.size:
        (t,) = g.add("Reshape", [x, g.ints(-1)], checked=False)
        return g.add("Reshape", [t, g.ints(*a.shape)], checked=False)[0]
    if kind == "Cast" and a.dtype in (np.float32, np.float16, np.int32, np.uint8, np.int8):
        (t,) = g.add("Cast", [x], to=TensorProto.DOUBLE, checked=False)
        return g.add("Cast", [t], to=helper.np_dtype_to_tensor_dtype(a.dtype), checked=False)[0]
    if kind == "Unsqueeze" and a.ndim < 5:
        axis = int(g.rng.integers(a.ndim + 1))
        (t,) = g.add("Unsqueeze", [x, g.ints(axis)], checked=False)
        return g.add("Squeeze", [t, g.ints(axis)], checked=False)[0]
    if kind == "Neg" and a.dtype in (np.float32, np.float64, np.int32, np.int64):
        (t,) = g.add("Neg", [x], checked=False)
        return g.add("Neg", [t], checked=False)[0]
    if kind == "Slice" and a.ndim and a.size:
        (t,) = g.add("Concat", [x, x], axis=0, checked=False)
        return g.add("Slice", [t, g.ints(0), g.ints(a.shape[0]), g.ints(0)], checked=False)[0]
    return g.add("Identity", [x], checked=False)[0]


def given(g, array, open_elements, use):
    """A name for an input of a pattern: a value that is there already, an input of the graph, a constant."""
    same = [n for n, a in g.arrays.items() if a.shape == array.shape and a.dtype == array.dtype and not n.startswith("c")]
    if open_elements and same and g.chance(0.5):
        name = g.pick(same)
    elif open_elements and g.chance(0.3) and (sized := [n for n, a in g.arrays.items() if a.size == array.size and a.size and a.dtype == array.dtype]):
        (name,) = g.add("Reshape", [g.pick(sized), g.ints(*array.shape)], checked=False)
    else:
        constant = {"plain": not open_elements, "most": g.chance(0.8), "coin": g.chance(0.5), "none": False}[use]
        name = g.constant(array) if constant else g.input(array)
        if open_elements and not constant:
            g.free.add(name)
    if g.chance(0.06):
        name = kept_as_it_is(g, name)
    return name


def changed_number(g, array):
    """Another constant: the rule must see that it is another."""
    if array.size == 1 and array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return np.full_like(array, g.pick(ODD_NUMBERS))
    if array.dtype.kind == "i" and array.size:
        array = array.copy()
        array.flat[int(g.rng.integers(array.size))] += g.pick((-1, 1, 2))
    return array


def changed_attribute(g, node):
    for attribute in node.attribute:
        if g.chance(0.5) and attribute.type == onnx.AttributeProto.INT and attribute.name != "to":
            attribute.i = g.pick((0, 1, -1, attribute.i + 1))
        elif g.chance(0.5) and attribute.type == onnx.AttributeProto.FLOAT:
            attribute.f = g.pick((0.0, 1.0, 0.5, attribute.f * 1.001))
        elif g.chance(0.5) and attribute.type == onnx.AttributeProto.INTS and attribute.ints:
            i, j = (int(k) for k in g.rng.integers(len(attribute.ints), size=2))
            attribute.ints[i], attribute.ints[j] = attribute.ints[j], attribute.ints[i]


def inject(g, pool):
    """Adds a pattern to the graph; (rule, names of its values)."""
    rule, model = pool.draw(g)
    if (needed := oldest_opset(model)) > g.opset:
        if g.nodes or g.depth:
            raise Unfit  # what is there is written for the older one
        g.opset = max(needed, g.pick(OPSETS))
    open_inputs = {i.name for i in model.graph.input}
    use = g.pick(("plain", "plain", "plain", "most", "coin", "none"))
    change = g.rng.random()
    names, made = {"": ""}, []
    tensors = [(t.name, numpy_helper.to_array(t)) for t in model.graph.initializer]
    odd = int(g.rng.integers(len(tensors))) if tensors and change < 0.08 else -1
    for k, (name, array) in enumerate(tensors):
        if k == odd and name not in open_inputs:
            array = changed_number(g, array)
        names[name] = given(g, array, name in open_inputs, use)
    for node in model.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        if 0.08 < change < 0.16 and g.chance(1 / len(model.graph.node)):
            changed_attribute(g, copy)
        inputs = [names[n] for n in node.input]
        if node.op_type in COMMUTATIVE and len(inputs) == 2 and g.chance(0.4):
            inputs.reverse()
        if g.chance(0.05):
            k = int(g.rng.integers(len(inputs))) if inputs else 0
            if inputs and inputs[k]:
                inputs[k] = kept_as_it_is(g, inputs[k])
        results = g.add_node(copy, inputs)
        for output, result in zip(node.output, results):
            if output:
                names[output] = result
                made.append(result)
    if len(made) > 1 and g.chance(0.25):
        g.outputs.append(g.pick(made))
    return rule, made


def step(pool):
    """As a step of graphs.py."""
    def inject_one(g, values, x):
        rule, made = inject(g, pool)
        g.rules.append(rule)
        return made[-1:]

    return inject_one
