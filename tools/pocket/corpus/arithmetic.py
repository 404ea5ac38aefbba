"""Sums and differences of numbers with one or two digits, with the school method as the thought."""

from __future__ import annotations

from .conversation import Turn
from .maker import Maker, pair_is_held_out
from .words import phrases

ADD_QUESTIONS = phrases(
    """
    What is {a} + {b}? | {a} + {b} | {a}+{b} | {a} + {b} = ? | {a} + {b} = | Add {a} and {b}. |
    What is {a} plus {b}? | {a} plus {b} | Calculate {a} + {b}. | How much is {a}+{b}? | {a}+{b}= |
    How much is {a} plus {b}? | Compute {a} + {b}. | What do you get when you add {b} to {a}? |
    What is the sum of {a} and {b}? | Can you add {a} and {b}? | what's {a} + {b}? | Solve {a} + {b}. |
    {a} and {b} together? | Add {b} to {a}. | What does {a} + {b} make? | {a}+{b}=? | Tell me {a} + {b}. |
    How much is {a} and {b}? | The sum of {a} and {b}? | Please add {a} and {b}. | {a} + {b}? |
    {a} plus {b} is?
    """
)
SUBTRACT_QUESTIONS = phrases(
    """
    What is {a} - {b}? | {a} - {b} | {a}-{b} | {a} - {b} = ? | {a} - {b} = | Subtract {b} from {a}. |
    What is {a} minus {b}? | {a} minus {b} | Calculate {a} - {b}. | How much is {a}-{b}? | {a}-{b}= |
    How much is {a} minus {b}? | Compute {a} - {b}. | Take {b} away from {a}. | what's {a} - {b}? |
    What is the difference of {a} and {b}? | Can you subtract {b} from {a}? | Solve {a} - {b}. |
    Take {b} from {a}. | {a}-{b}=? | Tell me {a} - {b}. | What does {a} - {b} make? | {a} take away {b} |
    Please subtract {b} from {a}. | {a} - {b}? | {a} minus {b} is? | What is {a} less {b}?
    """
)


def addition_steps(a: int, b: int) -> str:
    """Written addition: units, carry, tens."""
    lines, carry = [], 0
    digits = 2 if max(a, b) > 9 else 1
    for place in range(digits):
        x, y = a // 10**place % 10, b // 10**place % 10
        total = x + y + carry
        carried = f" + {carry}" if place else ""
        lines.append(f"{x} + {y}{carried} = {total}")
        if place < digits - 1:
            carry = total // 10
            lines.append(f"write {total % 10} carry {carry}")
    return "\n".join([*lines, f"{a} + {b} = {a + b}"])


def subtraction_steps(a: int, b: int) -> str:
    """Written subtraction: the smaller from the larger, units first, with a borrowed ten where needed."""
    high, low = max(a, b), min(a, b)
    lines = [f"{a} < {b}, so take {high} - {low}"] if a < b else []
    borrow, digits = 0, 2 if high > 9 else 1
    for place in range(digits):
        x, y = high // 10**place % 10, low // 10**place % 10
        borrowed = f" - {borrow}" if place else ""
        difference = x - y - borrow
        ten = " + 10" if difference < 0 else ""
        written = difference % 10
        lines.append(f"{x}{ten} - {y}{borrowed} = {written}")
        borrow = int(difference < 0)
        if place < digits - 1:
            lines.append(f"write {written} borrow {borrow}")
    if a < b:
        lines.append(f"{high} - {low} = {high - low}")
    return "\n".join([*lines, f"{a} - {b} = {a - b}"])


def pair(maker: Maker, operation: str) -> tuple[int, int]:
    """Two numbers on the maker's side of the hold-out rule; a third of the differences are negative."""
    while True:
        kind = maker.rng.random()
        if kind < 0.75 or maker.held_out:
            a, b = maker.rng.randint(0, 99), maker.rng.randint(0, 99)
        elif kind < 0.88:
            a, b = maker.rng.randint(0, 20), maker.rng.randint(0, 9)
        else:
            a, b = maker.rng.randint(0, 9), maker.rng.randint(0, 9)
        if operation == "-" and (a < b) != maker.chance(0.32):
            a, b = b, a
        if pair_is_held_out(operation, a, b) == maker.held_out:
            return a, b


def addition(maker: Maker) -> Turn:
    """A sum."""
    a, b = pair(maker, "+")
    question = maker.loosely(maker.choice(ADD_QUESTIONS).format(a=a, b=b))
    return Turn(question, f"{a} + {b} = {a + b}", addition_steps(a, b), "addition")


def subtraction(maker: Maker) -> Turn:
    """A difference."""
    a, b = pair(maker, "-")
    question = maker.loosely(maker.choice(SUBTRACT_QUESTIONS).format(a=a, b=b))
    return Turn(question, f"{a} - {b} = {a - b}", subtraction_steps(a, b), "subtraction")
