"""Conversations are kept, found, renamed, deleted, carried out as a file and back in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.page.engine import Say
from tests.page.talk import Talk
from tests.server.http.serving import eventually


def titles(talk: Talk) -> list[str]:
    return list(talk.page.locator("#conversations .open").all_inner_texts())


def exported(talk: Talk, button: str = "#export-all") -> Any:
    with talk.page.expect_download() as download:
        talk.page.click(button)
    return json.loads(Path(download.value.path()).read_text())


def importing(talk: Talk, value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    talk.page.set_input_files(
        "#import-file", {"name": "x.json", "mimeType": "application/json", "buffer": text.encode()}
    )


def bundle(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A file with one conversation."""
    conversation = {"title": "Imported one", "leaf": None, "messages": list(messages), **more}
    return {"format": "qanat-conversations", "version": 1, "conversations": [conversation]}


def test_conversations_are_there_after_a_reload(talk: Talk) -> None:
    talk.ask("First question", Say("**First** answer", thought="hm"))
    talk.ask("More", "Again")
    talk.page.click("#new-chat")
    talk.ask("Second question")
    talk.open()
    eventually(lambda: titles(talk) == ["Second question", "First question"])
    talk.page.click("#conversations .open >> text=First question")
    talk.page.locator("strong", has_text="First").wait_for()
    assert talk.questions() == ["First question", "More"]
    assert talk.page.locator(".thought").count() == 1
    talk.ask("Even more")
    assert [m["content"] for m in talk.sent()][:3] == ["First question", "**First** answer", "More"]


def shows(talk: Talk, question: str) -> None:
    talk.page.locator("article.user", has_text=question).wait_for()
    talk.until(f"document.querySelector('#title').textContent === '{question}'")


def test_the_address_leads_to_the_conversation(talk: Talk) -> None:
    for question in ("First", "Second"):
        talk.page.keyboard.press("Alt+n")
        talk.ask(question)
    second = talk.page.url
    talk.page.reload()
    shows(talk, "Second")
    talk.page.click("#conversations .open >> text=First")
    shows(talk, "First")
    first = talk.page.url
    assert len({talk.address, first, second}) == 3
    talk.page.go_back()
    shows(talk, "Second")
    talk.page.go_back()  # to the new conversation that Alt+N began, and which became the second
    shows(talk, "First")
    talk.page.go_forward()
    shows(talk, "Second")
    other = talk.page.context.new_page()
    other.goto(first)
    other.locator("article.user", has_text="First").wait_for()
    other.close()
    talk.page.focus("#skip")
    talk.page.keyboard.press("Enter")
    assert talk.page.evaluate("document.activeElement.id") == "draft"
    assert talk.page.url == second


@pytest.mark.parametrize("hash", ["0" * 32, "0" * 33, "<img src=x>", "__proto__", "%F0%9F", "draft", ""])
def test_an_address_of_no_conversation_leads_to_a_new_one(talk: Talk, hash: str) -> None:
    talk.ask("Here")
    other = Talk(talk.page.context.new_page(), talk.engine, int(talk.address.split(":")[2].strip("/")))
    other.page.goto(f"{talk.address}#{hash}")
    other.page.locator(".welcome", has_text="scripted/model").wait_for()
    if hash == "0" * 32:
        other.page.locator("#notice", has_text="cannot be read").wait_for()
        assert other.page.url == talk.address
    else:
        assert not other.page.locator("#notice").is_visible()
    other.ask("There")
    assert re.fullmatch(r"[0-9a-f]{32}", other.page.url.split("#")[1])
    assert other.faults == []
    other.page.close()


def test_what_is_not_sent_stays_with_its_conversation(talk: Talk) -> None:
    def draft() -> str:
        return str(talk.page.input_value("#draft"))

    talk.page.fill("#draft", "for the next one")
    talk.page.reload()
    talk.page.locator(".welcome").wait_for()
    assert draft() == "for the next one"
    talk.ask("First")
    talk.page.fill("#draft", "to the first")
    talk.page.keyboard.press("Alt+n")
    assert draft() == ""
    talk.ask("Second")
    talk.page.fill("#draft", "to the second")
    talk.page.click("#conversations .open >> text=First")
    shows(talk, "First")
    assert draft() == "to the first"
    talk.page.reload()
    shows(talk, "First")
    assert draft() == "to the first"
    talk.page.go_back()
    shows(talk, "Second")
    assert draft() == "to the second"
    talk.page.keyboard.press("Alt+n")
    assert draft() == ""
    talk.page.fill("#draft", "with an example")
    talk.page.click(".examples button")
    talk.ended()
    assert draft() == "with an example"
    talk.page.keyboard.press("Alt+n")
    assert draft() == ""


