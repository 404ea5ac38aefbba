"""JSON schemas of what is answered, for the OpenAPI document. A test holds real answers against them."""

from __future__ import annotations

from typing import Any

__all__ = ["answer_schemas"]

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_LOGPROB: Schema = {"type": "number", "maximum": 0, "minimum": -9999}
_END: Schema = {"enum": ["stop", "length", "tool_calls"]}
_END_OR_NULL: Schema = {"enum": [*_END["enum"], None]}


def _object(optional: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(name: str) -> Schema:
    return {"anyOf": [_ref(name), {"type": "null"}]}


def _listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _answer(kind: str, choice: Schema, *optional: str, **more: Schema) -> Schema:
    """What OpenAI's objects have in common, and what one has beside it."""
    usage = _or_null("Usage") if "usage" in optional else _ref("Usage")
    return _object(
        (*optional, *more),
        id=_TEXT,
        object={"const": kind},
        created={"type": "integer", "description": "Seconds since 1970."},
        model=_TEXT,
        choices=_listed(choice),
        usage=usage,
        **more,
    )


def _chat() -> dict[str, Schema]:
    function = _object(name=_TEXT, arguments={**_TEXT, "contentMediaType": "application/json"})
    piece = _object(("name", "arguments"), name=_TEXT, arguments=_TEXT)
    call = _object(("id", "type"), index=_COUNT, id=_TEXT, type={"const": "function"}, function=piece)
    message = _object(
        ("reasoning_content", "tool_calls"),
        role={"const": "assistant"},
        content=_TEXT_OR_NULL,
        reasoning_content=_TEXT,
        tool_calls=_listed(_object(id=_TEXT, type={"const": "function"}, function=function)),
    )
    delta = _object(
        ("role", "content", "reasoning_content", "tool_calls"),
        role={"const": "assistant"},
        content=_TEXT,
        reasoning_content=_TEXT,
        tool_calls=_listed(call),
    )
    logprobs = _or_null("ChatLogprobs")
    choice = _object(index=_COUNT, message=message, logprobs=logprobs, finish_reason=_END)
    part = _object(index=_COUNT, delta=delta, logprobs=logprobs, finish_reason=_END_OR_NULL)
    progress = {
        **_object(total=_COUNT, cache=_COUNT, processed=_COUNT),
        "description": "Tokens of the prompt: all, those of an earlier request, and those that are read.",
    }
    return {
        "ChatCompletion": _answer("chat.completion", choice),
        "ChatCompletionChunk": {
            **_answer("chat.completion.chunk", part, "usage", prompt_progress=progress),
            "description": "The data of an event. The last event is [DONE], or an Error.",
        },
        "ChatLogprobs": _object(content=_listed(_ref("ChatLogprob"))),
        "ChatLogprob": _object(**_token(), top_logprobs=_listed(_object(**_token()))),
    }


def _token() -> dict[str, Schema]:
    raw = {"type": "integer", "minimum": 0, "maximum": 255}
    return {"token": _TEXT, "logprob": _LOGPROB, "bytes": _listed(raw)}


def _completion() -> dict[str, Schema]:
    nullable = {**_LOGPROB, "type": ["number", "null"]}
    top = {"type": ["object", "null"], "additionalProperties": _LOGPROB}
    logprobs = _object(
        tokens=_listed(_TEXT),
        token_logprobs=_listed(nullable),
        top_logprobs=_listed(top),
        text_offset=_listed(_COUNT),
    )
    either = {"anyOf": [logprobs, {"type": "null"}]}

    def choice(end: Schema) -> Schema:
        return _object(index=_COUNT, text=_TEXT, logprobs=either, finish_reason=end)

    return {
        "Completion": _answer("text_completion", choice(_END)),
        "CompletionChunk": {
            **_answer("text_completion", choice(_END_OR_NULL), "usage"),
            "description": "The data of an event. The last event is [DONE], or an Error.",
        },
    }


def _stages() -> Schema:
    merge = _object(rank=_COUNT, left=_TEXT, right=_TEXT, tokens=_listed(_TEXT))
    piece = _object(
        text=_TEXT, byte_level=_TEXT, merges=_listed(merge), tokens=_listed(_TEXT), ids=_listed(_COUNT)
    )
    stretch = _object(
        text=_TEXT,
        normalized=_TEXT_OR_NULL,
        added_token={"type": ["integer", "null"]},
        pieces=_listed(piece),
    )
    return _object(
        prompt=_TEXT,
        tokens=_listed(_COUNT),
        count=_COUNT,
        vocabulary=_COUNT,
        stretches=_listed(stretch),
    )


def answer_schemas() -> dict[str, Schema]:
    """The schemas of all answers, by their names in the document."""
    sampling = {"type": "object", "additionalProperties": {"type": ["number", "null"]}}
    switch: Schema = {"type": "boolean"}
    defaults = _object(thinks=switch, can_switch=switch, sampling=sampling, thinking_sampling=sampling)
    model = _object(
        id=_TEXT,
        object={"const": "model"},
        created={"type": "integer"},
        owned_by=_TEXT,
        root={**_TEXT, "description": "The first of the names that this model has."},
        chat_defaults={"anyOf": [defaults, {"type": "null"}], "description": "What a chat inherits."},
        max_model_len={"type": ["integer", "null"], "description": "Null until the model is loaded."},
    )
    error = _object(
        message=_TEXT,
        type={"enum": ["invalid_request_error", "server_error"]},
        param={**_TEXT_OR_NULL, "description": "The field, as `messages[2].content`."},
        code=_TEXT_OR_NULL,
    )
    return {
        **_chat(),
        **_completion(),
        "Usage": _object(
            prompt_tokens=_COUNT,
            completion_tokens=_COUNT,
            total_tokens=_COUNT,
            prompt_tokens_details=_object(cached_tokens=_COUNT),
            completion_tokens_details=_object(reasoning_tokens=_COUNT),
        ),
        "Model": model,
        "ModelList": _object(object={"const": "list"}, data=_listed(_ref("Model"))),
        "Tokens": _object(tokens=_listed(_COUNT), count=_COUNT),
        "Text": _object(content=_TEXT),
        "Prompt": _object(prompt=_TEXT),
        "Stages": _stages(),
        "Health": _object(status={"enum": ["ready", "loading", "stopping", "dead"]}),
        "Error": _object(error=error),
    }
