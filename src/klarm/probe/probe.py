"""The probe: measures in a training loop how far the policy has moved from its start."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from klarm import api
from klarm.boundary import never_raises
from klarm.monitor import Monitor
from klarm.notices import Notices, ReportsFailures
from klarm.probe.contexts import read_contexts
from klarm.probe.distance import Distance, Texts
from klarm.probe.instrument import Instrument
from klarm.probe.model import is_out_of_memory, refusal, synchronize, unwrapped
from klarm.probe.pace import Pace
from klarm.settings import ConfigError

_POOL = 8  # candidate contexts, as a multiple of those in use
_COMPLETION_TOKENS = 32  # sampled for prompts without a completion
_MAX_FAILURES = 3  # consecutive failures


class Probe(ReportsFailures):
    """Runs fixed contexts through the model from time to time, and logs the KL to its start.

        probe = Probe(model, prompts, tokenizer=tokenizer, completion_tokens=32)
        for step in range(steps):
            probe.measure(step)  # the first call records the start
            ...

    - `contexts`: texts or token ids, which are measured at every position. With
      `completion_tokens`, they are prompts: the policy samples a completion of each at the start,
      and is measured on the completions.
    - `every`: the minimal number of steps between measurements. `max_share`: the maximal share of
      the training time that measurements may take; None means no limit.
    - `size`: the number of contexts in use. `max_tokens`: the maximal length of each.
    - `refresh_every`: the number of steps until a quarter of the contexts is replaced by new
      completions, which continue at the level of the replaced ones; 0 means never.
    - `top_k`: the number of log-probabilities per position that are kept of the start. Models with
      adapters need none, because disabling the adapters restores the start.

    Training gives bit-identical results with and without the probe. Only rank 0 measures. An
    invalid setting raises ConfigError here; `measure` never raises.
    """

    def __init__(
        self,
        model: Any = None,
        contexts: Sequence[object] | None = None,
        *,
        tokenizer: Any = None,
        every: int = 1,
        max_share: float | None = 0.01,
        size: int = 8,
        completion_tokens: int | None = None,
        max_tokens: int = 512,
        top_k: int = 32,
        batch_size: int = 4,
        refresh_every: int = 200,
        seed: int = 0,
        monitor: Monitor | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        counts = {"every": every, "size": size, "max_tokens": max_tokens - 1, "top_k": top_k}
        counts["batch_size"] = batch_size
        for name, count in counts.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise ConfigError(f"Probe: {name} must be a whole number above 0, got {count!r}")
        others = {"refresh_every": refresh_every, "completion_tokens": completion_tokens or 0}
        for name, count in others.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise ConfigError(f"Probe: {name} must be a whole number, 0 or more, got {count!r}")
        if max_share is not None and not 0.0 < max_share <= 1.0:
            raise ConfigError(
                f"Probe: max_share must be above 0 and at most 1, or None, got {max_share!r}"
            )
        self._model = model
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._pool: list[tuple[int, ...]] = []
        if contexts is not None:
            self._pool = read_contexts(contexts, tokenizer, max_tokens)
        self._completion_tokens = completion_tokens
        self._size = size
        self._top_k, self._batch_size = top_k, batch_size
        self._refresh_every = refresh_every
        self._seed = seed
        self._monitor = monitor
        self._clock = clock
        self._every, self._max_share = every, max_share
        self.notices = Notices()
        self._pace = Pace(every, max_share)
        self._restart()

    @property
    def share(self) -> float:
        """The share of the training time that measurements have taken so far."""
        pace = self._pace
        return pace.spent / pace.trained if pace.trained else 0.0

    @never_raises(lambda: None)
    def measure(self, step: int) -> dict[str, float] | None:
        """Measure if it is time, log the result, and return it. Call it at every step."""
        values = self.read(step)
        if values is not None:
            if self._monitor is not None:
                self._monitor.log(values, step)
            else:
                api.log(values, step)
        return values

    @never_raises(lambda: None)
    def read(self, step: int) -> dict[str, float] | None:
        """Measure like `measure`, without logging the result."""
        if not self._off and self._distance is None:
            # A reference of the same step exists from before: the run starts over.
            self._begin(step, step - 1, _folder_of(self._monitor or api.current_monitor()))
        distance = self._distance
        if self._off or distance is None or not self._pace.is_due(step, self._clock()):
            return None
        if step < distance.reference.step:
            distance.load(step)
        synchronize(distance.model)
        began = self._clock()
        try:
            values = self._values(step, distance)
        finally:
            self._pace.measured(step, began, self._clock())
        if values is not None:
            self._failures = 0
        return values

    @never_raises(lambda: None)
    def start(
        self,
        step: int,
        *,
        model: Any = None,
        contexts: Sequence[object] | None = None,
        tokenizer: Any = None,
        are_prompts: bool = False,
        monitor: Monitor | None = None,
        notices: Notices | None = None,
    ) -> None:
        """Record the policy before training begins, or load what was recorded, after `step`.

        Integrations pass what the user did not give to the probe: the model, the prompts and the
        run.
        """
        self._restart()
        self.notices = notices or self.notices
        if monitor is not None:
            self._monitor = monitor
        self._tokenizer = self._tokenizer or tokenizer
        self._model = model if model is not None else self._model
        if not self._pool and contexts is not None:
            self._pool = read_contexts(contexts, self._tokenizer, self._max_tokens)
            if self._completion_tokens is None and are_prompts:
                self._completion_tokens = _COMPLETION_TOKENS
        self._begin(step, step if step > 0 else -1, _folder_of(self._monitor))

    @property
    def pool_size(self) -> int:
        """How many contexts it can use: some at first, others as replacements."""
        return _POOL * self._size

    @property
    def has_contexts(self) -> bool:
        """Whether it was given contexts."""
        return bool(self._pool)

    def stop(self, why: str = "") -> None:
        """Stop measuring, and report the reason if it was not reported before."""
        self._off = True
        if why:
            self.notices.warn_once(why)

    def _restart(self) -> None:
        self._off = False
        self._failures = 0
        self._distance: Distance | None = None
        self._pace = Pace(self._every, self._max_share)

    def _begin(self, step: int, known_until: int, folder: Path | None) -> None:
        """Load the reference of an earlier process for a step, or make one."""
        if _rank() != 0:
            self.stop()
            return
        if self._model is None or not self._pool:
            missing = "model" if self._model is None else "contexts"
            self.stop(
                f"the probe has no {missing}: kl_probe is not logged; give Probe({missing}=...)"
            )
            return
        model = unwrapped(self._model)
        if why := refusal(model):
            self.stop(why)
            return
        texts = Texts(
            self._pool, self._size, self._completion_tokens or 0, self._refresh_every, self._seed
        )
        instrument = Instrument(model, self._top_k, self._batch_size, self.notices.warn)
        distance = Distance(instrument, texts, self._top_k, folder, self.notices)
        if not distance.load(known_until):
            if known_until > 0:
                self.notices.warn(
                    "the probe found no start of this run beside its journal: kl_probe measures "
                    f"from step {step} on"
                )
            distance.begin(step)
        self._distance = distance

    def _values(self, step: int, distance: Distance) -> dict[str, float] | None:
        try:
            return distance.values(step)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self._failed("memory", "the probe ran out of memory with a single context")
            return None

    def _failed(self, place: str, message: str) -> None:
        super()._failed(place, message)
        self._failures += 1
        if self._failures >= _MAX_FAILURES:
            self.stop("the probe failed three times in a row and is off; kl_probe is not logged")


def _folder_of(monitor: Monitor | None) -> Path | None:
    return None if monitor is None else monitor.folder


def _rank() -> int:
    """Return the rank of this process, from torch if it is distributed, or from the launcher."""
    import torch

    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else 0
