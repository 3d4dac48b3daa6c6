// The view of one turn: sums, a waterfall of its spans, its raw events, and the details of the chosen row. Live while the
// turn runs.

import { find } from "./api.js";
import { diff, isDiff, longText } from "./content.js";
import { dag } from "./dag.js";
import { button, draw, line, make, replace } from "./dom.js";
import { feed } from "./feed.js";
import { count, dollars, duration, pretty } from "./format.js";
import { rewindPanel } from "./rewind.js";
import { clean } from "./sanitise.js";
import { partNodes } from "./tool_card.js";
import { partsOf, Trace } from "./trace_fold.js";
import { VirtualList } from "./virtual_list.js";

const ROW_PX = 34;
const WIDE = 1000; // units of a bar

export function show(place, [turn]) {
  const view = new TraceView(turn ?? "");
  place.append(...view.nodes);
  view.load();
  return () => view.close();
}

class TraceView {
  constructor(turn) {
    this.turn = turn;
    this.trace = new Trace();
    this.head = make("div", { class: "sums" });
    this.detail = make("section", { class: "detail", "aria-label": "Detail", tabindex: "0" }, line("Choose a row to see what is behind it."));
    this.waterfall = new VirtualList({ label: "Waterfall", rowPx: ROW_PX, draw: (span) => this.#span(span) });
    this.events = new VirtualList({ label: "Events", rowPx: ROW_PX, draw: (event) => this.#event(event) });
    this.events.node.hidden = true;
    this.tabs = this.#tabs();
    this.nodes = [
      make("h1", {}, "Trace"),
      this.head,
      make("div", { class: "split" }, make("div", { class: "pane" }, this.tabs, this.waterfall.node, this.events.node), this.detail),
    ];
    this.early = [];
    this.unlisten = feed.listen((kind, data) => kind === "event" && data.turn === turn && this.#hear(data));
  }

  async load() {
    const found = await find(`/v1/traces/${encodeURIComponent(this.turn)}`).catch((error) => ({ error }));
    if (!found || found.error) {
      replace(this.head, line(found ? found.error.message : "There is no such turn.", "bad"));
      return;
    }
    this.session = found.session;
    for (const event of found.events) this.trace.add(event);
    for (const event of this.early) this.trace.add(event);
    this.early = null;
    this.#show();
  }

  close() {
    this.unlisten();
    this.waterfall.close();
    this.events.close();
    cancelAnimationFrame(this.frame);
  }

  #hear(event) {
    if (this.early) {
      this.early.push(event);
      return;
    }
    if (event.seq > this.trace.seq + 1) {
      this.#missed();
      return;
    }
    if (this.trace.add(event)) this.frame ||= requestAnimationFrame(() => this.#show());
  }

  /** Reads from the trace what the feed has skipped. */
  async #missed() {
    this.early = [];
    await this.load();
  }

  #show() {
    this.frame = 0;
    const { trace } = this;
    replace(this.head, this.#sums());
    // Every bar is relative to the total time, which grows while the turn runs.
    this.waterfall.set([...trace.spans], { redraw: true });
    this.events.set([...trace.events]);
  }

  #sums() {
    const { totals, ended, reason, model, length } = this.trace;
    const facts = [
      ["Model", clean(model ?? "")],
      ["State", ended ? reason : "running"],
      ["Time", duration(length)],
      ["First token", duration(totals.firstMs)],
      ["Steps", count(totals.steps)],
      ["Tool calls", count(totals.calls)],
      ["Tokens", `${count(totals.prompt)} → ${count(totals.completion)}`],
      ["Cost", totals.cost === null ? "unknown" : dollars(totals.cost)],
    ];
    const chat = this.session && make("a", { href: `#/chat/${encodeURIComponent(this.session)}` }, "Open its session");
    const rewind = this.session && ended && button("Rewind…", () => rewindPanel(this.detail, this.session, this.turn), { class: "quiet small" });
    return [make("dl", { class: "facts" }, facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))), chat, rewind];
  }

  #tabs() {
    const wide = button("Waterfall", () => this.#tab(this.waterfall), { "aria-pressed": "true" });
    const raw = button("Events", () => this.#tab(this.events), { "aria-pressed": "false" });
    this.pressed = new Map([[this.waterfall, wide], [this.events, raw]]);
    return make("div", { class: "tabs", role: "group", "aria-label": "What to show" }, wide, raw, legend());
  }

  #tab(chosen) {
    for (const [list, pressed] of this.pressed) {
      list.node.hidden = list !== chosen;
      pressed.setAttribute("aria-pressed", String(list === chosen));
    }
    chosen.set(chosen.items);
  }

  #span(span) {
    const now = this.trace.ended || Date.now();
    const spent = (span.end || now) - span.start;
    const open = () => replace(this.detail, spanDetail(span, this.trace.started));
    return make("button", { type: "button", class: `row-main span-row ${span.kind}`, onclick: open },
      make("span", { class: "span-title" }, span.kind === "call" ? make("code", {}, clean(span.title)) : span.title),
      this.#bar(span, now),
      make("span", { class: `dim end ${span.status && span.status !== "ok" ? "bad" : ""}` }, said(span, spent)));
  }

