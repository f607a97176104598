"""The pass of Olive. Its options are those of the command (with or without Olive); runs of the pass need olive-ai."""
import json
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import DATA, ROOT, make_model, run_ok, tensor, value
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
from onnx_saturate import _command_options as command_options  # noqa: E402

BART = DATA / "bart_encoder.onnx"

# Options of the command that the pass has no field for, and why.
NOT_OF_A_PASS = {
    "--help": "",
    "--output": "Olive says where the result goes",
    "--output-dir": "the same",
    "--report-dir": "of many models",
    "--html": "a page to look at; --report has what it shows",
    "--jobs": "the same",
    "--force": "the same",
    "--stop-after": "there would be no result",
    "--quiet": "what is printed goes to the log",
    "--color": "what is printed goes to the log",
    "--json": "the same",
    "--external-data": "Olive's save_as_external_data",
    "--external-data-threshold": "Olive's size_threshold",
    "--external-data-format": "Olive writes the result",
}


def test_every_option_of_the_command_has_a_field():
    shown = re.findall(r"^  (-\S*)(?: |$)", run_ok("optimize", "--help").stdout, re.MULTILINE)
    options = {next(word for word in given.split(",") if word.startswith("--")) for given in shown}
    assert len(options) > 40
    words = {option.word for option in command_options.OPTIONS} | {"--no-within-one-step"}
    assert options - words == NOT_OF_A_PASS.keys(), "give it a row in _command_options.py"
    assert words <= options


def test_fields_have_the_names_of_the_package():
    names = {option.name for option in command_options.OPTIONS}
    of_the_package = set(onnx_saturate.Options.__annotations__)
    # A function, bars of progress, and where models from memory lie; the older name; what Olive has itself.
    assert of_the_package - names == {"constant_cost", "progress", "base_dir", "not_assumed", "external_data", "external_data_threshold", "external_data_format"}
    only_of_the_command = {"before", "after", "strict_budget", "report", "dump", "dump_egraph", "save_repro", "verbose", "diff"}
    assert names - of_the_package == only_of_the_command
    page = (ROOT / "docs" / "olive.md").read_text()
    assert not [name for name in names if f"`{name}`" not in page]


def test_words():
    given = {
        "target": "onnx", "prefer": "single-heads", "skip_rules": ["a", "b"], "opset": 20, "time_limit": 2.5, "approximate": True, "rescale": False,
        "verify": False, "within_one_step": False, "dims": {"n": 2}, "input_shapes": {"x": [1, -1]}, "cost": None,
    }  # fmt: skip
    assert sorted(command_options.words(given)) == sorted(
        ["--target=onnx", "--prefer=single-heads", "--skip-rule=a", "--skip-rule=b", "--opset=20", "--time-limit=2.5", "--approximate", "--no-verify",
         "--no-within-one-step", "--dim=n=2", "--input-shapes=x:1,-1"]
    )  # fmt: skip
    assert command_options.words({"within_one_step": True, "verify": True}) == ["--within-one-step"]


# For each field a value that the command takes, with the BART encoder; files are made where they are to be.
def values(folder):
    np.savez(folder / "x.npz", **bart_inputs())
    (folder / "mine.rules").write_text('opset "" 20\n\nrule relu_relu (X) => (Y)\n  Relu (Relu (X)) => Relu (X)\n  example X = float[2,3]\n')
    return {
        "target": "onnx", "cost": "nodes", "extractor": "bottom-up", "report": str(folder / "r.json"), "dump_egraph": str(folder / "g.json"),
        "save_repro": str(folder / "repro"), "prefer": ["single-heads"], "cost_at": ["batch=2"], "rules": [str(folder / "mine.rules")],
        "assume": ["causal_rows"], "no_assume": ["all"], "inputs": [str(folder / "x.npz")], "dump": [f"emit={folder / 'emit.txt'}"],
        "skip_rules": ["gelu"], "skip_fusions": ["Gelu"], "opset": 21, "io_rank": 4, "iterations": 5, "node_limit": 5000, "memory_limit": 500, "max_memory": 1000, "threads": 2,
        "steps": 1, "seed": 7, "memory_slack": 0.02, "max_growth": 1.5, "time_limit": 30.0, "rtol": 1e-3, "atol": 1e-5, "approximate": True, "rescale": True,
        "keep_opset": True, "allow_empty": True, "strict_verify": True, "strict_budget": True, "debug_rules": True, "verbose": True, "verify": False,
        "within_one_step": True, "dims": {}, "input_shapes": {}, "annotate": True, "diff": True,
        "judge": ["saturate"], "onnxruntime": None, "measure": 2.0, "measured": str(folder / "answers.jsonl"),
        "runtime": "saturate", "custom_op_library": [], "keep_functions": True, "before": [], "after": [],
    }  # fmt: skip


def bart_inputs():
    rng = np.random.default_rng(3)
    out = {}
    for given in onnx.load(BART).graph.input:
        kind = given.type.tensor_type
        shape = [d.dim_value or 2 + axis for axis, d in enumerate(kind.shape.dim)]
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        out[given.name] = rng.integers(0, 2, shape).astype(dtype) if dtype.kind in "iub" else rng.normal(size=shape).astype(dtype)
    return out


