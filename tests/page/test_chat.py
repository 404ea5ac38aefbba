"""Talking: a reply streams as Markdown, is stopped, edited, asked for again, and told apart from thoughts."""

from __future__ import annotations

import re
from threading import Event

import pytest

from qanat.errors import ContextLengthError
from qanat.server.errors import UnavailableError
from tests.page.engine import Say
from tests.page.talk import Talk
from tests.server.http.serving import eventually

MARKDOWN = """# A title

Some *soft* and **strong** words, `code`, and a [link](https://example.org/a).

| left | right |
|---|--:|
| 1 | 2 |

1. one
2. two
   - inner

> quoted

```python
def f(x):
    return x + 1
```

The end, with https://example.org/bare and main.py.
"""


def test_a_reply_is_markdown_with_code_that_can_be_copied(talk: Talk) -> None:
    talk.page.evaluate("navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }")
    talk.ask("Show me", MARKDOWN)
    reply = talk.reply
    assert reply.locator("h1").inner_text() == "A title"
    assert reply.locator("strong").inner_text() == "strong"
    assert reply.locator("td.align-right").inner_text() == "2"
    assert reply.locator("ol > li > ul > li").inner_text() == "inner"
    assert reply.locator("blockquote").inner_text().strip() == "quoted"
    assert reply.locator(".code-head span").inner_text() == "python"
    reply.locator(".hljs-keyword").first.wait_for()
    links = reply.locator("a")
    assert [links.nth(i).get_attribute("href") for i in range(links.count())] == [
        "https://example.org/a",
        "https://example.org/bare",
    ]
    assert links.first.get_attribute("rel") == "noopener noreferrer nofollow"
    reply.locator("button[aria-label='Copy code']").click()
    reply.locator("button[aria-label='Copied']").wait_for()
    assert talk.page.evaluate("copied") == "def f(x):\n    return x + 1\n"


def test_formulas_are_set_in_all_four_notations(talk: Talk) -> None:
    for text, display in (
        ("so $x^2$ is", 0),
        (r"so \(x^2\) is", 0),
        ("$$\nx^2\n- y\n$$", 1),
        ("\\[x^2\n= y\\]", 1),
        ("a $$x^2$$ b", 1),
    ):
        talk.ask("Formula", text)
        talk.reply.locator(".katex").first.wait_for()
        assert talk.reply.locator(".katex-display").count() == display, text
        assert talk.reply.locator("ul, h1, h2").count() == 0, text


def test_money_and_broken_formulas_stay_text(talk: Talk) -> None:
    talk.ask("Money", "It costs $5 or $6, and $$ is money. \\frac{\n\n$$\n\\frac{1}\n$$")
    assert "It costs $5 or $6, and $$ is money." in talk.reply.inner_text()
    talk.reply.locator(".math-error").wait_for()
    assert talk.reply.locator(".katex").count() == 0


def test_the_stream_shows_what_the_whole_would_and_makes_each_block_once(talk: Talk) -> None:
    """Cut anywhere, with a frame after each piece, the blocks end up as if the text had come at once."""
    text = MARKDOWN + "\n$$\na\n+ b\n$$\n\n[ref]\n\ntext\n===\n\n- a\n\n- b\n\n***\n\n\\[c\\]\n\nlast [ref]\n"
    same = talk.module(
        "growing",
        """async ({GrowingMarkdown}, text, sizes) => {
            const {render} = await import('/page/js/markdown.js');
            const html = (element) => element.innerHTML.replace(/\\n+/g, '');
            const results = [];
            for (const size of sizes) {
                const element = document.createElement('div');
                const growing = new GrowingMarkdown(element);
                for (let at = size; at < text.length + size; at += size) {
                    growing.update(text.slice(0, at));
                }
                const before = html(element);
                growing.finish();
                const whole = document.createElement('div');
                whole.append(render(text));
                results.push([before === html(whole), html(element) === html(whole)]);
            }
            return results;
        }""",
        text,
        [1, 7, 1000],
    )
    assert same == [[True, True]] * 3
    made = talk.module(
        "growing",
        """async ({GrowingMarkdown}) => {
            const growing = new GrowingMarkdown(document.createElement('div'));
            let text = '';
            for (let i = 0; i < 200; i++) {
                text += `Paragraph ${i}\\n\\n`;
                growing.update(text);
            }
            return growing.made;
        }""",
    )
    assert made <= 401  # each twice: while it is the last, and when it is complete


