// Ways to show content: a diff, a long text, an image, a table.

import { button, line, make } from "./dom.js";
import { size } from "./format.js";
import { clean, safeUrl } from "./sanitise.js";

const MAX_LINES = 2000;

export function isDiff(text) {
  return text.startsWith("--- ");
}

export function diff(text) {
  const lines = text.split("\n");
  const shown = lines.slice(0, MAX_LINES).map((line) => make("span", { class: kind(line) }, `${clean(line.slice(0, 2000))}\n`));
  if (lines.length > MAX_LINES) shown.push(make("span", { class: "dim" }, `… ${lines.length - MAX_LINES} more lines`));
  return make("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": "What would change" }, shown);
}

function kind(line) {
  if (line.startsWith("+++") || line.startsWith("---")) return "file";
  if (line.startsWith("@@")) return "place";
  return line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "";
}

export const SHOWN_CHARS = 20_000;

export function longText(text, given = {}) {
  const body = make("pre", { tabindex: "0", dir: "auto", ...given });
  if (text.length <= SHOWN_CHARS) {
    body.append(clean(text));
    return body;
  }
  body.append(clean(text.slice(0, SHOWN_CHARS)));
  const more = button(`Show all (${size(text.length)})`, () => {
    body.textContent = clean(text);
    more.remove();
  });
  return make("div", { class: "long" }, body, more);
}

const KINDS = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** `part` is `{media_type, data}` or `{url}`. */
export function picture(part) {
  if (part.data && KINDS.has(part.media_type)) {
    return make("img", { class: "picture", src: `data:${part.media_type};base64,${part.data}`, alt: "Attached image" });
  }
  const url = safeUrl(part.url ?? "");
  if (!url) return line("(an image that cannot be shown)");
  return make("a", { href: url, rel: "noopener noreferrer", target: "_blank" }, `image: ${url}`);
}

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
