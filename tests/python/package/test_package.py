"""The Python package `onnx_saturate`: installed where these tests run, or skipped."""
import itertools
import json
import pathlib
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import onnx
import pytest
from conftest import DATA, RELEASE, SHARED, listing, make_model, run_ok, tensor, value
from onnx import TensorProto, helper, numpy_helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
BART = DATA / "bart_encoder.onnx"


@pytest.fixture
def bart():
    return onnx.load(BART)


@pytest.fixture
def arrays():
    return dict(np.load(DATA / "bart_encoder.inputs.npz"))


def attention_count(model):
    return sum(node.op_type in ("Attention", "MultiHeadAttention") for node in model.graph.node)


def relus(n=2, weight=None):
    nodes = [helper.make_node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(n)]
    initializers = []
    if weight is not None:
        initializers = [tensor("w", weight)]
        nodes.append(helper.make_node("MatMul", [f"v{n}", "w"], ["y"]))
    else:
        nodes.append(helper.make_node("Identity", [f"v{n}"], ["y"]))
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])], initializers)


# Kinds of input and output

def test_model_proto_in_model_proto_out_and_the_input_is_untouched(bart):
    before = bart.SerializeToString(deterministic=True)
    result = onnx_saturate.optimize(bart)
    assert isinstance(result, onnx.ModelProto) and result is not bart
    assert bart.SerializeToString(deterministic=True) == before
    assert attention_count(result) == 2
    onnx.checker.check_model(onnx.load_from_string(onnx_saturate.optimize(bart.SerializeToString(), target="onnx")))


def test_bytes_paths_and_files(tmp_path, bart):
    as_bytes = onnx_saturate.optimize(BART.read_bytes())
    assert isinstance(as_bytes, bytes)
    assert onnx_saturate.optimize(str(BART)) == onnx_saturate.optimize(BART) == onnx.load_from_string(as_bytes)
    out = tmp_path / "out.onnx"
    assert onnx_saturate.optimize(BART, out) is out
    assert out.read_bytes() == as_bytes
    assert onnx_saturate.optimize(bart, str(out)) == str(out)
    assert out.read_bytes() == as_bytes
    with pytest.raises(TypeError, match="onnx.ModelProto"):
        onnx_saturate.optimize(3)


@pytest.mark.parametrize("cost", ["nodes", "roofline"])
def test_same_bytes_as_the_command(tmp_path, bart, cost):
    out = tmp_path / "command.onnx"
    run_ok(BART, out, "--cost", cost)
    for given in (bart, BART, BART.read_bytes()):
        result = onnx_saturate.optimize(given, cost=cost)
        assert (result if isinstance(result, bytes) else result.SerializeToString(deterministic=True)) == out.read_bytes()


def test_same_bytes_as_the_command_over_the_zoo(tmp_path):
    models = sorted((SHARED / "data" / "zoo" / "models").glob("*.onnx"))[::8]
    if not models:
        pytest.skip("no ../shared/data/zoo")
    for path in models:
        out = tmp_path / "command.onnx"
        run_ok(path, out, "--no-verify", "--cost", "nodes")
        model = onnx.load(path)
        assert onnx_saturate.optimize(model, cost="nodes", verify=False).SerializeToString(deterministic=True) == out.read_bytes(), path
        assert onnx_saturate.optimize(path, tmp_path / "package.onnx", cost="nodes", verify=False).read_bytes() == out.read_bytes(), path


def test_the_package_brings_the_command(tmp_path):
    out, same = tmp_path / "command.onnx", tmp_path / "module.onnx"
    run_ok(BART, out)
    scripts = pathlib.Path(sys.executable).parent
    for words in ([scripts / "saturate"], [scripts / "onnx-saturate"], [sys.executable, "-m", "onnx_saturate"]):
        done = subprocess.run([*words, BART, same, "--target", f"ort-cpu@{RELEASE}"], capture_output=True, text=True)
        assert done.returncode == 0 and "verified" in done.stdout, done.stderr + done.stdout
        assert same.read_bytes() == out.read_bytes()
        same.unlink()
        missing = subprocess.run([*words, tmp_path / "missing.onnx"], capture_output=True, text=True)
        assert missing.returncode == 1 and missing.stderr.startswith("saturate: error: "), missing.stderr
    # Ended by its reader, as programs are.
    done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{sys.executable} -m onnx_saturate rules list | head -1"], capture_output=True, text=True)
    assert "Traceback" not in done.stderr and len(done.stdout.splitlines()) == 1, done.stderr


