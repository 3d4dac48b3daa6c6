// Text of any length as a block that stays quick: what is past the limit is shown only when asked for.

import { button, make } from "./dom.js";
import { size } from "./format.js";
import { clean } from "./untrusted.js";

export const SHOWN_CHARS = 20_000;

export function longText(text, given = {}) {
  const body = make("pre", { tabindex: "0", dir: "auto", ...given });
  if (text.length <= SHOWN_CHARS) {
    body.append(clean(text));
    return body;
  }
  body.append(clean(text.slice(0, SHOWN_CHARS)));
  const more = button(`Show all (${size(text.length)})`, () => {
    body.textContent = clean(text);
    more.remove();
  });
  return make("div", { class: "long" }, body, more);
}
