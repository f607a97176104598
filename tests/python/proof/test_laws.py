"""What is proven of laws: the data fits the rules, the command shows it, and the prover tells true from false (bench/prove_rules)."""
import copy
import json
import sys

import pytest

from conftest import ROOT, run, run_ok

sys.path.insert(0, str(ROOT / "bench"))
from prove_rules.exported import by_law, stale  # noqa: E402

PROOFS = json.loads((ROOT / "rules" / "library" / "proofs.json").read_text())


@pytest.fixture(scope="module")
def exported():
    return json.loads(run_ok("rules", "export").stdout)


def test_rules_as_data(exported):
    rule = next(r for r in exported["rules"] if r["name"] == "transpose_back")
    assert rule["left"] == [
        {"op": "Transpose", "attributes": {"perm": {"variable": "p"}}, "inputs": ["X"], "outputs": [rule["left"][0]["outputs"][0]]},
        {"op": "Transpose", "attributes": {"perm": {"variable": "q"}}, "inputs": rule["left"][0]["outputs"], "outputs": ["Y"]}]
    assert rule["where"] == [["call", "identity_perm", ["call", "compose", ["name", "p"], ["name", "q"]]]]
    assert rule["effect"] == "exact" and rule["law"] == "transpose_back" and not rule["both_ways"]
    assert {b["law"] for b in exported["operators"]} >= {"saturate.sdpa", "saturate.rope"}


def test_each_law_has_a_line_of_its_own_text(exported):
    changed = stale(by_law(exported["rules"]), by_law(exported["operators"]), PROOFS)
    assert not changed, "prove them: `python -m prove_rules SATURATE` in bench/ (docs/proofs.md)"


def test_how_much_is_proven():
    states = [entry["state"] for entry in PROOFS.values()]
    assert set(states) == {"proven", "bounded", "run"}
    assert states.count("proven") + states.count("bounded") >= 250
    assert all(entry["why"] for entry in PROOFS.values())


def test_the_command_tells_what_is_proven():
    assert "proven for any size at every rank: over the reals" in run_ok("rules", "show", "reciprocal_of_quotient").stdout
    assert "proven for any size at bounded ranks: ranks up to" in run_ok("rules", "show", "softmax_as_body").stdout
    assert "checked by running only: it is written in C++" in run_ok("rules", "show", "reshape_identity").stdout
    listed = json.loads(run_ok("rules", "list", "--proven", "--json").stdout)
    assert {r["name"].partition("[")[0] for r in listed} == {law for law, entry in PROOFS.items() if entry["state"] != "run"}
    assert all(r["proof"].startswith("proven") for r in listed)


def test_a_rule_of_a_user_is_not_said_to_be_proven(tmp_path):
    mine = tmp_path / "mine.rules"
    mine.write_text('opset "" 28\nrule my_own (X) => (Y)\n  Neg (Neg (X)) => Identity (X)\n  example X = float[2,3]\n')
    shown = run("rules", "show", "my_own", "--rules", mine)
    assert shown.returncode == 0 and "proven" not in shown.stdout


SOUND = ["reciprocal_of_quotient", "transpose_back", "root_by_hand", "sum_of_products_of_one", "concat_of_nothing", "gemm_is_matmul"]


@pytest.mark.parametrize("law", SOUND)
def test_true_laws_are_proven_and_false_ones_are_not(exported, law):
    pytest.importorskip("z3")
    from prove_rules import laws, mutants
    bodies = by_law(exported["operators"])
    rule = next(r for r in exported["rules"] if r["law"] == law)
    assert laws.prove(rule, bodies, 5).state != "run"
    for _, wrong in mutants.changes(rule):
        assert laws.prove(wrong, bodies, 5).state == "run"


def test_a_guard_is_needed(exported):
    pytest.importorskip("z3")
    from prove_rules import laws
    bodies = by_law(exported["operators"])
    for law in ("transpose_back", "neutral", "concat_of_nothing"):
        rule = copy.deepcopy(next(r for r in exported["rules"] if r["law"] == law))
        rule["where"] = []
        assert laws.prove(rule, bodies, 5).state == "run"
