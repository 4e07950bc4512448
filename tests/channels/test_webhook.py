"""The webhook: versioned JSON, templates, signatures."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
import time
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from cases import over
from klarm.channels.message import ENDINGS, Message
from klarm.channels.webhook import WebhookChannel, webhook_payload
from klarm.settings.fields import ConfigError
from klarm.settings.secret import Secret
from klarm.types import Reason, Resolution

PAGE = Path(__file__).parents[2] / "docs" / "channels" / "webhook.md"


def channel(service: Any, **settings: Any) -> WebhookChannel:
    return WebhookChannel(name="mine", url=Secret(f"{service.url}/in"), **settings)


def from_the_page(function: str) -> Any:
    """Return a function that the page shows."""
    page: dict[str, Any] = {}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(snippet, page)
    return page[function]


def test_the_json_has_every_documented_field(service: Any, message: Message) -> None:
    """And the docs have every field of the JSON."""
    channel(service).send(message, {})
    sent = service.calls[0].json
    assert sent == json.loads(msgspec.json.encode(webhook_payload(message)))
    assert (sent["version"], sent["key"]) == (1, "k3f7q2ab")
    documented = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert sent.keys() <= documented
    (change,) = sent["changes"]
    section = PAGE.read_text().partition("### Changes")[2].partition("###")[0]
    assert change.keys() == set(re.findall(r"`(\w+)`", section)) - {"changes"}


def test_a_program_that_reads_changes_and_state_misses_nothing(
    service: Any, message: Message, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the code on the page: the message names one event, and is about three."""
    first = message.changes[0]
    changes = [
        first,
        msgspec.structs.replace(first, event="escalated", step=160),
        msgspec.structs.replace(first, event="ended", step=299, summary="The run ended."),
    ]
    combined = msgspec.structs.replace(message, changes=changes, state="ended")
    channel(service).send(combined, {})
    sent = service.calls[0].json
    assert (sent["event"], sent["state"]) == ("opened", "ended")
    from_the_page("receive")(sent)
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in told[:3]] == [
        ["153", "opened"],
        ["160", "escalated"],
        ["299", "ended"],
    ]
    assert told[3].startswith("Nothing more comes")


@pytest.mark.parametrize(
    ("event", "recovered", "stated"),
    [
        ("opened", True, None),
        ("escalated", True, None),
        ("resolved", True, True),
        ("resolved", False, False),
    ],
)
def test_only_what_is_over_can_have_recovered(
    service: Any, message: Message, event: str, recovered: bool, stated: bool | None
) -> None:
    """Null until then: whoever filters by it must not take an opening for a recovery."""
    said = msgspec.structs.replace(message, event=event, recovered=recovered)
    channel(service).send(said, {})
    assert service.calls[0].json["recovered"] is stated


def test_numbers_that_json_has_not_are_text(service: Any, message: Message) -> None:
    """As in the journal."""
    broken = msgspec.structs.replace(message, curve=[(1, math.nan), (2, -math.inf), (3, 0.5)])
    channel(service).send(broken, {})
    assert service.calls[0].json["curve"] == [[1, "NaN"], [2, "-Infinity"], [3, 0.5]]


def test_the_id_of_a_message_is_in_header_and_body(service: Any, message: Message) -> None:
    """So that a receiver can tell a repeated attempt from news, before it has read the body."""
    channel(service).send(msgspec.structs.replace(message, message_id="5e1f" * 8), {})
    (call,) = service.calls
    assert call.headers["Idempotency-Key"] == call.json["message_id"] == "5e1f" * 8


def test_a_signature_is_that_of_time_and_body(service: Any, message: Message) -> None:
    """As the docs tell receivers to check it."""
    channel(service, signing_key=Secret("hmac-key")).send(message, {})
    (call,) = service.calls
    stamped = call.headers["Klarm-Timestamp"].encode() + b"." + call.body
    expected = hmac.new(b"hmac-key", stamped, hashlib.sha256).hexdigest()
    assert call.headers["Klarm-Signature"] == f"v1={expected}"
    channel(service).send(message, {})
    assert service.calls[1].headers["Klarm-Signature"] is None


