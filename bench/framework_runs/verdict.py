"""Decides whether a run failed, by its log and its score, without any detector.

score: Higher is better: reward (GRPO, RLOO); mean return of the episodes that ended since the last
    row (SB3, RLlib); negative loss (SFT, DPO). Smoothed by a running mean over a fifteenth of the
    rows, at least 3. 'first' is the mean first row of the setting's runs, before any update.
    'final' is the mean over the last fifth of the rows.
clearly: A difference of two means is clear if it exceeds 4 standard errors and a share of the
    scale. The standard error comes from the noise of one row: 1.48 × the median absolute row-to-
    row change / √2, before the onset (from the start: in the first fifth of the setting's
    unchanged runs). The scale is the absolute score, or, for negative returns, what the setting's
    unchanged runs gain, at least a fifth of first.
not_finite: NaN or infinity in a loss, KL, gradient norm or entropy of the last fifth.
gave_up: The framework raised an error and the log ends early.
score_fell: final is clearly (20 % of the scale) below the best smoothed score before the onset;
    from the start: below first. It does not count as a failure of a changed run whose final is
    above that of the setting's unchanged runs: those fall as well.
never_learnt: Learning rate wrong from the start only: the setting's unchanged runs gain more than
    4 standard errors over first; this run gains less than a tenth of that.
kl_exploded: Median KL to the reference in the last fifth is above 1 nat and 10 × the median before
    the onset (from the start: of the last fifth of the setting's unchanged runs). Not asked of
    KTO, whose KL is summed over the sequence.
step_kl_exploded: The same of the KL to the old policy, above 0.1 nats.
loss_exploded: Median of a loss (absolute value) in the last fifth is above 10 × its largest value
    before the onset (from the start: in the setting's unchanged runs).
entropy_collapsed: Entropy of a discrete policy in the last fifth below 5 % of its first value
    while the score did not fall: no failure by itself, but not unharmed either.
label: Changed runs: 'failing' if any of not_finite, gave_up, score_fell, never_learnt,
    kl_exploded, step_kl_exploded or loss_exploded holds; else 'unclear' if entropy_collapsed
    holds, if a fall does not count, if final is clearly (20 %) below that of the setting's
    unchanged runs, or if the run gains less than half of what they gain; else 'unharmed'.
    Unchanged runs: 'healthy', but 'unclear' if not_finite, gave_up or entropy_collapsed holds, if
    the KL to the reference ends above 1 nat or the KL to the old policy above 0.1, if final is
    clearly (40 %) below the best smoothed score, or if the smoothed score was ever clearly (60 %)
    below its best before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from statistics import median

from framework_runs.run import Recording, Row, Run

_LOSSES = ("loss", "train/value_loss", "train/critic_loss", "train/actor_loss", "train/policy_loss")
_LEARNING_RATES = ("learning_rate", "train/learning_rate", "default_optimizer_learning_rate")
_ENTROPIES = ("entropy", "train/entropy_loss", "learners/default_policy/entropy")
_LEARNER = "learners/default_policy/"
# Trainers whose KL is summed over the sequence, so that a limit per token does not apply.
_SUMMED_KL = ("KTO",)


@dataclass(frozen=True)
class Verdict:
    """The label of a run, and the measurements behind it."""

    label: str
    onset_step: int | None
    evidence: list[str]
    measured: dict[str, float | None]


def judge(run: Run, recording: Recording, unchanged: Sequence[Recording]) -> Verdict:
    """Label a run; `unchanged` are the unchanged runs of its setting."""
    rows = updates(recording)
    onset = _onset(run, rows)
    last = rows[-max(1, run.rows // 5) :]
    if run.change == "jump":
        usual, usual_end = rows[:onset], rows[:onset]
    else:
        normal = [updates(other) for other in unchanged]
        usual = [row for other in normal for row in other]
        usual_end = [row for other in normal for row in other[-max(1, run.rows // 5) :]]
    score = _Comparison(run, recording, unchanged, onset / len(rows) if onset else 1.0)
    evidence = []
    if any(_not_finite(row) for row in last):
        evidence.append("not_finite")
    if rows[-1]["step"] < 0.95 * _planned_end(run):
        evidence.append("gave_up")
    if score.fell():
        evidence.append("score_fell")
    if score.never_learnt():
        evidence.append("never_learnt")
    kls = {"kl_exploded": ("kl", 1.0), "step_kl_exploded": (_old_kl(rows[0]), 0.1)}
    for name, (key, limit) in kls.items():
        if run.algorithm in _SUMMED_KL and key == "kl":
            continue
        now, before = _median(last, key), _median(usual_end, key) or 0.0
        if now is not None and now > limit and (run.change == "none" or now > 10 * before):
            evidence.append(name)
    if run.change != "none" and _loss_exploded(last, usual):
        evidence.append("loss_exploded")
    failed = bool(set(evidence) - ({"score_fell"} if score.beats_unchanged() else set()))
    if "score_fell" not in evidence and _entropy_collapsed(run, rows, last):
        evidence.append("entropy_collapsed")
    if run.change == "none":
        label = "unclear" if evidence or score.dipped() else "healthy"
    elif failed:
        label = "failing"
    else:
        label = "unclear" if evidence or score.stalled() else "unharmed"
    measured = {
        **score.measured(),
        "kl_before": _median(usual_end, "kl"),
        "kl_final": _median(last, "kl"),
        "step_kl_before": _median(usual_end, _old_kl(rows[0])),
        "step_kl_final": _median(last, _old_kl(rows[0])),
    }
    step = None if onset is None else int(rows[onset]["step"])
    return Verdict(
        label,
        0 if run.change == "start" else step,
        evidence,
        {name: _rounded(value) for name, value in measured.items()},
    )


class _Comparison:
    """A run's score against its own past and against the unchanged runs of its setting."""

    def __init__(
        self, run: Run, recording: Recording, unchanged: Sequence[Recording], share_before: float
    ) -> None:
        self.run = run
        self.score = _Score(recording.score, run.rows)
        others = [_Score(other.score, run.rows) for other in unchanged]
        self.first = _mean([self.score.first, *(other.first for other in others)])
        self.gain = _mean([other.final for other in others]) - self.first
        if run.change == "start":
            self.expected, self.rows_before = self.first, 1 + len(others)
            self.noise = _mean([other.noise(0.2) for other in others])
        else:
            self.expected, self.rows_before = self.score.best(share_before), self.score.width
            self.noise = self.score.noise(share_before)
        costs = run.framework != "trl" and self.expected < 0
        self.scale = max(self.gain, 0.2 * abs(self.first)) if costs else abs(self.expected)

    def fell(self) -> bool:
        share = 0.4 if self.run.change == "none" else 0.2
        return self._clear(self.expected - self.score.final, share)

    def beats_unchanged(self) -> bool:
        return self.run.change != "none" and self.score.final > self.first + self.gain

    def never_learnt(self) -> bool:
        gained = self.score.final - self.first
        return self.run.change == "start" and self._can_learn() and gained < 0.1 * self.gain

    def stalled(self) -> bool:
        gained = self.score.final - self.first
        return self._clear(self.gain - gained, 0.2) or gained < 0.5 * self.gain

    def drawdown(self) -> float:
        """Return the largest drop of the smoothed score below its earlier best, in scales."""
        best, deepest = -float("inf"), 0.0
        for value in self.score.smoothed():
            best = max(best, value)
            deepest = max(deepest, best - value)
        return deepest / self.scale if self.scale else 0.0

    def dipped(self) -> bool:
        error = self.noise * (2 / self.score.width) ** 0.5
        return self.drawdown() * self.scale > max(4 * error, 0.6 * self.scale)

    def measured(self) -> dict[str, float]:
        return {
            "score_first": self.first,
            "score_best_before": self.expected,
            "score_final": self.score.final,
            "score_noise": self.noise,
            "score_scale": self.scale,
            "score_drawdown": self.drawdown(),
            "unchanged_final": self.first + self.gain,
        }

    def _can_learn(self) -> bool:
        return self._clear(self.gain, 0.0)

    def _clear(self, difference: float, share: float) -> bool:
        error = self.noise * (1 / self.rows_before + 1 / self.score.last) ** 0.5
        return difference > max(4 * error, share * self.scale)


