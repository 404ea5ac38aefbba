"""Tools: schemas are pasted, calls are shown, results are typed or come from the page's own calculator."""

from __future__ import annotations

import json
from threading import Event

import pytest

from tests.page.engine import Say
from tests.page.talk import Talk

WEATHER = [
    {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
]


def offer(talk: Talk, tools: str = "", *, calculator: bool = False) -> None:
    talk.page.click("#open-settings")
    if tools:
        talk.page.fill("#tools", tools)
        talk.page.press("#tools", "Tab")
    if calculator:
        talk.page.check("#calculator")
    talk.page.keyboard.press("Escape")


def test_a_call_is_shown_and_the_typed_result_lets_the_model_go_on(talk: Talk) -> None:
    offer(talk, json.dumps(WEATHER))
    talk.ask("Weather?", Say("I look.", calls=[("get_weather", '{"city": "Yazd"}')]), "Sunny.")
    assert talk.engine.requests[0].tools == [{"type": "function", "function": WEATHER[0]}]
    assert talk.page.inner_text(".call-head b") == "get_weather"
    assert json.loads(talk.page.inner_text(".call pre")) == {"city": "Yazd"}
    assert talk.replies() == ["I look."]
    talk.page.fill(".call textarea", "clear, 31 degrees")
    talk.page.click(".call form button")
    talk.page.get_by_text("Sunny.").wait_for()
    talk.ended()
    *_, call, result = talk.engine.requests[-1].messages
    assert call["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": {"city": "Yazd"}}
    assert (result["role"], result["content"]) == ("tool", "clear, 31 degrees")
    assert talk.page.inner_text(".result pre") == "clear, 31 degrees"
    assert talk.page.locator(".call form").count() == 0


def test_the_model_waits_until_every_call_has_its_result(talk: Talk) -> None:
    offer(talk, json.dumps(WEATHER))
    calls = [("get_weather", '{"city": "Yazd"}'), ("get_weather", '{"city": "Kerman"}')]
    talk.ask("Weather?", Say(calls=calls), "Both sunny.")
    fields = talk.page.locator(".call textarea")
    fields.nth(0).fill("one")
    talk.page.locator(".call form button").nth(0).click()
    talk.page.locator(".result").wait_for()
    assert len(talk.engine.requests) == 1
    fields.last.fill("two")
    talk.page.locator(".call form button").last.click()
    talk.page.get_by_text("Both sunny.").wait_for()
    assert [m["content"] for m in talk.engine.requests[-1].messages[-2:]] == ["one", "two"]


@pytest.mark.parametrize("keys", ["Enter", "Control+Enter"])
def test_results_are_given_without_leaving_the_keyboard(talk: Talk, keys: str) -> None:
    offer(talk, json.dumps(WEATHER))
    talk.page.focus("#draft")
    calls = [("get_weather", '{"city": "Yazd"}'), ("get_weather", '{"city": "Kerman"}')]
    hold = Event()
    talk.ask("Weather?", Say(calls=calls), Say("They are both sunny.", hold=hold))
    talk.until("document.activeElement.matches('.call textarea')")
    talk.page.keyboard.type("one")
    talk.page.keyboard.press("Shift+Enter")
    talk.page.keyboard.type("more")
    talk.page.keyboard.press(keys)
    talk.page.locator(".result").wait_for()
    talk.until("document.activeElement.matches('.call textarea')")
    talk.page.keyboard.type("two")
    talk.page.keyboard.press(keys)
    talk.page.get_by_text("They are").wait_for()
    talk.page.keyboard.type("Thanks")
    hold.set()
    talk.ended()
    assert [m["content"] for m in talk.engine.requests[-1].messages[-2:]] == ["one\nmore", "two"]
    assert talk.page.input_value("#draft") == "Thanks"


def test_what_is_being_written_is_not_left_for_a_result(talk: Talk) -> None:
    hold = Event()
    talk.ask("Weather?", Say("I look.", calls=[("f", '{"a": 12345678}')], hold=hold), ends=False)
    talk.page.locator(".call").wait_for()
    talk.page.keyboard.type("Wait")
    hold.set()
    talk.page.locator(".call form").wait_for()
    talk.page.keyboard.type(", no")
    assert talk.page.input_value("#draft") == "Wait, no"


def test_a_call_that_was_passed_over_says_so(talk: Talk) -> None:
    note = "Not answered: the conversation went on without a result."
    calls = [("first", "{}"), ("second", "{}")]
    talk.ask("Weather?", Say(calls=calls))
    talk.page.locator(".call textarea").first.fill("done")
    talk.page.locator(".call form button").first.click()
    assert talk.page.locator(".call .ended").count() == 0
    talk.ask("Never mind", "Fine.")
    cards = talk.page.locator(".call").all_inner_texts()
    assert [note in card for card in cards] == [False, True]
    assert talk.page.locator(".call form").count() == 0
    talk.open()
    talk.page.click("#conversations .open")
    talk.page.locator(".call .ended", has_text=note).wait_for()
    talk.page.locator("article.user").last.hover()
    talk.page.locator("article.user button[aria-label='Edit']").last.click()
    talk.page.fill(".editor textarea", "Do mind")
    talk.page.keyboard.press("Enter")
    talk.ended()
    assert talk.page.locator(".call .ended").count() == 1


def test_the_calculator_answers_by_itself(talk: Talk) -> None:
    offer(talk, calculator=True)
    talk.ask("17 * 3?", Say(calls=[("calculator", '{"expression": "17 * 3"}')]), "It is 51.")
    talk.page.get_by_text("It is 51.").wait_for()
    assert talk.engine.requests[0].tools is not None
    assert talk.engine.requests[0].tools[0]["function"]["name"] == "calculator"
    assert talk.engine.requests[-1].messages[-1]["content"] == "51"
    talk.ended()
    assert talk.page.evaluate("document.activeElement.id") == "draft"


def test_a_model_that_calls_for_ever_is_left_waiting(talk: Talk) -> None:
    offer(talk, calculator=True)
    talk.ask("Loop", *[Say(calls=[("calculator", '{"expression": "1"}')])] * 30)
    talk.page.locator(".call form").wait_for()
    assert len(talk.engine.requests) == 11


CALCULATE = (
    "({calculate}, text) => { try { return calculate(text); } catch (error) { return error.message; } }"
)
VALUES = {
    "1 + 2 * 3": 7,
    "(1 + 2) * -3": -9,
    "2 ^ 3 ^ 2": 512,
    "2 ** -1": 0.5,
    "-2 ^ 2": -4,
    "10 % 4 / 2": 1,
    ".5e1 + 1.": 6,
    "sqrt(16) + max(1, 2, 3) - abs(-1)": 6,
    "round(pi * 100)": 314,
    "7 - 2 - 1": 4,
}
NO_ARITHMETIC = [
    *("", "1 +", "(1", "1)", "1 2", "1 / 0", "2 ^ 99999", "alert(1)", "constructor", "sqrt", "sqrt 4"),
    *("globalThis", "1; alert(1)", "[].map", "'a'", "`1`", "a.b", "__proto__", "toString()", "(" * 1001),
]


def test_the_calculator_knows_arithmetic_and_nothing_else(talk: Talk) -> None:
    for expression, value in VALUES.items():
        assert talk.module("calculator", CALCULATE, expression) == value, expression
    for expression in NO_ARITHMETIC:
        assert isinstance(talk.module("calculator", CALCULATE, expression), str), expression
