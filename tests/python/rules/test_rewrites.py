"""The catalog of docs/rewrites.md: small graphs in ONNX text, what they become, and that ONNX Runtime computes the same."""
import collections
import json
import pathlib
import re

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from conftest import make_model, onnxruntime_outputs, run, run_ok, tensor, value

ort.set_default_logger_severity(4)
DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "rewrites.md"

TEXTS = DOCS.parents[1] / "tests" / "rewrites"
HEADER = '<ir_version: 10, opset_import: ["" : 20]>'


def read_cases():
    """Name -> (words, ONNX text) of all models of tests/rewrites, whose README says what the lines mean."""
    cases = {}
    for path in sorted(TEXTS.glob("*.onnxtxt")):
        header, *blocks = re.split(r"^# case: ", path.read_text(), flags=re.M)
        before = re.search(r"^# header: (.*)$", header, flags=re.M)[1]
        for block in blocks:
            name, *lines = block.splitlines()
            told = [line[2:].partition(": ")[::2] for line in lines if line.startswith("# ")]
            options = {"assume", "no-assume", "target", "cost", "opset", "rules"}
            words = [word for key, value in told for word in ([f"--{key}"] if key in ("approximate", "rescale", "within-one-step") else [f"--{key}", value] if key in options else [])]
            assert name not in cases, name
            cases[name] = (words, before + "\n" + "\n".join(line for line in lines if not line.startswith("# ")))
    return cases


CASES = read_cases()


def build(signature, nodes):
    inputs, outputs = signature.split("=>")
    return onnx.parser.parse_model(f"{HEADER} g ({inputs}) => ({outputs}) {{ {nodes} }}")


def counts(model):
    c = collections.Counter()
    for n in model.graph.node:
        c[f"{n.domain}.{n.op_type}" if n.domain else n.op_type] += 1
    return c


@pytest.mark.parametrize("name", CASES)
def test_rewrite(tmp_path, name):
    """ONNX Runtime computes the same of a model and its result. What the result must hold, tools_test looks at."""
    words, text = CASES[name]
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    usual = [word for key, value in (("--target", "ort-cpu@1.31"), ("--cost", "nodes")) if key not in words for word in (key, value)]
    run_ok("optimize", path, "-o", out, *usual, *words)
    rng = np.random.default_rng(3)
    feeds = {}
    for i in model.graph.input:
        dims = [d.dim_value or 2 for d in i.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        feeds[i.name] = rng.standard_normal(dims).astype(dtype) if dtype.kind == "f" and i.name != "mask" else rng.integers(0, 2, dims).astype(dtype)
        if i.name == "mask":
            feeds[i.name][..., 0] = 1  # no row is masked as a whole
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    answers = [ort.InferenceSession(str(p), options, providers=["CPUExecutionProvider"]).run([o.name for o in model.graph.output], feeds) for p in (path, out)]
    rounded = 0.01 if "--approximate" in words else 1e-5  # quantizers that go have steps of 0.001
    for a, b in zip(*answers):
        if a.dtype == np.uint8 and {"--rescale", "--approximate"} & set(words):
            a, b, rounded = a.astype(int), b.astype(int), 1
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=rounded)


@pytest.mark.parametrize("name", ["mask_of_floats", "attention_packed_cache_and_mask"])
def test_a_mask_of_floats_is_one_by_assumption(tmp_path, name):
    path, out, report = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "r.json"
    onnx.save(onnx.parser.parse_model(CASES[name][1]), path)
    run_ok(path, out, "--target", "ort-cpu@1.31", "--cost", "nodes", "--assume", "causal_rows", "--report", report)
    assert "mask_of_zeros_and_ones" in {a["assumption"] for a in json.loads(report.read_text())["assumed"]}
    run_ok(path, out, "--target", "ort-cpu@1.31", "--cost", "nodes", "--assume", "causal_rows", "--no-assume", "mask_of_zeros_and_ones")
    assert counts(onnx.load(out))["Sub"] == 1


