"""Words for facts: the sentences of alerts. Nothing reads them back."""

from __future__ import annotations

from klarm.wording.alerts import message_of_alert, recommendation_of, sentence_of
from klarm.wording.template import MissingFactError, fill

__all__ = ["MissingFactError", "fill", "message_of_alert", "recommendation_of", "sentence_of"]
