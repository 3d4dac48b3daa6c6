// One tool call in a conversation: its arguments, the decision and the result. Folded until opened.

import { longText, picture } from "./content.js";
import { make, replace } from "./dom.js";
import { duration, pretty } from "./format.js";
import { clean } from "./sanitise.js";

export class ToolCard {
  constructor(name, args) {
    this.name = clean(name);
    this.status = make("span", { class: "badge" }, "running");
    this.time = make("span", { class: "dim" });
    this.brief = make("span", { class: "brief dim" }, brief(args));
    this.asked = make("div");
    this.result = make("div");
    this.ask = make("div");
    this.details = make(
      "details",
      { class: "call" },
      make("summary", {}, make("code", {}, this.name), this.brief, this.status, this.time),
      make("div", { class: "call-body" }, make("h4", {}, "Arguments"), this.asked, this.result),
    );
    this.node = make("div", { class: "call-frame" }, this.details, this.ask);
    replace(this.asked, longText(pretty(args)));
  }

  /** The question of the gate, as a card to answer. */
  question(card) {
    replace(this.ask, card);
    this.#say("waits for you", "waiting");
  }

  decided(decision) {
    replace(this.ask);
    if (decision.verdict === "deny") this.#say("refused", "bad");
    else this.#say("running");
    if (decision.arguments) replace(this.asked, longText(pretty(decision.arguments)));
  }

  finished(result) {
    replace(this.ask);
    this.#say(result.status, result.status === "ok" ? "good" : "bad");
    this.time.textContent = result.duration_ms ? duration(result.duration_ms) : "";
    const cut = result.truncated_chars ? make("p", { class: "dim" }, `${result.truncated_chars} characters were left out`) : null;
    replace(this.result, make("h4", {}, "Result"), partNodes(result.parts), cut);
  }

  #say(text, kind = "") {
    this.status.textContent = text;
    this.status.className = `badge ${kind}`;
  }
}

export function partNodes(parts) {
  return (parts ?? []).map((part) => (part.type === "image" ? picture(part) : longText(part.text ?? "")));
}

function brief(args) {
  const text = typeof args === "string" ? args : JSON.stringify(args);
  return clean(text.length > 90 ? `${text.slice(0, 90)}…` : text);
}
