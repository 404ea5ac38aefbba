"""Random checkpoints have the published form, sane numbers, and do not depend on how they are cut."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from assets import ROOT
from qanat.checkpoint import load_checkpoint
from qanat.checkpoint.safetensors import TensorPlan
from tools.make_checkpoint import plan_checkpoint, write_checkpoint
from tools.random_weights import BLOCK, random_blocks


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_checkpoint(plan_checkpoint("tiny"), folder, quiet=True)
    return folder


def test_a_tiny_checkpoint_has_all_parts_and_all_files(tiny: Path) -> None:
    checkpoint = load_checkpoint(tiny)
    assert checkpoint.has_mtp
    assert checkpoint.has_vision
    assert {path.name for path in tiny.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "preprocessor_config.json",
        "video_preprocessor_config.json",
    }
    assert checkpoint.stop_ids
    assert (tiny / "model.safetensors").stat().st_size == plan_checkpoint("tiny").file_bytes


def test_shards_and_index_hold_the_same_numbers_as_one_file(tiny: Path, tmp_path: Path) -> None:
    plan = plan_checkpoint("tiny", shard_bytes=300_000)
    assert len(plan.shards) > 4
    write_checkpoint(plan, tmp_path, quiet=True)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    whole, cut = load_checkpoint(tiny), load_checkpoint(tmp_path)
    assert index["metadata"]["total_size"] == whole.total_bytes == cut.total_bytes == plan.total_size
    assert set(index["weight_map"]) == set(whole.tensors) == set(cut.tensors)
    for name, view in whole.tensors.items():
        assert view.array().tobytes() == cut.tensors[name].array().tobytes()
    for file, plans in plan.shards.items():
        assert sum(p.nbytes for p in plans) <= 300_000 or len(plans) == 1
        assert {v.file.name for n, v in cut.tensors.items() if index["weight_map"][n] == file} == {file}


def test_the_seed_decides_the_numbers(tmp_path: Path) -> None:
    plan = TensorPlan("mtp.fc.weight", "BF16", (64, 128))

    def numbers(seed: int) -> bytes:
        return b"".join(block.tobytes() for block in random_blocks(plan, seed, tied=False))

    assert numbers(1) == numbers(1)
    assert numbers(1) != numbers(2)


def test_numbers_are_normal_of_the_intended_size_across_blocks() -> None:
    plan = TensorPlan("mtp.fc.weight", "BF16", (BLOCK // 512 + 3, 1024))
    blocks = list(random_blocks(plan, 0, tied=False))
    assert len(blocks) == 3
    numbers = np.concatenate(blocks).astype(np.float64)
    assert numbers.size == (BLOCK // 512 + 3) * 1024
    scaled = numbers * np.sqrt(1024) / 0.7
    assert abs(scaled.mean()) < 0.01
    assert abs(scaled.std() - 1) < 0.01
    assert abs((np.abs(scaled) < 1).mean() - 0.6827) < 0.01
    assert abs(np.corrcoef(scaled[:-1], scaled[1:])[0, 1]) < 0.01


def test_decay_and_norms_are_like_a_trained_models(tiny: Path) -> None:
    tensors = load_checkpoint(tiny).tensors
    for name, view in tensors.items():
        array = view.array().astype(np.float64)
        assert np.isfinite(array).all(), name
        if name.endswith("A_log"):
            assert (np.exp(array) >= 0.99).all()
            assert (np.exp(array) <= 16.01).all()
            assert view.dtype == np.float32
        elif name.endswith("dt_bias"):
            assert (np.log1p(np.exp(array)) < 0.11).all()
        elif name.endswith("linear_attn.norm.weight"):
            assert abs(array.mean() - 1) < 0.15
            assert view.dtype == np.float32
        elif name.endswith("layernorm.weight"):
            assert abs(array.mean()) < 0.1
            assert view.dtype == ml_dtypes.bfloat16


def test_the_command_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    for wrong in (
        ["--size", "3B"],
        ["--size", "tiny", "--shard-bytes", "0"],
        ["--size", "tiny", "--seed", "-1"],
    ):
        run = subprocess.run(
            [sys.executable, str(ROOT / "tools" / "make_checkpoint.py"), str(tmp_path / "out"), *wrong],
            capture_output=True,
            text=True,
        )
        assert run.returncode == 2
        assert not (tmp_path / "out").exists()


@pytest.mark.proof
def test_a_real_0_8b_is_written_in_bounded_memory(tmp_path: Path) -> None:
    """1.75 GB on disk; the peak of memory is that of making the tokenizer, not of the weights."""
    import resource

    folder = tmp_path / "0.8B"
    script = str(ROOT / "tools" / "make_checkpoint.py")
    subprocess.run([sys.executable, script, "--size", "0.8B", str(folder)], check=True, capture_output=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    checkpoint = load_checkpoint(folder)
    assert checkpoint.total_bytes == 1_746_882_752
    assert len(checkpoint.tensors) == 488
    assert checkpoint.stop_ids == {248044, 248046}
    assert peak < 1_000_000_000
