/**
 * The shown path of a conversation. Messages that stay keep their elements; those far away are plain text until
 * they come near, and the browser lays them out only then (`content-visibility`), so thousands do no harm.
 */
import { count, h, icon, rate, seconds } from "./dom.js";
import { Marks } from "./marks.js";
import { MessageView } from "./message.js";

/** Pixels from the end within which the reader is taken to follow along. */
const NEAR_END = 80;

export class Thread {
  constructor(scroller, element, toEnd, actions) {
    this._scroller = scroller;
    this._element = element;
    this._toEnd = toEnd;
    this._actions = actions;
    /** @type {Map<string, MessageView>} */
    this._views = new Map();
    this._follows = true;
    this._frame = 0;
    this._marks = new Marks();
    this._waiting = h("div", { class: "waiting" });
    this._near = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        this._near.unobserve(target);
        const view = this._views.get(target.dataset.id);
        if (view) this._make(view);
      }
    }, { root: scroller, rootMargin: "1200px" });
    scroller.addEventListener("scroll", () => this._scrolled(), { passive: true });
    toEnd.addEventListener("click", () => this.goToEnd());
    // What grows, be it by a picture of a formula that comes late, must not push the end out of sight.
    new ResizeObserver(() => this._follows && this._jump()).observe(element);
  }

  /**
   * Show the path of a conversation from scratch, at its end.
   * @param {any} conversation
   * @param {string[]} words marked wherever they stand
   * @param {any} message shown instead of the end
   */
  open(conversation, words = [], message = null) {
    this._near.disconnect();
    this._views.clear();
    this._element.replaceChildren();
    this._follows = true;
    this.show(conversation);
    this.look(words);
    const view = message && this._views.get(message.id);
    if (view) this._goTo(view);
    else this._jump();
  }

  /** Mark other words, or none. */
  look(words) {
    this._marks.look(words);
    this._marks.mark(this._element);
  }

  /** Show the path as it is now. */
  show(conversation) {
    const path = conversation.tree.path();
    const kept = new Set(path.map((message) => message.id));
    for (const [id, view] of this._views) {
      if (kept.has(id)) continue;
      view.element.remove();
      this._views.delete(id);
    }
    let before = null;
    this._conversation = conversation;
    this._element.classList.toggle("busy", conversation.run !== null);
    for (const message of path) {
      let view = this._views.get(message.id);
      if (!view) {
        view = new MessageView(message, this._actions);
        this._views.set(message.id, view);
        if (before) before.element.after(view.element);
        else this._element.prepend(view.element);
        if (message.id !== conversation.run?.message.id) this._near.observe(view.element);
      }
      this._foot(view);
      before = view;
    }
    this._askResults(conversation, path);
  }

  /** The last reply has grown. Shown with the next frame, however often it grows until then. */
  grow(conversation) {
    this._frame ||= requestAnimationFrame(() => {
      this._frame = 0;
      if (conversation !== this._conversation || !conversation.run) return;
      this._views.get(conversation.run.message.id)?.grow();
      this.tick(conversation);
    });
  }

  /** The last reply has ended. */
  finish(conversation, message) {
    this._waiting.remove();
    const view = this._views.get(message.id);
    view?.finish();
    if (view) this._marks.mark(view.element);
    this.show(conversation);
  }

  /** What is told while a reply is made; called now and then, as time passes. */
  tick(conversation) {
    const { run } = conversation;
    const view = this._views.get(run?.message.id);
    if (!view) return;
    if (!this._waiting.isConnected || this._waiting.parentNode !== view.element) view.element.append(this._waiting);
    const { progress } = run;
    const parts = [h("span", { class: "pulse" })];
    if (progress) {
      const bar = h("progress", { max: progress.total, value: progress.processed, "aria-label": "Prompt read" });
      parts.push(bar, h("span", { text: `Reading the prompt: ${count(progress.processed)} of ${count(progress.total)} tokens` }));
    } else if (run.message.firstSeconds === undefined) {
      parts.push(h("span", { text: run.elapsed < 1 ? "Waiting" : `Waiting, ${seconds(run.elapsed)}` }));
    } else {
      const speed = run.speed === null ? "" : ` · ${rate(run.speed)}`;
      parts.push(h("span", { text: `${count(run.tokens)} tokens${speed}` }));
    }
    this._waiting.replaceChildren(...parts);
  }

  view(id) {
    return this._views.get(id);
  }

  /** The field for a tool's result that waits for the user, or null. */
  get resultField() {
    for (const view of this._views.values()) if (view.resultField) return view.resultField;
    return null;
  }

  goToEnd() {
    this._follows = true;
    this._jump();
  }

  /** Make a message look right. */
  _make(view) {
    view.hydrate();
    this._foot(view);
    this._marks.mark(view.element);
  }

  /** Show the first marked word of a message, though it be folded away. */
  _goTo(view) {
    this._follows = false;
    this._make(view);
    const [word] = this._marks.within(view.element);
    const holder = word?.startContainer.parentElement;
    const folded = holder?.closest("details");
    if (folded) folded.open = true;
    const go = () => {
      view.element.scrollIntoView({ block: "start" });
      // A long thought scrolls by itself, within what scrolls.
      for (const box of [holder?.closest(".thought-text"), this._scroller]) if (word && box) box.scrollTop += middle(word) - middle(box);
    };
    go();
    requestAnimationFrame(() => requestAnimationFrame(go)); // what is near was only text until now
  }

  /** Branches and buttons of a message that is near, where something has changed. */
  _foot(view) {
    if (!view.ready) return;
    const { id, seconds: time, content } = view.message;
    const siblings = this._conversation.tree.siblings(id);
    const same = this._sameAs(view.message);
    const state = `${siblings.join()} ${time} ${content.length > 0} ${same}`;
    if (view.footState === state) return;
    view.footState = state;
    view.showFoot(siblings, same);
  }

  /** That a version has the words of an earlier one, and why, if it is known. */
  _sameAs(message) {
    if (message.role !== "assistant" || message === this._conversation.run?.message) return "";
    const twin = this._conversation.twinOf(message);
    if (!twin) return "";
    const why = message.greedy ? ": at temperature 0 the likeliest token is taken each time"
      : this._conversation.sentWith(message)?.seed !== undefined ? ": with a seed the same question has the same reply"
      : "";
    return `The same as version ${twin}${why}.`;
  }

  _askResults(conversation, path) {
    const { open, dropped } = conversation.unansweredCalls;
    for (const message of path) {
      if (!message.calls?.length) continue;
      const view = this._views.get(message.id);
      const own = (calls) => calls.filter((call) => message.calls.includes(call));
      if (own(open).length) view.hydrate();
      view.askResults(own(open), own(dropped));
    }
  }

  _scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this._scroller;
    const left = scrollHeight - scrollTop - clientHeight;
    this._follows = left < NEAR_END;
    this._toEnd.hidden = left < 2 * NEAR_END;
  }

  _jump() {
    this._scroller.scrollTop = this._scroller.scrollHeight;
  }
}

function middle(thing) {
  const { top, height } = thing.getBoundingClientRect();
  return top + height / 2;
}

/** What an empty conversation shows: who answers, and something to begin with. */
export function welcome(model, onPick) {
  const context = model?.max_model_len ? `It reads up to ${count(model.max_model_len)} tokens. ` : "";
  return h("div", { class: "welcome" },
    h("p", { class: "welcome-name", text: model ? model.id : "No server answers" }),
    h("p", { text: model ? `${context}Conversations are kept in this browser and nowhere else.` : "Earlier conversations can be read; new answers have to wait." }),
    model && h("div", { class: "examples" }, ...EXAMPLES.map((text) => h("button", { type: "button", text, on: { click: () => onPick(text) } }, icon("right")))));
}

const EXAMPLES = ["Who are you?", "What is 17 + 25?", "Tell me a story."];
