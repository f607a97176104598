"""Laws as `saturate rules export` tells them, and the file that says what is proven of each. Needs nothing but Python."""
from __future__ import annotations

import collections
import hashlib
import json
import pathlib
import subprocess
from typing import Any

Json = Any


def exported(binary: str, word: str = "") -> Json:
    """`saturate rules export`."""
    done = subprocess.run([binary, "rules", "export", *([word] if word else [])], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def by_law(rules: list[Json]) -> dict[str, list[Json]]:
    laws: dict[str, list[Json]] = collections.defaultdict(list)
    for rule in rules:
        laws[rule["law"]].append(rule)
    return dict(laws)


def text_hash(instances: list[Json], bodies: dict[str, list[Json]]) -> str:
    """Of what a law says, wherever it stands: both sides, conditions, lets, effect, and the bodies of operators that rule files define."""
    used = sorted({n["op"] for rule in instances for n in rule["left"] + rule["right"]} & bodies.keys())
    said = [{k: v for k, v in rule.items() if k != "file"} for rule in (*instances, *(case for op in used for case in bodies[op]))]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def library(root: pathlib.Path) -> pathlib.Path:
    return root / "rules" / "library" / "proofs.json"


def stale(laws: dict[str, list[Json]], bodies: dict[str, list[Json]], entries: dict[str, Any]) -> list[str]:
    """Laws without a line of their own text, and lines of laws that are gone."""
    changed = [name for name, rules in laws.items() if entries.get(name, {}).get("hash") != text_hash(rules, bodies)]
    return changed + [name for name in entries if name not in laws]
