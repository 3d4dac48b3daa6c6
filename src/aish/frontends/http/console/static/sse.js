// Reads server-sent events from a reply, one by one.

const MAX_CHARS = 16_000_000; // of one event: more than a page can show

/** Yields `{event, data, id}`; for a comment, which is a heartbeat, `{event: ""}`. */
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
