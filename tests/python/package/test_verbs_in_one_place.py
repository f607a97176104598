"""The command of the package has every verb, and the package a function for each."""
import json
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import DATA, ROOT, run, run_ok

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
DECODER = DATA / "decoder.onnx"
BART = DATA / "bart_encoder.onnx"


def command(*words, cwd=None):
    return subprocess.run([sys.executable, "-m", "onnx_saturate", *map(str, words)], capture_output=True, text=True, timeout=300, cwd=cwd)


def test_the_decoder_that_comes_along_is_what_the_script_makes(tmp_path):
    subprocess.run([sys.executable, ROOT / "bench" / "export" / "tiny_decoder.py", tmp_path / "d.onnx"], check=True)
    assert (tmp_path / "d.onnx").read_bytes() == DECODER.read_bytes() and DECODER.stat().st_size < 100_000


def test_the_line_of_readme(tmp_path):
    (line,) = re.findall(r"^saturate slm (.*?)\s*#", (ROOT / "README.md").read_text(), re.M)
    assert re.search(r"\bcp tests/data/decoder\.onnx \. ", (ROOT / "README.md").read_text(), re.M)
    (tmp_path / "decoder.onnx").write_bytes(DECODER.read_bytes())
    done = run_ok("slm", *line.split(), cwd=tmp_path)
    assert "step by step as the whole model" in done.stdout and (tmp_path / "decoder.slm.onnx").exists()


def test_slm(tmp_path):
    made, report, table = onnx_saturate.slm(DECODER, dtype="fp16", judge="saturate")
    assert isinstance(made, onnx.ModelProto) and "past_key_values.0.key" in [one.name for one in made.graph.input]
    assert report["stepping"]["status"] == "equal" and "kv_cache" in table
    path = onnx_saturate.slm(onnx.load(DECODER), tmp_path / "out.onnx", window=1, max_context=24, judge=["saturate"]).model
    assert path == tmp_path / "out.onnx" and onnx.load(path).graph.input[0].type.tensor_type.shape.dim[1].dim_value == 1
    assert not (tmp_path / "out.onnx.data").exists()
    assert onnx_saturate.slm(DECODER.read_bytes(), cache="growing", verify=False).model[:1] == b"\x08"
    with pytest.raises(onnx_saturate.OptionError, match="half precision"):
        onnx_saturate.slm(DECODER, max_error=0.1)
    with pytest.raises(TypeError, match="no such option: windows"):
        onnx_saturate.slm(DECODER, windows=1)
    with pytest.raises(onnx_saturate.Error):
        onnx_saturate.slm(BART)


def test_reduce(tmp_path):
    small = onnx_saturate.reduce(BART, "no LayerNormalization", keep=["MatMul"], time_limit=60, options={"target": "onnx", "opset": 13})
    assert small.report["nodes_after"] < small.report["nodes_before"] == 125 and len(small.model.graph.node) == small.report["nodes_after"]
    assert "MatMul" in [node.op_type for node in small.model.graph.node]
    assert onnx_saturate.reduce(BART, "no LayerNormalization", tmp_path / "s.onnx", keep="MatMul", options={"target": "onnx", "opset": 13}).model == tmp_path / "s.onnx"
    with pytest.raises(onnx_saturate.Error, match="does not show the failure"):
        onnx_saturate.reduce(BART, "exit 3", options={"target": "onnx"})
    with pytest.raises(TypeError, match="no such option: ruls"):
        onnx_saturate.reduce(BART, "wrong", options={"ruls": "my.rules"})


def test_the_command_of_the_package_has_what_is_pythons(tmp_path):
    for verb in ("tune", "pre_post", "pre-post", "study"):
        done = command(verb, "--help")
        assert done.returncode == 0 and "usage" in done.stdout.lower(), done.stderr
    pytest.importorskip("onnxruntime")
    done = command("tune", DECODER, "--budget", "5", "-q")
    assert done.returncode == 0 and "inference_settings" in json.loads(done.stdout), done.stderr
    np.savez(tmp_path / "x.npz", a=np.zeros(1))
    assert command("pre_post", "none.onnx", "out.onnx", "--tool-command", "superresolution", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize("words, says", [
    (["tune", "m.onnx"], "python3 -m onnx_saturate tune IN.onnx"), (["study", "s.toml"], "python3 -m onnx_saturate study STUDY.toml"),
    (["pre_post", "a", "b"], "python3 -m onnx_saturate pre_post IN.onnx OUT.onnx"),
    (["generate", "m.onnx", "--prompt", "hello"], "python3 -m onnx_saturate generate"), (["generate", "m.onnx", "--tokenizer=t.json"], "python3 -m onnx_saturate generate"),
    (["generate", "m.onnx", "--prompt-ids", "1", "--runtime", "onnxruntime"], "python3 -m onnx_saturate generate IN.onnx --runtime onnxruntime"),
])  # fmt: skip
def test_the_compiled_command_says_where_they_are(words, says, tmp_path):
    (tmp_path / "m.onnx").write_bytes(DECODER.read_bytes())
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_help_names_them():
    told = " ".join(run_ok("--help").stdout.split())
    assert "study, tune, vet and pre_post" in told
