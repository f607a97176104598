"""`saturate targets`: what can't be expressed is said node by node, and extraction keeps to the limits."""
import collections
import json
import re
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run, run_ok, said, tensor, value

ROOT = pathlib.Path(__file__).resolve().parents[3]
NAMES = ["coreml", "npu-4d", "onnx", "openvino", "ort-cpu", "ort-cuda", "ort-web", "qnn-htp-generic", "qnn-htp", "trt-dla"]


def test_list_and_show():
    assert [t["name"] for t in json.loads(run_ok("targets", "list", "--json").stdout)] == NAMES
    shown = json.loads(run_ok("targets", "show", "npu-4d").stdout)
    assert shown["limits"][0]["rank"] == 4 and "Conv" in shown["standard"]


@pytest.fixture
def model(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Det", ["r"], ["d"], name="determinant"), helper.make_node("Neg", ["d"], ["y"])]
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, [1, "c", 3, 3])], [value("y", TensorProto.FLOAT, [1, "c"])]), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_check_says_what_and_why(model):
    done = run("targets", "check", model, "--target", "npu-4d", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)["inexpressible"]
    assert [f["op_type"] for f in found] == ["Relu", "Det", "Neg"]
    assert "the dim c" in found[0]["reason"] and "has no Det" in found[1]["reason"]
    assert done.stderr.count("\n") == 1 and "3 nodes" in done.stderr
    found = json.loads(run("targets", "check", model, "--target", "npu-4d", "--dim", "c=4", "--json").stdout)["inexpressible"]
    assert [f["node"] for f in found] == ["determinant", "y"]
    assert "rank 2" in found[1]["reason"]


def test_check_of_what_fits(model):
    done = run_ok("targets", "check", model, "--target", "onnx")
    assert "takes every node" in done.stdout


def test_check_looks_into_bodies(tmp_path):
    branch = lambda op: helper.make_graph([helper.make_node(op, ["x"], ["b"])], "b", [], [value("b", TensorProto.FLOAT, [2])])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch("Selu"), else_branch=branch("Tanh"))]
    onnx.save(make_model(nodes, [value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]), tmp_path / "m.onnx")
    found = json.loads(run("targets", "check", tmp_path / "m.onnx", "--target", "ort-web", "--json").stdout)["inexpressible"]
    assert [f["op_type"] for f in found] == ["Selu"]


def test_usage(model):
    assert run("targets", "check").returncode == 2
    assert run("targets", "check", model).returncode == 2
    assert run("targets", "check", model, "--target", "nonsense").returncode == 2


def test_optimize_warns_of_what_stays(model, tmp_path):
    done = run_ok("optimize", model, tmp_path / "out.onnx", "--target", "npu-4d", "--dim", "c=4", "--json")
    assert any("2 nodes" in w and "Det" in w for w in json.loads(done.stdout)["warnings"])


def test_the_table_of_kernels_is_what_the_runtime_says():
    sys.path.insert(0, str(ROOT / "tools"))
    import ort_kernel_types

    release, rows = json.loads(subprocess.run([sys.executable, "-c", ort_kernel_types.ASK], capture_output=True, text=True, check=True).stdout)
    since, dtypes = ort_kernel_types.table([(release, rows)])
    told = json.loads((ROOT / "extract" / "runtimes" / "kernels.json").read_text())
    order = told["releases"]
    at = lambda known: [types for first, types in known.items() if order.index(first) <= order.index(release)][-1].split()
    assert set(since) == {op for op, first in told["since"].items() if not first or order.index(first) <= order.index(release)}
    for op, known in dtypes.items():
        assert at(told["dtypes"][op]) == known[release], op


def loads(path):
    ort.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("target", ["onnx", "npu-4d", "coreml"])
