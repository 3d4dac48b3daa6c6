// Asks for a chat completion, turns its chunks into the bodies of events as the live feed has them, and keeps the answers
// that are running in this tab. An answer outlives its view: looking at another view does not stop it.

import { open } from "./api.js";
import { events } from "./sse.js";

/** Yields `{type: "begun", turn}` and then bodies with `call`; ends with `{type: "ended", reason, usage}`. */
export async function* ask(body, signal) {
  const asked = { ...body, stream: true, trace: true, stream_options: { include_usage: true } };
  const reply = await open("POST", "/v1/chat/completions", asked, signal);
  yield { type: "begun", turn: reply.headers.get("x-turn-id") ?? "" };
  let end = { type: "ended", reason: "interrupted", usage: null };
  for await (const event of events(reply)) {
    if (!event.data) continue;
    if (event.data === "[DONE]") break;
    const chunk = JSON.parse(event.data);
    if (chunk.usage) end = { ...end, usage: chunk.usage };
    for (const found of bodies(chunk)) {
      if (found.type === "finish") end = { ...end, reason: found.reason };
      else yield found;
    }
  }
  yield end;
}

function* bodies(chunk) {
  if (chunk.error) {
    yield { type: "error", message: chunk.error.message };
    yield { type: "finish", reason: "failed" };
  }
  if (chunk.aish?.event) yield { ...chunk.aish.event.body, call: chunk.aish.event.call ?? "" };
  const choice = chunk.choices?.[0];
  if (!choice) return;
  if (choice.delta?.reasoning_content) yield { type: "reasoning_delta", text: choice.delta.reasoning_content };
  if (choice.delta?.content) yield { type: "text_delta", text: choice.delta.content };
  if (choice.finish_reason) yield { type: "finish", reason: choice.finish_reason === "length" ? "length" : "answered" };
}

/** Messages of the engine in the shape of chat completions, to carry a conversation over into another session. */
export function asChat(message) {
  if (message.role === "system") return { role: "system", content: message.text };
  if (message.role === "tool") {
    return { role: "tool", tool_call_id: message.tool_call_id, content: message.parts.map(chatPart) };
  }
  if (message.role === "user") return { role: "user", content: message.parts.map(chatPart) };
  const calls = (message.tool_calls ?? []).map(({ id, name, arguments: text }) => {
    return { id, type: "function", function: { name, arguments: text } };
  });
  return { role: "assistant", content: message.text ?? "", ...(calls.length ? { tool_calls: calls } : {}) };
}

export function chatPart(part) {
  if (part.type !== "image") return { type: "text", text: part.text };
  const url = part.data ? `data:${part.media_type};base64,${part.data}` : part.url;
  return { type: "image_url", image_url: { url } };
}

const all = new Map(); // by session: {controller, done}

/** `work(signal)` runs to its end, or until it is stopped. */
export async function startAnswer(session, work) {
  const controller = new AbortController();
  const done = work(controller.signal).finally(() => {
    if (all.get(session)?.controller === controller) all.delete(session);
  });
  all.set(session, { controller, done });
  await done;
}

export function findAnswer(session) {
  return all.get(session);
}

export function stopAnswer(session) {
  all.get(session)?.controller.abort();
}
