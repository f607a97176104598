"""The package as its users type it: each row of section 1.6 of the newcomer's protocol, and what the command can."""
import pathlib
import pydoc
import warnings
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from conftest import DATA, make_model, tensor, value
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
OptionError = onnx_saturate.OptionError
BART = DATA / "bart_encoder.onnx"


@pytest.fixture
def model():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["y"])]
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["batch", 4])], [value("y", TensorProto.FLOAT, None)], [tensor("w", np.eye(4, dtype=np.float32))])


REFUSED = [
    ({"dims": {"batch": "1"}}, "dims: 'batch': '1' is not a whole number"),
    ({"dims": {"batch": 1.5}}, "dims: 'batch': 1.5 is not a whole number"),
    ({"dims": {"batch": True}}, "dims: 'batch': True is not a whole number"),
    ({"dims": {"batch": -1}}, "dims: 'batch': -1 is out of bounds"),
    ({"dims": {"batch": 0}}, "allow_empty takes it"),
    ({"dims": {"Batch": 1}}, "dims Batch=1: the model has no symbolic dim 'Batch'; did you mean 'batch'?"),
    ({"dims": 3}, "dims: 3 is not"),
    ({"dims": ["batch"]}, "NAME=SIZE"),
    ({"input_shapes": {"x": "1,4"}}, "input_shapes: 'x': '1,4' is not a list of whole numbers"),
    ({"input_shapes": {"x": [1.5, 4]}}, "input_shapes: 'x': 1.5 is not a whole number"),
    ({"input_shapes": {"x": [1, 4, 4]}}, "rank 2, not 3"),
    ({"input_shapes": {"z": [1, 4]}}, "did you mean 'x'?"),
    ({"input_shapes": ["x"]}, "NAME:1,3,224,224"),
    ({"input_shapes": ["x:1,,4"]}, "'1,,4' is not a list of whole numbers"),
    ({"opset": "17"}, "opset: '17' is not a whole number"),
    ({"opset": 99}, "1 to 28"),
    ({"opset": 0}, "1 to 28"),
    ({"time_limit": "10"}, "time_limit: '10' is not a number"),
    ({"time_limit": float("nan")}, "time_limit: nan is out of bounds"),
    ({"time_limit": -1}, "time_limit: -1 is out of bounds"),
    ({"seed": "a"}, "seed: 'a' is not a whole number"),
    ({"seed": -1}, "seed: -1 is out of bounds"),
    ({"threads": -1}, "threads: -1 is out of bounds; give a whole number from 0 to 4096"),
    ({"threads": 1.0}, "threads: 1.0 is not a whole number"),
    ({"node_limit": 0}, "node_limit: 0 is out of bounds"),
    ({"verify": "no"}, "verify: 'no' is neither True nor False"),
    ({"approximate": 1}, "approximate: 1 is neither True nor False"),
    ({"target": 3}, "target: 3 is not a text"),
    ({"target": "cuda"}, "did you mean 'ort-cuda'"),
    ({"target": ""}, "target: '' is empty"),
    ({"cost": 3}, "cost: 3 is not a text"),
    ({"cost": "measurd"}, "did you mean 'measured'?"),
    ({"cost": lambda op: "x"}, ": 'x' is not a number"),
    ({"cost": lambda op: None}, ": None is not a number"),
    ({"cost": lambda op: -1}, "costs"),
    ({"rules": 3}, "rules: 3 is not a list of texts"),
    ({"inputs": 3}, "inputs: 3 is neither a dict of arrays nor a list of them"),
    ({"progress": "yes"}, "progress: 'yes' is neither True nor False"),
    ({"base_dir": 3}, "base_dir: 3 is not a text"),
    ({"cost_at": [3]}, "cost_at: 3 is not sizes of dims"),
    ({"memory_slack": 11}, "0 to 10"),
    ({"max_growth": 0.5}, "from 1"),
    ({"extractor": "serch"}, "did you mean 'search'?"),
    ({"skip_rules": "sdpa_of_produc"}, "did you mean 'sdpa_of_product'?"),
    ({"skip_rules": 3}, "skip_rules: 3 is not a list of texts"),
    ({"skip_rules": [3]}, "skip_rules: 3 is not a text"),
    ({"skip_fusions": "Attenion"}, "skip_fusions Attenion: no rule makes such an operator; did you mean 'Attention'?"),
    ({"no_assume": "everything"}, "no such assumption"),
    ({"assume": "causal_row"}, "did you mean 'causal_rows'?"),
    ({"steps": 70000}, "steps: 70000 is out of bounds"),
    ({"external_data_threshold": "1"}, "external_data_threshold: '1' is not a whole number"),
    ({"opset": 17, "keep_opset": True}, "opset and keep_opset"),
]  # fmt: skip


