"""The sizes that one layer's mixer needs, derived from the configuration once."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AttentionShape", "DeltaShape"]


@dataclass(frozen=True)
class DeltaShape:
    """A linear-attention (Gated DeltaNet) layer."""

    key_heads: int  # Hk
    value_heads: int  # Hv, a multiple of Hk; value head j reads key head j // (Hv // Hk)
    key_dim: int  # dk
    value_dim: int  # dv
    conv_kernel: int  # Kc
    eps: float  # of the gated norm

    @property
    def kd(self) -> int:
        """All query (or key) columns: Hk * dk."""
        return self.key_heads * self.key_dim

    @property
    def vd(self) -> int:
        """All value columns: Hv * dv."""
        return self.value_heads * self.value_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the short convolution: q, then k, then v."""
        return 2 * self.kd + self.vd


@dataclass(frozen=True)
class AttentionShape:
    """A full-attention layer."""

    heads: int  # nh
    kv_heads: int  # nkv; query head n reads kv head n // (nh // nkv)
    head_dim: int
    rotary_dim: int  # the first `rotary_dim` dims are rotated
    rope_theta: float
    mrope_section: tuple[int, int, int]  # frequencies owned by (time, height, width)
    eps: float  # of q_norm and k_norm
