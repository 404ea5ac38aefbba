"""Settings: what is set is sent, what is empty is the server's, and both outlive the tab."""

from __future__ import annotations

from tests.page.engine import PLAIN, THINKING
from tests.page.talk import Talk


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


def test_a_number_out_of_bounds_is_not_taken(talk: Talk) -> None:
    talk.page.click("#open-settings")
    talk.page.fill("#set-temperature", "3")
    talk.page.press("#set-temperature", "Tab")
    talk.page.keyboard.press("Escape")
    talk.ask("Hello")
    assert talk.engine.requests[-1].params.temperature is None


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
