"""Conversations are kept, found, renamed, deleted, carried out as a file and back in."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import Any

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


def test_what_was_said_before_the_tab_was_closed_is_not_lost(talk: Talk) -> None:
    hold = Event()
    talk.ask("Long", Say("word " * 60, size=5, pause=0.03, hold=hold), ends=False)
    talk.page.wait_for_timeout(1500)
    talk.open()
    talk.page.click("#conversations .open")
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
        talk.page.evaluate("document.querySelector('#notice').textContent = ''")


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
    assert set(kept) == {"role", "content", "parent", "created", "usage"}
    assert kept["usage"] == {"prompt": 0, "completion": 0, "cached": 0, "reasoning": 0}
    assert conversation["settings"] == {
        **{"system": "", "model": "", "thinking": None, "tools": "", "calculator": False, "top_p": 0.5}
    }
    assert conversation["title"] == "Imported"
    assert talk.page.evaluate("({}).polluted") is None