def test_enter_sends_and_shift_enter_begins_a_line(talk: Talk) -> None:
    talk.page.focus("#draft")
    talk.page.keyboard.type("one")
    talk.page.keyboard.press("Shift+Enter")
    talk.page.keyboard.type("two")
    talk.page.keyboard.press("Enter")
    talk.ended()
    assert talk.questions() == ["one\ntwo"]
    assert talk.sent() == [{"role": "user", "content": "one\ntwo"}]
    assert talk.page.input_value("#draft") == ""


def test_the_whole_conversation_is_sent(talk: Talk) -> None:
    talk.ask("first", "answer")
    talk.ask("second")
    assert [m["content"] for m in talk.sent()] == ["first", "answer", "second"]


def test_a_thought_is_folded_and_has_its_time(talk: Talk) -> None:
    hold = Event()
    talk.ask("Think", Say("Done.", thought="Let me see. " * 9, pause=0.02, hold=hold), ends=False)
    talk.page.locator(".thought.active summary", has_text="Thinking").wait_for()
    hold.set()
    talk.ended()
    summary = talk.page.locator(".thought summary")
    assert re.fullmatch(r"Thought for [\d.]+ m?s", summary.inner_text())
    assert not talk.page.locator(".thought-text").is_visible()
    summary.click()
    assert talk.page.locator(".thought-text").inner_text() == "Let me see. " * 9
    assert talk.replies() == ["Done."]


@pytest.mark.parametrize("how", ["button", "Escape"])
def test_a_reply_is_stopped_and_what_was_said_stays(talk: Talk, how: str) -> None:
    hold = Event()
    talk.ask("Talk", Say("Once upon a time there was", hold=hold), ends=False)
    talk.reply.get_by_text("Once upon").wait_for()
    if how == "button":
        talk.page.click("#stop")
    else:
        talk.page.keyboard.press("Escape")
    talk.ended()
    assert talk.replies()[0].startswith("Once upon")
    assert talk.page.locator(".ended").inner_text() == "Stopped."
    talk.page.wait_for_timeout(50)
    assert talk.engine.cancelled == 1
    talk.ask("Go on", "Yes.")
    assert talk.replies()[1] == "Yes."
    hold.set()


def test_another_answer_stands_beside_the_first(talk: Talk) -> None:
    talk.ask("Say something", "First.")
    talk.engine.will("Second.")
    talk.page.click("button[aria-label='Answer again']")
    talk.page.get_by_text("Second.").wait_for()
    talk.ended()
    assert talk.page.locator(".branches").inner_text().strip() == "2/2"
    assert talk.sent() == [{"role": "user", "content": "Say something"}]
    talk.page.click("button[aria-label='Earlier version']")
    talk.page.get_by_text("First.").wait_for()
    assert talk.page.locator(".branches").inner_text().strip() == "1/2"
    talk.ask("And then", "Third.")
    assert [m["content"] for m in talk.sent()] == ["Say something", "First.", "And then"]


def test_a_question_is_edited_into_a_branch_of_its_own(talk: Talk) -> None:
    talk.ask("How old?", "Ten.")
    talk.ask("Really?", "Yes.")
    talk.page.locator("article.user").first.hover()
    talk.page.locator("button[aria-label='Edit']").first.click()
    talk.page.fill(".editor textarea", "How tall?")
    talk.engine.will("Two metres.")
    talk.page.keyboard.press("Enter")
    talk.page.get_by_text("Two metres.").wait_for()
    assert (talk.questions(), talk.replies()) == (["How tall?"], ["Two metres."])
    assert [m["content"] for m in talk.sent()] == ["How tall?"]
    talk.page.locator("article.user button[aria-label='Earlier version']").click()
    talk.page.get_by_text("Really?").wait_for()
    assert talk.replies() == ["Ten.", "Yes."]


def test_an_edit_is_left_with_escape_and_begun_with_the_arrow(talk: Talk) -> None:
    talk.ask("Same", "As before.")
    talk.page.press("#draft", "ArrowUp")
    talk.page.fill(".editor textarea", "Other")
    talk.page.press(".editor textarea", "Escape")
    assert talk.questions() == ["Same"]
    assert len(talk.engine.requests) == 1


def test_an_error_in_the_middle_is_told_and_the_answer_can_be_asked_for_again(talk: Talk) -> None:
    talk.ask("Break", Say("Half a", error=UnavailableError("the engine's process died", "engine_dead")))
    assert talk.page.locator("article .error").inner_text() == "The engine's process died."
    assert talk.replies() == ["Half a"]
    talk.engine.will("Whole.")
    talk.page.click("button[aria-label='Answer again']")
    talk.page.get_by_text("Whole.").wait_for()


