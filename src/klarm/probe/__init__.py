"""The probe: measures on fixed contexts how far the policy has moved from its start."""

from __future__ import annotations

from klarm.probe.contexts import contexts_of_dataset
from klarm.probe.model import undisturbed
from klarm.probe.probe import Probe

__all__ = ["Probe", "contexts_of_dataset", "undisturbed"]
