"""`--target ort-cpu@1.20` keeps to what that release of ONNX Runtime loads (test_release.py: which one is meant without a version)."""
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, ROOT, make_model, onnxruntime_outputs, run, run_ok, said, tensor, value

BART = DATA / "bart_encoder.onnx"
VERSIONS = json.loads((ROOT / "extract" / "targets" / "ort-cpu.json").read_text())["runtime"]["versions"]
F = TensorProto.FLOAT


def optimized(folder, model, *words):
    onnx.save(model, folder / "in.onnx")
    done = run_ok("in.onnx", "out.onnx", "--cost", "nodes", *words, cwd=folder)
    return onnx.load(folder / "out.onnx"), done


def opset(model):
    return next(i.version for i in model.opset_import if i.domain in ("", "ai.onnx"))


def operators(model):
    return sorted(f"{n.domain}.{n.op_type}" if n.domain else n.op_type for n in model.graph.node)


def rms(shape, **kwargs):
    """x / sqrt(mean(x x) + 1e-5) g."""
    nodes = [helper.make_node("Mul", ["x", "x"], ["xx"]), helper.make_node("ReduceMean", ["xx", "axes"], ["m"]), helper.make_node("Add", ["m", "e"], ["me"]),
             helper.make_node("Sqrt", ["me"], ["r"]), helper.make_node("Div", ["x", "r"], ["n"]), helper.make_node("Mul", ["n", "g"], ["y"])]
    weights = [tensor("axes", np.array([-1])), tensor("e", np.float32(1e-5)), tensor("g", np.linspace(0.5, 2, shape[-1], dtype=np.float32))]
    return make_model(nodes, [value("x", F, shape)], [value("y", F, shape)], weights, **kwargs)


def rope(batch):
    """Angles by batch and position, as a model computes them of its position ids."""
    nodes = [helper.make_node("Split", ["x"], ["a", "b"], axis=-1, num_outputs=2), helper.make_node("Neg", ["b"], ["nb"]),
             helper.make_node("Concat", ["nb", "a"], ["t"], axis=-1), helper.make_node("Concat", ["c", "c"], ["cc"], axis=-1),
             helper.make_node("Concat", ["s", "s"], ["ss"], axis=-1), helper.make_node("Mul", ["x", "cc"], ["xc"]),
             helper.make_node("Mul", ["t", "ss"], ["ts"]), helper.make_node("Add", ["xc", "ts"], ["y"])]
    angles = [batch, 1, "t", 4]
    return make_model(nodes, [value("x", F, ["n", 3, "t", 8]), value("c", F, angles), value("s", F, angles)], [value("y", F, ["n", 3, "t", 8])])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_release_gets_no_newer_opset_or_ir(tmp_path, version):
    done = run_ok(BART, tmp_path / "o.onnx", "--cost", "nodes", "--target", f"ort-cpu@{version}")
    model = onnx.load(tmp_path / "o.onnx")
    assert opset(model) <= VERSIONS[version]["opset"] and model.ir_version <= VERSIONS[version]["ir"]
    assert "needs ONNX Runtime 1." in said(done)


@pytest.mark.parametrize("shape", [["n", "t", 8], ["n", 8], ["n", "t", 3, 8]])
def test_rms_normalization_has_a_stand_in(tmp_path, shape):
    x = np.random.default_rng(1).normal(size=[{"n": 2, "t": 5}.get(d, d) for d in shape]).astype(np.float32)
    model, _ = optimized(tmp_path, rms(shape))
    assert "com.microsoft.SkipSimplifiedLayerNormalization" in operators(model) and opset(model) == 18
    wanted, got = (onnxruntime_outputs(tmp_path / name, {"x": x})["y"] for name in ("in.onnx", "out.onnx"))
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    model, _ = optimized(tmp_path, rms(shape), "--target", "ort-cpu@1.23")
    assert operators(model) == ["RMSNormalization"] and opset(model) == 23


@pytest.mark.parametrize("batch", [1, "n"])
def test_rotary_embedding_has_a_stand_in(tmp_path, batch):
    rng = np.random.default_rng(2)
    feeds = {"x": rng.normal(size=(2, 3, 5, 8)), "c": rng.normal(size=(1 if batch == 1 else 2, 1, 5, 4)), "s": rng.normal(size=(1 if batch == 1 else 2, 1, 5, 4))}
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    model, _ = optimized(tmp_path, rope(batch))
    assert "com.microsoft.RotaryEmbedding" in operators(model)
    wanted, got = (onnxruntime_outputs(tmp_path / name, feeds)["y"] for name in ("in.onnx", "out.onnx"))
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    model, _ = optimized(tmp_path, rope(batch), "--target", "ort-cpu@1.23")
    assert "RotaryEmbedding" in operators(model)