def test_a_refusal_is_told_and_not_sent_along_later(talk: Talk) -> None:
    talk.ask("Too long", Say(refuse=ContextLengthError("the prompt has 9000 tokens")))
    assert talk.page.locator("article .error").inner_text() == "The prompt has 9000 tokens."
    talk.ask("Shorter", "Yes.")
    assert [m["content"] for m in talk.sent()] == ["Too long", "Shorter"]


SENTENCES = {
    "the engine's process died": "The engine's process died.",
    "the prompt has 9000 tokens: shorten it.": "The prompt has 9000 tokens: shorten it.",
    "top_p has to be at most 1": "top_p has to be at most 1.",
    "n: one or more": "n: one or more.",
    "no room, 5 wait": "No room, 5 wait.",
    "Is it there?": "Is it there?",
    "nichts übrig für 'é'": "Nichts übrig für 'é'.",
    "": "",
}


def test_what_a_program_said_is_shown_as_a_sentence(talk: Talk) -> None:
    for said, shown in SENTENCES.items():
        assert talk.module("dom", "({sentence}, text) => sentence(text)", said) == shown


def test_a_version_with_the_same_words_says_so_and_why(talk: Talk) -> None:
    def again(reply: str | Say) -> str:
        talk.engine.will(reply)
        asked = len(talk.engine.requests)
        talk.page.click("button[aria-label='Answer again']")
        eventually(lambda: len(talk.engine.requests) > asked)
        talk.ended()
        return " ".join(talk.page.locator(".same").all_inner_texts())

    def setting(name: str, value: str) -> None:
        talk.page.keyboard.press("Alt+s")
        talk.page.fill(f"#set-{name}", value)
        talk.page.keyboard.press("Escape")

    talk.ask("Say", "One.")
    assert again("Two.") == ""
    assert again("One.") == "The same as version 1."
    setting("seed", "3")
    assert again("Two.") == "The same as version 2: with a seed the same question has the same reply."
    setting("temperature", "0")
    greedy = "The same as version 1: at temperature 0 the likeliest token is taken each time."
    assert again("One.") == greedy
    assert again(Say("One.", thought="hm")) == ""
    talk.page.reload()
    talk.page.click("button[aria-label='Earlier version']")
    talk.page.locator(".same", has_text=greedy).wait_for()


def test_a_reply_that_was_cut_says_so(talk: Talk) -> None:
    talk.ask("Long", Say("and so on", finish="length"))
    assert talk.page.locator(".ended").inner_text() == "The reply reached its limit of tokens."


def test_speed_progress_and_context_are_shown(talk: Talk) -> None:
    hold, reading = Event(), Event()
    talk.ask(
        "Count",
        Say("one two three four five six", size=4, pause=0.06, hold=hold, reading=reading),
        ends=False,
    )
    talk.page.get_by_text("Reading the prompt: 600 of 1,200 tokens").wait_for()
    assert talk.page.locator("progress").get_attribute("value") == "600"
    reading.set()
    talk.page.locator(".waiting", has_text="tok/s").wait_for()
    hold.set()
    talk.ended()
    assert re.fullmatch(r"8 tokens · [\d.]+ tok/s · first after [\d.]+ m?s", talk.page.inner_text(".figures"))
    speed = float(re.findall(r"([\d.]+) tok/s", talk.page.inner_text(".figures"))[0])
    assert 2 < speed < 30  # a pause of 0.06 s before each token
    assert talk.page.inner_text("#gauge-text") == "48 of 4,096 tokens"
    assert float(talk.page.get_attribute("#gauge-bar", "value") or 0) == pytest.approx(48 / 4096)


def test_a_reply_goes_on_while_another_conversation_is_read(talk: Talk) -> None:
    hold = Event()
    talk.ask("Slow", Say("Slowly it comes", hold=hold), ends=False)
    talk.reply.get_by_text("Slowly").wait_for()
    talk.page.click("#new-chat")
    talk.ask("Quick", "Here.")
    assert talk.replies() == ["Here."]
    hold.set()
    talk.page.click("#conversations button[title='Slow']")
    talk.page.get_by_text("Slowly it comes").wait_for()
    talk.ended()
    assert talk.replies() == ["Slowly it comes"]
