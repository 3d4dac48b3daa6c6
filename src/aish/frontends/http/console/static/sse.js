// Reads server-sent events out of a reply, one by one. Knows nothing of what they say.

const MAX_CHARS = 16_000_000; // one event; more is not for a page

/** Yields `{event, data, id}`; a comment, which is a sign of life, yields `{event: ""}`. */
export async function* events(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
      rest = blocks.pop();
      if (rest.length > MAX_CHARS) throw new Error("an event of the server is too large");
      for (const block of blocks) yield parse(block);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(block) {
  const found = { event: "", data: "", id: "" };
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    const field = line.slice(0, colon);
    if (field === "data") data.push(value);
    else if (field in found) found[field] = value;
  }
  found.data = data.join("\n");
  if (data.length && !found.event) found.event = "message";
  return found;
}
