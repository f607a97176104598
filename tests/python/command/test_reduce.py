"""`saturate reduce`: a model that fails becomes one of a few nodes that fails in the same way."""
import json
import shlex

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, assert_refused, binary, listing, make_model, run, tensor, value

BART = DATA / "bart_encoder.onnx"
MOST_NODES = 10

DIFFERENCE = """opset "" 18

rule difference (A, B) => (Y)
  { Y = Mul (A, B) }
  =>
  { Y = Sub (A, B) }
  example A = float[2,3], B = float[2,3]
"""

STEEPER = """opset "" 18

rule steeper (X) => (Y)
  { Y = Erf (X) }
  =>
  { Y = Tanh (X) }
  example X = float[2,3]
"""


def reduce(folder, model, because, *words, options=(), code=0):
    """Runs it on a file or a ModelProto; the small model and what was told."""
    if not isinstance(model, str):
        onnx.save(model, folder / "big.onnx")
        model = "big.onnx"
    behind = ["--", *options] if options else []
    done = run("reduce", model, "-o", "small.onnx", "--because", because, "--json", *words, *behind, cwd=folder)
    assert done.returncode == code, done.stderr + done.stdout
    return (onnx.load(folder / "small.onnx"), json.loads(done.stdout)) if code == 0 else (None, done)


def count(model):
    """Nodes of the graph, of bodies and of functions."""
    def within(nodes):
        return sum(1 + sum(within(a.g.node) for a in n.attribute if a.type == onnx.AttributeProto.GRAPH) for n in nodes)

    return within(model.graph.node) + sum(within(f.node) for f in model.functions)


def repeats(folder, told, code):
    """The command that was told ends in the same way."""
    words = [w for w in told["command"][1:] if w != "optimize"]
    program = told["command"][0]
    assert program == "saturate" or program.startswith("./"), told
    done = run(*words, "-o", "again.onnx", cwd=folder)
    assert done.returncode == code, done.stderr
    return done


