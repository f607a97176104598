"""`saturate diff`: regions between values that both models have."""
import copy
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, make_model, run, tensor, value

BART = DATA / "bart_encoder.onnx"
FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL


def difference(tmp_path, first, second, *words):
    """The JSON of the diff, checked for what holds of every one; and the exit status."""
    for name, model in (("a.onnx", first), ("b.onnx", second)):
        if isinstance(model, onnx.ModelProto):
            onnx.save(model, tmp_path / name)
        else:
            (tmp_path / name).write_bytes(model.read_bytes())
    done = run("diff", "a.onnx", "b.onnx", "--json", *words, cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert found["equal"] == (done.returncode == 0)
    for side in ("before", "after"):
        assert found[f"nodes_{side}"] == found[f"equal_nodes_{side}"] + sum(len(r[side]) for r in found["regions"])
        names = [(r["graph"], n["output"]) for r in found["regions"] for n in r[side]]
        assert len(names) == len(set(names))
    assert sorted(i for g in found["groups"] for i in g["regions"]) == list(range(len(found["regions"])))
    again = run("diff", "a.onnx", "b.onnx", "--json", *words, cwd=tmp_path)
    assert again.stdout == done.stdout
    return found


def ops(nodes):
    return [n["op_type"] for n in nodes]


def renamed(model, names):
    out = copy.deepcopy(model)
    new = lambda name: names(name) if name else name
    for node in out.graph.node:
        node.input[:] = map(new, node.input)
        node.output[:] = map(new, node.output)
    for thing in (*out.graph.input, *out.graph.output, *out.graph.initializer, *out.graph.value_info):
        thing.name = new(thing.name)
    return out


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def chain(*nodes, initializers=(), **kwargs):
    return make_model(nodes, [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])], initializers, **kwargs)


def test_equal_to_itself(tmp_path):
    found = difference(tmp_path, BART, BART)
    assert found["equal"] and found["regions"] == [] and found["proven"]
    done = run("diff", "a.onnx", "b.onnx", cwd=tmp_path)
    assert "no difference" in done.stdout


def test_names_of_inner_values_are_no_difference(tmp_path):
    model = onnx.load(BART)
    kept = {v.name for v in (*model.graph.input, *model.graph.output)}
    assert difference(tmp_path, model, renamed(model, lambda name: name if name in kept else "_" + name))["equal"]
    found = difference(tmp_path, model, renamed(model, lambda name: "_" + name))
    assert found["regions"] == [] and len(found["interface"]) == len(kept)


def test_names_that_change_places(tmp_path):
    model = chain(node("Exp", "x", "a"), node("Sin", "x", "b"), node("Sub", "a b", "y"))
    swapped = renamed(model, lambda name: {"a": "b", "b": "a"}.get(name, name))
    assert difference(tmp_path, model, swapped)["equal"]


def test_a_region_lies_between_values_that_both_have(tmp_path):
    first = chain(node("Exp", "x", "e"), node("Neg", "e", "n"), node("Abs", "n", "m"), node("Sqrt", "m", "y"))
    second = chain(node("Exp", "x", "e"), node("Abs", "e", "m"), node("Sqrt", "m", "y"))
    (region,) = difference(tmp_path, first, second)["regions"]
    assert (ops(region["before"]), ops(region["after"]), region["outputs"]) == (["Neg", "Abs"], ["Abs"], ["m"])
    assert region["inside_before"] == ["n"] and region["inside_after"] == []


def test_values_are_matched_from_the_outputs_backwards(tmp_path):
    first = chain(node("Add", "x x", "a"), node("Exp", "a", "b"), node("Sqrt", "b", "y"))
    second = chain(node("Mul", "x two", "p"), node("Exp", "p", "q"), node("Sqrt", "q", "y"), initializers=[tensor("two", np.float32(2))])
    (region,) = difference(tmp_path, first, second)["regions"]
    assert (ops(region["before"]), ops(region["after"]), region["outputs"]) == (["Add"], ["Mul"], ["a"])


