#!/usr/bin/env python3
"""What a change of the program does to its results: optimizes the same files with two builds and compares.

    python bench/gauges/replay.py --old OLD_BINARY --new NEW_BINARY [FILE|FOLDER|@LIST ...] [--shared FOLDER] [--options "--cost nodes"] [--every N] [--verify]
        [--rounds N] [--jobs N] [--json OUT]

Files are .onnx and .onnxtxt, folders are searched to any depth, LIST has a file or folder a line; --shared FOLDER adds its data/zoo, data/spellings and
data/ort_suite. Each --options is a pass over all files; without it there are two, at the target's own costs and at `--cost nodes`. Per file both builds run
one after the other, the first of them changing from file to file. Compared are exit status and message, the bytes of the result, e-nodes, predicted costs,
assumptions, warnings and, with --verify, the verdict. Processor time (user and system, of the whole process) is told as new over old, but never counts as a
difference. Exit status: 0 where nothing but time differs, 1 where anything else does.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading

import onnx

PASSES = ("--target ort-cpu@1.20", "--target ort-cpu@1.20 --cost nodes")
SHARED = ("zoo", "spellings", "ort_suite")
SIDES = ("old", "new")
FEW = 4  # things told of one kind
ROUNDING = 1e-9  # relative difference of costs that is no difference: they are sums of floats


@dataclasses.dataclass
class Run:
    """What one build made of one file."""

    status: object  # exit status, or "no answer" past the time limit
    message: str
    seconds: float
    result: dict  # file name -> bytes
    report: dict

    def digest(self):
        return {name: hashlib.sha256(data).hexdigest() for name, data in self.result.items()}

    def told(self):
        """What the report says of the way, beside the result."""
        get = self.report.get
        graph = get("egraph", {})
        return {"e-graph": f"{graph.get('enodes')} e-nodes in {graph.get('eclasses')} e-classes",
                "cost before": get("cost_before"), "cost after": get("cost_after"), "stopped": get("saturation", {}).get("stop_reason"),
                "assumed": sorted(a["assumption"] for a in get("assumed", [])), "warnings": get("warnings", []),
                "verified": (get("verify") or {}).get("status")}


def run(binary, path, options, folder, limit):
    """Optimizes a file; the folder must be empty and is left so."""
    out, report = folder / "out.onnx", folder / "report.json"
    words = [binary, "optimize", path, "-o", out, "--report", report, "-q", *options]
    with open(folder / "stderr", "wb") as errors:
        process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
    late = threading.Event()
    timer = threading.Timer(limit, lambda: (late.set(), process.kill()))
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    message = (folder / "stderr").read_text(errors="replace").replace(str(folder), "").strip()
    told = json.loads(report.read_text()) if report.exists() else {}
    made = {p.name: p.read_bytes() for p in sorted(folder.glob("out.onnx*"))}
    for p in folder.iterdir():
        p.unlink()
    return Run("no answer" if late.is_set() else process.returncode, message, usage.ru_utime + usage.ru_stime, made, told)


def graphs(model):
    """The model's graph, its functions, and all bodies in them."""
    left = [model.graph, *model.functions]
    while left:
        graph = left.pop()
        yield graph
        left += [g for node in graph.node for a in node.attribute for g in ([a.g] if a.HasField("g") else []) + list(a.graphs)]


def operator(node):
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def counts(model):
    return collections.Counter(operator(node) for graph in graphs(model) for node in graph.node)


def some(texts):
    texts = list(texts)
    return ", ".join(texts[:FEW]) + (f" and {len(texts) - FEW} more" if len(texts) > FEW else "")


def changed_counts(old, new):
    """`Gelu 2 -> 0, Erf 0 -> 2`, the largest change first."""
    keys = sorted((k for k in old.keys() | new.keys() if old[k] != new[k]), key=lambda k: (-abs(old[k] - new[k]), k))
    return some(f"{k} {old[k]} -> {new[k]}" for k in keys)


