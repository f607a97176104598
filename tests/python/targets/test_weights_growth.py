"""Weights that grow: what the runtime unpacks when it loads a model stays packed in the file, growth is said on the first screen, --max-growth bounds it."""
import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import make_model, run, run_ok, tensor, value

onnxruntime = pytest.importorskip("onnxruntime")


def bytes_of_weights(path):
    model = onnx.load(path)
    constants = [a.t for n in model.graph.node if n.op_type == "Constant" for a in n.attribute if a.name == "value"]
    return sum(onnx.numpy_helper.to_array(t).nbytes for t in [*model.graph.initializer, *constants])


def packed_layers(layers=3, width=160):
    """Linear layers whose weights are int8, cast to floats and scaled by column."""
    rng = np.random.default_rng(0)
    nodes, constants, x = [], [], "x"
    for i in range(layers):
        constants += [tensor(f"q{i}", rng.integers(-127, 127, (width, width)).astype(np.int8)), tensor(f"s{i}", (rng.random((1, width)) * 1e-3).astype(np.float32)),
                      tensor(f"b{i}", rng.normal(size=width).astype(np.float32))]
        nodes += [helper.make_node("Cast", [f"q{i}"], [f"f{i}"], to=TensorProto.FLOAT), helper.make_node("Mul", [f"f{i}", f"s{i}"], [f"w{i}"]),
                  helper.make_node("MatMul", [x, f"w{i}"], [f"p{i}"]), helper.make_node("Add", [f"p{i}", f"b{i}"], [f"a{i}"]), helper.make_node("Relu", [f"a{i}"], [f"r{i}"])]
        x = f"r{i}"
    return make_model(nodes, [value("x", TensorProto.FLOAT, [4, width])], [value(x, TensorProto.FLOAT, [4, width])], constants, opset=17)


def sixteen_bits(layers=2, width=160):
    """Linear layers of 16-bit activations, which have no integer kernels: weights that are folded take more space and no time."""
    rng = np.random.default_rng(0)
    nodes, constants, x = [], [tensor("s", np.float32(1e-4)), tensor("z", np.uint16(32768))], "x"
    for i in range(layers):
        constants += [tensor(f"q{i}", rng.integers(-127, 127, (width, width)).astype(np.int8)), tensor(f"ws{i}", np.float32(1e-2)), tensor(f"wz{i}", np.int8(0))]
        nodes += [helper.make_node("QuantizeLinear", [x, "s", "z"], [f"xq{i}"]), helper.make_node("DequantizeLinear", [f"xq{i}", "s", "z"], [f"xd{i}"]),
                  helper.make_node("DequantizeLinear", [f"q{i}", f"ws{i}", f"wz{i}"], [f"w{i}"]), helper.make_node("MatMul", [f"xd{i}", f"w{i}"], [f"p{i}"])]
        x = f"p{i}"
    return make_model(nodes, [value("x", TensorProto.FLOAT, [4, width])], [value(x, TensorProto.FLOAT, [4, width])], constants, opset=21)


@pytest.mark.parametrize("target", ["ort-cpu@1.31"])
def test_what_the_runtime_unpacks_at_load_stays_packed(tmp_path, target):
    onnx.save(packed_layers(), path := tmp_path / "m.onnx")
    said = run_ok(path, "-o", out := tmp_path / "out.onnx", "--target", target).stdout
    assert bytes_of_weights(out) < 1.1 * bytes_of_weights(path) and "max-growth" not in said
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(saved := tmp_path / "saved.onnx")
    onnxruntime.InferenceSession(str(out), options, providers=["CPUExecutionProvider"])
    assert not {"Cast", "Mul"} & {n.op_type for n in onnx.load(saved).graph.node}


def test_growth_is_said_on_the_first_screen(tmp_path):
    onnx.save(sixteen_bits(), path := tmp_path / "m.onnx")
    said = run_ok(path, "-o", out := tmp_path / "out.onnx", "--target", "ort-cpu@1.31").stdout
    assert bytes_of_weights(out) > 2 * bytes_of_weights(path)
    assert re.search(r"weights  [\d.]+ KiB more; --max-growth 0% keeps them out", said), said  # from (nearly) none


@pytest.mark.parametrize("given, factor", [("10%", 1.1), ("1.1", 1.1), ("0%", 1.0), ("1", 1.0), ("250%", 3.5)])
def test_weights_grow_no_further_than_asked(tmp_path, given, factor):
    onnx.save(sixteen_bits(), path := tmp_path / "m.onnx")
    report = json.loads(run_ok("optimize", path, "-o", out := tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--max-growth", given, "--json").stdout)
    assert bytes_of_weights(out) <= factor * bytes_of_weights(path) + 1024
    assert 0 < report["cost_after"] <= report["cost_before"]
    feeds = {"x": np.random.default_rng(1).normal(size=(4, 160)).astype(np.float32)}
    outputs = [onnxruntime.InferenceSession(str(p), providers=["CPUExecutionProvider"]).run(None, feeds)[0] for p in (path, out)]
    assert np.abs(outputs[0] - outputs[1]).max() <= 1e-3 * np.abs(outputs[0]).max()


def test_a_bound_that_part_of_the_weights_may_pass_lets_some_grow(tmp_path):
    onnx.save(sixteen_bits(), path := tmp_path / "m.onnx")
    sizes = []
    for given in ("1", "2.6", "10"):
        run_ok(path, "-o", out := tmp_path / "out.onnx", "--target", "ort-cpu@1.31", "--max-growth", given, "--force")
        sizes.append(bytes_of_weights(out))
    assert sizes[0] <= sizes[1] <= sizes[2] and sizes[0] < sizes[2]


@pytest.mark.parametrize("given", ["-1%", "0.9", "ten", "", "nan", "inf"])
def test_what_is_no_growth_is_refused(tmp_path, given):
    onnx.save(packed_layers(1), path := tmp_path / "m.onnx")
    done = run(path, "-o", tmp_path / "out.onnx", "--max-growth", given)
    assert done.returncode == 2 and "--max-growth" in done.stderr and not (tmp_path / "out.onnx").exists()
