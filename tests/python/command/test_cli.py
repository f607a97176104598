"""What the verbs print and return."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, RELEASE, listing, make_model, onnxruntime_outputs, run, run_ok, tensor, value

BART = DATA / "bart_encoder.onnx"
VERBS = ["optimize", "transform", "inspect", "verify", "diff", "run", "rules", "explain", "extract", "cost", "targets"]


def test_version():
    done = run_ok("--version")
    assert done.stdout.startswith("saturate ")


def test_help():
    done = run_ok("--help")
    for word in ["NAME", "SYNOPSIS", "EXIT STATUS", *VERBS]:
        assert word in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(verb):
    done = run_ok(verb, "--help")
    for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES"]:
        assert f"\n{section}\n" in "\n" + done.stdout
    assert f"saturate {verb} - " in done.stdout
    for line in done.stdout.splitlines():
        assert line == line.rstrip() and "{false}" not in line, line


def test_default_output_and_verb(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "in.onnx")
    done = run_ok("in.onnx", cwd=tmp_path)
    result = onnx.load(tmp_path / "in.opt.onnx")
    onnx.checker.check_model(result, full_check=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.onnx", "in.opt.onnx"]
    assert {n.op_type for n in result.graph.node} <= {"MatMul", "Add", "Relu", "Gemm", "FusedGemm"}
    for word in ["in.onnx -> in.opt.onnx", "verified here only (onnxruntime is not installed), ", "5 -> 1 operators", "predicted", "needs", "assumes", "next", "saturate diff in.onnx in.opt.onnx"]:
        assert word in done.stdout
    assert done.stderr == ""
    run_ok("optimize", "in.onnx", "-o", "two.onnx", cwd=tmp_path)
    assert (tmp_path / "two.onnx").read_bytes() == (tmp_path / "in.opt.onnx").read_bytes()


def test_mode_of_the_output(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "in.onnx")
    (tmp_path / "plain").write_bytes(b"")
    run_ok("in.onnx", cwd=tmp_path)
    assert (tmp_path / "in.opt.onnx").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_quiet(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "in.onnx")
    done = run_ok("in.onnx", "-q", cwd=tmp_path)
    assert done.stdout == "" and done.stderr == ""


def test_report_and_json(tmp_path):
    done = run_ok(BART, tmp_path / "out.onnx", "--report", tmp_path / "r.json", "--json")
    report = json.loads((tmp_path / "r.json").read_text())
    printed = json.loads(done.stdout)
    assert printed["after"] == report["after"]
    assert report["before"]["opset"] == 18 and report["verify"]["status"] == "equal" and len(report["verify"]["cases"]) >= 3
    assert report["saturation"]["stop_reason"] and report["saturation"]["rules"]
    assert report["cost_after"] < report["cost_before"]
    sizes = [tuple(sorted(c["sizes"].items())) for c in report["verify"]["cases"]]
    assert len(set(sizes)) >= 3  # several sizes of every symbolic dim
    assert {"load", "lower", "saturate", "extract", "emit", "verify", "save"} <= set(report["seconds"])


def test_no_verify_says_so(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "in.onnx")
    assert run_ok("in.onnx", "--no-verify", cwd=tmp_path).stdout.startswith("NOT VERIFIED: --no-verify was given\n")


def test_strict_budget(tmp_path):
    done = run(BART, tmp_path / "out.onnx", "--iterations", "1", "--strict-budget")
    assert done.returncode == 4 and len(done.stderr.splitlines()) == 1
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"))
    run_ok(BART, tmp_path / "out2.onnx", "--iterations", "1")


def test_node_limit_gives_a_valid_result(tmp_path):
    report = tmp_path / "r.json"
    run_ok(BART, tmp_path / "out.onnx", "--node-limit", "40", "--report", report)
    saturation = json.loads(report.read_text())
    assert saturation["saturation"]["stop_reason"] != "saturated"
    assert saturation["cost_after"] <= saturation["cost_before"]


def test_inspect(tmp_path):
    shown = json.loads(run_ok("inspect", BART, "--json").stdout)
    model = onnx.load(BART)
    assert shown["opsets"] == {i.domain or "ai.onnx": i.version for i in model.opset_import}
    assert [i["name"] for i in shown["inputs"]] == [i.name for i in model.graph.input]
    assert shown["inputs"][0]["shape"] == [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    counts = {}
    for node in model.graph.node:
        if node.op_type != "Constant":
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
    assert shown["operators"] == counts
    assert shown["parameters"] == sum(int(np.prod(i.dims)) for i in model.graph.initializer)
    assert shown["file_bytes"] == BART.stat().st_size and shown["data_files"] == {}
    run_ok(BART, "-o", tmp_path / "apart.onnx", "--external-data")
    apart = json.loads(run_ok("inspect", tmp_path / "apart.onnx", "--json").stdout)
    assert list(apart["data_files"]) == ["apart.onnx.data"] and 0 < apart["data_files"]["apart.onnx.data"] <= (tmp_path / "apart.onnx.data").stat().st_size
    assert "KiB in apart.onnx.data" in run_ok("inspect", tmp_path / "apart.onnx").stdout
    text = run_ok("inspect", BART).stdout
    assert "input_ids" in text and "MatMul" in text and "attention" in text


def test_run_agrees_with_onnxruntime(tmp_path):
    inputs = DATA / "bart_encoder.inputs.npz"
    run_ok("run", BART, "--inputs", inputs, "-o", tmp_path / "y.npz", "--profile")
    with np.load(inputs) as x, np.load(tmp_path / "y.npz") as y, np.load(DATA / "bart_encoder.expected.npz") as expected:
        reference = onnxruntime_outputs(BART, dict(x))
        assert set(y.files) == set(reference)
        for (name, got), wanted in zip(y.items(), expected.values()):
            assert got.dtype == reference[name].dtype
            np.testing.assert_allclose(got, reference[name], atol=1e-5)
            np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_run_keeps_every_dtype(tmp_path):
    arrays = {
        "f2": np.array([1.5, -2], np.float16), "f8": np.array([np.pi]), "b1": np.array([[True, False]]), "u1": np.array([255], np.uint8), "i8": np.array([-(2**62)]),
        "s": np.array(["", "grün"]), "empty": np.zeros((0, 3), np.float32), "scalar": np.float32(3),
    }
    kinds = {"s": TensorProto.STRING}
    nodes = [helper.make_node("Identity", [n], [n + "_out"]) for n in arrays]
    infos = lambda suffix: [value(n + suffix, kinds.get(n) or helper.np_dtype_to_tensor_dtype(np.asarray(a).dtype), np.asarray(a).shape) for n, a in arrays.items()]
    onnx.save(make_model(nodes, infos(""), infos("_out")), tmp_path / "m.onnx")
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    run_ok("run", tmp_path / "m.onnx", "--inputs", tmp_path / "x.npz", "-o", tmp_path / "y.npz")
    with np.load(tmp_path / "y.npz") as y:
        for name, array in arrays.items():
            got = y[name + "_out"]
            assert got.shape == np.asarray(array).shape and got.dtype.kind == np.asarray(array).dtype.kind
            np.testing.assert_array_equal(got, array)


def test_verify_equal_and_different(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "a.onnx")
    weights = onnx.numpy_helper.to_array(small_model.graph.initializer[0]).copy()
    weights[1, 2] += 0.01
    small_model.graph.initializer[0].CopyFrom(tensor("w", weights))
    onnx.save(small_model, tmp_path / "b.onnx")
    assert "equal" in run_ok("verify", tmp_path / "a.onnx", tmp_path / "a.onnx").stdout
    done = run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert done.returncode == 3 and "'y'" in done.stderr and "DIFFERENT" in done.stdout
    run_ok("verify", tmp_path / "a.onnx", tmp_path / "b.onnx", "--check-atol", "1")
    shown = json.loads(run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx", "--json").stdout)
    assert shown["status"] == "different" and shown["max_abs_diff"] > 1e-3


def test_verify_on_given_inputs(tmp_path, small_model):
    """A difference that only shows where x[0,0] > 100."""
    onnx.save(small_model, tmp_path / "a.onnx")
    nodes = [helper.make_node("Clip", ["x", "", "top"], ["c"]), *small_model.graph.node]
    nodes[1].input[0] = "c"
    other = make_model(nodes, small_model.graph.input, small_model.graph.output, [*small_model.graph.initializer, tensor("top", np.float32(100))])
    onnx.save(other, tmp_path / "b.onnx")
    run_ok("verify", tmp_path / "a.onnx", tmp_path / "b.onnx")
    np.savez(tmp_path / "x.npz", x=np.full((1, 4), 200, np.float32))
    assert run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx", "--inputs", tmp_path / "x.npz").returncode == 3


def test_verify_sees_a_wrong_shape(tmp_path):
    make = lambda axis: make_model([helper.make_node("Concat", ["x", "x"], ["y"], axis=axis)], [value("x", TensorProto.FLOAT, ["n", "m"])], [value("y", TensorProto.FLOAT, None)])
    onnx.save(make(0), tmp_path / "a.onnx")
    onnx.save(make(1), tmp_path / "b.onnx")
    done = run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert done.returncode == 3 and "shape" in done.stderr


def test_random_outputs_are_not_compared(tmp_path):
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["r"]), helper.make_node("Add", ["x", "r"], ["noisy"]), helper.make_node("Relu", ["x"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [8])], [value("noisy", TensorProto.FLOAT, [8]), value("y", TensorProto.FLOAT, [8])])
    onnx.save(model, tmp_path / "m.onnx")
    done = run("verify", tmp_path / "m.onnx", tmp_path / "m.onnx")
    assert done.returncode in (0, 5), done.stderr
    if done.returncode == 0:
        assert "'noisy' depends on random operators" in done.stdout


def test_inputs_related_by_a_sum(tmp_path):
    """total = past + seq is found by trial."""
    nodes = [helper.make_node("Concat", ["p", "s"], ["t"], axis=0), helper.make_node("Add", ["t", "m"], ["y"])]
    inputs = [value("p", TensorProto.FLOAT, ["past"]), value("s", TensorProto.FLOAT, ["seq"]), value("m", TensorProto.FLOAT, ["total"])]
    onnx.save(make_model(nodes, inputs, [value("y", TensorProto.FLOAT, ["total"])]), tmp_path / "m.onnx")
    run_ok("m.onnx", "--report", "r.json", cwd=tmp_path)
    cases = json.loads((tmp_path / "r.json").read_text())["verify"]["cases"]
    assert len(cases) >= 3
    assert any(c["sizes"]["total"] == c["sizes"]["past"] + c["sizes"]["seq"] and c["sizes"]["past"] > 1 for c in cases)


def test_input_shapes(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "in.onnx")
    for words in (["--input-shapes", "x:5,4"], ["--overwrite-input-shape", "x:[5,4]"], ["--input-shapes", "x:5x4"], ["--dim", "n=5"]):
        run_ok("in.onnx", "out.onnx", *words, cwd=tmp_path)
        result = onnx.load(tmp_path / "out.onnx")
        assert [d.dim_value for d in result.graph.input[0].type.tensor_type.shape.dim] == [5, 4]
        assert [d.dim_value for d in result.graph.output[0].type.tensor_type.shape.dim] == [5, 4]
    for words in (["--input-shapes", "x:5,3"], ["--input-shapes", "z:1"], ["--input-shapes", "x:1"], ["--input-shapes", "x"], ["--dim", "n"], ["--dim", "n=3", "--dim", "n=4"]):
        done = run("in.onnx", "never.onnx", *words, cwd=tmp_path)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "never.onnx").exists()


def test_rules_verbs(tmp_path):
    rules = json.loads(run_ok("rules", "list", "--json").stdout)
    assert len(rules) > 20 and all(r["effect"] in ("exact", "reassociates", "within_one_step", "rescales", "approximates") for r in rules)
    text_rule = next(r for r in rules if r["from"] != "C++")
    assert f"rule {text_rule['name'].split('[')[0]}" in run_ok("rules", "show", text_rule["name"]).stdout
    assert run("rules", "show", "no_such_rule").returncode == 2
    assert text_rule["name"] in run_ok("rules", "list").stdout


def test_rules_check(tmp_path):
    head = 'opset "" 20\n\nrule two_relus (X) => (Y)\n  { A = Relu (X)\n    Y = Relu (A) }\n  =>\n'
    (tmp_path / "right.rules").write_text(head + "  { Y = Relu (X) }\n  example X = float[2,3]\n")
    (tmp_path / "wrong.rules").write_text(head + "  { Y = Exp (X) }\n  example X = float[2,3]\n")
    assert "1 rules checked" in run_ok("rules", "check", tmp_path / "right.rules").stdout
    done = run("rules", "check", tmp_path / "wrong.rules")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "two_relus" in done.stderr
    shown = json.loads(run("rules", "check", tmp_path / "wrong.rules", "--json").stdout)
    assert [r["rule"] for r in shown] == ["two_relus"] and not shown[0]["ok"]


def test_builtin_rules_check():
    done = run("rules", "check", "-q")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_targets_verbs(tmp_path):
    names = [t["name"] for t in json.loads(run_ok("targets", "list", "--json").stdout)]
    assert {"onnx", "ort-cpu"} <= set(names)
    shown = json.loads(run_ok("targets", "show", "ort-cpu").stdout)
    assert shown["name"] == "ort-cpu"
    (tmp_path / "mine.json").write_text(json.dumps(shown))
    run_ok(BART, tmp_path / "a.onnx", "--cost", "nodes", "-q")
    run_ok(BART, tmp_path / "b.onnx", "--cost", "nodes", "-q", "--target", f"{tmp_path / 'mine.json'}@{RELEASE}")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert run("targets", "show", "no-such-target").returncode == 2


def test_explain(tmp_path):
    before = listing(DATA)
    shown = json.loads(run_ok("explain", BART, "--cost", "nodes", "--json").stdout)
    made = [m for m in shown["made_by_rules"] if m["rule"]]
    assert shown["rules"] and made
    text = run_ok("explain", BART, "--cost", "nodes", "--op", made[0]["op_type"]).stdout
    assert made[0]["rule"] in text
    assert listing(DATA) == before


def test_own_rule(tmp_path):
    """A rule from a file is used beside the built-in ones, or alone."""
    (tmp_path / "my.rules").write_text(
        'opset "" 20\n\n# Relu is idempotent.\nrule relu_relu (X) => (Y)\n  { A = Relu (X)\n    Y = Relu (A) }\n  =>\n  { Y = Relu (X) }\n  example X = float[2,3]\n')
    model = make_model([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])], [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("m.onnx", "none.onnx", "--rules", "none", cwd=tmp_path)
    assert len(onnx.load(tmp_path / "none.onnx").graph.node) == 2
    run_ok("m.onnx", "out.onnx", "--rules", "my.rules", "--rules", "none", cwd=tmp_path)
    assert len(onnx.load(tmp_path / "out.onnx").graph.node) == 1


def test_wrong_rule_is_caught(tmp_path):
    """Verification: 3, no output file, where nothing is to be left out."""
    (tmp_path / "wrong.rules").write_text('opset "" 20\n\nrule wrong (X) => (Y)\n  { Y = Relu (X) }\n  =>\n  { Y = Identity (X) }\n  example X = float[2,3]\n')
    model = make_model([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])], [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])
    onnx.save(model, tmp_path / "m.onnx")
    done = run("m.onnx", "out.onnx", "--rules", "wrong.rules", "--strict-verify", cwd=tmp_path)
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1, (done.returncode, done.stderr)
    assert not (tmp_path / "out.onnx").exists()


def test_opset(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "in.onnx")
    for words, opset in ((["--opset", "21"], 21), (["--keep-opset"], 18), ([], 18)):
        run_ok("in.onnx", "out.onnx", *words, cwd=tmp_path)
        result = onnx.load(tmp_path / "out.onnx")
        assert {i.domain: i.version for i in result.opset_import}[""] == opset
        onnx.checker.check_model(result, full_check=True)


def test_in_place(tmp_path, small_model):
    onnx.save(small_model, tmp_path / "in.onnx")
    run_ok("in.onnx", "in.onnx", cwd=tmp_path)
    onnx.checker.check_model(onnx.load(tmp_path / "in.onnx"), full_check=True)
    assert [p.name for p in tmp_path.iterdir()] == ["in.onnx"]


def test_a_model_without_an_opset_means_the_newest(tmp_path):
    """As ONNX Runtime takes it; the result says which."""
    nodes = [helper.make_node("Add", ["x", "y"], ["s"]), helper.make_node("BiasGelu", ["s", "b"], ["z"], domain="com.microsoft")]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4]), value("y", TensorProto.FLOAT, ["n", 4])], [value("z", TensorProto.FLOAT, ["n", 4])],
                       [tensor("b", np.arange(4, dtype=np.float32))], domains=["com.microsoft"])
    kept = [i for i in model.opset_import if i.domain == "com.microsoft"]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    onnx.save(model, tmp_path / "in.onnx")
    done = run_ok("in.onnx", "out.onnx", cwd=tmp_path)
    assert "opset_import names no version of ai.onnx" in done.stdout
    result = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(result)
    x, y = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    expected = onnxruntime_outputs(tmp_path / "in.onnx", {"x": x, "y": y})["z"]
    assert np.abs(onnxruntime_outputs(tmp_path / "out.onnx", {"x": x, "y": y})["z"] - expected).max() < 1e-5


def test_rules_are_listed_by_a_word():
    every = json.loads(run_ok("rules", "list", "--json").stdout)
    for word, tells in (("ROTARY", lambda r: True), ("no_empty_row", lambda r: "no_empty_row" in r["assumes"] or "no_empty_row" in r["doc"]),
                        ("bodies/limits.rules", lambda r: r["from"].startswith("bodies/limits.rules"))):
        listed = json.loads(run_ok("rules", "list", word, "--json").stdout)
        assert 0 < len(listed) < len(every) and all(map(tells, listed)), word