def test_weights_are_handed_over_apart_and_all_fields_survive():
    model = relus(weight=np.arange(16, dtype=np.float32).reshape(4, 4))
    big = numpy_helper.from_array(np.arange(40000, dtype=np.float32).reshape(4, 10000), "big")
    big.doc_string = "a weight"
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [20000], np.arange(20000, dtype=np.float32))
    assert not typed.HasField("raw_data")
    model.graph.initializer.extend([big, typed])
    model.graph.node.append(helper.make_node("MatMul", ["x", "big"], ["z"], doc_string="kept"))
    model.graph.node.append(helper.make_node("Identity", ["typed"], ["t"]))
    model.graph.output.extend([value("z", TensorProto.FLOAT, ["n", 10000]), value("t", TensorProto.FLOAT, [20000])])
    model.graph.doc_string, model.producer_name = "a graph", "a test"
    model.metadata_props.add(key="key", value="value")
    untouched = onnx_saturate.optimize(model, rules=onnx_saturate.RuleSet.none())
    assert untouched.SerializeToString(deterministic=True) == onnx_saturate.optimize(model.SerializeToString(), rules=onnx_saturate.RuleSet.none())
    assert {t.name: t for t in untouched.graph.initializer}["big"] == big
    assert {t.name: t for t in untouched.graph.initializer}["typed"] == typed
    assert untouched.metadata_props == model.metadata_props and untouched.graph.doc_string == "a graph"
    # Fields that this onnx doesn't know.
    model.graph.MergeFromString(bytes([0xFA, 0x3E, 3]) + b"abc")
    kept = onnx_saturate.optimize(model, rules=onnx_saturate.RuleSet.none())
    assert bytes([0xFA, 0x3E, 3]) + b"abc" in kept.SerializeToString()


def test_external_data(tmp_path, bart):
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "model.onnx"
    onnx.save(onnx.load(BART), path, save_as_external_data=True, location="weights.bin", size_threshold=16)
    before = listing(tmp_path)
    unloaded = onnx.load(path, load_external_data=False)
    results = [onnx_saturate.optimize(path), onnx_saturate.optimize(unloaded, base_dir=path.parent)]
    for result in results:
        assert attention_count(result) == 2
        assert all(t.data_location == TensorProto.DEFAULT for t in result.graph.initializer)
        assert onnx_saturate.verify(bart, result)
    assert results[0] == results[1]
    with pytest.raises(onnx_saturate.Error, match="model"):
        onnx_saturate.optimize(unloaded)
    assert listing(tmp_path) == before
    onnx_saturate.optimize(bart, tmp_path / "out.onnx", external_data=True, external_data_threshold=100)
    assert (tmp_path / "out.onnx.data").stat().st_size > 100_000


def test_onnx_ir(bart):
    ir = pytest.importorskip("onnx_ir")
    from onnx_saturate.interop import OptimizePass

    model = ir.from_proto(bart)
    result = onnx_saturate.optimize(model)
    assert isinstance(result, ir.Model) and attention_count(ir.to_proto(result)) == 2
    assert attention_count(ir.to_proto(model)) == 0
    step = OptimizePass(cost="nodes")
    done = ir.passes.Sequential(step)(ir.from_proto(bart))
    assert done.modified and attention_count(ir.to_proto(done.model)) == 2
    assert step.report.nodes[0] > step.report.nodes[1]
    assert not OptimizePass(rules=onnx_saturate.RuleSet.none())(ir.from_proto(relus(weight=np.eye(4, dtype=np.float32)))).modified


# What it does

def test_report(bart):
    model, report = onnx_saturate.optimize_with_report(bart, cost="nodes")
    assert report.nodes == (125, len([n for n in model.graph.node if n.op_type != "Constant"]))
    assert report.verified and not report.interrupted and report.stop_reason == "saturated"
    assert report.cost[1] < report.cost[0] and report.rules and report.warnings == []
    assert "operator" in str(report) and "verified: " in str(report) and "\n" not in repr(report)
    assert "applied" in report.table(rules=True) and "applied" not in report.table()
    page = report._repr_html_()
    assert page.count("<tr>") > 20 and page.startswith("<table>")
    assert json.loads(json.dumps(report.to_dict()))["target"] == "ort-cpu@1.20"


