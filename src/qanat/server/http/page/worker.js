/**
 * Answers for the page's own files when the server does not. With a server it only looks on: what comes from
 * there is always taken, and kept. Questions to the API are none of its business.
 */
const CACHE = "qanat-page";
const FILES = [
  "../",
  "icon.svg",
  "style.css",
  ...["api", "calculator", "code", "conversation", "defaults", "dialogs", "dom", "early", "events", "growing", "inside", "keys", "main", "markdown", "math", "message", "offline", "portable", "preferences", "run", "safe", "sidebar", "store", "theme", "thread", "tools", "tree"].map((name) => `js/${name}.js`),
  ...["markdown-it.min.js", "purify.min.js", "highlight.min.js", "katex/katex.min.js", "katex/katex.min.css"].map((name) => `vendor/${name}`),
];
const ROOT = new URL("../", self.location.href);
const PAGE = new URL("./", self.location.href);

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const ours = request.method === "GET" && (request.url === ROOT.href || request.url.startsWith(PAGE.href));
  if (ours) event.respondWith(fromServer(request));
});

async function fromServer(request) {
  const cache = await caches.open(CACHE);
  try {
    const answer = await fetch(request);
    if (answer.ok) await cache.put(request, answer.clone());
    return answer;
  } catch (error) {
    const kept = await cache.match(request);
    if (kept) return kept;
    throw error;
  }
}
