// The view of runs: plans and goals that are carried out over time. Starts a goal, shows a run, and continues it where it
// has halted.

import { find, send } from "./api.js";
import { shown } from "./approval_card.js";
import { longText, table } from "./content.js";
import { dag, statusClass } from "./dag.js";
import { button, line, make, replace } from "./dom.js";
import { feed } from "./feed.js";
import { moment, pretty, some, when } from "./format.js";
import { recall } from "./local_storage.js";
import { notice } from "./notices.js";
import { clean } from "./sanitise.js";

const SHOWN = 100;
const LOOK_MS = 3000;
const OPEN = ["running", "halted"];

export function show(place, [id]) {
  const body = make("div");
  place.append(make("h1", {}, id ? "Run" : "Runs"), ...(id ? [] : [goalForm()]), body);
  const view = { body, id, drawn: "" };
  const load = () => look(view);
  load();
  const timer = setInterval(() => !document.hidden && load(), LOOK_MS);
  const unlisten = feed.listen((_kind, data) => /^plan_/.test(data.body?.type ?? "") && load());
  return () => {
    clearInterval(timer);
    unlisten();
  };
}

/** Draws only what is new, so that looking again does not fold up what was opened. */
async function look(view) {
  const path = view.id ? `/v1/runs/${encodeURIComponent(view.id)}` : `/v1/runs?limit=${SHOWN}`;
  const found = await find(path).catch((error) => ({ error }));
  const text = JSON.stringify(found);
  if (text === view.drawn && !found?.error) return;
  view.drawn = text;
  if (!found) replace(view.body, line(view.id ? "There is no such run here." : "not available on this server"));
  else if (found.error) replace(view.body, line(found.error.message, "bad"));
  else replace(view.body, view.id ? one(found, () => look(view)) : all(found.data));
}

function goalForm() {
  const goal = make("input", { type: "text", placeholder: "A goal to work towards, with the server's tools", "aria-label": "Goal", required: true });
  const begin = async (event) => {
    event.preventDefault();
    try {
      const run = await send("POST", "/v1/runs", { goal: goal.value, model: recall("model", "") });
      location.hash = `#/runs/${encodeURIComponent(run.id)}`;
    } catch (error) {
      notice(error.message, "bad");
    }
  };
  return make("form", { class: "tools-row", onsubmit: begin }, goal, make("button", { class: "primary" }, "Begin"));
}

function all(runs) {
  if (!runs.length) return line("No runs yet. A question asked with “Plan first”, or a goal given here or to :norris in the shell, makes one.");
  return make("ul", { class: "plain run-list" }, runs.map(entry));
}

function entry(run) {
  const steps = run.plan?.steps?.length ?? run.step ?? 0;
  return make(
    "li",
    {},
    make("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, clean(run.goal || run.id)),
    make("span", { class: `badge ${statusClass(run.state)}` }, run.state),
    make("span", { class: "dim" }, `${run.kind} · ${some(steps, "step")} · ${when(run.updated_ms)}`),
  );
}

function one(run, again) {
  const plan = run.plan?.steps ?? [];
  const session = run.session && make("a", { href: `#/chat/${encodeURIComponent(run.session)}` }, "Open its session");
  return [
    make("p", { dir: "auto" }, clean(run.goal ?? "")),
    make("p", { class: "row" }, make("span", { class: `badge ${statusClass(run.state)}` }, run.state), make("span", { class: "dim" }, `${run.kind} · begun ${moment(run.created_ms)}`), session),
    run.state === "halted" && run.halt ? haltCard(run, again) : line(clean(run.reason ?? "")),
    OPEN.includes(run.state) ? make("div", {}, button("Abandon", () => abandon(run, again), { class: "danger small" })) : null,
    plan.length ? make("div", { class: "dag-frame", tabindex: "0", role: "group", "aria-label": "Plan" }, dag(plan)) : null,
    plan.length ? planTable(plan) : null,
    run.steps?.length ? stepTable(run.steps) : null,
  ];
}

async function abandon(run, again) {
  await send("POST", `/v1/runs/${encodeURIComponent(run.id)}/abandon`, {}).catch((error) => notice(error.message, "bad"));
  again();
}

function planTable(steps) {
  const rows = steps.map((step) => [clean(step.id), clean(step.tool ?? ""), (step.needs ?? []).map(clean).join(", "), clean(step.why ?? ""), step.status ?? "planned"]);
  return table("Plan", ["Step", "Tool", "Needs", "Why", "State"], rows);
}

function stepTable(steps) {
  const rows = steps.map((step) => [
    String(step.n),
    clean(step.tool ?? ""),
    step.effect ?? "",
    step.status || step.state,
    make("details", {}, make("summary", {}, "Show"), longText(pretty(step.arguments ?? {})), longText(pretty(step.outcome ?? ""))),
  ]);
  return table("What was done", ["#", "Tool", "Effect", "State", "Arguments and outcome"], rows);
}

/** `again` looks at the run anew. */
function haltCard(run, again) {
  const { reason, question } = run.halt;
  const note = make("input", { type: "text", placeholder: "A word for the model", "aria-label": "A word for the model" });
  const isCatastrophe = question?.danger === "catastrophe";
  const confirm = isCatastrophe ? make("input", { type: "text", placeholder: "type yes to proceed", "aria-label": "Type yes to proceed" }) : null;
  const answer = (choice) => async () => {
    const body = { answer: { choice, note: note.value }, confirm: confirm?.value.trim() ?? "" };
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
      confirm,
      button("Proceed", answer("proceed"), { class: "primary" }),
      button("Skip", answer("skip")),
      button("Abort", answer("abort")),
      note,
    ),
  );
}
