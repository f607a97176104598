"""Steps in front of a model and behind it, such as pictures in and pictures out: Olive's AppendPrePostProcessingOps.

>>> from onnx_saturate.pre_post import add_pre_post
>>> add_pre_post("net.onnx", {"tool_command": "superresolution", "tool_command_args": {"output_format": "png"}}, "pictures.onnx")

or `python -m onnx_saturate.pre_post net.onnx pictures.onnx --config steps.json`. Each step becomes a local function of standard
operators, or an operator of onnxruntime-extensions, which whoever runs the result registers. `STEPS` lists them.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import helper, shape_inference, version_converter

from . import _convert
from ._data_files import json_of, read_text
from ._errors import Error, OptionError, tell_error
from ._steps import EXTENSIONS, KINDS, REQUIRED, Body, Dim, Kind, Value
from ._values import _NUMBERS

__all__ = ["add_pre_post", "STEPS"]

DOMAIN = "onnx_saturate.steps"
OLDEST = 16

STEPS: dict[str, dict[str, str]] = {
    kind: {name: field.allowed for name, field in KINDS[kind].fields.items()} for kind in sorted(KINDS)
}
"""Names of the steps, with their fields and what is allowed there."""

_FIELDS = ("type", "pre", "post", "tool_command", "tool_command_args", "target_opset")
_PLACEHOLDERS = {"__model_input__": "input_index", "__model_output__": "output_index"}


# ---- the configuration ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Link:
    producer: str | None  # a step's name; None: the step before
    output: int
    input: int


@dataclass(frozen=True)
class _Spec:
    """A step as it is asked for."""

    where: str
    kind_name: str
    kind: Kind
    name: str
    at: Mapping[str, Any]
    links: Sequence[_Link]


def _refuse(place: str, field: str, value: object, allowed: str) -> OptionError:
    text = json.dumps(value, default=str)
    return OptionError(f"{place}: {field}: {text if len(text) < 80 else text[:77] + '...'} is not allowed; it is {allowed}")


def read_config(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """A JSON file, which may have comments and commas in front of closing brackets, as Olive's documents write it."""
    text = read_text(path)
    kept = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*', lambda m: m[1] or "", text)
    kept = re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda m: m[1] or "", kept)
    try:
        config = json_of(kept)
    except ValueError as error:
        raise Error(f"{os.fspath(path)}: is no JSON: {error}") from None
    if not isinstance(config, dict):
        raise Error(f"{os.fspath(path)}: holds no object with pre, post or tool_command")
    return config


def _whole(place: str, field: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refuse(place, field, value, "a whole number")
    return value


def _resolved(place: str, field: str, value: Any, model: _Model) -> Any:
    """With the sizes that placeholders stand for."""
    if isinstance(value, list):
        return [_resolved(place, field, item, model) for item in value]
    if not isinstance(value, dict):
        return value
    index_name = _PLACEHOLDERS.get(str(value.get("type")))
    if index_name is None or value.keys() != {"type", index_name, "dim_index"}:
        allowed = " or ".join(f'{{"type": "{kind}", "{name}": n, "dim_index": n}}' for kind, name in _PLACEHOLDERS.items())
        raise _refuse(place, field, value, allowed)
    values = model.inputs if index_name == "input_index" else model.outputs
    number, axis = _whole(place, field, value[index_name]), _whole(place, field, value["dim_index"])
    what = index_name.partition("_")[0]
    if not 0 <= number < len(values):
        raise OptionError(f"{place}: {field}: {index_name}: {number} is not allowed; the model has {len(values)} {what}s, counted from 0")
    known = values[number]
    if known.dims is None or not -len(known.dims) <= axis < len(known.dims):
        raise OptionError(f"{place}: {field}: dim_index: {axis} is no axis of the model's {what} {known.name}, {known}")
    if not isinstance(known.dims[axis], int):
        raise OptionError(f"{place}: {field}: dim {axis} of the model's {what} {known.name}, {known}, has no fixed size; fix it first")
    return known.dims[axis]


def _parameters(place: str, kind: Kind, given: Any, model: _Model) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise _refuse(place, "params", given, f"an object with {', '.join(kind.fields)}")
    for name in given:
        if name not in kind.fields:
            raise OptionError(f"{place}: {name} is no field of it; there are: {', '.join(kind.fields)}")
    out = {}
    for name, field in kind.fields.items():
        if name not in given:
            if field.default is REQUIRED:
                raise OptionError(f"{place}: {name} is missing; it is {field.allowed}")
            out[name] = field.default
            continue
        value = _resolved(place, name, given[name], model)
        try:
            out[name] = field.take(value)
        except (ValueError, TypeError, OverflowError):
            raise _refuse(place, name, value, field.allowed) from None
    return out


def _link(place: str, entry: Any) -> _Link:
    allowed = "[step or null, output, input], such as [\"PixelsToYCbCr\", 1, 0]"
    if not isinstance(entry, (list, tuple)) or len(entry) != 3 or not isinstance(entry[0], (str, type(None))):
        raise _refuse(place, "io_map", entry, allowed)
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in entry[1:]):
        raise _refuse(place, "io_map", entry, allowed)
    return _Link(entry[0], entry[1], entry[2])