def same_operators(old, new):
    """What differs between models of the same operator counts: the first kind of thing that does."""
    kinds = [("opsets", lambda m: sorted((o.domain, o.version) for o in m.opset_import)),
             ("inputs or outputs", lambda m: [v.SerializeToString() for v in [*m.graph.input, *m.graph.output]]),
             ("order of operators", lambda m: [operator(n) for g in graphs(m) for n in g.node]),
             ("attributes", lambda m: [[a.SerializeToString() for a in sorted(n.attribute, key=lambda a: a.name)] for g in graphs(m) for n in g.node]),
             ("names of nodes", lambda m: [n.name for g in graphs(m) for n in g.node]),
             ("names of values, or what is joined to what", lambda m: [[*n.input, 0, *n.output] for g in graphs(m) for n in g.node]),
             ("order or number of constants", lambda m: [i.name for g in graphs(m) for i in getattr(g, "initializer", [])]),
             ("values of constants", lambda m: [i.SerializeToString() for g in graphs(m) for i in getattr(g, "initializer", [])]),
             ("told types", lambda m: [v.SerializeToString() for g in graphs(m) for v in g.value_info])]
    return next((name for name, of in kinds if of(old) != of(new)), "the model's own fields, or the order of fields")


def what_differs(old, new):
    """In a line: what differs between two results, given as files."""
    if old.keys() != new.keys():
        return f"files {', '.join(old)} -> {', '.join(new)}"
    if old["out.onnx"] == new["out.onnx"]:
        return "bytes of weights outside of the model"
    try:
        models = [onnx.load_from_string(side["out.onnx"]) for side in (old, new)]
    except Exception as error:  # noqa: BLE001 (protobuf's errors have no common class)
        return f"a result can't be read: {str(error)[:80]}"
    a, b = map(counts, models)
    if a != b:
        return f"{sum(a.values())} -> {sum(b.values())} nodes: {changed_counts(a, b)}"
    return f"the same operators, other {same_operators(*models)}"


def rules_fired(run):
    return collections.Counter({r["rule"]: r["applied"] for r in run.report.get("saturation", {}).get("rules", [])})


def number(value):
    return f"{value:.6g}" if isinstance(value, float) else "none" if value is None or value == [] else str(value)


def same_value(a, b):
    return math.isclose(a, b, rel_tol=ROUNDING) if isinstance(a, float) and isinstance(b, float) else a == b


def name_status(status):
    return f"ended by signal {-status}" if isinstance(status, int) and status < 0 else f"exit status {status}" if isinstance(status, int) else status


def differences(old, new):
    """Kind of difference -> its text; empty where nothing but time differs."""
    out = {}
    if old.status != new.status:
        told = "".join(f" ({r.message[:200]})" for r in (old, new) if r.status != 0 and r.message)
        out["status"] = f"{name_status(old.status)} -> {name_status(new.status)}{told}"
    elif old.message != new.message:
        out["message"] = f"'{old.message[:200]}' -> '{new.message[:200]}'"
    if old.status != 0 and new.status != 0:
        return out
    if old.result and new.result and old.result != new.result:
        out["bytes"] = what_differs(old.result, new.result)
    if old.status == new.status:
        a, b = old.told(), new.told()
        out |= {key: f"{number(a[key])} -> {number(b[key])}" for key in a if not same_value(a[key], b[key])}
    if "cost after" in out and a["cost after"] and b["cost after"] is not None:
        out["cost after"] += f" ({100 * (b['cost after'] / a['cost after'] - 1):+.3g} %)"
    if out and old.status == new.status and (rules := changed_counts(rules_fired(old), rules_fired(new))):
        out["rules"] = rules
    return out


def compare(args, number, name, path, options):
    """A row: what both builds made of a file."""
    runs = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        for turn in range(args.rounds):
            for side in SIDES if (turn + number) % 2 == 0 else SIDES[::-1]:
                runs[side].append(run(getattr(args, side), path, options, folder, args.time_limit))
    (old, *_), (new, *_) = runs["old"], runs["new"]
    differs = differences(old, new)
    for side, mine in runs.items():
        if any(differences(mine[0], other) for other in mine[1:]):
            differs[f"runs of {side}"] = "differ from one another"
    seconds = {side: statistics.median(r.seconds for r in mine) for side, mine in runs.items()}
    ratio = seconds["new"] / seconds["old"] if seconds["old"] else 1
    row = {"file": name, "path": str(path), "options": shlex.join(options), "differences": differs, "ratio": ratio}
    for side, first in (("old", old), ("new", new)):
        row[side] = {"status": first.status, "message": first.message, "seconds": seconds[side], "digest": first.digest(), **first.told()}
    return row


def kind(row):
    failed = [row[side]["status"] != 0 for side in SIDES]
    if failed == [False, True]:
        return "new failures"
    if failed == [True, False]:
        return "fail no more"
    return "changed" if row["differences"] else "fail in both, alike" if failed[0] else "same"


