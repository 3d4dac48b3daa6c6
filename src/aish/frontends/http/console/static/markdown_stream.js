// A reply while it is written: takes text as it arrives, draws at animation frames, and never draws a finished block again;
// only the last block or two can change. An extremely long line is cut, with a button to show all of it.

import { button, make } from "./dom.js";
import { size } from "./format.js";
import { Block } from "./markdown.js";
import { nextBlock } from "./markdown_blocks.js";
import { clean } from "./sanitise.js";

const LINE_CHARS = 60_000; // longer than any readable paragraph
// The time for drawing in one frame; the rest is drawn in the next. A long task begins at 50 ms.
const FRAME_MS = 8;

export class MarkdownStream {
  constructor() {
    this.node = make("div", { class: "prose" });
    this.text = "";
    this.lines = [""]; // sanitised, except for the last
    this.last = ""; // the line that still grows, not sanitised
    this.from = 0; // the line where the open blocks begin
    this.open = []; // blocks that may still change their kind
    this.frame = 0;
    this.ended = false;
  }

  push(text) {
    this.text += text;
    const pieces = text.split("\n");
    this.last += pieces[0];
    for (let place = 1; place < pieces.length; place++) {
      this.lines[this.lines.length - 1] = shown(this.last);
      this.lines.push("");
      this.last = pieces[place];
    }
    this.#soon();
  }

  /** The text is complete. The rest is drawn over the next frames. */
  end() {
    this.ended = true;
    this.#soon();
  }

  /** Draws everything at once, for short text that is complete. */
  static whole(text) {
    const stream = new MarkdownStream();
    stream.push(text);
    stream.end();
    cancelAnimationFrame(stream.frame);
    stream.#draw();
    return stream;
  }

  #soon() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.frame = 0;
    this.lines[this.lines.length - 1] = shown(this.last);
    const until = performance.now() + FRAME_MS;
    let at = this.from;
    let place = 0; // among the open blocks
    for (let block; (block = nextBlock(this.lines, at)); at = block.end) {
      if (place > 0 && this.#isSettled(block)) {
        this.open.splice(0, place);
        this.from = at;
        place = 0;
        if (performance.now() > until) return this.#soon();
      }
      this.#show(place++, block);
    }
    for (const gone of this.open.splice(place)) gone.node.remove();
    return this.ended && this.#offerWhole();
  }

  /** Whether a block certainly begins here. The growing line, and the one before it, may still change that. */
  #isSettled(block) {
    return this.ended || block.start + 1 < this.lines.length - 1;
  }

  #show(place, block) {
    const before = this.open[place];
    if (before?.update(block, this.lines)) return;
    const drawn = new Block(block, this.lines);
    if (before) before.node.replaceWith(drawn.node);
    else this.node.append(drawn.node);
    this.open[place] = drawn;
  }

  #offerWhole() {
    const isCut = this.lines.some((line) => line.endsWith(CUT));
    if (!isCut || this.node.querySelector(".show-all")) return;
    const more = button(`Show all (${size(this.text.length)})`, () => {
      more.replaceWith(make("pre", { tabindex: "0", dir: "auto" }, clean(this.text)));
    }, { class: "show-all" });
    this.node.append(more);
  }
}

const CUT = " … (cut)";

function shown(line) {
  return line.length <= LINE_CHARS ? clean(line) : clean(line.slice(0, LINE_CHARS)) + CUT;
}
