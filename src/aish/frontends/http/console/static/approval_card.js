// A question of the gate, with everything the shell would show, and its answers: yes, no, for the rest of the turn, always,
// with other arguments. Keys work while the card has the focus.

import { diff, isDiff, longText } from "./content.js";
import { button, line, make, replace } from "./dom.js";
import { pretty } from "./format.js";
import { pending } from "./pending_approvals.js";
import { effectBadge, modeBadge } from "./pickers.js";
import { clean } from "./sanitise.js";

const CHOICES = { yes: "allowed", no: "refused", step: "allowed, all of them", turn: "allowed for this turn", session: "allowed for this session", always: "always allowed", edit: "allowed with other arguments" };

/** `approval` may be unknown when a call begins to wait; then it is found by its call. */
export function approvalCard(question, approval = null) {
  const card = new Card(question, approval);
  return card.node;
}

class Card {
  constructor(question, approval) {
    this.question = question;
    this.id = approval?.id ?? "";
    this.answers = make("div", { class: "answers" });
    this.node = make(
      "section",
      { class: `approval${question.insist ? " insist" : ""}`, "aria-label": `Approve ${clean(question.tool)}`, tabindex: "-1" },
      this.#what(),
      this.answers,
    );
    this.node.addEventListener("keydown", (event) => this.#key(event));
    this.#offer();
    this.unwatch = pending.watch(() => this.#look());
    this.#look();
  }

  #what() {
    const { question } = this;
    const reasons = (question.reasons ?? []).filter((reason) => reason !== question.reason);
    return [
      make("h3", {}, make("code", {}, clean(question.tool)), question.kind === "input" ? " asks " : " wants to run ", effectBadge(question.effect), modeBadge(question.mode)),
      line(clean(question.reason), question.danger || question.insist ? "bad" : "note"),
      question.loss ? line(clean(question.loss), "bad") : null,
      reasons.length ? make("ul", { class: "reasons" }, reasons.map((reason) => make("li", {}, clean(reason)))) : null,
      ...shown(question),
      ...(question.others ?? []).flatMap((other) => shown(other)),
      question.always ? line(`“Always” adds the rule: ${clean(question.always)}`) : null,
    ].filter(Boolean);
  }

  #offer() {
    const { question } = this;
    if (question.kind === "repeat") {
      replace(this.answers, line("The model keeps making the same call."), this.#choice("yes", "Go on", "primary"), this.#choice("no", "Stop"));
      return;
    }
    if (question.kind === "input") return this.#offerInput();
    const others = question.others?.length ?? 0;
    if (question.insist) return this.#offerTyped();
    this.note = make("input", { type: "text", placeholder: "Why not (told to the model)", "aria-label": "Why not" });
    this.note.addEventListener("keydown", (event) => event.key === "Enter" && this.#give({ choice: "no", note: this.note.value }));
    replace(
      this.answers,
      this.#choice("yes", "Yes", "primary"),
      this.#choice("no", "No"),
      others ? this.#choice("step", `Yes, to all ${others + 1}`, "", "Covers the calls that are listed", "l") : null,
      question.like ? this.#choice("turn", "Yes, for this turn", "", `Covers ${question.like}`) : null,
      question.like ? this.#choice("session", "Yes, for this session", "", `Covers ${question.like}`) : null,
      question.always ? this.#choice("always", "Always") : null,
      button("Edit", () => this.#edit(), { "aria-keyshortcuts": "e" }),
      this.note,
    );
  }

  /** A tool asks for something: one of its choices, or any text. */
  #offerInput() {
    const choices = (this.question.arguments?.choices ?? []).map((choice) =>
      button(clean(String(choice)), () => this.#give({ choice: "yes", note: String(choice) })),
    );
    const typed = make("input", { type: "text", placeholder: "Your answer", "aria-label": "Your answer" });
    typed.addEventListener("keydown", (event) => event.key === "Enter" && this.#give({ choice: "yes", note: typed.value }));
    replace(this.answers, ...(choices.length ? choices : [typed]), this.#choice("no", "No answer"));
  }

  /** What cannot be undone needs the word, not a click. */
  #offerTyped() {
    const typed = make("input", { type: "text", placeholder: "type yes to run it", "aria-label": "Type yes to run it", autocomplete: "off" });
    const run = () => this.#give({ choice: "yes", confirm: typed.value.trim() });
    typed.addEventListener("keydown", (event) => event.key === "Enter" && run());
    replace(this.answers, line("This cannot be undone.", "bad"), typed, button("Run it", run), this.#choice("no", "No", "primary"));
  }

  #choice(choice, label, kind = "", title = "", key = choice[0]) {
    const give = () => this.#give({ choice, note: choice === "no" ? (this.note?.value ?? "") : "" });
    return button(label, give, { class: kind, title, "aria-keyshortcuts": key });
  }

  #edit() {
    const { command } = this.question.arguments;
    const asCommand = typeof command === "string";
    const text = make("textarea", { rows: "4", "aria-label": asCommand ? "New command" : "New arguments (JSON)" });
    text.value = asCommand ? command : pretty(this.question.arguments);
    const complaint = make("p", { class: "line bad", hidden: true });
    const run = () => {
      const args = edited(text.value, this.question.arguments, asCommand);
      if (args) return this.#give({ choice: "edit", arguments: args });
      complaint.textContent = "That is not a JSON object.";
      complaint.hidden = false;
    };
    replace(this.answers, text, complaint, button("Run this", run, { class: "primary" }), button("Back", () => this.#offer()));
    text.focus();
  }

  async #give(given) {
    try {
      this.id ||= await pending.locate(this.question.call);
      this.#show(await pending.answer(this.id, given));
    } catch (error) {
      this.answers.querySelector(".refused")?.remove(); // only the latest error is shown
      this.answers.append(line(clean(error.message), "bad refused"));
    }
  }

  #look() {
    this.id ||= pending.findCall(this.question.call)?.id ?? "";
    const answer = this.id && pending.answerTo(this.id);
    if (answer) this.#show(answer);
  }

  #show(answer) {
    this.unwatch();
    const who = answer.mine ? "" : " elsewhere";
    const said = CHOICES[answer.choice] ? `${CHOICES[answer.choice]}${who}` : answer.note || "no longer asked";
    this.node.classList.add("answered");
    replace(this.answers, make("p", { class: "line outcome" }, said[0].toUpperCase() + said.slice(1) + "."));
  }

  #key(event) {
    const isTyping = event.target.matches("input, textarea");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const found = this.answers.querySelector(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`);
    if (!found) return;
    event.preventDefault();
    event.stopPropagation();
    found.click();
  }
}

/** A diff is shown instead of the arguments it comes from. */
export function shown(question) {
  const { command } = question.arguments;
  const asCommand = typeof command === "string" && Object.keys(question.arguments).length === 1;
  const args = longText(asCommand ? `$ ${command}` : pretty(question.arguments), { class: "what" });
  if (!question.preview) return [args];
  if (!isDiff(question.preview)) return [args, longText(question.preview)];
  return [diff(question.preview), make("details", {}, make("summary", {}, "Arguments"), args)];
}

function edited(text, old, asCommand) {
  if (asCommand) return text.trim() ? { ...old, command: text } : null;
  try {
    const found = JSON.parse(text);
    return found && typeof found === "object" && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}
