/**
 * What was written and not sent: a text for each conversation, and one for the next new one. Kept as long as the
 * tab lives, also when the page is loaded anew.
 */

const NAME = "qanat.drafts";
/** What stands for the conversation that does not exist yet. */
const NEXT = "";

export class Drafts {
  /** @param {HTMLTextAreaElement} field */
  constructor(field) {
    this._field = field;
    this._texts = kept();
    this._id = NEXT;
    field.value = this._texts.get(NEXT) ?? "";
    // Not at every key: a long text would be written whole each time.
    addEventListener("pagehide", () => this._keep());
    document.addEventListener("visibilitychange", () => this._keep());
  }

  /** Put away what is in the field, and take out what belongs to this conversation (null: the next one). */
  show(id) {
    this._keep();
    this._id = id ?? NEXT;
    this._field.value = this._texts.get(this._id) ?? "";
    this._field.dispatchEvent(new Event("input"));
  }

  /** Whether what is in the field belongs to no conversation yet. */
  get unowned() {
    return this._id === NEXT;
  }

  /** What is in the field belongs to this conversation now. */
  moveTo(id) {
    this._texts.delete(this._id);
    this._id = id;
  }

  forget(id) {
    this._texts.delete(id);
  }

  _keep() {
    if (this._field.value) this._texts.set(this._id, this._field.value);
    else this._texts.delete(this._id);
    try {
      sessionStorage.setItem(NAME, JSON.stringify([...this._texts]));
    } catch {
      // Then they hold until the page is left.
    }
  }
}

function kept() {
  try {
    return new Map(JSON.parse(sessionStorage.getItem(NAME) ?? "[]"));
  } catch {
    return new Map();
  }
}
