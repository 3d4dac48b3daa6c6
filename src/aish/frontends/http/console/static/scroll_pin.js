// Keeps a growing conversation scrolled to its end, unless the user scrolls up.

const NEAR_PX = 48;

export class ScrollPin {
  constructor(scroll, content) {
    this.scroll = scroll;
    this.isAtEnd = true;
    this.top = 0;
    scroll.addEventListener("scroll", () => this.#moved(), { passive: true });
    this.observer = new ResizeObserver(() => this.isAtEnd && this.toEnd());
    this.observer.observe(content);
  }

  /** Only a scroll upwards leaves the end: when the event arrives, more text may have been added below. */
  #moved() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroll;
    if (scrollHeight - scrollTop - clientHeight < NEAR_PX) this.isAtEnd = true;
    else if (scrollTop < this.top) this.isAtEnd = false;
    this.top = scrollTop;
  }

  toEnd() {
    this.isAtEnd = true;
    this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  close() {
    this.observer.disconnect();
  }
}
