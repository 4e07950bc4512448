"""What a key means: which metric it is in a framework, or by its name alone."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from klarm.metrics.catalogue import METRICS
from klarm.metrics.frameworks import PREFIX, SPECIFIC_KEYS, Row, tables
from klarm.metrics.kl_kind import Kind

# key -> (canonical name, rank): if a step has several keys of one metric, the lowest rank is used.
_RANKS: dict[str, tuple[str, int]] = {
    key: (metric.name, rank)
    for metric in METRICS.values()
    for rank, key in enumerate((metric.name, *metric.keys))
}
_LAST = 1000  # the rank of keys without one
_OTHER_CASE = 10 * _LAST  # added for keys in another letter case
# The default module of RLlib.
_FIRST_MODULE = "default_policy"


class Meaning(NamedTuple):
    """The meaning of a framework's key."""

    metric: str
    rank: int  # the lowest of several keys of a metric is used
    source: str  # the same for keys that differ only in their prefix
    kind: Kind | None = None
    negated: bool = False
    when_zero: str = ""


@lru_cache(maxsize=2048)  # a trainer asks for the same keys in every row
def meaning(key: str, framework: str = "") -> Meaning | None:
    """Return the meaning of a key in a framework, or by its name alone; None if unknown.

    A key in another letter case is also found, but ranks after keys that are spelled exactly.

    >>> meaning("train/approx_kl").metric
    'kl_old'
    >>> meaning("entropy_loss", "sb3").negated, meaning("entropy_loss")
    (True, None)
    >>> meaning("Train/KL").metric
    'kl'
    """
    found = _exact_meaning(key, framework)
    if found is None and not key.islower():
        found = _exact_meaning(key.lower(), framework)
        if found is not None:  # not the same source as the exact spelling
            rank = found.rank + _OTHER_CASE
            found = found._replace(rank=rank, source=_without_prefix(key))
    return found


def _exact_meaning(key: str, framework: str) -> Meaning | None:
    bare = key.removeprefix(PREFIX)
    spellings = (key, bare, _starred(bare))
    for table in tables(framework):
        for spelling in (*spellings, PREFIX + key):
            if spelling in table:
                return _meaning(spelling, bare, table[spelling])
    for spelling in spellings:
        row = SPECIFIC_KEYS.get(spelling)
        if row is None and spelling in _RANKS:
            row = Row(_RANKS[spelling][0])
        if row is not None:
            return _meaning(spelling, bare, row)
    return None


def _meaning(spelling: str, bare: str, row: Row) -> Meaning:
    name, rank = _RANKS.get(spelling, (row.metric, _LAST))
    if name != row.metric:
        rank = _LAST
    if "*" in spelling and f"/{_FIRST_MODULE}/" not in bare:
        rank += _LAST
    source = bare if "*" in spelling else spelling.removeprefix(PREFIX)
    return Meaning(row.metric, rank, source, row.kind, row.negated, row.when_zero)


def _without_prefix(key: str) -> str:
    has_prefix = key.lower().startswith(PREFIX)
    return key[len(PREFIX) :] if has_prefix else key


def _starred(key: str) -> str:
    """Return a key of three parts with a star in place of the middle one."""
    parts = key.split("/")
    return f"{parts[0]}/*/{parts[2]}" if len(parts) == 3 else key
