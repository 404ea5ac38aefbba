"""Opening a checkpoint: config parsed, every tensor found, named and held against the table; nothing read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from qanat.checkpoint.config import ModelConfig
from qanat.checkpoint.fingerprint import fingerprint
from qanat.checkpoint.index import open_weights
from qanat.checkpoint.match import match_tensors
from qanat.checkpoint.names import MTP, VISION
from qanat.checkpoint.resolve import resolve_model
from qanat.checkpoint.stop_ids import stop_ids
from qanat.checkpoint.strict_json import read_json_file
from qanat.checkpoint.tensor_view import TensorView
from qanat.errors import CheckpointError

__all__ = ["Checkpoint", "load_checkpoint"]


@dataclass(frozen=True)
class Checkpoint:
    """A model folder, opened and checked."""

    path: Path
    name: str  # as the caller named it, for messages and listings
    config: ModelConfig
    tensors: Mapping[str, TensorView] = field(repr=False)  # by published name; experts always stacked
    ignored: tuple[str, ...]  # tensors left aside, by stored name: derived tables, and a tied head's copy
    generation_config: dict[str, Any]  # {} when there is none
    stop_ids: frozenset[int]

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors in `tensors`."""
        return sum(view.nbytes for view in self.tensors.values())

    @property
    def stored_in_bfloat16(self) -> bool:
        """Whether every matrix of the text model is bfloat16, so that rounding to it changes none."""
        return all(
            view.dtype.name == "bfloat16"
            for name, view in self.tensors.items()
            if len(view.shape) == 2 and not name.startswith(VISION)
        )

    @cached_property
    def fingerprint(self) -> str:
        """A digest that changes when a weight file does; see `qanat.checkpoint.fingerprint`."""
        return fingerprint(self.tensors.values())

    @property
    def has_mtp(self) -> bool:
        """Whether the draft layer's tensors are there."""
        return any(name.startswith(MTP) for name in self.tensors)

    @property
    def has_vision(self) -> bool:
        """Whether the vision tower's tensors are there."""
        return any(name.startswith(VISION) for name in self.tensors)


def load_checkpoint(
    model: str | Path, *, revision: str | None = None, offline: bool | None = None
) -> Checkpoint:
    """Open a model: find its folder (downloading it if need be), parse its config, check every tensor.

    Args:
        model: a folder, `"pocket"` for the built-in model, or a hub id; see `resolve_model`.
        revision: branch, tag or commit of a hub id.
        offline: use only what is on disk; None asks the environment (HF_HUB_OFFLINE).

    Raises:
        ModelNotFoundError: there is no such model, or it cannot be reached.
        ConfigError: config.json is damaged or contradictory.
        SafetensorsError: a weight file breaks the format.
        CheckpointError: a file or tensor is missing, unexpected, or of the wrong shape or type.
        UnsupportedError: another architecture, a quantised checkpoint, or a setting qanat does not implement.
    """
    folder = resolve_model(model, revision=revision, offline=offline)
    config = ModelConfig.from_file(folder / "config.json")
    tensors, ignored = match_tensors(config, open_weights(folder), folder)
    file = folder / "generation_config.json"
    generation = read_json_file(file, CheckpointError) if os.path.lexists(file) else {}
    return Checkpoint(
        path=folder,
        name=str(model),
        config=config,
        tensors=tensors,
        ignored=ignored,
        generation_config=generation,
        stop_ids=stop_ids(folder, config, generation),
    )