@pytest.mark.parametrize("version", ["1.20", "1.22"])
def test_a_model_of_a_newer_opset_is_lowered(tmp_path, version):
    newer = rms(["n", "t", 8], opset=23, ir_version=11)
    model, done = optimized(tmp_path, newer, "--target", f"ort-cpu@{version}")
    wanted = VERSIONS[version]["opset"]
    assert opset(model) == wanted < 23 and model.ir_version <= 10
    assert f"(opset 23 -> {wanted})" in said(done)


def test_a_model_stays_in_an_opset_that_the_release_loads(tmp_path):
    newer = rms(["n", "t", 8], opset=23, ir_version=11)
    model, _ = optimized(tmp_path, newer, "--target", "ort-cpu@1.23")
    assert opset(model) == 23 and operators(model) == ["RMSNormalization"]
    model, _ = optimized(tmp_path, rms(["n", "t", 8], opset=24, ir_version=12), "--target", "ort-cpu@1.31")
    assert opset(model) == 24  # it loads that, too
    model, _ = optimized(tmp_path, newer, "--keep-opset")
    assert opset(model) == 23


def test_what_cannot_be_lowered_stays_with_a_warning(tmp_path):
    loop = helper.make_node("TensorScatter", ["past", "x"], ["y"])
    model = make_model([loop], [value("past", F, [2, 5, 4]), value("x", F, [2, 1, 4])], [value("y", F, [2, 5, 4])], opset=24, ir_version=12)
    result, done = optimized(tmp_path, model, "--target", "ort-cpu@1.20", "--no-verify")
    assert opset(result) == 24 and "loads opset 21 at most, and the model stays in opset 24" in said(done)


def test_an_ir_version_that_nothing_needs_is_lowered(tmp_path):
    model, done = optimized(tmp_path, rms(["n", 8], ir_version=13))
    assert model.ir_version == 10 and "IR 13 -> 10" in said(done)
    model, _ = optimized(tmp_path, rms(["n", 8], ir_version=13), "--target", "ort-cpu@1.31")
    assert model.ir_version == 13


def test_a_newer_release_is_said_to_gain(tmp_path):
    nodes = rms(["n", 8])
    _, done = optimized(tmp_path, nodes)
    assert "ONNX Runtime 1.23 would save" in said(done) and "--target ort-cpu@1.23" in said(done)
    _, done = optimized(tmp_path, nodes, "--target", "ort-cpu@1.23")
    assert "would save" not in said(done)


@pytest.mark.parametrize("target, why", [("ort-cpu@1.19", "the oldest version of ONNX Runtime that is known is 1.20"), ("ort-cpu@new", "is no version of ONNX Runtime"),
                                         ("onnx@1.20", "the target names no versions of a runtime"), ("nosuch@1.20", "no such target or file")])
def test_versions_that_are_none(tmp_path, target, why):
    done = run(BART, tmp_path / "o.onnx", "--target", target)
    assert done.returncode == 2 and why in done.stderr and not (tmp_path / "o.onnx").exists()


def test_a_file_of_ones_own_has_versions(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps({"extends": "ort-cpu", "name": "mine"}))
    run_ok(BART, tmp_path / "o.onnx", "--cost", "nodes", "--target", tmp_path / "mine.json@1.23.2")
    shown = json.loads(run_ok("targets", "show", tmp_path / "mine.json").stdout)
    assert shown["runtime"]["versions"] == VERSIONS
    lacking = dict(shown["runtime"], versions={"1.20": {"opset": 21, "ir": 10, "lacks": ["com.microsoft::BiasGelu"]}})
    (tmp_path / "lacks.json").write_text(json.dumps({"extends": "ort-cpu", "name": "lacks", "runtime": lacking}))
    run_ok(BART, tmp_path / "o.onnx", "--cost", "nodes", "--target", tmp_path / "lacks.json")
    assert "com.microsoft.BiasGelu" not in operators(onnx.load(tmp_path / "o.onnx"))


def test_the_table_is_what_the_installed_runtime_loads():
    done = subprocess.run([sys.executable, ROOT / "bench" / "runtime" / "runtime_versions.py"], capture_output=True, text=True, check=True)
    version, row = next(iter(json.loads("{" + done.stdout + "}").items()))
    older = [v for v in VERSIONS if int(v.split(".")[1]) <= int(version.split(".")[1])]
    assert VERSIONS[max(older, key=lambda v: int(v.split(".")[1]))] == row


