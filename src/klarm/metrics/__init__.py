"""Metrics: translates the keys of any framework to canonical names and plain floats."""

from __future__ import annotations

from klarm.metrics.binding import OTHER_LOSS, Binding
from klarm.metrics.catalogue import (
    KLS,
    METRICS,
    PROBE,
    TRAINER_STEP,
    LookAt,
    is_reward_component,
)
from klarm.metrics.frameworks import (
    FRAMEWORKS,
    Advice,
    WhenNotFinite,
    advice_of,
    frameworks_with,
    tables,
    why_missing_in,
)
from klarm.metrics.key_meaning import meaning
from klarm.metrics.kl_kind import CLAMP_NATS, Kind, Origin
from klarm.metrics.numbers import counts, to_number
from klarm.metrics.user_keys import SECTION, STEP, UserKey, check_user_keys, read_user_key

__all__ = [
    "CLAMP_NATS",
    "FRAMEWORKS",
    "KLS",
    "METRICS",
    "OTHER_LOSS",
    "PROBE",
    "SECTION",
    "STEP",
    "TRAINER_STEP",
    "Advice",
    "Binding",
    "Kind",
    "LookAt",
    "Origin",
    "UserKey",
    "WhenNotFinite",
    "advice_of",
    "check_user_keys",
    "counts",
    "frameworks_with",
    "is_reward_component",
    "meaning",
    "read_user_key",
    "tables",
    "to_number",
    "why_missing_in",
]
