// Plan: sliders for what is wished, bars for what each kind of memory takes, and what to copy.

import * as api from "./api.js";
import { bytes, card, columns, el, field, fill, later, percent, radios, whole } from "./dom.js";

const ACCURACIES = [0.9, 0.95, 0.99, 0.995, 0.999, 0.9999];
const CUT = 6; // times the fewest numbers: longer bars go on beyond the edge
const STEPS = 10; // of a slider, for ten times as many

// 1, 1.25, 1.6, 2, ... times powers of ten: round numbers at even distances.
const rounded = (step) => { return Math.round(Number((10 ** (step / STEPS)).toPrecision(2))); };

export default function planning() {
  const wish = { pairs: 1000, vocabulary: 500, accuracy: 0.99, joint: false, bits: "none" };
  let going = null;
  const bars = el("div", { class: "bars" }), words = el("p", { role: "status" }), problem = el("p", { class: "error message", role: "alert" });
  const lines = el("div", { class: "field" });

  function slider(label, min, max, value, read, write) {
    const output = el("output", {}, ` ${write(read(value))}`);
    const range = el("input", { type: "range", min, max, value, oninput: (event) => {
      const now = read(Number(event.target.value));
      output.textContent = ` ${write(now)}`;
      range.setAttribute("aria-valuetext", write(now));
      wish[label] = now;
      soon();
    } });
    range.setAttribute("aria-valuetext", write(read(value)));
    return [range, output];
  }
  function labelled(title, [range, output]) {
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
      for await (const line of api.lines("plan", { ...wish, joint: String(wish.joint) }, own.signal)) {
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
    fill(words, el("strong", {}, best.kind), ` (${best.sizes}) does it with ${whole(best.numbers)} numbers, ${bytes(best.bytes)}: ${percent(best.accuracy)} right is predicted`,
      wish.joint ? `, in about ${best.rounds} rounds.` : ".");
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
  const bits = el("select", { onchange: (event) => { wish.bits = event.target.value; soon(); } },
    [["none", "real numbers, 32 bits"], ["1", "sealed, 1 bit"], ["2", "sealed, 2 bits"], ["3", "sealed, 3 bits"], ["4", "sealed, 4 bits"], ["8", "sealed, 8 bits"]]
      .map(([value, text]) => el("option", { value }, text)));
  const node = el("div", { class: "view" }, el("div", { class: "lead" }, el("h1", {}, "Plan a memory"),
    el("p", { class: "soft" }, "Say what is to be stored and how well it is to be answered: the smallest memory of each kind is predicted, before anything is made.")),
  columns([card("What is wished",
    labelled("Pairs to be stored:", slider("pairs", STEPS, 6 * STEPS, 3 * STEPS, rounded, whole)),
    labelled("Different leaves:", slider("vocabulary", 4, 6 * STEPS, 27, rounded, whole)),
    labelled("Right answers:", slider("accuracy", 0, ACCURACIES.length - 1, 2, (step) => ACCURACIES[step], (value) => percent(value))),
    radios("Paths are asked", "joint", [["alone", "one at a time"], ["together", "all together"]], "alone", (value) => { wish.joint = value === "together"; soon(); }),
    field("A cell is kept as", bits))],
  [card("What it takes", words, problem, bars, el("p", { class: "soft small" }, el("span", { class: "key" }), "the memory ", el("span", { class: "key second" }), "its codebook, if kept: labels give it again. Bars that fade go on.")), card("To copy", lines)]));
  node.lastChild.classList.add("right-wide");
  return { node, shown: () => { if (!lines.childElementCount) run(); } };
}
