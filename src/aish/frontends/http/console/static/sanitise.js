// Makes text of models and tools safe to show: removes terminal sequences and makes characters that reorder text visible.
// Markup needs no treatment, because text only becomes text nodes.

// CSI, OSC and other escape sequences, then other control characters (tab and newline stay).
const ANSI = /\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|\x9b[0-9;]*[@-~]/g;
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;
// Embeddings, overrides, isolates and marks: with them, text can look like something else.
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const ODD = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

export function clean(text) {
  if (!ODD.test(text)) return text;
  return text.replace(ANSI, "").replaceAll("\r", "").replace(CONTROLS, "").replace(BIDI, named);
}

/** The address of a link, if it is allowed; null otherwise. */
export function safeUrl(text) {
  if (!/^(https?:\/\/|mailto:)/i.test(text) || BIDI_ANY.test(text)) return null;
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

const BIDI_ANY = new RegExp(BIDI.source);

function named(character) {
  return `‹U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;
}
