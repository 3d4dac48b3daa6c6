// A reply while it is written: takes text as it comes, draws at animation frames, and never draws a settled block
// again; only the last block or two are open. A line beyond reason is cut, with a button to see the whole.

import { button, make } from "./dom.js";
import { size } from "./format.js";
import { Block } from "./markdown.js";
import { nextBlock } from "./markdown_blocks.js";
import { clean } from "./untrusted.js";

const LINE_CHARS = 60_000; // longer than any paragraph that somebody would read
// Work in one frame; what is left is drawn in the next. A long task begins at 50 ms.
const FRAME_MS = 8;

export class MarkdownStream {
  constructor() {
    this.node = make("div", { class: "prose" });
    this.text = "";
    this.lines = [""]; // cleaned, but for the last
    this.last = ""; // the line that still grows, as it came
    this.from = 0; // the line where the open blocks begin
    this.open = []; // those that may still become something else
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

  /** No more comes. What is not drawn yet is drawn over the next frames. */
  end() {
    this.ended = true;
    this.#soon();
  }

  /** All at once, for text that is there already and short. */
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
    let place = 0; // among the open ones
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

  /** Whether a block surely begins here. The line that still grows, and the one before it, may yet change that. */
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
