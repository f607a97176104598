#!/usr/bin/env python3
"""Compares the e-graph engine with egg 0.11 (with mimalloc) and egglog 3.0 on the text workloads of bench/workloads, in alternating rounds.

usage: bench/speed/compare_egg.py [--rounds 7] [--engine PROGRAM] [--only REGEX] [--markdown] [--no-egglog] [--no-counts]
One command: builds what is missing (egraph_workloads with CMake; egg's runner, bench/peers, and egglog with cargo from their registry), checks that
the counts of all iterations and the class sizes equal expected.json, at 1 and 2 threads, then measures. CPU is user and system time of the process,
peak its largest resident set; medians over the rounds. Ratios: theirs / ours, so more is better for us; of the peak ours / theirs.
"""
import argparse, json, os, pathlib, platform, re, shutil, statistics, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parents[1]
DATA = HERE / "workloads"
CASES = [("math", "simple"), ("ac10", "simple"), ("tensor12", "simple"), ("tensor24", "simple"), ("prop", "simple"),
         ("math", "backoff"), ("prop", "backoff"), ("tensor12", "backoff"), ("tensor48", "backoff")]


def measure(command):
    begin = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed with {process.returncode}")
    return {"cpu": usage.ru_utime + usage.ru_stime, "wall": time.perf_counter() - begin, "peak": usage.ru_maxrss / 1024}, output


def build_engine():
    build = HERE.parent / "build/release"
    subprocess.run(["cmake", "-S", HERE.parent, "-B", build, "-DCMAKE_BUILD_TYPE=Release"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build, "--target", "egraph_workloads"], check=True, stdout=subprocess.DEVNULL)
    return build / "bench/egraph_workloads"


def build_egg(work):
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked", "--manifest-path", HERE / "peers/Cargo.toml", "--target-dir", work / "egg"], check=True)
    return work / "egg/release/egg_workloads"


def build_egglog(work):
    program = work / "egglog/bin/egglog"
    if not program.exists():
        subprocess.run(["cargo", "install", "--quiet", "--locked", "--version", "3.0.0", "--root", work / "egglog", "egglog"], check=True)
    return program


# ---- a workload as a program for egglog ----

def read_forms(text):
    stack = [[]]
    for word in re.findall(r"[()]|[^\s()]+", re.sub(r";.*", "", text)):
        if word == "(":
            stack.append([])
        elif word == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    return stack[0]


def egglog_program(text, iterations):
    """None where egglog cannot run it: a rule whose left side is one variable, or conditions."""
    forms, operators = read_forms(text), {}

    def term(e):
        if isinstance(e, str):
            if e[0] in "?$":
                return e
            return f"({operators.setdefault((e, 'leaf'), (f'Op{len(operators)}', 0))[0]})"
        name = operators.setdefault((e[0], len(e) - 1), (f"Op{len(operators)}", len(e) - 1))[0]
        return f"({name} {' '.join(map(term, e[1:]))})"

    body, names = [], set()
    for form in forms:
        if form[0] == "rule":
            if len(form) > 4 or isinstance(form[2], str):
                return None
            body.append(f"(rewrite {term(form[2])} {term(form[3])})")
        elif form[0] == "let":
            names.add(form[1])
            body.append(f"(let {form[1]} {term(form[2])})")
        elif form[0] == "root" and not (isinstance(form[1], str) and form[1] in names):  # what has a name stands there already
            body.append(term(form[1]))
    sorts = "".join(f" ({name}{' T' * arity})" for name, arity in operators.values())
    return f"(datatype T{sorts})\n" + "\n".join(body) + f"\n(run {iterations})\n(print-size)\n"


def egglog_nodes(output):
    return sum(int(n) for name, n in re.findall(r"\(?(\w+)[: ]+(\d+)\)?", output) if re.fullmatch(r"Op\d+", name))


# ---- checks and measurement ----

def wrong_counts(output, expected):
    lines = [json.loads(line) for line in output.splitlines()]
    if [{k: line[k] for k in ("nodes", "classes", "matches")} for line in lines[:-1]] != expected["iterations"]:
        return "counts differ"
    return None if lines[-1]["class_sizes_fnv1a64"] == expected["class_sizes"]["fnv1a64"] else "class sizes differ"


