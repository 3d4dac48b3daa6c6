// Files to send along: texts and images, chosen, pasted or dropped, up to a maximum size each.

import { button, make, replace } from "./dom.js";
import { size } from "./format.js";

const MAX_FILES = 8;
const MAX_TEXT_BYTES = 256 * 1024; // more would not fit most windows
const MAX_IMAGE_BYTES = 4 * 1024 * 1024;
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export class Attachments {
  constructor(complain) {
    this.files = [];
    this.complain = complain;
    this.node = make("ul", { class: "attached", "aria-label": "Attached files" });
    this.input = make("input", { type: "file", multiple: true, class: "sr", tabindex: "-1", "aria-label": "Attach files" });
    this.input.addEventListener("change", () => {
      this.add([...this.input.files]);
      this.input.value = "";
    });
  }

  choose() {
    this.input.click();
  }

  async add(files) {
    for (const file of files) {
      try {
        if (this.files.length >= MAX_FILES) throw new Error(`${MAX_FILES} files at most`);
        this.files.push({ name: file.name, part: await read(file), bytes: file.size });
      } catch (error) {
        this.complain(`${file.name}: ${error.message}`);
      }
    }
    this.#show();
  }

  /** Returns the parts and clears the list. */
  take() {
    const parts = this.files.map((file) => file.part);
    this.files = [];
    this.#show();
    return parts;
  }

  #show() {
    replace(
      this.node,
      this.files.map((file) => {
        const remove = button("×", () => {
          this.files = this.files.filter((other) => other !== file);
          this.#show();
        }, { class: "quiet small", "aria-label": `Remove ${file.name}` });
        return make("li", {}, `${file.name} `, make("span", { class: "dim" }, size(file.bytes)), remove);
      }),
    );
  }
}

async function read(file) {
  if (IMAGES.has(file.type)) {
    if (file.size > MAX_IMAGE_BYTES) throw new Error(`images may have ${size(MAX_IMAGE_BYTES)}, this one has ${size(file.size)}`);
    return { type: "image", media_type: file.type, data: await base64(file) };
  }
  if (file.size > MAX_TEXT_BYTES) throw new Error(`text may have ${size(MAX_TEXT_BYTES)}, this has ${size(file.size)}`);
  const text = await decoded(file);
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((found) => found[0].length));
  const fence = "`".repeat(longest + 1);
  return { type: "text", text: `Attached file ${file.name}:\n${fence}\n${text}\n${fence}` };
}

async function decoded(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error("this is neither text nor an image that models take (PNG, JPEG, GIF, WebP)");
  }
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error("it could not be read"));
    reader.readAsDataURL(file);
  });
}
