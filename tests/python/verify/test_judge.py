"""ONNX Runtime as the judge (`--judge`, `--onnxruntime`), by the command without Python; and what it found."""
import json
import pathlib
from collections import Counter

import numpy as np
import onnx
import pytest
from conftest import make_model, run, run_ok, said, tensor, value
from decoders import Shape, decoder
from onnx import TensorProto, helper

onnxruntime = pytest.importorskip("onnxruntime")
THERE = ("--onnxruntime", str(pathlib.Path(onnxruntime.__file__).parent))
RELEASE = ".".join(onnxruntime.__version__.split(".")[:2])


def relu_chain():
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="one"), helper.make_node("Relu", ["a"], ["y"], name="two")]
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])])


def int4_product(turned):
    """x W with W in 4 bits; ONNX Runtime's optimizations take what stands right before the product for 8-bit activations."""
    weights = np.random.default_rng(0).integers(-8, 8, (64, 32)).astype(np.int8)
    shape, axis = ((32, 64), 1) if turned else ((64, 32), 0)
    stored = helper.make_tensor("w", TensorProto.INT4, shape, (weights.T if turned else weights).flatten().tolist())
    scales = tensor("s", np.full((32, 2) if turned else (2, 32), 0.1, np.float32))
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=axis, block_size=32)]
    if turned:
        nodes.append(helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]))
    nodes.append(helper.make_node("MatMul", ["x", "t" if turned else "d"], ["y"]))
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 64])], [value("y", TensorProto.FLOAT, ["n", 32])], [stored, scales], opset=21, ir_version=10)


def test_the_first_line_and_the_report_name_it(tmp_path):
    onnx.save(relu_chain(), tmp_path / "m.onnx")
    words = (tmp_path / "m.onnx", tmp_path / "out.onnx", "--report", tmp_path / "r.json")
    assert f"verified in ONNX Runtime {RELEASE} and here, " in said(run_ok(*words, *THERE))
    (judge,) = json.loads((tmp_path / "r.json").read_text())["verify"]["judges"]
    assert judge["verdict"] == "equal" and judge["version"] == onnxruntime.__version__ and judge["cases"] >= 3
    with_judge = (tmp_path / "out.onnx").read_bytes()
    assert "verified here only (--judge saturate), " in said(run_ok(*words, *THERE, "--judge", "saturate", "--force"))
    assert "verified here only (--judge saturate), " in said(run_ok(*words, *THERE, "--runtime", "saturate", "--force"))  # its older name
    assert (tmp_path / "out.onnx").read_bytes() == with_judge
    assert "verified here only (onnxruntime is not installed), " in said(run_ok(*words, "--force"))
    alone = run_ok(*words, "--judge", "onnxruntime=" + THERE[1], "--force")
    assert f"verified in ONNX Runtime {RELEASE}, " in said(alone)


@pytest.mark.parametrize(
    "words, status, part",
    [
        (("--judge", "openvino"), 2, "saturate, onnxruntime or onnxruntime=PATH"),
        (("--judge", "onnxruntime"), 5, "--onnxruntime PATH"),
        (("--onnxruntime", "no/such"), 1, "no shared library of ONNX Runtime"),
        (("--judge", "onnxruntime=m.onnx"), 1, "can't judge"),
    ],
)
def test_mistakes_are_told_in_a_line(tmp_path, monkeypatch, words, status, part):
    monkeypatch.chdir(tmp_path)
    onnx.save(relu_chain(), "m.onnx")
    done = run("m.onnx", "out.onnx", *words)
    assert done.returncode == status and part in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not pathlib.Path("out.onnx").exists()


def test_it_sees_what_our_kernels_do_not(tmp_path):
    """The same numbers here; in ONNX Runtime's default session the second model's are those of 8-bit activations."""
    onnx.save(int4_product(True), tmp_path / "a.onnx")
    onnx.save(int4_product(False), tmp_path / "b.onnx")
    assert run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx").returncode == 0
    done = run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx", *THERE)
    assert done.returncode == 3 and "with its optimizations: output 'y'" in done.stderr, done.stderr
    same = run("verify", tmp_path / "b.onnx", tmp_path / "b.onnx", *THERE)
    assert same.returncode == 0, same.stderr


