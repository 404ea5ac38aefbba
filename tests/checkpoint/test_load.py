"""Loading: every tensor is found under its published name, and nothing that differs goes unnoticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from qanat.checkpoint import load_checkpoint
from qanat.checkpoint.safetensors import SafetensorsFile, write_safetensors
from qanat.errors import CheckpointError, UnsupportedError
from tools.tiny_models import random_checkpoint

SMALL = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"], "vocab_size": 32}
TEXT = "model.language_model."


def tensors_of(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    file = SafetensorsFile(folder / "model.safetensors")
    return {name: file.array(name).copy() for name in file}


def rewrite(folder: Path, change: dict[str, Any]) -> Path:
    """Add, replace or (with None) remove tensors of a checkpoint in one file."""
    tensors = {**tensors_of(folder), **change}
    write_safetensors(folder / "model.safetensors", {n: t for n, t in tensors.items() if t is not None})
    return folder


def rename(folder: Path, renaming: dict[str, str]) -> Path:
    tensors = tensors_of(folder)
    renamed = {}
    for name, array in tensors.items():
        prefix = next((p for p in renaming if name.startswith(p)), None)
        renamed[name if prefix is None else renaming[prefix] + name[len(prefix) :]] = array
    write_safetensors(folder / "model.safetensors", renamed)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return random_checkpoint(tmp_path / "model", SMALL)


@pytest.mark.parametrize("moe", [False, True])
@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_a_checkpoint_loads_without_reading_and_gives_read_only_views(
    moe: bool, dtype: str, tmp_path: Path
) -> None:
    folder = random_checkpoint(tmp_path, {**SMALL, "mtp_num_hidden_layers": 1}, moe=moe, dtype=dtype)
    checkpoint = load_checkpoint(folder)
    assert checkpoint.has_mtp
    assert not checkpoint.has_vision
    assert checkpoint.total_bytes == sum(a.nbytes for a in tensors_of(folder).values())
    for name, view in checkpoint.tensors.items():
        assert view.name == name
        array = view.array()
        assert (array.shape, array.dtype, array.nbytes) == (view.shape, view.dtype, view.nbytes)
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert view.file == folder / "model.safetensors"
    kinds = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16}
    assert checkpoint.tensors[TEXT + "embed_tokens.weight"].dtype == kinds[dtype]
    assert checkpoint.tensors[TEXT + "layers.0.linear_attn.A_log"].dtype == np.float32


ALIASES = [
    {TEXT: "model."},
    {TEXT: "language_model.model.", "lm_head.": "language_model.lm_head.", "mtp.": "language_model.mtp."},
    {"mtp.": "model.mtp."},
]


@pytest.mark.parametrize("renaming", ALIASES)
def test_other_writers_names_are_brought_back_to_the_published_ones(
    renaming: dict[str, str], tmp_path: Path
) -> None:
    folder = random_checkpoint(tmp_path, {**SMALL, "mtp_num_hidden_layers": 1})
    original = {name: view.array().copy() for name, view in load_checkpoint(folder).tensors.items()}
    checkpoint = load_checkpoint(rename(folder, renaming))
    assert set(checkpoint.tensors) == set(original)
    assert all(np.array_equal(checkpoint.tensors[n].array(), a) for n, a in original.items())


def test_the_vision_tower_is_found_under_its_short_name_too(tmp_path: Path) -> None:
    from tools.make_checkpoint import plan_checkpoint, write_checkpoint

    write_checkpoint(plan_checkpoint("tiny"), tmp_path, quiet=True)
    before = load_checkpoint(tmp_path)
    assert before.has_vision
    after = load_checkpoint(rename(tmp_path, {"model.visual.": "visual."}))
    assert set(after.tensors) == set(before.tensors)


def test_two_names_of_one_tensor_are_refused(folder: Path) -> None:
    rewrite(folder, {"model.norm.weight": np.zeros(64, np.float32)})
    with pytest.raises(CheckpointError, match="two names of one tensor"):
        load_checkpoint(folder)


def test_experts_stored_one_by_one_look_like_the_stacked_ones(tmp_path: Path) -> None:
    options = {**SMALL, "mtp_num_hidden_layers": 1}
    folder = random_checkpoint(tmp_path, options, moe=True, dtype="BF16", expert_layout="per_expert")
    checkpoint = load_checkpoint(folder)
    stored = tensors_of(folder)
    for block in (
        f"{TEXT}layers.0.mlp.experts.",
        f"{TEXT}layers.1.mlp.experts.",
        "mtp.layers.0.mlp.experts.",
    ):
        gate_up, down = checkpoint.tensors[block + "gate_up_proj"], checkpoint.tensors[block + "down_proj"]
        assert gate_up.shape == (8, 64, 64)
        assert down.shape == (8, 64, 32)
        for e in range(8):
            assert np.array_equal(gate_up.array()[e, :32], stored[f"{block}{e}.gate_proj.weight"])
            assert np.array_equal(gate_up.array()[e, 32:], stored[f"{block}{e}.up_proj.weight"])
            assert np.array_equal(down.array()[e], stored[f"{block}{e}.down_proj.weight"])
        assert gate_up.array().dtype == gate_up.dtype == ml_dtypes.bfloat16
        assert not gate_up.array().flags.writeable
    assert checkpoint.total_bytes == sum(a.nbytes for a in stored.values())
    # and a draft layer in one layout may stand beside a trunk in the other
    stacked = {
        f"mtp.layers.0.mlp.experts.{k}": checkpoint.tensors[f"mtp.layers.0.mlp.experts.{k}"].array()
        for k in ("gate_up_proj", "down_proj")
    }
    gone = {name: None for name in stored if name.startswith("mtp.layers.0.mlp.experts.")}
    mixed = load_checkpoint(rewrite(folder, {**gone, **stacked}))
    assert set(mixed.tensors) == set(checkpoint.tensors)


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    folder = random_checkpoint(tmp_path, SMALL, moe=True, expert_layout="per_expert")
    rewrite(folder, {f"{TEXT}layers.1.mlp.experts.7.up_proj.weight": None})
    with pytest.raises(CheckpointError, match=r"1 of \d+ tensors are missing.*experts\.7\.up_proj"):
        load_checkpoint(folder)


def test_missing_tensors_are_listed_and_counted(folder: Path) -> None:
    gone = {name: None for name in tensors_of(folder) if ".layers.1." in name}
    rewrite(folder, gone)
    with pytest.raises(
        CheckpointError, match=rf"{len(gone)} of \d+ tensors are missing: .*\({len(gone)} in all\)"
    ):
        load_checkpoint(folder)


def test_unknown_tensors_are_refused_but_rotary_tables_are_set_aside(folder: Path) -> None:
    rewrite(folder, {"model.language_model.rotary_emb.inv_freq": np.ones(4, np.float32)})
    assert load_checkpoint(folder).ignored == ("model.language_model.rotary_emb.inv_freq",)
    rewrite(folder, {"model.surprise": np.ones(1, np.float32)})
    with pytest.raises(CheckpointError, match=r"1 tensors are not part of .*'model\.surprise'"):
        load_checkpoint(folder)


def test_a_wrong_shape_is_refused_with_both_shapes(folder: Path) -> None:
    rewrite(folder, {TEXT + "norm.weight": np.zeros(63, np.float32)})
    with pytest.raises(CheckpointError, match=r"shape \[63\].*demands \[64\]"):
        load_checkpoint(folder)


def test_a_file_converted_for_mlx_is_recognised_by_its_convolution(folder: Path) -> None:
    name = TEXT + "layers.0.linear_attn.conv1d.weight"
    rewrite(folder, {name: np.ascontiguousarray(tensors_of(folder)[name].transpose(0, 2, 1))})
    with pytest.raises(CheckpointError, match="MLX"):
        load_checkpoint(folder)


def test_a_wrong_type_is_refused(folder: Path) -> None:
    rewrite(folder, {TEXT + "norm.weight": np.zeros(64, np.int64)})
    with pytest.raises(CheckpointError, match=r"I64; expected BF16, F16, F32"):
        load_checkpoint(folder)


def test_quantised_tensors_are_refused_by_name_even_if_the_config_is_silent(folder: Path) -> None:
    rewrite(folder, {TEXT + "layers.0.mlp.up_proj.weight_scale_inv": np.ones((1, 1), np.float32)})
    with pytest.raises(UnsupportedError, match="quantised"):
        load_checkpoint(folder)
    rewrite(
        folder,
        {
            TEXT + "layers.0.mlp.up_proj.weight_scale_inv": None,
            TEXT + "norm.weight": np.zeros(64, ml_dtypes.float8_e4m3fn),
        },
    )
    with pytest.raises(UnsupportedError, match="quantised"):
        load_checkpoint(folder)


def test_a_tied_head_may_be_absent_or_a_copy_which_is_set_aside(tmp_path: Path) -> None:
    folder = random_checkpoint(tmp_path, {**SMALL, "tie_word_embeddings": True})
    assert "lm_head.weight" not in load_checkpoint(folder).tensors
    rewrite(folder, {"lm_head.weight": np.zeros((32, 64), np.float32)})
    checkpoint = load_checkpoint(folder)
    assert "lm_head.weight" not in checkpoint.tensors
    assert checkpoint.ignored == ("lm_head.weight",)


def test_an_untied_head_must_be_there(folder: Path) -> None:
    rewrite(folder, {"lm_head.weight": None})
    with pytest.raises(CheckpointError, match="tie_word_embeddings should be true"):
        load_checkpoint(folder)
    rewrite(folder, {TEXT + "embed_tokens.weight": None})
    with pytest.raises(CheckpointError, match="nor is the embedding"):
        load_checkpoint(folder)


def test_the_draft_layer_may_be_absent_as_a_whole_but_not_in_part(tmp_path: Path) -> None:
    folder = random_checkpoint(tmp_path, {**SMALL, "mtp_num_hidden_layers": 1})
    rewrite(folder, {"mtp.fc.weight": None})
    with pytest.raises(CheckpointError, match=r"mtp\.fc\.weight"):
        load_checkpoint(folder)
    rewrite(folder, {name: None for name in tensors_of(folder) if name.startswith("mtp.")})
    assert not load_checkpoint(folder).has_mtp


def test_a_draft_layer_that_the_config_does_not_announce_is_refused(folder: Path) -> None:
    rewrite(folder, {"mtp.norm.weight": np.zeros(64, np.float32)})
    with pytest.raises(CheckpointError, match="not part of"):
        load_checkpoint(folder)


def test_a_config_that_promises_millions_of_experts_is_refused_at_once(tmp_path: Path) -> None:
    layers = {"num_hidden_layers": 40, "layer_types": None}
    folder = random_checkpoint(tmp_path, {**SMALL, **layers}, moe=True, expert_layout="per_expert")
    config = json.loads((folder / "config.json").read_text())
    config["num_experts"] = 4096
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="promises 4096 experts"):
        load_checkpoint(folder)


# The places that name a stop token.


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


def test_stop_ids_are_the_union_of_all_places(folder: Path) -> None:
    assert load_checkpoint(folder).stop_ids == {0}
    write_json(folder / "generation_config.json", {"eos_token_id": [1, 2, 999_999]})
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**config, "eos_token_id": 3})
    decoder = {"4": {"content": "<|im_end|>"}, "5": {"content": "<|endoftext|>"}, "6": {"content": "<think>"}}
    write_json(folder / "tokenizer_config.json", {"eos_token": "<|im_end|>", "added_tokens_decoder": decoder})
    checkpoint = load_checkpoint(folder)
    assert checkpoint.stop_ids == {1, 2, 3, 4, 5}
    assert checkpoint.generation_config == {"eos_token_id": [1, 2, 999_999]}
    write_json(folder / "tokenizer_config.json", {"eos_token": {"content": "<stop>"}})
    added = [{"id": 7, "content": "<stop>"}, {"id": 8, "content": "<|endoftext|>"}, {"id": 9, "content": "x"}]
    write_json(folder / "tokenizer.json", {"added_tokens": added})
    assert load_checkpoint(folder).stop_ids == {1, 2, 3, 7, 8}


def test_a_generation_config_that_cannot_be_read_is_not_overlooked(folder: Path) -> None:
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "generation_config.json").symlink_to("nowhere")
    with pytest.raises(CheckpointError, match=r"generation_config\.json"):
        load_checkpoint(folder)


def test_a_damaged_generation_config_is_a_typed_error(folder: Path) -> None:
    write_json(folder / "generation_config.json", {"eos_token_id": "end"})
    with pytest.raises(CheckpointError, match="eos_token_id"):
        load_checkpoint(folder)
    (folder / "generation_config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="expected an object"):
        load_checkpoint(folder)


def test_the_published_vocabulary_stops_at_both_end_tokens_without_any_file(tmp_path: Path) -> None:
    tiny = {
        "vocab_size": 248320,
        "hidden_size": 4,
        "eos_token_id": 248044,
        "num_hidden_layers": 1,
        "layer_types": None,
    }
    folder = random_checkpoint(tmp_path, tiny, dtype="BF16")
    assert load_checkpoint(folder).stop_ids == {248044, 248046}
