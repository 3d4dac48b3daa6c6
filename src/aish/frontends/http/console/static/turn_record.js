// A turn out of the store, onto the page: its messages as if they were events.

import { clean } from "./untrusted.js";

/** `messages` begins with the input, which is the question; the rest is what the turn left. */
export function recordedTurn(view, turn) {
  view.id = turn.id;
  view.isWhole = true; // the feed has nothing to add
  view.ask(turn.input);
  for (const message of turn.messages.slice(turn.input.length)) take(view, message);
  const ms = turn.finished_ms ? turn.finished_ms - turn.started_ms : 0;
  view.finish(turn.end ?? "interrupted", { model: clean(turn.model), usage: turn.usage, ms });
  return view;
}

function take(view, message) {
  if (message.role === "assistant") {
    if (message.reasoning) view.think(message.reasoning);
    if (message.text) view.write(message.text);
    view.cut();
    for (const call of message.tool_calls ?? []) view.call(call.id, call.name, call.arguments);
  } else if (message.role === "tool") {
    view.calls.get(message.tool_call_id)?.finished({ status: "done", parts: message.parts });
  }
}
