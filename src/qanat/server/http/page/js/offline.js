/**
 * Keeps the page itself for times without a server (worker.js), where the browser can: over HTTPS or on this
 * machine.
 */
export async function keepOffline() {
  if (!navigator.serviceWorker) return;
  const address = new URL("../worker.js", import.meta.url);
  // The page's policy lets no string name a script but through a policy that the server knows by name.
  const policy = globalThis.trustedTypes?.createPolicy("qanat-worker", {
    createScriptURL: (name) => {
      if (name !== address.href) throw new TypeError("this is not our worker");
      return name;
    },
  });
  try {
    await navigator.serviceWorker.register(policy ? policy.createScriptURL(address.href) : address.href, { scope: new URL("../../", import.meta.url).pathname });
  } catch {
    // Without it everything works but a start without a server.
  }
}
