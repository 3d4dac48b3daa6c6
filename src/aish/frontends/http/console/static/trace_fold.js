// Turns a turn's events into a waterfall: spans with start and end, and the sums. Pure. Takes one event at a time, so that a
// live turn costs no more than a recorded one.

const INSTANT = new Set(["status", "error", "halted", "plan_proposed", "plan_rejected", "plan_accepted"]);

export class Trace {
  spans = []; // {kind, title, start, end, parts: [{kind, start, end}], …}, in order of beginning
  events = [];
  totals = { steps: 0, calls: 0, prompt: 0, completion: 0, cost: null, firstMs: null };
  started = 0;
  ended = 0; // 0 while the turn runs
  last = 0;
  seq = 0;
  #step = null;
  #calls = new Map();
  #plan = new Map();

  /** Returns false for an event that was there already. */
  add(event) {
    if (event.seq <= this.seq) return false;
    this.seq = event.seq;
    this.events.push(event);
    this.started ||= event.at_ms;
    this.last = event.at_ms;
    const { body } = event;
    if (INSTANT.has(body.type)) this.#span(body.type, TITLES[body.type], event.at_ms, { body, end: event.at_ms });
    else this[`_${body.type}`]?.(event, body);
    return true;
  }

  get length() {
    return Math.max((this.ended || this.last) - this.started, 1);
  }

  #span(kind, title, start, more = {}) {
    const span = { kind, title, start, end: 0, parts: [], ...more };
    this.spans.push(span);
    return span;
  }

  _turn_started(event, body) {
    this.model = body.model;
    this.input = body.input;
  }

  _step_started(event, body) {
    this.#endStep(event.at_ms);
    this.totals.steps++;
    const title = `Step ${event.step || this.totals.steps}`;
    this.#step = this.#span("step", title, event.at_ms, { model: body.model, first: 0, chars: 0, tokens: null, text: [], reasoning: [] });
  }

  _text_delta(event, body) {
    this.#piece(event);
    this.#step?.text.push(body.text);
  }

  _reasoning_delta(event, body) {
    this.#piece(event);
    this.#step?.reasoning.push(body.text);
  }

  _arguments_delta(event) {
    this.#piece(event);
  }

  #piece(event) {
    const step = this.#step;
    if (!step) return;
    if (!step.first) {
      step.first = event.at_ms;
      this.totals.firstMs ??= event.at_ms - this.started;
    }
    step.lastPiece = event.at_ms;
  }

  _tool_call_started(event, body) {
    this.#piece(event);
    this.#call(event, body.name);
  }

  _tool_call_ready(event, body) {
    const call = this.#call(event, body.name);
    call.arguments = body.arguments;
    call.ready = event.at_ms;
    this.#endStep(event.at_ms, { keep: true });
  }

  _decision_asked(event, body) {
    const call = this.#call(event, body.question.tool);
    call.question = body.question;
    if (!call.decided) call.asked = event.at_ms; // later questions are those of an agent that the call has started
  }

  _decision_made(event, body) {
    const call = this.#call(event, "");
    call.decision = body.decision;
    call.effect = body.effect;
    call.decided = event.at_ms;
  }

  _tool_result(event, body) {
    const call = this.#call(event, body.name);
    Object.assign(call, { result: body, status: body.status, end: event.at_ms });
    this.#endStep(event.at_ms);
  }

  #call(event, name) {
    let call = this.#calls.get(event.call);
    if (!call) {
      call = this.#span("call", name, event.at_ms, { call: event.call });
      this.#calls.set(event.call, call);
      this.totals.calls++;
    }
    return call;
  }

  _plan_step_started(event, body) {
    this.#plan.set(body.id, this.#span("plan_step", `${body.id}: ${body.tool}`, event.at_ms));
  }

  _plan_step_finished(event, body) {
    const span = this.#plan.get(body.id);
    if (span) Object.assign(span, { end: event.at_ms, status: body.status });
  }

  _usage(event, body) {
    const { usage } = body;
    this.totals.prompt += usage.prompt_tokens ?? 0;
    this.totals.completion += usage.completion_tokens ?? 0;
    if (usage.cost !== null && usage.cost !== undefined) this.totals.cost = (this.totals.cost ?? 0) + usage.cost;
    const step = this.#step ?? this.#lastStep;
    if (step) Object.assign(step, { tokens: usage, prefixLost: body.prefix_lost ?? "" });
  }

  _turn_finished(event, body) {
    this.#endStep(event.at_ms);
    this.ended = event.at_ms;
    this.reason = body.reason;
    this.detail = body.detail;
    for (const span of this.spans) span.end ||= event.at_ms;
  }

  #lastStep = null;

  /** `keep`: more calls of the same step may follow. */
  #endStep(at, { keep = false } = {}) {
    if (!this.#step) return;
    this.#step.end = keep ? at : this.#step.lastPiece || at;
    this.#lastStep = this.#step;
    if (!keep) this.#step = null;
  }
}

/** The parts of a span's bar: `{kind, start, end}`; a running part ends now. */
export function partsOf(span, now) {
  const end = span.end || now;
  if (span.kind === "step") {
    const first = span.first || end;
    return [{ kind: "waiting", start: span.start, end: first }, { kind: "writing", start: first, end }];
  }
  if (span.kind !== "call") return [{ kind: "running", start: span.start, end }];
  const ready = span.ready ?? span.start;
  const decided = span.decided ?? (span.asked ? end : ready);
  const asked = span.asked ?? decided;
  return [
    { kind: "writing", start: span.start, end: ready },
    { kind: "waiting", start: ready, end: asked },
    { kind: "asking", start: asked, end: decided },
    { kind: "running", start: Math.max(decided, ready), end },
  ].filter((part) => part.end > part.start);
}

const TITLES = {
  status: "Status",
  error: "Error",
  halted: "Halted",
  plan_proposed: "Plan proposed",
  plan_rejected: "Plan rejected",
  plan_accepted: "Plan accepted",
};
