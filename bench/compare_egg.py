#!/usr/bin/env python3
"""Compares the e-graph engine with egg 0.11 (mimalloc) on the text workloads, in alternating rounds, and checks all counts.

usage: compare_egg.py --engine BUILD/bench/egraph_workloads [--rounds 7] [--egg-source DIR] [--data DIR] [--work DIR] [--markdown]
Builds egg's runner (a small Rust program on the egg crate) with cargo in the work folder.
"""
import argparse, json, os, pathlib, shutil, statistics, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared"
CASES = [("math", "simple"), ("ac10", "simple"), ("tensor12", "simple"), ("tensor24", "simple"), ("prop", "simple"),
         ("math", "backoff"), ("prop", "backoff"), ("tensor12", "backoff"), ("tensor48", "backoff")]


def measure(command):
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed with {process.returncode}")
    return {"cpu": usage.ru_utime + usage.ru_stime, "wall": time.perf_counter() - begin, "peak": usage.ru_maxrss / 1024}, output


def wrong_counts(output, expected):
    lines = [json.loads(line) for line in output.splitlines()]
    got = [{k: line[k] for k in ("nodes", "classes", "matches")} for line in lines[:-1]]
    if got != expected["iterations"]:
        return "counts differ"
    return None if lines[-1]["class_sizes_fnv1a64"] == expected["class_sizes"]["fnv1a64"] else "class sizes differ"


def build_egg(source, work):
    target = work / "egg_runner"
    if not (target / "Cargo.toml").exists():
        shutil.copytree(source, target)
        for path in target.rglob("*"):
            path.chmod(path.stat().st_mode | 0o200)
    subprocess.run(["cargo", "build", "--release", "--quiet", "--features", "mi"], cwd=target, check=True)
    return target / "target/release/egg_runner"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--egg-source", type=pathlib.Path, default=SHARED / "tools/egg_runner")
    parser.add_argument("--data", type=pathlib.Path, default=SHARED / "data/egraph_workloads")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "saturate_peers")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    egg = build_egg(options.egg_source, options.work)
    expected = json.loads((options.data / "expected.json").read_text())

    for workload, modes in expected.items():
        for scheduler, want in modes.items():
            for threads in ("1", "2"):
                _, output = measure([options.engine, options.data / f"{workload}.txt", "--scheduler", scheduler, "--iterations",
                                     str(len(want["iterations"])), "--threads", threads, "--json"])
                if (wrong := wrong_counts(output, want)):
                    sys.exit(f"{workload} {scheduler} {threads} threads: {wrong}")
    print(f"all counts equal in {sum(map(len, expected.values()))} runs, at 1 and 2 threads", flush=True)

    row = "| {} | {} | {} | {} | {} | {} | {} | {} |" if options.markdown else "{:9}{:9}{:>9}{:>9}{:>7}{:>7}{:>8}{:>7}"
    print(row.format("workload", "scheduler", "egg CPU s", "ours", "CPU x", "wall x", "peak MB", "peak /"))
    if options.markdown:
        print("|" + "---|" * 8)
    for workload, scheduler in CASES:
        file, theirs, ours = options.data / f"{workload}.txt", [], []
        for _ in range(options.rounds):
            theirs.append(measure([egg, file, scheduler] + (["30"] if scheduler == "backoff" else []))[0])
            ours.append(measure([options.engine, file, "--scheduler", scheduler, "--threads", "1"])[0])
        def median(rounds, key): return statistics.median(r[key] for r in rounds)
        ratios = {key: median(theirs, key) / median(ours, key) for key in ("cpu", "wall", "peak")}
        print(row.format(workload, scheduler, f"{median(theirs, 'cpu'):.3f}", f"{median(ours, 'cpu'):.3f}", f"{ratios['cpu']:.2f}",
                         f"{ratios['wall']:.2f}", f"{median(ours, 'peak'):.0f}", f"{1 / ratios['peak']:.2f}"), flush=True)


if __name__ == "__main__":
    main()
