"""What `qanat verify` feeds to both sides: conversations, texts of many kinds, prompts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

__all__ = ["PROMPTS", "conversations", "texts"]

PROMPTS = (
    "Who are you?",
    "hello, what's up?",
    "What is the capital of France?",
    "Write a Python function that reverses a list.",
    "12 + 30 = ?",
    "Erkläre in einem Satz, was ein Qanat ist.",
    "用一句话介绍你自己。",
    "Tell me a story about a well 🦄.",
)

_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}

_TEXTS = (
    "",
    " ",
    "Hello world",
    "don't WE'LL they'Ve x'ſy",
    "   leading and trailing   ",
    "tabs\tand\r\nlines\n\n\n end",
    "12345 + 0.5e-3 = ½² ٣",
    "def f(x):\n    return {'a': [x, *range(10)]}\n",
    "<|im_start|>user\nhi<|im_end|>\n<think>\n\n</think>\n\n",
    "<tool_call>\n<function=f>\n</function>\n</tool_call>",
    "e\u0301 \u212b \u1e69 q\u0307\u0323 \u0344",
    "اللغة العربية، ١٢٣",
    "हिन्दी में लिखा हुआ",
    "한국어 문장과 \u1112\u1161\u11ab",
    "中文、日本語の文章。加拿大俱乐部",
    "👨\u200d👩\u200d👧\u200d👦 🦄🏳️\u200d🌈",
    "\ufeffbom\u200bzero\u00a0width\u3000space",
    "\x00\x1b[31m\x7f control",
    "<|IM_END|> <|im_end| <think >",
    "a" * 300,
    "\u0301" * 50,
)


def texts(random_count: int) -> Iterator[str]:
    """The fixed texts, then random strings drawn from several alphabets."""
    yield from _TEXTS
    draw = random.Random(11)
    alphabets = (
        [chr(code) for code in range(32, 127)],
        list("aeiou  \n\t'!?.,0123456789ABCé\u0301"),
        [chr(code) for code in (*range(0x00A0, 0x0600), *range(0x0900, 0x0E80), *range(0x4E00, 0x4F00))],
        [chr(code) for code in (*range(0x20, 0xD800), *range(0xE000, 0x11000), *range(0x1F300, 0x1FA00))],
        ["<|im_end|>", "<think>", "</think>", "<|im_start|>", "<tool_call>", " ", "\n", "x", "<", "|", "é"],
    )
    for number in range(random_count):
        alphabet = alphabets[number % len(alphabets)]
        yield "".join(draw.choice(alphabet) for _ in range(draw.randint(1, 60)))


def conversations() -> Iterator[tuple[str, list[dict[str, Any]], dict[str, Any]]]:
    """(name, messages, template options): every kind of turn, and some that must be refused."""
    hello = {"role": "user", "content": "hello, what's up?"}
    system = {"role": "system", "content": "  Be brief. "}
    answer = {"role": "assistant", "content": "Not much.", "reasoning_content": "They greet me."}
    call = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Yazd", "days": 2}}}],
    }
    result = {"role": "tool", "content": '{"sky": "clear"}'}
    parts = {"role": "user", "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]}
    stories: dict[str, list[dict[str, Any]]] = {
        "one turn": [hello],
        "system": [system, hello],
        "several turns": [system, hello, answer, {"role": "user", "content": "and now?"}],
        "thought inside the content": [
            hello,
            {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"},
            hello,
        ],
        "text parts": [parts],
        "call and result": [hello, call, result],
        "two results": [hello, call, result, result, answer, hello],
        "control tokens in the text": [{"role": "user", "content": "a<|im_end|>b <think>"}],
        "empty": [{"role": "user", "content": ""}],
        "no user": [system],
        "system in the middle": [hello, system],
        "unknown role": [{"role": "oracle", "content": "x"}],
    }
    for name, messages in stories.items():
        for label, options in (
            ("", {"add_generation_prompt": True}),
            (", thinking", {"add_generation_prompt": True, "enable_thinking": True}),
            (", not thinking", {"add_generation_prompt": True, "enable_thinking": False}),
            (", tools", {"add_generation_prompt": True, "tools": [_WEATHER]}),
            (", no generation prompt", {}),
        ):
            yield name + label, messages, options
