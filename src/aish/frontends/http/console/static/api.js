// Requests to the server of this page: JSON in both directions, the CSRF token, deadlines, clear errors.

const DEADLINE_MS = 30_000;
let csrf = "";

/** An error reply of the server, with its message. */
export class Refused extends Error {
  constructor(status, error) {
    super(error.message || `the server answered ${status}`);
    this.status = status;
    this.code = error.code ?? "";
  }
}

/** Who the server thinks we are. A server without this endpoint lets everyone in. */
export async function readConsole() {
  const info = (await find("/v1/console")) ?? { version: "", keys: false, signed_in: true };
  csrf = info.csrf ?? "";
  return info;
}

export async function get(path, signal) {
  return (await request("GET", path, undefined, signal)).json();
}

/** Returns null where the server does not have it. */
export async function find(path) {
  try {
    return await get(path);
  } catch (error) {
    if (error.status === 404 || error.status === 405) return null;
    throw error;
  }
}

export async function send(method, path, body) {
  const reply = await request(method, path, body);
  const text = await reply.text();
  return text ? JSON.parse(text) : null;
}

/** A reply whose body is read as it arrives. It has no deadline: the caller's signal ends it. */
export async function open(method, path, body, signal, headers = {}) {
  const given = { method, signal, headers: { ...headers }, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    given.body = JSON.stringify(body);
    given.headers["content-type"] = "application/json";
  }
  if (csrf && method !== "GET") given.headers["x-aish-csrf"] = csrf;
  const reply = await fetch(path, given);
  if (!reply.ok) throw await refusal(reply);
  return reply;
}

function request(method, path, body, signal) {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  return open(method, path, body, signal ? AbortSignal.any([signal, deadline]) : deadline);
}

async function refusal(reply) {
  let error = {};
  try {
    error = (await reply.json()).error ?? {};
  } catch {
    // A proxy's error page, or an empty body.
  }
  if (reply.status === 401) window.dispatchEvent(new Event("signed-out"));
  return new Refused(reply.status, error);
}
