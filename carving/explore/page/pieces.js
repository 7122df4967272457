// Shared by several views: the load, the cells as a heat map, and an input for a value.

import * as api from "./api.js";
import { card, el, field, fill, later, ordinal, percent, plural, unique, whole } from "./dom.js";
import { drawHeat, loadPlot, widthOf } from "./plots.js";

const isDark = () => document.documentElement.dataset.theme === "dark";

export function loadCard() {
  const words = el("p", {}, "Predicting…"), plot = el("div", { class: "plot-box" });
  let seen = null, current = null;
  const ask = api.latest();
  function repaint() {
    if (!seen) return;
    fill(plot, loadPlot(seen, widthOf(plot)));
  }
  async function refresh(key) {
    if (key !== undefined && key === current) return;
    current = key;
    try {
      const found = await ask("load", {});
      if (!found) return;
      seen = found.load;
      if (!seen) {
        fill(words, "No prediction for this memory: it needs at least two distinct values and a scheme with a capacity formula. Check the probabilities in “Ask” instead.");
        fill(plot);
        return;
      }
      const target = percent(seen.target);
      const more = seen.spare ? `About ${plural(seen.spare, "more pair")} fit before it falls below ${target}.`
        : seen.excess ? `The memory is over capacity: ${plural(seen.excess, "pair")} too many for ${target}.` : `For ${target}, the memory is at capacity.`;
      fill(words, "Predicted accuracy with ", el("strong", {}, plural(seen.load, "pair")), ": ",
        el("strong", {}, percent(seen.predicted)), `. ${more}`);
      repaint();
    } catch (error) { fill(words, error.message); }
  }
  return { node: card("Load and accuracy", words, plot), refresh, repaint };
}

// An input for a value, with suggestions that contain the typed text.
export function valueField(placeholder, typed = () => {}) {
  const list = api.latest(), offered = el("datalist", { id: unique("values") });
  const offer = later(async () => {
    const found = await list("values", { text: input.value }).catch(() => null); // suggestions are optional
    if (found) fill(offered, found.values.filter((each) => each.typed !== null).map((each) => el("option", { value: each.typed }, each.text)));
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
    canvas.setAttribute("aria-label", `Heat map of the cells, ${plural(seen.rows.length, "row")}`);
    const steps = step[0] > 1 || step[1] > 1 ? ` Drawn: ${every(step[0], "row")} and ${every(step[1], "column")}.` : "";
    const kind = shape.length > 2 ? `One slice of ${shape.map(whole).join(" × ")} cells.` : shape.length === 2
      ? `${shape.map(whole).join(" × ")} cells.` : `A vector of ${whole(shape[0])} cells, wrapped into rows.`;
    const colors = seen.deviation ? `Blue: negative, red: positive; full color from ±${(seen.reach * seen.deviation).toPrecision(2)} on (${seen.reach} standard deviations). Every pair is spread over many cells.`
      : "All cells are zero.";
    fill(words, `${kind}${steps} ${colors}`);
    if (shape.length <= 2 || sliders.childElementCount) return;
    at = seen.at;
    fill(sliders, shape.slice(2).map((size, axis) => {
      const value = el("output", {}, String(at[axis]));
      const range = el("input", { type: "range", min: 0, max: size - 1, value: at[axis], oninput: (event) => {
        at[axis] = Number(event.target.value);
        value.textContent = event.target.value;
        soon();
      } });
      const made = field(`Index on axis ${axis + 3}: `, range);
      made.querySelector("label").append(value);
      return made;
    }));
  }
  return { node: card("Cells", canvas, sliders, words), refresh, repaint };
}

const every = (step, noun) => (step === 1 ? `every ${noun}` : `every ${ordinal(step)} ${noun}`);
