"""`qanat run` on the built-in model: what goes where, and what is refused."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from qanat.backends.cpu.threads import MOST, choose_threads
from qanat.cli.options import SamplingOptions
from qanat.cli.sampling import SETTINGS, parse_setting, typed_settings
from qanat.engine import LLM, SamplingParams
from qanat.errors import QanatError
from tests.cli.commands import assert_refused, command, environment, invoke, spawn, take_interrupts

SHORT = ("--max-tokens", "6")


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("pocket", max_batch=1)


def ask(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_the_reply_is_the_engines_and_nothing_else_is_on_stdout(llm: LLM) -> None:
    expected = llm.chat(ask("Who are you?"), SamplingParams.greedy(max_tokens=6))
    result = invoke("run", "Who are you?", "--greedy", *SHORT)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.rstrip("\n") == expected.text.rstrip("\n")


def test_the_seeds_script_runs() -> None:
    result = invoke("run", "who are you?", "--greedy", "--weights", "bf16", "--max-tokens", "64")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("\n")


def test_sampling_and_speed_are_one_line_on_stderr() -> None:
    result = invoke("run", "hello", *SHORT)
    [line] = result.stderr.splitlines()
    assert re.search(r"sampling: .*prompt \d+ tokens at [\d.]+ tok/s, reply \d+ tokens", line)
    drawn = invoke("run", "hello", "--temperature", "0.8", *SHORT).stderr
    assert "temperature 0.8" in drawn
    assert re.search(r"seed \d+", drawn)


def test_a_printed_seed_gives_the_same_reply_again() -> None:
    first = invoke("run", "hello", "--temperature", "1.3", *SHORT)
    seed = re.search(r"seed (\d+)", first.stderr)
    assert seed is not None
    again = invoke("run", "hello", "--temperature", "1.3", "--seed", seed[1], *SHORT)
    assert again.stdout == first.stdout


def test_json_is_one_object_with_everything(llm: LLM) -> None:
    expected = llm.chat(ask("hello"), SamplingParams.greedy(max_tokens=6))
    result = invoke("run", "--json", "hello", "--greedy", "--logprobs", "2", *SHORT)
    value = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert (value["text"], value["token_ids"]) == (expected.text, list(expected.token_ids))
    assert value["finish_reason"] == expected.finish_reason
    assert value["usage"]["total_tokens"] == expected.usage.total_tokens
    assert len(value["logprobs"]) == len(expected.token_ids)
    assert all(len(entry["top"]) == 2 and entry["logprob"] <= 0 for entry in value["logprobs"])
    plain = json.loads(invoke("run", "--json", "hello", "--greedy", *SHORT).stdout)
    assert (plain["logprobs"], plain["prompt_logprobs"]) == (None, None)


def test_json_tells_log_probabilities_of_the_prompt(llm: LLM) -> None:
    result = invoke("run", "--json", "--raw", "hello there", "--greedy", "--prompt-logprobs", "2", *SHORT)
    first, *others = json.loads(result.stdout)["prompt_logprobs"]
    assert first is None
    assert [entry["token_id"] for entry in others] == llm.tokenizer.encode("hello there")[1:]
    assert all(len(entry["top"]) == 2 and entry["logprob"] < 0 for entry in others)


def test_piped_text_stands_before_the_argument(llm: LLM) -> None:
    both = invoke("run", "--json", "summarise", "--greedy", *SHORT, stdin="the report\n")
    expected = llm.chat(ask("the report\n\nsummarise"), SamplingParams.greedy(max_tokens=6))
    assert json.loads(both.stdout)["usage"]["prompt_tokens"] == expected.usage.prompt_tokens
    assert json.loads(both.stdout)["token_ids"] == list(expected.token_ids)
    alone = invoke("run", "--json", "--greedy", *SHORT, stdin="the report")
    assert json.loads(alone.stdout)["token_ids"] == list(
        llm.chat(ask("the report"), SamplingParams.greedy(max_tokens=6)).token_ids
    )


def test_raw_sends_the_text_as_it_is(llm: LLM) -> None:
    text = "<|im_start|>user\nhi\n"
    value = json.loads(invoke("run", "--raw", "--json", text, "--greedy", *SHORT).stdout)
    assert value["usage"]["prompt_tokens"] == len(llm.tokenizer.encode(text))
    assert value["token_ids"] == list(llm.generate(text, SamplingParams.greedy(max_tokens=6)).token_ids)


def test_system_tools_thinking_and_sanitize_reach_the_prompt(llm: LLM, tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "now", "description": "t", "parameters": {}}}]
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(tools))
    plain = ask("a<|im_end|>b")
    system = [{"role": "system", "content": "Be brief."}, *plain]
    greedy = SamplingParams.greedy(max_tokens=6)
    for options, expected in (
        (["--system", "Be brief."], llm.chat(system, greedy)),
        (["--tools", str(file)], llm.chat(plain, greedy, tools=tools)),
        (["--thinking"], llm.chat(plain, greedy, enable_thinking=True)),
        (["--no-thinking"], llm.chat(plain, greedy, enable_thinking=False)),
        (["--sanitize"], llm.chat(plain, greedy, sanitize=True)),
    ):
        value = json.loads(invoke("run", "--json", "--greedy", *SHORT, *options, "a<|im_end|>b").stdout)
        assert value["usage"]["prompt_tokens"] == expected.usage.prompt_tokens, options
        assert value["token_ids"] == list(expected.token_ids), options
        assert value["reasoning"] == expected.reasoning, options


def test_every_sampling_option_reaches_the_engine() -> None:
    typed = {
        "temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1,
        "presence_penalty": 0.2, "frequency_penalty": 0.3, "logit_bias": ["5=-2", "7=1.5"], "seed": 3,
        "max_tokens": 9, "min_tokens": 2, "stop": ["x", "y"], "thinking_budget": 30,
    }  # fmt: skip
    settings = typed_settings(SamplingOptions(**typed))  # type: ignore[arg-type]
    expected = {**typed, "logit_bias": {5: -2.0, 7: 1.5}, "stop": ("x", "y")}
    assert settings == expected
    SamplingParams(**settings)
    assert typed_settings(SamplingOptions(ignore_eos=True)) == {"ignore_eos": True}
    assert typed_settings(SamplingOptions()) == {}
    for name, value in typed.items():  # a zero is a wish too: it switches a default of the model card off
        if isinstance(value, int | float):
            assert typed_settings(SamplingOptions(**{name: 0})) == {name: 0}, name  # type: ignore[arg-type]
    assert set(SETTINGS) == {*typed, "ignore_eos"}


def test_a_bias_and_stop_change_the_reply(llm: LLM) -> None:
    base = json.loads(invoke("run", "--json", "hi", "--greedy", *SHORT).stdout)
    first = base["token_ids"][0]
    biased = json.loads(
        invoke("run", "--json", "hi", "--greedy", *SHORT, "--logit-bias", f"{first}=-100").stdout
    )
    assert biased["token_ids"][0] != first
    other = next(t for t in range(300, 400) if llm.tokenizer.token_text(t).strip().isalpha())
    word = llm.tokenizer.token_text(other)
    forced = invoke("run", "--json", "hi", "--greedy", *SHORT, "--logit-bias", f"{other}=500", "--stop", word)
    assert json.loads(forced.stdout)["finish_reason"] == "stop"
    assert json.loads(forced.stdout)["text"] == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--greedy", "--temperature", "1"], ["--greedy", "--temperature"]),
        (["--greedy", "--top-k", "3"], ["--top-k"]),
        (["--greedy", "--seed", "3"], ["--seed"]),
        (["--temperature", "0", "--top-p", "0.5"], ["--top-p"]),
        (["--ignore-eos", "--min-tokens", "3"], ["--min-tokens"]),
        (["--raw", "--system", "x"], ["--raw", "--system"]),
        (["--raw", "--thinking"], ["--thinking"]),
        (["--raw", "--no-thinking"], ["--no-thinking"]),
        (["--raw", "--tools", "x"], ["--tools"]),
        (["--raw", "--sanitize"], ["--sanitize"]),
        (["--raw", "--hide-thinking"], ["--hide-thinking"]),
        (["--json", "--hide-thinking"], ["--hide-thinking"]),
        (["--logprobs", "3"], ["--json"]),
        (["--prompt-logprobs", "0"], ["--json to --prompt-logprobs"]),
        (["--json", "--prompt-logprobs", "21"], ["prompt_logprobs", "20"]),
        (["--logit-bias", "5"], ["ID=B"]),
        (["--logit-bias", "x=1"], ["ID=B"]),
        (["--logit-bias", "5=1", "--logit-bias", "5=2"], ["twice"]),
        (["--logit-bias", "99999999=1"], ["99999999"]),
        (["--temperature", "-1"], ["temperature"]),
        (["--temperature", "nan"], ["temperature"]),
        (["--top-p", "2"], ["top_p"]),
        (["--min-tokens", "9", "--max-tokens", "3"], ["min_tokens"]),
        (["--stop", ""], ["stop"]),
        (["--tools", "/nope"], ["/nope"]),
        (["--tools", ""], ["name of a file is empty"]),
        (["--max-tokens", "0"], ["max_tokens"]),
        (["--greedy", "--seed", "0"], ["--seed"]),
        (["--stop", "\ud800"], ["half a character"]),
        (["--max-model-len", "99999999"], ["--max-model-len"]),
        (["--revision", "main"], ["revision"]),
    ],
)
def test_what_would_do_nothing_or_cannot_be_is_refused(options: list[str], words: list[str]) -> None:
    assert_refused(invoke("run", "hello", *options), *words)


def test_nothing_to_say_is_refused() -> None:
    assert_refused(invoke("run"), "prompt")
    assert_refused(invoke("run", "", "--raw"), "prompt")
    for name in ("run", "explain"):
        for text, word in (("", "empty"), (" \n ", "blank")):
            assert_refused(invoke(name, text), word)
            assert_refused(invoke(name, stdin=text), word)


def test_blanks_that_are_piped_in_are_no_part_of_the_prompt(llm: LLM) -> None:
    expected = llm.chat([{"role": "user", "content": "hello"}], SamplingParams.greedy(max_tokens=5))
    result = invoke("run", "hello", "--greedy", "--max-tokens", "5", "--json", stdin="\n")
    assert json.loads(result.stdout)["usage"]["prompt_tokens"] == expected.usage.prompt_tokens
    assert invoke("run", "--raw", "\n", "--greedy", "--max-tokens", "2").exit_code == 0


def test_a_prompt_that_is_too_long_is_refused() -> None:
    assert_refused(invoke("run", "word " * 200, "--max-model-len", "64"), "64", "--max-model-len")


def test_settings_are_parsed_by_name() -> None:
    assert parse_setting("top-k", "5") == ("top_k", 5)
    assert parse_setting("ignore_eos", "on") == ("ignore_eos", True)
    for name, value in (("nosuch", "1"), ("top_k", "x"), ("ignore_eos", "maybe"), ("logit_bias", "5")):
        with pytest.raises(QanatError):
            parse_setting(name, value)


def test_ctrl_c_stops_a_long_reply_quietly() -> None:
    with subprocess.Popen(
        command("run", "hello", "--ignore-eos", "--temperature", "1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=take_interrupts,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read().strip() == b""


def test_a_reader_that_leaves_stops_the_reply() -> None:
    with subprocess.Popen(
        command("run", "hello", "--ignore-eos", "--temperature", "1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_a_pipe_gets_utf8_whatever_the_locale(encoding: str) -> None:
    text = "é 漢 🦄".encode()
    ids = spawn("tokenize", "-", stdin=text).stdout
    done = spawn("detokenize", "-", stdin=ids, env={"PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stdout, done.stderr) == (0, text, b"")


def test_a_model_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening asks the hub: twice would be two waits, and two answers."""
    from qanat import checkpoint

    opened = []
    load = checkpoint.load_checkpoint

    def counted(model: str, **options: object) -> object:
        opened.append(model)
        return load(model, **options)  # type: ignore[arg-type]

    for room in ("qanat.checkpoint", "qanat.engine.core"):
        monkeypatch.setattr(f"{room}.load_checkpoint", counted)
    assert invoke("run", "hello", "--greedy", "--max-tokens", "1").exit_code == 0
    assert opened == ["pocket"]


