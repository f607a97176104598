// @ts-check
// The data of the page as it was written (side.cpp, fold_boxes.cpp), and what is looked up in it.

/**
 * A picture of a fold: x and row of each box, its width, edges with bends, those without in pairs, words of the boxes that stand for what is outside.
 * @typedef {{w: number, n: number, x: number[], r: number[], b: number[], e: number[][], s: number[], t: number[]}} Layout
 * k: 0 a part, 1 repeats, 2 a block of them. p: nodes, and folds as -1 - number. i, o: nodes outside that are read, nodes that are read outside.
 * @typedef {{k: number, l: number, p: number[], y?: number, i?: number[], o?: number[], mi?: number, mo?: number}} Fold
 * @typedef {{name: string, op: number[], nm: number[], out: number[], ty: number[], cost: number[], at: number[], in: number[][],
 *   rg: number[], ch: number[][], weights: Object<string, number>, bodies: Object<string, number[][]>, folds: Fold[], layouts: Layout[],
 *   root: number, main: number, memory: number[]}} SideData
 * @typedef {{g: number, l: number, b: number[], a: number[], why: number[], cost?: string[], differs?: boolean}} Region
 * @typedef {{op: string, value: string, where: string, rule: string, reason: string, found: boolean}} Place
 * @typedef {{name: string, case: string, diff: number|null, max: number|null, allowed: number|null, scale: number|null, elements: number,
 *   wrong: number, ok: boolean, why: string, compared: boolean}} Output
 * @typedef {{name: string, nodes: number, median: number|null, low: number|null, high: number|null, why_not: string}} TimedGraph
 * @typedef {{verb: string, saturate: string, head: string[], command: string, sides: SideData[], regions: Region[],
 *   groups: {l: string, r: number[]}[], rules: Object<string, string>, words: string[], notes: string[], places: Place[],
 *   sections: {title: string, note: string, columns: string[], rows: string[][], all: number}[], unit: string,
 *   stands_for?: Object<string, number[]>, verify?: {outputs: Output[], summary: string, notes: string[], ok: boolean},
 *   measured?: {summary: string, graphs: TimedGraph[]}, predictions?: {points: [string, string, number|null, number|null][], all: number},
 *   times?: {name: string, seconds: number[]}[]}} PageData
 */

const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";

/** Each word begins with a letter for how much of the one before it comes first. @param {string[]} written @returns {string[]} */
function wordsOf(written) {
  const out = [];
  let last = "";
  for (const word of written) {
    last = last.slice(0, LETTERS.indexOf(word[0])) + word.slice(1);
    out.push(last);
  }
  return out;
}

/** One of the models, with what is asked of its nodes. */
class Side {
  /** @param {SideData} data @param {string[]} words @param {number} number */
  constructor(data, words, number) {
    this.data = data;
    this.words = words;
    this.number = number;
    this.count = data.op.length;
    /** The fold that holds a node, and the fold that holds a fold. @type {number[]} */
    this.home = new Array(this.count).fill(-1);
    /** @type {number[]} */
    this.parent = new Array(data.folds.length).fill(-1);
    data.folds.forEach((fold, number) => {
      for (const part of fold.p) {
        if (part < 0) this.parent[-1 - part] = number;
        else this.home[part] = number;
      }
    });
    for (const [node, bodies] of Object.entries(data.bodies)) for (const [, root] of bodies) this.parent[root] = this.home[Number(node)];
    /** @type {number[][]} */
    this.readers = Array.from({ length: this.count }, () => []);
    data.in.forEach((inputs, node) => {
      for (const from of new Set(inputs)) if (from >= 0) this.readers[from].push(node);
    });
    /** @type {number[][]} */
    this.inside = [];
    /** @type {Map<string, number>|null} */
    this.makers = null;
  }

