"""What a piece does, in a process of its own: `python -m onnx_saturate.study._work FOLDER`, with what to do in FOLDER/todo.json."""
from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import RuleSet, __version__, extract, optimize_with_report
from .._errors import Error
from .._tune_ort import one_line
from ._pieces import Key, Outcome
from ._timing import alone, compared

_TRIES = 3
"""Of a piece whose process was killed."""


def versions() -> dict[str, str]:
    """Of what results depend on; ONNX Runtime's is empty where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    out = {"saturate": __version__, "onnxruntime": ""}
    for package in ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino"):
        try:
            out["onnxruntime"] = out["onnxruntime"] or version(package)
        except PackageNotFoundError:
            continue
    return out


def machine() -> dict[str, Any]:
    """What runs here; no name of a machine or of a user."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            processor = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), processor)
    except OSError:
        pass
    return {"processor": processor, "cores": os.cpu_count() or 1, "system": f"{platform.system()} {platform.machine()}", "python": platform.python_version()}


# ---- pieces -----------------------------------------------------------------------------------------------------------------------------


def _function(path: str, name: str) -> Any:
    """A function of a file of Python."""
    spec = importlib.util.spec_from_file_location("study_cost", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        return getattr(module, name)
    except AttributeError:
        raise Error(f"{os.path.basename(path)}: it has no function {name}") from None


def _resolved(value: Any, paths: Mapping[str, str]) -> Any:
    """Files by the hash of their content become paths, or the function that they name."""
    if isinstance(value, list):
        return [_resolved(item, paths) for item in value]
    if not isinstance(value, dict) or "file" not in value:
        return value
    path = paths[value["file"]]
    return _function(path, value["function"]) if "function" in value else path


def _rules(files: list[str]) -> RuleSet:
    """Files of rules beside the built-in ones, or without them where "none" is among the names, as the command has it."""
    chosen = RuleSet.none() if "none" in files else RuleSet.builtin()
    for file in files:
        chosen = chosen if file == "none" else chosen.add_file(file)
    return chosen


def _kept(path: Path, folder: Path) -> str:
    """Moves what was made to where the study takes it; its hash."""
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "made").mkdir(exist_ok=True)
    path.rename(folder / "made" / f"{sha}.onnx")
    return sha


def _optimize(key: Key, paths: Mapping[str, str], folder: Path) -> dict[str, Any]:
    options = {name: _resolved(value, paths) for name, value in key["options"].items()}
    if key["dims"]:
        options["cost_at"] = dict(key["dims"])
    if "rules" in options:
        options["rules"] = _rules(options["rules"])
    for name in ("target", "cost"):
        options[name] = _resolved(key[name], paths)
    begin = time.perf_counter()
    _, told = optimize_with_report(paths[key["model"]], folder / "result.onnx", extractor=key["extractor"], seed=key["seed"], progress=False, **options)
    seconds = time.perf_counter() - begin
    report = told.to_dict()
    saturation = report["saturation"] or {}
    fired = [rule for rule in saturation.get("rules", []) if rule["applied"]]
    return {
        "made": _kept(folder / "result.onnx", folder),
        "target": report["target"], "unit": report["cost_unit"] or "",
        "cost": [report["cost_before"], report["cost_after"]], "sizes": report["cost_sizes"] or {},
        "nodes": [report["before"]["nodes"], report["after"]["nodes"]], "verified": bool(report["verified"]),
        "iterations": len(saturation.get("iterations", [])), "stop": saturation.get("stop_reason", ""),
        "enodes": (report["egraph"] or {}).get("enodes"), "eclasses": (report["egraph"] or {}).get("eclasses"),
        "rules": len(fired), "applied": sum(rule["applied"] for rule in fired),
        "seconds": {"all": seconds, "saturate": report["seconds"].get("saturate"), "extract": report["seconds"].get("extract")},
    }  # fmt: skip


