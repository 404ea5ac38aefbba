"""Settings: what is set is sent, what is empty is the server's, and both outlive the tab."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.page.engine import PLAIN, THINKING
from tests.page.talk import Talk
from tests.page.test_conversations import exported, importing


def test_what_is_set_is_sent_and_nothing_else(talk: Talk) -> None:
    talk.ask("Plain")
    request = talk.engine.requests[-1]
    assert (request.params.temperature, request.params.seed, request.enable_thinking) == (None, None, None)
    assert request.model is None
    talk.page.click("#open-settings")
    for name, value in (("temperature", "0.25"), ("top_k", "7"), ("max_tokens", "99"), ("seed", "5")):
        talk.page.fill(f"#set-{name}", value)
        talk.page.press(f"#set-{name}", "Tab")
    talk.page.fill("#system", "Be brief.")
    talk.page.select_option("#thinking-mode", "on")
    talk.page.select_option("#model-name", "scripted/model")
    talk.page.keyboard.press("Escape")
    talk.ask("Set")
    request = talk.engine.requests[-1]
    params = request.params
    assert (params.temperature, params.top_k, params.max_tokens, params.seed) == (0.25, 7, 99, 5)
    assert (params.top_p, request.enable_thinking, request.model) == (None, True, "scripted/model")
    assert talk.sent()[0] == {"role": "system", "content": "Be brief."}
    talk.open()
    talk.ask("After a reload")
    assert talk.engine.requests[-1].params.temperature == 0.25
    talk.page.click("#open-settings")
    talk.page.fill("#set-temperature", "")
    talk.page.press("#set-temperature", "Tab")
    talk.page.keyboard.press("Escape")
    talk.ask("Cleared")
    assert talk.engine.requests[-1].params.temperature is None


def test_an_empty_field_shows_what_the_server_does(talk: Talk) -> None:
    talk.page.click("#open-settings")

    def shown(name: str) -> str:
        return str(talk.page.get_attribute(f"#set-{name}", "placeholder"))

    assert shown("temperature") == str(PLAIN["temperature"])
    assert (shown("top_k"), shown("max_tokens"), shown("seed")) == ("20", "512", "random")
    talk.page.select_option("#thinking-mode", "on")
    assert float(shown("temperature")) == THINKING["temperature"]
    talk.page.fill("#set-temperature", "0")
    talk.page.press("#set-temperature", "Tab")
    assert shown("seed") == "not used"  # nothing is drawn


WRONG = [
    *(("set-temperature", text) for text in ("9", "-1", "1e", "1e999")),
    *(("set-top_k", text) for text in ("2.5", "1001")),
    *(("set-max_tokens", text) for text in ("0", "2147483648")),
    ("set-repetition_penalty", "0"),
    ("set-seed", "-1"),
    *(("tools", text) for text in ('[{"name": "get_', "5", '[{"description": "nameless"}]', "null")),
]


def leave(talk: Talk, how: str) -> None:
    if how == "phone":  # which asks once, and then closes it
        talk.page.evaluate("document.querySelector('#settings').requestClose()")
        talk.page.evaluate("document.querySelector('#settings').close()")
        talk.page.wait_for_timeout(50)
    elif how == "button":
        talk.page.click("#settings .dialog-head button")
    else:
        for _ in range(3):
            talk.page.keyboard.press("Escape")


@pytest.mark.parametrize("width", [1200, 360])
def test_what_cannot_be_sent_keeps_the_settings_open_and_is_told_where_it_stands(
    talk: Talk, width: int
) -> None:
    talk.page.set_viewport_size({"width": width, "height": 640})
    talk.page.keyboard.press("Alt+s")
    told = set()
    for place, (name, text) in enumerate(WRONG):
        talk.page.focus(f"#{name}")
        talk.page.keyboard.press("Control+a")
        talk.page.keyboard.type(text)
        written = talk.page.input_value(f"#{name}")
        talk.page.evaluate("document.querySelector('#settings').scrollTop = 0")
        leave(talk, ("Escape", "button", "phone")[place % 3])
        assert talk.page.locator("#settings").is_visible(), text
        error = talk.page.locator(f"#{name}-wrong")
        told.add(error.inner_text())
        assert seen(talk, f"#{name}-wrong"), text
        assert talk.page.evaluate("document.activeElement.id") == name
        assert talk.page.input_value(f"#{name}") == written
        assert talk.page.get_attribute(f"#{name}", "aria-invalid") == "true"
        talk.page.fill(f"#{name}", "")
        error.wait_for(state="hidden")
    assert "Temperature has to be a number from 0 to 2, or empty." in told
    assert "Top k has to be a whole number from 0 to 1,000, or empty." in told
    assert "Tool 1 has no name." in told
    talk.page.fill("#set-temperature", "0.5")
    talk.page.click("#settings >> text=Done")
    assert not talk.page.locator("#settings").is_visible()
    talk.ask("Hello")
    assert talk.engine.requests[-1].params.temperature == 0.5
    assert talk.engine.requests[-1].tools is None


def seen(talk: Talk, selector: str) -> bool:
    """Whether nothing lies over the middle of it, and it is within the window."""
    found = talk.page.evaluate(
        """(selector) => {
            const element = document.querySelector(selector);
            const {x, y, width, height} = element.getBoundingClientRect();
            return element.contains(document.elementFromPoint(x + width / 2, y + height / 2));
        }""",
        selector,
    )
    return bool(found)


def test_what_is_valid_counts_however_the_settings_are_left(talk: Talk) -> None:
    for place, how in enumerate(("Escape", "button", "phone")):
        talk.page.keyboard.press("Alt+s")
        talk.page.fill("#set-top_k", str(place + 1))
        leave(talk, how)
        talk.page.locator("#settings").wait_for(state="hidden")
        talk.ask("Hello")
        assert talk.engine.requests[-1].params.top_k == place + 1


def test_discarding_leaves_the_settings_as_they_were(talk: Talk) -> None:
    talk.page.keyboard.press("Alt+s")
    talk.page.fill("#set-top_k", "5")
    talk.page.keyboard.press("Escape")
    talk.page.keyboard.press("Alt+s")
    for name, text in (("set-top_k", "6"), ("set-top_p", "0.5"), ("tools", "[{"), ("set-seed", "-1")):
        talk.page.fill(f"#{name}", text)
        talk.page.press(f"#{name}", "Tab")
    talk.page.uncheck("#record")
    talk.page.check("#calculator")
    talk.page.click("#settings >> text=Discard changes")
    assert not talk.page.locator("#settings").is_visible()
    talk.ask("Hello")
    request = talk.engine.requests[-1]
    assert (request.params.top_k, request.params.top_p, request.params.logprobs) == (5, None, 5)
    assert request.tools is None
    talk.page.keyboard.press("Alt+s")
    assert talk.page.input_value("#tools") == ""


def test_thinking_is_switched_beside_the_message(talk: Talk) -> None:
    assert talk.page.get_attribute("#thinking", "aria-pressed") == "false"
    talk.page.click("#thinking")
    talk.ask("Think")
    assert talk.engine.requests[-1].enable_thinking is True
    talk.page.click("#thinking")
    talk.ask("Do not")
    assert talk.engine.requests[-1].enable_thinking is False


def test_a_conversation_keeps_its_settings_and_a_new_one_begins_with_the_last(talk: Talk) -> None:
    talk.ask("Cold")
    talk.page.click("#open-settings")
    talk.page.fill("#set-temperature", "0")
    talk.page.press("#set-temperature", "Tab")
    talk.page.keyboard.press("Escape")
    talk.page.click("#new-chat")
    talk.ask("New")
    assert talk.engine.requests[-1].params.temperature == 0
    talk.page.click("#open-settings")
    talk.page.fill("#set-temperature", "1.5")
    talk.page.press("#set-temperature", "Tab")
    talk.page.keyboard.press("Escape")
    talk.page.click("#conversations .open >> text=Cold")
    talk.page.locator("article.user", has_text="Cold").wait_for()
    talk.ask("Again")
    assert talk.engine.requests[-1].params.temperature == 0


def test_inside_explains_a_reply_with_what_it_was_asked_with(talk: Talk) -> None:
    """Not with today's settings: those of each reply, also after a reload and from a file."""
    explained: list[dict[str, Any]] = []

    def note(route: Any) -> None:
        explained.append(json.loads(route.request.post_data))
        route.continue_()

    def look() -> tuple[Any, ...]:
        explained.clear()
        talk.page.keyboard.press("Alt+i")
        talk.page.locator(".token").first.wait_for()
        told = talk.page.locator(".stage").last.inner_text()
        talk.page.keyboard.press("Alt+i")
        body = explained[-1]
        first = body["messages"][0]
        system = first["content"] if first["role"] == "system" else None
        assert ("likeliest is taken" in told) != ("one is drawn" in told)
        thinking = body.get("chat_template_kwargs", {}).get("enable_thinking")
        return system, thinking, "tools" in body, "one is drawn" in told

    def change(system: str, thinking: str, tools: str, temperature: str) -> None:
        talk.page.keyboard.press("Alt+s")
        talk.page.fill("#system", system)
        talk.page.select_option("#thinking-mode", thinking)
        talk.page.fill("#tools", tools)
        talk.page.fill("#set-temperature", temperature)
        talk.page.keyboard.press("Escape")

    talk.page.route("**/explain", note)
    change("Be brief.", "on", '{"name": "f"}', "0")
    talk.ask("Say", "One.")
    talk.ask("More", "Two.")
    was = ("Be brief.", True, True, False)
    change("Be long.", "off", "", "1")
    assert look() == was
    talk.page.reload()
    talk.page.get_by_text("Two.").wait_for()
    assert look() == was
    talk.ask("Now", "Three.")
    now = ("Be long.", False, False, True)
    assert look() == now
    file = exported(talk)
    assert [("settings" in m) for m in file["conversations"][0]["messages"]] == [
        False,
        True,
        False,
        False,
        False,
        True,
    ]
    talk.page.hover("#conversations li")
    talk.page.click("button[aria-label^=Delete]")
    talk.page.click("#confirm button >> text=Delete")
    importing(talk, file)
    talk.page.locator("article.assistant", has_text="Three.").wait_for()
    again = exported(talk)
    assert again == file
