"""The bars, and how the figures are set out: as text with verdicts, as JSON, and in the model card."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BARS = {
    "identity": 93,
    "greeting": 93,
    "addition": 97,
    "subtraction": 95,
    "negative differences": 95,
    "capital": 97,
    "spell": 93,
    "reverse": 88,
    "repeat": 93,
    "story": 97,
    "unknown": 93,
    "json": 98,
    "memory of a name": 98,
    "memory of a colour": 98,
    "calculator: call": 98,
    "calculator: answer": 98,
    "get_weather: call": 98,
    "get_weather: answer": 98,
    "two calls: call 1": 98,
    "two calls: call 2": 98,
    "two calls: answer": 98,
}
DIFFERENT_STORIES = 40
LARGEST_FALL = 3.0  # points that a group may lose when thinking is on
BEGIN, END = "<!-- scores: begin -->", "<!-- scores: end -->"


@dataclass(frozen=True)
class Row:
    """One group: percentages right with thinking off and on, of `prompts` each. Some have no bar."""

    group: str
    off: float
    on: float
    prompts: int

    @property
    def bar(self) -> int | None:
        """The percentage that the group must reach."""
        return BARS.get(self.group)

    @property
    def reached(self) -> bool:
        """Whether the bar is reached with thinking off."""
        return self.bar is None or self.off >= self.bar

    @property
    def holds_thinking(self) -> bool:
        """Whether thinking costs no more points than it may."""
        return self.bar is None or self.on >= self.off - LARGEST_FALL


@dataclass(frozen=True)
class Stories:
    """Stories about one thing, sampled with different seeds."""

    samples: int
    different: int
    """Different ones among the sound ones."""
    sound: float
    """Percentage."""

    @property
    def reached(self) -> bool:
        """Whether there are enough different ones."""
        return self.different >= DIFFERENT_STORIES


@dataclass(frozen=True)
class Report:
    """All figures of an evaluation."""

    rows: list[Row]
    stories: Stories
    settings: dict[str, Any] = field(default_factory=dict)
    loss: float | None = None
    """Mean of learnt tokens of held-out conversations, in nats."""
    acceptance: float | None = None
    """Percentage of first drafts of the MTP head that are accepted."""

    @property
    def falling(self) -> list[str]:
        """The groups that thinking costs too much."""
        return [row.group for row in self.rows if not row.holds_thinking]

    @property
    def reached(self) -> bool:
        """Whether every bar is reached."""
        return all(row.reached for row in self.rows) and not self.falling and self.stories.reached

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return {
            "settings": self.settings,
            "scores": {
                row.group: {"off": row.off, "on": row.on, "bar": row.bar, "prompts": row.prompts}
                for row in self.rows
            },
            "stories": {**vars(self.stories), "bar": DIFFERENT_STORIES},
            "thinking": {"largest_fall": LARGEST_FALL, "fallen": self.falling},
            "held_out_loss": self.loss,
            "mtp_acceptance": self.acceptance,
            "reached": self.reached,
        }


def text_table(report: Report) -> str:
    """For the terminal: each figure beside its bar, and a verdict."""
    lines = [f"{'% right':28}{'prompts':>8}{'bar':>6}{'off':>8}{'on':>8}   thinking off and on"]
    for row in report.rows:
        bar = "" if row.bar is None else str(row.bar)
        verdict = "" if row.bar is None else _verdict(row.reached)
        lines.append(f"{row.group:28}{row.prompts:8}{bar:>6}{row.off:8.1f}{row.on:8.1f}   {verdict}".rstrip())
    falling = ", ".join(report.falling)
    stories = report.stories
    enough = _verdict(stories.reached)
    lines += [
        f"thinking costs no group more than {LARGEST_FALL:g} points: "
        + (f"MISSED by {falling}" if falling else "reached"),
        f"{stories.different} different sound stories (bar {DIFFERENT_STORIES}): {enough}; "
        f"of {stories.samples} sampled ones {stories.sound:.0f} % are sound",
    ]
    if report.loss is not None:
        lines.append(f"mean loss on held-out conversations: {report.loss:.4f}")
    if report.acceptance is not None:
        lines.append(f"first drafts of the MTP head accepted: {report.acceptance:.1f} %")
    lines.append("every bar is reached" if report.reached else "NOT every bar is reached")
    return "\n".join(lines)


def _verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"


def card_table(report: Report) -> str:
    """For the model card, as markdown."""
    lines = ["| | prompts | bar | thinking off | thinking on |", "|---|---|---|---|---|"]
    for row in report.rows:
        bar = "" if row.bar is None else f"{row.bar} %"
        off = f"{row.off:.1f} %" if row.reached else f"**{row.off:.1f} %**"
        on = f"{row.on:.1f} %" if row.holds_thinking else f"**{row.on:.1f} %**"
        lines.append(f"| {row.group} | {row.prompts} | {bar} | {off} | {on} |")
    stories = report.stories
    different = str(stories.different) if stories.reached else f"**{stories.different}**"
    lines.append(f"| sampled stories: sound | {stories.samples} | | {stories.sound:.0f} % | |")
    lines.append(
        f"| sampled stories: sound and different | {stories.samples} | {DIFFERENT_STORIES} | {different} | |"
    )
    if report.loss is not None:
        lines.append(f"| mean loss of learnt tokens, held-out conversations | | | {report.loss:.3f} | |")
    if report.acceptance is not None:
        lines.append(f"| first MTP drafts accepted | | | {report.acceptance:.1f} % | |")
    return "\n".join(lines)


def split_card(card: Path) -> tuple[str, str]:
    """What stands before and behind the card's table; ValueError unless it has both marks once, in order."""
    text = card.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{card} must hold the marks {BEGIN} and {END}, once and in this order")
    return text.split(BEGIN)[0], text.split(END)[1]


def fill_card(card: Path, report: Report) -> None:
    """Put the table between the two marks of the model card."""
    before, after = split_card(card)
    card.write_text(f"{before}{BEGIN}\n{card_table(report)}\n{END}{after}", encoding="utf-8")
