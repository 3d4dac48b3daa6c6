// Keyboard shortcuts for the whole page, except while typing, and the list of them.

import { button, make } from "./dom.js";

const PLACES = { c: "chat", s: "sessions", a: "approvals", r: "runs", m: "mcp", x: "metrics" };
const AFTER_G_MS = 1500;
const LIST = [
  ["?", "these keys"],
  ["n", "new chat"],
  ["/", "write a message, or search"],
  ["g c · g s · g a", "go to chat, sessions, approvals"],
  ["g r · g m · g x", "go to runs, MCP servers, metrics"],
  ["j · k", "next and previous row of a list"],
  ["Enter", "send; in a list: open"],
  ["Shift+Enter", "new line"],
  ["Escape", "stop an answer, close what is open"],
  ["y · n · l · t · s · a · e", "on an approval: yes, no, all that are listed, this turn, this session, always, edit"],
  [".", "light, dark, or as the system has it"],
];

let dialog = null;
let afterG = 0;

export function keys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (press(event.key)) event.preventDefault();
  });
}

export function showKeys() {
  dialog ??= makeDialog();
  if (!dialog.open) dialog.showModal();
}

function press(key) {
  const isGoing = performance.now() - afterG < AFTER_G_MS;
  afterG = 0;
  if (isGoing && PLACES[key]) {
    location.hash = `#/${PLACES[key]}`;
    return true;
  }
  return ACTIONS[key]?.() ?? false;
}

const ACTIONS = {
  "?": () => done(showKeys()),
  g: () => done((afterG = performance.now())),
  n: () => done((location.hash = "#/chat")),
  "/": () => focus("#main input[type=search], #message"),
  j: () => move(1),
  k: () => move(-1),
  ".": () => done(document.getElementById("theme")?.click()),
};

function done() {
  return true;
}

function focus(selector) {
  const found = document.querySelector(selector);
  found?.focus();
  return Boolean(found);
}

function move(by) {
  const list = document.querySelector("#main [data-rows]");
  if (!list) return false;
  list.dispatchEvent(new CustomEvent("move", { detail: by }));
  return true;
}

function isTyping(target) {
  return target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]") || document.querySelector("dialog[open]");
}

function makeDialog() {
  const made = make(
    "dialog",
    { class: "keys", "aria-labelledby": "keys-title" },
    make("h2", { id: "keys-title" }, "Keys"),
    make("dl", {}, LIST.flatMap(([key, what]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, what)])),
    button("Close", () => made.close(), { class: "primary", autofocus: true }),
  );
  document.body.append(made);
  return made;
}
