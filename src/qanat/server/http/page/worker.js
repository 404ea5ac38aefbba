/**
 * Answers for the page's own files when the server does not. With a server it only looks on: what comes from
 * there is always taken, and kept. Questions to the API are none of its business.
 */
const CACHE = "qanat-page";
const FILES = [
  "../",
  "icon.svg",
  "style.css",
  ...["address", "api", "calculator", "chunks", "code", "conversation", "defaults", "dialogs", "dom", "drafts", "early", "events", "growing", "inside", "keys", "main", "markdown", "marks", "math", "message", "notice", "offline", "portable", "preferences", "run", "safe", "search", "settings", "sidebar", "store", "theme", "thread", "title", "tools", "tree"].map((name) => `js/${name}.js`),
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
  const { origin, pathname } = new URL(request.url);
  const address = origin + pathname; // what follows changes nothing of what the server says
  const ours = request.method === "GET" && (address === ROOT.href || address.startsWith(PAGE.href));
  if (ours) event.respondWith(fromServer(request, address));
});

async function fromServer(request, address) {
  const cache = await caches.open(CACHE);
  // Whether the browser told its origin differs between files and visits, and says nothing about what is in them.
  const kept = () => cache.match(address, { ignoreVary: true });
  let answer;
  try {
    answer = await fetch(request);
  } catch (error) {
    answer = await kept();
    if (!answer) throw error;
    return answer;
  }
  if (isOurs(answer)) await cache.put(address, answer.clone());
  else if (answer.status >= 500) return (await kept()) ?? answer; // a proxy is there, the server behind it is not
  return answer;
}

/** Another program at this address, or a page that asks who one is, must not be kept in the place of ours. */
function isOurs(answer) {
  const policy = answer.headers.get("content-security-policy") ?? "";
  return answer.ok && !answer.redirected && policy.includes("trusted-types dompurify qanat-worker");
}
