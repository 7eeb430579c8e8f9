// Keys: they decide whenever nobody is typing into a field.
import { all, at } from "./dom.js";
import { toggleFilters } from "./filter.js";
import * as grid from "./grid.js";
import * as single from "./single.js";
import { release, shown } from "./views.js";
import { open, toggleGrid, toggleSummary, undo } from "./walk.js";

const EVERYWHERE = { z: undo, g: toggleGrid, e: toggleSummary, f: toggleFilters, "?": () => openCard() };
const KEYS = {
  suspect: {
    k: () => single.decide("keep"),
    s: () => single.decide("suggestion"),
    u: () => single.decide("unsure"),
    o: single.search,
    "/": single.search,
    arrowleft: () => single.page("before"),
    arrowright: () => single.page("after"),
  },
  grid: {
    " ": () => grid.toggle(),
    a: grid.toggleAll,
    enter: grid.decideUsual,
    s: () => grid.decideGroup("suggestion"),
    k: () => grid.decideGroup("keep"),
    u: () => grid.decideGroup("unsure"),
    n: grid.skip,
    escape: toggleGrid,
  },
  summary: { escape: toggleSummary },
  done: {},
};
for (const key of "123456789") KEYS.suspect[key] = () => single.choose(Number(key));
for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]) {
  KEYS.grid[key.toLowerCase()] = () => grid.move(key);
}

function openCard() {
  at("card").showModal();
  at("card").focus();
  at("card").scrollTop = 0;
}

// Letters are no part of a number: they leave its field and decide.
function typing({ target, key }) {
  if (target.tagName !== "INPUT") return false;
  return target.type !== "number" || !/^[a-z?/]$/i.test(key);
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (typing(event)) {
    if (event.key === "Enter" || event.key === "Escape") release();
    return;
  }
  const onButton = event.target.closest("button") && (event.key === "Enter" || event.key === " ");
  const job = KEYS[shown.view][event.key.toLowerCase()] || EVERYWHERE[event.key.toLowerCase()];
  if (!job || onButton || (event.repeat && !event.key.startsWith("Arrow"))) return;
  event.preventDefault();
  if (event.target.tagName === "INPUT") release();
  job();
}

export function bindKeys() {
  document.addEventListener("keydown", pressed);
  // A button that was used gives the keys back, unless it has opened what it controls.
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button || document.querySelector("dialog[open]")) return;
    if (button.getAttribute("aria-expanded") !== "true") release();
  });
  for (const button of all("[data-view]")) button.addEventListener("click", () => open(button.dataset.view));
  for (const button of all("[data-undo]")) button.addEventListener("click", undo);
  at("help").addEventListener("click", openCard);
  at("card-close").addEventListener("click", () => at("card").close());
  at("card").addEventListener("click", ({ target }) => { if (target === at("card")) at("card").close(); });
  at("card").addEventListener("close", release);
  at("card").addEventListener("keydown", (event) => { if (event.key === "?") at("card").close(); });
}
