#!/usr/bin/env python3
"""Counts what tells whether each law is said once: rules, near-copies among them, lists of operators, long functions, full folders.

usage: counts.py [REVISION...] [--list WHAT] [--json FILE]
       counts.py --ratchet [FILE] [--write [--why TEXT]]

Without a revision the work tree is counted; revisions of git are counted beside it, e.g. `counts.py 469e179`. --list shows what stands behind
a figure in the work tree; with a revision, what stands there and did not in that revision.
  clusters        connected pairs of rules whose tokens (names and literals kept, examples left out) are alike by a difflib ratio >= 0.86
  operator_lists  three or more names of operators in one initializer, call or chain of comparisons, outside of tables (TABLES below)
  functions       over 60 lines, or with more than six parameters; told by braces, lambdas belong to the function around them
  classes         over 300 lines
  files           over 600 lines: C++ and Python, tests and bench/ too, nothing generated
  folders         with more than 25 source files
  cycles          pairs of folders that include each other, such as tools/diff and tools/page
  sentences       over 160 characters, in Markdown outside of tables and code, and in comments

--ratchet compares figures with FILE (bench/data/counts.json) and exits with 1 where one rose.
--write lowers those of FILE that fell. A figure of FILE rises with --write --why TEXT alone, and the reason stays beside it until it falls back.
"""
import argparse
import collections
import difflib
import io
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("egraph", "onnx_bridge", "rules", "extract", "kernels", "tools")
SOURCES = (".cpp", ".h", ".inc", ".rules", ".py")
ALIKE = 0.86
MOST_LINES = {"function": 60, "class": 300, "file": 600}
MOST_PARAMETERS, MOST_FILES = 6, 25
RATCHET = ROOT / "bench" / "data" / "counts.json"
CLAUSES = ("example", "counterexample", "counter", "effect", "assume", "if_unsupported", "if_any_unsupported", "if_refused", "unless_taken", "takes_apart", "budget", "phase", "tolerance", "rounding")
# Where operators are meant to be listed: what the standard says of them, traits, and who registers what for them.
TABLES = ("op_table", "op_traits", "op_axes", "op_features", "op_times", "registry.cpp", "ops.cpp")


