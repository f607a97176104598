"""Part `files`: changes model files at random (bytes, nodes, attributes, types, shapes, weights) and gives them to the command.

Files are random graphs (graphs.py, bodies.py), quantized ones (quantized.py), functions of their nodes, and decoders (tests/python/decoders.py).
They are optimized, run, inspected, explained and changed in turns, decoders also generated from and given a cache. Wrong is: a signal, a sanitizer's report, an exit
status that the command doesn't document, an error that isn't one line `saturate: error: ...`, a file that was written in spite of it, or more
than a minute.
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from . import bodies, graphs, quantized
from .workers import outcome

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))
from decoders import Shape, decoder  # noqa: E402

PROGRESS = re.compile(r"saturate: [\w ]+(: [^,]*)?, [\d.]+ s(,|$)")  # that long work prints where nobody looks: "saturate: verify, 10 s, at most 3 s left"
WRITES = (0, 4)
# The words behind a verb, and the exit statuses that it documents for a model that is what it may be.
VERBS = {
    "optimize": (["in.onnx", "-o", "out.onnx", "--time-limit", "10"], (0, 1, 3, 4, 5)),
    "run": (["in.onnx", "-o", "out.npz", "--random", "--time-limit", "10", "--max-memory", "2000"], (0, 1, 5)),
    "inspect": (["in.onnx"], (0, 1)),
    "explain": (["in.onnx", "--op", "Attention"], (0, 1, 4)),
    "diff": (["in.onnx", "in.onnx"], (0, 1, 3, 5)),
    "transform": (["in.onnx", "-o", "out.onnx", "--pass", "precision:float16", "--time-limit", "10"], (0, 1, 2, 3, 5)),
    "generate": (["in.onnx", "--prompt-ids", "1,2,3", "--max-new-tokens", "4", "--time-limit", "10"], (0, 1, 2, 5)),
    "slm": (["in.onnx", "-o", "out.onnx", "--time-limit", "10"], (0, 1, 2, 3, 5)),
    "kv_cache": (["in.onnx", "-o", "out.onnx", "--pass", "kv_cache", "--time-limit", "10"], (0, 1, 2, 3, 5)),
}
OF_GRAPHS = ("optimize", "optimize", "optimize", "run", "inspect", "explain", "transform", "diff")
OF_DECODERS = ("generate", "slm", "kv_cache", "optimize", "generate", "slm")
SECONDS = 50  # below a worker's
SIZES = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 255, 2**16, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)


class Mutator:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def bytes(self, data):
        """Bits flipped, stretches taken out, doubled or overwritten."""
        data = bytearray(data)
        for _ in range(int(self.rng.integers(1, 6))):
            at, length = int(self.rng.integers(len(data))), int(self.rng.integers(1, 30))
            kind = self.rng.integers(5)
            if kind <= 1:
                data[at] ^= 1 << int(self.rng.integers(8))
            elif kind == 2 and len(data) > 2 * length:
                del data[at: at + length]
            elif kind == 3:
                data[at:at] = data[at: at + length]
            else:
                data[at: at + length] = self.rng.bytes(len(data[at: at + length]))
        return bytes(data)

    def graph_of(self, model):
        """The main graph, or a body."""
        graphs = [model.graph] + [a.g for n in model.graph.node for a in n.attribute if a.HasField("g")]
        return self.pick(graphs)

    def functions(self, model):
        """Names, inputs and nodes of a function."""
        function = self.pick(model.functions)
        kind = self.rng.integers(6)
        if kind == 0:
            function.input.append(self.pick([*function.input, *function.output, ""]))
        elif kind == 1 and function.output:
            function.output[0] = self.pick([*function.input, "nowhere", ""])
        elif kind == 2:
            function.node.append(onnx.helper.make_node(function.name, list(function.input), ["self"], domain=function.domain))
        elif kind == 3:
            function.opset_import[0].version = self.pick(SIZES)
        elif kind == 4:
            function.attribute.append(self.pick(("axis", "", "alpha")))
        elif function.node:
            del function.node[int(self.rng.integers(len(function.node)))]
        return model.SerializeToString()

    def nodes(self, model):
        if model.functions and self.rng.random() < 0.7:
            return self.functions(model)
        graph = self.graph_of(model)
        for _ in range(int(self.rng.integers(1, 4))):
            names = [o for n in graph.node for o in n.output] + [i.name for i in graph.input] + [i.name for i in graph.initializer] + ["", "nowhere"]
            change = self.pick((self.inputs, self.inputs, self.operator, self.attribute, self.attribute, self.order, self.outputs, self.tensor, self.tensor, self.declared))
            if graph.node:
                change(graph, names)
        return model.SerializeToString()

    def inputs(self, graph, names):
        node = self.pick(graph.node)
        kind = self.rng.integers(4)
        if kind == 0 and node.input:
            del node.input[int(self.rng.integers(len(node.input)))]
        elif kind == 1:
            node.input.append(self.pick(names))
        elif node.input:
            node.input[int(self.rng.integers(len(node.input)))] = self.pick(names)

    def outputs(self, graph, names):
        node = self.pick(graph.node)
        kind = self.rng.integers(3)
        if kind == 0:
            node.output.append(self.pick(names))
        elif kind == 1 and node.output:
            node.output[0] = self.pick(names)
        elif graph.output:
            self.pick(graph.output).name = self.pick(names)

    def operator(self, graph, names):
        node = self.pick(graph.node)
        if self.rng.random() < 0.2:
            node.domain = self.pick(("", "ai.onnx", "com.microsoft", "nobody", "ai.onnx.ml"))
        else:
            node.op_type = self.pick([n.op_type for n in graph.node] + [s.name for s in onnx.defs.get_all_schemas()])

    def order(self, graph, names):
        i, j = (int(k) for k in self.rng.integers(len(graph.node), size=2))
        first, second = onnx.NodeProto.FromString(graph.node[i].SerializeToString()), onnx.NodeProto.FromString(graph.node[j].SerializeToString())
        graph.node[i].CopyFrom(second)
        graph.node[j].CopyFrom(first)

    def attribute(self, graph, names):
        node = self.pick(graph.node)
        if not node.attribute or self.rng.random() < 0.2:
            name = self.pick(("axis", "axes", "perm", "keepdims", "to", "value", "pads", "strides", "group", "num_heads", "body"))
            node.attribute.append(onnx.helper.make_attribute(name, self.pick((1, -1, 2**62, 0.5, "x", [1, -1], [2**62] * 3, [0.5]))))
            return
        attribute = self.pick(node.attribute)
        kind = self.rng.integers(4)
        if kind == 0:
            attribute.type = int(self.rng.integers(0, 15))
        elif kind == 1 and attribute.ints:
            attribute.ints[int(self.rng.integers(len(attribute.ints)))] = self.pick(SIZES)
        elif kind == 2:
            attribute.i = self.pick(SIZES)
        else:
            attribute.f, attribute.s = self.pick((np.nan, np.inf, -1.0, 1e38)), self.rng.bytes(4)

    def tensor(self, graph, names):
        tensors = list(graph.initializer) + [a.t for n in graph.node for a in n.attribute if a.HasField("t")]
        if not tensors:
            return
        tensor = self.pick(tensors)
        kind = self.rng.integers(5)
        if kind == 0:
            tensor.data_type = int(self.rng.integers(0, 28))
        elif kind == 1 and tensor.dims:
            tensor.dims[int(self.rng.integers(len(tensor.dims)))] = self.pick(SIZES)
        elif kind == 2:
            tensor.dims.append(self.pick(SIZES))
        elif kind == 3 and tensor.raw_data:
            tensor.raw_data = self.bytes(tensor.raw_data)
        else:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            entry = tensor.external_data.add()
            entry.key, entry.value = self.pick(("location", "offset", "length")), self.pick(("../x", "/etc/passwd", "in.onnx", "-1", str(2**63), "x"))

    def declared(self, graph, names):
        infos = [*graph.input, *graph.output, *graph.value_info]
        if not infos:
            return
        tensor = self.pick(infos).type.tensor_type
        kind = self.rng.integers(3)
        if kind == 0:
            tensor.elem_type = int(self.rng.integers(0, 28))
        elif kind == 1 and tensor.shape.dim:
            self.pick(tensor.shape.dim).dim_value = self.pick(SIZES)
        else:
            tensor.shape.dim.add().dim_param = self.pick(("n", "", "x0_0"))


def random_graph(seed):
    while (case := graphs.random_graph(seed, "float32", bodies.STEPS)) is None:
        seed += 1_000_000_007
    return case[0]


def quantized_graph(seed):
    return quantized.model_of(*quantized.drawn(seed))


def with_function(seed):
    """The nodes of a random graph as a function, which is called twice."""
    model = random_graph(seed)
    graph = model.graph
    model.ir_version = max(model.ir_version, 8)
    inputs = [i.name for i in graph.input] + [i.name for i in graph.initializer if i.name not in {x.name for x in graph.input}]
    outputs = [o.name for o in graph.output]
    model.functions.append(onnx.helper.make_function("own", "Whole", inputs, outputs, list(graph.node), list(model.opset_import)))
    model.opset_import.append(onnx.helper.make_opsetid("own", 1))
    del graph.node[:]
    graph.node.append(onnx.helper.make_node("Whole", inputs, outputs, domain="own"))
    graph.node.append(onnx.helper.make_node("Whole", inputs, [f"{o}_again" for o in outputs], domain="own"))
    return model


def language_model(seed):
    rng = np.random.default_rng(seed)
    cache = str(rng.choice(["none", "growing", "sliding", "in-place"]))
    fixed = {"batch": 1, "window": 4, "past": 12} if cache == "sliding" else {"batch": 1} if cache == "in-place" else {}
    return decoder(Shape(cache=cache, positions=str(rng.choice(["input", "arange", "none"])), mask=bool(rng.integers(2)), layers=1, last_only=bool(rng.integers(2)), **fixed))


KINDS = (random_graph, quantized_graph, with_function, language_model)


def run(command, verb, folder):
    """(exit status, error text, whether a result was written)"""
    source = folder / "in.onnx"
    name = "transform" if verb == "kv_cache" else verb
    try:
        done = subprocess.run([*shlex.split(command), name, *VERBS[verb][0]], capture_output=True, timeout=SECONDS, cwd=folder)
    except subprocess.TimeoutExpired:
        return "hang", "", False
    written = sorted(p.name for p in folder.iterdir() if p != source)
    for path in folder.iterdir():
        if path != source:
            path.unlink()
    return done.returncode, done.stderr.decode(errors="replace"), written


def verdict(verb, status, text, written):
    """What is wrong, if anything."""
    if status == "hang":
        return "no end"
    if status < 0 or "Sanitizer" in text or "runtime error:" in text:
        return "crash"
    if status not in VERBS[verb][1]:
        return f"exit status {status}"
    if written and status not in WRITES:
        return f"exit status {status}, but {', '.join(written)} was written"
    errors = [line for line in text.splitlines() if not line.startswith("saturate: warning: ") and not PROGRESS.match(line)]
    if status not in WRITES and (len(errors) != 1 or not errors[0].startswith("saturate: error: ")):
        return f"exit status {status} with other than one line of error"
    return None


def work(seed, settings):
    mutator = Mutator(seed)
    kind = KINDS[seed % len(KINDS)]
    data = kind(seed).SerializeToString()
    try:
        changed = mutator.bytes(data) if mutator.rng.random() < 0.3 else mutator.nodes(onnx.ModelProto.FromString(data))
    except (DecodeError, ValueError, TypeError):
        return []
    verb = mutator.pick(OF_DECODERS if kind is language_model else OF_GRAPHS)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "in.onnx").write_bytes(changed)
        status, text, written = run(settings["command"], verb, folder)
    if why := verdict(verb, status, text, written):
        return [outcome("wrong", f"{verb}: {why}: {' '.join(text.split())[:300]}", model=changed)]
    return [outcome(f"{verb} {status}")]