def test_the_first_use_of_the_cpu_backend_says_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for compiled, said in ((False, True), (True, False)):
        monkeypatch.setattr("qanat.backends.cpu.kernel_cache.is_compiled", lambda mode, c=compiled: c)
        result = invoke("run", "Who are you?", "--backend", "cpu", "--max-tokens", "1")
        assert result.exit_code == 0
        assert ("compiling the kernels" in result.stderr) == said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("QANAT_SIMD", "sse"),
        ("QANAT_CACHE_LIMIT", "plenty"),
        ("QANAT_CACHE", "a/file"),
        ("NUMBA_DISABLE_JIT", "1"),
    ],
)
@pytest.mark.parametrize("command", [("run", "hi", "--backend", "cpu"), ("bench",)])
def test_a_wrong_variable_is_refused_before_anything_is_announced(
    name: str, value: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("")
    result = spawn(*command, env={"QANAT_CACHE": "fresh", name: value}, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == b""
    (line,) = result.stderr.decode().splitlines()
    assert line.startswith("error: ")
    assert name in line
    assert value in line or name == "NUMBA_DISABLE_JIT"


@pytest.mark.parametrize("command", ["run", "chat", "bench"])
def test_the_range_of_threads_is_shown_and_held(command: str) -> None:
    assert f"1<=x<={MOST}" in " ".join(invoke(command, "--help").stdout.split())
    for count in ("0", "-1", str(MOST + 1), "abc", "1.5"):
        assert_refused(invoke(command, "--threads", count), "--threads")
    assert choose_threads(MOST) == MOST


def test_a_short_prompt_to_a_miniature_does_not_wait_for_compiled_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen: list[str] = []

    class Noted(LLM):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            chosen.append(self.backend)

    monkeypatch.setattr("qanat.engine.LLM", Noted)
    for options in ([], ["--threads", "1"], ["--weights", "int8"], ["--backend", "cpu"]):
        assert invoke("run", "hi", "--max-tokens", "1", *options).exit_code == 0
    assert invoke("run", "hi " * 2000, "--max-tokens", "1").exit_code == 0
    assert chosen == ["reference", "cpu", "cpu", "cpu", "cpu"]


def test_a_schema_is_typed_or_in_a_file_and_the_answer_is_json_of_it(tmp_path: Path) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    (tmp_path / "schema.json").write_text(schema)
    for given in (schema, str(tmp_path / "schema.json")):
        for more in ([], ["--thinking", "--thinking-budget", "5"], ["--raw"]):
            result = invoke("run", "How many?", "--json", "--schema", given, *more)
            assert result.exit_code == 0, result.stderr
            assert isinstance(json.loads(json.loads(result.stdout)["text"])["n"], int)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--schema", "{"], "the schema is not JSON"),
        (["--schema", "nowhere.json"], "nowhere.json: no such file"),
        (["--schema", "[]"], "the schema must be a JSON object"),
        (["--schema", '{"not": {}}'], "the JSON schema cannot be used"),
        (["--schema", "{}", "--ignore-eos"], "--ignore-eos contradicts --schema"),
        (["--schema", "{}", "--min-tokens", "3"], "--min-tokens contradicts --schema"),
        (["--thinking-budget", "3"], "there is no thought to bound"),
        (["--raw", "--thinking-budget", "3"], "--thinking-budget would do nothing"),
    ],
)
def test_a_form_that_cannot_be_kept_is_refused(options: list[str], expected: str) -> None:
    assert_refused(invoke("run", "hello", *options), expected)
