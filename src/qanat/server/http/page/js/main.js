/**
 * Where everything meets: one conversation is shown, as chat or from inside; the rest of the page acts on it.
 */
import { named, onNamed, setNamed } from "./address.js";
import { ApiError, hasKey, listModels } from "./api.js";
import { Conversation } from "./conversation.js";
import { isGreedy } from "./defaults.js";
import { askKey, confirmed, openHelp } from "./dialogs.js";
import { $, count, fillIcons, h } from "./dom.js";
import { Drafts } from "./drafts.js";
import { showInside } from "./inside.js";
import { KEYS, listenToKeys } from "./keys.js";
import { closeNotice, notify, outdate, retract } from "./notice.js";
import { keepOffline } from "./offline.js";
import { keepSettings, lastSettings, records, setRecords } from "./preferences.js";
import { firstWith } from "./search.js";
import { openSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import * as store from "./store.js";
import { themeSwitch } from "./theme.js";
import { Thread, welcome } from "./thread.js";
import { rename } from "./title.js";

/** Milliseconds between two looks at a server that did not answer, and between two ticks of a clock. */
const ASK_AGAIN = 3000;
const TICK = 250;

let models = [];
/** @type {Conversation} */
let shown;
/** Conversations in which a reply is made, shown or not. */
const running = new Map();
let inside = false;

const thread = new Thread($("scroller"), $("thread"), $("to-end"), {
  select: (id) => shown.run || shown.select(id),
  again: (id) => shown.run || act(() => shown.again(id, options())),
  edit: (view) => shown.run || view.startEdit((text) => act(() => shown.ask(text, options(), view.message.id))),
  giveResult: (call, text) => act(() => shown.giveResult(call, text, options())),
});
const sidebar = new Sidebar({ open, remove, look: () => thread.look(sidebar.words) });
const options = () => ({ record: records(), greedy: isGreedy(modelOf(shown), shown.data.settings) });
const modelOf = ({ data }) => models.find(({ id }) => id === data.settings.model) ?? models[0];

// -- what is shown ---------------------------------------------------------------------------------------

function show(conversation) {
  shown = conversation;
  drafts.show(conversation.isEmpty ? null : conversation.data.id);
  const { words } = sidebar;
  const found = firstWith(words, conversation.tree);
  if (found && !conversation.run && !conversation.tree.path().includes(found)) conversation.tree.select(found.id);
  thread.open(conversation, words, found);
  showEmpty();
  showState();
  sidebar.show(conversation.data.id);
  sidebar.close();
  if (inside) showInside($("inside"), shown);
  else if (!matchMedia("(pointer: coarse)").matches) $("draft").focus();
}

function showEmpty() {
  $("thread").querySelector(".welcome")?.remove();
  if (shown.isEmpty) $("thread").append(welcome(models[0], send));
}

/** All that depends on the shown conversation but the messages themselves. */
function showState() {
  const { data, run } = shown;
  $("title").textContent = data.title || "New conversation";
  $("title").disabled = shown.isEmpty;
  document.title = data.title ? `${data.title} - qanat` : "qanat";
  $("send").hidden = run !== null;
  $("stop").hidden = run === null;
  const model = modelOf(shown);
  $("model").textContent = model?.id ?? "no server";
  const defaults = model?.chat_defaults;
  $("thinking").hidden = !defaults?.can_switch;
  $("thinking").setAttribute("aria-pressed", String(data.settings.thinking ?? defaults?.thinks ?? false));
  const used = shown.tree.path().findLast((message) => message.usage)?.usage;
  $("gauge").hidden = !used || !model?.max_model_len;
  if ($("gauge").hidden) return;
  const tokens = used.prompt + used.completion;
  $("gauge-bar").value = tokens / model.max_model_len;
  $("gauge-text").textContent = `${count(tokens)} of ${count(model.max_model_len)} tokens`;
}

function announce(text) {
  $("announce").textContent = text;
}

function setInside(on) {
  inside = on;
  $("chat").hidden = on;
  $("inside").hidden = !on;
  $("show-chat").setAttribute("aria-pressed", String(!on));
  $("show-inside").setAttribute("aria-pressed", String(on));
  if (on) showInside($("inside"), shown);
  else thread.goToEnd();
}

// -- what is done ----------------------------------------------------------------------------------------

/** `step`: the browser's way back leads to what is shown now. */
function begin(step = true) {
  show(listened(Conversation.fresh(lastSettings())));
  setNamed(null, step);
}

async function open(id, step = true) {
  const there = running.get(id) ?? (shown.data.id === id ? shown : null);
  try {
    show(there ?? listened(await Conversation.load(id)));
    setNamed(id, step);
  } catch (error) {
    notify(`This conversation cannot be read: ${error.message}.`);
    setNamed(shown.isEmpty ? null : shown.data.id, false);
  }
}

async function remove(data) {
  if (!(await confirmed(`Delete "${data.title}"? It cannot be brought back.`, "Delete"))) return;
  running.get(data.id)?.stop();
  await store.remove(data.id);
  if (shown.data.id === data.id) begin(false);
  else sidebar.show();
  drafts.forget(data.id);
}

function send(text) {
  if (!text.trim() || shown.run) return;
  act(() => shown.ask(text, options()));
}

/** Do something that makes a reply; settings that cannot be sent are told. */
async function act(work) {
  outdate();
  thread.goToEnd();
  const conversation = shown;
  running.set(conversation.data.id, conversation);
  try {
    await work();
  } catch (error) {
    notify(error.message);
  } finally {
    running.delete(conversation.data.id);
    if (conversation === shown) {
      showState();
      focusNext();
    }
  }
}

/** To where the user writes next, a tool's result or a message, but not away from what is being done. */
function focusNext() {
  const here = document.activeElement;
  const idle = here === document.body || (here === $("draft") && !here.value);
  if (!idle || inside || matchMedia("(pointer: coarse)").matches) return;
  (thread.resultField ?? $("draft")).focus();
}

/** A conversation whose events reach the page while it is shown. */
function listened(conversation) {
  const when = (name, f) => conversation.addEventListener(name, (event) => conversation === shown && f(event.detail));
  when("changed", (added) => {
    if (drafts.unowned) {
      drafts.moveTo(conversation.data.id);
      setNamed(conversation.data.id, false);
    }
    showEmpty();
    thread.show(conversation);
    if (added) focusNext();
    showState();
    sidebar.show();
    if (conversation.run) announce("Answering");
    if (inside) showInside($("inside"), conversation);
  });
  when("grown", () => thread.grow(conversation));
  when("ended", (message) => {
    thread.finish(conversation, message);
    showState();
    sidebar.show();
    announce(message.error ? "The reply failed" : "The reply is complete");
    if (inside) showInside($("inside"), conversation);
  });
  when("refused", lookForServer); // which asks for another key
  when("unsaved", (error) => notify(`This browser did not keep the conversation: ${error?.message ?? "no room"}`));
  return conversation;
}

// -- the server ------------------------------------------------------------------------------------------

let looking = false;

/** Ask who answers, again and again until somebody does. */
async function lookForServer() {
  if (looking) return;
  looking = true;
  try {
    models = await listed();
    if (models.some(({ max_model_len }) => max_model_len === null)) throw new ApiError("The model is still being loaded.");
    retract("server");
  } catch (error) {
    notify(error.status === 401 ? "The server wants a key. Send a message to be asked for it again." : error.message, { topic: "server" });
    if (error.status !== 401) setTimeout(lookForServer, ASK_AGAIN);
  } finally {
    looking = false;
  }
  showEmpty();
  showState();
}

/** The server's models, with a key that it takes if it wants one and the user has it. */
async function listed() {
  while (true) {
    try {
      return await listModels();
    } catch (error) {
      if (error.status !== 401 || !(await askKey(hasKey() ? "The server does not take this key." : ""))) throw error;
    }
  }
}

// -- the page --------------------------------------------------------------------------------------------

fillIcons();
themeSwitch($("theme"));
const drafts = new Drafts($("draft"));
show(listened(Conversation.fresh(lastSettings())));
if (named()) open(named(), false);
onNamed((id) => (id ? open(id, false) : begin(false)));
lookForServer();
keepOffline();

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("draft").value;
  if (!text.trim() || shown.run) return;
  $("draft").value = "";
  send(text);
});
$("close-notice").addEventListener("click", closeNotice);
$("title").addEventListener("click", () => rename(shown));
$("stop").addEventListener("click", () => shown.stop());
if (!CSS.supports("field-sizing", "content")) {
  $("draft").addEventListener("input", ({ target }) => {
    target.rows = Math.min(12, target.value.split("\n").length);
  });
}
$("new-chat").addEventListener("click", () => begin());
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is a conversation's
  $("draft").focus();
});
$("show-chat").addEventListener("click", () => setInside(false));
$("show-inside").addEventListener("click", () => setInside(true));
$("open-help").addEventListener("click", () => openHelp(KEYS));
$("open-settings").addEventListener("click", settingsDialog);
$("thinking").addEventListener("click", () => changeSettings(() => {
  shown.data.settings.thinking = $("thinking").getAttribute("aria-pressed") !== "true";
}));
setInterval(() => shown.run && thread.tick(shown), TICK);

function settingsDialog() {
  openSettings({
    settings: shown.data.settings,
    models,
    preferences: { record: records() },
    onChange: () => changeSettings(() => {}),
    onPreference: (name, value) => setRecords(value),
  });
}

function changeSettings(change) {
  change();
  keepSettings(shown.data.settings);
  shown.keepSettings();
  showState();
}

listenToKeys({
  escape: () => {
    if (sidebar.covers) sidebar.leave();
    else if (shown.run) shown.stop();
    else closeNotice();
  },
  search: () => sidebar.search(),
  begin: () => begin(),
  inside: () => setInside(!inside),
  settings: settingsDialog,
  help: () => openHelp(KEYS),
  again: () => {
    const last = shown.tree.path().findLast((message) => message.role === "assistant");
    if (last && !shown.run) act(() => shown.again(last.id, options()));
  },
  editLast: () => {
    const last = shown.tree.path().findLast((message) => message.role === "user");
    if (last && !shown.run) thread.view(last.id).startEdit((text) => act(() => shown.ask(text, options(), last.id)));
  },
});
