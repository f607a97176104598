"""The Python package: running models, as a Session, as an ONNX backend, and the engine alone."""
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import DATA, ROOT, make_model, onnxruntime_outputs, tensor, value
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
ml_dtypes = pytest.importorskip("ml_dtypes")
BART = DATA / "bart_encoder.onnx"


def identity(dtype, shape=("n",)):
    return make_model([helper.make_node("Identity", ["x"], ["y"])], [value("x", dtype, shape)], [value("y", dtype, shape)], opset=25, ir_version=11)


def test_run_equals_onnxruntime():
    pytest.importorskip("onnxruntime")
    inputs = dict(np.load(DATA / "bart_encoder.inputs.npz"))
    ours, theirs = onnx_saturate.run(BART, inputs), onnxruntime_outputs(BART, inputs)
    assert list(ours) == list(theirs)
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype and ours[name].flags.writeable
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4, atol=1e-4)
    session = onnx_saturate.Session(BART, threads=2)
    assert session.input_names == list(inputs) or set(session.input_names) == set(inputs)
    in_order = session.run([inputs[name] for name in session.input_names])
    for name in ours:
        np.testing.assert_array_equal(in_order[name], ours[name])
    assert "Session" in repr(session) and session.output_names == list(ours)


@pytest.mark.parametrize("number", [n for n in range(1, 27) if n != 8])
def test_every_type_goes_in_and_out(number):
    from onnx_saturate._values import numpy_dtype

    dtype = numpy_dtype(number)
    array = np.array([4, 1, 1, 4, 1] if number == TensorProto.FLOAT8E8M0 else [0, 1, 1, 0, 1], dtype=np.float32).astype(dtype)
    before = array.copy()
    y = onnx_saturate.run(identity(number), {"x": array})["y"]
    assert y.dtype == dtype and y.shape == (5,)
    np.testing.assert_array_equal(y.view(np.uint8), array.view(np.uint8))
    y.view(np.uint8)[:] = 0  # the result is the caller's own
    np.testing.assert_array_equal(array.view(np.uint8), before.view(np.uint8))


def test_layouts_shapes_and_lists():
    session = onnx_saturate.Session(identity(TensorProto.FLOAT, ("a", "b")))
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    for array in (base.T, base[::2], base[:, 1:3], np.asfortranarray(base), base.astype(">f4"), base[:0]):
        y = session.run({"x": array})["y"]
        assert y.shape == array.shape
        np.testing.assert_array_equal(y, array)
    np.testing.assert_array_equal(session.run({"x": [[1, 2], [3, 4]]})["y"], np.array([[1, 2], [3, 4]], np.float32))
    scalar = onnx_saturate.run(identity(TensorProto.DOUBLE, ()), {"x": 2.5})["y"]
    assert scalar.shape == () and scalar == 2.5
    read_only = base.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(session.run({"x": read_only})["y"], base)


def test_inputs_are_used_where_they_lie(monkeypatch):
    from onnx_saturate import _values

    array = np.zeros((1 << 20,), np.float32)
    assert np.shares_memory(_values.to_core(array)[3], array)


def test_strings_sequences_and_optionals():
    words = np.array([["a", "ä"], ["", "ü\0x"]], dtype=object)
    np.testing.assert_array_equal(onnx_saturate.run(identity(TensorProto.STRING, ("a", "b")), {"x": words})["y"], words)
    np.testing.assert_array_equal(onnx_saturate.run(identity(TensorProto.STRING), {"x": np.array(["b", "c"])})["y"], ["b", "c"])
    sequence = make_model(
        [helper.make_node("SequenceConstruct", ["x", "x"], ["s"]), helper.make_node("SequenceInsert", ["t", "x"], ["u"])],
        [value("x", TensorProto.FLOAT, ["n"]), helper.make_tensor_sequence_value_info("t", TensorProto.FLOAT, None)],
        [helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None) for name in "su"],
    )
    x = np.ones(2, np.float32)
    outputs = onnx_saturate.run(sequence, {"x": x, "t": []})
    assert len(outputs["s"]) == 2 and len(outputs["u"]) == 1
    np.testing.assert_array_equal(outputs["u"][0], x)
    tensor_type = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    has = make_model(
        [helper.make_node("OptionalHasElement", ["o"], ["y"])],
        [helper.make_value_info("o", helper.make_optional_type_proto(tensor_type))],
        [value("y", TensorProto.BOOL, [])],
    )
    assert onnx_saturate.run(has, {"o": x})["y"] and not onnx_saturate.run(has, {"o": None})["y"]


