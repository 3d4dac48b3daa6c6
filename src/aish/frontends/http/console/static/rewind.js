// The panel of a trace that brings back files, conversation or both, as they were before the turn. Each choice is asked
// about a second time, and can be taken back.

import { get, send } from "./api.js";
import { button, line, make, replace } from "./dom.js";
import { count, moment, some } from "./format.js";
import { clean } from "./sanitise.js";

const CHOICES = [["files", "Files"], ["conversation", "Conversation"], ["both", "Both"]];
const MARKS = [["restored", "+"], ["replaced", "~"], ["removed", "−"]];

export async function rewindPanel(place, session, turn) {
  const path = `/v1/sessions/${encodeURIComponent(session)}`;
  replace(place, make("h2", {}, "Rewind"), line("Comparing with the files there are now…"));
  const found = await get(`${path}/checkpoints`).catch((error) => ({ error }));
  if (found.error) {
    replace(place, make("h2", {}, "Rewind"), line(found.error.message, "bad"));
    return;
  }
  const target = found.data.find((other) => other.turn === turn);
  const earlier = found.data.filter((other) => !other.turn);
  const again = () => rewindPanel(place, session, turn);
  replace(
    place,
    make("h2", {}, "Rewind"),
    ...(target ? describe(target) : [line("This turn is too long ago to be listed.")]),
    target && choices(place, path, target, again),
    earlier.length > 0 && make("h3", {}, "Rewinds of this session"),
    earlier.reverse().map((past) => make("div", {}, line(`${clean(past.title)}, ${moment(past.at_ms)}`), choices(place, path, past, again))),
  );
}

function describe(target) {
  const what = target.problem
    ? line(`Files are not kept: ${clean(target.problem)}`)
    : line(target.files ? `${some(target.changed, "file")} changed since.` : "No files to bring back.");
  return [
    line(`Brings back what was before: ${clean(target.title)}`),
    target.is_cut && line("This turn was rewound: it is no longer part of the conversation."),
    what,
    (target.files ?? []).map(changes),
  ];
}

function changes(files) {
  const names = MARKS.flatMap(([kind, mark]) => files[kind].map((name) => `${mark} ${clean(name)}`));
  const more = files.changed - names.length;
  return [
    make("h3", {}, clean(files.workspace)),
    names.length > 0 && make("pre", { class: "long" }, [...names, ...(more > 0 ? [`… and ${count(more)} more`] : [])].join("\n")),
    files.left.map((one) => line(`${clean(one.path)} stays as it is: ${clean(one.reason)}`)),
  ];
}

function choices(place, path, target, again) {
  const possible = CHOICES.filter(([what]) => what === "conversation" || (target.files && !target.problem));
  return make("div", { class: "tools-row", role: "group", "aria-label": `Rewind to ${target.id}` },
    possible.map(([what, label]) => button(label, (event) => choose(event.target, place, path, target, what, again), { class: "small" })));
}

async function choose(from, place, path, target, what, again) {
  if (from.dataset.sure === undefined) {
    const label = from.textContent;
    from.dataset.sure = "";
    from.textContent = "Really?";
    from.addEventListener("blur", () => { delete from.dataset.sure; from.textContent = label; }, { once: true });
    from.focus();
    return;
  }
  from.disabled = true;
  try {
    const result = await send("POST", `${path}/rewind`, { to: target.id, what });
    replace(place, make("h2", {}, "Rewound"), ...describeResult(result, what), button("More", again, { class: "quiet small" }));
  } catch (error) {
    replace(place, make("h2", {}, "Rewind"), line(error.message, "bad"), button("Again", again, { class: "quiet small" }));
  }
}

function describeResult(result, what) {
  const changed = result.files.reduce((sum, files) => sum + files.changed, 0);
  const turns = result.turns < 0 ? `${some(-result.turns, "turn")} came back into the conversation.` : `${some(result.turns, "turn")} left the conversation.`;
  return [
    what !== "conversation" && line(`${some(changed, "file")} brought back.`),
    result.files.map(changes),
    what !== "files" && line(turns),
    line(`It can be taken back: it is listed as ${result.undo}.`),
  ];
}