def without_comments(text):
    """C++ text without comments and with the same lines; strings stay."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', lambda m: m[1] or "\n" * m[0].count("\n"), text, flags=re.S)


def sources(root, *endings, folders=FOLDERS):
    return [p for folder in folders for p in sorted((root / folder).rglob("*")) if p.suffix in endings]


def written(root):
    """The source files that people write, tests and bench too."""
    return [p for p in sources(root, *SOURCES, folders=(*FOLDERS, "tests", "bench")) if not p.name.startswith("op_table_")]


# ---- rules ----------------------------------------------------------------------------------------------------------------------------

def clause(words):
    """One of these words, and what follows it up to the next clause or rule."""
    return re.compile(rf"^ *(?:{words})\b.*?(?=^ *(?:{'|'.join(CLAUSES)})\b|^\S|^$|\Z)", flags=re.M | re.S)


def rules_of(root):
    """Name -> tokens of every rule of the .rules files, without its examples, counterexamples and comments."""
    out = {}
    for path in sorted((root / "rules").rglob("*.rules")):
        text = re.sub(r"#[^\n]*", "", path.read_text())
        for part in re.split(r"^(?=rule\s)", text, flags=re.M)[1:]:
            law = re.sub(clause("example|counterexample|counter"), "", part)
            tokens = re.findall(r'"[^"]*"|[A-Za-z_][A-Za-z_0-9.]*|[0-9.]+(?:e-?[0-9]+)?|=>|<=>|[^\s\w]', law)
            out[tokens[1]] = tokens
    return out


def examples_of(lines, word):
    """How many stand after this word: one, and one more after each semicolon."""
    return sum(1 + text[0].count(";") for text in clause(word).finditer("\n".join(lines)))


def clusters_of(rules):
    """Groups of two or more rules that are connected by pairs alike."""
    group = {name: {name} for name in rules}
    matcher = difflib.SequenceMatcher(autojunk=False)
    bags = {name: collections.Counter(tokens) for name, tokens in rules.items()}
    for a, b in itertools.combinations(rules, 2):
        both = len(rules[a]) + len(rules[b])
        if 2 * min(len(rules[a]), len(rules[b])) < ALIKE * both or group[a] is group[b]:
            continue
        if 2 * sum((bags[a] & bags[b]).values()) < ALIKE * both:  # what difflib calls quick_ratio
            continue
        matcher.set_seqs(rules[a], rules[b])
        if matcher.ratio() >= ALIKE:
            group[a] |= group[b]
            for name in group[b]:
                group[name] = group[a]
    return [sorted(g) for g in {id(g): g for g in group.values()}.values() if len(g) > 1]


# ---- C++ ------------------------------------------------------------------------------------------------------------------------------

def operators_of(root):
    out = set()
    for path in sorted((root / "onnx_bridge").rglob("op_table*.inc")):
        out |= set(re.findall(r"^op \S+ (\S+)", path.read_text(), flags=re.M))
    return out


def operator_lists(root):
    """(file, line, names) of every list of operators outside of the tables."""
    operators, found = operators_of(root), []
    name = r'"([A-Za-z0-9.]+)"'
    in_a_row = re.compile(rf'{name}(?:\s*,\s*{name})+')
    for path in sources(root, ".cpp", ".h"):
        if any(word in path.name for word in TABLES):
            continue
        text = without_comments(path.read_text())
        for row in in_a_row.finditer(text):
            names = [n for n in re.findall(name, row[0]) if n in operators]
            if len(set(names)) >= 3:
                found.append((path.relative_to(root), text.count("\n", 0, row.start()) + 1, names))
        for statement in re.finditer(r"[^;{}]+", text):
            names = [n for n in re.findall(rf"[=!]=\s*{name}", statement[0]) if n in operators]
            if len(set(names)) >= 3:
                found.append((path.relative_to(root), text.count("\n", 0, statement.start()) + 1, names))
    return found


def declared(text):
    """(name, parameters) of the function whose body follows this text; None where none does."""
    text = re.sub(r"\[\[.*?\]\]", "", text, flags=re.S)
    head = re.search(r"([~A-Za-z_][\w:~]*|operator\s*[^\s\w(]+|operator\(\))\s*\(", text)
    if not head or re.search(r"(?<![=!<>])=(?!=)", text[:head.start()]):
        return None
    depth, parameters = 1, ""
    for sign in text[head.end():]:
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0:
            break
        parameters += sign if depth == 1 and sign not in ")]}" else ""
    while parameters != (parameters := re.sub(r"<[^<>]*>", "", parameters)):
        pass
    return head[1], parameters.count(",") + 1 if parameters.strip() else 0


def without_strings(text):
    """C++ text with neither comments nor what strings hold, and with the same lines."""
    text = re.sub(r'R"(\w*)\(.*?\)\1"', lambda m: '"_' + "\n" * m[0].count("\n") + '"', text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\])\'', lambda m: '"' + "_" * (len(m[0]) - 2) + '"', without_comments(text))


def opened(before, inside):
    """What a brace opens behind this text: ("function", name, parameters), ("class", name, 0), ("initial",) of a member or an argument; else None."""
    if inside:
        return None
    before = re.sub(r"\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>", "", before)
    if scope := re.search(r"\b(class|struct|union)\s+(?:\[\[.*?\]\]\s*)?([\w:]+)[^()=]*$", before):
        return "class", scope[2], 0
    if re.search(r"\b(namespace|enum|extern)\b[^()]*$", before):
        return None
    if before.count("(") > before.count(")") or re.search(r"\)[\s\w]*:(?!:)(.*[^:])?\b(?!const$|override$|final$|noexcept$)\w+>?$", before.rstrip(), flags=re.S):
        return ("initial",)
    found = declared(before)
    return found and ("function", *found)


def blocks_of(root):
    """(kind, lines, parameters, file, line, name) of every function with a body and every class; members and operators too, lambdas not."""
    out = []
    for path in sources(root, ".cpp", ".h"):
        text = without_strings(path.read_text())
        stack, start = [], 0
        for at, sign in ((m.start(), m[0]) for m in re.finditer(r"[;{}]", text)):
            before = text[start:at]
            if sign == "{":
                block = opened(before, any(b and b[0] in ("function", "initial") for b, _ in stack))
                stack.append((block, text.count("\n", 0, start + len(before) - len(before.lstrip())) + 1))
                if block == ("initial",):
                    continue
            elif sign == "}" and stack:
                block, first = stack.pop()
                if block == ("initial",):
                    continue
                if block:
                    out.append((block[0], text.count("\n", 0, at) + 2 - first, block[2], path.relative_to(root), first, block[1]))
            elif any(b == ("initial",) for b, _ in stack):
                continue
            start = at + 1
    return out


def long_files(root):
    sizes = [(len(p.read_text().splitlines()), p.relative_to(root)) for p in written(root) if p.suffix in (".cpp", ".h", ".py")]
    return sorted((s for s in sizes if s[0] > MOST_LINES["file"]), reverse=True)


def include_cycles(root):
    """Pairs of folders that include each other, with how often: (folder, folder, files, files)."""
    folder = lambda path: "/".join(path.split("/")[:-1][:2])
    files = collections.defaultdict(set)
    for path in sources(root, ".cpp", ".h"):
        own = str(path.relative_to(root))
        for included in re.findall(r'^#include "([^"]+)"', path.read_text(), flags=re.M):
            if included.split("/")[0] in FOLDERS and folder(included) != folder(own):
                files[folder(own), folder(included)].add(own)
    return [(a, b, len(files[a, b]), len(files[b, a])) for a, b in sorted(files) if a < b and (b, a) in files]


# ---- words ----------------------------------------------------------------------------------------------------------------------------

def long_sentences(root):
    found = []
    for path in [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("rules/*.md")]:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
        prose = "\n".join("" if line.startswith(("|", "    ", "#")) else re.sub(r"^\s*([-*]|\d+\.)\s", "\n\n", line) for line in text.splitlines())
        found += [(path.relative_to(root), s) for part in re.split(r"\n\s*\n", prose) for s in re.split(r"(?<=[.:;!?])\s+", " ".join(part.split())) if len(s) > 160]
    for path in [*sources(root, ".cpp", ".h"), *sorted((root / "rules").rglob("*.rules"))]:
        mark = "#" if path.suffix == ".rules" else "//"
        for block in re.findall(rf"(?:^[ \t]*{mark}[^\n]*\n)+", path.read_text(), flags=re.M):
            words = " ".join(" ".join(line.strip().lstrip(mark) for line in block.splitlines()).split())
            found += [(path.relative_to(root), s) for s in re.split(r"(?<=[.:;!?])\s+", words) if len(s) > 160]
    return found


def counts(root):
    """The figures, and what stands behind them."""
    rules = rules_of(root)
    clusters = clusters_of(rules)
    lists, blocks, sentences = operator_lists(root), blocks_of(root), long_sentences(root)
    functions = sorted((b for b in blocks if b[0] == "function"), reverse=True, key=lambda b: b[1:3])
    classes = sorted((b for b in blocks if b[0] == "class" and b[1] > MOST_LINES["class"]), reverse=True, key=lambda b: b[1])
    files, cycles = long_files(root), include_cycles(root)
    lines = [line for p in (root / "rules").rglob("*.rules") for line in p.read_text().splitlines()]
    folders = collections.Counter(str(p.parent.relative_to(root)) for p in written(root))
    full = {name: count for name, count in folders.most_common() if count > MOST_FILES}
    figures = {
        "rules as written": len(rules),
        "lines of rule files": len(lines),
        "lines of rule files over 120 characters": sum(len(line) > 120 for line in lines),
        "examples": examples_of(lines, "example"),
        "counterexamples": examples_of(lines, "counterexample") + examples_of(lines, "counter"),
        "comment lines of rule files": sum(line.lstrip().startswith("#") for line in lines),
        "clusters of near-copies": len(clusters),
        "rules in clusters": sum(map(len, clusters)),
        "operator lists": len(lists),
        "most source files in a folder": max(folders.values()),
        "source files beyond 25 a folder": sum(count - MOST_FILES for count in full.values()),
        "files over 600 lines": len(files),
        "classes over 300 lines": len(classes),
        "functions over 60 lines": sum(f[1] > MOST_LINES["function"] for f in functions),
        "longest function": max((f[1] for f in functions), default=0),
        "most parameters": max((f[2] for f in functions), default=0),
        "pairs of folders that include each other": len(cycles),
        "sentences over 160 characters": len(sentences),
    }
    told = lambda kind, size, parameters, path, line, name: f"{path}:{line}: {name}: {size} lines" + (f", {parameters} parameters" if kind == "function" else "")
    behind = {
        "clusters": [" ".join(c) for c in sorted(clusters, key=len, reverse=True)],
        "operator_lists": [f"{p}:{line}: {' '.join(names)}" for p, line, names in lists],
        "functions": [told(*f) for f in functions if f[1] > MOST_LINES["function"] or f[2] > MOST_PARAMETERS],
        "classes": [told(*c) for c in classes],
        "files": [f"{path}: {size} lines" for size, path in files],
        "folders": [f"{name}: {count} files" for name, count in full.items()],
        "cycles": [f"{a} {b}: {there} and {back} files" for a, b, there, back in cycles],
        "sentences": [f"{p}: {s}" for p, s in sentences],
    }
    return figures, behind


def at_revision(revision):
    done = subprocess.run(["git", "-C", ROOT, "archive", revision], capture_output=True)
    if done.returncode:
        sys.exit(f"counts.py: error: {revision}: git knows no such revision: {done.stderr.decode().strip()}")
    with tempfile.TemporaryDirectory() as folder:
        tarfile.open(fileobj=io.BytesIO(done.stdout)).extractall(folder, filter="data")
        return counts(pathlib.Path(folder))


# ---- what may fall and not rise ---------------------------------------------------------------------------------------------------------

# Figure -> the word of --list that shows what stands behind it.
HELD = {
    "operator lists": "operator_lists",
    "most source files in a folder": "folders",
    "source files beyond 25 a folder": "folders",
    "files over 600 lines": "files",
    "classes over 300 lines": "classes",
    "functions over 60 lines": "functions",
    "longest function": "functions",
    "most parameters": "functions",
    "pairs of folders that include each other": "cycles",
}


def unreasoned(held):
    """What a ratchet's data lacks: a line for each figure that stands above its lowest without a reason."""
    return [f"{what}: {entry['at_most']} is above {entry['lowest']}, its lowest, and no reason stands beside it (\"why\")"
            for what, entry in held.items() if entry["at_most"] > entry.get("lowest", entry["at_most"]) and not entry.get("why")]


