// Nodes made from data: everything is set as text, never as markup.

export const at = (id) => document.getElementById(id);
export const all = (selector) => document.querySelectorAll(selector);
export const count = (number) => Number(number).toLocaleString("en");
export const percent = (share) => (share < 0.005 ? "<1 %" : `${Math.round(100 * share)} %`);
export const trusted = (item) => `trusted ${percent(item.trust)}`;

export function made(tag, text, kind) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

export function line(...cells) {
  const row = made("tr");
  row.append(...cells.map((cell) => (cell instanceof Node ? cell : made("td", cell))));
  return row;
}

// A few pixels are shown as they are; a photograph is drawn smoothly.
export const sharp = ({ target }) => target.classList.toggle("pixels", target.naturalWidth < 128);

export function picture(row, side, alt) {
  const image = made("img");
  image.addEventListener("load", sharp);
  image.alt = alt;
  image.src = `/picture/${Number(row)}?side=${side}`;
  return image;
}

// What a screen reader is told when the page has moved on.
export const say = (sentence) => { at("said").textContent = sentence; };

export function warn(sentence) {
  at("notice").textContent = sentence || "";
  at("notice").hidden = !sentence;
}