def test_a_draft_goes_with_its_conversation(talk: Talk) -> None:
    talk.ask("First")
    talk.page.fill("#draft", "secret")
    talk.page.hover("#conversations li")
    talk.page.click("button[aria-label='Delete First']")
    talk.page.click("#confirm button >> text=Delete")
    talk.page.locator(".welcome").wait_for()
    assert (talk.page.input_value("#draft"), talk.page.url) == ("", talk.address)
    talk.page.reload()
    assert "secret" not in str(talk.page.evaluate("JSON.stringify({...sessionStorage})"))


def test_what_was_said_before_the_tab_was_closed_is_not_lost(talk: Talk) -> None:
    hold = Event()
    talk.ask("Long", Say("word " * 60, size=5, pause=0.03, hold=hold), ends=False)
    talk.page.wait_for_timeout(1500)
    talk.page.reload()
    talk.reply.get_by_text("word word word").wait_for()
    hold.set()


def test_words_are_found_in_titles_questions_answers_and_thoughts(talk: Talk) -> None:
    for question, answer in (("Apples", "a fruit"), ("Rivers", "of water"), ("Stones", "grey")):
        talk.page.click("#new-chat")
        talk.ask(question, Say(answer, thought=f"thought about {question}"))
    for words, found in (
        ("river", ["Rivers"]),
        ("FRUIT", ["Apples"]),
        ("thought about stones", ["Stones"]),
        ("water grey", []),
        ("o", ["Stones", "Rivers", "Apples"]),
        ("nothing like it", []),
    ):
        talk.page.keyboard.press("Control+k")
        talk.page.keyboard.type(words)
        eventually(lambda found=found: titles(talk) == found)
    assert talk.page.inner_text("#conversations") == "Nothing found."


MARKED = "[...(CSS.highlights.get('found') ?? [])].map(String)"


def focused(talk: Talk, name: str) -> None:
    talk.until(f"[document.activeElement.id, document.activeElement.textContent].includes('{name}')")


def test_what_a_search_found_is_reached_and_left_by_keys(talk: Talk) -> None:
    press = talk.page.keyboard.press
    for question in ("Apples", "Rivers", "Stones"):
        press("Alt+n")
        talk.ask(question, f"about {question.lower()}")
    press("Control+k")
    talk.page.keyboard.type("about")
    eventually(lambda: len(titles(talk)) == 3)
    press("ArrowDown")
    focused(talk, "Stones")
    press("ArrowDown")
    focused(talk, "Rivers")
    press("ArrowDown")
    press("ArrowDown")
    focused(talk, "Apples")
    for _ in range(3):
        press("ArrowUp")
    focused(talk, "search")
    press("End")
    talk.page.keyboard.type(" RIV")
    press("Enter")  # at once, before the list is drawn
    shows(talk, "Rivers")
    focused(talk, "draft")
    press("Control+k")
    press("Escape")
    assert talk.page.input_value("#search") == ""
    eventually(lambda: len(titles(talk)) == 3)
    assert talk.page.evaluate(MARKED) == []
    press("Enter")  # nothing is searched for, so nothing is gone to
    shows(talk, "Rivers")


def test_escape_empties_the_search_before_it_stops_a_reply(talk: Talk) -> None:
    hold = Event()
    talk.ask("Slow", Say("Slowly it comes", hold=hold), ends=False)
    talk.page.keyboard.press("Control+k")
    talk.page.keyboard.type("x")
    talk.page.keyboard.press("Escape")
    assert talk.page.locator("#stop").is_visible()
    talk.page.keyboard.press("Escape")
    talk.page.locator(".ended", has_text="Stopped.").wait_for()
    hold.set()


