"""Scores of cost models by family: what they are on figures that are known, and that a study has them."""
import csv
import json
import math

import pytest
from test_study import command, parts, rows, tables

study = pytest.importorskip("onnx_saturate.study", reason="the package is not installed: pip install .")
scoring = pytest.importorskip("onnx_saturate.study._scores")


def graph(name, ratio, noise=0.0, seconds=None, **prices):
    return scoring.Graph(name, ratio if seconds is None else seconds, ratio, ratio - noise, ratio + noise, prices)


def group(family, *graphs):
    return scoring.Group(f"{family}-1", family, graphs)


def by(rows_of, cost, family):
    return next(row for row in rows_of if (row["cost"], row["family"]) == (cost, family))


def test_ranks_and_regret():
    mine = group("a", graph("o", 1.0, c=4.0), graph("x", 0.5, c=1.0), graph("y", 0.4, c=2.0), graph("z", 0.8, c=3.0))
    told = by(scoring.scores([mine], ["c"]), "c", "a")
    assert (told["pairs"], told["graphs"], told["models"]) == (6, 4, 1)
    assert told["tau"] == pytest.approx((5 - 1) / 6, abs=1e-5) and told["rank_regret"] == pytest.approx(0.25)  # x is taken, y is the fastest


def test_pairs_within_noise_do_not_count_and_ties_are_no_rank():
    mine = group("a", graph("o", 1.0, c=1.0), graph("x", 0.99, 0.02, c=2.0), graph("y", 0.5, c=1.0))
    told = by(scoring.scores([mine], ["c"]), "c", "a")
    assert told["pairs"] == 2  # not o and x
    assert told["tau"] == 0.5  # o and y cost the same; y is faster than x, and costs less
    assert told["rank_regret"] == pytest.approx((1.0 + 0.5) / 2 / 0.5 - 1)  # of o and y, which cost the same, either


def test_errors_by_split():
    """Prices are half of the times in one family and a third in the other: right within each, and off where the factor is the other's."""
    families = [group(name, *(graph(str(n), 1.0 / n, seconds=n * factor, c=float(n)) for n in range(1, 6))) for name, factor in (("a", 2.0), ("b", 3.0))]
    told = scoring.scores(families, ["c"])
    for family, off in (("a", 0.5), ("b", 1 / 3)):
        row = by(told, "c", family)
        assert row["error_family"] == 0 and row["error_unseen"] == pytest.approx(off, abs=1e-5)
    everywhere = by(told, "c", "all")
    assert everywhere["error_unseen"] == pytest.approx((0.5 + 1 / 3) / 2, abs=1e-5) and everywhere["error_random"] < everywhere["error_unseen"]
    assert by(scoring.scores(families[:1], ["c"]), "c", "a")["error_unseen"] is None  # nothing else to learn from


def test_the_learned_one_sees_other_families_alone():
    def made(name, factor):
        return group(name, *(graph(str(n), float(n), seconds=factor * n**2, nodes=float(n), flops=1.0 + (n % 2)) for n in range(1, 8)))

    told = scoring.scores([made("a", 1.0), made("b", 1.0)], ["nodes", "flops"])
    assert by(told, "learned", "a")["error_unseen"] < 0.05 and by(told, "learned", "all")["tau"] == 1  # the square is learned
    told = scoring.scores([made("a", 1.0), made("b", 10.0)], ["nodes", "flops"])
    assert by(told, "learned", "a")["error_unseen"] > 5
    assert not [row for row in scoring.scores([made("a", 1.0), made("b", 1.0)], ["mine"]) if row["cost"] == "learned"]


def test_choices_that_ask_no_model():
    mine = group("a", graph("o", 1.0, c=1.0), graph("x", 0.5, 0.01, c=1.0))
    told = scoring.scores([mine], ["c"])
    assert by(told, "as it is", "a")["rank_regret"] == 1 and by(told, "at random", "all")["rank_regret"] == 0.5


STUDY = """
costs = ["measured", "nodes", "roofline"]
samples = 3
[timing]
rounds = 6
burst = 0.0005
[[models]]
maker = "encoder"
layers = 1
dims = { batch = 1, seq = 8 }
[[models]]
maker = "mixer"
layers = 1
dims = { batch = 1 }
"""


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("splits")
    (folder / "s.toml").write_text(STUDY)
    done = command("s.toml", "-j", "2", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def scores_of(folder):
    with open(folder / "scores.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_study_scores_its_cost_models(scored):
    told = scores_of(scored / "s.study")
    assert list(told[0]) == list(study.SCORES)
    assert [row["cost"] for row in told if row["family"] == "all"] == ["measured", "nodes", "roofline", "learned", "at random", "as it is"]
    for row in told:
        assert float(row["rank_regret"]) >= 0 and int(row["graphs"]) >= 4
        assert row["cost"] in ("at random", "as it is") or (float(row["error_unseen"]) >= 0 and -1 <= float(row["tau"] or 0) <= 1)
    for row in rows(scored / "s.study"):
        assert float(row["regret"]) >= 0 and int(row["graphs"]) >= 4 and math.isfinite(float(row["error_unseen"]))
    page = (scored / "s.study" / "results.html").read_text()
    assert "Cost models" in page and "at random" in page


def test_prices_are_those_of_the_experiments(scored):
    """A graph is priced as it was where it was chosen."""
    told = [json.loads(path.read_text()) for path in (scored / "s.study" / "parts").glob("price-*.json")]
    for row in rows(scored / "s.study"):
        (known,) = {one["result"]["prices"][row["result_sha256"]] for one in told if one["key"]["cost"] == row["cost"] and row["result_sha256"] in one["result"]["prices"]}
        assert known == pytest.approx(float(row["predicted_after"]), rel=1e-6)


def test_scores_are_replayed(scored, tmp_path):
    done = command("s.toml", "-o", tmp_path / "other", "--replay", "s.study", "-j", "2", cwd=scored)
    assert done.returncode == 0, done.stderr
    assert tables(tmp_path / "other") == tables(scored / "s.study") and scores_of(tmp_path / "other") == scores_of(scored / "s.study")
    before = parts(scored / "s.study")
    again = command("s.toml", cwd=scored)
    assert again.returncode == 0 and parts(scored / "s.study") == before and "[1/" not in again.stderr  # nothing is left to do
