"""The vision tower's configuration (docs/model.md, sections 1 and 7).

Read and validated so that the tower's tensors can be checked and counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qanat.checkpoint import sizes
from qanat.checkpoint.fields import Fields
from qanat.errors import UnsupportedError

__all__ = ["VisionConfig"]


@dataclass(frozen=True)
class VisionConfig:
    """The tower that turns patches of an image into rows of the text model's width."""

    depth: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    in_channels: int
    patch_size: int  # pixels
    temporal_patch_size: int  # frames
    spatial_merge_size: int  # patches merged per axis
    num_position_embeddings: int  # a square table of learned positions
    out_hidden_size: int  # the text model's hidden_size

    @classmethod
    def from_dict(
        cls, d: Mapping[str, Any], *, text_hidden: int, where: str = "vision_config"
    ) -> VisionConfig:
        """Read `vision_config`.

        Args:
            d: the object in config.json.
            text_hidden: the text model's hidden_size, which the merger must produce.
            where: how messages call this object.

        Raises:
            ConfigError: a field is of the wrong type, out of bounds, or contradicts another.
            UnsupportedError: DeepStack, or an activation other than the published one.
        """
        fields = Fields(d, where)
        fields.only("hidden_act", ("gelu_pytorch_tanh",), "it is the activation of every Qwen3.5 tower")
        if fields.sequence("deepstack_visual_indexes"):
            raise UnsupportedError(f"{where}: deepstack_visual_indexes is not empty; Qwen3.5 has none")
        hidden = fields.integer("hidden_size", 1152, high=1 << 16)
        heads = fields.integer("num_heads", 16, high=1024)
        if hidden % heads or (hidden // heads) % 4:
            raise fields.fail("num_heads", f"a divisor of hidden_size {hidden} that leaves a multiple of 4")
        positions = fields.integer("num_position_embeddings", 2304, high=1 << 20)
        if math.isqrt(positions) ** 2 != positions:
            raise fields.fail("num_position_embeddings", "a square number")
        out = fields.integer("out_hidden_size", text_hidden, high=1 << 20)
        if out != text_hidden:
            raise fields.fail("out_hidden_size", f"the text model's hidden_size {text_hidden}")
        return cls(
            depth=fields.integer("depth", 27, high=1024),
            hidden_size=hidden,
            intermediate_size=fields.integer("intermediate_size", 4304, high=1 << 20),
            num_heads=heads,
            in_channels=fields.integer("in_channels", 3, high=16),
            patch_size=fields.integer("patch_size", 16, high=256),
            temporal_patch_size=fields.integer("temporal_patch_size", 2, high=64),
            spatial_merge_size=fields.integer("spatial_merge_size", 2, high=16),
            num_position_embeddings=positions,
            out_hidden_size=out,
        )

    @property
    def head_dim(self) -> int:
        """Columns of one head."""
        return self.hidden_size // self.num_heads

    @property
    def num_parameters(self) -> int:
        """Numbers in the tower and its merger."""
        return sizes.vision_parameters(self)
