"""If with a known condition, Loop with a known number of iterations."""
import collections
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, onnxruntime_outputs, run, run_ok, tensor, value

X, Y = value("x", TensorProto.FLOAT, ["n", 4]), value("y", TensorProto.FLOAT, ["n", 4])
node = helper.make_node


def branch(name, *nodes, output="out", initializers=()):
    return helper.make_graph(list(nodes), name, [], [value(output, TensorProto.FLOAT, None)], list(initializers))


def condition_of_rank(rank):
    return [node("Shape", ["x"], ["s"]), node("Size", ["s"], ["r"]), node("Equal", ["r", "wanted"], ["c"])], [tensor("wanted", np.int64(rank))]


def optimized(folder, model, **inputs):
    """Operators of the result, after ONNX Runtime has found it equal."""
    onnx.save(model, folder / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--cost", "nodes", "--target", "ort-cpu@1.31", cwd=folder)
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


def loop(trips, *, op="Mul", stop=False, collected=False):
    """x, multiplied by (iteration + 2) again and again; or that is added."""
    nodes = [
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["f", "two"], ["k"]),
        node(op, ["a", "k"], ["b"]),
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


@pytest.mark.parametrize("model", [loop(3, collected=True), loop(1000, op="Add")])
def test_loops_that_collect_or_are_long_stay(tmp_path, model):
    assert optimized(tmp_path, model)["Loop"] == 1


def test_branches_do_not_hold_the_opset(tmp_path):
    """Attention needs opset 23, beside a branch that is taken for sure and beside one that may be."""
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
        assert [n.op_type for n in result.graph.node].count("Attention") == 1
        assert result.opset_import[0].version == 23
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


def walk(graph):
    for n in graph.node:
        yield n
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from walk(a.g)


def bodies(model):
    return [a.g for n in model.graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]


def opset(model):
    return next(o.version for o in model.opset_import if o.domain == "")


def equal_and_optimized(folder, model, *feeds):
    """The result, after ONNX Runtime has found it equal on each of these inputs; and its report."""
    onnx.save(model, folder / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--cost", "nodes", "--target", "ort-cpu@1.31", "--report", "report.json", cwd=folder)
    result = onnx.load(folder / "out.onnx")
    onnx.checker.check_model(result, full_check=True)
    for feed in feeds:
        before, after = (onnxruntime_outputs(folder / f, feed) for f in ("in.onnx", "out.onnx"))
        for name in before:
            np.testing.assert_allclose(before[name], after[name], rtol=1e-4, atol=1e-5)
    return result, json.loads((folder / "report.json").read_text())


def rms_norm(tag, x, out, old=False):
    """What RMSNormalization of opset 23 says: operators of opset 18, or older ones."""
    mean = node("ReduceMean", [f"{tag}_square"], [f"{tag}_mean"], axes=[-1]) if old else node("ReduceMean", [f"{tag}_square", "axes"], [f"{tag}_mean"])
    return [node("Mul", [x, x], [f"{tag}_square"]), mean, node("Add", [f"{tag}_mean", "eps"], [f"{tag}_shifted"]),
            node("Sqrt", [f"{tag}_shifted"], [f"{tag}_root"]), node("Div", [x, f"{tag}_root"], [f"{tag}_normal"]), node("Mul", [f"{tag}_normal", "scale"], [out])]


NORM_CONSTANTS = [tensor("axes", np.int64([-1])), tensor("eps", np.float32(1e-5)), tensor("scale", np.float32([1, 2, 3, 4]))]
C = value("c", TensorProto.BOOL, [])


def test_a_branch_raises_the_opset_of_the_whole_model(tmp_path):
    """RMSNormalization needs opset 23, where Split of opset 13 outside must say how many outputs it has."""
    choice = node("If", ["c"], ["z"], then_branch=branch("t", *rms_norm("t", "x", "out", old=True)), else_branch=branch("e", node("Neg", ["x"], ["out"])))
    nodes = [node("Mul", ["w", "w"], ["ww"]), node("Split", ["ww"], ["x", "rest"], axis=1), choice, node("Mul", ["z", "rest"], ["y"])]
    constants = [tensor("eps", np.float32(1e-5)), tensor("scale", np.float32([1, 2, 3, 4]))]
    model = make_model(nodes, [value("w", TensorProto.FLOAT, ["n", 8]), C], [Y], constants, opset=13)
    w = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    result, _ = equal_and_optimized(tmp_path, model, *({"w": w, "c": np.array(c)} for c in (True, False)))
    assert sorted(n.op_type for n in walk(result.graph)) == ["If", "Mul", "Mul", "Neg", "RMSNormalization", "Split"]
    assert opset(result) == 23


def test_a_loop_body_raises_the_opset(tmp_path):
    body = helper.make_graph([*rms_norm("b", "in", "out"), node("Identity", ["go"], ["on"])], "body",
                             [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("in", TensorProto.FLOAT, ["n", 4])],
                             [value("on", TensorProto.BOOL, []), value("out", TensorProto.FLOAT, ["n", 4])])
    model = make_model([node("Loop", ["trips", "", "x"], ["y"], body=body)], [X], [Y], [*NORM_CONSTANTS, tensor("trips", np.int64(40))])
    result, _ = equal_and_optimized(tmp_path, model, {"x": np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)})
    assert "RMSNormalization" in [n.op_type for n in walk(result.graph)] and opset(result) == 23


def test_what_cannot_follow_holds_the_opset_of_all(tmp_path):
    """An operator of the standard that is gone in opset 23 stands outside."""
    choice = node("If", ["c"], ["z"], then_branch=branch("t", *rms_norm("t", "x", "out", old=True)), else_branch=branch("e", node("Neg", ["x"], ["out"])))
    upsample = node("Upsample", ["image"], ["large"], mode="nearest", scales=[1.0, 1.0, 1.5, 2.0])
    inputs = [X, C, value("image", TensorProto.FLOAT, [1, 1, 5, 3])]
    model = make_model([choice, upsample], inputs, [value("z", TensorProto.FLOAT, ["n", 4]), value("large", TensorProto.FLOAT, [1, 1, 7, 6])],
                       [tensor("eps", np.float32(1e-5)), tensor("scale", np.float32([1, 2, 3, 4]))], opset=8)
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--cost", "nodes", "--target", "ort-cpu@1.31", cwd=tmp_path)
    result = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(result, full_check=True)
    kinds = [n.op_type for n in walk(result.graph)]
    assert ("Upsample" in kinds) == (opset(result) == 8)
    assert ("RMSNormalization" in kinds) == (opset(result) == 23)


def heads(tag, x, weight):
    return [node("MatMul", [x, weight], [f"{tag}_p"]), node("Reshape", [f"{tag}_p", "heads"], [f"{tag}_h"])]


def attention(tag, out):
    """Two heads of four; weights, shapes and the scale lie outside, as in decoders that are merged."""
    return [
        *heads(f"{tag}q", "x", "wq"), node("Transpose", [f"{tag}q_h"], [f"{tag}q_t"], perm=[0, 2, 1, 3]),
        *heads(f"{tag}k", "x", "wk"), node("Transpose", [f"{tag}k_h"], [f"{tag}k_t"], perm=[0, 2, 3, 1]),
        *heads(f"{tag}v", "x", "wv"), node("Transpose", [f"{tag}v_h"], [f"{tag}v_t"], perm=[0, 2, 1, 3]),
        node("MatMul", [f"{tag}q_t", f"{tag}k_t"], [f"{tag}_s"]), node("Mul", [f"{tag}_s", "half"], [f"{tag}_scaled"]), node("Add", [f"{tag}_scaled", "mask"], [f"{tag}_masked"]),
        node("Softmax", [f"{tag}_masked"], [f"{tag}_w"], axis=-1), node("MatMul", [f"{tag}_w", f"{tag}v_t"], [f"{tag}_c"]),
        node("Transpose", [f"{tag}_c"], [f"{tag}_o"], perm=[0, 2, 1, 3]), node("Reshape", [f"{tag}_o", "flat"], [f"{tag}_f"]), node("Add", [f"{tag}_f", f"bias_{tag}"], [out]),
    ]


def merged_model():
    """Both branches read the same weights, as decoders with and without a cache that were merged into one file."""
    random = np.random.default_rng(5)
    weights = [tensor(n, random.normal(size=(8, 8)).astype(np.float32)) for n in ("wq", "wk", "wv")]
    weights += [tensor(f"bias_{t}", random.normal(size=8).astype(np.float32)) for t in "te"]
    constants = [tensor("heads", np.int64([0, 0, 2, 4])), tensor("flat", np.int64([0, 0, 8])), tensor("half", np.float32(0.5))]
    choice = node("If", ["c"], ["y"], then_branch=branch("t", *attention("t", "t_out"), output="t_out"), else_branch=branch("e", *attention("e", "e_out"), output="e_out"))
    inputs = [value("x", TensorProto.FLOAT, ["b", "s", 8]), value("mask", TensorProto.FLOAT, ["b", 1, "s", "s"]), C]
    return make_model([choice], inputs, [value("y", TensorProto.FLOAT, ["b", "s", 8])], [*weights, *constants])


def merged_feeds():
    random = np.random.default_rng(6)
    feed = {"x": random.normal(size=(2, 3, 8)).astype(np.float32), "mask": random.normal(size=(2, 1, 3, 3)).astype(np.float32)}
    return [{**feed, "c": np.array(c)} for c in (True, False)]


def test_constants_outside_are_known_inside(tmp_path):
    model = merged_model()
    result, report = equal_and_optimized(tmp_path, model, *merged_feeds())
    kinds = collections.Counter(n.op_type for n in walk(result.graph))
    assert kinds["Attention"] + kinds["MultiHeadAttention"] == 2 and not kinds["Softmax"], kinds
    assert [a["assumption"] for a in report["assumed"]] == ["finite_scores", "no_empty_row"]
    assert all(m["rule"] for m in report["made_by_rules"])
    # no weight twice, whatever was packed: what both branches hold alike is the main graph's
    stored = lambda graph: sum(onnx.numpy_helper.to_array(i).nbytes for i in graph.initializer)
    assert sum(stored(g) for g in bodies(result)) < 256
    assert stored(result.graph) <= stored(model.graph)


def test_places_in_branches_are_explained(tmp_path):
    onnx.save(merged_model(), tmp_path / "in.onnx")
    told = json.loads(run_ok("explain", "in.onnx", "--op", "Attention", "--cost", "nodes", "--json", cwd=tmp_path).stdout)
    assert {(p["value"], p["status"], p["where"]) for p in told["places"]} == {("t_w", "fused", "then_branch of 'y'"), ("e_w", "fused", "else_branch of 'y'")}
    text = run_ok("explain", "in.onnx", "--value", "e_scaled", "--cost", "nodes", cwd=tmp_path).stdout
    assert text.count("else_branch of 'y'") == 1 and "then_branch" not in text
    assert run("explain", "in.onnx", "--value", "nowhere", cwd=tmp_path).returncode == 2


def test_weights_that_both_branches_fold_alike_lie_outside_once(tmp_path):
    w = np.random.default_rng(1).normal(size=(4, 64)).astype(np.float32)
    def product(tag):
        return [node("Transpose", ["w"], [f"{tag}_w"], perm=[1, 0]), node("Mul", [f"{tag}_w", "two"], [f"{tag}_ww"]), node("MatMul", ["x", f"{tag}_ww"], [f"{tag}_p"])]
    choice = node("If", ["c"], ["y"], then_branch=branch("t", *product("t"), node("Tanh", ["t_p"], ["out"])), else_branch=branch("e", *product("e"), node("Erf", ["e_p"], ["out"])))
    inputs = [value("x", TensorProto.FLOAT, ["n", 64]), C]
    x = np.random.default_rng(2).normal(size=(3, 64)).astype(np.float32)
    result, _ = equal_and_optimized(tmp_path, make_model([choice], inputs, [Y], [tensor("w", w), tensor("two", np.float32(2))]), *({"x": x, "c": np.array(c)} for c in (True, False)))
    (weight,) = result.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(weight), 2 * w.T)
    assert [len(g.initializer) for g in bodies(result)] == [0, 0]
    assert all(weight.name in n.input for n in walk(result.graph) if n.op_type == "MatMul")
