// Markdown blocks: which lines belong together, and as what. Pure; knows neither the page nor inline marks.
//
// A block is `{kind, start, end, …}` over an array of lines, `end` not included. Anything that is not recognised is a
// paragraph, so no input is refused; nesting is followed to a depth and is text below it.

const MAX_DEPTH = 6;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +|$)/;
const DELIMITERS = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const BLANK = /^\s*$/;

/** The block that begins at or after line `at`, or null. */
export function nextBlock(lines, at, depth = 0) {
  while (at < lines.length && BLANK.test(lines[at])) at++;
  if (at >= lines.length) return null;
  if (depth >= MAX_DEPTH) return { kind: "paragraph", start: at, end: lines.length, lines: lines.slice(at) };
  for (const read of [fence, heading, rule, quote, table, list]) {
    const block = read(lines, at);
    if (block) return block;
  }
  return paragraph(lines, at);
}

export function allBlocks(lines, depth = 0) {
  const found = [];
  for (let at = 0, block; (block = nextBlock(lines, at, depth)); at = block.end) found.push(block);
  return found;
}

function fence(lines, start) {
  const opened = FENCE.exec(lines[start]);
  if (!opened) return null;
  const [, marks, info] = opened;
  const closes = new RegExp(`^ {0,3}${marks[0]}{${marks.length},}\\s*$`);
  let end = start + 1;
  while (end < lines.length && !closes.test(lines[end])) end++;
  const closed = end < lines.length;
  const language = info.trim().split(/\s/)[0];
  return { kind: "code", start, end: closed ? end + 1 : end, last: end, language, closed };
}

function heading(lines, start) {
  const found = HEADING.exec(lines[start]);
  return found && { kind: "heading", start, end: start + 1, level: found[1].length, text: found[2] };
}

function rule(lines, start) {
  return RULE.test(lines[start]) ? { kind: "rule", start, end: start + 1 } : null;
}

function quote(lines, start) {
  let end = start;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  return end > start && { kind: "quote", start, end, lines: lines.slice(start, end).map((l) => l.replace(QUOTE, "")) };
}

function table(lines, start) {
  const isTable = lines[start].includes("|") && start + 1 < lines.length && lines[start + 1].includes("-");
  if (!isTable || !DELIMITERS.test(lines[start + 1])) return null;
  const head = cells(lines[start]);
  const marks = cells(lines[start + 1]);
  if (head.length !== marks.length) return null;
  let end = start + 2;
  while (end < lines.length && lines[end].includes("|") && !BLANK.test(lines[end])) end++;
  return { kind: "table", start, end, head, sides: marks.map(side), rows: lines.slice(start + 2, end) };
}

export function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function side(mark) {
  if (mark.endsWith(":")) return mark.startsWith(":") ? "center" : "end";
  return "start";
}

function list(lines, start) {
  const first = ITEM.exec(lines[start]);
  if (!first || RULE.test(lines[start])) return null;
  const ordered = /\d/.test(first[2]);
  const items = [];
  let end = start;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    if (!found || found[1].length > first[1].length + 1 || /\d/.test(found[2]) !== ordered) break;
    const stop = itemEnd(lines, end, found);
    items.push(lines.slice(end, stop).map((l, i) => (i ? outdent(l, found[0].length) : l.slice(found[0].length))));
    end = stop;
  }
  return { kind: "list", start, end, ordered, first: Number.parseInt(first[2], 10) || 1, items };
}

/** An item includes indented lines, lines that continue its paragraph, and blank lines between. */
function itemEnd(lines, start, found) {
  const indent = found[1].length + 2;
  let end = start + 1;
  for (let at = end; at < lines.length; at++) {
    const text = lines[at];
    if (BLANK.test(text)) continue;
    const deep = text.length - text.trimStart().length >= indent;
    const lazy = at === end && !BLANK.test(lines[at - 1]) && !begins(lines, at);
    if (!deep && !lazy) return ITEM.test(text) ? at : end;
    end = at + 1;
  }
  return end;
}

function outdent(line, most) {
  const spaces = line.length - line.trimStart().length;
  return line.slice(Math.min(spaces, most));
}

function paragraph(lines, start) {
  let end = start + 1;
  while (end < lines.length && !BLANK.test(lines[end]) && !begins(lines, end)) end++;
  return { kind: "paragraph", start, end, lines: lines.slice(start, end) };
}

/** Whether a line begins a block of its own in the middle of a paragraph. */
function begins(lines, at) {
  const text = lines[at];
  if (FENCE.test(text) || HEADING.test(text) || RULE.test(text) || QUOTE.test(text) || ITEM.test(text)) return true;
  return Boolean(table(lines, at));
}