def _spec(where: str, number: int, item: Any, model: _Model) -> _Spec:
    place = f"{where}[{number}]"
    if not isinstance(item, dict) or len(item) != 1:
        raise _refuse(where, str(number), item, 'an object of one step, such as {"Squeeze": {"axes": [0]}}')
    ((kind_name, given),) = item.items()
    if kind_name not in KINDS:
        raise OptionError(f"{place}: there is no step {kind_name}; there are: {', '.join(KINDS)}")
    kind, place = KINDS[kind_name], f"{place}: step {kind_name}"
    links: list[_Link] = []
    if isinstance(given, dict) and given and given.keys() <= {"params", "io_map"}:
        entries = given.get("io_map", [])
        if not isinstance(entries, list):
            raise _refuse(place, "io_map", entries, "a list")
        links = [_link(place, entry) for entry in entries]
        given = given.get("params", {})
    at = _parameters(place, kind, {} if given is None else given, model)
    return _Spec(place, kind_name, kind, at["name"] or kind_name, at, links)


def _superresolution(args: Any) -> dict[str, Any]:
    """The steps of the command: the net sees Y alone; Cb and Cr are made larger beside it."""
    args = {} if args is None else args
    if not isinstance(args, dict):
        raise _refuse("tool_command superresolution", "tool_command_args", args, 'an object, such as {"output_format": "png"}')
    for name in args:
        if name != "output_format":
            raise OptionError(f"tool_command superresolution: {name} is no argument of it; there is: output_format")
    picture = args.get("output_format", "jpg")
    if picture not in ("jpg", "png"):
        raise _refuse("tool_command superresolution", "output_format", picture, '"jpg" or "png"')
    small = [{"type": "__model_input__", "input_index": 0, "dim_index": axis} for axis in (-2, -1)]
    large = [{"type": "__model_output__", "output_index": 0, "dim_index": axis} for axis in (-2, -1)]
    post: list[dict[str, Any]] = [{"Squeeze": {"axes": [0, 1]}}, {"FloatToImageBytes": {"name": "Y1"}}]
    for output, name in ((1, "Cb1"), (2, "Cr1")):
        post.append({"Resize": {"params": {"resize_to": large, "layout": "HW"}, "io_map": [["PixelsToYCbCr", output, 0]]}})
        post.append({"FloatToImageBytes": {"multiplier": 1.0, "name": name}})
    post.append({"YCbCrToPixels": {"params": {"layout": "BGR"}, "io_map": [["Y1", 0, 0], ["Cb1", 0, 1], ["Cr1", 0, 2]]}})
    return {
        "pre": [
            {"ConvertImageToBGR": {}},
            {"Resize": {"resize_to": small}},
            {"CenterCrop": {"height": small[0], "width": small[1]}},
            {"PixelsToYCbCr": {"layout": "BGR"}},
            {"ImageBytesToFloat": {}},
            {"Unsqueeze": {"axes": [0, 1]}},
        ],
        "post": [*post, {"ConvertBGRToImage": {"image_format": picture}}],
        "tool_command_args": [{"name": "image", "data_type": "uint8", "shape": ["num_bytes"]}],
    }


