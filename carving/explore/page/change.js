// Change: pairs stored and forgotten in this page's copy; the load and the cells update.

import * as api from "./api.js";
import { brief, card, columns, el, field, fill, label, plural } from "./dom.js";
import { loadCard, heatCard, valueField } from "./pieces.js";

export default function changeView(about) {
  const path = el("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "my dog / says", maxlength: 4000 });
  const [valueInput, offered] = valueField("woof");
  const result = el("p", { class: "message", role: "status" }), problem = el("p", { class: "error message", role: "alert" });
  const list = el("ul", { class: "list" }), count = el("p", {});
  const load = loadCard(), heat = heatCard();
  const store = el("button", { type: "submit", class: "main" }, "Store");
  const forget = el("button", { type: "button", onclick: () => run("forget") }, "Forget");
  const reset = el("button", { type: "button", onclick: () => apply("reset") }, "Discard changes");
  const save = el("button", { type: "button", onclick: () => apply("save") }, "Save to file");
  const form = el("form", { class: "field", onsubmit: (event) => { event.preventDefault(); run("store"); } },
    field("Path", path), field("Value", valueInput), offered, el("div", { class: "row" }, store, forget));

  function showChanges(state) {
    fill(count, state.count ? `${plural(state.count, about.writable ? "unsaved change" : "change")}; the copy holds ${plural(state.pairs, "pair")}.`
      : `No ${about.writable ? "unsaved changes" : "changes"}; the copy holds ${plural(state.pairs, "pair")}.`);
    fill(list, state.changes.map((each) => el("li", {}, el("span", { class: `verb ${each.verb}` }, each.verb === "store" ? "stored" : "forgotten"),
      label(each.path.text), " → ", label(each.value.text))));
    reset.disabled = save.disabled = !state.count;
    load.refresh();
    heat.refresh();
  }
  async function run(verb) {
    store.disabled = forget.disabled = true;
    try {
      const done = await api.change(verb, { path: path.value, value: valueInput.value });
      const pair = `${brief(done.path.text, 120)} → ${brief(done.value.text, 120)}`;
      fill(problem, done.warnings.join(" "));
      result.className = done.not_found ? "message soft" : "message done";
      fill(result, done.not_found ? `Not found, so nothing was removed: ${pair}` : `${verb === "store" ? "Stored" : "Forgotten"}: ${pair}`);
      showChanges(done);
    } catch (error) { fill(result); fill(problem, error.message); }
    store.disabled = forget.disabled = about.quantized;
  }
  async function apply(what) {
    try {
      const done = await api.change(what);
      result.className = "message done";
      fill(problem);
      fill(result, what === "save" ? `Saved ${plural(done.saved, "change")} to ${done.file}.` : "Changes discarded: this is a fresh copy of the memory.");
      showChanges(done);
    } catch (error) { fill(problem, error.message); }
  }
  async function shown() {
    try { showChanges(await api.ask("changes")); } catch (error) { fill(problem, error.message); }
  }
  if (about.quantized) {
    store.disabled = forget.disabled = true;
    fill(problem, "This is a quantized memory: it can be queried, but not changed.");
  }
  const keeps = about.writable ? el("div", { class: "row" }, save, reset) : el("div", { class: "field" }, el("div", { class: "row" }, reset),
    el("p", { class: "soft small" }, "The file is not changed. To save changes, start ", el("code", { class: "whole" }, "carving explore MEMORY --write"), "."));
  const node = el("div", { class: "view" }, el("div", { class: "lead" }, el("h1", {}, "Change a copy"),
    el("p", { class: "soft" }, `Store and forget pairs in this page's copy of the memory${about.writable ? "; the file changes only when you save" : ""}. The load and the cells update after every change.`)),
  columns([card("Pair", form, result, problem), card("Changes", count, list, keeps)], [load.node, heat.node]));
  return { node, shown, repaint: () => { load.repaint(); heat.repaint(); } };
}