  /** @param {number} node */ op(node) { return this.words[this.data.op[node]]; }
  /** @param {number} node */ shortOp(node) { return this.op(node).replace(/^.*\./, ""); }
  /** @param {number} node */ nodeName(node) { return this.words[this.data.nm[node]]; }
  /** @param {number} node */ output(node) { return this.words[this.data.out[node]]; }
  /** @param {number} node */ type(node) { return this.words[this.data.ty[node]]; }
  /** @param {number} node */ attributes(node) { return this.words[this.data.at[node]]; }
  /** Whether it stands in a picture: constants don't. @param {number} node */ isDrawn(node) { return this.home[node] >= 0; }

  /** All nodes in a fold. @param {number} fold @returns {number[]} */
  nodesIn(fold) {
    if (!this.inside[fold])
      this.inside[fold] = this.data.folds[fold].p.flatMap((part) => {
        if (part < 0) return this.nodesIn(-1 - part);
        const bodies = this.data.bodies[String(part)] || [];
        return [part].concat(...bodies.map(([, root]) => this.nodesIn(root)));
      });
    return this.inside[fold];
  }

  /** Of the fold that is a body: "then_branch of If". @param {number} fold */
  bodyName(fold) {
    for (const [node, bodies] of Object.entries(this.data.bodies))
      for (const [name, root] of bodies) if (root === fold) return `${this.words[name]} of ${this.shortOp(Number(node))}`;
    return "";
  }

  /** The fold and all that hold it, the whole first. @param {number} fold @returns {number[]} */
  path(fold) {
    const out = [];
    for (let at = fold; at >= 0; at = this.parent[at]) out.unshift(at);
    return out;
  }

  /** The smallest fold that holds all of these. @param {number[]} nodes @returns {number} */
  common(nodes) {
    const drawn = nodes.filter((node) => this.isDrawn(node));
    if (drawn.length === 0) return this.data.root;
    let path = this.path(this.home[drawn[0]]);
    for (const node of drawn) {
      const other = this.path(this.home[node]);
      let same = 0;
      while (same < path.length && same < other.length && path[same] === other[same]) ++same;
      path = path.slice(0, same);
    }
    return path.length > 0 ? path[path.length - 1] : this.data.root;
  }

  /** The node that makes a value, or -1. @param {string} value */
  maker(value) {
    if (!this.makers) {
      this.makers = new Map();
      for (let node = this.count - 1; node >= 0; --node) if (this.isDrawn(node)) this.makers.set(this.output(node), node);
    }
    const found = this.makers.get(value);
    return found === undefined ? -1 : found;
  }
}

/** All edges of a picture. @param {Layout} layout @returns {number[][]} */
function edgesOf(layout) {
  const out = layout.e.slice();
  for (let i = 0; i < layout.s.length; i += 2) out.push([layout.s[i], layout.s[i + 1]]);
  return out;
}

/** @param {number} value @param {string} unit */
function costText(value, unit) {
  if (!value) return "";
  if (unit !== "ns") return `${Number(value.toPrecision(3))} ${unit}`;
  value *= 1e-9;
  return value >= 1 ? `${value.toPrecision(3)} s` : value >= 1e-3 ? `${(value * 1e3).toPrecision(3)} ms` : `${(value * 1e6).toPrecision(3)} us`;
}

/** @param {number} bytes */
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at + 1 < units.length) {
    bytes /= 1024;
    ++at;
  }
  return `${Number(bytes.toPrecision(3))} ${units[at]}`;
}

/** "3 Add, 1 MatMul". @param {Side} side @param {number[]} nodes */
function operatorsText(side, nodes) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const node of nodes) if (side.isDrawn(node)) counts.set(side.shortOp(node), (counts.get(side.shortOp(node)) || 0) + 1);
  const all = [...counts].sort((a, b) => b[1] - a[1]);
  return all.slice(0, 8).map(([op, count]) => `${count} ${op}`).join(", ") + (all.length > 8 ? ` and ${all.length - 8} more kinds` : "") || "nothing";
}
