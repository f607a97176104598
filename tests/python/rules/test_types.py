"""Every type that a schema allows, for each operator: what ONNX Runtime runs, our kernels run, and our facts and rules take."""
from __future__ import annotations

import collections
import itertools
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import defs, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from conftest import run

ort.set_default_logger_severity(4)
RANDOM = {"Bernoulli", "RandomNormalLike", "RandomUniformLike", "Multinomial"}  # nothing of them can be compared
# What ONNX Runtime runs and our kernels do not, by operator and types of its inputs, with the reason.
LEFT: dict[tuple[str, tuple[str, ...]], str] = {}
MANY = 60  # combinations of types; where there are more, each pair of them is tried once
NAMES = {f"tensor({n.lower()})": t for n, t in T.DataType.items() if n != "UNDEFINED"}


def smallest_cases():
    """Of each operator, the smallest of ONNX's own cases that give something, with its fewest inputs and with its most."""
    found = {}
    for case in collect_testcases(None):
        nodes, data = case.model.graph.node, case.data_sets
        if len(nodes) != 1 or not data or any(a.type == onnx.AttributeProto.GRAPH for a in nodes[0].attribute):
            continue
        inputs, outputs = data[0]
        if not inputs or not all(isinstance(x, np.ndarray) for x in [*inputs, *outputs]) or all(x.size == 0 for x in outputs):
            continue
        node = nodes[0]
        key, size = (node.domain, node.op_type, tuple(map(bool, node.input)), len(node.output)), sum(x.size for x in inputs)
        if key not in found or size < found[key][2]:
            found[key] = (case.model, inputs, size)
    by_operator = collections.defaultdict(list)
    for (domain, op, *_), (model, inputs, _) in sorted(found.items(), key=lambda item: sum(item[0][2])):
        by_operator[domain, op].append((model, inputs))
    return {key: cases[:1] + cases[1:][-1:] for key, cases in by_operator.items()}


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CASES = smallest_cases()


def as_type(array, dtype):
    if dtype == T.STRING:
        return array.astype(str).astype(object)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if array.dtype == object:
        array = np.arange(array.size).reshape(array.shape) % 3
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if np.issubdtype(array.dtype, np.floating) and np.issubdtype(kind, np.integer):
            array = np.nan_to_num(array)
        return (np.abs(array) if np.issubdtype(kind, np.unsignedinteger) else array).astype(kind)


def choices(schema, node):
    """By input that is there, each choice of types that the schema's constraints allow."""
    allowed = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}
    free, of_input = {}, []
    for i, name in enumerate(node.input):
        if not name:
            continue
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        key = (formal.type_str, "" if formal.type_str in allowed and formal.is_homogeneous else name)
        free[key] = [t for t in allowed.get(formal.type_str, [formal.type_str]) if t in NAMES]
        of_input.append(key)
    keys = list(free)
    every = itertools.product(*free.values())
    if np.prod([float(len(types)) for types in free.values()]) > MANY:
        usual = ["tensor(float)" if "tensor(float)" in free[k] else "tensor(int64)" if "tensor(int64)" in free[k] else free[k][0] for k in keys]
        pairs = itertools.combinations(range(len(keys)), 2)
        every = {tuple(a if k == i else b if k == j else usual[k] for k in range(len(keys))) for i, j in pairs for a in free[keys[i]] for b in free[keys[j]]}
    for types in sorted(every):
        yield [dict(zip(keys, types))[key] for key in of_input]


def versions(domain, op, model):
    """The newest and the oldest version that the case may be of, less what runtimes load no more."""
    newest = next(i.version for i in model.opset_import if i.domain == domain)
    known = {s.since_version for s in defs.get_all_schemas_with_history() if (s.domain, s.name) == (domain, op) and not s.deprecated}
    fitting = sorted(v for v in known if v <= newest and (domain or v >= 7))
    return {fitting[0], fitting[-1]} if fitting else set()


class Form:
    """A case in other types, as a part of a model with others of its kind."""

    def __init__(self, number, model, inputs, types):
        self.types, self.node, self.values = types, onnx.NodeProto(), []
        self.node.CopyFrom(model.graph.node[0])
        given = iter(zip(inputs, types))
        names = {}
        for i, name in enumerate(self.node.input):
            if name:
                array, dtype = next(given)
                if name not in names:
                    names[name] = f"{name}_{number}"
                    self.values.append(numpy_helper.from_array(as_type(np.asarray(array), NAMES[dtype]), names[name]))
                self.node.input[i] = names[name]
        for i, name in enumerate(self.node.output):
            self.node.output[i] = name and f"{name}_{number}_made"
        self.node.name = f"node_{number}"


def model_of(forms, domain, version, as_inputs=False):
    values = [v for form in forms for v in form.values]
    inputs = [helper.make_tensor_value_info(v.name, v.data_type, list(v.dims)) for v in values] if as_inputs else []
    outputs = [onnx.ValueInfoProto(name=o) for form in forms for o in form.node.output if o]
    graph = helper.make_graph([form.node for form in forms], "forms", inputs, outputs, [] if as_inputs else values)
    imports = [helper.make_opsetid(domain, version)] + ([helper.make_opsetid("", 21)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=13 if version > 24 else 11)


def loaded(model):
    options = ort.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def runs_there(model):
    try:
        loaded(model).run(None, {})
    except Exception:  # noqa: BLE001: it has many kinds of errors
        return False
    return True


def forms_that_run(domain, op, version):
    """What ONNX Runtime runs of them, and what is not left out with a reason."""
    out = []
    for model, inputs in CASES[domain, op]:
        node, schema = model.graph.node[0], defs.get_schema(op, version, domain)
        many = schema.inputs and schema.inputs[-1].option == defs.OpSchema.FormalParameterOption.Variadic
        if version not in versions(domain, op, model) or (len(node.input) > len(schema.inputs) and not many):
            continue
        for types in choices(schema, node):
            try:
                form = Form(len(out), model, inputs, types)
            except (TypeError, ValueError, OverflowError):
                continue  # numpy makes no such numbers of these
            if (op, tuple(types)) not in LEFT and runs_there(model_of([form], domain, version)):
                out.append(form)
    return out


ALL = sorted({(domain, op, version) for (domain, op), cases in CASES.items() if op not in RANDOM for model, _ in cases
              for version in versions(domain, op, model)})


@pytest.mark.parametrize("domain, op, version", ALL)
def test_types_of_schemas(tmp_path, domain, op, version):
    forms = forms_that_run(domain, op, version)
    if not forms:
        return
    path = tmp_path / "m.onnx"

    def refused(some):
        onnx.save(model_of(some, domain, version), path)
        done = run("verify", path, path)
        if done.returncode == 0 or "no output had an element" in done.stderr:
            return []
        if len(some) == 1:
            return [(some[0].types, done.stderr)]
        return refused(some[:len(some) // 2]) + refused(some[len(some) // 2:])

    assert refused(forms) == []
    onnx.save(model_of(forms, domain, version, as_inputs=True), path)
    done = run(path, "-o", tmp_path / "o.onnx", "--no-verify", "--target", "ort-cpu@1.31", "--time-limit", 20)
    assert done.returncode == 0, done.stderr
    loaded(onnx.load(tmp_path / "o.onnx"))
