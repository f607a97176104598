"""Draws small graphs as SVG: values flow downwards, one row a layer."""
import dataclasses
import html

FILLS = {"input": "#eef1f4", "constant": "#eef1f4", "output": "#eef1f4", "node": "#dbe7f5", "new": "#d3efd9", "old": "#f8ddd6"}
EDGES = {"input": "#9aa5b1", "constant": "#9aa5b1", "output": "#9aa5b1", "node": "#4a78b0", "new": "#2e8b57", "old": "#c0603f"}
ROW, GAP, HEIGHT = 50, 14, 28


@dataclasses.dataclass
class Box:
    label: str
    kind: str = "node"
    inputs: list = dataclasses.field(default_factory=list)  # other boxes; None: drawn as a point on the way of a long edge


def width(box):
    return 2 if box.kind == "way" else max(34, 7 * len(box.label) + 18)


def layers_of(boxes):
    """Rows from the top: each box below all of its inputs, inputs right above what reads them."""
    depth = {}

    def deep(box):
        if id(box) not in depth:
            depth[id(box)] = 1 + max((deep(i) for i in box.inputs), default=-1)
        return depth[id(box)]

    for box in boxes:
        deep(box)
    readers = {}
    for box in boxes:
        for i in box.inputs:
            readers.setdefault(id(i), []).append(box)
    for box in boxes:
        if not box.inputs and id(box) in readers:
            depth[id(box)] = min(depth[id(r)] for r in readers[id(box)]) - 1
    rows = [[] for _ in range(1 + max(depth.values()))]
    for box in boxes:
        rows[depth[id(box)]].append(box)
    return rows, depth


def with_ways(boxes):
    """Rows in which every edge goes to the next one: a long edge passes points."""
    rows, depth = layers_of(boxes)
    links = []  # from, to, of neighbouring rows
    for box in boxes:
        for i in box.inputs:
            at = i
            for row in range(depth[id(i)] + 1, depth[id(box)]):
                way = Box("", "way")
                rows[row].append(way)
                links.append((at, way))
                at = way
            links.append((at, box))
    return rows, links


def order(rows, links):
    """Fewer crossings: each box to the mean place of its neighbours, down and up a few times."""
    above, below = {}, {}
    for a, b in links:
        above.setdefault(id(b), []).append(a)
        below.setdefault(id(a), []).append(b)
    for turn in range(8):
        down = turn % 2 == 0
        neighbours = above if down else below
        for row, other in zip(rows[1:], rows) if down else zip(rows[-2::-1], rows[::-1]):
            place = {id(b): k for k, b in enumerate(other)}
            own = {id(b): k for k, b in enumerate(row)}

            def mean(box):
                near = [place[id(n)] for n in neighbours.get(id(box), ()) if id(n) in place]
                return sum(near) / len(near) if near else own[id(box)] * len(other) / max(1, len(row))

            row.sort(key=mean)


def places(rows, links):
    """Centre of each box, by its id, and the whole width."""
    x = {}
    total = max(sum(width(b) for b in row) + GAP * (len(row) - 1) for row in rows)
    for row in rows:
        at = (total - sum(width(b) for b in row) - GAP * (len(row) - 1)) / 2
        for box in row:
            x[id(box)] = at + width(box) / 2
            at += width(box) + GAP
    return x, total


def drawing(boxes):
    """(elements of SVG, width, height) of one graph."""
    rows, links = with_ways(boxes)
    order(rows, links)
    x, total = places(rows, links)
    y = {id(box): HEIGHT / 2 + ROW * k for k, row in enumerate(rows) for box in row}
    parts = []
    for a, b in links:
        x1, y1, x2, y2 = x[id(a)], y[id(a)] + (HEIGHT / 2 if a.kind != "way" else 0), x[id(b)], y[id(b)] - (HEIGHT / 2 if b.kind != "way" else 0)
        middle = (y1 + y2) / 2
        parts.append(f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}" fill="none" stroke="#8a94a0"/>')
    for row in rows:
        for box in row:
            if box.kind == "way":
                continue
            round_, w = (HEIGHT / 2 if box.kind in ("input", "output", "constant") else 5), width(box)
            parts.append(f'<rect x="{x[id(box)] - w / 2:.0f}" y="{y[id(box)] - HEIGHT / 2:.0f}" width="{w:.0f}" height="{HEIGHT}" rx="{round_:.0f}" '
                         f'fill="{FILLS[box.kind]}" stroke="{EDGES[box.kind]}"/>')
            parts.append(f'<text x="{x[id(box)]:.0f}" y="{y[id(box)] + 4:.0f}" text-anchor="middle">{html.escape(box.label)}</text>')
    return parts, total, HEIGHT + ROW * (len(rows) - 1)


def svg(columns, title):
    """One picture of graphs beside each other, with the text that stands between two. columns: lists of boxes and texts in turn."""
    parts, at, tall = [], 12.0, 0
    drawn = [c if isinstance(c, str) else drawing(c) for c in columns]
    tall = max(d[2] for d in drawn if not isinstance(d, str))
    for d in drawn:
        if isinstance(d, str):
            parts.append(f'<text x="{at + 18:.0f}" y="{12 + tall / 2:.0f}" text-anchor="middle" font-size="18">{html.escape(d)}</text>')
            at += 36 + 12
            continue
        elements, wide, high = d
        parts.append(f'<g transform="translate({at:.0f} {12 + (tall - high) / 2:.0f})">' + "".join(elements) + "</g>")
        at += wide + 12
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {at:.0f} {tall + 24:.0f}" width="{at:.0f}" height="{tall + 24:.0f}" '
            f'font-family="sans-serif" font-size="12" role="img"><title>{html.escape(title)}</title>'
            f'<rect width="100%" height="100%" rx="6" fill="#ffffff"/><g fill="#1d2733">' + "".join(parts) + "</g></svg>\n")
