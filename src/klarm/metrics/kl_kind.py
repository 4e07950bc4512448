"""The kinds of KL: different quantities with one name, which need different thresholds."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import msgspec

Target = Literal["reference", "old", "rollout"]
Estimator = Literal["k1", "k2", "k3", "exact", "unknown"]
Per = Literal["token", "action", "sequence"]

CLAMP_NATS = 10.0  # the same in every framework that clamps

_SUM = "_sum"
_TARGETS = {"reference": "reference", "old": "old policy", "rollout": "rollout policy"}
_PER = {"token": "per token", "action": "per action", "sequence": "summed over the sequence"}


class Kind(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a KL is compared with, and how it is estimated.

    With d the difference of the log-probabilities, k1 is d, k2 is d²/2 and k3 is exp(-d) - 1 + d.

    >>> str(Kind("reference", "k3"))
    'reference, k3, per token'
    """

    target: Target
    estimator: Estimator = "unknown"
    per: Per = "token"
    # Whether the value of each token is clamped within ±CLAMP_NATS, which limits the mean, too.
    clamped: bool = False
    # Whether an estimate below 0 is logged as 0, which is then nothing unusual.
    floored: bool = False

    @property
    def signed(self) -> bool:
        """Whether it can be negative, like k1."""
        return self.estimator == "k1"

    def __str__(self) -> str:
        estimator = "" if self.estimator == "unknown" else self.estimator
        parts = [
            _TARGETS[self.target],
            f"signed {estimator}" if self.signed else estimator,
            _PER[self.per],
            f"±{CLAMP_NATS:g}" if self.clamped else "",
            "0 if below" if self.floored else "",
        ]
        return ", ".join(part for part in parts if part)


class Origin(NamedTuple):
    """The trainer's key that a metric is read from, and its kind, if known."""

    key: str
    kind: Kind | None = None


def parse_kind(text: str) -> Kind | None:
    """Return the kind that a user has named: target, estimator and optionally `_sum`.

    >>> parse_kind("reference_k1_sum")
    Kind(target='reference', estimator='k1', per='sequence', clamped=False, floored=False)
    """
    target, _, estimator = text.removesuffix(_SUM).partition("_")
    if target not in get_args(Target) or estimator not in get_args(Estimator):
        return None
    per: Per = "sequence" if text.endswith(_SUM) else "token"
    return Kind(target, estimator, per)  # type: ignore[arg-type]


def spell_kind(kind: Kind) -> str:
    """Return the name of a kind in klarm.yaml."""
    return f"{kind.target}_{kind.estimator}{_SUM if kind.per == 'sequence' else ''}"


def kinds_of(target: Target) -> list[str]:
    """Return the names of all kinds of KL to this target."""
    return [f"{target}_{how}{end}" for end in ("", _SUM) for how in get_args(Estimator)]
