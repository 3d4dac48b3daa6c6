// Brings turns onto the page: stored ones from their messages, and running ones from the live feed. Running turns may
// have been started in the shell, in another tab or by another client. Events that the feed skipped are read from the trace.

import { find } from "./api.js";
import { clean } from "./sanitise.js";

export class TurnFollower {
  /** `viewOf(turn)` finds or creates the view of a turn. */
  constructor(viewOf) {
    this.viewOf = viewOf;
  }

  receive(event) {
    const view = this.viewOf(event.turn);
    if (view.isWhole || view.isCatchingUp) return;
    if (event.seq > (view.seq ?? 0) + 1) this.catchUp(event.turn);
    else applyEvent(view, event);
  }

  /** Reads the events after the last one shown from the trace. */
  async catchUp(turn) {
    const view = this.viewOf(turn);
    view.isCatchingUp = true;
    const trace = await find(`/v1/traces/${encodeURIComponent(turn)}?after=${view.seq ?? 0}`).catch(() => null);
    view.isCatchingUp = false;
    for (const event of trace?.events ?? []) applyEvent(view, event);
  }
}

function applyEvent(view, event) {
  const { body } = event;
  if (event.seq <= (view.seq ?? 0)) return;
  view.seq = event.seq;
  if (body.type === "turn_started") {
    view.ask(body.input);
    view.running();
    view.began = { model: body.model, at: event.at_ms };
  } else if (body.type === "turn_finished") {
    view.finish(body.reason, { model: view.began?.model, usage: body.usage, ms: event.at_ms - view.began?.at });
  } else view.apply(body, event.call);
}

/** `messages` begins with the input, which is the question. */
export function recordedTurn(view, turn) {
  view.id = turn.id;
  view.isWhole = true; // complete, so the feed is ignored
  view.ask(turn.input);
  for (const message of turn.messages.slice(turn.input.length)) applyMessage(view, message);
  const ms = turn.finished_ms ? turn.finished_ms - turn.started_ms : 0;
  view.finish(turn.end ?? "interrupted", { model: clean(turn.model), usage: turn.usage, ms });
  return view;
}

function applyMessage(view, message) {
  if (message.role === "assistant") {
    if (message.reasoning) view.think(message.reasoning);
    if (message.text) view.write(message.text);
    view.cut();
    for (const call of message.tool_calls ?? []) view.call(call.id, call.name, call.arguments);
  } else if (message.role === "tool") {
    view.calls.get(message.tool_call_id)?.finished({ status: "done", parts: message.parts });
  }
}
