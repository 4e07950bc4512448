"""Measurements against a target."""

from __future__ import annotations

from table import Row


def at_most(what: str, unit: str, value: float, target: float, peer: float | None = None) -> Row:
    return Row(
        what,
        unit,
        value,
        peer,
        None if peer is None else peer / value,
        target=f"≤ {target:g} {unit}",
        met=value <= target,
    )


def at_least(what: str, unit: str, value: float, target: float) -> Row:
    return Row(what, unit, value, target=f"≥ {target:,g} {unit}", met=value >= target)