def test_report_tells_what_was_not_fused(bart):
    """The same places as the command's report."""
    _, report = onnx_saturate.optimize_with_report(bart, skip_fusions=["Gelu", "BiasGelu", "FastGelu"])
    gelus = [place for place in report.not_fused if place["operator"] == "Gelu"]
    assert len(gelus) == 2 and all(place["op_type"] == "Erf" and place["reason"] and place["place"] for place in gelus), report.not_fused
    _, report = onnx_saturate.optimize_with_report(bart)
    assert not [place for place in report.not_fused if place["operator"] in ("Gelu", "Attention")]
    assert report.to_dict()["not_fused"] == report.not_fused


def test_verify(bart):
    result = onnx_saturate.optimize(bart)
    check = onnx_saturate.verify(bart, result)
    assert check and check.equal and check.details["status"] == "equal" and "cases" in check.details
    weight = next(t for t in result.graph.initializer if t.data_type == TensorProto.FLOAT and len(t.raw_data) > 1000)
    weight.raw_data = (np.frombuffer(weight.raw_data, np.float32) * 1.5).tobytes()
    check = onnx_saturate.verify(bart, result)
    assert not check and "differ" in check.message, check.message


def test_diff(bart):
    result, report = onnx_saturate.optimize_with_report(bart, annotate=True)
    found = onnx_saturate.diff(bart, result)
    assert not found.equal and found.to_dict()["proven"] and any(region["rules"] for region in found.regions)
    assert str(found).startswith("first -> second") and repr(found).startswith(f"<Difference: {report.nodes[0]} -> {report.nodes[1]} operators")
    assert found._repr_html_().count("<tr>") == len(found.to_dict()["groups"]) + 2
    same = onnx_saturate.diff(bart, bart)
    assert same.equal and same.regions == [] and "equal" in repr(same)
    assert onnx_saturate.diff(BART, result).to_dict()["regions"] == found.regions


def test_wrong_rule_is_found(bart):
    wrong = onnx_saturate.RuleSet.from_text(
        'opset "" 18\nrule wrong (X) => (Y)\n  { Y = Relu (X) }\n  =>\n  { Y = Abs (X) }\n  example X = float[2,3]\n', "wrong.rules"
    )
    cost = lambda op: 100 if op.op_type == "Relu" else 1
    with pytest.raises(onnx_saturate.VerificationError, match="verification failed") as caught:
        onnx_saturate.optimize(relus(), rules=wrong, cost=cost, strict_verify=True)
    assert caught.value.report.to_dict()["verify"]["status"] == "different"
    assert onnx_saturate.optimize(relus(), rules=wrong, cost=cost, verify=False).graph.node
    with pytest.warns(RuntimeWarning, match="rule wrong"):
        _, report = onnx_saturate.optimize_with_report(relus(), rules=wrong, cost=cost)
    assert [one["rule"] for one in report.to_dict()["left_out"]] == ["wrong"]


def test_inspect_explain_targets(bart):
    described = onnx_saturate.inspect(bart)
    assert described["nodes"] == 125 and described["inputs"][0]["name"]
    explained = onnx_saturate.explain(BART, "BiasGelu", cost="nodes")
    assert len(explained["made_by_rules"]) == 2 and all(made["rule"] for made in explained["made_by_rules"])
    assert {"onnx", "ort-cpu"} <= set(onnx_saturate.targets())


def test_inspect_after_load(bart):
    """Asks the runtime that is installed beside the package."""
    onnxruntime = pytest.importorskip("onnxruntime")
    loaded = onnx_saturate.inspect(bart, after_load=True)["after_load"]
    assert loaded["version"] == onnxruntime.__version__ and loaded["operators"]["com.microsoft.FusedMatMul"] == 2
    assert "after_load" not in onnx_saturate.inspect(bart)
    with pytest.raises(onnx_saturate.OptionError, match="after_load"):
        onnx_saturate.inspect(bart, judge="onnxruntime")
    with pytest.raises(onnx_saturate.Error, match="no shared library"):
        onnx_saturate.inspect(bart, after_load=True, onnxruntime="no/such")


