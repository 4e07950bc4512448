"""Live updates: changes of runs as server-sent events, with a cursor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from klarm.server.changes import Changes, Round, RunChange
from klarm.server.requests import LARGEST, Query, read_query

_KEEP_ALIVE_SECONDS = 15.0


class ChangesToFollow(Query, frozen=True):
    """After which cursor to begin, and of which run."""

    cursor: Annotated[int, Meta(ge=0, le=LARGEST)] | UnsetType = UNSET
    run: str = ""


class EventStream:
    """Streams changes to all connected clients."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def answer(self, request: Request) -> Response:
        """Answer with a stream of events."""
        asked = read_query(ChangesToFollow, request.query_params)
        cursor = self._changes.cursor if asked.cursor is UNSET else asked.cursor
        last = request.headers.get("last-event-id", "")
        if last.isascii() and last.isdigit() and len(last) < 17:
            cursor = int(last)
        return StreamingResponse(self._stream(cursor, asked.run), media_type="text/event-stream")

    async def _stream(self, at: int, run: str) -> AsyncIterator[bytes]:
        changes, news = self._changes, asyncio.Event()
        loop = asyncio.get_running_loop()
        end = changes.listen(lambda: loop.call_soon_threadsafe(news.set))
        try:
            hello = {"cursor": changes.cursor, "server": changes.server}
            yield _event("hello", at, hello)
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
                        yield _event("changes", at, {"cursor": at, "runs": relevant})
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
