"""If with a known condition, Loop with a known number of iterations."""
import collections

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, onnxruntime_outputs, run_ok, tensor, value

X, Y = value("x", TensorProto.FLOAT, ["n", 4]), value("y", TensorProto.FLOAT, ["n", 4])
node = helper.make_node


def branch(name, *nodes, output="out", initializers=()):
    return helper.make_graph(list(nodes), name, [], [value(output, TensorProto.FLOAT, None)], list(initializers))


def condition_of_rank(rank):
    return [node("Shape", ["x"], ["s"]), node("Size", ["s"], ["r"]), node("Equal", ["r", "wanted"], ["c"])], [tensor("wanted", np.int64(rank))]


def optimized(folder, model, **inputs):
    """Operators of the result, after ONNX Runtime has found it equal."""
    onnx.save(model, folder / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--cost", "nodes", cwd=folder)
    result = onnx.load(folder / "out.onnx")
    onnx.checker.check_model(result, full_check=True)
    inputs = inputs or {"x": np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)}
    before, after = (onnxruntime_outputs(folder / f, inputs) for f in ("in.onnx", "out.onnx"))
    for name in before:
        np.testing.assert_allclose(before[name], after[name], rtol=1e-5)
    return collections.Counter(n.op_type for n in result.graph.node)


@pytest.mark.parametrize("rank, taken", [(2, "Relu"), (3, "Neg")])
def test_the_branch_of_a_known_condition_is_taken(tmp_path, rank, taken):
    """The exporters' spelling of squeeze: an If on the rank."""
    nodes, initializers = condition_of_rank(rank)
    choice = node("If", ["c"], ["y"], then_branch=branch("t", node("Relu", ["x"], ["out"])), else_branch=branch("e", node("Neg", ["x"], ["out"])))
    assert optimized(tmp_path, make_model([*nodes, choice], [X], [Y], initializers)) == {taken: 1}


def test_a_branch_with_constants_and_captured_values_of_the_same_names(tmp_path):
    nodes, initializers = condition_of_rank(2)
    inside = branch("t", node("Mul", ["z", "w"], ["s2"]), node("Add", ["s2", "x"], ["out"]), initializers=[tensor("w", np.float32([1, 2, 3, 4]))])
    choice = node("If", ["c"], ["y"], then_branch=inside, else_branch=branch("e", node("Neg", ["x"], ["out"])))
    model = make_model([*nodes, node("Tanh", ["x"], ["z"]), choice], [X], [Y], initializers)
    assert optimized(tmp_path, model) == {"Tanh": 1, "Mul": 1, "Add": 1}


def test_an_unknown_condition_stays(tmp_path):
    choice = node("If", ["c"], ["y"], then_branch=branch("t", node("Relu", ["x"], ["out"])), else_branch=branch("e", node("Neg", ["x"], ["out"])))
    model = make_model([choice], [X, value("c", TensorProto.BOOL, [])], [Y])
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    for c in (True, False):
        assert optimized(tmp_path, model, x=x, c=np.array(c)) == {"If": 1}


def test_an_operator_made_in_a_branch_alone_is_imported(tmp_path):
    """GELU in one branch: com.microsoft stands nowhere else in the model."""
    gelu = [node("Div", ["x", "r"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["a"]), node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "half"], ["out"])]
    inside = branch("t", *gelu, initializers=[tensor("r", np.float32(2**0.5)), tensor("one", np.float32(1)), tensor("half", np.float32(0.5))])
    choice = node("If", ["c"], ["y"], then_branch=inside, else_branch=branch("e", node("Neg", ["x"], ["out"])))
    model = make_model([choice], [X, value("c", TensorProto.BOOL, [])], [Y])
    optimized(tmp_path, model, x=np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32), c=np.array(True))
    body = next(a.g for a in onnx.load(tmp_path / "out.onnx").graph.node[0].attribute if a.name == "then_branch")
    assert [n.op_type for n in body.node] == ["Gelu"]


def loop(trips, *, stop=False, collected=False):
    """x, multiplied by (iteration + 2) again and again."""
    nodes = [
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["f", "two"], ["k"]),
        node("Mul", ["a", "k"], ["b"]),
        node("Less", ["i", "last"], ["go"]) if stop else node("Identity", ["cond"], ["go"]),
    ]
    results = [value("go", TensorProto.BOOL, []), value("b", TensorProto.FLOAT, ["n", 4])] + ([value("k", TensorProto.FLOAT, [])] if collected else [])
    body = helper.make_graph(nodes, "body", [value("i", TensorProto.INT64, []), value("cond", TensorProto.BOOL, []), value("a", TensorProto.FLOAT, ["n", 4])], results)
    outputs = [Y, value("all", TensorProto.FLOAT, ["times"])] if collected else [Y]
    initializers = [tensor("m", np.int64(trips)), tensor("true", np.array(True)), tensor("two", np.float32(2)), tensor("last", np.int64(1))]
    return make_model([node("Loop", ["m", "true", "x"], [o.name for o in outputs], body=body)], [X], outputs, initializers)


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_loop_of_known_length_is_its_body_so_many_times(tmp_path, trips):
    assert optimized(tmp_path, loop(trips)) == ({"Mul": 1} if trips else {"Identity": 1})  # constant factors meet


def test_a_loop_that_stops_early(tmp_path):
    assert optimized(tmp_path, loop(10, stop=True)) == {"Mul": 1}


