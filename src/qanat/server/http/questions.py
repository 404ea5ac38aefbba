"""The endpoints beside generation: what there is, what a text is in tokens, how it all goes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, TypeVar

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from qanat.engine.stats import EngineStats
from qanat.errors import QanatError
from qanat.server.answering import check_model
from qanat.server.chat_request import read_chat_request
from qanat.server.engine_client import Answer, Detokenize, Explain, Question, Render, Stats, Tokenize
from qanat.server.fields import Fields, boolean, integer, listed, text
from qanat.server.http.access_log import ENTRY
from qanat.server.http.body import read_json
from qanat.server.http.metrics import CONTENT_TYPE
from qanat.server.http.openapi import openapi_document
from qanat.server.http.replies import error_reply, json_reply, response_headers
from qanat.server.http.service import Service

__all__ = ["Questions", "answering"]

T = TypeVar("T")

MAX_IDS = 1 << 20
_ids = listed(integer(0, 2**31 - 1), most=MAX_IDS)

Endpoint = Callable[[HttpRequest], Awaitable[Response]]


class Questions:
    """These endpoints of one server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._created = int(time.time())

    async def health(self, request: HttpRequest) -> Response:
        """200 if requests are answered, else 503."""
        state = self._service.state
        return json_reply({"status": state}, 200 if state == "ready" else 503)

    async def models(self, request: HttpRequest) -> Response:
        """All names of the model."""
        names = self._service.settings.names
        return json_reply({"object": "list", "data": [self._model(name) for name in names]})

    async def model(self, request: HttpRequest) -> Response:
        """One of them."""
        name = request.path_params["name"]
        check_model(name, list(self._service.settings.names))
        return json_reply(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        info = self._service.engine.info
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "qanat",
            "root": self._service.settings.names[0],  # several names, one model
            "max_model_len": None if info is None else info.context,
            "chat_defaults": None if info is None or info.chat is None else asdict(info.chat),
        }

    async def tokenize(self, request: HttpRequest) -> Response:
        """Token ids of `content`; with `parse_special` false its control tokens are plain text."""
        ids = await self._ask(await self._read(request, _tokenize))
        assert isinstance(ids, list)
        return json_reply({"tokens": ids, "count": len(ids)})

    async def detokenize(self, request: HttpRequest) -> Response:
        """Text of `tokens`."""
        return json_reply({"content": await self._ask(await self._read(request, _detokenize))})

    async def apply_template(self, request: HttpRequest) -> Response:
        """The prompt that a body of /v1/chat/completions would put to the model."""
        chat = await self._read(request, read_chat_request)
        check_model(chat.model, list(self._service.settings.names))
        return json_reply({"prompt": await self._ask(Render(chat))})

    async def openapi(self, request: HttpRequest) -> Response:
        """What can be asked here."""
        return json_reply(openapi_document(self._service.settings))

    async def explain(self, request: HttpRequest) -> Response:
        """Every stage from a body of /v1/chat/completions to the ids that the model would read."""
        chat = await self._read(request, read_chat_request)
        check_model(chat.model, list(self._service.settings.names))
        answer = await self._ask(Explain(chat))
        assert isinstance(answer, str)
        return Response(answer, headers=response_headers("application/json"))

    async def metrics(self, request: HttpRequest) -> Response:
        """Figures for Prometheus. An engine that cannot be asked has none."""
        stats = None
        try:
            answer = await self._service.engine.ask(Stats())
            assert isinstance(answer, EngineStats)
            stats = answer
        except QanatError:  # `qanat_up` says so
            pass
        data = self._service.metrics.text(
            state=self._service.state, inside=self._service.requests.inside, stats=stats
        )
        return Response(data, headers=response_headers(CONTENT_TYPE))

    async def _read(self, request: HttpRequest, read: Callable[[Any], T]) -> T:
        settings = self._service.settings
        return await read_json(
            request.scope, request.receive, read, most=settings.most_body, seconds=settings.stall
        )

    async def _ask(self, question: Question) -> Answer:
        with self._service.questions.place():
            return await self._service.engine.ask(question)


def _tokenize(value: Any) -> Tokenize:
    body = Fields(value)
    content = body.require("content", text)
    special = body.take("parse_special", boolean)
    body.close()
    return Tokenize(content, plain=special is False)


def _detokenize(value: Any) -> Detokenize:
    body = Fields(value)
    ids = body.require("tokens", _ids)
    body.close()
    return Detokenize(ids)


def answering(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with qanat's errors as answers."""

    async def answered(request: HttpRequest) -> Response:
        try:
            return await endpoint(request)
        except QanatError as error:
            request.scope[ENTRY].fail(error)
            return error_reply(error)

    return answered