def updates(recording: Recording) -> list[Row]:
    """Return the rows that have a learning rate: all but a trainer's summary."""
    return [row for row in recording.rows if _learning_rate(row) is not None]


class _Score:
    """A curve of scores, some of which were not measured."""

    def __init__(self, score: Sequence[float | None], rows: int) -> None:
        self.values = [value for value in score if value is not None and isfinite(value)]
        # Not every row has a score: windows count those that do.
        self.width = min(max(3, rows // 15), max(1, len(self.values) // 4))
        self.last = max(1, len(self.values) // 5)
        self.first = self.values[0]
        self.final = _mean(self.values[-self.last :])

    def noise(self, share: float = 1.0) -> float:
        """Return the noise of one row in the first part of the run."""
        part = self._part(share)
        changes = [abs(b - a) for a, b in pairwise(part)]
        return 1.48 * median(changes) / 2**0.5 if changes else 0.0

    def best(self, share: float = 1.0) -> float:
        """Return the best smoothed score in the first part of the run."""
        return max(self.smoothed(share))

    def smoothed(self, share: float = 1.0) -> list[float]:
        """Return the running mean over the first part of the run."""
        part = self._part(share)
        starts = range(len(part) - self.width + 1)
        return [_mean(part[start : start + self.width]) for start in starts]

    def _part(self, share: float) -> list[float]:
        return self.values[: max(self.width, round(share * len(self.values)))]


def _onset(run: Run, rows: Sequence[Row]) -> int | None:
    """Return the first row whose logged learning rate has jumped."""
    if run.change != "jump":
        return None
    rates = [_learning_rate(row) or 0.0 for row in rows]
    return next(row for row in range(1, len(rates)) if rates[row] > 10 * rates[row - 1] > 0)


def _planned_end(run: Run) -> int:
    return int(run.rows * run.options.get("per_row", 1))


def _learning_rate(row: Row) -> float | None:
    return next((row[key] for name in _LEARNING_RATES if (key := _key(row, name)) in row), None)


def _key(row: Row, name: str) -> str:
    return name if name in row else _LEARNER + name


def _old_kl(row: Row) -> str:
    """Return the key of the KL to the old policy; RLlib's or SB3's."""
    return "train/approx_kl" if "train/learning_rate" in row else _LEARNER + "mean_kl_loss"


def _not_finite(row: Row) -> bool:
    """Return whether a metric is not finite; TRL logs None for a NaN KL."""
    names = (*_LOSSES, *_ENTROPIES, "kl", "grad_norm", _LEARNER + "total_loss")
    return any(name in row and (row[name] is None or not isfinite(row[name])) for name in names)


def _loss_exploded(last: Sequence[Row], usual: Sequence[Row]) -> bool:
    for name in _LOSSES:
        now = _median(last, name, absolute=True)
        earlier = [abs(row[name]) for row in usual if row.get(name) is not None]
        if now is not None and earlier and now > 10 * max(earlier) > 0.01:
            return True
    return False


def _entropy_collapsed(run: Run, rows: Sequence[Row], last: Sequence[Row]) -> bool:
    if run.options.get("env") in ("Pendulum-v1", "reach"):
        return False
    for name in _ENTROPIES:
        now, first = _median(last, name, absolute=True), rows[0].get(name)
        if now is not None and first:
            return now < 0.05 * abs(first)
    return False


def _median(rows: Sequence[Row], name: str, absolute: bool = False) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None and isfinite(row[name])]
    return median(map(abs, values) if absolute else values) if values else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
