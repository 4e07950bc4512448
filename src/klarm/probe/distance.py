"""The distance of a policy from its start: the reference, how it is kept, and what is measured."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from klarm.metrics import PROBE
from klarm.notices import Notices
from klarm.probe.contexts import Context
from klarm.probe.divergence import Measured
from klarm.probe.instrument import Instrument
from klarm.probe.reference import Kept, Reference, ReferenceFolder
from klarm.settings import ConfigError

# Contexts are replaced over time: this share of them after `refresh_every` steps, and again when
# the run has become an eighth longer, so that a long run does not fill its folder.
_REFRESHED_PART = 4
_LONGER_BY = 8


class Texts(NamedTuple):
    """What a policy is measured on: see the settings of the probe."""

    pool: Sequence[tuple[int, ...]]
    size: int
    completion_tokens: int
    refresh_every: int
    seed: int


class Distance:
    """Measures a policy against the reference of its run, which it keeps beside the journal."""

    def __init__(
        self,
        instrument: Instrument,
        texts: Texts,
        top_k: int,
        folder: Path | None,
        notices: Notices,
    ) -> None:
        """Prepare. `load` or `begin` comes next."""
        self._instrument = instrument
        self._texts = texts
        self._folder = ReferenceFolder(folder) if folder is not None else None
        self._notices = notices
        self._identity = self._fingerprint(top_k)
        self.model = instrument.model
        self._reference: Reference | None = None

    @property
    def reference(self) -> Reference:
        """What the policy is compared with, after `load` or `begin`."""
        assert self._reference is not None
        return self._reference

    def load(self, step: int) -> bool:
        """Take the reference of an earlier process, or of this one before it went back to a step.

        Returns whether there is one. Replacements of contexts after the step are undone.
        """
        found = self._found(step)
        self._reference = found or self._reference
        return found is not None

    def begin(self, step: int) -> None:
        """Make the current policy the reference."""
        texts = self._texts
        pool = texts.pool[: texts.size]
        if texts.completion_tokens:
            contexts = self._instrument.complete(pool, texts.completion_tokens, texts.seed)
        else:
            contexts = [Context(tokens) for tokens in pool if len(tokens) > 1]
        if not contexts:
            raise ConfigError("Probe: every context is a single token; set completion_tokens")
        kept, vocabulary = self._instrument.keep(contexts)
        adapters = self._instrument.has_adapters
        self._reference = Reference(step, kept, vocabulary, adapters, identity=self._identity)
        self._save()

    def values(self, step: int) -> dict[str, float]:
        """Measure the current policy, by metric; replace some contexts if that is due."""
        reference = self.reference
        measured = self._totals(reference)
        if self._is_refresh_due(step, reference):
            self._refresh(step, reference, measured)
        means = [sum(values) / len(measured) for values in zip(*measured, strict=True)]
        kl, entropy, changed = means
        # Offsets may make the sums slightly negative, or a share larger than 1.
        kl, entropy = (0.0 if value < 0.0 else value for value in (kl, entropy))
        changed = min(max(changed, 0.0), 1.0)
        return dict(zip(PROBE, (kl, entropy, changed), strict=True))

    def _found(self, step: int) -> Reference | None:
        if self._folder is None:
            return None
        found, problems = self._folder.load(step)
        for problem in problems:
            self._notices.warn(f"the probe's start in {self._folder.path}: {problem}")
        if found is not None and found.identity != self._identity:
            self._notices.warn("the probe's settings, contexts or model have changed")
            return None
        return found

    def _totals(self, reference: Reference) -> list[Measured]:
        measured = self._instrument.compare(reference.kept)
        return [one + kept.offsets for one, kept in zip(measured, reference.kept, strict=True)]

    def _is_refresh_due(self, step: int, reference: Reference) -> bool:
        if not (self._texts.refresh_every and self._texts.completion_tokens):
            return False
        return step >= reference.step + max(self._texts.refresh_every, reference.step // _LONGER_BY)

    def _refresh(self, step: int, reference: Reference, measured: Sequence[Measured]) -> None:
        """Replace some contexts by new completions, which continue at the level of the old ones.

        This is not done while the policy is broken, because its completions would be useless.
        """
        if not all(value - value == 0.0 for one in measured for value in one):
            return
        texts = self._texts
        size = len(reference.kept)
        count = max(1, size // _REFRESHED_PART)
        turns = range(reference.refreshed, reference.refreshed + count)
        prompts = [texts.pool[(size + turn) % len(texts.pool)] for turn in turns]
        contexts = self._instrument.complete(
            prompts, texts.completion_tokens, texts.seed + 1_000_003 * (step + 1)
        )
        new, _ = self._instrument.keep(contexts)
        now = self._instrument.compare(new)
        kept = list(reference.kept)
        for turn, one, value in zip(turns, new, now, strict=True):
            old = measured[turn % size]
            offsets = (old[0] - value[0], old[1] - value[1], old[2] - value[2])
            kept[turn % size] = Kept(
                one.context, one.top_ids, one.top_logps, one.rest_logp, offsets
            )
        self._reference = Reference(
            step,
            kept,
            reference.vocabulary,
            reference.adapters,
            reference.refreshed + count,
            self._identity,
        )
        self._save()

    def _save(self) -> None:
        if self._folder is None:
            return
        try:
            self._folder.save(self.reference)
        except OSError as error:
            self._notices.warn_once(
                f"the probe cannot write to {self._folder.path} ({error.strerror}): a run that is "
                "resumed measures from that point"
            )

    def _fingerprint(self, top_k: int) -> str:
        model, texts = self._instrument.model, self._texts
        weights = sum(weight.numel() for weight in model.parameters())
        settings = (texts.size, texts.completion_tokens, top_k, texts.seed)
        made_from = (type(model).__name__, weights, settings, texts.pool)
        return hashlib.sha256(repr(made_from).encode()).hexdigest()