def test_the_table_names_what_exists():
    """Rules and tests that docs/rewrites.md names are there, and every rule of the catalog's families is named."""
    text = DOCS.read_text()
    done = run("rules", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    rules = {r["name"].split("[")[0] for r in (listed if isinstance(listed, list) else listed["rules"])}
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ") and not line.startswith("| rewrite")]
    named = {w for row in rows for w in re.findall(r"`([a-z0-9_]+)`", row[2])}
    assert named and named <= rules, sorted(named - rules)
    tests = {w for row in rows for w in re.findall(r"`([a-z0-9_]+)`", row[3])}
    functions = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert tests <= set(CASES) | functions, sorted(tests - set(CASES) - functions)
    files = {w for row in rows for w in re.findall(r"`([a-z0-9_]+\.py)`", row[3])}
    assert not [name for name in files if not list(pathlib.Path(__file__).parents[1].rglob(name))]
    assert [row[1] for row in rows if len(row) == 5 and not row[3].strip() and not row[2].strip().startswith(("no:", "not yet"))] == []


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
def test_zero_bias(tmp_path, op):
    signature = {"Conv": "float[1,2,5,5] x, float[3,2,3,3] w => float[1,3,3,3] y", "Gemm": "float[4,2] x, float[2,3] w => float[4,3] y"}[op]
    onnx.save(build(signature, f"z = Constant <value_floats = [0.0, 0.0, 0.0]> ()  y = {op} (x, w, z)"), tmp_path / "in.onnx")
    run_ok(tmp_path / "in.onnx", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes")
    assert [list(n.input) for n in onnx.load(tmp_path / "out.onnx").graph.node] == [["x", "w"]]


def test_quick_gelu_of_alpha_one_counts_as_silu(tmp_path):
    path, out, report = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "r.json"
    onnx.save(build("float[2,3] x => float[2,3] y", "s = Sigmoid (x)  y = Mul (x, s)"), path)
    done = run("optimize", path, "-o", out, "--target", "ort-cpu@1.31", "--cost", "nodes", "--report", report)
    assert done.returncode == 0, done.stderr
    assert counts(onnx.load(out)) == {"com.microsoft.QuickGelu": 1}
    fused = json.loads(report.read_text())["after"]["fused"]
    assert (fused["SiLU"], fused["GELU"]) == (1, 0)


def test_the_last_of_several_constants_of_a_name_holds(tmp_path):
    """As in ONNX Runtime, which warns too. The standard forbids such files."""
    path, out, report = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "r.json"
    constant = lambda value: onnx.helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.array(value, np.float32)))
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [3]) for n in "xy")
    graph = onnx.helper.make_graph([constant(2.0), onnx.helper.make_node("Mul", ["x", "c"], ["y"]), constant(5.0)], "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    done = run("optimize", path, "-o", out, "--report", report)
    assert done.returncode == 0, done.stderr
    assert any("'c'" in w for w in json.loads(report.read_text())["warnings"])
    feeds = {"x": np.array([1, 2, 3], np.float32)}
    for p in (path, out):
        np.testing.assert_array_equal(ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]).run(None, feeds)[0], [5, 10, 15])


