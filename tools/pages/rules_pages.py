"""The catalogue of rules: a page for each file of rules, both sides of each rule drawn."""
import collections
import html
import re

import draw
import rule_text

EFFECTS = {
    "exact": "both sides are the same, bit for bit",
    "reassociates": "both sides are the same but for rounding",
    "within_one_step": "quantized values may differ by a step",
    "rescales": "the scales of quantized values move",
    "approximates": "the sides are close; only with `--approximate`",
}


def rule_texts(path):
    """Text by name of each rule of a file: what stands between blank lines."""
    texts = {}
    for part in re.split(r"\n\s*\n", path.read_text()):
        for name in re.findall(r"^rule (\w+)", part, flags=re.M):
            texts[name] = part.strip("\n")
    return texts


def picture(name, text, folder):
    """Writes the picture of a rule; False where its text is beyond the reader."""
    try:
        old, new, arrow = rule_text.sides(text)
    except rule_text.Unread:
        return False
    (folder / f"{name}.svg").write_text(draw.svg([old, arrow, new], name))
    return True


def law_lines(name, rules, text, pictures):
    """One law of a page; `rules`: its instances as `rules list --json` tells them."""
    first = rules[0]
    lines = [f"## {name}", ""]
    doc = next((r["doc"] for r in rules if r["doc"]), "")
    lines += [html.escape(doc, quote=False).replace("<", "&lt;").replace("*", "\\*"), ""] if doc else []
    facts = [f"Effect: {first['effect']} ({EFFECTS[first['effect']]})."]
    assumed = sorted({a for r in rules for a in r["assumes"]})
    if assumed:
        facts.append("Assumes " + ", ".join(f"[{a}](../docs/assumptions.md)" for a in assumed) + ".")
    if first["proof"]:
        facts.append(html.escape(first["proof"][0].upper() + first["proof"][1:], quote=False) + ".")
    if len(rules) > 1:
        facts.append(f"{len(rules)} instances: " + ", ".join(f"`{r['name']}`" for r in rules[:12]) + (", ..." if len(rules) > 12 else "") + ".")
    lines += [*facts, ""]
    if text and picture(name, text, pictures):
        lines += [f"![{name}, both sides](pictures/{name}.svg){{ loading=lazy }}", ""]
    if text:
        lines += ["```text", text, "```", ""]
    return lines


def write(rules, library, out):
    """Pages below `out`; gives (title, path) of each, and how many laws there are and have pictures."""
    (out / "pictures").mkdir(parents=True, exist_ok=True)
    files = collections.defaultdict(lambda: collections.defaultdict(list))
    for rule in rules:
        files[rule["from"].partition(":")[0]][rule["name"].partition("[")[0]].append(rule)
    pages, laws = [], 0
    for source in sorted(files):
        native = source == "C++"
        title = "in C++" if native else source.removesuffix(".rules").replace("_", " ")
        page = ("native" if native else source.removesuffix(".rules").replace("/", "_")) + ".md"
        texts = {} if native else rule_texts(library / source)
        lines = [f"# Rules: {title}", ""]
        lines += ["Their guards are beyond what the language says; each is checked on graphs as the others are.", ""] if native else [f"From `rules/library/{source}`.", ""]
        for name in files[source]:
            lines += law_lines(name, files[source][name], texts.get(name), out / "pictures")
        (out / page).write_text("\n".join(lines))
        pages.append((title, page, len(files[source])))
        laws += len(files[source])
    drawn = len(list((out / "pictures").glob("*.svg")))
    table = "\n".join(f"| [{title}]({page}) | {count} |" for title, page, count in pages)
    (out / "index.md").write_text(
        f"# All rules\n\n{laws} laws, {len(rules)} rules with all of their instances; {drawn} are drawn.\n"
        "Left of an arrow is what a rule finds, right of it what it equals; `=` holds both ways.\n"
        "An operator with an `@` stands for several. The search finds every name.\n\n"
        f"| file | laws |\n|---|---|\n{table}\n")
    return pages, laws, drawn
