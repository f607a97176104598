"""Bodies of Loop and Scan: what a turn gets has the shape that the turn before made, whatever the body declares. Results run in ONNX Runtime at other sizes and numbers of turns."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run_ok, tensor, value

onnxruntime = pytest.importorskip("onnxruntime")
node, FLOAT = helper.make_node, TensorProto.FLOAT
TARGETS = [("--target", "npu-4d"), ("--target", "onnx"), ("--target", "ort-cpu@1.31", "--cost", "nodes")]
CONSTANTS = [tensor("k", np.array([1, -2, 3], np.float32)), tensor("rows", np.array([-1, 1, 3])), tensor("back", np.array([-1, 3])), tensor("first", np.array([0])),
             tensor("one", np.array([1])), tensor("far", np.array([2**31 - 1])), tensor("half", np.float32(0.5))]


def loop(declared, nodes, collected=(), outer=("n", 3), captured=(), told=()):
    """x through turns of a body that makes vo of v. `told`: value_info of the graph."""
    body = helper.make_graph([node("Identity", ["ci"], ["co"]), *nodes], "turn",
                             [value("i", TensorProto.INT64, []), value("ci", TensorProto.BOOL, []), value("v", FLOAT, declared)],
                             [value("co", TensorProto.BOOL, []), value("vo", FLOAT, declared), *(value(name, FLOAT, None) for name in collected)])
    outputs = ["t", *(f"s{k}" for k in range(len(collected)))]
    nodes = [node("Loop", ["m", "", "x"], outputs, body=body), node("Neg", ["t"], ["y"])]
    model = make_model(nodes, [value("m", TensorProto.INT64, []), value("x", FLOAT, list(outer)), *captured],
                       [value("y", FLOAT, None), *(value(name, FLOAT, None) for name in outputs[1:])], CONSTANTS, opset=17)
    model.graph.value_info.extend(told)
    return model


def run(path, feed):
    """Without ONNX Runtime's own optimizations, which believe what is declared."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feed)


def same(folder, model, feeds):
    path, out = folder / "in.onnx", folder / "out.onnx"
    onnx.save(model, path)
    for target in TARGETS:
        run_ok("optimize", path, "-o", out, "--no-verify", *target)
        for feed in feeds:
            for before, after in zip(run(path, feed), run(out, feed)):
                assert before.shape == after.shape
                np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def feeds(*more, columns=3):
    rng = np.random.default_rng(0)
    for turns, rows in ((3, 2), (0, 2), (2, 4), (1, 1), (2, 0), (4, 3)):
        yield {"m": np.array(turns), "x": rng.normal(size=(rows, columns)).astype(np.float32)} | {name: rng.normal(size=(rows, columns)).astype(np.float32) for name in more}


def scaled():
    return [node("Mul", ["v", "k"], ["a"]), node("Relu", ["a"], ["vo"])]


BODIES = {  # what the body declares of v, and what it does
    "stays": (["n", 3], scaled()),
    "stays_declared_fixed": ([2, 3], scaled()),
    "views": ([2, 3], [node("Reshape", ["v", "rows"], ["a"]), node("Relu", ["a"], ["b"]), node("Reshape", ["b", "back"], ["vo"])]),
    "grows": (["n", 3], [node("Concat", ["v", "v"], ["a"], axis=0), node("Mul", ["a", "k"], ["vo"])]),
    "grows_declared_fixed": ([2, 3], [node("Concat", ["v", "v"], ["a"], axis=0), node("Mul", ["a", "k"], ["vo"])]),
    "shrinks_to_one": ([2, 3], [node("ReduceMean", ["v"], ["a"], axes=[0], keepdims=1), node("Mul", ["a", "k"], ["vo"])]),
    "loses_a_row": (["n", 3], [node("Slice", ["v", "one", "far", "first"], ["a"]), node("Mul", ["a", "k"], ["vo"])]),
    "turns": ([None, None], [node("Transpose", ["v"], ["a"], perm=[1, 0]), node("Relu", ["a"], ["b"]), node("Mul", ["b", "half"], ["vo"])]),
    "gains_an_axis": (None, [node("Unsqueeze", ["v", "first"], ["a"]), node("Mul", ["a", "k"], ["vo"])]),
}


@pytest.mark.parametrize("name", BODIES)
def test_shapes_are_what_turns_make(tmp_path, name):
    declared, nodes = BODIES[name]
    same(tmp_path, loop(declared, nodes), feeds())


def test_names_of_dims_prove_nothing(tmp_path):
    """v declares the name of a value outside, and outgrows it: what is read of its shape is not that one's."""
    nodes = [node("Shape", ["v"], ["d"]), node("Gather", ["d", "first"], ["n"], axis=0), node("Cast", ["n"], ["f"], to=1), node("Shape", ["w"], ["e"]), node("Gather", ["e", "first"], ["u"], axis=0),
             node("Cast", ["u"], ["g"], to=1), node("Concat", ["v", "v"], ["a"], axis=0), node("Mul", ["a", "half"], ["b"]), node("Add", ["b", "f"], ["c"]), node("Sub", ["c", "g"], ["vo"])]
    same(tmp_path, loop(["n", 3], nodes, captured=[value("w", FLOAT, ["n", 3])]), feeds("w"))


