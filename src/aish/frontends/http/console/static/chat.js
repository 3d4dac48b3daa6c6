// The view of a conversation: shows its turns, sends questions, and follows turns that others started in it.

import { find, get } from "./api.js";
import { approvalCard } from "./approval_card.js";
import { asChat, ask, chatPart, findAnswer, startAnswer, stopAnswer } from "./chat_stream.js";
import { Composer } from "./composer.js";
import { button, line, make, replace } from "./dom.js";
import { feed } from "./feed.js";
import { some } from "./format.js";
import { notice } from "./notices.js";
import { pending } from "./pending_approvals.js";
import { Pickers } from "./pickers.js";
import { ScrollPin } from "./scroll_pin.js";
import { recordedTurn, TurnFollower } from "./turn_sources.js";
import { TurnView } from "./turn_view.js";

const SHOWN_TURNS = 30; // the latest; earlier ones on request
const MAX_HELD = 5000; // events of the feed, until it is known whether the turn is ours

export function show(place, [session], app) {
  const chat = new Chat(place, session ?? "", app);
  chat.start();
  return () => chat.leave();
}

class Chat {
  constructor(place, session, app) {
    this.session = session;
    this.app = app;
    this.views = new Map(); // by turn
    this.mine = new Set(); // turns that this view started
    this.isForeign = false; // of another key, so it cannot be continued
    this.isUnnamed = false; // sent, but the id of the turn is not known yet
    this.held = [];
    this.following = new TurnFollower((turn) => this.#viewOf(turn));
    this.pickers = new Pickers();
    this.composer = new Composer({ send: (parts) => this.send(parts), stop: () => this.stop(), pickers: this.pickers });
    this.turns = make("div", { class: "turns" });
    this.scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Conversation" }, this.turns);
    this.pinned = new ScrollPin(this.scroll, this.turns);
    this.said = make("div", { class: "sr", role: "status" });
    place.classList.add("chatting");
    place.append(make("h1", { class: "sr" }, "Chat"), this.scroll, this.composer.node, this.said);
    this.unlisten = feed.listen((kind, data) => kind === "event" && this.#hear(data));
  }

  async start() {
    if (!this.session) this.#welcome();
    this.composer.text.focus();
    const loading = this.pickers.load(this.app.info.models_default).catch((error) => notice(error.message, "bad"));
    const record = this.session ? await this.#load() : null;
    await loading;
    if (record) this.pickers.use(record.model);
  }

  leave() {
    this.unlisten();
    this.pinned.close();
  }

  stop() {
    stopAnswer(this.session);
  }

  async send(parts, earlier = []) {
    if (this.branch || this.isForeign) return this.#sendBranch(parts);
    this.turns.querySelector(".welcome")?.remove();
    if (!this.session) this.#name(newSession());
    const view = this.#view();
    view.ask([{ role: "user", parts }]);
    view.running();
    this.turns.append(view.node);
    this.pinned.toEnd();
    const messages = [...earlier, { role: "user", content: parts.map(chatPart) }];
    const body = { ...this.pickers.fields(), messages, session_id: this.session, use_server_history: true };
    await startAnswer(this.session, (signal) => this.#run(view, body, signal));
  }

  /** Repeats a turn in a new session that begins with everything before it. */
  async redo(view, edit) {
    if (findAnswer(this.session)) return;
    if (!view.id && !edit) return this.send(view.question); // it was refused, so there is nothing to replace
    this.branch = view.id;
    const text = view.question.filter((part) => part.type !== "image").map((part) => part.text).join("\n");
    if (!edit) return this.#sendBranch(view.question);
    return this.composer.edit(text, () => { this.branch = ""; });
  }

  async #sendBranch(parts) {
    const turn = this.branch;
    this.branch = "";
    const record = await get(`/v1/sessions/${encodeURIComponent(this.session)}`).catch(() => ({ turns: [] }));
    const turns = record.turns.filter((other) => !other.rewound);
    const place = turns.findIndex((other) => other.id === turn);
    const before = place < 0 ? turns : turns.slice(0, place);
    const earlier = before.flatMap((other) => other.messages);
    this.#begin(newSession());
    for (const other of before) this.#put(recordedTurn(this.#view(), other));
    await this.send(parts, earlier.map(asChat));
  }

  async #run(view, body, signal) {
    const begun = performance.now();
    const facts = { model: body.model };
    this.composer.busy(true);
    this.isUnnamed = true;
    let reason = "interrupted";
    try {
      for await (const event of ask(body, signal)) {
        if (event.type === "begun") this.#own(view, event.turn);
        else if (event.type === "ended") ({ reason, usage: facts.usage } = event);
        else {
          if (event.type === "text_delta") facts.firstMs ??= performance.now() - begun;
          view.apply(event, event.call);
        }
      }
    } catch (error) {
      reason = signal.aborted ? "cancelled" : "failed";
      if (reason === "failed") view.say(error.message, "bad");
    }
    this.composer.busy(false);
    view.finish(reason, { ...facts, usage: view.usage ?? facts.usage, ms: performance.now() - begun });
    this.said.textContent = reason === "answered" ? "The answer is complete." : "The answer has ended.";
    this.isUnnamed = false;
    this.held = [];
    this.app.changed();
  }

  #own(view, turn) {
    view.id = turn;
    this.composer.watching(turn);
    this.mine.add(turn);
    this.views.set(turn, view);
    this.isUnnamed = false;
    const held = this.held;
    this.held = [];
    for (const event of held) this.#hear(event);
  }

