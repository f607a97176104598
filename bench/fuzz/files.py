"""Part `files`: changes model files at random (bytes, nodes, attributes, types, shapes, weights) and gives them to the command.

Files are random graphs (graphs.py, bodies.py), quantized ones (quantized.py), functions of their nodes, and decoders (tests/python/decoders.py);
one in ten is ONNX text. They are given to all verbs that take a model, decoders also generated from and given a cache. Wrong is: a signal, a sanitizer's report, an exit
status that the command doesn't document, an error that isn't one line `saturate: error: ...`, a file that was written in spite of it, or more
than a minute.
"""
import functools
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import types

import numpy as np
import onnx
import onnx.printer
from google.protobuf.message import DecodeError

from . import bodies, graphs, quantized
from .workers import outcome

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))
from decoders import Shape, decoder  # noqa: E402

PROGRESS = re.compile(r"saturate: [\w ]+(: .*)?, [\d.]+ s(,|$)")  # that long work prints where nobody looks: "saturate: search: step 15, 6390 spellings, 10 s, at most 0 s left"
SECONDS = 50  # below a worker's
BYTES = 8 << 30
SANITIZERS = {"ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=3000:detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
WARM = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "bart_encoder.onnx"
# What a sanitizer's process ends with where another is given less memory, or told that there is none.
OF_MEMORY = ("AddressSanitizer: out-of-memory", "AddressSanitizer: allocation-size-too-big", "AddressSanitizer failed to allocate", "AddressSanitizer: out of memory")
WRITES = (0, 4)
BOUNDS = "--time-limit 10"
# The words of a verb, of which each run draws one row, and the exit statuses that it documents for a model that is what it may be.
VERBS = {
    "optimize": ((
        f"optimize IN -o out.onnx {BOUNDS}", f"optimize IN -o out.onnx {BOUNDS} --target npu-4d --no-verify", f"optimize IN -o out.onnx {BOUNDS} --target onnx --opset 13 --annotate",
        f"optimize IN -o out.onnx {BOUNDS} --external-data --keep-functions", f"optimize IN -o out.onnxtxt {BOUNDS} --rules none",
    ), (0, 1, 3, 4, 5)),
    "run": ((f"run IN -o out.npz --random {BOUNDS} --max-memory 2000", f"run IN -o out.npz --random {BOUNDS} --max-memory 2000 --profile --check-finite"), (0, 1, 5)),
    "bench": ((f"bench IN --iterations 1 --warmup 0 {BOUNDS} --max-memory 2000",), (0, 1, 5)),
    "inspect": (("inspect IN", "inspect IN --json"), (0, 1)),
    "explain": (("explain IN --op Attention", "explain IN"), (0, 1, 4)),
    "diff": ((f"diff IN IN {BOUNDS}",), (0, 1, 3, 5)),
    "verify": ((f"verify IN IN {BOUNDS}",), (0, 1, 3, 5)),
    "targets": (("targets check IN --target qnn-htp", "targets check IN --target coreml --no-forms"), (0, 1)),
    "transform": (tuple(f"transform IN -o out.onnx {BOUNDS} --pass {p}" for p in ("precision:float16", "expose_all", "open_batch", "io_rank:4", "int32_inputs", "freeze")), (0, 1, 2, 3, 5)),
    "extract": ((f"extract IN --sample 2 {BOUNDS}", f"extract IN --sample 1 --target npu-4d --no-verify {BOUNDS}"), (0, 1, 3, 4, 5)),
    "cost": (("cost gather IN -o out.jsonl --seconds 0.001", "cost gather IN -o out.jsonl --seconds 0.001 --graphs"), (0, 1, 5)),
    "generate": ((f"generate IN --prompt-ids 1,2,3 --max-new-tokens 4 {BOUNDS}", f"generate IN --prompt-ids 1,2,3,4 --max-new-tokens 2 {BOUNDS} --top-k 3"), (0, 1, 2, 5)),
    "slm": ((f"slm IN -o out.onnx {BOUNDS}", f"slm IN -o out.onnx {BOUNDS} --max-context 16 --dtype fp16", f"slm IN -o out.onnx {BOUNDS} --cache buffer --max-context 16"), (0, 1, 2, 3, 5)),
    "prove": ((f"prove IN IN {BOUNDS}", f"prove IN IN --node-limit 2000 {BOUNDS}"), (0, 1, 3, 5)),
    "reduce": (("reduce IN -o out.onnx --because 'exit 5' --time-limit 4 --trial-limit 2", "reduce IN -o out.onnx --because 'no Attention' --time-limit 4 --trial-limit 2"), (0, 1, 2, 6)),
    "kv_cache": ((f"transform IN -o out.onnx --pass kv_cache {BOUNDS}",), (0, 1, 2, 3, 5)),
}
SILENT = {("targets", 1), ("prove", 3), ("prove", 5)}  # what is found stands in the answer: it is no error
OF_GRAPHS = ("optimize", "optimize", "optimize", "run", "bench", "inspect", "explain", "transform", "transform", "diff", "verify", "targets", "extract", "cost", "prove", "reduce")
OF_DECODERS = ("generate", "slm", "kv_cache", "optimize", "generate", "slm")
CHANGES_OF_ONE = 16  # as long as cases follow one another they change the same file
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
        """The main graph, a body, or what a function has of a graph."""
        found = [model.graph]
        for graph in found:
            found += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
        return self.pick(found + [types.SimpleNamespace(node=f.node, input=[], output=[], initializer=[], value_info=f.value_info) for f in model.functions])

    def graft(self, model):
        """A message or a field of it in place of another of its kind, wherever they are; taken out, doubled, or a number of odd size."""
        found = {}

        def walk(message):
            found.setdefault(message.DESCRIPTOR.name, []).append(message)
            for field, value in message.ListFields():
                if field.message_type:
                    for inner in value if field.is_repeated else [value]:
                        walk(inner)

        walk(model)
        del found["ModelProto"]
        for _ in range(int(self.rng.integers(1, 3))):
            message = self.pick(self.pick(list(found.values())))
            other = self.pick(found[message.DESCRIPTOR.name])
            if self.rng.random() < 0.3:
                message.CopyFrom(type(other).FromString(other.SerializeToString()))
            elif message.ListFields():
                self.field(message, self.pick(message.ListFields())[0], other)
        return model.SerializeToString()

    def field(self, message, field, other):
        values, kind = getattr(message, field.name), self.rng.integers(3)
        if kind == 0:
            message.ClearField(field.name)
        elif field.is_repeated and kind == 1:
            values.extend(list(getattr(other, field.name)))
        elif field.is_repeated:
            del values[int(self.rng.integers(len(values)))]
        elif field.message_type:
            values.CopyFrom(type(values).FromString(getattr(other, field.name).SerializeToString()))
        elif kind == 1 or not field.cpp_type == field.CPPTYPE_INT64:
            setattr(message, field.name, getattr(other, field.name))
        else:
            setattr(message, field.name, self.pick(SIZES))

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
        if self.rng.random() < 0.3:
            return self.graft(model)
        if model.functions and self.rng.random() < 0.4:
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


@functools.lru_cache(maxsize=1)
def original(number):
    return KINDS[number % len(KINDS)](number)


def changed(mutator, model):
    """(name of the file, its bytes)"""
    kind = mutator.rng.random()
    if kind < 0.1:
        return "in.onnxtxt", mutator.bytes(onnx.printer.to_text(model).encode())
    if kind < 0.35:
        return "in.onnx", mutator.bytes(model.SerializeToString())
    return "in.onnx", mutator.nodes(onnx.ModelProto.FromString(model.SerializeToString()))


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def each(command, words, folder):
    """(exit status, standard error) of a process of its own."""
    try:
        done = subprocess.run([*shlex.split(command), *words], capture_output=True, timeout=SECONDS, cwd=folder, preexec_fn=limited)
    except subprocess.TimeoutExpired:
        return "hang", ""
    return done.returncode, done.stderr.decode(errors="replace")


class Many:
    """One process of many_commands, which is started again where it ended."""

    def __init__(self, program):
        self.program, self.process = program, None

    def run(self, words, folder):
        if self.process is None:
            environment = SANITIZERS | dict(os.environ)
            self.process = subprocess.Popen([self.program, str(WARM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment)
        self.process.stdin.write("\t".join([str(folder), *words]) + "\n")
        answer = self.process.stdout.readline().strip()
        if not answer:
            self.process = None
            raise RuntimeError(f"{self.program} ended")
        errors = folder.with_name(folder.name + ".errors")
        text = errors.read_text(errors="replace")
        errors.unlink()
        return int(answer) if answer.lstrip("-").isdigit() else answer, text


_many = {}


def command(settings, words, folder):
    """(exit status, standard error). What a sanitizer lacked time or memory for is asked of the command itself."""
    if not settings.get("many"):
        return each(settings["command"], words, folder)
    if settings["many"] not in _many:
        _many[settings["many"]] = Many(settings["many"])
    status, text = _many[settings["many"]].run(words, folder)
    lacked = status in ("hang", "memory") or any(word in text for word in OF_MEMORY)
    return each(settings["command"], words, folder) if lacked else (status, text)


def run(settings, words, source):
    """(exit status, error text, names of files that were written)"""
    status, text = command(settings, [source.name if word == "IN" else word for word in words.split()], source.parent)
    written = sorted(p.name for p in source.parent.iterdir() if p != source)
    return status, text, written


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
    if status not in WRITES and (verb, status) not in SILENT and (len(errors) != 1 or not errors[0].startswith(("saturate: error: ", '{"error":'))):
        return f"exit status {status} with other than one line of error"
    return None


def work(seed, settings):
    mutator = Mutator(seed)
    number = seed // CHANGES_OF_ONE
    kind = KINDS[number % len(KINDS)]
    try:
        name, data = changed(mutator, original(number))
    except (DecodeError, ValueError, TypeError):
        return []
    verb = mutator.pick(OF_DECODERS if kind is language_model else OF_GRAPHS)
    words = mutator.pick(VERBS[verb][0])
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "run" / name
        source.parent.mkdir()
        source.write_bytes(data)
        status, text, written = run(settings, words, source)
    if why := verdict(verb, status, text, written):
        return [outcome("wrong", f"{words}: {why}: {' '.join(text.split())[:300]}", model=data)]
    return [outcome(f"{verb} {status}", counted={kind.__name__: True})]