@pytest.fixture
def small(tmp_path):
    """Two Relus, of inputs with symbolic dims."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Add", ["b", "c"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 3])], [value("y", TensorProto.FLOAT, ["n", 3])], [tensor("c", np.ones(3, np.float32))])
    path = tmp_path / "small.onnx"
    onnx.save(model, path)
    return path


# ---- with Olive -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def olive_pass(monkeypatch):
    """Makes the pass by a configuration, and runs it."""
    monkeypatch.setenv("OLIVE_DISABLE_TELEMETRY", "1")
    pytest.importorskip("olive.passes", reason="olive-ai is not installed")
    from olive.hardware.accelerator import AcceleratorSpec, Device
    from olive.model import ONNXModelHandler
    from olive.passes.olive_pass import create_pass_from_dict

    import onnx_saturate.olive

    def run(model, config, output):
        spec = AcceleratorSpec(Device.CPU, "CPUExecutionProvider")
        step = create_pass_from_dict(onnx_saturate.olive.SaturatePass, config, disable_search=True, accelerator_spec=spec)
        return step.run(ONNXModelHandler(str(model)), str(output))

    return run


def test_the_pass(olive_pass, tmp_path):
    result = olive_pass(BART, {"cost": "nodes"}, tmp_path / "out")
    assert sum(node.op_type == "Attention" for node in onnx.load(result.model_path).graph.node) == 2


def test_the_pass_takes_every_option(olive_pass, tmp_path):
    """Each field by its name; the result is that of the command with the same option."""
    given = values(tmp_path)
    assert given.keys() == {option.name for option in command_options.OPTIONS}
    together = {"target": "ort-cpu", "cost": "nodes", "time_limit": 120.0}
    for name, setting in given.items():
        config = {**together, name: setting}
        if name == "save_repro":
            made = tmp_path / "by_command.onnx"
            config_of_command = {**config, "save_repro": None}
        else:
            made, config_of_command = tmp_path / "by_command.onnx", config
        if name in ("measure", "measured"):  # what the first of them finds is what all others take
            for settings in (config, config_of_command):
                settings.update(measure=given["measure"], measured=given["measured"])
        if name == "strict_budget":
            config["iterations"] = config_of_command["iterations"] = 200
            config["node_limit"] = config_of_command["node_limit"] = 1000000
        result = olive_pass(BART, config, tmp_path / f"out_{name}")
        command_options.optimize_file(str(BART), str(made), config_of_command)
        mine, base = onnx.load(result.model_path), onnx.load(made)
        del mine.metadata_props[:], base.metadata_props[:]  # Olive adds its version
        assert mine.SerializeToString(deterministic=True) == base.SerializeToString(deterministic=True), name
    assert json.loads((tmp_path / "r.json").read_text()) and json.loads((tmp_path / "g.json").read_text())
    assert (tmp_path / "repro").is_dir() and (tmp_path / "emit.txt").read_text()


def test_dims_and_shapes(olive_pass, small, tmp_path):
    dims = lambda result: [d.dim_value or d.dim_param for d in onnx.load(result.model_path).graph.input[0].type.tensor_type.shape.dim]
    assert dims(olive_pass(small, {}, tmp_path / "a")) == ["n", 3]
    assert dims(olive_pass(small, {"dims": {"n": 5}}, tmp_path / "b")) == [5, 3]
    assert dims(olive_pass(small, {"input_shapes": {"x": [4, -1]}}, tmp_path / "c")) == [4, 3]


def test_errors_and_warnings(olive_pass, small, tmp_path):
    with pytest.raises(onnx_saturate.Error, match="no-such: no such target"):
        olive_pass(small, {"target": "no-such"}, tmp_path / "a")
    with pytest.raises(onnx_saturate.Error, match="none.npz"):
        olive_pass(small, {"inputs": [str(tmp_path / "none.npz")]}, tmp_path / "a")
    with pytest.raises(ValueError, match="opset"):
        olive_pass(small, {"opset": "new"}, tmp_path / "a")
    with pytest.warns(RuntimeWarning, match="cost-at nobody: no input has a dim of this name"):
        olive_pass(small, {"cost_at": "nobody=2"}, tmp_path / "b")
    with pytest.raises(onnx_saturate.Error, match="budget exhausted"):
        olive_pass(BART, {"iterations": 1, "strict_budget": True}, tmp_path / "c")


def test_a_run_of_olive(olive_pass, small, tmp_path):
    """A whole configuration, with the pass made known by package_config()."""
    import olive.package_config

    import onnx_saturate.olive

    package = json.loads(open(olive.package_config.OlivePackageConfig.get_default_config_path()).read())
    package["passes"].update(onnx_saturate.olive.package_config())
    (tmp_path / "package.json").write_text(json.dumps(package))
    config = {
        "input_model": {"type": "ONNXModel", "model_path": str(small)},
        "systems": {"here": {"type": "LocalSystem", "accelerators": [{"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}]}},
        "passes": {"optimize": {"type": "SaturatePass", "target": "onnx", "cost": "nodes", "dims": {"n": 2}, "save_as_external_data": False}},
        "host": "here", "target": "here", "output_dir": str(tmp_path / "out"), "cache_dir": str(tmp_path / "cache"), "evaluate_input_model": False,
    }  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(config))
    words = [sys.executable, "-m", "olive", "run", "--config", "run.json", "--package-config", "package.json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    (model,) = (tmp_path / "out").rglob("*.onnx")
    assert [node.op_type for node in onnx.load(model).graph.node] == ["Relu", "Add"]
