#!/usr/bin/env python3
"""Sweeps models x cost models x extractors, and shows how good the choices are.

    python bench/gauges/cost_experiment.py GRID.json OUT_FOLDER --binary build/release/tools/saturate [--jobs 2]

GRID.json: {"models": [path or {"path", "inputs": "x.npz", "dims": {"batch": 1}}], "cost_models": ["measured", "roofline", "mine.json"], "extractors":
["search", "portfolio"], "samples": 16, "seed": 0, "target": "ort-cpu@1.20", "runtime": "onnxruntime" or "saturate", "threads": 1, "seconds": 0.2, "passes": 8}. Paths are
relative to the grid's folder.

For each model, K equal graphs are drawn once (`saturate extract`) and timed once, in turns; for each cost model, they are ranked (`saturate cost eval`); for
each cost model and extractor the model is optimized and the result timed beside the original. Every finished piece is a JSON file in OUT_FOLDER/parts, so
that a second call goes on where the first ended; pieces run in processes of their own, timing pieces one at a time. Results: OUT_FOLDER/results.csv and
results.html, one self-contained page with plots (predicted against measured, Kendall's tau, regret, seconds of extraction against quality).
"""
import argparse
import concurrent.futures
import csv
import hashlib
import html
import json
import math
import pathlib
import re
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parents[1]
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2")
timing = threading.Lock()  # one measurement at a time


class Experiment:
    def __init__(self, args):
        self.grid = json.loads(args.grid.read_text())
        self.base, self.out, self.binary = args.grid.resolve().parent, args.out.resolve(), str(pathlib.Path(args.binary).resolve())
        unknown = set(self.grid) - {"models", "cost_models", "extractors", "samples", "seed", "target", "runtime", "threads", "seconds"}
        if unknown:
            raise SystemExit(f"cost_experiment: error: {args.grid}: unknown key {sorted(unknown)[0]!r}; see --help for the keys")
        for key in ("models", "cost_models"):
            if not self.grid.get(key):
                raise SystemExit(f"cost_experiment: error: {args.grid}: {key!r} is missing or empty")
        (self.out / "parts").mkdir(parents=True, exist_ok=True)

    def get(self, key, default):
        return self.grid.get(key, default)

    def models(self):
        for entry in self.grid["models"]:
            entry = {"path": entry} if isinstance(entry, str) else dict(entry)
            entry["path"] = str((self.base / entry["path"]).resolve())
            if "inputs" in entry:
                entry["inputs"] = str((self.base / entry["inputs"]).resolve())
            yield entry

    def cost(self, name):
        return str((self.base / name).resolve()) if re.search(r"\.(jsonl?|so)$", name) else name

    def run(self, *words):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
        return done.stdout

    def part(self, key, make):
        """What `make` gave for this key, now or in an earlier call. Errors are kept for the report but tried again next time."""
        content = json.dumps(key, sort_keys=True)
        path = self.out / "parts" / f"{key['kind']}-{hashlib.sha256(content.encode()).hexdigest()[:16]}.json"
        if path.exists():
            return json.loads(path.read_text())["result"]
        try:
            result = make()
        except RuntimeError as error:
            return {"error": str(error)}
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps({"key": key, "result": result}))
        partial.rename(path)
        return result

    def dims(self, entry):
        return [w for name, size in entry.get("dims", {}).items() for w in ("--dim", f"{name}={size}")]

    def time(self, paths, entry, rows):
        """Seconds of graphs, timed in turns where the runtime is ONNX Runtime."""
        with timing:
            if self.get("runtime", "onnxruntime") == "saturate":
                self.run(self.binary, "cost", "gather", "--graphs", *paths, "-o", rows, "--seconds", self.get("seconds", 0.2), "--threads", self.get("threads", 1), *self.dims(entry))
            else:
                inputs = ["--inputs", entry["inputs"]] if "inputs" in entry else []
                self.run(sys.executable, HERE / "gather_ort.py", rows, "--seconds", self.get("seconds", 0.2), "--passes", self.get("passes", 8), "--threads", self.get("threads", 1), *self.dims(entry), *inputs, "--graphs", *paths)
        return [r for r in map(json.loads, pathlib.Path(rows).read_text().splitlines()) if "graph" in r]

    def stamp(self, entry):
        path = pathlib.Path(entry["path"])
        return {"model": entry, "bytes": path.stat().st_size if path.exists() else 0, "target": self.get("target", "ort-cpu@1.20"), "runtime": self.get("runtime", "onnxruntime"),
                "threads": self.get("threads", 1)}

    def sampled(self, entry):
        key = {"kind": "samples", **self.stamp(entry), "samples": self.get("samples", 16), "seed": self.get("seed", 0)}
        folder = self.out / "graphs" / hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]

        def make():
            self.run(self.binary, "extract", entry["path"], "--sample", key["samples"], "--seed", key["seed"], "--target", key["target"], "--no-verify", "-q", "-o", folder)
            return {"rows": self.time(sorted(folder.glob("*.onnx")), entry, folder / "times.jsonl"), "times": str(folder / "times.jsonl")}

        return self.part(key, make)

    def evaluated(self, entry, cost, samples):
        key = {"kind": "eval", **self.stamp(entry), "cost": cost, "samples": samples["times"]}
        return self.part(key, lambda: json.loads(self.run(self.binary, "cost", "eval", samples["times"], "--cost", self.cost(cost), "--target", self.get("target", "ort-cpu@1.20"), *self.dims(entry), "--json")))

    def optimized(self, entry, cost, extractor):
        key = {"kind": "optimize", **self.stamp(entry), "cost": cost, "extractor": extractor}
        name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]

        def make():
            result = self.out / "graphs" / f"{name}.onnx"
            result.parent.mkdir(parents=True, exist_ok=True)
            report = json.loads(self.run(self.binary, "optimize", entry["path"], result, "--cost", self.cost(cost), "--extractor", extractor, "--target", key["target"], "--no-verify", "--json"))
            times = {r["graph"]: r["seconds"] for r in self.time([entry["path"], result], entry, result.with_suffix(".jsonl"))}
            return {"cost_before": report["cost_before"], "cost_after": report["cost_after"], "extract_seconds": report["seconds"].get("extract", 0),
                    "original": times[entry["path"]], "optimized": times[str(result)]}

        return self.part(key, make)

    def model(self, entry):
        samples, rows = self.sampled(entry), []
        name = pathlib.Path(entry["path"]).stem
        for cost in self.grid["cost_models"]:
            judged = samples if "error" in samples else self.evaluated(entry, cost, samples)
            group = {} if "error" in judged else judged["graphs"][0]
            for extractor in self.get("extractors", ["search"]):
                best = self.optimized(entry, cost, extractor)
                row = {"model": name, "cost_model": cost, "extractor": extractor, "tau": group.get("tau"), "regret": group.get("regret"),
                       "additivity_error": judged.get("additivity_error"), "error": best.get("error") or judged.get("error") or ""}
                if "error" not in best:
                    row.update({"original_seconds": best["original"], "optimized_seconds": best["optimized"], "ratio": best["optimized"] / best["original"],
                                "predicted_ratio": best["cost_after"] / best["cost_before"] if best["cost_before"] else None, "extract_seconds": best["extract_seconds"]})
                rows.append({**row, "points": group.get("points", [])})
        print("\n".join(f"{r['model']:32} {r['cost_model']:14} {r['extractor']:10} " + (f"error: {r['error']}" if r["error"] else f"tau {r['tau']:.3f}, regret {r['regret']:.3f}, ratio {r['ratio']:.3f}")
                        for r in rows), flush=True)
        return rows