@pytest.mark.parametrize("nodes", [
    "a = Add (x, t)  c = Clip (a, z, s)  m = Mul (x, c)  y = Div (m, s)",
    "d = Mul (x, q)  p = Relu (x)  u = Neg (x)  n = Relu (u)  m = Mul (n, q)  y = Sub (p, m)",
    "m = Mul (x, q)  p = Add (m, q)  y = Clip (p, z, o)",
    "p = Greater (x, z)  e = Exp (x)  d = Sub (e, o)  y = Where (p, x, d)",
    "a = Abs (x)  b = Add (a, o)  y = Div (x, b)",
])
def test_what_runs_in_double_stays_what_runs(tmp_path, target, nodes):
    """HardSwish, LeakyRelu, HardSigmoid, Elu, Softsign: ONNX Runtime has no kernels of them for double."""
    numbers = {"z": 0, "o": 1, "t": 3, "s": 6, "q": 0.25}
    constants = " ".join(f"{name} = Constant <value = double {{{number}}}> ()" for name, number in numbers.items())
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (double[1,2,4,7] x) => (double[1,2,4,7] y) {{ {constants} {nodes} }}'
    onnx.save(onnx.parser.parse_model(text), path := tmp_path / "in.onnx")
    loads(path)
    run_ok("optimize", path, "-o", tmp_path / "out.onnx", "--target", target)
    loads(tmp_path / "out.onnx")


@pytest.mark.parametrize("target", ["npu-4d", "ort-web"])
@pytest.mark.parametrize("upper", [0, 1])
def test_a_triangle_of_truth_values_is_no_where_of_them(tmp_path, target, upper):
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (bool[1,1,4,4] x) => (bool[1,1,4,4] y) {{ y = Trilu <upper = {upper}> (x) }}'
    onnx.save(onnx.parser.parse_model(text), path := tmp_path / "in.onnx")
    loads(path)
    run_ok("optimize", path, "-o", tmp_path / "out.onnx", "--target", target)
    loads(tmp_path / "out.onnx")


def warnings_of(path, tmp_path, target):
    return json.loads(run_ok("optimize", path, tmp_path / "out.onnx", "--target", target, "--json", "--no-verify").stdout)["warnings"]


def test_what_the_runtime_has_a_kernel_of_is_not_refused(tmp_path):
    """Operators of other domains that a model has, whatever rules make."""
    text = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[n,3] x) => (float[n,3] y) { y = ai.onnx.ml.Scaler <offset = [1.0, 2.0, 3.0], scale = [1.0, 2.0, 3.0]> (x) }'
    onnx.save(onnx.parser.parse_model(text), path := tmp_path / "scaler.onnx")
    loads(path)
    assert warnings_of(path, tmp_path, "ort-cpu") == []


@pytest.mark.parametrize("target, refused", [("ort-cpu@1.32", False), ("ort-cpu@1.31", False), ("ort-cpu@1.25", False), ("ort-cpu@1.24", True)])
def test_an_operator_of_a_newer_release_stays(tmp_path, target, refused):
    text = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[1,4,6] x, float[1,4,2] s) => (float[1,4,6] y, float[1,4,2] p) <float[4,1,3] w = {0,1,2,3,4,5,6,7,8,9,10,11}> { y, p = com.microsoft.CausalConvWithState <ndim = 1, activation = "silu"> (x, w, , s) }'
    onnx.save(onnx.parser.parse_model(text), path := tmp_path / "in.onnx")
    warned = warnings_of(path, tmp_path, target)
    if not refused:
        assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["CausalConvWithState"] and warned == []
    else:
        assert warned or "CausalConvWithState" not in [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node]


@pytest.mark.parametrize("nodes, operator", [
    ("d = Mul (x, s)  p = Relu (x)  u = Neg (x)  n = Relu (u)  m = Mul (n, s)  y = Sub (p, m)", "LeakyRelu"),
    ("m = Mul (x, s)  p = Add (m, s)  y = Clip (p, z, o)", "HardSigmoid"),
    ("p = Greater (x, z)  q = Exp (x)  d = Sub (q, o)  y = Where (p, x, d)", "Elu"),
])
def test_operators_without_a_kernel_for_double_are_not_made(tmp_path, nodes, operator):
    for dtype, made in (("float", 1), ("double", 0)):
        constants = " ".join(f"{name} = Constant <value = {dtype} {{{number}}}> ()" for name, number in (("z", 0), ("o", 1), ("s", 0.25)))
        text = f'<ir_version: 8, opset_import: ["" : 17]> g ({dtype}[4,7] x) => ({dtype}[4,7] y) {{ {constants} {nodes} }}'
        onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
        run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes")
        assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node].count(operator) == made
        ort.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])


