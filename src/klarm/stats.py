"""Statistics of a stream: small objects that learn one value at a time with `update`."""

from __future__ import annotations

from itertools import accumulate
from math import sqrt


class SlidingMoments:
    """Mean and population variance of the last `size` values.

    The stream is cut into blocks of `size`. A window is then the end of the previous block and the
    beginning of the current one; sums over both are at hand, so nothing is ever subtracted from a
    sum, and a spike that has left the window has left no trace. Deviations are taken from the last
    value of the previous block. That value lies in every window of the current block, so the sum
    of squared deviations is at most `size + 1` times the part that matters: the variance loses at
    most log10(size) of its 16 digits, whatever the data.

    A step costs the same for every size: the sums over a block's ends are made once a block.
    Values beyond 1e150 overflow when squared: while one is in the window the variance is not
    finite, and it is right again when the block it came in has left.

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
        self.count = 0  # values in the window
        self.mean = 0.0
        self.variance = 0.0
        self._anchor = 0.0
        self._block: list[float] = []  # the current block's values
        self._sum = 0.0  # of their deviations from the anchor
        self._squares = 0.0
        self._older_sums: list[float] = []  # over the previous block's ends, the longest last
        self._older_squares: list[float] = []

    @property
    def std(self) -> float:
        """The population standard deviation; NaN where values overflowed."""
        return 0.0 if self.variance <= 0.0 else sqrt(self.variance)

    def update(self, value: float) -> None:
        """Take in one finite value; the oldest leaves when the window is full."""
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
        """Make the block that is full the previous one: sum over its ends, from a new anchor."""
        size = self.count = self.size
        anchor = self._anchor = self._block[-1]
        deviations = [value - anchor for value in reversed(self._block)]
        self._older_sums = list(accumulate(deviations))
        self._older_squares = list(accumulate([d * d for d in deviations]))
        self._block = []
        self._sum = self._squares = 0.0
        shift = self._older_sums.pop() / size
        self.mean = anchor + shift
        self.variance = self._older_squares.pop() / size - shift * shift
