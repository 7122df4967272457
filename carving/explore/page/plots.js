// Small plots in SVG, and the heat map on a canvas. They draw what the library computed.

import { brief, percent, plural, svg, whole } from "./dom.js";

const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

// As wide as on the screen, so that text keeps its size.
function frame(width, height, title, ...children) {
  return svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    svg("title", {}, title), ...children);
}
const text = (x, y, words, how = {}) => svg("text", { x, y, ...how }, words);
const line = (x1, y1, x2, y2, kind) => svg("line", { x1, y1, x2, y2, class: kind });
const path = (points, kind) => svg("path", { class: kind,
  d: points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") });

export const widthOf = (node) => Math.max(300, Math.min(1100, node.clientWidth || 600));

export function loadPlot(load, width) {
  const height = 280, left = 48, right = width - 16, top = 34, bottom = height - 46;
  const most = load.points.at(-1).pairs;
  const low = Math.min(load.predicted, ...load.points.map((point) => point.accuracy));
  const floor = Math.max(0, Math.floor(low * 10) / 10 - (low > 0.95 ? 0.05 : 0));
  const x = scale(0, most, left, right), y = scale(floor, 1, bottom, top);
  const points = [[x(0), y(1)], ...load.points.map((point) => [x(point.pairs), y(point.accuracy)])];
  const here = [x(load.load), y(load.predicted)], capacity = x(load.capacity);
  const parts = [];
  const steps = [floor, (floor + 1) / 2, 1];
  for (const step of steps) {
    parts.push(line(left, y(step), right, y(step), "axis"),
      text(left - 8, y(step) + 4, percent(step, 0), { "text-anchor": "end" }));
  }
  parts.push(path([...points, [points.at(-1)[0], bottom], [left, bottom]], "area"), path(points, "curve"));
  parts.push(line(capacity, top - 8, capacity, bottom, "mark"));
  const anchor = capacity > width * 0.6 ? "end" : "start";
  parts.push(text(capacity + (anchor === "end" ? -6 : 6), top - 14, `${percent(load.target)} up to ${plural(load.capacity, "pair")}`,
    { "text-anchor": anchor, class: "warm halo" }));
  const side = here[0] > left + 76 ? "end" : "start";
  const below = here[1] + 28 > bottom - 4 ? here[1] - 16 : here[1] + 28;
  parts.push(svg("circle", { cx: here[0], cy: here[1], r: 8, class: "here" }),
    text(here[0] + (side === "end" ? -10 : 10), below, "you are here", { "text-anchor": side, class: "strong halo" }));
  parts.push(text(left, height - 22, "0"), text(right, height - 22, whole(most), { "text-anchor": "end" }),
    text((left + right) / 2, height - 6, "pairs stored", { "text-anchor": "middle" }));
  const summary = `Predicted accuracy by number of pairs: ${percent(load.predicted)} now, with ${plural(load.load, "pair")}.`;
  return frame(width, height, summary, parts);
}

export function histogramPlot(seen, width) {
  const height = 240, left = 12, right = width - 12, top = 16, bottom = height - 44;
  const normal = seen.deviation ? seen.normal : [], most = Math.max(...seen.counts, ...normal);
  const x = scale(seen.edges[0], seen.edges.at(-1), left, right), y = scale(0, most, bottom, top);
  const bars = seen.counts.map((count, i) => svg("rect", { class: "bar-fill", x: x(seen.edges[i]) + 0.5, y: y(count),
    width: Math.max(1, x(seen.edges[i + 1]) - x(seen.edges[i]) - 1), height: bottom - y(count) }));
  const middles = normal.map((count, i) => [(x(seen.edges[i]) + x(seen.edges[i + 1])) / 2, y(count)]);
  const marks = [-3, -2, -1, 0, 1, 2, 3].map((mark) => text(x(mark), bottom + 18, String(mark), { "text-anchor": "middle" }));
  return frame(width, height, "Histogram of the cells, with a normal distribution", bars, path(middles, "curve"),
    line(left, bottom, right, bottom, "axis"), marks,
    text((left + right) / 2, height - 6, "standard deviations from zero", { "text-anchor": "middle" }));
}

// One dot per candidate, stacked by score.
export function stripPlot(scores, answers, width) {
  const height = 250, left = 14, right = width - 14, top = 50, bottom = height - 50, radius = scores.values > 300 ? 3 : 4.5;
  const values = scores.scores, best = scores.best[0];
  const spread = scores.noise ? 2 * scores.noise : 0;
  const far = scores.is_cosine ? Math.max(0.01, ...values.map(Math.abs)) : 1.15;
  const low = Math.min(-0.2 * far, -spread, ...values), high = Math.max(far, scores.threshold ?? 0, ...values) + 0.05 * far;
  const x = scale(low, high, left, right), columns = new Map();
  const parts = [];
  if (spread) {
    parts.push(svg("rect", { x: x(-spread), y: top, width: x(spread) - x(-spread), height: bottom - top, class: "area", rx: 4 }),
      text(x(0), top + 17, "noise", { "text-anchor": "middle" }));
  }
  values.forEach((value) => {
    const column = Math.round(x(value) / (2 * radius));
    columns.set(column, (columns.get(column) ?? 0) + 1);
  });
  const tallest = Math.max(...columns.values());
  const rise = Math.min(2 * radius, (bottom - top - 24) / tallest);
  for (const [column, count] of columns) {
    for (let i = 0; i < count; i += 1) {
      parts.push(svg("circle", { cx: column * 2 * radius, cy: bottom - radius - i * rise, r: radius, class: "dot" }));
    }
  }
  parts.push(line(left, bottom, right, bottom, "axis"));
  const unit = scores.is_cosine ? 10 ** Math.floor(Math.log10(high)) : 1;
  for (const mark of [0, 0.5, 1, 2, 4, 8].map((each) => each * unit)) {
    if (mark < high && (mark <= unit || scores.is_cosine)) parts.push(line(x(mark), bottom, x(mark), bottom + 5, "axis"), text(x(mark), bottom + 19, String(Number(mark.toPrecision(2))), { "text-anchor": "middle" }));
  }
  const meaning = scores.is_cosine ? "score (cosine similarity)" : width < 420 ? "score (1: stored once)" : "score (0: not stored here, 1: stored once)";
  parts.push(text((left + right) / 2, height - 8, meaning, { "text-anchor": "middle" }));
  if (scores.threshold !== null && scores.threshold !== undefined) {
    const at = x(scores.threshold), anchor = at > width - 150 ? "end" : "start";
    parts.push(line(at, top - 30, at, bottom, "mark"),
      text(at + (anchor === "end" ? -6 : 6), top - 24, "threshold", { "text-anchor": anchor, class: "warm halo" }));
  }
  if (best) {
    const at = x(best.score), anchor = at > width * 0.7 ? "end" : at < width * 0.3 ? "start" : "middle";
    const name = brief(best.value.text, Math.min(28, Math.floor(width / 20))), wide = 8 * name.length;
    const from = anchor === "end" ? at - wide : anchor === "start" ? at : at - wide / 2;
    const under = [...columns].filter(([column]) => column * 2 * radius > from - radius && column * 2 * radius < from + wide + radius);
    const above = Math.max(24, ...under.map(([, count]) => (count - 1) * rise + 2 * radius + 8)); // keep the name clear of dots
    if (above > 24) parts.push(line(at, bottom - 12, at, bottom - above + 3, "guide"));
    parts.push(text(at + (anchor === "end" ? 8 : 0), bottom - above, name, { "text-anchor": anchor, class: "strong halo" }));
    const found = answers.filter((each) => each.found && each.value).map((each) => each.value.text);
    for (const each of scores.best.toReversed()) {
      const isAnswer = found.includes(each.value.text);
      if (isAnswer || each === best) parts.push(svg("circle", { cx: x(each.score), cy: bottom - radius - 2, r: isAnswer ? 8 : 6, class: isAnswer ? "here" : "dot" }));
    }
  }
  const summary = `Scores of ${plural(scores.values, "value")}; the best is ${best ? `${best.value.text} with ${best.score.toFixed(2)}` : "none"}`
    + (scores.threshold ? `; threshold ${scores.threshold.toFixed(2)}` : "");
  return frame(width, height, summary, parts);
}

// Several shares between 0 and 1 by round.
export function roundsPlot(rounds, series, width) {
  const height = 280, left = 48, right = width - 16, top = 14, bottom = height - 46;
  const most = Math.max(4, rounds.at(-1)?.round ?? 1);
  const x = scale(1, most, left, right), y = scale(0, 1, bottom, top), parts = [];
  for (const step of [0, 0.5, 1]) {
    parts.push(line(left, y(step), right, y(step), "axis"), text(left - 8, y(step) + 4, percent(step, 0), { "text-anchor": "end" }));
  }
  for (const [name, kind] of series) {
    const points = rounds.filter((each) => each[name] !== null).map((each) => [x(each.round), y(Math.min(1, each[name]))]);
    if (points.length) parts.push(path(points, `curve ${kind}`));
  }
  const every = Math.ceil(most / 10);
  for (let round = 1; round <= most; round += every) {
    parts.push(text(x(round), bottom + 18, String(round), { "text-anchor": "middle" }));
  }
  parts.push(text((left + right) / 2, height - 6, "round", { "text-anchor": "middle" }));
  return frame(width, height, `Joint decoding, ${plural(rounds.length, "round")} so far`, parts);
}

// Blue: negative, red: positive; zero has the color of the background.
export function drawHeat(canvas, seen, dark) {
  const rows = seen.rows, middle = dark ? [26, 34, 37] : [250, 251, 250];
  const ends = dark ? [[105, 184, 211], [227, 154, 114]] : [[24, 92, 122], [176, 72, 34]];
  canvas.width = rows[0].length;
  canvas.height = rows.length;
  canvas.style.aspectRatio = `${canvas.width} / ${canvas.height}`;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  let at = 0;
  for (const row of rows) {
    for (const value of row) {
      const share = Math.abs(value) / 127, end = ends[value < 0 ? 0 : 1];
      for (let i = 0; i < 3; i += 1) image.data[at + i] = middle[i] + share * (end[i] - middle[i]);
      image.data[at + 3] = 255;
      at += 4;
    }
  }
  context.putImageData(image, 0, 0);
}
