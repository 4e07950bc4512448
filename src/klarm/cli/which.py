"""Finds the incident that a command is about: by number within a run, or by id in any run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from klarm.cli.runs import find_run, runs_in, view_of
from klarm.config import Config
from klarm.incidents import subject_of
from klarm.journal import IncidentRecord

if TYPE_CHECKING:
    from klarm.runs import RunView

_MIN_PREFIX = 4
_MAX_LISTED = 10


class Found(NamedTuple):
    """An incident, and the run that it belongs to."""

    view: RunView
    incident: IncidentRecord

    @property
    def in_words(self) -> str:
        """The run, and which of its incidents it is."""
        return f"run {self.view.name}: incident {self.incident.number} ({self.incident.id})"


def find_incident(text: str, run: str | None, settings: Config) -> Found:
    """Return the incident that a user named: `3`, `kq7x2mab`, or at least `kq7x`."""
    if text.isdecimal():
        return _by_number(int(text), view_of(find_run(run, settings)), is_named=run is not None)
    if len(text) < _MIN_PREFIX:
        raise click.UsageError(
            f"{text!r} is neither a number nor an id: give at least {_MIN_PREFIX} characters "
            "of the id, as `klarm incidents` shows it"
        )
    if run:
        views = [view_of(find_run(run, settings))]
    else:
        folders = runs_in(Path(settings.dir).expanduser())
        views = [view_of(folder, lenient=True) for folder in folders]
    found = [
        Found(view, incident)
        for view in views
        for incident in view.incidents.values()
        if incident.id.startswith(text.lower())
    ]
    if not found:
        where = f"run {run}" if run else f"the runs in {settings.dir}"
        unread = ", ".join(str(view.folder) for view in views if view.problem)
        but = f"; {unread} cannot be read" if unread else ""
        raise click.ClickException(f"there is no incident {text} in {where}{but}")
    return _the_one(found, text)


def _by_number(number: int, view: RunView, *, is_named: bool) -> Found:
    known = view.incidents.values()
    found = [Found(view, incident) for incident in known if incident.number == number]
    if not found:
        numbers = [str(incident.number) for incident in known]
        has = "it has" if len(numbers) <= _MAX_LISTED else "its latest are"
        others = f"; {has} {', '.join(numbers[-_MAX_LISTED:])}" if numbers else ""
        hint = "" if is_named else "; for another run, name it"
        raise click.ClickException(f"run {view.name} has no incident {number}{others}{hint}")
    return _the_one(found, str(number))


def _the_one(found: list[Found], text: str) -> Found:
    if len(found) == 1:
        return found[0]
    # Copies of a run's folder contain the same ids.
    copies = len({one.incident.id for one in found}) < len(found)
    lines = [
        f"  {one.incident.id}  run {one.view.folder if copies else one.view.name}, "
        f"{subject_of(one.incident)}, {one.incident.severity}, "
        f"began at step {one.incident.last.started}"
        for one in found
    ]
    listed = "\n".join(lines)
    remedy = "name the folder of the run" if copies else "give the id"
    raise click.ClickException(f"{text} could be any of these; {remedy}:\n{listed}")
