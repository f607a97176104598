"""Costs of an accelerator from figures of whole graphs: `saturate cost fit --kind npu`, and what bench/npu tells of it."""
import json
import pathlib
import sys

import pytest

from conftest import ROOT, binary, run, run_ok

sys.path.insert(0, str(ROOT / "bench" / "npu"))
import block
import leave_one_out


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    return block.write(tmp_path_factory.mktemp("npu"))


def figures(path, graphs, cost_of):
    """Figures of two machines and two precisions, as `cost_of` says."""
    lines = []
    for machine, precision, data, weights in (("a", "f16", 2, 2), ("a", "a8w8", 1, 1), ("b", "f16", 2, 2), ("b", "a8w8", 1, 1)):
        for (rows, form), graph in graphs.items():
            lines.append({"graph": str(graph), "machine": machine, "precision": precision, "activation_bytes": data, "weight_bytes": weights,
                          "seconds": cost_of(machine, precision, rows, form)})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def priced(cost, graph, tmp_path):
    (tmp_path / "one.jsonl").write_text(json.dumps({"graph": str(graph), "seconds": 1}) + "\n")
    return json.loads(run_ok("cost", "eval", tmp_path / "one.jsonl", "--cost", cost, "--json").stdout)["graphs"][0]["points"][0][0]


def test_a_left_out_chip_and_precision_is_predicted():
    told = leave_one_out.leave_one_out(binary())
    assert told["orders"] == 18 and len(told["figures"]) == 36
    assert told["right"] / told["orders"] >= 0.8 and told["rank_correlation"] >= 0.8, told


def test_what_a_file_says_is_fitted_back(graphs, tmp_path):
    """Figures that a cost file makes are those that it was fitted on: prices, factors and the size of memory are found."""
    true = {"npu": {"machine": "a", "precision": "f16", "on_chip_bytes": 1e6, "launch_of": {}, "machines": {"a": 1, "b": 3},
                    "prices": {"launch": 500, "mac": 1e-4, "byte": 1e-3, "weight_byte": 2e-2, "spilled_byte": 5e-2},
                    "precisions": {"f16": {"factor": 1, "activation_bytes": 2, "weight_bytes": 2}, "a8w8": {"factor": 2, "activation_bytes": 1, "weight_bytes": 1}}}}

    def cost(machine, precision, rows, form):
        (tmp_path / "true.json").write_text(json.dumps({"npu": {**true["npu"], "machine": machine, "precision": precision}}))
        return priced(tmp_path / "true.json", graphs[rows, form], tmp_path)

    lines = figures(tmp_path / "f.jsonl", graphs, cost)
    for line in lines:
        run_ok("cost", "fit", tmp_path / "f.jsonl", "--kind", "npu", "--machine", line["machine"], "--precision", line["precision"], "-o", tmp_path / "fit.json")
        assert priced(tmp_path / "fit.json", line["graph"], tmp_path) == pytest.approx(line["seconds"], rel=0.05)
    made = json.loads((tmp_path / "fit.json").read_text())["npu"]
    assert made["machines"]["b"] / made["machines"]["a"] == pytest.approx(3, rel=0.02)
    assert made["precisions"]["a8w8"]["factor"] / made["precisions"]["f16"]["factor"] == pytest.approx(2, rel=0.05)


def test_the_terms_are_named_and_no_other(graphs, tmp_path):
    figures(tmp_path / "f.jsonl", graphs, lambda *_: 1000.0)
    run_ok("cost", "fit", tmp_path / "f.jsonl", "--kind", "npu", "-o", tmp_path / "fit.json")
    made = json.loads((tmp_path / "fit.json").read_text())["npu"]
    assert list(made["prices"]) == ["launch", "mac", "byte", "weight_byte", "spilled_byte"] and made["launch_of"] == {}
    assert (made["machine"], made["precision"]) == ("b", "a8w8")


def test_a_launch_may_have_a_price_of_its_own(graphs, tmp_path):
    prices = {"launch": 1, "mac": 0, "byte": 0, "weight_byte": 0, "spilled_byte": 0}
    costs = []
    for launch_of in ({}, {"Transpose": 11}):
        (tmp_path / "c.json").write_text(json.dumps({"npu": {"prices": prices, "launch_of": launch_of}}))
        costs.append(priced(tmp_path / "c.json", graphs[1, "MHA"], tmp_path))
    assert costs[1] - costs[0] == pytest.approx(30)  # three Transposes


@pytest.mark.parametrize("text, why", [
    ({"npu": {"prices": {"heads": 1}}}, "unknown price 'heads'"),
    ({"npu": {"prices": {"launch": -1}}}, "numbers >= 0"),
    ({"npu": {"prices": {"launch": 1}, "machine": "v9"}}, "no machine 'v9'"),
    ({"npu": {}}, "not what `saturate cost fit --kind npu` writes"),
])
def test_files_that_say_nothing(graphs, tmp_path, text, why):
    (tmp_path / "c.json").write_text(json.dumps(text))
    done = run("optimize", graphs[1, "MHA"], tmp_path / "o.onnx", "--cost", tmp_path / "c.json")
    assert done.returncode == 1 and why in done.stderr


def test_figures_that_say_nothing(graphs, tmp_path):
    (tmp_path / "f.jsonl").write_text(json.dumps({"graph": str(graphs[1, "MHA"])}) + "\n")
    done = run("cost", "fit", tmp_path / "f.jsonl", "--kind", "npu", "-o", tmp_path / "c.json")
    assert done.returncode == 1 and "f.jsonl:1: wanted" in done.stderr
    figures(tmp_path / "f.jsonl", graphs, lambda *_: 1.0)
    done = run("cost", "fit", tmp_path / "f.jsonl", "--kind", "npu", "--machine", "v9", "-o", tmp_path / "c.json")
    assert done.returncode == 1 and "no machine 'v9'" in done.stderr and not (tmp_path / "c.json").exists()
