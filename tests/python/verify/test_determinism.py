"""Same bytes out for the same input, at any number of threads, every time."""
import pytest

from conftest import DATA, SHARED, run_ok

MODELS = [DATA / "bart_encoder.onnx"]


@pytest.mark.parametrize("cost", ["nodes", "roofline"])
def test_same_bytes(tmp_path, cost):
    results = set()
    for i, threads in enumerate([1, 2, 1, 2, 0]):
        out = tmp_path / f"{i}.onnx"
        run_ok(DATA / "bart_encoder.onnx", out, "--threads", threads, "--cost", cost, "-q")
        results.add(out.read_bytes())
    assert len(results) == 1


@pytest.mark.parametrize("name", ["llama-dyS18d", "t5_dec-dyE20d", "vit-tsE14d", "gpt2-dyS18d"])
def test_same_bytes_in_the_zoo(tmp_path, name):
    model = SHARED / "data" / "zoo" / "models" / f"{name}.onnx"
    if not model.exists():
        pytest.skip(f"{model} is not there")
    results = set()
    for threads in (1, 2):
        run_ok(model, tmp_path / "out.onnx", "--threads", threads, "-q", "--no-verify")
        results.add((tmp_path / "out.onnx").read_bytes())
    assert len(results) == 1
