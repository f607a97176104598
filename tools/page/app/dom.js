// @ts-check
// Elements. Texts from data go in as text nodes, never as markup.

/** @typedef {string|Node|null|undefined} Child */

/** @param {Element} element @param {Object<string, any>} attributes */
function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, String(value));
  }
}

/** @param {string} tag @param {Object<string, any>} [attributes] @param {...Child} children @returns {HTMLElement} */
function el(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  setAttributes(out, attributes);
  for (const child of children) if (child !== null && child !== undefined) out.append(child);
  return out;
}

/** @param {string} tag @param {Object<string, any>} [attributes] @param {...Child} children @returns {SVGElement} */
function svgEl(tag, attributes = {}, ...children) {
  const out = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(out, attributes);
  for (const child of children) if (child !== null && child !== undefined) out.append(child);
  return out;
}

/** @param {string} label @param {() => void} act @param {Object<string, any>} [attributes] */
function button(label, act, attributes = {}) {
  return el("button", { type: "button", onclick: act, ...attributes }, label);
}

/** Columns that are empty in all rows are left out. @param {string[]} columns @param {Child[][]} rows @param {string} [caption] */
function tableOf(columns, rows, caption) {
  const empty = (/** @type {Child} */ cell) => !cell || (cell instanceof Element && cell.tagName === "SPAN" && !cell.textContent);
  const kept = columns.map((_, i) => i).filter((i) => rows.length === 0 || rows.some((row) => !empty(row[i])));
  columns = kept.map((i) => columns[i]);
  rows = rows.map((row) => kept.map((i) => row[i]));
  return el("div", { class: "scroll" },
    el("table", {}, caption ? el("caption", {}, caption) : null,
      el("thead", {}, el("tr", {}, ...columns.map((c) => el("th", { scope: "col" }, c)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell)))))));
}

/** @param {string} text @param {number} most */
function cut(text, most) {
  const letters = [...text];
  return letters.length <= most ? text : letters.slice(0, most - 1).join("") + "\u2026";
}

// Okabe and Ito's, which are told apart with any sight; a number stands beside each.
const COLOURS = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"];
/** @param {number} group */
function colourOf(group) { return COLOURS[group % COLOURS.length]; }

/** @param {number} group */
function badge(group) {
  return el("span", { class: "badge", style: `border-color:${colourOf(group)}` }, String(group + 1));
}
