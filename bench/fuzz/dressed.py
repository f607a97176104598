"""Changes how a drawn model is written, not what it computes: local functions, names of nodes, initializers that are inputs, types inside."""
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

DOMAIN = "local"
REFERENCES = (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS)


def read_by(node):
    """Names that a node reads, also in its bodies."""
    inside = set()
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            made = {o for n in graph.node for o in n.output} | {i.name for i in graph.input} | {t.name for t in graph.initializer}
            inside |= ({i for n in graph.node for i in read_by(n)} | {o.name for o in graph.output}) - made
    return [i for i in dict.fromkeys([*node.input, *sorted(inside)]) if i]


def with_reference(function, call, rng):
    """An attribute of a node inside becomes one of the call."""
    places = [(n, a) for n in function.node for a in n.attribute if a.type in REFERENCES and n.op_type != "Constant"]
    if not places:
        return
    node, attribute = places[int(rng.integers(len(places)))]
    given = AttributeProto()
    given.CopyFrom(attribute)
    given.name = "given"
    call.attribute.append(given)
    kind, name = attribute.type, attribute.name
    attribute.Clear()
    attribute.name, attribute.type, attribute.ref_attr_name = name, kind, "given"
    function.attribute.append("given")


def with_function(model, rng, number):
    """Some nodes that follow one another become a call of a local function; twice in a fifth."""
    nodes = list(model.graph.node)
    if not nodes:
        return
    first = int(rng.integers(len(nodes)))
    last = min(len(nodes), first + int(rng.integers(1, 6)))
    chosen, later = nodes[first:last], nodes[last:]
    made = [o for n in chosen for o in n.output if o]
    inputs = [i for i in dict.fromkeys(i for n in chosen for i in read_by(n)) if i not in made]
    wanted = {o.name for o in model.graph.output} | {i for n in later for i in read_by(n)}
    outputs = [o for o in made if o in wanted] or made[-1:]
    domains = {n.domain for n in chosen} | {""}
    function = helper.make_function(DOMAIN, f"f{number}", inputs, outputs, chosen, [o for o in model.opset_import if o.domain in domains or rng.random() < 0.3])
    call = helper.make_node(function.name, inputs, outputs, domain=DOMAIN)
    if rng.random() < 0.5:
        with_reference(function, call, rng)
    again = []
    if rng.random() < 0.2:
        other = onnx.NodeProto()
        other.CopyFrom(call)
        del other.output[:]
        other.output.extend(f"{o}/again" for o in outputs)
        again.append(other)
        model.graph.output.extend(helper.make_empty_tensor_value_info(o) for o in other.output)
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:first], call, *again, *later])
    model.functions.append(function)
    if DOMAIN not in {o.domain for o in model.opset_import}:
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))


def with_functions(model, rng):
    for number in range(int(rng.integers(1, 4))):
        with_function(model, rng, number)


def with_names(model, rng):
    """Nodes with names of their own, or some."""
    for number, node in enumerate(model.graph.node):
        if rng.random() < 0.7:
            node.name = f"{node.op_type}_{number}"


def with_given_initializers(model, rng):
    """Initializers that are inputs, too: they may be given."""
    for tensor in model.graph.initializer:
        if rng.random() < 0.3:
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


def with_types(model, rng):
    """What shape inference knows of values inside."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:
        return
    model.graph.value_info.extend(i for i in inferred.graph.value_info if rng.random() < 0.8)


def halved(model):
    """Floats become halves, in bodies and functions as well; in place."""
    for function in model.functions:
        _halved_nodes(function.node)
    _halved_graph(model.graph)


def _halved_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        with np.errstate(all="ignore"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))


def _halved_graph(graph):
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.FLOAT16
    for tensor in graph.initializer:
        _halved_tensor(tensor)
    _halved_nodes(graph.node)


def _halved_nodes(nodes):
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _halved_graph(attribute.g)
            elif attribute.HasField("t"):
                _halved_tensor(attribute.t)
            elif attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16


def halves(feed):
    with np.errstate(all="ignore"):
        return {name: v.astype(np.float16) if v.dtype == np.float32 else v for name, v in feed.items()}


def dressed(model, rng, functions):
    """In place. `functions`: calls of local functions are wanted."""
    if functions:
        with_functions(model, rng)
    for change, share in ((with_types, 0.2), (with_names, 0.3), (with_given_initializers, 0.1)):
        if rng.random() < share:
            change(model, rng)
