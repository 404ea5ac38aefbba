"""The delta rule on blocks of columns of the recurrent matrix, and the gated norm of what it reads.

Per token, with S as the token before left it, d the decay and c the correction of each column:

    p = k^T S      r = q^T S      c = beta (v - d p)      o = d r + (q k) c      S' = d S + k c

Both sums over rows of S ascend from zero by fused multiply-adds; S' takes one rounded product and one fused
multiply-add. So a token reads S once (two sums) and updates it once, and the two passes are always joined
with another's: in a prompt the update by a token with the sums of the next, on a block that stays in the
first-level cache; in decoding the update of a block with the sums of the block behind it, which memory
delivers meanwhile. Either way sixteen multiplications hide the latency of eight sums.
"""

from __future__ import annotations

from qanat.backends.cpu.kernels.delta_prepare import BLOCK, PIECE, round_up, row_size
from qanat.backends.cpu.kernels.jit import inlined, inner
from qanat.backends.cpu.kernels.norm import root_factor
from qanat.backends.cpu.simd import fma, load_f32, prefetch, splat_f32, store_f32, zero_f32
from qanat.backends.cpu.simd.functions import silu
from qanat.backends.cpu.simd.tails import load_first, splat_at, store_first

__all__ = ["gated_norm", "recur", "recur_one"]


@inlined
def _read(before, start, y, q, k, dk):
    """p and r of a block [dk, BLOCK], in halves of sixteen columns: p0, p1, r0, r1."""
    p0, p1, r0, r1 = zero_f32(), zero_f32(), zero_f32(), zero_f32()
    for i in range(dk):
        s0, s1 = load_f32(before, start), load_f32(before, start + 16)
        kt, qt = splat_at(y, k + i), splat_at(y, q + i)
        p0, p1, r0, r1 = fma(kt, s0, p0), fma(kt, s1, p1), fma(qt, s0, r0), fma(qt, s1, r1)
        start += BLOCK
    return p0, p1, r0, r1


@inlined
def _correct(y, v, gates, product, p0, p1, r0, r1):
    """The corrections of a block's columns; its o replaces v."""
    keep, beta, qk = splat_at(y, gates), splat_at(y, gates + PIECE), splat_at(y, product)
    c0, c1 = beta * (load_f32(y, v) - keep * p0), beta * (load_f32(y, v + 16) - keep * p1)
    store_f32(y, v, keep * r0 + qk * c0)
    store_f32(y, v + 16, keep * r1 + qk * c1)
    return c0, c1


@inlined
def _update(before, start, after, to, y, k, keep, c0, c1, dk):
    """S' of a block. Asks for the block behind it, of what most often comes next."""
    for i in range(dk):
        kt = splat_at(y, k + i)
        prefetch(before, start + dk * BLOCK)
        prefetch(before, start + dk * BLOCK + 16)
        store_f32(after, to, fma(kt, c0, load_f32(before, start) * keep))
        store_f32(after, to + 16, fma(kt, c1, load_f32(before, start + 16) * keep))
        start += BLOCK
        to += BLOCK


@inner
def recur(y, q, v, step, gates, products, tokens, before, start, after, to, dk):
    """A block of columns over all tokens of a piece.

    Args:
        y: a prepared piece; its first q is at `q` (k behind it), the block's first v at `v`, rows `step`
            apart; the decays at `gates`, the betas PIECE behind, the products q k at `products`.
        before, start: the block [dk, BLOCK] to begin with. after, to: where it is left; it may be the same.
    """
    k = q + round_up(dk, 16)
    p0, p1, r0, r1 = _read(before, start, y, q, k, dk)
    c0, c1 = _correct(y, v, gates, products, p0, p1, r0, r1)
    if tokens == 1:
        _update(before, start, after, to, y, k, splat_at(y, gates), c0, c1, dk)
        return
    c0, c1 = _update_and_read(before, start, after, to, y, k, v, step, gates, products, c0, c1, dk)
    for t in range(1, tokens - 1):
        k, v = k + step, v + step
        c0, c1 = _update_and_read(after, to, after, to, y, k, v, step, gates + t, products + t, c0, c1, dk)
    _update(after, to, after, to, y, k + step, splat_at(y, gates + tokens - 1), c0, c1, dk)