def test_what_was_found_is_marked_and_in_sight(talk: Talk) -> None:
    """Far up, in a folded thought, on a branch that is not shown, and with signs that patterns know."""
    messages: list[dict[str, Any]] = [
        {
            "role": "assistant" if i % 2 else "user",
            "content": f"Text {i}\n\n" * 5,
            "parent": i - 1 if i else None,
        }
        for i in range(100)
    ]
    messages[21]["content"] = "A **Needle** in the hay, needle"
    messages[41]["reasoning"] = "lines\n" * 200 + "the Thimble"
    messages.append({"role": "assistant", "content": "an awl (.*)", "parent": 0})
    importing(talk, bundle(*messages, leaf=99))
    talk.page.locator("article", has_text="Text 99").wait_for()
    for words, marked in (
        ("needle", ["Needle", "needle"]),
        ("THIMBLE", ["Thimble"]),
        ("(.*)", ["(.*)"]),
        ("awl an", ["an", "awl"]),
    ):
        talk.page.keyboard.press("Control+k")
        talk.page.keyboard.type(words)
        talk.page.keyboard.press("Enter")
        talk.until(f"JSON.stringify({MARKED}) === {json.dumps(json.dumps(marked, separators=(',', ':')))!s}")
        talk.until(IN_SIGHT)
    talk.page.click("#new-chat")
    assert talk.page.evaluate(MARKED) == []


IN_SIGHT = """(() => {
    const [range] = CSS.highlights.get('found');
    const {x, y, height} = range.getBoundingClientRect();
    const there = document.elementFromPoint(x + 1, y + height / 2);
    return height > 0 && there === range.startContainer.parentElement;
})()"""


def test_what_comes_later_is_marked_too(talk: Talk) -> None:
    talk.ask("Hay", "a needle")
    talk.page.fill("#search", "needle")
    talk.until(f"{MARKED}.length === 1")
    talk.ask("More", "two needles, and **needle**")
    talk.until(f"{MARKED}.length === 3")


def test_a_conversation_is_renamed_and_deleted(talk: Talk) -> None:
    talk.ask("Old name")
    talk.page.click("#title")
    talk.page.fill("header input", "New name")
    talk.page.keyboard.press("Enter")
    talk.until("document.querySelector('#conversations .open')?.textContent === 'New name'")
    talk.page.click("#title")
    talk.page.fill("header input", "Never")
    talk.page.keyboard.press("Escape")
    assert talk.page.inner_text("#title") == "New name"
    talk.page.hover("#conversations li")
    talk.page.click("button[aria-label='Delete New name']")
    talk.page.click("#confirm button >> text=Cancel")
    assert titles(talk) == ["New name"]
    talk.page.hover("#conversations li")
    talk.page.click("button[aria-label='Delete New name']")
    talk.page.click("#confirm button >> text=Delete")
    talk.page.locator("#conversations", has_text="No conversations yet.").wait_for()
    talk.open()
    talk.page.locator("#conversations", has_text="No conversations yet.").wait_for()


def test_what_is_exported_and_imported_is_the_same_in_another_browser(talk: Talk, browser: Any) -> None:
    talk.ask("Tree", Say("One", thought="hm"))
    talk.engine.will("Two")
    talk.page.click("button[aria-label='Answer again']")
    talk.page.get_by_text("Two").wait_for()
    talk.ended()
    talk.page.locator("article.assistant button[aria-label='Earlier version']").click()
    talk.page.get_by_text("One").wait_for()
    file = exported(talk)
    [conversation] = file["conversations"]
    assert [m["content"] for m in conversation["messages"]] == ["Tree", "One", "Two"]
    assert [m["parent"] for m in conversation["messages"]] == [None, 0, 0]
    context = browser.new_context(service_workers="block")
    other = Talk(context.new_page(), talk.engine, int(talk.address.split(":")[2].strip("/")))
    other.open()
    importing(other, file)
    other.page.get_by_text("One").wait_for()
    assert other.page.locator(".branches").inner_text().strip() == "1/2"
    again = exported(other)
    assert again == file
    assert other.faults == []
    context.close()


