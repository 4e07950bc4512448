"""Divergence: how far apart two next-token distributions are, and what else a forward pass shows.

It works on a few positions at a time, because a vocabulary may have 200,000 tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

CHUNK = 128  # positions


class Measured(NamedTuple):
    """The measurements of one context, as means over its positions."""

    kl: float
    entropy: float
    top_changed: float

    def __add__(self, other: tuple[float, ...]) -> Measured:  # type: ignore[override]
        """Return the measurements with an offset added to each."""
        return Measured(*(one + another for one, another in zip(self, other, strict=True)))


def top_of(logits: Any, k: int) -> tuple[Any, Any, Any]:
    """Return the k most likely tokens of each position, with the log-probabilities of all.

    These are numpy arrays: int32, float32, float32. The last has the mass of the rest.
    """
    import torch

    ids, logps, rests = [], [], []
    for part in logits.split(CHUNK):
        full = torch.log_softmax(part.float(), -1)
        top = full.topk(min(k, full.shape[-1]), -1)
        ids.append(top.indices.int())
        logps.append(top.values)
        rests.append(_rest(full, top.indices))
    return tuple(torch.cat(found).cpu().numpy() for found in (ids, logps, rests))


def from_kept(logits: Any, top_ids: Any, top_logps: Any, rest_logp: Any) -> Measured:
    """Compare current logits with what was kept of the start; the rest counts as one token.

    This is a lower bound of the KL of the full distributions, and close to it: the rest is small.
    """
    import torch

    kls, entropies, changed = [], [], []
    where = logits.device
    parts = zip(
        logits.split(CHUNK),
        torch.from_numpy(top_ids).to(where).long().split(CHUNK),
        torch.from_numpy(top_logps).to(where).split(CHUNK),
        torch.from_numpy(rest_logp).to(where).split(CHUNK),
        strict=True,
    )
    for part, ids, before, rest_before in parts:
        full = torch.log_softmax(part.float(), -1)
        now, rest_now = full.gather(-1, ids), _rest(full, ids)
        kl = (before.exp() * (before - now)).double().sum(-1)
        moved = rest_before.exp() * (rest_before - rest_now)
        kls.append(kl + torch.where(rest_before == -torch.inf, 0.0, moved).double())
        entropies.append(_entropy(full))
        changed.append(full.argmax(-1) != ids[:, 0])
    return _means(kls, entropies, changed)


def from_logits(logits: Any, start: Any) -> Measured:
    """Compare current logits with those of the start, over the full vocabulary."""
    import torch

    kls, entropies, changed = [], [], []
    for part, part_before in zip(logits.split(CHUNK), start.split(CHUNK), strict=True):
        now = torch.log_softmax(part.float(), -1)
        before = torch.log_softmax(part_before.float(), -1)
        # A masked token has probability 0 in both.
        terms = torch.where(before == -torch.inf, 0.0, before.exp() * (before - now))
        kls.append(terms.double().sum(-1))
        entropies.append(_entropy(now))
        changed.append(now.argmax(-1) != before.argmax(-1))
    return _means(kls, entropies, changed)


def _rest(full: Any, ids: Any) -> Any:
    """Return the log-probability of all other tokens, summed directly: 1 - sum is inexact."""
    import torch

    outside = full.scatter(-1, ids.long(), -torch.inf)
    return torch.logsumexp(outside, -1)


def _entropy(full: Any) -> Any:
    import torch

    return -torch.where(full == -torch.inf, 0.0, full.exp() * full).double().sum(-1)


def _means(kls: list[Any], entropies: list[Any], changed: list[Any]) -> Measured:
    import torch

    kl, entropy, top = (torch.cat(found).double().mean() for found in (kls, entropies, changed))
    # Rounding can make a KL of 0 negative. NaN stays NaN.
    kl, entropy, top = torch.stack([kl, entropy, top]).tolist()
    return Measured(0.0 if kl < 0.0 else kl, entropy, top)
