"""bench/speed/trained.py: its list is whole, and what it makes of measured ratios is right."""
import json
import sys

import pytest

sys.path.insert(0, str(__import__("pathlib").Path(__file__).resolve().parents[3] / "bench"))
import rooms  # noqa: E402,F401
import trained  # noqa: E402


def test_the_list_names_each_model_once_with_all_that_is_needed_to_get_it():
    rows = list(trained.models())
    assert len({m["name"] for _, m in rows}) == len({m["sha256"] for _, m in rows}) == len(rows) >= 45
    assert len({p["package"] for p, _ in rows}) >= 18
    for package, model in rows:
        assert package["registry"] in ("pypi", "npm") and package["version"] in package["archive"]
        assert len(model["sha256"]) == 64 and model["file"].endswith(".onnx") and model["feeds"]


def made(predicted, *runs):
    return {"predicted": predicted, "ratios": [list(r) for r in runs], "lost": {}, "bytes": 1}


def test_slower_is_what_is_slower_in_all_runs():
    assert trained.is_slower(made(1, (1.03, 1.01, 1.05), (1.02, 1.005, 1.03)))
    assert not trained.is_slower(made(1, (1.03, 1.01, 1.05), (1.02, 0.999, 1.03)))  # an interval that holds 1
    assert not trained.is_slower(made(1, (1.03, 1.01, 1.05), (1.008, 1.002, 1.01)))  # a median of 1.008


def test_tau_counts_pairs_that_the_intervals_tell_apart():
    rows = [made(0.5, (0.6, 0.55, 0.65)), made(0.9, (0.9, 0.85, 0.95)), made(0.4, (0.93, 0.85, 0.99))]
    tau = trained.tau(rows)
    assert tau["pairs_told"] == 2 and tau["told"] == pytest.approx((1 - 1) / 2) and tau["all"] == pytest.approx((1 - 1 - 1) / 3)


def test_a_summary_of_rows_names_what_failed_grew_and_lost():
    rows = [
        {"name": "a", "package": "p", "bytes": 100, "tools": [made(0.5, (0.5, 0.4, 0.6)) | {"bytes": 120, "lost": {"QLinearConv": [2, 1]}}]},
        {"name": "b", "package": "p", "bytes": 100, "tools": [made(1, (2, 1.9, 2.1)) | {"bytes": 100}]},
        {"name": "c", "package": "q", "bytes": 100, "tools": [{"error": "refused"}]},
    ]
    found = trained.summary(rows, 0)
    assert found["refused"] == ["c"] and found["slower"] == ["b"] and found["grown"] == {"a": 1.2} and found["lost"] == {"a": {"QLinearConv": [2, 1]}}
    assert found["real"] == pytest.approx(1) and found["packages"] == 1
    json.dumps(found)
