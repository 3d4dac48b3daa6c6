// Short words at the edge of the page that go away by themselves; screen readers hear them once.

import { make } from "./dom.js";

const SHOWN_MS = 6000;
const MOST = 4;

export function notice(text, kind = "") {
  const place = document.getElementById("notices");
  while (place.children.length >= MOST) place.firstChild.remove();
  const shown = make("p", { class: `notice ${kind}` }, text);
  place.append(shown);
  setTimeout(() => shown.remove(), SHOWN_MS);
}
