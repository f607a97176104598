"""`saturate cost calibrate`: few rows of the shipped prices, timed in the installed ONNX Runtime, fit them to this machine."""
import json
import os
import pathlib
import re
import signal
import statistics
import time

import pytest
from conftest import DATA, ROOT, run, run_ok, said, start

onnxruntime = pytest.importorskip("onnxruntime")
THERE = ("--onnxruntime", str(pathlib.Path(onnxruntime.__file__).parent))
RELEASE = ".".join(onnxruntime.__version__.split(".")[:2])
BART = DATA / "bart_encoder.onnx"
CASES = [json.loads(line) for line in (ROOT / "extract" / "costs" / "calibration.jsonl").read_text().splitlines()]


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    path = tmp_path_factory.mktemp("calibrate") / "here.jsonl"
    done = run_ok("cost", "calibrate", "-o", path, "--rows", 5, "--seconds", 3, *THERE)
    assert re.search(rf"5 rows of \S+ timed in ONNX Runtime {RELEASE}, 1 thread: they take \d+\.\d\d of what it says", said(done)), said(done)
    return path


def test_the_file_says_where_it_is_from_and_prices_models(calibrated, tmp_path):
    head, *rows = lines_of(calibrated)
    assert head["fitted"].startswith("measured") and head["threads"] == 1 and head["runtime"] == f"onnxruntime {onnxruntime.__version__}"
    assert [r["op"] for r in rows] == [c["row"]["op"] for c in CASES[:5]] and all(1e-8 < r["seconds"] < 0.1 for r in rows)
    report = json.loads(run_ok(BART, "-o", tmp_path / "o.onnx", "--cost", calibrated, "--target", f"ort-cpu@{RELEASE}", "--json").stdout)
    assert report["cost_unit"] == "s" and 0 < report["cost_after"] < report["cost_before"]
    of = report["cost_of"]
    assert of["fitted"] == head["fitted"] and not of["other_machine"] and not of["other_release"] and of["machine"] == of["this_machine"] == head["machine"]
    assert report["cost_ratio"][0] < report["cost_ratio"][1]


def test_what_is_fused_at_load_is_priced_by_it(calibrated, tmp_path):
    """As the shipped tables do: costs are of what runs after load, and a plain table of numbers has no prices of that."""
    at_load = lambda cost: json.loads(run_ok(BART, "-o", tmp_path / "o.onnx", "--force", "--cost", cost, "--target", "ort-cpu@1.23", "--json").stdout)["at_load"]["before"]
    assert at_load(calibrated) == at_load("measured")


def test_its_own_rows_are_met_and_others_follow(calibrated, tmp_path):
    """Twice the time of all rows is twice the time of everything, of operators without rows, too."""
    head, *rows = lines_of(calibrated)
    base = {r["row"]: r["predicted"] for r in json.loads(run_ok("cost", "eval", "--rows", ROOT / "extract" / "costs" / "ort-cpu.jsonl", "--cost", head["fitted"], "--json").stdout)["rows"]}
    times = json.loads(run_ok("cost", "eval", "--rows", calibrated, "--cost", head["fitted"], "--json").stdout)["rows"]
    twice = tmp_path / "twice.jsonl"
    twice.write_text("".join(json.dumps(r) + "\n" for r in [head, *(rows[t["row"]] | {"seconds": 2 * t["predicted"]} for t in times)]))
    found = json.loads(run_ok("cost", "eval", "--rows", ROOT / "extract" / "costs" / "ort-cpu.jsonl", "--cost", twice, "--json").stdout)["rows"]
    assert all(r["predicted"] == pytest.approx(2 * base[r["row"]], rel=1e-6) for r in found)
    met = json.loads(run_ok("cost", "eval", "--rows", calibrated, "--cost", calibrated, "--json").stdout)["rows"]
    plain = [abs(t["predicted"] / t["measured"] - 1) for t in times]
    assert statistics.mean(abs(m["predicted"] / m["measured"] - 1) for m in met) < max(0.05, 0.5 * statistics.mean(plain))


def test_bytes_are_the_same_again(calibrated, tmp_path):
    for name in ("a", "b"):
        run_ok(BART, "-o", tmp_path / f"{name}.onnx", "--cost", calibrated)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_report_of_json(tmp_path):
    told = json.loads(run_ok("cost", "calibrate", "-o", tmp_path / "h.jsonl", "--rows", 4, "--seconds", 2, "--cost", "measured", "--threads", 2, "--json", *THERE).stdout)
    assert told["table"] == "measured" and told["rows"] == 4 and told["threads"] == 2 and told["failed"] == [] and told["ratio"] > 0
    assert lines_of(tmp_path / "h.jsonl")[0]["threads"] == 2


@pytest.mark.parametrize("words, said_so", [
    (["-o", "h.jsonl", "--rows", "0"], "1 to 300"), (["-o", "h.jsonl", "--rows", "301"], "1 to 300"), (["-o", "h.jsonl", "--rows", "x.jsonl"], "1 to 300"),
    (["-o", "h.jsonl", "--seconds", "601"], "at most 600"), (["-o", "h.jsonl", "--seconds", "0"], "--seconds"), (["-o", "h.json"], ".jsonl"), ([], "no -o"),
    (["-o", "h.jsonl", "--cost", "nodes"], "no built-in table"), (["-o", "h.jsonl", "m.onnx"], "takes no files"),
])  # fmt: skip
def test_wrong_words(words, said_so, tmp_path):
    done = run("cost", "calibrate", *words, *THERE, cwd=tmp_path)
    assert done.returncode == 2 and said_so in " ".join(done.stderr.split()) and not list(tmp_path.iterdir()), done.stderr


def test_without_onnxruntime(tmp_path):
    done = run("cost", "calibrate", "-o", tmp_path / "h.jsonl", "--onnxruntime", tmp_path)
    assert done.returncode == 1 and "onnxruntime" in done.stderr.lower() and len(done.stderr.splitlines()) <= 2 and not list(tmp_path.iterdir())


def test_interrupted_writes_nothing(tmp_path):
    out = tmp_path / "h.jsonl"
    out.write_text("before")
    process = start("cost", "calibrate", "-o", out, "--seconds", 60, *THERE, cwd=tmp_path)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130 and out.read_text() == "before" and os.listdir(tmp_path) == ["h.jsonl"]


@pytest.mark.parametrize("change", [{"fitted": "nodes"}, {"fitted": "of tomorrow"}, {"machine": 3}])
def test_a_file_that_fits_nothing_here_is_refused(calibrated, tmp_path, change):
    head, *rows = lines_of(calibrated)
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in [head | change, *rows]))
    done = run(BART, "-o", tmp_path / "o.onnx", "--cost", path)
    if "machine" in change:
        assert done.returncode in (0, 1)
    else:
        assert done.returncode == 1 and "calibrate" in done.stderr and not (tmp_path / "o.onnx").exists()


def test_the_cases_are_rows_of_the_table():
    key = lambda r: json.dumps([r["op"], r.get("dtype"), r["in"], r["out"], r.get("const"), r.get("attrs")])
    table = {key(json.loads(line)) for line in (ROOT / "extract" / "costs" / "ort-cpu.jsonl").read_text().splitlines()[1:]}
    assert len(CASES) == 300 and all(key(c["row"]) in table for c in CASES) and len({key(c["row"]) for c in CASES}) == 300
