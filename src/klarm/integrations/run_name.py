"""Finds the run of a trainer's output folder: a known folder continues its run.

Most people do not name their run, so it is named after the folder, and many folders are called
`out`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from klarm.journal import FILE_NAME, folder_name, head_of, run_folder
from klarm.text import clean


def run_of_folder(directory: str, name: str, output: Path) -> str:
    """Return the name of the run that saves to a folder: `name`, unless another run has it.

    The journals say which folder each run saves to, so a resumed run finds the name it had. A new
    name is claimed by making its folder, so that two processes never choose the same one.
    """
    free = []
    for candidate in _candidates(name, output):
        folder = run_folder(directory, candidate)
        if not os.path.lexists(folder):
            free.append((candidate, folder))
        elif _saves_to(folder, output):
            return candidate
    for candidate, folder in free:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:  # another process was faster
            continue
        except OSError:  # `start` reports it
            break
        return candidate
    return folder_name(name)


def unused_run(directory: str, name: str) -> str:
    """Return a name that no run has yet: `name`, or the same with a number."""
    number = 1
    while True:
        candidate = folder_name(name if number == 1 else f"{name}-{number}")
        try:
            run_folder(directory, candidate).mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError:
            return candidate
        else:
            return candidate


def _candidates(name: str, output: Path) -> Iterator[str]:
    """Yield names for a run, from the shortest to one that no other folder has."""
    place = Path(os.path.abspath(output))  # noqa: PTH100  # without resolving links
    yield folder_name(name)
    if name != place.name:
        yield folder_name(f"{name}-{place.name}")
    longer = name
    for part in reversed(place.parent.parts[1:]):
        longer = f"{part}-{longer}"
        yield folder_name(longer)
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:8]
    yield folder_name(f"{name}-{digest}")


def _saves_to(folder: Path, output: Path) -> bool:
    """Return whether the run in a folder saves to an output folder, according to its journal."""
    try:
        head = head_of(folder / FILE_NAME)
    except OSError:
        return False
    recorded = head.output_dir if head else ""
    if not recorded:  # runs with a name do not need it
        return head is not None
    # Compare the names first: a link to the scratch disk of a job has another target in the next.
    same_name = clean(os.path.abspath(output)) == recorded  # noqa: PTH100
    return same_name or os.path.realpath(output) == os.path.realpath(recorded)
