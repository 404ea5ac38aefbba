"""`qanat chat`: turns, commands, and that nobody's words are lost."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qanat.cli import chat as chat_module
from qanat.cli.chat_commands import COMMANDS, Chat, Leave, run_command
from qanat.cli.chat_input import TypedLines
from qanat.cli.chat_model import LocalModel
from qanat.cli.chat_state import Conversation, load_conversation, save_conversation
from qanat.engine import LLM, SamplingParams
from qanat.errors import QanatError
from tests.cli.commands import assert_refused, command, environment, invoke, take_interrupts

SHORT = ("--max-tokens", "5", "--greedy")


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("pocket", max_batch=1)


@pytest.fixture
def talk(llm: LLM) -> Chat:
    return Chat(LocalModel(llm, "pocket"), Conversation())


def params(talk: Chat) -> SamplingParams:
    assert isinstance(talk.model, LocalModel)
    return talk.model.params(talk.conversation, greedy=talk.greedy)


TURNS = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two", "reasoning_content": "hm"},
]


def test_each_piped_line_is_a_turn_and_the_history_is_rendered_again(llm: LLM) -> None:
    result = invoke("chat", *SHORT, stdin="hello\nand \\\nnow?\n")
    assert result.exit_code == 0, result.stderr
    params = SamplingParams.greedy(max_tokens=5)
    messages = [{"role": "user", "content": "hello"}]
    first = llm.chat(messages, params)
    messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "and \nnow?"}]
    second = llm.chat(messages, params)
    replies = [text if text.endswith("\n") else text + "\n" for text in (first.text, second.text) if text]
    assert result.stdout == "".join(replies)


def test_the_system_prompt_and_thinking_are_part_of_every_turn(llm: LLM, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    invoke("chat", *SHORT, "--system", "Be brief.", "--thinking", stdin=f"hello\n/save {file}\n")
    saved = json.loads(file.read_text())
    assert saved["messages"][0] == {"role": "system", "content": "Be brief."}
    assert saved["thinking"] is True
    assert saved["messages"][1] == {"role": "user", "content": "hello"}


def test_a_refused_line_is_reported_the_chat_goes_on_and_the_exit_code_tells() -> None:
    result = invoke("chat", *SHORT, stdin="/nosuch\nhello\n/exit\nnot read\n")
    assert result.exit_code == 2
    assert "/nosuch" in result.stderr


def test_a_turn_that_is_too_long_is_not_kept(llm: LLM, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    lines = f"{'word ' * 300}\nhi\n/save {file}\n"
    result = invoke("chat", *SHORT, "--max-model-len", "64", stdin=lines)
    assert result.exit_code == 2
    assert [m["content"] for m in json.loads(file.read_text())["messages"] if m["role"] == "user"] == ["hi"]


def test_options_of_the_chat_are_checked_before_the_first_turn() -> None:
    assert_refused(invoke("chat", "--greedy", "--seed", "1"), "--seed")
    assert_refused(invoke("chat", "--temperature", "-2"), "temperature")


# -- commands -----------------------------------------------------------------------------------------


def test_help_lists_every_command(talk: Chat) -> None:
    text = run_command(talk, "/help")
    assert all(f"/{name}" in text for name in COMMANDS)
    assert set(COMMANDS) == {
        "help", "clear", "system", "set", "save", "load", "think", "regen", "stats", "exit"
    }  # fmt: skip


def test_set_changes_shows_and_restores(talk: Chat) -> None:
    assert "greedy" in run_command(talk, "/set")
    assert "0.7" in run_command(talk, "/set temperature 0.7")
    assert "seed" not in run_command(talk, "/set temperature 0.7")  # none is drawn before it is used
    assert "seed 5" in run_command(talk, "/set seed 5")
    run_command(talk, "/set seed default")
    run_command(talk, "/set top-k 9")
    assert params(talk).top_k == 9
    run_command(talk, "/set top_k default")
    assert "top_k" not in talk.conversation.settings
    assert run_command(talk, "/set temperature 0.7").count("0.7") == 1
    assert run_command(talk, "/set repetition_penalty 1.5").count("1.5") == 1
    assert "max_tokens 7" in run_command(talk, "/set max_tokens 7")
    run_command(talk, "/set stop two words")
    assert params(talk).stops == ("two words",)


@pytest.mark.parametrize(
    "line",
    ["/set nosuch 1", "/set temperature", "/set temperature hot", "/set temperature -1", "/set top_p 7",
     "/set logit_bias 999999=1",
     "/set nosuch default", "/think perhaps", "/save", "/load", "/load /nope", "/regen",
     "/save a\0b", "/load a\0b", "/save ~nobody_of_that_name/x", "/load ~nobody_of_that_name/x",
     "/save " + "x" * 300, "/load " + "x" * 300, "/save /dev/null", "/load /dev/zero", "/system \ud800",
     "/clear now", "/x"],
)  # fmt: skip
def test_a_refused_command_changes_nothing(talk: Chat, line: str) -> None:
    before = (dict(talk.conversation.settings), list(talk.conversation.turns), talk.conversation.thinking)
    with pytest.raises(QanatError):
        run_command(talk, line)
    assert before == (dict(talk.conversation.settings), talk.conversation.turns, talk.conversation.thinking)
    assert not talk.answer_again


def test_a_greedy_chat_refuses_settings_that_would_do_nothing(talk: Chat) -> None:
    talk.greedy = True
    with pytest.raises(QanatError, match="--greedy"):
        run_command(talk, "/set temperature 1")


def test_system_is_set_shown_and_removed(talk: Chat) -> None:
    assert run_command(talk, "/system") == "no system prompt"
    run_command(talk, "/system Be brief.")
    assert talk.conversation.messages()[0] == {"role": "system", "content": "Be brief."}
    run_command(talk, "/system off")
    assert talk.conversation.messages() == []


def test_think_switches_the_template(talk: Chat) -> None:
    assert "thinks" in run_command(talk, "/think on")
    assert "answers at once" in run_command(talk, "/think off")
    run_command(talk, "/think auto")
    assert talk.conversation.thinking is None
    run_command(talk, "/think hide")
    assert talk.hide_thinking


def test_exit_leaves(talk: Chat) -> None:
    for line in ("/exit", "/quit", "/bye"):
        with pytest.raises(Leave):
            run_command(talk, line)


def test_what_clear_put_away_comes_back(talk: Chat) -> None:
    talk.conversation.turns += TURNS
    run_command(talk, "/clear")
    assert talk.conversation.turns == []
    run_command(talk, "/load")
    assert talk.conversation.turns == TURNS


def test_an_answer_replaced_by_regen_comes_back(talk: Chat) -> None:
    talk.conversation.turns += TURNS
    run_command(talk, "/regen")
    assert talk.answer_again
    assert talk.conversation.turns == TURNS[:1]
    run_command(talk, "/load")
    assert talk.conversation.turns == TURNS


# -- files --------------------------------------------------------------------------------------------


def test_a_saved_chat_loads_as_it_was(talk: Chat, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    settings = {
        "temperature": 0.5,
        "stop": ("a", "b"),
        "logit_bias": {5: -1.5},
        "seed": 3,
        "ignore_eos": True,
    }
    whole = Conversation("Be brief.", True, settings, list(TURNS))
    save_conversation(whole, "pocket", file)
    assert whole.saved
    assert load_conversation(file) == whole
    run_command(talk, f"/load {file}")
    assert talk.conversation == whole


def test_a_file_that_is_no_chat_is_never_replaced(talk: Chat, tmp_path: Path) -> None:
    file = tmp_path / "precious.json"
    for content in (b'{"a": 1}', b"[]", b"\xff", b"", b"[" * 100_000):
        file.write_bytes(content)
        with pytest.raises(QanatError, match="not a saved chat"):
            run_command(talk, f"/save {file}")
        assert file.read_bytes() == content
    with pytest.raises(QanatError):
        run_command(talk, f"/save {tmp_path}")
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    with pytest.raises(QanatError):
        run_command(talk, f"/save {link}")
    assert link.is_symlink()


def test_a_failed_save_leaves_the_old_file_and_no_rubbish(
    talk: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "chat.json"
    run_command(talk, f"/save {file}")
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    talk.conversation.turns += TURNS
    with pytest.raises(QanatError, match="No space left"):
        run_command(talk, f"/save {file}")
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"messages": "x"},
        {"messages": [{"role": "oracle", "content": "x"}]},
        {"messages": [{"role": "user", "content": 5}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": "x", "name": "y"}]},
        {"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]},
        {"messages": [{"role": "assistant", "content": "x"}]},
        {"settings": {"nosuch": 1}},
        {"settings": {"temperature": "hot"}},
        {"settings": {"temperature": -1}},
        {"settings": {"stop": "x"}},
        {"settings": {"temperature": 10**400}},
        {"settings": {"top_k": 10**400}},
        {"settings": []},
        {"thinking": 1},
        {"thinking": "yes"},
    ],
)
def test_a_damaged_file_loads_nothing(talk: Chat, tmp_path: Path, change: dict[str, Any]) -> None:
    file = tmp_path / "chat.json"
    save_conversation(Conversation(None, None, {}, list(TURNS)), "pocket", file)
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    talk.conversation.turns += TURNS[:1]
    with pytest.raises(QanatError):
        run_command(talk, f"/load {file}")
    assert talk.conversation.turns == TURNS[:1]


# -- at the terminal ----------------------------------------------------------------------------------


def test_an_interrupted_answer_is_kept_as_far_as_it_got(
    llm: LLM, talk: Chat, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = llm.chat
    closed = []

    def interrupted(*arguments: Any, **options: Any) -> Iterator[Any]:
        stream = real(*arguments, **options)
        try:
            for number, chunk in enumerate(stream):
                if number == 3:
                    raise KeyboardInterrupt
                yield chunk
        finally:
            stream.close()
            closed.append(True)

    monkeypatch.setattr(llm, "chat", interrupted)
    talk.conversation.settings["ignore_eos"] = True
    chat_module._say(talk, "hello")
    assert [turn["role"] for turn in talk.conversation.turns] == ["user", "assistant"]
    assert talk.conversation.turns[1]["content"]
    assert closed == [True]
    assert llm.idle
    assert "stopped" in capsys.readouterr().err


def typed(keys: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        lines = TypedLines(input=pipe, output=DummyOutput())
        return list(iter(lines.next, None))  # type: ignore[arg-type]


def test_enter_sends_and_backslash_or_alt_enter_starts_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = "one\r" + "two\\\rthree\r" + "four\x1b\rfive\r" + "lost\x03" + "six\r" + "\x04"
    assert typed(keys, tmp_path, monkeypatch) == ["one", "two\nthree", "four\nfive", "six"]


def test_typed_lines_are_remembered_for_their_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed("secret\r\x04", tmp_path, monkeypatch)
    history = tmp_path / "qanat" / "history"
    assert "secret" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0
    assert typed("\x1b[A\r\x04", tmp_path, monkeypatch) == ["secret"]


def test_a_home_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert typed("hi\r\x04", blocked, monkeypatch) == ["hi"]
    assert "not remembered" in capsys.readouterr().err


def test_a_real_ctrl_c_stops_the_answer_and_not_the_chat() -> None:
    with subprocess.Popen(
        command("chat", "--ignore-eos", "--temperature", "1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=take_interrupts,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.stdin.write(b"/stats\n")
        process.stdin.close()
        assert process.wait(60) == 0
        said = process.stderr.read()
        assert b"stopped" in said
        assert b"1 reply, " in said  # what was read and written counts
        assert b" 0 written" not in said
