"""Light and dark, a phone, the keyboard, a first paint at once, and nothing that axe finds serious."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest

from tests.page.engine import Say
from tests.page.talk import Talk
from tests.page.test_chat import MARKDOWN


def background(talk: Talk) -> str:
    return str(talk.page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_the_theme_follows_the_system_and_can_be_chosen(talk: Talk) -> None:
    talk.page.emulate_media(color_scheme="light")
    light = background(talk)
    talk.page.emulate_media(color_scheme="dark")
    dark = background(talk)
    assert light != dark
    talk.page.click("button[aria-label='Theme: as the system has it']")
    assert background(talk) == light
    talk.open()
    assert background(talk) == light
    talk.page.click("button[aria-label='Theme: light']")
    talk.page.emulate_media(color_scheme="light")
    assert background(talk) == dark
    talk.page.click("button[aria-label='Theme: dark']")
    assert background(talk) == light


@pytest.mark.parametrize("width", [1200, 360])
def test_every_button_says_what_it_does(talk: Talk, width: int) -> None:
    """In words that are seen, or in some that come up under the pointer and are read out."""
    talk.page.set_viewport_size({"width": width, "height": 700})
    talk.ask("Say", Say("```\ncode\n```", calls=[("f", "{}")]))
    talk.page.keyboard.press("Alt+s")
    mute = talk.page.evaluate(
        """() => [...document.querySelectorAll('button')]
            .filter((button) => button.checkVisibility({visibilityProperty: true}))
            .filter((button) => !button.innerText.trim() && !(button.title && button.ariaLabel))
            .map((button) => button.outerHTML)"""
    )
    assert mute == []
    talk.page.keyboard.press("Escape")
    if width < 760:
        talk.page.click("#open-sidebar")
    shown = talk.page.locator("#sidebar .tools button").all_inner_texts()
    assert shown == ["Import", "Export", "Theme", "Help"]


def test_files_come_in_upwards_and_go_out_downwards(talk: Talk) -> None:
    """The arrows point as everywhere else: up for what is taken in, down for what is saved."""
    talk.ask("Say")
    tips = {
        name: talk.page.locator(f"{name} path").first.get_attribute("d").split("m0 0")[0]
        for name in ("#import", "#export-all", "#conversations li button[aria-label^=Export]")
    }
    assert tips == {
        "#import": "M12 15V4",
        "#export-all": "M12 4v11",
        "#conversations li button[aria-label^=Export]": "M12 4v11",
    }


def test_everything_is_done_with_the_keyboard(talk: Talk) -> None:
    press = talk.page.keyboard.press
    talk.ask("First", "One")
    talk.engine.will("Two")
    press("Alt+r")
    talk.page.get_by_text("Two").wait_for()
    press("Alt+i")
    assert talk.page.locator("#inside").is_visible()
    press("Alt+i")
    assert talk.page.locator("#chat").is_visible()
    press("Alt+s")
    assert talk.page.locator("#settings").is_visible()
    press("Escape")
    assert not talk.page.locator("#settings").is_visible()
    press("Control+k")
    talk.page.keyboard.type("first")
    assert talk.page.evaluate("document.activeElement.id") == "search"
    press("Alt+n")
    talk.page.locator(".welcome").wait_for()
    assert talk.page.evaluate("document.activeElement.id") == "draft"
    press("?")
    assert not talk.page.locator("#help").is_visible()  # it is typed
    assert talk.page.input_value("#draft") == "?"
    talk.page.focus("#scroller")
    press("?")
    assert "answer again" in talk.page.inner_text("#help")


@pytest.mark.parametrize("width", [1200, 770])
def test_no_key_moves_the_frame_of_the_page(talk: Talk, width: int) -> None:
    """The list stays beside what is read, whatever is pressed, and Escape leaves all as it was."""
    talk.page.set_viewport_size({"width": width, "height": 700})
    talk.ask("First", "One")
    boxes = """['#sidebar', 'main'].map((name) => {
        const {x, y, width, height} = document.querySelector(name).getBoundingClientRect();
        return [x, y, width, height];
    })"""
    before = talk.page.evaluate(boxes)
    for keys in ("Control+k", "Alt+i", "Alt+i", "Alt+s", "Alt+n", "Alt+r"):
        talk.page.keyboard.press(keys)
        assert talk.page.evaluate(boxes) == before, keys
        talk.page.keyboard.press("Escape")
        assert talk.page.evaluate(boxes) == before, keys


def test_on_a_phone_the_list_is_opened_and_closed_by_keys(talk: Talk) -> None:
    talk.page.set_viewport_size({"width": 360, "height": 640})
    for opens in ("key", "button"):
        if opens == "key":
            talk.page.keyboard.press("Control+k")
            talk.page.keyboard.type("x")
            assert talk.page.input_value("#search") == "x"
            talk.page.keyboard.press("Backspace")
        else:
            talk.page.click("#open-sidebar")
        talk.page.locator("#shade").wait_for()
        talk.page.keyboard.press("Escape")
        talk.page.locator("#sidebar").wait_for(state="hidden")
        talk.page.locator("#shade").wait_for(state="hidden")
        assert talk.page.evaluate("document.activeElement.id") == "open-sidebar"


def test_escape_closes_the_list_before_it_stops_a_reply(talk: Talk) -> None:
    hold = Event()
    talk.ask("Slow", Say("Slowly it comes", hold=hold), ends=False)
    talk.page.set_viewport_size({"width": 360, "height": 640})
    talk.page.click("#open-sidebar")
    talk.page.keyboard.press("Escape")
    talk.page.locator("#sidebar").wait_for(state="hidden")
    assert talk.page.locator("#stop").is_visible()
    talk.page.set_viewport_size({"width": 1200, "height": 640})
    talk.page.keyboard.press("Control+k")
    talk.page.keyboard.press("Escape")
    talk.page.locator(".ended", has_text="Stopped.").wait_for()
    hold.set()


def test_a_phone_has_all_of_it(browser: Any, talk: Talk) -> None:
    talk.ask(
        "Wide", MARKDOWN + "\n```\n" + "x" * 400 + "\n```\n\n" + "y" * 300 + "\n\n$$" + "z+" * 200 + "z$$"
    )
    talk.page.set_viewport_size({"width": 360, "height": 640})
    assert talk.page.evaluate("document.documentElement.scrollWidth") == 360
    assert talk.page.evaluate("document.querySelector('#scroller').scrollWidth") <= 360
    talk.page.locator("#sidebar").wait_for(state="hidden")
    talk.page.click("#open-sidebar")
    talk.page.locator("#conversations .open").click()
    talk.page.locator("#sidebar").wait_for(state="hidden")
    talk.page.click("#show-inside")
    talk.page.locator(".token").first.click()
    assert talk.page.evaluate("document.querySelector('#inside').scrollWidth") <= 360
    talk.page.click("#open-settings")
    assert talk.page.evaluate("document.querySelector('#settings').scrollWidth") <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(talk: Talk, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    talk.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")

    def serious(where: str) -> list[str]:
        found = axe.run(talk.page).response["violations"]
        return [
            f"{where}: {v['id']} {[node['html'][:160] for node in v['nodes']]}"
            for v in found
            if v["impact"] in ("serious", "critical")
        ]

    problems = serious("empty")
    talk.ask("Show", Say(MARKDOWN + "\n\n$x^2$", thought="A thought."))
    talk.page.locator(".thought summary").click()
    talk.engine.will(Say(calls=[("f", '{"a": 1}')]))
    talk.page.click("button[aria-label='Answer again']")
    talk.page.locator(".call form").wait_for()
    problems += serious("calls")
    talk.page.click("button[aria-label='Earlier version']")
    talk.page.locator(".katex").wait_for()
    problems += serious("chat")
    talk.page.keyboard.press("Alt+i")
    talk.page.locator(".token").first.click()
    problems += serious("inside")
    talk.page.keyboard.press("Alt+s")
    problems += serious("settings")
    talk.page.keyboard.press("Escape")
    talk.page.click("#open-help")
    problems += serious("help")
    talk.page.keyboard.press("Escape")
    talk.page.set_viewport_size({"width": 360, "height": 640})
    talk.page.click("#open-sidebar")
    problems += serious("phone")
    assert problems == []


@pytest.mark.alone
def test_the_first_paint_comes_within_a_second(talk: Talk) -> None:
    painted = []
    for _ in range(3):
        talk.open()
        talk.page.wait_for_timeout(100)
        painted.append(
            talk.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        )
    print(f"first contentful paint after {min(painted):.0f} ms (best of 3)")
    assert min(painted) < 1000


def test_the_end_stays_in_sight_unless_the_reader_goes_back(talk: Talk) -> None:
    hold = Event()
    lines = "\n\n".join(f"line {i}" for i in range(80))
    talk.ask("Long", Say(lines, size=20, pause=0.005, hold=hold), ends=False)
    left = "(({scrollHeight, scrollTop, clientHeight}) => scrollHeight - scrollTop - clientHeight)"
    at_end = f"{left}(document.querySelector('#scroller')) < 5"
    talk.page.get_by_text("line 60").wait_for()
    talk.until(at_end)
    talk.page.hover("#scroller")
    talk.page.mouse.wheel(0, -600)
    talk.page.locator("#to-end").wait_for()
    hold.set()
    talk.ended()
    time.sleep(0.1)
    assert not talk.page.evaluate(at_end)
    talk.page.click("#to-end")
    talk.until(at_end)