  #bar(span, now) {
    const { started, length } = this.trace;
    const at = (ms) => ((ms - started) / length) * WIDE;
    const bars = partsOf(span, now).map((part) =>
      draw("rect", { class: part.kind, x: at(part.start), y: 8, width: Math.max(at(part.end) - at(part.start), 3), height: 16, rx: 2 }));
    return draw("svg", { class: "bar-svg", viewBox: `0 0 ${WIDE} 32`, preserveAspectRatio: "none", "aria-hidden": "true" }, bars);
  }

  #event(event) {
    const open = () => replace(this.detail, eventDetail(event));
    return make("button", { type: "button", class: "row-main event-row", onclick: open },
      make("span", { class: "dim end" }, String(event.seq)),
      make("span", { class: "dim end" }, `+${duration(event.at_ms - this.trace.started)}`),
      make("code", {}, event.body.type),
      make("span", { class: "brief" }, brief(event.body)));
  }
}

function said(span, spent) {
  if (span.kind === "status" || span.kind === "error") return clean((span.body.text ?? span.body.message ?? "").slice(0, 40));
  if (span.kind === "call" && span.asked && !span.decided) return "waits for you";
  const status = span.status && span.status !== "ok" ? ` ${span.status}` : "";
  return span.kind === "step" || span.kind === "call" || span.kind === "plan_step" ? duration(spent) + status : "";
}

function brief(body) {
  const text = body.text ?? body.name ?? body.reason ?? body.message ?? body.model ?? "";
  return clean(String(text).slice(0, 120));
}

function legend() {
  const kinds = [["waiting", "waiting"], ["writing", "writing"], ["asking", "approval"], ["running", "running"]];
  return make("ul", { class: "legend" }, kinds.map(([kind, label]) => make("li", { class: kind }, label)));
}

function spanDetail(span, started) {
  const head = [make("h2", {}, clean(span.title)), line(`at +${duration(span.start - started)}, took ${span.end ? duration(span.end - span.start) : "so far"}`)];
  if (span.kind === "step") return [...head, ...step(span)];
  if (span.kind === "call") return [...head, ...call(span)];
  const steps = span.body?.plan?.steps ?? [];
  const plan = steps.length ? make("div", { class: "dag-frame", tabindex: "0", role: "group", "aria-label": "Plan" }, dag(steps)) : null;
  return [...head, plan, span.body ? longText(pretty(span.body)) : null];
}

function eventDetail(event) {
  return [make("h2", {}, `Event ${event.seq}`), longText(pretty(event))];
}

function step(span) {
  const usage = span.tokens;
  return [
    line(`Model ${clean(span.model ?? "")}`),
    span.first ? line(`First token after ${duration(span.first - span.start)}`) : null,
    usage ? line(`${count(usage.prompt_tokens)} → ${count(usage.completion_tokens)} tokens, ${dollars(usage.cost ?? null)}`) : null,
    usage?.cached_tokens ? line(`${count(usage.cached_tokens)} of the prompt were cached`) : null,
    span.prefixLost ? line(`The backend read the prompt again: ${clean(span.prefixLost)}`) : null,
    ...titled("Reasoning", span.reasoning.join("")),
    ...titled("Text", span.text.join("")),
  ];
}

function call(span) {
  return [
    span.effect ? line(`Effect: ${span.effect}`) : null,
    ...titled("Arguments", span.arguments === undefined ? "" : pretty(span.arguments)),
    ...(span.question ? asked(span.question) : []),
    ...(span.decision ? decided(span) : []),
    span.result?.child_turn ? make("p", {}, make("a", { href: `#/trace/${encodeURIComponent(span.result.child_turn)}` }, "Trace of the agent")) : null,
    ...(span.result ? [make("h3", {}, `Result: ${span.result.status}, ${duration(span.result.duration_ms)}`), partNodes(span.result.parts)] : []),
  ];
}

function asked(question) {
  const preview = question.preview ? (isDiff(question.preview) ? diff(question.preview) : longText(question.preview)) : null;
  return [make("h3", {}, "Approval asked"), line(clean(question.reason)), preview];
}

function decided(span) {
  const { verdict, rule, reason } = span.decision;
  const waited = span.asked ? ` after ${duration(span.decided - span.asked)}` : "";
  return [make("h3", {}, `Decision: ${verdict}${waited}`), line([rule, reason].filter(Boolean).map(clean).join(": "))];
}

function titled(title, text) {
  return text ? [make("h3", {}, title), longText(text)] : [];
}
