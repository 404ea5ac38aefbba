"""What transformers makes of a conversation: its text, or how it refuses. Needs transformers."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from assets import SHARED
from tests.text.template_cases import Case

# The published templates by a short name; the big Qwen3.5 models share one, the small ones another.
PUBLISHED = {
    "small": SHARED / "qwen3.5" / "0.8B" / "chat_template.jinja",
    "big": SHARED / "qwen3.5" / "9B" / "chat_template.jinja",
    "3.6": SHARED / "qwen3.6" / "chat_template.jinja",
    "3.8": SHARED / "qwen3.8" / "chat_template.jinja",
}
SPECIAL_TOKENS = {
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_bos_token": "<|vision_start|>",
    "vision_eos_token": "<|vision_end|>",
}


def published(name: str) -> str:
    return Path(PUBLISHED[name]).read_text(encoding="utf-8")


def reference_tokenizer() -> Any:
    """A tokenizer of transformers with no vocabulary to speak of: only its templates are used."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    named = {key: SPECIAL_TOKENS[key] for key in ("eos_token", "pad_token")}
    extra = {key: value for key, value in SPECIAL_TOKENS.items() if key not in named}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")),
        **named,
        extra_special_tokens=extra,
    )
    assert tokenizer.special_tokens_map == SPECIAL_TOKENS
    return tokenizer


def outcome(tokenizer: Any, template: str, case: Case) -> list[str]:
    """`[kind, text]` of a rendering.

    Kinds: `text`; `error`, the template's or Jinja's own message; `python`, a message of Python's from
    inside the template; `refused`, transformers' own check of the arguments.
    """
    from jinja2 import TemplateError

    try:
        rendered = tokenizer.apply_chat_template(
            case.messages, chat_template=template, tokenize=False, **case.options
        )
        # A batch gives a list of texts; qanat renders one conversation at a time.
        return ["text", rendered] if isinstance(rendered, str) else ["refused", "batch"]
    except TemplateError as error:
        return ["error", str(error)]
    except Exception as error:
        inside = any("jinja2" in frame.filename for frame in traceback.extract_tb(error.__traceback__))
        return ["python" if inside else "refused", str(error)]
