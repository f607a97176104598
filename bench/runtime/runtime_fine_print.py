"""Where our kernels read an operator otherwise than ONNX Runtime, and where its releases differ: operator by axis.

    python bench/runtime/runtime_fine_print.py PYTHON... [--operator NAME] [--pairs N] [--draws N]
    python bench/runtime/runtime_fine_print.py PYTHON... --pairs 0 --draws 0 --json bench/data/fine_print.json --page docs/fine_print.md

PYTHON are interpreters, each with another onnxruntime; this one has onnx. The operators are those that rules and targets make (bench/fine_print/made.py).
Each is a model of one node, run with a base of settings, with each other value of each axis, and with pairs of them (default 40 an operator; --pairs -1: all).
The standard's other operators are drawn by the specifications of bench/fuzz.
A release runs it without and with its optimizations, in a process of its own. A row of the table tells what each release does beside our kernels:
differs, a step (8-bit integers one apart), refuses, ends (its process), runs (we refuse). A pair is told only where neither value alone says the same."""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
from fine_print import attention, cases, made, norms, outcomes, products, quantized, standard, table  # noqa: F401  (they register their operators)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def models(operators, pairs):
    """(name, changes from the base, model bytes, feed) of each case that can be."""
    for name in operators:
        for settings in cases.drawn(cases.OPERATORS[name], pairs):
            try:
                model, feed = cases.build(cases.OPERATORS[name], settings)
            except cases.Skip:
                continue
            yield name, cases.changed(cases.OPERATORS[name], settings), model.SerializeToString(), feed


def draws(operators, count):
    """The same of the standard's other operators."""
    for name in operators:
        for told, model, feed in standard.cases(name, count):
            yield name, told, model.SerializeToString(), feed


def chosen(names):
    """Operators with axes, and without: those that are made, or of these those that are named."""
    of = {name for name in made.all_made() | set(cases.OPERATORS) if not names or name in names or name.split("::")[-1] in names}
    return sorted(of & set(cases.OPERATORS)), sorted(name for name in of - set(cases.OPERATORS) if "::" not in name)


def judged(given, pythons, binary):
    """Per case what each release does beside us; and the releases."""
    feeds = [(model, feed) for _, _, model, feed in given]
    ours, told = outcomes.of_ours(binary, feeds), {}
    for python in pythons:
        release, theirs = outcomes.of_release(python, feeds)
        told[release] = [tuple(outcomes.verdict(mine, his) for his in both) for mine, both in zip(ours, theirs)]
        print(f"{release}: {len(feeds)} models", file=sys.stderr, flush=True)
    return [(name, changes, {release: verdicts[k] for release, verdicts in told.items()}) for k, (name, changes, _, _) in enumerate(given)], list(told)


def write_page(page, rows):
    """The table under the page's last heading."""
    told = json.loads(rows.read_text())
    before, heading, _ = page.read_text().rpartition("\n## ")
    title = page.read_text().rpartition("\n## ")[2].splitlines()[0]
    page.write_text(f"{before}{heading}{title}\n{table.page_table(told['rows'], told['releases'])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="+")
    parser.add_argument("--operator", action="append", help="only this one; may be repeated")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--draws", type=int, default=40, help="of each of the standard's operators that has no axes here")
    parser.add_argument("--binary", default=ROOT / "build" / "release" / "tools" / "saturate")
    parser.add_argument("-v", "--verbose", action="store_true", help="with the reasons that were given")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows there")
    parser.add_argument("--page", type=pathlib.Path, help="also put the rows of --json under the last heading of this page")
    args = parser.parse_args()
    with_axes, without = chosen(args.operator)
    found, releases = judged(list(models(with_axes, None if args.pairs < 0 else args.pairs)), args.python, args.binary)
    rows = table.rows(found)
    found, _ = judged(list(draws(without, args.draws)), args.python, args.binary)
    rows += table.drawn_rows(found)
    print(table.text(rows, releases, args.verbose))
    if args.json:
        args.json.write_text(json.dumps({"releases": [".".join(r.split(".")[:2]) for r in releases], "rows": table.kept(rows)}, indent=0) + "\n")
    if args.page:
        write_page(args.page, args.json)


if __name__ == "__main__":
    main()
