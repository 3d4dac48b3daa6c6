// What this browser remembers between visits. A browser that forbids storage forgets, and nothing else breaks.

export function recall(name, fallback) {
  try {
    const kept = localStorage.getItem(`aish.${name}`);
    return kept === null ? fallback : JSON.parse(kept);
  } catch {
    return fallback;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(`aish.${name}`, JSON.stringify(value));
  } catch {
    // Full or forbidden.
  }
}
