// Which of the page's views is to be seen, and where the focus rests while keys decide.
import { all, at } from "./dom.js";

const VIEWS = ["suspect", "grid", "summary", "done"];
export const shown = { view: "suspect", asked: "suspect" };

// `done` stands in for the view that was asked for when nothing is open in it.
export function show(view) {
  shown.view = view;
  if (view !== "done") shown.asked = view;
  for (const name of VIEWS) at(name).hidden = name !== view;
  for (const button of all("nav [data-view]")) {
    button.setAttribute("aria-pressed", String(button.dataset.view === shown.asked));
  }
}

// Away from the control that was used: from here every key decides.
export function release() {
  const cells = shown.view === "grid" && at("cells").querySelector("[tabindex]");
  (cells || at("work")).focus({ preventScroll: true });
}

// The page has moved on: a field that is being filled in keeps the focus.
export function rest() {
  if (document.activeElement.tagName !== "INPUT") release();
}
