// One turn of a conversation on the page: the question, and the answer with its tool calls in their order. Takes events,
// live or recorded.

import { longText } from "./content.js";
import { button, icon, line, make } from "./dom.js";
import { count, dollars, duration } from "./format.js";
import { MarkdownStream } from "./markdown_stream.js";
import { PlanCard } from "./plan_card.js";
import { clean } from "./sanitise.js";
import { partNodes, ToolCard } from "./tool_card.js";

const LONG_QUESTION_CHARS = 4000;
const ENDS = {
  cancelled: "Stopped.",
  interrupted: "The server ended in the middle of this.",
  length: "The answer was cut at the model's limit.",
};

export class TurnView {
  /** `cardFor(call)` returns the card for the question about a call; `redo(view, edit)` asks again. */
  constructor({ cardFor, redo }) {
    this.id = "";
    this.question = [];
    this.cardFor = cardFor;
    this.calls = new Map();
    this.stream = null;
    this.reasoning = null;
    this.asked = make("div", { class: "asked" });
    this.answer = make("div", { class: "answer" });
    this.foot = make("footer", { class: "turn-foot dim" });
    this.actions = make(
      "span",
      { class: "actions" },
      button("Edit", () => redo(this, true), { class: "quiet small" }),
      button("Retry", () => redo(this, false), { class: "quiet small" }),
      button("Copy", (event) => this.#copy(event.target), { class: "quiet small" }),
    );
    this.node = make("article", { class: "turn", "aria-label": "Turn" }, this.asked, this.answer, this.foot);
  }

  /** Messages as the engine stores them. Messages before the last question came from another session. */
  ask(messages) {
    for (const message of messages) this.#message(message);
    this.question = messages.findLast((message) => message.role === "user")?.parts ?? [];
  }

  #message(message) {
    if (message.role === "user") {
      this.asked.append(make("div", { class: "bubble", dir: "auto" }, message.parts.map(questionPart)));
    } else if (message.role === "assistant") {
      this.asked.append(make("div", { class: "answer earlier" }, MarkdownStream.whole(message.text ?? "").node));
    } else if (message.role === "tool") {
      this.asked.append(line(`result of ${clean(message.name)}`), ...partNodes(message.parts));
    }
  }

  /** Shows it in a line beside the answer: a line below would move with every word. */
  running() {
    this.node.classList.add("running");
    this.node.setAttribute("aria-busy", "true");
    this.foot.hidden = true;
  }

  apply(body, call = "") {
    TAKE[body.type]?.(this, body, call);
  }

  write(text) {
    if (!this.stream) {
      this.stream = new MarkdownStream();
      this.#put(this.stream.node);
    }
    this.stream.push(text);
  }

  think(text) {
    if (!this.reasoning) {
      this.reasoning = new MarkdownStream();
      const inner = make("details", { class: "reasoning" }, make("summary", {}, "Reasoning"), this.reasoning.node);
      this.#put(inner);
    }
    this.reasoning.push(text);
  }

  cut() {
    this.stream?.end();
    this.reasoning?.end();
    this.stream = this.reasoning = null;
  }

  say(text, kind = "note") {
    this.cut();
    this.#put(line(clean(text), kind));
  }

  call(id, name, args) {
    this.cut();
    const card = new ToolCard(name, args);
    this.calls.set(id, card);
    this.#put(card.node);
    return card;
  }

  /** Above the answer, because the plan came first, even if its event arrives later. */
  plan() {
    if (!this.planned) {
      this.planned = new PlanCard();
      this.answer.prepend(this.planned.node);
    }
    return this.planned;
  }

  /** `facts`: `{model, usage, ms, firstMs}`, each of which may be missing. */
  finish(reason, facts = {}) {
    this.cut();
    this.node.classList.remove("running");
    this.node.removeAttribute("aria-busy");
    this.foot.hidden = false;
    if (ENDS[reason]) this.#put(line(ENDS[reason]));
    this.showFacts(facts);
  }

  showFacts(facts) {
    this.facts = facts;
    const trace = this.id ? make("a", { href: `#/trace/${encodeURIComponent(this.id)}` }, "Trace") : null;
    this.foot.replaceChildren(...factsLine(facts), ...(trace ? [trace] : []), this.actions);
  }

  #put(node) {
    this.answer.append(node);
  }

  async #copy(from) {
    const text = [...this.answer.querySelectorAll(".prose")].map((node) => node.innerText).join("\n\n");
    await navigator.clipboard?.writeText(text).catch(() => {});
    from.textContent = "Copied";
  }
}

const TAKE = {
  text_delta: (turn, body) => turn.write(body.text),
  reasoning_delta: (turn, body) => turn.think(body.text),
  step_started: (turn) => turn.cut(),
  tool_call_ready: (turn, body, call) => turn.call(call, body.name, body.arguments),
  decision_asked: (turn, body, call) => turn.calls.get(call)?.question(turn.cardFor(call, body.question)),
  decision_made: (turn, body, call) => turn.calls.get(call)?.decided(body.decision),
  tool_result: (turn, body, call) => (turn.calls.get(call) ?? turn.call(call, body.name, "")).finished(body),
  status: (turn, body) => turn.say(body.text),
  plan_accepted: (turn, body) => turn.plan().accept(body.plan),
  plan_step_started: (turn, body) => turn.plan().mark(body.id, "running"),
  plan_step_finished: (turn, body) => turn.plan().mark(body.id, body.status),
  plan_rejected: (turn, body) => turn.say(`A plan was not fit: ${body.errors.join("; ")}`),
  halted: (turn, body) => turn.say(`Halted: ${body.reason}`, "warn"),
  error: (turn, body) => turn.say(body.hint ? `${body.message} (${body.hint})` : body.message, "bad"),
};

function questionPart(part) {
  if (part.type === "image") return partNodes([part]);
  const text = part.text ?? "";
  if (text.length > LONG_QUESTION_CHARS || text.startsWith("Attached file ")) {
    const [title] = text.split("\n", 1);
    return make("details", {}, make("summary", {}, icon("M6 3h6l4 4v10H6z"), clean(title.slice(0, 120))), longText(text));
  }
  return make("p", {}, clean(text));
}

function factsLine({ model, usage, ms, firstMs }) {
  const tokens = usage && (usage.prompt_tokens || usage.completion_tokens);
  const said = [
    model,
    tokens && `${count(usage.prompt_tokens)} → ${count(usage.completion_tokens)} tokens`,
    tokens && dollars(usage.cost ?? null),
    firstMs && `first token ${duration(firstMs)}`,
    ms && duration(ms),
  ];
  return said.filter(Boolean).map((text) => make("span", {}, text));
}