def test_a_receiver_can_check_the_signature_as_the_docs_do(
    service: Any, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the code on the page: what is ours is, what was changed, old or unsigned is not."""
    channel(service, signing_key=Secret("hmac-kéy")).send(message, {})
    channel(service).send(message, {})
    signed, unsigned = service.calls
    is_from_klarm, key = from_the_page("is_from_klarm"), "hmac-kéy".encode()
    assert is_from_klarm(signed.headers, signed.body, key) is True
    assert is_from_klarm(signed.headers, signed.body + b" ", key) is False
    assert is_from_klarm(signed.headers, signed.body, b"another") is False
    assert is_from_klarm(unsigned.headers, unsigned.body, key) is False
    for stamp in ("1763200000", "soon", "²"):
        forged = {**dict(signed.headers), "Klarm-Timestamp": stamp}
        assert is_from_klarm(forged, signed.body, key) is False
    strange = {**dict(signed.headers), "Klarm-Signature": "v1=\xe4"}
    assert is_from_klarm(strange, signed.body, key) is False
    later = time.time() + 301
    monkeypatch.setattr(time, "time", lambda: later)
    assert is_from_klarm(signed.headers, signed.body, key) is False


def test_a_token_is_sent_as_bearer(service: Any, message: Message) -> None:
    """Where the receiver asks for one."""
    channel(service, bearer_token=Secret("t0ken")).send(message, {})
    assert service.calls[0].headers["Authorization"] == "Bearer t0ken"


def test_a_template_is_filled_in(service: Any, message: Message) -> None:
    """What is put in cannot break the JSON, and a number stays one."""
    template = (
        '{"$schema": 1, "text": "$severity: $title", "at": "$step", "more": ["$summary", 1], '
        '"p": "$$5"}'
    )
    quoted = msgspec.structs.replace(message, summary='a "quote" \\ $run')
    channel(service, template=template).send(quoted, {})
    assert service.calls[0].json == {
        "$schema": 1,  # names are as they are: Teams asks for this one
        "text": f"critical: {message.title}",
        "at": 153,
        "more": ['a "quote" \\ $run', 1],
        "p": "$5",
    }


@over(
    "template, problem",
    [
        ("{", "template is not valid JSON"),
        ('{"a": "$titel x"}', "template: .titel is unknown; did you mean title"),
        ('{"a": "${xyz}"}', "template: .xyz is unknown; known: version, klarm, message_id, key"),
        (
            '{"a": ["$fields"]}',
            "template: .fields is neither text nor a number; known: version, klarm",
        ),
        (
            '{"a": {"b": "at ${curve}"}}',
            "template: .curve is neither text nor a number; known: version",
        ),
        ('{"a": "5 $ x"}', "is not a placeholder"),
    ],
)
def test_a_wrong_template_is_refused_at_the_start(template: str, problem: str) -> None:
    """With the nearest right name."""
    with pytest.raises(ConfigError, match=problem):
        WebhookChannel(name="mine", url=Secret("http://127.0.0.1/in"), template=template)


def test_the_page_lists_every_reason() -> None:
    """Programs that take the messages branch on them."""
    section = PAGE.read_text().partition("### Reasons")[2].partition("|---|")[2]
    section = section.partition("\n## ")[0]
    listed = {
        event: set(re.findall(r"`(\w+)`", reasons))
        for event, reasons in re.findall(r"^\| ([\w ]+) \| (`.+`) \|$", section, re.MULTILINE)
    }
    different = set().union(*listed.values()) ^ set(get_args(Reason))
    assert different == set(), f"{PAGE} and Reason differ in these"
    different = listed["resolved"] ^ set(get_args(Resolution))
    assert different == set(), "Resolution of types.py and the page differ in these"
    # If an incident is lost, nobody knows whether it is over.
    different = (listed["resolved"] - {"lost"}) ^ set(ENDINGS)
    assert different == set(), "ENDINGS of channels/message.py and the page differ in these"
