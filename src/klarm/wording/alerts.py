"""The sentences of alerts: what has happened, and what to do."""

from __future__ import annotations

import math

from klarm.detectors import CATALOGUE
from klarm.metrics import Advice, advice_of
from klarm.speech import Speech, speech_of
from klarm.text import clean
from klarm.types import Alert, Severity
from klarm.wording.not_finite import LASTING, look_at, what_is_not_finite, when_not_finite
from klarm.wording.template import MissingFactError, fill

_OURS = {kind.name: Speech(kind.messages, kind.recommendations) for kind in CATALOGUE}
_NONE = Advice()
# What a sentence of somebody else may raise.
UNSAYABLE = (MissingFactError, TypeError, ValueError, OverflowError)
# What people call the metrics that sentences begin with.
_LABELS = {"kl": "KL", "kl_probe": "The probe's KL", "grad_norm": "Gradient norm"}


def message_of_alert(alert: Alert, *, with_limit: bool = True) -> str:
    """Return what has happened. Without the limit, it reads well beside a lower severity."""
    try:
        return clean(sentence_of(alert, with_limit=with_limit))
    except UNSAYABLE:
        return clean(fill("{metric} is {value}.", _facts_of(alert)))


def sentence_of(alert: Alert, *, with_limit: bool = True) -> str:
    """Return what has happened; raise MissingFactError if the alert lacks a fact."""
    if alert.worse == "not_finite":
        value = float(alert.metrics.get(alert.metric, math.nan))
        return what_is_not_finite(alert.metric, value, lasting=alert.case == LASTING)
    speech = _speech_of(alert)
    if alert.names:
        return f"{'; '.join(_of_name(alert, name, speech) for name in alert.names)}."
    said = speech.messages.get(alert.case) or speech.messages.get(alert.severity)
    facts = _facts_of(alert)
    if with_limit:
        facts["severity"] = alert.severity
    return fill(said or "{metric} is {value}.", facts)


def _facts_of(alert: Alert) -> dict[str, float | str]:
    value = alert.metrics.get(alert.metric, math.nan)
    label = _LABELS.get(alert.metric, alert.metric)
    return {"metric": alert.metric, "label": label, "value": value, **alert.metrics}


def _of_name(alert: Alert, name: str, speech: Speech) -> str:
    """Return what has happened to one of several metrics: its facts begin with its name."""
    facts = {"name": name, "rows": alert.metrics.get(f"{name} rows", math.nan)}
    stuck_at = alert.metrics.get(f"{name} stuck at")
    if stuck_at is None:
        return fill(speech.messages.get("missing", "{name} is missing"), facts)
    return fill(speech.messages.get("stuck", "{name} is stuck"), {**facts, "value": stuck_at})


def recommendation_of(alert: Alert, severity: Severity) -> str:
    """Return what to do at a severity, in the words of the framework if it has its own."""
    advice, speech = advice_of(alert.framework) if alert.framework else _NONE, _speech_of(alert)
    if alert.worse == "not_finite":
        own = {look_at(metric): text for metric, text in advice.not_finite.items()}
        return clean(when_not_finite(alert.metric, own, lasting=alert.case == LASTING))
    for at in (severity, alert.severity):  # not every detector has advice at each severity
        own_words = advice.detectors.get(alert.detector, {}).get(at)
        if text := own_words or speech.recommendations.get(at, ""):
            return clean(text)
    return ""


def _speech_of(alert: Alert) -> Speech:
    return _OURS.get(alert.detector) or speech_of(alert.detector) or Speech({}, {})
