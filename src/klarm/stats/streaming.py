"""Statistics of a stream: small objects that take one value at a time with `update`."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from itertools import accumulate, repeat
from math import inf, sqrt
from operator import mul, sub

_ROUNDING = 1e-9
_MIN_FLOAT = 5e-324  # the smallest float above 0


def median(values: Iterable[float]) -> float:
    """Return the middle value, or the mean of the two middle ones.

    It takes a tenth of the time of `statistics.median`.

    >>> median([3.0, 1.0, 2.0]), median([1.0, 2.0])
    (2.0, 1.5)
    """
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return ordered[middle - 1] / 2 + ordered[middle] / 2  # a sum could overflow


class SlidingMedian:
    """The median of the last `size` finite values, which are kept in a sorted list.

    >>> window = SlidingMedian(size=3)
    >>> for value in (9.0, 1.0, 2.0, 3.0):
    ...     window.update(value)
    >>> window.median
    2.0
    """

    __slots__ = ("_ordered", "values")

    def __init__(self, size: int) -> None:
        self.values: deque[float] = deque(maxlen=size)  # in the order of arrival
        self._ordered: list[float] = []

    def update(self, value: float) -> None:
        """Add one value; the oldest leaves when the window is full."""
        values, ordered = self.values, self._ordered
        if len(values) == values.maxlen:
            del ordered[bisect_left(ordered, values[0])]
        values.append(value)
        insort(ordered, value)

    @property
    def median(self) -> float:
        """The median of the values so far; 0 if there are none."""
        ordered = self._ordered
        middle = len(ordered) // 2
        if len(ordered) % 2:
            return ordered[middle]
        # The halves are added, because the sum could overflow.
        return ordered[middle - 1] / 2 + ordered[middle] / 2 if ordered else 0.0

    @property
    def scatter(self) -> float:
        """The median absolute deviation from the median; 0 if there are no values."""
        count = len(self._ordered)
        if not count:
            return 0.0
        upper = self._distance(count // 2 + 1)
        return upper if count % 2 else self._distance(count // 2) / 2 + upper / 2

    def _distance(self, count: int) -> float:
        """Return the distance from the median to the nth nearest value, with n = `count`.

        The nearest values are neighbours in the sorted list, so a binary search finds the first.
        """
        ordered, level = self._ordered, self.median
        first, last = 0, len(ordered) - count
        while first < last:
            middle = (first + last) // 2
            if level - ordered[middle] > ordered[middle + count] - level:
                first = middle + 1
            else:
                last = middle
        return max(level - ordered[first], ordered[first + count - 1] - level)


class MedianWithin:
    """The median of the last `size` values, and a cheaper check whether it may exceed a limit.

    The median cannot exceed the limit while fewer than half of the values do.

    >>> window = MedianWithin(size=3)
    >>> window.set_limit(5.0)
    >>> for value in (9.0, 1.0, 2.0):
    ...     window.update(value)
    >>> window.may_be_above, window.median
    (False, 2.0)
    """

    __slots__ = ("_limit", "above", "values")

    def __init__(self, size: int) -> None:
        self.values: deque[float] = deque(maxlen=size)
        self._limit = inf
        self.above = 0  # how many values are above the limit; without any, the median is not

    def set_limit(self, limit: float) -> None:
        """Set the limit. Values that are closer to it than the rounding error count as above."""
        self._limit = limit - _ROUNDING * abs(limit) - _MIN_FLOAT
        self.above = sum(value > self._limit for value in self.values)

    def update(self, value: float) -> None:
        """Add one value; the oldest leaves when the window is full."""
        values, limit = self.values, self._limit
        if self.above and len(values) == values.maxlen and values[0] > limit:
            self.above -= 1
        values.append(value)
        if value > limit:
            self.above += 1

    @property
    def may_be_above(self) -> bool:
        """Whether the median may be above the limit."""
        return self.above > 0 and 2 * self.above >= len(self.values)

    @property
    def median(self) -> float:
        """The median of the values so far; 0 if there are none."""
        return median(self.values) if self.values else 0.0


class SlidingMoments:
    """Mean and population variance of the last `size` values.

    The stream is divided into blocks of `size`. A window consists of the end of the previous block
    and the beginning of the current one. The sums of both parts are kept, so nothing is ever
    subtracted from a sum, and a spike that has left the window leaves no rounding error behind.
    Deviations are taken from the last value of the previous block. That value lies in every window
    of the current block, so the sum of squared deviations is at most `size + 1` times the part that
    matters: the variance loses at most log10(size) of its 16 digits, whatever the data.

    The cost per step does not depend on the size, because the sums of a block's ends are computed
    once per block. Values beyond 1e150 overflow when squared: while one is in the window, the
    variance is not finite, and it is right again when the block of that value has left the window.

    >>> moments = SlidingMoments(size=3)
    >>> for value in (1e12, 1.0, 2.0, 3.0):
    ...     moments.update(value)
    >>> moments.mean, round(moments.variance, 12)
    (2.0, 0.666666666667)
    """

    __slots__ = (
        "_anchor",
        "_block",
        "_older_squares",
        "_older_sums",
        "_squares",
        "_sum",
        "count",
        "mean",
        "size",
        "variance",
    )

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0  # how many values are in the window
        self.mean = 0.0
        self.variance = 0.0
        self._anchor = 0.0
        self._block: list[float] = []  # the values of the current block
        self._sum = 0.0  # of their deviations from the anchor
        self._squares = 0.0
        self._older_sums: list[float] = []  # of the ends of the previous block, longest last
        self._older_squares: list[float] = []

    @property
    def std(self) -> float:
        """The population standard deviation; NaN where values overflowed."""
        return 0.0 if self.variance <= 0.0 else sqrt(self.variance)

    def update(self, value: float) -> None:
        """Add one finite value; the oldest leaves when the window is full."""
        deviation = value - self._anchor
        self._block.append(value)
        total = self._sum = self._sum + deviation
        squares = self._squares = self._squares + deviation * deviation
        if self._older_sums:
            size = self.size
            shift = (total + self._older_sums.pop()) / size
            self.mean = self._anchor + shift
            self.variance = (squares + self._older_squares.pop()) / size - shift * shift
        elif len(self._block) < self.size:
            self._grow()
        else:
            self._start_block()

    def _grow(self) -> None:
        """Set the moments of a window that is not full yet, anchored on its first value."""
        count = self.count = len(self._block)
        if count == 1:
            self._anchor = self._block[0]
            self._sum = self._squares = 0.0
        shift = self._sum / count
        self.mean = self._anchor + shift
        self.variance = self._squares / count - shift * shift

    def _start_block(self) -> None:
        """Make the full block the previous one: sum over its ends, from a new anchor."""
        size = self.count = self.size
        anchor = self._anchor = self._block[-1]
        # Without a loop in Python, because one step out of `size` bears the whole cost.
        deviations = [*map(sub, reversed(self._block), repeat(anchor))]
        self._older_sums = [*accumulate(deviations)]
        self._older_squares = [*accumulate(map(mul, deviations, deviations))]
        self._block = []
        self._sum = self._squares = 0.0
        shift = self._older_sums.pop() / size
        self.mean = anchor + shift
        self.variance = self._older_squares.pop() / size - shift * shift


class SlidingMean:
    """The mean of the last `size` values, from sums of blocks as in `SlidingMoments`.

    The sums of a full block's ends are computed with the value after it, not with its last one:
    several windows of the same size then do their work at different steps.

    >>> window = SlidingMean(size=3)
    >>> for value in (1e12, 1.0, 2.0, 3.0):
    ...     window.update(value)
    >>> window.mean
    2.0
    """

    __slots__ = ("_anchor", "_block", "_older", "_sum", "mean", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.mean = 0.0
        self._anchor = 0.0
        self._block: list[float] = []  # the values of the current block
        self._sum = 0.0  # of their deviations from the anchor
        self._older: list[float] = []  # the sums of the ends of the previous block, longest last

    def update(self, value: float) -> None:
        """Add one finite value; the oldest leaves when the window is full."""
        block, anchor, size = self._block, self._anchor, self.size
        if len(block) == size:
            anchor = self._anchor = block[-1]
            self._older = [*accumulate(map(sub, reversed(block[1:]), repeat(anchor)))]
            block = self._block = []
            self._sum = 0.0
        elif not block:
            anchor = self._anchor = value
        block.append(value)
        total = self._sum = self._sum + (value - anchor)
        if self._older:
            self.mean = anchor + (total + self._older.pop()) / size
        elif len(block) == size:  # the anchor is not in this window, and may be far away
            self.mean = sum(block) / size
        else:
            self.mean = anchor + total / len(block)
