"""The examples in docs/serving.md do what they say, and its table is what the planner computes."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from assets import ROOT
from qanat.checkpoint.config import ModelConfig
from tests.server.http.serving import Program, program
from tools.memory_table import fits, most_users, table
from tools.published_sizes import published_config

TEXT = (ROOT / "docs" / "serving.md").read_text()
EXAMPLES = TEXT.split("\n## ")[0]
ANSWER = "I am Pocket, a tiny language model that lives inside qanat."


@pytest.fixture(scope="module")
def server() -> Iterator[Program]:
    with program("--served-model-name", "Qwen/Qwen3.5-2B") as running:
        yield running


def block(language: str, word: str) -> str:
    """The block of code in a language that has a word in it."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", EXAMPLES, re.DOTALL | re.MULTILINE)
    [code] = [code for code in found if word in code]
    return code


def run(command: list[str], code: str, server: Program) -> str:
    here = code.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")
    assert here != code
    done = subprocess.run([*command, here], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_curl_examples_answer(server: Program) -> None:
    plain, stream = block("", "curl").strip().splitlines()
    assert ANSWER in run(["sh", "-c"], plain, server)
    assert run(["sh", "-c"], stream, server).endswith("data: [DONE]\n\n")


@pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="openai is not installed")
def test_the_python_example_answers(server: Program) -> None:
    assert run([sys.executable, "-c"], block("python", "openai"), server) == ANSWER


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_javascript_example_answers(server: Program) -> None:
    assert run(["node", "--input-type=module", "--eval"], block("js", "fetch"), server) == f"{ANSWER}\n"


def test_the_table_of_users_is_what_the_planner_says() -> None:
    assert table() in TEXT


def test_one_user_more_than_the_table_says_does_not_fit() -> None:
    config = ModelConfig.from_dict(published_config("4B")).text
    for context in (4096, 32768):
        users = most_users(config, 16 * 10**9, context)
        assert users > 1
        assert fits(config, 16 * 10**9, context, users)
        assert not fits(config, 16 * 10**9, context, users + 1)
