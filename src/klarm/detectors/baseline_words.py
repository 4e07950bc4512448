"""How messages name the baseline that a value was compared with."""

from __future__ import annotations


def baseline_words(mode: str, values: int, *, relearnt: bool = False) -> str:
    """Return what to write before the numbers of a baseline.

    `values` is how many it has learnt. A frozen one keeps the first values of the run, or those
    since people accepted a level as normal, which it has `relearnt`.

    >>> f"4σ above {baseline_words('rolling', 100)} 0.5"
    '4σ above its rolling baseline of 0.5'
    >>> f"4σ above {baseline_words('frozen', 100)} 0.5"
    '4σ above the baseline of its first 100 values, 0.5'
    >>> f"4σ above {baseline_words('frozen', 40, relearnt=True)} 0.5"
    '4σ above the baseline of the 40 values since its level was accepted, 0.5'
    """
    if mode == "rolling":
        return "its rolling baseline of"
    if relearnt:
        return f"the baseline of the {values} values since its level was accepted,"
    return f"the baseline of its first {values} values,"