def test_what_it_refuses_itself_is_not_counted(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="twice"), helper.make_node("Relu", ["a"], ["y"], name="twice")]
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]), tmp_path / "m.onnx")
    done = run("verify", tmp_path / "m.onnx", tmp_path / "m.onnx", *THERE)
    assert done.returncode == 0 and "not judged in ONNX Runtime" in said(done) and "same node name" in said(done), said(done)


def test_nodes_of_a_list_of_passes_have_names_of_their_own(tmp_path):
    """`precision` renames values and leaves names of nodes; what is rewritten behind it took such a name again, and ONNX Runtime refused it."""
    onnx.save(decoder(Shape()), tmp_path / "m.onnx")
    passes = [{"pass": "optimize", "avoid": ["Attention", "RotaryEmbedding"]}, {"pass": "precision"}, {"pass": "optimize", "opset": 17}]
    (tmp_path / "p.json").write_text(json.dumps(passes))
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--passes", tmp_path / "p.json", *THERE)
    names = [node.name for node in onnx.load(tmp_path / "out.onnx").graph.node if node.name]
    assert len(names) == len(set(names))
    onnxruntime.InferenceSession(tmp_path / "out.onnx")


def saved_by_the_runtime(path, folder):
    """Operators of the model that ONNX Runtime itself saves."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "saved.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(folder / "saved.onnx").graph.node
    return Counter(f"{node.domain}.{node.op_type}".removeprefix("ai.onnx").lstrip(".") for node in nodes if node.op_type != "Constant")


def test_inspect_after_load_tells_what_the_runtime_makes(tmp_path):
    """Small weights go in the message, large ones beside it."""
    for name, columns in (("small", 8), ("large", 1 << 17)):
        weights = tensor("w", np.ones((64, columns), np.float32))
        nodes = [
            helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["t", "w"], ["m"]),
            helper.make_node("Identity", ["m"], ["i"]),
            helper.make_node("Relu", ["i"], ["y"]),
        ]
        model = make_model(nodes, [value("x", TensorProto.FLOAT, [64, "n"])], [value("y", TensorProto.FLOAT, ["n", columns])], [weights])
        onnx.save(model, tmp_path / f"{name}.onnx")
        wanted = saved_by_the_runtime(tmp_path / f"{name}.onnx", tmp_path)
        assert wanted["com.microsoft.FusedMatMul"] == 1
        told = json.loads(run_ok("inspect", tmp_path / f"{name}.onnx", "--after-load", "--json", *THERE).stdout)
        assert told["operators"]["Transpose"] == 1 and told["after_load"]["operators"] == dict(wanted)
        assert told["after_load"]["version"] == onnxruntime.__version__ and told["after_load"]["level"] == "extended"
        lines = run_ok("inspect", tmp_path / f"{name}.onnx", "--after-load", *THERE).stdout.splitlines()
        assert any(f"after load in ONNX Runtime {RELEASE}" in line for line in lines)
        assert [line.split()[1:] for line in lines if line.startswith("com.microsoft.FusedMatMul")] == [["0", "1"]]
    assert "after_load" not in json.loads(run_ok("inspect", tmp_path / "small.onnx", "--json").stdout)


@pytest.mark.parametrize(
    "words, status, part",
    [
        (("--after-load",), 5, "--onnxruntime PATH"),
        (("--after-load", "--judge", "openvino"), 2, "onnxruntime=PATH"),
        (("--after-load", "--onnxruntime", "no/such"), 1, "no shared library of ONNX Runtime"),
        (("--judge", "onnxruntime"), 2, "--after-load"),
    ],
)
def test_inspect_after_load_without_a_runtime_is_told_in_a_line(tmp_path, words, status, part):
    onnx.save(relu_chain(), tmp_path / "m.onnx")
    done = run("inspect", tmp_path / "m.onnx", *words)
    assert done.returncode == status and part in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_inspect_after_load_of_what_the_runtime_refuses(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="twice"), helper.make_node("Relu", ["a"], ["y"], name="twice")]
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]), tmp_path / "m.onnx")
    done = run("inspect", tmp_path / "m.onnx", "--after-load", *THERE)
    assert done.returncode == 1 and f"ONNX Runtime {RELEASE}: " in done.stderr and "same node name" in done.stderr, done.stderr


def test_a_case_of_size_0_that_the_runtime_computes_otherwise_is_no_case_there(tmp_path):
    """An LSTM without steps leaves its last states as the memory was; a result was called wrong for other bits in it, now and then."""
    r = np.random.default_rng(0)
    weights = [tensor(name, r.normal(size=(1, 16, 4)).astype(np.float32)) for name in ("W", "R")]
    node = helper.make_node("LSTM", ["x", "W", "R", "", "", "h0", "c0"], ["", "h", "c"], hidden_size=4)
    states = [value(name, TensorProto.FLOAT, [1, "b", 4]) for name in ("h0", "c0", "h", "c")]
    onnx.save(make_model([node], [value("x", TensorProto.FLOAT, ["t", "b", 4]), *states[:2]], states[2:], weights, opset=17), tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "out.onnx", "--report", tmp_path / "r.json", *THERE)
    report = json.loads((tmp_path / "r.json").read_text())["verify"]
    of_kind = lambda *kinds: [case for case in report["cases"] if case["values"] in kinds]  # noqa: E731
    (judge,) = report["judges"]
    assert {case["sizes"]["t"] for case in of_kind("empty")} == {0, 2}  # it refuses an empty batch
    assert judge["verdict"] == "equal" and judge["cases"] == len(of_kind("usual", "near 0", "long"))


def test_inputs_that_it_takes_are_looked_for_where_it_takes_none_of_ours(tmp_path):
    """A mask may be shorter than past and new keys together by the standard, and not in ONNX Runtime."""
    heads = lambda name, length: value(name, TensorProto.FLOAT, ["batch", 3, length, 8])  # noqa: E731
    nodes = [helper.make_node("Neg", ["q"], ["n"]), helper.make_node("Neg", ["n"], ["r"]),
             helper.make_node("Attention", ["r", "k", "v", "mask", "past_k", "past_v"], ["y", "now_k", "now_v"], scale=0.5)]
    inputs = [heads("q", "new"), heads("k", "new"), heads("v", "new"), value("mask", TensorProto.FLOAT, ["new", "masked"]), heads("past_k", "past"),
              heads("past_v", "past")]
    outputs = [heads("y", "new"), heads("now_k", "all"), heads("now_v", "all")]
    onnx.save(make_model(nodes, inputs, outputs, opset=24, ir_version=11), tmp_path / "m.onnx")
    out = run_ok(tmp_path / "m.onnx", tmp_path / "out.onnx", "--report", tmp_path / "r.json", *THERE)
    assert f"verified in ONNX Runtime {RELEASE} and here, " in said(out)
    (judge,) = json.loads((tmp_path / "r.json").read_text())["verify"]["judges"]
    assert judge["verdict"] == "equal" and judge["cases"] >= 2


def test_sizes_that_are_drawn_are_no_fault(tmp_path):
    """VITS says its sentence faster or slower by chance; a rule of elsewhere in the model was blamed."""
    nodes = [helper.make_node("RandomUniformLike", ["x"], ["u"]), helper.make_node("Greater", ["u", "half"], ["b"]), helper.make_node("NonZero", ["b"], ["places"])]
    nodes += [helper.make_node("Mul", ["x", "half"], ["m"]), helper.make_node("Mul", ["m", "half"], ["y"])]
    outputs = [value("places", TensorProto.INT64, [2, "found"]), value("y", TensorProto.FLOAT, ["n", 50])]
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 50])], outputs, [tensor("half", np.array(0.5, np.float32))]), tmp_path / "m.onnx")
    out = run_ok(tmp_path / "m.onnx", tmp_path / "out.onnx", *THERE)
    assert f"verified in ONNX Runtime {RELEASE} and here, " in said(out) and "warning" not in said(out), said(out)
    assert len(onnx.load(tmp_path / "out.onnx").graph.node) == 4