def test_a_name_whose_values_differ_is_no_match(tmp_path):
    first = chain(node("Exp", "x", "h"), node("Sin", "h", "y"))
    second = chain(node("Cos", "x", "h"), node("Sin", "h", "y"))
    (region,) = difference(tmp_path, first, second)["regions"]
    assert ops(region["before"]) == ["Exp", "Sin"] and ops(region["after"]) == ["Cos", "Sin"] and region["values_differ"]
    assert "VALUES DIFFER" in run("diff", "a.onnx", "b.onnx", cwd=tmp_path).stdout


def test_equal_regions_are_shown_once(tmp_path):
    def layers(parts):
        nodes = [n for i in range(4) for n in parts(f"layer.{i}", f"x{i}" if i else "x", f"x{i + 1}" if i < 3 else "y")]
        return chain(*nodes)

    def long(name, x, y):
        return [helper.make_node("Neg", [x], [f"{name}.n"], name=f"/{name}/neg"), helper.make_node("Neg", [f"{name}.n"], [f"{name}.m"], name=f"/{name}/again"), helper.make_node("Tanh", [f"{name}.m"], [y], name=f"/{name}/tanh")]

    found = difference(tmp_path, layers(long), layers(lambda name, x, y: [node("Tanh", x, y)]))
    (group,) = found["groups"]
    assert group["label"] == "layer.{0..3}" and len(group["regions"]) == 4
    done = run("diff", "a.onnx", "b.onnx", cwd=tmp_path)
    assert "layer.{0..3}   4 alike" in done.stdout and len(done.stdout.splitlines()) < 8


def test_a_part_that_several_regions_need(tmp_path):
    first = chain(node("Exp", "x", "e"), node("Neg", "e", "n"), node("Add", "n x", "a"), node("Sin", "a", "s"), node("Mul", "n s", "y"))
    second = chain(node("Exp", "x", "e"), node("Sub", "x e", "a"), node("Sin", "a", "s"), node("Mul", "e s", "z"), node("Neg", "z", "y"))
    found = difference(tmp_path, first, second)
    assert [ops(r["before"]) for r in found["regions"] if r["shared"]] == [["Neg"]]
    assert sorted(tuple(ops(r["before"]) + ops(r["after"])) for r in found["regions"] if not r["shared"]) == [("Add", "Sub"), ("Mul", "Mul", "Neg")]


def test_duplicates(tmp_path):
    first = chain(node("Exp", "x", "a"), node("Exp", "x", "b"), node("Add", "a b", "y"))
    second = chain(node("Exp", "x", "a"), node("Add", "a a", "y"))
    (region,) = difference(tmp_path, first, second)["regions"]
    assert [n["output"] for n in region["before"]] == ["b"] and region["after"] == []


def test_what_no_output_needs(tmp_path):
    first = chain(node("Exp", "x", "y"), node("Sin", "x", "dead"))
    (region,) = difference(tmp_path, first, chain(node("Exp", "x", "y")))["regions"]
    assert ops(region["before"]) == ["Sin"] and region["outputs"] == []


def test_attributes(tmp_path):
    first, second = chain(node("Softmax", "x", "y", axis=1)), chain(node("Softmax", "x", "y", axis=0))
    (region,) = difference(tmp_path, first, second)["regions"]
    assert region["after"][0]["attributes"] == "axis 0"
    assert difference(tmp_path, first, chain(node("Softmax", "x", "y")))["equal"]  # the default
    assert difference(tmp_path, first, chain(node("Softmax", "x", "y", axis=-1)))["equal"]


def test_opsets(tmp_path):
    first, second = (chain(node("Softmax", "x", "y", axis=1), opset=opset) for opset in (13, 18))
    found = difference(tmp_path, first, second)
    assert found["regions"] == [] and found["imports"] == ["ai.onnx 13 -> 18"] and not found["equal"]


