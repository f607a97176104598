"""`slim` and `simplify` in the place of onnxslim's and onnxsim's: the same arguments, each of which does something, warns, or is refused.

The peers' arguments stand in tests/data/peer_signatures.json, which bench/gauges/peer_signatures.py compares with the peers themselves.
"""
import contextlib
import inspect
import json
import warnings

import numpy as np
import onnx
import pytest
from conftest import DATA, ROOT, make_model, tensor, value
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
from onnx_saturate import _drop_in  # noqa: E402

FLOAT = TensorProto.FLOAT
PEERS = json.loads((DATA / "peer_signatures.json").read_text())


def block(batch="n", opset=18, default=False):
    """Relu(Relu(x)) W, and an output that is left over; with `default` W may be given."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]), helper.make_node("Exp", ["a"], ["z"]),
    ]  # fmt: skip
    weights = [tensor("w", np.arange(16, dtype=np.float32).reshape(4, 4))]
    inputs = [value("x", FLOAT, [batch, 4])] + [value("w", FLOAT, [4, 4])] * default
    return make_model(nodes, inputs, [value("y", FLOAT, [batch, 4]), value("z", FLOAT, [batch, 4])], weights, opset=opset)


def normalized():
    """BatchNormalization behind a Conv."""
    rng = np.random.default_rng(3)
    weights = [tensor("k", rng.normal(size=(4, 3, 3, 3)).astype(np.float32)), *(tensor(n, rng.uniform(0.5, 2, 4).astype(np.float32)) for n in "sbmv")]
    nodes = [helper.make_node("Conv", ["x", "k"], ["c"]), helper.make_node("BatchNormalization", ["c", *"sbmv"], ["y"])]
    return make_model(nodes, [value("x", FLOAT, [1, 3, 8, 8])], [value("y", FLOAT, [1, 4, 6, 6])], weights)


def operators(model):
    return sorted(node.op_type for node in model.graph.node)


def size(model, dim=0):
    return model.graph.input[0].type.tensor_type.shape.dim[dim].dim_value


@contextlib.contextmanager
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# The arguments are the peers'

@pytest.mark.parametrize("name, function", [("onnxslim", onnx_saturate.slim), ("onnxsim", onnx_saturate.simplify)])
def test_signature(name, function):
    parameters = inspect.signature(function).parameters.values()
    by_place = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert by_place == PEERS[name]["positional"]
    assert sorted(p.name for p in parameters if p.kind is p.KEYWORD_ONLY) == PEERS[name]["named"]
    assert len(by_place) + len(PEERS[name]["named"]) == len(list(parameters))
    if "defaults" in PEERS[name]:
        assert {p.name: p.default for p in parameters if p.default is not p.empty} == PEERS[name]["defaults"]
    else:
        assert all(p.default in (None, False) for p in parameters if p.name != "model")


@pytest.mark.parametrize("function, page", [(onnx_saturate.slim, "from_onnxslim.md"), (onnx_saturate.simplify, "from_onnxsim.md")])
def test_each_argument_is_tested_and_told(function, page):
    told = (ROOT / "docs" / "guide" / page).read_text()
    tested = {**SLIM, **SLIM_REFUSED} if function is onnx_saturate.slim else {**SIMPLIFY, **SIMPLIFY_REFUSED}
    names = set(inspect.signature(function).parameters) - {"model"}
    assert names == tested.keys()
    assert not [name for name in names if f"`{name}" not in told]


def test_an_unknown_argument_is_a_mistake():
    for function in (onnx_saturate.slim, onnx_saturate.simplify):
        with pytest.raises(TypeError, match="max_iterations"):
            function(block(), max_iterations=3)


# onnxslim

def slim_output_model(folder):
    assert onnx_saturate.slim(block(), folder / "a.onnx") is onnx_saturate.slim(block(), output_model=str(folder / "b.onnx")) is None
    assert operators(onnx.load(folder / "a.onnx")) == operators(onnx.load(folder / "b.onnx")) == ["Exp", "MatMul", "Relu"]


def slim_model_check(folder):
    with silent():
        assert onnx_saturate.slim(block(), model_check=True)


def slim_input_shapes(folder):
    for given in ({"x": [5, 4]}, ["x:5,4"]):
        assert size(onnx_saturate.slim(block(), input_shapes=given)) == 5


def slim_inputs(folder):
    made = onnx_saturate.slim(block(), inputs=["b"], outputs=["y"])
    assert operators(made) == ["MatMul"] and made.graph.input[0].name == "b"
    assert onnx_saturate.slim(block(), inputs=["x:fp16"]).graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT16


def slim_outputs(folder):
    made = onnx_saturate.slim(block(), outputs=["a:fp16"])
    assert operators(made) == ["Cast", "Relu"] and made.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    with pytest.raises(onnx_saturate.Error, match="nowhere"):
        onnx_saturate.slim(block(), outputs=["nowhere"])


def slim_warns(**given):
    with pytest.warns(RuntimeWarning, match=next(iter(given))) as caught:
        assert operators(onnx_saturate.slim(block(), **given)) == ["Exp", "MatMul", "Relu"]
    assert "no effect" in str(caught[0].message) and caught[0].filename == __file__


def slim_skip_optimizations(folder):
    assert operators(onnx_saturate.slim(block(), skip_optimizations=["graph_fusion"])) == ["Exp", "MatMul", "Relu", "Relu"]
    slim_warns(skip_optimizations=["constant_folding"])
    with pytest.raises(onnx_saturate.OptionError, match="graph_fusion, dead_node"):
        onnx_saturate.slim(block(), skip_optimizations=["everything"])


def slim_dtype(folder):
    for name in ("fp16", "float16"):
        made = onnx_saturate.slim(block(), dtype=name)
        assert made.graph.input[0].type.tensor_type.elem_type == made.graph.initializer[0].data_type == TensorProto.FLOAT16
    assert onnx_saturate.slim(block(), folder / "h.onnx", dtype="fp16") is None
    assert onnx.load(folder / "h.onnx").graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    with pytest.raises(onnx_saturate.OptionError, match="dtype: 'int8': not done here; float16"):
        onnx_saturate.slim(block(), dtype="int8")


def slim_skip_fusion_patterns(folder):
    model = onnx.load(DATA / "bart_encoder.onnx")
    del model.opset_import[:]
    model.opset_import.add(version=20)
    assert operators(onnx_saturate.slim(model)).count("Gelu") == 2
    assert operators(onnx_saturate.slim(model, skip_fusion_patterns=["FusionGelu"])).count("Gelu") == 0
    with pytest.raises(onnx_saturate.OptionError, match="no such rule"):
        onnx_saturate.slim(model, skip_fusion_patterns=["nothing"])


def slim_save_as_external_data(folder):
    big = block()
    big.graph.initializer[0].CopyFrom(tensor("w", np.ones((4, 4000), np.float32)))
    onnx_saturate.slim(big, folder / "big.onnx", save_as_external_data=True)
    assert (folder / "big.onnx.data").stat().st_size >= 64000


def slim_model_check_inputs(folder):
    np.save(folder / "x.npy", np.ones((3, 4), np.float32))
    for word in ("x:2,4", f"x:{folder / 'x.npy'}"):
        assert onnx_saturate.slim(block(), model_check=True, model_check_inputs=[word])
    for wrong, said in (["u:2,4"], "no such input"), ([f"x:{folder / 'none.npy'}"], "none.npy"), (["x:2,n"], "not all numbers"):
        with pytest.raises(onnx_saturate.OptionError, match=said):
            onnx_saturate.slim(block(), model_check_inputs=wrong)


SLIM = {
    "output_model": slim_output_model, "model_check": slim_model_check, "input_shapes": slim_input_shapes, "inputs": slim_inputs,
    "outputs": slim_outputs, "no_shape_infer": lambda _: slim_warns(no_shape_infer=True), "skip_optimizations": slim_skip_optimizations,
    "dtype": slim_dtype, "skip_fusion_patterns": slim_skip_fusion_patterns, "size_threshold": lambda _: slim_warns(size_threshold=1024),
    "inspect": lambda _: slim_warns(inspect=True), "save_as_external_data": slim_save_as_external_data, "model_check_inputs": slim_model_check_inputs,
}  # fmt: skip
SLIM_REFUSED = {"dump_to_disk": True, "verbose": None}


def test_the_calls_of_exporters(tmp_path):
    """optimum-onnx and transformers.js slim a path and save what comes back over it; ultralytics slims a model, and tells the version."""
    onnxslim = onnx_saturate
    onnx.save(block(), tmp_path / "model.onnx")
    made = onnxslim.slim(str(tmp_path / "model.onnx"))
    onnx.checker.check_model(made)
    onnx.save(made, tmp_path / "model.onnx")
    assert onnxslim.slim(block()) == made and onnxslim.__version__.count(".") == 2


@pytest.mark.parametrize("argument", SLIM)
def test_slim(argument, tmp_path):
    SLIM[argument](tmp_path)


def test_slim_verbose(capsys):
    assert onnx_saturate.slim(block(), verbose=True) and "operators" in capsys.readouterr().out
    assert onnx_saturate.slim(block()) and capsys.readouterr().out == ""


def test_slim_dump_to_disk():
    with pytest.raises(onnx_saturate.OptionError, match="slim: dump_to_disk: not done here; inspect"):
        onnx_saturate.slim(block(), dump_to_disk=True)


def test_slim_of_several_models_tells_them(capsys, tmp_path):
    onnx.save(block(), tmp_path / "m.onnx")
    assert onnx_saturate.slim([block(), str(tmp_path / "m.onnx")]) is None
    told = capsys.readouterr().out
    assert told.count("4 nodes") == 2 and "m.onnx" in told and "Relu" in told


def test_the_opset_stays():
    for opset in (13, 18, 20):
        for made in (onnx_saturate.slim(block(opset=opset)), onnx_saturate.simplify(block(opset=opset))[0]):
            assert made.opset_import[0].version == opset and all(node.domain in ("", "ai.onnx") for node in made.graph.node)


# onnxsim

def simplified(model=None, **given):
    with silent():
        made, right = onnx_saturate.simplify(block() if model is None else model, **given)
    assert right is True
    return made


def simplify_warns(**given):
    with pytest.warns(RuntimeWarning, match=f"simplify: {next(iter(given))} has no effect") as caught:
        made, right = onnx_saturate.simplify(block(), **given)
    assert right and operators(made) == ["Exp", "MatMul", "Relu"] and caught[0].filename == __file__


def simplify_check_n(folder):
    assert operators(simplified(check_n=3)) == operators(onnx_saturate.simplify(block(), 3)[0]) == ["Exp", "MatMul", "Relu"]
    with pytest.raises(onnx_saturate.OptionError, match="check_n"):
        onnx_saturate.simplify(block(), check_n=-1)


def simplify_perform_optimization(folder):
    assert operators(simplified(perform_optimization=False)) == ["Exp", "MatMul", "Relu", "Relu"]


def simplify_skip_fuse_bn(folder):
    assert operators(simplified(normalized())) == ["Conv"]
    assert operators(simplified(normalized(), skip_fuse_bn=True)) == ["BatchNormalization", "Conv"]


def simplify_overwrite_input_shapes(folder):
    assert size(simplified(overwrite_input_shapes={"x": [7, 4]})) == 7


def simplify_test_input_shapes(folder):
    made = simplified(test_input_shapes={"x": [7, 4]})
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    with pytest.raises(onnx_saturate.OptionError, match="no such input; the model has x"):
        onnx_saturate.simplify(block(), test_input_shapes={"u": [1, 4]})


def simplify_skipped_optimizers(folder):
    simplify_warns(skipped_optimizers=["eliminate_deadend"])
    assert operators(simplified(normalized(), skipped_optimizers=["fuse_bn_into_conv"])) == ["BatchNormalization", "Conv"]


def simplify_input_data(folder):
    assert simplified(input_data={"x": np.ones((3, 4), np.float32)})
    with pytest.raises(onnx_saturate.Error):
        onnx_saturate.simplify(block(), input_data={"x": np.ones((3, 5), np.float32)})


def simplify_custom_lib(folder):
    pytest.importorskip("onnxruntime")
    with pytest.raises(onnx_saturate.Error, match="own.so: there is no such file"):
        onnx_saturate.simplify(block(), custom_lib=str(folder / "own.so"))


def simplify_unused_output(folder):
    assert [output.name for output in simplified(unused_output=["z"]).graph.output] == ["y"]


def simplify_mutable_initializer(folder):
    assert [one.name for one in simplified(block(default=True)).graph.input] == ["x"]
    assert [one.name for one in simplified(block(default=True), mutable_initializer=True).graph.input] == ["x", "w"]


def simplify_input_shapes(folder):
    assert size(simplified(input_shapes=["x:7,4"])) == 7


def simplify_target_opset_version(folder):
    assert simplified(target_opset_version=20).opset_import[0].version == 20
    assert simplified(target_opset_version="latest").opset_import[0].version == onnx.defs.onnx_opset_version()


def simplify_tolerance(name):
    def try_it(folder):
        assert simplified(**{name: 0.5})
        with pytest.raises(onnx_saturate.OptionError, match=name):
            onnx_saturate.simplify(block(), **{name: -1})

    return try_it


def simplify_input_fill(folder):
    for fill in ("ones", "zeros", "arange"):
        assert simplified(input_fill=fill, test_input_shapes={"x": [2, 4]})
    with pytest.raises(onnx_saturate.OptionError, match="random, ones, zeros, arange"):
        onnx_saturate.simplify(block(), input_fill="noise", test_input_shapes={"x": [2, 4]})
    with pytest.raises(onnx_saturate.OptionError, match="not all numbers"):
        onnx_saturate.simplify(block(), input_fill="ones")


def simplify_output_path(folder):
    onnx.save(block(), folder / "m.onnx")
    made = simplified(str(folder / "m.onnx"), output_path=str(folder / "out.onnx"))
    assert onnx.load(folder / "out.onnx") == made
    with pytest.raises(ValueError, match="output_path"):
        onnx_saturate.simplify(block(), output_path=str(folder / "out.onnx"))


def simplify_external_data_threshold(folder):
    big = block()
    big.graph.initializer[0].CopyFrom(tensor("w", np.ones((4, 4000), np.float32)))
    onnx.save(big, folder / "m.onnx")
    for threshold, apart in ("10KB", True), ("1MB", False):
        simplified(str(folder / "m.onnx"), output_path=str(folder / f"{apart}.onnx"), external_data_threshold=threshold)
        assert (folder / f"{apart}.onnx.data").exists() is apart
    with pytest.raises(onnx_saturate.OptionError, match="write 100MB"):
        onnx_saturate.simplify(block(), external_data_threshold="much")


def simplify_certify(folder):
    assert simplified(certify=True) and simplified(certify=False)


SIMPLIFY = {
    "check_n": simplify_check_n, "perform_optimization": simplify_perform_optimization, "skip_fuse_bn": simplify_skip_fuse_bn,
    "overwrite_input_shapes": simplify_overwrite_input_shapes, "test_input_shapes": simplify_test_input_shapes,
    "skipped_optimizers": simplify_skipped_optimizers, "input_data": simplify_input_data, "custom_lib": simplify_custom_lib,
    "unused_output": simplify_unused_output, "mutable_initializer": simplify_mutable_initializer, "input_shapes": simplify_input_shapes,
    "target_opset_version": simplify_target_opset_version, "check_rtol": simplify_tolerance("check_rtol"), "check_atol": simplify_tolerance("check_atol"),
    "input_fill": simplify_input_fill, "output_path": simplify_output_path, "external_data_threshold": simplify_external_data_threshold,
    "certify": simplify_certify,
    "skip_shape_inference": lambda _: simplify_warns(skip_shape_inference=True), "dynamic_input_shape": lambda _: simplify_warns(dynamic_input_shape=True),
    "include_subgraph": lambda _: simplify_warns(include_subgraph=True), "tensor_size_threshold": lambda _: simplify_warns(tensor_size_threshold="10MB"),
    "import_custom_schemas": lambda _: simplify_warns(import_custom_schemas=False), "providers": lambda _: simplify_warns(providers=["CPUExecutionProvider"]),
    "gemm_fusion_backend": lambda _: simplify_warns(gemm_fusion_backend="webgpu"),
}  # fmt: skip
SIMPLIFY_REFUSED = {
    "skip_constant_folding": True, "initializers_as_constants": False, "inline_functions": True, "extra_optimizers": ["a"], "custom_rewriter": print,
    "function_rewrite_rules": [("a", "b")], "profile": "", "ort_profile": "p", "merge_ort_profile": True, "range_opt": True, "check_hazards": True,
    "check_gradients": True, "gradient_precision": "bf16",
}  # fmt: skip


@pytest.mark.parametrize("argument", SIMPLIFY)
def test_simplify(argument, tmp_path):
    SIMPLIFY[argument](tmp_path)


@pytest.mark.parametrize("argument", SIMPLIFY_REFUSED)
def test_simplify_refuses(argument):
    with pytest.raises(onnx_saturate.OptionError, match=f"simplify: {argument}: not done here; "):
        onnx_saturate.simplify(block(), **{argument: SIMPLIFY_REFUSED[argument]})
    assert argument in _drop_in.SIMPLIFY_REFUSED


@pytest.mark.parametrize("call, asks", [(onnx_saturate.slim, {"model_check": True}), (onnx_saturate.simplify, {"check_n": 1})])
def test_what_cannot_be_run_is_not_checked_unasked(monkeypatch, call, asks):
    def only_unverified(model, output, **options):
        if options.get("verify", True):
            raise onnx_saturate.UnsupportedError("Own: no kernel")
        return real(model, output, **options)

    real = _drop_in.optimize_with_report
    monkeypatch.setattr(_drop_in, "optimize_with_report", only_unverified)
    with pytest.warns(RuntimeWarning, match="not verified: Own"):
        assert call(block())
    with pytest.raises(onnx_saturate.UnsupportedError):
        call(block(), **asks)


def test_a_model_that_is_never_the_same_comes_back(monkeypatch):
    def refuse(*_, **__):
        raise onnx_saturate.VerificationError("y: differs")

    monkeypatch.setattr(_drop_in, "optimize_with_report", refuse)
    model = block()
    with pytest.warns(RuntimeWarning, match="stays as it is: y: differs"):
        assert onnx_saturate.simplify(model) == (model, False)
