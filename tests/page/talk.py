"""The page under test, in the words of its users."""

from __future__ import annotations

from typing import Any

from tests.page.engine import Say, ScriptedEngine
from tests.server.http.serving import eventually


class Talk:
    """A page that is open, and the engine behind it. `faults` are errors that the browser saw."""

    def __init__(self, page: Any, engine: ScriptedEngine, port: int) -> None:
        self.page, self.engine = page, engine
        self.address = f"http://127.0.0.1:{port}/"
        self.faults: list[str] = []
        self.requested: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", self._noted)
        page.on("request", lambda request: self.requested.append(request.url))
        page.on("framenavigated", lambda frame: self.requested.append(frame.url))

    def _noted(self, message: Any) -> None:
        # A refused request is written to the console by the browser itself; tests look at what the page says.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def open(self) -> None:
        self.page.goto(self.address)
        self.page.locator("#model", has_text="scripted/model").wait_for()

    def ask(self, text: str, *replies: Say | str, ends: bool = True) -> None:
        """Send a message, and wait for the end of the reply."""
        self.engine.will(*replies)
        asked = len(self.engine.requests)
        self.page.fill("#draft", text)
        self.page.press("#draft", "Enter")
        eventually(lambda: len(self.engine.requests) > asked)
        if ends:
            self.ended()

    def ended(self) -> None:
        """Wait until no reply is being made."""
        self.until(
            "document.querySelectorAll('article').length && !document.querySelector('#send').hidden"
            " && !document.querySelector('.waiting')"
        )

    def until(self, expression: str, seconds: float = 5) -> None:
        """Wait until something is so. Not by playwright's own way, which the page's policy forbids."""
        eventually(lambda: bool(self.page.evaluate(expression)), seconds)

    @property
    def reply(self) -> Any:
        """The body of the last reply."""
        return self.page.locator("article.assistant .body").last

    def questions(self) -> list[str]:
        return self._texts("article.user .body")

    def replies(self) -> list[str]:
        return self._texts("article.assistant .body")

    def _texts(self, selector: str) -> list[str]:
        # Not the inner text, which is empty until the browser has laid a message out.
        return [text.strip() for text in self.page.locator(selector).all_text_contents()]

    def sent(self) -> list[dict[str, Any]]:
        """The messages of the last request, as role and content."""
        return [{k: m[k] for k in ("role", "content")} for m in self.engine.requests[-1].messages]

    def module(self, name: str, expression: str, *arguments: Any) -> Any:
        """What `expression`, a function in JavaScript, makes of one of the page's modules and arguments."""
        return self.page.evaluate(
            f"async (given) => ({expression})(await import('/page/js/{name}.js'), ...given)", list(arguments)
        )