def interval(values):
    """Median with the 95 % interval from order statistics."""
    ordered, n = sorted(values), len(values)
    half = 0.98 * math.sqrt(n)
    low, high = max(0, math.floor((n - 1) / 2 - half)), min(n - 1, math.ceil((n - 1) / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]


def time_lines(rows):
    """Of files that both builds optimize."""
    timed = [r for r in rows if all(r[side]["status"] == 0 for side in SIDES)]
    if not timed:
        return
    median, low, high = interval([r["ratio"] for r in timed])
    old, new = (sum(r[side]["seconds"] for r in timed) for side in SIDES)
    yield (f"  processor time, new / old over {len(timed)} files: median {median:.3f} [{low:.3f}, {high:.3f}]; "
           f"all together {old:.2f} s -> {new:.2f} s ({new / old if old else 1:.3f})")
    for word, extreme in (("least", min), ("most", max)):
        row = extreme(timed, key=lambda r: r["ratio"])
        yield f"    {word} {row['ratio']:.2f} ({row['file']}, {row['old']['seconds']:.3f} s before)"


def summary(rows):
    """Lines of a pass for people."""
    by_kind = collections.Counter(map(kind, rows))
    yield f"{rows[0]['options'] or 'no options'}: {len(rows)} files"
    for name in ("same", "changed", "new failures", "fail no more", "fail in both, alike"):
        what = collections.Counter(key for r in rows if kind(r) == name for key in r["differences"] if key != "rules")
        yield f"  {name:20}{by_kind[name]:6}" + (f"   {', '.join(f'{key} {n}' for key, n in what.most_common())}" if what else "")
    yield from time_lines(rows)
    for name in ("new failures", "fail no more", "changed"):
        mine = [r for r in rows if kind(r) == name]
        if mine:
            yield f"  {name}:"
        for row in mine:
            yield f"    {row['file']}"
            yield from (f"      {key}: {text}" for key, text in row["differences"].items())


def find(args):
    """(name, path) of every file to optimize, in order of names, none twice."""
    given = [(p, p) for p in args.paths]
    if args.shared:
        given += [(args.shared / "data" / name, pathlib.Path(name)) for name in SHARED]
    out = {}
    for path, name in given:
        if not path.exists():
            raise SystemExit(f"replay.py: error: {path}: there is no such file or folder; name another")
        below = sorted(p for p in path.rglob("*") if p.suffix in (".onnx", ".onnxtxt")) if path.is_dir() else [path]
        for p in below:
            out.setdefault(p.resolve(), str(name / p.relative_to(path)) if path.is_dir() else str(p))
    files = [(name, path) for path, name in out.items()][:: args.every]
    if not files:
        raise SystemExit("replay.py: error: no model is given; name files or folders, or --shared FOLDER")
    return files


def binary(text):
    path = pathlib.Path(text).resolve()
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise argparse.ArgumentTypeError(f"{text} is no program; build it first")
    return path


def positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return int(text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@")
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="FILE|FOLDER|@LIST")
    parser.add_argument("--old", required=True, type=binary, metavar="BINARY")
    parser.add_argument("--new", required=True, type=binary, metavar="BINARY")
    parser.add_argument("--shared", type=pathlib.Path, metavar="FOLDER", help="adds data/zoo, data/spellings and data/ort_suite of it")
    parser.add_argument("--options", action="append", metavar="WORDS", help=f"of saturate; each is a pass (default: {', '.join(map(repr, PASSES))})")
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="only every Nth file")
    parser.add_argument("--rounds", type=positive, default=1, metavar="N", help="runs of each build, for steadier times; they must agree, too")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="files at a time; times are worse with more than one")
    parser.add_argument("--time-limit", type=float, default=300, metavar="S", help="seconds of a run")
    parser.add_argument("--verify", action="store_true", help="let the builds verify their results")
    parser.add_argument("--json", type=pathlib.Path, metavar="OUT", help="write all rows")
    args = parser.parse_intermixed_args()
    args.passes = [shlex.split(o) + ([] if args.verify else ["--no-verify"]) for o in args.options or PASSES]
    return args


def run_pass(args, files, options):
    rows = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for row in pool.map(lambda job: compare(args, job[0], *job[1], options), enumerate(files)):
            rows.append(row)
            if sys.stderr.isatty():
                print(f"\r\033[K{len(rows)}/{len(files)} {row['file'][-100:]}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return rows


def main():
    args = arguments()
    files, rows = find(args), []
    for options in args.passes:
        mine = run_pass(args, files, options)
        print("\n".join(summary(mine)) + "\n", flush=True)
        rows += mine
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    differ = sum(bool(r["differences"]) for r in rows)
    print(f"{differ} of {len(rows)} runs differ" if differ else f"no difference in {len(rows)} runs")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