def test_errors_of_running():
    session = onnx_saturate.Session(BART)
    for inputs in ({}, {"no_such_input": np.zeros(3, np.float32)}, {session.input_names[0]: np.zeros((2, 2), np.float32)}):
        with pytest.raises(onnx_saturate.Error):
            session.run(inputs)
    with pytest.raises(ValueError, match="inputs for a model"):
        session.run([1, 2, 3, 4, 5, 6])
    with pytest.raises(TypeError, match="no counterpart"):
        session.run({session.input_names[0]: np.zeros(3, "datetime64[s]")})
    unknown = make_model([helper.make_node("Nothing", ["x"], ["y"], domain="no.such")], [value("x", 1, ["n"])], [value("y", 1, ["n"])], domains=["no.such"])
    with pytest.raises(onnx_saturate.UnsupportedError, match="Nothing"):
        onnx_saturate.Session(unknown)
    report = onnx_saturate.optimize_with_report(unknown).report.to_dict()
    assert report["verified"] and report["verify"]["parts_around"] == ["no.such.Nothing"]
    branches = [helper.make_graph([helper.make_node("Nothing", ["x"], [name], domain="no.such")], name, [], [value(name, 1, ["n"])]) for name in "ab"]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inside = make_model([node], [value("x", 1, ["n"]), value("c", 9, [])], [value("y", 1, ["n"])], domains=["no.such"])
    with pytest.raises(onnx_saturate.UnsupportedError, match="verify.*in the body of If"):
        onnx_saturate.optimize(inside)
    assert onnx_saturate.optimize(inside, verify=False).graph.node[0].op_type == "If"


def test_weights_are_not_copied_for_reading_only():
    weight = np.arange(1 << 16, dtype=np.float32)
    model = make_model(
        [helper.make_node("Identity", ["w"], ["y"])], [], [value("y", TensorProto.FLOAT, [1 << 16])], [tensor("w", weight)]
    )
    session = onnx_saturate.Session(model)
    first = session.run({})["y"]
    first[:] = 0  # must not reach the session's weight
    np.testing.assert_array_equal(session.run({})["y"], weight)


def test_backend_protocol():
    import onnx_saturate.backend as backend

    assert backend.supports_device("CPU") and backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA") and not backend.supports_device("CUDA:1") and not backend.supports_device("nonsense:x")
    inputs = list(dict(np.load(DATA / "bart_encoder.inputs.npz")).values())
    model = onnx.load(BART)
    prepared = backend.prepare(model)
    (output,) = prepared.run(inputs)
    np.testing.assert_array_equal(output, backend.run_model(model, inputs)[0])
    with pytest.raises(ValueError, match="CUDA"):
        backend.prepare(model, "CUDA")
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    x = np.array([1, 5], np.float32)
    np.testing.assert_array_equal(backend.run_node(node, [x, np.float32(3)])[0], [1, 3])
    np.testing.assert_array_equal(backend.run_node(node, [x, None, np.float32(3)])[0], [1, 3])
    np.testing.assert_array_equal(backend.run_node(helper.make_node("Concat", ["x", "x", "z"], ["y"], axis=0), [x, x, -x])[0], [1, 5, 1, 5, -1, -5])
    with pytest.raises(ValueError, match="4 inputs"):
        backend.run_node(node, [x, x, x, x])
    np.testing.assert_array_equal(backend.run_node(helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2), [x])[1], [5])
    fused = helper.make_node("BiasGelu", ["x", "b"], ["y"], domain="com.microsoft")
    assert backend.run_node(fused, [x, x])[0].shape == (2,)


