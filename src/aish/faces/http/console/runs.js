// The view of runs: plans and goals that are carried out over time, what each step did, and the plan as a picture.

import { find } from "./api.js";
import { dag, statusClass } from "./dag.js";
import { line, make, replace } from "./dom.js";
import { feed } from "./feed.js";
import { moment, pretty, some, when } from "./format.js";
import { longText } from "./long_text.js";
import { clean } from "./untrusted.js";

const SHOWN = 100;
const LOOK_MS = 3000;

export function show(place, [id]) {
  const body = make("div");
  place.append(make("h1", {}, id ? "Run" : "Runs"), body);
  const load = id ? () => one(body, id) : () => all(body);
  load();
  const timer = setInterval(() => !document.hidden && load(), LOOK_MS);
  const unlisten = feed.listen((kind, data) => /^plan_/.test(data.body?.type ?? "") && load());
  return () => {
    clearInterval(timer);
    unlisten();
  };
}

async function all(body) {
  const found = await find(`/v1/runs?limit=${SHOWN}`).catch((error) => ({ error }));
  if (!found) return replace(body, line("not available on this server"));
  if (found.error) return replace(body, line(found.error.message, "bad"));
  if (!found.data.length) return replace(body, line("No runs yet. A question asked with “Plan first”, or a goal given to :norris in the shell, makes one."));
  return replace(body, make("ul", { class: "plain runs" }, found.data.map(entry)));
}

function entry(run) {
  return make(
    "li",
    {},
    make("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, clean(run.goal || run.id)),
    make("span", { class: `badge ${statusClass(run.state)}` }, run.state),
    make("span", { class: "dim" }, `${run.kind} · ${some((run.steps ?? []).length, "step")} · ${when(run.updated_ms)}`),
  );
}

let drawn = ""; // what was drawn last, so that looking again does not fold up what was opened

async function one(body, id) {
  const found = await find(`/v1/runs/${encodeURIComponent(id)}`).catch((error) => ({ error }));
  if (!found) return replace(body, line("There is no such run here."));
  if (found.error) return replace(body, line(found.error.message, "bad"));
  const text = JSON.stringify(found);
  if (text === drawn && body.firstChild) return body;
  drawn = text;
  const plan = found.plan?.steps ?? [];
  return replace(
    body,
    make("p", {}, clean(found.goal ?? "")),
    make("p", {}, make("span", { class: `badge ${statusClass(found.state)}` }, found.state), make("span", { class: "dim" }, ` ${found.kind} · begun ${moment(found.created_ms)}`)),
    plan.length ? make("div", { class: "dag-frame", tabindex: "0", role: "group", "aria-label": "Plan" }, dag(plan)) : null,
    plan.length ? planTable(plan) : null,
    (found.steps ?? []).length ? stepTable(found.steps) : null,
  );
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
    step.state ?? "",
    make("details", {}, make("summary", {}, "Show"), longText(pretty(step.arguments ?? {})), longText(pretty(step.outcome ?? ""))),
  ]);
  return table("What was done", ["#", "Tool", "Effect", "State", "Arguments and outcome"], rows);
}

export function table(caption, heads, rows) {
  return make(
    "div",
    { class: "table", tabindex: "0", role: "group", "aria-label": caption },
    make(
      "table",
      {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, rows.map((cells) => make("tr", {}, cells.map((cell) => make("td", {}, cell))))),
    ),
  );
}
