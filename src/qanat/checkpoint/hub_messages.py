"""What to tell somebody whose model could not be fetched: what was wanted, why not, and the ways round."""

from __future__ import annotations

import errno
from difflib import get_close_matches
from json import JSONDecodeError
from typing import Literal

from qanat.checkpoint.resolve import BUILT_IN
from qanat.checkpoint.strict_json import as_one_line
from qanat.errors import CheckpointError, ModelNotFoundError

__all__ = ["explain", "translate"]

LOGIN = "log in with `hf auth login`, or set HF_TOKEN"
Kind = Literal["offline", "unreachable", "strange", "refused"]
PUBLIC = "https://huggingface.co"


def endpoint() -> str:
    """Give the address of the hub in use (HF_ENDPOINT, or the public one), without a password in it."""
    from huggingface_hub import constants

    scheme, _, rest = constants.ENDPOINT.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest


def explain(kind: Kind, model: str, revision: str | None, detail: str) -> str:
    """Build the one-line message for a model that could not be had."""
    return _explain(kind, model, revision, detail) + _meant(model)


def _meant(model: str) -> str:
    """Ask, after a slip of the fingers, whether the built-in model was meant."""
    near = get_close_matches(model.lower(), [BUILT_IN], cutoff=0.75)
    return f"; did you mean {BUILT_IN}, the built-in model?" if near and "/" not in model else ""


def _explain(kind: Kind, model: str, revision: str | None, detail: str) -> str:
    wanted = model if revision is None else f"{model} (revision {as_one_line(revision)})"
    if kind == "offline":
        state = f"the cached copy is incomplete: {detail}" if detail else "it is not in the cache"
        return (
            f"{wanted}: offline, and {state}; go online (without --offline and HF_HUB_OFFLINE), or run "
            f"`qanat pull {model}` where there is a network and copy the folder of the cache, or give the "
            "path of a copied model folder"
        )
    if kind == "refused":
        return f"{wanted}: {detail}"
    if kind == "strange":
        return (
            f"{wanted}: {endpoint()} answered, but not as a hub does ({detail}); log in to the network in a "
            "browser, or correct HF_ENDPOINT, or give the path of a copied model folder"
        )
    return (
        f"{wanted}: the hub at {endpoint()} cannot be reached ({detail}); give the path of a copied model "
        f"folder, or set HF_ENDPOINT to a mirror, or run `qanat pull {model}` where there is a network and "
        "copy the folder of the cache"
    )


def translate(problem: BaseException, model: str, revision: str | None) -> CheckpointError:
    """Turn an error of the hub's client into ours.

    Anything the client did not get an answer to counts as unreachable; an answer that refuses is explained.
    """
    from huggingface_hub import errors

    def refused(detail: str) -> ModelNotFoundError:
        return ModelNotFoundError(explain("refused", model, revision, detail))

    if isinstance(problem, errors.OfflineModeIsEnabled):
        return ModelNotFoundError(explain("offline", model, revision, ""))
    if isinstance(problem, errors.HFValidationError):
        return refused("not a valid id of a hub repository (like Qwen/Qwen3.5-0.8B)")
    if isinstance(problem, errors.GatedRepoError):
        return refused(f"access is restricted; accept its terms at {endpoint()}/{model} and {LOGIN}")
    if isinstance(problem, errors.RevisionNotFoundError):
        return refused("the repository exists, that revision does not; leave the revision out, or correct it")
    if isinstance(problem, errors.HfHubHTTPError):
        return refused(_http_detail(problem))
    if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return CheckpointError(f"{model}: the disk became full; free some space and download again")
    if isinstance(problem, PermissionError):
        return CheckpointError(
            f"{model}: the cache is not writable ({problem}); set HF_HOME to another folder"
        )
    if isinstance(problem, JSONDecodeError):  # where a network wants a login, its page answers everything
        return ModelNotFoundError(explain("strange", model, revision, "a login page?"))
    detail = " ".join(f"{type(problem).__name__}: {problem}".split())
    return ModelNotFoundError(explain("unreachable", model, revision, detail[:200]))


def _http_detail(problem: BaseException) -> str:
    from huggingface_hub import errors

    status = getattr(getattr(problem, "response", None), "status_code", None)
    if status == 404:
        # The hub names its reason in a header, which the client turns into an error of its own kind.
        said_by_a_hub = isinstance(problem, errors.RepositoryNotFoundError) or endpoint() == PUBLIC
        mirror = "" if said_by_a_hub else ", or the endpoint is no mirror of the hub (correct HF_ENDPOINT)"
        return (
            f"no such repository at {endpoint()}; check the spelling, or, if it is private, {LOGIN}{mirror}"
        )
    if status == 401:
        return (
            f"{endpoint()} answered 401: no such repository, or it is private and wants a valid login; "
            f"check the spelling, or {LOGIN}"
        )
    if status == 403:
        return f"{endpoint()} answered 403: your token may not read it; ask its owner for access, or {LOGIN}"
    if status == 429:
        return f"{endpoint()} answered 429, too many requests; wait a few minutes, or {LOGIN}"
    return f"{endpoint()} answered {status}; try again later, or set HF_ENDPOINT to a mirror"
