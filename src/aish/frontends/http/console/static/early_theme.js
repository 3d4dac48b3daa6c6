// Sets the chosen theme before anything is painted. A plain script, because modules run too late for that.
try {
  const theme = localStorage.getItem("aish.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; then the system's theme is used.
}
