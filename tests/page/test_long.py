"""2,000 messages: opened quickly, and typed beside without delay, also while a reply streams."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from tests.page.engine import Say
from tests.page.talk import Talk
from tests.page.test_conversations import bundle, importing
from tests.page.timing import Judged, judged

TEXT = "Some **text** with `code`, a formula $x^{i}$ and\n\n- a list\n- of two\n\n```python\nx = {i}\n```\n"

NOTE_DELAYS = """() => {
    globalThis.delays = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (entry.name === 'keydown') delays.push(entry.duration);
    }).observe({type: 'event', durationThreshold: 16, buffered: true});
}"""
"""Event timing: from a key to the next frame that shows it. Shorter delays than 16 ms are not reported."""


def long_conversation(count: int) -> dict[str, object]:
    messages = [
        {
            "role": "assistant" if i % 2 else "user",
            "content": TEXT.replace("{i}", str(i)) if i % 2 else f"Question {i}",
            "parent": i - 1 if i else None,
        }
        for i in range(count)
    ]
    return bundle(*messages, leaf=count - 1)


def typed(page: Any) -> float:
    """The delay in milliseconds that nine of ten keys stay within; 16 if it was shorter."""
    text = "The quick brown fox jumps over it."
    page.bring_to_front()
    page.fill("#draft", "")
    page.evaluate("delays.length = 0")
    page.keyboard.type(text, delay=15)
    page.wait_for_timeout(100)
    longest = sorted(page.evaluate("delays"), reverse=True) + [16.0] * len(text)
    return float(longest[len(text) // 10])


OPEN = """async ([title, count]) => {
    document.querySelector('#new-chat').click();
    const begin = performance.now();
    document.querySelector(`#conversations button[title="${title}"]`).click();
    while (document.querySelectorAll('article').length < count) await new Promise(requestAnimationFrame);
    return performance.now() - begin;
}"""


@pytest.mark.alone
def test_two_thousand_messages_do_not_slow_typing(talk: Talk) -> None:
    """Beside a tab with two messages: as quick as there, or quicker than anybody notices."""
    bare = Talk(talk.page.context.new_page(), talk.engine, int(talk.address.split(":")[2].strip("/")))
    bare.open()
    bare.ask("Short")
    talk.page.bring_to_front()
    importing(talk, long_conversation(2000))
    talk.page.locator("article", has_text="x = 1999").wait_for(timeout=20_000)
    assert talk.page.locator("article").count() == 2000
    assert talk.page.locator("article .katex").count() < 100  # those in sight, and near
    for page in (talk.page, bare.page):
        page.evaluate(NOTE_DELAYS)

    def typing() -> Judged:
        return judged(lambda: typed(talk.page), lambda: typed(bare.page), limit=50, times=3)

    idle = typing()
    hold = Event()
    talk.page.fill("#draft", "")
    talk.ask("Go on", Say(TEXT * 3000, size=30, pause=0.01, hold=hold), ends=False)
    talk.until("document.querySelector('article:last-child .body').textContent.length > 8_000", 20)
    streaming = typing()
    assert talk.page.locator(".waiting").count() == 1  # it was streaming all the time
    talk.page.keyboard.press("Escape")
    talk.ended()

    def opening(title: str, count: int) -> float:
        return float(talk.page.evaluate(OPEN, [title, count]))

    opened = judged(lambda: opening("Imported one", 2000), lambda: opening("Short", 2), limit=2000, times=100)
    print(
        f"2,000 messages: key to frame {idle.time:.0f} ms, {streaming.time:.0f} ms while a reply streams;"
        f" opened in {opened.time:.0f} ms"
    )
    assert idle.holds, idle
    assert streaming.holds, streaming
    assert opened.holds, opened
    hold.set()
    assert bare.faults == []


def test_what_is_far_away_is_made_when_it_comes_near(talk: Talk) -> None:
    importing(talk, long_conversation(300))
    talk.page.locator("article", has_text="x = 299").wait_for()
    first = talk.page.locator("article.assistant").first
    assert first.locator("strong").count() == 0
    assert "Some **text**" in (first.text_content() or "")  # found by the browser's own search
    talk.page.evaluate("document.querySelector('#scroller').scrollTop = 0")
    first.locator("strong").wait_for()
