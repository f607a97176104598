"""Rows of what differs, by operator and axis."""
QUIET = {"same", "both refuse"}


def spelled(value):
    return value.__name__ if isinstance(value, type) else f"{value:g}" if isinstance(value, float) else str(value)


def word(both):
    """What a release does without and with its optimizations, in one word where they agree."""
    plain, optimized = (told for told, _ in both)
    return plain if plain == optimized else f"{plain}, optimized {optimized}"


def ranges(releases, all_releases):
    """Releases one after another as "1.20 to 1.23"."""
    short, out, k = [".".join(r.split(".")[:2]) for r in all_releases], [], 0
    inside = [r in releases for r in all_releases]
    if all(inside):
        return "all"
    while k < len(short):
        if inside[k]:
            first = k
            while k + 1 < len(short) and inside[k + 1]:
                k += 1
            out.append(short[first] if first == k else f"{short[first]} to {short[k]}")
        k += 1
    return ", ".join(out)


def row_of(name, changes, words, verdicts, news, count=1):
    why = {w: next(why for release, both in reversed(verdicts.items()) if words[release] == w for _, why in reversed(both)) for w in news.values()}
    return {"operator": name, "changed": {axis: spelled(value) for axis, value in changes.items()}, "releases": news, "why": why, "count": count}


def rows(cases):
    """Of (operator, changes from its base, {release: what it does}): those in which a release does not the same as we, pairs only where neither alone tells it."""
    alone, out = {}, []
    for name, changes, verdicts in cases:
        words = {release: word(both) for release, both in verdicts.items()}
        if len(changes) < 2:
            alone[name, *map(repr, changes.items())] = words
        parts = [alone.get((name,), {})] if changes else []
        parts += [alone.get((name, repr(change)), {}) for change in changes.items()] if len(changes) > 1 else []
        news = {release: w for release, w in words.items() if w not in QUIET and all(part.get(release) != w for part in parts)}
        if news:
            out.append(row_of(name, changes, words, verdicts, news))
    return out


def drawn_rows(cases):
    """The same of draws without a base: one row for all of an operator in which the releases do the same."""
    out = {}
    for name, changes, verdicts in cases:
        words = {release: word(both) for release, both in verdicts.items()}
        news = {release: w for release, w in words.items() if w not in QUIET}
        if news and (key := (name, *sorted(news.items()))) in out:
            out[key]["count"] += 1
        elif news:
            out[key] = row_of(name, changes, words, verdicts, news)
    return list(out.values())


def text(found, releases, reasons=False):
    lines = []
    for row in found:
        by_word = {}
        for release, w in row["releases"].items():
            by_word.setdefault(w, []).append(release)
        told = "; ".join(f"{w}: {ranges(of, releases)}" for w, of in by_word.items())
        if reasons:
            told += "".join(f"\n      {w}: {why[:240]}" for w, why in row["why"].items() if why)
        of = f" ({row['count']} draws)" if row["count"] > 1 else ""
        lines.append(f"{row['operator']}{of} | {', '.join(f'{a} = {v}' for a, v in row['changed'].items()) or 'base'} | {told}")
    return "\n".join(lines)


def kept(found):
    """Rows as the file of bench/data has them: releases by their first two numbers, reasons left out."""
    return [{"operator": row["operator"], "changed": row["changed"], "releases": {".".join(r.split(".")[:2]): w for r, w in row["releases"].items()}} for row in found]


def page_table(rows, releases):
    """As Markdown, of what `kept` gives."""
    lines = ["| operator | setting | ONNX Runtime |", "|---|---|---|"]
    for row in rows:
        by_word = {}
        for release, w in row["releases"].items():
            by_word.setdefault(w, []).append(release)
        setting = ", ".join(f"{axis} {value}" for axis, value in row["changed"].items()).replace("|", " ") or "the base"
        lines.append(f"| {row['operator'].replace('com.microsoft::', 'ms ')} | {setting} | " + "; ".join(f"{w} {ranges(of, releases)}" for w, of in by_word.items()) + " |")
    return "\n".join(lines) + "\n"