_COMMANDS = {"superresolution": _superresolution}


def _expanded(config: Mapping[str, Any]) -> dict[str, Any]:
    """With the steps that a tool command stands for."""
    if isinstance(config.get("config"), Mapping) and config.keys() <= {"type", "config"}:
        config = {**config["config"], **({"type": config["type"]} if "type" in config else {})}
    for name in config:
        if name not in _FIELDS:
            raise OptionError(f"AppendPrePostProcessingOps: {name} is no field of it; there are: {', '.join(_FIELDS)}")
    if config.get("type", "AppendPrePostProcessingOps") != "AppendPrePostProcessingOps":
        raise _refuse("AppendPrePostProcessingOps", "type", config["type"], '"AppendPrePostProcessingOps"')
    command = config.get("tool_command")
    if command is None:
        if not config.get("pre") and not config.get("post"):
            raise OptionError("AppendPrePostProcessingOps: no step is given; it takes pre, post or tool_command")
        return dict(config)
    if command not in _COMMANDS:
        raise _refuse("AppendPrePostProcessingOps", "tool_command", command, " or ".join(f'"{name}"' for name in _COMMANDS))
    if config.get("pre") or config.get("post"):
        raise OptionError("AppendPrePostProcessingOps: tool_command has steps of its own; give it, or pre and post")
    return {**config, **_COMMANDS[command](config.get("tool_command_args"))}


def _declared(args: Any) -> list[Value]:
    """The inputs that `tool_command_args` declare."""
    if not isinstance(args, list) or not args:
        raise _refuse("AppendPrePostProcessingOps", "tool_command_args", args, 'a list of inputs, such as [{"name": "image", "data_type": "uint8", "shape": ["num_bytes"]}]')
    out: list[Value] = []
    for number, given in enumerate(args):
        place = f"tool_command_args[{number}]"
        if not isinstance(given, dict) or given.keys() != {"name", "data_type", "shape"}:
            raise _refuse("AppendPrePostProcessingOps", place, given, "an object with name, data_type and shape")
        name, kind, shape = given["name"], given["data_type"], given["shape"]
        if not isinstance(name, str) or not name:
            raise _refuse(place, "name", name, "a name")
        if name in {value.name for value in out}:
            raise OptionError(f"{place}: name: {name} stands twice")
        if not isinstance(kind, str) or kind not in _NUMBERS:
            raise _refuse(place, "data_type", kind, f"one of {', '.join(_NUMBERS)}")
        if not isinstance(shape, list) or not all(isinstance(d, (int, str)) and not isinstance(d, bool) and d not in ("",) and (isinstance(d, str) or d >= 0) for d in shape):
            raise _refuse(place, "shape", shape, "a list of sizes and names")
        out.append(Value(name, _NUMBERS[kind], tuple(shape)))
    return out


# ---- the model ------------------------------------------------------------------------------------------------------------------------


def _known(info: onnx.ValueInfoProto) -> Value:
    kind = info.type.tensor_type
    dims: tuple[Dim, ...] | None = None
    if kind.HasField("shape"):
        dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim)
    return Value(info.name, kind.elem_type, dims)


def _names_of(graph: onnx.GraphProto) -> Iterator[str]:
    """All names of values and nodes, those in subgraphs, too."""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield value.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for node in graph.node:
        yield from (node.name, *node.input, *node.output)
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _names_of(inner)


def _opset(model: onnx.ModelProto) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)


def _at_opset(model: onnx.ModelProto, wanted: Any) -> onnx.ModelProto:
    """The model at the opset that the steps are written for."""
    present = _opset(model)
    newest = onnx.defs.onnx_opset_version()
    lowest = max(OLDEST, present)
    if wanted is None:
        wanted = lowest
    elif isinstance(wanted, bool) or not isinstance(wanted, int) or not lowest <= wanted <= newest:
        why = f" (the model is of opset {present})" if present > OLDEST else ""
        raise _refuse("AppendPrePostProcessingOps", "target_opset", wanted, f"a whole number from {lowest}{why} to {newest}")
    if wanted == present:
        return model
    if model.functions:
        raise Error(f"the model has local functions and is of opset {present}, so that it can't be brought to {wanted}; inline them first")
    try:
        return version_converter.convert_version(model, wanted)
    except Exception as error:
        raise Error(f"the model can't be brought from opset {present} to {wanted}: {' '.join(str(error).split())[:300]}") from None


