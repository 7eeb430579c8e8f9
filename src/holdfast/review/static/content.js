// What there is to see of a row: its picture, its passages with the words that matter, its fields.
import { made, picture } from "./dom.js";

const UNUSUAL = 2;
const CONTEXT = 90;
export const unusual = (field) => field.apart >= UNUSUAL;

// `marks`: [[start, end, "given" or "suggested"]]; of a long text no more than `most` characters, around the first mark.
export function passage(text, marks, most = text.length) {
  const node = made("p", undefined, "passage");
  const first = marks.length ? Math.min(...marks.map(([start]) => start)) : 0;
  const from = text.length > most && first > most - CONTEXT ? first - CONTEXT : 0;
  const to = Math.min(text.length, from + most);
  if (from > 0) node.append("… ");
  let done = from;
  for (const [start, end, kind] of [...marks].sort((a, b) => a[0] - b[0])) {
    if (start < done || end > to) continue;
    const word = made("mark", text.slice(start, end), kind === "given" ? "for-given" : "for-suggested");
    word.title = `speaks for the ${kind} label`;
    node.append(text.slice(done, start), word);
    done = end;
  }
  node.append(text.slice(done, to));
  if (to < text.length) node.append(" …");
  return node;
}

export function passages(item, most) {
  return item.texts.flatMap(([column, text, marks]) => [
    ...(item.texts.length > 1 ? [made("h3", column, "soft")] : []),
    passage(text, marks || [], most),
  ]);
}

export const marked = (item) => item.texts.some(([, , marks]) => marks && marks.length);

export function fieldLine(field) {
  const row = made("tr", undefined, unusual(field) ? "apart" : "");
  const name = made("th", field.name);
  name.scope = "row";
  row.append(name, made("td", field.value), made("td", field.usual ? `usually ${field.usual}` : "", "soft"));
  return row;
}

export function nearRows(item) {
  return item.neighbours.flatMap((group) => {
    if (!group.rows.length) return [];
    const near = made("div", undefined, item.picture ? "near" : "near lines");
    near.append(...group.rows.map((row) => (item.picture
      ? picture(row.row, 160, `row ${row.row}, labelled ${row.label}`)
      : made("p", (group.label ? "" : `${row.label}: `) + (row.text || `row ${row.row}`)))));
    return [made("h2", group.label ? `Near rows labelled ${group.label}` : "Near rows"), near];
  });
}
