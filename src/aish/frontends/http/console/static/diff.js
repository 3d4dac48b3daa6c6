// A unified diff, line by line, with what goes and what comes told apart by more than colour.

import { make } from "./dom.js";
import { clean } from "./untrusted.js";

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
