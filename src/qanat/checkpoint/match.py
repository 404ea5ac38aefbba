"""Holding the tensors that are there against those the configuration demands.

Whatever differs is an error that lists what and how many: a missing matrix, a wrong shape or a name
nobody knows each mean that the model would compute nonsense.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qanat.checkpoint.aliases import canonical_name, is_harmless
from qanat.checkpoint.config import ModelConfig
from qanat.checkpoint.index import listing
from qanat.checkpoint.names import (
    HEAD,
    MTP,
    TEXT,
    VISION,
    Expected,
    ExpertLayout,
    expected_tensors,
    moe_blocks,
)
from qanat.checkpoint.safetensors import SafetensorsFile
from qanat.checkpoint.strict_json import as_one_line
from qanat.checkpoint.tensor_view import StackedExperts, TensorView
from qanat.errors import CheckpointError, UnsupportedError

__all__ = ["match_tensors"]


def match_tensors(
    config: ModelConfig, holders: Mapping[str, SafetensorsFile], folder: Path
) -> tuple[dict[str, TensorView], tuple[str, ...]]:
    """Check all tensors and give them their published names.

    The draft layer and the vision tower may be absent as a whole, never in part. A head is left aside when
    the configuration ties it to the embedding.

    Args:
        config: the parsed config.json.
        holders: stored name -> the file that holds the tensor.
        folder: how messages call the checkpoint.

    Returns:
        Published name -> view, and the stored names that were left aside.

    Raises:
        CheckpointError: missing, unexpected, doubled or misshapen tensors; lists the first few.
        UnsupportedError: the tensors are quantised.
    """
    stored, ignored = _by_published_name(config, holders, folder)
    _refuse_quantised(stored, holders, folder)
    layouts = _expert_layouts(config, stored, folder)
    expected = expected_tensors(config, layouts)
    for optional in (MTP, VISION):
        if not any(name.startswith(optional) for name in stored):
            expected = {name: want for name, want in expected.items() if not name.startswith(optional)}
    _compare_names(config, expected, stored, folder)
    views = {
        name: _checked_view(name, want, stored[name], holders, folder) for name, want in expected.items()
    }
    return _stack_experts(config, layouts, views), ignored


def _by_published_name(
    config: ModelConfig, holders: Mapping[str, SafetensorsFile], folder: Path
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Map published names to stored names; also the stored names to leave aside."""
    stored: dict[str, str] = {}
    ignored: list[str] = []
    for name in holders:
        published = canonical_name(name)
        if is_harmless(name) or (published == HEAD and config.tie_word_embeddings):
            ignored.append(name)
        elif published in stored:
            raise CheckpointError(
                f"{folder}: {as_one_line(stored[published])} and {as_one_line(name)} are two names of "
                "one tensor; files of two different saves seem to be mixed"
            )
        else:
            stored[published] = name
    return stored, tuple(sorted(ignored))


def _refuse_quantised(
    stored: Mapping[str, str], holders: Mapping[str, SafetensorsFile], folder: Path
) -> None:
    suffixes = (".weight_scale_inv", ".weight_scale", ".scales", ".qweight", ".qzeros")
    for name in stored.values():
        if name.endswith(suffixes) or holders[name].entries[name].dtype.startswith(("F8", "F6", "F4")):
            raise UnsupportedError(
                f"{folder}: {as_one_line(name)} belongs to a quantised checkpoint; qanat reads only "
                "unquantised ones: use the repository without that suffix (BF16)"
            )


def _expert_layouts(config: ModelConfig, stored: Mapping[str, str], folder: Path) -> dict[str, ExpertLayout]:
    """Find the blocks whose experts are stored one by one; trunk and draft layer may differ."""
    layouts: dict[str, ExpertLayout] = {
        block: "per_expert" for block in moe_blocks(config.text) if f"{block}0.gate_proj.weight" in stored
    }
    # A config that claims millions of experts must not make us build their names to say they are missing.
    if config.text.moe and len(layouts) * config.text.moe.num_experts * 3 > 2 * len(stored) + 10_000:
        raise CheckpointError(
            f"{folder}: config.json promises {config.text.moe.num_experts} experts in each of {len(layouts)} "
            f"layers, but there are only {len(stored)} tensors; download the missing files"
        )
    return layouts


def _compare_names(
    config: ModelConfig, expected: Mapping[str, Expected], stored: Mapping[str, str], folder: Path
) -> None:
    missing = [name for name in expected if name not in stored]
    unexpected = [stored[name] for name in stored if name not in expected]
    if HEAD in missing and set(missing) <= {HEAD, TEXT + "embed_tokens.weight"}:
        both = "" if len(missing) == 1 else ", nor is the embedding"
        raise CheckpointError(
            f"{folder}: {HEAD} is not there{both}, and config.json does not tie it to the embedding; the "
            "checkpoint is incomplete, or tie_word_embeddings should be true"
        )
    if missing:
        aside = (
            f" (and {len(unexpected)} unknown ones are there: {listing(unexpected)})" if unexpected else ""
        )
        raise CheckpointError(
            f"{folder}: {len(missing)} of {len(expected)} tensors are missing: {listing(missing)}{aside}; "
            "download or copy the missing files, or check config.json"
        )
    if unexpected:
        raise CheckpointError(
            f"{folder}: {len(unexpected)} tensors are not part of {config.architecture} as config.json "
            f"describes it: {listing(unexpected)}; the weights belong to another model or config"
        )


def _checked_view(
    name: str, want: Expected, stored: str, holders: Mapping[str, SafetensorsFile], folder: Path
) -> TensorView:
    holder = holders[stored]
    entry = holder.entries[stored]
    if entry.shape != want.shape:
        hint = ""
        if name.endswith("conv1d.weight") and entry.shape == (want.shape[0], want.shape[2], want.shape[1]):
            hint = " (the file seems to be converted for MLX: use the original repository)"
        raise CheckpointError(
            f"{holder.path}: {as_one_line(stored)} has shape {list(entry.shape)}, and config.json demands "
            f"{list(want.shape)}{hint}; the weights belong to another config"
        )
    if entry.dtype not in want.dtypes:
        raise CheckpointError(
            f"{holder.path}: {as_one_line(stored)} is {entry.dtype}; expected {', '.join(want.dtypes)}"
        )
    return TensorView.of(name, holder, stored)


def _stack_experts(
    config: ModelConfig, layouts: Mapping[str, ExpertLayout], views: dict[str, TensorView]
) -> dict[str, TensorView]:
    """Replace experts stored one by one by stacked views under the published names."""
    for block in layouts:
        assert config.text.moe is not None
        experts = range(config.text.moe.num_experts)

        def take(e: int, kind: str, block: str = block) -> TensorView:
            return views.pop(f"{block}{e}.{kind}.weight")

        gate_up = [(take(e, "gate_proj"), take(e, "up_proj")) for e in experts]
        down = [(take(e, "down_proj"),) for e in experts]
        for name, parts in ((f"{block}gate_up_proj", gate_up), (f"{block}down_proj", down)):
            kinds = {str(view.dtype) for row in parts for view in row}
            if len(kinds) > 1:
                raise CheckpointError(
                    f"{name}: the experts are of different types ({', '.join(sorted(kinds))})"
                )
            views[name] = StackedExperts.stack(name, parts)
    return views
