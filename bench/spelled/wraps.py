"""What stands around a value and changes nothing; branches, loops and functions around a part."""
import numpy as np
from onnx import TensorProto, helper


def noise(a, x):
    """x of [batch, positions, size]"""
    way = a.pick("noise", "none", "identity", "cast", "mul_one", "add_zero", "transposes", "reshapes", "slice", "pad", "expand", "dropout", "split_concat", "where", "neg", "tile", "gather_all", "max", "clip", "gathered_batch")
    if way == "identity":
        return a.op("Identity", a.op("Identity", x))
    if way == "cast":
        return a.op("Cast", x, to=TensorProto.FLOAT)
    if way == "mul_one":
        return a.op("Mul", x, a.const(np.ones((1, 1, 1))))
    if way == "add_zero":
        return a.op("Add", a.const(np.zeros(1)), x)
    if way == "transposes":
        return a.op("Transpose", a.op("Transpose", x, perm=[2, 0, 1]), perm=[1, 2, 0])
    if way == "reshapes":
        return a.op("Reshape", a.op("Reshape", x, a.initializer(np.int64([-1]))), a.op("Shape", x))
    if way == "slice":
        return a.op("Slice", x, *(a.initializer(np.int64([v])) for v in (0, 2**31 - 1, 1)))
    if way == "pad":
        return a.op("Pad", x, a.initializer(np.zeros(6, np.int64)))
    if way == "expand":
        return a.op("Expand", x, a.initializer(np.ones(3, np.int64)))
    if way == "dropout" and a.opset >= 12:
        return a.op("Dropout", x, a.const(0.3))
    if way == "split_concat":
        parts = [a.op("Slice", x, *(a.initializer(np.int64([v])) for v in at)) for at in ((0, 8, 2), (8, 2**63 - 1, 2))]
        return a.op("Concat", *parts, axis=2)
    if way == "where":
        return a.op("Where", a.initializer(np.array(True)), x, a.const(0.0))
    if way == "neg":
        return a.op("Neg", a.op("Neg", x))
    if way == "tile":
        return a.op("Tile", x, a.initializer(np.ones(3, np.int64)))
    if way == "gather_all":
        return a.op("Gather", x, a.initializer(np.arange(32)), axis=2)
    if way == "max":
        return a.op("Max", x, x)
    if way == "clip":
        return a.op("Clip", x)
    return x


def around(a, x, write, kind=TensorProto.FLOAT):
    """What write(author, value) makes of x: in the graph, in a branch whose condition is known, in a loop of one turn, in a function."""
    way = a.pick("around", "graph", "branch", "branch_of_facts", "loop", "function")
    if way == "graph":
        return write(x)
    start = len(a.nodes)
    if way == "function":
        inner = a.name()
        held, a.initializers = a.initializers, []
        y = write(inner)
        body = [helper.make_node("Constant", [], [t.name], value=t) for t in a.initializers] + a.nodes[start:]
        del a.nodes[start:]
        a.initializers = held
        inputs = [inner] + sorted({i for n in body for i in n.input if i in a.feed} - {inner})
        name = f"block_{a.count}"
        out = a.name()
        a.domains["spelled"] = 1
        a.functions.append(helper.make_function("spelled", name, inputs, [y], body, [helper.make_opsetid("", a.opset), helper.make_opsetid("spelled", 1)]))
        a.nodes.append(helper.make_node(name, [x, *inputs[1:]], [out], domain="spelled"))
        return out
    y = write(x)
    body = a.nodes[start:]
    del a.nodes[start:]
    out = helper.make_tensor_value_info(y, kind, None)
    if way == "loop":
        turn, go, still = a.name(), a.name(), a.name()
        body.insert(0, helper.make_node("Identity", [go], [still]))
        carried_in, carried = a.name(), y
        graph = helper.make_graph(body, "turn", [helper.make_tensor_value_info(turn, TensorProto.INT64, []), helper.make_tensor_value_info(go, TensorProto.BOOL, []),
                                                 helper.make_tensor_value_info(carried_in, kind, None)],
                                  [helper.make_tensor_value_info(still, TensorProto.BOOL, []), out])
        return a.op("Loop", a.initializer(np.int64(1)), a.initializer(np.array(True)), x, body=graph)
    if way == "branch":
        condition = a.initializer(np.array(True))
    else:
        condition = a.op("Equal", a.op("Size", a.op("Shape", x)), a.initializer(np.int64(3)))
    other = a.name()
    otherwise = helper.make_graph([helper.make_node("Neg", [x], [other])], "otherwise", [], [helper.make_tensor_value_info(other, kind, None)])
    return a.op("If", condition, then_branch=helper.make_graph(body, "then", [], [out]), else_branch=otherwise)
