"""Which rules fired: counts of cases, over a run and over several."""
import json
import subprocess

ENOUGH = 20


def names():
    """All built-in rules; of one that holds both ways also NAME.back."""
    import onnx_saturate

    rules = onnx_saturate.RuleSet.builtin()
    return [name + back for name in rules for back in (("", ".back") if "<=>" in rules.show(name) else ("",))]


def effects(command):
    """What each rule does to rounding, by name."""
    listed = subprocess.run([*command, "rules", "list", "--json"], capture_output=True, text=True, check=True).stdout
    return {rule["name"]: rule["effect"] for rule in json.loads(listed)}


def of_report(report):
    """{rule: [applied, made something new, chosen]} of one case, each 0 or 1."""
    counts = {r["rule"]: [1, int(r["unions"] > 0 or r["enodes_made"] > 0), 0] for r in report["saturation"]["rules"] if r["applied"]}
    for made in report["made_by_rules"]:
        counts.setdefault(made["rule"], [1, 1, 0])[2] = 1
    return counts


def add(total, counts):
    for name, numbers in counts.items():
        total[name] = [a + b for a, b in zip(total.get(name, (0, 0, 0)), numbers)]


def rare(total):
    """Rules that fired in fewer cases than are wanted."""
    return sorted(name for name, (_, fired, _) in total.items() if fired < ENOUGH)


def text(total):
    """A few lines: how many fired, which rarely, which never."""
    fired = {name: total[name][1] for name in total}
    never = sorted(name for name, count in fired.items() if count == 0)
    rare = sorted((count, name) for name, count in fired.items() if 0 < count < ENOUGH)
    chosen = sum(numbers[2] > 0 for numbers in total.values())
    lines = [f"{len(total)} rules: {sum(c >= ENOUGH for c in fired.values())} fired in {ENOUGH} cases or more, {len(rare)} in fewer, {len(never)} in none; {chosen} were chosen"]
    if rare:
        lines.append("  rarely: " + ", ".join(f"{name} {count}" for count, name in rare))
    if never:
        lines.append("  never: " + ", ".join(f"{name} (found in {total[name][0]})" if total[name][0] else name for name in never))
    return "\n".join(lines)
