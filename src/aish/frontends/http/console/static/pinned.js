// Keeps a growing conversation at its end, as long as the reader is there. Whoever scrolls up is left alone.

const NEAR_PX = 48;

export class Pinned {
  constructor(scroll, content) {
    this.scroll = scroll;
    this.isAtEnd = true;
    this.top = 0;
    scroll.addEventListener("scroll", () => this.#moved(), { passive: true });
    this.observer = new ResizeObserver(() => this.isAtEnd && this.toEnd());
    this.observer.observe(content);
  }

  /** Only a move upwards leaves the end: by the time one is heard of, more may stand below. */
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
