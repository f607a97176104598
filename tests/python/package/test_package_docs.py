"""What the documentation says about the Python package is run."""
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")


def run_file(path, *words, cwd):
    done = subprocess.run([sys.executable, path, *map(str, words)], capture_output=True, text=True, timeout=300, cwd=cwd)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_quickstart(tmp_path):
    printed = run_file(ROOT / "docs" / "quickstart.py", cwd=tmp_path)
    assert "Attention at " in printed and "SkipLayerNormalization: 0" in printed and "x | <onnx_saturate.EGraph" in printed
    assert not list(tmp_path.iterdir())


def test_torch_example(tmp_path):
    for module in ("torch", "onnxscript", "onnxruntime"):
        pytest.importorskip(module)
    assert "the same as PyTorch" in run_file(ROOT / "docs" / "torch_example.py", cwd=tmp_path)


def test_api_reference(tmp_path):
    pytest.importorskip("pdoc")
    words = [sys.executable, "-m", "pdoc", "-o", tmp_path / "api", "onnx_saturate", "onnx_saturate.backend", "onnx_saturate.interop", "onnx_saturate.pre_post", "onnx_saturate.tune", "onnx_saturate.study", "onnx_saturate.generate"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "api" / "onnx_saturate.html").read_text()
    for name in onnx_saturate.__all__:
        assert f'id="{name}"' in page, name
    assert 'id="generate"' in (tmp_path / "api" / "onnx_saturate" / "generate.html").read_text()


def test_everything_public_is_documented():
    import onnx_saturate.backend
    import onnx_saturate.generate
    import onnx_saturate.interop
    import onnx_saturate.pre_post
    import onnx_saturate.study
    import onnx_saturate.tune

    missing = []
    for module in (onnx_saturate, onnx_saturate.backend, onnx_saturate.interop, onnx_saturate.pre_post, onnx_saturate.study, onnx_saturate.tune, onnx_saturate.generate):
        for name in getattr(module, "__all__", dir(module)):
            thing = getattr(module, name)
            if name.startswith("_") or not getattr(thing, "__module__", "").startswith("onnx_saturate"):
                continue
            members = [(f"{name}.{m}", v) for m, v in vars(thing).items()] if isinstance(thing, type) else []
            for where, what in [(name, thing), *members]:
                public = not where.rpartition(".")[2].startswith("_")
                if public and (callable(what) or isinstance(what, property)) and not getattr(what, "__doc__", None):
                    missing.append(where)
    assert not missing
