"""The standard's operators that have no axes of their own here: drawn by the specifications of bench/fuzz, one node each."""
import warnings

import numpy as np
from fuzz import draw, specs, specs_contrib, specs_data  # noqa: F401
from onnx import TensorProto, helper

OPSET, MOST = 21, 24  # of the standard, and the newest that a specification may need


def told(model):
    """What a case is: its attributes, and the types and shapes of what goes in."""
    node = model.graph.node[-1] if model.graph.node[-1].op_type != "Cast" else model.graph.node[0]
    words = {a.name: str(helper.get_attribute_value(a)) for a in node.attribute}
    of = [f"{helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type).name}{[d.dim_value or d.dim_param for d in i.type.tensor_type.shape.dim]}" for i in model.graph.input]
    return words | {"inputs": " ".join(of)}


def cases(op, count):
    """(what it is, model, feed) of so many draws of an operator; of none where no specification has it."""
    known = [s for s in specs.SPECS if s.op == op and not s.domain]
    if not known:
        return
    for seed in range(count):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                model, feed, operators = draw.random_model([seed, 5], known, max(OPSET, min(MOST, known[0].since)), only=[op], large=True)
        except (draw.Skip, KeyError, IndexError, ValueError, TypeError):
            continue
        halves = any(a.i == TensorProto.BFLOAT16 for n in model.graph.node if n.op_type == "Cast" for a in n.attribute)  # ONNX Runtime's CPU kernels take none
        if operators and not halves:
            yield told(model), model, feed
