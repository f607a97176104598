"""What the tests share: the command under test (SATURATE_BIN) and small models."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Rooms take from each other what makes models and asks of results.
sys.path += sorted(str(room) for room in (ROOT / "tests" / "python").iterdir() if room.is_dir())
DATA = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared"


SANITIZED = bool(os.environ.get("SATURATE_SANITIZED"))  # the command is built with a sanitizer (tools/sanitize)
patience = 10 if SANITIZED else 1  # for time limits of tests


def binary():
    path = os.environ.get("SATURATE_BIN") or shutil.which("saturate")
    if not path:
        pytest.exit("set SATURATE_BIN to the saturate command, or run tools/test", returncode=4)
    return os.path.abspath(path)  # tests run it in other folders


RELEASE = "1.20"
_OF_ORT_CPU = {"optimize", "explain", "inspect", "diff", "extract"}  # verbs whose --target is ort-cpu where none is given
_OTHERS = {"transform", "slm", "verify", "run", "bench", "generate", "rules", "targets", "cost", "reduce", "completion", "man"}


def released(words):
    """The words with the release of the target: that of a bare ort-cpu is what the machine has (test_release.py tests that rule)."""
    words = [str(word) for word in words]
    own = words[: words.index("--")] if "--" in words else words
    for at, word in enumerate(words):
        if word == "ort-cpu" and words[at - 1] == "--target" or word == "--target=ort-cpu":
            words[at] = f"{word}@{RELEASE}"
    asks = any(word.startswith(("--target", "--help", "--version", "-h")) for word in words)
    verb = next((word for word in own if not word.startswith("-")), None)
    if asks or own != words or verb is None or verb in _OTHERS or (verb not in _OF_ORT_CPU and not verb.endswith((".onnx", ".onnxtxt", ".textproto"))):
        return words
    at = words.index(verb) + 1  # not at the end, where an option may lack its value
    return [*words[:at], "--target", f"ort-cpu@{RELEASE}", *words[at:]]


def run(*words, cwd=None, timeout=300):
    """The command on these words, for a named release; returns the finished process with text output."""
    return subprocess.run([binary(), *released(words)], cwd=cwd, timeout=timeout * patience, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def released_package(monkeypatch):
    """The same for the Python package where it is loaded."""
    package = sys.modules.get("onnx_saturate._optimize")
    if package is None:
        return
    checked = package.checked

    def named(options):
        given = checked(options)
        return given | {"target": f"ort-cpu@{RELEASE}"} if given.get("target", "ort-cpu") == "ort-cpu" else given

    monkeypatch.setattr(package, "checked", named)


def run_ok(*words, **kwargs):
    done = run(*words, **kwargs)
    assert done.returncode == 0, done.stderr + done.stdout
    return done


def said(done):
    """What was printed, in one line: breaks between words are the width's business."""
    return " ".join(done.stdout.split())


def start(*words, cwd):
    """The command, running, with the signals of a shell's foreground: what starts the tests may ignore some, as nohup does."""
    def heed_signals():
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    return subprocess.Popen([binary(), *released(words)], cwd=cwd, stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals)


def listing(folder):
    """Every file below a folder with its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()}


def assert_refused(done, code, folder, before, place=None):
    """One line of error with the place, the right code, nothing written."""
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), (done.returncode, done.stderr, done.stdout)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("saturate: error: "), done.stderr
    if place:
        assert str(place) in lines[0], lines[0]
    assert listing(folder) == before


def tensor(name, array):
    return onnx.numpy_helper.from_array(np.asarray(array), name)


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def make_model(nodes, inputs, outputs, initializers=(), opset=18, ir_version=8, domains=(), **kwargs):
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(initializers))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **kwargs)


GENERATORS = {}  # of modules: what they were like when the module was loaded


@pytest.fixture(autouse=True)
def same_numbers(request):
    """A test draws the same numbers from its module's generator, whatever ran before it: workers of pytest-xdist share tests out by their load."""
    for name, value in vars(request.module).items():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = GENERATORS.setdefault((request.module.__name__, name), value.bit_generator.state)


@pytest.fixture
def small_model():
    """y = Relu(x W + b) twice over, with an Identity and a dead node."""
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"], name="mm"),
        helper.make_node("Add", ["xw", "b"], ["s"], name="add"),
        helper.make_node("Identity", ["s"], ["same"], name="id"),
        helper.make_node("Relu", ["same"], ["y"], name="relu"),
        helper.make_node("Exp", ["x"], ["dead"], name="dead"),
    ]
    weights = [tensor("w", rng.normal(size=(4, 4)).astype(np.float32)), tensor("b", rng.normal(size=4).astype(np.float32))]
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])], weights)


def onnxruntime_outputs(path, inputs, optimize=False):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, inputs)))
