#!/usr/bin/env python3
"""Counts what tells whether each law is said once: rules, near-copies among them, lists of operators, long functions, full folders.

usage: counts.py [REVISION...] [--list WHAT] [--json FILE]

Without a revision the work tree is counted; revisions of git are counted beside it, e.g. `counts.py 469e179`. --list shows what stands behind
a figure (clusters, operator_lists, functions, sentences) in the work tree.
  clusters        connected pairs of rules whose tokens (names and literals kept, examples left out) are alike by a difflib ratio >= 0.86
  operator lists  three or more names of operators in one initializer, call or chain of comparisons, outside of tables (TABLES below)
  functions       over 60 lines, braces counted; and the most parameters of one
  sentences       over 160 characters, in Markdown outside of tables and code, and in comments
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

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("egraph", "onnx_bridge", "rules", "extract", "kernels", "tools")
SOURCES = (".cpp", ".h", ".inc", ".rules", ".py")
ALIKE = 0.86
CLAUSES = ("example", "counterexample", "counter", "effect", "assume", "if_unsupported", "if_any_unsupported", "if_refused", "unless_taken", "takes_apart", "budget", "phase", "tolerance", "rounding")
# Where operators are meant to be listed: what the standard says of them, traits, and who registers what for them.
TABLES = ("op_table", "op_traits", "op_features", "op_times", "registry.cpp", "ops.cpp")


def without_comments(text):
    """C++ text without comments and with the same lines; strings stay."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', lambda m: m[1] or "\n" * m[0].count("\n"), text, flags=re.S)


def sources(root, *endings):
    return [p for folder in FOLDERS for p in sorted((root / folder).rglob("*")) if p.suffix in endings]


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


def functions_of(root):
    """(lines, parameters, file, line, name) of every function with a body; members and operators too, lambdas not."""
    out = []
    for path in sources(root, ".cpp", ".h"):
        text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\])\'', lambda m: '"' + "_" * (len(m[0]) - 2) + '"', without_comments(path.read_text()))
        stack, start = [], 0  # stack: True where a function's body is open
        for at, sign in ((m.start(), m[0]) for m in re.finditer(r"[;{}]", text)):
            if sign == "{":
                before = text[start:at]
                inner = any(stack) or re.search(r"\b(namespace|class|struct|enum|union)\b[^()]*$", before)
                found = None if inner else declared(before)
                stack.append(found and (*found, text.count("\n", 0, start + len(before) - len(before.lstrip())) + 1))
            elif sign == "}" and stack:
                if opened := stack.pop():
                    name, parameters, first = opened
                    out.append((text.count("\n", 0, at) + 2 - first, parameters, path.relative_to(root), first, name))
            start = at + 1
    return out


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
    lists, functions, sentences = operator_lists(root), functions_of(root), long_sentences(root)
    lines = [line for p in (root / "rules").rglob("*.rules") for line in p.read_text().splitlines()]
    folders = collections.Counter(str(p.parent.relative_to(root)) for p in sources(root, *SOURCES))
    biggest = max(folders, key=folders.get)
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
        "most source files in a folder": f"{folders[biggest]} ({biggest})",
        "functions over 60 lines": sum(f[0] > 60 for f in functions),
        "longest function": max(f[0] for f in functions),
        "most parameters": max(f[1] for f in functions),
        "sentences over 160 characters": len(sentences),
    }
    behind = {
        "clusters": [" ".join(c) for c in sorted(clusters, key=len, reverse=True)],
        "operator_lists": [f"{p}:{line}: {' '.join(names)}" for p, line, names in lists],
        "functions": [f"{p}:{line}: {name}: {size} lines, {parameters} parameters" for size, parameters, p, line, name in sorted(functions, reverse=True, key=lambda f: f[:2]) if size > 60 or parameters > 7],
        "sentences": [f"{p}: {s}" for p, s in sentences],
    }
    return figures, behind


def at_revision(revision):
    done = subprocess.run(["git", "-C", ROOT, "archive", revision], capture_output=True)
    if done.returncode:
        sys.exit(f"counts.py: error: {revision}: git knows no such revision: {done.stderr.decode().strip()}")
    with tempfile.TemporaryDirectory() as folder:
        tarfile.open(fileobj=io.BytesIO(done.stdout)).extractall(folder, filter="data")
        return counts(pathlib.Path(folder))[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="*", metavar="REVISION")
    parser.add_argument("--list", choices=["clusters", "operator_lists", "functions", "sentences"], help="also show what stands behind a figure")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    args = parser.parse_args()
    columns = {revision: at_revision(revision) for revision in args.revisions}
    columns["work tree"], behind = counts(ROOT)
    width = max(map(len, columns["work tree"]))
    print(" " * width, *(f"{name:>18}" for name in columns))
    for what in columns["work tree"]:
        print(f"{what:{width}}", *(f"{str(figures[what]):>18}" for figures in columns.values()))
    if args.list:
        print("", *behind[args.list], sep="\n")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(columns, indent=1) + "\n")


if __name__ == "__main__":
    main()