def test_weights_by_content(tmp_path):
    w = np.arange(4, dtype=np.float32)
    first = chain(node("Mul", "x w", "y"), initializers=[tensor("w", w)])
    assert difference(tmp_path, first, chain(node("Mul", "x v", "y"), initializers=[tensor("v", w)]))["equal"]
    assert difference(tmp_path, first, chain(node("Constant", "", "w", value=tensor("", w)), node("Mul", "x w", "y")))["regions"] == []
    found = difference(tmp_path, first, chain(node("Mul", "x w", "m"), node("Identity", "m", "y"), initializers=[tensor("w", w + 1)]))
    assert found["weights"]["changed"] == ["w"] and [ops(r["after"]) for r in found["regions"]] == [["Identity"]]  # with equal weights


def test_a_weight_that_was_computed(tmp_path):
    w = np.arange(16, dtype=np.float32).reshape(4, 4)
    first = chain(node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "x t", "y"), initializers=[tensor("w", w)])
    found = difference(tmp_path, first, chain(node("MatMul", "x t", "y"), initializers=[tensor("t", w.T.copy())]))
    (region,) = found["regions"]
    assert ops(region["before"]) == ["Transpose"] and region["after"] == []
    assert found["weights"]["removed"] == ["w"] and found["weights"]["added"] == ["t"]


def test_interface(tmp_path):
    first = make_model([node("Exp", "x", "y")], [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])])
    second = make_model([node("Exp", "x", "y"), node("Sin", "x", "z")], [value("x", FLOAT, [2, 4])], [value("y", FLOAT, [2, 4]), value("z", FLOAT, [2, 4])])
    found = difference(tmp_path, first, second)
    assert found["interface"] == ["input 'x' float[n,4] -> float[2,4]", "output 'y' float[n,4] -> float[2,4]", "output 'z' is new"]
    assert [ops(r["after"]) for r in found["regions"]] == [["Sin"]]


def test_bodies(tmp_path):
    def branch(name, *nodes):
        return helper.make_graph(list(nodes), name, [], [value(nodes[-1].output[0], FLOAT, None)])

    def model(*then):
        nodes = [node("Exp", "x", "e"), helper.make_node("If", ["c"], ["y"], name="choose", then_branch=branch("t", *then), else_branch=branch("f", node("Sin", "x", "q")))]
        return make_model(nodes, [value("x", FLOAT, ["n"]), value("c", BOOL, [])], [value("y", FLOAT, ["n"])])

    first = model(node("Neg", "e", "n"), node("Neg", "n", "m"), node("Tanh", "m", "t"))
    assert difference(tmp_path, first, model(node("Neg", "e", "n2"), node("Neg", "n2", "m2"), node("Tanh", "m2", "t2")))["equal"]
    found = difference(tmp_path, first, model(node("Tanh", "e", "t")))
    (region,) = found["regions"]
    assert region["graph"] == "then_branch of 'choose'" and ops(region["before"])[:2] == ["Neg", "Neg"]
    assert found["nodes_before"] == 2 + 3 + 1


def test_functions(tmp_path):
    body = [node("Neg", "a", "n"), node("Exp", "n", "b")]
    first = chain(node("F", "x", "f", domain="my"), node("Sin", "f", "y"), domains=["my"])
    first.functions.append(helper.make_function("my", "F", ["a"], ["b"], body, [helper.make_opsetid("", 18)]))
    found = difference(tmp_path, first, chain(node("Neg", "x", "n"), node("Exp", "n", "f"), node("Sin", "f", "y")))
    (region,) = found["regions"]
    assert (ops(region["before"]), ops(region["after"])) == (["my.F"], ["Neg", "Exp"]) and found["functions"] == ["my.F is gone"]
    other = copy.deepcopy(first)
    other.functions[0].node[0].op_type = "Abs"
    found = difference(tmp_path, first, other)
    assert found["functions"] == ["my.F is another"] and "my.F" in ops(found["regions"][0]["after"])


