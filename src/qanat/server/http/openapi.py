"""The OpenAPI document: what can be asked, with what, and what comes back.

Version 3.2, which is the first that can say what the events of a stream are.
"""

from __future__ import annotations

from typing import Any

from qanat import __version__
from qanat.server.http.answer_schemas import answer_schemas
from qanat.server.http.request_schemas import request_schemas
from qanat.server.http.settings import ServerSettings

__all__ = ["openapi_document"]

Part = dict[str, Any]

_REFUSALS = {
    "400": "The request cannot be used; the message says why, `param` where.",
    "401": "No API key, or a wrong one.",
    "403": "The Host or Origin header is one that is not let in.",
    "404": "Another model than the one that answers, or no such path.",
    "405": "The path is not asked with this method.",
    "408": "The request did not arrive in time, or its time was up.",
    "413": "The body is too large.",
    "415": "The body has a Content-Encoding.",
    "429": "As much is under way as may be.",
    "431": "The head of the request is too long.",
    "500": "The model's or qanat's fault.",
    "503": "Nobody can answer now.",
}
_ALWAYS = ("403", "405", "431", "500", "503")
"""What any path may answer, whatever it is asked: 503 with too many connections too."""
_WITH_BODY = ("400", "408", "413", "415", "429")
_AGAIN = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}


def openapi_document(settings: ServerSettings) -> Part:
    """OpenAPI 3.2 for one server."""
    schemas = {**request_schemas(settings.names), **answer_schemas()}
    document: Part = {
        "openapi": "3.2.0",
        "info": {
            "title": "qanat",
            "version": __version__,
            "description": "OpenAI's API in front of a Qwen3.5 model.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(settings.names),
        "components": {
            "schemas": schemas,
            "responses": {status: _refusal(status, told) for status, told in _REFUSALS.items()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
    }
    if settings.key_file is not None:
        document["security"] = [{"bearer": []}, {"header": []}]
    return document


def _paths(names: tuple[str, ...]) -> Part:
    name = _path("name", {"enum": list(names)})
    return {
        "/v1/chat/completions": _generation("chat", "Answer a conversation", "Chat", "ChatCompletion"),
        "/v1/completions": _generation("complete", "Continue texts", "Completion", "Completion"),
        "/v1/models": {"get": _operation("listModels", "The names of the model", _json("ModelList"))},
        "/v1/models/{name}": {
            "get": _operation("getModel", "One of them", _json("Model"), "404", parameters=[name])
        },
        "/tokenize": _question("tokenize", "Token ids of a text", "TokenizeRequest", "Tokens"),
        "/detokenize": _question("detokenize", "The text of token ids", "DetokenizeRequest", "Text"),
        "/apply-template": _question(
            "applyTemplate", "The text that the model would read", "ChatRequest", "Prompt", "404"
        ),
        "/explain": _question(
            "explain", "Every stage of a prompt, up to its token ids", "ChatRequest", "Stages", "404"
        ),
        "/": {"get": _page("page", "A page to talk to the model")},
        "/page/{name}": {
            "get": _page(
                "pageFile", "A file of the page", "404", parameters=[_path("name", {"type": "string"})]
            )
        },
        "/health": {"get": _health()},
        "/metrics": {
            "get": _operation(
                "metrics", "Figures for Prometheus", {"text/plain": {"schema": {"type": "string"}}}
            )
        },
        "/openapi.json": {
            "get": _operation(
                "openapi", "This document", {"application/json": {"schema": {"type": "object"}}}
            )
        },
    }


def _path(name: str, schema: Part) -> Part:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _page(identity: str, summary: str, *more: str, **parts: Any) -> Part:
    """A file that needs no key."""
    operation = _operation(identity, summary, {"*/*": {}}, *more, **parts)
    del operation["responses"]["401"]
    return {**operation, "security": []}


def _operation(identity: str, summary: str, content: Part, *more: str, **parts: Any) -> Part:
    refusals = sorted(("401", *_ALWAYS, *more))
    return {
        "operationId": identity,
        "summary": summary,
        **parts,
        "responses": {
            "200": {"description": "The answer.", "content": content},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in refusals},
        },
    }


def _question(identity: str, summary: str, body: str, answer: str, *more: str) -> Part:
    asked = {"required": True, "content": _json(body)}
    operation = _operation(identity, summary, _json(answer), *_WITH_BODY, *more, requestBody=asked)
    return {"post": operation}


def _generation(identity: str, summary: str, kind: str, answer: str) -> Part:
    """The answer is one object, or with `stream` one event after the other."""
    path = _question(identity, summary, f"{kind}Request", answer, "404")
    data = {
        "anyOf": [
            {"const": "[DONE]"},
            {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {"anyOf": [_schema(f"{answer}Chunk"), _schema("Error")]},
            },
        ]
    }
    events = {"itemSchema": {"type": "object", "properties": {"data": data}, "required": ["data"]}}
    path["post"]["responses"]["200"]["content"]["text/event-stream"] = events
    return path


def _health() -> Part:
    operation = _operation("health", "Whether requests are answered", _json("Health"))
    del operation["responses"]["401"]
    either = {"anyOf": [_schema("Health"), _schema("Error")]}
    operation["responses"]["503"] = {
        "description": "They are not.",
        "content": {"application/json": {"schema": either}},
    }
    return {**operation, "security": []}


def _refusal(status: str, told: str) -> Part:
    response: Part = {"description": told, "content": _json("Error")}
    return {**response, "headers": _AGAIN} if status in ("429", "503") else response


def _json(schema: str) -> Part:
    return {"application/json": {"schema": _schema(schema)}}


def _schema(name: str) -> Part:
    return {"$ref": f"#/components/schemas/{name}"}
