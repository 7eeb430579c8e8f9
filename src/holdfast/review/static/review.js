"use strict";

// Everything that comes from the data is set as text, never as markup.
const at = (id) => document.getElementById(id);
const KEYS = { k: "keep", s: "suggestion", o: "other", u: "unsure" };
let item = null;
let classes = null;
let busy = false;

const wanted = () => ({
  given: at("given").value,
  low: at("low").value || "0",
  high: at("high").value || "1",
  second: at("second").checked,
});

async function ask(path, body) {
  const options = body && {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, options || {});
  } catch {
    throw new Error("The server does not answer. What you decided is kept; start holdfast review again and open its link.");
  }
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error || "The server refused.");
  return content;
}

// One request at a time: the page moves on only when the decision is on disk and the answer is here.
async function work(job) {
  if (busy) return;
  busy = true;
  document.querySelectorAll(".keys button").forEach((button) => { button.disabled = true; });
  try {
    const content = await job();
    at("notice").hidden = true;
    if (content) show(content);
  } catch (error) {
    at("notice").textContent = error.message;
    at("notice").hidden = false;
  }
  document.querySelectorAll(".keys button").forEach((button) => { button.disabled = false; });
  busy = false;
}

const next = () => work(() => ask("/api/next?" + new URLSearchParams({ reviewer: name(), ...wanted() })));

function name() {
  const reviewer = at("reviewer").value.trim();
  if (!reviewer) {
    at("reviewer").focus();
    throw new Error("Say who you are: your name goes with each decision.");
  }
  return reviewer;
}

function decide(verdict, label) {
  if (!item) return;
  if (verdict === "other" && label === undefined) {
    at("other").hidden = false;
    at("other-label").value = "";
    at("other-label").focus();
    return;
  }
  work(() => ask("/api/decide", { row: item.row, verdict, label, reviewer: name(), filter: wanted() }));
}

const undo = () => work(() => ask("/api/undo", { reviewer: name(), filter: wanted() }));

function made(tag, text, kind) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

// A few pixels are shown as they are; a photograph is drawn smoothly.
const sharp = ({ target }) => target.classList.toggle("pixels", target.naturalWidth < 128);

function picture(row) {
  const image = made("img");
  image.src = "/picture/" + Number(row);
  image.alt = "row " + row;
  image.loading = "lazy";
  image.addEventListener("load", sharp);
  return image;
}

function show({ item: shown, progress }) {
  item = shown;
  at("suspect").hidden = !item;
  at("done").hidden = Boolean(item);
  at("other").hidden = true;
  const left = progress.remaining;
  at("progress").textContent =
    `${progress.decided.toLocaleString()} decided, ${progress.open.toLocaleString()} open · wrong labels left: ` +
    `about ${left.estimate.toLocaleString()} (${left.low.toLocaleString()} to ${left.high.toLocaleString()})`;
  at("bar").style.width = `${(100 * progress.decided) / Math.max(1, progress.suspects)}%`;
  if (!item) return;
  at("label-given").textContent = item.given;
  at("label-suggested").textContent = item.suggested;
  at("trust").textContent = `Trust ${item.trust.toFixed(3)}.`;
  at("trust-bar").style.width = `${100 * (1 - item.trust)}%`;
  at("why").textContent = item.why ? item.why[0].toUpperCase() + item.why.slice(1) + "." : "Doubtful.";
  at("which").textContent = `Row ${item.source_index}${item.name ? " · " + item.name : ""}`;
  at("decisions").textContent = item.decisions.join(" · ");
  at("picture").hidden = !item.picture;
  if (item.picture) at("picture").src = "/picture/" + Number(item.row);
  at("texts").replaceChildren(...item.texts.map(([, text]) => made("p", text, "passage")));
  at("fields").replaceChildren(...item.fields.map((field) => {
    const line = made("tr", undefined, field.apart >= 2 ? "apart" : "");
    line.append(made("td", field.name, "soft"), made("td", field.value), made("td", "usually " + field.usual, "soft"));
    return line;
  }));
  at("bare").hidden = item.picture || item.texts.length > 0 || item.fields.length > 0;
  at("neighbours").replaceChildren(...item.neighbours.flatMap((group) => {
    const near = made("div", undefined, item.picture ? "near" : "near lines");
    near.append(...group.rows.map((row) => (
      item.picture ? picture(row.row) : made("p", (group.label ? "" : row.label + ": ") + (row.text || "row " + row.row))
    )));
    return group.rows.length ? [made("h2", group.label ? `near rows labelled ${group.label}` : "near rows"), near] : [];
  }));
}

function other(event) {
  event.preventDefault();
  const label = at("other-label").value.trim();
  decide("other", classes ? label : label.split(",").map(Number));
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    at("other").hidden = true;
    document.activeElement.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName)) return;
  const key = event.key.toLowerCase();
  if (key === "z") undo();
  else if (KEYS[key]) decide(KEYS[key]);
  else return;
  event.preventDefault();
});

document.addEventListener("DOMContentLoaded", async () => {
  document.querySelectorAll("[data-verdict]").forEach((button) => {
    button.addEventListener("click", () => decide(button.dataset.verdict));
  });
  at("undo").addEventListener("click", undo);
  at("picture").addEventListener("load", sharp);
  at("other").addEventListener("submit", other);
  at("cancel").addEventListener("click", () => { at("other").hidden = true; });
  at("reviewer").value = localStorage.getItem("reviewer") || "";
  at("reviewer").addEventListener("change", () => {
    localStorage.setItem("reviewer", at("reviewer").value.trim());
    at("reviewer").blur();
    next();
  });
  for (const id of ["given", "low", "high", "second"]) at(id).addEventListener("change", next);
  await work(async () => {
    ({ classes } = await ask("/api/setup"));
    at("class-filter").hidden = !classes;
    for (const label of classes || []) {
      at("given").append(new Option(label, label));
      at("classes").append(new Option(label));
    }
  });
  next();
});