@pytest.mark.parametrize("options, says", REFUSED, ids=[f"{i}-{next(iter(row[0]))}" for i, row in enumerate(REFUSED)])
def test_what_makes_no_sense_is_an_option_error(model, options, says):
    before = model.SerializeToString(deterministic=True)
    with pytest.raises(OptionError) as raised:
        onnx_saturate.optimize(model, **options)
    assert says in str(raised.value) and "\n" not in str(raised.value), raised.value
    assert model.SerializeToString(deterministic=True) == before


TAKEN = [
    {"dims": {"batch": np.int64(2)}}, {"dims": ["batch=2"]}, {"input_shapes": ["x:2,4"]}, {"input_shapes": "x:2,4"}, {"input_shapes": {"x": [None, 4]}},
    {"input_shapes": {"x": ("batch", np.int32(4))}}, {"input_shapes": {"x": np.array([2, 4])}}, {"opset": np.int64(20)}, {"time_limit": np.float32(5)},
    {"seed": np.uint8(3)}, {"verify": np.True_}, {"threads": np.int32(1)}, {"skip_rules": "sdpa_of_product"}, {"no_assume": "all"}, {"not_assumed": ["all"]},
    {"skip_fusions": "Attention"}, {"prefer": "single-heads"}, {"target": pathlib.PurePath("onnx")}, {"cost": lambda op: np.float32(1)}, {"cost_at": {"batch": 8}},
    {"cost_at": [({"batch": 1}, 0.5), {"batch": 8}]}, {"memory_slack": 0.02}, {"opset": None, "dims": None},
]  # fmt: skip


@pytest.mark.parametrize("options", TAKEN, ids=[f"{i}-{next(iter(row))}" for i, row in enumerate(TAKEN)])
def test_what_makes_sense(model, options):
    result = onnx_saturate.optimize(model, **options)
    assert [node.op_type for node in result.graph.node].count("Relu") == 1
    if options.get("dims") or options.get("input_shapes") == ["x:2,4"]:
        assert result.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2


def test_an_unknown_option_is_a_type_error(model):
    with pytest.raises(TypeError, match="no such option: opt_level; .*onnx_saturate.Options lists them"):
        onnx_saturate.optimize(model, opt_level=3)
    with pytest.raises(TypeError, match="no such option: strict_verfy; did you mean 'strict_verify'"):
        onnx_saturate.optimize(model, strict_verfy=True)
    with pytest.raises(TypeError, match="did you mean 'warmup'"):
        onnx_saturate.bench(model, warmpu=3)


def test_program_of_torch(model):
    program = SimpleNamespace(model_proto=model)  # what is asked of an ONNXProgram
    assert isinstance(onnx_saturate.optimize(program), onnx.ModelProto)
    assert onnx_saturate.verify(program, onnx_saturate.optimize(program)).equal
    with pytest.raises(TypeError, match="not SimpleNamespace"):
        onnx_saturate.optimize(SimpleNamespace())


