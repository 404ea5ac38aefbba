"""What a request means for a model: which model, which sampling, and the stream of its replies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qanat.engine.defaults import model_card_params
from qanat.engine.sampling_params import SamplingParams, shown
from qanat.errors import TemplateError
from qanat.server.chat_request import ChatDefaults, ChatRequest
from qanat.server.completion_request import CompletionRequest
from qanat.server.errors import MODEL_NOT_FOUND
from qanat.server.fields import FieldError
from qanat.server.responses import EchoedPrompt
from qanat.text import ChatTemplate
from qanat.text.dialects import starts_in_thought

if TYPE_CHECKING:
    from qanat.engine import LLM
    from qanat.engine.core import Engine
    from qanat.engine.generation import Generation
    from qanat.engine.reply import ReplyChunk
    from qanat.engine.request_options import RequestOptions

__all__ = [
    "chat_defaults",
    "check_model",
    "default_names",
    "echoed_prompts",
    "prepare_generations",
    "rendered_prompt",
    "start_chat",
    "start_completion",
]


_SHOWN = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "max_tokens",
)
"""Of the sampling, what clients are told: the fields that they would set."""


def default_names(model: str) -> list[str]:
    """What clients may call a model that was given no names: as it was named, and the last part of that."""
    return list(dict.fromkeys([model, Path(model).name]))


def check_model(asked: str | None, names: list[str]) -> None:
    """Refuse a request for another model than the one that answers.

    Raises:
        FieldError: with code model_not_found.
    """
    if asked is not None and asked not in names:
        raise FieldError(
            f"no model {shown(asked)} here: ask for {' or '.join(map(repr, names))}, or leave `model` out",
            "model",
            MODEL_NOT_FOUND,
        )


def chat_defaults(llm: Engine) -> ChatDefaults | None:
    """What chat requests inherit; None if the model has no chat template."""
    try:
        thinks = _thinks(llm.template, None)
    except TemplateError:
        return None
    try:
        _thinks(llm.template, not thinks)
        can_switch = True
    except (FieldError, TemplateError):
        can_switch = False
    plain, thinking = (_sampling(llm, thinking if can_switch else thinks) for thinking in (False, True))
    return ChatDefaults(thinks, can_switch, plain, thinking)


def start_chat(llm: LLM, request: ChatRequest) -> Iterator[ReplyChunk]:
    """Check a chat request and hand it to the model; computed as the chunks are read.

    What it does not say of sampling is as the model card advises. Raises as `LLM.chat` does.
    """
    return llm.chat(
        request.messages,
        _chat_params(llm, request),
        tools=request.tools,
        tool_choice=request.tool_choice,
        parallel_tool_calls=request.parallel_tool_calls,
        enable_thinking=request.enable_thinking,
        stream=True,
    )


def start_completion(llm: LLM, request: CompletionRequest) -> Iterator[ReplyChunk]:
    """Check a completion request and hand it to the model. Raises as `LLM.generate` does."""
    params = _completed(llm, request.params, thinking=False)
    return llm.generate(list(request.prompts), params, stream=True)


def prepare_generations(
    llm: Engine, request: ChatRequest | CompletionRequest, options: RequestOptions
) -> list[Generation]:
    """What `AsyncLLM.running` runs for a request. Raises as `LLM.chat` and `LLM.generate` do."""
    if isinstance(request, ChatRequest):
        return llm.of_conversation(
            request.messages,
            _chat_params(llm, request),
            tools=request.tools,
            tool_choice=request.tool_choice,
            parallel_tool_calls=request.parallel_tool_calls,
            documents=None,
            enable_thinking=request.enable_thinking,
            continue_final_message=False,
            options=options,
            sanitize=False,
            template_kwargs={},
        )
    params = _completed(llm, request.params, thinking=False)
    return llm.of_prompts(list(request.prompts), params, options)[1]


def rendered_prompt(llm: Engine, request: ChatRequest) -> str:
    """The text that a chat request puts to the model. TemplateError, FieldError."""
    _thinks(llm.template, request.enable_thinking)
    switch: dict[str, Any] = {}
    if request.enable_thinking is not None:
        switch["enable_thinking"] = request.enable_thinking
    return llm.template.render(request.messages, tools=request.tools, add_generation_prompt=True, **switch)


def echoed_prompts(llm: Engine, request: CompletionRequest) -> list[EchoedPrompt] | None:
    """The prompts, if the request wants them back before the replies. Start it first, which checks them."""
    if not request.echo:
        return None
    tokenizer, echoed = llm.tokenizer, []
    for prompt in request.prompts:
        if isinstance(prompt, str):
            text, first = prompt, tokenizer.encode(prompt)[0]
        else:
            text, first = tokenizer.decode(prompt), prompt[0]
        echoed.append(EchoedPrompt(text, tokenizer.token_bytes(first)))
    return echoed


def _chat_params(llm: Engine, request: ChatRequest) -> SamplingParams:
    return _completed(llm, request.params, thinking=_thinks(llm.template, request.enable_thinking))


def _completed(llm: Engine, params: SamplingParams, *, thinking: bool) -> SamplingParams:
    return params.with_defaults(model_card_params(llm.checkpoint, thinking))


def _sampling(llm: Engine, thinking: bool) -> dict[str, float | None]:
    """The sampling of a request that says nothing of it."""
    params = _completed(llm, SamplingParams(), thinking=thinking).with_defaults(llm.default_params)
    return {name: getattr(params, name) for name in _SHOWN}


def _thinks(template: ChatTemplate, wanted: bool | None) -> bool:
    """Whether the model will think; a wish that the template cannot fulfil is refused."""
    switch: dict[str, Any] = {} if wanted is None else {"enable_thinking": wanted}
    probe = [{"role": "user", "content": "hello"}]
    thinks = starts_in_thought(template.render(probe, add_generation_prompt=True, **switch))
    if wanted is not None and thinks != wanted:
        raise FieldError(
            f"this model's chat template {'never' if wanted else 'always'} opens a thought: leave it out",
            "chat_template_kwargs.enable_thinking",
        )
    return thinks
