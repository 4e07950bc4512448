"""Keeps the last good checkpoint while an incident is open, even if the trainer deletes it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from klarm.types import Event

# Inside the trainer's output folder, so that hard links work. It only rotates `checkpoint-*`.
FOLDER = ".klarm-kept"


class KeptCheckpoints:
    """Holds a second set of hard links to each checkpoint that an open incident names.

    A trainer with `save_total_limit=1` deletes the last good checkpoint with its next save. The
    links take no space. After every save, the checkpoint is restored to the path in the messages.
    When the incident is over, the links are removed, and the trainer may delete the checkpoint.
    """

    def __init__(self, output: Path, say: Callable[[str], object]) -> None:
        self._folder = output.absolute() / FOLDER
        self._say = say
        self._events: list[Event] = []  # not handled yet

    def take_up(self, open_incidents: Collection[str]) -> None:
        """Continue after an earlier process, and remove links that are no longer needed."""
        for kept in self._entries():
            if kept.name not in open_incidents:
                self._release(kept.name)

    def on_event(self, event: Event) -> None:
        """Note an event. This is called within `log`, which must not wait for the file system."""
        self._events.append(event)

    def catch_up(self) -> None:
        """Keep the checkpoints of incidents that opened, and release those of resolved ones."""
        events, self._events = self._events, []
        for event in events:
            if event.event == "resolved":
                self._release(event.id)
            elif event.checkpoint:
                self._keep(event.id, Path(event.checkpoint))

    def restore(self) -> None:
        """Restore checkpoints that the trainer has deleted. Call it after each of its saves."""
        for incident in self._entries():
            for kept in incident.glob("*"):
                original = self._folder.parent / kept.name
                if not original.exists() and (problem := _link_tree(kept, original)):
                    self._say(f"{original} was deleted and could not be restored ({problem})")

    def _keep(self, incident: str, checkpoint: Path) -> None:
        kept = self._folder / incident / checkpoint.name
        if checkpoint.parent != self._folder.parent or not checkpoint.is_dir() or kept.exists():
            return
        problem = _link_tree(checkpoint, kept)
        if problem:
            self._say(
                f"{checkpoint} cannot be kept ({problem}): the trainer deletes it when it saves "
                "more checkpoints than save_total_limit. Copy it if you want to go back to it."
            )

    def _release(self, incident: str) -> None:
        shutil.rmtree(self._folder / incident, ignore_errors=True)
        with contextlib.suppress(OSError):  # there may be others
            self._folder.rmdir()

    def _entries(self) -> list[Path]:
        """Return the folder of each incident; none if the output folder cannot be read."""
        try:
            return list(self._folder.iterdir())
        except OSError:
            return []


def _link_tree(source: Path, target: Path) -> str:
    """Link all files of a folder into another, or none; return what failed, if anything."""
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, unfinished, copy_function=os.link)
        unfinished.rename(target)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        return (getattr(error, "strerror", None) or str(error))[:200]
    return ""
