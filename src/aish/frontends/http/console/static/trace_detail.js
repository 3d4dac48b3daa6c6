// What is behind one row of a trace: all that is known of a step, a call or an event.

import { line, make } from "./dom.js";
import { dag } from "./dag.js";
import { diff, isDiff } from "./diff.js";
import { count, dollars, duration, pretty } from "./format.js";
import { longText } from "./long_text.js";
import { partNodes } from "./tool_card.js";
import { clean } from "./untrusted.js";

export function spanDetail(span, started) {
  const head = [make("h2", {}, clean(span.title)), line(`at +${duration(span.start - started)}, took ${span.end ? duration(span.end - span.start) : "so far"}`)];
  if (span.kind === "step") return [...head, ...step(span)];
  if (span.kind === "call") return [...head, ...call(span)];
  const steps = span.body?.plan?.steps ?? [];
  const plan = steps.length ? make("div", { class: "dag-frame", tabindex: "0", role: "group", "aria-label": "Plan" }, dag(steps)) : null;
  return [...head, plan, span.body ? longText(pretty(span.body)) : null];
}

export function eventDetail(event) {
  return [make("h2", {}, `Event ${event.seq}`), longText(pretty(event))];
}

function step(span) {
  const usage = span.tokens;
  return [
    line(`Model ${clean(span.model ?? "")}`),
    span.first ? line(`First token after ${duration(span.first - span.start)}`) : null,
    usage ? line(`${count(usage.prompt_tokens)} → ${count(usage.completion_tokens)} tokens, ${dollars(usage.cost ?? null)}`) : null,
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