def test_the_runtime_that_a_raised_opset_needs_is_said(tmp_path):
    bart = ROOT / "tests" / "data" / "bart_encoder.onnx"
    needs = {(): "ONNX Runtime 1.20 or newer (opset 18, IR 10)", ("--opset", "21"): "ONNX Runtime 1.20 or newer (opset 18 -> 21, IR 10; --keep-opset stays at 18)",
             ("--target", "ort-cpu@1.31"): "ONNX Runtime 1.23 or newer (opset 18 -> 23, IR 10 -> 11; --keep-opset stays at 18)",
             ("--target", "ort-cpu@1.31", "--keep-opset"): "ONNX Runtime 1.20 or newer (opset 18, IR 10)"}
    for words, wanted in needs.items():
        done = run_ok(bart, tmp_path / "o.onnx", "-v", "--no-verify", "--report", tmp_path / "r.json", *words)
        release = re.search(r"needs ONNX Runtime (\S+) or newer", said(done))[1]
        assert f"needs: {wanted}" in said(done).replace(", no other runtime", "")
        assert json.loads((tmp_path / "r.json").read_text())["needs"]["release"] == release


def test_report_says_how_much_is_refused_before_and_after(tmp_path):
    target = {"name": "strict", "description": "no Reciprocal, no Det", "min_opset": 11, "max_opset": 21, "forbidden": ["Reciprocal", "Det"]}
    (tmp_path / "strict.json").write_text(json.dumps(target))
    shapes = [value(n, TensorProto.FLOAT, [2, 3, 3]) for n in "xz"]
    nodes = [helper.make_node("Reciprocal", ["x"], ["r"]), helper.make_node("Mul", ["z", "r"], ["y"]), helper.make_node("Det", ["z"], ["d"])]
    onnx.save(make_model(nodes, shapes, [value("y", TensorProto.FLOAT, [2, 3, 3]), value("d", TensorProto.FLOAT, [2])]), tmp_path / "m.onnx")
    done = run_ok("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--target", tmp_path / "strict.json", "--json")
    told = json.loads(done.stdout)
    assert (told["refused_before"], told["refused_after"]) == (2, 1)
    assert told["cost_after"] < 100  # an operator that must stay adds nothing to the cost
    shown = run_ok("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--target", tmp_path / "strict.json").stdout
    assert "2 -> 1 operators that strict can't express" in shown
    assert json.loads(run_ok("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--target", "onnx", "--json").stdout)["refused_after"] in (None, 0)


def test_an_operator_is_not_made_in_an_opset_where_the_runtime_lacks_it(tmp_path):
    for opset, made in ((24, ["Swish"]), (25, ["Mul", "Sigmoid"]), (26, ["Mul", "Sigmoid"])):
        text = f'<ir_version: 10, opset_import: ["" : {opset}]> g (float[4,7] x) => (float[4,7] y) {{ n = Neg (x)  e = Exp (n)  o = Constant <value = float {{1}}> ()  d = Add (e, o)  y = Div (x, d) }}'
        onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
        run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes")
        nodes = onnx.load(tmp_path / "out.onnx").graph.node
        assert sorted(n.op_type for n in nodes if not n.domain) == made or [n.op_type for n in nodes] == ["QuickGelu"]
        ort.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("nodes", [
    "p = GlobalLpPool (x)",
    "c = ReduceMax (x)  k = Greater (c, e)  p = If <then_branch = t () => (float[1,6,1,1] u) { u = GlobalLpPool (x) }, else_branch = o () => (float[1,6,1,1] v) { v = GlobalAveragePool (x) }> (k)",
])
def test_the_opset_is_not_raised_beyond_what_the_runtime_has(tmp_path, nodes):
    """ONNX Runtime has GlobalLpPool up to opset 21; RMSNormalization begins at 23."""
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[1,6,4,5] x) => (float[1,6,4,5] y, float[1,6,1,1] p)
      {{ s = Mul (x, x)  a = Constant <value = int64[1] {{-1}}> ()  m = ReduceMean (s, a)  e = Constant <value = float {{0.00001}}> ()
         q = Add (m, e)  r = Sqrt (q)  y = Div (x, r)  {nodes} }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    for target, opset in (("ort-cpu", 21), ("onnx", 23)):
        run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", target, "--cost", "nodes")
        made = onnx.load(tmp_path / "out.onnx")
        assert made.opset_import[0].version <= opset
        assert ("RMSNormalization" in [n.op_type for n in made.graph.node]) == (opset == 23)
    run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes")
    ort.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])


