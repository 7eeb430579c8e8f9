// Suspects of one pair side by side: all selected, the exceptions taken out, the rest decided in one stroke.
import { ask, query, work } from "./api.js";
import { cells } from "./cells.js";
import { all, at, count, made, say, warn } from "./dom.js";
import { marked } from "./content.js";
import { wanted } from "./filter.js";
import { reviewer, setup, showProgress } from "./session.js";
import { nothing } from "./single.js";
import { release, rest, show } from "./views.js";

const SAID = { suggestion: "accepted as suggested", keep: "kept as given", unsure: "left as unsure" };
const WORD = { suggestion: "Accept", keep: "Keep", unsure: "Unsure" };
let group = null;
let selected = new Set();
let nodes = [];
let current = 0;

export function showGroup(answer, before = "") {
  warn();
  showProgress(answer.progress);
  group = answer.group;
  show(group ? "grid" : "done");
  if (group) render(before);
  else nothing();
  rest();
}

const following = (place = {}) => query("/api/group", { reviewer: reviewer(), ...wanted(), ...place });

export const nextGroup = () => work(async () => showGroup(await following()));

// Of what was taken out of a stroke most people say the other thing.
const usual = () => (group && group.aside === "suggestion" ? "keep" : "suggestion");
export const decideUsual = () => decideGroup(usual());

// Past the last pair begins the first again; from what was taken out it goes on where it was taken out.
export const skip = () => group && work(async () => {
  if (group.aside) {
    showGroup(await following({ first: group.key }));
    return;
  }
  const answer = await following({ after: group.key });
  showGroup(answer.group ? answer : await following());
});

export const decideGroup = (verdict) => group && work(async () => {
  const rows = group.items.map(({ row }) => row);
  const [chosen, exceptions] = [rows.filter((row) => selected.has(row)), rows.filter((row) => !selected.has(row))];
  if (!chosen.length) throw new Error("Nothing is selected; N goes on without an answer.");
  const body = { rows: chosen, exceptions, verdict, aside: Boolean(group.aside), reviewer: reviewer(), filter: wanted() };
  showGroup(await ask("/api/decide-group", body), `${count(chosen.length)} ${SAID[verdict]}. `);
});

export function toggle(k = current) {
  const { row } = group.items[k];
  if (!selected.delete(row)) selected.add(row);
  mark();
  say(`${selected.has(row) ? "selected" : "deselected"}, ${selected.size} of ${group.items.length}`);
}

export function toggleAll() {
  if (!group) return;
  selected = selected.size ? new Set() : new Set(group.items.map(({ row }) => row));
  mark();
  say(`${selected.size} of ${group.items.length} selected`);
}

// Up and down go by as many as stand side by side.
export function move(key) {
  if (!group) return;
  const abreast = nodes.filter((node) => node.offsetTop === nodes[0].offsetTop).length;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -abreast, ArrowDown: abreast };
  const to = key === "Home" ? 0 : key === "End" ? nodes.length - 1 : current + steps[key];
  if (to >= 0 && to < nodes.length) current = to;
  mark();
  nodes[current].scrollIntoView({ block: "nearest", inline: "nearest" });
}

function mark() {
  nodes.forEach((node, k) => {
    node.setAttribute("aria-selected", String(selected.has(group.items[k].row)));
    node.classList.toggle("current", k === current);
  });
  at("cells").querySelector("[tabindex]").setAttribute("aria-activedescendant", nodes[current].id);
  for (const button of all("[data-all]")) {
    const { all: verdict, key } = button.dataset;
    const first = verdict === usual();
    const many = selected.size === nodes.length ? `all ${nodes.length}` : selected.size;
    button.classList.toggle("accent", first);
    button.classList.toggle("full", first);
    button.firstElementChild.textContent = first ? "Enter" : key;
    button.lastElementChild.textContent = first ? `${WORD[verdict]} ${many}` : WORD[verdict];
  }
  at("skip").lastElementChild.textContent = group.aside ? "One at a time" : "Next pair";
  const more = group.more ? `, ${count(group.more)} more like these` : "";
  at("tally").textContent = `${selected.size} of ${nodes.length} selected${more}`;
}

// Of numbers a group has in common which way and how far they are off.
function title() {
  const suggested = [made("span", "suggested "), made("b", group.suggested, "accent-text")];
  return setup.classes ? [made("span", "given "), made("b", group.given), made("span", ", "), ...suggested] : suggested;
}

function render(before) {
  selected = new Set(group.items.map(({ row }) => row));
  current = 0;
  at("pair").replaceChildren(...(group.aside ? [made("span", "Taken out: "), ...title()] : title()));
  at("taken-out").hidden = !group.aside;
  const drawn = cells(group.items, setup.kind, !setup.classes);
  nodes = drawn.nodes;
  nodes.forEach((node, k) => {
    node.id = `cell-${k}`;
    node.addEventListener("click", () => {
      current = k;
      toggle(k);
      release();
    });
  });
  at("cells").replaceChildren(drawn.holder);
  at("words-of-all").hidden = !group.items.some(marked);
  at("columns-apart").hidden = drawn.holder.tagName !== "TABLE";
  scrollTo(0, 0);
  mark();
  say(`${before}${nodes.length} rows, ${at("pair").textContent}, all selected.`);
}

export function bindGrid() {
  at("skip").addEventListener("click", skip);
  for (const button of all("[data-all]")) button.addEventListener("click", () => decideGroup(button.dataset.all));
}
