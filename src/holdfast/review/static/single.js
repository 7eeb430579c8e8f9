// One suspect: what it looks like, what speaks for which label, and the decision.
import { ask, query, work } from "./api.js";
import { at, made, percent, say, sharp, trusted, warn } from "./dom.js";
import { fieldLine, marked, nearRows, passages } from "./content.js";
import { narrowed, wanted } from "./filter.js";
import { pick } from "./picker.js";
import { parts, reviewer, setup, showProgress } from "./session.js";
import { release, rest, show } from "./views.js";

const SAID = { keep: "kept", suggestion: "suggestion taken", other: "set", unsure: "unsure" };
let item = null;

export function showItem(answer) {
  warn();
  showProgress(answer.progress);
  item = answer.item;
  show(item ? "suspect" : "done");
  if (item) render();
  else nothing();
  rest();
}

export function nothing() {
  at("done-why").textContent = narrowed()
    ? "No row of this filter waits for you. Show all rows, or see what has come of it."
    : "Every doubtful row is decided. See what has come of it, and train again.";
  at("widen").hidden = !narrowed();
  say("Nothing is open here.");
}

export const next = () => work(async () => {
  showItem(await query("/api/next", { reviewer: reviewer(), ...wanted() }));
});

export const page = (way) => item && work(async () => {
  const answer = await query("/api/next", { reviewer: reviewer(), ...wanted(), [way]: item.row });
  if (answer.item) showItem(answer);
  else warn(way === "after" ? "This is the last suspect of this order." : "This is the first suspect of this order.");
});

export const decide = (verdict, label) => item && work(async () => {
  const { row } = item;
  showItem(await ask("/api/decide", { row, verdict, label, reviewer: reviewer(), filter: wanted() }));
  if (item) say(`Row ${row}: ${SAID[verdict]}. ${announcement()}`);
});

// A class by its name: the given one is kept, the suggested one taken.
function settle(label) {
  if (label === item.given) decide("keep");
  else if (label === item.suggested) decide("suggestion");
  else decide("other", label);
}

export function choose(number) {
  const likely = item && item.likely[number - 1];
  if (likely) settle(likely.label);
}

export async function search() {
  if (!item) return;
  if (!setup.classes) {
    const value = await pick("Another value", null, numbers);
    if (value !== null) decide("other", value);
  } else {
    const likely = item.likely.map(({ label }) => label);
    const rest = setup.classes.filter((label) => !likely.includes(label));
    const label = await pick("Which label is right?", [...item.likely, ...rest.map((each) => ({ label: each }))]);
    if (label !== null) settle(label);
  }
  release();
}

function numbers(text) {
  const values = text.split(",").map((part) => (part.trim() ? Number(part) : NaN));
  return values.every(Number.isFinite) ? values : null;
}

const announcement = () =>
  `Row ${item.source_index}. Given ${item.given}, suggested ${item.suggested}, ${trusted(item)}. ${item.reasons.join(" ")}`;

function render() {
  at("label-given").textContent = item.given;
  [at("label-suggested").textContent, at("label-range").textContent] = parts(item.suggested);
  at("trust").textContent = `The given label is ${trusted(item)}.`;
  at("trust-bar").style.width = `${100 * item.trust}%`;
  at("reasons").replaceChildren(...item.reasons.map((sentence) => made("li", sentence)));
  at("which").textContent = `Row ${item.source_index}${item.name ? ` · ${item.name}` : ""}`;
  at("suspect").classList.toggle("tall", item.fields.length === 0);
  at("picture").hidden = !item.picture;
  if (item.picture) {
    at("picture").src = `/picture/${Number(item.row)}`;
    at("picture").alt = `row ${item.source_index}`;
  } else {
    at("picture").removeAttribute("src");
  }
  at("texts").replaceChildren(...passages(item));
  at("words").hidden = !marked(item);
  at("fields").hidden = !item.fields.length;
  at("fields").tBodies[0].replaceChildren(...item.fields.map(fieldLine));
  at("bare").hidden = item.picture || item.texts.length > 0 || item.fields.length > 0;
  at("neighbours").replaceChildren(...nearRows(item));
  scrollTo(0, 0);
  renderDecisions();
  renderLikely();
  say(announcement());
}

// Of each reviewer the server tells "name: verdict"; a name may have a colon, a verdict has none.
function renderDecisions() {
  const words = { keep: `keeps ${item.given}`, suggestion: `says ${parts(item.suggested)[0]}`, other: "says another label", unsure: "is unsure" };
  at("decisions").hidden = !item.decisions.length;
  at("decisions").lastElementChild.replaceChildren(...item.decisions.map((told) => {
    const end = told.lastIndexOf(": ");
    const line = made("li");
    line.append(made("strong", told.slice(0, end)), ` ${words[told.slice(end + 2)]}`);
    return line;
  }));
}

function renderLikely() {
  at("likely").hidden = !setup.classes;
  at("likely").querySelector("ol").replaceChildren(...item.likely.map(({ label, probability }, k) => {
    const button = made("button");
    const share = made("i", undefined, "share");
    share.style.width = `${100 * probability}%`;
    button.append(share, made("kbd", k + 1), made("span", label));
    if (label === item.given) button.append(made("small", "given"));
    if (label === item.suggested) button.append(made("small", "suggested"));
    button.append(made("span", percent(probability), "soft"));
    button.addEventListener("click", () => settle(label));
    const line = made("li");
    line.append(button);
    return line;
  }));
}

export function bindSingle() {
  at("picture").addEventListener("load", sharp);
  at("previous").addEventListener("click", () => page("before"));
  at("following").addEventListener("click", () => page("after"));
  at("search").addEventListener("click", search);
  for (const button of at("suspect").querySelectorAll("[data-verdict]")) {
    const { verdict } = button.dataset;
    button.addEventListener("click", verdict === "other" ? search : () => decide(verdict));
  }
}
