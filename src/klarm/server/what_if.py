"""What-if analysis: the alerts and incidents that a run would have had with other settings."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta

from klarm.analysis.replay import ids_in, replay
from klarm.config import Config, known_sections, load
from klarm.journal import FILE_NAME, IncidentRecord, Started
from klarm.server.history import BriefAlert, brief_alert
from klarm.server.problems import bad_request, unavailable
from klarm.server.served_run import ServedRun
from klarm.server.summary import BriefIncident, brief_incident
from klarm.settings import ConfigError, did_you_mean
from klarm.sources import LogRow, OtherRecord, SourceError, read_log

MAX_ALERTS = 5000
_SOURCE = "settings"
# Only one analysis runs at a time, because each keeps a processor busy.
_one_at_a_time = threading.Lock()
_MAX_WAIT_SECONDS = 30.0


class WhatIf(msgspec.Struct, forbid_unknown_fields=True):
    """The settings to try, and over how many of the last steps."""

    settings: dict[str, dict[str, Any]] = {}
    last_steps: Annotated[int, Meta(ge=1, le=200_000)] = 10_000


class WouldBeIncident(BriefIncident, kw_only=True):
    """An incident that would have opened."""

    opened: int
    ended: int | None
    detectors: list[str]


class Recorded(msgspec.Struct):
    """What the run actually had in these steps."""

    alerts_total: int
    incidents: int


class WhatIfAnswer(msgspec.Struct):
    """The alerts and incidents with the settings that were tried."""

    run: str
    steps: int
    first_step: int | None
    truncated: bool
    seconds: float
    alerts: list[BriefAlert]
    alerts_total: int
    incidents: list[WouldBeIncident]
    recorded: Recorded
    yaml: str


def what_if(run: ServedRun, asked: WhatIf) -> WhatIfAnswer:
    """Replay a journal with some settings changed. Nothing is written."""
    changes = _checked(asked.settings)
    recorded = run.settings

    def configure(of_journal: Mapping[str, object] | None) -> Config:
        return load(None, changes, {}, overrides_from=_SOURCE, recorded=of_journal or recorded)

    try:
        configure(None)
    except ConfigError as error:
        raise bad_request(str(error), "settings") from None
    begin = time.perf_counter()
    if not _one_at_a_time.acquire(timeout=_MAX_WAIT_SECONDS):
        raise unavailable("another what-if analysis is running; try again in a moment")
    try:
        truncated = run.fold.steps + run.fold.rolled_back > asked.last_steps
        log = run.folder / FILE_NAME
        rows = _last_rows(run, asked.last_steps) if truncated else read_log(log, lambda _: None)
        found = replay(rows, configure, None if truncated else ids_in(log))
    except (OSError, SourceError) as error:
        raise unavailable(f"the journal cannot be read: {error}") from None
    finally:
        _one_at_a_time.release()
    first = _first_tried(run, asked.last_steps) if truncated else run.summary.first_step
    return WhatIfAnswer(
        run=run.id,
        steps=found.steps,
        first_step=first,
        truncated=truncated,
        seconds=round(time.perf_counter() - begin, 3),
        alerts=[brief_alert(alert) for alert in found.alerts[:MAX_ALERTS]],
        alerts_total=len(found.alerts),
        incidents=[_incident(known) for known in found.incidents],
        recorded=Recorded(
            len(run.alerts_between(first or 0).that_count()),
            sum(
                not known.was_rolled_back and known.opened.step >= (first or 0)
                for known in run.incidents.values()
            ),
        ),
        yaml=yaml.safe_dump(changes, sort_keys=False) if changes else "",
    )


def _checked(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    known = known_sections()
    for section in settings:
        if section not in known:
            hint = did_you_mean(section, known) or f"; known: {', '.join(known)}"
            raise bad_request(f"{_SOURCE}: {section!r:.80} is unknown{hint}", "settings")
    return {section: dict(values) for section, values in settings.items() if values}


def _last_rows(run: ServedRun, steps: int) -> Iterator[LogRow | OtherRecord]:
    """Yield the last rows of a run in the form of a log."""
    fold = run.fold
    yield Started(fold.run, fold.began, "", "", dict(run.settings))
    columns = run.columns_with(names := run.metric_names())
    for step, _, cells in columns.rows(names, max(0, columns.count - steps)):
        logged = zip(names, cells, strict=True)
        yield LogRow(step, {name: value for name, value in logged if value is not None})


def _first_tried(run: ServedRun, steps: int) -> int | None:
    columns = run.columns
    return int(columns.steps()[max(0, columns.count - steps)]) if columns.count else None


def _incident(known: IncidentRecord) -> WouldBeIncident:
    return WouldBeIncident(
        **msgspec.structs.asdict(brief_incident(known)),
        opened=known.opened.step,
        ended=None if known.is_open else known.last.step,
        detectors=known.last.detectors,
    )
