"""Checks whether a checkpoint on disk looks complete, without loading it."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

# A checkpoint has a few dozen files, or thousands if it is sharded over many ranks.
_MAX_FILES = 2_000
_MAX_HEADER_BYTES = 100 * 2**20  # the limit of the safetensors format itself
_ZIP_SUFFIXES = (".pt", ".pth", ".bin", ".zip", ".ckpt")


def problem_with(path: str) -> str:
    """Return why a checkpoint cannot be loaded, or an empty string if no reason is found.

    It checks safetensors files and their shard indexes, JSON files, and the zip files that PyTorch
    and Stable-Baselines3 write. A path that is not on this machine is trusted.
    """
    place = Path(path)
    try:
        if place.is_dir():
            return _problem_with_folder(place)
        if place.is_file():
            return _problem_with_file(place)
        return "it does not exist" if place.parent.is_dir() else ""
    except (OSError, ValueError):  # unreadable from here, which proves nothing
        return ""


def _problem_with_folder(folder: Path) -> str:
    files = []
    for number, file in enumerate(folder.rglob("*")):
        if number >= _MAX_FILES:
            break
        if file.is_file():
            files.append(file)
    if not files:
        return "the folder is empty"
    return next((problem for file in files if (problem := _problem_with_file(file))), "")


def _problem_with_file(file: Path) -> str:
    size = file.stat().st_size
    if file.suffix == ".safetensors":
        return _problem_with_safetensors(file, size)
    if file.suffix == ".json":
        return _problem_with_json(file, size)
    if file.suffix in _ZIP_SUFFIXES:
        return _problem_with_zip(file, size)
    return ""


def _problem_with_safetensors(file: Path, size: int) -> str:
    """Compare the file's size with the end of the last tensor in its header."""
    with file.open("rb") as opened:
        start = opened.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(_MAX_HEADER_BYTES, size - 8):
            return f"{file.name} has no valid header"
        try:
            header = json.loads(opened.read(length))
            tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
            ends = [tensor["data_offsets"][1] for tensor in tensors]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return f"{file.name} has no valid header"
    needed = 8 + length + max(ends, default=0)
    return "" if size >= needed else f"{file.name} has {size} of {needed} bytes"


def _problem_with_json(file: Path, size: int) -> str:
    if file.name.endswith(".index.json"):
        return _problem_with_shards(file)
    # A tokenizer has megabytes, so only the last bracket is checked: is the file cut short?
    with file.open("rb") as opened:
        opened.seek(max(0, size - 64))
        complete = opened.read().rstrip().endswith((b"}", b"]"))
    return "" if complete else f"{file.name} ends too early"


def _problem_with_shards(index: Path) -> str:
    try:
        content = json.loads(index.read_bytes())
    except (ValueError, RecursionError):
        return f"{index.name} is not valid JSON"
    shards = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(shards, dict):
        return f"{index.name} lists no shards"
    names = set(map(str, shards.values()))
    missing = [name for name in names if not (index.parent / name).exists()]
    return f"{min(missing)} is missing" if missing else ""


def _problem_with_zip(file: Path, size: int) -> str:
    if size == 0:
        return f"{file.name} is empty"
    with file.open("rb") as opened:
        if opened.read(4) != b"PK\x03\x04":  # an older format, which is not checked
            return ""
    return "" if zipfile.is_zipfile(file) else f"{file.name} ends too early"
