// The frame: views as tabs, the theme, and the banner for a stopped explorer.

import * as api from "./api.js";
import askView from "./ask.js";
import changeView from "./change.js";
import { el, fill } from "./dom.js";
import overviewView from "./overview.js";
import planView from "./plan.js";
import decodeView from "./decode.js";

const VIEWS = [["overview", "Overview", overviewView], ["ask", "Ask", askView], ["change", "Change", changeView],
  ["decode", "Decode", decodeView], ["plan", "Plan", planView]];
const tabs = document.getElementById("tabs"), main = document.getElementById("main");
const views = new Map();
let about = null, current = null;

// Light and dark

const system = matchMedia("(prefers-color-scheme: dark)");
const chooser = document.getElementById("theme");
const remembered = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
function paint() {
  const dark = chooser.value === "dark" || (chooser.value === "auto" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  views.get(current)?.repaint?.();
}
chooser.value = remembered() ?? "auto";
chooser.addEventListener("change", () => { try { localStorage.setItem("theme", chooser.value); } catch { /* storage is not available */ } paint(); });
system.addEventListener("change", paint);

// Views

function show(name, focus = false) {
  current = VIEWS.some(([each]) => each === name) ? name : "overview";
  for (const tab of tabs.children) {
    const chosen = tab.dataset.view === current;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) tab.focus();
    if (chosen) tab.scrollIntoView?.({ block: "nearest", inline: "nearest" });
  }
  if (!views.has(current)) views.set(current, VIEWS.find(([each]) => each === current)[2](about));
  const view = views.get(current);
  view.node.id = "view";
  view.node.setAttribute("role", "tabpanel");
  view.node.setAttribute("aria-labeledby", `tab-${current}`);
  fill(main, view.node);
  view.shown?.();
}
function go(name, focus) {
  history.replaceState(null, "", `#${name}`);
  show(name, focus);
}
for (const [name, title] of VIEWS) {
  tabs.append(el("button", { role: "tab", id: `tab-${name}`, "data-view": name, type: "button", "aria-controls": "view",
    onclick: () => go(name) }, title));
}
tabs.addEventListener("keydown", (event) => {
  const names = VIEWS.map(([name]) => name), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const place = { Home: 0, End: names.length - 1 }[event.key] ?? (step && (names.indexOf(current) + step + names.length) % names.length);
  if (place === undefined) return;
  event.preventDefault();
  go(names[place], true);
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  go("ask");
  main.querySelector("input")?.focus();
});
document.querySelector(".skip").addEventListener("click", (event) => { // whose href would be read as the name of a view
  event.preventDefault();
  main.focus();
  main.scrollIntoView();
});
addEventListener("hashchange", () => show(location.hash.slice(1)));
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => views.get(current)?.repaint?.(), 120); });

// Whether the explorer answers

const stopped = document.getElementById("stopped");
const STOPPED = "The explorer has stopped. Start it again with “carving explore” and open the address it prints.";
const LOST = "This page's copy of the memory has expired because too many other pages were opened. Its unsaved changes are lost. Reload the page.";
let lost = false;
function warn(sentence) {
  if (sentence && stopped.textContent !== sentence) fill(stopped, sentence);
  stopped.hidden = !sentence;
}
api.onStopped((gone) => warn(gone ? STOPPED : lost ? LOST : null));
setInterval(async () => { // also a heartbeat: this page is still in use
  const seen = await api.ask("about").catch(() => null);
  if (seen) lost = !seen.session_is_open;
  if (lost) warn(LOST);
}, 4000);

try {
  await api.open();
  about = await api.ask("about");
  document.getElementById("name").textContent = about.name;
  document.title = `${about.name} – Carving explorer`;
  paint();
  show(location.hash.slice(1));
  document.body.dataset.ready = "yes";
} catch (error) {
  paint();
  fill(main, el("p", { class: "error", role: "alert" }, error.message));
}
