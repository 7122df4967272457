// Plan: sliders for the requirements, bars for the size of each kind of memory, and commands to copy.

import * as api from "./api.js";
import { bytes, card, columns, el, field, fill, later, percent, plural, radios, whole } from "./dom.js";

const ACCURACIES = [0.9, 0.95, 0.99, 0.995, 0.999, 0.9999];
const CUT = 6; // times the fewest numbers: longer bars are cut off
const STEPS = 10; // of a slider per factor of ten

// 1, 1.3, 1.6, 2, ... times powers of ten: round numbers on a logarithmic scale.
const rounded = (step) => { return Math.round(Number((10 ** (step / STEPS)).toPrecision(2))); };

export default function planView() {
  const requirements = { pairs: 1000, vocabulary: 500, accuracy: 0.99, joint: false, bits: "none" };
  let going = null;
  const bars = el("div", { class: "bars" }), words = el("p", { role: "status" }), problem = el("p", { class: "error message", role: "alert" });
  const lines = el("div", { class: "field" });

  function slider(label, min, max, value, read, write) {
    const output = el("output", {}, ` ${write(read(value))}`);
    const range = el("input", { type: "range", min, max, value, oninput: (event) => {
      const now = read(Number(event.target.value));
      output.textContent = ` ${write(now)}`;
      range.setAttribute("aria-valuetext", write(now));
      requirements[label] = now;
      soon();
    } });
    range.setAttribute("aria-valuetext", write(read(value)));
    return [range, output];
  }
  function labeled(title, [range, output]) {
    const made = field(title, range);
    made.querySelector("label").append(output);
    return made;
  }
  async function run() {
    going?.abort();
    going = new AbortController();
    const own = going, found = new Map();
    bars.classList.add("waiting");
    fill(words, "Planning…");
    fill(problem);
    try {
      for await (const line of api.lines("plan", { ...requirements, joint: String(requirements.joint) }, own.signal)) {
        for (const each of line.drafts ?? []) found.set(each.kind, { ...each, cells: each.numbers, codebook: 0, rough: true });
        if (line.command) fill(lines, copied("On the command line", line.command), copied("In Python", line.python));
        if (line.plan) found.set(line.plan.kind, line.plan);
        if (line.plans) finish(line);
        else if (found.size) show([...found.values()].sort((one, other) => one.numbers - other.numbers));
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      bars.classList.remove("waiting");
      fill(words);
      fill(problem, error.message);
    }
  }
  function finish(line) {
    const [best] = line.plans;
    show(line.plans);
    bars.classList.remove("waiting");
    fill(words, "Recommended: ", el("strong", {}, best.kind), ` (${best.sizes}) with ${whole(best.numbers)} numbers, ${bytes(best.bytes)}. Predicted accuracy: ${percent(best.accuracy)}`,
      requirements.joint ? ` after about ${plural(best.rounds, "round")}.` : ".");
  }
  const soon = later(run, 250);

  function show(plans) {
    const fewest = Math.min(...plans.map((each) => each.numbers));
    fill(bars, plans.map((each) => {
      const counted = each.numbers === each.cells ? 0 : each.codebook, all = each.cells + counted;
      const track = el("div", { class: all > CUT * fewest ? "track cut" : "track", "aria-hidden": true });
      for (const [amount, kind] of [[each.cells, "part"], [counted, "part second"]]) {
        if (!amount) continue;
        const part = el("div", { class: kind });
        part.style.width = `${Math.min(100, (100 * amount) / (CUT * fewest))}%`;
        part.style.flexShrink = "0";
        track.append(part);
      }
      return el("div", {}, el("div", { class: "row between" }, el("span", {}, each.kind, each.sizes ? el("span", { class: "soft small" }, `  ${each.sizes}`) : null),
        el("span", { class: "soft" }, each.rough ? `about ${whole(each.numbers)} numbers` : `${whole(each.numbers)} numbers, ${bytes(each.bytes)}`)), track);
    }));
  }
  function copied(title, line) {
    const button = el("button", { type: "button", "aria-label": `Copy: ${title}`, onclick: async () => {
      try { await navigator.clipboard.writeText(line); button.textContent = "Copied"; } catch { getSelection().selectAllChildren(code); button.textContent = "Selected"; }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    } }, "Copy");
    const code = el("code", {}, line.split(" ").flatMap((word) => [el("span", {}, word), " "]));
    return el("div", { class: "field" }, el("span", { class: "soft small" }, title), el("div", { class: "copy" }, code, button));
  }
  const bits = el("select", { onchange: (event) => { requirements.bits = event.target.value; soon(); } },
    [["none", "float32 (not quantized)"], ["1", "quantized to 1 bit"], ["2", "quantized to 2 bits"], ["3", "quantized to 3 bits"], ["4", "quantized to 4 bits"], ["8", "quantized to 8 bits"]]
      .map(([value, text]) => el("option", { value }, text)));
  const node = el("div", { class: "view" }, el("div", { class: "lead" }, el("h1", {}, "Plan a memory"),
    el("p", { class: "soft" }, "Set what to store and the target accuracy. The planner predicts the smallest memory of each kind before you create one.")),
  columns([card("Requirements",
    labeled("Pairs:", slider("pairs", STEPS, 6 * STEPS, 3 * STEPS, rounded, whole)),
    labeled("Distinct values:", slider("vocabulary", 4, 6 * STEPS, 27, rounded, whole)),
    labeled("Target accuracy:", slider("accuracy", 0, ACCURACIES.length - 1, 2, (step) => ACCURACIES[step], (value) => percent(value))),
    radios("Queries", "joint", [["single", "one path at a time"], ["joint", "all paths jointly"]], "single", (value) => { requirements.joint = value === "joint"; soon(); }),
    field("Precision of a cell", bits))],
  [card("Size by kind of memory", words, problem, bars, el("p", { class: "soft small" }, el("span", { class: "key" }), "memory ", el("span", { class: "key second" }), "codebook, if it is kept; labels reproduce it. Faded bars are cut off.")), card("Create the memory", lines)]));
  node.lastChild.classList.add("right-wide");
  return { node, shown: () => { if (!lines.childElementCount) run(); } };
}
