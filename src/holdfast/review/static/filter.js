// Which suspects are asked about and in which order.
import { all, at } from "./dom.js";
import { pick } from "./picker.js";
import { setup } from "./session.js";
import { release } from "./views.js";

const ALL = { given: "", suggested: "", low: 0, high: 1, order: "informative", queue: "open" };
const chosen = { ...ALL };

export const wanted = () => ({ ...chosen });
export const narrowed = () => Object.keys(ALL).some((name) => chosen[name] !== ALL[name]);

function render() {
  for (const name of ["queue", "order"]) {
    for (const button of all(`[data-${name}]`)) {
      button.setAttribute("aria-pressed", String(button.dataset[name] === chosen[name]));
    }
  }
  for (const button of all("[data-pick]")) {
    const name = button.dataset.pick;
    button.textContent = `${name}: ${chosen[name] || "any"}`;
    button.classList.toggle("set", Boolean(chosen[name]));
  }
  at("low").value = Math.round(100 * chosen.low);
  at("high").value = Math.round(100 * chosen.high);
  at("filter-button").classList.toggle("set", narrowed());
  at("filter-button").textContent = narrowed() ? "Filter on" : "Filter";
}

// Bounds that cross are brought together, and what is no number is none.
function bounds() {
  const share = (id, usual) => {
    const value = at(id).valueAsNumber;
    return Number.isNaN(value) ? usual : Math.min(100, Math.max(0, value)) / 100;
  };
  const [low, high] = [share("low", 0), share("high", 1)];
  return { low: Math.min(low, high), high: Math.max(low, high) };
}

export function toggleFilters() {
  const panel = at("filters");
  panel.hidden = !panel.hidden;
  at("filter-button").setAttribute("aria-expanded", String(!panel.hidden));
  if (panel.hidden) release();
}

export function bindFilters(changed) {
  const set = (part) => {
    Object.assign(chosen, part);
    render();
    changed();
  };
  for (const name of ["queue", "order"]) {
    for (const button of all(`[data-${name}]`)) {
      button.addEventListener("click", () => set({ [name]: button.dataset[name] }));
    }
  }
  for (const button of all("[data-pick]")) {
    button.addEventListener("click", async () => {
      const any = { label: "", shown: "any" };
      const label = await pick(`Rows ${button.dataset.pick === "given" ? "given as" : "suggested to be"}`,
        [any, ...setup.classes.map((each) => ({ label: each }))]);
      if (label !== null) set({ [button.dataset.pick]: label });
      release();
    });
  }
  for (const id of ["low", "high"]) at(id).addEventListener("change", () => set(bounds()));
  for (const id of ["reset", "widen"]) at(id).addEventListener("click", () => set({ ...ALL }));
  at("filter-button").addEventListener("click", toggleFilters);
  at("class-filters").hidden = !setup.classes;
  all('[data-order="class"]')[0].hidden = !setup.classes;
  render();
}
