// The field for a question. Enter sends, Shift+Enter is a new line, Escape stops a running answer.

import { Attachments } from "./attachments.js";
import { button, icon, make } from "./dom.js";
import { notice } from "./notices.js";

const MAX_HEIGHT = 0.4; // of the window

export class Composer {
  /** `send(parts)` and `stop()` are functions of the chat. */
  constructor({ send, stop, pickers }) {
    this.send = send;
    this.stop = stop;
    this.attachments = new Attachments((text) => notice(text, "bad"));
    this.text = make("textarea", { rows: "1", placeholder: "Ask something", "aria-label": "Message", id: "message" });
    this.go = button("Send", () => this.#submit(), { class: "primary" });
    this.halt = button("Stop", () => this.stop(), { class: "danger", hidden: true });
    this.watch = make("a", { class: "button quiet", hidden: true }, "Trace");
    this.editing = make("div", { class: "editing", hidden: true });
    const attach = button(icon("M13 6l-6 6a2 2 0 003 3l6-6a4 4 0 00-6-6l-6 6"), () => this.attachments.choose(), {
      class: "quiet", "aria-label": "Attach files", title: "Attach files",
    });
    this.node = make(
      "form",
      { class: "composer", "aria-label": "Ask", onsubmit: (event) => event.preventDefault() },
      this.editing,
      this.attachments.node,
      this.text,
      make("div", { class: "row" }, attach, this.attachments.input, pickers.node, make("span", { class: "grow" }), this.watch, this.halt, this.go),
    );
    this.text.addEventListener("input", () => this.#fit());
    this.text.addEventListener("keydown", (event) => this.#key(event));
    this.text.addEventListener("paste", (event) => this.#files(event, event.clipboardData));
    this.node.addEventListener("dragover", (event) => event.preventDefault());
    this.node.addEventListener("drop", (event) => this.#files(event, event.dataTransfer));
  }

  busy(is) {
    this.halt.hidden = !is;
    this.go.hidden = is;
    if (!is) this.watch.hidden = true;
  }

  /** While a turn runs, its trace can be opened; the answer continues. */
  watching(turn) {
    this.watch.href = `#/trace/${encodeURIComponent(turn)}`;
    this.watch.hidden = false;
  }

  /** Edits an earlier question. `cancel` is called if it is not sent. */
  edit(text, cancel) {
    const leave = button("Cancel", () => {
      this.plain();
      cancel();
    }, { class: "quiet small" });
    this.warn("Asked again, this begins a new session with all that came before. ", leave);
    this.text.value = text;
    this.#fit();
    this.text.focus();
  }

  /** A hint about the next question. */
  warn(...words) {
    this.editing.replaceChildren(...words);
    this.editing.hidden = false;
  }

  plain() {
    this.editing.hidden = true;
    this.text.value = "";
    this.#fit();
  }

  #submit() {
    const text = this.text.value.trim();
    if ((!text && !this.attachments.files.length) || this.go.hidden) return;
    const parts = [...this.attachments.take(), ...(text ? [{ type: "text", text }] : [])];
    this.plain();
    this.send(parts);
  }

  #key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#submit();
    } else if (event.key === "Escape") {
      this.stop();
    }
  }

  #files(event, source) {
    const files = [...(source?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.attachments.add(files);
  }

  #fit() {
    this.text.style.height = "auto";
    const wanted = Math.min(this.text.scrollHeight + 2, window.innerHeight * MAX_HEIGHT);
    this.text.style.height = `${wanted}px`;
  }
}
