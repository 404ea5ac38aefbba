"""JSON schemas of the bodies that are read, for the OpenAPI document.

The readers decide; a test holds the two together.
What a schema cannot say is in the descriptions: that fields go together, and what depends on the model.
"""

from __future__ import annotations

from typing import Any

from qanat.engine.sampling_params import MAX_LOGPROBS, MAX_STOPS
from qanat.engine.structure import MAX_LINE, MAX_SOURCE
from qanat.server.completion_request import MAX_IDS, MAX_PROMPTS
from qanat.server.fields import MAX_TEXT
from qanat.server.messages import MAX_CALLS, MAX_MESSAGES, MAX_PARTS
from qanat.server.sampling_fields import MAX_BIASES, MAX_CHOICES, MAX_TOKENS
from qanat.server.structure_fields import MAX_BUDGET
from qanat.server.tools import MAX_TOOLS

__all__ = ["request_schemas"]

Schema = dict[str, Any]

_MAX_ID = 2**31 - 1
_NOTHING: Schema = {"enum": [None, "", [], {}], "description": "Has no effect: only empty."}
_TEXT: Schema = {"type": "string", "maxLength": MAX_TEXT}
_ID: Schema = {"type": "integer", "minimum": 0, "maximum": _MAX_ID}


def _or_null(schema: Schema, told: str = "") -> Schema:
    """The schema of a field that may be left out: `null` counts as that."""
    whole = (
        {**schema, "type": [schema["type"], "null"]}
        if "type" in schema
        else {"anyOf": [schema, {"type": "null"}]}
    )
    return {**whole, "description": told} if told else whole


def _whole(low: int, high: int, told: str = "") -> Schema:
    return _or_null({"type": "integer", "minimum": low, "maximum": high}, told)


def _number(low: float, high: float, told: str = "") -> Schema:
    return _or_null({"type": "number", "minimum": low, "maximum": high}, told)


def _text(told: str = "") -> Schema:
    return _or_null(_TEXT, told)


def _switch(told: str = "") -> Schema:
    return _or_null({"type": "boolean"}, told)


def _one_of(*choices: Any, told: str = "") -> Schema:
    return {"enum": [*choices, None], **({"description": told} if told else {})}


def _listed(items: Schema, most: int, least: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _object(required: list[str], /, **properties: Schema) -> Schema:
    whole: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**whole, "required": required} if required else whole


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _sampling() -> dict[str, Schema]:
    stop = {**_TEXT, "minLength": 1}
    bias = {"type": "number", "minimum": -100, "maximum": 100}
    return {
        "temperature": _number(0, 2, "0 always takes the most probable token."),
        "top_p": _number(0, 1),
        "min_p": _number(0, 1),
        "top_k": _whole(-1, _MAX_ID, "0 and -1 are off."),
        "presence_penalty": _number(-2, 2),
        "frequency_penalty": _number(-2, 2),
        "repetition_penalty": _number(0.01, 100, "1 is off."),
        "seed": _whole(-(2**63), 2**63 - 1, "Repeats an answer, bit for bit."),
        "n": _whole(1, MAX_CHOICES, "Replies to the same prompt."),
        "max_tokens": _whole(1, MAX_TOKENS),
        "min_tokens": _whole(0, MAX_TOKENS, "Not above `max_tokens`."),
        "stop": {
            "anyOf": [stop, _listed(stop, MAX_STOPS), {"type": "null"}],
            "description": "The reply ends before any of these.",
        },
        "stop_token_ids": _or_null(_listed(_ID, MAX_BIASES)),
        "ignore_eos": _switch("Go on after the model's own end."),
        "logit_bias": _or_null(
            {
                "type": "object",
                "propertyNames": {"pattern": "^[0-9]{1,10}$"},
                "additionalProperties": bias,
                "maxProperties": MAX_BIASES,
            },
            "Token ids, and what is added to their logits.",
        ),
        "stream": _switch("Answer with server-sent events."),
        "stream_options": _or_null(
            _object([], include_usage=_switch("End the stream with the usage.")), "Only with `stream`."
        ),
        "user": _text("Checked, and without effect."),
        "safety_identifier": _text("Checked, and without effect."),
        "prompt_cache_key": _text("Checked, and without effect."),
        "metadata": {"description": "Checked, and without effect."},
        "service_tier": _one_of("auto", "default"),
        "store": _one_of(False, told="No answer is kept."),
        "response_format": _or_null(_ref("ResponseFormat"), "The form of the reply, behind its thought."),
        "thinking_budget": _whole(0, MAX_BUDGET, "A thought is closed after so many tokens."),
    }


def _form() -> Schema:
    source: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_SOURCE}
    wrapped = _object(
        ["schema"],
        name=_text(),
        description=_text(),
        strict=_switch("A schema is kept in any case."),
        schema={"type": "object", "description": "A JSON schema."},
    )
    forms = [
        _object(["type"], type={"enum": ["text", "json_object"]}),
        _object(["type", "json_schema"], type={"const": "json_schema"}, json_schema=wrapped),
        _object(["type", "regex"], type={"const": "regex"}, regex={**source, "maxLength": MAX_LINE}),
        _object(["type", "grammar"], type={"const": "grammar"}, grammar=source),
    ]
    return {"anyOf": forms}


