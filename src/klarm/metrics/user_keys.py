"""The keys that users configure: `metrics` in klarm.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from klarm.metrics.catalogue import METRICS
from klarm.metrics.kl_kind import Kind, kinds_of, parse_kind, spell_kind
from klarm.settings import ConfigError, as_given, did_you_mean

SECTION = "metrics"
# Not a metric, but read from a column, too.
STEP = "step"
_FIELDS = ("key", "kind")


class UserKey(NamedTuple):
    """The key of a metric as the user configured it, which takes precedence over all tables."""

    key: str = ""  # empty: klarm finds it
    kind: Kind | None = None

    def as_dict(self) -> dict[str, str]:
        """Return it as in klarm.yaml."""
        fields = {"key": self.key, "kind": spell_kind(self.kind) if self.kind else ""}
        return {name: value for name, value in fields.items() if value}


def read_user_key(metric: str, value: object) -> UserKey:
    """Read what a user configured for a metric: a key, or `{key: …, kind: …}`."""
    place = f"{SECTION}.{metric}"
    if metric not in METRICS and metric != STEP:
        known = [STEP, *METRICS]
        hint = did_you_mean(metric, known) or f"; known: {', '.join(known)}"
        raise ConfigError(f"{place} is unknown{hint}")
    fields: dict[str, str] = {}
    given: object
    for name, given in (value if isinstance(value, Mapping) else {"key": value}).items():
        if name not in _FIELDS:
            hint = did_you_mean(name, _FIELDS) or f"; known: {', '.join(_FIELDS)}"
            raise ConfigError(f"{place}.{name} is unknown{hint}")
        if not isinstance(given, str) or not given:
            spot = f"{place}.{name}" if isinstance(value, Mapping) else place
            raise ConfigError(
                f"{spot} must be text, as in `{metric}: my/{metric}`, got {as_given(given)}"
            )
        fields[name] = given
    if not fields:
        raise ConfigError(
            f"{place} must name a key, as in `{metric}: my/{metric}`, got {as_given(value)}"
        )
    kind = _read_kind(metric, fields["kind"]) if "kind" in fields else None
    return UserKey(fields.get("key", ""), kind)


def check_user_keys(keys: Mapping[str, UserKey]) -> None:
    """Raise an error if two metrics have the same key."""
    metrics: dict[str, str] = {}
    for metric, user in keys.items():
        other = metrics.setdefault(user.key, metric) if user.key else metric
        if other != metric:
            raise ConfigError(
                f"{SECTION}.{other} and {SECTION}.{metric} are both read from {user.key!r}; "
                "give each metric its own key"
            )


def _read_kind(metric: str, text: str) -> Kind:
    place, target = f"{SECTION}.{metric}.kind", METRICS[metric].target if metric != STEP else None
    if target is None:
        having = ", ".join(name for name, known in METRICS.items() if known.target)
        raise ConfigError(f"{place} is not allowed: only {having} have a kind, got {text!r}")
    allowed = kinds_of(target)
    kind = parse_kind(text)
    if kind is None:
        hint = did_you_mean(text, allowed)
        raise ConfigError(f"{place} must be one of {', '.join(allowed)}, got {text!r}{hint}")
    if kind.target != target:
        right = next(name for name, known in METRICS.items() if known.target == kind.target)
        raise ConfigError(
            f"{place} is {text!r}, {METRICS[right].meaning}, but {metric} is "
            f"{METRICS[metric].meaning}: use {SECTION}.{right}, or a kind that begins with "
            f"{target}_"
        )
    return kind