def program(folder, name, text):
    """A shell script in the place of the command. Its $2 is the model."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return f"./{name}"


@pytest.fixture
def bart(tmp_path):
    (tmp_path / "big.onnx").write_bytes(BART.read_bytes())
    return tmp_path


def with_rules(folder, text):
    (folder / "wrong.rules").write_text(text)
    (folder / "costs.json").write_text(json.dumps({"costs": {"Sub": 1, "Tanh": 1}, "default": 10}))
    return ["--rules", "none", "--rules", "wrong.rules", "--cost", "costs.json"]


def test_a_wrong_rule(bart):
    small, told = reduce(bart, "big.onnx", "wrong", options=with_rules(bart, DIFFERENCE))
    assert count(small) == 1 and small.graph.node[0].op_type == "Mul", small.graph.node
    assert told["nodes_before"] == 125 and told["nodes_after"] == 1 and told["complete"]
    repeats(bart, told, 3)


def test_a_wrong_rule_that_is_left_out_with_a_warning(bart):
    small, told = reduce(bart, "big.onnx", "warning: steeper", options=with_rules(bart, STEEPER))
    assert count(small) <= MOST_NODES and "Erf" in {n.op_type for n in small.graph.node}
    assert "steeper" in repeats(bart, told, 0).stderr


def in_branch(model):
    """The model in both branches of an If, one of them with its result negated."""
    outputs = [o.name for o in model.graph.output]
    branches = {}
    for name in ("then_branch", "else_branch"):
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node]
        for node in nodes:
            node.input[:] = [i + name if any(i in n.output for n in model.graph.node) else i for i in node.input]
            node.output[:] = [o + name for o in node.output]
        nodes.append(helper.make_node("Neg" if name == "else_branch" else "Identity", [outputs[0] + name], ["result" + name]))
        branches[name] = helper.make_graph(nodes, name, [], [value("result" + name, TensorProto.FLOAT, None)])
    choose = helper.make_node("If", ["which"], ["out"], **branches)
    graph = helper.make_graph([choose], "g", [*model.graph.input, value("which", TensorProto.BOOL, [])],
                              [value("out", TensorProto.FLOAT, None)], list(model.graph.initializer))
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def test_a_wrong_rule_in_the_branch_of_an_if(tmp_path):
    small, told = reduce(tmp_path, in_branch(onnx.load(BART)), "wrong", options=with_rules(tmp_path, DIFFERENCE))
    assert told["nodes_before"] > 250 and count(small) <= MOST_NODES
    repeats(tmp_path, told, 3)


def test_a_wrong_rule_in_a_function(tmp_path):
    model = onnx.load(BART)
    inputs = [i.name for i in model.graph.input]
    shared = [i.name for i in model.graph.initializer]
    body = helper.make_function("local", "Encoder", inputs + shared, ["out0"], list(model.graph.node), list(model.opset_import))
    nodes = [helper.make_node("Encoder", inputs + shared, [name], domain="local") for name in ("a", "b")]
    nodes.append(helper.make_node("Add", ["a", "b"], ["out0"]))
    graph = helper.make_graph(nodes, "g", model.graph.input, model.graph.output, list(model.graph.initializer))
    imports = [*model.opset_import, helper.make_opsetid("local", 1)]
    big = helper.make_model(graph, opset_imports=imports, functions=[body], ir_version=model.ir_version)
    small, told = reduce(tmp_path, big, "wrong", options=with_rules(tmp_path, STEEPER))
    assert count(small) <= MOST_NODES
    repeats(tmp_path, told, 3)


def test_a_crash(bart):
    crashing = program(bart, "crashing", f'grep -q Softmax "$2" && grep -q GatherND "$2" && kill -SEGV $$\nexec {shlex.quote(binary())} "$@"')
    small, told = reduce(bart, "big.onnx", "signal", "--command", crashing)
    assert {"Softmax", "GatherND"} <= {n.op_type for n in small.graph.node} and count(small) <= MOST_NODES
    assert told["command"][0] == crashing


def test_no_end(bart):
    endless = program(bart, "endless", f'grep -q IsNaN "$2" && grep -q Erf "$2" && sleep 60\nexec {shlex.quote(binary())} "$@" --no-verify')
    small, _ = reduce(bart, "big.onnx", "hang", "--command", endless, "--trial-limit", "1")
    assert {"IsNaN", "Erf"} <= {n.op_type for n in small.graph.node} and count(small) <= MOST_NODES


def test_a_size_that_does_not_fit(bart):
    model = onnx.load(BART)
    weight = next(i for i in model.graph.initializer if len(i.dims) == 2 and any(n.op_type == "MatMul" and i.name in n.input for n in model.graph.node))
    array = onnx.numpy_helper.to_array(weight)
    weight.CopyFrom(tensor(weight.name, np.concatenate([array, array[:1]])))
    small, told = reduce(bart, model, "error: the inner dims")
    assert [n.op_type for n in small.graph.node] == ["MatMul"]
    repeats(bart, told, 5)


def test_an_operator_that_cannot_be_run(bart):
    """One that gives no tensor: around others the model is verified in parts."""
    model = onnx.load(BART)
    output = model.graph.output[0]
    model.graph.node.append(helper.make_node("Wobble", [output.name], ["tokens"], domain="mine"))
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.graph.output.append(onnx.helper.make_tensor_sequence_value_info("tokens", onnx.TensorProto.FLOAT, None))
    small, told = reduce(bart, model, "exit 5")
    assert [n.op_type for n in small.graph.node] == ["Wobble"]
    assert "Wobble" in repeats(bart, told, 5).stderr


def test_a_fusion_that_is_missing_with_operators_to_keep(bart):
    model = onnx.load(BART)
    for node in model.graph.node:
        if node.op_type == "Softmax":
            node.op_type = "LogSoftmax"
    small, _ = reduce(bart, model, "no Attention", "--keep", "MatMul:2", "--keep", "LogSoftmax")
    kinds = [n.op_type for n in small.graph.node]
    assert kinds.count("MatMul") == 2 and "LogSoftmax" in kinds and len(kinds) <= 4


def test_a_fusion_that_is_missing_by_its_nearest_miss(bart):
    small, told = reduce(bart, "big.onnx", "no Gelu", options=["--skip-rule", "gelu", "--no-verify"])
    assert told["miss"] and count(small) <= MOST_NODES and "Erf" in {n.op_type for n in small.graph.node}


def test_a_fusion_that_an_earlier_build_found(bart):
    good = program(bart, "good", f'for word do shift; case $word in --skip-rule*) ;; *) set -- "$@" "$word" ;; esac; done\n'
                                 f'exec {shlex.quote(binary())} "$@"')
    small, _ = reduce(bart, "big.onnx", "no BiasGelu", "--good", good, options=["--skip-rule=gelu", "--no-verify"])
    assert "Erf" in {n.op_type for n in small.graph.node} and count(small) <= MOST_NODES


def test_what_does_not_fail_is_said(bart):
    before = listing(bart)
    for because in ("wrong", "exit 3", "signal", "no Attention", "warning: nothing like this", "error: nothing like this"):
        done = run("reduce", "big.onnx", "--because", because, cwd=bart)
        assert_refused(done, 6, bart, before, "big.onnx")
    for because in ("", "broken", "exit", "exit 0", "exit 256", "signal x", "no ", "warning:"):
        assert_refused(run("reduce", "big.onnx", "--because", because, cwd=bart), 2, bart, before)
    for options in (["--dump-egraph", "g.json"], ["-o", "x.onnx"], ["--inputs", "x.npz"], ["--no-such-option"], ["--help"]):
        assert_refused(run("reduce", "big.onnx", "--because", "wrong", "--", *options, cwd=bart), 2, bart, before)
    assert_refused(run("reduce", "big.onnx", "--because", "wrong", "--", "--no-verify", cwd=bart), 2, bart, before)
    assert_refused(run("reduce", "nothing.onnx", "--because", "wrong", cwd=bart), 1, bart, before, "nothing.onnx")
    assert_refused(run("reduce", "big.onnx", "-o", "big.onnx", "--because", "wrong", cwd=bart), 1, bart, before, "big.onnx")


def test_the_output_stands_beside_the_model(bart):
    done = run("reduce", "big.onnx", "--because", "wrong", "--", *with_rules(bart, DIFFERENCE), cwd=bart)
    assert done.returncode == 0 and "125 nodes -> big.reduced.onnx: 1 nodes" in done.stdout, done.stdout + done.stderr
    assert (bart / "big.reduced.onnx").exists()
