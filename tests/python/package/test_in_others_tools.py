"""What .pre-commit-hooks.yaml and action.yml run, as pre-commit and a runner of GitHub would."""
import json
import os
import pathlib
import re
import shlex
import subprocess

from conftest import DATA, ROOT, binary


def bash(script, cwd, **given):
    environment = {**os.environ, "PATH": f"{pathlib.Path(binary()).parent}{os.pathsep}{os.environ['PATH']}", **given}
    return subprocess.run(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def test_the_hook_reads_models(tmp_path):
    (entry,) = re.findall(r"^  entry: (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.M)
    for name, source in ("a b.onnx", "decoder.onnx"), ("c.onnx", "bart_encoder.onnx"):
        (tmp_path / name).write_bytes((DATA / source).read_bytes())
    words = shlex.split(entry)
    assert bash(shlex.join([*words, "a b.onnx", "c.onnx"]), tmp_path).returncode == 0
    (tmp_path / "bad.onnx").write_text("no model")
    done = bash(shlex.join([*words, "bad.onnx", "c.onnx"]), tmp_path)
    assert done.returncode == 1 and "bad.onnx" in done.stderr


def test_the_action_optimizes_models(tmp_path):
    text = (ROOT / "action.yml").read_text()
    inputs = dict(re.findall(r"^  ([\w-]+):\n(?:    .*\n)*?    default: (.*)$", text, re.M))
    (script,) = re.findall(r"^      run: (saturate .*)$", text, re.M)
    names = dict(re.findall(r"^        (\w+): \$\{\{ inputs\.([\w-]+) \}\}$", text, re.M))
    assert set(re.findall(r"\$(\w+)", script)) <= names.keys()
    (tmp_path / "models").mkdir()
    for name in ("decoder", "bart_encoder"):
        (tmp_path / "models" / f"{name}.onnx").write_bytes((DATA / f"{name}.onnx").read_bytes())
    given = {name: inputs.get(key, "models/*.onnx").strip('"') for name, key in names.items()}
    done = bash(script, tmp_path, **given)
    assert done.returncode == 0 and "2 of 2 models written to optimized" in done.stdout, done.stderr
    assert json.loads((tmp_path / "reports" / "decoder.onnx.json").read_text())["target"] == "ort-cpu@1.31"
    done = bash(script, tmp_path, **{**given, "MODELS": "$(touch owned) models/decoder.onnx", "OUTPUT_DIR": "other"})
    assert not (tmp_path / "owned").exists() and done.returncode != 0
