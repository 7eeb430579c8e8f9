// A group of rows as the reviewer sees them: pictures as tiles, passages as lines, rows of a table under one another.
import { made, picture, trusted } from "./dom.js";
import { passages, unusual } from "./content.js";
import { parts } from "./session.js";

const CLIPPED = 320;

// { holder, nodes }: what holds the focus, and one node for each row that can be selected. `change`: each row has labels
// of its own, which are shown with it.
export function cells(items, kind, change) {
  if (kind === "picture") return list(items, "tiles", tile, change);
  if (kind === "table") return table(items, change);
  return list(items, "lines", passageLine, change);
}

function list(items, kind, content, change) {
  const holder = made("div", undefined, kind);
  holder.tabIndex = 0;
  holder.setAttribute("role", "listbox");
  holder.setAttribute("aria-multiselectable", "true");
  holder.setAttribute("aria-labelledby", "pair");
  const nodes = items.map((item) => {
    const node = made("div", undefined, "cell");
    node.setAttribute("role", "option");
    node.append(made("span", undefined, "tick"), ...content(item, change));
    return node;
  });
  holder.append(...nodes);
  return { holder, nodes };
}

function foot(item, change) {
  const small = made("small", undefined, "foot");
  if (change) small.append(made("b", `${item.given} → ${parts(item.suggested)[0]}`), " ");
  small.append(trusted(item));
  return small;
}

const tile = (item, change) => [picture(item.row, 240, `row ${item.source_index}`), foot(item, change)];

function passageLine(item, change) {
  const words = made("div");
  words.append(...(item.texts.length ? passages(item, CLIPPED) : [made("p", `Row ${item.source_index}`)]));
  const apart = item.fields.filter(unusual).slice(0, 3);
  const told = apart.map(({ name, value, usual }) => `${name} ${value}${usual ? `, usually ${usual}` : ""}`);
  if (told.length) words.append(made("p", told.join(" · "), "soft"));
  return [words, foot(item, change)];
}

function table(items, change) {
  const holder = made("table", undefined, "rows");
  holder.tabIndex = 0;
  holder.setAttribute("role", "grid");
  holder.setAttribute("aria-multiselectable", "true");
  holder.setAttribute("aria-labelledby", "pair");
  const columns = byDifference(items);
  const head = made("tr");
  const first = ["row", ...(change ? ["given", "suggested"] : []), "trusted"];
  head.append(...first.map((name) => heading(name)),
    ...columns.map(({ name, apart }) => heading(name, apart ? "apart" : "")));
  holder.createTHead().append(head);
  const nodes = items.map((item) => row(item, columns, change));
  holder.createTBody().append(...nodes);
  return { holder, nodes };
}

function heading(name, kind) {
  const node = made("th", name, kind);
  node.scope = "col";
  return node;
}

// Columns in which many rows are unlike their given label first.
function byDifference(items) {
  const sums = new Map();
  for (const field of items.flatMap(({ fields }) => fields)) {
    const seen = sums.get(field.name) || { name: field.name, sum: 0, apart: 0 };
    seen.sum += Math.min(field.apart, 5);
    seen.apart += Number(unusual(field));
    sums.set(field.name, seen);
  }
  return [...sums.values()].sort((a, b) => b.sum - a.sum);
}

function row(item, columns, change) {
  const node = made("tr", undefined, "cell");
  const place = made("th");
  place.scope = "row";
  place.append(made("span", undefined, "tick"), `${item.source_index}`);
  node.append(place);
  if (change) node.append(made("td", item.given), made("td", parts(item.suggested)[0], "accent-text"));
  node.append(made("td", trusted(item).replace("trusted ", "")));
  const fields = new Map(item.fields.map((field) => [field.name, field]));
  for (const { name } of columns) {
    const field = fields.get(name);
    const cell = made("td", undefined, field && unusual(field) ? "apart" : "");
    cell.append(made("span", field ? field.value : ""));
    if (field && field.usual) cell.title = `usually ${field.usual}`;
    node.append(cell);
  }
  return node;
}
