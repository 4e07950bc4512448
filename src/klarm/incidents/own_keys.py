"""The keys that a user has named: messages name what moved by them, too."""

from __future__ import annotations

from collections.abc import Mapping

from klarm.metrics import FRAMEWORKS, Origin, meaning


def own_keys(origins: Mapping[str, Origin]) -> dict[str, str]:
    """Return the keys that no framework has for their metric, so that a user must have named them.

    >>> own_keys({"kl": Origin("KL_div"), "entropy": Origin("actor/entropy")})
    {'kl': 'KL_div'}
    """
    return {name: key for name, (key, _) in origins.items() if not _is_known(name, key)}


def _is_known(name: str, key: str) -> bool:
    found = (meaning(key, framework) for framework in ("", *FRAMEWORKS))
    return key == name or any(known is not None and known.metric == name for known in found)
