"""bench/quality/decoder_matrix.py: decoders through `slm`, stepped in ONNX Runtime."""
import importlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx

import decoder_graphs as kv
from conftest import binary

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench"


def rows(folder, *words):
    command = [sys.executable, BENCH / "quality" / "decoder_matrix.py", folder, *words, "--saturate", binary(), "--json", folder / "rows.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()] if (folder / "rows.jsonl").exists() else []
    return found, done


def keep(folder, name, model):
    onnx.save(model, folder / f"{name}.onnx")
    np.savez(folder / f"{name}.npz")


def test_the_document_s_command_is_equal_there(tmp_path):
    """Its files did not load: two nodes had one name."""
    keep(tmp_path, "decoder", kv.spelled_out())
    found, done = rows(tmp_path, "--modes", "window", "--dtypes", "fp16", "--opsets", "14")
    assert done.returncode == 0 and [r["row"] for r in found] == ["equal"], done.stdout + done.stderr
    assert "in ONNX Runtime" in found[0]["first"]
    again, done = rows(tmp_path, "--modes", "window", "--dtypes", "fp16", "--opsets", "14")
    assert again == found and "window fp16 opset 14 equal: 1" in done.stdout


def test_what_is_refused_is_told_with_what_speaks_against_it(tmp_path):
    keep(tmp_path, "ahead", kv.learned(seen=lambda g: g.LessOrEqual(g.Unsqueeze(kv.positions(g), [0]), g.Add(g.Unsqueeze(kv.positions(g), [1]), np.int64(1)))))
    keep(tmp_path, "scattered", kv.spelled_out())
    found, done = rows(tmp_path, "ahead", "--modes", "growing", "--dtypes", "fp32", "--opsets", "default")
    assert done.returncode == 0 and found[0]["row"] == "refused" and found[0]["why"].startswith("looks ahead"), found
    found, done = rows(tmp_path, "scattered", "--modes", "tensor_scatter", "--dtypes", "fp32", "--opsets", "14")
    assert done.returncode == 0 and found[-1]["why"] == "no such operator there", found


def test_nan_is_no_equal_number(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH / "quality"))
    module = importlib.import_module("kv_cache")
    ids = np.zeros((1, 4), np.int64)

    class Broken:
        def start(self, batch):
            self.at = 0

        def steps(self, tokens):
            return [1] * tokens

        def __call__(self, ids, mask):
            self.at += 1
            return np.full((1, 1, 5), np.nan if self.at == 2 else 1, np.float32)

    worst = module.teacher_forced(lambda ids, mask: np.ones((1, 4, 5), np.float32), Broken(), ids, np.ones_like(ids))
    assert np.isnan(worst)


def test_a_wrong_result_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH / "quality"))
    module = importlib.import_module("decoder_matrix")
    keep(tmp_path, "decoder", kv.spelled_out())
    model, _ = kv.with_cache(tmp_path / "made", kv.spelled_out())
    made = tmp_path / "made" / "o.onnx"
    assert module.step(tmp_path / "decoder.onnx", made, "growing", "fp32")[0] == "equal"
    weight = next(w for w in model.graph.initializer if len(w.dims) == 2)
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 1.5, weight.name))
    onnx.save(model, made)
    word, why = module.step(tmp_path / "decoder.onnx", made, "growing", "fp32")
    assert word == "wrong" and "none single" in why and "all single" in why
    model.graph.node[0].op_type = "NoSuchOperator"
    onnx.save(model, made)
    assert module.step(tmp_path / "decoder.onnx", made, "growing", "fp32")[0] == "does not load"
