// Values that the browser remembers between visits. Where storage is forbidden, they are simply not remembered.

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
    // The storage is full or forbidden.
  }
}
