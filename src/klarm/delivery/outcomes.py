"""Outcomes: what became of a run's events on each channel: sent, rejected, retried, passed over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from klarm.delivery.log import Delivered, Key, key_of
from klarm.delivery.rejected import Rejection
from klarm.types import RINGING, Event

# Which messages that were rejected earlier are pending again at the start: none; those of open
# incidents whose pause is over; all of open incidents; all.
Again = Literal["none", "due", "open", "all"]
_Place = tuple[str, str]  # the name of a channel, and the id of an incident


class Outcomes:
    """What the recorded deliveries add up to, by channel and event.

    The threads of all channels share it. It reads no files: the outbox passes entries to it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._settled: set[tuple[str, Key]] = set()  # with the name of the channel
        self._passed_over: set[tuple[str, Key]] = set()
        self._retried: set[tuple[str, Key]] = set()  # rejected, and automatically pending again
        self._rejected: dict[_Place, Rejection] = {}
        self._receipts: dict[_Place, Mapping[str, str]] = {}
        self._sent: dict[_Place, tuple[float, int]] = {}  # the last time, and number of reminders

    def add(self, entry: Delivered) -> None:
        """Add an outcome. Those of this process come twice: it also reads the lines it wrote."""
        place = (entry.channel, entry.id)
        with self._lock:
            if entry.outcome == "refused":
                if not self._rejected.setdefault(place, Rejection()).add(entry):
                    return
            elif entry.outcome == "sent":
                self._rejected.pop(place, None)
                self._sent[place] = (entry.time, max(entry.repeat, self.repeats(*place)))
                self._receipts[place] = {**self._receipts.get(place, {}), **entry.receipt}
            self._settled.add((entry.channel, entry.key))

    def pass_over(self, channel: str, events: Iterable[Event]) -> None:
        """Mark events as not meant for a channel. This is not recorded: it may be reconfigured."""
        events = list(events)
        with self._lock:
            for event in events:
                self._rejected.pop((channel, event.id), None)
            self._passed_over.update((channel, key_of(event)) for event in events)

    def is_settled(self, channel: str, event: Event) -> bool:
        """Return whether an event is no longer pending for a channel."""
        key = (channel, key_of(event))
        return key in self._settled or key in self._passed_over

    def overtakes(self, channel: str, event: Event) -> bool:
        """Return whether a settled event makes the earlier ones of its incident obsolete."""
        return event.event in RINGING and (channel, key_of(event)) in self._settled

    def unsettled(self, channel: str, events: Iterable[Event]) -> list[Event]:
        """Return the pending events of an incident, given all of its events in order."""
        left: list[Event] = []
        for event in events:
            if not self.is_settled(channel, event):
                left.append(event)
            elif self.overtakes(channel, event):
                left = []
        return left

    def receipt(self, channel: str, incident: str) -> Mapping[str, str] | None:
        """Return the channel's receipt for follow-up messages; None if nothing was sent yet."""
        return self._receipts.get((channel, incident))

    def sent_at(self, channel: str, incident: str) -> float | None:
        """Return when a message about an incident was last sent to a channel."""
        return self._sent.get((channel, incident), (None, 0))[0]

    def repeats(self, channel: str, incident: str) -> int:
        """Return how many reminders of an incident were sent to a channel."""
        return self._sent.get((channel, incident), (None, 0))[1]

    def last_sent(self, channel: str) -> float | None:
        """Return when a channel last accepted a message."""
        sent = list(self._sent.items())  # a thread of another channel may add to it meanwhile
        times = (time for (name, _), (time, _) in sent if name == channel)
        return max(times, default=None)

    def rejections(self, channel: str, acknowledged: Collection[str]) -> int:
        """Return for how many unacknowledged incidents a channel rejected the latest message."""
        places = list(self._rejected)  # a thread of another channel may add to it meanwhile
        return sum(name == channel and id_ not in acknowledged for name, id_ in places)

    def is_rejected(self, channel: str, event: Event) -> bool:
        """Return whether an event is settled only because the channel rejected it."""
        rejection = self._rejected.get((channel, event.id))
        return rejection is not None and key_of(event) in rejection.keys

    def seconds_to_retry(self, channel: str, incident: str, *, over: bool) -> float | None:
        """Return the seconds until a rejected message is retried; None if it never is."""
        rejection = self._rejected.get((channel, incident))
        if rejection is None or rejection.is_final(over=over):
            return None
        return rejection.seconds_to_retry(self._clock())

    def retry(self, channel: str, events: Iterable[Event]) -> None:
        """Make rejected events pending again."""
        with self._lock:
            self._retry(channel, map(key_of, events))

    def retry_earlier(self, again: Again, is_over: Callable[[str], bool]) -> None:
        """Make events that were rejected for earlier processes pending again, as `again` says.

        `is_over` returns whether an incident, given by its id, is resolved.
        """
        with self._lock:
            for (channel, incident), rejection in self._rejected.items():
                if again == "all":
                    self._settled -= {(channel, key) for key in rejection.keys}
                elif again != "none":
                    over = is_over(incident)
                    at_once = again == "open" and not over
                    pause = rejection.seconds_to_retry(self._clock())
                    if at_once or not (rejection.is_final(over=over) or pause):
                        self._retry(channel, rejection.keys)

    def was_rejected(self, channel: str, events: Sequence[Event]) -> bool:
        """Return whether any of the events is an automatic retry of a rejected message."""
        return any((channel, key_of(event)) in self._retried for event in events)

    def _retry(self, channel: str, keys: Iterable[Key]) -> None:
        again = {(channel, key) for key in keys}
        self._settled -= again
        self._retried |= again