def check(tmp_path, text, *words):
    """The reasons why nodes of a model, given as text, are refused."""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    return [f["reason"] for f in json.loads(run("targets", "check", tmp_path / "m.onnx", "--json", *words).stdout)["inexpressible"]]


def one_node(node, inputs="float[1,6,8,8] x", output="float[1,6,8,8] y", weights="", opset=17):
    return f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({output}) {{ {weights} y = {node} }}'


W = "w = Constant <value = float[1,1,1,1] {0.5}> ()"


@pytest.mark.parametrize("target, node, why", [
    ("trt-dla", "Relu (x)", None),
    ("trt-dla", "Exp (x)", "has no Exp"),
    ("trt-dla", "LeakyRelu <alpha = 0.1> (x)", None),
    ("trt-dla", "LeakyRelu <alpha = -0.1> (x)", "no negative slope"),
    ("trt-dla", "MaxPool <kernel_shape = [3,3], pads = [1,1,1,1]> (x)", None),
    ("trt-dla", "MaxPool <kernel_shape = [9,9], pads = [4,4,4,4]> (x)", "kernel_shape is 9, wanted 1 to 8 (pooling)"),
    ("trt-dla", "Softmax <axis = 1> (x)", None),
    ("trt-dla", "Softmax <axis = 0> (x)", "axis is -4 from the end, wanted -3 or -2 or -1"),
    ("trt-dla", "MatMul (x, x)", "input 1 is computed, wanted a constant (fully connected)"),
    ("trt-dla", "MatMul (x, w)", None),
    ("trt-dla", "Transpose <perm = [0,1,3,2]> (x)", None),
    ("trt-dla", "Transpose <perm = [1,0,2,3]> (x)", "the batch stays"),
    ("coreml", "Relu (x)", None),
    ("coreml", "Erf (x)", None),
    ("coreml", "Neg (x)", "has no Neg"),
    ("coreml", "Pow (x, w)", None),
])
def test_targets_of_public_documents(tmp_path, target, node, why):
    weights = W.replace("1,1,1,1", "1,1,8,8").replace("{0.5}", "{" + ",".join(["0.5"] * 64) + "}") if "MatMul (x, w)" in node else W if "w)" in node else ""
    found = check(tmp_path, one_node(node, weights=weights, output="float[a,b,c,d] y"), "--target", target)
    assert len(found) == (why is not None) and (why is None or why in found[0])


def test_core_ml_gets_no_convolution_with_a_sum(tmp_path):
    """Its builder reads three inputs of FusedConv; ONNX Runtime 1.20 on the CPU computes wrong numbers of the fourth, too."""
    weights = "w = Constant <value = float[6,6,1,1] {%s}> ()" % ",".join(str(i % 5 - 2) for i in range(36))
    body = f"{weights} c = Conv (x, w)  s = Add (c, z)  y = Relu (s)"
    onnx.save(onnx.parser.parse_model(one_node("Relu (s)").replace("y = Relu (s)", body).replace("] x)", "] x, float[1,6,8,8] z)")), tmp_path / "m.onnx")
    run_ok("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--target", "coreml")
    nodes = onnx.load(tmp_path / "o.onnx").graph.node
    assert "Conv" in "".join(n.op_type for n in nodes) and all(len(n.input) < 4 for n in nodes)


def test_a_target_extends_another(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps({"extends": "qnn-htp", "name": "mine", "forbidden": ["Tanh"], "limits": [{"operators": ["Relu"], "max_rank": 3}]}))
    shown = json.loads(run_ok("targets", "show", tmp_path / "mine.json").stdout)
    qnn = json.loads(run_ok("targets", "show", "qnn-htp").stdout)
    assert shown["forbidden"] == ["Tanh"] and shown["limits"][:-1] == qnn["limits"] and shown["standard"] == qnn["standard"]
    for node, found in (("Tanh (x)", 1), ("Relu (x)", 1), ("Sigmoid (x)", 0)):
        assert len(check(tmp_path, one_node(node), "--target", str(tmp_path / "mine.json"))) == found
    (tmp_path / "mine.json").write_text(json.dumps({"extends": "mine", "name": "mine"}))
    assert "'mine' is no built-in target" in run("targets", "show", tmp_path / "mine.json").stderr


