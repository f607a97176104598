// @ts-check
// What is known of the box that is chosen.

class Panel {
  /** @param {PageData} page @param {Side[]} sides @param {(side: number, nodes: number[]) => void} reveal */
  constructor(page, sides, reveal) {
    this.page = page;
    this.sides = sides;
    this.reveal = reveal;
    this.root = el("aside", { class: "panel", "aria-live": "polite" });
    this.rest();
  }

  rest() {
    this.root.replaceChildren(el("p", { class: "hint" }, "Choose a box: by mouse, or Tab and the arrow keys. Enter opens what is folded, Backspace closes it. / searches, n and p go through the changes."));
  }

  /** @param {Side} side @param {Box} box */
  show(side, box) {
    if (box.kind === "fold") this.showFold(side, box);
    else if (box.index >= 0) this.showNode(side, box.index);
    else this.fill(side.words[~box.index], [["value", "from outside: an input of the graph"]], []);
  }

  /** @param {string} title @param {[string, Child][]} facts @param {Node[]} more */
  fill(title, facts, more) {
    const list = el("dl");
    for (const [name, value] of facts) if (value) list.append(el("dt", {}, name), el("dd", {}, value));
    this.root.replaceChildren(el("h2", {}, title), list, ...more);
  }

  /** @param {Side} side @param {Box} box */
  showFold(side, box) {
    const cost = box.nodes.reduce((sum, node) => sum + side.data.cost[node], 0);
    const fold = side.data.folds[box.index];
    const regions = new Set(box.nodes.map((node) => side.data.rg[node]).filter((region) => region >= 0));
    this.fill(box.label, [["blocks", fold.k === 1 ? `${fold.p.length} that are alike` : ""], ["operators", operatorsText(side, box.nodes)],
      ["cost", costText(cost, this.page.unit)], ["changes", regions.size > 0 ? String(regions.size) : ""]], []);
  }

  /** @param {Side} side @param {number} node */
  showNode(side, node) {
    const region = side.data.rg[node];
    const facts = /** @type {[string, Child][]} */ ([["name", side.nodeName(node)], ["makes", side.output(node)], ["type", side.type(node)],
      ["cost", costText(side.data.cost[node], this.page.unit)], ["attributes", side.attributes(node)],
      ["reads", this.inputs(side, node)], ["read by", this.links(side, side.readers[node])]]);
    const bodies = side.data.bodies[String(node)] || [];
    if (bodies.length > 0) facts.push(["bodies", el("ul", {}, ...bodies.map(([name, root]) => el("li", {}, button(side.words[name], () => this.reveal(side.number, side.nodesIn(root)), { class: "link" }))))]);
    const stands = side.number === 1 && this.page.stands_for ? this.page.stands_for[String(node)] || [] : [];
    if (stands.length > 0) facts.push(["stands for", this.links(this.sides[0], stands)]);
    const more = [];
    const chain = side.data.ch[node].map((word) => side.words[word]);
    if (chain.length > 0) more.push(this.laws("laws that led to it", chain));
    if (region >= 0) more.push(this.change(region, chain.length > 0));
    this.fill(side.op(node), facts, more);
  }

  /** @param {Side} side @param {number} node */
  inputs(side, node) {
    const list = el("ul");
    for (const from of side.data.in[node].slice(0, 24)) {
      if (from >= 0) list.append(el("li", {}, this.link(side, from)));
      else {
        const type = side.data.weights[String(~from)];
        list.append(el("li", {}, side.words[~from], type === undefined ? "" : ` ${side.words[type]}`));
      }
    }
    return list.childNodes.length > 0 ? list : null;
  }

  /** @param {Side} side @param {number} node */
  link(side, node) {
    return button(`${side.shortOp(node)} ${cut(side.output(node), 48)}`, () => this.reveal(side.number, [node]), { class: "link" });
  }

  /** @param {Side} side @param {number[]} nodes */
  links(side, nodes) {
    if (nodes.length === 0) return null;
    const list = el("ul");
    for (const node of nodes.slice(0, 12)) list.append(el("li", {}, this.link(side, node)));
    if (nodes.length > 12) list.append(el("li", {}, `and ${nodes.length - 12} more`));
    return list;
  }

  /** A chain of rules, each with its text. @param {string} title @param {string[]} chain */
  laws(title, chain) {
    const list = el("ol", { class: "laws" });
    for (const rule of chain) {
      const text = this.page.rules[rule];
      list.append(el("li", {}, text ? el("details", {}, el("summary", {}, rule), el("pre", {}, text)) : rule));
    }
    return el("div", {}, el("h3", {}, title), list);
  }

  /** @param {number} number @param {boolean} [brief] */
  change(number, brief) {
    const region = this.page.regions[number], words = this.sides[0].words;
    const out = el("div", { class: "change" }, el("h3", {}, badge(region.g), ` change ${number + 1} of ${this.page.regions.length}: `, words[region.l]));
    if (region.differs) out.append(el("p", { class: "bad" }, "VALUES DIFFER"));
    out.append(el("p", {}, `${operatorsText(this.sides[0], region.b)} \u2192 ${operatorsText(this.sides[1], region.a)}`));
    if (region.cost) out.append(el("p", {}, `${region.cost[0]} \u2192 ${region.cost[1]} predicted for these operators alone`));
    const why = region.why.map((word) => words[word]);
    if (why.length > 0 && !brief) out.append(this.laws("laws", why));
    out.append(button("show before", () => this.reveal(0, region.b), { disabled: region.b.length === 0 || null }), " ",
      button("show after", () => this.reveal(1, region.a), { disabled: region.a.length === 0 || null }));
    return out;
  }

  /** @param {number} number */
  showChange(number) { this.root.replaceChildren(this.change(number)); }
}
