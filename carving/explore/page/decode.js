// Decode: joint decoding of all paths, round by round.

import * as api from "./api.js";
import { card, columns, el, fill, label, percent, plural, tiny } from "./dom.js";
import { roundsPlot, widthOf } from "./plots.js";

export default function decodeView(about) {
  const start = el("button", { type: "button", class: "main", onclick: () => run() }, "Decode all paths jointly");
  const stop = el("button", { type: "button", hidden: true, onclick: () => going?.abort() }, "Stop");
  const words = el("p", { role: "status" }), problem = el("p", { class: "error message", role: "alert" });
  const plot = el("div"), legend = el("p", { class: "soft small legend" }), table = el("div", { class: "scroll" }), samples = el("div", { class: "scroll" });
  let rounds = [], going = null, confidentFrom = null;
  const series = () => [["noise", "third"], ["confident", "second"], ...(rounds[0]?.correct === null ? [] : [["correct", ""]])];
  const results = columns([card("Round by round", plot, legend), card("Rounds", table)], [card("Sample answers", samples)]);
  results.hidden = true;

  function repaint() {
    if (rounds.length) fill(plot, roundsPlot(rounds, series(), widthOf(plot)));
  }
  function show() {
    results.hidden = false;
    repaint();
    const known = rounds[0].correct !== null;
    const key = (kind, text) => el("span", {}, el("span", { class: `key line ${kind}` }), text);
    fill(legend, known ? key("", "correct answers") : null, key("second", `confident answers (probability at least ${percent(confidentFrom)})`), key("third", "noise, relative to the first round"));
    const head = ["round", "noise", "confident", ...(known ? ["correct"] : [])];
    fill(table, el("table", {}, el("thead", {}, el("tr", {}, head.map((name, i) => el("th", { scope: "col", class: i ? "number" : null }, name)))),
      el("tbody", {}, rounds.map((each) => el("tr", {}, el("td", {}, String(each.round)), el("td", { class: "number" }, tiny(each.noise)),
        el("td", { class: "number" }, percent(each.confident)), known ? el("td", { class: "number" }, percent(each.correct)) : null)))));
  }
  function finish(line, pairs) {
    const lastRound = rounds.at(-1);
    const how = line.converged ? `Converged after ${plural(line.rounds, "round")}: ${plural(pairs, "answer")}` : `Did not converge after ${plural(line.rounds, "round")}. The memory is over capacity, or holds pairs under unknown paths`;
    fill(words, `${how}${lastRound.correct === null ? "." : `; ${percent(lastRound.correct)} correct (single queries: ${percent(rounds[0].correct)}).`}`);
    fill(samples, el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "path"), el("th", { scope: "col" }, "answer"), el("th", { scope: "col", class: "number" }, "probability"))),
      el("tbody", {}, line.examples.map((each) => el("tr", {}, el("td", { class: "text" }, label(each.path.text)),
        el("td", { class: "text" }, each.answer.value ? label(each.answer.value.text) : "nothing"), el("td", { class: "number" }, tiny(each.answer.probability)))))));
  }
  async function run() {
    going = new AbortController();
    rounds = [];
    let pairs = 0;
    start.disabled = true;
    stop.hidden = false;
    fill(problem);
    fill(words, "Decoding…");
    try {
      for await (const line of api.lines("decode", {}, going.signal)) {
        if (line.pairs !== undefined) { pairs = line.pairs; confidentFrom = line.confident_from; fill(words, `Decoding ${plural(pairs, "pair")}…`); }
        if (line.round !== undefined) { rounds.push(line); show(); }
        if (line.converged !== undefined) finish(line, pairs);
      }
    } catch (error) {
      if (error.name === "AbortError") fill(words, "Stopped.");
      else { fill(words); fill(problem, error.message); }
    }
    start.disabled = false;
    stop.hidden = true;
  }
  const truth = about.known_pairs ? `Answers are compared with ${plural(about.known_pairs, "known pair")}.` : about.keeps_paths
    ? "To compare the answers with the stored values, start the explorer with --files."
    : "This memory does not keep its paths. Start the explorer with --files to decode it.";
  const node = el("div", { class: "view" }, el("div", { class: "lead" }, el("h1", {}, "Joint decoding"),
    el("p", { class: "soft" }, `In a single query, all other pairs are noise. Joint decoding answers all paths in rounds: each round subtracts the expected contributions of the other pairs, which reduces the noise. ${truth}`),
    el("div", { class: "row" }, start, stop), words, problem), results);
  return { node, repaint };
}
