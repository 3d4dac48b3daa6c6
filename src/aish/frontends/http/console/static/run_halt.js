// Where a run has stopped and waits for a person: why, the effect in doubt if there is one, and the ways to go on.

import { send } from "./api.js";
import { shown } from "./approval_card.js";
import { button, line, make } from "./dom.js";
import { notice } from "./notices.js";
import { clean } from "./untrusted.js";

/** `again` looks at the run anew. */
export function halt(run, again) {
  const { reason, question } = run.halt;
  const note = make("input", { type: "text", placeholder: "A word for the model", "aria-label": "A word for the model" });
  const answer = (choice) => async () => {
    const body = { answer: { choice, note: note.value } };
    await send("POST", `/v1/runs/${encodeURIComponent(run.id)}/resume`, body).catch((error) => notice(error.message, "bad"));
    again();
  };
  return make(
    "section",
    { class: "approval", "aria-label": "Halted" },
    make("h3", {}, question ? `${clean(question.tool)} is in doubt` : "It has stopped"),
    line(clean(reason), "warn"),
    question ? shown(question) : null,
    make(
      "div",
      { class: "answers" },
      button("Proceed", answer("proceed"), { class: "primary" }),
      button("Skip", answer("skip")),
      button("Abort", answer("abort")),
      note,
    ),
  );
}
