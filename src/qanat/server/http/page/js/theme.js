/** Light, dark, or as the system has it. */
import { keep } from "./preferences.js";

const KEY = "qanat.theme";
const NEXT = { system: "light", light: "dark", dark: "system" };

/** Let a button go round the three. */
export function themeSwitch(button) {
  let theme = document.documentElement.dataset.theme ?? "system";
  const show = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const label = `Theme: ${theme === "system" ? "as the system has it" : theme}`;
    button.setAttribute("aria-label", label);
    button.title = label;
  };
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    keep(KEY, theme === "system" ? null : theme);
    show();
  });
  show();
}
