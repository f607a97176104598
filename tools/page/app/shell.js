// @ts-check
// The page as a whole: head, tabs, keys.

class Shell {
  /** @param {PageData} page @param {Element} into */
  constructor(page, into) {
    this.page = page;
    const words = wordsOf(page.words);
    this.sides = page.sides.map((data, number) => new Side(data, words, number));
    this.region = -1;
    /** @type {{name: string, tab: HTMLElement, body: HTMLElement, make: (() => Node)|null}[]} */
    this.tabs = [];
    const reveal = (/** @type {number} */ side, /** @type {number[]} */ nodes) => this.reveal(side, nodes);
    this.panel = new Panel(page, this.sides, reveal);
    this.search = new Search(this.sides, reveal);
    this.views = this.sides.map((side) => new GraphView(side, page, { chosen: (view, box) => this.chosen(view, box) }));
    const bar = el("div", { class: "tabs", role: "tablist", "aria-label": "parts of the page", onkeydown: (/** @type {KeyboardEvent} */ e) => this.tabKey(e) });
    const bodies = el("main");
    this.addTabs();
    for (const { tab, body } of this.tabs) {
      bar.append(tab);
      bodies.append(body);
    }
    into.append(el("header", {}, el("h1", {}, `saturate ${page.verb}`), el("pre", { class: "head" }, page.head.join("\n"))), bar, bodies);
    document.title = `saturate ${page.verb}: ${page.sides.map((side) => side.name).join(", ")}`;
    this.open(0);
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("beforeprint", () => this.tabs.forEach((tab) => this.fill(tab)));
  }

  addTabs() {
    const { page, sides } = this;
    if (sides.length > 0) this.add("Graph", () => this.graph());
    if (sides.length > 1) this.add(`Changes (${page.regions.length})`, () => changes(page, sides, (region) => this.showChange(region)));
    if (page.places.length > 0) this.add(`Not fused (${page.places.length})`, () => notFused(page, sides, (side, nodes) => this.reveal(side, nodes)));
    if (page.verify) this.add("Verification", () => verification(/** @type {any} */ (page.verify)));
    if (sides.some((side) => side.data.memory.some((bytes) => bytes > 0))) this.add("Memory", () => memory(sides));
    if (page.measured) this.add("Measured", () => measuredPlot(/** @type {any} */ (page.measured)));
    if (page.predictions) this.add("Predicted and measured", () => predictionsPlot(/** @type {any} */ (page.predictions)));
    if (page.times) this.add("Times", () => timesPlot(/** @type {any} */ (page.times)));
    for (const section of page.sections)
      this.add(section.title, () => el("div", {}, section.note ? el("p", {}, section.note) : null, tableOf(section.columns, section.rows),
        section.all > section.rows.length ? el("p", {}, `the first ${section.rows.length} of ${section.all}`) : null));
    this.add("How to repeat", () => el("div", {}, el("p", {}, `saturate ${page.saturate} made this page by`), el("pre", {}, page.command)));
  }

  /** @param {string} name @param {() => Node} make */
  add(name, make) {
    const number = this.tabs.length;
    const tab = button(name, () => this.open(number), { role: "tab", id: `tab${number}`, "aria-controls": `body${number}` });
    const body = el("section", { role: "tabpanel", id: `body${number}`, "aria-labelledby": `tab${number}`, "data-name": name });
    this.tabs.push({ name, tab, body, make });
  }

  /** @param {{body: HTMLElement, make: (() => Node)|null}} tab */
  fill(tab) {
    if (!tab.make) return;
    tab.body.append(tab.make());
    tab.make = null;
  }

  /** @param {number} number */
  open(number) {
    this.tabs.forEach((tab, i) => {
      const is = i === number;
      if (is) this.fill(tab);
      tab.tab.setAttribute("aria-selected", String(is));
      tab.tab.tabIndex = is ? 0 : -1;
      tab.body.classList.toggle("away", !is);
    });
    this.at = number;
  }

  graph() {
    const { page } = this;
    const tools = el("div", { class: "tools" }, this.search.root);
    if (page.regions.length > 0) {
      this.place = el("span", { class: "place" }, `${page.regions.length} changes`);
      tools.append(button("\u2039 change before (p)", () => this.nextChange(-1)), button("next change (n) \u203a", () => this.nextChange(1)), this.place);
    }
    return el("div", {}, tools, el("div", { class: "graph" }, el("div", { class: `panes of${this.views.length}` }, ...this.views.map((view) => view.root)), this.panel.root));
  }

  /** @param {number} side @param {number[]} nodes */
  reveal(side, nodes) {
    if (nodes.length === 0) return;
    this.open(0);
    const view = this.views[side];
    view.reveal(nodes);
    this.alight(side, nodes[0]);
    if (nodes.length === 1) this.panel.showNode(this.sides[side], nodes[0]);
    view.canvas.focus({ preventScroll: true });
  }

  /** What stands for a node on the other side is lit there. @param {number} side @param {number} node */
  alight(side, node) {
    const other = this.views[1 - side];
    if (!other || node < 0) return;
    const region = this.sides[side].data.rg[node];
    if (region >= 0) other.light(side === 0 ? this.page.regions[region].a : this.page.regions[region].b);
    else other.light([other.side.maker(this.sides[side].output(node))]);
  }

  /** @param {GraphView} view @param {Box} box */
  chosen(view, box) {
    this.panel.show(view.side, box);
    if (box.kind === "node") this.alight(view.side.number, box.index);
  }

  /** @param {number} by */
  nextChange(by) {
    const all = this.page.regions.length;
    if (all === 0) return;
    this.showChange(this.region < 0 ? (by > 0 ? 0 : all - 1) : (this.region + by + all) % all);
  }

  /** @param {number} number */
  showChange(number) {
    this.open(0);
    this.region = number;
    const region = this.page.regions[number];
    [region.b, region.a].forEach((nodes, side) => {
      if (nodes.some((node) => this.sides[side].isDrawn(node))) this.views[side].reveal(nodes.filter((node) => this.sides[side].isDrawn(node)));
      else this.views[side].light([]);
    });
    this.panel.showChange(number);
    if (this.place) this.place.textContent = `change ${number + 1} of ${this.page.regions.length}`;
  }

  /** @param {KeyboardEvent} event */
  tabKey(event) {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    const all = this.tabs.length;
    this.open(((this.at || 0) + by + all) % all);
    this.tabs[this.at || 0].tab.focus();
    event.preventDefault();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof HTMLInputElement) return;
    if (event.key === "/" && this.sides.length > 0) {
      this.open(0);
      this.search.input.focus();
      this.search.input.select();
    } else if (event.key === "n" || event.key === "p") this.nextChange(event.key === "n" ? 1 : -1);
    else return;
    event.preventDefault();
  }
}

const data = JSON.parse(/** @type {HTMLElement} */ (document.getElementById("data")).textContent || "{}");
new Shell(data, /** @type {HTMLElement} */ (document.getElementById("page")));
