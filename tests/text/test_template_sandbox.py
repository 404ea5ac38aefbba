"""The sandbox: Jinja as chat templates expect it, and no way out of it."""

# ruff: noqa: E501 - tables of templates

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from qanat.errors import TemplateError
from qanat.text import template_environment
from qanat.text.chat_template import ChatTemplate, has_vision

HI = [{"role": "user", "content": "hi"}]

# What a template writes for the conversation HI with switch=True
RENDERED = [
    ("{% if true %}\nx\n{% endif %}\n", "x\n"),
    ("  {% if true %}x{% endif %}\ny\n\n", "xy\n"),
    ("{% for n in range(5) %}{% if n == 1 %}{% continue %}{% elif n == 3 %}{% break %}{% endif %}{{ n }}{% endfor %}", "02"),
    ("{% generation %}{{ messages[0].content }}{% set x = 1 %}{% endgeneration %}{{ x }}", "hi"),
    ("{{ missing }}|{{ messages[0].missing }}", "|"),
    ("{{ eos_token }}{{ image_token }}{{ bos_token }}{{ switch }}", "<|im_end|><|image_pad|>True"),
    ("{{ {'b': '<é&\\'', 'a': [1.0, none, true]} | tojson }}", '{"b": "<é&\'", "a": [1.0, null, true]}'),
    ("{{ {'b': 1, 'a': 'é'} | tojson(ensure_ascii=true, indent=1, sort_keys=true) }}", '{\n "a": "\\u00e9",\n "b": 1\n}'),
    ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
    ("{{ dict(a=1).a }}{{ dict.fromkeys(['x']) }}{{ dict.__class__ }}", "1{'x': None}"),
    ("{% set n = namespace(a=1, self=2) %}{% set n.a = 3 %}{{ n.a }}{{ n.self }}", "32"),
    ("{{ ''.__class__ }}{{ messages.__len__ }}{{ (messages | first).__init__ }}", ""),
    ("{{ '<b>' }}{{ 3 * 'ab' }}{{ 2 ** 10 }}{{ [1] * 2 }}", "<b>ababab1024[1, 1]"),
    ("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}", "TrueTrueFalse"),
    ("{%- macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "3210"),
    ("{% for k, v in messages[0] | items %}{{ loop.index }}{{ k }}={{ v }};{% endfor %}", "1role=user;2content=hi;"),
]  # fmt: skip

TOKENS = {"eos_token": "<|im_end|>", "image_token": "<|image_pad|>"}


@pytest.mark.parametrize(("source", "expected"), RENDERED)
def test_templates_speak_jinja_as_transformers_does(source: str, expected: str) -> None:
    assert ChatTemplate(source, TOKENS).render(HI, switch=True) == expected


def test_the_clock_is_local_time() -> None:
    assert ChatTemplate("{{ strftime_now('%Y-%m') }}").render(HI) in {datetime.now().strftime("%Y-%m")}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('Say please.') }}", "^Say please.$"),
        ("{{ messages[0].a.b }}", "has no attribute 'a'"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ messages[0].update({'a': 1}) }}", "unsafe"),
        ("{{ messages[0].pop('role') }}", "unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ ''['__class__'].__base__ }}", "unsafe"),
        ("{{ (''|attr('__class__')).x }}", "unsafe|undefined"),
        ("{{ raise_exception.__globals__['json'] }}", "unsafe"),
        ("{{ '{0.__class__.x}'.format('') }}", "unsafe"),
        ("{{ dict.__call__.__globals__ }}", "unsafe"),
        ("{{ namespace(_x=1) }}", "underscore"),
        ("{% set n = namespace() %}{% set n.__class__ = 1 %}", "underscore"),
        ("{{ range(1000000) }}", "too big"),
        ("{{ 'x' * 100000000 }}", "too often"),
        ("{{ 100000000 * [1] }}", "too often"),
        ("{{ 9 ** 999999999 }}", "too high"),
        ("{{ 9 ** 999 * 9 ** 20000 }}", "too high"),
        ("{{ '%1000000000d' % 1 }}", "too great"),
        ("{{ '%*d' % (1000000000, 1) }}", "too great"),
        ("{{ '%1000000000d' | format(1) }}", "too great"),
        ("{{ '{:1000000000}'.format(1) }}", "too great"),
        ("{{ '{:{w}}'.format(1, w=1000000000) }}", "too great"),
        ("{{ 'a'.center(1000000000) }}", "too great"),
        ("{{ 'a'.ljust(width) }}", "too great"),
        ("{{ 'a' | center(1000000000) }}", "too great"),
        ("{{ 'a\n' | indent(1000000000) }}", "too great"),
        ("{{ ('a\n' * 999999) | indent(9999) }}", "too long"),
        ("{{ [1] | batch(1000000000, 'x') | list }}", "too great"),
        ("{{ [1] | slice(1000000000) | list }}", "too great"),
        ("{{ [1] | tojson(indent=1000000000) }}", "too great"),
        ("{{ '\t'.expandtabs(1000000000) }}", "too great"),
        ("{{ ('a' * 9999999).replace('a', 'b' * 9999) }}", "too long"),
        ("{{ ('a' * 9999999) | replace('a', 'b' * 9999) }}", "too long"),
        ("{{ ('b' * 9999).join('a' * 9999999) }}", "too long"),
        ("{{ ('a' * 9999999) | join('b' * 9999) }}", "too long"),
        ("{{ lipsum(n=1000000) }}", "undefined"),
        (
            "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "too long",
        ),
        (
            "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
            "too long",
        ),
        (
            "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
            "too long",
        ),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deeply"),
        ("{% include 'x' %}", "no loader"),
        ("{{ f() }}", "'f' is undefined"),
    ],
)
def test_a_template_cannot_leave_its_sandbox(source: str, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        ChatTemplate(source).render(HI, width=10**9)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ 'of 32768: %s, 100%%' % 5 }}", "of 32768: 5, 100%"),
        ("{{ '%5.2f|%-4s|%(a)s' | replace('|%(a)s', '') | format(1.5, 'x') }}", " 1.50|x   "),
        ("{{ '{{\"most\": 32768}} {:>4}'.format(width) }}", '{"most": 32768} 1000000000'),
        ("{{ 'a' | center(5) }}{{ 'a\nb' | indent(2) }}", "  a  a\n  b"),
        ("{{ [1, 2] | join(', ') }}{{ 'ab' | join('-') }}{{ [3] | map('string') | join }}", "1, 2a-b3"),
        ("{{ 'a' ~ 1 ~ none ~ nothing ~ 2.5 }}{{ 'a'.replace('a', 'b') }}{{ 7 * 6 + 1 }}", "a1None2.5b43"),
        ("{{ [1, 2, 3] | batch(2) | list }}{{ {'a': 1} | tojson(indent=1) }}", '[[1, 2], [3]]{\n "a": 1\n}'),
    ],
)
def test_limits_do_not_touch_honest_steps(source: str, expected: str) -> None:
    assert ChatTemplate(source).render(HI, width=10**9) == expected


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) if b < 0 %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(50) }}",
        "{% macro g() %}{{ caller() }}{% endmacro %}"
        "{% macro f(n) %}{% if n %}{% call g() %}{{ f(n - 1) }}{{ f(n - 1) }}{% endcall %}{% endif %}{% endmacro %}"
        "{{ f(40) }}",
    ],
)
def test_a_template_that_does_not_end_is_stopped(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_environment, "RENDER_SECONDS", 0.05)
    start = time.monotonic()
    with pytest.raises(TemplateError, match="was stopped"):
        ChatTemplate(source).render(HI)
    assert time.monotonic() - start < 10


