// Overview: what the memory is, how full, and what its cells look like.

import * as api from "./api.js";
import { bytes, card, columns, el, fill, label, percent, whole } from "./dom.js";
import { gaugeCard, heatCard } from "./pieces.js";
import { histogramPlot, widthOf } from "./plots.js";

export default function overview() {
  const lead = el("div", { class: "lead" }), stats = el("dl", { class: "stats" });
  const gauge = gaugeCard(), heat = heatCard();
  const limit = el("div", { class: "bars" }), most = el("div", { class: "bars" });
  const chart = el("div"), spread = el("p", { class: "soft small" });
  let seen = null;

  const times = (ratio) => (ratio < 100 ? ratio.toFixed(1) : whole(ratio));
  const stat = (name, value, more) => el("div", {}, el("dt", {}, name), el("dd", {}, value,
    more ? el("span", { class: "soft small" }, more) : null));

  function say(facts) {
    fill(lead, el("h1", {}, `${whole(facts.pairs)} pairs in ${whole(facts.cells)} numbers`),
      el("p", { class: "soft" }, `${facts.words}.${facts.bits ? ` Sealed, ${facts.bits} a cell.` : ""}`
        + `${facts.consolidated ? " Consolidated: its numbers were solved for these pairs." : ""}`
        + `${facts.goal ? ` Planned for ${whole(facts.goal.pairs)} pairs and ${percent(facts.goal.accuracy)} right answers.` : ""}`));
    fill(stats, stat("pairs", whole(facts.pairs), facts.changes ? `${whole(facts.changes)} changes in this copy` : null),
      stat("different leaves", whole(facts.leaves)),
      stat("numbers", whole(facts.cells), facts.numbers_a_pair === null ? null : `${times(facts.numbers_a_pair)} a pair`),
      stat("bytes", bytes(facts.bytes)));
    const bar = (words, value, kind, amount) => el("div", {}, el("div", { class: "row between" }, el("span", {}, words),
      el("span", { class: "soft" }, amount)), el("div", { class: "track", "aria-hidden": true }, made("part " + kind, value)));
    fill(limit, bar("held by this memory", 1, "", bytes(facts.bytes)),
      bar("the least that could say it", facts.times_the_least ? 1 / facts.times_the_least : 0, "", bytes(facts.least_bytes)),
      el("p", { class: "soft small" }, facts.least_bytes
        ? `Saying which leaf each pair holds takes ${bytes(facts.least_bytes)} at least, if all paths are known: Shannon's limit. This memory takes ${times(facts.times_the_least)} times that, and answers single questions.`
        : "Nothing is stored, so nothing needs to be said."));
    const often = facts.most_stored[0]?.times ?? 1;
    fill(most, facts.most_stored.length ? facts.most_stored.map((each) => bar(label(each.leaf.text, 60), each.times / often, "", `${whole(each.times)} ×`))
      : el("p", { class: "soft" }, "Nothing is stored yet."));
  }
  function told(seen) {
    const all = `The bars count ${seen.looked_at < seen.all ? `${whole(seen.looked_at)} of ${whole(seen.all)}` : `all ${whole(seen.all)}`} numbers`;
    if (!seen.deviation) return `${all}, which are zero: nothing is stored.`;
    return `${all}, the line is the normal curve of the same deviation (${seen.deviation.toPrecision(3)}). ${seen.values
      ? `They take ${whole(seen.values)} different values only, so that bars stand apart and reach above the line.` : "The nearer they are, the better noise is understood."}`;
  }
  function made(kind, share) {
    const part = el("div", { class: kind });
    part.style.width = `${Math.max(0.2, 100 * share)}%`;
    return part;
  }
  function repaint() {
    gauge.repaint();
    heat.repaint();
    if (seen) fill(chart, histogramPlot(seen, widthOf(chart)));
  }
  async function shown() {
    try {
      const facts = await api.ask("overview");
      say(facts);
      gauge.refresh(`${facts.pairs} ${facts.leaves} ${facts.changes}`);
      heat.refresh();
      seen = await api.ask("histogram");
      fill(spread, told(seen));
      repaint();
    } catch (error) { fill(lead, el("p", { class: "error", role: "alert" }, error.message)); }
  }
  const node = el("div", { class: "view" }, lead, stats, columns(
    [gauge.node, card("How its numbers are spread", chart, spread), card("Bytes against the limit", limit)],
    [heat.node, card("The most stored leaves", most)]));
  return { node, shown, repaint };
}
