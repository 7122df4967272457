// Overview: what the memory is, its load, and what its cells look like.

import * as api from "./api.js";
import { bytes, card, columns, el, fill, label, percent, plural, whole } from "./dom.js";
import { loadCard, heatCard } from "./pieces.js";
import { histogramPlot, widthOf } from "./plots.js";

export default function overview() {
  const lead = el("div", { class: "lead" }), stats = el("dl", { class: "stats" });
  const load = loadCard(), heat = heatCard();
  const limit = el("div", { class: "bars" }), most = el("div", { class: "bars" });
  const chart = el("div"), captionLine = el("p", { class: "soft small" });
  let seen = null;

  const times = (ratio) => (ratio < 100 ? ratio.toFixed(1) : whole(ratio));
  const stat = (name, value, more) => el("div", {}, el("dt", {}, name), el("dd", {}, value,
    more ? el("span", { class: "soft small" }, more) : null));

  function describe(facts) {
    fill(lead, el("h1", {}, `${plural(facts.pairs, "pair")} in ${whole(facts.cells)} cells`),
      el("p", { class: "soft" }, `${facts.description}.${facts.bits ? ` Quantized to ${facts.bits} per cell.` : ""}`
        + `${facts.is_consolidated ? " Consolidated: its cells were solved for, so that single queries are right." : ""}`
        + `${facts.target ? ` Planned for ${plural(facts.target.pairs, "pair")} with a target accuracy of ${percent(facts.target.accuracy)}.` : ""}`));
    fill(stats, stat("pairs", whole(facts.pairs), facts.changes ? `${plural(facts.changes, "change")} in this copy` : null),
      stat("distinct values", whole(facts.values)),
      stat("cells", whole(facts.cells), facts.cells_per_pair === null ? null : `${times(facts.cells_per_pair)} per pair`),
      stat("size", bytes(facts.bytes)));
    const bar = (words, value, kind, amount) => el("div", {}, el("div", { class: "row between" }, el("span", {}, words),
      el("span", { class: "soft" }, amount)), el("div", { class: "track", "aria-hidden": true }, made("part " + kind, value)));
    fill(limit, bar("this memory", 1, "", bytes(facts.bytes)),
      bar("Shannon's limit", facts.relative_to_least ? 1 / facts.relative_to_least : 0, "", bytes(facts.least_bytes)),
      el("p", { class: "soft small" }, facts.least_bytes
        ? `If all paths are known, encoding the value of every pair takes at least ${bytes(facts.least_bytes)} (Shannon's limit). This memory takes ${times(facts.relative_to_least)} times as much, and answers single queries.`
        : facts.pairs ? "All pairs have the same value, so no information is needed to encode them." : "Nothing is stored yet."));
    const often = facts.most_stored[0]?.times ?? 1;
    fill(most, facts.most_stored.length ? facts.most_stored.map((each) => bar(label(each.value.text, 60), each.times / often, "", `${whole(each.times)} ×`))
      : el("p", { class: "soft" }, "Nothing is stored yet."));
  }
  function caption(seen) {
    const all = `Bars: histogram of ${seen.sampled < seen.cells ? `${whole(seen.sampled)} of ${whole(seen.cells)}` : `all ${whole(seen.cells)}`} cells`;
    if (!seen.deviation) return `${all}, which are all zero.`;
    return `${all}. Line: a normal distribution with the same standard deviation (${seen.deviation.toPrecision(3)}). ${seen.distinct
      ? `The cells have only ${plural(seen.distinct, "distinct number")}, so the bars stand apart and rise above the line.` : "Predictions assume normal noise: the closer the bars to the line, the more accurate they are."}`;
  }
  function made(kind, share) {
    const part = el("div", { class: kind });
    part.style.width = `${Math.max(0.2, 100 * share)}%`;
    return part;
  }
  function repaint() {
    load.repaint();
    heat.repaint();
    if (seen) fill(chart, histogramPlot(seen, widthOf(chart)));
  }
  async function shown() {
    try {
      const facts = await api.ask("overview");
      describe(facts);
      load.refresh(`${facts.pairs} ${facts.values} ${facts.changes}`);
      heat.refresh();
      seen = await api.ask("histogram");
      fill(captionLine, caption(seen));
      repaint();
    } catch (error) { fill(lead, el("p", { class: "error", role: "alert" }, error.message)); }
  }
  const node = el("div", { class: "view" }, lead, stats, columns(
    [load.node, card("Distribution of the cells", chart, captionLine), card("Size and Shannon's limit", limit)],
    [heat.node, card("Most frequent values", most)]));
  return { node, shown, repaint };
}