def test_missing_file(tmp_path):
    (tmp_path / "model.onnx").write_bytes(BART.read_bytes())
    for call in (onnx_saturate.optimize, onnx_saturate.inspect, onnx_saturate.Session):
        with pytest.raises(FileNotFoundError, match="did you mean .*model.onnx") as raised:
            call(tmp_path / "modle.onnx")
        assert isinstance(raised.value, onnx_saturate.Error) and isinstance(raised.value, onnx_saturate.MissingFileError)
        assert raised.value.filename == str(tmp_path / "modle.onnx")
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(onnx_saturate.Error, match="GGUF") as raised:
        onnx_saturate.optimize(tmp_path / "m.gguf")
    assert not isinstance(raised.value, FileNotFoundError)


def test_what_can_not_be_verified_is_no_model(model):
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    with pytest.raises(onnx_saturate.UnsupportedError):
        onnx_saturate.optimize(model)


def test_each_warning_of_the_report_is_a_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = onnx_saturate.optimize_with_report(BART, iterations=1).report
    told = [str(w.message) for w in caught]
    assert all(text in told for text in report.warnings)


@pytest.mark.parametrize("function", [onnx_saturate.optimize, onnx_saturate.optimize_with_report, onnx_saturate.explain])
def test_help_lists_all_options(function):
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    for name in onnx_saturate.Options.__annotations__:
        assert f"    {name}: " in text, name
    assert "(30)" in text and "(True)" in text  # defaults


def test_reprs_are_short(model):
    optimized = onnx_saturate.optimize_with_report(model)
    assert "\n" not in repr(optimized) and len(repr(optimized)) < 200 and "3 -> 2 operators" in repr(optimized)
    assert "\n" not in repr(optimized.report) and "operator" in str(optimized.report)
    assert "<table>" in optimized._repr_html_() == optimized.report._repr_html_()
    verification = onnx_saturate.verify(model, optimized.model)
    assert len(repr(verification)) < 200 and "equal=True" in repr(verification)


def test_bench_extract_and_cost(tmp_path, model):
    told = onnx_saturate.bench(model, onnx_saturate.optimize(model), iterations=2, warmup=0, dims={"batch": 2})
    assert len(told["models"]) == 2 and "ratio" in told
    onnx_saturate.bench(model, inputs={"x": np.zeros((3, 4), np.float32)}, iterations=1)
    with pytest.raises(OptionError, match="no symbolic dim 'foo'"):
        onnx_saturate.bench(model, dims={"foo": 1})
    onnx_saturate.extract(model, tmp_path / "graphs", samples=2, cost="nodes")
    assert (tmp_path / "graphs").is_dir() and list((tmp_path / "graphs").glob("*.onnx"))
    onnx_saturate.cost.gather([model], tmp_path / "rows.jsonl", seconds=0.001, dims={"batch": 1})
    onnx_saturate.cost.fit(tmp_path / "rows.jsonl", tmp_path / "mine.json", kind="measured")
    assert onnx_saturate.optimize(model, cost=tmp_path / "rows.jsonl")
    told = onnx_saturate.cost.calibrate(tmp_path / "here.jsonl", rows=4, seconds=2)
    assert told["rows"] == 4 and onnx_saturate.optimize(model, cost=tmp_path / "here.jsonl")
    with pytest.raises(OptionError, match="rows"):
        onnx_saturate.cost.calibrate(tmp_path / "here.jsonl", rows=301)


def test_rules_and_targets(tmp_path, model):
    names = {rule["name"] for rule in onnx_saturate.rules.list()}
    assert "sdpa_of_product" in names and onnx_saturate.rules.show("sdpa_of_product") and onnx_saturate.rules.functions()
    (tmp_path / "my.rules").write_text("rule relu_twice (X) Relu (Relu (X)) => Relu (X)")
    with pytest.raises(onnx_saturate.Error, match="my.rules:1"):
        onnx_saturate.rules.check(tmp_path / "my.rules")
    with pytest.raises(OptionError, match="did you mean"):
        onnx_saturate.rules.show("sdpa_of_produc")
    assert "ort-cpu" in onnx_saturate.targets() and "ort-cpu" in repr(onnx_saturate.targets)
    assert onnx_saturate.targets.show("ort-cpu")["name"] == "ort-cpu"
    assert onnx_saturate.targets.check(model, "ort-cpu") == []
    with pytest.raises(OptionError, match="did you mean 'ort-cpu'"):
        onnx_saturate.targets.show("ort-cpi")


