"""Time grows with a model's size, not with its square: inputs, chains, and inputs of one node."""

import os
import resource

import pytest
from onnx import TensorProto, helper

from conftest import SANITIZED, run

F32 = TensorProto.FLOAT


def value(name, shape=(2,)):
    return helper.make_tensor_value_info(name, F32, list(shape))


def model(nodes, inputs, outputs):
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def many_inputs(n):
    nodes = [helper.make_node("Relu", [f"i{k}"], [f"r{k}"]) for k in range(n)] + [helper.make_node("Sum", [f"r{k}" for k in range(n)], ["y"])]
    return model(nodes, [value(f"i{k}") for k in range(n)], [value("y")])


def chain(n):
    return model([helper.make_node("Tanh", [f"v{k}"], [f"v{k + 1}"]) for k in range(n)], [value("v0")], [value(f"v{n}")])


def sums_of_inputs(n):
    """Behind each of n inputs the operators that carry it are a chain."""
    nodes = [helper.make_node("Add", [f"v{k}", f"i{k}"], [f"v{k + 1}"]) for k in range(n)]
    return model(nodes, [value("v0")] + [value(f"i{k}") for k in range(n)], [value(f"v{n}")])


def readers_of_one(n):
    """One value, which n nodes read, each with a constant of its own."""
    constants = [helper.make_tensor(f"c{k}", F32, [2], [k, k + 1]) for k in range(n)]
    nodes = [helper.make_node("Mul", ["x", f"c{k}"], [f"r{k}"]) for k in range(n)] + [helper.make_node("Sum", [f"r{k}" for k in range(n)], ["y"])]
    made = model(nodes, [value("x")], [value("y")])
    made.graph.initializer.extend(constants)
    return made


def one_node(op, size_of, **attributes):
    return lambda n: model([helper.make_node(op, ["x"] * n, ["y"], **attributes)], [value("x", (1,))], [value("y", (size_of(n),))])


def many_outputs(n):
    made = model([helper.make_node("Add", ["x", f"c{k}"], [f"r{k}"]) for k in range(n)], [value("x")], [value(f"r{k}") for k in range(n)])
    made.graph.initializer.extend(helper.make_tensor(f"c{k}", F32, [2], [k, k + 1]) for k in range(n))
    return made


def equal_outputs(n):
    """One value under n names, each of which is an output."""
    return model([helper.make_node("Relu", ["x"], [f"r{k}"]) for k in range(n)], [value("x")], [value(f"r{k}") for k in range(n)])


def equal_inputs(n):
    """One value under n names, all of which one node reads."""
    return model([helper.make_node("Sigmoid", ["x"], [f"r{k}"]) for k in range(n)] + [helper.make_node("Sum", [f"r{k}" for k in range(n)], ["y"])], [value("x")], [value("y")])


def functions(n):
    """Each called once."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = [helper.make_function("own", f"F{k}", ["a"], ["b"], [helper.make_node("Erf", ["a"], ["m"]), helper.make_node("Add", ["m", "a"], ["b"])], imports[:1]) for k in range(n)]
    nodes = [helper.make_node(f"F{k}", [f"v{k}"], [f"v{k + 1}"], domain="own") for k in range(n)]
    return helper.make_model(helper.make_graph(nodes, "g", [value("v0")], [value(f"v{n}")]), opset_imports=imports, ir_version=8, functions=made)


def normalizations(n):
    """Behind each other, spelled out, and of the same constants: what one of them would share, all of them would."""
    nodes, steps = [], "ReduceMean m x axes|Sub d x m|Pow p d two|ReduceMean v p axes|Add w v e|Sqrt s w|Div q d s|Mul r q g|Add y r x"
    for k in range(n):
        for step in steps.split("|"):
            op, out, *inputs = step.split()
            names = [f"y{k - 1}" if k and i == "x" else i if i in ("x", "axes", "two", "e", "g") else f"{i}{k}" for i in inputs]
            nodes.append(helper.make_node(op, names, [f"{out}{k}"]))
    made = model(nodes, [value("x", (2, 3))], [value(f"y{n - 1}", (2, 3))])
    made.opset_import[0].version = 18
    constants = [("axes", TensorProto.INT64, [1], [-1]), ("two", F32, [], [2]), ("e", F32, [], [1e-5]), ("g", F32, [3], [0.1, 0.2, 0.3])]
    made.graph.initializer.extend(helper.make_tensor(*constant) for constant in constants)
    return made


def transposes(n):
    """Turned and turned back: where no Transpose is left, the search for the one before went back to the beginning."""
    nodes = [node for k in range(n) for node in (helper.make_node("Transpose", [f"v{k}"], [f"t{k}"], perm=[1, 0]), helper.make_node("Tanh", [f"t{k}"], [f"v{k + 1}"]))]
    return model(nodes, [value("v0", (2, 2))], [value(f"v{n}", (2, 2))])


def inputs_with_defaults(n):
    made = many_inputs(n)
    made.graph.initializer.extend(helper.make_tensor(f"i{k}", F32, [2], [k, k + 1]) for k in range(n))
    return made


def processor_time(path, output):
    """Of the command without another judge, which has times of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = run("optimize", path, "-o", output, "--judge", "saturate", timeout=300)
    assert done.returncode == 0, done.stderr
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


