"""The whole tokenizer on the real vocabulary: ids equal Hugging Face's for any text."""

from __future__ import annotations

import random
import sysconfig
import time
from pathlib import Path

import pytest

from qanat.errors import TokenizerError
from qanat.text import Segment, Tokenizer
from qanat.text.vocabulary import real_tokenizer_folder
from real_tokenizer import hugging_face, needs_vocabulary, ours, pocket

# First and last characters of living scripts, and of what surrounds text.
SCRIPTS = [
    (0x41, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x530, 0x58F), (0x590, 0x5F4),
    (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE5B), (0x1000, 0x109F),
    (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x2000, 0x206F), (0x2190, 0x22FF),
    (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFE00, 0xFE0F), (0x1F300, 0x1F64F),
    (0x20000, 0x2A6DF),
]  # fmt: skip
GLUE = [*" \n\t\r'!.,;:-_/()[]{}=+*0123456789\u0301\u0323", "  ", "\n\n", "\r\n", "'s", "'ll", " the", "tion"]


def prose(rng: random.Random, words: int) -> str:
    """Words over one script after another, with the punctuation and spacing of real text."""
    parts = []
    for _ in range(words):
        first, last = rng.choice(SCRIPTS)
        parts.append("".join(chr(rng.randint(first, last)) for _ in range(rng.randrange(1, 9))))
        parts.append(rng.choice(GLUE) if rng.random() < 0.6 else " ")
    return "".join(parts)


def soup(rng: random.Random, length: int) -> str:
    """Any code points at all, surrogates aside, thick with what the rules single out."""
    specials = [token.content for token in ours().added_tokens]
    parts = []
    for _ in range(length):
        kind = rng.random()
        if kind < 0.3:
            parts.append(rng.choice(GLUE))
        elif kind < 0.33:
            parts.append(rng.choice(specials))
        elif kind < 0.7:
            parts.append(chr(rng.randrange(0x3400)))
        else:
            code = rng.randrange(0x110000 - 0x800)
            parts.append(chr(code if code < 0xD800 else code + 0x800))
    return "".join(parts)


def assert_equal_ids(texts: list[str]) -> None:
    found = hugging_face().encode_batch_fast(texts, add_special_tokens=False)
    for text, encoding in zip(texts, found, strict=True):
        assert ours().encode(text) == encoding.ids, ascii(text[:2000])


@needs_vocabulary
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello world", [9419, 1814]),
        ("  Hello", [220, 21251]),
        ("\n\n\n x", [1358, 830]),
        ("\r\n\r\n", [845]),
        ("a\r\nb", [64, 317, 65]),
        ("don't", [14572, 914]),
        ("12345", [16, 17, 18, 19, 20]),
        ("e\u0301", [933]),
        (" \u0301abc", [220, 52033, 13290]),
        ("\ufeffabc", [3121, 13290]),
        ("a\u200db", [64, 373, 235, 65]),
        ("\x00", [188]),
        ("\U0010ffff", [176, 237, 123, 123]),
        ("a\x1cb", [64, 216, 65]),
        ("    def f():\n        pass\n", [262, 687, 281, 4406, 198, 285, 1440, 198]),
        ("'\u017f", [6, 129, 123]),
        ("x <|im_end|> y", [87, 220, 248046, 374]),
        ("</think>\n\n", [248069, 271]),
        ("<tool_call>\n<function=f>", [248058, 198, 27, 1628, 17572, 29]),
        ("<|IM_END|>", [27, 91, 1728, 10580, 91, 29]),
        ("<|im_end|", [27, 91, 316, 6018, 91]),
        ("<|audio_pad|><tts_pad>", [248076, 248072]),
        ("", []),
    ],
)
def test_known_ids(text: str, ids: list[int]) -> None:
    assert ours().encode(text) == ids


@needs_vocabulary
def test_random_text_equals_hugging_face() -> None:
    rng = random.Random(1)
    assert_equal_ids([soup(rng, rng.randrange(1, 30)) for _ in range(3000)])
    assert_equal_ids([prose(rng, 400) for _ in range(15)])


@needs_vocabulary
def test_the_vocabulary_has_the_published_size_and_ends() -> None:
    tokenizer = ours()
    assert len(tokenizer) == len(tokenizer.vocab) == 248_077
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (248_046, 248_044)
    assert tokenizer.token_id("<think>") == 248_068
    assert tokenizer.token_id("no such token") is None
    assert len(tokenizer.added_tokens) == 33
    assert tokenizer.special_ids == {*range(248_044, 248_058), *range(248_070, 248_077)}


