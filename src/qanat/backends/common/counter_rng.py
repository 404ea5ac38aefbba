"""A counter-based random generator: the n-th draw is a function of its number, not of the draws before it.

That is what makes a reply independent of its neighbours in the batch, of chunking, and of drafts that
were thrown away: nothing has to be advanced, saved or rolled back. The generator is Philox4x32-10
(Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
"""

from __future__ import annotations

__all__ = ["philox4x32", "uniform"]

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1, as 32-bit fractions
_ROUNDS = 10


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Scramble a 128-bit counter under a 64-bit key into four 32-bit words, all as unsigned integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        low, high = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (high >> 32) ^ c1 ^ k0, high & _WORD, (low >> 32) ^ c3 ^ k1, low & _WORD
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return c0, c1, c2, c3


def uniform(seed: int, choice_index: int, output_index: int) -> float:
    """The float64 draw in [0, 1) that decides token `output_index` of choice `choice_index`.

    The key is the seed modulo 2**64; the counter is (output_index, choice_index), each modulo 2**64, low
    word first. The result takes 53 bits: all of word 0, then the upper 21 bits of word 1.
    """
    counter = (
        output_index & _WORD,
        (output_index >> 32) & _WORD,
        choice_index & _WORD,
        (choice_index >> 32) & _WORD,
    )
    first, second, _, _ = philox4x32(counter, (seed & _WORD, (seed >> 32) & _WORD))
    return ((first << 21) | (second >> 11)) * 2.0**-53