def _draw(key: Key, paths: Mapping[str, str], folder: Path) -> dict[str, Any]:
    options = {"cost_at": dict(key["dims"])} if key["dims"] else {}
    told = extract(
        paths[key["model"]], folder / "drawn", samples=key["samples"], seed=key["seed"], target=_resolved(key["target"], paths), verify=False, **options
    )
    nodes = {_kept(folder / "drawn" / os.path.basename(row["graph"]), folder): row["nodes"] for row in told}
    return {"made": list(nodes), "nodes": nodes}


def _price(key: Key, paths: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """As the extractor prices them: by a run without rules."""
    options: dict[str, Any] = {"cost_at": dict(key["dims"])} if key["dims"] else {}
    cost, target, prices, unit = _resolved(key["cost"], paths), _resolved(key["target"], paths), {}, ""
    for sha in key["graphs"]:
        try:
            told = optimize_with_report(paths[sha], cost=cost, target=target, rules=RuleSet.none(), verify=False, progress=False, **options).report.to_dict()
            prices[sha], unit = told["cost_before"], told["cost_unit"] or ""
        except Error:
            prices[sha] = None
    return {"prices": prices, "unit": unit}


def _time(key: Key, paths: Mapping[str, str], folder: Path) -> dict[str, Any]:
    return compared(paths[key["before"]], paths[key["after"]], key["dims"], key)


_KINDS = {"optimize": _optimize, "draw": _draw, "price": _price, "time": _time}


def _ends_with(parent: int) -> None:
    """Ends this process when its parent is gone: a piece whose worker was killed is done elsewhere, and would be timed beside this one."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _main(folder: Path) -> int:
    """Does what FOLDER/todo.json says; FOLDER/done.json tells what came of it."""
    threading.Thread(target=_ends_with, args=(os.getppid(),), daemon=True).start()
    todo = json.loads((folder / "todo.json").read_text(encoding="utf-8"))
    mine = versions()
    wrong = next((f"{name} {mine[name] or 'not at all'}, and the study is of {todo['key'][name]}" for name in mine if todo["key"].get(name, mine[name]) != mine[name]), "")
    done: dict[str, Any] = {"where": {**machine(), **mine}, "failed": "", "result": {}}
    if wrong:
        done["stop"] = f"a worker has {wrong}; install the same on all of them"
    else:
        warnings.simplefilter("ignore")  # the report tells them
        try:
            done["result"] = _KINDS[todo["key"]["piece"]](todo["key"], todo["paths"], folder)
        except Exception as error:  # whatever a model, a runtime or a cost model of somebody's raises is this piece's failure
            done["failed"] = one_line(error) or type(error).__name__
    (folder / "done.json").write_text(json.dumps(done), encoding="utf-8")
    return 0


# ---- where they are done ------------------------------------------------------------------------------------------------------------------


class Stop(Error):
    """The study can't go on."""


def perform(key: Key, paths: Mapping[str, str], folder: Path, limit: float) -> Outcome:
    """Does a piece in a process of its own, on files that lie here by the hash of their content; what it makes goes to `folder`.

    A process that is killed is started again; one that dies by itself or takes longer than `limit` seconds has failed. Pieces that time
    wait for each other.
    """
    with alone() if key["piece"] == "time" else contextlib.nullcontext():
        return _performed(key, paths, folder, limit)


def _performed(key: Key, paths: Mapping[str, str], folder: Path, limit: float) -> Outcome:
    (folder / "todo.json").write_text(json.dumps({"key": key, "paths": paths}), encoding="utf-8")
    for _ in range(_TRIES):
        try:
            done = subprocess.run([sys.executable, "-m", __name__, folder], capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return Outcome({}, f"it took longer than {limit:g} s (timing.limit)", machine())
        if done.returncode == 0:
            told = json.loads((folder / "done.json").read_text(encoding="utf-8"))
            if "stop" in told:
                raise Stop(told["stop"])
            return Outcome(told["result"], told["failed"], told["where"])
        if done.returncode == -signal.SIGINT:
            raise KeyboardInterrupt
        if done.returncode not in (-signal.SIGKILL, -signal.SIGTERM):
            break
    last = (done.stderr.strip().splitlines() or [""])[-1]
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
    return Outcome({}, one_line(Error(f"its process ended with {how}{': ' if last else ''}{last}")), machine())


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
