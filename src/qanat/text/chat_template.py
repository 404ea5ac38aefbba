"""From a conversation to the prompt's text, by the checkpoint's own chat template.

The result equals transformers' `apply_chat_template(..., tokenize=False)` (docs/frontend.md section 8).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2.exceptions import TemplateSyntaxError

from qanat.errors import TemplateError
from qanat.text.continue_message import cut_at_marker, mark_last_message
from qanat.text.sanitize import AddedTokenLike, ControlTokens, split_marked
from qanat.text.segments import Segment
from qanat.text.template_data import check_documents, plain, plain_messages, tool_schemas
from qanat.text.template_environment import compile_template

__all__ = ["ChatTemplate", "has_vision"]

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class ChatTemplate:
    """A chat template and the special tokens it may name.

    Args:
        source: the Jinja text.
        special_tokens: variables for the template: `eos_token`, `image_token`, ...
        name: what to call the template in errors, usually its file.

    Raises:
        TemplateError: the text is not a valid template; the message names file and line.
    """

    def __init__(
        self, source: str, special_tokens: Mapping[str, str] | None = None, *, name: str = "chat template"
    ) -> None:
        self.source = source
        self.special_tokens = dict(special_tokens or {})
        try:
            self._compiled = compile_template(source)
        except TemplateSyntaxError as error:
            raise TemplateError(f"{name}, line {error.lineno}: {error.message}") from error
        except Exception as error:  # nested too deeply for Python's compiler, `break` outside a loop, ...
            raise TemplateError(
                f"{name}: cannot be compiled: {str(error) or type(error).__name__}"
            ) from error

    @classmethod
    def from_folder(cls, path: str | Path) -> ChatTemplate:
        """Read the template of a model folder.

        `chat_template.jinja` wins over the `chat_template` in tokenizer_config.json, which also
        names the special tokens. Raises TemplateError when the folder has neither or it is damaged.
        """
        folder = Path(path)
        settings_file = folder / "tokenizer_config.json"
        template_file = folder / "chat_template.jinja"
        settings = _read_settings(settings_file)
        if os.path.lexists(template_file):  # a broken link is damage, not absence
            return cls(_read(template_file), _special_tokens(settings), name=str(template_file))
        source = settings.get("chat_template")
        if source is None:
            raise TemplateError(
                f"{folder}: no chat template (looked for chat_template.jinja and for chat_template in "
                "tokenizer_config.json); use plain prompts with this model."
            )
        if not isinstance(source, str):
            raise TemplateError(
                f"{settings_file}: chat_template holds several templates; put the one to use into "
                f"{template_file.name}."
            )
        return cls(source, _special_tokens(settings), name=f"{settings_file}: chat_template")

    @property
    def variables(self) -> frozenset[str]:
        """The names the template reads; a keyword outside of them would change nothing.

        Some may be the template's own, which it sets only on some of its ways.
        """
        return self._compiled.variables

    def render(
        self,
        messages: Any,
        *,
        tools: Sequence[dict[str, Any] | Callable[..., Any]] | None = None,
        documents: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        **template_kwargs: Any,
    ) -> str:
        """The prompt for one conversation.

        Args:
            messages: dictionaries with `role` and `content` (dataclasses and pydantic models are
                accepted too), or an object with such a list in `.messages`.
            tools: JSON schemas, or functions described by their type hints and docstring.
            documents: dictionaries for templates that read `documents`.
            add_generation_prompt: open the assistant's turn at the end.
            continue_final_message: end the prompt inside the last message, in its `content` (True)
                or in the field named.
            **template_kwargs: the template's own switches, such as `enable_thinking`.

        Raises:
            TemplateError: the template refuses the conversation (its own words), or the arguments
                are not of the kinds above.
        """
        return self._render(
            messages,
            tools,
            documents,
            template_kwargs,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
        )

    def render_segments(
        self,
        messages: Any,
        *,
        added_tokens: Iterable[AddedTokenLike],
        tools: Sequence[dict[str, Any] | Callable[..., Any]] | None = None,
        documents: Sequence[dict[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        **template_kwargs: Any,
    ) -> list[Segment]:
        """As `render`, but control tokens that come from the arguments are set apart as untrusted.

        Encoded by `Tokenizer.encode_prompt`, a user's `<|im_end|>` ends no turn. The ids are those of
        transformers' `sanitize_control_tokens=True`. Keys of dictionaries are not looked at.

        Args:
            added_tokens: the tokenizer's added tokens. Control tokens are the special ones, and the
                others that stand in the template's own text.
        """
        control = ControlTokens.of_template(self._compiled.literals, added_tokens)
        prompt = self._render(
            messages,
            tools,
            documents,
            template_kwargs,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            mark=control.mark,
        )
        return split_marked(prompt, control)

    def _render(
        self,
        messages: Any,
        tools: Any,
        documents: Any,
        template_kwargs: Mapping[str, Any],
        *,
        add_generation_prompt: bool,
        continue_final_message: bool | str,
        mark: Callable[[Any], Any] = lambda value: value,
    ) -> str:
        if continue_final_message and add_generation_prompt:
            raise TemplateError(
                "continue_final_message and add_generation_prompt are not compatible: the first ends the "
                "prompt inside the last message, the second opens a new one."
            )
        try:
            conversation = mark(plain_messages(messages))
            variables = {
                **self.special_tokens,
                **mark(plain(template_kwargs)),
                "messages": conversation,
                "tools": tool_schemas(tools, mark),
                "documents": mark(check_documents(documents)),
                "add_generation_prompt": add_generation_prompt,
            }
            if not continue_final_message:
                return self._compiled.render(variables)
            field = continue_final_message if isinstance(continue_final_message, str) else "content"
            text = mark_last_message(conversation, field, self.source)
            return cut_at_marker(self._compiled.render(variables), text)
        except TemplateError:
            raise
        except RecursionError as error:
            raise TemplateError("The conversation or the chat template is nested too deeply.") from error
        except Exception as error:  # whatever a template does wrong is the input's fault, in its own words
            raise TemplateError(str(error) or type(error).__name__) from error


def has_vision(messages: Any) -> str | None:
    """Where the first image or video of a conversation stands, in words; None if there is none.

    Templates write a placeholder for each, which only means something to a model that is also given
    the pictures. An item counts if the templates of the family would take it for one.
    """
    for number, message in enumerate(plain_messages(messages), start=1):
        content = message.get("content")
        if not isinstance(content, list | tuple):
            continue
        for item in content:
            kind = _vision_kind(item)
            if kind is not None:
                return f"{kind} in message {number} ({message.get('role', 'no role')})"
    return None


def _vision_kind(item: Any) -> str | None:
    if not isinstance(item, str | dict):
        return None
    kind = item.get("type") if isinstance(item, dict) else None
    if "image" in item or "image_url" in item or kind == "image":
        return "an image"
    if "video" in item or kind == "video":
        return "a video"
    return None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError(f"{file}: cannot be read as UTF-8 text: {error}") from error


def _read_settings(file: Path) -> dict[str, Any]:
    if not os.path.lexists(file):
        return {}
    try:
        settings = json.loads(_read(file))
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"{file}: not valid JSON: {error}") from error
    if not isinstance(settings, dict):
        raise TemplateError(f"{file}: should hold a JSON object, not {type(settings).__name__}")
    return settings


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """The tokens a template can name: the usual seven and the model's `extra_special_tokens`."""
    named = {name: settings.get(name) for name in _NAMED_TOKENS}
    extra = settings.get("extra_special_tokens")
    if isinstance(extra, Mapping):
        named.update(extra)
    tokens: dict[str, str] = {}
    for name, token in named.items():
        text = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(text, str):
            tokens[name] = text
    return tokens