def test_values_are_collected_from_turn_to_turn(tmp_path):
    nodes = [node("Mul", ["v", "k"], ["a"]), node("Relu", ["a"], ["vo"]), node("Reshape", ["a", "rows"], ["c"]), node("Neg", ["c"], ["d"]), node("Reshape", ["d", "back"], ["e"])]
    same(tmp_path, loop([2, 3], nodes, ["e"]), feeds())
    told = [value("t", FLOAT, [2, 3]), value("s0", FLOAT, [3, 2, 3])]  # of the sizes that the model was traced with
    model = loop([2, 3], nodes, ["e"], told=told)
    model.graph.output[1].name = "r"
    model.graph.node.append(node("Mul", ["s0", "half"], ["r"]))
    same(tmp_path, model, feeds())


def test_states_trade_shapes(tmp_path):
    """Each state gets what the other was: neither stays."""
    body = helper.make_graph([node("Identity", ["ci"], ["co"]), node("Neg", ["b"], ["p"]), node("Mul", ["a", "half"], ["q"])], "turn",
                             [value("i", TensorProto.INT64, []), value("ci", TensorProto.BOOL, []), value("a", FLOAT, [2, 3]), value("b", FLOAT, [2, 3])],
                             [value("co", TensorProto.BOOL, []), value("p", FLOAT, [2, 3]), value("q", FLOAT, [2, 3])])
    model = make_model([node("Loop", ["m", "", "x", "w"], ["y", "z"], body=body)], [value("m", TensorProto.INT64, []), value("x", FLOAT, ["n", 3]), value("w", FLOAT, ["k", 3])],
                       [value("y", FLOAT, None), value("z", FLOAT, None)], CONSTANTS, opset=17)
    same(tmp_path, model, [feed | {"w": np.ones((5, 3), np.float32)} for feed in feeds()])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parts_of_a_scan_are_cut_from_what_is_there(tmp_path, axis):
    shape = [3] if axis == 0 else [None]
    body = helper.make_graph([node("ReduceSum", ["p"], ["q"], keepdims=1), node("Add", ["c", "q"], ["d"]), node("Mul", ["p", "half"], ["r"])], "part",
                             [value("c", FLOAT, [1]), value("p", FLOAT, shape)], [value("d", FLOAT, [1]), value("r", FLOAT, None)])
    nodes = [node("Scan", ["s", "x"], ["e", "y"], body=body, num_scan_inputs=1, scan_input_axes=[axis])]
    model = make_model(nodes, [value("s", FLOAT, [1]), value("x", FLOAT, ["n", 3])], [value("e", FLOAT, [1]), value("y", FLOAT, None)], CONSTANTS, opset=17)
    same(tmp_path, model, [{"s": np.ones(1, np.float32), "x": feed["x"]} for feed in feeds() if feed["x"].size])


STEPS = {
    "Relu": lambda x, y: [node("Relu", [x], [y])],
    "Mul": lambda x, y: [node("Mul", [x, "half"], [y])],
    "Concat": lambda x, y: [node("Concat", [x, x], [y], axis=0)],
    "Slice": lambda x, y: [node("Slice", [x, "one", "far", "first"], [y])],
    "mean_of_one": lambda x, y: [node("Unsqueeze", [x, "first"], [f"{y}_u"]), node("ReduceMean", [f"{y}_u"], [y], axes=[0], keepdims=0)],
    "views": lambda x, y: [node("Reshape", [x, "rows"], [f"{y}_r"]), node("Neg", [f"{y}_r"], [f"{y}_n"]), node("Reshape", [f"{y}_n", "back"], [y])],
    "capture": lambda x, y: [node("ReduceSum", ["w"], [f"{y}_w"], keepdims=0), node("Add", [x, f"{y}_w"], [y])],
    "size": lambda x, y: [node("Size", [x], [f"{y}_s"]), node("Cast", [f"{y}_s"], [f"{y}_c"], to=1), node("Add", [x, f"{y}_c"], [y])],
}


@pytest.mark.parametrize("seed", range(12))
def test_drawn_turns(tmp_path, seed):
    rng = np.random.default_rng(seed)
    names, nodes = ["v"], []
    for step in range(rng.integers(1, 6)):
        nodes += STEPS[rng.choice(list(STEPS))](names[-1], f"h{step}")
        names.append(f"h{step}")
    collected = [] if any(n.op_type in ("Concat", "Slice") for n in nodes) else [names[rng.integers(1, len(names))]] if len(names) > 2 else []
    nodes += [node("Tanh", [names[-1]], ["vo"])]
    declared = [[2, 3], ["n", 3], [None, 3], None][rng.integers(4)]
    same(tmp_path, loop(declared, nodes, collected, captured=[value("w", FLOAT, ["n", 3])]), feeds("w"))
