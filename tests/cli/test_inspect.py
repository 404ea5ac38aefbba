"""`inspect`, `list`, `rm`, `pull`: what is here, and what it costs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from assets import SHARED, needs_shared
from qanat.checkpoint import ModelConfig, load_checkpoint
from qanat.cli.inspect import facts
from tests.cli.commands import assert_refused, invoke


def test_inspect_adds_up_to_the_files() -> None:
    checkpoint = load_checkpoint("pocket")
    found = json.loads(invoke("inspect", "--json", "pocket").stdout)
    assert found["files"]["bytes"] == checkpoint.total_bytes == sum(found["files"]["bytes_by_dtype"].values())
    assert found["parameters"]["all"] == sum(
        view.nbytes // view.dtype.itemsize for view in checkpoint.tensors.values()
    )
    assert found["files"]["tensors"] == len(checkpoint.tensors)
    assert found["layers"] == found["linear_attention_layers"] + found["full_attention_layers"]
    memory = found["memory_bytes"]
    assert all(memory["f32"][length] > memory["bf16"][length] for length in memory["bf16"])
    lengths = list(memory["bf16"].values())
    assert lengths == sorted(lengths)


def test_inspect_is_readable() -> None:
    result = invoke("inspect", "pocket")
    assert result.exit_code == 0, result.stderr
    for word in (
        "Gated DeltaNet",
        "full attention",
        "parameters",
        "read per token",
        "keys and values",
        "memory needed",
    ):
        assert word in result.stdout


@needs_shared
@pytest.mark.parametrize(
    ("size", "parameters", "read", "cache", "state"),
    [
        ("0.8B", 873_438_784, 1_505, 12_288, 19.5),
        ("2B", 2_274_069_824, 3_764, 12_288, 19.5),
        ("9B", 9_653_104_368, 15_873, 32_768, 51.5),
        ("35B-A3B", 35_951_822_704, 5_893, 20_480, 64.4),
    ],
)
def test_inspect_tells_the_published_sizes(
    size: str, parameters: int, read: int, cache: int, state: float
) -> None:
    """Figures of docs/model.md, section 1."""
    found = facts(ModelConfig.from_file(SHARED / "qwen3.5" / size / "config.json"), None)
    assert found["parameters"]["all"] == parameters
    assert round(found["bytes_read_per_token_bf16"] / 1e6) == read
    assert found["kv_bytes_per_token_bf16"] == cache
    assert found["state_bytes_per_sequence"] / 1e6 == pytest.approx(state, abs=0.1)


def test_the_model_may_be_named_with_the_option_too() -> None:
    plain = invoke("inspect", "pocket", "--json")
    assert invoke("inspect", "-m", "pocket", "--json").stdout == plain.stdout
    assert invoke("inspect", "pocket", "-m", "pocket", "--json").stdout == plain.stdout
    for command in ("inspect", "verify"):
        assert_refused(invoke(command, "pocket", "-m", "./other"), "pocket", "./other", "choose one")
        assert_refused(invoke(command), "name a model", f"{command} --help")


def test_a_folder_without_weights_is_one_line(tmp_path: Path) -> None:
    assert_refused(invoke("inspect", str(tmp_path)), str(tmp_path))


def test_a_truncated_download_is_one_line(tmp_path: Path) -> None:
    for file in load_checkpoint("pocket").path.iterdir():
        data = file.read_bytes()
        (tmp_path / file.name).write_bytes(data[: len(data) // 2] if file.suffix == ".safetensors" else data)
    for arguments in (["inspect", str(tmp_path)], ["run", "-m", str(tmp_path), "hi"]):
        assert_refused(invoke(*arguments), "model.safetensors")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's client reads its folder when it is imported, so it is set there too."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_list_names_the_built_in_model_first(empty_cache: Path) -> None:
    result = invoke("list")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("pocket ")
    [pocket] = json.loads(invoke("list", "--json").stdout)
    assert pocket["model"] == "pocket"
    assert Path(pocket["folder"]).is_dir()


def test_rm_asks_or_needs_yes_and_knows_what_is_there(empty_cache: Path) -> None:
    for options in ([], ["--yes"]):
        for model, words in (
            ("a/b", "not in the cache"),
            ("nope", "not in the cache"),
            ("pocket", "part of"),
        ):
            refused = invoke("rm", *options, model)
            assert_refused(refused, model, words)
            assert "--yes" not in refused.stderr
    (empty_cache / "models--a--b").mkdir()
    assert_refused(invoke("rm", "a/b"), "rm --yes a/b")
    assert invoke("rm", "--yes", "a/b").exit_code == 0


def test_pull_of_something_that_is_no_hub_id_is_refused() -> None:
    assert_refused(invoke("pull", "not a model"), "not a model")
    assert_refused(invoke("pull", "pocket"), "nothing to pull")


def test_pull_of_a_folder_says_how_to_use_it(tmp_path: Path) -> None:
    assert_refused(invoke("pull", str(tmp_path)), "is a folder already", "-m")


def test_printed_lines_have_a_command_to_go_on_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("qanat.checkpoint.pull", lambda model, revision, progress: tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "qanat")])
    result = invoke("pull", "a/b")
    assert result.stdout == f"{tmp_path}\n"
    assert f"{tmp_path / 'qanat'} run -m a/b" in result.stderr
