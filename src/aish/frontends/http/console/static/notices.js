// Short notices at the edge of the page that disappear by themselves; screen readers announce them once.

import { make } from "./dom.js";

const SHOWN_MS = 6000;
const MAX_NOTICES = 4;

export function notice(text, kind = "") {
  const place = document.getElementById("notices");
  while (place.children.length >= MAX_NOTICES) place.firstChild.remove();
  const shown = make("p", { class: `notice ${kind}` }, text);
  place.append(shown);
  setTimeout(() => shown.remove(), SHOWN_MS);
}
