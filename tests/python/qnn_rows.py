"""The rows of tests/data/qnn_htp_rows.txt as models."""
import re
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper

from conftest import DATA, tensor

TYPES = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "bool": TensorProto.BOOL}
OPSETS = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]


@dataclass
class Row:
    verdicts: str
    name: str
    inputs: str
    weights: str
    nodes: str

    def verdict(self, dtype):
        return self.verdicts[["float", "float16"].index(dtype)]


def rows():
    lines = (DATA / "qnn_htp_rows.txt").read_text().splitlines()
    for line in lines:
        if not line.startswith("#"):
            head, name, graph = (part.strip() for part in line.split(" | "))
            yield Row(head, name, *(part.strip() for part in re.split(r" ?; ?", graph, maxsplit=2)))


def declared(text, dtype):
    """(name, element type, shape) of each of "x[2,3] i=int64[4]"."""
    for name, typed, shape in re.findall(r"(\w+)(?:=(\w+))?\[([^\]]*)\]", text):
        yield name, TYPES[typed or dtype], [int(d) if d.isdigit() else d for d in shape.split(",") if d]


def model_of(row, dtype):
    """One model: constants of integers among the nodes' inputs become initializers, `y:int64` says an output's type."""
    constants, outputs = [], {}

    def constant(match):
        constants.append(tensor(f"c{len(constants)}", np.array(eval(match.group(0)), np.int64)))
        return constants[-1].name

    def typed(match):
        outputs[match.group(1)] = TYPES[match.group(2)]
        return match.group(1)

    nodes = re.sub(r"\b([yzi]):(\w+)", typed, row.nodes)
    nodes = re.sub(r"(?<=[(,] )(\[[-\d,]*\]|\d+)(?=[ ,)])|(?<=\()(\[[-\d,]*\]|\d+)(?=[ ,)])", constant, nodes)
    graph = onnx.parser.parse_graph(f"g () => () {{ {nodes} }}")
    made = [o for n in graph.node for o in n.output]
    rng = np.random.default_rng(0)
    for name, kind, shape in declared(row.weights, dtype):
        constants.append(tensor(name, (rng.random(shape) + 0.5).astype(helper.tensor_dtype_to_np_dtype(kind))))
    used = {i for n in graph.node for i in n.input}
    ends = [o for o in made if o not in used]
    graph.input.extend(helper.make_tensor_value_info(n, k, s) for n, k, s in declared(row.inputs, dtype))
    graph.output.extend(helper.make_tensor_value_info(o, outputs.get(o, TYPES[dtype]), None) for o in ends)
    graph.initializer.extend(constants)
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
