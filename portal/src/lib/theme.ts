const KEY = "steersman.theme";

/** The chosen theme, or the system's. */
export function currentTheme(): "light" | "dark" {
  const kept = localStorage.getItem(KEY);
  if (kept === "light" || kept === "dark") return kept;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Applies a theme, and keeps the choice if it is one. */
export function applyTheme(theme: "light" | "dark", keep: boolean): void {
  if (keep) localStorage.setItem(KEY, theme);
  document.documentElement.dataset.theme = theme;
}
