// Creates elements. Text always becomes a text node: the console never parses markup at run time.

const SVG = "http://www.w3.org/2000/svg";

/** `given` has attributes, `class` and handlers such as `onclick`; false, null and undefined are left out. */
export function make(tag, given = {}, ...children) {
  return fill(document.createElement(tag), given, children);
}

export function draw(tag, given = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), given, children);
}

export function replace(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

/** One line of information: why a list is empty, or what went wrong. */
export function line(text, kind = "note") {
  return make("p", { class: `line ${kind}` }, text);
}

export function button(label, onclick, given = {}) {
  return make("button", { type: "button", onclick, ...given }, label);
}

export function icon(path) {
  return draw("svg", { viewBox: "0 0 20 20", "aria-hidden": "true", class: "icon" }, draw("path", { d: path }));
}

function fill(node, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") throw new Error("style attributes are refused by the page's own policy");
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...present(children));
  return node;
}

function present(children) {
  return children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);
}