def moved(held, figures, why, slack=0.0):
    """A ratchet's data for these figures: lower where they fell, higher with a reason alone. `slack`: the share by which a figure may differ."""
    out = {}
    for what, now in figures.items():
        before = held.get(what, {"at_most": now})
        rose = now > before["at_most"] * (1 + slack)
        lowest = min(now, before.get("lowest", before["at_most"]))
        at_most = now if now < before["at_most"] or rose and why else before["at_most"]
        reason = why if rose else before.get("why")
        out[what] = {"at_most": at_most} | ({"lowest": lowest, "why": reason} if at_most > lowest and reason else {})
    return out


def risen(held, figures, slack=0.0):
    return [(what, now, held[what]["at_most"]) for what, now in figures.items() if what in held and now > held[what]["at_most"] * (1 + slack)]


def save(held, path):
    path.write_text("{\n" + ",\n".join(f"  {json.dumps(what)}: {json.dumps(entry)}" for what, entry in held.items()) + "\n}\n")


def ratchet(path, write, why):
    """Compares the figures of the work tree with a file. The exit status."""
    held = json.loads(path.read_text()) if path.exists() else {}
    figures = {what: now for what, now in counts(ROOT)[0].items() if what in HELD}
    if write:
        held = moved(held, figures, why)
        save(held, path)
    wrong = unreasoned(held) + [f"{what}: no figure in {path}; --write adds it" for what in figures if what not in held]
    for what, now, most in risen(held, figures):
        wrong.append(f"{what}: {now}, {most} at most. `bench/gauges/counts.py HEAD --list {HELD[what]}` shows what is new; bring it down, or say why it must "
                     "be: `bench/gauges/counts.py --ratchet --write --why TEXT`")
    fell = [what for what, now in figures.items() if what in held and now < held[what]["at_most"]]
    for what, now in figures.items():
        print(f"{what:42} {now:5} {held[what]['at_most'] if what in held else '-':>5}{'  fell: `bench/gauges/counts.py --ratchet --write` keeps it' if what in fell else ''}")
    for line in wrong:
        print(f"counts.py: error: {line}", file=sys.stderr)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="*", metavar="REVISION")
    parser.add_argument("--list", choices=["clusters", "operator_lists", "functions", "classes", "files", "folders", "cycles", "sentences"], help="also show what stands behind a figure")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--ratchet", nargs="?", const=RATCHET, type=pathlib.Path, metavar="FILE", help="fail where a figure is above that of FILE")
    parser.add_argument("--write", action="store_true", help="with --ratchet: lower the figures of FILE that fell")
    parser.add_argument("--why", metavar="TEXT", help="with --write: why figures rise")
    args = parser.parse_args()
    if args.why and not args.write or args.write and not args.ratchet:
        parser.error("--why goes with --write, and --write with --ratchet")
    if args.ratchet:
        return ratchet(args.ratchet, args.write, args.why)
    revisions = {revision: at_revision(revision) for revision in args.revisions}
    columns = {revision: figures for revision, (figures, _) in revisions.items()}
    columns["work tree"], behind = counts(ROOT)
    width = max(map(len, columns["work tree"]))
    print(" " * width, *(f"{name:>10}" for name in columns))
    for what in columns["work tree"]:
        print(f"{what:{width}}", *(f"{figures[what]:>10}" for figures in columns.values()))
    if args.list:
        place = lambda line: re.sub(r":\d+: ", ": ", line)
        before = {place(line) for _, others in revisions.values() for line in others[args.list]}
        print("", *(line for line in behind[args.list] if place(line) not in before), sep="\n")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(columns, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
