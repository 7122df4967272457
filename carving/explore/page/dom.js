// Elements built from names, attributes and text: labels are always inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const el = (tag, attributes, ...children) => made(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => made(document.createElementNS(SVG, tag), attributes, children);

export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

let last = 0;
export const unique = (name) => `${name}-${++last}`;

export function field(label, control, hint) {
  const id = unique("field");
  control.id = id;
  return el("div", { class: "field" }, el("label", { for: id }, label), control,
    hint ? el("span", { class: "soft small" }, hint) : null);
}

export function radios(legend, name, choices, chosen, onchange) {
  const group = unique(name);
  return el("fieldset", {}, el("legend", {}, legend), choices.map(([value, words]) =>
    el("label", {}, el("input", { type: "radio", name: group, value, checked: value === chosen,
      onchange: () => onchange(value) }), words)));
}

export const columns = (...stacks) => el("div", { class: "columns" }, stacks.map((stack) => el("div", { class: "column" }, stack)));

export const card = (title, ...children) => {
  const id = unique("card");
  return el("section", { class: "card", "aria-labeledby": id }, el("h2", { id }, title), ...children);
};

export const whole = (value) => Math.round(value).toLocaleString("en");
export const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
export function ordinal(count) {
  if (count === 2) return "second";
  const ending = count % 100 >= 11 && count % 100 <= 13 ? "th" : { 1: "st", 2: "nd", 3: "rd" }[count % 10] ?? "th";
  return `${count}${ending}`;
}
export const tiny = (value) => percent(value).replace("more than ", "> ").replace("less than ", "< ");
export function percent(value, digits) {
  if (value === null || value === undefined) return "unknown";
  const share = 100 * value;
  if (digits === undefined && value < 1 && share > 99.995) return "more than 99.99\u00a0%";
  if (digits === undefined && value > 0 && share < 0.005) return "less than 0.01\u00a0%";
  return `${share.toFixed(digits ?? (share > 99 || share < 1 ? 2 : 1)).replace(/\.0+$/, "")}\u00a0%`;
}
export function bytes(value) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${value.toFixed(unit && value < 100 ? 1 : 0)}\u00a0${units[unit]}`;
}
export const brief = (text, most = 34) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
// A label in little space: long ones are shortened, with the full text as a tooltip.
export const label = (text, most = 120) => (text.length > most ? el("span", { title: text }, brief(text, most)) : text);

// Debounce: run only the last of a series of calls, after a pause.
export function later(action, pause) {
  let timer;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => action(...given), pause); };
}
