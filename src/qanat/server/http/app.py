"""The ASGI application: routes, and what becomes of errors that no endpoint handles."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qanat.server.chat_request import read_chat_request
from qanat.server.completion_request import read_completion_request
from qanat.server.errors import log_bug
from qanat.server.http.api_keys import ApiKeys
from qanat.server.http.body import ClientGoneError, refuse_body
from qanat.server.http.generation import Generation
from qanat.server.http.guard import Guard
from qanat.server.http.questions import Questions, answering
from qanat.server.http.replies import error_reply, refusal
from qanat.server.http.service import Service

__all__ = ["create_app", "create_routes"]

_WORDS = {404: "there is nothing under this path", 405: "this path is not asked with this method"}


def create_app(service: Service, keys: ApiKeys | None) -> ASGIApp:
    """The application. Whoever is let in by the guard finds the routes."""
    routes = create_routes(service)
    settings = service.settings
    return Guard(
        _Outcomes(Router(routes, redirect_slashes=False), service, frozenset(route.path for route in routes)),
        keys=keys,
        host=settings.host,
        origins=settings.origins,
    )


def create_routes(service: Service) -> list[Route]:
    """All paths."""
    asked = Questions(service)
    gets = {
        "/health": asked.health,
        "/metrics": asked.metrics,
        "/openapi.json": asked.openapi,
        "/v1/models": asked.models,
        "/v1/models/{name:path}": asked.model,
    }
    posts = {
        "/tokenize": asked.tokenize,
        "/detokenize": asked.detokenize,
        "/apply-template": asked.apply_template,
    }
    generations = {
        "/v1/chat/completions": Generation(service, read_chat_request),
        "/v1/completions": Generation(service, read_completion_request),
    }
    return [
        *(Route(path, answering(endpoint), methods=["GET"]) for path, endpoint in gets.items()),
        *(Route(path, answering(endpoint), methods=["POST"]) for path, endpoint in posts.items()),
        *(Route(path, endpoint, methods=["POST"]) for path, endpoint in generations.items()),
    ]


class _Outcomes:
    """Turns what an endpoint raises into an answer, and counts answers."""

    def __init__(self, app: ASGIApp, service: Service, paths: frozenset[str]) -> None:
        self._app = app
        self._paths = paths
        self._answers = service.metrics.answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status: int | None = None

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        scope["app"] = self._app  # so that the router raises what it cannot find, as errors of one form
        try:
            await self._app(scope, receive, noting)
        except HTTPException as error:
            message = _WORDS.get(error.status_code, error.detail)
            headers = dict(error.headers or {})
            answer = refusal(error.status_code, message, headers=headers)
            if "connection" in headers:
                await refuse_body(answer, receive, noting)
            else:
                await answer(scope, receive, noting)
        except ClientGoneError:
            status = 499  # as nginx counts them
        except TimeoutError:  # it does not read what it asked for
            status = 499
        except Exception as error:
            log_bug(error)
            if status is None:
                await error_reply(error)(scope, receive, noting)
        path = scope["path"] if scope["path"] in self._paths else "other"  # a client must not make up labels
        self._answers.labels(path, str(status)).inc()
