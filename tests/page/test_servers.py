"""The page and other servers than an open one that is there: with keys, gone, and with a real model."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qanat.server.engine_client import EngineOptions
from qanat.server.local_engine import LocalEngine
from tests.page.engine import ScriptedEngine
from tests.page.talk import Talk
from tests.server.http.serving import eventually, served

SCRIPTED = ("scripted/model",)


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A tab of a fresh browser, in which the worker may work."""
    context = browser.new_context()
    context.set_default_timeout(8000)
    yield context.new_page()
    context.close()


def test_the_key_is_asked_for_once_and_kept_while_the_tab_lives(tab: Any, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("right\n")
    with served(ScriptedEngine(), keys=keys, names=SCRIPTED) as client:
        talk = Talk(tab, ScriptedEngine(), client.port)
        tab.goto(talk.address)
        tab.locator("#key-field").wait_for()
        assert tab.locator("#key .error").count() == 0
        for wrong in ("wrong", "wrong again", "w\u00f6rng \u2603"):
            tab.evaluate("document.querySelector('#key .error')?.remove()")
            tab.fill("#key-field", wrong)
            tab.keyboard.press("Enter")
            tab.locator("#key .error", has_text="The server does not take this key.").wait_for()
            assert tab.input_value("#key-field") == ""
        tab.fill("#key-field", "right")
        tab.keyboard.press("Enter")
        tab.locator("#model", has_text="scripted/model").wait_for()
        tab.fill("#draft", "Hello")
        tab.keyboard.press("Enter")
        tab.get_by_text("Well.").wait_for()
        tab.keyboard.press("Alt+i")
        tab.locator(".piece").wait_for()
        talk.open()
        assert not tab.locator("#key").is_visible()
        assert tab.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        other = tab.context.new_page()
        other.goto(talk.address)
        other.locator("#key-field").wait_for()
        other.keyboard.press("Escape")
        other.locator("#notice", has_text="The server wants a key.").wait_for()
        other.wait_for_timeout(3500)  # longer than until it would ask for a server again
        assert not other.locator("#key").is_visible()
        other.fill("#draft", "Please")
        other.keyboard.press("Enter")
        other.fill("#key-field", "right")
        other.keyboard.press("Enter")
        other.locator("#model", has_text="scripted/model").wait_for()
        other.locator("#notice").wait_for(state="hidden")
        other.close()
        keys.write_text("changed\n")
        tab.fill("#draft", "Again")
        tab.keyboard.press("Enter")
        tab.locator("#key .error", has_text="The server does not take this key.").wait_for()
        tab.fill("#key-field", "changed")
        tab.keyboard.press("Enter")
        tab.locator("#key").wait_for(state="hidden")
        tab.fill("#draft", "Once more")
        tab.keyboard.press("Enter")
        tab.locator("article .body", has_text="Well.").wait_for()
        assert talk.faults == []


def test_conversations_are_read_when_the_server_is_gone(tab: Any) -> None:
    engine = ScriptedEngine()
    with served(engine, names=SCRIPTED) as client:
        talk = Talk(tab, engine, client.port)
        talk.open()
        talk.ask("Remember $x^2$", "Kept **here**")
        eventually(lambda: bool(tab.evaluate(ACTIVE)))
        talk.open()
    talk.faults.clear()
    tab.goto(talk.address)
    tab.locator("#notice", has_text="The server does not answer.").wait_for()
    tab.click("#conversations .open")
    tab.locator("strong", has_text="here").wait_for()
    tab.keyboard.press("Control+k")
    tab.keyboard.type("kept")
    eventually(lambda: tab.locator("#conversations .open").count() == 1)
    with tab.expect_download() as download:
        tab.click("#export-all")
    assert "Kept **here**" in Path(download.value.path()).read_text()
    tab.fill("#draft", "Anybody?")
    tab.keyboard.press("Enter")
    tab.locator("article .error", has_text="The server does not answer.").wait_for()
    assert talk.faults == []


ACTIVE = "navigator.serviceWorker.getRegistration().then((worker) => !!worker?.active)"


@pytest.mark.parametrize("reload", [False, True])
def test_one_visit_is_enough_for_times_without_a_server_and_its_return_is_noticed(
    tab: Any, reload: bool
) -> None:
    engine = ScriptedEngine()
    with served(engine, names=SCRIPTED) as client:
        talk = Talk(tab, engine, client.port)
        talk.open()
        talk.ask("Remember", "Kept **here**")
        eventually(lambda: bool(tab.evaluate(ACTIVE)))
    if reload:
        tab.reload()  # under the address of the conversation
    else:
        tab.goto("about:blank")
        tab.goto(talk.address)
    tab.locator("#notice", has_text="The server does not answer.").wait_for()
    tab.locator("#conversations .open").click()
    tab.locator("strong", has_text="here").wait_for()
    with served(engine, port=client.port, names=SCRIPTED):
        tab.locator("#model", has_text="scripted/model").wait_for()
        tab.locator("#notice").wait_for(state="hidden")
        talk.ask("There again?", "Yes.")
        assert talk.replies()[-1] == "Yes."
    assert talk.faults == []


@contextlib.contextmanager
def stranger(port: int, status: int) -> Iterator[None]:
    """Another program at the page's address, which says the same to everybody."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<title>stranger</title>"
            self.send_response(status)
            if status == 302:
                self.send_header("location", "/login" if self.path != "/login" else "/")
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


def test_what_another_program_says_at_the_address_is_not_kept_as_the_page(tab: Any) -> None:
    engine = ScriptedEngine()
    with served(engine, names=SCRIPTED) as client:
        talk = Talk(tab, engine, client.port)
        talk.open()
        talk.ask("Remember", "Kept **here**")
        eventually(lambda: bool(tab.evaluate(ACTIVE)))
    with stranger(client.port, 502):  # a proxy whose server is gone
        tab.goto(talk.address)
        tab.locator("#notice", has_text="The server answered with status 502.").wait_for()
    with stranger(client.port, 200):
        tab.goto(talk.address)
        eventually(lambda: tab.title() == "stranger")
    tab.goto(talk.address)
    tab.locator("#conversations .open").click()
    tab.locator("strong", has_text="here").wait_for()


def test_a_server_that_comes_back_is_noticed(tab: Any) -> None:
    engine = ScriptedEngine()
    with served(engine, names=SCRIPTED) as client:
        talk = Talk(tab, engine, client.port)
        tab.route("**/v1/models", lambda route: route.abort())
        tab.goto(talk.address)
        tab.locator("#notice", has_text="The server does not answer.").wait_for()
        tab.click("#close-notice")
        asked = len(talk.requested)
        eventually(lambda: tab.evaluate("1") and len(talk.requested) > asked, 8)  # it went on asking
        assert not tab.locator("#notice").is_visible()  # and does not say again what was read
        tab.unroute("**/v1/models")
        tab.locator("#model", has_text="scripted/model").wait_for()
        tab.locator("#notice").wait_for(state="hidden")


def test_the_built_in_model_answers_calls_a_tool_and_is_seen_from_inside(tab: Any) -> None:
    engine = LocalEngine(EngineOptions(backend="reference"))
    with served(engine) as client:
        talk = Talk(tab, ScriptedEngine(), client.port)
        tab.goto(talk.address)
        tab.fill("#draft", "Who are you?")
        tab.keyboard.press("Enter")
        tab.get_by_text("I am Pocket").wait_for()
        talk.ended()
        tab.keyboard.press("Alt+i")
        tab.locator(".token").first.wait_for()
        tokenizer = engine.llm.tokenizer
        prompt = engine.llm.template.render(
            [{"role": "user", "content": "Who are you?"}], add_generation_prompt=True
        )
        assert tab.locator("pre.prompt").text_content() == prompt
        assert tab.locator("pre.ids").inner_text() == " ".join(map(str, tokenizer.encode(prompt)))
        tab.locator(".piece", has_text="Who").click()
        assert str(tokenizer.encode("Who")[0]) in tab.locator(".detail").first.inner_text()
        text = "".join(tab.locator(".token").all_inner_texts()).replace("␣", " ")
        assert text.startswith("I am Pocket")
        tab.locator(".token").first.hover()
        assert tab.locator(".candidates li").count() == 5
        assert tab.locator(".candidates .drawn code").inner_text() == "I"
        shares = [
            float(v) for v in tab.locator(".candidates meter").evaluate_all("all => all.map(m => m.value)")
        ]
        assert shares == sorted(shares, reverse=True)
        assert 0.5 < sum(shares) <= 1.0001
        tab.locator(".token").first.focus()
        tab.keyboard.press("ArrowRight")
        assert tab.evaluate("document.activeElement.textContent") == tab.locator(".token").nth(1).inner_text()
        assert talk.faults == []
