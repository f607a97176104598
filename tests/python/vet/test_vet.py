"""`saturate vet`: what a runtime's own optimizations change is found, blamed on one of them, and made small. The runtime here is one with known faults."""
import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import parser

from onnx_saturate._errors import Error, OptionError
from onnx_saturate.vet import vet
from onnx_saturate.vet._child import draw
from onnx_saturate.vet._compare import difference

# An `onnxruntime` whose optimizer Twists makes Abs of Relu, whose Falls ends the process at a Tanh, and whose Asks refuses a Sigmoid.
FAULTY = '''
import os, signal, sys
import onnx
from onnx.reference import ReferenceEvaluator
__version__ = "9.9"
class GraphOptimizationLevel:
    ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED, ORT_ENABLE_ALL = range(4)
class SessionOptions:
    pass
class Given:
    def __init__(self, value):
        kind = value.type.tensor_type
        self.name, self.type = value.name, "tensor(float)"
        self.shape = [d.dim_value or d.dim_param for d in kind.shape.dim]
class InferenceSession:
    def __init__(self, path, options, providers, disabled_optimizers=()):
        model = onnx.load(path)
        self.given, self.made = map(Given, model.graph.input), [Given(o) for o in model.graph.output]
        self.given = list(self.given)
        for name, level, op in (("Asks", 1, "Sigmoid"), ("Falls", 2, "Tanh"), ("Twists", 2, "Relu"), ("Fine", 2, "Neg")):
            nodes = [n for n in model.graph.node if n.op_type == op]
            if options.graph_optimization_level < level or name in disabled_optimizers or not nodes:
                continue
            if options.log_severity_level == 0:
                print(f"GraphTransformer {name} modified: 1 with status: OK", file=sys.stderr, flush=True)
            if name == "Asks":
                raise RuntimeError("no kernel of Sigmoid: sorry")
            if name == "Falls":
                os.kill(os.getpid(), signal.SIGSEGV)
            if name == "Twists":
                for node in nodes:
                    node.op_type = "Abs"
        self.runs = ReferenceEvaluator(model)
    def get_inputs(self):
        return self.given
    def get_outputs(self):
        return self.made
    def run(self, names, feeds):
        return self.runs.run(None, feeds)
'''


@pytest.fixture
def runtime(tmp_path):
    (tmp_path / "faulty").mkdir()
    (tmp_path / "faulty" / "onnxruntime.py").write_text(FAULTY)
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "faulty"} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return f"onnxruntime={program}"


def saved(tmp_path, body, name="m.onnx"):
    path = tmp_path / name
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) => (float[N,4] y) {{ {body} }}'), path)
    return path


@pytest.fixture(autouse=True)
def one_target(monkeypatch):
    monkeypatch.setattr("onnx_saturate.vet._TARGETS", ("onnx",))


def vetted(tmp_path, runtime, body, **options):
    return vet([saved(tmp_path, body)], tmp_path / "out", samples=0, runtimes=[runtime], reduce_seconds=8, **options)


def test_other_numbers_are_blamed_on_a_pass_and_made_small(tmp_path, runtime):
    done = vetted(tmp_path, runtime, "a = Neg (x) b = Relu (a) c = Exp (b) y = Softmax (c)")
    found = next(f for f in done.findings if f.graph == "m.onnx")
    assert (found.runtime, found.level, found.kind, found.passes) == ("onnxruntime 9.9", "extended", "different", ["Twists"])
    assert found.nodes <= 2 and "Relu" in {n.op_type for n in onnx.load(f"{found.folder}/model.onnx").graph.node}
    script = open(f"{found.folder}/reproduce.py").read()
    assert "ORT_ENABLE_EXTENDED" in script and "Twists" in script and os.path.exists(f"{found.folder}/inputs.npz")