def _call() -> Schema:
    arguments: Schema = {
        "anyOf": [{**_TEXT, "contentMediaType": "application/json"}, {"type": "object"}, {"type": "null"}],
        "description": "An object, or the JSON text of one.",
    }
    return _object(
        ["function"],
        id=_text(),
        type=_one_of("function"),
        index=_whole(0, MAX_CALLS),
        function=_object(["name"], name=_TEXT, arguments=arguments),
    )


def _messages() -> dict[str, Schema]:
    content: Schema = {"anyOf": [_TEXT, _listed(_ref("TextPart"), MAX_PARTS, 1)]}
    said: dict[str, Schema] = {"content": content, "name": _text("Handed to the chat template.")}
    return {
        "TextPart": _object(["type", "text"], type={"const": "text"}, text=_TEXT),
        "ToolCallGivenBack": _call(),
        "SaidMessage": _object(["role", "content"], role={"enum": ["system", "developer", "user"]}, **said),
        "AssistantMessage": _object(
            ["role"],
            role={"const": "assistant"},
            **{**said, "content": _or_null(content)},
            reasoning_content=_text("The thought of an earlier answer."),
            reasoning=_text("Another name of `reasoning_content`."),
            tool_calls=_or_null(_listed(_ref("ToolCallGivenBack"), MAX_CALLS)),
            refusal=_NOTHING,
            audio=_NOTHING,
            function_call=_NOTHING,
            annotations=_NOTHING,
        ),
        "ToolMessage": _object(
            ["role", "content"],
            role={"const": "tool"},
            **said,
            tool_call_id=_text("The `id` of a call of the message before."),
        ),
    }


_NAME: Schema = {"type": "string", "pattern": r"^[^\s<>]{1,256}$"}


def _tool_choice() -> Schema:
    function = _object(["name"], name=_NAME)
    forced = _object(["type", "function"], type={"const": "function"}, function=function)
    return {
        "anyOf": [_one_of("auto", "none", "required"), forced],
        "description": "Whether a tool must be called, and which.",
    }


def _tool() -> Schema:
    return _object(
        ["type", "function"],
        type={"const": "function"},
        function=_object(
            ["name"],
            name=_NAME,
            description=_text(),
            parameters=_or_null({"type": "object"}, "A JSON schema; the model sees it as it is."),
            strict=_switch("Calls keep to `parameters`."),
        ),
    )


def _chat(model: Schema) -> Schema:
    roles = [_ref(name) for name in ("SaidMessage", "AssistantMessage", "ToolMessage")]
    thinking = _switch("Refused where the chat template has no such switch.")
    return _object(
        ["messages"],
        model=model,
        messages=_listed({"anyOf": roles}, MAX_MESSAGES, 1),
        tools=_or_null(_listed(_ref("Tool"), MAX_TOOLS), "No two have one name."),
        tool_choice=_tool_choice(),
        parallel_tool_calls=_switch("false: one call at most."),
        functions=_NOTHING,
        function_call=_NOTHING,
        chat_template_kwargs=_or_null(_object([], enable_thinking=thinking)),
        **_sampling(),
        return_progress=_switch("Tell how far the prompt is read; only with `stream`."),
        max_completion_tokens=_whole(1, MAX_TOKENS, "Another name of `max_tokens`."),
        logprobs=_switch(),
        top_logprobs=_whole(0, MAX_LOGPROBS, "Only with `logprobs`."),
    )


def _completion(model: Schema) -> Schema:
    ids = _listed(_ID, MAX_IDS, 1)
    return _object(
        ["prompt"],
        model=model,
        prompt={
            "anyOf": [_TEXT, ids, _listed({"anyOf": [_TEXT, ids]}, MAX_PROMPTS, 1)],
            "description": "A text, token ids, or a list of these.",
        },
        echo=_switch("Begin with the prompt."),
        **_sampling(),
        logprobs=_whole(0, MAX_LOGPROBS, "Alternatives to each token."),
        best_of=_whole(1, MAX_CHOICES, "Only the same as `n`."),
        suffix=_NOTHING,
    )


def request_schemas(names: tuple[str, ...]) -> dict[str, Schema]:
    """The schemas of all bodies, by their names in the document.

    Args:
        names: of the model, as clients may give it.
    """
    model = _one_of(*names, told="May be left out.")
    return {
        "ChatRequest": _chat(model),
        "CompletionRequest": _completion(model),
        **_messages(),
        "Tool": _tool(),
        "ResponseFormat": _form(),
        "TokenizeRequest": _object(
            ["content"],
            content=_TEXT,
            parse_special=_switch("false: control tokens in it are plain text."),
        ),
        "DetokenizeRequest": _object(["tokens"], tokens=_listed(_ID, MAX_IDS)),
    }
