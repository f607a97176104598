// @ts-check
// Errors, memory and measured times as pictures, each with a table beside it.

const WIDTH = 640, LEFT = 60;

/** How near each output came to what is allowed, on a scale of powers of ten. @param {NonNullable<PageData["verify"]>} verify */
function verification(verify) {
  const rows = verify.outputs.map((output) => ({ output, share: output.compared && output.allowed ? (output.diff || 0) / output.allowed : output.ok ? 0 : Infinity }));
  const out = el("div", {}, el("p", { class: verify.ok ? "good" : "bad" }, verify.summary));
  for (const note of verify.notes) out.append(el("p", {}, note));
  if (rows.length === 0) return out;
  out.append(el("h3", {}, "differences by output, as a share of what is allowed"), errorHistogram(rows.map((row) => row.share)));
  const number = (/** @type {number|null} */ x) => (x === null ? "" : x === 0 ? "0" : x.toExponential(1));
  const sorted = [...rows].sort((a, b) => b.share - a.share);
  out.append(tableOf(["output", "inputs", "worst difference", "allowed", "of", "elements", "beyond", ""], sorted.map(({ output }) => [output.name, output.case,
    number(output.diff), number(output.allowed), number(output.scale), String(output.elements), String(output.wrong),
    output.ok ? (output.compared ? "equal" : "not compared") : output.why || "differs"]), "the worst first"));
  return out;
}

/** @param {number[]} shares */
function errorHistogram(shares) {
  const least = -8, most = 2, bins = new Array(most - least + 1).fill(0);  // powers of ten; the first: no difference
  for (const share of shares) ++bins[share <= 0 ? 0 : Math.min(Math.max(Math.floor(Math.log10(share)) - least + 1, 1), most - least)];
  const height = 120, step = (WIDTH - LEFT) / bins.length, high = Math.max(...bins, 1);
  const picture = svgEl("svg", { viewBox: `0 0 ${WIDTH} ${height + 40}`, class: "plot", role: "img", "aria-label": "histogram of differences" });
  bins.forEach((count, i) => {
    const tall = (height - 20) * count / high, x = LEFT / 2 + i * step;
    const bad = i - 1 + least >= 0;
    picture.append(svgEl("rect", { x: x + 2, y: height - tall, width: step - 4, height: tall, class: bad && i > 0 ? "bar wrong" : "bar" }));
    if (count > 0) picture.append(svgEl("text", { x: x + step / 2, y: height - tall - 4, class: "small" }, String(count)));
    picture.append(svgEl("text", { x: x + step / 2, y: height + 14, class: "small" }, i === 0 ? "none" : `1e${i - 1 + least}`));
  });
  const limit = LEFT / 2 + (1 - least) * step;
  picture.append(svgEl("path", { d: `M${limit} 4V${height}`, class: "limit" }), svgEl("text", { x: limit, y: height + 30, class: "small" }, "allowed"));
  return picture;
}

/** Bytes alive over the order of the nodes. @param {Side[]} sides */
function memory(sides) {
  const drawn = sides.filter((side) => side.data.memory.length > 1);
  const most = Math.max(...drawn.map((side) => Math.max(...side.data.memory)), 1), height = 220;
  const picture = svgEl("svg", { viewBox: `0 0 ${WIDTH} ${height + 30}`, class: "plot", role: "img", "aria-label": "memory over the order of nodes" });
  for (let i = 0; i <= 4; ++i) {
    const y = 10 + (height - 10) * (1 - i / 4);
    picture.append(svgEl("path", { d: `M${LEFT} ${y}H${WIDTH - 8}`, class: "grid" }), svgEl("text", { x: LEFT - 6, y: y + 4, class: "small end" }, bytesText(most * i / 4)));
  }
  for (const side of drawn) {
    const points = side.data.memory.map((bytes, i, all) => `${(LEFT + (WIDTH - LEFT - 8) * i / (all.length - 1)).toFixed(1)} ${(10 + (height - 10) * (1 - bytes / most)).toFixed(1)}`);
    picture.append(svgEl("path", { d: `M${points.join("L")}`, class: `curve c${side.number}` }));
  }
  picture.append(svgEl("text", { x: (LEFT + WIDTH) / 2, y: height + 24, class: "small" }, "nodes in their order, from the first to the last"));
  const legend = el("p", {}, ...drawn.map((side) => el("span", { class: `key k${side.number}` }, `${sides.length > 1 ? ["before", "after"][side.number] : ""} ${side.data.name}: at most ${bytesText(Math.max(...side.data.memory))}`)));
  return el("div", {}, el("p", {}, "Values that are alive at once, at the sizes for which costs are predicted; weights do not count, and nothing shares memory."), legend, picture);
}

