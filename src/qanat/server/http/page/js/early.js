// Runs before the first paint, so that the chosen theme does not flash up in the other one's colours.
try {
  const theme = localStorage.getItem("qanat.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing shows the system's theme.
}
