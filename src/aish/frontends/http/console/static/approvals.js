// The view of all calls that wait for consent.

import { approvalCard } from "./approval_card.js";
import { line, make } from "./dom.js";
import { when } from "./format.js";
import { pending } from "./pending_approvals.js";

export function show(place) {
  const list = make("div", { class: "approval-list" });
  const none = line("Nothing waits for an answer. Calls that need consent appear here and in their chat.");
  const cards = new Map();
  place.append(make("h1", {}, "Approvals"), none, list);

  const update = () => {
    none.hidden = pending.list().length > 0 || cards.size > 0;
    if (!pending.available) none.textContent = "not available on this server";
    for (const approval of pending.list()) {
      if (cards.has(approval.id)) continue;
      const card = approvalCard(approval.question, approval);
      card.prepend(make("p", { class: "dim" }, `asked ${when(approval.created_ms)}, refused at ${when(approval.expires_ms)} without an answer`));
      cards.set(approval.id, card);
      list.append(card);
    }
  };
  update();
  pending.refresh();
  return pending.watch(update);
}
