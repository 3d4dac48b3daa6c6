// Images that came with a message or a result. Only those whose bytes are there are shown; an address is a link.

import { line, make } from "./dom.js";
import { safeUrl } from "./untrusted.js";

const KINDS = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** `part` is `{media_type, data}` or `{url}`. */
export function picture(part) {
  if (part.data && KINDS.has(part.media_type)) {
    return make("img", { class: "picture", src: `data:${part.media_type};base64,${part.data}`, alt: "Attached image" });
  }
  const url = safeUrl(part.url ?? "");
  if (!url) return line("(an image that cannot be shown)");
  return make("a", { href: url, rel: "noopener noreferrer", target: "_blank" }, `image: ${url}`);
}
