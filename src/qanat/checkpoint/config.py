"""config.json of a whole checkpoint: which architecture, and the text and vision parts of it.

Takes the published nested form (`text_config`, `vision_config`) and the flat form of a text-only re-save.
Source: docs/model.md, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qanat.checkpoint.fields import Fields
from qanat.checkpoint.strict_json import read_json_file, shown
from qanat.checkpoint.text_config import MAX_VOCAB, MoEConfig, TextConfig
from qanat.checkpoint.vision_config import VisionConfig
from qanat.errors import ConfigError, UnsupportedError

__all__ = ["ARCHITECTURES", "MoEConfig", "ModelConfig", "TextConfig", "VisionConfig"]

# architecture -> (model_type at the top, model_type of the text part, mixture of experts?, may have vision?)
ARCHITECTURES: Mapping[str, tuple[str, str, bool, bool]] = {
    "Qwen3_5ForConditionalGeneration": ("qwen3_5", "qwen3_5_text", False, True),
    "Qwen3_5MoeForConditionalGeneration": ("qwen3_5_moe", "qwen3_5_moe_text", True, True),
    "Qwen3_5ForCausalLM": ("qwen3_5_text", "qwen3_5_text", False, False),
    "Qwen3_5MoeForCausalLM": ("qwen3_5_moe_text", "qwen3_5_moe_text", True, False),
}


@dataclass(frozen=True)
class ModelConfig:
    """Everything config.json says that qanat acts on."""

    architecture: str
    text: TextConfig
    vision: VisionConfig | None
    image_token_id: int
    video_token_id: int
    vision_start_token_id: int
    vision_end_token_id: int
    eos_token_id: tuple[int, ...]  # of the top level only; the text part has its own
    raw: dict[str, Any] = field(repr=False, compare=False)

    @property
    def tie_word_embeddings(self) -> bool:
        """Whether the output head is the embedding."""
        return self.text.tie_word_embeddings

    @property
    def num_parameters(self) -> int:
        """Numbers in all parts: text, multi-token prediction, vision."""
        vision = self.vision.num_parameters if self.vision else 0
        return self.text.num_parameters + self.text.num_mtp_parameters + vision

    @classmethod
    def from_file(cls, path: str | Path) -> ModelConfig:
        """Read a config.json.

        Raises:
            ConfigError: unreadable, damaged or contradictory.
            UnsupportedError: another architecture, or a setting that qanat does not implement.
        """
        file = Path(path)
        return cls.from_dict(read_json_file(file, ConfigError), where=str(file))

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], *, where: str = "config.json") -> ModelConfig:
        """Read a parsed config.json; `where` is how messages call it.

        Raises:
            ConfigError: a field is of the wrong type, out of bounds, or contradicts another.
            UnsupportedError: another architecture, or a setting that qanat does not implement.
        """
        top = Fields(d, where)
        architecture = _architecture(top)
        _, text_type, moe, may_have_vision = ARCHITECTURES[architecture]
        inner = top.mapping("text_config")
        text = top if inner is None else Fields(inner, f"{where}: text_config")
        for fields in (top, text):
            _refuse_quantised(fields)
        if inner is not None and text.text("model_type", text_type) != text_type:
            raise text.fail("model_type", f"{text_type!r}, which belongs to {architecture}")
        tied = top.boolean("tie_word_embeddings", text.boolean("tie_word_embeddings", False))
        parsed = TextConfig.from_dict(text.values, moe=moe, tied=tied, where=text.where)
        tower = top.mapping("vision_config") if may_have_vision else None
        vision = None
        if tower is not None:
            vision = VisionConfig.from_dict(
                tower, text_hidden=parsed.hidden_size, where=f"{where}: vision_config"
            )
        return cls(
            architecture=architecture,
            text=parsed,
            vision=vision,
            image_token_id=top.integer("image_token_id", 248056, low=0, high=MAX_VOCAB),
            video_token_id=top.integer("video_token_id", 248057, low=0, high=MAX_VOCAB),
            vision_start_token_id=top.integer("vision_start_token_id", 248053, low=0, high=MAX_VOCAB),
            vision_end_token_id=top.integer("vision_end_token_id", 248054, low=0, high=MAX_VOCAB),
            eos_token_id=top.token_ids("eos_token_id"),
            raw=dict(d),
        )


def _architecture(top: Fields) -> str:
    """Name the architecture by `architectures`, or by `model_type` alone; the two must agree."""
    listed = top.sequence("architectures")
    model_type = top.text("model_type")
    known = ", ".join(ARCHITECTURES)
    if listed:
        name = listed[0]
        if not isinstance(name, str) or name not in ARCHITECTURES:
            raise UnsupportedError(f"{top.where}: the architecture is {shown(name)}, and qanat runs {known}")
        if model_type is not None and model_type not in ARCHITECTURES[name][:2]:
            raise top.fail("model_type", f"{ARCHITECTURES[name][0]!r}, which belongs to {name}")
        return name
    if model_type is None:
        raise ConfigError(
            f"{top.where}: neither architectures nor model_type is there; expected one of {known}"
        )
    for name, (top_type, *_) in ARCHITECTURES.items():
        if model_type == top_type:
            return name
    raise UnsupportedError(f"{top.where}: model_type is {shown(model_type)}, and qanat runs {known}")


def _refuse_quantised(fields: Fields) -> None:
    quantisation = fields.values.get("quantization_config")
    if quantisation is None:
        return
    method = quantisation.get("quant_method") if isinstance(quantisation, dict) else quantisation
    raise UnsupportedError(
        f"{fields.where}: the checkpoint is quantised ({shown(method)}); qanat reads only "
        "unquantised checkpoints: use the repository without that suffix (BF16)"
    )