FIELDS = ("model", "cost_model", "extractor", "tau", "regret", "additivity_error", "original_seconds", "optimized_seconds", "ratio", "predicted_ratio", "extract_seconds", "error")


def axis(value, low, high, begin, end):
    return begin + (value - low) / ((high - low) or 1) * (end - begin)


def scatter(series, title, x_name, y_name, log=False):
    """Points by series as SVG; each has a tooltip."""
    points = [(x, y, label, k) for k, (_, values) in enumerate(series) for x, y, label in values if not log or (x > 0 and y > 0)]
    if not points:
        return ""
    scale = math.log10 if log else float
    xs, ys = [scale(p[0]) for p in points], [scale(p[1]) for p in points]
    dots = "".join(f'<circle cx="{axis(scale(x), min(xs), max(xs), 70, 430):.1f}" cy="{axis(scale(y), min(ys), max(ys), 250, 30):.1f}" r="4" fill="{COLORS[k % len(COLORS)]}" fill-opacity=".65">'
                   f"<title>{html.escape(label)}: {x:.4g}, {y:.4g}</title></circle>" for x, y, label, k in points)
    back = (lambda v: 10**v) if log else float
    marks = "".join(f'<text x="{axis(v, 0, 1, 70, 430):.0f}" y="268" text-anchor="middle">{back(min(xs) + v * (max(xs) - min(xs))):.3g}</text>'
                    f'<text x="64" y="{axis(v, 0, 1, 254, 34):.0f}" text-anchor="end">{back(min(ys) + v * (max(ys) - min(ys))):.3g}</text>' for v in (0, 0.5, 1))
    legend = "".join(f'<tspan fill="{COLORS[k % len(COLORS)]}" dx="10">● {html.escape(name)}</tspan>' for k, (name, _) in enumerate(series))
    return (f'<figure><figcaption>{html.escape(title)}</figcaption><svg viewBox="0 0 460 310" width="460"><path d="M70 30V250H430" fill="none" stroke="#888"/>{marks}{dots}'
            f'<text x="250" y="286" text-anchor="middle">{html.escape(x_name)}</text><text x="14" y="140" transform="rotate(-90 14 140)" text-anchor="middle">{html.escape(y_name)}</text>'
            f'<text x="60" y="304">{legend}</text></svg></figure>')