@pytest.mark.parametrize("op,level,kind,passes", [("Tanh", "extended", "signal 11", ["Falls"]), ("Sigmoid", "basic", "load", ["Asks"])])
def test_crashes_and_refusals_are_found_once(tmp_path, runtime, op, level, kind, passes):
    done = vetted(tmp_path, runtime, f"y = {op} (x)")
    found = [f for f in done.findings if f.graph == "m.onnx"]
    assert [(f.level, f.kind) for f in found] == [(level, kind)]
    assert found[0].passes == passes


def test_nothing_is_found_in_what_is_right_and_the_same_call_goes_on(tmp_path, runtime):
    first = vetted(tmp_path, runtime, "a = Neg (x) y = Exp (a)")
    assert first.findings == [] and first.refused == [] and first.runs > 0
    before = (tmp_path / "out" / "graphs.jsonl").read_text()
    with (tmp_path / "out" / "graphs.jsonl").open("a") as out:
        out.write('{"key": "a line that was cut')
    again = vetted(tmp_path, runtime, "a = Neg (x) y = Exp (a)")
    assert again.runs == first.runs and (tmp_path / "out" / "graphs.jsonl").read_text().startswith(before)


def test_what_can_not_be_tried_is_said(tmp_path, runtime):
    with pytest.raises(OptionError, match="tensorrt: there are onnxruntime, openvino"):
        vet([saved(tmp_path, "y = Neg (x)")], tmp_path / "out", runtimes=[runtime, "tensorrt"])
    with pytest.raises(Error, match="the first one is onnxruntime"):
        vet([saved(tmp_path, "y = Neg (x)")], tmp_path / "out", runtimes=["openvino"])
    with pytest.raises(Error, match="no such file"):
        vet([tmp_path / "none.onnx"], tmp_path / "out", runtimes=[runtime])
    with pytest.raises(Error, match="name an interpreter that has it"):
        vet([saved(tmp_path, "y = Neg (x)")], tmp_path / "out", runtimes=["onnxruntime=/bin/false"])


def test_the_command(tmp_path, runtime):
    path = saved(tmp_path, "y = Sigmoid (x)")
    words = [sys.executable, "-m", "onnx_saturate", "vet", str(path), "-o", str(tmp_path / "out"), "--sample", "0", "--runtime", runtime, "--reduce-limit", "5"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 3 and "Asks" in done.stdout and "finding-001" in done.stdout, done
    done = subprocess.run([*words, "--json"], capture_output=True, text=True)
    assert done.returncode == 3 and json.loads(done.stdout)["findings"][0]["passes"] == ["Asks"]
    done = subprocess.run([*words[:-2], "--sample", "-1"], capture_output=True, text=True)
    assert done.returncode == 2 and "give 0 or more" in done.stderr


def test_rounding_is_no_difference():
    a = np.array([1.0, 1000.0], np.float32)
    assert difference({"y": a}, {"y": a + 0.1}, {}) == ""
    assert "of its scale apart" in difference({"y": a}, {"y": a + 10}, {})
    assert difference({"y": a}, {"y": a + 10}, {"y": 0.01}) == ""  # it moves as much where inputs move by their last bit
    assert "instead of" in difference({"y": a}, {"y": a[:1]}, {})
    assert difference({"y": np.array([np.nan])}, {"y": np.array([np.nan])}, {}) == ""
    assert "inf of its scale" in difference({"y": np.array([np.nan, 1])}, {"y": np.array([0.0, 1])}, {})
    assert difference({"y": np.array([3], np.uint8)}, {"y": np.array([4], np.uint8)}, {}) == ""
    assert difference({"y": np.array([3])}, {"y": np.array([4])}, {}) != ""


def test_inputs_are_drawn_by_their_types():
    feeds = draw([("a", "float16", ["N", 3]), ("b", "int64", ["N", None]), ("c", "bool", [])], 5, np.random.default_rng(0))
    assert feeds["a"].shape == (1, 3) and feeds["a"].dtype == np.float16 and feeds["b"].shape == (1, 5) and feeds["c"].shape == ()
    with pytest.raises(ValueError, match="which is not drawn"):
        draw([("a", "seq(tensor(float))", [])], 5, np.random.default_rng(0))
