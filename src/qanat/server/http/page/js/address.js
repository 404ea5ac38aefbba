/**
 * The address names the conversation that is shown, as `#` and its id: a reload shows it again, and the browser's
 * way back leads to the one before.
 */

/** The id that the address names, or null. Anybody can write one there, so it must look like ours. */
export function named() {
  return /^#([0-9a-f]{32})$/.exec(location.hash)?.[1] ?? null;
}

/** Name another, or none. `step`: the way back leads to what was shown until now. */
export function setNamed(id, step) {
  if (id === named()) return;
  const address = id === null ? location.pathname + location.search : `#${id}`;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** Be told when the user goes back or forth, or writes another address. */
export function onNamed(f) {
  addEventListener("popstate", () => f(named()));
}
