// The view of the MCP servers: state, tools, the end of the log, and buttons to connect and refresh.

import { find, send } from "./api.js";
import { longText } from "./content.js";
import { button, line, make, replace } from "./dom.js";
import { some } from "./format.js";
import { notice } from "./notices.js";
import { clean } from "./sanitise.js";

const LOOK_MS = 3000;
const KINDS = { ready: "good", failed: "bad", connecting: "waiting" };

export function show(place, _rest, app) {
  const list = make("div", { class: "cards" });
  const open = new Set(); // unfolded servers stay unfolded
  place.append(make("h1", {}, "MCP servers"), list);

  const load = async () => {
    const found = await find("/v1/mcp").catch((error) => ({ error }));
    if (!found) return replace(list, line("not available on this server"));
    if (found.error) return replace(list, line(found.error.message, "bad"));
    if (!found.data.length) return replace(list, line("No MCP servers are configured. They are named in config.toml under [mcp.servers]."));
    const focused = document.activeElement?.dataset?.key;
    replace(list, found.data.map((server) => card(server, open, app.info.admin === false ? null : load)));
    if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    return undefined;
  };
  load();
  const timer = setInterval(() => !document.hidden && load(), LOOK_MS);
  return () => clearInterval(timer);
}

/** `load` is null for callers who may only read. */
function card(server, open, load) {
  const alias = clean(server.alias);
  const { brought } = server;
  const key = brought ? `${alias} ${brought.origin} ${brought.by}` : alias;
  const act = (what) => button(what[0].toUpperCase() + what.slice(1), async (event) => {
    event.target.disabled = true;
    await send("POST", `/v1/mcp/${encodeURIComponent(server.alias)}/${what}`, {}).catch((error) => notice(error.message, "bad"));
    load();
  }, { class: "small", "data-key": `${alias} ${what}`, "aria-label": `${what} ${alias}` });
  const isUp = server.state === "ready" || server.state === "connecting";
  return make(
    "article",
    { class: "card" },
    make("header", {}, make("h2", {}, alias), make("span", { class: `badge ${KINDS[server.state] ?? ""}` }, server.state), make("span", { class: "dim" }, server.transport ?? "")),
    brought ? line(clean(`Brought by a request${brought.by ? ` of ${brought.by}` : ""}, at ${brought.origin}`), "dim") : null,
    server.error ? line(clean(server.error), "bad") : null,
    load && !brought && make("div", { class: "row" }, isUp ? act("refresh") : act("connect"), isUp ? act("disconnect") : null),
    unfolding(open, `${key} tools`, some((server.tools ?? []).length, "tool"), () => toolList(server.tools ?? [])),
    brought ? null : unfolding(open, `${alias} log`, "Log", () => [longText((server.log_tail ?? []).join("\n") || "(nothing was said)")]),
  );
}

function unfolding(open, key, title, inside) {
  const details = make("details", { open: open.has(key) }, make("summary", { "data-key": key }, title), open.has(key) ? inside() : null);
  details.addEventListener("toggle", () => {
    if (details.open && !open.has(key)) details.append(...inside());
    if (details.open) open.add(key);
    else open.delete(key);
  });
  return details;
}

function toolList(tools) {
  const rows = tools.map((tool) => {
    const name = typeof tool === "string" ? tool : tool.name;
    const about = typeof tool === "string" ? "" : (tool.description ?? "");
    return make("li", {}, make("code", {}, clean(name)), " ", make("span", { class: "dim" }, clean(about.slice(0, 200))));
  });
  return [make("ul", { class: "plain" }, rows)];
}
