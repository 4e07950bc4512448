"""Synthetic runs: what KL does while a run is healthy, and how it fails.

Everything is counted in rows of the log; the step numbers beside them are 1 to 20 apart. Ranges
are those of real runs: half the plateau is reached by row 11 to 154 and 90 % of it 18 to 50 rows
later, the plateau is 4e-4 to 1 nats per token, log noise 0.08 to 1.2, 77 % of spikes last one row,
83 % of runs start with exact zeros.
A healthy curve here never passes 0.3 nats, so that a level of 1 is never healthy but in spikes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The one place that says which seeds are for what. Detectors and their thresholds may be chosen
# on the first; thresholds at a given false-alarm rate are set on the second; only the third is
# ever quoted. Once detectors are changed in the light of what was quoted, those seeds are spent,
# and reporting moves on: 2,000,000 to 3,000,000 were quoted before kl_runaway was revised.
SEEDS = {
    "tuning": range(1_000_000),
    "calibration": range(1_000_000, 2_000_000),
    "reporting": range(3_000_000, 4_000_000),
}

HEALTHY = "healthy"
FAMILIES = {"plain": 0.70, "s_shaped": 0.15, "spiky": 0.05, "zero_inflated": 0.05, "signed": 0.05}

_MAX_HEALTHY = 0.3
_EXPLODES_TO_DOUBLINGS = 10


@dataclass(frozen=True)
class Run:
    """A run as a monitor would see it, and what only its maker knows."""

    kind: str  # "healthy", or how it fails
    family: str  # what its healthy part is like
    steps: NDArray[np.int64]
    kl: Floats
    onset: int | None  # the first row of the failure
    # The noise of log KL: a stationary AR(1) whose innovations are Student's t.
    log_sd: float
    phi: float
    tail_df: float  # infinite: normal
    # log KL above the healthy curve, without spikes, zeros and rounding: what an oracle sees.
    residual: Floats
    doubling: float | None = None  # rows, if it explodes


def generate(kind: str, seed: int) -> Run:
    """Return the run of this kind that the seed stands for."""
    rng = np.random.default_rng([_KINDS.index(kind), seed])
    family = str(rng.choice(list(FAMILIES), p=list(FAMILIES.values())))
    onset, change, doubling = None, np.zeros(0), None
    if kind == HEALTHY:
        rows = int(log_uniform(rng, 500, 5_000))
    else:
        onset = int(log_uniform(rng, 100, 1_500))
        doubling = log_uniform(rng, 5, 50) if kind == "explosion" else None
        change = _explode(doubling) if doubling else FAILURES[kind](rng)
        rows = onset + len(change)
    log_sd, phi = log_uniform(rng, 0.05, 0.5), rng.uniform(0.0, 0.9)
    tail_df = rng.uniform(3.0, 8.0) if rng.random() < 0.3 else inf
    residual = _noise(rng, rows, log_sd, phi, tail_df)
    residual[rows - len(change) :] += change
    curve = _s_shaped(rng, rows, onset) if family == "s_shaped" else _growth(rng, rows)
    kl = curve * np.exp(residual)
    if family == "signed":  # the k1 estimator: around its mean, not above zero
        kl *= rng.uniform(0.0, 0.5) + log_uniform(rng, 1, 3) * rng.standard_normal(rows)
    _spike(rng, kl, often=family == "spiky")
    if family == "zero_inflated":
        kl[rng.random(rows) < rng.uniform(0.2, 0.6)] = 0.0
    if rng.random() < 0.8:
        kl[: rng.integers(1, 7)] = 0.0
    if rng.random() < 0.25:
        kl = np.round(kl, int(rng.integers(4, 7)))
    if onset is not None:
        _break(rng, kind, kl, onset)
    steps = np.arange(1, rows + 1) * int(rng.choice([1, 1, 1, 2, 5, 10, 20]))
    return Run(kind, family, steps, kl, onset, log_sd, phi, tail_df, residual, doubling)


def log_uniform(rng: Generator, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(log(low), log(high))))


# What is added to log KL from the onset to the end of the run, by kind of failure.


def _explode(doubling: float) -> Floats:
    rows = np.arange(1, int(_EXPLODES_TO_DOUBLINGS * doubling) + 101)
    return log(2) * np.minimum(rows / doubling, _EXPLODES_TO_DOUBLINGS)


def _jump(rng: Generator) -> Floats:
    return np.full(300, log(log_uniform(rng, 3, 100)))


def _step(rng: Generator) -> Floats:
    return np.full(500, log(log_uniform(rng, 1.5, 3)))


def _drift(rng: Generator) -> Floats:
    over, ratio = log_uniform(rng, 300, 2_000), log_uniform(rng, 3, 10)
    return log(ratio) * np.minimum(np.arange(1, int(over) + 301) / over, 1.0)


def _oscillate(rng: Generator) -> Floats:
    swing, period = log(log_uniform(rng, 3, 10)), log_uniform(rng, 10, 60)
    return swing * np.sin(2 * np.pi * np.arange(1, 301) / period)


def _not_finite(rng: Generator) -> Floats:  # noqa: ARG001
    return np.zeros(100)


def _collapse(rng: Generator) -> Floats:
    return -log(100) * np.minimum(np.arange(1, 201) / rng.integers(1, 20), 1.0)


FAILURES: dict[str, Callable[[Generator], Floats]] = {
    "explosion": lambda rng: _explode(log_uniform(rng, 5, 50)),
    "jump": _jump,
    "step": _step,
    "drift": _drift,
    "oscillation": _oscillate,
    "not_finite": _not_finite,
    "collapse": _collapse,
}
# A kind's place is part of its seed: new ones go to the end.
_KINDS = (HEALTHY, *FAILURES)


def _break(rng: Generator, kind: str, kl: Floats, onset: int) -> None:
    """Do to the logged values what no factor on KL can."""
    if kind == "not_finite":
        broken = rng.random(len(kl) - onset) < rng.uniform(0.3, 1.0)
        broken[0] = True
        kl[onset:][broken] = rng.choice([np.nan, np.inf])
    elif kind == "collapse":
        kl[onset + 20 :] = 0.0


def _growth(rng: Generator, rows: int) -> Floats:
    """Return a healthy curve from 0: saturating, a power of time, or wandering."""
    now = np.arange(1, rows + 1)
    plateau = _plateau(rng)
    shape = rng.choice(["saturating", "power", "wandering"])
    if shape == "power":
        return plateau * (now / rows) ** rng.uniform(0.2, 0.7)
    curve = plateau * (1 - np.exp(-now * log(2) / log_uniform(rng, 10, 150)))
    if shape == "wandering":
        memory = log_uniform(rng, 200, 1_000)
        wander = _noise(rng, rows, rng.uniform(0.1, 0.25), 1 - 1 / memory, inf)
        curve = np.minimum(curve * np.exp(wander), _MAX_HEALTHY)
    return curve


def _s_shaped(rng: Generator, rows: int, onset: int | None) -> Floats:
    """Return a healthy curve that takes off over 1 to 2.5 decades, before a failure begins."""
    latest = 120.0 if onset is None else min(120.0, 0.6 * onset)
    # From half to 90 % of the plateau it takes about twice the width.
    middle, width = log_uniform(rng, 15, latest), log_uniform(rng, 8, 25)
    if onset is not None:
        width = min(width, (onset - middle) / 6)
    now = np.arange(1, rows + 1)
    rise = 1 / (1 + np.exp(-np.clip((now - middle) / width, -50, 50)))
    start = 1 - np.exp(-now / 5)
    return _plateau(rng) * start * 10 ** (-rng.uniform(1.0, 2.5) * (1 - rise))


def _plateau(rng: Generator) -> float:
    return float(np.clip(np.exp(rng.normal(log(0.04), 1.3)), 5e-4, _MAX_HEALTHY))


def _noise(rng: Generator, rows: int, sd: float, phi: float, df: float) -> Floats:
    """Return a stationary AR(1) of this standard deviation."""
    shocks = rng.standard_normal(rows + 1)
    if df != inf:
        shocks = rng.standard_t(df, rows + 1) * sqrt((df - 2) / df)
    shocks *= sd * sqrt(1 - phi * phi)
    state, noise = shocks[0] / sqrt(1 - phi * phi), []
    for shock in shocks[1:].tolist():
        state = phi * state + shock
        noise.append(state)
    return np.array(noise)


def _spike(rng: Generator, kl: Floats, *, often: bool) -> None:
    """Put in spikes, most of them one row long; where they come often they are huge."""
    rate = 0.0
    if often:
        rate = rng.uniform(0.03, 0.1)
    elif rng.random() < 0.6:
        rate = log_uniform(rng, 0.001, 0.01)
    for row in np.flatnonzero(rng.random(len(kl)) < rate):
        length = 1 if often else int(rng.choice([1, 2, 3], p=[0.82, 0.14, 0.04]))
        huge = 1e6 if rng.random() < 0.05 else 70.0
        kl[row : row + length] *= log_uniform(rng, 10, 1e4 if often else huge)