def bars(rows, field, title):
    """One bar for each model and cost model."""
    seen = {(r["model"], r["cost_model"]): r[field] for r in rows if r[field] is not None}
    if not seen:
        return ""
    costs = sorted({c for _, c in seen})
    low, high = min(0, *seen.values()), max(0.01, *seen.values())
    out, zero = [], axis(0, low, high, 200, 440)
    for i, ((model, cost), value) in enumerate(sorted(seen.items())):
        at = axis(value, low, high, 200, 440)
        out.append(f'<rect x="{min(at, zero):.1f}" y="{10 + 16 * i}" width="{abs(at - zero):.1f}" height="12" fill="{COLORS[costs.index(cost) % len(COLORS)]}"><title>{value:.4g}</title></rect>'
                   f'<text x="194" y="{20 + 16 * i}" text-anchor="end">{html.escape(model[:18])} {html.escape(cost[-12:])}</text><text x="445" y="{20 + 16 * i}">{value:.3f}</text>')
    return f'<figure><figcaption>{html.escape(title)}</figcaption><svg viewBox="0 0 500 {20 + 16 * len(seen)}" width="500">{"".join(out)}</svg></figure>'


def page(rows, grid):
    by_cost = {}
    for r in rows:
        by_cost.setdefault(r["cost_model"], []).append(r)
    first = {(r["model"], r["cost_model"]): r for r in rows}  # points and ranks don't depend on the extractor
    figures = [scatter([(m, [(x, y, m) for x, y in r["points"]]) for (m, c), r in first.items() if c == cost], f"{cost}: predicted against measured", "predicted cost", "measured seconds", log=True)
               for cost in by_cost]
    figures += [bars(rows, "tau", "Kendall's tau over equal graphs (1: ranked as they run)"), bars(rows, "regret", "Top-1 regret (0: the predicted best is the fastest)")]
    quality = {}
    for r in rows:
        if r.get("ratio"):
            quality.setdefault(f"{r['cost_model']}, {r['extractor']}", []).append((max(r["extract_seconds"], 1e-4), r["ratio"], r["model"]))
    figures.append(scatter(sorted(quality.items()), "Time of extraction against quality", "seconds of extraction", "optimized / original", log=True))
    number = lambda v: f"{v:.4g}" if isinstance(v, float) else html.escape(str("" if v is None else v))
    table = "".join("<tr>" + "".join(f"<td>{number(r.get(f))}</td>" for f in FIELDS) + "</tr>" for r in rows)
    return ('<!doctype html><html lang="en"><meta charset="utf-8"><title>Cost experiment</title><style>body{font:14px sans-serif;margin:2em}svg text{font-size:11px}figure{display:inline-block;'
            'vertical-align:top;margin:1em}figcaption{font-weight:bold}td,th{padding:2px 8px;text-align:right}tr:nth-child(even){background:#f3f3f3}</style><h1>Cost experiment</h1>'
            f"<pre>{html.escape(json.dumps(grid, indent=1))}</pre>{''.join(figures)}<table><tr>{''.join(f'<th>{f}</th>' for f in FIELDS)}</tr>{table}</table></html>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grid", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--jobs", type=int, default=1, help="models at a time; timing is one at a time anyway")
    args = parser.parse_args()
    experiment = Experiment(args)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        rows = [row for part in pool.map(experiment.model, experiment.models()) for row in part]
    with open(args.out / "results.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    (args.out / "results.html").write_text(page(rows, experiment.grid), encoding="utf-8")
    print(f"{len(rows)} rows in {args.out / 'results.csv'}, plots in {args.out / 'results.html'}")
    return 1 if any(r["error"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
