"""The drawn schedules on real models: whatever kernels do with slots and pages, replies stay the same."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from qanat.backends import open_backend
from qanat.checkpoint import load_checkpoint
from qanat.engine.scheduler import Scheduler
from qanat.engine.stepper import ForwardModel
from qanat.model import TextModel
from qanat.text import Tokenizer
from tests.engine.fake_model import make
from tests.engine.schedule_requests import PARAMS, Asked
from tests.engine.schedules import Schedule
from tests.model import runs, tiny

TEXT = (
    "Who are you? hello, what's up? The water comes a long way. Tell me about naïve cafés, 你好 🙂 "
    "one two three four five six seven eight nine ten\n\n1 + 2 = 3 and nothing else is known"
)
WORDS = TEXT.split(" ")


class RealSchedule(Schedule):
    """A schedule on a model that `model` gives; the same one, without any snapshots, tells what is right."""

    replies: ClassVar[dict[Any, list[int]]]

    def cold(self, asked: Asked) -> list[int]:
        key = asked.key
        if key not in self.replies:
            prompt, params, limit, seed, choice = key
            s = make(list(prompt), PARAMS[params], limit=limit, seed=seed, choice_index=choice, end=self.END)
            pages = -(-(len(prompt) + limit) // self.PAGE)
            engine = Scheduler(
                self.model(), slots=1, pages=pages, page=self.PAGE, live_vocab=self.LIVE, step_tokens=1000
            )
            engine.submit([s])
            engine.advance(lambda: s.done)
            self.replies[key] = s.output.tolist()
        return self.replies[key]


class Tiny(RealSchedule):
    """A random model of the shapes in tests/model."""

    LIVE = 131
    TURN = (121, 122)
    replies: ClassVar[dict[Any, list[int]]] = {}

    def model(self) -> ForwardModel:
        return tiny_reference()

    def spell(self, letters: list[int]) -> list[int]:
        return [5 * letter for letter in letters]


class TinyCpu(Tiny):
    """On the CPU backend, whose pages have 64 tokens: prompts, replies and steps are longer."""

    PAGE = runs.CPU_PAGE
    PAGES = (6, 1)
    STEP = 16
    LIMIT = 7
    replies: ClassVar[dict[Any, list[int]]] = {}

    def model(self) -> ForwardModel:
        return tiny_cpu()

    def spell(self, letters: list[int]) -> list[int]:
        return [(7 * letter + i * i) % 120 + 1 for letter in letters for i in range(12)]


class Pocket(TinyCpu):
    """The built-in model on the CPU: prompts are words and turns of a chat."""

    LIVE = 992
    END = 961
    replies: ClassVar[dict[Any, list[int]]] = {}

    @property
    def TURN(self) -> tuple[int, ...]:  # type: ignore[override]  # noqa: N802
        return tuple(tokenizer().encode("<|im_start|>assistant\n"))

    def model(self) -> ForwardModel:
        return pocket_cpu()

    def spell(self, letters: list[int]) -> list[int]:
        text = " ".join(WORDS[(letter + i) % len(WORDS)] for letter in letters for i in range(5))
        return tokenizer().encode("<|im_start|>user\n" + text)

    def again(self, earlier: Asked) -> list[int]:
        """With the ids that were drawn, or with those that the text has when a template writes it anew."""
        s = earlier.s
        written = tokenizer().encode(tokenizer().decode(s.output.tolist()))
        return [*earlier.prompt, *(written if len(written) % 2 else s.output.tolist())]


@cache
def tiny_reference() -> ForwardModel:
    name = "value_heads_2x"
    return runs.build(tiny.config_dict(name), tiny.random_tensors(name))


@cache
def tiny_cpu() -> ForwardModel:
    name = "value_heads_2x"
    return runs.build(
        tiny.config_dict(name), tiny.random_tensors(name), ops=open_backend("cpu", weights="int8")
    )


@cache
def pocket_cpu() -> ForwardModel:
    return pocket("cpu", "bf16")


@cache
def pocket(backend: str, weights: str) -> ForwardModel:
    checkpoint = load_checkpoint("pocket")
    return TextModel(checkpoint.config.text, checkpoint.tensors, open_backend(backend, weights=weights))


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_folder(load_checkpoint("pocket").path)
