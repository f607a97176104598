"""`--measure`: graphs of one e-graph and the original, timed in ONNX Runtime in turns."""
import json
import pathlib
import re
import signal
import time

import jsonschema
import numpy as np
import onnx
import pytest
from conftest import DATA, ROOT, make_model, run, run_ok, said, start, tensor, value
from onnx import TensorProto, helper

onnxruntime = pytest.importorskip("onnxruntime")
THERE = ("--onnxruntime", str(pathlib.Path(onnxruntime.__file__).parent))
RELEASE = ".".join(onnxruntime.__version__.split(".")[:2])
BART = DATA / "bart_encoder.onnx"


def measured(*words, **options):
    done = run_ok(*words, "--json", *THERE, **options)
    return json.loads(done.stdout)["measured"]


def nothing_to_gain(shape=(64, 64)):
    nodes = [helper.make_node("Sin", ["x"], ["y"])]
    return make_model(nodes, [value("x", TensorProto.FLOAT, list(shape))], [value("y", TensorProto.FLOAT, list(shape))])


def test_what_is_faster_is_written_and_told(tmp_path):
    report = json.loads(run_ok(BART, "-o", tmp_path / "o.onnx", "--measure", 10, "--json", *THERE).stdout)
    told = report["measured"]
    assert told["version"] == onnxruntime.__version__ and told["threads"] == 1 and told["budget"] == 10
    assert not told["unchanged"] and told["of_original"]["high"] < 1, told
    assert told["graphs"][0]["graph"] == "original" and told["graphs"][0]["runs"] >= 5 and told["graphs"][0]["seconds"] > 0
    assert told["taken"] in {graph["graph"] for graph in told["graphs"] if graph["why_not"] is None}
    jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "report.schema.json").read_text())).validate(report)
    assert report["verified"] and report["after"]["nodes"] < report["before"]["nodes"] == told["graphs"][0]["nodes"]
    assert report["cost_after"] < report["cost_before"]
    screen = said(run_ok(BART, "-o", tmp_path / "o.onnx", "--measure", 10, "-v", *THERE))
    assert re.search(rf"measured:? 0\.\d\d \[0\.\d\d, 0\.\d\d\] of the original in ONNX Runtime {RELEASE}, 1 thread \(\d+ graphs timed in", screen), screen


def test_the_original_is_returned_byte_by_byte_where_nothing_is_faster(tmp_path):
    onnx.save(nothing_to_gain(), tmp_path / "m.onnx")
    before = (tmp_path / "m.onnx").read_bytes()
    done = run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--measure", 3, *THERE)
    assert "nothing is faster than the original" in said(done) and (tmp_path / "o.onnx").read_bytes() == before
    # Signed as a result of saturate: the same command may replace it; and in its own place nothing changes.
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--measure", 3, *THERE)
    report = json.loads(run_ok(tmp_path / "m.onnx", "-o", tmp_path / "m.onnx", "--measure", 3, "--json", *THERE).stdout)
    assert report["measured"]["unchanged"] and report["verified"] and (tmp_path / "m.onnx").read_bytes() == before


def test_answers_are_kept_and_make_runs_repeatable(tmp_path):
    words = (BART, "-o", tmp_path / "o.onnx", "--measure", 10, "--measured", tmp_path / "a.jsonl")
    first = measured(*words)
    assert not first["remembered"]
    result, kept = (tmp_path / "o.onnx").read_bytes(), (tmp_path / "a.jsonl").read_text()
    lines = [json.loads(line) for line in kept.splitlines()]
    assert all(line["question"]["runtime"] == onnxruntime.__version__ and line["question"]["processor"] for line in lines)
    begin = time.monotonic()
    again = measured(*words)
    assert again["remembered"] and again["taken"] == first["taken"] and again["of_original"] == first["of_original"]
    assert time.monotonic() - begin < 8 and again["seconds"] < 1
    assert (tmp_path / "o.onnx").read_bytes() == result and (tmp_path / "a.jsonl").read_text() == kept
    assert not measured(*words, "--threads", 2)["remembered"], "of other threads it says nothing"


