"""Functions as people write them for tools, sound and unsound. Typing's old spellings are on purpose."""

# ruff: noqa: E501, UP006, UP007, UP035, UP045

from __future__ import annotations

import enum
from typing import Annotated, Any, Dict, List, Literal, Optional, Tuple, Union


class Unit(enum.Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    A = 1
    B = "b"
    C = None


class Deep(enum.Enum):
    A = (1, 2)


class Empty(enum.Enum):
    pass


class Custom:
    pass


def simple(x: int, y: float, z: str, b: bool):
    """A sum.

    Args:
        x: one
        y: two
        z: three
        b: four
    """


def no_arguments() -> None:
    """Nothing to give."""


def containers(
    a: list, b: list[int], c: List[List[str]], d: dict, e: Dict[str, float], f: tuple, g: Tuple[int, str]
):
    """Containers.

    Args:
        a: a
        b: b
        c: c
        d: d
        e: e
        f: f
        g: g
    """


def unions(
    a: int | str,
    b: Optional[int],
    c: Union[str, float, None],
    d: list[int] | str,
    e: list[str] | None = None,
    f: list | tuple = (),
    g: Optional[Any] = None,
    h: int | bool | float = 0,
    i: Unit | None = None,
):
    """Unions.

    Args:
        a: a
        b: b
        c: c
        d: d
        e: e
        f: f
        g: g
        h: h
        i: i
    """


def choices(
    a: Literal["x", "y"], b: Literal[1, "z", None, True], c: Unit, d: Level, e: Mixed, f: Literal["q"] | None
):
    """Choices.

    Args:
        a: a
        b: b
        c: c
        d: d
        e: e
        f: f
    """


def written_choices(a: str, b: str, c: int = 1):
    """Written choices.

    Args:
        a: one (choices: [" tea ", "coffee"])
        b: two (Choices:  ["x"] )
        c: (choices: [1, 2]) three
    """


def anything(a: Any, b: Annotated[int, "meta"], c: int = 3, *rest: int, **more: str) -> Any:
    """Anything.

    Args:
        a: a
        b: b
        c: c
        rest: the rest
        more: more

    Returns:
        Something of
        two lines.

    Raises:
        ValueError: never
    """


def typed_return(x: int) -> dict[str, list[int]]:
    """Returns a thing.

    Returns: in the middle

    Args:
        x: the number
    Returns:
        dict: the thing
    """


def return_without_doc(x: int) -> int:
    """Doc.

    Args:
        x: x
    """


def return_custom(x: int) -> Custom:
    """Doc.

    Args:
        x: x

    Returns:
        a thing
    """


def odd_docstring(first: int, second: str, third: str, fourth: int):
    """
    Two lines
      of description.

    More: with a colon.


    Args:

        first (int): a line that goes on
            deeper: with something like an entry
          and on
        second  ( str, optional ) :  not an entry
        second: has: colons

        third:
            the text is on the next line
        fourth:
        swallowed: this one

    Returns:
    """


def tabs(a: int, b: int):
    """Tabs.

    Args:
    \ta: one
    \t\tmore: of it
    \tb: two
    """


def words_in_text(a: int):
    """The Args: come later, Returns: too.

    Args:
        a: it Raises: eyebrows
    """


def unicode_doc(größe: int):
    """Größe 天気 …

    Args:
        größe: wie groß – „sehr“
    """


class Holder:
    def method(self, x: int):
        """A method.

        Args:
            x: x
        """

    @classmethod
    def made(cls, x: str = "a"):
        """A class method.

        Args:
            x: x
        """

    def hinted_self(self: Any, x: int):
        """Self has a hint.

        Args:
            self: itself
            x: x
        """


def no_docstring(x: int): ...


def no_hint(x):
    """Doc.

    Args:
        x: x
    """


def no_description(x: int, y: int):
    """Doc.

    Args:
        x: x
    """


def custom_hint(x: Custom):
    """Doc.

    Args:
        x: x
    """


def one_tuple(x: tuple[int]):
    """Doc.

    Args:
        x: x
    """


def open_tuple(x: tuple[int, ...]):
    """Doc.

    Args:
        x: x
    """


def set_hint(x: set[int]):
    """Doc.

    Args:
        x: x
    """


def deep_enum(x: Deep):
    """Doc.

    Args:
        x: x
    """


def empty_enum(x: Empty):
    """Doc.

    Args:
        x: x
    """


def bytes_literal(x: Literal[b"a"]):
    """Doc.

    Args:
        x: x
    """


def unknown_hint(x: Missing):  # noqa: F821
    """Doc.

    Args:
        x: x
    """


def bad_choices(x: str):
    """Doc.

    Args:
        x: x (choices: [a, b])
    """


def number_choices(x: str):
    """Doc.

    Args:
        x: x (choices: 5)
    """


FUNCTIONS = [
    simple, no_arguments, containers, unions, choices, written_choices, anything, typed_return, return_without_doc,
    return_custom, odd_docstring, tabs, words_in_text, unicode_doc, Holder().method, Holder.made, Holder().hinted_self,
    no_docstring, no_hint, no_description, custom_hint, one_tuple, open_tuple, set_hint, deep_enum, empty_enum,
    bytes_literal, unknown_hint, bad_choices, number_choices,
]  # fmt: skip
