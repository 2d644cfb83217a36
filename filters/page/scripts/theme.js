// Dark and light: the system's preference unless changed by the switch; the choice is stored in this browser.

const KEY = "shardpulse-theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const watchers = new Set();

/** `dark` or `light`, as shown now. */
export function theme() {
  return document.documentElement.dataset.theme || (system.matches ? "dark" : "light");
}

/** Call `watcher` whenever the theme changes. */
export function onTheme(watcher) {
  watchers.add(watcher);
}

/** Current value of a colour of the style sheet. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export function startTheme(button) {
  const kept = stored();
  if (kept) document.documentElement.dataset.theme = kept;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, theme());
    } catch {
      // a browser without storage: the choice lasts as long as the page
    }
    changed(button);
  });
  system.addEventListener("change", () => changed(button));
  changed(button);
}

function stored() {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "dark" || kept === "light" ? kept : null;
  } catch {
    return null;
  }
}

function changed(button) {
  const other = theme() === "dark" ? "light" : "dark";
  button.textContent = other;
  button.setAttribute("aria-label", `switch to the ${other} theme`);
  for (const watcher of watchers) watcher();
}
