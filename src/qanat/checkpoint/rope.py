"""Rotary settings: where the various writers of config.json put them, and what they must satisfy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qanat.checkpoint.fields import Fields

__all__ = ["RopeSettings", "read_rope"]

DEFAULT_THETA = 1e4  # what transformers assumes when no place names a theta; official files say 1e7
DEFAULT_FACTOR = 0.25
OFFICIAL_SECTION = (11, 11, 10)


@dataclass(frozen=True)
class RopeSettings:
    """Rotary embedding of the full-attention layers (docs/model.md, section 4)."""

    theta: float
    factor: float  # the share of head_dim that is rotated
    section: tuple[int, int, int]  # frequencies owned by (time, height, width)


def read_rope(text: Fields, head_dim: int) -> RopeSettings:
    """Read the rotary settings from `rope_parameters`, else the older `rope_scaling`, else flat keys.

    Raises:
        ConfigError: for impossible values.
        UnsupportedError: for scaled variants (YaRN and the like), and for non-interleaved MRoPE.
    """
    merged: dict[str, Any] = {}
    for name in ("rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved"):
        if text.values.get(name) is not None:
            merged[name] = text.values[name]
    for place in ("rope_scaling", "rope_parameters"):  # the later place wins
        inner = text.mapping(place) or {}
        if "type" in inner and "rope_type" not in inner:
            inner = {**inner, "rope_type": inner["type"]}
        merged.update({key: value for key, value in inner.items() if value is not None})
    rope = Fields(merged, f"{text.where}: rope_parameters")
    rope.only("rope_type", ("default", "mrope"), "no Qwen3.5 checkpoint ships a scaled rotary embedding")
    rope.only("mrope_interleaved", (True,), "Qwen3.5 interleaves the three position axes")
    theta = rope.real("rope_theta", DEFAULT_THETA, above=1.0, high=1e12)
    factor = rope.real("partial_rotary_factor", DEFAULT_FACTOR, above=0.0, high=1.0)
    rotary_dim = int(head_dim * factor)
    if rotary_dim < 2 or rotary_dim % 2:
        raise rope.fail("partial_rotary_factor", f"head_dim {head_dim} times it to be even, at least 2")
    return RopeSettings(theta, factor, _section(rope, rotary_dim // 2))


def _section(rope: Fields, frequencies: int) -> tuple[int, int, int]:
    """Read mrope_section; without it, share the frequencies out (text alone gives the same angles)."""
    section = rope.sequence("mrope_section")
    if section is None:
        if frequencies == sum(OFFICIAL_SECTION):
            return OFFICIAL_SECTION
        third = frequencies // 3
        return (frequencies - 2 * third, third, third)
    expectation = f"three non-negative integers with the sum {frequencies} (half the rotary dimensions)"
    if len(section) != 3 or any(type(s) is not int or s < 0 for s in section) or sum(section) != frequencies:
        raise rope.fail("mrope_section", expectation)
    return (section[0], section[1], section[2])