def test_a_template_that_writes_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_environment, "MAX_PROMPT_CHARACTERS", 1000)
    assert len(ChatTemplate("{% for a in range(100) %}1234567890{% endfor %}").render(HI)) == 1000
    with pytest.raises(TemplateError, match="more than 1000 characters"):
        ChatTemplate("{% for a in range(101) %}1234567890{% endfor %}").render(HI)


class Trap:
    """An object whose method would do harm."""

    def __init__(self) -> None:
        self.sprung = False

    def spring(self) -> str:
        self.sprung = True
        return "sprung"


def test_objects_do_not_reach_the_template() -> None:
    trap = Trap()
    template = ChatTemplate("{{ messages[0].content }}{{ messages[0].content.spring() }}")
    with pytest.raises(TemplateError, match="has no attribute 'spring'"):
        template.render([{"role": "user", "content": trap}])
    assert not trap.sprung
    assert ChatTemplate("{{ switch }}").render(HI, switch=trap) == "<Trap>"


def test_numpy_values_become_plain() -> None:
    np = pytest.importorskip("numpy")
    messages = [
        {
            "role": "user",
            "content": [np.bool_(False), np.int64(3), np.float32(0.5), np.str_("x"), np.zeros(2)],
        }
    ]
    template = ChatTemplate("{{ messages[0].content | tojson }}")
    assert template.render(messages) == '[false, 3, 0.5, "x", "<ndarray>"]'


def test_the_callers_messages_stay_as_they_were() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}], "thinking": "t", "name": None}]
    before = json.dumps(messages)
    ChatTemplate("{{ messages[0].content[0].text }}").render(messages, continue_final_message=True)
    assert json.dumps(messages) == before


def test_data_that_contains_itself_is_refused() -> None:
    messages: list[Any] = [{"role": "user"}]
    messages[0]["content"] = messages
    with pytest.raises(TemplateError, match="nested too deeply"):
        ChatTemplate("{{ messages }}").render(messages)
    with pytest.raises(TemplateError, match="nested too deeply"):
        has_vision(messages)


