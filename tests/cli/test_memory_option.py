"""--memory: sizes as people type them, and a plan that keeps to them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.cli.input import InputError
from qanat.cli.sizes import byte_count
from tests.cli.commands import assert_refused, invoke


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * 10**9),
        ("8g", 8 * 10**9),
        ("7.5 GiB", int(7.5 * 2**30)),
        ("500MB", 500 * 10**6),
        ("1tib", 2**40),
        ("12345", 12345),
        (" 1 kB ", 1000),
    ],
)
def test_sizes_are_read_as_people_type_them(text: str, size: int) -> None:
    assert byte_count(text, "--memory") == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "8 parsecs", "1e9", "nan", "8GB8", "٣GB", "9" * 40])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--memory must be a size such as"):
        byte_count(text, "--memory")


@given(st.text())
def test_any_text_is_a_size_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert byte_count(text, "--memory") >= 1


def test_too_little_is_refused_before_anything_is_loaded_and_names_the_option() -> None:
    assert_refused(invoke("run", "hello", "--memory", "2MB"), "--memory")
    assert_refused(invoke("run", "hello", "--memory", "much"), "--memory")


def test_enough_is_enough() -> None:
    result = invoke("run", "hello", "--memory", "1GB", "--context", "512", "--max-tokens", "3")
    assert result.exit_code == 0
