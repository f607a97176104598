"""`saturate cost gather|fit|eval`: from a machine to a cost model to how good it is."""
import json
import re

import onnx
import onnxruntime as ort
import pytest

from conftest import DATA, run, run_ok, said

BART = DATA / "bart_encoder.onnx"
SIZES = ["--dim", "batch=1", "--dim", "seq=16"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("cost") / "rows.jsonl"
    run_ok("cost", "gather", BART, *SIZES, "-o", path, "--seconds", 0.001)
    return path


def test_rows_describe_the_machine_and_each_operator_once(rows):
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert lines[0]["machine"]["cores"] >= 1 and "saturate" in lines[0]["runtime"]
    keys = [json.dumps([r[k] for k in ("op", "dtype", "in", "out", "const", "attrs")]) for r in lines[1:]]
    assert len(set(keys)) == len(keys) > 20
    assert {"MatMul", "Softmax", "LayerNormalization"} <= {r["op"] for r in lines[1:]} <= {n.op_type for n in onnx.load(BART).graph.node}
    assert all(r["seconds"] > 0 for r in lines[1:])


@pytest.mark.parametrize("kind", ["fitted", "roofline", "measured"])
def test_rows_become_a_cost_model(rows, tmp_path, kind):
    model = rows
    if kind != "measured":
        model = tmp_path / "mine.json"
        run_ok("cost", "fit", rows, "--kind", kind, "-o", model)
    report = json.loads(run_ok("optimize", BART, tmp_path / "out.onnx", "--cost", model, "--json").stdout)
    assert report["cost_model"] == str(model) and 0 < report["cost_after"] <= report["cost_before"]
    out = json.loads(run_ok("cost", "eval", "--rows", rows, "--cost", model, "--json").stdout)
    assert out["all_operators"]["rows"] == sum(r["rows"] for r in out["operators"]) == len(out["rows"])
    assert all(r["predicted"] > 0 for r in out["rows"])
    if kind == "measured":
        assert out["all_operators"]["mape"] < 0.5  # its own rows


def told_by(tmp_path, cost, *words):
    """What the report and the screen say that prices were measured on."""
    report = json.loads(run_ok("optimize", BART, tmp_path / "out.onnx", "--force", "--cost", cost, "--json", *words).stdout)["cost_of"]
    screen = said(run_ok("optimize", BART, tmp_path / "out.onnx", "--force", "--cost", cost, "-v", *words))
    row = re.search(r" prices: (.*?) operator ", screen)
    return report, row and row[1]


def test_prices_name_their_machine_and_say_that_it_is_another(rows, tmp_path):
    head, rest = rows.read_text().split("\n", 1)
    head = json.loads(head)

    def table(**machine):
        path = tmp_path / "t.jsonl"
        path.write_text(json.dumps(head | {"runtime": "onnxruntime 1.31.1", "threads": 2, "machine": head["machine"] | machine}) + "\n" + rest)
        return path

    report, row = told_by(tmp_path, table(processor="Some(R) Model Processor @ 2.40GHz"), "--target", "ort-cpu@1.31")
    assert report["this_machine"] == head["machine"] and (report["runtime"], report["threads"]) == ("onnxruntime 1.31.1", 2)
    assert not report["other_machine"] and not report["other_release"]  # another model of processor has the same kernels
    assert re.fullmatch(r"Some Model( \(.*\))?, ONNX Runtime 1\.31, 2 threads", row)
    report, row = told_by(tmp_path, table(architecture="riscv64", extensions=[]), "--target", "ort-cpu@1.20")
    assert report["other_machine"] and report["other_release"] and "this machine is another: " in row and row.startswith(head["machine"]["processor"].split("(")[0])
    if head["machine"]["extensions"]:
        other = [e for e in head["machine"]["extensions"] if e != "avx2"] + ["amx_tile"] * ("amx_tile" not in head["machine"]["extensions"])
        assert told_by(tmp_path, table(extensions=other))[0]["other_machine"]
        assert not told_by(tmp_path, table(extensions=[]))[0]["other_machine"]  # not known
    assert told_by(tmp_path, "nodes") == (None, None)
    assert told_by(tmp_path, "measured", "--target", "ort-cpu@1.31")[0]["machine"]["processor"].startswith("Intel")


@pytest.mark.parametrize("head", ['{"machine":{"processor":3,"extensions":"avx2","cores":"many"},"threads":"x","runtime":[],"date":7}', '{"machine":7}', "[1]"])
def test_a_first_line_may_be_anything(rows, tmp_path, head):
    path = tmp_path / "t.jsonl"
    path.write_text(head + "\n" + rows.read_text().split("\n", 1)[1])
    done = run("optimize", BART, tmp_path / "out.onnx", "--cost", path, "--json")
    assert done.returncode in (0, 1) and "terminate" not in done.stderr


def test_graphs_are_ranked(rows, tmp_path):
    run_ok("extract", BART, "--sample", 4, "-o", tmp_path / "g", "--no-verify")
    run_ok("cost", "gather", "--graphs", *sorted((tmp_path / "g").iterdir()), *SIZES, "-o", tmp_path / "graphs.jsonl", "--seconds", 0.001)
    out = json.loads(run_ok("cost", "eval", tmp_path / "graphs.jsonl", "--cost", rows, *SIZES, "--json").stdout)
    assert out["graphs"][0]["count"] == 5
    assert -1 <= out["tau"] <= 1 and out["regret"] >= 0 and out["additivity_error"] >= 0


def test_known_times_give_known_quality(tmp_path):
    """Graphs whose times are their numbers of operators: --cost nodes ranks them perfectly."""
    plain = ("--target", "ort-cuda@1.24")  # whose prices are not of what is fused at load
    run_ok("extract", BART, "--sample", 4, "-o", tmp_path / "g", "--no-verify", *plain)
    paths = sorted((tmp_path / "g").iterdir())
    cost = lambda p: json.loads(run_ok("optimize", p, tmp_path / "o.onnx", *plain, "--rules", "none", "--cost", "nodes", "--no-verify", "--json").stdout)["cost_before"]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"graph": str(p), "seconds": cost(p)}) + "\n" for p in paths))
    out = json.loads(run_ok("cost", "eval", tmp_path / "t.jsonl", "--cost", "nodes", "--json").stdout)
    assert out["tau"] == pytest.approx(1) and out["regret"] == 0


