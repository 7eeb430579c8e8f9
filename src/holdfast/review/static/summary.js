// The end of a sitting: what was decided, what remains, and what to do with it.
import { ask, query, work } from "./api.js";
import { at, count, line, made, say, warn } from "./dom.js";
import { reviewer } from "./session.js";
import { rest, show } from "./views.js";

const SUMS = { kept: "kept", corrected: "corrected", unsure: "unsure", disputed: "disputed", open: "still open" };

export const openSummary = () => work(async () => {
  const told = await query("/api/summary", { reviewer: reviewer() });
  warn();
  show("summary");
  at("exported").textContent = "";
  render(told);
  rest();
});

function render(told) {
  at("sums").replaceChildren(...Object.entries(SUMS).map(([name, word]) => {
    const entry = made("li");
    entry.append(made("b", count(told[name])), made("span", word));
    return entry;
  }));
  const { estimate, low, high } = told.wrong.remaining;
  at("left-count").textContent = `about ${count(estimate)}`;
  at("left-range").textContent = `between ${count(low)} and ${count(high)}, with a confidence of 95\u00a0%`;
  const { before, after } = told.wrong;
  at("rates").replaceChildren(...(after ? [...rate("before any answer", before), ...rate("with all answers", after)] : rate("before any answer", before)));
  at("sampled").textContent = told.sample
    ? `${share(told.sample.rate)} (${share(told.sample.low)} to ${share(told.sample.high)}) in a random sample of ${count(told.sample.rows)}`
    : "";
  at("people-none").hidden = told.reviewers.length > 0;
  at("people").hidden = !told.reviewers.length;
  at("people").tBodies[0].replaceChildren(...told.reviewers.map(({ name, decided, per_minute: pace }) =>
    line(name, count(decided), pace === null ? "–" : pace.toFixed(1))));
  at("agree").hidden = !told.agreement.length;
  at("agree-none").hidden = told.agreement.length > 0;
  at("agree").tBodies[0].replaceChildren(...told.agreement.map(({ first, second, rows, kappa }) =>
    line(`${first} and ${second}`, count(rows), kappa === null ? "–" : kappa.toFixed(2))));
  showCommand(told.commands.refit);
  say(`Summary. ${count(told.kept)} kept, ${count(told.corrected)} corrected, ${count(told.unsure)} unsure. ` +
    `About ${count(estimate)} wrong labels remain, between ${count(low)} and ${count(high)}.`);
}

function showCommand(command) {
  at("command").textContent = command;
  at("again").hidden = !command;
}

const share = (value) => `${(100 * value).toFixed(1)} %`;

function rate(when, told) {
  const value = made("dd");
  value.append(made("b", share(told.estimate)), " ", made("span", `${share(told.low)} to ${share(told.high)}`, "soft"));
  return [made("dt", when), value];
}

const write = () => work(async () => {
  const done = await ask("/api/export", { reviewer: reviewer() });
  warn();
  at("exported").textContent =
    `${count(done.reviewed)} reviewed labels, ${count(done.changed)} of them changed, written to ${done.path}`;
  showCommand(done.command);
});

async function copy() {
  const button = at("copy");
  try {
    await navigator.clipboard.writeText(at("command").textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(at("command"));
    button.textContent = "Selected";
  }
  say(`${button.textContent}.`);
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

export function bindSummary() {
  at("export").addEventListener("click", write);
  at("copy").addEventListener("click", copy);
}
