// The calls that wait for consent: read once, updated by the feed, and polled where there is no feed. Every card of a question
// uses this, so an answer from another tab appears in all of them.

import { find, Refused, send } from "./api.js";
import { feed } from "./feed.js";

const POLL_MS = 3000;
const HIDDEN_POLL_MS = 30_000; // a hidden tab still shows the number of waiting calls in its title
const MAX_TRIES = 10;
const TRY_MS = 200;
const MAX_ANSWERED = 200; // remembered for cards that are still on the page

class Pending {
  #all = new Map();
  #answered = new Map();
  #watched = new Set();
  available = true;

  start() {
    feed.listen((kind, data) => this.#hear(kind, data));
    feed.watch((state) => state === "live" && this.refresh());
    setInterval(() => feed.state !== "live" && !document.hidden && this.refresh(), POLL_MS);
    setInterval(() => document.hidden && this.refresh(), HIDDEN_POLL_MS);
    this.refresh();
  }

  list() {
    return [...this.#all.values()].sort((a, b) => a.created_ms - b.created_ms);
  }

  findCall(call) {
    return this.list().find((approval) => approval.question.call === call);
  }

  /** The question about a call. It may be stored a moment after the call was seen to wait. */
  async locate(call) {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const found = this.findCall(call);
      if (found) return found.id;
      await this.refresh();
      if (!this.findCall(call)) await new Promise((resolve) => setTimeout(resolve, TRY_MS));
    }
    throw new Error("this call no longer waits for an answer");
  }

  /** Its answer, if there is one. */
  answerTo(id) {
    return this.#answered.get(id);
  }

  watch(see) {
    this.#watched.add(see);
    return () => this.#watched.delete(see);
  }

  async refresh() {
    try {
      const found = await find("/v1/approvals");
      this.available = found !== null;
      this.#all = new Map((found?.data ?? []).map((approval) => [approval.id, approval]));
    } catch {
      return; // the next poll may work
    }
    this.#tell();
  }

  /** Returns the answer that counts: ours, or an earlier one. */
  async answer(id, given) {
    try {
      const approval = await send("POST", `/v1/approvals/${encodeURIComponent(id)}`, given);
      this.#resolve(id, { ...approval.answer, mine: true });
    } catch (error) {
      if (!(error instanceof Refused) || ![404, 409].includes(error.status)) throw error;
      this.#resolve(id, (await this.#first(id)) ?? { choice: "", note: error.message });
    }
    return this.#answered.get(id);
  }

  async #first(id) {
    const found = await find(`/v1/approvals/${encodeURIComponent(id)}`).catch(() => null);
    return found?.answer;
  }

  #hear(kind, data) {
    if (kind === "approval") {
      const approval = data.approval ?? data;
      if (approval.withdrawn) this.#resolve(approval.id, { choice: "", note: "no longer asked" });
      else if (approval.answer) this.#resolve(approval.id, approval.answer);
      else if (approval.question && !this.#answered.has(approval.id)) {
        this.#all.set(approval.id, approval);
        this.#tell();
      }
    } else if (data.body?.type === "decision_asked") {
      this.refresh();
    } else if (data.body?.type === "decision_made" && this.findCall(data.call)) {
      this.#resolve(this.findCall(data.call).id, { choice: data.body.decision.verdict === "deny" ? "no" : "yes" });
    }
  }

  #resolve(id, answer) {
    if (!this.#answered.get(id)?.mine) this.#answered.set(id, answer);
    if (this.#answered.size > MAX_ANSWERED) this.#answered.delete(this.#answered.keys().next().value);
    this.#all.delete(id);
    this.#tell();
  }

  #tell() {
    for (const see of [...this.#watched]) see();
  }
}

export const pending = new Pending();
