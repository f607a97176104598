"""Regions of a model before and after, drawn: what an operator of the result stands for."""
import collections

import draw


def makers(graph):
    return {name: node for node in graph.node for name in node.output if name}


def boxes_of(nodes, outputs, constants, kind):
    """The graph of `nodes` with the values around them; constants are left out."""
    made, box = {}, {}
    for node in nodes:
        for name in node.output:
            made[name] = node
    boxes = []

    def of(name):
        if name in made:
            node = made[name]
            if id(node) not in box:
                inputs = [of(i) for i in node.input if i and i not in constants]
                box[id(node)] = draw.Box(node.op_type, kind, inputs)
                boxes.append(box[id(node)])
            return box[id(node)]
        if name not in box:
            box[name] = draw.Box(shown(name), "input")
            boxes.append(box[name])
        return box[name]

    for name in outputs:
        boxes.append(draw.Box(shown(name), "output", [of(name)]))
    return boxes


def shown(name):
    return name if len(name) <= 18 else "..." + name[-15:]


def region(before, after, node):
    """The nodes of both models between values that both have, around `node` of the result; None where its output is new."""
    old_makers, new_makers = makers(before.graph), makers(after.graph)
    kept = set(new_makers) | {i.name for i in before.graph.input}
    ends = [name for name in node.output if name in old_makers]
    if not ends:
        return None

    def back(ends, makers, known):
        found, stack = [], list(ends)
        while stack:
            maker = makers.get(stack.pop())
            if maker is None or any(maker is f for f in found):
                continue
            found.append(maker)
            stack += [i for i in maker.input if i and i not in known]
        return found

    return back(ends, old_makers, kept), back(ends, new_makers, set(old_makers) | {i.name for i in before.graph.input}), ends


def constants(model):
    return {i.name for i in model.graph.initializer} | {n.output[0] for n in model.graph.node if n.op_type == "Constant"}


def regions(before, after, most=60):
    """The changed regions of a result, equal ones counted: (title, svg, how often), the largest first."""
    found, count = {}, collections.Counter()
    fixed = constants(before) | constants(after)
    same = {(n.op_type, tuple(n.input), tuple(n.output)) for n in before.graph.node}
    for node in after.graph.node:
        if (node.op_type, tuple(node.input), tuple(node.output)) in same:
            continue
        got = region(before, after, node)
        if not got or not 1 < len(got[0]) <= most:
            continue
        old, new, ends = got
        key = (tuple(sorted(n.op_type for n in old)), tuple(sorted(n.op_type for n in new)))
        count[key] += 1
        if key not in found:
            title = f"{len(old)} operators become {', '.join(sorted(set(n.op_type for n in new)))}"
            found[key] = (title, draw.svg([boxes_of(old, ends, fixed, "old"), "→", boxes_of(new, ends, fixed, "new")], title), len(old))
    return [(title, svg, count[key]) for key, (title, svg, _) in sorted(found.items(), key=lambda item: -item[1][2])]
