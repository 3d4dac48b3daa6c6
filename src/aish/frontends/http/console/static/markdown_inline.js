// Inline Markdown: code, strong, emphasis, strikethrough, links. Returns nodes, never markup. An image is shown as a link:
// fetching it would tell its server that it was read.

import { make } from "./dom.js";
import { safeUrl } from "./sanitise.js";

const MAX_DEPTH = 8;
// Marks are searched within pieces of this length, so that no text makes the search slow.
const PIECE_CHARS = 4000;
// One alternative each for: escape, code, image or link, bare address, strong, emphasis, strikethrough.
const MARK =
  /\\([\\`*_{}[\]()#+\-.!|~<>])|(`+)([^`]|[^`][\s\S]{0,1000}?[^`])\2(?!`)|(!?)\[([^[\]\n]{0,2000})\]\(\s*<?([^\s<>()]{0,4000}(?:\([^\s()]{0,500}\)[^\s<>()]{0,500})?)>?(?:\s+["'][^"'\n]{0,500}["'])?\s*\)|<?(\bhttps?:\/\/[^\s<>"'`]{1,2000}[^\s<>"'`.,;:!?)\]])>?|(\*\*|__)(?=\S)([\s\S]{0,1000}?\S)\8|([*_])(?=\S)([^*_]{0,1000}?[^\s*_])\10(?![\w*_])|~~(?=\S)([\s\S]{0,1000}?\S)~~/g;

export function inline(text, depth = 0) {
  if (depth >= MAX_DEPTH) return [text];
  if (text.length <= PIECE_CHARS) return marked(text, depth);
  return [...marked(text.slice(0, PIECE_CHARS), depth), ...inline(text.slice(PIECE_CHARS), depth)];
}

function marked(text, depth) {
  const nodes = [];
  let done = 0;
  for (const found of text.matchAll(MARK)) {
    if (isInsideWord(text, found)) continue;
    if (found.index < done) continue;
    nodes.push(...broken(text.slice(done, found.index)), node(found, depth));
    done = found.index + found[0].length;
  }
  nodes.push(...broken(text.slice(done)));
  return nodes;
}

/** `snake_case_names` contain no emphasis. */
function isInsideWord(text, found) {
  const mark = found[8] ?? found[10];
  return Boolean(mark?.startsWith("_")) && /\w/.test(text[found.index - 1] ?? "");
}

function node(found, depth) {
  const [whole, escaped, ticks, code, image, label, target, address, , strong, , emphasis, struck] = found;
  if (escaped) return escaped;
  if (ticks) return make("code", {}, code.replace(/^ (.*) $/s, "$1"));
  if (target !== undefined) return link(label, target, image, whole, depth);
  if (address) return anchor(address, [address]);
  if (strong) return make("strong", {}, ...inline(strong, depth + 1));
  if (emphasis) return make("em", {}, ...inline(emphasis, depth + 1));
  return make("s", {}, ...inline(struck, depth + 1));
}

function link(label, target, image, whole, depth) {
  if (!safeUrl(target)) return whole;
  if (image) return anchor(target, [`image: ${label || target}`]);
  return anchor(target, label ? inline(label, depth + 1) : [target]);
}

function anchor(target, children) {
  const url = safeUrl(target);
  return url ? make("a", { href: url, rel: "noopener noreferrer", target: "_blank", title: url }, ...children) : target;
}

/** Two spaces or a backslash at the end of a line break it. */
function broken(text) {
  if (!text) return [];
  const pieces = text.split(/(?: {2,}|\\)\n/);
  return pieces.flatMap((piece, place) => (place ? [make("br"), piece] : [piece])).filter((piece) => piece !== "");
}
