"""Constants, written otherwise."""
import numpy as np
from onnx import helper, numpy_helper

from .editor import Chain, edit

USERS = ("Add", "Sub", "Mul", "Div", "Pow", "MatMul", "Where", "Max", "Min", "Reshape", "Gather", "Slice", "Unsqueeze", "Squeeze", "Expand", "LayerNormalization", "ReduceMean")


def with_constants(ed, node, rewrite, applies=lambda array: True):
    """The node with each constant input that `applies` made by rewrite(chain, name, array)."""
    c, inputs, changed = Chain(ed), list(node.input), False
    for i, x in enumerate(inputs):
        array = ed.constants.get(x)
        if array is not None and applies(array):
            inputs[i] = rewrite(c, x, array)
            changed = changed or inputs[i] != x
    if not changed:
        return None
    n = helper.make_node(node.op_type, inputs, node.output)
    n.attribute.extend(node.attribute)
    return c.nodes + [n]


def small(array):
    return array.size <= 4096


@edit("constant_nodes", *USERS)
def constant_nodes(ed, node):
    return with_constants(ed, node, lambda c, x, a: c("Constant", value=numpy_helper.from_array(a)), small)


@edit("constants_filled", *USERS)
def constants_filled(ed, node):
    """Even constants by ConstantOfShape or Expand."""
    def rewrite(c, x, a):
        if ed.rnd.random() < 0.5:
            return c("ConstantOfShape", ed.ints(a.shape), value=numpy_helper.from_array(a.reshape(-1)[:1]))
        return c("Expand", ed.const(a.reshape(-1)[0]), ed.ints(a.shape))
    return with_constants(ed, node, rewrite, lambda a: a.size and (a == a.reshape(-1)[0]).all() and a.dtype != bool)


@edit("constants_cast", *USERS)
def constants_cast(ed, node):
    """From double or int32."""
    def rewrite(c, x, a):
        wide = a.astype(np.float64 if a.dtype.kind == "f" else np.int32)
        return c("Cast", ed.const(wide), to=helper.np_dtype_to_tensor_dtype(a.dtype)) if (wide == a).all() else x
    return with_constants(ed, node, rewrite, lambda a: a.dtype in (np.float32, np.float16, np.int64))


@edit("constants_joined", *USERS)
def constants_joined(ed, node):
    """From two halves."""
    def rewrite(c, x, a):
        half = len(a) // 2
        return c("Concat", ed.const(a[:half]), ed.const(a[half:]), axis=0)
    return with_constants(ed, node, rewrite, lambda a: a.ndim and len(a) > 1)


@edit("constants_of_more_dims", "Add", "Mul", "Sub", "Div")
def constants_of_more_dims(ed, node):
    """[n] as [1, n], up to the rank of the result."""
    rank = ed.rank(node.output[0])
    if rank is None or not ed.floating(node.output[0]) or all(x in ed.constants for x in node.input):
        return None
    other = max((ed.rank(x) or 0 for x in node.input if x not in ed.constants), default=0)

    def rewrite(c, x, a):
        return ed.const(a.reshape((1,) * ed.rnd.randint(1, other - a.ndim) + a.shape))
    return with_constants(ed, node, rewrite, lambda a: a.ndim < other)


@edit("numbers_as_vectors", "Add", "Mul", "Sub", "Div")
def numbers_as_vectors(ed, node):
    """A number as a vector of the last dim."""
    dims = ed.dims(node.output[0])
    if not dims or not dims[-1] or not ed.floating(node.output[0]) or all(x in ed.constants for x in node.input):
        return None
    wide = next((ed.dims(x) for x in node.input if x not in ed.constants), None)
    if not wide or wide[-1] != dims[-1]:
        return None
    return with_constants(ed, node, lambda c, x, a: ed.const(np.full(dims[-1], a.item(), a.dtype)), lambda a: a.size == 1)


@edit("weights_transposed", "MatMul")
def weights_transposed(ed, node):
    def rewrite(c, x, a):
        return c("Transpose", ed.const(np.ascontiguousarray(a.T)), perm=[1, 0])
    return with_constants(ed, node, rewrite, lambda a: a.ndim == 2)
