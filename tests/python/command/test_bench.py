"""`saturate bench`: what it prints, its JSON and trace, and what it refuses."""
import json
import os

import numpy as np
import onnx
import pytest

from conftest import assert_refused, listing, run, run_ok


@pytest.fixture
def model(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def report(*words, cwd):
    return json.loads(run_ok("bench", *words, "--json", cwd=cwd).stdout)


def test_numbers_and_operators(tmp_path, model):
    out = report("in.onnx", "--dim", "n=3", "--iterations", "7", "--as-is", cwd=tmp_path)
    (entry,) = out["models"]
    times = entry["seconds"]
    assert entry["runs"] == 7 and out["dims_of_one"] == [] and out["peak_bytes"] > 1 << 20
    assert 0 < times["min"] <= times["q1"] <= times["median"] <= times["q3"] and times["median"] <= times["p90"]
    assert {o["op_type"]: o["nodes"] for o in entry["operators"]} == {n.op_type: 1 for n in onnx.load(model).graph.node}
    assert all(o["seconds"] > 0 for o in entry["operators"])
    assert entry["cpu_seconds"]["median"] > 0


def test_sessions_fuse(tmp_path, model):
    (entry,) = report("in.onnx", "--dim", "n=3", "--iterations", "7", cwd=tmp_path)["models"]
    operators = {o["op_type"]: o["nodes"] for o in entry["operators"]}
    assert operators["Elementwise"] == 1 and "Identity" not in operators and "Relu" not in operators


def test_bigger_inputs_take_longer(tmp_path, model):
    small = report("in.onnx", "--dim", "n=1", "--iterations", "9", cwd=tmp_path)["models"][0]["seconds"]["median"]
    large = report("in.onnx", "--input-shapes", "x:400000,4", "--iterations", "9", cwd=tmp_path)["models"][0]["seconds"]["median"]
    assert large > 3 * small


def test_more_threads_than_cores_are_no_matter(tmp_path, model):
    done = run_ok("bench", "in.onnx", "--dim", "n=200000", "--iterations", "3", "--threads", 2 + 2 * os.cpu_count(), cwd=tmp_path)
    assert "TBB" not in done.stderr + done.stdout, done.stderr


def test_table_names_free_dims(tmp_path, model):
    text = run_ok("bench", "in.onnx", "--iterations", "3", cwd=tmp_path).stdout
    assert "median" in text and "p90" in text and "MatMul" in text and "dims without a given size are 1: n" in text
    assert "MatMul" not in run_ok("bench", "in.onnx", "--iterations", "3", "--no-table", cwd=tmp_path).stdout


def test_two_models_give_a_ratio(tmp_path, model, small_model):
    heavy = onnx.ModelProto()
    heavy.CopyFrom(small_model)
    previous = "y"
    heavy.graph.output[0].name = "z39"
    for i in range(40):
        heavy.graph.node.append(onnx.helper.make_node("Erf", [previous], [f"z{i}"]))
        previous = f"z{i}"
    onnx.save(heavy, tmp_path / "heavy.onnx")
    out = report("in.onnx", "heavy.onnx", "--dim", "n=5000", "--iterations", "9", cwd=tmp_path)
    assert [m["runs"] for m in out["models"]] == [9, 9] and out["ratio"]["median"] > 1.5
    assert out["ratio"]["q1"] <= out["ratio"]["median"] <= out["ratio"]["q3"]
    assert "second / first" in run_ok("bench", "in.onnx", "heavy.onnx", "--iterations", "3", cwd=tmp_path).stdout


def test_trace(tmp_path, model):
    run_ok("bench", "in.onnx", "--iterations", "3", "--profile", "trace.json", "--threads", "2", "--pin", "--as-is", cwd=tmp_path)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    nodes = [e for e in events if e["ph"] == "X"]
    assert sorted(e["args"]["node"] for e in nodes) == sorted(n.name for n in onnx.load(model).graph.node)
    assert all(e["dur"] > 0 and e["ts"] >= 0 for e in nodes)
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in zip(nodes, nodes[1:]))


def test_check_finite_names_the_first_node(tmp_path, model):
    run_ok("bench", "in.onnx", "--iterations", "3", "--check-finite", cwd=tmp_path)
    nodes = [onnx.helper.make_node("Neg", ["x"], ["a"], name="minus"), onnx.helper.make_node("Log", ["a"], ["b"], name="culprit"),
             onnx.helper.make_node("Exp", ["b"], ["y"], name="after")]
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "log.onnx")
    np.savez(tmp_path / "ones.npz", x=np.ones(2, np.float32))
    before = listing(tmp_path)
    for verb in ("bench", "run"):
        error = run(verb, "log.onnx", "--inputs", "ones.npz", "--check-finite", cwd=tmp_path)
        assert_refused(error, 1, tmp_path, before, "culprit")
        assert run(verb, "log.onnx", "--inputs", "ones.npz", cwd=tmp_path).returncode == 0


def test_given_inputs(tmp_path, model):
    np.savez(tmp_path / "x.npz", x=np.ones((6, 4), np.float32))
    assert report("in.onnx", "--inputs", "x.npz", "--iterations", "3", cwd=tmp_path)["dims_of_one"] == []


def test_refusals(tmp_path, model, small_model):
    small_model.graph.input[0].name = "other"
    small_model.graph.node[0].input[0] = small_model.graph.node[4].input[0] = "other"
    onnx.save(small_model, tmp_path / "other.onnx")
    before = listing(tmp_path)
    assert_refused(run("bench", "in.onnx", "other.onnx", cwd=tmp_path), 1, tmp_path, before, "other.onnx")
    assert_refused(run("bench", "none.onnx", cwd=tmp_path), 1, tmp_path, before, "none.onnx")
    assert_refused(run("bench", "in.onnx", "--input-shapes", "q:1", cwd=tmp_path), 2, tmp_path, before)
    assert_refused(run("bench", "in.onnx", "--profile", "no/such/t.json", cwd=tmp_path), 1, tmp_path, before, "no/such")
    assert_refused(run("bench", "in.onnx", "--iterations", "0", cwd=tmp_path), 2, tmp_path, before)
    assert_refused(run("bench", cwd=tmp_path), 2, tmp_path, before)