def check_counts(engine, expected):
    for workload, modes in expected.items():
        for scheduler, want in modes.items():
            for threads in (1, 2):
                command = [engine, DATA / f"{workload}.txt", "--scheduler", scheduler, "--iterations", len(want["iterations"]), "--threads", threads, "--json"]
                if (wrong := wrong_counts(measure(command)[1], want)):
                    sys.exit(f"{workload} {scheduler} {threads} threads: {wrong}")
    print(f"all counts equal in {sum(map(len, expected.values()))} runs, at 1 and 2 threads", flush=True)


def check_peers(commands, want):
    for name in ("egg", "egglog"):
        if name not in commands:
            continue
        output = measure(commands[name])[1]
        nodes = egglog_nodes(output) if name == "egglog" else json.loads(output.splitlines()[-2])["nodes"]
        if name == "egg" and json.loads(output.splitlines()[-1])["class_sizes_fnv1a64"] != want["class_sizes"]["fnv1a64"]:
            sys.exit("egg ends with other class sizes: not the same work")
        if nodes != want["iterations"][-1]["nodes"]:
            sys.exit(f"{name} ends with {nodes} e-nodes instead of {want['iterations'][-1]['nodes']}: not the same work")


def circumstances():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} x {names[0] if names else platform.machine()}, load {os.getloadavg()[0]:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", help="egraph_workloads, built already")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose 'workload scheduler' matches")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "saturate_peers", help="where the peers are built")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--no-egglog", action="store_true")
    parser.add_argument("--no-counts", action="store_true")
    options = parser.parse_args()
    if shutil.which("cargo") is None:
        sys.exit("compare_egg.py: cargo is needed to build egg and egglog: install Rust")
    options.work.mkdir(parents=True, exist_ok=True)
    engine = options.engine or build_engine()
    egg = build_egg(options.work)
    egglog = None if options.no_egglog else build_egglog(options.work)
    expected = json.loads((DATA / "expected.json").read_text())
    if not options.no_counts:
        check_counts(engine, expected)

    print(f"{options.rounds} rounds, begun {circumstances()}\n", flush=True)
    columns = ["workload", "scheduler", "egg CPU s", "egglog CPU s", "ours CPU s", "egg/ours CPU", "wall", "egglog/ours CPU", "wall", "peak MB", "peak/egg",
               "2 threads wall"]
    if options.markdown:
        print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    else:
        print("  ".join(columns))
    for workload, scheduler in CASES:
        if not re.search(options.only, f"{workload} {scheduler}"):
            continue
        want, file = expected[workload][scheduler], DATA / f"{workload}.txt"
        iterations = len(want["iterations"])
        ours = [engine, file, "--scheduler", scheduler, "--iterations", iterations, "--json", "--threads"]
        commands = {"egg": [egg, file, scheduler, iterations], "ours": ours + [1], "two": ours + [2]}
        program = egglog_program(file.read_text(), iterations)
        if egglog and scheduler == "simple" and program:
            path = options.work / f"{workload}.egg"
            path.write_text(program)
            commands["egglog"] = [egglog, "-j", 1, path]
        check_peers(commands, want)
        rounds = [{name: measure(command)[0] for name, command in commands.items()} for _ in range(options.rounds)]

        def median(name, key): return statistics.median(r[name][key] for r in rounds)

        def ratio(name, key): return f"{median(name, key) / median('ours', key):.2f}" if name in commands else "-"
        cells = [workload, scheduler, f"{median('egg', 'cpu'):.3f}", f"{median('egglog', 'cpu'):.3f}" if "egglog" in commands else "-",
                 f"{median('ours', 'cpu'):.3f}", ratio("egg", "cpu"), ratio("egg", "wall"), ratio("egglog", "cpu"), ratio("egglog", "wall"),
                 f"{median('ours', 'peak'):.0f}", f"{median('ours', 'peak') / median('egg', 'peak'):.2f}",
                 f"{median('ours', 'wall') / median('two', 'wall'):.2f}"]
        print("| " + " | ".join(cells) + " |" if options.markdown else "  ".join(f"{c:>{len(h)}}" for c, h in zip(cells, columns)), flush=True)

    print(f"\nended {circumstances()}")


if __name__ == "__main__":
    main()
