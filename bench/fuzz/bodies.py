"""Steps of graphs.py that put work into the bodies of If, Loop and Scan, which read values from outside."""
import numpy as np
from onnx import helper

from onnx_saturate import backend

from .graphs import LARGEST, STEPS as OUTSIDE, Unfit, broadcasts

STEADY = ("Tanh", "Sigmoid", "Neg", "Relu", "Abs", "Softplus")


def declared(g, name, shape=None):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(g.arrays[name].dtype), shape)


def body(child, name, inputs, outputs):
    return helper.make_graph(child.nodes, name, [declared(child, n, child.arrays[n].shape) for n in inputs], [declared(child, n) for n in outputs], child.initializers)


def steady_steps(child, outer, x, count):
    """Steps that keep the shape of x and stay small; some read values from outside the body."""
    shape = child.arrays[x].shape
    fits = [v for v in outer if broadcasts(child.arrays[v].shape, shape) and np.broadcast_shapes(child.arrays[v].shape, shape) == shape]
    for _ in range(count):
        if fits and child.chance(0.6):
            (x,) = child.add(child.pick(("Add", "Mul", "Sub", "Max")), [x, child.pick(fits)] if child.chance(0.5) else [child.pick(fits), x])
        (x,) = child.add(child.pick(STEADY), [x])
    return x


def replay(nodes, arrays, opset):
    """The nodes run once more on other values; into `arrays`."""
    for node in nodes:
        if node.op_type == "Constant":
            continue
        with np.errstate(all="ignore"):
            results = backend.run_node(node, [arrays[i] if i else None for i in node.input], opset_version=opset)
        if any(r.dtype.kind == "f" and not np.all(np.abs(r) <= LARGEST) for r in results):
            raise Unfit
        arrays.update(zip(node.output, results))


def emit(g, op, inputs, results, **attributes):
    """A node whose results are known; the names of those."""
    names = [f"v{g.count + i}" for i in range(len(results))]
    g.count += len(names)
    g.nodes.append(helper.make_node(op, inputs, names, **attributes))
    g.arrays.update(zip(names, results))
    return names


def branch(g, values, x):
    """An If with both branches, of which the inputs decide; a branch may do nothing but hand a value of outside on."""
    (total,) = g.add("ReduceMax", [x], keepdims=0)
    (condition,) = g.add(g.pick(("Greater", "Less")), [total, g.constant(np.array(g.pick((0, 0.5, 1, 100)), g.dtype))])
    graphs, results = [], []
    for name in ("then", "else"):
        child, out = g.child(), x
        for _ in range(g.pick((0, 1, 2, 3))):
            made = child.pick(OUTSIDE if child.inside is None or child.depth > 2 else child.inside)(child, [v for v in (*values, out) if child.arrays[v].dtype == g.dtype], out)
            out = next((v for v in made if child.arrays[v].dtype == g.dtype), out)
        (out,) = child.add("Identity", [out])
        g.count = child.count
        g.arrays |= {n: child.arrays[n] for n in g.inputs}
        graphs.append(body(child, name, [], [out]))
        results.append(child.arrays[out])
    chosen = results[0 if bool(g.arrays[condition]) else 1]
    return emit(g, "If", [condition], [chosen], then_branch=graphs[0], else_branch=graphs[1])


def loop(g, values, x):
    """A Loop of few turns (none, too) with a carried value, a condition that may end it early and perhaps a value for each turn."""
    child = g.child()
    turn, go, carried = (f"v{child.count + i}" for i in range(3))
    child.count += 3
    child.arrays |= {turn: np.array(0, np.int64), go: np.array(True), carried: g.arrays[x]}
    out = steady_steps(child, [*values, x], carried, child.pick((1, 2, 3)))
    last = child.pick((1, 2, 100))
    (on,) = child.add("Less", [turn, child.constant(np.array(last, np.int64))])
    scanned = [child.add("Neg", [out])[0]] if g.chance(0.5) else []
    turns = g.pick((0, 1, 2, 3))
    start = g.arrays[x]
    runs = [turn, go, carried], [on, out, *scanned]
    g.count = child.count
    graph = body(child, "turn", *runs)
    state, stack = start, []
    for i in range(min(turns, last + 1)):
        arrays = child.arrays | {turn: np.array(i, np.int64), carried: state}
        replay(child.nodes, arrays, g.opset)
        state = arrays[out]
        stack += [arrays[n] for n in scanned]
    if scanned and not stack:  # what a Loop without a turn has for dims of its values of each turn is not said
        raise Unfit
    results = [state] + ([np.stack(stack)] if scanned else [])
    condition = "" if g.chance(0.5) else g.constant(np.array(True))
    return emit(g, "Loop", [g.constant(np.array(turns, np.int64)), condition, x], results, body=graph)


def scan(g, values, x):
    """A Scan over the first axis, at times from its end, with a carried value."""
    shape = g.arrays[x].shape
    if len(shape) < 2 or not 0 < shape[0] <= 8:
        raise Unfit
    child = g.child()
    carried, part = (f"v{child.count + i}" for i in range(2))
    child.count += 2
    start = g.constant(g.noise(shape[1:]))
    child.arrays |= {carried: g.arrays[start], part: g.arrays[x][0]}
    (mixed,) = child.add(child.pick(("Add", "Mul")), [carried, part])
    out = steady_steps(child, values, mixed, child.pick((1, 2)))
    (seen,) = child.add("Neg", [out])
    g.count = child.count
    graph = body(child, "part", [carried, part], [out, seen])
    backwards, state, stack = g.chance(0.3), g.arrays[start], []
    for row in g.arrays[x][::-1] if backwards else g.arrays[x]:
        arrays = child.arrays | {carried: state, part: row}
        replay(child.nodes, arrays, g.opset)
        state = arrays[out]
        stack.append(arrays[seen])
    extra = {"scan_input_directions": [1]} if backwards else {}
    return emit(g, "Scan", [start, x], [state, np.stack(stack)], body=graph, num_scan_inputs=1, **extra)


STEPS = [*OUTSIDE, branch, branch, loop, loop, scan]
