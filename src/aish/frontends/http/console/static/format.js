// Formats numbers, times and sizes.

const DAY_MS = 86_400_000;
const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function count(number) {
  return whole.format(number ?? 0);
}

/** "1 tool", "3 tools". */
export function some(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function shortCount(number) {
  if (number < 10_000) return count(Math.round(number * 10) / 10);
  return number < 1_000_000 ? `${Math.round(number / 1000)} k` : `${(number / 1_000_000).toFixed(1)} M`;
}

export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 1000) return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** An unknown cost is shown as unknown, never as zero. */
export function dollars(cost) {
  if (cost === null || cost === undefined) return "cost unknown";
  if (cost === 0) return "$0";
  return cost < 0.01 ? `$${cost.toFixed(5)}` : `$${cost.toFixed(2)}`;
}

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(0)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export function when(ms, now = Date.now()) {
  if (!ms) return "";
  return now - ms < DAY_MS ? clock.format(ms) : date.format(ms);
}

export function moment(ms) {
  return ms ? full.format(ms) : "";
}

/** Indents JSON; returns anything else unchanged. */
export function pretty(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