def test_answers_of_regions_serve_other_models(tmp_path):
    """GELU of one size in two models, by a file that says that the unfused one is the faster."""

    def gelus(places):
        nodes, at = [], "x"
        for i in range(places):
            nodes += [
                helper.make_node("Div", [at, "root"], [f"a{i}"]),
                helper.make_node("Erf", [f"a{i}"], [f"b{i}"]),
                helper.make_node("Add", [f"b{i}", "one"], [f"c{i}"]),
                helper.make_node("Mul", [at, f"c{i}"], [f"d{i}"]),
                helper.make_node("Mul", [f"d{i}", "half"], [f"e{i}"]),
                helper.make_node("Sin", [f"e{i}"], [f"f{i}"]),
            ]
            at = f"f{i}"
        constants = [tensor(name, np.array(number, np.float32)) for name, number in (("root", 2**0.5), ("one", 1), ("half", 0.5))]
        return make_model(nodes, [value("x", TensorProto.FLOAT, [32, 64])], [value(at, TensorProto.FLOAT, [32, 64])], constants)

    onnx.save(gelus(1), tmp_path / "one.onnx")
    onnx.save(gelus(3), tmp_path / "three.onnx")
    first = measured(tmp_path / "one.onnx", "-o", tmp_path / "o.onnx", "--measure", 10, "--measured", tmp_path / "a.jsonl")
    assert any("GELU of 2048" in graph["graph"] for graph in first["graphs"]), first
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    regions = [line for line in lines if line["question"].get("instead") == "unfused"]
    assert regions and all("region" in line["question"] for line in regions)
    for line in regions:
        line["answer"]["ratio"] = [0.5, 0.4, 0.6]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in regions))
    other = measured(tmp_path / "three.onnx", "-o", tmp_path / "o.onnx", "--measure", 10, "--measured", tmp_path / "a.jsonl")
    names = [graph["graph"] for graph in other["graphs"]]
    assert "as measured before" in names and "GELU of 2048 unfused" not in names, names


def test_a_budget_is_kept(tmp_path):
    begin = time.monotonic()
    told = measured(BART, "-o", tmp_path / "o.onnx", "--measure", 2, "--no-verify")
    assert told["seconds"] < 4 and time.monotonic() - begin < 15
    tiny = measured(BART, "-o", tmp_path / "o.onnx", "--measure", 0.001, "--no-verify")
    assert tiny["unchanged"] and tiny["of_original"] is None and (tmp_path / "o.onnx").read_bytes() == BART.read_bytes()


def test_sizes_are_those_of_cost_at(tmp_path):
    told = measured(BART, "-o", tmp_path / "o.onnx", "--measure", 2, "--no-verify", "--cost-at", "batch=2,seq=8")
    assert "batch=2" in told["sizes"] and "seq=8" in told["sizes"], told["sizes"]
    several = measured(BART, "-o", tmp_path / "o.onnx", "--measure", 2, "--no-verify", "--cost-at", "batch=2,seq=8:3", "--cost-at", "batch=1,seq=4")
    assert "batch=2" in several["sizes"] and "weight 3" in several["sizes"] and "batch=1" in several["sizes"], several["sizes"]
    fixed = measured(BART, "-o", tmp_path / "o.onnx", "--measure", 2, "--no-verify", "--dim", "batch=1", "--dim", "seq=16")
    assert "seq" not in fixed["sizes"]
    given = measured(BART, "-o", tmp_path / "o.onnx", "--measure", 2, "--no-verify", "--inputs", DATA / "bart_encoder.inputs.npz")
    assert given["sizes"] == "those of --inputs"


