"""bench/extraction_gym: its JSON, its choices judged by an evaluator of our own, what it refuses."""
import json
import os
import pathlib
import subprocess

import pytest

from conftest import SHARED

GYM = pathlib.Path(os.environ.get("SATURATE_BUILD", ".")) / "bench" / "extraction_gym"
if not GYM.exists():
    pytest.skip("extraction_gym is not built", allow_module_level=True)


def gym(*words):
    return subprocess.run([GYM, *map(str, words)], capture_output=True, text=True, timeout=300)


def dag_cost(egraph, choice):
    nodes, state, cost = egraph["nodes"], {}, 0.0
    for root in egraph["root_eclasses"]:
        stack = [(root, False)]
        while stack:
            name, done = stack.pop()
            if done:
                state[name] = "done"
                continue
            if state.get(name) == "done":
                continue
            assert name not in state, f"cycle at {name}"
            node = nodes[choice[name]]
            assert node["eclass"] == name
            state[name] = "open"
            cost += node.get("cost", 1.0)
            stack.append((name, True))
            for child in (nodes[k]["eclass"] for k in node.get("children", [])):
                assert state.get(child) != "open", f"cycle at {child}"
                stack.append((child, False))
    return cost


def write(path, nodes, roots):
    path.write_text(json.dumps({"nodes": {k: dict(op="f", **v) for k, v in nodes.items()}, "root_eclasses": roots}))


def test_choices_cost_what_is_said(tmp_path):
    # b by its first node is on a cycle; the shared c is paid once; defaults: cost 1, no children.
    write(tmp_path / "g.json", {"a0": {"eclass": "a", "children": ["b0", "c0"]}, "b0": {"eclass": "b", "children": ["a0"], "cost": 0},
                                "b1": {"eclass": "b", "children": ["c0", "c0"], "cost": 2}, "c0": {"eclass": "c"}}, ["a", "c"])
    (tmp_path / "notes.json").write_text("[1]")
    for extractor in ("bottom-up", "greedy-dag", "heuristic", "portfolio"):
        done = gym(tmp_path, "--extractor", extractor, "--json", "--choices", tmp_path / "out.txt", "--time-limit", 2)
        assert done.returncode == 0, done.stderr
        (line,) = map(json.loads, done.stdout.splitlines())
        assert line["file"] == "g.json" and line["extractor"] == extractor and line["valid"] is True and line["seconds"] >= 0
        assert (line["dag"], line["tree"]) == (4, 7)
        assert dag_cost(json.loads((tmp_path / "g.json").read_text()), json.loads((tmp_path / "out.txt").read_text())) == 4


@pytest.mark.parametrize("nodes, roots, words", [
    ({"x": {"eclass": "0", "cost": -2}}, ["0"], "node x has the cost -2"),
    ({"x": {"eclass": "0", "children": ["x"]}}, ["0"], "root class 0 has no finite acyclic term"),
    ({"x": {"eclass": "0"}}, ["7"], 'root class "7" has no node'),
    ({"x": {"eclass": "0", "children": ["y"]}}, ["0"], 'node x: the child "y" is not in the file'),
])
def test_refuses_with_the_place(tmp_path, nodes, roots, words):
    write(tmp_path / "g.json", nodes, roots)
    done = gym(tmp_path, "--json")
    assert done.returncode == 1 and words in done.stderr
    assert json.loads(done.stdout)["valid"] is False


def test_small_files_of_the_gym_are_at_the_best_known_cost():
    folder = SHARED / "data" / "extraction_gym"
    if not folder.exists():
        pytest.skip("../shared is not there")
    best = json.loads((folder / "best_known.json").read_text())
    done = gym(folder / "test_data", "--extractor", "portfolio", "--json", "--time-limit", 5)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) > 40
    for line in lines:
        assert line["dag"] <= best[f"test_data/{line['file']}"]["best_dag"] * (1 + 1e-9), line