def test_what_is_here_already_is_not_imported_twice(talk: Talk) -> None:
    def notice(text: str) -> None:
        talk.page.locator("#notice.told", has_text=text).wait_for()

    talk.ask("Tree", Say("One", thought="hm", calls=[("f", '{"a": 1}')]))
    talk.page.fill(".call textarea", "done")
    talk.page.keyboard.press("Enter")
    talk.ended()
    first = exported(talk)
    talk.engine.will("Two")
    talk.page.locator("button[aria-label='Answer again']").last.click()
    talk.page.get_by_text("Two").wait_for()
    talk.ended()
    talk.page.keyboard.press("Alt+n")
    talk.ask("Tree", Say("One", thought="hm"))
    both = exported(talk)
    importing(talk, both)
    notice("Nothing was imported: 2 conversations were here already.")
    importing(talk, first)  # which has gone on since
    notice("Nothing was imported: 1 conversation was here already.")
    talk.until("document.querySelectorAll('.call').length === 1")  # it is shown
    assert titles(talk) == ["Tree", "Tree"]
    talk.page.keyboard.press("Escape")
    assert not talk.page.locator("#notice").is_visible()
    both["conversations"][1]["messages"][1]["content"] = "Changed"
    importing(talk, both)
    notice("Imported 1 conversation; 1 conversation was here already.")
    assert titles(talk) == ["Tree"] * 3
    importing(talk, both)
    notice("Nothing was imported: 2 conversations were here already.")
    importing(talk, bundle({"role": "user", "content": "No times", "parent": None}))
    notice("Imported 1 conversation.")
    importing(talk, bundle({"role": "user", "content": "No times", "parent": None}, title="Renamed"))
    notice("Nothing was imported: 1 conversation was here already.")
    importing(talk, {**bundle(), "conversations": []})
    notice("The file holds no conversation.")


NO_FILES: list[tuple[Any, str]] = [
    ("{", "The file is no JSON."),
    ("[]", "The file holds no conversations of qanat."),
    ({"format": "other", "version": 1, "conversations": []}, "holds no conversations"),
    ({**bundle(), "version": 2}, "holds no conversations"),
    ({**bundle(), "conversations": [None]}, "In conversation 1 there are no messages."),
    (bundle({"role": "user", "content": "x", "parent": 0}), "message 1 has no parent before it."),
    (bundle({"role": "user", "content": "x", "parent": -1}), "message 1 has no parent before it."),
    (bundle({"role": "user", "content": "x"}), "message 1 has no parent before it."),
    (bundle({"role": "system", "content": "x", "parent": None}), "message 1 has no role"),
    (bundle({"role": "user", "content": {"a": 1}, "parent": None}), "holds what is no text"),
    (bundle({"role": "assistant", "content": "", "calls": {}, "parent": None}), "no list of tool calls"),
    (
        bundle({"role": "assistant", "content": "", "calls": [{"id": 5}], "parent": None}),
        "what is no text",
    ),
]


def test_a_file_that_is_none_is_refused_with_the_reason(talk: Talk) -> None:
    for value, reason in NO_FILES:
        importing(talk, value)
        talk.page.locator("#notice", has_text=reason).wait_for()
        assert talk.page.inner_text("#notice").startswith("Nothing was imported.")
        assert titles(talk) == []
        talk.page.click("#close-notice")
        assert not talk.page.locator("#notice").is_visible()


def test_what_a_file_says_beyond_what_is_known_is_dropped(talk: Talk) -> None:
    message = {
        **{"role": "assistant", "content": "hello", "parent": None, "id": "mine", "conversation": "mine"},
        **{
            "__proto__": {"polluted": 1},
            "order": 99,
            "seconds": "soon",
            "usage": {"prompt": "x"},
            "html": "<b>",
        },
    }
    settings = {"temperature": 99, "system": 5, "thinking": "yes", "top_k": 1.5, "evil": 1, "top_p": 0.5}
    importing(talk, bundle(message, settings=settings, title="  ", leaf=77))
    talk.page.get_by_text("hello").wait_for()
    [conversation] = exported(talk)["conversations"]
    [kept] = conversation["messages"]
    assert set(kept) == {"role", "content", "parent", "usage"}
    assert kept["usage"] == {"prompt": 0, "completion": 0, "cached": 0, "reasoning": 0}
    assert conversation["settings"] == {
        **{"system": "", "model": "", "thinking": None, "tools": "", "calculator": False, "top_p": 0.5}
    }
    assert conversation["title"] == "Imported"
    assert talk.page.evaluate("({}).polluted") is None
