// A model's Markdown as nodes that grow: each block is drawn once; only the last one is drawn again while text arrives.
//
// `Block` updates what it has drawn: lists keep their finished items, tables their rows, and text is only added to code. So
// the end of a long reply costs no more than its beginning.

import { button, make } from "./dom.js";
import { allBlocks, cells } from "./markdown_blocks.js";
import { inline } from "./markdown_inline.js";

// A paragraph longer than this is drawn in pieces, of which only the last is drawn again.
const PIECE_CHARS = 2000;

export function drawBlocks(lines, depth = 0) {
  return allBlocks(lines, depth).map((block) => new Block(block, lines, depth).node);
}

export class Block {
  constructor(block, lines, depth = 0) {
    this.kind = block.kind;
    this.depth = depth;
    this.drawn = []; // the sources of the drawn parts
    this.node = SHELLS[block.kind](block);
    this.update(block, lines);
  }

  /** Returns false if it has become another kind of block and must be created again. */
  update(block, lines) {
    if (block.kind !== this.kind || this.node.dataset.shape !== shape(block)) return false;
    // Lines before the last never change, so this shows whether anything did.
    const seen = `${block.start} ${block.end} ${lines[block.end - 1]}`;
    if (seen === this.seen && block.end < lines.length) return true;
    this.seen = seen;
    UPDATES[block.kind](this, block, lines);
    return true;
  }

  /** Keeps the parts whose source is the same; draws the others. */
  keepUp(parent, sources, drawPart) {
    sources.forEach((source, place) => {
      if (this.drawn[place] === source) return;
      const part = drawPart(source, place);
      if (parent.children[place]) parent.children[place].replaceWith(part);
      else parent.append(part);
    });
    while (parent.children.length > sources.length) parent.lastChild.remove();
    this.drawn = sources;
  }
}

/** The key by which two readings of a growing block are the same element. */
function shape(block) {
  if (block.kind === "code") return block.language;
  if (block.kind === "heading") return String(block.level);
  if (block.kind === "list") return `${block.ordered} ${block.first}`;
  if (block.kind === "table") return `${block.head.join("|")} ${block.sides.join(" ")}`;
  return "";
}

function shaped(block, node) {
  node.dataset.shape = shape(block);
  return node;
}

const SHELLS = {
  paragraph: (block) => shaped(block, make("p", { dir: "auto" })),
  heading: (block) => shaped(block, make(`h${Math.min(block.level + 2, 6)}`, { dir: "auto" })),
  rule: (block) => shaped(block, make("hr")),
  quote: (block) => shaped(block, make("blockquote", { dir: "auto" })),
  list: (block) => shaped(block, listShell(block)),
  table: (block) => shaped(block, tableShell(block)),
  code: (block) => shaped(block, codeShell(block)),
};

function listShell(block) {
  return make(block.ordered ? "ol" : "ul", { dir: "auto", start: block.ordered && block.first !== 1 && block.first });
}

function tableShell(block) {
  const head = block.head.map((cell, place) => make("th", { class: block.sides[place], scope: "col" }, ...inline(cell)));
  return make(
    "div",
    { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
    make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody")),
  );
}

function codeShell(block) {
  const code = make("code");
  const name = make("span", { class: "language" }, block.language);
  const copy = button("Copy", () => copied(copy, code.textContent), { class: "quiet small" });
  const body = make("pre", { tabindex: "0", "aria-label": `Code ${block.language}`.trim(), role: "region" }, code);
  return make("div", { class: "code" }, make("div", { class: "code-bar" }, name, copy), body);
}

async function copied(from, text) {
  try {
    await navigator.clipboard.writeText(text);
    from.textContent = "Copied";
  } catch {
    from.textContent = "Not allowed";
  }
}

const UPDATES = {
  rule: () => {},
  paragraph: (drawn, block) => {
    const pieces = inPieces(block.lines.join("\n"));
    if (pieces.length === 1) {
      drawn.node.replaceChildren(...inline(pieces[0]));
      drawn.drawn = [];
      return;
    }
    if (!drawn.drawn.length) drawn.node.replaceChildren();
    drawn.keepUp(drawn.node, pieces, (piece) => make("span", {}, ...inline(piece)));
  },
  heading: (drawn, block) => drawn.node.replaceChildren(...inline(block.text)),
  quote: (drawn, block) => drawn.node.replaceChildren(...drawBlocks(block.lines, drawn.depth + 1)),
  list: (drawn, block) => {
    const sources = block.items.map((item) => item.join("\n"));
    drawn.keepUp(drawn.node, sources, (source) => drawItem(source, drawn.depth));
  },
  table: (drawn, block) => {
    const body = drawn.node.querySelector("tbody");
    drawn.keepUp(body, block.rows, (row) => drawRow(row, block.sides));
  },
  code: (drawn, block, lines) => growCode(drawn, lines, block.start + 1, block.last),
};

function drawItem(source, depth) {
  const blocks = allBlocks(source.split("\n"), depth + 1);
  const lines = source.split("\n");
  // A tight item is its text, not a paragraph with space around it.
  if (blocks[0]?.kind !== "paragraph") return make("li", {}, drawBlocks(lines, depth + 1));
  const rest = blocks.slice(1).map((block) => new Block(block, lines, depth + 1).node);
  return make("li", {}, ...inline(blocks[0].lines.join("\n")), rest);
}

function drawRow(row, sides) {
  const found = cells(row);
  return make("tr", {}, sides.map((side, place) => make("td", { class: side, dir: "auto" }, ...inline(found[place] ?? ""))));
}

/** Lines that are complete are set once, each batch as a text of its own, so that no text ever moves. */
function growCode(drawn, lines, first, last) {
  const code = drawn.node.querySelector("code");
  const whole = Math.max(last - first - 1, 0);
  let have = drawn.drawn[0] ?? 0;
  if (!code.firstChild || whole < have) {
    code.replaceChildren(""); // a line of it turned out to be the closing fence
    code.append("");
    have = 0;
  }
  if (whole > have) {
    code.lastChild.data = lines.slice(first + have, first + whole).join("\n") + "\n";
    code.append("");
  }
  code.lastChild.data = last > first ? lines[last - 1] : "";
  drawn.drawn = [whole];
}

function inPieces(text) {
  const pieces = [];
  while (text.length > PIECE_CHARS * 1.5) {
    const at = text.lastIndexOf(" ", PIECE_CHARS);
    const cut = at > PIECE_CHARS / 2 ? at + 1 : PIECE_CHARS;
    pieces.push(text.slice(0, cut));
    text = text.slice(cut);
  }
  return [...pieces, text];
}
