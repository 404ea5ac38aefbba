"""The ASGI application: routes, and what becomes of errors that no endpoint handles."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qanat.server.chat_request import read_chat_request
from qanat.server.completion_request import read_completion_request
from qanat.server.errors import log_bug
from qanat.server.http.access_log import ENTRY, GONE, AccessLog, as_json, as_text, to_stdout
from qanat.server.http.api_keys import ApiKeys
from qanat.server.http.body import ClientGoneError, refuse_body
from qanat.server.http.generation import Generation
from qanat.server.http.guard import Guard
from qanat.server.http.page_files import page_paths, serve_page
from qanat.server.http.questions import Questions, answering
from qanat.server.http.replies import error_reply, refusal
from qanat.server.http.service import Service

__all__ = ["create_app", "create_routes"]

_WORDS = {404: "there is nothing under this path", 405: "this path is not asked with this method"}
_FORMS = {"none": None, "text": as_text, "json": as_json}


def create_app(service: Service, keys: ApiKeys | None) -> AccessLog:
    """The application. Every request is noted; whoever is let in by the guard finds the routes."""
    routes = create_routes(service)
    settings = service.settings
    guarded = Guard(
        _Outcomes(Router(routes, redirect_slashes=False)),
        keys=keys,
        host=settings.host,
        origins=settings.origins,
        open_paths=frozenset({"/health", *page_paths()}),
    )
    form = _FORMS[settings.log]
    return AccessLog(
        guarded,
        answers=service.metrics.answers,
        paths=frozenset(route.path for route in routes),
        write=None if form is None else to_stdout(form),
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
        "/explain": asked.explain,
    }
    generations = {
        "/v1/chat/completions": Generation(service, read_chat_request),
        "/v1/completions": Generation(service, read_completion_request),
    }
    return [
        *(Route(path, answering(endpoint), methods=["GET"]) for path, endpoint in gets.items()),
        *(Route(path, answering(endpoint), methods=["POST"]) for path, endpoint in posts.items()),
        *(Route(path, endpoint, methods=["POST"]) for path, endpoint in generations.items()),
        *(Route(path, serve_page, methods=["GET"]) for path in ("/", "/page/{name:path}")),
    ]


class _Outcomes:
    """Turns what an endpoint raises into an answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        scope["app"] = self._app  # so that the router raises what it cannot find, as errors of one form
        try:
            await self._app(scope, receive, noting)
        except HTTPException as error:
            message = _WORDS.get(error.status_code, error.detail)
            headers = dict(error.headers or {})
            if error.status_code == 405:
                message += f"; it may be asked with {headers.get('Allow', 'another one')}"
            answer = refusal(error.status_code, message, headers=headers)
            if "connection" in headers:
                await refuse_body(answer, receive, noting)
            else:
                await answer(scope, receive, noting)
        except (ClientGoneError, TimeoutError):  # TimeoutError: it does not read what it asked for
            scope[ENTRY].status = GONE
        except Exception as error:
            log_bug(error)
            scope[ENTRY].fail(error)
            if not begun:
                await error_reply(error)(scope, receive, noting)
