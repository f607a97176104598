"""Plants wrong sides: proven laws with one thing on the right changed. The prover must not prove any.

usage: python -m prove_rules.mutants SATURATE [--count N] [--seed S]

Prints the mutants that were proven all the same, for a look by hand: some changes say the same in other words.
"""
from __future__ import annotations

import argparse
import copy
import json
import pathlib
import random
import sys
from collections.abc import Iterator

from . import laws
from .exported import Json, by_law, exported, library

OTHERS = {"Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul", "Max": "Min", "Min": "Max", "Less": "Greater", "Greater": "Less", "LessOrEqual": "Less",
          "GreaterOrEqual": "Greater", "And": "Or", "Or": "And", "Exp": "Sigmoid", "Sqrt": "Abs", "Relu": "Abs", "Abs": "Relu", "Neg": "Abs",
          "Sigmoid": "Tanh", "Tanh": "Sigmoid", "ReduceMax": "ReduceMin", "ReduceSum": "ReduceMax", "ReduceMean": "ReduceSum", "Softmax": "LogSoftmax",
          "LogSoftmax": "Softmax", "Log": "Exp", "Reciprocal": "Neg", "Elu": "Relu", "LeakyRelu": "Relu", "Swish": "Relu", "Gelu": "Relu"}


def changes(rule: Json) -> Iterator[tuple[str, Json]]:
    """Each way to make one thing of the right side another."""
    for n, node in enumerate(rule["right"]):
        if node["op"] in OTHERS:
            other = copy.deepcopy(rule)
            other["right"][n]["op"] = OTHERS[node["op"]]
            yield f"{OTHERS[node['op']]} for {node['op']}", other
        if node["op"] in ("Sub", "Div", "MatMul", "Where", "PRelu") and node["inputs"][-1] != node["inputs"][-2]:
            other = copy.deepcopy(rule)
            ins = other["right"][n]["inputs"]
            ins[-1], ins[-2] = ins[-2], ins[-1]
            yield f"operands of {node['op']} swapped", other
        if node["op"] == "Constant":
            for name, a in node["attributes"].items():
                if isinstance(a.get("literal"), (int, float)):
                    other = copy.deepcopy(rule)
                    other["right"][n]["attributes"][name]["literal"] = a["literal"] + 1
                    yield f"{a['literal']} + 1", other


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("saturate")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    data = exported(args.saturate)
    bodies = by_law(data["operators"])
    proven = json.loads(library(pathlib.Path(__file__).resolve().parents[2]).read_text())
    rules = [r for r in data["rules"] if proven.get(r["law"], {}).get("state") in ("proven", "bounded")]
    draw = random.Random(args.seed)
    draw.shuffle(rules)
    planted = survived = 0
    for rule in rules:
        ways = list(changes(rule))
        if not ways or planted == args.count:
            continue
        what, mutant = draw.choice(ways)
        planted += 1
        found = laws.prove(mutant, bodies, 4)
        if found.state != "run":
            survived += 1
            print(f"{rule['name']}: {what}: {found.state}, {found.why}", flush=True)
    print(f"{planted} planted, {planted - survived} not proven")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
