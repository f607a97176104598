"""Small runs of `python bench/fuzz` with fixed seeds: nothing is found."""
import json
import subprocess
import sys

import onnx
import pytest

from conftest import ROOT, binary, run, run_ok

pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
pytest.importorskip("onnxruntime")


def fuzz(*words):
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "fuzz"), "--command", binary(), *map(str, words)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def test_examples_of_rules_are_models(tmp_path):
    run_ok("rules", "examples", tmp_path / "all", "--instances", 2)
    names = {path.name for path in (tmp_path / "all").glob("*.onnx")}
    first = onnx.load(tmp_path / "all" / "transpose_transpose.0.onnx")
    assert [n.op_type for n in first.graph.node] == ["Transpose", "Transpose"]
    assert len(names) > 2000 and any(name.endswith(".not.onnx") for name in names)  # counters
    done = run("rules", "examples")
    assert done.returncode == 2 and "which folder?" in done.stderr


def test_random_graphs_optimized(tmp_path):
    out = fuzz("--only", "graphs,rules", "--cases", 150, "--seed", 3, "--jobs", 1, "--json", tmp_path / "a.json")
    assert "equal" in out
    report = json.loads((tmp_path / "a.json").read_text())
    assert sum(fired > 0 for _, fired, _ in report["rules"].values()) > 250
    merged = subprocess.run([sys.executable, str(ROOT / "bench" / "fuzz"), "--merge", *[str(tmp_path / "a.json")] * 2], capture_output=True, text=True)
    assert merged.returncode == 0 and f"all             {2 * sum(p['cases'] for p in report['parts'].values())}" in merged.stdout


def test_what_was_found_once():
    assert "equal" in fuzz("--only", "corpus", "--jobs", 1)


def test_random_models_against_both_others():
    assert "agree with" in fuzz("--only", "models", "--cases", 500, "--seed", 5, "--jobs", 1)


def test_runs_agree_bit_by_bit():
    assert "right" in fuzz("--only", "runs", "--cases", 150, "--seed", 4, "--jobs", 1)


def test_changed_files_end_in_words():
    assert "optimize" in fuzz("--only", "files", "--cases", 60, "--seed", 2, "--jobs", 1)


def test_blocks_in_drawn_spellings():
    assert "found" in fuzz("--only", "spellings", "--cases", 30, "--seed", 1, "--jobs", 1)


def test_a_finding_ends_in_exit_status_1(tmp_path):
    words = ["--only", "spellings", "--kinds", "^gelu$", "--cases", "3", "--jobs", "1", "--save", str(tmp_path / "kept")]
    broken = tmp_path / "saturate"
    broken.write_text("#!/bin/sh\nexit 7\n")
    broken.chmod(0o755)
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "fuzz"), "--command", str(broken), *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "exit status 7" in done.stdout and list((tmp_path / "kept").glob("*.onnx"))