/** Times beside the original, with their intervals. @param {NonNullable<PageData["measured"]>} measured */
function measuredPlot(measured) {
  const rows = measured.graphs.filter((graph) => graph.median !== null), step = 26, height = rows.length * step + 30;
  const most = Math.max(1.1, ...rows.map((graph) => graph.high || 1)), x = (/** @type {number} */ ratio) => 180 + (WIDTH - 200) * ratio / most;
  const picture = svgEl("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "plot", role: "img", "aria-label": "measured times" });
  picture.append(svgEl("path", { d: `M${x(1)} 0V${height - 20}`, class: "limit" }), svgEl("text", { x: x(1), y: height - 6, class: "small" }, "original"));
  rows.forEach((graph, i) => {
    const y = 14 + i * step;
    picture.append(svgEl("text", { x: 172, y: y + 4, class: "small end" }, cut(graph.name, 24)),
      svgEl("path", { d: `M${x(graph.low || 0)} ${y}H${x(graph.high || 0)}`, class: "interval" }), svgEl("circle", { cx: x(graph.median || 0), cy: y, r: 4, class: "dot" }));
  });
  return el("div", {}, el("p", {}, measured.summary), picture,
    tableOf(["graph", "operators", "of the original", "90 % within", ""], measured.graphs.map((graph) => [graph.name, String(graph.nodes),
      graph.median === null ? "" : graph.median.toFixed(3), graph.low === null || graph.high === null ? "" : `${graph.low.toFixed(3)} to ${graph.high.toFixed(3)}`, graph.why_not])));
}

/** Predicted against measured seconds, both by powers of ten: on the line is right, within the dotted lines less than twice off.
 * @param {NonNullable<PageData["predictions"]>} predictions */
function predictionsPlot(predictions) {
  const points = predictions.points.filter((point) => (point[2] || 0) > 0 && (point[3] || 0) > 0).map((point) => ({ group: point[0], label: point[1], x: Math.log10(Number(point[3])), y: Math.log10(Number(point[2])) }));
  if (points.length === 0) return el("p", {}, "No times to compare.");
  const all = points.flatMap((point) => [point.x, point.y]), low = Math.floor(Math.min(...all)), high = Math.ceil(Math.max(...all) + 1e-9), size = 420;
  const at = (/** @type {number} */ v) => LEFT + (size - LEFT) * (v - low) / Math.max(high - low, 1), up = (/** @type {number} */ v) => size - at(v) + LEFT - 20;
  const picture = svgEl("svg", { viewBox: `0 0 ${size + 20} ${size + 30}`, class: "plot square", role: "img", "aria-label": "predicted against measured times" });
  for (let power = low; power <= high; ++power) {
    picture.append(svgEl("path", { d: `M${at(low)} ${up(power)}H${at(high)}M${at(power)} ${up(low)}V${up(high)}`, class: "grid" }),
      svgEl("text", { x: LEFT - 6, y: up(power) + 4, class: "small end" }, costText(10 ** (power + 9), "ns")), svgEl("text", { x: at(power), y: up(low) + 16, class: "small" }, costText(10 ** (power + 9), "ns")));
  }
  for (const off of [0, Math.log10(2), -Math.log10(2)])
    picture.append(svgEl("path", { d: `M${at(Math.max(low, low - off))} ${up(Math.max(low, low - off) + off)}L${at(Math.min(high, high - off))} ${up(Math.min(high, high - off) + off)}`, class: off === 0 ? "even" : "limit" }));
  const groups = [...new Set(points.map((point) => point.group))];
  for (const point of points) {
    const dot = svgEl("circle", { cx: at(point.x).toFixed(1), cy: up(point.y).toFixed(1), r: 3, fill: colourOf(groups.indexOf(point.group)), "fill-opacity": 0.75 });
    dot.append(svgEl("title", {}, `${point.group}, ${point.label}: ${costText(10 ** (point.y + 9), "ns")} predicted, ${costText(10 ** (point.x + 9), "ns")} measured`));
    picture.append(dot);
  }
  picture.append(svgEl("text", { x: (LEFT + size) / 2, y: size + 24, class: "small" }, "measured"), svgEl("text", { x: LEFT, y: 10, class: "small" }, "predicted"));
  const rows = groups.map((group) => {
    const off = points.filter((point) => point.group === group).map((point) => point.y - point.x).sort((a, b) => a - b);
    return { group, number: groups.indexOf(group), count: off.length, median: 10 ** off[off.length >> 1], worst: 10 ** Math.max(...off.map(Math.abs)) };
  }).sort((a, b) => b.worst - a.worst);
  return el("div", {}, el("p", {}, "A point is right on the line; beyond the dotted lines it is more than twice off."), picture,
    predictions.all > predictions.points.length ? el("p", {}, `the first ${predictions.points.length} of ${predictions.all} points`) : null,
    tableOf(["", "of", "points", "predicted / measured, median", "furthest off, times"], rows.map((row) => [badge(row.number), row.group, String(row.count), row.median.toFixed(2), row.worst.toFixed(2)]), "the worst first"));
}

/** How long runs took. @param {NonNullable<PageData["times"]>} times */
function timesPlot(times) {
  const all = times.flatMap((run) => run.seconds), sorted = [...all].sort((a, b) => a - b);
  const low = sorted[0] || 0, high = sorted[Math.floor(0.98 * (sorted.length - 1))] || 1, bins = 40, height = 150, step = (WIDTH - LEFT) / bins;
  const out = el("div", {}, el("p", {}, "Runs by how long they took; the slowest 2 % stand in the last column."));
  times.forEach((run, number) => {
    const counts = new Array(bins).fill(0);
    for (const seconds of run.seconds) ++counts[Math.min(bins - 1, Math.max(0, Math.floor(bins * (seconds - low) / Math.max(high - low, 1e-12))))];
    const most = Math.max(...counts, 1);
    const picture = svgEl("svg", { viewBox: `0 0 ${WIDTH} ${height + 24}`, class: "plot", role: "img", "aria-label": `times of ${run.name}` });
    counts.forEach((count, i) => picture.append(svgEl("rect", { x: LEFT / 2 + i * step, y: height - height * count / most, width: step - 1, height: height * count / most, class: number === 0 ? "bar" : "bar second" })));
    for (const i of [0, bins / 2, bins]) picture.append(svgEl("text", { x: LEFT / 2 + i * step, y: height + 16, class: "small" }, costText(1e9 * (low + (high - low) * i / bins), "ns")));
    out.append(el("h3", {}, run.name), picture);
  });
  return out;
}
