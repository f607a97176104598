"""Which operators rules and targets make, by what their files say."""
import json
import pathlib
import re

import onnx

from .cases import MS

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = re.compile(r"(?<![\w.$@])((?:com\.microsoft\.)?[A-Z]\w+)\s*(?=<|\()")  # of an operator in a rule: F <..> (X), com.microsoft.F (X)


def in_rules():
    """Operators that rules name on their right sides, or on either side where they hold both ways: those of com.microsoft as "com.microsoft::F"."""
    names = set()
    for path in (ROOT / "rules" / "library").rglob("*.rules"):
        text = re.sub(r"#.*", "", path.read_text())
        for rule in re.split(r"^(?=rule |def |forall )", text, flags=re.M):
            body = re.split(r"^\s*(?:example|counterexample)\b", rule, flags=re.M)[0]
            names |= {n.replace(f"{MS}.", f"{MS}::") for n in NAME.findall(body if "<=>" in body or body.startswith(("forall", "def")) else body.partition("=>")[2])}
    return names


def in_targets():
    """Operators of com.microsoft that targets take of rules, or that runtimes make of node units."""
    names = set()
    for path in (ROOT / "extract" / "targets").glob("*.json"):
        target = json.loads(path.read_text())
        names |= {f"{MS}::{name}" for name in target.get("domains", {}).get(MS, [])} | {unit["becomes"] for unit in target.get("node_units", []) if "becomes" in unit}
    return names


def with_kernels(names):
    """Those of com.microsoft that some release of ONNX Runtime has on a CPU."""
    since = json.loads((ROOT / "extract" / "runtimes" / "kernels.json").read_text())["since"]
    return {name for name in names if not name.startswith(f"{MS}::") or name in since}


def all_made():
    named = in_rules()
    standard = {name for name in named if not name.startswith(f"{MS}::") and onnx.defs.has(name)}
    return with_kernels({name for name in named | in_targets() if name.startswith(f"{MS}::")} | standard)
