// From view to view, and back by one stroke.
import { ask, idle, work } from "./api.js";
import { say } from "./dom.js";
import { wanted } from "./filter.js";
import { nextGroup, showGroup } from "./grid.js";
import { reviewer } from "./session.js";
import { next, showItem } from "./single.js";
import { openSummary } from "./summary.js";
import { shown } from "./views.js";

const OPEN = { suspect: next, grid: nextGroup, summary: openSummary };
let back = "suspect";

export function open(view) {
  if (shown.asked !== "summary") back = shown.asked;
  return OPEN[view]();
}

// A filter set while the page is busy is not lost.
export const refresh = () => idle().then(() => open(shown.asked));
export const toggleGrid = () => open(shown.asked === "grid" ? "suspect" : "grid");
export const toggleSummary = () => open(shown.asked === "summary" ? back : "summary");

// The view follows what was taken back: a stroke over many rows shows them again, one decision its row.
export const undo = () => work(async () => {
  const answer = await ask("/api/undo", { reviewer: reviewer(), filter: wanted() });
  const many = answer.group && answer.rows.length > 1;
  if (many) showGroup(answer);
  else showItem(answer);
  say(`${many ? `${answer.rows.length} decisions` : "One decision"} taken back.`);
});
