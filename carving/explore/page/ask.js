// Ask: a path is typed or picked; the answer, and the scores of all values that explain it.

import * as api from "./api.js";
import { card, columns, el, field, fill, label, later, ordinal, percent, plural, radios, tiny } from "./dom.js";
import { valueField } from "./pieces.js";
import { stripPlot, widthOf } from "./plots.js";

export default function askView(about) {
  const ask = api.latest(), list = api.latest();
  const path = el("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "tree 5 / subject / determiner", maxlength: 4000, oninput: () => typed() });
  const [valueInput, offered] = valueField("", () => soon());
  const which = field("Value", valueInput), count = el("input", { type: "number", min: 1, max: 100, value: 5, oninput: () => soon() });
  const many = field("Number of candidates (1 to 100)", count);
  const priorEmpty = el("input", { type: "range", min: 1, max: 99, value: 50, oninput: () => { showPrior(); soon(); } });
  const priorOutput = el("output");
  const picks = el("ul", { class: "picks", "aria-label": "Known paths" }), known = el("p", { class: "soft small" });
  const problem = el("p", { class: "error message", role: "alert" });
  const answer = el("div", { class: "field", "aria-live": "polite" }), strip = el("div"), legend = el("p", { class: "soft small" });
  const table = el("div", { class: "scroll" }), order = el("p", { class: "soft small" });
  const why = card("Why: the scores of all values", strip, legend), best = card("Best candidates", table, order);
  let kind = "one", reply = null;
  which.hidden = many.hidden = true;
  which.append(offered);

  const showPrior = () => fill(priorOutput, ` ${priorEmpty.value} %`);
  const choose = (value) => { kind = value; which.hidden = kind !== "value"; many.hidden = kind !== "top"; run(); };
  const priorField = field("Prior probability that the path is empty:", priorEmpty);
  priorField.querySelector("label").append(priorOutput);
  showPrior();

  async function offer() {
    try {
      const found = await list("paths", { text: path.value });
      if (!found) return;
      fill(known, found.known ? `${plural(found.known, "known path")}${!path.value ? ":" : found.paths.length ? "; these contain the text:" : "; none contains the text."}`
        : "This memory does not keep its paths, and no files were given with --files. Type a path.");
      picks.hidden = !found.paths.length;
      fill(picks, found.paths.map((each) => el("li", {}, el("button", { type: "button", disabled: each.typed === null,
        onclick: () => { path.value = each.typed; run(); path.focus(); } }, label(each.text)))));
      return found;
    } catch (error) { fill(problem, error.message); }
  }
  const missing = () => !path.value.trim() ? "path" : kind === "value" && !valueInput.value.trim() ? "value" : kind === "top" && !count.value ? "number of candidates" : null;
  function clear() {
    reply = null;
    why.hidden = best.hidden = true;
    fill(answer, el("p", { class: "soft" }, `Type a ${missing()} to see the answer.`));
  }
  clear();
  async function run() {
    if (missing()) return clear();
    try {
      const values = { path: path.value, kind, prior_empty: priorEmpty.value / 100, ...(kind === "value" ? { value: valueInput.value } : kind === "top" ? { top: count.value } : {}) };
      const found = await ask("ask", values);
      if (!found || missing()) return;
      reply = found;
      fill(problem);
      show();
    } catch (error) { fill(problem, error.message); }
  }
  const soon = later(run, 120), offerSoon = later(offer, 120);
  function typed() { soon(); offerSoon(); }

  function show() {
    const { answers, scores } = reply;
    fill(answer, el("p", { class: "soft" }, label(reply.path.text, 400)), ...words(answers, reply.best));
    why.hidden = best.hidden = false;
    repaint();
    fill(legend, plural(scores.values, "value"), scores.step > 1 ? ` (drawn: the best ones and every ${ordinal(scores.step)} other)` : "",
      scores.noise === null ? "." : `, each a dot at its score. Noise: values that are not stored here score about 0, with a standard deviation of ${scores.noise.toFixed(3)} (shaded: two deviations).`,
      scores.threshold === null ? "" : ` Threshold: with a score of at least ${scores.threshold.toFixed(2)}, the best value is more probable than an empty path.`, passingNote(scores));
    fill(order, scores.empty === null ? "Sorted by score." : "Sorted by probability, assuming at most one value per path. Values stored more often have a higher prior, so a lower score can rank higher. "
      + "“Top candidates” and “all values” do not assume that, so their probabilities and order can differ.");
    const row = (each) => el("tr", {}, el("td", { class: "text" }, label(each.value.text)), el("td", { class: "number" }, each.score.toFixed(3)),
      el("td", { class: "number" }, each.probability === null ? "–" : tiny(each.probability)));
    const rows = scores.best.map(row);
    if (scores.empty !== null) {
      rows.push(el("tr", {}, el("td", { class: "text soft" }, "nothing (empty path)"), el("td", { class: "number" }, "–"), el("td", { class: "number" }, tiny(scores.empty))));
    }
    fill(table, el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "value"), el("th", { scope: "col", class: "number" }, "score"),
      el("th", { scope: "col", class: "number" }, scores.empty === null ? "probability" : "probability, if at most one"))), el("tbody", {}, rows)));
  }
  function passingNote(scores) {
    if (reply.kind === "set" && reply.answers.length > 1) return " Each value is scored again after subtracting the others that were found, so some count as found below the threshold.";
    return scores.threshold !== null && scores.best.slice(1).some((each) => each.score > scores.threshold)
      ? " Values similar to the stored one also get high scores: they may pass the threshold without being stored." : "";
  }
  function words(answers, best) {
    if (reply.kind === "value") {
      const [one] = answers;
      return [el("p", { class: one.found ? "answer" : "answer empty" }, `${one.found ? "Yes" : "No"}: ${one.value.text}`),
        el("p", {}, `Probability that the path holds it: ${percent(one.probability)}; score: ${one.score.toFixed(2)}.`)];
    }
    if (reply.kind === "one") {
      if (!best.found) return [el("p", { class: "answer empty" }, "Nothing is stored here"), el("p", {}, `Probability: ${percent(best.probability)}.`)];
      return [el("p", { class: best.value.text.length > 80 ? "answer long" : "answer" }, best.value.text), el("p", {}, best.probability === null ? `Score: ${best.score.toFixed(2)}. This scheme gives no probabilities.` : `Probability: ${percent(best.probability)}; score: ${best.score.toFixed(2)}.`)];
    }
    if (!answers.length) return [el("p", { class: "answer empty" }, "Nothing is stored here"), el("p", {}, "No value has a probability above one half.")];
    const list = answers.map((each) => el("li", {}, el("strong", {}, each.value.text), ` ${each.probability === null ? `score ${each.score.toFixed(2)}` : percent(each.probability)}`));
    const sum = reply.kind === "set" ? `This path holds ${plural(answers.length, "value")}:` : `The best ${plural(answers.length, "candidate")}, each with its own probability:`;
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
  const kinds = [["one", "the best value"], ["top", "top candidates"], ["set", "all values"], ...(about.has_probabilities ? [["value", "is a value stored?"]] : [])];
  const node = el("div", { class: "view" }, el("div", { class: "lead" }, el("h1", {}, "Ask the memory"),
    el("p", { class: "soft" }, "Type a path, with slashes between its roles, or pick one. The answer updates as you type.")),
  columns([card("Query", field("Path", path), known, picks, radios("Return", "kind", kinds, kind, choose), many, which, problem)],
    [card("Answer", answer), why, best]));
  if (about.has_probabilities) why.append(priorField);
  node.lastChild.classList.add("right-wide");
  return { node, shown, repaint };
}
