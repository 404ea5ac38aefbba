"""The writer streams, aligns every tensor, and leaves a whole file or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qanat.checkpoint.safetensors import SafetensorsFile, TensorPlan, write_planned, write_safetensors
from qanat.checkpoint.safetensors_write import planned_size


def test_the_planned_size_is_the_size_of_the_file(tmp_path: Path) -> None:
    plans = [TensorPlan("a", "BF16", (3, 5)), TensorPlan("b", "F32", (7,)), TensorPlan("c", "U8", ())]
    size = write_planned(
        tmp_path / "x", plans, lambda plan: [np.zeros(plan.nbytes, np.uint8)], {"format": "pt"}
    )
    assert size == planned_size(plans, {"format": "pt"}) == (tmp_path / "x").stat().st_size
    assert set(SafetensorsFile(tmp_path / "x")) == {"a", "b", "c"}


def test_pieces_are_written_as_they_come(tmp_path: Path) -> None:
    def pieces(plan: TensorPlan) -> Iterator[np.ndarray[Any, Any]]:
        for i in range(4):
            yield np.full(2, i, np.float32)

    write_planned(tmp_path / "x", [TensorPlan("a", "F32", (2, 4))], pieces)
    assert SafetensorsFile(tmp_path / "x").array("a").tolist() == [[0, 0, 1, 1], [2, 2, 3, 3]]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_safetensors(path, {"old": np.ones(3)})
    with pytest.raises(ValueError, match="planned"):
        write_planned(path, [TensorPlan("new", "F32", (9,))], lambda plan: [np.zeros(8, np.float32)])
    assert list(SafetensorsFile(path)) == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_transposed_array_is_written_in_row_major_order(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    write_safetensors(tmp_path / "x", {"a": array})
    assert SafetensorsFile(tmp_path / "x").array("a").tolist() == array.tolist()
