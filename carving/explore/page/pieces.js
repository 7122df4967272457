// What two views show: the gauge of fullness, the cells as a heat map, and a field for a leaf.

import * as api from "./api.js";
import { card, el, field, fill, later, percent, unique, whole } from "./dom.js";
import { drawHeat, gaugePlot, widthOf } from "./plots.js";

const isDark = () => document.documentElement.dataset.theme === "dark";

export function gaugeCard() {
  const words = el("p", {}, "predicting…"), plot = el("div", { class: "plot-box" });
  let seen = null, asked = null;
  const ask = api.latest();
  function repaint() {
    if (!seen) return;
    fill(plot, gaugePlot(seen, widthOf(plot)));
  }
  async function refresh(key) {
    if (key !== undefined && key === asked) return;
    asked = key;
    try {
      const found = await ask("gauge", {});
      if (!found) return;
      seen = found.gauge;
      if (!seen) {
        fill(words, "For this scheme, or with so few leaves, nothing is predicted: ask it, and its probabilities will tell.");
        fill(plot);
        return;
      }
      const well = percent(seen.accuracy);
      const more = seen.more ? `About ${whole(seen.more)} more fit before it falls below ${well}.`
        : seen.over ? `It is fuller than it should be for ${well}: ${whole(seen.over)} pairs too many.` : `For ${well} it is just full.`;
      fill(words, "With ", el("strong", {}, `${whole(seen.held)} pairs`), " it is predicted to name ",
        el("strong", {}, percent(seen.here)), ` of its leaves. ${more}`);
      repaint();
    } catch (error) { fill(words, error.message); }
  }
  return { node: card("How full it is", words, plot), refresh, repaint };
}

// A field for a leaf, and the list of those that have what was typed in them.
export function leafInput(placeholder, typed = () => {}) {
  const list = api.latest(), offered = el("datalist", { id: unique("leaves") });
  const offer = later(async () => {
    const found = await list("leaves", { text: input.value }).catch(() => null); // who types needs no list
    if (found) fill(offered, found.leaves.filter((each) => each.typed !== null).map((each) => el("option", { value: each.typed }, each.text)));
  }, 120);
  const input = el("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder, maxlength: 4000, list: offered.id,
    onfocus: () => offer(), oninput: () => { typed(); offer(); } });
  return [input, offered];
}

export function heatCard() {
  const canvas = el("canvas", { class: "heat", role: "img" }), sliders = el("div", { class: "field" });
  const words = el("p", { class: "soft small" });
  const ask = api.latest();
  let seen = null, at = [];
  const repaint = () => seen && drawHeat(canvas, seen, isDark());
  async function refresh() {
    try {
      const found = await ask("cells", at.length ? { at: at.join(",") } : {});
      if (!found) return;
      seen = found;
      say();
      repaint();
    } catch (error) { fill(words, error.message); }
  }
  const soon = later(refresh, 40);
  function say() {
    const { shape, step } = seen;
    canvas.setAttribute("aria-label", `The cells of the memory as a heat map, ${seen.rows.length} rows`);
    const steps = step[0] > 1 || step[1] > 1 ? ` Every ${ordinal(step[0])} row and every ${ordinal(step[1])} column is drawn.` : "";
    const kind = shape.length > 2 ? `One slice of ${shape.map(whole).join(" × ")} numbers.` : shape.length === 2
      ? `All ${shape.map(whole).join(" × ")} numbers.` : `${whole(shape[0])} numbers in a row, laid in rows.`;
    const colours = seen.deviation ? `Blue is below zero, red above, both strongest from ${seen.reach} deviations (${(seen.reach * seen.deviation).toPrecision(2)}) on; a pair is spread over all of them.`
      : "All of them are zero.";
    fill(words, `${kind}${steps} ${colours}`);
    if (shape.length <= 2 || sliders.childElementCount) return;
    at = seen.at;
    fill(sliders, shape.slice(2).map((size, axis) => {
      const value = el("output", {}, String(at[axis]));
      const range = el("input", { type: "range", min: 0, max: size - 1, value: at[axis], oninput: (event) => {
        at[axis] = Number(event.target.value);
        value.textContent = event.target.value;
        soon();
      } });
      const made = field(`Slice of axis ${axis + 3}: `, range);
      made.querySelector("label").append(value);
      return made;
    }));
  }
  return { node: card("Its cells", canvas, sliders, words), refresh, repaint };
}

const ordinal = (count) => (count === 1 ? "single" : count === 2 ? "second" : count === 3 ? "third" : `${count}th`);
