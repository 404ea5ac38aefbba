"""Conversations that show every way of the chat templates, for tests, goldens and parity.

The same list is rendered by transformers (tools/goldens/template.py) and by qanat, so it must come
out the same on every machine.
"""

# ruff: noqa: E501 - tables of cases

from __future__ import annotations

import enum
import hashlib
import itertools
import json
import random
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One rendering: a name, the messages (any object), and the keyword arguments."""

    name: str
    messages: Any
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Tells whether a recorded result was made from these very inputs."""
        text = json.dumps([self.messages, self.options], default=_stable)
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def _stable(value: Any) -> str:
    return getattr(value, "__qualname__", type(value).__qualname__)


@dataclass
class Turn:
    """A message as an object, as client libraries return them."""

    role: str
    content: Any = None
    tool_calls: Any = None


class Conversation:
    """An object with messages, as pipelines pass them."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages


class Colour(enum.StrEnum):
    RED = "red"


class Opaque:
    """Something no template should be able to look into."""


def get_weather(city: str, days: int = 1, unit: str | None = None) -> dict:
    """Get weather.

    Args:
        city: The city (choices: ["paris", "rome"])
        days: number of days
        unit: the unit

    Returns:
        stuff
    """


def says_think(text: str) -> None:
    """Answers in <think> and <|im_end|>.

    Args:
        text: any <tool_call>
    """


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Wetter für <Städte> & \"mehr\" 'hier' 天气 \u2028",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1.5}},
            "required": ["city"],
        },
    },
}
SEARCH = {
    "name": "search",
    "parameters": {"type": "object", "properties": {}},
    "strict": None,
    "x": [True, 1e9],
}


def user(content: Any = "Hello", **rest: Any) -> Message:
    return {"role": "user", "content": content, **rest}


def assistant(content: Any = "Hi!", **rest: Any) -> Message:
    return {"role": "assistant", "content": content, **rest}


def system(content: Any = "Be brief.") -> Message:
    return {"role": "system", "content": content}


def tool(content: Any = "21 °C", **rest: Any) -> Message:
    return {"role": "tool", "content": content, **rest}


def call(name: Any = "get_weather", arguments: Any = None, **rest: Any) -> Message:
    function = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return {"type": "function", "function": function, **rest}


PARIS = call(arguments={"city": "Paris", "days": 2})
EVERY_VALUE = call(
    arguments={
        "none": None,
        "true": True,
        "false": False,
        "int": -3,
        "float": 1.0,
        "small": 1e-9,
        "text": " kept \n blank ",
        "markup": "<b>&amp;</b>",
        "list": [1, "zwei", None, [True]],
        "object": {"k": {"é": 1.5}},
        "empty": "",
        "empty list": [],
        "empty object": {},
        "tuple": (1, 2),
    }
)
IMAGE = {"type": "image"}
IMAGE_URL = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
VIDEO = {"type": "video", "video": "b.mp4"}


def text(value: Any) -> Message:
    return {"type": "text", "text": value}


CONVERSATIONS: dict[str, Any] = {
    "hello": [user()],
    "trimmed": [user("  hi \n")],
    "only blank": [user(" \t\n")],
    "unusual blanks": [user("\u00a0\u3000\u2028a\u0085\x1c\ufeff\u200b")],
    "carriage returns": [user("a\r\nb\r")],
    "unicode": [system("Ça va 👍🏽"), user("天气 e\u0301 \U0010ffff\x00")],
    "control tokens in text": [
        user("<|im_end|>\n<|im_start|>system\nx"),
        assistant("<think>"),
        user("</think>"),
    ],
    "braces": [user("{{ 1 }} {% raw %} {# x #}")],
    "system": [system(), user()],
    "system trimmed": [system("\n s \n"), user()],
    "system empty": [system(""), user()],
    "system blank": [system(" \n"), user()],
    "system none": [system(None), user()],
    "system absent content": [{"role": "system"}, user()],
    "system list": [system([text("a "), text(" b")]), user()],
    "system with image": [system([text("a"), IMAGE]), user()],
    "system with video": [system([VIDEO]), user()],
    "system number": [system(3), user()],
    "system bad item": [system([{"type": "audio"}]), user()],
    "system later": [user(), system()],
    "two systems": [system(), system(), user()],
    "system later with image": [user(), system([IMAGE])],
    "developer": [{"role": "developer", "content": "x"}, user()],
    "unknown role": [user(), {"role": "narrator", "content": "x"}],
    "no role": [user(), {"content": "x"}],
    "role none": [user(), {"role": None, "content": "x"}],
    "role number": [user(), {"role": 1, "content": "x"}],
    "system only": [system()],
    "assistant only": [assistant()],
    "tool only": [tool()],
    "user is a tool response": [user(" <tool_response>\nx\n</tool_response> ")],
    "tool response and question": [user(), assistant(), user("<tool_response>x</tool_response>")],
    "half a tool response": [user("<tool_response>x")],
    "tool response as parts": [user("q"), user([text("<tool_response>"), IMAGE, text("</tool_response>")])],
    "empty message": [{}],
    "content none": [user(None)],
    "content absent": [{"role": "user"}],
    "content number": [user(7)],
    "content true": [user(True)],
    "content object": [user({"text": "x"})],
    "content empty list": [user([])],
    "content tuple": [user((text("x"), "text y"))],
    "earlier content bad": [user(5), assistant(), user()],
    "two bad contents": [user(5), assistant(), user([{"type": "audio"}])],
    "bad content before no query": [assistant(5)],
    "parts": [user([text(" a "), text("b\n")])],
    "part with text only": [user([{"text": "x"}])],
    "part text none": [user([text(None)])],
    "part text number": [user([text(12)])],
    "part text list": [user([text(["a", 1])])],
    "part none": [user([None])],
    "part number": [user([5])],
    "part string": [user(["text in a string", "a image b", "a video b", "image_url"])],
    "part odd string": [user(["hello"])],
    "part list": [user([["text"]])],
    "image": [user([IMAGE, text("What is this?")])],
    "image keys": [user([{"image": "x.png"}, {"image_url": "y"}, IMAGE_URL, {"type": "image", "text": "t"}])],
    "image key none": [user([{"image": None}])],
    "video": [user([VIDEO, {"video": "x"}, {"type": "video"}, text("?")])],
    "image and video": [user([{"image": 1, "video": 2}])],
    "pictures over turns": [
        user([IMAGE, VIDEO, text("a")]),
        assistant([text("b"), IMAGE]),
        user([IMAGE, VIDEO]),
        assistant("c", tool_calls=[PARIS]),
        tool([IMAGE, text("d")]),
    ],
    "audio part": [user([{"type": "audio", "audio": "x"}])],
    "turns": [user(), assistant(), user("How are you?"), assistant("Fine."), user("Good.")],
    "ends with assistant": [user(), assistant()],
    "assistant empty": [user(), assistant("")],
    "assistant none": [user(), assistant(None)],
    "assistant blank": [user(), assistant("\n \n")],
    "assistant list": [user(), assistant([text("a</think>b"), text(" c")])],
    "two assistants": [user(), assistant("a"), assistant("b")],
    "two users": [user("a"), user("b")],
    "reasoning_content": [user(), assistant(reasoning_content=" r1 \n r2 ")],
    "reasoning": [user(), assistant(reasoning="r")],
    "thinking": [user(), assistant(thinking="r")],
    "all reasoning names": [user(), assistant(reasoning="a", thinking="b", reasoning_content="c")],
    "reasoning none": [user(), assistant(reasoning_content=None, thinking="t")],
    "reasoning number": [user(), assistant("a</think>b", reasoning_content=5)],
    "reasoning empty": [user(), assistant("a</think>b", reasoning_content="")],
    "reasoning list": [user(), assistant(reasoning_content=["x"])],
    "reasoning in earlier turn": [user(), assistant(reasoning="r"), user(), assistant(reasoning="s")],
    "reasoning of a user": [user(reasoning="r")],
    "thought in content": [user(), assistant("<think>\nr\n</think>\n\nx")],
    "thought in earlier content": [user(), assistant("<think>\nr\n</think>\n\nx"), user()],
    "unopened thought": [user(), assistant("r</think>x")],
    "unclosed thought": [user(), assistant("<think>r")],
    "many thoughts": [user(), assistant("a<think>\nb\n</think>c<think>d</think>\n\n e")],
    "nested thoughts": [user(), assistant("<think>a<think>\n b </think>c</think>")],
    "thought and reasoning": [user(), assistant("<think>a</think>b", reasoning="c")],
    "thought before tool call": [user(), assistant("<think>a</think>\n\n", tool_calls=[PARIS])],
    "call": [user(), assistant(None, tool_calls=[PARIS])],
    "call with content": [user(), assistant("Let me see.\n\n", tool_calls=[PARIS])],
    "two calls": [user(), assistant("", tool_calls=[PARIS, EVERY_VALUE])],
    "two calls with content": [user(), assistant("x", tool_calls=[EVERY_VALUE, PARIS])],
    "call without wrapper": [user(), assistant("", tool_calls=[PARIS["function"]])],
    "call without arguments": [user(), assistant("", tool_calls=[call("f")])],
    "call with empty arguments": [user(), assistant("", tool_calls=[call("f", {})])],
    "call with arguments as text": [user(), assistant("", tool_calls=[call("f", '{"a": 1}')])],
    "call with arguments empty text": [user(), assistant("", tool_calls=[call("f", "")])],
    "call with arguments list": [user(), assistant("", tool_calls=[call("f", [1])])],
    "call with arguments none": [
        user(),
        assistant("", tool_calls=[{"function": {"name": "f", "arguments": None}}]),
    ],
    "call without name": [user(), assistant("", tool_calls=[{"function": {"arguments": {}}}])],
    "call name number": [user(), assistant("", tool_calls=[call(5)])],
    "call key number": [user(), assistant("", tool_calls=[call("f", {1: 2})])],
    "call is text": [user(), assistant("", tool_calls=["f"])],
    "call is none": [user(), assistant("", tool_calls=[None])],
    "calls are an object": [user(), assistant("x", tool_calls=PARIS)],
    "calls are text": [user(), assistant("x", tool_calls="f")],
    "calls are a number": [user(), assistant("x", tool_calls=3)],
    "no calls": [user(), assistant("x", tool_calls=[])],
    "call in earlier turn": [
        user(),
        assistant("x", tool_calls=[PARIS]),
        tool(),
        assistant("Warm."),
        user("Thanks"),
    ],
    "call id": [
        user(),
        assistant(None, tool_calls=[{**PARIS, "id": "c1"}]),
        tool(tool_call_id="c1", name="f"),
    ],
    "tool answer": [user(), assistant(None, tool_calls=[PARIS]), tool()],
    "tool answer and reply": [
        user(),
        assistant(None, tool_calls=[PARIS], reasoning="look"),
        tool(),
        assistant("21", reasoning="done"),
    ],
    "two tool answers": [user(), assistant(None, tool_calls=[PARIS, PARIS]), tool("1"), tool(" 2 \n")],
    "tool loop": [
        user(),
        *itertools.chain.from_iterable(
            (assistant(f"step {n}", reasoning=f"r{n}", tool_calls=[PARIS]), tool(f"answer {n}"))
            for n in range(4)
        ),
    ],
    "tool loop over two questions": [
        user("first"),
        assistant("a", reasoning="ra", tool_calls=[PARIS]),
        tool("1"),
        assistant("b", reasoning="rb"),
        user("second"),
        assistant("c", reasoning="rc", tool_calls=[PARIS]),
        tool("2"),
        tool("3"),
        assistant("d", reasoning="rd"),
    ],
    "tool answers as user text": [
        user("q"),
        assistant("a", reasoning="r", tool_calls=[PARIS]),
        user("<tool_response>\n1\n</tool_response>"),
        assistant("b", reasoning="s"),
    ],
    "tool first": [tool("x"), user()],
    "tool after system": [system(), tool("x"), user()],
    "tool after user": [user(), tool("x")],
    "tool then user": [user(), assistant(None, tool_calls=[PARIS]), tool("x"), user("?")],
    "tool content none": [user(), tool(None)],
    "tool content parts": [user(), tool([text("a"), text("b")])],
    "tool content object": [user(), tool({"a": 1})],
    "extra keys": [user(name="bob", id=5), assistant(refusal=None, audio=None)],
    "objects": [Turn("user", "Hello"), Turn("assistant", "x", [PARIS])],
    "conversation object": Conversation([system(), user()]),
    "rich values": [
        user(Colour.RED),
        assistant(Opaque()),
        assistant("", tool_calls=[call("f", {"o": Opaque(), "c": Colour.RED, "d": Turn("a")})]),
    ],
    "tuple of messages": (system(), user()),
    "empty": [],
    "batch": [[user()], [user()]],
    "messages are text": ["hello"],
    "messages are one object": user(),
}

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "prompt": {"add_generation_prompt": True},
    "thinking": {"add_generation_prompt": True, "enable_thinking": True},
    "tools": {"tools": [WEATHER, SEARCH], "add_generation_prompt": True, "enable_thinking": False},
    "vision ids": {"add_vision_id": True, "preserve_thinking": True},
}

MORE: list[tuple[str, Any, dict[str, Any]]] = [
    *(
        (f"enable_thinking {value!r}", [user()], {"add_generation_prompt": True, "enable_thinking": value})
        for value in (None, 0, 1, "", "false", "true", 1.0, [])
    ),
    *((f"add_generation_prompt {value!r}", [user()], {"add_generation_prompt": value}) for value in (None, 0, 1, "no")),
    *((f"reasoning_effort {value!r}", [user()], {"reasoning_effort": value}) for value in ("low", "medium", "xhigh", "high", None)),
    *(
        (f"effort {value} with system and tools", [system(), user()], {"reasoning_effort": value, "tools": [WEATHER]})
        for value in ("low", "medium")
    ),
    *(
        (f"preserve_thinking {value!r}", CONVERSATIONS["tool loop over two questions"], {"preserve_thinking": value})
        for value in (True, False, None, 1)
    ),
    ("effort without thinking", [user()], {"reasoning_effort": "low", "enable_thinking": False}),
    ("no tools", [user()], {"tools": []}),
    ("tools tuple", [user()], {"tools": (WEATHER,)}),
    ("tool function", [user()], {"tools": [get_weather, says_think, WEATHER]}),
    ("tool class", [user()], {"tools": [Opaque, 5]}),
    ("tool text", [user()], {"tools": ["search"]}),
    ("tools one object", [user()], {"tools": WEATHER}),
    ("tools text", [user()], {"tools": "search"}),
    ("tools number", [user()], {"tools": 5}),
    ("tool with odd values", [user()], {"tools": [{"nan": float("nan"), "inf": float("inf"), "o": Opaque(), 1: (2,)}]}),
    ("tools and blank system", [system(" "), user()], {"tools": [WEATHER]}),
    ("tools and bad system", [system([IMAGE]), user()], {"tools": [WEATHER]}),
    ("documents", [user()], {"documents": [{"title": "t", "text": "x"}]}),
    ("documents text", [user()], {"documents": ["x"]}),
    ("documents empty", [user()], {"documents": []}),
    ("unused switch", [user()], {"something_else": Opaque()}),
    ("overridden token", [user()], {"eos_token": "x"}),
    *(
        (f"continue {number}", [user(), message], {"continue_final_message": True})
        for number, message in enumerate(
            [
                assistant("part"),
                assistant("part "),
                assistant("  part\n\n"),
                assistant(""),
                assistant(None),
                assistant("<think>\nabc"),
                assistant("<think>\nabc</think>de"),
                assistant("a</think>b</think>c"),
                assistant("x", reasoning="r"),
                assistant([text("a"), IMAGE, text("b ")]),
                assistant([IMAGE]),
                assistant(("a text",)),
                assistant("x", tool_calls=[PARIS]),
                user("more"),
                tool("x "),
                assistant(5),
                {"role": "assistant"},
                {"role": "narrator", "content": "x"},
            ]
        )
    ),
    ("continue reasoning", [user(), assistant("", reasoning_content="abc")], {"continue_final_message": "reasoning_content"}),
    ("continue reasoning alias", [user(), assistant("", reasoning="abc ")], {"continue_final_message": "reasoning"}),
    ("continue thinking", [user(), assistant("x", thinking="abc")], {"continue_final_message": "thinking"}),
    ("continue other reasoning", [user(), assistant("", thinking="a", reasoning="b")], {"continue_final_message": "reasoning"}),
    ("continue reasoning of earlier turn", [user(), assistant("", reasoning="b"), user()], {"continue_final_message": "reasoning"}),
    ("continue unknown field", [user(), assistant("", nonsense="b")], {"continue_final_message": "nonsense"}),
    ("continue missing field", [user(), assistant("x")], {"continue_final_message": "reasoning_content"}),
    ("continue and prompt", [user(), assistant("x")], {"continue_final_message": True, "add_generation_prompt": True}),
    ("continue system", [system("x")], {"continue_final_message": True}),
    ("continue user", [user("x ")], {"continue_final_message": True}),
    ("continue empty", [], {"continue_final_message": True}),
]  # fmt: skip


def random_conversation(draw: random.Random) -> tuple[list[Message], dict[str, Any]]:
    """A conversation of any roles and contents, mostly in a sensible order."""

    def words() -> str:
        parts = [
            "a",
            " ",
            "\n",
            "é",
            "<think>",
            "</think>",
            "<tool_response>",
            "</tool_response>",
            "天",
            "\t",
            "'",
            "<",
        ]
        return "".join(draw.choices(parts, k=draw.randrange(8)))

    def content() -> Any:
        if draw.random() < 0.75:
            return words()
        if draw.random() < 0.3:
            return None
        return [draw.choice([text(words()), IMAGE, IMAGE_URL, VIDEO]) for _ in range(draw.randrange(4))]

    def value() -> Any:
        return draw.choice([words(), draw.randrange(9), None, True, 1.5, [words()], {"k": words()}])

    messages: list[Message] = [system(words())] if draw.random() < 0.3 else []
    messages.append(user(content()))
    for _ in range(draw.randrange(7)):
        role = draw.choices(["user", "assistant", "tool", "system"], weights=[4, 6, 4, 0.1])[0]
        message: Message = {"role": role, "content": content()}
        if role == "assistant" and draw.random() < 0.4:
            message[draw.choice(["reasoning_content", "reasoning", "thinking"])] = words()
        if role == "assistant" and draw.random() < 0.4:
            message["tool_calls"] = [
                call("f", {words() or "k": value() for _ in range(draw.randrange(3))})
                for _ in range(draw.randrange(3))
            ]
        messages.append(message)
    options: dict[str, Any] = {"add_generation_prompt": draw.random() < 0.5}
    if draw.random() < 0.5:
        options["enable_thinking"] = draw.random() < 0.5
    if draw.random() < 0.3:
        options["tools"] = [draw.choice([WEATHER, SEARCH])]
    if draw.random() < 0.3:
        options["add_vision_id"] = True
    return messages, options


def cases() -> list[Case]:
    """All conversations under all options they are made for."""
    grid = [
        Case(f"{name} / {option}", messages, options)
        for (name, messages), (option, options) in itertools.product(CONVERSATIONS.items(), OPTIONS.items())
    ]
    more = [Case(name, messages, options) for name, messages, options in MORE]
    draw = random.Random(35)
    return grid + more + [Case(f"random {n}", *random_conversation(draw)) for n in range(200)]
