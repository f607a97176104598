"""Proves a law's instances: over which sorts, at which ranks, or why not."""
from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import z3

from . import pointwise, ranked
from .conditions import Dtype, Json, Unknown, conjuncts
from .exported import text_hash
from .values import BOOL, INT, REAL, IllTyped, Refused

REALS = {"alpha", "beta", "gamma", "epsilon", "bias", "lambd", "scale", "softcap", "mask_filter_value", "cubic_coeff_a", "extrapolation_value", "momentum"}
DTYPE_ATTRIBUTES = {"to", "output_datatype", "dtype", "output_dtype"}
CHOICES: dict[str, list[Any]] = {"approximate": ["none", "tanh"], "fmod": [0, 1], "keepdims": [0, 1], "allowzero": [0, 1]}
WORDS = {REAL: "the reals", INT: "whole numbers", BOOL: "truth values"}


@dataclasses.dataclass
class Verdict:
    state: str                  # proven, bounded, run
    why: str
    expressible: bool = False   # the denotation says what both sides are
    refuted: bool = False       # both sides are expressed, and no proof was found


def variables(rule: Json) -> dict[str, str]:
    """Attribute variable -> the attribute that it stands at."""
    return {a["variable"]: name for node in rule["left"] for name, a in node["attributes"].items() if "variable" in a}


def attribute_choices(rule: Json) -> Iterator[dict[str, Any]]:
    """All ways to give attribute variables a value, numbers as symbols."""
    names: list[str] = []
    ways: list[list[Any]] = []
    for variable, attribute in variables(rule).items():
        names.append(variable)
        if attribute in REALS:
            ways.append([z3.Real(f"@{variable}")])
        elif attribute in DTYPE_ATTRIBUTES:
            ways.append([Dtype(s, variable) for s in (REAL, INT, BOOL)])
        else:
            ways.append(list(CHOICES.get(attribute, [z3.Int(f"@{variable}")])))
    for way in itertools.product(*ways):
        yield dict(zip(names, way))


def subsets(names: list[str]) -> Iterator[frozenset[str]]:
    for n in range(len(names) + 1):
        for some in itertools.combinations(names, n):
            yield frozenset(some)


def shape_operands(rule: Json) -> set[str]:
    """Inputs that only say how others are viewed."""
    used = [(name, node["op"] in pointwise.VIEWS | {"Expand"} and at > 0) for node in rule["left"] + rule["right"] for at, name in enumerate(node["inputs"])]
    return {name for name, view in used if view} - {name for name, view in used if not view}


def at_each_place(rule: Json) -> Verdict:
    """The pointwise proof, over all sorts that the left side has a type for."""
    met: set[str] = set()
    notes: set[str] = set()
    shapes = shape_operands(rule)
    for absent in subsets(rule["optional"]):
        there = [n for n in rule["inputs"] if n not in absent]
        for attributes in attribute_choices(rule):
            for sorts in itertools.product(*([INT] if n in shapes else [REAL, INT, BOOL] for n in there)):
                try:
                    held, ctx = pointwise.prove(rule, dict(zip(there, sorts)), attributes, absent)
                except IllTyped:
                    continue
                except Unknown as e:
                    raise pointwise.NotPointwise(str(e)) from None
                if not held:
                    return Verdict("run", f"no proof was found of inputs that are {', '.join(sorts)}", True, True)
                met |= {s for n, s in zip(there, sorts) if n not in shapes}
                notes |= ctx.notes
    if not met:
        return Verdict("run", "the denotation has no type for its left side")
    return Verdict("proven", worded(met, notes, False), True)


def without_useful(rule: Json) -> Json:
    """The law alone: what `useful` holds is no part of it."""
    return rule | {"where": [c for w in rule["where"] for c in conjuncts(w) if c[:2] != ["call", "useful"]]}


def with_useful(rule: Json) -> Json:
    """What the engine asks before it uses the rule."""
    where = [c for w in rule["where"] for c in conjuncts(w)]
    return rule | {"where": [p for c in where for p in (conjuncts(c[2]) if c[:2] == ["call", "useful"] else [c])]}


def worded(sorts: set[str], noted: set[str], useful: bool) -> str:
    over = " and ".join(WORDS[s] for s in (REAL, INT, BOOL) if s in sorts) or "sizes"
    notes = sorted(noted) + (["what it calls useful is given"] if useful else [])
    return f"over {over}" + "".join(f"; {n}" for n in notes)


def at_each_rank(rule: Json, bodies: dict[str, list[Json]], seconds: float) -> Verdict:
    """The proof at ranks up to 4, or as far as time allows."""
    ranked.reached(rule, bodies)
    absents = list(subsets(rule["optional"]))
    given = with_useful(rule)
    first = ranked.prove(given, bodies, 2, seconds, absents)
    if first.failed:
        return Verdict("run", f"no proof was found ({first.failed})", True, True)
    if first.late and not first.met:
        return Verdict("run", "no proof was found in time", True)
    alone = without_useful(rule)
    plain = ranked.prove(alone, bodies, 2, seconds, absents) if alone["where"] != given["where"] else first
    useful = bool(plain.failed or plain.late or not plain.met)
    best, most = (None if first.late else first), 2
    for bound in (3, 4):  # a law of four dims needs its time there
        patience = seconds if best is not None and best.met else 4 * seconds
        out = ranked.prove(given if useful else alone, bodies, bound, patience, absents)
        if out.failed and not useful:
            useful = True
            out = ranked.prove(given, bodies, bound, patience, absents)
        if out.failed:
            return Verdict("run", f"no proof was found ({out.failed})", True, True)
        if out.late:
            break
        best, most = out, bound
    if best is None:
        return Verdict("run", "no proof was found in time", True)
    if not best.met:
        return Verdict("run", "the denotation has no type for its left side")
    if best.highest < most == 4:  # no rank above was met, so there is none
        return Verdict("proven", worded(best.sorts, best.notes, useful), True)
    return Verdict("bounded", f"ranks up to {most}, {worded(best.sorts, best.notes, useful)}", True)


def prove(rule: Json, bodies: dict[str, list[Json]], seconds: float = 15) -> Verdict:
    if rule["effect"] in ("approximates", "within_one_step"):
        return Verdict("run", f"its effect is {rule['effect']}: the sides are not equal numbers")
    for given in (without_useful(rule), with_useful(rule)):
        try:
            found = at_each_place(given)
        except (Refused, Unknown):
            continue
        if found.state == "proven":
            return found if given["where"] == without_useful(rule)["where"] else Verdict("proven", found.why + "; what it calls useful is given", True)
    try:
        return at_each_rank(rule, bodies, seconds)
    except Refused as e:
        return Verdict("run", f"the denotation does not reach {e}")
    except Unknown as e:
        return Verdict("run", f"the denotation does not reach the term {e}")


RANK = {"proven": 2, "bounded": 1, "run": 0}


def entry(instances: list[Json], verdicts: list[Verdict], bodies: dict[str, list[Json]]) -> dict[str, Any]:
    """A law's line: its weakest instance decides."""
    worst = min(verdicts, key=lambda v: RANK[v.state])
    why = worst.why
    if worst.state == "run" and len(instances) > 1:
        why = f"{instances[verdicts.index(worst)]['name']}: {why}"
    return {"state": worst.state, "why": why, "expressible": all(v.expressible for v in verdicts), "hash": text_hash(instances, bodies)}
