// Answers under way in this tab. They outlive the view they were asked in: to look at something else is not to stop.

const all = new Map(); // by session: {controller, done}

/** `work(signal)` runs to its end, or until it is stopped. */
export async function begin(session, work) {
  const controller = new AbortController();
  const done = work(controller.signal).finally(() => {
    if (all.get(session)?.controller === controller) all.delete(session);
  });
  all.set(session, { controller, done });
  await done;
}

export function findUnderway(session) {
  return all.get(session);
}

export function stop(session) {
  all.get(session)?.controller.abort();
}
