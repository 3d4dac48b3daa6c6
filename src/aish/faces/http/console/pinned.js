// Keeps a growing conversation at its end, as long as the reader is there. Whoever scrolls up is left alone.

const NEAR_PX = 48;

export class Pinned {
  constructor(scroll, content) {
    this.scroll = scroll;
    this.isAtEnd = true;
    this.seen = () => {
      this.isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_PX;
    };
    scroll.addEventListener("scroll", this.seen, { passive: true });
    this.observer = new ResizeObserver(() => this.isAtEnd && this.toEnd());
    this.observer.observe(content);
  }

  toEnd() {
    this.isAtEnd = true;
    this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  close() {
    this.observer.disconnect();
  }
}
