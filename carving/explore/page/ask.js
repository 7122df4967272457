// Ask: a path is typed or picked; the answer, and the scores of all leaves that tell why.

import * as api from "./api.js";
import { card, columns, el, field, fill, label, later, percent, radios, tiny, whole } from "./dom.js";
import { leafInput } from "./pieces.js";
import { stripPlot, widthOf } from "./plots.js";

export default function asking(about) {
  const ask = api.latest(), list = api.latest();
  const path = el("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "tree 5 / subject / determiner", maxlength: 4000, oninput: () => typed() });
  const [leaf, offered] = leafInput("", () => soon());
  const which = field("This leaf", leaf), count = el("input", { type: "number", min: 1, max: 100, value: 5, oninput: () => soon() });
  const many = field("How many (1 to 100)", count);
  const absence = el("input", { type: "range", min: 1, max: 99, value: 50, oninput: () => { say(); soon(); } });
  const doubt = el("output");
  const picks = el("ul", { class: "picks", "aria-label": "Known paths" }), known = el("p", { class: "soft small" });
  const problem = el("p", { class: "error message", role: "alert" });
  const said = el("div", { class: "field", "aria-live": "polite" }, el("p", { class: "soft" }, "It stands here as soon as a path is typed.")), strip = el("div"), legend = el("p", { class: "soft small" });
  const table = el("div", { class: "scroll" }), order = el("p", { class: "soft small" });
  const why = card("Why: the scores of all leaves", strip, legend), best = card("The best candidates", table, order);
  why.hidden = best.hidden = true;
  let kind = "one", reply = null;
  which.hidden = many.hidden = true;
  which.append(offered);

  const say = () => fill(doubt, ` ${absence.value} %`);
  const choose = (value) => { kind = value; which.hidden = kind !== "leaf"; many.hidden = kind !== "top"; run(); };
  const chances = field("How likely it is, before asking, that nothing is there:", absence);
  chances.querySelector("label").append(doubt);
  say();

  async function offer() {
    try {
      const found = await list("paths", { text: path.value });
      if (!found) return;
      fill(known, found.known ? `${whole(found.known)} paths are known${path.value ? "; those that have this in them:" : ":"}`
        : "This memory keeps no paths, and no files were given (--files): type what you know.");
      picks.hidden = !found.paths.length;
      fill(picks, found.paths.map((each) => el("li", {}, el("button", { type: "button", disabled: each.typed === null,
        onclick: () => { path.value = each.typed; run(); path.focus(); } }, label(each.text)))));
      return found;
    } catch (error) { fill(problem, error.message); }
  }
  async function run() {
    if (!path.value.trim() || (kind === "leaf" && !leaf.value.trim()) || (kind === "top" && !count.value)) return;
    try {
      const values = { path: path.value, kind, absence: absence.value / 100, ...(kind === "leaf" ? { leaf: leaf.value } : kind === "top" ? { top: count.value } : {}) };
      const found = await ask("ask", values);
      if (!found) return;
      reply = found;
      fill(problem);
      show();
    } catch (error) { fill(problem, error.message); }
  }
  const soon = later(run, 120), offerSoon = later(offer, 120);
  function typed() { soon(); offerSoon(); }

  function show() {
    const { answers, scores } = reply;
    fill(said, el("p", { class: "soft" }, label(reply.path.text, 400)), ...words(answers, reply.best));
    why.hidden = best.hidden = false;
    repaint();
    fill(legend, `${whole(scores.leaves)} leaves`, scores.step > 1 ? ` (every ${scores.step}th is drawn, and the best)` : "",
      scores.noise === null ? "." : `, each a dot at its score. Those that are not here lie around 0, two thirds of them within ${scores.noise.toFixed(3)}: that is the noise (shaded: twice that).`,
      scores.threshold === null ? "" : ` From ${scores.threshold.toFixed(2)} on, the best leaf is more likely than nothing.`, beyond(scores));
    fill(order, scores.nothing === null ? "By their scores." : "By their probabilities if at most one leaf is here, which also count how often each leaf was stored: a smaller score may stand higher. "
      + "“The best few” gives each leaf a probability of its own, whatever else is here, so that its order and its numbers may differ.");
    const row = (each) => el("tr", {}, el("td", { class: "text" }, label(each.leaf.text)), el("td", { class: "number" }, each.strength.toFixed(3)),
      el("td", { class: "number" }, each.probability === null ? "–" : tiny(each.probability)));
    const rows = scores.named.map(row);
    if (scores.nothing !== null) {
      rows.push(el("tr", {}, el("td", { class: "text soft" }, "nothing"), el("td", { class: "number" }, "–"), el("td", { class: "number" }, tiny(scores.nothing))));
    }
    fill(table, el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "leaf"), el("th", { scope: "col", class: "number" }, "score"),
      el("th", { scope: "col", class: "number" }, "probability"))), el("tbody", {}, rows)));
  }
  function beyond(scores) {
    if (reply.kind === "set" && reply.answers.length > 1) return " Of several, each is weighed with the others taken out, so that some may be found below the line.";
    return scores.threshold !== null && scores.named.slice(1).some((each) => each.strength > scores.threshold)
      ? " A leaf that is like the one here is lifted with it: that others lie beyond the line does not make them answers." : "";
  }
  function words(answers, best) {
    if (reply.kind === "leaf") {
      const [one] = answers;
      return [el("p", { class: one.found ? "answer" : "answer nothing" }, one.found ? `Yes: ${one.leaf.text}` : `No ${one.leaf.text} here`),
        el("p", {}, `It is here with a probability of ${percent(one.probability)}; its score is ${one.score.toFixed(2)}.`)];
    }
    if (reply.kind === "one") {
      if (!best.found) return [el("p", { class: "answer nothing" }, "Nothing is stored here"), el("p", {}, `With a probability of ${percent(best.probability)}.`)];
      return [el("p", { class: best.leaf.text.length > 80 ? "answer long" : "answer" }, best.leaf.text), el("p", {}, best.probability === null ? "This scheme gives no probabilities." : `With a probability of ${percent(best.probability)}; its score is ${best.score.toFixed(2)}.`)];
    }
    if (!answers.length) return [el("p", { class: "answer nothing" }, "Nothing is stored here"), el("p", {}, "No leaf is more likely than not.")];
    const list = answers.map((each) => el("li", {}, el("strong", {}, each.leaf.text), ` ${each.probability === null ? `score ${each.score.toFixed(2)}` : percent(each.probability)}`));
    const sum = reply.kind === "set" ? `It holds ${answers.length === 1 ? "one leaf" : `${answers.length} leaves`}:` : `The best ${answers.length === 1 ? "one, with its" : `${answers.length}, each with its`} own probability of being here:`;
    return [el("p", {}, sum), el("ul", { class: "list" }, list)];
  }
  function repaint() {
    if (reply) fill(strip, stripPlot(reply.scores, reply.kind === "set" ? reply.answers : [reply.best], widthOf(strip)));
  }
  async function shown() {
    const found = await offer();
    if (!path.value && found?.paths.length) path.value = found.paths.find((each) => each.typed !== null)?.typed ?? "";
    await run();
  }
  const kinds = [["one", "one leaf"], ["top", "the best few"], ["set", "all that it holds"], ...(about.probabilities ? [["leaf", "does it hold this leaf?"]] : [])];
  const node = el("div", { class: "view" }, el("div", { class: "lead" }, el("h1", {}, "Ask it"),
    el("p", { class: "soft" }, "Type a path, its roles parted by slashes, or pick one. Answers follow while you type.")),
  columns([card("The question", field("Path", path), known, picks, radios("What is wanted", "kind", kinds, kind, choose), many, which, problem)],
    [card("The answer", said), why, best]));
  if (about.probabilities) why.append(chances);
  node.lastChild.classList.add("right-wide");
  return { node, shown, repaint };
}