def test_models_that_cannot_run(tmp_path):
    def model(*middle):
        return chain(node("Own", "x", "o", domain="my"), *middle, node("Own", "m", "w", domain="my"), node("Sin", "w", "y"), domains=["my"])

    found = difference(tmp_path, model(node("Neg", "o", "n"), node("Neg", "n", "m")), model(node("Identity", "o", "m")))
    assert not found["proven"] and "Own" in found["why_not_proven"]
    (region,) = found["regions"]
    assert (ops(region["before"]), ops(region["after"]), region["outputs"]) == (["Neg", "Neg"], ["Identity"], ["m"])
    assert "matched by structure only" in run("diff", "a.onnx", "b.onnx", cwd=tmp_path).stdout


def test_external_data(tmp_path):
    w = np.arange(400, dtype=np.float32).reshape(100, 4)[:, :4]
    model = chain(node("MatMul", "x v", "m"), node("MatMul", "m w", "y"), initializers=[tensor("v", w.T.copy()), tensor("w", w)])
    onnx.save(model, tmp_path / "in.onnx")
    onnx.save(model, tmp_path / "out.onnx", save_as_external_data=True, all_tensors_to_one_file=True, location="w.bin", size_threshold=0)
    assert run("diff", "in.onnx", "out.onnx", cwd=tmp_path).returncode == 0
    (tmp_path / "w.bin").unlink()
    assert run("diff", "in.onnx", "out.onnx", cwd=tmp_path).returncode == 1


def test_after_optimizing(tmp_path):
    nodes = [node("Div", "x s", "d"), node("Erf", "d", "e"), node("Add", "e one", "a"), node("Mul", "x a", "m"), node("Mul", "m half", "y")]
    constants = [tensor("s", np.float32(2**0.5)), tensor("one", np.float32(1)), tensor("half", np.float32(0.5))]
    onnx.save(chain(*nodes, initializers=constants, opset=20), tmp_path / "in.onnx")
    done = run("in.onnx", "-o", "out.onnx", "--diff", "--target", "onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = done.stdout[done.stdout.index("in.onnx -> out.onnx   5 -> 1 operators") :]
    assert "@@ y" in told and "+  Gelu" in told and "   why  " in told and "gelu" in told.split("why")[1]
    run("in.onnx", "-o", "told.onnx", "--annotate", "--target", "onnx", cwd=tmp_path)
    done = run("in.onnx", "-o", "out.onnx", "--diff", "--json", "--target", "onnx", cwd=tmp_path)
    assert [ops(r["after"]) for r in json.loads(done.stdout)["diff"]["regions"]] == [["Gelu"]]
    assert told.split("why")[1].strip() == run("diff", "in.onnx", "told.onnx", cwd=tmp_path).stdout.split("why")[1].strip()


def test_bart(tmp_path):
    run("optimize", BART, "-o", tmp_path / "out.onnx", cwd=tmp_path)
    found = difference(tmp_path, BART, tmp_path / "out.onnx")
    assert found["proven"] and found["regions"] and not any(r["values_differ"] for r in found["regions"])
    done = run("diff", "a.onnx", "b.onnx", cwd=tmp_path)
    assert len(done.stdout.splitlines()) <= 40 and max(map(len, done.stdout.splitlines())) <= 160


@pytest.mark.parametrize("words, code", [(["a.onnx"], 2), (["a.onnx", "none.onnx"], 1), (["a.onnx", "a.onnx", "--cost", "none"], 1)])
def test_usage(tmp_path, words, code):
    onnx.save(chain(node("Exp", "x", "y")), tmp_path / "a.onnx")
    done = run("diff", *words, cwd=tmp_path)
    assert done.returncode == code and len(done.stderr.splitlines()) == 1
