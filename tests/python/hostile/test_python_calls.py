"""The package's functions on models of strangers: names hide nothing in what is shown, changed files end in a result or in an error of the package."""
import os
import resource
import select
import sys
import tempfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import ROOT, SANITIZED, make_model, value

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
sys.path.append(str(ROOT / "bench"))
from fuzz import files  # noqa: E402

HIDDEN = "\u202e\u2028\u2029\x9b\x1b\x07"
EVIL = f"<script>alert(1)</script>\"'&{HIDDEN}31m"
SHORT = {"time_limit": 5}


def evil_model(last="Sigmoid"):
    nodes = [
        helper.make_node("Relu", ["x"], [f"a{EVIL}"], name=EVIL),
        helper.make_node(f"Own{EVIL}", [f"a{EVIL}"], ["z"], domain=f"own{EVIL}"),
        helper.make_node(last, [f"a{EVIL}"], ["y"]),
    ]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, [2, f"d{EVIL}"])], [value(n, TensorProto.FLOAT, None) for n in "yz"], domains=(f"own{EVIL}",))
    model.producer_name = model.graph.name = EVIL
    return model.SerializeToString()


SHOWN = {
    "optimize": lambda m: onnx_saturate.optimize_with_report(m),
    "report": lambda m: onnx_saturate.optimize_with_report(m).report,
    "inspect": lambda m: onnx_saturate.inspect(m),
    "explain": lambda m: onnx_saturate.explain(m),
    "explain a value": lambda m: onnx_saturate.explain(m, value=f"a{EVIL}"),
    "diff": lambda m: onnx_saturate.diff(m, evil_model("Tanh")),
    "prove": lambda m: onnx_saturate.prove(m, evil_model("Tanh")),
    "verify": lambda m: onnx_saturate.verify(m, evil_model("Tanh")),
    "run": lambda m: onnx_saturate.run(m, {"x": np.zeros((2, 2), np.float32)}),
    "bench": lambda m: onnx_saturate.bench(m),
    "split": lambda m: onnx_saturate.split(m, [f"a{EVIL}"]),
    "transform": lambda m: onnx_saturate.transform_with_report(m, [f"cut:{EVIL}"]),
    "generate": lambda m: onnx_saturate.generate(m, [1]),
}


@pytest.mark.parametrize("call", SHOWN)
def test_names_hide_nothing(call, recwarn):
    """Python wrote control characters and marks of direction of a model's names as they came: only the command escaped them."""
    try:
        shown = SHOWN[call](evil_model())
        texts = [str(shown), repr(shown)]
        if hasattr(shown, "_repr_html_"):
            page = shown._repr_html_()
            assert "<script" not in page
            texts.append(page)
    except onnx_saturate.Error as error:
        texts = [str(error)]
    texts += [str(warning.message) for warning in recwarn.list]
    for text in texts:
        assert not set(HIDDEN) & set(text), text


def feeds(data):
    out = {}
    for given in onnx.load_from_string(data).graph.input:
        tensor = given.type.tensor_type
        dims = [min(abs(d.dim_value), 8) or 2 for d in tensor.shape.dim]
        out[given.name] = np.ones(dims, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return out


def parsed(call):
    return lambda data: call(onnx.load_from_string(data))


CALLS = {
    "optimize": lambda m: repr(onnx_saturate.optimize_with_report(m, **SHORT)._repr_html_()),
    "inspect": lambda m: str(onnx_saturate.inspect(m)),
    "explain": lambda m: str(onnx_saturate.explain(m)),
    "diff": lambda m: str(onnx_saturate.diff(m, m)),
    "prove": lambda m: str(onnx_saturate.prove(m, m, **SHORT)),
    "verify": lambda m: str(onnx_saturate.verify(m, m, judge="saturate", **SHORT)),
    "run": lambda m: onnx_saturate.run(m, feeds(m)),
    "session": lambda m: onnx_saturate.Session(m).run(feeds(m)),
    "bench": lambda m: onnx_saturate.bench(m, iterations=1, warmup=0),
    "transform": lambda m: onnx_saturate.transform(m, ["expose_all"], **SHORT),
    "slm": lambda m: onnx_saturate.slm(m, **SHORT),
    "reduce": lambda m: onnx_saturate.reduce(m, "no Attention", time_limit=3),
    "generate": lambda m: onnx_saturate.generate(m, [1, 2, 3], max_new_tokens=2),
    "extract": lambda m: onnx_saturate.extract(m, samples=1, **SHORT),
    "split": lambda m: onnx_saturate.split(m, ["v1"]),
    "simplify": parsed(lambda m: onnx_saturate.simplify(m)),
    "slim": parsed(lambda m: onnx_saturate.slim(m)),
}
# What is no model for onnx itself, or no inputs for numpy, never reaches the package.
ELSEWHERE = ("google.protobuf", "onnx.", "builtins.KeyError")


def in_a_child(call, data):
    """(what it ended in, status of the process)"""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = "no answer"
        try:
            os.chdir(tempfile.mkdtemp())
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1), os.dup2(silent, 2)
            CALLS[call](data)
            said = "result"
        except (onnx_saturate.Error, MemoryError) as error:
            said = type(error).__name__
        except BaseException as error:
            kind = f"{type(error).__module__}.{type(error).__name__}"
            said = "elsewhere" if kind.startswith(ELSEWHERE) else f"{kind}: {error}"[:2000]
        finally:
            os.write(write, said.encode(errors="replace"))
            os._exit(0)
    os.close(write)
    answered = select.select([read], [], [], 90)[0]
    if not answered:
        os.kill(child, 9)
    said = os.read(read, 4096).decode() if answered else "hang"
    os.close(read)
    return said, os.waitpid(child, 0)[1]


@pytest.mark.skipif(SANITIZED, reason="the extension module is not sanitized")
@pytest.mark.parametrize("call", CALLS)
def test_changed_files(call, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for seed in range(4):
        case = 1000 * list(CALLS).index(call) + seed
        mutator = files.Mutator(case)
        data = mutator.nodes(onnx.ModelProto.FromString(files.original(case).SerializeToString())) if seed % 2 else mutator.bytes(files.original(case).SerializeToString())
        said, status = in_a_child(call, data)
        assert status == 0 and (said in ("result", "elsewhere", "MemoryError") or said.endswith("Error") and ":" not in said), (case, said, status)
