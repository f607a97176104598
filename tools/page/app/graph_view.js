// @ts-check
// One model: the picture of a fold, where it stands, and what is chosen in it.

const ROW = 60, TOP = 14, NODE_HEIGHT = 26, FOLD_HEIGHT = 42, LABEL = 30, SIDE_MARGIN = 12;

/**
 * @typedef {{kind: "node"|"fold"|"from"|"to"|"more", index: number, label: string, x: number, y: number, width: number, height: number,
 *   row: number, nodes: number[]}} Box
 */

class GraphView {
  /**
   * @param {Side} side @param {PageData} page
   * @param {{chosen: (view: GraphView, box: Box) => void}} listener
   */
  constructor(side, page, listener) {
    this.side = side;
    this.page = page;
    this.listener = listener;
    this.fold = side.data.root;
    /** @type {Box[]} */
    this.boxes = [];
    this.chosen = -1;
    /** @type {Set<number>} */
    this.lit = new Set();
    this.trail = el("nav", { class: "trail", "aria-label": "where" });
    this.canvas = el("div", { class: "canvas", tabindex: "0", role: "group", "aria-label": `graph of ${side.data.name}`, onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e) });
    this.root = el("section", { class: "pane" },
      el("h2", { title: side.data.name }, (page.sides.length > 1 ? ["before: ", "after: "][side.number] : "") + side.data.name.replace(/^.*\//, "")), this.trail, this.canvas);
    this.draw();
  }

  /** A fold's inside. Repeats show their first block. @param {number} fold */
  open(fold) {
    const { folds } = this.side.data;
    this.fold = folds[fold].k === 1 ? -1 - folds[fold].p[0] : fold;
    this.chosen = -1;
    this.draw();
  }

  /** Shows these nodes, lit. @param {number[]} nodes */
  reveal(nodes) {
    let fold = this.side.common(nodes);
    const { folds } = this.side.data;
    if (folds[fold].k === 1) fold = -1 - (folds[fold].p.find((part) => this.side.nodesIn(-1 - part).includes(nodes[0])) || folds[fold].p[0]);
    this.fold = fold;
    this.lit = new Set(nodes);
    this.draw();
    this.choose(this.boxes.findIndex((box) => box.kind === "node" && this.lit.has(box.index)), false);
    if (this.chosen < 0) this.choose(this.boxes.findIndex((box) => box.nodes.some((node) => this.lit.has(node))), false);
  }

  /** @param {number[]} nodes */
  light(nodes) {
    this.lit = new Set(nodes);
    this.markLit();
  }

  up() {
    let at = this.side.parent[this.fold];
    if (at >= 0 && this.side.data.folds[at].k === 1) at = this.side.parent[at];
    if (at < 0) return;
    const from = this.fold;
    this.open(at);
    const first = this.side.nodesIn(from)[0];
    this.choose(this.boxes.findIndex((box) => box.nodes.includes(first)));
  }

  /** Another block of the same repeats. @param {number} by */
  step(by) {
    const parent = this.side.parent[this.fold];
    if (parent < 0 || this.side.data.folds[parent].k !== 1) return;
    const blocks = this.side.data.folds[parent].p, at = blocks.indexOf(-1 - this.fold);
    const next = blocks[at + by];
    if (next === undefined) return;
    this.fold = -1 - next;
    this.draw();
  }

  /** @param {number} fold */
  label(fold) { return this.side.words[this.side.data.folds[fold].l]; }

  drawTrail() {
    this.trail.replaceChildren();
    const path = this.side.path(this.fold);
    path.forEach((fold, i) => {
      const data = this.side.data.folds[fold];
      if (data.k === 2) return;
      const body = this.side.bodyName(fold);
      const label = i === 0 ? "all" : body ? body : cut(this.label(fold), 40) + (data.k === 1 ? ` \u00d7 ${data.p.length}` : "");
      if (i > 0) this.trail.append(" \u203a ");
      const last = i === path.length - 1 || (data.k === 1 && i === path.length - 2);
      this.trail.append(last ? el("b", {}, label) : button(label, () => this.open(fold)));
    });
    const parent = this.side.parent[this.fold];
    if (parent >= 0 && this.side.data.folds[parent].k === 1) {
      const blocks = this.side.data.folds[parent].p, at = blocks.indexOf(-1 - this.fold);
      this.trail.append(" ", button("\u2039", () => this.step(-1), { "aria-label": "block before ([)", disabled: at === 0 || null }),
        ` ${at + 1} of ${blocks.length} `, button("\u203a", () => this.step(1), { "aria-label": "next block (])", disabled: at + 1 === blocks.length || null }));
    }
  }

  findBoxes() {
    const fold = this.side.data.folds[this.fold], layout = this.side.data.layouts[/** @type {number} */ (fold.y)];
    /** @type {Box[]} */
    const out = [];
    const add = (/** @type {Box["kind"]} */ kind, /** @type {number} */ index, /** @type {string} */ label, /** @type {number[]} */ nodes) => {
      const i = out.length, height = kind === "fold" ? FOLD_HEIGHT : NODE_HEIGHT;
      out.push({ kind, index, label, nodes, height, width: layout.b[i], x: layout.x[i] + SIDE_MARGIN, row: layout.r[i], y: TOP + FOLD_HEIGHT / 2 + ROW * layout.r[i] });
    };
    for (const part of fold.p) {
      if (part < 0) add("fold", -1 - part, this.label(-1 - part), this.side.nodesIn(-1 - part));
      else add("node", part, this.side.shortOp(part), [part].concat(...(this.side.data.bodies[String(part)] || []).map(([, root]) => this.side.nodesIn(root))));
    }
    (fold.i || []).forEach((source, i) => add("from", source, this.side.words[layout.t[i]], []));
    const first = (fold.i || []).length;
    (fold.o || []).forEach((node, i) => add("to", node, this.side.words[layout.t[first + i]], []));
    this.boxes = out;
    return layout;
  }

  draw() {
    this.chosen = -1;
    this.drawTrail();
    const layout = this.findBoxes(), width = layout.w + 2 * SIDE_MARGIN, height = 2 * TOP + FOLD_HEIGHT + ROW * Math.max(0, layout.n - 1);
    const picture = svgEl("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
    for (const edge of edgesOf(layout)) picture.append(this.edge(edge));
    this.groups = this.boxes.map((box, i) => this.box(box, i));
    picture.append(...this.groups);
    this.canvas.replaceChildren(picture);
    this.canvas.scrollLeft = (width - this.canvas.clientWidth) / 2;
    const fold = this.side.data.folds[this.fold];
    if (fold.mi) this.canvas.prepend(el("p", { class: "more" }, `${fold.mi} more values come in`));
    if (fold.mo) this.canvas.append(el("p", { class: "more" }, `${fold.mo} more values go out`));
    this.markLit();
  }

  /** @param {number[]} edge */
  edge(edge) {
    const from = this.boxes[edge[0]], to = this.boxes[edge[1]];
    const points = [[from.x, from.y + from.height / 2], ...edge.slice(2).map((x, i) => [x + SIDE_MARGIN, TOP + FOLD_HEIGHT / 2 + ROW * (from.row + 1 + i)]), [to.x, to.y - to.height / 2]];
    let path = `M${points[0][0]} ${points[0][1]}`;
    for (let i = 1; i < points.length; ++i) {
      const [x1, y1] = points[i - 1], [x2, y2] = points[i], middle = (y1 + y2) / 2;
      path += `C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
    }
    return svgEl("path", { d: path, class: "edge" });
  }

  /** How many of these nodes each group of changes has. @param {number[]} nodes */
  changesIn(nodes) {
    /** @type {Map<number, number>} */
    const counts = new Map();
    for (const node of nodes) {
      const region = this.side.data.rg[node];
      if (region >= 0) counts.set(this.page.regions[region].g, (counts.get(this.page.regions[region].g) || 0) + 1);
    }
    return [...counts].sort((a, b) => a[0] - b[0]);
  }

  /** @param {Box} box @param {number} number */
  box(box, number) {
    const left = box.x - box.width / 2, top = box.y - box.height / 2, round = box.kind === "from" || box.kind === "to" ? box.height / 2 : 5;
    const group = svgEl("g", { class: `box ${box.kind}`, onclick: () => this.click(number) });
    const changes = this.changesIn(box.nodes);
    const colour = changes.length > 0 && box.kind === "node" ? colourOf(changes[0][0]) : null;
    const data = box.kind === "fold" ? this.side.data.folds[box.index] : null;
    if (data && data.k === 1) for (const by of [6, 3]) group.append(svgEl("rect", { x: left + by, y: top - by, width: box.width, height: box.height, rx: round, class: "behind" }));
    group.append(svgEl("rect", { x: left, y: top, width: box.width, height: box.height, rx: round, class: "face" }));
    if (colour) group.append(svgEl("rect", { x: left, y: top, width: box.width, height: box.height, rx: round, fill: colour, "fill-opacity": 0.22, stroke: colour, "stroke-width": 1.5 }));
    const middle = box.x - (colour ? 11 : 0);
    group.append(svgEl("text", { x: middle, y: box.y + (data ? -4 : 4) }, cut(box.label, LABEL)));
    if (data) this.foldText(group, box, data, changes);
    if (colour) {
      group.append(svgEl("circle", { cx: left + box.width - 14, cy: box.y, r: 9, fill: colour }),
        svgEl("text", { x: left + box.width - 14, y: box.y + 4, class: "number" }, String(changes[0][0] + 1)));
    }
    if (this.side.data.bodies[String(box.index)] && box.kind === "node") group.append(svgEl("rect", { x: left + 3, y: top + 3, width: box.width - 6, height: box.height - 6, rx: 3, class: "inner" }));
    group.append(svgEl("title", {}, this.title(box)));
    return group;
  }

  /** @param {Element} group @param {Box} box @param {Fold} data @param {[number, number][]} changes */
  foldText(group, box, data, changes) {
    const all = box.nodes.length, each = data.k === 1 ? `${data.p.length} \u00d7 ${Math.round(all / data.p.length)}` : String(all);
    const changed = changes.reduce((sum, [, count]) => sum + count, 0);
    group.append(svgEl("text", { x: box.x, y: box.y + 11, class: "small" }, `${each} operators` + (changed ? `, ${changed} changed` : "")));
    let at = box.x - box.width / 2 + 4;
    for (const [number, count] of changes) {
      const width = (box.width - 8) * count / all;
      group.append(svgEl("rect", { x: at, y: box.y + box.height / 2 - 5, width: Math.max(width, 1.5), height: 3, fill: colourOf(number) }));
      at += width;
    }
  }

  /** @param {Box} box */
  title(box) {
    if (box.kind === "fold") return `${box.label}: ${operatorsText(this.side, box.nodes)}`;
    if (box.index < 0) return `input ${this.side.words[~box.index]}`;
    return [this.side.op(box.index), this.side.nodeName(box.index), this.side.type(box.index)].filter((text) => text).join("\n");
  }

  markLit() {
    if (!this.groups) return;
    this.groups.forEach((group, i) => group.classList.toggle("lit", this.boxes[i].nodes.some((node) => this.lit.has(node))));
  }

  /** @param {number} number @param {boolean} [tell] */
  choose(number, tell = true) {
    if (!this.groups || number < 0 || number >= this.boxes.length) return;
    if (this.chosen >= 0) this.groups[this.chosen].classList.remove("chosen");
    this.chosen = number;
    this.groups[number].classList.add("chosen");
    const box = this.boxes[number], svg = this.canvas.querySelector("svg");
    const top = svg ? /** @type {SVGElement} */ (svg).getBoundingClientRect().top - this.canvas.getBoundingClientRect().top + this.canvas.scrollTop : 0;
    this.canvas.scrollTo({ left: box.x - this.canvas.clientWidth / 2, top: top + box.y - this.canvas.clientHeight / 2 });
    if (tell) this.listener.chosen(this, box);
  }

  /** @param {number} number */
  click(number) {
    this.choose(number);
    const box = this.boxes[number];
    if (box.kind === "fold") this.enter();
    else if (box.kind === "from" || box.kind === "to") this.enter();
  }

  /** Opens what is chosen. */
  enter() {
    const box = this.boxes[this.chosen];
    if (!box) return;
    if (box.kind === "fold") this.open(box.index);
    else if (box.kind === "from" && box.index >= 0) this.reveal([box.index]);
    else if (box.kind === "to") {
      const readers = this.side.readers[box.index].filter((node) => this.side.isDrawn(node) && !this.side.nodesIn(this.fold).includes(node));
      if (readers.length > 0) this.reveal(readers);
    } else if (box.kind === "node" && this.side.data.bodies[String(box.index)]) this.open(this.side.data.bodies[String(box.index)][0][1]);
  }

  /** The nearest box above or below by an edge, or beside it. @param {string} key */
  neighbour(key) {
    if (this.chosen < 0) return this.boxes.length > 0 ? this.boxes.reduce((best, box, i) => (box.row < this.boxes[best].row ? i : best), 0) : -1;
    const here = this.boxes[this.chosen];
    const beside = key === "ArrowLeft" || key === "ArrowRight";
    const edges = edgesOf(this.side.data.layouts[/** @type {number} */ (this.side.data.folds[this.fold].y)]);
    let near = beside
      ? this.boxes.map((_, i) => i).filter((i) => this.boxes[i].row === here.row && (key === "ArrowLeft" ? this.boxes[i].x < here.x : this.boxes[i].x > here.x))
      : edges.filter((edge) => edge[key === "ArrowDown" ? 0 : 1] === this.chosen).map((edge) => edge[key === "ArrowDown" ? 1 : 0]);
    if (near.length === 0 && !beside) {
      const rows = this.boxes.map((box) => box.row).filter((row) => (key === "ArrowDown" ? row > here.row : row < here.row));
      const row = key === "ArrowDown" ? Math.min(...rows) : Math.max(...rows);
      near = this.boxes.map((_, i) => i).filter((i) => this.boxes[i].row === row);
    }
    const far = (/** @type {number} */ i) => Math.abs(this.boxes[i].x - here.x) + 4 * Math.abs(this.boxes[i].row - here.row) * ROW;
    return near.length > 0 ? near.reduce((best, i) => (far(i) < far(best) ? i : best)) : -1;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) this.choose(this.neighbour(event.key));
    else if (event.key === "Enter" || event.key === " ") this.enter();
    else if (event.key === "Backspace" || event.key === "Escape") this.up();
    else if (event.key === "[" || event.key === "]") this.step(event.key === "[" ? -1 : 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
