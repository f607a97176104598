#!/usr/bin/env python3
"""Chooses the cases of bench/runtime/ort_grid.py that `saturate cost calibrate` times, in the order in which they tell most.

    python bench/runtime/calibration_rows.py ROWS.jsonl > extract/costs/calibration.jsonl     # ROWS: of this grid, such as extract/costs/ort-cpu.jsonl

A case tells of others by how alike they are: of one operator, of one family, of about one length. Each next one is the case after which least is unknown of
all rows, an operator counting by the root of its rows (a greedy choice by the variance of a Gaussian process, as in A. Krause, A. Singh and C. Guestrin,
Near-Optimal Sensor Placements in Gaussian Processes, JMLR 2008). So any number of them from the beginning is a good choice, too.
A line: the row as a table has it, without its time, and the node by which it is timed, with what its inputs hold: null where one is absent, else its element
type, shape and values (none: drawn; one: all are that). Left out are operators that only give another shape, differences of two, and what takes long.
"""
import argparse
import json
import math
import sys

import numpy as np
from onnx import TensorProto, helper

import gather_ort
from ort_grid import GRID

LONGEST = 0.03  # seconds
MOST_VALUES = 64
ALL, OPERATOR, FAMILY, NOISE, REACH, LENGTH = 0.06, 0.06, 0.06, 0.004, 4.0, 6.0  # extract/price/calibrated.cpp has such a process


def held(value):
    """An input as a line has it."""
    if value is None:
        return None
    if not isinstance(value, np.ndarray):
        return {"dtype": "float", "shape": list(value)}
    out = {"dtype": gather_ort.DTYPE_NAMES.get(value.dtype.name, value.dtype.name), "shape": list(value.shape)}
    if value.size and (value == value.flat[0]).all():
        return out | {"values": [value.flat[0].item()]}
    return out | {"values": value.ravel().tolist()} if value.size <= MOST_VALUES else out


def row_of(case):
    row = gather_ort.identity(case, 1)
    return {k: v for k, v in row.items() if k not in ("threads", "outputs") and v not in ([], {}) and not (k == "dtype" and v == "float")}


def key_of(row):
    attrs = {k: round(v, 5) if isinstance(v, float) else v for k, v in row.get("attrs", {}).items()}
    return json.dumps([row["op"], row.get("dtype", "float"), row["in"], row.get("const", []), attrs], sort_keys=True)


def line_of(case, row):
    node = {"op_type": case.op, "domain": case.domain, "opset": case.opset, "attrs": case.attrs, "weights": list(case.weights), "outputs": case.outputs}
    return {"row": row, "node": {k: v for k, v in node.items() if v not in ("", [], {})}, "inputs": [held(v) for v in case.inputs]}


def features(rows):
    """By row: doublings of its seconds, and of sizes."""
    points = []
    for row in rows:
        shapes = [s for s in row["in"] if s] or [[1]]
        sizes = [math.log2(max(1, math.prod(s))) for s in (shapes + [[1]] * 3)[:3]]
        points.append([math.log2(max(row["seconds"], 1e-8)), *sizes, math.log2(max(1, row["out"][0][-1] if row["out"][0] else 1))])
    return np.array(points)


def covariance(rows):
    points = features(rows)
    operator = np.unique([r["op"] for r in rows], return_inverse=True)[1]
    family = np.unique([json.dumps([r["op"], r.get("dtype"), r.get("const"), len(r["in"]), sorted(r.get("attrs", {}))]) for r in rows], return_inverse=True)[1]
    length = np.exp(-np.abs(points[:, None, 0] - points[None, :, 0]) / LENGTH)
    apart = np.sqrt(((points[:, None, 1:] - points[None, :, 1:]) ** 2).sum(-1) + np.where(family[:, None] == family[None, :], 0, 4.0))
    same = operator[:, None] == operator[None, :]
    return ALL * length + same * (OPERATOR * length + FAMILY * np.exp(-apart / REACH))


def order(rows, allowed, count):
    k = covariance(rows)
    counts = {}
    for row in rows:
        counts[row["op"]] = counts.get(row["op"], 0) + 1
    weight = np.array([counts[row["op"]] ** -0.5 for row in rows])
    chosen = []
    for _ in range(count):
        gain = (weight @ (k * k)) / (np.diag(k) + NOISE)
        gain[~allowed] = -1
        gain[chosen] = -1
        best = int(gain.argmax())
        chosen.append(best)
        k = k - np.outer(k[:, best], k[best]) / (k[best, best] + NOISE)
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows")
    parser.add_argument("--count", type=int, default=300)
    args = parser.parse_args()
    cases = {key_of(row_of(case)): case for part in GRID for case in part()}
    with open(args.rows, encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if "op" in row]
    timed = [cases.get(key_of(row)) for row in rows]
    plain = lambda row, case: case is not None and not case.without and case.op not in (*gather_ort.VIEWS, "Shape") and row["seconds"] <= LONGEST
    allowed = np.array([plain(row, case) for row, case in zip(rows, timed)])
    print(f"{len(rows)} rows, {int(allowed.sum())} of them can be timed", file=sys.stderr)
    for i in order(rows, allowed, args.count):
        row = {k: v for k, v in rows[i].items() if k not in ("seconds", "noise", "passes", "threads", "outputs")}
        print(json.dumps(line_of(timed[i], row), separators=(",", ":")))


if __name__ == "__main__":
    main()