def attention_by_choice(mask_shape):
    """The standard's Attention of three heads with a mask of truth values, between the transposes of an export."""
    nodes, four = [], [0, 0, 3, 8]
    for name in "qkv":
        nodes += [helper.make_node("Reshape", [name, "four"], [name + "4"]), helper.make_node("Transpose", [name + "4"], [name + "t"], perm=[0, 2, 1, 3])]
    nodes += [helper.make_node("Attention", ["qt", "kt", "vt", "m"], ["a"], scale=0.3), helper.make_node("Transpose", ["a"], ["at"], perm=[0, 2, 1, 3]),
              helper.make_node("Reshape", ["at", "three"], ["y"])]
    inputs = [value(name, F, ["n", 5, 24]) for name in "qkv"] + [value("m", TensorProto.BOOL, mask_shape)]
    return make_model(nodes, inputs, [value("y", F, ["n", 5, 24])], [tensor("four", np.array(four)), tensor("three", np.array([0, 0, 24]))], opset=23, ir_version=11)


@pytest.mark.parametrize("mask", [["n", 1, 5, 5], ["n", 1, 1, 5], [5, 5], [1, 3, 5, 5]])
def test_attention_of_truth_values_has_a_stand_in(tmp_path, mask):
    model, _ = optimized(tmp_path, attention_by_choice(mask))
    assert "com.microsoft.MultiHeadAttention" in operators(model) and "Softmax" not in operators(model) and opset(model) == 21
    rng = np.random.default_rng(3)
    feeds = {name: rng.normal(size=(2, 5, 24)).astype(np.float32) for name in "qkv"}
    feeds["m"] = rng.random([2 if d == "n" else d for d in mask]) < 0.6
    feeds["m"][..., 0] = True
    feeds["m"].reshape(-1, 5)[-1] = False  # a row that is hidden as a whole is zero
    np.savez(tmp_path / "in.npz", **feeds)
    run_ok("run", tmp_path / "in.onnx", "--inputs", tmp_path / "in.npz", "-o", tmp_path / "wanted.npz")
    wanted, got = np.load(tmp_path / "wanted.npz")["y"], onnxruntime_outputs(tmp_path / "out.onnx", feeds)["y"]
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    assert (wanted == 0).any()
    model, _ = optimized(tmp_path, attention_by_choice(mask), "--target", "ort-cpu@1.23")
    assert "Attention" in operators(model)


def expands_its_mask(model):
    made_by = {name: node for node in model.graph.node for name in node.output}
    masks = [made_by.get(node.input[5]) for node in model.graph.node if node.op_type == "MultiHeadAttention"]
    return [mask is not None and mask.op_type == "Expand" for mask in masks]


def multi_head_attention(batch):
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v", "", "", "m"], ["y"], domain="com.microsoft", num_heads=3)
    inputs = [value(name, F, [batch, 5, 24]) for name in "qkv"] + [value("m", F, [batch, 1, 5, 5])]
    return make_model([node], inputs, [value("y", F, [batch, 5, 24])], domains=["com.microsoft"])


@pytest.mark.parametrize("words, batch, expands", [([], "n", True), (["--target", "ort-cpu@1.20.1"], 2, True), ([], 1, False), (["--target", "ort-cpu@1.21"], "n", False)])
def test_1_20_gets_a_mask_for_each_head(tmp_path, words, batch, expands):
    """ONNX Runtime 1.20 computes wrong numbers of a mask [batch,1,queries,keys]."""
    model, _ = optimized(tmp_path, multi_head_attention(batch), *words)
    assert expands_its_mask(model) == [expands]