@inner
def _update_and_read(before, start, after, to, y, k, v, step, gates, product, c0, c1, dk):
    """The update by a token with corrections c0 and c1, the sums of the next: its corrections."""
    keep, next_k, next_q = splat_at(y, gates), k + step, k + step - round_up(dk, 16)
    p0, p1, r0, r1 = zero_f32(), zero_f32(), zero_f32(), zero_f32()
    for i in range(dk):
        kt, kn, qn = splat_at(y, k + i), splat_at(y, next_k + i), splat_at(y, next_q + i)
        s0 = fma(kt, c0, load_f32(before, start) * keep)
        s1 = fma(kt, c1, load_f32(before, start + 16) * keep)
        p0, p1, r0, r1 = fma(kn, s0, p0), fma(kn, s1, p1), fma(qn, s0, r0), fma(qn, s1, r1)
        store_f32(after, to, s0)
        store_f32(after, to + 16, s1)
        start += BLOCK
        to += BLOCK
    return _correct(y, v + step, gates + 1, product + 1, p0, p1, r0, r1)


@inner
def recur_one(sizes, y, q, before, start, after, to):
    """One token for all value heads of a key head, whose blocks follow each other in memory."""
    dk, dv, groups = sizes[2], sizes[3], sizes[1] // sizes[0]
    k = q + round_up(dk, 16)
    v = k + round_up(dk, 16)
    gates = q + PIECE * row_size(dk, dv, groups)
    product = gates + 2 * groups * PIECE
    blocks = (dv + BLOCK - 1) // BLOCK
    p0, p1, r0, r1 = _read(before, start, y, q, k, dk)
    for block in range(groups * blocks - 1):
        gate = gates + block // blocks * 2 * PIECE
        c0, c1 = _correct(y, v, gate, product, p0, p1, r0, r1)
        keep = splat_at(y, gate)
        p0, p1, r0, r1 = zero_f32(), zero_f32(), zero_f32(), zero_f32()
        for i in range(dk):
            kt, qt = splat_at(y, k + i), splat_at(y, q + i)
            n0, n1 = load_f32(before, start + dk * BLOCK), load_f32(before, start + dk * BLOCK + 16)
            p0, p1, r0, r1 = fma(kt, n0, p0), fma(kt, n1, p1), fma(qt, n0, r0), fma(qt, n1, r1)
            store_f32(after, to, fma(kt, c0, load_f32(before, start) * keep))
            store_f32(after, to + 16, fma(kt, c1, load_f32(before, start + 16) * keep))
            start += BLOCK
            to += BLOCK
        v += BLOCK
    gate = gates + (groups - 1) * 2 * PIECE
    c0, c1 = _correct(y, v, gate, product, p0, p1, r0, r1)
    _update(before, start, after, to, y, k, splat_at(y, gate), c0, c1, dk)


@inner
def gated_norm(joint, sizes, constants, norm, eps, y, at, step, out, first, stop, head):
    """o / sqrt(mean(o^2) + eps) * norm * silu(z) of one head, rows first .. stop-1, which begins at `at`."""
    heads, dv = sizes[1], sizes[3]
    whole = dv - dv % 16
    rest = dv - whole
    for row in range(first, stop):
        to, z = (row * heads + head) * dv, row * sizes[5] + sizes[7] + head * dv
        factor = splat_f32(root_factor(y, at, dv, eps))
        for i in range(0, whole, 16):
            o = load_f32(y, at + i) * factor * load_f32(constants, norm + i)
            store_f32(out, to + i, o * silu(load_f32(joint, z + i)))
        if rest > 0:
            o = load_first(y, at + whole, rest) * factor * load_first(constants, norm + whole, rest)
            store_first(out, to + whole, o * silu(load_first(joint, z + whole, rest)), rest)
        at += step
