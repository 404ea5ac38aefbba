"""From what a request asks of a reply's form to the guides of its replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qanat.engine.grammars import Grammars, Matcher, structure_part
from qanat.engine.guide import Bytes, Calls, Fixed, Form, Guide, Stage, Thought, no_guide
from qanat.engine.sampling_params import SamplingParams, shown
from qanat.errors import RequestError
from qanat.text import Tokenizer
from qanat.text.dialects.call_grammar import CALL, call_body, call_list

__all__ = ["FREE_CALLS", "CallRule", "Guiding"]


@dataclass(frozen=True)
class CallRule:
    """What is asked of tool calls."""

    tools: Sequence[dict[str, Any]] = ()
    """Those that may be called, as JSON schemas."""
    must: bool = False
    """The reply is a call, or several, and nothing else."""
    many: bool = True
    """More than one call may be made."""

    @classmethod
    def of(cls, tools: Sequence[dict[str, Any]] | None, choice: Any, parallel: Any) -> CallRule:
        """What `tool_choice` and `parallel_tool_calls` ask for, given the tools. RequestError."""
        if not isinstance(parallel, bool):
            raise RequestError(f"parallel_tool_calls must be True or False, not {shown(parallel)}")
        tools = tuple(tools or ())
        if choice == "auto":
            return cls(tools, many=parallel)
        if choice == "required":
            if not tools:
                raise RequestError("tool_choice is 'required', but there are no tools")
            return cls(tools, must=True, many=parallel)
        name = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
        if not isinstance(name, str):
            raise RequestError(
                "tool_choice must be 'auto', 'required', or the function that must be called, as "
                f"{{'type': 'function', 'function': {{'name': ...}}}}, not {shown(choice)}"
            )
        chosen = tuple(tool for tool in tools if tool.get("function", tool).get("name") == name)
        if not chosen:
            raise RequestError(f"tool_choice names {shown(name)}, which is none of the tools")
        return cls(chosen, must=True, many=False)

    @property
    def binding(self) -> bool:
        """Whether it asks anything of a model that may call or not."""
        strict = any(tool.get("function", tool).get("strict") for tool in self.tools)
        return bool(self.tools) and (self.must or strict or not self.many)


FREE_CALLS = CallRule()


class Guiding:
    """Makes guides for replies of one model.

    Args:
        tokenizer: the model's.
        end_ids: the tokens that end a reply.
        live: ids from here on have no token.
    """

    def __init__(self, tokenizer: Tokenizer, *, end_ids: Sequence[int], live: int) -> None:
        self._tokenizer = tokenizer
        self._grammars = Grammars(tokenizer, end_ids=end_ids, live=live)
        self._end_ids = np.array(sorted(end_ids), np.int32)
        self._closing = tokenizer.encode("\n</think>")
        self._after_thought = tokenizer.encode("\n\n")

    def prepare(
        self, params: SamplingParams, rule: CallRule = FREE_CALLS, *, in_thought: bool
    ) -> Callable[[], Guide | None]:
        """What makes the guide of each reply to a prompt; None where there is nothing to guide.

        Args:
            params: its `structure` and `thinking_budget` count.
            rule: of tool calls.
            in_thought: whether the reply begins inside of a thought.

        Raises:
            RequestError: a grammar cannot be used.
        """
        if rule.must:
            idle = "ignore_eos" if params.ignore_eos else "min_tokens" if params.min_tokens else None
            if idle is not None:
                raise RequestError(
                    f"{idle} and tool_choice contradict each other: a reply ends with its calls"
                )
        owed = params.structure is not None or rule.must
        skipped = self._tokenizer.special_ids if params.skip_special_tokens else frozenset()

        def bytes_of(token: int) -> bytes:
            return b"" if token in skipped else self._tokenizer.token_bytes(token)

        then = self._then(params, rule, bytes_of)
        budget = params.thinking_budget if in_thought else None
        if then is None and budget is None:
            return no_guide

        def guide() -> Guide:
            stages: list[Stage] = []
            if in_thought:
                banned = self._end_ids if owed else self._end_ids[:0]
                stages.append(Thought(bytes_of, self._closing, budget, banned))
                if owed:  # as the template writes it: the grammar begins with the answer
                    stages.append(Fixed(self._after_thought))
            if then is not None:
                stages.append(then())
            return Guide(stages)

        return guide

    def _then(self, params: SamplingParams, rule: CallRule, bytes_of: Bytes) -> Callable[[], Stage] | None:
        """What makes the stage after the thought."""
        if rule.must:
            return _form(self._calls(rule))
        if params.structure is not None and rule.tools:
            answer = structure_part(params.structure, "answer")
            return _form(self._calls(rule, answer))
        if params.structure is not None:
            part = structure_part(params.structure, "answer")
            return _form(self._grammars.compile([part], params.structure.name))
        if rule.binding:
            grammar = call_body(rule.tools, self._grammars.tag)
            body = self._grammars.compile([{"name": "call", "lark_grammar": grammar}], "schema of the tools")
            return lambda: Calls(bytes_of, CALL.encode(), body, many=rule.many)
        return None

    def _calls(self, rule: CallRule, answer: dict[str, Any] | None = None) -> Matcher:
        grammar = call_list(
            rule.tools, self._grammars.tag, many=rule.many, instead=None if answer is None else "answer"
        )
        parts = [{"name": "calls", "lark_grammar": grammar}, *([] if answer is None else [answer])]
        return self._grammars.compile(parts, "schema of the tools" if answer is None else "form of the reply")


def _form(matcher: Matcher) -> Callable[[], Stage]:
    return lambda: Form(matcher.copy())
