"""Models with operators that cannot run here are verified in parts around them: docs/verification in docs/command.md, "What executes"."""
import json

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import ROOT, make_model, run, run_ok, said, tensor, value

FLOAT = TensorProto.FLOAT
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())
NEGATED = "rule negated (X) => (Y)\n  { Y = Relu (X) }\n  =>\n  { Y = Neg (X) }\n  example X = float[2,3]\n"


def gelu(x, y, one="one", half="half", root="root"):
    names = [f"{y}_{i}" for i in range(4)]
    return [
        helper.make_node("Div", [x, root], [names[0]]), helper.make_node("Erf", [names[0]], [names[1]]), helper.make_node("Add", [names[1], one], [names[2]]),
        helper.make_node("Mul", [x, names[2]], [names[3]]), helper.make_node("Mul", [names[3], half], [y]),
    ]  # fmt: skip


def model(*middle, domain="my.dom", types=True):
    """Gelu, then what is unknown, then Gelu and a Relu."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), *gelu("a", "b"), *middle, *gelu("c", "d"), helper.make_node("Relu", ["d"], ["y"])]
    constants = [tensor("w", np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))]
    constants += [tensor(name, np.float32(number)) for name, number in (("one", 1), ("half", 0.5), ("root", 2**0.5))]
    out = make_model(nodes, [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])], constants, domains=[domain], opset=20, ir_version=9)
    if types:
        out.graph.value_info.extend([value("b", FLOAT, ["n", 4]), value("c", FLOAT, ["n", 4])])
    return out


def foo(x="b", y="c", domain="my.dom", **attributes):
    return helper.make_node("Foo", [x], [y], name="foo", domain=domain, **attributes)


@pytest.mark.parametrize("types", [True, False])
def test_the_result_is_verified_around_it(tmp_path, types):
    onnx.save(model(foo(alpha=0.5), types=types), tmp_path / "m.onnx")
    done = run_ok("m.onnx", "--cost", "nodes", "-v", "--report", "r.json", cwd=tmp_path)
    assert done.stdout.startswith("m.onnx -> m.opt.onnx") and "verified here only, in parts, " in said(done)
    assert "verified in parts around my.dom.Foo: 2 of 2 values equal" in said(done)
    report = json.loads((tmp_path / "r.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    assert report["verified"] and report["verify"]["parts_around"] == ["my.dom.Foo"] and len(report["verify"]["cases"]) > 2
    kinds = [n.op_type for n in onnx.load(tmp_path / "m.opt.onnx").graph.node]
    assert kinds.count("Gelu") == (2 if types else 1) and kinds.count("Foo") == 1
    assert ("taken were 'c' for float" in said(done)) == (not types)
    told = run_ok("verify", "m.onnx", "m.opt.onnx", cwd=tmp_path).stdout
    assert "in parts around my.dom.Foo" in told.splitlines()[-1]


def test_a_wrong_rule_is_found_behind_it(tmp_path):
    onnx.save(model(foo()), tmp_path / "m.onnx")
    (tmp_path / "wrong.rules").write_text(NEGATED)
    (tmp_path / "cheap.json").write_text('{"costs": {"Neg": 1}, "default": 10}')
    done = run_ok("m.onnx", "--rules", "wrong.rules", "--cost", "cheap.json", cwd=tmp_path)
    assert "rule negated makes the result differ" in said(done)
    assert "Relu" in [n.op_type for n in onnx.load(tmp_path / "m.opt.onnx").graph.node]
    strict = run("m.onnx", "--rules", "wrong.rules", "--cost", "cheap.json", "--strict-verify", "-o", "none.onnx", cwd=tmp_path)
    assert strict.returncode == 3 and not (tmp_path / "none.onnx").exists()


def test_two_models_of_whatever_tool(tmp_path):
    onnx.save(model(foo(alpha=0.5)), tmp_path / "a.onnx")
    for name, other, code, what in (
        ("same", model(foo(alpha=0.5)), 0, ""),
        ("attribute", model(foo(alpha=0.25)), 5, "the original has no such my.dom.Foo 'foo'"),
        ("place", model(foo("a", "c", alpha=0.5)), 3, "input 0 of my.dom.Foo 'foo'"),
        ("without", model(helper.make_node("Identity", ["b"], ["c"])), 5, "the other model has no such my.dom.Foo 'foo'"),
        ("twice", model(foo("b", "e", alpha=0.5), foo("e", "c", alpha=0.5)), 5, "the original has no such"),
    ):  # fmt: skip
        onnx.save(other, tmp_path / f"{name}.onnx")
        done = run("verify", "a.onnx", f"{name}.onnx", cwd=tmp_path)
        assert done.returncode == code and what in done.stderr, (name, done.stdout, done.stderr)


def test_given_inputs(tmp_path):
    onnx.save(model(foo()), tmp_path / "a.onnx")
    np.savez(tmp_path / "x.npz", x=np.full((3, 4), 2, np.float32))
    done = run_ok("a.onnx", "-o", "b.onnx", "--inputs", "x.npz", "--report", "r.json", cwd=tmp_path)
    (case,) = json.loads((tmp_path / "r.json").read_text())["verify"]["cases"]
    assert [o["elements"] for o in case["outputs"]] == [12, 12] and ", in parts, 1 input" in said(done)


def test_operators_of_training(tmp_path):
    """One that the standard has and our runtime has not."""
    node = helper.make_node("Gradient", ["b"], ["c"], domain="ai.onnx.preview.training", xs=["x"], y="b")
    onnx.save(model(node, domain="ai.onnx.preview.training"), tmp_path / "m.onnx")
    done = run_ok("m.onnx", "-v", cwd=tmp_path)
    assert "verified in parts around ai.onnx.preview.training.Gradient" in said(done)