  /** Turns of this session that were started in the shell, in another tab or by another client. */
  #hear(event) {
    if (!this.session || !isSame(event.session, this.session)) return;
    if (this.mine.has(event.turn)) this.#resolve(event);
    else if (!this.isUnnamed) this.following.receive(event);
    else if (this.held.length < MAX_HELD) this.held.push(event);
  }

  /** Takes the plan and the cost from the feed: the stream of an answer does not have them. */
  #resolve(event) {
    const view = this.views.get(event.turn);
    if (event.body.type.startsWith("plan_")) view.apply(event.body);
    if (event.body.type !== "turn_finished") return;
    view.usage = event.body.usage;
    if (view.facts) view.showFacts({ ...view.facts, usage: view.usage });
  }

  async #load() {
    const record = await find(`/v1/sessions/${encodeURIComponent(this.session)}`).catch((error) => {
      notice(error.message, "bad");
      return undefined;
    });
    if (record === null) replace(this.turns, line("There is no such session any more.", "bad"));
    if (!record) return null;
    if (record.id !== this.session) this.#name(record.id); // a key sees its own sessions under short names
    const all = record.turns ?? [];
    const turns = all.filter((turn) => !turn.rewound);
    const rewound = all.find((turn) => turn.rewound);
    if (rewound) this.#mentionRewound(rewound, all.length - turns.length);
    // A key's sessions are stored under its name, which is not shown.
    this.isForeign = Boolean(this.app.info.keys && turns.length && turns[0].session === record.id);
    if (this.isForeign) this.composer.warn("This session is not of your key. A question begins a new one with all that came before.");
    const latest = turns.slice(-SHOWN_TURNS);
    if (latest.length < turns.length) this.#offerEarlier(turns.slice(0, -SHOWN_TURNS));
    for (const turn of latest) await this.#showTurn(turn);
    this.pinned.toEnd();
    this.#attend(findAnswer(this.session));
    return record;
  }

  /** An answer that was started in this tab and is still running. */
  async #attend(answer) {
    if (!answer) return;
    this.composer.busy(true);
    await answer.done;
    this.composer.busy(false);
  }

  /** A running turn is read from its trace; the feed brings the rest. */
  async #showTurn(turn) {
    if (this.views.has(turn.id)) return;
    if (turn.end) this.#put(recordedTurn(this.#view(), turn));
    else await this.following.catchUp(turn.id);
  }

  #mentionRewound(turn, count) {
    const link = make("a", { href: `#/trace/${encodeURIComponent(turn.id)}` }, "Show the first of them");
    this.turns.append(make("p", { class: "line note" }, `${some(count, "turn")} of this session ${count === 1 ? "was" : "were"} rewound. `, link));
  }

  #offerEarlier(turns) {
    const more = button(`Show ${turns.length} earlier`, () => {
      const views = turns.map((turn) => recordedTurn(this.#view(), turn));
      more.replaceWith(...views.map((view) => view.node));
    }, { class: "quiet" });
    this.turns.append(more);
  }

  #put(view) {
    this.views.set(view.id, view);
    this.turns.append(view.node);
  }

  #view() {
    return new TurnView({
      cardFor: (call, question) => approvalCard(question, pending.findCall(call)),
      redo: (view, edit) => this.redo(view, edit),
    });
  }

  #viewOf(turn) {
    if (this.views.has(turn)) return this.views.get(turn);
    const view = this.#view();
    view.id = turn;
    this.#put(view);
    return view;
  }

  #begin(session) {
    this.views.clear();
    this.turns.replaceChildren();
    this.isForeign = false;
    this.#name(session);
  }

  #name(session) {
    this.session = session;
    history.replaceState(null, "", `#/chat/${encodeURIComponent(session)}`);
    this.app.rail.at("chat", session);
  }

  #welcome() {
    const { workspace } = this.app.info;
    replace(
      this.turns,
      make(
        "div",
        { class: "welcome" },
        make("h2", {}, "What would you like to know?"),
        make("p", { class: "dim" }, workspace ? `Tools work in ${workspace}. ` : "", "Press ? for the keys."),
      ),
    );
  }
}

function isSame(theirs, ours) {
  return theirs === ours || Boolean(theirs?.endsWith(`/${ours}`));
}

function newSession() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `sess_${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
