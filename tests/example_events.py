"""Events of incidents for tests, each of which names only what it is about."""

from __future__ import annotations

from typing import Any

from klarm.channels.message import Context, Message
from klarm.types import Event, EventKind, Moved

_OPENED = Event(
    event="opened",
    incident=1,
    id="k3f7q2ab",
    seq=1,
    signal="kl",
    severity="warning",
    step=17,
    started=12,
    detectors=["kl_explosion"],
    peak=9.0,
    reason="confirmed",
    message="KL is high.",
    recommendation="Look.",
)

# An incident with everything that a message can say, and the run that it is about.
DIAGNOSED = Event(
    event="opened",
    incident=3,
    id="k3f7q2ab",
    seq=1,
    signal="kl",
    severity="critical",
    step=153,
    started=148,
    detectors=["kl_explosion", "kl_runaway"],
    peak=0.07796,
    reason="confirmed",
    message="KL 0.07796 is 9.24σ above its rolling baseline of 0.01306 ± 0.007.",
    recommendation="Act now: lower the learning rate or raise the KL penalty.",
    also=(
        Moved("grad_norm", "up", step=147, ratio=4.0),
        Moved("entropy", "down", step=149, ratio=0.5),
        Moved("reward", "flat", "flat"),
    ),
    pattern="gradients first",
    cause="updates that are too large",
    remedy="Lower the learning rate or the gradient clip.",
    checkpoint="/data/ckpt/step-140",
    metric="kl",
    rows=5,
)
WATCHED_RUN = Context(
    run="grpo-7b",
    now=1_763_200_800.0,
    run_started=1_763_100_000.0,
    incident_started=1_763_200_080.0,
    values=[(step, 0.01 + 0.002 * (step % 5) + 0.012 * max(0, step - 148)) for step in range(154)],
    gpus=8,
    gpu_hour_price=2.5,
    url="https://example.org/runs/7b",
)


def example_event(kind: EventKind = "opened", **fields: Any) -> Event:
    """Return an event of incident 1 on KL, with other fields where they are given."""
    given = {name: getattr(_OPENED, name) for name in Event.__struct_fields__}
    return Event(**{**given, "event": kind, **fields})


def example_message(**texts: Any) -> Message:
    """Return the message that incident 1 on KL has opened, with these texts."""
    about: dict[str, Any] = {"run": "r", "incident": 1, "event": "opened", "signal": "kl"}
    return Message(**{**about, "severity": "warning", "step": 1, **texts})
