"""Single modules of the page, where the page as a whole would hide a mistake behind another wall."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.talk import Talk
from tests.page.test_hostile import FORMULAS, HTML, PAYLOADS, assert_unharmed
from tests.page.timing import judged


def test_what_is_made_harmless_is_so_without_markdowns_help(talk: Talk) -> None:
    """HTML goes straight to `safe.js`, as if markdown-it let it through."""
    talk.module(
        "safe",
        """({toFragment}, payloads) => {
            const thread = document.querySelector('#thread');
            for (const html of payloads) thread.append(toFragment(html), toFragment(`<p>${html}</p>`));
        }""",
        [payload for payload in PAYLOADS if "id=app" not in payload],
    )
    talk.faults.clear()  # the browser notes the inline styles that it meets while it parses
    assert_unharmed(talk)
    kept = talk.module(
        "safe",
        """({toFragment}) => {
            const element = document.createElement('div');
            element.append(toFragment('<p id=a name=b style="color:red" class="message hljs-x">x</p>'
                + '<a href="https://a.example" onclick=x ping=y download>y</a><img src=x>'));
            return element.innerHTML;
        }""",
    )
    assert kept == (
        '<p class="hljs-x">x</p>'
        '<a href="https://a.example" target="_blank" rel="noopener noreferrer nofollow">y</a>'
    )
    talk.faults.clear()


def test_no_text_becomes_html_but_through_what_makes_it_harmless(talk: Talk) -> None:
    """Trusted Types: a mistake elsewhere in the page would fail, not run."""
    refused = talk.page.evaluate(
        """async (html) => {
            const refused = (f) => {
                try { f(); } catch (error) { return error instanceof TypeError; }
                return false;
            };
            const element = document.createElement('div');
            return [
                refused(() => { element.innerHTML = html; }),
                refused(() => { element.insertAdjacentHTML('beforeend', html); }),
                refused(() => { document.createElement('script').src = '/page/js/main.js'; }),
                refused(() => { document.createElement('iframe').srcdoc = html; }),
                refused(() => { trustedTypes.createPolicy('other', {createHTML: (text) => text}); }),
                refused(() => { trustedTypes.createPolicy('qanat-worker', {createHTML: (text) => text}); }),
            ];
        }""",
        HTML[0],
    )
    assert refused == [True] * 6
    talk.faults.clear()  # the browser notes each of them


RENDER = """({render}, source) => {
    const begin = performance.now();
    const element = document.createElement('div');
    element.append(render(source));
    document.querySelector('#thread').append(element);
    element.getBoundingClientRect();
    return performance.now() - begin;
}"""


@pytest.mark.alone
def test_nothing_takes_for_ever_or_grows_beyond_the_page(talk: Talk) -> None:
    bombs = [
        *FORMULAS,
        "$\\def\\a#1{#1#1#1#1}\\a{\\a{\\a{\\a{\\a{\\a{\\a{x}}}}}}}$",
        "$\\def\\x{\\x}\\x$",
        *("$" + "\\frac{1}{" * n + "x" + "}" * n + "$" for n in (90, 300, 390)),
        "$" + "\\sqrt{" * 500 + "x" + "}" * 500 + "$",
        "$" + "\\left(" * 300 + "x" + "\\right)" * 300 + "$",
        "$" + "\\color{red}{" * 300 + "x" + "}" * 300 + "$",
        "$x" + "^{x" * 900 + "}" * 900 + "$",
        "$\\rule{1000em}{1000em}\\hspace{9999em}x$",
        "$" + "x" * 3_900 + "$",
        "$" + "x" * 20_000 + "$",
        ">" * 3000 + "x",
        "- " * 3000 + "x",
        "*" * 5000 + "x" + "*" * 5000,
        "[" * 5000 + "x" + "](y)" * 5000,
        "`" * 5000 + "x",
        "|" * 3000 + "\n" + "|-" * 3000 + "|\n" + "|" * 3000,
    ]
    talk.ask("Load", "$x$")
    talk.reply.locator(".katex").wait_for()

    def rendering(source: str) -> float:
        return float(talk.module("markdown", RENDER, source))

    ordinary = "\n\n".join(f"Some *text* and $\\frac{{x_{i}}}{{y^{i}}}$" for i in range(100))
    found = {
        bomb[:40]: judged(lambda: rendering(bomb), lambda: rendering(ordinary), limit=1500, times=10)  # noqa: B023
        for bomb in bombs
    }
    print(f"the slowest took {max(one.time for one in found.values()):.0f} ms")
    assert {bomb: one for bomb, one in found.items() if not one.holds} == {}
    assert talk.page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    assert (
        talk.page.evaluate("Math.max(...[...document.querySelectorAll('.math')].map((e) => e.scrollHeight))")
        < 5000
    )


def test_a_branch_is_shown_down_to_its_latest_leaf(talk: Talk) -> None:
    def path(*steps: Any) -> list[str]:
        found: list[str] = talk.module(
            "tree",
            """({Tree}, steps) => {
                const tree = new Tree();
                for (const [id, parent] of steps) {
                    if (parent === 'select') tree.select(id);
                    else tree.add({id, parent});
                }
                return tree.path().map(({id}) => id);
            }""",
            list(steps),
        )
        return found

    grown = [("a", None), ("b", "a"), ("c", "b"), ("d", "b"), ("e", "a"), ("f", None)]
    assert path(*grown) == ["f"]
    assert path(*grown, ("a", "select")) == ["a", "e"]
    assert path(*grown, ("b", "select")) == ["a", "b", "d"]
    assert path(*grown, ("c", "select")) == ["a", "b", "c"]
    broken = (
        "({Tree}) => { try { new Tree([{id: 'x', parent: 'y'}]); } catch (error) { return error.message; } }"
    )
    assert "no place" in talk.module("tree", broken)


def test_events_are_read_however_they_are_cut(talk: Talk) -> None:
    stream = ': waiting\n\ndata: {"a": "é🙂"}\n\ndata: {"b": 2}\n\ndata: [DONE]\n\ndata: {"late": 1}\n\n'

    def read(data: str, size: int) -> Any:
        return talk.module(
            "events",
            """async ({readEvents}, text, size) => {
                const bytes = new TextEncoder().encode(text);
                const stream = new ReadableStream({start(controller) {
                    for (let at = 0; at < bytes.length; at += size)
                        controller.enqueue(bytes.slice(at, at + size));
                    controller.close();
                }});
                const found = [];
                try {
                    for await (const object of readEvents(stream)) found.push(object);
                } catch (error) {
                    found.push(error.message);
                }
                return found;
            }""",
            data,
            size,
        )

    for size in (1, 2, 3, 7, 1000):
        assert read(stream, size) == [{"a": "é🙂"}, {"b": 2}], size
    lost = "The connection was lost before the reply had ended."
    assert read('data: {"a": 1}\n\n', 5) == [{"a": 1}, lost]
    assert read('data: {"a": 1}\n\ndata: {"b"', 5) == [{"a": 1}, lost]
    assert read("data: {\n\n", 5) == ["The server sent what is no JSON."]
    assert read('data: {"error": {"message": "no room"}}\n\n', 5) == ["no room"]


def test_it_works_over_plain_http_from_another_machine(talk: Talk) -> None:
    """There browsers offer no clipboard, no worker and no randomUUID."""
    talk.page.add_init_script(
        """delete Crypto.prototype.randomUUID;
        for (const name of ['clipboard', 'serviceWorker']) {
            Object.defineProperty(Navigator.prototype, name, {get: () => undefined});
        }"""
    )
    talk.open()
    talk.ask("Hello", "```\ncode\n```")
    talk.page.click("button[aria-label='Copy code']")
    talk.page.locator("button[aria-label='Copied']").wait_for()
    talk.open()
    talk.page.locator("#conversations .open", has_text="Hello").wait_for()
