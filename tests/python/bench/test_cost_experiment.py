"""bench/gauges/cost_experiment.py: a small grid, gone on with after an interruption."""
import csv
import json
import pathlib
import subprocess
import sys

from conftest import DATA, binary

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "bench" / "gauges" / "cost_experiment.py"


def experiment(tmp_path, grid):
    (tmp_path / "grid.json").write_text(json.dumps(grid))
    return subprocess.run([sys.executable, SCRIPT, tmp_path / "grid.json", tmp_path / "out", "--binary", binary(), "--jobs", "2"], capture_output=True, text=True, check=False)


def test_grid_csv_page_and_resuming(tmp_path):
    grid = {"models": [{"path": str(DATA / "bart_encoder.onnx"), "dims": {"batch": 1, "seq": 8}}], "cost_models": ["nodes", "roofline"], "extractors": ["search", "bottom-up"],
            "samples": 3, "runtime": "saturate", "seconds": 0.001}
    done = experiment(tmp_path, grid)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(open(tmp_path / "out" / "results.csv", encoding="utf-8")))
    assert [(r["cost_model"], r["extractor"]) for r in rows] == [("nodes", "search"), ("nodes", "bottom-up"), ("roofline", "search"), ("roofline", "bottom-up")]
    assert all(float(r["ratio"]) > 0 and -1 <= float(r["tau"]) <= 1 for r in rows)
    page = (tmp_path / "out" / "results.html").read_text()
    assert page.count("<svg") == 5 and "http" not in page  # two clouds, tau, regret, time; nothing from elsewhere
    parts = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "parts").iterdir()}
    removed = next(p for p in parts if p.name.startswith("optimize-"))
    removed.unlink()
    assert experiment(tmp_path, grid).returncode == 0
    again = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "parts").iterdir()}
    assert {p for p in parts if parts[p] != again[p]} == {removed}


def test_errors(tmp_path):
    assert "cost_models" in experiment(tmp_path, {"models": ["a.onnx"]}).stderr
    done = experiment(tmp_path, {"models": ["missing.onnx"], "cost_models": ["nodes"], "runtime": "saturate"})
    assert done.returncode == 1 and "missing.onnx" in (tmp_path / "out" / "results.csv").read_text()