def test_measure(bart, tmp_path):
    """What is timed and kept; the answers of the first run serve the second."""
    pytest.importorskip("onnxruntime")
    options = {"measure": 3, "measured": tmp_path / "a.jsonl", "cost_at": {"batch": 1, "seq": 16}}
    first, report = onnx_saturate.optimize_with_report(bart, **options)
    told = report.to_dict()["measured"]
    assert told["graphs"][0]["graph"] == "original" and not told["remembered"] and (tmp_path / "a.jsonl").exists()
    again, report = onnx_saturate.optimize_with_report(bart, **options)
    assert report.to_dict()["measured"]["remembered"] and again == first
    for wrong in ({"measure": 0}, {"measure": float("nan")}, {"measured": "a.jsonl"}):
        with pytest.raises(onnx_saturate.OptionError, match="measure"):
            onnx_saturate.optimize(bart, **wrong)


def test_rule_sets(tmp_path):
    everything = onnx_saturate.RuleSet.builtin()
    assert len(everything) > 50 and "RuleSet of" in repr(everything)
    text = 'opset "" 18\nrule relu_relu_mine (X) => (Y)\n  { A = Relu (X)\n    Y = Relu (A) }\n  =>\n  { Y = Relu (X) }\n  example X = float[2,3]\n'
    path = tmp_path / "mine.rules"
    path.write_text(text)
    mine = onnx_saturate.RuleSet.none() + path
    assert list(mine) == ["relu_relu_mine"] and "Relu (A)" in mine.show("relu_relu_mine")
    with pytest.raises(KeyError):
        mine.show("nothing")
    assert [n.op_type for n in onnx_saturate.optimize(relus(), rules=mine, cost="nodes").graph.node].count("Relu") == 1
    assert [n.op_type for n in onnx_saturate.optimize(relus(), rules=mine, skip_rules=["relu_relu_mine"]).graph.node].count("Relu") == 2
    assert "relu_relu_mine" in onnx_saturate.optimize_with_report(relus(), rules=path, skip_rules=["relu_relu"] if "relu_relu" in everything else []).report.rules
    with pytest.raises(onnx_saturate.Error, match=r"bad\.rules:1"):
        onnx_saturate.RuleSet.from_text("rule", "bad.rules")
    with pytest.raises(onnx_saturate.Error, match="no_such_rule"):
        everything.without("no_such_rule")


def test_cost_model_is_a_callable(bart):
    seen = []

    def cost(op):
        seen.append((op.op_type, op.domain, [onnx_saturate.dtype_name(i.dtype) for i in op.inputs], [i.shape for i in op.inputs], op.attributes))
        return 1000.0 if op.op_type == "SkipLayerNormalization" else 1.0

    result, report = onnx_saturate.optimize_with_report(bart, cost=cost)
    assert not any(node.op_type == "SkipLayerNormalization" for node in result.graph.node)
    assert any(node.op_type == "SkipLayerNormalization" for node in onnx_saturate.optimize(bart, cost="nodes").graph.node)
    assert report.to_dict()["cost_model"] == "function"
    matmul = next(s for s in seen if s[0] == "MatMul")
    assert matmul[2] == ["float", "float"] and isinstance(matmul[3][0], tuple)
    softmax = next(s for s in seen if s[0] == "Softmax")
    assert softmax[4]["axis"] in (-1, 3)
    for bad in (lambda op: -1, lambda op: float("nan")):
        with pytest.raises(onnx_saturate.OptionError, match="costs"):
            onnx_saturate.optimize(bart, cost=bad)
    with pytest.raises(ZeroDivisionError):
        onnx_saturate.optimize(bart, cost=lambda op: 1 / 0)
    with pytest.raises(onnx_saturate.OptionError, match="'cheap' is not a number"):
        onnx_saturate.optimize(bart, cost=lambda op: "cheap")


def test_options_are_checked(bart, tmp_path):
    for wrong in ({"threads": -1}, {"opset": 18, "keep_opset": True}, {"node_limit": 0}, {"time_limit": -1.0}):
        with pytest.raises(onnx_saturate.OptionError):
            onnx_saturate.optimize(bart, **wrong)
    with pytest.raises(TypeError, match="no such option: iteration"):
        onnx_saturate.optimize(bart, iteration=3)
    for missing in ({"target": "no-such-target"}, {"cost": "no-such-cost"}, {"rules": tmp_path / "no.rules"}):
        with pytest.raises(onnx_saturate.Error, match="no[-.]"):
            onnx_saturate.optimize(bart, **missing)
    with pytest.raises(onnx_saturate.Error, match="no/such.onnx"):
        onnx_saturate.optimize("no/such.onnx")
    with pytest.raises(onnx_saturate.Error):
        onnx_saturate.optimize(b"rubbish")
    assert onnx_saturate.optimize_with_report(bart, iterations=1).report.stop_reason == "iteration limit"
    assert onnx_saturate.optimize(bart, dims={"batch": 2}).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
    assert onnx_saturate.optimize(bart, target="onnx", opset=23).opset_import[0].version == 23