class _Model:
    """A model that steps are put around."""

    def __init__(self, proto: onnx.ModelProto, opset: Any) -> None:
        self.proto = _at_opset(proto, opset)
        self.opset = _opset(self.proto)
        graph = self.proto.graph
        self.names = set(_names_of(graph))
        defaults = {tensor.name for tensor in graph.initializer}
        self.inputs = [_known(value) for value in graph.input if value.name not in defaults]
        self.outputs = [_known(value) for value in graph.output]
        if any(value.dims is None or "?" in value.dims for value in self.outputs):
            self.outputs = self._inferred()
        self.functions = {(f.domain, f.name) for f in self.proto.functions}

    def _inferred(self) -> list[Value]:
        try:
            inferred = shape_inference.infer_shapes(self.proto)
        except Exception:  # what it doesn't know stays unknown
            return self.outputs
        return [_known(value) for value in inferred.graph.output]

    def new_name(self, wish: str) -> str:
        """A name that no value has."""
        name, count = wish, 1
        while name in self.names:
            count += 1
            name = f"{wish}_{count}"
        self.names.add(name)
        return name

    def add_function(self, wish: str, inputs: Sequence[str], outputs: Sequence[str], body: Body) -> str:
        """Its name."""
        name, count = wish, 1
        while (DOMAIN, name) in self.functions:
            count += 1
            name = f"{wish}_{count}"
        self.functions.add((DOMAIN, name))
        self.proto.functions.append(helper.make_function(DOMAIN, name, inputs, outputs, body.nodes, [helper.make_opsetid("", self.opset)]))
        return name


# ---- putting together -----------------------------------------------------------------------------------------------------------------


class _Chain:
    """Steps that were made so far, and their nodes."""

    def __init__(self, model: _Model) -> None:
        self.model = model
        self.made: list[tuple[str, list[Value]]] = []

    def add(self, spec: _Spec, before: Sequence[Value]) -> tuple[onnx.NodeProto, list[Value]]:
        """The node of a step and its outputs. `before`: what it takes where nothing else is said."""
        names = spec.kind.inputs(spec.at)
        given: list[Value | None] = [*before[: len(names)], *[None] * (len(names) - len(before))]
        for link in spec.links:
            if link.input >= len(names):
                raise OptionError(f"{spec.where}: io_map: it has no input {link.input}; there are: {_counted(names)}")
            given[link.input] = self._produced(spec, link, before)
        missing = [name for name, value in zip(names, given) if value is None]
        if missing:
            raise OptionError(f"{spec.where}: its input {missing[0]} comes from nowhere; name a step in io_map")
        inputs = [value for value in given if value is not None]
        body = Body(f"{spec.kind_name} ({spec.name})" if spec.name != spec.kind_name else spec.name, self.model.opset)
        try:
            made = spec.kind.build(body, spec.at, [Value(name, v.dtype, v.dims) for name, v in zip(names, inputs)])
        except OptionError as error:
            raise OptionError(f"{spec.where.partition(':')[0]}: {error}") from None
        call = self.model.new_name(re.sub(r"\W", "_", spec.name))
        outputs = [
            Value(self.model.new_name(f"{call}_{wish}"), value.dtype, _apart(call, value.dims, inputs))
            for wish, value in zip(spec.kind.outputs(spec.at), made)
        ]
        node = self._node(call, body, names, made)
        for written, values in ((node.input, inputs), (node.output, outputs)):
            del written[:]
            written.extend(value.name for value in values)
        self.made.append((spec.name, outputs))
        return node, outputs

    def _node(self, call: str, body: Body, names: Sequence[str], made: Sequence[Value]) -> onnx.NodeProto:
        """A call of a function; an operator of onnxruntime-extensions stands for itself, since ONNX Runtime infers no types of it in a function."""
        if any(node.domain == EXTENSIONS for node in body.nodes):
            (node,) = body.nodes
            node.name = call
            return node
        function = self.model.add_function(call, names, [value.name for value in made], body)
        return helper.make_node(function, [], [], call, domain=DOMAIN)

    def _produced(self, spec: _Spec, link: _Link, before: Sequence[Value]) -> Value:
        if link.producer is None:
            outputs = list(before)
        else:
            found = [outputs for name, outputs in self.made if name == link.producer]
            if len(found) != 1:
                there = ", ".join(dict.fromkeys(name for name, _ in self.made)) or "none"
                why = f"{len(found)} steps before it are named" if found else "no step before it is named"
                raise OptionError(f"{spec.where}: io_map: {why} {link.producer}; there are: {there}" + ("; give each a name" if found else ""))
            outputs = found[0]
        if link.output >= len(outputs):
            raise OptionError(f"{spec.where}: io_map: {link.producer or 'the step before'} has no output {link.output}; it has {len(outputs)}, counted from 0")
        return outputs[link.output]


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{i} ({name})" for i, name in enumerate(names))