def test_reading_replies_loads_no_template_engine_and_templates_no_arrays() -> None:
    script = (
        "import sys, qanat.text.dialects; assert 'jinja2' not in sys.modules;"
        "import qanat.text.chat_template; assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("a\n{% if %}", 2, "Expected an expression"),
        ("\n\n{{ x | nothing }}", 3, "No filter named 'nothing'"),
        ("{% for x in y %}", 1, "endfor"),
        ("{% generation %}", 1, "endgeneration"),
    ],
)
def test_a_mistake_in_a_template_is_told_with_file_and_line(
    source: str, line: int, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "chat_template.jinja"
    file.write_text(source, encoding="utf-8")
    with pytest.raises(TemplateError, match=f"^{re.escape(str(file))}, line {line}: .*{words}"):
        ChatTemplate.from_folder(tmp_path)


@pytest.mark.parametrize(
    "source", ["{% break %}", "{% for a in b %}" * 30 + "{% endfor %}" * 30, "{{ " + "(" * 3000]
)
def test_a_template_python_cannot_compile_is_refused(source: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(source)


def test_variables_names_what_a_template_reads() -> None:
    variables = ChatTemplate("{% set a = b %}{{ enable_thinking and a and namespace }}").variables
    assert variables == {"b", "enable_thinking"}


class TestFolder:
    def test_the_jinja_file_wins_over_the_settings(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "old", "eos_token": "E"}')
        assert ChatTemplate.from_folder(tmp_path).render(HI) == "old"
        (tmp_path / "chat_template.jinja").write_text("new {{ eos_token }}")
        assert ChatTemplate.from_folder(tmp_path).render(HI) == "new E"

    def test_tokens_may_be_written_as_objects(self, tmp_path: Path) -> None:
        settings = {
            "chat_template": "{{ eos_token }}{{ image_token }}{{ bos_token is defined }}",
            "eos_token": {"content": "E", "special": True},
            "bos_token": None,
            "extra_special_tokens": {"image_token": "I"},
        }
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        assert ChatTemplate.from_folder(tmp_path).render(HI) == "EIFalse"

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            (None, "no chat template"),
            ("{}", "no chat template"),
            ('{"chat_template": [{"name": "default", "template": "x"}]}', "several templates"),
            ("[1]", "should hold a JSON object"),
            ("{", "not valid JSON"),
        ],
    )
    def test_what_is_missing_or_damaged_is_named(
        self, settings: str | None, words: str, tmp_path: Path
    ) -> None:
        if settings is not None:
            (tmp_path / "tokenizer_config.json").write_text(settings)
        with pytest.raises(TemplateError, match=f"{re.escape(str(tmp_path))}.*{words}"):
            ChatTemplate.from_folder(tmp_path)

    @pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer_config.json"])
    def test_a_broken_link_is_not_a_missing_file(self, name: str, tmp_path: Path) -> None:
        for other in ("chat_template.jinja", "tokenizer_config.json"):
            (tmp_path / other).write_text("{}")
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to("nowhere")
        with pytest.raises(TemplateError, match=f"{re.escape(name)}: cannot be read"):
            ChatTemplate.from_folder(tmp_path)

    def test_a_template_that_is_not_text_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
        with pytest.raises(TemplateError, match=r"chat_template\.jinja: cannot be read as UTF-8"):
            ChatTemplate.from_folder(tmp_path)


@pytest.mark.parametrize(
    ("messages", "options", "words"),
    [
        ([], {}, "empty conversation. Provide at least one message"),
        (None, {}, "A conversation is a list of messages"),
        ("hello", {}, "A conversation is a list of messages"),
        (HI[0], {}, "A conversation is a list of messages"),
        ([HI], {}, "one conversation at a time"),
        (["hello"], {}, "Chat messages should be dicts"),
        (HI, {"tools": [5]}, "Tools should either be a JSON schema, or a callable"),
        (HI, {"tools": {"name": "f"}}, "Tools should either be a JSON schema"),
        (HI, {"tools": 5}, "Tools should be a list"),
        (HI, {"documents": ["x"]}, "Documents should be a list of dicts"),
        (HI, {"continue_final_message": True, "add_generation_prompt": True}, "are not compatible"),
        (HI, {"continue_final_message": "name"}, 'the final message has no "name"'),
        ([{"role": "user", "name": "x"}], {"continue_final_message": "name"}, "not an accepted field"),
    ],
)
def test_wrong_arguments_are_refused_in_clear_words(
    messages: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(TemplateError, match=words) as caught:
        ChatTemplate("{{ messages[0].content }}").render(messages, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("image", None),
        (None, None),
        ([{"type": "text", "text": "image"}], None),
        ([{"type": "text", "text": "a"}, {"type": "image"}], "an image in message 2 (user)"),
        ([{"image_url": {"url": "x"}}], "an image in message 2 (user)"),
        ([{"type": "video"}], "a video in message 2 (user)"),
        (["an image in words"], "an image in message 2 (user)"),
    ],
)
def test_pictures_are_found_where_the_template_would_place_one(content: Any, found: str | None) -> None:
    assert has_vision([{"role": "system"}, {"role": "user", "content": content}]) == found
