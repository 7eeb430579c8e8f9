// A label out of thousands: type to narrow, arrows to move, Enter to take; or a number, where labels are numbers.
import { at, count, made, percent } from "./dom.js";

const MOST = 60;
let options = [];
let found = [];
let current = 0;
let accept = null;
let settle = null;

// `choices`: [{ label, probability?, shown? }] in the order to offer; null asks for what is typed, checked by `check`.
export function pick(title, choices, check) {
  options = choices;
  accept = check;
  at("picker-title").textContent = title;
  const field = at("picker-text");
  field.value = "";
  field.inputMode = choices ? "search" : "text";
  const combobox = { role: "combobox", "aria-expanded": "true", "aria-controls": "picker-list", "aria-autocomplete": "list" };
  for (const [name, value] of Object.entries(combobox)) {
    if (choices) field.setAttribute(name, value);
    else field.removeAttribute(name);
  }
  narrow();
  at("picker").showModal();
  field.focus();
  return new Promise((resolve) => { settle = resolve; });
}

// Where the words begin with it first, then where it is anywhere.
function rank(label, typed) {
  const place = label.toLowerCase().indexOf(typed);
  if (place <= 0) return place;
  return /[\s_\-/]/.test(label[place - 1]) ? 1 : 2;
}

function narrow() {
  const typed = at("picker-text").value.trim().toLowerCase();
  const list = at("picker-list");
  list.hidden = !options;
  if (!options) {
    at("picker-note").textContent = "A number, or several with commas between them. Enter sets it, Escape leaves.";
    return;
  }
  const ranked = options.map((option) => [rank(option.shown || option.label, typed), option]).filter(([place]) => place >= 0);
  ranked.sort((a, b) => a[0] - b[0]);
  found = ranked.slice(0, MOST).map(([, option]) => option);
  list.replaceChildren(...found.map((option, k) => {
    const node = made("li", option.shown || option.label);
    node.id = `option-${k}`;
    node.setAttribute("role", "option");
    if (option.probability !== undefined) node.append(made("span", percent(option.probability), "soft"));
    node.addEventListener("click", () => take(k));
    return node;
  }));
  const more = ranked.length - found.length;
  at("picker-note").textContent = found.length
    ? `${count(ranked.length)} of ${count(options.length)}${more ? "; type to narrow them down" : ""}`
    : "No class is called that.";
  list.hidden = !found.length;
  move(0);
}

function move(to) {
  current = Math.max(0, Math.min(found.length - 1, to));
  [...at("picker-list").children].forEach((node, k) => node.setAttribute("aria-selected", String(k === current)));
  const node = at(`option-${current}`);
  if (node) node.scrollIntoView({ block: "nearest" });
  if (node) at("picker-text").setAttribute("aria-activedescendant", node.id);
  else at("picker-text").removeAttribute("aria-activedescendant");
}

function take(k) {
  if (options && !found[k]) return;
  const value = options ? found[k].label : accept(at("picker-text").value);
  if (value === null) {
    at("picker-note").textContent = "That is no number; write for example 12.5.";
    return;
  }
  finish(value);
}

function finish(value) {
  const resolve = settle;
  settle = null;
  at("picker").close();
  if (resolve) resolve(value);
}

export function bindPicker() {
  at("picker-text").addEventListener("input", narrow);
  at("picker").addEventListener("close", () => finish(null));
  at("picker").addEventListener("click", ({ target }) => { if (target === at("picker")) finish(null); });
  at("picker-text").addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
    if (event.key in steps && options) move(current + steps[event.key]);
    else if (event.key === "Enter") take(current);
    else return;
    event.preventDefault();
  });
}
