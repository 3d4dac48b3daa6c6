// Turns of a conversation that were begun elsewhere: in the shell, in another tab, by another client. Brings their
// events in order onto the page; what the feed did not bring is read from the trace.

import { find } from "./api.js";

export class Following {
  /** `viewOf(turn)` finds or makes the view of a turn. */
  constructor(viewOf) {
    this.viewOf = viewOf;
  }

  hear(event) {
    const view = this.viewOf(event.turn);
    if (view.isWhole || view.isCatchingUp) return;
    if (event.seq > (view.seq ?? 0) + 1) this.catchUp(event.turn);
    else take(view, event);
  }

  /** From where it stands to what is written now. */
  async catchUp(turn) {
    const view = this.viewOf(turn);
    view.isCatchingUp = true;
    const trace = await find(`/v1/traces/${encodeURIComponent(turn)}?after=${view.seq ?? 0}`).catch(() => null);
    view.isCatchingUp = false;
    for (const event of trace?.events ?? []) take(view, event);
  }
}

function take(view, event) {
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
