// The navigation rail: views, the latest sessions, the state of the feed, the theme. A drawer on narrow screens.

import { find, send } from "./api.js";
import { button, icon, make, replace } from "./dom.js";
import { feed } from "./feed.js";
import { when } from "./format.js";
import { pending } from "./pending_approvals.js";
import { clean } from "./sanitise.js";
import { showKeys } from "./shortcuts.js";
import { nextTheme, theme } from "./theme.js";

const RECENT = 8;
const REFRESH_MS = 600; // at most this often, however much happens
const VIEWS = [
  ["chat", "New chat", "M4 4h12v9H9l-4 3v-3H4z"],
  ["sessions", "Sessions", "M4 5h12M4 10h12M4 15h8"],
  ["approvals", "Approvals", "M4 10l4 4 8-9"],
  ["runs", "Runs", "M4 4h4v4H4zM12 12h4v4h-4zM8 6h4v6"],
  ["mcp", "MCP servers", "M7 3v5M13 3v5M5 8h10v3a5 5 0 01-10 0zM10 16v2"],
  ["metrics", "Metrics", "M4 16V9M9 16V4M14 16v-5"],
];
const FEED = {
  connecting: "Connecting",
  live: "Live",
  stale: "Connection lost: what is shown may be old. Trying again",
  resting: "Paused while this tab is hidden",
  absent: "Live feed not available on this server",
};

export class Rail {
  constructor(app) {
    this.node = document.getElementById("rail");
    this.menu = document.getElementById("menu");
    this.recent = make("ul", { class: "recent" });
    this.state = make("p", { class: "feed-state", role: "status" });
    this.links = new Map(VIEWS.map(([name, label, path]) => [name, this.#link(name, label, path)]));
    this.badge = make("span", { class: "count", hidden: true });
    this.links.get("approvals").append(this.badge);
    replace(
      this.node,
      make("div", { class: "mark" }, "aish", make("span", { class: "dim version" }, app.info.version)),
      make("ul", { class: "places" }, [...this.links.values()].map((link) => make("li", {}, link))),
      make("h2", { class: "rail-title" }, "Recent"),
      this.recent,
      make("div", { class: "rail-foot" }, this.state, this.#controls(app)),
    );
    this.menu.addEventListener("click", () => this.#drawer(!this.node.classList.contains("open")));
    this.node.addEventListener("click", (event) => event.target.closest("a") && this.#drawer(false));
    document.getElementById("main").addEventListener("pointerdown", () => this.#drawer(false));
    this.node.addEventListener("keydown", (event) => event.key === "Escape" && this.#drawer(false));
    feed.watch((state) => this.#feed(state));
    feed.listen((kind, data) => /^turn_(started|finished)$/.test(data.body?.type ?? "") && this.refresh());
    pending.watch(() => this.#count());
    this.refresh();
  }

  /** `session` is the open one, "" in other views. */
  at(view, session = "") {
    this.session = session;
    for (const [name, link] of this.links) mark(link, name === view && !session);
    this.#markRecent();
    this.#count();
  }

  title(text) {
    this.name = text;
    this.#count();
  }

  refresh() {
    this.timer ??= setTimeout(() => this.#load(), this.loaded ? REFRESH_MS : 0);
  }

  async #load() {
    this.timer = undefined;
    this.loaded = true;
    const found = await find(`/v1/sessions?limit=${RECENT}`).catch(() => null);
    if (!found) return;
    const none = make("li", { class: "none dim" }, "No sessions yet");
    replace(this.recent, found.data.length ? null : none, found.data.map((session) => {
      const href = `#/chat/${encodeURIComponent(session.id)}`;
      const title = clean(session.title || session.id);
      return make("li", {}, make("a", { href, title, "data-session": session.id }, make("span", {}, title), make("time", { class: "dim" }, when(session.updated_ms))));
    }));
    this.#markRecent();
  }

  #markRecent() {
    for (const link of this.recent.querySelectorAll("a")) mark(link, link.dataset.session === this.session);
  }

  #link(name, label, path) {
    return make("a", { href: `#/${name}` }, icon(path), label);
  }

  #controls(app) {
    const label = () => `Theme: ${theme()}`;
    const toggle = button(label(), () => {
      nextTheme();
      toggle.textContent = label();
    }, { class: "quiet small", id: "theme" });
    const out = app.info.keys && button("Sign out", async () => {
      await send("DELETE", "/v1/console/session");
      location.reload();
    }, { class: "quiet small" });
    return make("div", { class: "row" }, toggle, button("Keys", showKeys, { class: "quiet small" }), out);
  }

  #feed(state) {
    this.state.textContent = FEED[state];
    this.state.dataset.state = state;
    document.documentElement.dataset.feed = state;
  }

  #count() {
    const number = pending.list().length;
    this.badge.textContent = `${number}`;
    this.badge.setAttribute("aria-label", `${number} waiting`);
    this.badge.hidden = number === 0;
    document.title = `${number ? `(${number}) ` : ""}${this.name ?? "Console"} · aish`;
  }

  #drawer(open) {
    if (open === this.node.classList.contains("open")) return;
    this.node.classList.toggle("open", open);
    this.menu.setAttribute("aria-expanded", String(open));
    if (open) this.node.querySelector("a").focus();
  }
}

function mark(link, isCurrent) {
  if (isCurrent) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}
