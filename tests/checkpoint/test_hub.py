"""Hub models: downloaded with no more than is needed, resumed, reused offline, refused within seconds."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import COMMIT, FakeHub

from assets import ROOT
from qanat.checkpoint import (
    cached_models,
    hub,
    hub_download,
    load_checkpoint,
    pull,
    remove_cached,
    resolve_model,
)
from qanat.errors import CheckpointError, ModelNotFoundError, UnsupportedError
from tools.tiny_models import random_checkpoint

NAME = "org/tiny"
OTHER_FILES = {
    "README.md": b"# hi",
    "pytorch_model.bin": b"x" * 1000,
    "pytorch_model.bin.index.json": b"{}",
    "model-Q4.gguf": b"GGUF",
    "onnx/config.json": b"{}",
    "original/model.safetensors": b"x",
}
WANTED = {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    small = {"num_hidden_layers": 1, "layer_types": ["full_attention"], "vocab_size": 32}
    folder = random_checkpoint(tmp_path_factory.mktemp("model"), small, dtype="BF16")
    return {
        **{path.name: path.read_bytes() for path in folder.iterdir()},
        "tokenizer.json": b"{}",
        "chat_template.jinja": b"{{ messages }}",
        **OTHER_FILES,
    }


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of our own, and an endpoint where nobody listens; the client reads both at import."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "LARGE", 10_000)
    monkeypatch.setattr(hub_download, "CHUNK", 500)
    monkeypatch.setattr(hub_download, "PAUSE", 0.01)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    point_to(monkeypatch, "http://127.0.0.1:9")
    return tmp_path / "hub"


def point_to(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def server(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub(NAME, dict(files)) as running:
        point_to(monkeypatch, running.url)
        yield running


def test_only_what_a_model_needs_is_downloaded(server: FakeHub, files: dict[str, bytes]) -> None:
    folder = resolve_model(NAME)
    assert {path.name for path in folder.iterdir()} == WANTED
    assert server.fetched() == WANTED
    assert all((folder / name).read_bytes() == files[name] for name in WANTED)
    assert load_checkpoint(NAME).path == folder


def test_the_tokenizer_alone_needs_no_weights(server: FakeHub) -> None:
    folder = resolve_model(NAME, files="tokenizer")
    assert {path.name for path in folder.iterdir()} == WANTED - {"model.safetensors"}
    assert resolve_model(NAME, files="tokenizer", offline=True) == folder
    with pytest.raises(ModelNotFoundError, match="incomplete"):
        resolve_model(NAME, offline=True)
    resolve_model(NAME)
    assert server.fetched() == WANTED


def test_a_complete_copy_costs_one_question(server: FakeHub) -> None:
    first = resolve_model(NAME)
    server.requests.clear()
    assert resolve_model(NAME) == first
    assert [path for _, path, _ in server.requests if "harness" not in path] == [f"/api/models/{NAME}"]


@pytest.mark.parametrize("revision", ["v1", COMMIT])
def test_a_revision_is_honoured_and_found_again_offline(server: FakeHub, revision: str) -> None:
    folder = resolve_model(NAME, revision=revision)
    assert folder.name == COMMIT
    assert resolve_model(NAME, revision=revision, offline=True) == folder
    with pytest.raises(ModelNotFoundError, match="not in the cache"):
        resolve_model(NAME, offline=True)  # the main branch was never asked for


def test_a_broken_connection_is_resumed_at_once(server: FakeHub, files: dict[str, bytes]) -> None:
    server.cut["model.safetensors"] = 1000
    folder = resolve_model(NAME)
    assert (folder / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert [span for *_, span in server.requests if span] == ["bytes=1000-"]


def test_an_interrupted_download_goes_on_where_it_stopped(
    server: FakeHub, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.cut["model.safetensors"] = 5000
    server.after_cut = (503, "")
    with pytest.raises(ModelNotFoundError, match="answered 503"):
        pull(NAME, progress=False)
    assert not cached_models() or not cached_models()[0].complete
    with pytest.raises(ModelNotFoundError, match="offline"):
        resolve_model(NAME, offline=True)
    server.refuse = None
    server.requests.clear()
    folder = pull(NAME, progress=False)
    assert (folder / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert [span for *_, span in server.requests if span] == ["bytes=5000-"]
    assert server.fetched() == {"model.safetensors"}


def test_an_interrupted_download_can_be_removed(server: FakeHub, cache: Path) -> None:
    server.cut["model.safetensors"] = 5000
    server.after_cut = (503, "")
    with pytest.raises(ModelNotFoundError):
        pull(NAME, progress=False)
    assert remove_cached(NAME) > 5000
    assert not list(cache.glob("models--*"))


def test_a_server_without_ranges_sends_the_whole_file_again(server: FakeHub, files: dict[str, bytes]) -> None:
    server.cut["model.safetensors"] = 5000
    server.ranges = False
    folder = pull(NAME, progress=False)
    assert (folder / "model.safetensors").read_bytes() == files["model.safetensors"]


def test_bytes_of_an_older_attempt_that_do_not_fit_are_dropped(
    server: FakeHub, files: dict[str, bytes], cache: Path
) -> None:
    server.cut["model.safetensors"] = 5000
    server.after_cut = (503, "")
    with pytest.raises(ModelNotFoundError):
        pull(NAME, progress=False)
    server.refuse = None
    (partial,) = (cache / "models--org--tiny" / "blobs").glob("*.incomplete")
    partial.write_bytes(bytes(10**6))  # longer than the file
    folder = pull(NAME, progress=False)
    assert (folder / "model.safetensors").read_bytes() == files["model.safetensors"]


def test_a_large_file_that_arrives_damaged_is_noticed_and_deleted(
    server: FakeHub, files: dict[str, bytes], cache: Path
) -> None:
    server.sha256 = True  # as the hub's etag of large files
    server.cut["model.safetensors"] = 5000
    server.after_cut = (503, "")
    with pytest.raises(ModelNotFoundError):
        pull(NAME, progress=False)
    server.refuse = None
    (partial,) = (cache / "models--org--tiny" / "blobs").glob("*.incomplete")
    partial.write_bytes(bytes(5000))
    with pytest.raises(CheckpointError, match="arrived damaged"):
        pull(NAME, progress=False)
    assert not partial.exists()
    assert (pull(NAME, progress=False) / "model.safetensors").read_bytes() == files["model.safetensors"]


def test_a_file_that_never_comes_is_given_up(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.cut_always = "model.safetensors"
    with pytest.raises(ModelNotFoundError, match="cannot be reached"):
        pull(NAME, progress=False)


def test_an_interrupted_update_leaves_the_older_copy_in_use(server: FakeHub) -> None:
    old = resolve_model(NAME)
    server.commit = "f" * 40
    server.files["model.safetensors"] += b"x"
    server.cut["model.safetensors"] = 10
    server.after_cut = (503, "")
    assert resolve_model(NAME) == old
    assert resolve_model(NAME, offline=True) == old


def test_offline_never_touches_the_network(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = resolve_model(NAME)
    server.requests.clear()
    assert resolve_model(NAME, offline=True) == folder
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert resolve_model(NAME) == folder
    with pytest.raises(ModelNotFoundError, match="HF_HUB_OFFLINE is set"):
        pull(NAME)
    with pytest.raises(ModelNotFoundError, match="offline, and it is not in the cache"):
        resolve_model("org/other")
    assert server.requests == []


def test_a_complete_copy_is_used_and_announced_when_the_hub_is_away(
    server: FakeHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve_model(NAME)
    point_to(monkeypatch, "http://127.0.0.1:9")
    capsys.readouterr()
    assert resolve_model(NAME) == folder
    captured = capsys.readouterr()
    assert "using the complete copy" in captured.err
    assert captured.out == ""


def test_a_cached_copy_without_a_shard_is_not_complete(server: FakeHub) -> None:
    folder = resolve_model(NAME)
    (folder / "model.safetensors").unlink()
    assert not cached_models()[0].complete
    with pytest.raises(ModelNotFoundError, match="lacks model"):
        resolve_model(NAME, offline=True)


REFUSALS = [
    ((404, "RepoNotFound"), "no such repository"),
    ((404, "RevisionNotFound"), "that revision does not"),
    ((401, ""), "answered 401"),
    ((403, ""), "answered 403"),
    ((403, "GatedRepo"), "accept its terms"),
    ((429, ""), "too many requests"),
    ((500, ""), "answered 500"),
    ((302, ""), "cannot be reached"),
]


@pytest.mark.parametrize(("answer", "words"), REFUSALS)
def test_a_refusal_is_explained_on_one_line(answer: tuple[int, str], words: str, server: FakeHub) -> None:
    server.refuse = answer
    with pytest.raises(ModelNotFoundError, match=words) as caught:
        resolve_model(NAME)
    assert NAME in str(caught.value)
    assert str(caught.value).isprintable()


def test_an_answer_that_is_not_the_hubs_is_named(server: FakeHub) -> None:
    server.refuse = (200, "")  # a captive portal says yes to everything
    server.refusal_body = b"<html>log in</html>"
    with pytest.raises(ModelNotFoundError, match=r"not as a hub does \(a login page\?\)") as caught:
        resolve_model(NAME)
    assert "cannot be reached" not in str(caught.value)


@pytest.mark.parametrize(("code", "doubted"), [("", True), ("RepoNotFound", False)])
def test_a_404_of_another_endpoint_doubts_that_it_is_a_mirror(
    code: str, doubted: bool, server: FakeHub
) -> None:
    server.refuse = (404, code)
    with pytest.raises(ModelNotFoundError, match="no such repository") as caught:
        resolve_model(NAME)
    assert ("no mirror of the hub" in str(caught.value)) == doubted


@pytest.mark.parametrize("name", ["pockt", "Pocket", "poket", "pocket2"])
def test_a_slip_of_the_fingers_is_asked_about(name: str) -> None:
    for action in (lambda: resolve_model(name), lambda: resolve_model(name, offline=True)):
        with pytest.raises(ModelNotFoundError, match="did you mean pocket"):
            action()


@pytest.mark.parametrize("name", ["rocket-7b", "org/pockt", "llama"])
def test_another_name_is_not_taken_for_a_slip(name: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        resolve_model(name, offline=True)
    assert "did you mean" not in str(caught.value)


def test_an_answer_of_wrong_kinds_is_not_a_hubs(server: FakeHub) -> None:
    server.files[5] = b""  # type: ignore[index]
    with pytest.raises(ModelNotFoundError, match="no list of files"):
        pull(NAME, progress=False)


@pytest.mark.parametrize("address", ["http://[", "http://[::1", "http://x:99999", "http://x:y"])
def test_an_endpoint_that_is_no_address_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    for action in (
        lambda: pull(NAME),
        cached_models,
        lambda: remove_cached(NAME),
        lambda: resolve_model(NAME),
    ):
        with pytest.raises(ModelNotFoundError, match="HF_ENDPOINT"):
            action()


def test_a_file_in_the_place_of_the_cache_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    (tmp_path / "file").touch()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "file"))
    with pytest.raises(CheckpointError, match="is no folder"):
        cached_models()
    with pytest.raises(ModelNotFoundError):
        remove_cached(NAME)


def test_the_built_in_model_is_not_looked_for_on_the_hub(server: FakeHub) -> None:
    with pytest.raises(UnsupportedError, match="part of qanat"):
        pull("pocket", progress=False)
    assert not server.requests


def test_a_repository_without_safetensors_is_refused_before_any_download(server: FakeHub) -> None:
    for name in ("model.safetensors", "original/model.safetensors"):
        del server.files[name]
    with pytest.raises(UnsupportedError, match=r"only model-Q4\.gguf"):
        resolve_model(NAME)
    assert server.fetched() == set()


def test_an_incomplete_repository_is_reported(server: FakeHub) -> None:
    del server.files["config.json"]
    with pytest.raises(CheckpointError, match=r"it lacks config\.json"):
        resolve_model(NAME)


def test_a_disk_that_is_too_small_is_noticed_before_the_first_byte(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub.shutil, "disk_usage", lambda path: _Free)
    with pytest.raises(CheckpointError, match=r"only 0\.0 GB are free"):
        resolve_model(NAME)
    assert server.fetched() == set()


class _Free:
    free = 10


# When nobody answers.


def test_a_refused_connection_fails_at_once_with_the_ways_round() -> None:
    start = time.monotonic()
    with pytest.raises(ModelNotFoundError) as caught:
        resolve_model("Qwen/Qwen3.5-0.8B")
    assert time.monotonic() - start < 5
    for words in ("Qwen/Qwen3.5-0.8B", "127.0.0.1:9", "copied model folder", "HF_ENDPOINT", "qanat pull"):
        assert words in str(caught.value)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_silent_hub_is_given_up(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point_to(monkeypatch, silent)
    monkeypatch.setattr(hub, "REPLY_TIMEOUT", 0.2)
    with pytest.raises(ModelNotFoundError, match="cannot be reached"):
        resolve_model(NAME)


def test_a_hub_that_obeys_no_timeout_is_given_up_too(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point_to(monkeypatch, silent)
    monkeypatch.setattr(hub, "DEADLINE", 0.3)  # before the client's own time-out, as in a hanging name lookup
    with pytest.raises(ModelNotFoundError, match=r"silent for 0\.3 seconds"):
        resolve_model(NAME)


@pytest.mark.proof
def test_with_the_real_settings_a_silent_hub_is_given_up_within_ten_seconds(
    silent: str, tmp_path: Path
) -> None:
    code = "from qanat.checkpoint import resolve_model; resolve_model('org/model')"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    environment |= {"HF_ENDPOINT": silent, "HF_HOME": str(tmp_path), "HOME": str(tmp_path)}
    start = time.monotonic()
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert time.monotonic() - start < 10
    assert "ModelNotFoundError" in run.stderr
    assert silent in run.stderr


def test_the_environment_names_the_endpoint_and_the_cache(server: FakeHub, tmp_path: Path) -> None:
    code = f"from qanat.checkpoint import resolve_model; print(resolve_model({NAME!r}))"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    environment |= {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(tmp_path / "home" / "hub" / "models--org--tiny" / "snapshots" / COMMIT)


# The cache.


def test_cached_models_are_listed_and_removed(server: FakeHub, cache: Path) -> None:
    assert cached_models() == []
    folder = resolve_model(NAME)
    (model,) = cached_models()
    assert (model.name, model.path, model.commit, model.complete) == (NAME, folder, COMMIT, True)
    assert model.revisions == ("main",)
    assert model.nbytes == sum((folder / name).stat().st_size for name in WANTED)
    assert remove_cached(NAME) == model.nbytes + len(COMMIT)  # the noted commit, too
    assert cached_models() == []
    assert not folder.exists()


def test_only_models_that_qanat_can_run_are_listed(server: FakeHub) -> None:
    server.files["config.json"] = b'{"model_type": "llama"}'
    resolve_model(NAME)
    assert cached_models() == []


def test_nothing_but_a_cached_download_can_be_removed(server: FakeHub, tmp_path: Path) -> None:
    resolve_model(NAME)
    with pytest.raises(UnsupportedError, match="part of qanat"):
        remove_cached("pocket")
    for name in ("org/none", str(tmp_path), "../hub"):
        with pytest.raises(ModelNotFoundError, match=r"is not in the cache.*org/tiny"):
            remove_cached(name)
    assert len(cached_models()) == 1