def test_inputs_that_do_not_fit_are_at_fault(tmp_path):
    """No model is told to be mended for them."""
    bart, ids = DATA / "bart_encoder.onnx", np.ones((2, 5), np.int64)
    for given, said in (
        ({"input_ids": ids}, "inputs: 'attention_mask' is missing; the model reads input_ids, attention_mask"),
        ({"input_ids": ids, "attention_mask": ids.astype(np.float32)}, "inputs: 'attention_mask' is float, and the model reads int64"),
        ({"input_ids": ids, "attention_mask": ids[0]}, r"inputs: 'attention_mask' has the dims \[5\]"),
    ):
        for call in (onnx_saturate.optimize, onnx_saturate.explain, lambda model, **options: onnx_saturate.verify(model, model, **options)):
            with pytest.raises(onnx_saturate.OptionError, match=said):
                call(bart, inputs=given)
    with pytest.raises(onnx_saturate.Error, match="give inputs that it takes$"):
        onnx_saturate.optimize(bart, inputs={"input_ids": ids, "attention_mask": np.ones((2, 6), np.int64)})


def test_what_is_no_file_of_a_model_or_of_rules(tmp_path):
    with pytest.raises(onnx_saturate.MissingFileError, match="models are files; download it first"):
        onnx_saturate.optimize("https://example.com/m.onnx")
    with pytest.raises(onnx_saturate.MissingFileError, match="optimum-cli export onnx"):
        onnx_saturate.inspect("some-org/some-model")
    for name in ("out.ort", "out.engine"):
        with pytest.raises(onnx_saturate.OptionError, match="output: .*out"):
            onnx_saturate.optimize(DATA / "bart_encoder.onnx", tmp_path / name)
    assert not list(tmp_path.iterdir())
    with pytest.raises(onnx_saturate.OptionError, match="RuleSet.builtin"):
        onnx_saturate.optimize(DATA / "bart_encoder.onnx", rules="rule a (X) => (Y)\n  Neg (Neg (X)) => Identity (X)\n")
    assert "list, show, check" in repr(onnx_saturate.rules) and "gather, fit" in repr(onnx_saturate.cost)


@pytest.mark.parametrize("most", [16, 64, 256, 1024])
def test_constants_beyond_the_memory_for_folding_are_no_constants(most):
    """Many constants cost as little as the one that cannot be computed: all of them are asked, and not one after the other."""
    mask = np.zeros((2, 1, 5, 9), np.float16)
    mask[..., 1::3] = -6e4
    sizes = {"q": [2, 5, 24], "k": [2, 5, 24], "past_k": [2, 3, 4, 8], "past_v": [2, 3, 4, 8]}
    half = onnx.TensorProto.FLOAT16
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "k", "", "", "m", "past_k", "past_v"], ["y", "new_k", "new_v"], domain="com.microsoft", num_heads=3, scale=0.5
    )
    inputs = [helper.make_tensor_value_info(name, half, dims) for name, dims in sizes.items()]
    outputs = [helper.make_tensor_value_info(name, half, None) for name in node.output]
    graph = helper.make_graph([node], "g", inputs, outputs, [onnx.numpy_helper.from_array(mask, "m")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    result = onnx_saturate.optimize(model, target="onnx", opset=17, max_memory=most, progress=False, verify=False, time_limit=20)
    assert {node.domain for node in result.graph.node} == {""}
