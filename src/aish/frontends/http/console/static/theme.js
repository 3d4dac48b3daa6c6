// Light, dark, or as the system has it. early_theme.js reads the same entry before the first paint.

const ORDER = ["system", "light", "dark"];

export function theme() {
  return document.documentElement.dataset.theme ?? "system";
}

export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("aish.theme", next);
  } catch {
    // It lasts until the page is closed.
  }
  return next;
}