def test_every_limit_of_the_copied_files_says_where_it_is_from():
    for name in ("qnn-htp", "qnn-htp-generic", "trt-dla", "coreml", "openvino"):
        shown = json.loads(run_ok("targets", "show", name).stdout)
        assert shown["sources"] and all(limit.get("because") for limit in shown["limits"]), name


def told(tmp_path, text, *words):
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    return {f["node"]: f for f in json.loads(run("targets", "check", tmp_path / "m.onnx", "--json", *words).stdout)["inexpressible"]}


GELU = """r = Constant <value = float {1.4142135}> ()  o = Constant <value = float {1}> ()  h = Constant <value = float {0.5}> ()
          d = Div (x, r)  e = Erf (d)  a = Add (e, o)  m = Mul (x, a)  y = Mul (m, h)"""


def test_check_names_the_equal_form_or_what_stands_in_its_way(tmp_path):
    model = lambda body, opset=20, shape="1,2,3,8": f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[{shape}] x) => (float[{shape}] y) {{ {body} }}'
    found = told(tmp_path, model(GELU), "--target", "qnn-htp")
    assert list(found) == ["e"] and found["e"]["instead"] == ["part of Gelu"] and "obstacle" not in found["e"]
    found = told(tmp_path, model("y = Erf (x)"), "--target", "qnn-htp")
    assert "instead" not in found["y"] and found["y"]["obstacle"] == "no equal form of Erf is known"
    found = told(tmp_path, model("y = Softsign (x)"), "--target", "qnn-htp")
    assert found["y"]["instead"] and "Softsign" not in found["y"]["instead"]
    found = told(tmp_path, model("y = Relu (x)", shape="n,8"), "--target", "qnn-htp")
    assert found["y"]["obstacle"].startswith("its sizes are open")
    (tmp_path / "t.json").write_text(json.dumps({"extends": "qnn-htp", "name": "t", "forbidden": ["Softsign", "Abs", "Max"]}))
    found = told(tmp_path, model("y = Softsign (x)"), "--target", tmp_path / "t.json")
    assert "Abs" in found["y"]["obstacle"] or "Max" in found["y"]["obstacle"]
    assert "obstacle" not in told(tmp_path, model("y = Softsign (x)"), "--target", tmp_path / "t.json", "--no-forms")["y"]


