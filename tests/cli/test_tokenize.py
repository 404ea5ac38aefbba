"""`tokenize`, `detokenize` and `render`: exact text in, exact text out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assets import SHARED, needs_shared
from qanat.checkpoint import resolve_model
from qanat.text import ChatTemplate, Tokenizer
from tests.cli.commands import assert_refused, invoke, spawn

TEXT = "Hello 🦄 e\u0301\r\n\tdon't <|im_end|> <think>\n\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_folder(resolve_model("pocket"))


def test_ids_are_those_of_the_tokenizer(tokenizer: Tokenizer) -> None:
    result = invoke("tokenize", TEXT)
    assert result.exit_code == 0, result.stderr
    assert [int(word) for word in result.stdout.split()] == tokenizer.encode(TEXT)


def test_standard_input_is_read_to_the_byte(tokenizer: Tokenizer) -> None:
    for arguments in (["tokenize", "-"], ["tokenize"]):
        result = invoke(*arguments, stdin=TEXT)
        assert [int(word) for word in result.stdout.split()] == tokenizer.encode(TEXT)


def test_the_json_form_has_ids_tokens_and_offsets(tokenizer: Tokenizer) -> None:
    value = json.loads(invoke("tokenize", "--json", TEXT).stdout)
    assert value["ids"] == tokenizer.encode(TEXT)
    assert value["tokens"] == [tokenizer.token_text(token) for token in value["ids"]]
    assert [(i, s, e) for i, (s, e) in zip(value["ids"], value["offsets"], strict=True)] == (
        tokenizer.encode_with_offsets(TEXT)
    )


def test_pieces_show_every_token_on_a_line_of_its_own() -> None:
    result = invoke("tokenize", "--pieces", "a 🦄\n\x1b")
    lines = result.stdout.splitlines()
    assert len(lines) == len(invoke("tokenize", "a 🦄\n\x1b").stdout.split())
    assert "\x1b" not in result.stdout
    assert '"a"' in lines[0]


def test_control_tokens_can_be_read_as_text(tokenizer: Tokenizer) -> None:
    result = invoke("tokenize", "--split-special-tokens", "x<|im_end|>")
    assert [int(word) for word in result.stdout.split()] == tokenizer.encode(
        "x<|im_end|>", split_special_tokens=True
    )
    assert_refused(invoke("tokenize", "--split-special-tokens", "--json", "x"), "--json")
    assert_refused(invoke("tokenize", "--pieces", "--json", "x"), "--json")


@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_ids_turn_back_into_the_text(tokenizer: Tokenizer, form: str) -> None:
    text = "héllo 🦄\n"
    ids = form.format(", ".join(map(str, tokenizer.encode(text))))
    assert invoke("detokenize", "-", stdin=ids).stdout == text
    assert invoke("detokenize", *ids.replace(",", "").strip("[]").split()).stdout == text


def test_special_tokens_can_be_left_out(tokenizer: Tokenizer) -> None:
    ids = [str(token) for token in tokenizer.encode("a<|im_end|>")]
    assert invoke("detokenize", *ids).stdout == "a<|im_end|>"
    assert invoke("detokenize", "--skip-special-tokens", *ids).stdout == "a"


@pytest.mark.parametrize("word", ["x", "1.5", "--", "²", "9" * 19])
def test_what_is_no_id_is_refused(word: str) -> None:
    assert_refused(invoke("detokenize", "-", stdin=f"1 {word}"), word, "not a token id")


def test_ids_without_a_token_are_counted_on_stderr(tokenizer: Tokenizer) -> None:
    good = tokenizer.encode("hello")
    result = invoke("detokenize", *map(str, [99999, *good, 88888]))
    assert result.stdout == "hello"
    assert f"2 of {len(good) + 2} ids have no token" in result.stderr
    assert result.stderr.count("\n") == 1
    assert invoke("detokenize", *map(str, good)).stderr == ""


def test_an_endless_number_is_no_id() -> None:
    assert_refused(invoke("detokenize", "-", stdin="9" * 5000), "not a token id")


def test_bytes_that_are_no_text_are_refused() -> None:
    assert_refused(invoke("tokenize", "-", stdin=b"ab\xff"), "UTF-8", "offset 2")


def test_an_argument_that_is_no_text_is_refused() -> None:
    done = spawn("tokenize", b"\xff\xfe".decode("utf-8", "surrogateescape"))
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"surrogate" in done.stderr


def test_a_folder_with_only_tokenizer_files_is_enough(tmp_path: Path) -> None:
    pocket = resolve_model("pocket")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((pocket / name).read_bytes())
    assert invoke("tokenize", "-m", str(tmp_path), "hi").stdout == invoke("tokenize", "hi").stdout


@needs_shared
def test_the_published_tokenizer_gives_the_published_ids() -> None:
    assert invoke("tokenize", "-m", str(SHARED / "qwen3.5"), "Hello world").stdout == "9419 1814\n"


# -- render -------------------------------------------------------------------------------------------


def written(tmp_path: Path, value: object, name: str = "messages.json") -> str:
    file = tmp_path / name
    file.write_text(json.dumps(value))
    return str(file)


MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello, what's up?"}]
TOOLS = [{"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {}}}]


def test_render_prints_the_prompt_character_for_character(tmp_path: Path) -> None:
    template = ChatTemplate.from_folder(resolve_model("pocket"))
    file = written(tmp_path, MESSAGES)
    expected = template.render(MESSAGES, add_generation_prompt=True)
    assert invoke("render", file).stdout == expected
    assert invoke("render", "-", stdin=json.dumps(MESSAGES)).stdout == expected
    assert invoke("render", "--no-generation-prompt", file).stdout == template.render(MESSAGES)
    for option, value in (("--thinking", True), ("--no-thinking", False)):
        assert invoke("render", option, file).stdout == template.render(
            MESSAGES, add_generation_prompt=True, enable_thinking=value
        )
    tools = written(tmp_path, TOOLS, "tools.json")
    assert invoke("render", file, "--tools", tools).stdout == template.render(
        MESSAGES, tools=TOOLS, add_generation_prompt=True
    )


def test_render_can_leave_the_last_message_open(tmp_path: Path) -> None:
    messages = [*MESSAGES, {"role": "assistant", "content": "Not much, b"}]
    assert invoke("render", "--continue", written(tmp_path, messages)).stdout.endswith("Not much, b")


def test_render_takes_a_saved_chat(tmp_path: Path) -> None:
    saved = {"format": "qanat chat 1", "messages": MESSAGES}
    assert (
        invoke("render", written(tmp_path, saved)).stdout
        == invoke("render", written(tmp_path, MESSAGES)).stdout
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", ["not JSON", "line 1"]),
        (b'"hello"', ["list of messages", "a string"]),
        (b"[1]", ["list of messages"]),
        (b"[" * 100_000, ["nested"]),
        (b"\xff", ["UTF-8"]),
        (b"[" + b"9" * 5000 + b"]", ["thousands of digits"]),
        (b'[{"role": "user", "content": "a\\ud800"}]', ["U+D800", "no character"]),
        (b'[{"role": "user", "content": "x"}, {"role": "oracle"}]', ["Unexpected message role."]),
    ],
)
def test_render_says_what_is_wrong_with_a_file(tmp_path: Path, content: bytes, words: list[str]) -> None:
    file = tmp_path / "m.json"
    file.write_bytes(content)
    assert_refused(invoke("render", str(file)), *words)


def test_what_is_wrong_with_standard_input_is_said_of_it_by_name() -> None:
    for arguments in (["render", "-"], ["run", "hello", "--tools", "-"]):
        refused = invoke(*arguments, stdin="5")
        assert_refused(refused, "standard input must hold a list", "a number")


def test_names_that_cannot_be_files_are_refused(tmp_path: Path) -> None:
    good = written(tmp_path, MESSAGES)
    for name in ("", "a\0b", "x" * 5000, str(tmp_path), "/dev/zero"):
        for arguments in ((name,), (good, "--tools", name)):
            result = invoke("render", *arguments)
            assert result.exit_code == 2, (name[:20], result.stderr)
            assert result.stderr.startswith("error: ")


def test_render_refuses_what_would_do_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, MESSAGES)
    assert_refused(invoke("render", str(tmp_path / "none.json")), "none.json", "no such file")
    assert_refused(invoke("render", "-", "--tools", "-"), "standard input")
    assert_refused(
        invoke("render", file, "--documents", written(tmp_path, [{"a": 1}], "d.json")), "documents"
    )
    assert_refused(invoke("render", file, "--generation-prompt", "--continue"), "--continue")
