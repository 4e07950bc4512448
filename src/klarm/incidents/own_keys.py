"""The keys that a user has named: what moved is said with them, as people know them by these."""

from __future__ import annotations

import re
from collections.abc import Mapping

from klarm.metrics import FRAMEWORKS, Origin, meaning


def own_keys(origins: Mapping[str, Origin]) -> dict[str, str]:
    """Return the keys that no framework has for their metric, so that a user must have named them.

    >>> own_keys({"kl": Origin("KL_div"), "entropy": Origin("actor/entropy")})
    {'kl': 'KL_div'}
    """
    return {name: key for name, (key, _) in origins.items() if not _is_known(name, key)}


def with_own_keys(moved: str, keys: Mapping[str, str]) -> str:
    """Return a line about what moved with the keys of its metrics beside their names.

    >>> with_own_keys("loss ×4 since step 12, then kl ×8 since step 18", {"kl": "KL_div"})
    'loss ×4 since step 12, then kl (KL_div) ×8 since step 18'
    """
    if not moved or not keys:
        return moved
    names = "|".join(map(re.escape, sorted(keys, key=len, reverse=True)))
    # A name within a longer one, as in rewards/length/mean, is another.
    return re.sub(
        rf"(?<![\w/])({names})(?![\w/])", lambda found: f"{found[0]} ({keys[found[0]]})", moved
    )


def _is_known(name: str, key: str) -> bool:
    found = (meaning(key, framework) for framework in ("", *FRAMEWORKS))
    return key == name or any(known is not None and known.metric == name for known in found)
