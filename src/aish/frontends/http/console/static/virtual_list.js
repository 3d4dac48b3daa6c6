// A list of any length whose visible rows only are in the page. All rows have the same height.
//
// A row has one link or button of class `row-main`, which is focused when the row is current. Arrow keys, j and k move it.

import { make } from "./dom.js";

const SPARE = 8; // rows beyond each edge, so that scrolling shows no gaps

export class VirtualList {
  /** `draw(item, place)` returns the content of a row; `near` is called when the end comes into view. */
  constructor({ label, rowPx, draw, near = () => {} }) {
    Object.assign(this, { rowPx, draw, near });
    this.items = [];
    this.current = -1;
    this.rows = new Map();
    this.space = make("div", { class: "rows-space", role: "list", "aria-label": label, "data-rows": "" });
    this.node = make("div", { class: "rows", tabindex: "0", role: "group", "aria-label": label }, this.space);
    this.node.addEventListener("scroll", () => this.#soon(), { passive: true });
    this.node.addEventListener("keydown", (event) => this.#key(event));
    this.space.addEventListener("move", (event) => this.move(event.detail));
    this.observer = new ResizeObserver(() => this.#soon());
    this.observer.observe(this.node);
  }

  /** Sets the items; the same objects keep their rows. */
  set(items, { redraw = false } = {}) {
    this.items = items;
    this.space.style.height = `${items.length * this.rowPx}px`;
    if (redraw) this.#clear();
    this.#show();
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  move(by) {
    if (!this.items.length) return;
    this.current = Math.min(Math.max(this.current + by, 0), this.items.length - 1);
    const top = this.current * this.rowPx;
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    const lowest = top + this.rowPx - this.node.clientHeight;
    if (lowest > this.node.scrollTop) this.node.scrollTop = lowest;
    this.#show();
    this.rows.get(this.current)?.node.querySelector(".row-main")?.focus({ preventScroll: true });
  }

  #key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.move(by);
  }

  #soon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.#show();
    });
  }

  #show() {
    const first = Math.max(Math.floor(this.node.scrollTop / this.rowPx) - SPARE, 0);
    const fit = Math.ceil((this.node.clientHeight || 800) / this.rowPx) + 2 * SPARE;
    const last = Math.min(first + fit, this.items.length);
    for (const [place, row] of this.rows) {
      if (place >= first && place < last && row.item === this.items[place]) continue;
      row.node.remove();
      this.rows.delete(place);
    }
    for (let place = first; place < last; place++) if (!this.rows.has(place)) this.#add(place);
    if (last > this.items.length - fit) this.near();
  }

  /** Inserts in order, so that Tab moves down the list. */
  #add(place) {
    const item = this.items[place];
    const given = { class: "row-item", role: "listitem", "aria-setsize": this.items.length, "aria-posinset": place + 1 };
    const node = make("div", given, this.draw(item, place));
    node.addEventListener("focusin", () => { this.current = place; });
    node.style.transform = `translateY(${place * this.rowPx}px)`;
    node.style.height = `${this.rowPx}px`;
    this.rows.set(place, { node, item });
    const after = this.rows.get(place + 1)?.node;
    if (after) after.before(node);
    else this.space.append(node);
  }

  #clear() {
    for (const row of this.rows.values()) row.node.remove();
    this.rows.clear();
  }
}
