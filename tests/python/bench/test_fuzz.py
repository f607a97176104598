"""Small runs of `python bench/fuzz` with fixed seeds: nothing is found."""
import json
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
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
    assert len(names) > 2000 and any(name.endswith(".not.onnx") for name in names)  # counterexamples
    done = run("rules", "examples")
    assert done.returncode == 2 and "which folder?" in done.stderr


def test_random_graphs_optimized(tmp_path):
    out = fuzz("--only", "graphs,rules", "--cases", 150, "--seed", 3, "--jobs", 1, "--json", tmp_path / "a.json")
    assert "equal" in out
    report = json.loads((tmp_path / "a.json").read_text())
    assert sum(fired > 0 for _, fired, _ in report["rules"].values()) > 250
    merged = subprocess.run([sys.executable, str(ROOT / "bench" / "fuzz"), "--merge", *[str(tmp_path / "a.json")] * 2], capture_output=True, text=True)
    assert merged.returncode == 0 and f"all             {2 * sum(p['cases'] for p in report['parts'].values())}" in merged.stdout


def test_every_target_with_odd_options(tmp_path):
    out = fuzz("--only", "odd", "--cases", 60, "--seed", 5, "--jobs", 1, "--patterns", tmp_path / "patterns")
    assert "equal" in out and "target npu-4d" in out and "control flow or functions" in out


def test_what_was_found_once():
    assert "equal" in fuzz("--only", "corpus", "--jobs", 1)


def test_integer_operators_and_groups():
    assert "equal" in fuzz("--only", "integers", "--cases", 150, "--seed", 6, "--jobs", 1)


def test_random_models_against_both_others():
    assert "agree with" in fuzz("--only", "models", "--cases", 500, "--seed", 5, "--jobs", 1)


def test_the_mean_of_no_integers_is_explained():
    assert "agree with" in fuzz("--only", "models", "--case", 1000146, "--jobs", 1)


def test_runs_agree_bit_by_bit():
    assert "right" in fuzz("--only", "runs", "--cases", 150, "--seed", 4, "--jobs", 1)


def test_changed_files_end_in_words():
    assert "optimize" in fuzz("--only", "files", "--cases", 60, "--seed", 2, "--jobs", 1)


def test_blocks_in_drawn_spellings():
    assert "found" in fuzz("--only", "spellings", "--cases", 30, "--seed", 1, "--jobs", 1)


def judged(original, result, feed, strict=False):
    sys.path.insert(0, str(ROOT / "bench"))
    from fuzz import optimize

    models = [onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> g {text}') for text in (original, result)]
    settings = {"scratch": None}
    wanted = optimize.outputs_of_original(models[0], feed, settings)
    word = optimize.judged(*models, feed, strict, wanted, settings, {"target": "onnx"})[0]
    return optimize.excused(*models, feed, strict, wanted, settings, {"target": "onnx"}) or word if word == "wrong" else word


BY_EXP = "n = Neg (x)  e = Exp (n)  d = Add (e, o)  s = Div (o, d)"
HEAD = "(float[n,1] x) => (float[n,1] y) <float o = {1}, float h = {0.99}>"


@pytest.mark.parametrize("original, result, word", [
    (f"{BY_EXP}  y = Identity (s)", "y = Sigmoid (x)", "equal"),  # 2e-9, ONNX Runtime's Sigmoid 0
    (f"{BY_EXP}  y = Identity (s)", "s = Sigmoid (x)  y = Mul (s, h)", "wrong"),
    (f"{BY_EXP}  y = Log (s)", "s = Sigmoid (x)  y = Log (s)", "wrong"),  # -20, there minus infinity
    (f"{BY_EXP}  y = Add (s, o)", "s = Sigmoid (x)  t = Add (s, o)  y = Mul (t, h)", "wrong"),
])
def test_the_error_of_a_sigmoid_is_rounding(monkeypatch, original, result, word):
    from_worker(monkeypatch)
    assert judged(f"{HEAD} {{ {original} }}", f"{HEAD} {{ {result} }}", {"x": np.array([[-20]], np.float32)}) == word


BY_HAND = "(float[2,3] x) => (float[2,3] y) <int64[1] a = {1}> { l = ReduceLogSumExp (x, a)  d = Sub (x, l)  y = Exp (d) }"
WHOLE = "(float[2,3] x) => (float[2,3] y) { y = Softmax (x) }"
OVER_ALL = "(float[2,3] x) => (float[2,3] y) { y = Softmax <axis = 0> (x) }"


def test_only_an_infinity_above_may_make_nan(monkeypatch):
    from_worker(monkeypatch)
    inf = np.inf
    above, below = (np.array([[1, i, 2], [0.5, 1, -1]], np.float32) for i in (inf, -inf))
    assert judged(BY_HAND, WHOLE, {"x": below}) == "equal"
    assert judged(BY_HAND, WHOLE, {"x": above}) == "equal but for an infinity that the original makes NaN"
    assert judged(BY_HAND, WHOLE, {"x": above}, strict=True) == "wrong"
    assert judged(BY_HAND, OVER_ALL, {"x": above}) == "wrong"
    nan_for_masked = "(float[2,3] x) => (float[2,3] y) { p = Softmax (x)  z = Sub (x, x)  y = Add (p, z) }"
    assert judged(BY_HAND, nan_for_masked, {"x": below}) == "wrong"


def test_max_pool_over_nan_is_by_chance(monkeypatch):
    from_worker(monkeypatch)
    shape = "(float[1,1,5] x) => (float[1,1,m] y)"
    whole, cut = f"{shape} {{ y = MaxPool <kernel_shape = [3]> (x) }}", f"{shape} {{ y = MaxPool <kernel_shape = [2]> (x) }}"
    x = np.array([[[np.nan, 1, 2, 3, 4]]], np.float32)
    assert judged(whole, f"{shape} <float o = {{1}}> {{ s = MaxPool <kernel_shape = [3]> (x)  y = Mul (s, o) }}", {"x": x}) == "equal"
    assert judged(whole, cut, {"x": x}) == "wrong"


def from_worker(monkeypatch):
    """Judging notes what it is about to run, for the process that looks after it."""
    sys.path.insert(0, str(ROOT / "bench"))
    from fuzz import workers

    monkeypatch.setattr(workers, "about_to_run", lambda *_: None)


def test_a_finding_ends_in_exit_status_1(tmp_path):
    words = ["--only", "spellings", "--kinds", "^gelu$", "--cases", "3", "--jobs", "1", "--save", str(tmp_path / "kept")]
    broken = tmp_path / "saturate"
    broken.write_text("#!/bin/sh\nexit 7\n")
    broken.chmod(0o755)
    done = subprocess.run([sys.executable, str(ROOT / "bench" / "fuzz"), "--command", str(broken), *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "exit status 7" in done.stdout and list((tmp_path / "kept").glob("*.onnx"))