def test_a_batch_is_each_text_alone() -> None:
    texts = ["a", "", "b <think>"]
    assert pocket().encode_batch(texts) == [pocket().encode(text) for text in texts]


@pytest.mark.parametrize("method", ["encode", "encode_with_offsets", "explain"])
def test_a_lone_surrogate_is_refused_with_its_place(method: str) -> None:
    with pytest.raises(TokenizerError, match=r"U\+D83D, at character 2: .* replace it by U\+FFFD"):
        getattr(pocket(), method)("ab\ud83d c")


def test_what_is_no_string_is_refused() -> None:
    with pytest.raises(TokenizerError, match="must be a string, not NoneType"):
        pocket().encode(None)  # type: ignore[arg-type]


def test_a_text_longer_than_the_piece_cache_encodes_the_same_again() -> None:
    rng = random.Random(3)
    text = " ".join("".join(rng.choices("abcdefghij", k=6)) for _ in range(70_000))
    assert pocket().encode(text) == pocket().encode(text)


def test_segments_keep_a_users_control_token_plain_and_the_templates_own() -> None:
    end = pocket().token_id("<|im_end|>")
    assert end is not None
    segments = [Segment("a", True), Segment("<|im_end|>", False), Segment("<|im_end|>\n", True)]
    ids = pocket().encode_prompt(segments)
    assert ids.count(end) == 1
    assert pocket().decode(ids) == "a<|im_end|><|im_end|>\n"


def test_text_does_not_join_across_segments_into_a_control_token() -> None:
    end = pocket().token_id("<|im_end|>")
    assert end not in pocket().encode_prompt([Segment("<|im", True), Segment("_end|>", True)])


def test_explain_shows_every_stage() -> None:
    text = "e\u0301a <think>b"
    stages = pocket().explain(text)
    assert stages.ids == pocket().encode(text)
    assert [stretch.text for stretch in stages.stretches] == ["e\u0301a ", "<think>", "b"]
    assert [stretch.normalized for stretch in stages.stretches] == ["\u00e9a ", "<think>", "b"]
    assert [(stretch.start, stretch.end) for stretch in stages.stretches] == [(0, 4), (4, 11), (11, 12)]
    assert [piece.text for piece in stages.stretches[0].pieces] == ["\u00e9a", " "]
    assert stages.stretches[0].pieces[0].byte_level == "\u00c3\u00a9a"
    assert stages.stretches[1].added_token is not None
    for stretch in stages.stretches:
        for piece in stretch.pieces:
            state = tuple(piece.byte_level)
            for merge in piece.merges:
                assert merge.left + merge.right == merge.result
                assert len(merge.tokens) == len(state) - 1
                state = merge.tokens
            assert state == piece.tokens


@needs_vocabulary
def test_the_real_file_loads_quickly() -> None:
    start = time.process_time()
    Tokenizer.from_folder(real_tokenizer_folder())
    assert time.process_time() - start < 4  # about 1 s; the rest is for a busy machine


@needs_vocabulary
@pytest.mark.proof
def test_200_000_random_strings_equal_hugging_face() -> None:
    rng = random.Random(2)
    for _ in range(100):
        assert_equal_ids([soup(rng, rng.randrange(1, 16)) for _ in range(2000)])


@needs_vocabulary
@pytest.mark.proof
def test_twenty_megabytes_of_mixed_text_equal_hugging_face() -> None:
    rng = random.Random(4)
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py"))
    rng.shuffle(sources)
    sizes = dict.fromkeys(("code", "prose", "soup", "numbers"), 0)
    for path in sources:
        if sizes["code"] > 10_000_000:
            break
        text = path.read_text(encoding="utf-8", errors="ignore")
        sizes["code"] += len(text.encode())
        assert_equal_ids([text[start : start + 20_000] for start in range(0, len(text), 20_000)])
    makers = {
        "prose": (lambda: prose(rng, 3000), 6_000_000),
        "soup": (lambda: soup(rng, 4000), 3_000_000),
        "numbers": (lambda: " ".join(repr(rng.gauss(0, 10**9)) for _ in range(400)), 1_000_000),
    }
    for name, (make, size) in makers.items():
        while sizes[name] < size:
            text = make()
            sizes[name] += len(text.encode())
            assert_equal_ids([text])
    print(sizes)
    assert sum(sizes.values()) >= 20_000_000