@pytest.mark.parametrize("words, adds", [([], False), (["--target", "ort-cpu@1.26"], False), (["--target", "ort-cpu@1.27"], True), (["--target", "ort-web"], False)])
def test_a_convolution_adds_where_the_release_can(tmp_path, words, adds):
    """Before 1.27 FusedConv with a fourth input fails or is wrong on blocks of channels."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Add", ["c", "z"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    shape = [1, 8, 6, 6]
    model = make_model(nodes, [value("x", F, shape), value("z", F, shape)], [value("y", F, shape)], [tensor("w", np.ones((8, 8, 3, 3), np.float32))])
    model, _ = optimized(tmp_path, model, *words)
    assert ("com.microsoft.FusedConv" in operators(model)) == adds


def test_webgpu_skips_no_broadcast(tmp_path):
    def made(skip):
        nodes = [helper.make_node("Add", ["x", "s"], ["a"]), helper.make_node("LayerNormalization", ["a", "g"], ["y"])]
        model = make_model(nodes, [value("x", F, ["n", 5, 8]), value("s", F, skip)], [value("y", F, None)], [tensor("g", np.ones(8, np.float32))])
        return operators(optimized(tmp_path, model, "--target", "ort-web")[0])

    assert made(["n", 5, 8]) == ["com.microsoft.SkipLayerNormalization"] and made([1, 5, 8]) == ["Add", "LayerNormalization"]


def layer_norm(width, dtype=F):
    nodes = [helper.make_node("ReduceMean", ["x", "axes"], ["m"]), helper.make_node("Sub", ["x", "m"], ["d"]), helper.make_node("Mul", ["d", "d"], ["dd"]),
             helper.make_node("ReduceMean", ["dd", "axes"], ["v"]), helper.make_node("Add", ["v", "e"], ["ve"]), helper.make_node("Sqrt", ["ve"], ["r"]),
             helper.make_node("Div", ["d", "r"], ["n"]), helper.make_node("Mul", ["n", "g"], ["a"]), helper.make_node("Add", ["a", "b"], ["y"])]
    weights = [tensor("axes", np.array([-1])), tensor("e", np.float32(1e-5)), *(tensor(name, np.ones(width, np.float32)) for name in "gb")]
    return make_model(nodes, [value("x", F, ["n", 3, width])], [value("y", F, ["n", 3, width])], weights)


@pytest.mark.parametrize("words, width, made", [([], 8, True), ([], 1, False), (["--target", "ort-cpu@1.22"], 1, False), (["--target", "ort-cpu@1.24"], 1, True)])
def test_1_21_to_1_23_refuse_to_normalize_one_element(tmp_path, words, width, made):
    model, _ = optimized(tmp_path, layer_norm(width), *words)
    assert ("LayerNormalization" in operators(model)) == made


@pytest.mark.parametrize("words, dtype, made", [([], TensorProto.DOUBLE, False), (["--target", "ort-cpu@1.25"], TensorProto.DOUBLE, False), (["--target", "ort-cpu@1.26"], TensorProto.DOUBLE, True), ([], F, True)])
def test_no_product_of_doubles_before_1_26(tmp_path, words, dtype, made):
    """Of com.microsoft's FusedMatMul."""
    nodes = [helper.make_node("Transpose", ["b"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["a", "t"], ["y"])]
    model = make_model(nodes, [value("a", dtype, [2, 3, 4]), value("b", dtype, [2, 5, 4])], [value("y", dtype, [2, 3, 5])])
    model, _ = optimized(tmp_path, model, *words)
    assert ("com.microsoft.FusedMatMul" in operators(model)) == made


def integer_product(left, right, depth=4):
    nodes = [helper.make_node("MatMulInteger", ["a", "b"], ["i"]), helper.make_node("Cast", ["i"], ["f"], to=F), helper.make_node("Mul", ["f", "s"], ["y"])]
    weights = [tensor("b", np.ones((depth, 5), right)), tensor("s", np.float32(0.01))]
    return make_model(nodes, [value("a", helper.np_dtype_to_tensor_dtype(np.dtype(left)), ["n", depth])], [value("y", F, ["n", 5])], weights)


@pytest.mark.parametrize("left, right, depth, made", [(np.uint8, np.uint8, 4, True), (np.uint8, np.int8, 4, True), (np.int8, np.int8, 4, False), (np.int8, np.uint8, 4, False), (np.uint8, np.int8, 0, False)])
def test_integer_products_that_no_release_has(tmp_path, left, right, depth, made):
    """int8 by uint8 has no kernel, and of nothing the kernel writes nothing (1.20 to 1.32). int8 by int8 is left to the runtime, which writes uint8."""
    model, _ = optimized(tmp_path, integer_product(left, right, depth), "--target", "ort-cpu@1.31")
    assert ("com.microsoft.MatMulIntegerToFloat" in operators(model)) == made


@pytest.mark.parametrize("words, assumed", [([], True), (["--target", "ort-cpu@1.22"], True), (["--target", "FILE@1.29"], False)])
def test_attention_of_nothing_ends_the_process_before_1_29(tmp_path, words, assumed):
    nodes = []
    for name in "qkv":
        nodes += [helper.make_node("Reshape", [name, "four"], [name + "4"]), helper.make_node("Transpose", [name + "4"], [name + "t"], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])]
    nodes += [helper.make_node("MatMul", ["qt", "kt"], ["s"]), helper.make_node("Softmax", ["s"], ["p"]), helper.make_node("MatMul", ["p", "vt"], ["o"]),
              helper.make_node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]), helper.make_node("Reshape", ["ot", "three"], ["y"])]
    weights = [tensor("four", np.array([0, 0, 3, 8])), tensor("three", np.array([0, 0, 24]))]
    model = make_model(nodes, [value(name, F, ["n", "t", 24]) for name in "qkv"], [value("y", F, ["n", "t", 24])], weights)
    (tmp_path / "mine.json").write_text(json.dumps({"extends": "ort-cpu", "name": "mine", "forbidden": ["Attention"]}))
    words = [word.replace("FILE", str(tmp_path / "mine.json")) for word in words]
    made, printed = optimized(tmp_path, model, *words)
    assert operators(made) == ["com.microsoft.MultiHeadAttention"] and ("no empty batch" in printed.stdout) == assumed, printed.stdout
    without, _ = optimized(tmp_path, model, *words, "--no-assume", "attention_not_empty")
    assert ("com.microsoft.MultiHeadAttention" in operators(without)) != assumed
