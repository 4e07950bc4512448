"""Whether a run failed: measured on its log and its score, with no detector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median

from framework_runs.run import Recording, Row, Run

RULE = {
    "score": (
        "Higher is better: GRPO and RLOO reward; mean return of the episodes that ended since the "
        "last row (SB3, RLlib); negative loss (SFT, DPO). Smoothed by a running mean over a "
        "fifteenth of the rows, at least 3. 'final' is the mean over the last fifth of the rows. "
        "One noise unit is 1.48 × the median absolute row-to-row change / √2."
    ),
    "not_finite": "NaN or infinity in a loss, KL, gradient norm or entropy of the last fifth.",
    "gave_up": "The framework raised an error and the log ends early.",
    "score_fell": (
        "final is below the best smoothed score before the onset by more than 4 noise units and "
        "more than 20 % of its absolute value. From the start: below the score of the first row."
    ),
    "never_learnt": (
        "Learning rate wrong from the start only: the healthy runs of the setting gain more than "
        "4 noise units and 20 % over their first row; this run gains less than a tenth of that."
    ),
    "kl_exploded": (
        "Median KL to the reference in the last fifth is above 1 nat and 10 × the median before "
        "the onset (from the start: 10 × the last fifth of the healthy runs of the setting)."
    ),
    "loss_exploded": (
        "Median of a loss (absolute value) in the last fifth is above 10 × its largest value "
        "before the onset (from the start: its largest value in the healthy runs)."
    ),
    "entropy_collapsed": (
        "Entropy of a discrete policy in the last fifth below 5 % of its first value while the "
        "score did not fall: no failure by itself, but not unharmed either."
    ),
    "label": (
        "Changed runs: 'failing' if any of not_finite, gave_up, score_fell, never_learnt, "
        "kl_exploded or loss_exploded holds; else 'unclear' if entropy_collapsed, or if final is "
        "below half of what the healthy runs of the setting gain; else 'unharmed'. "
        "Unchanged runs: 'healthy', but 'unclear' if one of these holds at any point: not finite, "
        "gave up, entropy collapsed, KL above 1 nat at the end, final below the best smoothed "
        "score by more than 4 noise units and 40 % of it."
    ),
}
_LOSSES = ("loss", "train/value_loss", "train/critic_loss", "train/actor_loss", "train/policy_loss")
_LEARNING_RATES = ("learning_rate", "train/learning_rate", "default_optimizer_learning_rate")
_ENTROPIES = ("entropy", "train/entropy_loss", "learners/default_policy/entropy")
_LEARNER = "learners/default_policy/"


@dataclass(frozen=True)
class Verdict:
    """What became of a run, and the measurements that say so."""

    label: str
    onset_step: int | None
    evidence: list[str]
    measured: dict[str, float | None]


def judge(run: Run, recording: Recording, healthy: Sequence[Recording]) -> Verdict:
    """Label a run; `healthy` are the unchanged runs of its setting."""
    rows = updates(recording)
    onset = _onset(run, rows)
    before = rows[: onset or 0]
    last = rows[-max(1, run.rows // 5) :]
    score = _Score(recording.score, run.rows)
    normal = [_Score(other.score, run.rows) for other in healthy]
    normal_rows = [row for other in healthy for row in updates(other)]
    reached = _mean([other.final for other in normal])
    began = _mean([other.first for other in normal])
    if run.change == "none":
        expected, noise = score.best(), score.noise
    elif run.change == "jump":
        share = (onset or len(rows)) / len(rows)
        expected, noise = score.best(share), score.noise
    else:
        expected, noise = score.first, _mean([other.noise for other in normal])
    clearly = 0.4 if run.change == "none" else 0.2
    evidence = []
    if any(_not_finite(row) for row in last):
        evidence.append("not_finite")
    if rows[-1]["step"] < 0.95 * _planned_end(run):
        evidence.append("gave_up")
    if expected - score.final > max(4 * noise, clearly * abs(expected)):
        evidence.append("score_fell")
    gain = reached - began
    learns = gain > max(4 * _mean([other.noise for other in normal]), 0.2 * abs(began))
    if run.change == "start" and learns and score.final - began < 0.1 * gain:
        evidence.append("never_learnt")
    usual_kl = _median(before if run.change == "jump" else normal_rows, "kl")
    kl = _median(last, "kl")
    if kl is not None and kl > 1 and (run.change == "none" or kl > 10 * (usual_kl or 0)):
        evidence.append("kl_exploded")
    if run.change != "none" and _loss_exploded(
        last, before if run.change == "jump" else normal_rows
    ):
        evidence.append("loss_exploded")
    failed = bool(evidence)
    if "score_fell" not in evidence and _entropy_collapsed(run, rows, last):
        evidence.append("entropy_collapsed")
    stalled = run.change != "none" and learns and score.final - began < 0.5 * gain
    if run.change == "none":
        label = "unclear" if evidence else "healthy"
    elif failed:
        label = "failing"
    else:
        label = "unclear" if evidence or stalled else "unharmed"
    return Verdict(
        label,
        None if run.change == "none" else 0 if run.change == "start" else _step_of(rows, onset),
        evidence,
        {
            "score_first": _rounded(score.first),
            "score_best_before": _rounded(expected),
            "score_final": _rounded(score.final),
            "score_noise": _rounded(noise),
            "healthy_final": _rounded(reached),
            "kl_before": _rounded(usual_kl),
            "kl_final": _rounded(kl),
        },
    )


def updates(recording: Recording) -> list[Row]:
    """Return the rows that have a learning rate: all but a trainer's summary."""
    return [row for row in recording.rows if _learning_rate(row) is not None]


class _Score:
    """A curve of scores, some of which were not measured."""

    def __init__(self, score: Sequence[float | None], rows: int) -> None:
        self.values = [value for value in score if value is not None and isfinite(value)]
        # Not every row has a score: windows count those that do.
        self.width = min(max(3, rows // 15), max(1, len(self.values) // 4))
        last = max(1, len(self.values) // 5)
        self.first = _mean(self.values[:1])
        self.final = _mean(self.values[-last:])
        changes = [abs(b - a) for a, b in zip(self.values, self.values[1:], strict=False)]
        self.noise = 1.48 * median(changes) / 2**0.5 if changes else 0.0

    def best(self, share: float = 1.0) -> float:
        """Return the best smoothed score in the first part of the run."""
        part = self.values[: max(self.width, round(share * len(self.values)))]
        starts = range(len(part) - self.width + 1)
        return max(_mean(part[start : start + self.width]) for start in starts)


def _onset(run: Run, rows: Sequence[Row]) -> int | None:
    """Return the first row whose logged learning rate has jumped."""
    if run.change != "jump":
        return None
    rates = [_learning_rate(row) or 0.0 for row in rows]
    return next(row for row in range(1, len(rates)) if rates[row] > 10 * rates[row - 1] > 0)


def _step_of(rows: Sequence[Row], onset: int | None) -> int | None:
    return None if onset is None else int(rows[onset]["step"])


def _planned_end(run: Run) -> int:
    return int(run.rows * run.options.get("per_row", 1))


def _learning_rate(row: Row) -> float | None:
    return next((row[key] for name in _LEARNING_RATES if (key := _key(row, name)) in row), None)


def _key(row: Row, name: str) -> str:
    return name if name in row else _LEARNER + name


def _not_finite(row: Row) -> bool:
    """Whether a number that is known to be one is not; TRL logs None for a NaN KL."""
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