def test_a_list_of_inputs_leaves_out_those_with_a_default_or_none():
    w = np.array([[1, 2], [3, 4]], np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    declared = [value("w", TensorProto.FLOAT, [2, 2]), value("x", TensorProto.FLOAT, ["n", 2])]  # as IR version 3 asks
    model = make_model(nodes, declared, [value("y", TensorProto.FLOAT, ["n", 2])], [tensor("w", w)])
    session, x = onnx_saturate.Session(model), np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(session.run([x])["y"], x @ w)
    np.testing.assert_array_equal(session.run([2 * w, x])["y"], x @ (2 * w))
    assert [i["has_default"] for i in onnx_saturate.inspect(model)["inputs"]] == [True, False]
    with pytest.raises(ValueError, match="3 inputs"):
        session.run([x, x, x])


def test_the_standards_model_suites_pass():
    """Models of ONNX's own tests, run by its own runner; two of `simple` need the training operator Gradient."""
    words = [sys.executable, ROOT / "bench" / "runtime" / "backend_table.py", "--backends", "saturate", "--suites", "simple,pytorch-converted,pytorch-operator,light", "--failures"]
    done = subprocess.run(words, capture_output=True, text=True)
    failures = [line for line in done.stdout.splitlines() if not line.startswith("|")]
    assert done.returncode == 0 and len(failures) == 2 and all("Gradient" in line for line in failures), done.stdout + done.stderr
    assert [line.split()[3:6:2] for line in done.stdout.splitlines()[2:6]] == [["23", "21"], ["82", "82"], ["35", "35"], ["9", "9"]]


def test_the_standards_node_cases_pass():
    """The whole set of onnx.backend.test's node cases, through the package; without those that draw random numbers or decode JPEG."""
    words = [sys.executable, ROOT / "bench" / "runtime" / "backend_table.py", "--backends", "saturate", "--suites", "node", "--failures"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    cases, passed = done.stdout.splitlines()[2].split()[3:6:2]
    assert int(cases) == 1884 and int(passed) >= 1864, done.stdout[-3000:]


# The engine alone

RULES = [("add-zero", "(+ ?a 0)", "?a"), ("double", "(* ?a 2)", "(<< ?a 1)"), ("commute", "(+ ?a ?b)", "(+ ?b ?a)")]


def test_egraph():
    g = onnx_saturate.EGraph()
    a = g.add("(* (+ 0 x) 2)")
    assert not g.equal("(* (+ 0 x) 2)", "(<< x 1)")
    assert g.run(RULES) == "saturated"
    assert g.equal(a, "(<< x 1)") and not g.equal(a, "x")
    assert g.cost(a) == 3
    assert g.extract(a, cost=lambda op: 100 if op == "*" else 1) == "(<< x 1)"
    assert g.extract(a, cost=lambda op: 100 if op == "<<" else 1) == "(* x 2)"
    why = g.explain("(* (+ 0 x) 2)", "(<< x 1)")
    assert "add-zero" in why and "double" in why and g.explain("x", "2") is None
    assert "digraph" in g.to_dot() and '"root_eclasses"' in g.to_json([a])
    assert g.num_classes <= g.num_nodes and "e-nodes" in repr(g)
    assert g.union(g.add("p"), g.add("q")) and g.equal("(f p)", "(f q)")


def test_egraph_limits_and_errors():
    g = onnx_saturate.EGraph()
    g.add("(f x)")
    assert g.run([("grow", "(f ?a)", "(f (g ?a))")], iterations=5) == "iteration limit"
    assert g.run([("grow", "(f ?a)", "(f (g ?a))")], nodes=50, iterations=1000) == "node limit"
    for wrong in ("(f x", "", "f x", "(f x))", "()", "(f ?x)"):
        with pytest.raises(ValueError):
            g.add(wrong)
    with pytest.raises(ValueError, match=r"\?b"):
        g.run([("bad", "(f ?a)", "(f ?b)")])
    with pytest.raises(IndexError):
        g.extract(10**6)
    with pytest.raises(ValueError):
        g.extract("x", cost=lambda op: -1)


def test_assumptions_are_options():
    """`assume` and `no_assume` by one name or several; `not_assumed` is an older name; what is no assumption is an error."""
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])
    for options in ({"assume": ["causal_rows"]}, {"assume": "causal_rows", "no_assume": ["all"]}, {"not_assumed": ["all"]}, {"no_assume": "no_empty_row"}):
        assert onnx_saturate.optimize(model, **options) is not None
    for options in ({"assume": ["nonsense"]}, {"no_assume": ["nonsense"]}, {"not_assumed": ["nonsense"]}):
        with pytest.raises(Exception, match="no such assumption"):
            onnx_saturate.optimize(model, **options)
