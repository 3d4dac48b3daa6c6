// A plan as a picture: steps in columns by their dependencies, with lines between. A table beside it has the same content.

import { draw } from "./dom.js";
import { clean } from "./sanitise.js";

const BOX = { width: 168, height: 46, gapX: 56, gapY: 18 };
const MAX_STEPS = 200;

/** `steps` are `{id, tool, needs, status}`. */
export function dag(steps) {
  const placed = place(steps.slice(0, MAX_STEPS));
  const columns = Math.max(...[...placed.values()].map((at) => at.column)) + 1;
  const rows = Math.max(...[...placed.values()].map((at) => at.row)) + 1;
  const width = columns * (BOX.width + BOX.gapX) - BOX.gapX + 2;
  const height = rows * (BOX.height + BOX.gapY) - BOX.gapY + 2;
  return draw(
    "svg",
    { class: "dag", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Plan of ${steps.length} steps` },
    steps.flatMap((step) => edges(step, placed)),
    steps.slice(0, MAX_STEPS).map((step) => box(step, placed.get(step.id))),
  );
}

/** The column after that of the last step it needs. A cycle, which no valid plan has, is not followed. */
function place(steps) {
  const known = new Map(steps.map((step) => [step.id, step]));
  const columns = new Map();
  const column = (step, seen) => {
    if (columns.has(step.id) || seen.has(step.id)) return columns.get(step.id) ?? 0;
    const needs = (step.needs ?? []).map((id) => known.get(id)).filter(Boolean);
    const found = needs.length ? Math.max(...needs.map((need) => column(need, new Set([...seen, step.id])))) + 1 : 0;
    columns.set(step.id, found);
    return found;
  };
  const filled = new Map();
  return new Map(steps.map((step) => {
    const at = column(step, new Set());
    const row = filled.get(at) ?? 0;
    filled.set(at, row + 1);
    return [step.id, { column: at, row }];
  }));
}

function corner(at) {
  return { x: at.column * (BOX.width + BOX.gapX) + 1, y: at.row * (BOX.height + BOX.gapY) + 1 };
}

function edges(step, placed) {
  const to = corner(placed.get(step.id) ?? { column: 0, row: 0 });
  return (step.needs ?? []).filter((id) => placed.has(id)).map((id) => {
    const from = corner(placed.get(id));
    const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
    const bend = (x2 - x1) / 2;
    return draw("path", { class: "edge", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
  });
}

function box(step, at) {
  const { x, y } = corner(at);
  const name = clean(step.tool ?? "");
  return draw(
    "g",
    { class: `node ${statusClass(step.status)}` },
    draw("rect", { x, y, width: BOX.width, height: BOX.height, rx: 8 }),
    draw("text", { x: x + 12, y: y + 19, class: "node-title" }, `${clean(step.id)} · ${step.status ?? "planned"}`),
    draw("text", { x: x + 12, y: y + 36 }, name.length > 22 ? `${name.slice(0, 21)}…` : name),
  );
}

export function statusClass(status) {
  if (["ok", "done", "finished"].includes(status)) return "good";
  if (["running", "intent", "halted"].includes(status)) return "waiting";
  return ["failed", "error", "denied", "unknown"].includes(status) ? "bad" : "";
}
