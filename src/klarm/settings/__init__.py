"""Settings: how they are declared, secrets that are never shown, and removing them from text."""

from __future__ import annotations

from klarm.settings.fields import (
    ConfigError,
    Configurable,
    Names,
    Setting,
    as_given,
    check_settings,
    did_you_mean,
    explicit_settings,
    keep_explicit,
    lacks_decorator,
    missing_attribute,
    setting,
    settings_of,
)
from klarm.settings.redact import HIDDEN, MIN_PIECE, hide
from klarm.settings.secret import Secret, shown, shown_name

__all__ = [
    "HIDDEN",
    "MIN_PIECE",
    "ConfigError",
    "Configurable",
    "Names",
    "Secret",
    "Setting",
    "as_given",
    "check_settings",
    "did_you_mean",
    "explicit_settings",
    "hide",
    "keep_explicit",
    "lacks_decorator",
    "missing_attribute",
    "setting",
    "settings_of",
    "shown",
    "shown_name",
]
