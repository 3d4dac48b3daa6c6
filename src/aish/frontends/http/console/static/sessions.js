// The view of all sessions: search, continue, save as a file, delete. More are loaded while scrolling.

import { get, send } from "./api.js";
import { button, make, replace } from "./dom.js";
import { moment, some, when } from "./format.js";
import { notice } from "./notices.js";
import { clean } from "./sanitise.js";
import { VirtualList } from "./virtual_list.js";

const PAGE = 200;
const TYPING_MS = 200;
const ROW_PX = 60;

export function show(place, _rest, app) {
  const sessions = new Sessions(app);
  place.append(...sessions.nodes);
  sessions.begin("");
  return () => sessions.list.close();
}

class Sessions {
  constructor(app) {
    this.app = app;
    this.search = make("input", { type: "search", placeholder: "Search titles and messages", "aria-label": "Search sessions" });
    this.search.addEventListener("input", () => this.#typed());
    this.told = make("p", { class: "dim", role: "status" });
    this.list = new VirtualList({
      label: "Sessions", rowPx: ROW_PX, draw: (session) => this.#row(session), near: () => this.#more(),
    });
    this.nodes = [make("h1", {}, "Sessions"), make("div", { class: "tools-row" }, this.search, this.told), this.list.node];
  }

  begin(search) {
    this.asked = search;
    this.all = [];
    this.next = "";
    this.list.node.scrollTop = 0;
    this.#more();
  }

  async #more() {
    if (this.next === null || this.loading === this.asked) return;
    const asked = (this.loading = this.asked);
    try {
      const query = new URLSearchParams({ limit: PAGE, ...(asked && { search: asked }), ...(this.next && { before: this.next }) });
      const found = await get(`/v1/sessions?${query}`);
      if (asked !== this.asked) return;
      this.all = [...this.all, ...found.data];
      this.next = found.next ?? null;
    } catch (error) {
      this.next = null;
      notice(error.message, "bad");
    } finally {
      if (this.loading === asked) this.loading = null;
    }
    this.#show();
  }

  #show() {
    const more = this.next === null ? "" : " so far";
    this.told.textContent = this.all.length ? `${some(this.all.length, "session")}${more}` : "No sessions.";
    this.list.set(this.all);
  }

  #typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.begin(this.search.value.trim()), TYPING_MS);
  }

  #row(session) {
    const id = encodeURIComponent(session.id);
    const title = clean(session.title || session.id);
    return [
      make("a", { class: "row-main", href: `#/chat/${id}` },
        make("strong", {}, title),
        make("span", { class: "dim" }, `${some(session.turns, "turn")} · ${clean(session.model)}`)),
      make("time", { class: "dim", title: moment(session.updated_ms) }, when(session.updated_ms)),
      make("a", { class: "button quiet small", href: `/v1/sessions/${id}/export`, download: true, "aria-label": `Export ${title}` }, "Export"),
      button("Delete", (event) => this.#delete(event.target, session), { class: "quiet small", "aria-label": `Delete ${title}` }),
    ];
  }

  /** Asks a second time, in the row: a deletion cannot be undone. */
  async #delete(from, session) {
    if (from.dataset.sure === undefined) {
      from.dataset.sure = "";
      replace(from, "Really?");
      from.addEventListener("blur", () => { delete from.dataset.sure; from.textContent = "Delete"; }, { once: true });
      from.focus();
      return;
    }
    try {
      await send("DELETE", `/v1/sessions/${encodeURIComponent(session.id)}`);
      this.all = this.all.filter((other) => other !== session);
      this.#show();
      this.app.changed();
    } catch (error) {
      notice(error.message, "bad");
    }
  }
}
