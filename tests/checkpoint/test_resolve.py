"""What a user calls a model: the built-in one, a folder, a hub id, or a mistake with a clear answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from assets import POCKET, ROOT
from qanat.checkpoint import BUILT_IN, load_checkpoint, resolve_model
from qanat.errors import CheckpointError, ModelNotFoundError, UnsupportedError


def test_pocket_is_the_built_in_model_and_dot_pocket_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pocket").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_model(BUILT_IN) == POCKET
    assert resolve_model("./pocket").resolve() == tmp_path / "pocket"
    assert resolve_model(Path("pocket")).resolve() == tmp_path / "pocket"


def test_the_built_in_model_loads() -> None:
    checkpoint = load_checkpoint("pocket")
    assert checkpoint.name == "pocket"
    assert len(checkpoint.stop_ids) == 2


def test_a_folder_goes_before_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert resolve_model("org/model") == Path("org/model")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_model("~/org") == tmp_path / "org"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "\0",
        "./none",
        "/none/at/all",
        "a/b/c",
        "../x",
        "http://example.org/x",
        "org/--x",
        "x" * 5000,
        "~nobody_of_that_name/x",
        "a b",
        "модель",
        "org/na\nme",
        "C:\\models\\x",
    ],
)
def test_a_mistake_is_a_typed_error_at_once(name: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        resolve_model(name)
    assert str(caught.value).isprintable()


def test_what_is_neither_text_nor_path_names_no_model() -> None:
    for model, revision in ((None, None), (5, None), (b"pocket", None), (["pocket"], None), ("pocket", 5)):
        with pytest.raises(ModelNotFoundError, match="text or a Path"):
            resolve_model(model, revision=revision)  # type: ignore[arg-type]


def test_a_file_in_the_place_of_a_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    with pytest.raises(CheckpointError, match="is a file; give the folder"):
        resolve_model(tmp_path / "model.gguf")


def test_a_revision_is_refused_where_there_is_none(tmp_path: Path) -> None:
    for model in (BUILT_IN, str(tmp_path)):
        with pytest.raises(UnsupportedError, match="only a hub id has revisions"):
            resolve_model(model, revision="main")
    with pytest.raises(ModelNotFoundError, match="no name of a branch"):
        resolve_model("org/model", revision="../x")


def test_an_empty_folder_says_that_config_json_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: no such file"):
        load_checkpoint(tmp_path)


def test_the_hubs_client_is_imported_only_when_it_is_needed() -> None:
    code = (
        "import sys, qanat.checkpoint as c; c.load_checkpoint('pocket'); "
        "assert 'huggingface_hub' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "src")})