def test_errors(rows, tmp_path):
    assert run("cost", "gather").returncode == 2
    assert run("cost", "fit").returncode == 2
    assert run("cost", "eval").returncode == 2
    assert run("cost", "gather", BART).returncode == 2  # no -o
    assert run("cost", "eval", "--rows", rows, "--cost", "nodes").returncode == 2  # counts have no times
    (tmp_path / "bad.jsonl").write_text('{"op": "Add"}\n')
    done = run("cost", "fit", tmp_path / "bad.jsonl", "-o", tmp_path / "x.json")
    assert done.returncode == 1 and "bad.jsonl:1" in done.stderr and not (tmp_path / "x.json").exists()
    (tmp_path / "other.jsonl").write_text('{"machine": {"processor": "another"}}\n' + rows.read_text().splitlines()[1] + "\n")
    done = run("cost", "fit", rows, tmp_path / "other.jsonl", "-o", tmp_path / "x.json")
    assert done.returncode == 1 and "another machine" in done.stderr


@pytest.mark.parametrize("norm", ["LayerNormalization", "single operators"])
def test_additions_before_normalizations_escape_the_runtime(tmp_path, norm):
    """ONNX Runtime makes a slower operator of Add and LayerNormalization at load; a sum that nothing else reads is written so that it doesn't."""
    whole = "n = LayerNormalization <axis = -1> (s, g, b)"
    single = ("e = Constant <value_float = 1e-5> () two = Constant <value_float = 2.0> () m = ReduceMean <axes = [-1]> (s) d = Sub (s, m) q = Pow (d, two) "
              "v = ReduceMean <axes = [-1]> (q) w = Add (v, e) r = Sqrt (w) u = Div (d, r) t = Mul (u, g) n = Add (t, b)")
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> f (float[1,128,768] x, float[1,128,768] z) => (float[1,128,768] y) {{
        c = Constant <value_ints = [768]> () g = ConstantOfShape <value = float[1] {{1.5}}> (c) b = ConstantOfShape <value = float[1] {{0.5}}> (c) s = Add (x, z)
        {whole if norm == "LayerNormalization" else single} y = Tanh (n) }}""")
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31")
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "loaded.onnx")
    ort.InferenceSession(tmp_path / "out.onnx", options, providers=["CPUExecutionProvider"])
    loaded = {n.op_type for n in onnx.load(tmp_path / "loaded.onnx").graph.node}
    assert "LayerNormalization" in loaded and "SkipLayerNormalization" not in loaded, loaded
