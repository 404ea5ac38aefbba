"""What a request may ask of the scheduler is checked field by field."""

from __future__ import annotations

import math
from typing import Any

import pytest

from qanat.engine.request_options import RequestOptions
from qanat.errors import RequestError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", 1001),
        ("priority", -1001),
        ("priority", 1.0),
        ("priority", True),
        ("priority", None),
        ("priority", 10**400),
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", math.inf),
        ("timeout", math.nan),
        ("timeout", True),
        ("timeout", "3"),
        ("progress", 1),
        ("cache_salt", None),
        ("cache_salt", b"a"),
        ("cache_salt", "a" * 1025),
    ],
)
def test_a_wrong_value_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(RequestError, match=f"^{field} must be") as error:
        RequestOptions(**{field: value})
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", 1000),
        ("priority", -1000),
        ("timeout", None),
        ("timeout", 0.001),
        ("timeout", 10**9),
        ("cache_salt", "\ud800"),
        ("cache_salt", "🙂" * 1024),
    ],
)
def test_the_extremes_are_accepted(field: str, value: Any) -> None:
    assert getattr(RequestOptions(**{field: value}), field) == value
