"""What goes through the stages: what users say, and small safetensors files, good and broken."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

__all__ = ["TEXTS", "safetensors_files"]

TEXTS = (
    "who are you?",
    "hello, what's up?",
    "What is the capital of France?",
    "It's 3:45pm, don't be late! WE'LL wait; they'Re here",
    "  spaces   and\ttabs \n\n and lines\r\n\r\n",
    "def f(x):\n    return {'a': [x, *range(10)]}  # comment\n",
    "1234567890 + 0.5e-3 = 12,345.67",
    'x = (a->b)->c; y |= ~z; <html lang="en"></html>',
    '{"name": "qanat", "tags": ["a", null, true], "n": -1.5}',
    "A very long word: antidisestablishmentarianism, and aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "éèê ñ ü ß œ Å and e\u0301e\u0300 n\u0303 u\u0308 A\u030a",
    "\u212b \u2126 \u1e69 q\u0307\u0323 \u0344 \u0958 \ufb01",
    "Привет, мир! Γειά σου Κόσμε",
    "שלום עולם مرحبا بالعالم ١٢٣",
    "नमस्ते दुनिया — हिन्दी",
    "안녕하세요 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "你好，世界。加拿大俱乐部 日本語の文章",
    "สวัสดีชาวโลก",
    "👋🌍 🦄 👨\u200d👩\u200d👧 🏳️\u200d🌈 🇩🇪",
    "½ ² ٣ Ⅷ ①",
    "zero\u200bwidth\u00a0no-break\u3000ideographic\ufeffbom",
    "controls: \x00 \x1b[0m \x7f \x85 \u2028 \x1c",
    "'ſ long s, K Kelvin, don’t curly",
    "<think> inside, </think> and <|im_end|> as text",
    "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
    "almost: <|IM_END|> <|im_end| <think >",
    "𝗯𝗼𝗹𝗱 and plain bold",
    "\U0010ffff \ue000 \u0378",
    "!\u0301a \u0301 \u0301\u0301x",
    "end with spaces   ",
)
"""The first ten are ASCII, as in the blog that the project begins with."""


def _file(header: Any, data: bytes, *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def safetensors_files() -> list[tuple[str, bytes]]:
    """(what it is, the file): hand-made ones, then one good file with random bytes changed."""
    good = {
        "__metadata__": {"format": "pt"},
        "a": _entry("F32", [2, 3], 0, 24),
        "b": _entry("BF16", [4], 24, 32),
        "c": _entry("I64", [], 32, 40),
        "d": _entry("U8", [0, 5], 40, 40),
        "e": _entry("BOOL", [3], 40, 43),
    }
    data = bytes(range(42)) + b"\1"
    x = _entry("F32", [2], 0, 8)
    files: list[tuple[str, bytes]] = [
        ("several dtypes", _file(good, data)),
        ("no tensors", _file({}, b"")),
        ("only metadata", _file({"__metadata__": {"k": "v"}}, b"")),
        ("padded header", _file(json.dumps({"x": x}).encode() + b"   ", bytes(8))),
        ("unaligned data", _file({"y": _entry("U8", [1], 0, 1), "x": _entry("F32", [1], 1, 5)}, bytes(5))),
        ("unknown extra field", _file({"x": {**x, "extra": 1}}, bytes(8))),
        ("empty file", b""),
        ("seven bytes", bytes(7)),
        ("header of length 0", bytes(8)),
        ("header longer than the file", _file({"x": x}, bytes(8), length=10_000)),
        ("header length beyond any file", b"\xff" * 8 + b"{}"),
        ("not JSON", _file(b"{nonsense}", b"")),
        ("JSON but a list", _file(b"[1, 2]", b"")),
        ("not UTF-8", _file(b'{"\xff": {}}', b"")),
        ("truncated data", _file({"x": x}, bytes(7))),
        ("trailing data", _file({"x": x}, bytes(9))),
        ("unknown dtype", _file({"x": _entry("F7", [2], 0, 8)}, bytes(8))),
        ("size and shape disagree", _file({"x": _entry("F32", [3], 0, 8)}, bytes(8))),
        ("begin after end", _file({"x": _entry("F32", [2], 8, 0)}, bytes(8))),
        ("a hole", _file({"x": _entry("U8", [1], 0, 1), "y": _entry("U8", [1], 2, 3)}, bytes(3))),
        ("an overlap", _file({"x": _entry("U8", [2], 0, 2), "y": _entry("U8", [2], 1, 3)}, bytes(3))),
        ("negative shape", _file({"x": _entry("U8", [-1], 0, 1)}, bytes(1))),
        ("fractional shape", _file({"x": {**_entry("U8", [], 0, 1), "shape": [1.5]}}, bytes(1))),
        ("shape product overflows", _file({"x": _entry("U8", [2**40, 2**40], 0, 8)}, bytes(8))),
        ("no dtype", _file({"x": {"shape": [8], "data_offsets": [0, 8]}}, bytes(8))),
        ("no shape", _file({"x": {"dtype": "U8", "data_offsets": [0, 8]}}, bytes(8))),
        ("no offsets", _file({"x": {"dtype": "U8", "shape": [8]}}, bytes(8))),
        ("metadata of numbers", _file({"__metadata__": {"a": 1}, "x": x}, bytes(8))),
    ]  # fmt: skip
    whole = _file(good, data)
    draw = random.Random(5)
    for number in range(60):
        broken = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            broken[draw.randrange(8 + len(json.dumps(good)))] = draw.choice(b'0123456789[]{},:"FIU \x00')
        files.append((f"good file, bytes changed {number}", bytes(broken)))
    return files
