"""The line of a message that says what else moved, in which order, and what did not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from klarm.text import clean_line
from klarm.types import Moved
from klarm.wording.numbers import factor, number

_DONE = {"up": "risen", "down": "fallen", "broken": "not been finite"}
_GOING = {"up": "rising", "down": "falling"}


def what_moved(also: Sequence[Moved], as_of: int | None = None) -> str:
    """Return one line, or nothing if nothing moved; `as_of` is the step until which it was seen.

    >>> moved = [Moved("loss", "up", step=612, ratio=4.0), Moved("kl", "up", step=618, ratio=8.0)]
    >>> what_moved([*moved, Moved("reward", "flat", "flat")])
    'loss ×4 since step 612, then kl ×8 since step 618; no clear change: reward'
    >>> what_moved([*moved, Moved("entropy", "up", step=618, ratio=2.0)], as_of=700)
    'loss ×4 since step 612, then kl ×8 and entropy ×2 since step 618 (as of step 700)'
    >>> earlier = Moved("length", "down", step=600, before=1.0, reached=-2.0, is_earlier=True)
    >>> what_moved([earlier, *moved])
    'first length 1 → -2 since step 600, then loss ×4 since step 612, then kl ×8 since step 618'
    >>> what_moved([earlier])
    'length 1 → -2 since step 600, before the incident'
    >>> what_moved([Moved("reward", "up", "as_before"), Moved("entropy", "flat", "flat")])
    'nothing new (reward keeps rising as before; no clear change: entropy)'
    """
    parts = _line([moved for moved in also if moved.is_part])
    line = "; ".join(filter(None, [parts, _line([moved for moved in also if not moved.is_part])]))
    return f"{line} (as of step {as_of})" if line and as_of is not None else line


def _line(also: Sequence[Moved]) -> str:
    dated = [moved for moved in also if moved.told == "dated"]
    in_alert = [moved for moved in also if moved.told == "in_alert"]
    slow = [moved for moved in also if moved.told in ("gradual", "as_before")]
    earlier = _listed(moved for moved in dated if moved.is_earlier)
    later = _listed(moved for moved in dated if not moved.is_earlier)
    if earlier:
        said = f"first {earlier}, then {later}" if later else f"{earlier}, before the incident"
    else:
        said = later
    parts = [said] if said else []
    parts += [f"{_name(m)} has {_DONE.get(m.way, m.way)} since step {m.step}" for m in in_alert]
    parts += map(_over_these_rows, slow)
    if flat := ", ".join(_name(moved) for moved in also if moved.told == "flat"):
        parts.append(f"no clear change: {flat}")
    line = "; ".join(parts)
    has_news = dated or in_alert or any(moved.told == "gradual" for moved in slow)
    return line if has_news or not line else f"nothing new ({line})"


def _listed(movements: Iterable[Moved]) -> str:
    """Return movements in their order, those of one step together."""
    by_step = groupby(movements, key=lambda moved: moved.step)
    return ", then ".join(f"{_enumerated(group)} since step {step}" for step, group in by_step)


def _enumerated(movements: Iterable[Moved]) -> str:
    *others, last = map(_how_far, movements)
    return f"{', '.join(others)} and {last}" if others else last


def _how_far(moved: Moved) -> str:
    name = _name(moved)
    if moved.way == "broken":
        return f"{name} not finite"
    far: str = moved.way
    if moved.ratio is not None:
        far = factor(moved.ratio)
    elif moved.before is not None and moved.reached is not None:
        far = f"{number(moved.before, 2)} → {number(moved.reached, 2)}"
    if moved.turned is None:
        return f"{name} {far}"
    now: str = moved.turned
    if moved.now_ratio is not None:
        now = factor(moved.now_ratio)
    elif moved.now is not None:
        now = number(moved.now, 2)
    return f"{name} {far} (now {now})"


def _over_these_rows(moved: Moved) -> str:
    """Return how far a metric went that has no step from which it went."""
    name = _name(moved)
    if moved.told == "as_before":
        return f"{name} keeps {_GOING.get(moved.way, moved.way)} as before"
    since = f"over the last {moved.rows} rows"
    if moved.ratio is not None:
        return f"{name} {moved.way} {100 * abs(moved.ratio - 1.0):.0f}% {since}"
    if moved.before is None or moved.reached is None:
        return f"{name} {moved.way} {since}"
    return (
        f"{name} {moved.way} from {number(moved.before, 2)} to {number(moved.reached, 2)} {since}"
    )


def _name(moved: Moved) -> str:
    """Return the metric as messages name it; parts of a reward have the names users gave them."""
    return clean_line(f"{moved.metric} ({moved.key})" if moved.key else moved.metric)
