// A plain table of texts and nodes, which scrolls by itself where it is too wide.

import { make } from "./dom.js";

export function table(caption, heads, rows) {
  return make(
    "div",
    { class: "table", tabindex: "0", role: "group", "aria-label": caption },
    make(
      "table",
      {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, rows.map((cells) => make("tr", {}, cells.map((cell) => make("td", {}, cell))))),
    ),
  );
}