def test_another_opset_is_not_taken_back(tmp_path):
    """What is asked for beside speed is kept where the original is as fast."""
    onnx.save(nothing_to_gain(), tmp_path / "m.onnx")
    told = measured(tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--measure", 2, "--opset", 21)
    assert not told["unchanged"] and onnx.load(tmp_path / "o.onnx").opset_import[0].version == 21
    dims = make_model([helper.make_node("Sin", ["x"], ["y"])], [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])])
    onnx.save(dims, tmp_path / "d.onnx")
    assert measured(tmp_path / "d.onnx", "-o", tmp_path / "o.onnx", "--measure", 2, "--dim", "n=3")["unchanged"]
    assert onnx.load(tmp_path / "o.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 3


def test_empty_tensors_and_bodies(tmp_path):
    onnx.save(nothing_to_gain((0, 4)), tmp_path / "empty.onnx")
    run_ok(tmp_path / "empty.onnx", "-o", tmp_path / "o.onnx", "--measure", 1, *THERE)
    branch = [helper.make_graph([helper.make_node(op, ["x"], [f"r{op}"])], op, [], [value(f"r{op}", TensorProto.FLOAT, [8, 8])]) for op in ("Sin", "Cos")]
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1]),
    ]
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, [8, 8])], [value("y", TensorProto.FLOAT, [8, 8])]), tmp_path / "if.onnx")
    run_ok(tmp_path / "if.onnx", "-o", tmp_path / "o.onnx", "--measure", 2, *THERE)


def test_data_beside_the_model_comes_along(tmp_path):
    onnx.save(onnx.load(BART), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=1024)
    (tmp_path / "out").mkdir()
    run_ok(tmp_path / "m.onnx", "-o", tmp_path / "out" / "o.onnx", "--measure", 0.001, "--no-verify", *THERE)
    (tmp_path / "m.data").rename(tmp_path / "elsewhere")
    inputs = dict(np.load(DATA / "bart_encoder.inputs.npz"))
    (expected,) = dict(np.load(DATA / "bart_encoder.expected.npz")).values()
    np.testing.assert_allclose(onnxruntime.InferenceSession(tmp_path / "out" / "o.onnx").run(None, inputs)[0], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "words, status, part",
    [
        (("--measure", "0"), 2, "0.001"),
        (("--measure", "-1"), 2, "0.001"),
        (("--measure", "nan"), 2, "0.001"),
        (("--measure", "soon"), 2, "--measure"),
        (("--measured", "a.jsonl"), 2, "--measure"),
        (("--measure", "1"), 5, "--onnxruntime PATH"),
        (("--measure", "1", "--onnxruntime", "no/such"), 1, "no shared library of ONNX Runtime"),
        (("--measure", "1", "--measured", "no/such/a.jsonl", *THERE), 1, "no/such"),
        (("--measure", "1", "--measured", "broken.jsonl", *THERE), 1, "broken.jsonl: not JSON: line 2, "),
        (("--measure", "1", "--measured", "other.jsonl", *THERE), 1, "other.jsonl:1: "),
        (("--measure", "1", "--measured", "m.onnx", *THERE), 2, "m.onnx"),
        (("--measure", "1", "--measured", "o.onnx", *THERE), 2, "o.onnx"),
    ],
)
def test_mistakes_are_told_in_a_line(tmp_path, monkeypatch, words, status, part):
    monkeypatch.chdir(tmp_path)
    onnx.save(nothing_to_gain(), "m.onnx")
    pathlib.Path("broken.jsonl").write_text('{"question": {}, "answer": {}}\n{"question": {}\n')
    pathlib.Path("other.jsonl").write_text('[1, 2]\n')
    done = run("m.onnx", "-o", "o.onnx", *words)
    assert done.returncode in (status, 1 if status == 2 and part.endswith(".onnx") else status), done.stderr
    assert part in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not pathlib.Path("o.onnx").exists()


def test_what_the_runtime_does_not_run_can_not_be_measured(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="twice"), helper.make_node("Relu", ["a"], ["y"], name="twice")]
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]), tmp_path / "m.onnx")
    done = run(tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--measure", 1, *THERE)
    assert done.returncode == 5 and "can't measure" in done.stderr and "same node name" in done.stderr, done.stderr
    assert not (tmp_path / "o.onnx").exists()


def test_an_interrupt_ends_it(tmp_path):
    process = start(BART, "-o", tmp_path / "o.onnx", "--measure", 600, "--cost-at", "batch=64,seq=64", "--no-verify", *THERE, cwd=tmp_path)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=20)
    assert process.returncode == 130 and "interrupted" in str(told) and not (tmp_path / "o.onnx").exists(), told
