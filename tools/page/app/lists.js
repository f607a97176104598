// @ts-check
// What is found by a word, what changed, and what was not fused.

const MOST_FOUND = 60;

class Search {
  /** @param {Side[]} sides @param {(side: number, nodes: number[]) => void} reveal */
  constructor(sides, reveal) {
    this.sides = sides;
    this.reveal = reveal;
    /** @type {{side: number, node: number}[]} */
    this.found = [];
    this.at = -1;
    /** Small letters of all that is looked through. @type {string[][]|null} */
    this.texts = null;
    this.input = /** @type {HTMLInputElement} */ (el("input", { type: "search", placeholder: "search (/): operator, name, value, type", "aria-label": "search", autocomplete: "off", spellcheck: "false",
      role: "combobox", "aria-expanded": "false", "aria-controls": "found", oninput: () => this.find(), onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e) }));
    this.list = el("ul", { class: "found", id: "found", role: "listbox", hidden: "" });
    this.root = el("div", { class: "search" }, this.input, this.list);
  }

  find() {
    if (!this.texts) this.texts = this.sides.map((side) => side.data.op.map((_, node) => `${side.op(node)}\n${side.nodeName(node)}\n${side.output(node)}\n${side.type(node)}`.toLowerCase()));
    const wanted = this.input.value.trim().toLowerCase();
    this.found = [];
    let all = 0;
    if (wanted) this.texts.forEach((texts, side) => texts.forEach((text, node) => {
      if (!text.includes(wanted) || !this.sides[side].isDrawn(node)) return;
      if (++all <= MOST_FOUND) this.found.push({ side, node });
    }));
    this.at = this.found.length > 0 ? 0 : -1;
    this.list.replaceChildren(...this.found.map(({ side, node }, i) => {
      const s = this.sides[side];
      return el("li", { role: "option", id: `found${i}`, onmousedown: (/** @type {Event} */ e) => { e.preventDefault(); this.go(i); } },
        el("span", { class: `side s${side}` }, this.sides.length > 1 ? ["before", "after"][side] : ""), ` ${s.op(node)} `, el("small", {}, cut(s.output(node), 80)));
    }));
    if (wanted) this.list.append(el("li", { class: "count" }, all > MOST_FOUND ? `${all} found, the first ${MOST_FOUND} shown` : `${all} found`));
    this.show(Boolean(wanted));
  }

  /** @param {boolean} visible */
  show(visible) {
    this.list.hidden = !visible;
    this.input.setAttribute("aria-expanded", String(visible));
    this.list.childNodes.forEach((item, i) => /** @type {Element} */ (item).classList.toggle("at", i === this.at));
    if (this.at >= 0) this.input.setAttribute("aria-activedescendant", `found${this.at}`);
    const item = this.list.children[this.at];
    if (visible && item) item.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} i */
  go(i) {
    const found = this.found[i];
    if (!found) return;
    this.show(false);
    this.reveal(found.side, [found.node]);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    event.stopPropagation();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const by = event.key === "ArrowDown" ? 1 : -1;
      this.at = Math.min(Math.max(this.at + by, 0), this.found.length - 1);
      this.show(true);
    } else if (event.key === "Enter") this.go(this.at);
    else if (event.key === "Escape") {
      this.show(false);
      this.input.blur();
    } else return;
    event.preventDefault();
  }
}

/** A long chain opens. @param {string[]} chain @returns {Child} */
function chainText(chain) {
  const text = chain.join(" \u2192 ");
  return chain.length <= 3 ? text : el("details", {}, el("summary", {}, `${chain.length} laws, last ${chain[chain.length - 1]}`), text);
}

/** Changes that are alike, in a row. @param {PageData} page @param {Side[]} sides @param {(region: number) => void} show */
function changes(page, sides, show) {
  const out = el("div");
  if (page.notes.length > 0) out.append(el("ul", {}, ...page.notes.map((note) => el("li", {}, note))));
  if (page.groups.length === 0) out.append(el("p", {}, "No operator changed."));
  const sum = (/** @type {number[]} */ regions, /** @type {"a"|"b"} */ which) => {
    const side = sides[which === "b" ? 0 : 1];
    return regions.reduce((all, r) => all + page.regions[r][which].reduce((part, node) => part + side.data.cost[node], 0), 0);
  };
  const rows = page.groups.map((group, number) => {
    const first = page.regions[group.r[0]];
    const cost = first.cost ? `${costText(sum(group.r, "b"), page.unit) || "0"} \u2192 ${costText(sum(group.r, "a"), page.unit) || "0"}` : "";
    return [badge(number), group.l, group.r.length > 1 ? `\u00d7\u00a0${group.r.length}` : "", operatorsText(sides[0], first.b), operatorsText(sides[1], first.a), cost,
      el("span", {}, first.differs ? el("b", { class: "bad" }, "VALUES DIFFER ") : null, chainText(first.why.map((word) => sides[0].words[word]))), button("show", () => show(group.r[0]))];
  });
  if (rows.length > 0) out.append(tableOf(["", "where", "", "before, each", "after, each", "predicted, all", "laws", ""], rows));
  return out;
}

/** Places by what might have been made there and why it was not. @param {PageData} page @param {Side[]} sides @param {(side: number, nodes: number[]) => void} reveal */
function notFused(page, sides, reveal) {
  /** @type {Map<string, Place[]>} */
  const groups = new Map();
  for (const place of page.places) {
    const key = `${place.op}\n${place.reason}\n${place.rule}`;
    const group = groups.get(key);
    if (group) group.push(place);
    else groups.set(key, [place]);
  }
  const rows = [...groups.values()].map((places) => {
    const nodes = sides.length > 0 ? places.map((place) => sides[0].maker(place.value)).filter((node) => node >= 0) : [];
    return [places[0].op, String(places.length), (places[0].found ? "found, not chosen: " : "") + places[0].reason, places[0].rule,
      nodes.length > 0 ? button("show", () => reveal(0, nodes)) : places[0].value];
  });
  return el("div", {}, rows.length > 0 ? tableOf(["operator", "places", "why not", "nearest law", ""], rows) : el("p", {}, "Nothing was left."));
}
