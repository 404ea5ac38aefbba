"""What the model says, through qanat: in this process, or shared out among several."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from qanat import LLM, SamplingParams

from .cases import Case

LONGEST_REPLY = 200  # tokens, thought included; the longest one of the corpus has about 130
THOUGHT_END = "</think>\n\n"
Asked = tuple[str, SamplingParams]  # a rendered prompt, and how to choose tokens


class Speaker:
    """A model that answers cases."""

    def __init__(self, model: str, jobs: int = 1, backend: str = "auto") -> None:
        self.model, self.jobs, self.backend = model, jobs, backend
        self.llm = LLM(model, backend=backend)

    def replies(
        self, cases: Sequence[Case], thinking: bool, params: Sequence[SamplingParams] | None = None
    ) -> list[str]:
        """The reply to each case without its thought: greedy, unless there are `params` for each case.

        A reply that does not end comes with a mark, so that it equals nothing that is expected.
        """
        greedy = SamplingParams(temperature=0, max_tokens=LONGEST_REPLY)
        prompts = self.prompts(cases, thinking)
        asked = list(zip(prompts, params or [greedy] * len(prompts), strict=True))
        return [text.split(THOUGHT_END, 1)[-1] if thinking else text for text in self._texts(asked)]

    def prompts(self, cases: Sequence[Case], thinking: bool) -> list[str]:
        """The cases as the chat template renders them."""
        return [
            self.llm.template.render(
                case.messages,
                tools=list(case.tools) or None,
                add_generation_prompt=True,
                enable_thinking=thinking,
            )
            for case in cases
        ]

    def _texts(self, asked: list[Asked]) -> list[str]:
        if self.jobs == 1:
            return generate(self.llm, asked)
        shares = [asked[i :: self.jobs] for i in range(self.jobs)]  # every share has some of each group
        with ProcessPoolExecutor(self.jobs, get_context("spawn")) as pool:
            speak = partial(_generate_alone, self.model, self.backend)
            parts = list(pool.map(speak, shares))
        return [parts[i % self.jobs][i // self.jobs] for i in range(len(asked))]


def generate(llm: LLM, asked: list[Asked]) -> list[str]:
    """The text of each reply up to its end token."""
    found = llm.generate([prompt for prompt, _ in asked], [params for _, params in asked])
    return [
        reply.text.removesuffix("<|im_end|>") + ("" if reply.finish_reason == "stop" else " [no end]")
        for reply in found
    ]


def _generate_alone(model: str, backend: str, asked: list[Asked]) -> list[str]:
    return generate(LLM(model, backend=backend), asked)
