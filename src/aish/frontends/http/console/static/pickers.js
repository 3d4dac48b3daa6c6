// The choices for a question: model, mode, tools, planner. Remembered between visits.

import { find } from "./api.js";
import { button, line, make, replace } from "./dom.js";
import { some } from "./format.js";
import { keep, recall } from "./local_storage.js";
import { clean } from "./sanitise.js";

const SHOWN_TOOLS = 200; // of a filtered list; typing narrows it

const MODES = [["", "Server's mode"], ["ask", "Ask"], ["edits", "Edits unasked"], ["auto", "Auto"], ["plan", "Plan only"]];

export class Pickers {
  constructor() {
    this.tools = [];
    this.picked = recall("tools", null); // null: what the server gives every request
    this.model = make("select", { "aria-label": "Model", class: "model" });
    this.model.addEventListener("change", () => keep("model", this.model.value));
    this.planner = make("input", { type: "checkbox", role: "switch", id: "planner" });
    this.planner.checked = recall("planner", false);
    this.planner.addEventListener("change", () => keep("planner", this.planner.checked));
    this.mode = make("select", { "aria-label": "Mode", title: "How much runs without a question" }, MODES.map(([value, label]) => make("option", { value }, label)));
    this.mode.value = recall("mode", "");
    this.mode.addEventListener("change", () => keep("mode", this.mode.value));
    this.toolsButton = make("button", { type: "button", class: "quiet", popovertarget: "tools-panel" }, "Tools");
    this.list = make("div", { class: "tool-list" });
    const about = "What the server's configuration gives every request";
    this.byServer = button("Server's choice", () => this.#pick(null), { class: "small", title: about });
    this.panel = this.#panel();
    this.node = make(
      "div",
      { class: "pickers" },
      this.model,
      this.mode,
      this.toolsButton,
      make("label", { class: "switch", for: "planner" }, this.planner, "Plan first"),
      this.panel,
    );
  }

  async load(preferred) {
    const [models, tools] = await Promise.all([find("/v1/models"), find("/v1/tools").catch(() => null)]);
    const names = (models?.data ?? []).filter((model) => !model.capabilities?.embeddings || model.capabilities?.tools !== false);
    this.#offerModels(names.map((model) => model.id), preferred);
    this.tools = tools?.data ?? [];
    this.missing = tools === null;
    this.#label();
    this.#showTools("");
  }

  /** The fields of a request. */
  fields() {
    const fields = { model: this.model.value };
    if (this.planner.checked) fields.planner = true;
    if (this.mode.value) fields.mode = this.mode.value;
    if (this.picked === null) return fields;
    const named = this.picked.map((name) => ({ type: "function", function: { name } }));
    if (!named.length) return { ...fields, tool_choice: "none" };
    const among = { type: "allowed_tools", allowed_tools: { mode: "auto", tools: named } };
    return { ...fields, tools: named, tool_choice: among };
  }

  use(model) {
    if ([...this.model.options].some((option) => option.value === model)) this.model.value = model;
  }

  #offerModels(names, preferred) {
    replace(this.model, names.map((name) => make("option", { value: name }, clean(name))));
    const wanted = [recall("model", ""), preferred, names[0]].find((name) => name && names.includes(name));
    if (wanted) this.model.value = wanted;
    else replace(this.model, make("option", { value: "" }, "no models found"));
  }

  #panel() {
    const search = make("input", { type: "search", placeholder: "Find a tool", "aria-label": "Find a tool" });
    search.addEventListener("input", () => this.#showTools(search.value.trim().toLowerCase()));
    return make(
      "div",
      { popover: "auto", id: "tools-panel", class: "panel", role: "dialog", "aria-label": "Tools" },
      search,
      make("div", { class: "row" }, this.byServer, button("All", () => this.#pick(this.tools.map((tool) => tool.name)), { class: "small" }), button("None", () => this.#pick([]), { class: "small" })),
      this.list,
    );
  }

  #showTools(search) {
    this.search = search;
    if (this.missing) return replace(this.list, line("not available on this server"));
    const found = this.tools.filter((tool) => `${tool.name} ${tool.description}`.toLowerCase().includes(search));
    if (!found.length) return replace(this.list, line("no such tool"));
    const more = found.length > SHOWN_TOOLS ? line(`and ${found.length - SHOWN_TOOLS} more: type to narrow it down`) : null;
    return replace(this.list, found.slice(0, SHOWN_TOOLS).map((tool) => this.#row(tool)), more);
  }

  #row(tool) {
    const box = make("input", { type: "checkbox" });
    box.checked = this.picked?.includes(tool.name) ?? false;
    box.addEventListener("change", () => {
      const others = (this.picked ?? []).filter((name) => name !== tool.name);
      this.#pick(box.checked ? [...others, tool.name] : others, { redraw: false });
    });
    const about = make("span", { class: "dim" }, clean((tool.description ?? "").slice(0, 140)));
    return make("label", { class: "tool" }, box, make("span", {}, make("code", {}, clean(tool.name)), " ", about), effectBadge(tool.effect));
  }

  #pick(names, { redraw = true } = {}) {
    this.picked = names;
    keep("tools", names);
    this.#label();
    if (redraw) this.#showTools(this.search ?? "");
  }

  #label() {
    const known = new Set(this.tools.map((tool) => tool.name));
    if (this.picked) this.picked = this.missing ? this.picked : this.picked.filter((name) => known.has(name));
    this.byServer.setAttribute("aria-pressed", String(this.picked === null));
    this.toolsButton.textContent = this.picked === null ? "Tools" : this.picked.length ? some(this.picked.length, "tool") : "No tools";
  }
}

/** Nothing in the usual mode. */
export function modeBadge(mode) {
  return mode && mode !== "ask" ? make("span", { class: "badge" }, `${mode} mode`) : null;
}

export function effectBadge(effect) {
  return make("span", { class: `badge effect-${effect}` }, effect ?? "");
}