def test_the_forms_that_check_names_are_what_optimizing_writes(tmp_path):
    text = f'<ir_version: 8, opset_import: ["" : 20]> g (float[1,2,3,8] x) => (float[1,2,3,8] y) {{ y = Softsign (x) }}'
    instead = told(tmp_path, text, "--target", "qnn-htp")["y"]["instead"]
    run_ok("optimize", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--target", "qnn-htp")
    assert sorted(n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node if n.op_type != "Constant") == sorted(instead)


def test_cuda_gets_no_opset_whose_operators_have_no_kernel_there(tmp_path):
    """Cos-22 and ReduceMax-20 run on the CPU there, so RMSNormalization-23 is not worth its opset: com.microsoft's operator stands in."""
    f = TensorProto.FLOAT
    nodes = [helper.make_node("Cos", ["x"], ["c"]), helper.make_node("Mul", ["c", "c"], ["cc"]), helper.make_node("ReduceMean", ["cc", "axes"], ["m"]),
             helper.make_node("Add", ["m", "e"], ["me"]), helper.make_node("Sqrt", ["me"], ["r"]), helper.make_node("Div", ["c", "r"], ["n"]), helper.make_node("Mul", ["n", "g"], ["y"])]
    weights = [tensor("axes", np.array([-1])), tensor("e", np.float32(1e-5)), tensor("g", np.ones(8, np.float32))]
    onnx.save(make_model(nodes, [value("x", f, ["n", 5, 8])], [value("y", f, ["n", 5, 8])], weights, opset=18), tmp_path / "in.onnx")
    run_ok("in.onnx", "out.onnx", "--target", "ort-cuda", cwd=tmp_path)
    result = onnx.load(tmp_path / "out.onnx")
    assert [n.op_type for n in result.graph.node] == ["Cos", "SkipSimplifiedLayerNormalization"]
    assert next(i.version for i in result.opset_import if i.domain == "") == 18


# ---- openvino: what it fuses stays in one piece, what it lacks is not made


HARD_SWISH = """c = Conv <pads = [1,1,1,1]> (x, w)  three = Constant <value = float {3}> ()  zero = Constant <value = float {0}> ()  six = Constant <value = float {6}> ()
                a = Add (c, three)  k = Clip (a, zero, six)  m = Mul (c, k)  y = Div (m, six)"""
GELU_OF_IMAGES = """c = Conv <pads = [1,1,1,1]> (x, w)  r = Constant <value = float {1.4142135}> ()  o = Constant <value = float {1}> ()  h = Constant <value = float {0.5}> ()
          d = Div (c, r)  e = Erf (d)  b = Add (e, o)  m = Mul (c, b)  g = Mul (m, h)  y = Conv <pads = [1,1,1,1]> (g, w)"""


def image_model(tmp_path, body, opset):
    m = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[1,8,16,16] x) => (float[1,8,16,16] y) {{ {body} }}')
    weights = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float32) / 8
    m.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(m, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def counted(path):
    return collections.Counter(n.op_type for n in onnx.load(path).graph.node)


def for_openvino(tmp_path, body, opset, *words):
    run_ok(image_model(tmp_path, body, opset), tmp_path / "o.onnx", "--target", "openvino", *words)
    return counted(tmp_path / "o.onnx")


def test_a_hard_swish_is_no_product_with_a_hard_sigmoid(tmp_path):
    """It is fused into the convolution, which a product with HardSigmoid is not: that takes twice the time."""
    found = for_openvino(tmp_path, HARD_SWISH, 13, "--keep-opset")
    assert found["Clip"] == 1 and found["HardSigmoid"] == 0
    assert for_openvino(tmp_path, HARD_SWISH, 14)["HardSwish"] == 1


def test_a_gelu_stays_in_one_piece(tmp_path):
    """Its factor is not taken into the weights of the convolution behind it."""
    found = for_openvino(tmp_path, GELU_OF_IMAGES, 17, "--keep-opset")
    assert found["Mul"] == 2 and found["Erf"] == 1
    assert for_openvino(tmp_path, GELU_OF_IMAGES, 20)["Gelu"] == 1


def test_nothing_of_others_and_no_attention(tmp_path):
    shown = json.loads(run_ok("targets", "show", "openvino").stdout)
    assert shown["domains"] == {} and "Attention" not in shown["standard"] and "Det" not in shown["standard"]
    assert {f["becomes"] for f in shown["fusions"]} >= {"HardSwish(x)", "Gelu(x)", "Swish(x)"}


def test_fusions_of_a_file_are_checked(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps({"extends": "openvino", "name": "t", "fusions": [{"pattern": "Mul(x", "becomes": "x"}]}))
    assert "pattern 'Mul(x'" in run("targets", "show", tmp_path / "t.json").stderr


def test_the_screen_says_what_is_for_onnxruntime_only(tmp_path):
    path = image_model(tmp_path, "c = Conv <pads = [1,1,1,1]> (x, w)  s = Sigmoid (c)  y = Mul (c, s)", 17)
    done = run_ok(path, tmp_path / "o.onnx", "--target", "ort-cpu@1.31")
    own = any(n.domain == "com.microsoft" for n in onnx.load(tmp_path / "o.onnx").graph.node)
    assert own and "no other runtime" in said(done)
    assert "no other runtime" not in said(run_ok(path, tmp_path / "o.onnx", "--target", "openvino"))


@pytest.mark.parametrize("body, opset", [(HARD_SWISH, 13), (HARD_SWISH, 14), (GELU_OF_IMAGES, 17), (GELU_OF_IMAGES, 20)])
def test_openvino_fuses_them(tmp_path, body, opset):
    """The result has no more executed operators than the original, and its numbers."""
    openvino = pytest.importorskip("openvino", reason="the package openvino is not installed")
    for_openvino(tmp_path, body, opset, "--keep-opset")
    core, feeds = openvino.Core(), {"x": np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype(np.float32)}
    outs, sizes = [], []
    for name in ("m.onnx", "o.onnx"):
        compiled = core.compile_model(core.read_model(str(tmp_path / name)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        outs.append(compiled(feeds)[0])
        sizes.append(sum(op.get_rt_info()["layerType"].astype(str) not in ("Const", "Input", "Output", "Reorder", "Reshape") for op in compiled.get_runtime_model().get_ops()))
    np.testing.assert_allclose(outs[1], outs[0], rtol=1e-4, atol=1e-4)
    assert sizes[1] <= sizes[0]