@pytest.mark.parametrize("model", [loop(3, collected=True), loop(1000)])
def test_loops_that_collect_or_are_long_stay(tmp_path, model):
    assert optimized(tmp_path, model)["Loop"] == 1


def test_a_branch_that_vanishes_does_not_hold_the_opset(tmp_path):
    """Attention needs opset 23; one that stays (an unknown condition) does hold it, as its body is of the given one."""
    x = lambda name, *shape: value(name, TensorProto.FLOAT, list(shape))
    nodes = [
        node("If", ["c"], ["scores"], then_branch=branch("t", node("MatMul", ["q", "k"], ["out"])), else_branch=branch("e", node("MatMul", ["q", "k"], ["out"]))),
        node("Mul", ["scores", "scale"], ["scaled"]), node("Softmax", ["scaled"], ["weights"], axis=-1), node("MatMul", ["weights", "v"], ["z"])]
    tail = [node("If", ["flag"], ["y"], then_branch=branch("t2", node("Relu", ["z"], ["out"])), else_branch=branch("e2", node("Neg", ["z"], ["out"])))]
    inputs = [x("q", "b", 3, "s", 8), x("k", "b", 3, 8, "t"), x("v", "b", 3, "t", 8)]
    constants = [tensor("scale", np.float32(0.25)), tensor("c", np.array(True))]
    rng = np.random.default_rng(4)
    feed = {"q": rng.normal(size=(2, 3, 5, 8)), "k": rng.normal(size=(2, 3, 8, 7)), "v": rng.normal(size=(2, 3, 7, 8))}
    feed = {k: v.astype(np.float32) for k, v in feed.items()}
    for stays in (False, True):
        flag = [value("flag", TensorProto.BOOL, [])] if stays else []
        model = make_model(nodes + (tail if stays else []), inputs + flag, [x("y" if stays else "z", "b", 3, "s", 8)], constants)
        onnx.save(model, tmp_path / "in.onnx")
        run_ok("in.onnx", "out.onnx", "--cost", "nodes", "--target", "onnx", cwd=tmp_path)
        result = onnx.load(tmp_path / "out.onnx")
        onnx.checker.check_model(result, full_check=True)
        assert [n.op_type for n in result.graph.node].count("Attention") == (0 if stays else 1)
        assert (result.opset_import[0].version == 18) == stays
        given = feed | ({"flag": np.array(False)} if stays else {})
        before, after = (onnxruntime_outputs(tmp_path / f, given) for f in ("in.onnx", "out.onnx"))
        for name in before:
            np.testing.assert_allclose(before[name], after[name], rtol=1e-4, atol=1e-5)


def norm_of_order(order):
    """A local function that chooses by its attribute, as onnxscript's torch_lib writes them: Ifs in branches of Ifs."""
    flat = lambda name, op, **more: branch(name, node(op, ["a"], ["out"], **more))
    constant = lambda name, number: node("Constant", [], [name], value_float=number)
    inner = branch("inner", constant("two", 2.0), node("Equal", ["o", "two"], ["is_two"]),
                   node("If", ["is_two"], ["out"], then_branch=flat("l2", "ReduceL2", keepdims=1), else_branch=flat("l1", "ReduceL1", keepdims=1)))
    order_of = node("Constant", [], ["o"])
    order_of.attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="ord", type=onnx.AttributeProto.FLOAT))
    keep = flat("max", "ReduceMax")
    keep.node[0].attribute.append(onnx.AttributeProto(name="keepdims", ref_attr_name="keepdims", type=onnx.AttributeProto.INT))
    body = [node("Abs", ["v"], ["a"]), order_of, node("IsInf", ["o"], ["is_inf"]), node("If", ["is_inf"], ["r"], then_branch=keep, else_branch=inner)]
    function = helper.make_function("mine", "norm", ["v"], ["r"], body, [helper.make_opsetid("", 20)], ["ord", "keepdims"])
    model = make_model([node("norm", ["x"], ["y"], domain="mine", ord=order, keepdims=1)], [X], [value("y", TensorProto.FLOAT, [1, 1])], opset=20, ir_version=10, domains=["mine"])
    model.functions.append(function)
    return model


@pytest.mark.parametrize("order, wanted", [(2.0, "ReduceL2"), (1.0, "ReduceL1"), (float("inf"), "ReduceMax")])
def test_ifs_of_a_function_that_its_attributes_decide(tmp_path, order, wanted):
    left = optimized(tmp_path, norm_of_order(order))
    assert left[wanted] == 1 and not left["If"] and not left["norm"], left


def test_a_loop_without_a_condition_ends_where_its_body_says(tmp_path):
    body = helper.make_graph(
        [helper.make_node("Less", ["i", "last"], ["on"]), helper.make_node("Add", ["a", "x"], ["b"])], "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("a", TensorProto.FLOAT, [3])],
        [value("on", TensorProto.BOOL, []), value("b", TensorProto.FLOAT, [3])], [tensor("last", np.array(1, np.int64))])
    model = make_model([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [value("x", TensorProto.FLOAT, [3])], [value("y", TensorProto.FLOAT, [3])],
                       [tensor("n", np.array(5, np.int64))])
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("optimize", "in.onnx", "-o", "out.onnx", cwd=tmp_path)
    x = np.ones(3, np.float32)
    for name in ("in.onnx", "out.onnx"):
        assert np.array_equal(onnxruntime_outputs(tmp_path / name, {"x": x})["y"], 3 * x)
