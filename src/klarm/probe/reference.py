"""The reference: the predictions of the policy at the start, in memory and beside the journal."""

from __future__ import annotations

import io
import os
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klarm.descriptors import open_own
from klarm.probe.contexts import Context

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = "probe"
_FORMAT = 1
_NAME = re.compile(r"reference-(\d+)\.npz")
_MAX_BYTES = 2**30
_OFFSETS = 3  # of KL, entropy and the share of top tokens that changed


@dataclass
class Kept:
    """One context with the predictions of the policy: top tokens, and the mass of the others."""

    context: Context
    top_ids: NDArray[Any]  # int32, positions × k; k is 0 if the start can be recomputed
    top_logps: NDArray[Any]  # float32, the same shape
    rest_logp: NDArray[Any]  # float32, one per position: the log-probability of all other tokens
    # Added to its measurements: the level of the context that it replaced.
    offsets: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass
class Reference:
    """What the policy is compared with from a step on."""

    step: int
    kept: list[Kept]
    vocabulary: int
    adapters: bool  # whether the start is the model with its adapters disabled
    refreshed: int = 0  # how many contexts were replaced so far
    identity: str = ""  # hash of the settings and contexts it was made with

    @property
    def positions(self) -> int:
        """The number of next-token distributions."""
        return sum(one.context.positions for one in self.kept)

    def pack(self) -> bytes:
        """Return the content of a file: compressed numpy arrays, without pickle."""
        import numpy as np

        held = self.kept
        buffer = io.BytesIO()
        np.savez(
            buffer,
            format=np.int64(_FORMAT),
            step=np.int64(self.step),
            vocabulary=np.int64(self.vocabulary),
            adapters=np.bool_(self.adapters),
            refreshed=np.int64(self.refreshed),
            identity=np.array(self.identity),
            tokens=np.array([token for one in held for token in one.context.tokens], np.int64),
            lengths=np.array([len(one.context.tokens) for one in held], np.int64),
            starts=np.array([one.context.start for one in held], np.int64),
            offsets=np.array([one.offsets for one in held], np.float64),
            top_ids=np.concatenate([one.top_ids for one in held]),
            top_logps=np.concatenate([one.top_logps for one in held]),
            rest_logp=np.concatenate([one.rest_logp for one in held]),
        )
        return buffer.getvalue()

    @classmethod
    def unpack(cls, content: bytes) -> Reference:
        """Return the reference in a file, or raise ValueError."""
        import numpy as np

        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                held = {name: file[name] for name in file.files}
            if int(held["format"]) != _FORMAT:
                raise ValueError("it was written by another version of klarm")
            kept, token_at, row_at = [], 0, 0
            rows = zip(
                held["lengths"].tolist(), held["starts"].tolist(), held["offsets"], strict=True
            )
            for length, start, offsets in rows:
                tokens = tuple(held["tokens"][token_at : token_at + length].tolist())
                context = Context(tokens, start)
                end = row_at + context.positions
                places = slice(row_at, end)
                if len(tokens) != length or not 0 < start <= length or len(offsets) != _OFFSETS:
                    raise ValueError("its parts do not match")
                ids, logps = held["top_ids"][places], held["top_logps"][places]
                rest = held["rest_logp"][places]
                if not len(ids) == len(logps) == len(rest) == context.positions:
                    raise ValueError("its parts do not match")
                kept.append(Kept(context, ids, logps, rest, tuple(offsets.tolist())))
                token_at, row_at = token_at + length, end
            return cls(
                step=int(held["step"]),
                kept=kept,
                vocabulary=int(held["vocabulary"]),
                adapters=bool(held["adapters"]),
                refreshed=int(held["refreshed"]),
                identity=str(held["identity"]),
            )
        except (KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None


class ReferenceFolder:
    """The references of a run on disk: one per step at which contexts were replaced.

    A run that goes back to an earlier step uses the reference of that step again.
    """

    def __init__(self, run: Path) -> None:
        self.path = run.absolute() / FOLDER  # the script may change its working directory

    def save(self, reference: Reference) -> Path:
        """Write a reference atomically, or raise OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / f"reference-{reference.step}.npz"
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        file = open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(reference.pack())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return path

    def load(self, step: int) -> tuple[Reference | None, list[str]]:
        """Return the latest reference up to a step, and the problems of unreadable ones."""
        found, problems = None, []
        for at, path in sorted(self._files(), reverse=True):
            if at > step:
                path.unlink(missing_ok=True)  # training went back to before it
            elif found is None:
                try:
                    if path.stat().st_size > _MAX_BYTES:
                        raise ValueError("it is too large")
                    found = Reference.unpack(path.read_bytes())
                except (OSError, ValueError) as error:
                    problems.append(f"{path.name} cannot be read ({error})")
        return found, problems

    def clear(self) -> None:
        """Remove all references, because the run starts over."""
        for _, path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[tuple[int, Path]]:
        try:
            names = os.listdir(self.path)  # noqa: PTH208
        except OSError:
            return []
        matches = [(name, _NAME.fullmatch(name)) for name in names]
        return [(int(match[1]), self.path / name) for name, match in matches if match]
