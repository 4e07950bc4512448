"""Finds the runs below a folder, and derives their ids for URLs."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterator

from klarm.journal import FILE_NAME

_JOURNAL = os.fsencode(FILE_NAME)
_MAX_DEPTH = 8
_PLAIN = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def find_runs(root: bytes) -> Iterator[bytes]:
    """Yield the folders of runs as paths relative to `root`; empty if `root` itself is a run.

    Symbolic links are not followed, so nothing outside the folder is ever read. Hidden folders and
    folders within a run are left out.
    """
    yield from _below(root, b"", 0)


def _below(root: bytes, relative: bytes, depth: int) -> Iterator[bytes]:
    folders = []
    try:
        with os.scandir(root + b"/" + relative) as entries:
            for entry in entries:
                if entry.name == _JOURNAL and entry.is_file(follow_symlinks=False):
                    yield relative
                    return
                if not entry.name.startswith(b".") and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
    except OSError:  # the folder was deleted, or may not be read
        return
    if depth < _MAX_DEPTH:
        for name in sorted(folders):
            yield from _below(root, relative + b"/" + name if relative else name, depth + 1)


def id_of(relative: bytes) -> str:
    """Return the id of a run in URLs: the name of its folder if it is simple, else a hash.

    >>> id_of(b"grpo-7b"), id_of(b"team/grpo-7b"), id_of(b"../../etc")
    ('grpo-7b', '~2c7wfc3dka7j', '~otgphrnuygni')
    """
    if _PLAIN.fullmatch(relative):
        return relative.decode()
    digest = hashlib.sha256(relative).digest()
    return "~" + base64.b32encode(digest).decode().lower()[:12]


def shown(relative: bytes) -> str:
    """Return a path as text; bytes that are not UTF-8 are replaced."""
    return relative.decode(errors="replace")
