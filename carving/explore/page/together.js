// Together: all paths asked at once, round by round.

import * as api from "./api.js";
import { card, columns, el, fill, label, percent, tiny, whole } from "./dom.js";
import { roundsPlot, widthOf } from "./plots.js";

export default function together(about) {
  const start = el("button", { type: "button", class: "main", onclick: () => run() }, "Ask all paths together");
  const stop = el("button", { type: "button", hidden: true, onclick: () => going?.abort() }, "Stop");
  const words = el("p", { role: "status" }), problem = el("p", { class: "error message", role: "alert" });
  const plot = el("div"), legend = el("p", { class: "soft small legend" }), table = el("div", { class: "scroll" }), samples = el("div", { class: "scroll" });
  let rounds = [], going = null, sure = null;
  const series = () => [["noise", "third"], ["sure", "second"], ...(rounds[0]?.right === null ? [] : [["right", ""]])];
  const results = columns([card("Round by round", plot, legend), card("In numbers", table)], [card("Some of the answers", samples)]);
  results.hidden = true;

  function repaint() {
    if (rounds.length) fill(plot, roundsPlot(rounds, series(), widthOf(plot)));
  }
  function show() {
    results.hidden = false;
    repaint();
    const known = rounds[0].right !== null;
    const key = (kind, text) => el("span", {}, el("span", { class: `key line ${kind}` }), text);
    fill(legend, known ? key("", "right answers") : null, key("second", `answers that are sure (probability from ${percent(sure)} on)`), key("third", "noise that is left, of the first round's"));
    const head = ["round", "noise left", "sure", ...(known ? ["right"] : [])];
    fill(table, el("table", {}, el("thead", {}, el("tr", {}, head.map((name, i) => el("th", { scope: "col", class: i ? "number" : null }, name)))),
      el("tbody", {}, rounds.map((each) => el("tr", {}, el("td", {}, String(each.round)), el("td", { class: "number" }, tiny(each.noise)),
        el("td", { class: "number" }, percent(each.sure)), known ? el("td", { class: "number" }, percent(each.right)) : null)))));
  }
  function finish(line, asked) {
    const lastRound = rounds.at(-1);
    const how = line.converged ? `All ${whole(asked)} paths came to rest after ${line.rounds} rounds` : `It did not come to rest in ${line.rounds} rounds: the memory is too full, or holds what is not asked for`;
    fill(words, `${how}${lastRound.right === null ? "." : `; ${percent(lastRound.right)} right, where single questions get ${percent(rounds[0].right)}.`}`);
    fill(samples, el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "path"), el("th", { scope: "col" }, "answer"), el("th", { scope: "col", class: "number" }, "probability"))),
      el("tbody", {}, line.examples.map((each) => el("tr", {}, el("td", { class: "text" }, label(each.path.text)),
        el("td", { class: "text" }, each.answer.leaf ? label(each.answer.leaf.text) : "nothing"), el("td", { class: "number" }, tiny(each.answer.probability)))))));
  }
  async function run() {
    going = new AbortController();
    rounds = [];
    let asked = 0;
    start.disabled = true;
    stop.hidden = false;
    fill(problem);
    fill(words, "Asking…");
    try {
      for await (const line of api.lines("together", {}, going.signal)) {
        if (line.asked !== undefined) { asked = line.asked; sure = line.sure_from; fill(words, `Asking ${whole(asked)} paths…`); }
        if (line.round !== undefined) { rounds.push(line); show(); }
        if (line.converged !== undefined) finish(line, asked);
      }
    } catch (error) {
      if (error.name === "AbortError") fill(words, "Stopped.");
      else { fill(words); fill(problem, error.message); }
    }
    start.disabled = false;
    stop.hidden = true;
  }
  const truth = about.known_pairs ? `What is right is known of ${whole(about.known_pairs)} pairs.` : about.keeps_paths
    ? "The memory keeps its paths, but what is right nobody here knows: give its files with --files."
    : "This memory keeps no paths: start the explorer with --files to try it.";
  const node = el("div", { class: "view" }, el("div", { class: "lead" }, el("h1", {}, "Ask for everything together"),
    el("p", { class: "soft" }, `Asked one at a time, a path sees all other pairs as noise. Asked together, each round takes out what is expected to be there, and the rest is heard more clearly. ${truth}`),
    el("div", { class: "row" }, start, stop), words, problem), results);
  return { node, repaint };
}