def _apart(function: str, dims: tuple[Dim, ...] | None, inputs: Sequence[Value]) -> tuple[Dim, ...] | None:
    """With names of new dims that no other step has."""
    known = {dim for value in inputs for dim in value.dims or ()}
    return None if dims is None else tuple(dim if isinstance(dim, int) or dim in known else f"{function}_{dim}" for dim in dims)


def _info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, value.dtype, None if value.dims is None else [None if d == "?" else d for d in value.dims])


def _fits(made: Value, wanted: Value) -> bool:
    if made.dtype != wanted.dtype:
        return False
    if made.dims is None or wanted.dims is None:
        return True
    return len(made.dims) == len(wanted.dims) and all(a == b or isinstance(a, str) or isinstance(b, str) for a, b in zip(made.dims, wanted.dims))


def _renamed(nodes: Iterable[onnx.NodeProto], old: str, new: str) -> None:
    for node in nodes:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new


def _put_before(chain: _Chain, specs: Sequence[_Spec], inputs: Sequence[Value]) -> None:
    """The last step's outputs take the names of the model's inputs."""
    model, graph = chain.model, chain.model.proto.graph
    for value in inputs:
        if value.name in model.names:
            raise OptionError(f"tool_command_args: name: {value.name} is a value of the model; choose another name")
        model.names.add(value.name)
    nodes, last = [], list(inputs)
    for spec in specs:
        node, last = chain.add(spec, last)
        nodes.append(node)
    for number, (made, wanted) in enumerate(zip(last, model.inputs)):
        if not _fits(made, wanted):
            raise OptionError(f"pre: the last step, {specs[-1].name}, gives {made}, and the model's input {wanted.name} is {wanted}; add or change steps")
        _renamed(nodes, made.name, wanted.name)
        last[number] = Value(wanted.name, made.dtype, made.dims)
    chain.made[-1] = (chain.made[-1][0], last)
    taken = {value.name for value in last}
    rest = [value for value in graph.input if value.name not in taken]
    declared = [value for value in graph.input if value.name in taken]
    del graph.input[:]
    graph.input.extend([*map(_info, inputs), *rest])
    graph.value_info.extend(declared)
    behind = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *behind])


def _put_behind(chain: _Chain, specs: Sequence[_Spec]) -> None:
    model, graph = chain.model, chain.model.proto.graph
    nodes, last = [], list(model.outputs)
    for spec in specs:
        node, last = chain.add(spec, last)
        nodes.append(node)
    taken = {name for node in nodes for name in node.input}
    untouched = [value for value in graph.output if value.name not in taken]
    graph.value_info.extend(value for value in graph.output if value.name in taken)
    out = []
    for name, value in zip(specs[-1].kind.outputs(specs[-1].at), last):
        # A picture in and a picture out would both be `image`.
        plain = model.new_name(name if name not in model.names else f"{name}_out")
        _renamed(nodes, value.name, plain)
        out.append(_info(Value(plain, value.dtype, value.dims)))
    del graph.output[:]
    graph.output.extend([*untouched, *out])
    graph.node.extend(nodes)


