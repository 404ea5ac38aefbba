"""Which .safetensors files of a folder hold which tensors: one file, or shards and their index.

Paths of an index come from a stranger: they must name plain files inside the folder.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from qanat.checkpoint.safetensors import SafetensorsFile
from qanat.checkpoint.strict_json import as_one_line, file_exists, read_json_file
from qanat.errors import CheckpointError

__all__ = ["INDEX", "SINGLE", "listing", "open_weights", "shard_names"]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


def listing(names: list[str], limit: int = 3) -> str:
    """List the first few of many names for a message, and how many there are."""
    shown = ", ".join(as_one_line(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown}, ... ({len(names)} in all)"


def shard_names(folder: Path) -> list[str]:
    """Name the weight files of a folder, in order, without opening them.

    Raises:
        CheckpointError: the folder has neither `model.safetensors` nor an index, or the index is damaged or
            points out of the folder.
    """
    if file_exists(folder / SINGLE):
        return [SINGLE]
    if file_exists(folder / INDEX):
        return sorted(set(_weight_map(folder).values()))
    others = sorted(p.name for kind in ("bin", "pt", "pth", "gguf") for p in folder.glob(f"*.{kind}"))
    hint = f"; {others[0]} is another format, which qanat does not read" if others else ""
    raise CheckpointError(f"{folder}: it has neither {SINGLE} nor {INDEX}; copy the weights there{hint}")


def _weight_map(folder: Path) -> dict[str, str]:
    path = folder / INDEX
    weight_map = read_json_file(path, CheckpointError).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{path}: weight_map is not a filled object; the file is damaged")
    checked: set[str] = set()
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str) or (shard not in checked and not _stays_inside(shard)):
            raise CheckpointError(
                f"{path}: weight_map sends {as_one_line(tensor)} to {as_one_line(str(shard))}, which is "
                "no .safetensors file of this folder; the index is damaged or hostile"
            )
        checked.add(shard)
    return weight_map


def _stays_inside(shard: str) -> bool:
    """Whether a shard's name is a relative path of plain names that ends in .safetensors.

    The name is judged, not where a link leads: the hub's cache consists of links into its blob folder.
    """
    path = PurePosixPath(shard)
    parts = shard.split("/")
    plain = len(shard) <= 255 and all(part not in ("", "..", ".") for part in parts)  # "": a leading slash
    return plain and shard.isprintable() and not set("\\:") & set(shard) and path.suffix == ".safetensors"


def open_weights(folder: Path) -> dict[str, SafetensorsFile]:
    """Open all weight files and say which one holds each tensor, under its stored name.

    Raises:
        CheckpointError: a shard is missing, lacks a tensor that the index promises, or holds one that another
            shard holds too.
        SafetensorsError: a file breaks the format.
    """
    names = shard_names(folder)
    missing = [name for name in names if not file_exists(folder / name)]
    if missing:
        raise CheckpointError(
            f"{folder}: {len(missing)} of {len(names)} weight files are missing: {listing(missing)}; "
            "download or copy them"
        )
    holders: dict[str, SafetensorsFile] = {}
    for name in names:
        shard = SafetensorsFile(folder / name)
        for tensor in shard:
            if tensor in holders:
                raise CheckpointError(
                    f"{folder}: tensor {as_one_line(tensor)} is in both {holders[tensor].path.name} "
                    f"and {name}; files of two different saves seem to be mixed"
                )
            holders[tensor] = shard
    if names != [SINGLE]:
        for tensor, name in _weight_map(folder).items():
            holder = holders.get(tensor)
            if holder is None or holder.path != folder / name:
                place = "no file has it" if holder is None else f"it is in {holder.path.name}"
                raise CheckpointError(
                    f"{folder / INDEX}: it says that {as_one_line(tensor)} is in {name}, but {place}; "
                    "download that file and the index again"
                )
    return holders