@pytest.mark.parametrize("width", [4, 5, 9])
def test_no_size_is_inferred_beside_one_that_may_be_zero(tmp_path, width):
    """Reshape's -1 cannot be told where another size is 0: a Slice may leave nothing, a declared size is at least 1."""
    nodes = [
        helper.make_node("Slice", ["x", "four", "end", "one"], ["s"]), helper.make_node("Transpose", ["s"], ["t"], perm=[1, 0, 2]),
        helper.make_node("Shape", ["t"], ["sizes"]), helper.make_node("Gather", ["sizes", "none"], ["rows"]),
        helper.make_node("Gather", ["sizes", "one"], ["batch"]), helper.make_node("Mul", ["batch", "six"], ["columns"]),
        helper.make_node("Concat", ["rows", "columns"], ["to"], axis=0), helper.make_node("Reshape", ["t", "to"], ["r"]), helper.make_node("Relu", ["r"], ["y"]),
    ]
    constants = [tensor(name, np.array([v], np.int64)) for name, v in (("none", 0), ("one", 1), ("four", 4), ("six", 6), ("end", 1 << 40))]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", "w", 6])], [value("y", TensorProto.FLOAT, ["l", "m"])], constants)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--no-verify")
    inputs = {"x": np.ones((2, width, 6), np.float32)}
    assert onnxruntime_outputs(tmp_path / "o.onnx", inputs)["y"].shape == onnxruntime_outputs(tmp_path / "m.onnx", inputs)["y"].shape == (width - 4, 12)


def test_a_constant_that_vanishes_in_another_is_not_added_for_ever(tmp_path):
    """-1e38 + w is -1e38: were x - 1e38 + w read as x - 1e38, w could be added any number of times (a recurrence's first state)."""
    w = np.linspace(-1, 1, 6).astype(np.float32)
    nodes = [helper.make_node("Add", ["x", "least"], ["a"]), helper.make_node("Add", ["a", "w"], ["b"]), helper.make_node("Add", ["b", "v"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 6])], [value("y", TensorProto.FLOAT, ["n", 6])],
                       [tensor("least", np.full(6, -1e38, np.float32)), tensor("w", w), tensor("v", w * w)])
    onnx.save(model, tmp_path / "m.onnx")
    assert "stopped: saturated" in run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "-vv").stdout


def test_the_default_node_limit_goes_with_the_size_of_the_model(tmp_path):
    # Not true, but never cheaper: each Exp makes two more.
    rule = 'opset "" 20\nrule grow (X) => (Y)\n  { Y = Exp (X) }\n  =>\n  { a = Sin (X)\n    b = Cos (X)\n    A = Exp (a)\n    B = Exp (b)\n    Y = Add (A, B) }\n'
    (tmp_path / "grow.rules").write_text(rule)
    model = make_model([helper.make_node("Exp", ["x"], ["y"])], [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])
    onnx.save(model, tmp_path / "m.onnx")
    words = (tmp_path / "m.onnx", tmp_path / "o.onnx", "--rules", tmp_path / "grow.rules", "-vv")
    of = lambda done: int(re.search(r"node limit after \d+ iterations; (\d+) e-nodes", done.stdout)[1])
    assert 5_000 < of(run_ok(*words)) < 11_000
    assert of(run_ok(*words, "--node-limit", 20_000)) > 15_000
    many = run_ok(*words, "--node-limit", 1_000_000, "--iterations", 13)  # the largest default, given all the same
    assert int(re.search(r"; (\d+) e-nodes", many.stdout)[1]) > 15_000, many.stdout


# A length of 0 masks all: NaN by Softmax, numbers by Attention. Verification draws such lengths and must not take that for a mistake.
def test_lengths_that_mask_whole_rows_are_assumed_away(tmp_path):
    signature = "float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, int64[b] n => float[b,2,s,8] y"
    body = ("z = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()  d = Shape <start = 2, end = 3> (k)  a0 = Constant <value_ints = [0]> ()  a = Constant <value_ints = [1]> ()  a3 = Constant <value_ints = [1, 2]> ()  "
            "s0 = Squeeze (d, a0)  r = Range (z, s0, one)  ru = Unsqueeze (r, a0)  nu = Unsqueeze (n, a)  g = GreaterOrEqual (ru, nu)  far = Constant <value = float {-inf}> ()  near = Constant <value_float = 0.0> ()  w = Where (g, far, near)  "
            "m = Unsqueeze (w, a3)  t = Transpose <perm = [0, 1, 3, 2]> (k)  u = MatMul (q, t)  c = Constant <value_float = 0.25> ()  x = Mul (u, c)  e = Add (x, m)  p = Softmax (e)  y = MatMul (p, v)")
    text = f'<ir_version: 8, opset_import: ["" : 18]> g ({signature.replace(" => ", ") => (")}) {{ {body} }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    report = tmp_path / "r.json"
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes", "--report", report)
    report = json.loads(report.read_text())
    assert report["after"]["fused"]["attention"] == 1
    assert "no_empty_row" in {a["assumption"] for a in report["assumed"]}