def test_same_result_for_any_number_of_threads(bart):
    assert onnx_saturate.optimize(bart, threads=1) == onnx_saturate.optimize(bart, threads=4)


def test_progress(bart):
    stages = []
    onnx_saturate.optimize(bart, progress=lambda stage, iteration, nodes: stages.append((stage, nodes)))
    names = [stage for stage, _ in stages]
    assert names[0] == "lower" and names[-1] == "verify" and max(nodes for _, nodes in stages) > 100
    with pytest.raises(ZeroDivisionError):
        onnx_saturate.optimize(bart, progress=lambda *args: 1 / 0)


def test_progress_bar(bart, capfd):
    pytest.importorskip("tqdm")
    onnx_saturate.optimize(bart)
    assert capfd.readouterr().err == "", "no bar where stderr is no terminal"
    onnx_saturate.optimize(bart, progress=True)
    assert "e-nodes" in capfd.readouterr().err


# Living with others

def test_the_gil_is_released(bart):
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    onnx_saturate.optimize(bart)
    during = [t for t in ticks if t > start]
    stop.set()
    thread.join()
    assert len(during) > 5


def test_many_threads_at_once(bart, arrays):
    expected = onnx_saturate.optimize(bart)
    session = onnx_saturate.Session(bart)
    wanted = session.run(arrays)
    results, outputs = [], []

    def work():
        results.append(onnx_saturate.optimize(bart))
        outputs.append(session.run(arrays))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(result == expected for result in results)
    for output in outputs:
        for name in wanted:
            np.testing.assert_array_equal(output[name], wanted[name])


def run_script(script, *args):
    code = textwrap.dedent(script)
    return subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=120)


def test_keyboard_interrupt_gives_the_best_so_far():
    done = run_script(
        """
        import os, signal, sys, warnings, onnx, onnx_saturate
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        model = onnx.load(sys.argv[1])
        def progress(stage, iteration, nodes):
            if stage == "saturate" and iteration == 1:
                os.kill(os.getpid(), signal.SIGINT)
        for attempt in range(50):  # on a busy machine the work may be over before this thread hears of it
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result, report = onnx_saturate.optimize_with_report(model, progress=progress)
            assert onnx_saturate.verify(model, result)
            if report.interrupted:
                break
        print(report.interrupted, [w.category.__name__ for w in caught], report.verified)
        """,
        BART,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] in ("True ['RuntimeWarning'] True",), done.stdout


