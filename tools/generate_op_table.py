#!/usr/bin/env python3
"""Writes onnx_bridge/operators/op_table_onnx.inc and op_table_microsoft.inc: the signatures of all operators, as a C++ raw string.

Usage: generate_op_table.py [--out FOLDER]      (needs the Python packages onnx and onnxruntime)

Sources: the schemas of the installed onnx package (all domains, all versions), and, for com.microsoft and the operators that
ONNX Runtime adds to the default domain, the schemas that the installed onnxruntime package registers.

Lines, fields separated by one blank ("*" as a maximum: no limit):
  types TYPE...                                        set number 0, 1, ... in order
  op DOMAIN NAME SINCE MININ MAXIN MINOUT MAXOUT [deprecated]   DOMAIN "-" is the default one; what follows belongs to it
  in NAME TYPE FLAGS   out NAME TYPE FLAGS             FLAGS: - single, ? optional, * variadic; TYPE * where each of a variadic has its own
  c NAME SET                                           type constraint
  a NAME TYPE FLAGS [DEFAULT]                          TYPE: AttributeProto.AttributeType; FLAGS: ! required, = has a default, - neither
Lists are separated by commas; a string default is the rest of the line.
"""

import argparse
import pathlib

import onnx
import onnx.defs

NO_LIMIT = 2**31 - 1
# Operators of the default domain that are ONNX Runtime's own and that its optimizers emit.
EXTRA_DEFAULT_DOMAIN = {"SimplifiedLayerNormalization"}
# Outputs that a schema calls optional, but without which ONNX Runtime's type inference refuses the node.
REQUIRED_OUTPUTS = {("com.microsoft", "EmbedLayerNormalization"): 2}


def option_flag(formal):
    name = str(formal.option).rsplit(".", 1)[-1].lower()
    return {"single": "-", "optional": "?", "variadic": "*"}[name]


def type_of(formal):
    homogeneous = getattr(formal, "is_homogeneous", getattr(formal, "isHomogeneous", True))
    return (getattr(formal, "type_str", None) or formal.typeStr).replace(" ", "") if homogeneous else "*"


def number(value):
    return repr(float(value))


def default_text(proto):
    kind = proto.type
    if kind == onnx.AttributeProto.INT:
        return str(proto.i)
    if kind == onnx.AttributeProto.FLOAT:
        return number(proto.f)
    if kind == onnx.AttributeProto.STRING:
        return proto.s.decode()
    if kind == onnx.AttributeProto.INTS:
        return ",".join(str(v) for v in proto.ints)
    if kind == onnx.AttributeProto.FLOATS:
        return ",".join(number(v) for v in proto.floats)
    if kind == onnx.AttributeProto.STRINGS:
        return ",".join(v.decode() for v in proto.strings)
    raise ValueError(f"no text for a default of type {kind}")


def default_of(attribute):
    value = getattr(attribute, "default_value", None)
    if value is None:
        value = getattr(attribute, "_default_value", None)
    if isinstance(value, bytes):
        value = onnx.AttributeProto.FromString(value)
    if value is None or value.type == onnx.AttributeProto.UNDEFINED:
        return None
    return value


def attribute_type(attribute):
    return int(getattr(attribute.type, "value", attribute.type))


class Table:
    def __init__(self):
        self.sets = {}
        self.lines = []

    def set_number(self, types):
        return self.sets.setdefault(tuple(types), len(self.sets))

    def add(self, schema):
        limit = lambda n: "*" if n >= NO_LIMIT else str(n)
        head = ["op", schema.domain or "-", schema.name, str(schema.since_version), str(schema.min_input), limit(schema.max_input),
                str(REQUIRED_OUTPUTS.get((schema.domain, schema.name), schema.min_output)), limit(schema.max_output)]
        self.lines.append(" ".join(head + (["deprecated"] if schema.deprecated else [])))
        for kind, formals in (("in", schema.inputs), ("out", schema.outputs)):
            for f in formals:
                self.lines.append(f"{kind} {f.name or '-'} {type_of(f)} {option_flag(f)}")
        for c in schema.type_constraints:
            name = getattr(c, "type_param_str", None)
            types = sorted(t.replace(" ", "") for t in c.allowed_type_strs)
            self.lines.append(f"c {name} {self.set_number(types)}")
        for name in sorted(schema.attributes):
            a = schema.attributes[name]
            default = default_of(a)
            flag = "!" if a.required else "=" if default is not None else "-"
            line = f"a {name} {attribute_type(a)} {flag}"
            if flag == "=":
                text = default_text(default)
                if "\n" in text:
                    raise ValueError(f"line break in the default of {schema.name}.{name}")
                line += " " + text
            self.lines.append(line)

    def write(self, path):
        sets = ["types " + " ".join(types) for types in self.sets]
        body = "\n".join(sets + self.lines)
        # GCC takes literals of any length; the delimiter cannot occur in the text.
        path.write_text('R"optable(' + body + '\n)optable"\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / "onnx_bridge" / "operators")
    folder = parser.parse_args().out
    order = lambda s: (s.domain, s.name, s.since_version)
    standard = Table()
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=order):
        standard.add(schema)
    standard.write(folder / "op_table_onnx.inc")
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    contributed = Table()
    for schema in sorted(get_all_operator_schema(), key=order):
        if schema.domain == "com.microsoft" or (schema.domain == "" and schema.name in EXTRA_DEFAULT_DOMAIN):
            contributed.add(schema)
    contributed.write(folder / "op_table_microsoft.inc")
    print(f"onnx {onnx.__version__}, opset {onnx.defs.onnx_opset_version()}")


if __name__ == "__main__":
    main()