def _add_imports(model: _Model) -> None:
    proto = model.proto
    used = {node.domain for node in proto.graph.node} & {DOMAIN, EXTENSIONS}
    for domain in sorted(used - {entry.domain for entry in proto.opset_import}):
        proto.opset_import.append(helper.make_opsetid(domain, 1))
    needed = helper.find_min_ir_version_for([helper.make_opsetid("", model.opset)])
    proto.ir_version = max(proto.ir_version, needed, 8)  # local functions came with 8


def add_pre_post(
    model: _convert.ModelLike, config: Mapping[str, Any] | str | os.PathLike[str], output: str | os.PathLike[str] | None = None
) -> onnx.ModelProto | None:
    """The model with steps in front of it and behind it, as Olive's AppendPrePostProcessingOps asks for them.

    `config` is its JSON object or a file with it:

    - `pre`, `post`: lists of steps, {"Squeeze": {"axes": [0]}}, or {"Squeeze": {"params": {...}, "io_map": [["PixelsToYCbCr", 1, 0]]}}. A
      step takes the outputs of the one before, in order; entries of `io_map` (step, its output, input of this one) say otherwise. The first
      of `pre` takes the inputs that `tool_command_args` declare (name, data_type, shape), the first of `post` the model's outputs.
      {"type": "__model_input__", "input_index": 0, "dim_index": -1} and "__model_output__" stand for sizes of the model.
    - `tool_command`: "superresolution" stands for the steps of a net that sees Y alone; `tool_command_args`: {"output_format": "png"}.
    - `target_opset`: what the steps are written for, 16 or newer (default: the model's; an older one is raised).

    The result's outputs are those of the model that no step takes, then the last step's. With `output` it goes there, and None is returned.
    Raises `OptionError`, which names step, field, value and what is allowed; nothing is written then.
    """
    if not isinstance(config, Mapping):
        config = read_config(config)
    asked = _expanded(config)
    proto = onnx.ModelProto()
    proto.CopyFrom(model if isinstance(model, onnx.ModelProto) else _convert.to_proto(_convert.to_core(model)))
    around = _Model(proto, asked.get("target_opset"))
    lists: dict[str, list[_Spec]] = {}
    for where in ("pre", "post"):
        items = asked.get(where) or []
        if not isinstance(items, list):
            raise _refuse("AppendPrePostProcessingOps", where, items, "a list of steps")
        lists[where] = [_spec(where, number, item, around) for number, item in enumerate(items)]
    chain = _Chain(around)
    if lists["pre"]:
        _put_before(chain, lists["pre"], _declared(asked.get("tool_command_args")))
    if lists["post"]:
        _put_behind(chain, lists["post"])
    _add_imports(around)
    if output is None:
        return around.proto
    _convert.from_proto(around.proto).save(os.fspath(output))
    return None


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m onnx_saturate.pre_post", description="Puts steps in front of a model and behind it (Olive's AppendPrePostProcessingOps)."
    )
    parser.add_argument("model", metavar="IN.onnx")
    parser.add_argument("output", metavar="OUT.onnx")
    parser.add_argument("--config", metavar="STEPS.json", help="pre, post, tool_command, tool_command_args, target_opset")
    parser.add_argument("--tool-command", metavar="NAME", help="instead of --config: superresolution")
    parser.add_argument("--output-format", choices=("jpg", "png"), help="of superresolution (jpg)")
    parser.add_argument("--target-opset", type=int, metavar="N")
    args = parser.parse_args(words)
    try:
        if (args.config is None) == (args.tool_command is None):
            raise OptionError("give --config or --tool-command")
        if args.config is not None and args.output_format is not None:
            raise OptionError("--output-format goes with --tool-command")
        config: dict[str, Any] = dict(read_config(args.config)) if args.config else {"tool_command": args.tool_command}
        if args.output_format is not None:
            config["tool_command_args"] = {"output_format": args.output_format}
        if args.target_opset is not None:
            config["target_opset"] = args.target_opset
        add_pre_post(args.model, config, args.output)
    except Error as error:
        return tell_error("onnx_saturate.pre_post", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