def test_second_keyboard_interrupt_gives_up():
    done = run_script(
        """
        import os, signal, sys, onnx, onnx_saturate
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as above
        model = onnx.load(sys.argv[1])
        def progress(stage, iteration, nodes):
            if stage == "verify" or (stage == "saturate" and iteration == 0):
                os.kill(os.getpid(), signal.SIGINT)
        for attempt in range(50):  # as above
            try:
                onnx_saturate.optimize(model, progress=progress, cost=lambda op: 1.0)
            except KeyboardInterrupt:
                print("interrupted")
                break
        print(len(onnx_saturate.optimize(model).graph.node) > 0)
        """,
        BART,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["interrupted", "True"], done.stdout


@pytest.mark.parametrize("order", list(itertools.permutations(["onnx", "onnxruntime", "onnx_saturate"])), ids="-".join)
def test_every_order_of_imports(order, tmp_path):
    pytest.importorskip("onnxruntime")
    done = run_script(
        f"""
        import sys
        import {", ".join(order)}
        import numpy as np
        import onnx, onnxruntime, onnx_saturate
        path, data = sys.argv[1:]
        model = onnx.load(path)
        inputs = dict(np.load(data))
        onnx.checker.check_model(model)
        result = onnx.shape_inference.infer_shapes(onnx_saturate.optimize(model))
        session = onnxruntime.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])
        theirs = session.run(None, inputs)
        ours = list(onnx_saturate.run(result, inputs).values())
        before = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)
        for a, b, c in zip(theirs, ours, before):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-4)
        print("same", len(result.graph.node))
        """,
        BART,
        DATA / "bart_encoder.inputs.npz",
    )
    assert done.returncode == 0 and done.stdout.startswith("same "), done.stderr


def test_no_symbol_of_the_libraries_is_visible():
    module = pathlib.Path(onnx_saturate._core.__file__)
    listed = subprocess.run(["nm", "-D", "--defined-only", module], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("no nm here")
    names = [line.split()[-1] for line in listed.stdout.splitlines()]
    assert "PyInit__core" in names
    assert not [name for name in names if "saturate" in name or "protobuf" in name or "absl" in name], names[:20]
    # Libraries that come along have names of their own.
    needed = subprocess.run(["ldd", module], capture_output=True, text=True).stdout
    for line in needed.splitlines():
        if any(word in line for word in ("protobuf", "onnx", "tbb", "absl", "fmt")):
            assert str(module.parent / "_lib") in line, line


def test_types_check(tmp_path):
    pytest.importorskip("mypy")
    package = pathlib.Path(onnx_saturate.__file__).parent
    assert (package / "py.typed").exists()
    use = tmp_path / "use.py"
    use.write_text(
        textwrap.dedent(
            """
            import numpy as np
            import onnx
            import onnx_saturate
            from typing_extensions import assert_type

            model = onnx.load("x.onnx")
            assert_type(onnx_saturate.optimize(model, target="ort-cpu", dims={"n": 2}), onnx.ModelProto)
            assert_type(onnx_saturate.optimize("x.onnx", "y.onnx"), str)
            assert_type(onnx_saturate.optimize(b"", verify=False), bytes)
            assert_type(onnx_saturate.optimize_with_report(model).report, onnx_saturate.Report)
            def price(op: onnx_saturate.Operator) -> float:
                return 2.0 if op.op_type == "MatMul" else 1.0
            onnx_saturate.optimize(model, cost=price, rules=onnx_saturate.RuleSet.builtin().without("a"))
            onnx_saturate.optimize(model, io_rank=4)
            onnx_saturate.optimize(model, io_rank="4")  # type: ignore[call-overload]
            onnx_saturate.optimize(model, tarket="x")  # type: ignore[call-overload]
            assert_type(onnx_saturate.EGraph().extract("(f x)"), str)
            onnx_saturate.Session(model).run({"x": np.zeros(3)})
            """
        )
    )
    for what in ([use], ["-p", "onnx_saturate"]):
        words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", *what]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_prefer_single_heads():
    count = lambda model: sum(n.op_type == "Softmax" for n in model.graph.node)
    model = onnx.load(BART)
    together, apart = (onnx_saturate.optimize(model, target="onnx", cost="nodes", **more) for more in ({}, {"prefer": "single-heads"}))
    assert count(apart) > count(together)
    with pytest.raises(onnx_saturate.Error, match="two-heads"):
        onnx_saturate.optimize(model, prefer=["two-heads"])


def test_prefer_quantizable():
    """QuickGelu would hide the product from quantizers, by whatever rules the options take."""
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2,8] x) => (float[2,8] y) { e = Sigmoid (x) y = Mul (x, e) }')
    fused, left = (onnx_saturate.optimize(model, target="ort-cpu@1.31", **more) for more in ({}, {"prefer": "quantizable"}))
    assert [[n.op_type for n in m.graph.node] for m in (fused, left)] == [["QuickGelu"], ["Sigmoid", "Mul"]]


def test_io_rank():
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", TensorProto.FLOAT, ["n", 3])], [value("y", TensorProto.FLOAT, ["n", 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    given = {"x": np.zeros([2, 3], np.float32)}
    result, report = onnx_saturate.optimize_with_report(model, io_rank=4, inputs=given)
    assert report.verified and report.to_dict()["io_rank"]["inputs"] == [{"name": "x", "before": ["n", 3], "after": [1, 1, "n", 3]}]
    assert onnx_saturate.run(result, {"x": given["x"].reshape(1, 1, 2, 3)})["y"].shape == (1, 1, 2, 3)
    assert onnx_saturate.optimize_with_report(model).report.to_dict()["io_rank"] is None
    assert onnx_saturate.explain(model, io_rank=4)
    with pytest.raises(onnx_saturate.Error, match="input 'x' has rank 2; give 2 or more"):
        onnx_saturate.optimize(model, io_rank=1)
    with pytest.raises(onnx_saturate.OptionError, match="io_rank 0"):
        onnx_saturate.optimize(model, io_rank=0)
