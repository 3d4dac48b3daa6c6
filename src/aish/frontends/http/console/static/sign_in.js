// Asks for a key once; the server answers with a cookie that scripts cannot read.

import { send } from "./api.js";
import { line, make } from "./dom.js";

export function signIn(done) {
  const key = make("input", { type: "password", id: "key", autocomplete: "current-password", required: true });
  const complaint = line("", "bad");
  complaint.hidden = true;
  complaint.setAttribute("role", "alert");
  const enter = async (event) => {
    event.preventDefault();
    try {
      await send("POST", "/v1/console/session", { key: key.value });
      done();
    } catch (error) {
      complaint.textContent = error.message;
      complaint.hidden = false;
      key.select();
    }
  };
  return make(
    "form",
    { class: "sign-in", onsubmit: enter },
    make("h1", {}, "Sign in"),
    make("label", { for: "key" }, "A key of this server"),
    key,
    complaint,
    make("button", { class: "primary" }, "Sign in"),
    make("p", { class: "dim" }, "Keys are made with ", make("code", {}, "aish keys create NAME"), "."),
  );
}