@pytest.mark.skipif(SANITIZED, reason="measures what is shipped")
@pytest.mark.parametrize("words", [["diff", "m.onnx", "m.onnx"], ["run", "m.onnx", "--random"]])
def test_sums_of_thousands(tmp_path, words):
    """Each input was paired with each other by diff (21 GB of 50,000), and counted again for each other one by what makes a session."""
    (tmp_path / "m.onnx").write_bytes(readers_of_one(10_000).SerializeToString())
    done = run(*words, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("domain", ["", "own"])
def test_diff_of_sums_of_three(tmp_path, domain, change):
    """With an operator that nothing runs there is no evidence, and places beyond the second input were looked up in front of the first."""
    for name, order in (("a.onnx", "pqr"), ("b.onnx", "rpq")):
        nodes = [helper.make_node(op, ["x"], [out]) for op, out in (("Relu", "p"), ("Tanh", "q"), ("Elu" if change and name == "b.onnx" else "Sigmoid", "r"))]
        nodes += [helper.make_node("Sum", list(order), ["s"]), helper.make_node("Own" if domain else "Neg", ["s"], ["y"], domain=domain)]
        made = model(nodes, [value("x")], [value("y")])
        made.opset_import.append(helper.make_opsetid("own", 1))
        (tmp_path / name).write_bytes(made.SerializeToString())
    done = run("diff", "a.onnx", "b.onnx", cwd=tmp_path)
    assert done.returncode in (0, 1, 3), done.stderr
    assert ("no difference" in done.stdout) == (not change) and (not change or "Elu" in done.stdout), done.stdout


CASES = {
    "inputs": (many_inputs, 2_500),
    "chain": (chain, 5_000),
    "sums of inputs": (sums_of_inputs, 2_500),
    "readers": (readers_of_one, 10_000),
    "sum": (many_inputs, 10_000),
    "outputs": (many_outputs, 10_000),
    "concat": (one_node("Concat", lambda n: n, axis=0), 12_500),
    "equal outputs": (equal_outputs, 10_000),
    "equal inputs": (equal_inputs, 10_000),
    "inputs with defaults": (inputs_with_defaults, 5_000),
    "functions": (functions, 2_500),
    "normalizations": (normalizations, 1_500),
    "transposes": (transposes, 10_000),
    "max": (one_node("Max", lambda n: 1), 6_000),
}


@pytest.mark.skipif(SANITIZED, reason="measures what is shipped")
@pytest.mark.parametrize("case", CASES)
def test_time_is_linear(tmp_path, case):
    """Four times the model takes four times the processor's time, where a quadratic step would take sixteen times."""
    make, size = CASES[case]
    taken = []
    for n in (size, 4 * size):
        path = tmp_path / f"{n}.onnx"
        path.write_bytes(make(n).SerializeToString())
        taken.append(min(processor_time(str(path), os.fspath(tmp_path / "o.onnx")) for _ in range(2)))
    assert taken[1] < 7.5 * taken[0] + 0.2, taken
