// Who reviews, what the run is about, and how far the work is.
import { at, count } from "./dom.js";

export const setup = { classes: null, kind: "bare", commands: {} };

// A number and, where it comes with one, its interval: "12 (9 to 15)". The name of a class is one piece, whatever is in it.
export function parts(label) {
  const at = setup.classes ? -1 : label.indexOf(" (");
  return at < 0 ? [label, ""] : [label.slice(0, at), label.slice(at + 2, -1)];
}

export function begin(told) {
  Object.assign(setup, told);
  const field = at("reviewer");
  // A name may have been typed before the answer was here.
  field.value = told.reviewer || field.value || localStorage.getItem("reviewer") || "";
  field.readOnly = Boolean(told.reviewer);
}

export function remember() {
  localStorage.setItem("reviewer", at("reviewer").value.trim());
}

export function reviewer() {
  const name = at("reviewer").value.trim();
  if (!name) {
    at("reviewer").focus();
    throw new Error("Say who you are: your name goes with each decision.");
  }
  return name;
}

export function showProgress({ decided, open, suspects, remaining }) {
  at("counts").textContent = `${count(decided)} decided, ${count(open)} open`;
  at("left").textContent =
    `· about ${count(remaining)} wrong label${remaining === 1 ? "" : "s"} left`;
  at("bar").style.width = `${(100 * decided) / Math.max(1, suspects)}%`;
}
