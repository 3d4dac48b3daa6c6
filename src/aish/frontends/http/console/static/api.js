// Talks to the server this page came from: JSON both ways, the token against forged requests, deadlines, clear errors.

const DEADLINE_MS = 30_000;
let csrf = "";

/** The server's no, in its own words. */
export class Refused extends Error {
  constructor(status, error) {
    super(error.message || `the server answered ${status}`);
    this.status = status;
    this.code = error.code ?? "";
  }
}

/** Who we are to the server. Where it has no such question, everybody is let in. */
export async function readConsole() {
  const info = (await find("/v1/console")) ?? { version: "", keys: false, signed_in: true };
  csrf = info.csrf ?? "";
  return info;
}

export async function get(path, signal) {
  return (await request("GET", path, undefined, signal)).json();
}

/** Null where the server has no such thing. */
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

/** A reply whose body is read as it comes. No deadline: the caller's signal ends it. */
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
    // A proxy's page, or nothing.
  }
  if (reply.status === 401) window.dispatchEvent(new Event("signed-out"));
  return new Refused(reply.status, error);
}
