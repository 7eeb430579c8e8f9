// What travels between the page and its server: one request at a time.
import { at, warn } from "./dom.js";

const SILENT = "The server does not answer. What you decided is kept; start holdfast review again and open its link.";
let busy = false;
let running = Promise.resolve();

// When what is under way has come to its end.
export const idle = () => running;

export async function ask(path, body) {
  const options = body && {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, options || {});
  } catch {
    throw new Error(SILENT);
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.error || "The server refused; open the link that holdfast review has printed.");
  return content;
}

export const query = (path, fields) => ask(`${path}?${new URLSearchParams(fields)}`);

// The page moves on only when a decision is on disk and the answer is here; what is pressed meanwhile decides nothing.
export function work(job) {
  if (!busy) running = run(job);
  return running;
}

async function run(job) {
  busy = true;
  at("work").setAttribute("aria-busy", "true");
  try {
    await job();
  } catch (error) {
    warn(error.message);
  } finally {
    at("work").removeAttribute("aria-busy");
    busy = false;
  }
}
