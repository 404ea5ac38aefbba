"""Which sampling applies when a request does not say: as transformers would, or as the model card advises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from qanat.checkpoint.config import ModelConfig
from qanat.engine.sampling_params import SamplingParams, shown
from qanat.errors import CheckpointError, RequestError, UnsupportedError

__all__ = [
    "CARD_MAX_TOKENS",
    "DIFFERENCES_FROM_TRANSFORMERS",
    "DescribedModel",
    "model_card_params",
    "params_like_transformers",
]

CARD_MAX_TOKENS = 32768
"""The output budget that the model cards advise for all but the hardest mathematics."""

DIFFERENCES_FROM_TRANSFORMERS: list[tuple[str, str, str, str]] = [
    (
        "max_tokens",
        "generation_config.json's max_new_tokens, else until a stop or the end of the context",
        "max_new_tokens or max_length of generation_config.json, else 20 new tokens",
        "20 tokens cut nearly every reply; the finish_reason says when the limit was hit",
    ),
    (
        "end tokens",
        "all that any file of the checkpoint names, <|im_end|> and <|endoftext|>",
        "eos_token_id of generation_config.json, else of config.json",
        "checkpoints without generation_config.json name only <|endoftext|> there, and chat would run on",
    ),
    (
        "dead vocabulary rows",
        "ids without a token are never chosen",
        "can be chosen",
        "the embedding is padded beyond the tokenizer; such an id has no text",
    ),
    (
        "top_k",
        "off where a request sets a temperature and nothing sets top_k",
        "50 when sampling, unless set",
        "asking for a temperature should not cut the distribution as well",
    ),
    (
        "random draws",
        "a counter-based generator: seed, choice and position decide",
        "torch's generator: the history of the process decides",
        "the same distribution, other texts for the same seed; ours do not depend on the batch",
    ),
    (
        "top_p and min_p cuts",
        "computed in float64",
        "computed in the dtype of the logits",
        "tokens within rounding of the cut may fall on the other side",
    ),
    (
        "stop texts",
        "left out of the text unless include_stop, and found wherever they start",
        "kept in the text",
        "clients of chat interfaces expect it",
    ),
    (
        "prompt longer than the context",
        "refused",
        "computed beyond max_position_embeddings",
        "the model was not trained there",
    ),
    (
        "images",
        "a prompt with image or video tokens is refused",
        "vision tower",
        "there is no vision tower yet",
    ),
]
"""(what, qanat, transformers' generate, why): every default in which `LLM` differs."""

# Settings that change which token comes next; each with the value that means "off".
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "penalty_alpha": (0, 0.0),
    "typical_p": (1, 1.0),
    "top_h": (),
    "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0),
    "no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1, 1.0),
    "encoder_no_repeat_ngram_size": (0,),
    "bad_words_ids": (),
    "force_words_ids": (),
    "constraints": (),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "exponential_decay_length_penalty": (),
    "sequence_bias": (),
    "guidance_scale": (1, 1.0),
    "watermarking_config": (),
    "min_length": (0,),
    "stop_strings": (),
    "diversity_penalty": (0, 0.0),
    "prompt_lookup_num_tokens": (),
}


class DescribedModel(Protocol):
    """The part of a `Checkpoint` that defaults depend on."""

    @property
    def config(self) -> ModelConfig:
        """The parsed config.json."""

    @property
    def generation_config(self) -> Mapping[str, Any]:
        """generation_config.json, {} if there is none."""


def params_like_transformers(checkpoint: DescribedModel) -> SamplingParams:
    """Sampling as `model.generate()` has it: generation_config.json where there is one, else greedy.

    Raises:
        UnsupportedError: the file asks for a way of generating that qanat does not have.
        CheckpointError: the file holds a value that makes no sense.
    """
    stored = {k: v for k, v in checkpoint.generation_config.items() if v is not None}
    for name, off in _UNSUPPORTED.items():
        if name in stored and stored[name] not in off:
            raise UnsupportedError(
                f"generation_config.json sets {name} to {stored[name]!r}, which qanat cannot do: "
                "remove it from the file to generate without it"
            )
    sampled = stored.get("do_sample", False)
    if not isinstance(sampled, bool):
        raise CheckpointError(
            f"generation_config.json: do_sample must be true or false, not {shown(sampled)}"
        )
    try:
        return SamplingParams(
            temperature=stored.get("temperature", 1.0) if sampled else 0.0,
            top_k=stored.get("top_k", 50) if sampled else 0,
            top_p=stored.get("top_p", 1.0) if sampled else 1.0,
            min_p=stored.get("min_p", 0.0) if sampled else 0.0,
            repetition_penalty=stored.get("repetition_penalty", 1.0),
            presence_penalty=0.0,
            frequency_penalty=0.0,
            max_tokens=stored.get("max_new_tokens"),
            min_tokens=stored.get("min_new_tokens"),
        )
    except RequestError as error:
        raise CheckpointError(f"generation_config.json: {error}") from None


def model_card_params(checkpoint: DescribedModel, thinking: bool) -> SamplingParams:
    """Sampling as the model cards of Qwen3.5 advise for text (docs/model.md, section 9).

    Models smaller than any published one have no card: `params_like_transformers` then.
    """
    text = checkpoint.config.text
    if text.hidden_size < 1024:
        return params_like_transformers(checkpoint)
    # 0.8B and 2B have 24 layers; 4B and up at least 32, mixtures of experts at least 40.
    small = text.num_hidden_layers <= 24
    if small:
        temperature, top_p, presence = (1.0, 0.95, 1.5) if thinking else (1.0, 1.0, 2.0)
    else:
        temperature, top_p, presence = (1.0, 0.95, 1.5) if thinking else (0.7, 0.8, 1.5)
    return SamplingParams(
        temperature=temperature,
        top_k=20,
        top_p=top_p,
        min_p=0.0,
        repetition_penalty=1.0,
        presence_penalty=presence,
        frequency_penalty=0.0,
        max_tokens=CARD_MAX_TOKENS,
    )
