// A small line chart. Its latest and highest value are also given as text, for screen readers.

import { draw, make } from "./dom.js";

const WIDTH = 280;
const HEIGHT = 72;

/** `values` are in order of time; null is a gap. `big` is the value to show in large type, `say` formats a value, `more`
 * follows it. `empty` is shown where there are no values. */
export function chart(title, values, big, say, { per = "in 10 s", more = "", empty = "nothing yet" } = {}) {
  const known = values.filter((value) => value !== null && value !== undefined);
  const highest = Math.max(...known, 0);
  const most = `at most ${say(highest)} ${per}`;
  const shown = known.length ? say(big) + more : "–";
  const words = known.length ? `${shown}, ${most}` : empty;
  return make(
    "figure",
    { class: "chart" },
    make("figcaption", {}, make("strong", {}, title), make("span", { class: "big" }, shown), make("span", { class: "dim" }, known.length ? most : empty)),
    draw(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${words}` },
      draw("path", { class: "area", d: known.length === values.length ? area(values, highest) : "" }),
      draw("path", { class: "stroke", d: stroke(values, highest) }),
    ),
  );
}

function at(values, place, highest) {
  const x = values.length > 1 ? (place / (values.length - 1)) * WIDTH : WIDTH;
  const y = HEIGHT - 2 - ((values[place] ?? 0) / (highest || 1)) * (HEIGHT - 8);
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}

function stroke(values, highest) {
  let path = "";
  values.forEach((value, place) => {
    if (value === null || value === undefined) return;
    const isGap = place === 0 || values[place - 1] === null || values[place - 1] === undefined;
    const spot = at(values, place, highest);
    path += isGap ? `M${spot}L${spot}` : `L${spot}`; // a single point is drawn as a dot
  });
  return path;
}

function area(values, highest) {
  if (values.length < 2) return "";
  const tops = values.map((_value, place) => at(values, place, highest));
  return `M0 ${HEIGHT}L${tops.join("L")}L${WIDTH} ${HEIGHT}Z`;
}
