"""A crash as an incident: people are notified of it, and the run's next start resolves it.

No detector can see a crash, so no signal tracker follows this incident: one event opens it when the
run ends.
"""

from __future__ import annotations

from klarm.types import Event

# The signal and the detector that the incident has in the journal.
SIGNAL, DETECTOR = "liveness", "crash"
_RECOMMENDATION = (
    "Read the traceback in the output of the run. Started again with the same name, the run "
    "continues."
)


def crash_event(step: int, error: str, id_: str, number: int, checkpoint: str) -> Event:
    """Return the event that opens the incident of a run that an exception ended: the crash."""
    cause = f": {error}" if error else ""
    return Event(
        event="opened",
        incident=number,
        signal=SIGNAL,
        severity="critical",
        step=step,
        started=step,
        detectors=[DETECTOR],
        peak=0.0,
        reason="crashed",
        message=f"The run crashed after step {step}{cause}",
        recommendation=_RECOMMENDATION,
        checkpoint=checkpoint,
        id=id_,
        detector=DETECTOR,
        subject=DETECTOR,
    )
