const KEY = "steersman.theme";

/** Returns the chosen theme, or the system's. */
export function currentTheme(): "light" | "dark" {
  const kept = localStorage.getItem(KEY);
  if (kept === "light" || kept === "dark") return kept;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Applies a theme; `keep` stores it as the user's choice. */
export function applyTheme(theme: "light" | "dark", keep: boolean): void {
  if (keep) localStorage.setItem(KEY, theme);
  document.documentElement.dataset.theme = theme;
}
