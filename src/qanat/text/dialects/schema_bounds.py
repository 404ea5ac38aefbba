"""What a JSON schema may ask of a grammar: nothing that is kept only nearly, or costs too much to keep."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

from qanat.errors import GrammarError

__all__ = ["check_bounds"]

EXACT = 2**53
"""Beyond this whole numbers are not exact as floating-point numbers, which the grammars are made with."""
MOST_MULTIPLES = 100_000
"""Of all `multipleOf`, their sum and least common multiple: a grammar has a state for each remainder."""
MOST_COMBINED = 2
LONGEST = 4096
"""Characters of one string. What leaves no choice is encoded again at every token of it."""
_REMARKS = frozenset({"title", "description", "$comment"})


def check_bounds(schema: Any) -> None:
    """Look at every value of a schema.

    Raises:
        GrammarError: a whole number beyond 2^53, a `multipleOf` that is too large, a string that is too long,
            or an instruction to the library that makes the grammar.
    """
    total, common, patterns, combined = 0, 1, 0, False
    pending = [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for name, value in item.items():
                if name in _REMARKS and isinstance(value, str):
                    continue
                pending += [name, value]
                if name == "x-guidance":
                    raise GrammarError("the schema has the key 'x-guidance', which is none of JSON schema")
                patterns += name in ("pattern", "format") and isinstance(value, str)
                combined |= name == "allOf" and isinstance(value, list) and len(value) > 1
                if name == "multipleOf" and isinstance(value, int | float):
                    multiple = _significant(value)
                    total, common = total + multiple, math.lcm(common, multiple)
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str) and len(item) > LONGEST:
            raise GrammarError(f"the schema has a string of {len(item)} characters; {LONGEST} are the most")
        elif isinstance(item, int | float) and item == item // 1 and abs(item) > EXACT:
            raise GrammarError(
                f"the schema has {_shown(int(item))}: beyond 2^53 no number can be kept exactly"
            )
        if combined and patterns > MOST_COMBINED:
            raise GrammarError(
                f"a schema with `allOf` may have {MOST_COMBINED} patterns and formats at most: what several "
                "allow together grows beyond all bounds"
            )
        if max(total, common) > MOST_MULTIPLES:
            raise GrammarError(
                f"`multipleOf` is too large: all of them together, and their least common multiple, may be "
                f"{MOST_MULTIPLES} at most"
            )


def _significant(value: float) -> int:
    """The digits of a number as a whole number, at least 1: 0.05 has 5."""
    number = Decimal(str(float(value)))
    if not number.is_finite():
        return 1
    if number == number.to_integral_value():
        return max(1, abs(int(min(number, Decimal(10**9)))))
    return max(1, int("".join(map(str, number.normalize().as_tuple().digits))))


def _shown(value: int) -> str:
    return json.dumps(value) if value.bit_length() < 200 else f"a number of {value.bit_length()} bits"
