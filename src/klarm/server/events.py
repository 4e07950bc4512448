"""Live updates: changes of runs as server-sent events, with a cursor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from klarm.server.changes import Changes, Round, RunChange
from klarm.server.parameters import Arguments, Parameter

PARAMETERS = (
    Parameter("cursor", "from any answer that has one", "integer", low=0, high=2**53),
    Parameter("run", "an id: only this run"),
)
_KEEP_ALIVE_SECONDS = 15.0


class ChangedRuns(msgspec.Struct):
    """The data of an event."""

    cursor: int
    runs: Sequence[RunChange]


class EventStream:
    """Streams changes to all connected clients."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def answer(self, request: Request) -> Response:
        """Answer with a stream of events."""
        arguments = Arguments.read(PARAMETERS, {}, request.query_params)
        cursor = arguments.optional_integer("cursor")
        last = request.headers.get("last-event-id", "")
        if last.isascii() and last.isdigit() and len(last) < 17:
            cursor = int(last)
        return StreamingResponse(
            self._stream(cursor, arguments.text("run")), media_type="text/event-stream"
        )

    async def _stream(self, cursor: int | None, run: str) -> AsyncIterator[bytes]:
        changes, news = self._changes, asyncio.Event()
        loop = asyncio.get_running_loop()
        end = changes.listen(lambda: loop.call_soon_threadsafe(news.set))
        try:
            hello = {"cursor": changes.cursor, "server": changes.server}
            yield _event("hello", changes.cursor if cursor is None else cursor, hello)
            at = changes.cursor if cursor is None else cursor
            while not changes.is_over:
                news.clear()
                rounds = changes.since(at)
                if rounds is None:
                    at = changes.cursor
                    yield _event("reset", at, {"cursor": at})
                elif rounds:
                    at = rounds[-1].cursor
                    relevant = [change for change in merged(rounds) if run in ("", change.run)]
                    if relevant:
                        yield _event("changes", at, ChangedRuns(at, relevant))
                try:
                    await asyncio.wait_for(news.wait(), _KEEP_ALIVE_SECONDS)
                except asyncio.TimeoutError:
                    yield b": still here\n\n"
        finally:
            end()


def merged(rounds: Sequence[Round]) -> list[RunChange]:
    """Return one change per run: the latest state, and everything that has changed."""
    found: dict[str, RunChange] = {}
    for change in (change for round_ in rounds for change in round_.runs):
        earlier = found.get(change.run)
        if earlier is None:
            found[change.run] = change
            continue
        steps = [c.first_changed_step for c in (earlier, change)]
        known = [step for step in steps if step is not None]
        found[change.run] = msgspec.structs.replace(
            change,
            what=sorted({*earlier.what, *change.what}),
            first_changed_step=min(known) if known else None,
        )
    return list(found.values())


def _event(kind: str, cursor: int, data: object) -> bytes:
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (cursor, kind.encode(), msgspec.json.encode(data))