def test_a_gather_by_one_number_loses_its_axis(tmp_path):
    """What follows counts along the next one: two Gathers are one only where the first keeps its axis."""
    onnx.save(build("float[1,3,2,3] x => float[3,2,3] y", "i = Constant <value_int = 0> ()  j = Constant <value_ints = [2, 1, 0]> ()  g = Gather (x, i)  y = Gather (g, j)"), tmp_path / "in.onnx")
    run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "measured")


@pytest.mark.parametrize("activation, gemm", [("Identity", "Gemm"), ("Relu", "com.microsoft.FusedGemm")])
def test_linear_layers_can_be_gemms_of_rows(tmp_path, activation, gemm):
    """Where the cost model likes Gemm better than MatMul, a layer of rank 3 or 4 is one, too, also of open and of empty dims."""
    signature, nodes = "float[b,s,8] x, float[2,s,b,8] z => float[b,s,6] y, float[2,s,b,6] u", (
        f"w = Constant <value = float[8,6] {{{', '.join(str(i % 7 - 3.0) for i in range(48))}}}> ()  c = Constant <value_floats = [1.0, 2.0, 3.0, -4.0, 5.0, 6.0]> ()  "
        f"m = MatMul (x, w)  a = Add (c, m)  y = {activation} (a)  n = MatMul (z, w)  d = Add (n, c)  u = {activation} (d)")
    path, out, cost = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "cost.json"
    onnx.save(build(signature, nodes), path)
    cost.write_text(json.dumps({"costs": {"MatMul": 9, "com.microsoft::FusedMatMul": 9}, "default": 1}))
    run_ok(path, out, "--target", "ort-cpu@1.31", "--cost", cost)
    got = counts(onnx.load(out))
    assert got[gemm] == 2 and got["MatMul"] == got["Add"] == 0, got
    sessions = [ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in (path, out)]
    for b, s in ((2, 3), (1, 5), (0, 3), (2, 0)):
        feeds = {"x": np.arange(b * s * 8, dtype=np.float32).reshape(b, s, 8) / 9 - 5, "z": np.ones((2, s, b, 8), np.float32)}
        for a, c in zip(*(session.run(None, feeds) for session in sessions)):
            assert a.shape == c.shape
            np.testing.assert_allclose(c, a, rtol=1e-5, atol=1e-5)


def test_inputs_of_one_name_and_two_sizes_run(tmp_path):
    """ONNX Runtime reuses memory of values whose dims have one name. Exports exist whose inputs share a name and not the size."""
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(build("float[n] x, float[n] m => float[n] y", "a = Exp (m)  i = Constant <value_ints = [0]> ()  s = ReduceSum <keepdims = 1> (a, i)  b = Exp (x)  h = Sigmoid (b)  c = Mul (b, h)  y = Mul (c, s)"), path)
    run_ok(path, out, "--target", "ort-cpu@1.31")
    dims = {v.name: [d.dim_param for d in v.type.tensor_type.shape.dim] for v in onnx.load(out).graph.value_info}
    assert dims["a"] == ["n@m"]
    x, m = np.arange(5, dtype=np.float32), np.ones(3, np.float32)
    got = ort.InferenceSession(str(out), providers=["CPUExecutionProvider"]).run(None, {"x": x, "m": m})[0]
    np.testing.assert_allclose(got, np.exp(x) / (1 + np.exp(-np.exp(x))) * 3 * np.exp(np.float32(1)), rtol=1e-5)
