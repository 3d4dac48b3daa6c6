// Starts the page: sign-in, the rail, and the view that the address names. A view is a module with `show(place, rest, app)`,
// which returns a function that ends it. Views are loaded when they are first needed.

import { readConsole } from "./api.js";
import { line, replace } from "./dom.js";
import { feed } from "./feed.js";
import { pending } from "./pending_approvals.js";
import { Rail } from "./rail.js";
import { keys } from "./shortcuts.js";
import { signIn } from "./sign_in.js";

const VIEWS = {
  chat: { title: "Chat", load: () => import("./chat.js") },
  sessions: { title: "Sessions", load: () => import("./sessions.js") },
  trace: { title: "Trace", load: () => import("./trace.js") },
  approvals: { title: "Approvals", load: () => import("./approvals.js") },
  mcp: { title: "MCP servers", load: () => import("./mcp.js") },
  runs: { title: "Runs", load: () => import("./runs.js") },
  metrics: { title: "Metrics", load: () => import("./metrics.js") },
};

const main = document.getElementById("main");
const app = { info: {}, changed: () => {} };
let leave = () => {};
let shown = 0;

async function go() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const view = VIEWS[name] ? name : "chat";
  const number = ++shown;
  leave();
  leave = () => {};
  app.rail.at(view, view === "chat" && VIEWS[name] ? rest[0] : "");
  main.className = view;
  let module;
  try {
    module = await VIEWS[view].load();
  } catch {
    replace(main, line("This part of the page could not be loaded. Is the server still running?", "bad"));
    return;
  }
  if (number !== shown) return; // another view was chosen meanwhile
  main.replaceChildren();
  app.rail.title(VIEWS[view].title);
  leave = module.show(main, VIEWS[name] ? rest : [], app) ?? (() => {});
  if (view !== "chat") main.focus({ preventScroll: true });
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function begin() {
  try {
    app.info = await readConsole();
  } catch (error) {
    replace(main, line(`The server does not answer: ${error.message}. Reload the page to try again.`, "bad"));
    return;
  }
  const isLocked = app.info.keys && !app.info.signed_in;
  document.body.classList.toggle("locked", isLocked);
  if (isLocked) {
    leave();
    replace(main, signIn(begin));
    return;
  }
  if (!app.rail) {
    app.rail = new Rail(app);
    app.changed = () => app.rail.refresh();
    window.addEventListener("hashchange", go);
    keys();
    feed.start();
    pending.start();
  }
  go();
}

window.addEventListener("signed-out", () => app.info.signed_in && begin());
begin();
