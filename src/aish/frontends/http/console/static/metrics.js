// The view of metrics: the last hour of this server in small charts, and the spending and its caps.

import { find } from "./api.js";
import { chart } from "./chart.js";
import { table } from "./content.js";
import { line, make, replace } from "./dom.js";
import { count, dollars, duration, shortCount } from "./format.js";
import { clean } from "./sanitise.js";

const LOOK_MS = 5000;
const DAYS = 14;
const SERIES = [
  ["Turns", "turns", shortCount],
  ["Tokens in", "tokens_in", shortCount],
  ["Tokens out", "tokens_out", shortCount],
  ["Tool calls", "tool_calls", shortCount],
  ["First token (median)", "first_token_ms_p50", duration],
  ["Requests", "requests", shortCount],
  ["Errors", "errors", shortCount],
  ["Cost", "cost", dollars],
];

export function show(place) {
  const charts = make("div", { class: "charts" });
  const spending = make("div", { class: "spending" });
  place.append(make("h1", {}, "Metrics"), charts, make("h2", {}, "Spending"), spending);
  const load = () => Promise.all([showCharts(charts), showSpending(spending)]);
  load();
  const timer = setInterval(() => !document.hidden && load(), LOOK_MS);
  return () => clearInterval(timer);
}

async function showCharts(body) {
  const found = await find("/v1/metrics.json").catch((error) => ({ error }));
  if (!found) return replace(body, line("not available on this server"));
  if (found.error) return replace(body, line(found.error.message, "bad"));
  const points = found.points ?? [];
  return replace(body, SERIES.map(([title, field, say]) => {
    const values = points.map((point) => point[field] ?? null);
    if (field === "cost" && points.some((point) => point.unknown)) return costChart(title, values);
    return chart(title, values, big(field, values), say, { per: field.startsWith("first_token") ? "" : "in 10 s" });
  }));
}

/** Some turns have a cost that is not known: that is never shown as zero. */
function costChart(title, values) {
  const sum = big("cost", values);
  if (!sum) return chart(title, [], 0, dollars, { empty: dollars(null) });
  return chart(title, values, sum, dollars, { more: " + unknown" });
}

/** Counts are summed over the hour; for times, the latest is shown. */
function big(field, values) {
  const known = values.filter((value) => value !== null);
  return field.startsWith("first_token") ? known.at(-1) : known.reduce((sum, value) => sum + value, 0);
}

async function showSpending(body) {
  const [days, models] = await Promise.all(
    ["day", "model"].map((by) => find(`/v1/spending?by=${by}&days=${DAYS}`).catch((error) => ({ error }))),
  );
  if (!days) return replace(body, line("not available on this server"));
  if (days.error) return replace(body, line(days.error.message, "bad"));
  return replace(body, caps(days), rowsTable("By day", "Day", "day", days.rows), rowsTable("By model", "Model", "model", models?.rows));
}

/** The known cost, and a note if the cost of some calls is unknown. */
function spent(row) {
  if (!row) return dollars(0);
  if (row.unknown && row.unknown === row.calls) return dollars(null);
  return dollars(row.cost) + (row.unknown && row.cost !== null ? " + unknown" : "");
}

function caps(found) {
  const today = found.today?.cost ?? 0;
  const cap = found.cap_day;
  const bar = cap ? make("meter", { min: 0, max: cap, high: cap * 0.8, value: Math.min(today, cap), "aria-label": "Spent today of the cap" }) : null;
  const words = cap ? `${spent(found.today)} today, of ${dollars(cap)} a day` : `${spent(found.today)} today; no cap for a day is set`;
  const session = found.cap_session ? `A session may spend ${dollars(found.cap_session)}.` : "No cap for a session is set.";
  return make("div", { class: "caps" }, make("p", {}, words), bar, make("p", { class: "dim" }, session));
}

function rowsTable(caption, head, field, rows) {
  if (!rows?.length) return line(`${caption}: nothing was spent in the last ${DAYS} days.`);
  const cells = rows.map((row) => (
    [clean(String(row[field] ?? "")), count(row.calls), count(row.tokens_in), count(row.tokens_out), spent(row)]
  ));
  return table(caption, [head, "Calls", "Tokens in", "Tokens out", "Cost"], cells);
}
